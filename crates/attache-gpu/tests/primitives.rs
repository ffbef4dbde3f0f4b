//! Compares every primitive on a device with the interpreter, with programs that are generated from fixed
//! seeds. The precisions are f32, and f16 with both storage formats: with the f16 type in shaders and without
//! it.
//!
//! Runs on the first Vulkan device, which may be a software one, under the Khronos validation layer. Fails if either is
//! missing.

mod fused;
mod halves;
mod integers;
mod quantized;
mod random;
mod validation;

use std::collections::BTreeSet;

use attache_base::{Constant, Shape};
use attache_gpu::{
    Backend, Binding, Device, DeviceOptions, Matrices, PlanReport, Precision, Session, StorageFormat, Submission,
    ValueFormat, VariantChoice, VariantRequirement, variants,
};
use attache_gpu_ir::{
    BinaryOp, ByteType, ConvolutionGeometry, Expression, Gather, HostTensor, Index, IndexMap, IntExpression, Primitive,
    Program, ReduceOp, Resample, Sampling, Scalar, Step, Suppression, UnaryOp, ValueId, Window, WindowKind, interpret,
};
use integers::{byte_convolution, byte_moves, int_convolution, int_map, int_reduce, int_search};
use random::Random;

/// The configuration in which programs are checked: the device, the precision and the submission method.
struct Form {
    device: Device,
    precision: Precision,
    submission: Submission,
}

fn device(options: DeviceOptions) -> Device {
    validation::listen();
    let options = DeviceOptions { backend: Some(Backend::Vulkan), validation: true, ..options };
    Device::open(&options).expect("a Vulkan device (on Debian: mesa-vulkan-drivers) to test on")
}

/// Checks that a program computes the same on the device as with the interpreter, within the tolerance of the
/// precision. In replay, also checks each alternative variant. In 16-bit precisions, surrounds the program
/// with maps as in [`between_others`]. Returns the variants that were used, and `halves` if intermediate
/// values were stored as f16.
fn check(form: &Form, random: &mut Random, label: &str, program: Program) -> BTreeSet<&'static str> {
    let program = if form.precision == Precision::F32 { program } else { between_others(&program) };
    check_integers(form, random, label, &program)
}

/// Checks a program like [`check`], but without surrounding it with maps.
fn check_integers(form: &Form, random: &mut Random, label: &str, program: &Program) -> BTreeSet<&'static str> {
    let tensors: Vec<HostTensor> = (program.inputs.iter())
        .map(|id| {
            let value = program.value(*id);
            let count = value.shape.elements();
            let elements = match value.scalar {
                Scalar::F32 => random.numbers(count).iter().map(|x| f64::from(*x)).collect(),
                Scalar::I32 => match value.bytes {
                    None => (0..count).map(|_| random.below(5) as f64 - 1.0).collect(),
                    Some(ByteType::Signed) => (0..count).map(|_| random.below(256) as f64 - 128.0).collect(),
                    Some(ByteType::Unsigned) => (0..count).map(|_| random.below(256) as f64).collect(),
                },
            };
            HostTensor::new(value.shape.clone(), elements)
        })
        .collect();
    let (expected, largest) = (interpret(program, &tensors).unwrap(), largest_sum(program, &tensors));
    let mut seen = BTreeSet::new();
    let mut choices = vec![VariantChoice::ByPriority];
    while let Some(choice) = choices.pop() {
        let device = form.device.with_variants(choice);
        let mut session = Session::new(&device, program.clone(), form.precision, form.submission).unwrap();
        if choice == VariantChoice::ByPriority && form.submission == Submission::Replay {
            choices.extend(session.report().alternatives.into_iter().map(VariantChoice::Named));
        }
        check_session(form, &format!("{label}, {choice:?}"), program, &mut session, (&tensors, &expected, largest));
        let apart = form.submission == Submission::Encoder;
        let report = PlanReport::new(program.clone(), form.precision, device.limits(), apart).unwrap();
        let bound = report.dispatches.iter().map(|dispatch| dispatch.shader.bindings.len()).max();
        let asked = program.steps.iter().map(|step| step.inputs.len() + step.outputs.len()).max();
        let most = asked.max(Some(form.device.limits().max_bindings));
        assert!(bound <= most, "{label}, {choice:?}: {bound:?} buffers of\n{program}");
        let halves =
            |binding: &Binding| matches!(binding, Binding::Write(_, StorageFormat::Half | StorageFormat::HalfPairs));
        let mut bindings = report.dispatches.iter().flat_map(|dispatch| &dispatch.shader.bindings);
        seen.extend(bindings.any(halves).then_some("halves"));
        seen.extend(session.report().variants);
    }
    seen
}

/// Returns the largest magnitude of sums of products. Rounding errors are relative to it, also where the sums are clamped.
fn largest_sum(program: &Program, tensors: &[HostTensor]) -> f64 {
    let is_sum = |step: &&Step| matches!(step.primitive, Primitive::Convolution(_) | Primitive::MatMul { .. });
    let outputs = program.steps.iter().filter(is_sum).flat_map(|step| &step.outputs).copied().collect();
    let computed = interpret(&Program { outputs, ..program.clone() }, tensors).unwrap();
    computed.iter().flat_map(|tensor| &tensor.elements).fold(0.0, |most, element| most.max(element.abs()))
}

/// Runs a session with the inputs `tensors` and checks its outputs, with errors relative to the largest and to `largest`.
fn check_session(
    form: &Form,
    label: &str,
    program: &Program,
    session: &mut Session,
    (tensors, expected, largest): (&[HostTensor], &[HostTensor], f64),
) {
    let scalars: Vec<Scalar> = program.outputs.iter().map(|id| program.value(*id).scalar).collect();
    let are_bytes = |formats: &[ValueFormat]| -> Vec<bool> {
        formats.iter().map(|format| matches!(format.storage, StorageFormat::Bytes(_))).collect()
    };
    let (bytes, stored) = (are_bytes(&session.summary().outputs), are_bytes(&session.summary().inputs));
    for (index, (tensor, id)) in tensors.iter().zip(&program.inputs).enumerate() {
        let bytes: Vec<u8> = match program.value(*id).scalar {
            _ if stored[index] => tensor.elements.iter().map(|x| *x as i32 as u8).collect(),
            Scalar::F32 => tensor.elements.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect(),
            Scalar::I32 => tensor.elements.iter().flat_map(|x| (*x as i32).to_le_bytes()).collect(),
        };
        session.write(index, &bytes).unwrap();
    }
    let size = |is_byte: &bool| if *is_byte { 1 } else { 4 };
    let mut outputs: Vec<Vec<u8>> = (expected.iter().zip(&bytes))
        .map(|(tensor, is_byte)| vec![0xcd; tensor.elements.len() * size(is_byte)])
        .collect();
    session.submit().unwrap();
    session.read(&mut outputs.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>()).unwrap();
    for ((output, is_byte), id) in outputs.iter_mut().zip(bytes).zip(&program.outputs) {
        let widen = |byte: &u8| match program.value(*id).bytes {
            Some(ByteType::Signed) => i32::from(*byte as i8),
            _ => i32::from(*byte),
        };
        if is_byte {
            *output = output.iter().flat_map(|byte| widen(byte).to_le_bytes()).collect();
        }
    }
    for ((tensor, bytes), scalar) in expected.iter().zip(&outputs).zip(scalars) {
        let scale = tensor.elements.iter().fold(largest.max(1.0), |most, x| most.max(x.abs()));
        for (place, (expected, word)) in tensor.elements.iter().zip(bytes.chunks_exact(4)).enumerate() {
            let word: [u8; 4] = word.try_into().unwrap();
            let found = match scalar {
                Scalar::F32 => f64::from(f32::from_le_bytes(word)),
                Scalar::I32 => f64::from(i32::from_le_bytes(word)),
            };
            // The tolerance includes half a unit in the last place of f16, since the output may have been
            // stored as f16.
            let rounding = if form.precision == Precision::F32 { 0.0 } else { expected.abs() / 2048.0 };
            let limit = if scalar == Scalar::I32 { 0.0 } else { 1e-5 * scale + rounding };
            assert!((found - expected).abs() <= limit, "{label}: {found}, not {expected}, at {place} of\n{program}");
        }
    }
}

/// Surrounds the program with identity maps, so that it reads and writes values in the storage format of
/// intermediate values. Inputs and outputs remain f32. Each float value between the program and a map has a
/// second reader, which prevents fusion.
fn between_others(program: &Program) -> Program {
    let mut all = Program::default();
    let mut others = Vec::new();
    let mut hand_on = |all: &mut Program, value: ValueId, made: bool| {
        let (shape, scalar) = (all.shape(value).clone(), all.value(value).scalar);
        if scalar == Scalar::I32 {
            return value;
        }
        let maximum = Primitive::Reduce { reduction: ReduceOp::Maximum, axes: (0..shape.rank()).collect() };
        let map = Primitive::Map { expression: Expression::Input(0), shape, scalar };
        let handed = all.step(map, &[value], 0).unwrap()[0];
        others.extend(all.step(maximum, &[if made { value } else { handed }], 0).unwrap());
        handed
    };
    let mut inputs = Vec::new();
    for id in &program.inputs {
        let value = program.value(*id);
        let input = all.input(value.scalar, value.shape.clone());
        all.values[input.index()].bytes = value.bytes;
        inputs.push(hand_on(&mut all, input, false));
    }
    let made = all.append(program, &inputs, 0);
    all.outputs = made.into_iter().map(|value| hand_on(&mut all, value, true)).collect();
    all.outputs.extend(others);
    all
}

fn one(primitive: Primitive, inputs: &[(Scalar, Shape)]) -> Program {
    let mut program = Program::default();
    let ids: Vec<ValueId> = inputs.iter().map(|(scalar, shape)| program.input(*scalar, shape.clone())).collect();
    program.outputs = program.step(primitive, &ids, 0).unwrap();
    program
}

fn float(shape: &Shape) -> (Scalar, Shape) {
    (Scalar::F32, shape.clone())
}

/// Generates a program of a map of three operands that broadcast to a shape of a random rank.
fn map(random: &mut Random) -> Program {
    let rank = random.below(6);
    let shape: Shape = (0..rank).map(|_| random.pick(&[1, 2, 3, 4, 8])).collect();
    let mut operand = || {
        let keep = random.below(rank + 1);
        let extents: Shape = shape[rank - keep..].iter().map(|e| if random.below(3) == 0 { 1 } else { *e }).collect();
        float(&extents)
    };
    let inputs = [operand(), operand(), operand()];
    let [a, b, c] = [0, 1, 2].map(Expression::Input);
    let negative = a.clone().binary(BinaryOp::Less, Expression::Constant(0.0));
    let expression = negative.select(a.clone().multiply(b), a.unary(UnaryOp::Logistic)).add(c.unary(UnaryOp::Tanh));
    one(Primitive::Map { expression, shape, scalar: Scalar::F32 }, &inputs)
}

fn index_map(random: &mut Random) -> Program {
    let input = random.image();
    let extent = |axis: usize| input[axis] as i64;
    let mut output = input.to_vec();
    let coordinates: Vec<Index> = (0..4)
        .map(|axis| match random.below(5) {
            0 => {
                output[axis] += 3;
                Index::Axis(axis).plus(-2)
            }
            1 => Index::Axis(axis).times(-1).plus(extent(axis) - 1),
            2 if input[axis] > 1 => {
                output[axis] += 2;
                Index::Mirror {
                    of: Box::new(Index::Axis(axis).plus(-1)),
                    extent: extent(axis),
                    edge: random.below(2) == 0,
                }
            }
            3 => {
                output[axis] *= 2;
                Index::Axis(axis).divided_by(2)
            }
            _ => Index::Axis(axis),
        })
        .collect();
    let scalar = random.pick(&[Scalar::F32, Scalar::I32]);
    one(Primitive::IndexMap(IndexMap { output, coordinates, fill: Some(0.0) }), &[(scalar, input)])
}

fn concatenate(random: &mut Random) -> Program {
    let (shape, axis) = (random.image(), random.below(4));
    let scalar = random.pick(&[Scalar::F32, Scalar::I32]);
    let count = 1 + random.below(40);
    let mut part = || {
        let mut extents = shape.to_vec();
        extents[axis] = random.pick(&[1, 2, 4, 8]);
        (scalar, Shape::from(extents))
    };
    let inputs: Vec<_> = (0..count).map(|_| part()).collect();
    one(Primitive::Concatenate { axis }, &inputs)
}

fn reduce(random: &mut Random) -> Program {
    let shape: Shape = (0..1 + random.below(5)).map(|_| random.pick(&[1, 2, 3, 4, 8, 17])).collect();
    let axes: Vec<usize> = (0..shape.rank()).filter(|_| random.below(2) == 0).collect();
    let reduction = random.pick(&[ReduceOp::Sum, ReduceOp::Mean, ReduceOp::Maximum, ReduceOp::Minimum]);
    one(Primitive::Reduce { reduction, axes }, &[float(&shape)])
}

fn window(random: &mut Random) -> Program {
    let shape = random.image();
    let kind = random.pick(&[WindowKind::Average, WindowKind::Maximum, WindowKind::ArgMaximum]);
    let size = [1 + random.below(3), 1 + random.below(3)];
    let strides = [1 + random.below(3), 1 + random.below(3)];
    let before = [random.below(size[0]), random.below(size[1])];
    let output = [0, 1].map(|axis| shape[axis + 1].div_ceil(strides[axis]));
    // Limits the output so that the last window still covers an element.
    let output = [0, 1].map(|axis| output[axis].min((shape[axis + 1] - 1 + before[axis]) / strides[axis] + 1));
    let before = [0, 1].map(|axis| before[axis].min(size[axis] - 1));
    one(Primitive::Window(Window { kind, size, strides, before, output }), &[float(&shape)])
}

fn convolution(random: &mut Random) -> Program {
    let mut data = random.image();
    let kind = random.below(4);
    let transposed = kind == 0;
    let groups = match kind {
        1 => data[3],
        2 => 2,
        _ => 1,
    };
    if kind == 2 {
        data = [data[0], data[1], data[2], data[3] * 2].into();
    }
    let outputs = groups * if kind == 1 { random.pick(&[1, 1, 2]) } else { random.channels() };
    let (rows, columns) = (1 + random.below(3), 1 + random.below(3));
    let filter = Shape::from([outputs, rows, columns, data[3] / groups]);
    let convolution = ConvolutionGeometry {
        strides: [1 + random.below(3), 1 + random.below(3)],
        dilations: [1 + random.below(2), 1 + random.below(2)],
        before: [random.below(3), random.below(3)],
        output: [1 + random.below(12), 1 + random.below(12)],
        groups,
        transposed,
        zero_points: [0; 2],
    };
    let mut program = Program::default();
    let mut inputs = vec![program.input(Scalar::F32, data)];
    let constant = random.below(3) > 0;
    let weights = |program: &mut Program, random: &mut Random, shape: Shape| {
        if constant {
            let numbers = random.numbers(shape.elements());
            program.constant(Scalar::F32, Constant::from_values(shape, &numbers))
        } else {
            program.input(Scalar::F32, shape)
        }
    };
    inputs.push(weights(&mut program, random, filter));
    if random.below(2) == 0 {
        inputs.push(weights(&mut program, random, [outputs].into()));
    }
    let product = program.step(Primitive::Convolution(convolution), &inputs, 0).unwrap()[0];
    let shape = program.shape(product).clone();
    let residual = program.input(Scalar::F32, shape.clone());
    let expression = Expression::Input(0).add(Expression::Input(1)).clamp(0.0, 6.0);
    program.outputs =
        program.step(Primitive::Map { expression, shape, scalar: Scalar::F32 }, &[product, residual], 0).unwrap();
    program
}

/// Generates a program of a convolution that is large enough for blocks of every shape.
fn large_convolution(random: &mut Random) -> Program {
    let (channels, outputs) = (random.pick(&[6, 16, 40, 130]), random.pick(&[5, 32, 70, 128]));
    let [height, width]: [usize; 2] = random.pick(&[[1, 1], [1, 3], [7, 7], [20, 21]]);
    let extent: usize = random.pick(&[1, 1, 3]);
    let output = [height.div_ceil(extent), width.div_ceil(extent)];
    let (strides, before) = ([extent; 2], [extent / 2; 2]);
    let convolution = ConvolutionGeometry {
        strides,
        dilations: [1, 1],
        before,
        output,
        groups: 1,
        transposed: false,
        zero_points: [0; 2],
    };
    let mut program = Program::default();
    let data = program.input(Scalar::F32, [1, height, width, channels].into());
    let shape = Shape::from([outputs, extent, extent, channels]);
    let numbers = random.numbers(shape.elements());
    let filter = program.constant(Scalar::F32, Constant::from_values(shape, &numbers));
    program.outputs = program.step(Primitive::Convolution(convolution), &[data, filter], 0).unwrap();
    program
}

/// Generates a program of a convolution of another kernel's output. The output of a third kernel is added to
/// it, and a fourth kernel reads the sum, so that all of these values are stored in the format of
/// intermediate values.
fn inner_convolution(random: &mut Random) -> Program {
    let (channels, outputs) = (random.pick(&[8, 16, 24, 72]), random.pick(&[8, 12, 21, 64, 100]));
    let [rows, columns]: [usize; 2] = random.pick(&[[1, 1], [1, 1], [3, 3], [1, 4], [5, 2]]);
    let [height, width]: [usize; 2] = random.pick(&[[1, 5], [6, 7], [9, 33], [24, 18]]);
    let convolution = ConvolutionGeometry {
        strides: [1 + random.below(2), 1 + random.below(2)],
        dilations: [1 + random.below(2), 1 + random.below(2)],
        before: [random.below(rows), random.below(columns)],
        output: [1 + random.below(height), 1 + random.below(width)],
        groups: 1,
        transposed: false,
        zero_points: [0; 2],
    };
    let mut program = Program::default();
    let inner = |program: &mut Program, shape: Shape| {
        let input = program.input(Scalar::F32, shape.clone());
        let expression = Expression::Input(0).clamp(-1.0, 1.0);
        program.step(Primitive::Map { expression, shape, scalar: Scalar::F32 }, &[input], 0).unwrap()[0]
    };
    let images = 1 + random.below(2);
    let results = Shape::from([images, convolution.output[0], convolution.output[1], outputs]);
    let data = inner(&mut program, [images, height, width, channels].into());
    let residual = inner(&mut program, if random.below(2) == 0 { results.clone() } else { [outputs].into() });
    let shape = Shape::from([outputs, rows, columns, channels]);
    let weights = random.numbers(shape.elements());
    let filter = program.constant(Scalar::F32, Constant::from_values(shape, &weights));
    let bias = program.constant(Scalar::F32, Constant::from_values([outputs], &random.numbers(outputs)));
    let product = program.step(Primitive::Convolution(convolution), &[data, filter, bias], 1).unwrap()[0];
    let expression = Expression::Input(0).add(Expression::Input(1)).clamp(0.0, 6.0);
    let sum = Primitive::Map { expression, shape: results, scalar: Scalar::F32 };
    let sum = program.step(sum, &[product, residual], 2).unwrap();
    let last = Primitive::Scan { axis: 1, exclusive: true, reverse: false };
    program.outputs = program.step(last, &sum, 3).unwrap();
    program
}

/// Returns a program of a convolution of an image of `height` × `width`, with a window of this size.
fn wide_image([height, width]: [usize; 2], [channels, outputs]: [usize; 2], window: [usize; 2]) -> Program {
    let output = [height + 1, width - 1];
    let (strides, dilations, before) = ([1, 1], [1, 1], [1, window[1] / 2]);
    let convolution =
        ConvolutionGeometry { strides, dilations, before, output, groups: 1, transposed: false, zero_points: [0; 2] };
    let mut program = Program::default();
    let data = program.input(Scalar::F32, [1, height, width, channels].into());
    let shape = Shape::from([outputs, window[0], window[1], channels]);
    let numbers = Random(5).numbers(shape.elements());
    let filter = program.constant(Scalar::F32, Constant::from_values(shape, &numbers));
    program.outputs = program.step(Primitive::Convolution(convolution), &[data, filter], 0).unwrap();
    program
}

fn resample(random: &mut Random) -> Program {
    let shape = random.image();
    let corners = random.below(3);
    let resample = Resample {
        sampling: random.pick(&[Sampling::Bilinear, Sampling::Nearest]),
        output: [1 + random.below(20), 1 + random.below(20)],
        align_corners: corners == 1,
        half_pixel_centers: corners == 2,
    };
    one(Primitive::Resample(resample), &[float(&shape)])
}

fn unpool(random: &mut Random) -> Program {
    let shape = random.image();
    let size = [1 + random.below(2), 1 + random.below(2)];
    one(Primitive::Unpool { size }, &[float(&shape), (Scalar::I32, shape.clone())])
}

/// Generates a program of a map of floats and integers to floats, with a randomly chosen unary or binary
/// function.
fn functions(random: &mut Random) -> Program {
    let unary = [
        UnaryOp::Sine,
        UnaryOp::Cosine,
        UnaryOp::Floor,
        UnaryOp::Ceiling,
        UnaryOp::Round,
        UnaryOp::Truncate,
        UnaryOp::Sign,
        UnaryOp::ErrorFunction,
        UnaryOp::Absolute,
        UnaryOp::Exponential,
        UnaryOp::Negate,
    ];
    let binary = [
        BinaryOp::Add,
        BinaryOp::Subtract,
        BinaryOp::Multiply,
        BinaryOp::Minimum,
        BinaryOp::Maximum,
        BinaryOp::Less,
        BinaryOp::Equal,
        BinaryOp::FloorDivide,
        BinaryOp::FloorModulo,
        BinaryOp::Angle,
        BinaryOp::Power,
        BinaryOp::Divide,
    ];
    let shape = random.image();
    let positive = Expression::Input(0).unary(UnaryOp::Absolute).add(Expression::Constant(0.5));
    let other = Expression::Input(1).add(Expression::Constant(2.5));
    let expression = match random.below(2) {
        0 => positive.binary(random.pick(&binary), other),
        _ => Expression::Input(0).unary(random.pick(&unary)).add(Expression::Input(1)),
    };
    let scalar = Scalar::F32;
    one(Primitive::Map { expression, shape: shape.clone(), scalar }, &[float(&shape), (Scalar::I32, shape)])
}

fn compare(random: &mut Random) -> Program {
    let shape = random.image();
    let expression = Expression::Input(0).binary(BinaryOp::Less, Expression::Input(1));
    let scalar = Scalar::I32;
    one(Primitive::Map { expression, shape: shape.clone(), scalar }, &[float(&shape), float(&shape)])
}

fn arg_reduce(random: &mut Random) -> Program {
    let largest = random.below(2) == 0;
    // Parts of such an axis are searched in a loop also by the invocations of a whole work group.
    let (shape, axis, parts) = match random.below(4) {
        0 => ([1 + random.below(2), 8200 + random.below(2) * 2, 1, 1].into(), 1, 2),
        _ => (random.image(), random.below(4), 1 + random.below(4)),
    };
    one(Primitive::ArgReduce { largest, axis, parts }, &[float(&shape)])
}

/// Generates a program that searches, sorts or sums long lines of elements, many of which are equal.
fn long_lines(random: &mut Random) -> Program {
    let extent = random.pick(&[37, 300, 1500, 4099]);
    let (outer, inner) = (1 + random.below(3), random.pick(&[1, 1, 3, 20]));
    let shape = Shape::from([outer, extent, inner]);
    let (largest, scalar) = (random.below(2) == 0, random.pick(&[Scalar::F32, Scalar::I32]));
    let (exclusive, reverse) = (random.below(2) == 0, random.below(2) == 0);
    let mut program = Program::default();
    let input = program.input(scalar, shape.clone());
    let rounded = match scalar {
        Scalar::F32 => {
            let expression = Expression::Input(0).multiply(Expression::Constant(8.0)).unary(UnaryOp::Round);
            Primitive::Map { expression, shape: shape.clone(), scalar }
        }
        Scalar::I32 => Primitive::IntMap { expression: IntExpression::Input(0).plus(5), shape: shape.clone() },
    };
    let values = program.step(rounded, &[input], 0).unwrap()[0];
    program.outputs = match random.below(3) {
        0 => program.step(Primitive::ArgReduce { largest, axis: 1, parts: 1 }, &[values], 1),
        1 => program.step(Primitive::Scan { axis: 1, exclusive, reverse }, &[values], 1),
        _ => {
            let rows = program.step(Primitive::Reshape([outer * inner, extent].into()), &[values], 1).unwrap();
            program.step(Primitive::TopK { count: random.pick(&[1, 9, extent.min(1000)]) }, &rows, 1)
        }
    }
    .unwrap();
    program
}

fn gather(random: &mut Random) -> Program {
    let data: Shape = (0..4).map(|_| 1 + random.below(5)).collect();
    let batch = random.below(2);
    let axis = batch + random.below(3);
    let named = 1 + random.below((4 - axis).min(2));
    let mut indices = data[..batch].to_vec();
    indices.extend((0..random.below(3)).map(|_| 1 + random.below(4)));
    indices.push(named);
    let scalar = random.pick(&[Scalar::F32, Scalar::I32]);
    one(Primitive::Gather(Gather { batch, axis }), &[(scalar, data), (Scalar::I32, indices.into())])
}

/// Generates a program that combines updates with the rows of an operand. Their ascending places are counted from a random
/// list; some lie outside, and some are equal.
fn scatter(random: &mut Random) -> Program {
    let [rows, count] = [1 + random.below(9), 1 + random.below(30)];
    let width = random.pick(&[1, 3, 4, 8]);
    let scalar = random.pick(&[Scalar::F32, Scalar::I32]);
    let combinations = [ReduceOp::Sum, ReduceOp::Product, ReduceOp::Maximum, ReduceOp::Minimum].map(Some);
    let combination = random.pick(&[&combinations[..], &[None]].concat());
    let mut places: Vec<i32> = (0..count).map(|_| random.below(rows + 4) as i32 - 2).collect();
    places.sort_unstable();
    let shapes: [&[usize]; 4] = [&[], &[width], &[rows, 1], &[rows, width]];
    let operand = random.pick(&shapes);
    let mut program = Program::default();
    let places = program.constant(Scalar::I32, Constant::from_values([count], &places));
    let [operand, updates] = [operand, &[count, width]].map(|shape| program.input(scalar, shape.into()));
    let scatter = Primitive::Scatter { combination, rows };
    program.outputs = program.step(scatter, &[operand, places, updates], 0).unwrap();
    program
}

fn scan(random: &mut Random) -> Program {
    let (axis, exclusive, reverse) = (random.below(4), random.below(2) == 0, random.below(2) == 0);
    one(Primitive::Scan { axis, exclusive, reverse }, &[float(&random.image())])
}

fn top_k(random: &mut Random) -> Program {
    let shape = random.image();
    one(Primitive::TopK { count: 1 + random.below(shape[3]) }, &[float(&shape)])
}

/// Generates a suppression of boxes whose corners and scores have few values, so that scores are equal and overlaps are at
/// the limit.
fn suppress(random: &mut Random) -> Program {
    let (count, rows) = (1 + random.below(40), 1 + random.below(3));
    let count = if random.below(8) == 0 { count + 256 } else { count };
    let limits = Suppression {
        most: 1 + random.below(count.min(20) + 2),
        overlap: random.pick(&[0.125, 0.25, 1.0 / 3.0, 0.5, 0.6]),
        score: random.pick(&[-1.0, 0.0, 0.5]),
        keeps_limits: random.below(2) == 0,
        unused: random.pick(&[0, -1]),
    };
    let mut program = Program::default();
    let inputs = [[count, 4], [rows, count]].map(|shape| {
        let input = program.input(Scalar::F32, shape.into());
        let expression = Expression::Input(0).multiply(Expression::Constant(2.0)).unary(UnaryOp::Floor);
        let map = Primitive::Map { expression, shape: shape.into(), scalar: Scalar::F32 };
        program.step(map, &[input], 0).unwrap()[0]
    });
    program.outputs = program.step(Primitive::Suppress(limits), &inputs, 0).unwrap();
    program
}

fn matmul(random: &mut Random) -> Program {
    let scalar = random.pick(&[Scalar::F32, Scalar::I32]);
    let [rows, depth, columns] = [0; 3].map(|_| 1 + random.below(9));
    let transposed = [random.below(2) == 0, random.below(2) == 0];
    let mut outer = || (0..random.below(3)).map(|_| random.pick(&[1, 2])).collect::<Vec<_>>();
    let matrix = |outer: Vec<usize>, rows, columns, swap: bool| {
        let inner = if swap { [columns, rows] } else { [rows, columns] };
        (scalar, [outer, inner.to_vec()].concat().into())
    };
    let left = matrix(outer(), rows, depth, transposed[0]);
    let right = matrix(outer(), depth, columns, transposed[1]);
    let rank = 2 + [&left, &right].map(|(_, shape): &(Scalar, Shape)| shape.rank() - 2).into_iter().max().unwrap_or(0);
    let mut order: Vec<usize> = (0..rank).collect();
    order.rotate_left(random.below(rank));
    one(Primitive::MatMul { transposed, order: if random.below(2) == 0 { order } else { Vec::new() } }, &[left, right])
}

/// Generates a program of a matrix product that is large in some axes, of matrices that are slices of others.
fn large_matmul(random: &mut Random) -> Program {
    let mut extent = || random.pick(&[1, 4, 20, 32, 68]) + random.pick(&[0, 0, 0, 1]);
    let [rows, depth, columns] = [extent(), extent() * 2, extent()];
    let transposed = [random.below(2) == 0, random.below(2) == 0];
    let batch = random.pick(&[1, 3]);
    let mut program = Program::default();
    let inputs = [[rows, depth], [depth, columns]].map(|[first, second]| {
        let is_swapped = transposed[program.inputs.len()];
        let [first, second] = if is_swapped { [second, first] } else { [first, second] };
        let before = random.pick(&[0, 0, 4, 1]);
        let whole = program.input(Scalar::F32, [batch, first, before + second].into());
        let coordinates = vec![Index::Axis(0), Index::Axis(1), Index::Axis(2).plus(before as i64)];
        let slice = IndexMap { output: vec![batch, first, second], coordinates, fill: None };
        program.step(Primitive::IndexMap(slice), &[whole], 0).unwrap()[0]
    });
    let order = if random.below(3) == 0 { vec![0, 2, 1] } else { Vec::new() };
    program.outputs = program.step(Primitive::MatMul { transposed, order }, &inputs, 0).unwrap();
    program
}

/// Generates a program whose outputs are an input, a constant, a reshaped value, and a value that is listed
/// twice.
fn odd_outputs(random: &mut Random) -> Program {
    let mut program = Program::default();
    let shape = random.image();
    let input = program.input(Scalar::F32, shape.clone());
    let flat = program.step(Primitive::Reshape([shape.elements()].into()), &[input], 0).unwrap()[0];
    let constant = program.constant(Scalar::F32, Constant::from_values([3], &random.numbers(3)));
    let expression = Expression::Input(0).multiply(Expression::Input(0));
    let square = program.step(Primitive::Map { expression, shape, scalar: Scalar::F32 }, &[input], 0).unwrap()[0];
    program.outputs = vec![square, input, constant, flat, square];
    program
}

/// A function that generates a program of one kind.
type Draw = fn(&mut Random) -> Program;

/// The name and the generator of each kind of program, and how many programs of the kind the deep check
/// generates.
static KINDS: [(&str, Draw, usize); 43] = [
    ("map", map, 60),
    ("index_map", index_map, 40),
    ("concatenate", concatenate, 25),
    ("reduce", reduce, 40),
    ("window", window, 40),
    ("convolution", convolution, 150),
    ("resample", resample, 40),
    ("unpool", unpool, 15),
    ("odd_outputs", odd_outputs, 5),
    ("functions", functions, 120),
    ("compare", compare, 10),
    ("arg_reduce", arg_reduce, 20),
    ("gather", gather, 40),
    ("scatter", scatter, 60),
    ("scan", scan, 20),
    ("top_k", top_k, 20),
    ("suppress", suppress, 40),
    ("matmul", matmul, 40),
    ("int_map", int_map, 120),
    ("int_convolution", int_convolution, 40),
    ("int_reduce", int_reduce, 40),
    ("int_search", int_search, 40),
    ("byte_convolution", byte_convolution, 120),
    ("byte_moves", byte_moves, 60),
    ("rows", fused::rows, 60),
    ("views", fused::views, 80),
    ("pooled", fused::pooled, 20),
    ("separable", fused::separable, 40),
    ("large_convolution", large_convolution, 30),
    ("inner_convolution", inner_convolution, 25),
    ("long_rows", fused::long_rows, 4),
    ("small_window", fused::small_window, 30),
    ("separable_bytes", fused::separable_bytes, 60),
    ("long_lines", long_lines, 40),
    ("updates", fused::updates, 60),
    ("joined", fused::joined, 60),
    ("large_matmul", large_matmul, 60),
    ("few_rows", fused::few_rows, 120),
    ("rotated_updates", fused::rotated_updates, 24),
    ("scaled_rows", fused::scaled_rows, 40),
    ("gated_rows", fused::gated_rows, 40),
    ("blocks", quantized::blocks, 80),
    ("table", quantized::table, 40),
];

#[test]
fn devices_compute_what_primitives_mean() {
    let _alone = validation::alone();
    let (plain, frugal) = (DeviceOptions::default, DeviceOptions { frugal: true, ..DeviceOptions::default() });
    let pairs = || DeviceOptions { no_shader_f16: true, ..plain() };
    let all = [
        (Precision::F32, Submission::Replay, plain()),
        (Precision::F16, Submission::Encoder, pairs()),
        (Precision::F32, Submission::Replay, frugal.clone()),
        (Precision::F16, Submission::Replay, plain()),
        (Precision::F16, Submission::Replay, pairs()),
        (Precision::F32, Submission::Encoder, plain()),
        (Precision::F32, Submission::Encoder, frugal),
        (Precision::F16, Submission::Encoder, plain()),
    ];
    // The first two configurations use each variant. The others take minutes, so only the deep check runs
    // them.
    all.into_iter().take(if is_deep() { 8 } else { 2 }).for_each(forms);
    on_matrices();
    validation::assert_silent();
}

/// Whether the deep check runs (the variable `ATTACHE_DEEP` is set), which generates all programs. Otherwise
/// about a quarter of them is generated, since a driver that compiles on the CPU takes minutes for the rest.
fn is_deep() -> bool {
    std::env::var_os("ATTACHE_DEEP").is_some()
}

/// Checks programs of the wanted kinds, and [`fused::pairs_of_operators`]. Returns the variants that were
/// used.
fn check_kinds(form: &Form, is_wanted: impl Fn(&str) -> bool) -> BTreeSet<&'static str> {
    let mut seen = BTreeSet::new();
    for (seed, (label, draw, count)) in KINDS.iter().enumerate().filter(|(_, (label, ..))| is_wanted(label)) {
        let mut random = Random(seed as u64 + 1);
        let count = if is_deep() { *count } else { count.div_ceil(4).max(4) };
        for _ in 0..count {
            let program = draw(&mut random);
            seen.extend(check(form, &mut random, label, program));
        }
    }
    for program in fused::pairs_of_operators(&mut Random(100), has_matrices(form)) {
        seen.extend(check_integers(form, &mut Random(101), "pairs_of_operators", &program));
    }
    seen
}

fn has_matrices(form: &Form) -> bool {
    form.device.limits().matrices != Matrices::Absent
}

/// Checks convolutions and matrix products with cooperative matrices, which are emulated if the device has none, and asserts that
/// each variant that needs them was used.
fn on_matrices() {
    let device = device(DeviceOptions { as_hardware: true, emulate_matrices: true, ..DeviceOptions::default() });
    let form = Form { device, precision: Precision::F16, submission: Submission::Replay };
    let products = [
        "convolution",
        "separable",
        "large_convolution",
        "inner_convolution",
        "matmul",
        "large_matmul",
        "scaled_rows",
        "gated_rows",
    ];
    assert!(products.iter().all(|label| KINDS.iter().any(|(kind, ..)| kind == label)));
    let mut seen = check_kinds(&form, |label| products.contains(&label));
    seen.extend(check(&form, &mut Random(96), "tall tiles", wide_image([62, 130], [24, 32], [3, 3])));
    let mut scale = 0;
    for seed in 0..3 {
        let rows = fused::scaled(&mut Random(seed), [330, 40], &[580]);
        let report = PlanReport::new(between_others(&rows), Precision::F16, form.device.limits(), false).unwrap();
        scale += usize::from(report.kernels.iter().any(|kernel| kernel.prologue.is_some()));
        seen.extend(check(&form, &mut Random(96), "large tiles of scaled rows", rows));
    }
    assert!(scale > 0, "no product scales its results");
    let mut gated = 0;
    for seed in 0..6 {
        let rows = fused::gated_image(&mut Random(seed), [330, 40], 580);
        let report = PlanReport::new(between_others(&rows), Precision::F16, form.device.limits(), false).unwrap();
        gated += usize::from(report.kernels.iter().any(|kernel| kernel.prologue.is_some() && !kernel.maps.is_empty()));
        seen.extend(check(&form, &mut Random(96), "large tiles of gated rows", rows));
    }
    assert!(gated > 0, "no product has the results of two filters");
    let missing = variants().filter(|(name, needs)| *needs == VariantRequirement::Matrices && !seen.contains(name));
    let missing: Vec<_> = missing.map(|(name, _)| name).collect();
    assert!(missing.is_empty(), "no case took {missing:?}");
}

/// Checks all kinds of programs with this precision, submission method and device. In replay, also asserts
/// that each variant that can apply was used.
fn forms((precision, submission, options): (Precision, Submission, DeviceOptions)) {
    let form = Form { device: device(options), precision, submission };
    let mut seen = check_kinds(&form, |_| true);
    assert_eq!(seen.contains("halves"), precision != Precision::F32);
    if form.device.limits().splits_k {
        for (channels, outputs, window) in [(8, 4, [3, 3]), (9, 2, [1, 4])] {
            let image = wide_image([9 * 8, 45 * 64 + 3], [channels, outputs], window);
            let variants = check(&form, &mut Random(96), "conv_direct", image);
            assert!(variants.contains(&"conv_direct"), "{variants:?}");
        }
    }
    for (kind, channels) in [(WindowKind::Average, 20), (WindowKind::Maximum, 5), (WindowKind::Average, 68)] {
        let before = [2, 0];
        let large = Primitive::Window(Window { kind, size: [9, 8], strides: [5, 3], before, output: [3, 2] });
        let variants =
            check(&form, &mut Random(97), "window_group", one(large, &[float(&[2, 16, 11, channels].into())]));
        assert!(variants.contains(&"window_group"), "{variants:?}");
    }
    let large = Primitive::Reduce { reduction: ReduceOp::Mean, axes: vec![1, 2] };
    seen.extend(check(&form, &mut Random(99), "reduce_group", one(large, &[float(&[2, 120, 90, 3].into())])));
    let long = Primitive::Reduce { reduction: ReduceOp::Maximum, axes: vec![1, 2] };
    seen.extend(check(&form, &mut Random(97), "rows_group", one(long, &[float(&[2, 127, 89, 3].into())])));
    let large = Primitive::Reduce { reduction: ReduceOp::Sum, axes: vec![1, 2] };
    seen.extend(check(&form, &mut Random(98), "reduce_group", one(large, &[(Scalar::I32, [2, 120, 90, 3].into())])));
    // Replay checks all alternatives, so that it also uses variants that are never chosen by priority on
    // software devices.
    let may_be = |needs| match needs {
        VariantRequirement::Nothing | VariantRequirement::Bytes => true,
        VariantRequirement::F32Storage => precision == Precision::F32,
        VariantRequirement::Matrices => has_matrices(&form) && precision == Precision::F16,
    };
    let missing = variants().filter(|(name, needs)| may_be(*needs) && !seen.contains(name));
    let mut missing: Vec<_> = missing.map(|(name, _)| name).collect();
    missing.retain(|_| form.submission == Submission::Replay);
    assert!(missing.is_empty(), "no case took {missing:?}");
}

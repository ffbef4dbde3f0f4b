//! Generators of random programs that are fused into one kernel or a few kernels. Most of the programs have
//! several steps.

use attache_base::{Constant, DataType, Shape};
use attache_gpu_ir::{
    ConvolutionGeometry, Expression, Index, IndexMap, IntExpression, IntRounding, Primitive, Program, ReduceOp,
    Resample, Sampling, Scalar, UnaryOp, ValueId, Window, WindowKind,
};

use super::{Random, index_map};

/// Generates a program of one or two index maps, which become views, and of one or two other steps that read
/// the result.
pub(crate) fn views(random: &mut Random) -> Program {
    let mut program = index_map(random);
    for value in &mut program.values {
        value.scalar = Scalar::F32;
    }
    let step = |program: &mut Program, primitive, inputs: &[ValueId]| program.step(primitive, inputs, 0).unwrap()[0];
    let mut moved = program.outputs[0];
    if random.below(2) == 0 {
        let shape = program.shape(moved).to_vec();
        let swapped = vec![shape[0], shape[2], shape[1], shape[3]];
        let coordinates = [0, 2, 1, 3].map(Index::Axis).to_vec();
        moved =
            step(&mut program, Primitive::IndexMap(IndexMap { output: swapped, coordinates, fill: None }), &[moved]);
    }
    let mut outputs = Vec::new();
    for _ in 0..1 + random.below(2) {
        let shape = program.shape(moved).clone();
        let output = [shape[1] * 2, shape[2] * (1 + random.below(3))];
        let sampling = random.pick(&[Sampling::Bilinear, Sampling::Nearest]);
        let (size, middle) = ([2, 3], [shape[1], shape[2]]);
        outputs.push(match random.below(4) {
            0 => {
                let other = program.input(Scalar::F32, shape.clone());
                let expression = Expression::Input(0).add(Expression::Input(1));
                step(&mut program, Primitive::Map { expression, shape, scalar: Scalar::F32 }, &[other, moved])
            }
            1 => step(&mut program, Primitive::Concatenate { axis: random.below(4) }, &[moved, moved]),
            2 => {
                let kind = random.pick(&[WindowKind::Average, WindowKind::Maximum]);
                let window = Window { kind, size, strides: [1, 1], before: [1, 1], output: middle };
                step(&mut program, Primitive::Window(window), &[moved])
            }
            _ => {
                let half_pixel_centers = random.below(2) == 0;
                let resample = Resample { sampling, output, align_corners: false, half_pixel_centers };
                step(&mut program, Primitive::Resample(resample), &[moved])
            }
        });
    }
    program.outputs = outputs;
    program
}

/// Generates a program that replaces a block of a tensor, at indices of which some are out of range. A map may compute the
/// block, which may then be transposed, and another may follow.
pub(crate) fn updates(random: &mut Random) -> Program {
    let scalar = random.pick(&[Scalar::F32, Scalar::I32]);
    let rank = 1 + random.below(4);
    let operand: Shape = (0..rank).map(|_| random.pick(&[1, 2, 3, 4, 8])).collect();
    let mut part = |all: &usize| if random.below(2) == 0 { *all } else { 1 + random.below(*all) };
    let block: Shape = operand.iter().map(&mut part).collect();
    let mut program = Program::default();
    let [kept, starts] =
        [(scalar, operand.clone()), (Scalar::I32, [rank].into())].map(|(scalar, shape)| program.input(scalar, shape));
    let is_swapped = rank > 1 && random.below(2) == 0;
    let mut made = block.to_vec();
    if is_swapped {
        made.swap(0, 1);
    }
    let mut replaced = twice(&mut program, scalar, made.into(), random.below(3));
    if is_swapped {
        let axes = (0..rank).map(|axis| Index::Axis(if axis < 2 { 1 - axis } else { axis }));
        let swap = IndexMap { output: block.to_vec(), coordinates: axes.collect(), fill: None };
        replaced = program.step(Primitive::IndexMap(swap), &[replaced], 0).unwrap()[0];
    }
    let updated = program.step(Primitive::Update, &[kept, replaced, starts], 0).unwrap()[0];
    program.outputs = vec![updated];
    if scalar == Scalar::F32 && random.below(3) == 0 {
        let expression = Expression::Input(0).add(Expression::Constant(0.5));
        program.outputs = program.step(Primitive::Map { expression, shape: operand, scalar }, &[updated], 0).unwrap();
    }
    program
}

/// Generates a program of a concatenation whose parts are computed by maps, of halves of a tensor or of inputs.
pub(crate) fn joined(random: &mut Random) -> Program {
    let scalar = random.pick(&[Scalar::F32, Scalar::F32, Scalar::I32]);
    let (axis, half) = (random.below(4), random.image());
    let mut program = Program::default();
    let mut whole = half.to_vec();
    whole[axis] *= 2;
    let data = program.input(Scalar::F32, whole.into());
    let angle = program.input(Scalar::F32, half[random.below(5)..].into());
    let mut parts = Vec::new();
    for part in 0..2 + random.below(2) {
        if part == 2 || scalar == Scalar::I32 {
            parts.push(twice(&mut program, scalar, half.clone(), random.below(3)));
            continue;
        }
        let mut side = |at: usize| {
            let place = |a: usize| if a == axis { Index::Axis(a).plus((at * half[a]) as i64) } else { Index::Axis(a) };
            let slice = IndexMap { output: half.to_vec(), coordinates: (0..4).map(place).collect(), fill: None };
            program.step(Primitive::IndexMap(slice), &[data], 0).unwrap()[0]
        };
        let sides = [side(part), side(1 - part)];
        let [x, y] = [0, 1].map(Expression::Input);
        let product = Primitive::Map { expression: x.clone().multiply(y.clone()), shape: half.clone(), scalar };
        let products = sides.map(|side| program.step(product.clone(), &[side, angle], 0).unwrap()[0]);
        let sum = Primitive::Map { expression: x.subtract(y), shape: half.clone(), scalar };
        parts.push(program.step(sum, &products, 0).unwrap()[0]);
    }
    program.outputs = program.step(Primitive::Concatenate { axis }, &parts, 0).unwrap();
    program
}

/// Generates a program of a product with few rows, whose left matrix other steps make: a normalization, a softmax, a gate of
/// two products, or a rotation. What makes it may be reshaped, and two products may read it.
pub(crate) fn few_rows(random: &mut Random) -> Program {
    let (rows, depth) = (1 + random.below(5), random.pick(&[4, 12, 64, 130]));
    let mut program = Program::default();
    let shape = Shape::from([random.pick(&[1, 2]), rows, depth]);
    let data = program.input(Scalar::F32, shape.clone());
    let made = match random.below(4) {
        0 => normalized(&mut program, data, random.below(2) == 0),
        1 => softmax(&mut program, data),
        2 => gated(random, &mut program, data),
        _ => rotated(random, &mut program, data),
    };
    let shape = program.shape(made).clone();
    let (batch, depth) = (shape[0], shape[2]);
    let mut outputs = Vec::new();
    for _ in 0..1 + random.below(2) {
        let product = if random.below(2) == 0 {
            let image = random.pick(&[[batch, 1, rows, depth], [1, batch, rows, depth], [batch * rows, 1, 1, depth]]);
            projected(random, &mut program, made, image)
        } else {
            let (columns, is_transposed) = (random.pick(&[1, 8, 65]), random.below(2) == 0);
            let matrix = if is_transposed { [batch, columns, depth] } else { [batch, depth, columns] };
            let right = program.input(Scalar::F32, matrix.into());
            let order = if random.below(3) == 0 { vec![1, 0, 2] } else { Vec::new() };
            let matmul = Primitive::MatMul { transposed: [false, is_transposed], order };
            program.step(matmul, &[made, right], 0).unwrap()[0]
        };
        let residual = program.shape(product).clone();
        let other = program.input(Scalar::F32, residual.clone());
        let expression = Expression::Input(0).add(Expression::Input(1));
        let sum = Primitive::Map { expression, shape: residual, scalar: Scalar::F32 };
        outputs.push(program.step(sum, &[product, other], 0).unwrap()[0]);
    }
    program.outputs = outputs;
    program
}

/// Adds a pointwise convolution of a value, reshaped to an image. Its weights may be integers.
fn projected(random: &mut Random, program: &mut Program, value: ValueId, image: [usize; 4]) -> ValueId {
    let outputs = random.pick(&[3, 8, 36]);
    projected_to(random, program, (value, image), outputs)
}

/// Adds a pointwise convolution like [`projected`] with this many output channels.
fn projected_to(
    random: &mut Random,
    program: &mut Program,
    (value, image): (ValueId, [usize; 4]),
    outputs: usize,
) -> ValueId {
    let data = program.step(Primitive::Reshape(image.into()), &[value], 0).unwrap()[0];
    let shape = Shape::from([outputs, 1, 1, image[3]]);
    let filter = match random.below(3) {
        0 => program.constant(Scalar::F32, Constant::from_values(shape.clone(), &random.numbers(shape.elements()))),
        kind => {
            let data_type = if kind == 1 { DataType::Int8 } else { DataType::Int4 };
            let count = if kind == 1 { shape.elements() } else { shape.elements().div_ceil(2) };
            let bytes: Vec<u8> = (0..count).map(|_| random.below(256) as u8).collect();
            let scales = if random.below(2) == 0 { 1 } else { outputs };
            // Powers of two, so that f16 holds the products with bytes exactly.
            let scales: Vec<f32> = (0..scales).map(|_| random.pick(&[0.03125, 0.015625, 0.0078125])).collect();
            let constant = Constant { data_type, shape, bytes: attache_base::Bytes::from_vec(bytes) };
            program.quantized_constant(constant, scales.into())
        }
    };
    let bias = program.constant(Scalar::F32, Constant::from_values([outputs], &random.numbers(outputs)));
    let convolution = ConvolutionGeometry {
        strides: [1, 1],
        dilations: [1, 1],
        before: [0, 0],
        output: [image[1], image[2]],
        groups: 1,
        transposed: false,
        zero_points: [0; 2],
    };
    program.step(Primitive::Convolution(convolution), &[data, filter, bias][..2 + random.below(2)], 0).unwrap()[0]
}

fn map(program: &mut Program, expression: Expression, inputs: &[ValueId]) -> ValueId {
    let shape = program.shape(inputs[0]).clone();
    program.step(Primitive::Map { expression, shape, scalar: Scalar::F32 }, inputs, 0).unwrap()[0]
}

fn reduced(program: &mut Program, reduction: ReduceOp, value: ValueId) -> ValueId {
    let axes = vec![program.shape(value).rank() - 1];
    program.step(Primitive::Reduce { reduction, axes }, &[value], 0).unwrap()[0]
}

/// Divides each row by the root of the mean of its squares, from which its mean may be subtracted before.
fn normalized(program: &mut Program, data: ValueId, is_centred: bool) -> ValueId {
    let [x, y] = [0, 1].map(Expression::Input);
    let centred = match is_centred {
        true => {
            let mean = reduced(program, ReduceOp::Mean, data);
            map(program, x.clone().subtract(y.clone()), &[data, mean])
        }
        false => data,
    };
    let squares = map(program, x.clone().multiply(x.clone()), &[centred]);
    let mean = reduced(program, ReduceOp::Mean, squares);
    let root = map(program, x.clone().add(Expression::Constant(0.5)).unary(UnaryOp::InverseSquareRoot), &[mean]);
    map(program, x.multiply(y), &[centred, root])
}

/// Generates a program of pointwise convolutions of rows that are scaled by what they are reduced to, and may be multiplied
/// by constants.
pub(crate) fn scaled_rows(random: &mut Random) -> Program {
    let (rows, depth) = (random.pick(&[9, 16, 33, 40]), random.pick(&[8, 24, 64, 72, 200, 512]));
    let outputs: Vec<usize> = (0..1 + random.below(2)).map(|_| random.pick(&[3, 8, 36])).collect();
    scaled(random, [rows, depth], &outputs)
}

/// Generates a program like [`scaled_rows`] of this size, with a convolution for each number of output channels.
pub(crate) fn scaled(random: &mut Random, [rows, depth]: [usize; 2], outputs: &[usize]) -> Program {
    let mut program = Program::default();
    let (made, image) = scaled_image(random, &mut program, [rows, depth]);
    let absolute = Expression::Input(0).unary(UnaryOp::Absolute);
    for outputs in outputs {
        let projected = projected_to(random, &mut program, (made, image), *outputs);
        let output = map(&mut program, absolute.clone(), &[projected]);
        program.outputs.push(output);
    }
    program
}

/// Generates a program like [`scaled_rows`] of this size, with two convolutions to as many output channels. Their results are
/// combined, in some programs with another input or in two ways.
pub(crate) fn gated_rows(random: &mut Random) -> Program {
    let (rows, depth) = (random.pick(&[9, 16, 33, 40]), random.pick(&[8, 24, 64, 72, 200, 512]));
    let outputs = random.pick(&[8, 20, 36, 64, 100]);
    gated_image(random, [rows, depth], outputs)
}

/// Generates a program like [`gated_rows`] of this size.
pub(crate) fn gated_image(random: &mut Random, [rows, depth]: [usize; 2], outputs: usize) -> Program {
    let mut program = Program::default();
    let (made, image) = scaled_image(random, &mut program, [rows, depth]);
    let sides = [0, 1].map(|_| projected_to(random, &mut program, (made, image), outputs));
    let [x, y, z] = [0, 1, 2].map(Expression::Input);
    // Of sums in the hundreds as they are, the function would be flat, or the product a multiple of their rounding errors.
    let gate = x.multiply(Expression::Constant(0.00390625)).unary(UnaryOp::Tanh).multiply(y);
    let output = match random.below(3) {
        0 => {
            let shape = program.shape(sides[0]).clone();
            let other = program.input(Scalar::F32, shape);
            map(&mut program, gate.clone().add(z), &[sides[0], sides[1], other])
        }
        _ => map(&mut program, gate.clone(), &sides),
    };
    program.outputs.push(output);
    if random.below(4) == 0 {
        let other = map(&mut program, gate, &[sides[1], sides[0]]);
        program.outputs.push(other);
    }
    program
}

/// Returns rows of an input that are scaled by what they are reduced to, and the extents of an image of as many pixels.
fn scaled_image(random: &mut Random, program: &mut Program, [rows, depth]: [usize; 2]) -> (ValueId, [usize; 4]) {
    let data = program.input(Scalar::F32, [1, rows, depth].into());
    let product = || Expression::Input(0).multiply(Expression::Input(1));
    let mut made = match random.below(5) {
        0 => normalized(program, data, true),
        1 => normalized(program, data, false),
        _ => {
            // Unlike roots of means, sums differ much from row to row.
            let sum = reduced(program, ReduceOp::Sum, data);
            map(program, product(), &[data, sum])
        }
    };
    for _ in 0..random.below(3) {
        // Powers of two, so that f16 holds their products with weights exactly.
        let factors: Vec<f32> = (0..depth).map(|_| random.pick(&[0.5, 1.0, 2.0, -1.0])).collect();
        let shape = if random.below(2) == 0 { vec![depth] } else { vec![1, 1, depth] };
        let factors = program.constant(Scalar::F32, Constant::from_values(Shape::from(&shape[..]), &factors));
        made = map(program, product(), &[made, factors]);
    }
    (made, random.pick(&[[1, 1, rows, depth], [1, rows, 1, depth], [rows, 1, 1, depth]]))
}

fn softmax(program: &mut Program, data: ValueId) -> ValueId {
    let [x, y] = [0, 1].map(Expression::Input);
    let largest = reduced(program, ReduceOp::Maximum, data);
    let powers = map(program, x.clone().subtract(y.clone()).unary(UnaryOp::Exponential), &[data, largest]);
    let sum = reduced(program, ReduceOp::Sum, powers);
    map(program, x.divide(y), &[powers, sum])
}

/// Multiplies one projection by a function of another one.
fn gated(random: &mut Random, program: &mut Program, data: ValueId) -> ValueId {
    let shape = program.shape(data).clone();
    let image = [shape[0], 1, shape[1], shape[2]];
    let mut sides = [0, 1].map(|_| projected(&mut Random(1 + random.below(2) as u64), program, data, image));
    if program.shape(sides[0]) != program.shape(sides[1]) {
        sides[1] = sides[0];
    }
    let [x, y] = [0, 1].map(Expression::Input);
    let gate = map(program, x.clone().unary(UnaryOp::Logistic), &[sides[0]]);
    let product = map(program, x.multiply(y), &[gate, sides[1]]);
    let outputs = program.shape(product)[3];
    program.step(Primitive::Reshape([shape[0], shape[1], outputs].into()), &[product], 0).unwrap()[0]
}

/// Joins the halves of each row in the other order, each multiplied by a value.
fn rotated(random: &mut Random, program: &mut Program, data: ValueId) -> ValueId {
    let shape = program.shape(data).clone();
    let half = shape[2] / 2;
    let halves = [0, half].map(|first| {
        let coordinates = vec![Index::Axis(0), Index::Axis(1), Index::Axis(2).plus(first as i64)];
        let slice = IndexMap { output: vec![shape[0], shape[1], half], coordinates, fill: None };
        program.step(Primitive::IndexMap(slice), &[data], 0).unwrap()[0]
    });
    let angle = program.input(Scalar::F32, [half].into());
    let product = Expression::Input(0).multiply(Expression::Input(1));
    let parts = halves.map(|half| map(program, product.clone(), &[half, angle]));
    let whole = program.step(Primitive::Concatenate { axis: 2 }, &[parts[1], parts[0]], 0).unwrap()[0];
    match random.below(2) {
        0 => whole,
        _ => map(program, Expression::Input(0).multiply(Expression::Constant(0.25)), &[whole]),
    }
}

/// Generates a program that replaces rows of a cache by rotated ones, as decoders do with keys.
pub(crate) fn rotated_updates(random: &mut Random) -> Program {
    let mut program = Program::default();
    let data = program.input(Scalar::F32, [1, 1, random.pick(&[8, 12, 6])].into());
    let rotated = rotated(random, &mut program, data);
    let width = program.shape(rotated)[2];
    let block = program.step(Primitive::Reshape([1, 1, 1, width].into()), &[rotated], 0).unwrap()[0];
    let cache = program.input(Scalar::F32, [1, 1, 5, width].into());
    let starts = [0, 0, random.below(7) as i32 - 1, 0];
    let starts = program.constant(Scalar::I32, Constant::from_values([4], &starts));
    program.outputs = program.step(Primitive::Update, &[cache, block, starts], 0).unwrap();
    program.outputs.extend((random.below(4) == 0).then_some(block));
    program
}

/// Adds an input of this shape and returns it after this many maps that double it.
fn twice(program: &mut Program, scalar: Scalar, shape: Shape, times: usize) -> ValueId {
    let input = program.input(scalar, shape.clone());
    let double = match scalar {
        Scalar::F32 => {
            let expression = Expression::Input(0).add(Expression::Input(0));
            Primitive::Map { expression, shape, scalar }
        }
        Scalar::I32 => {
            let expression = IntExpression::Input(0).add(IntExpression::Input(0));
            Primitive::IntMap { expression, shape }
        }
    };
    (0..times).fold(input, |at, _| program.step(double.clone(), &[at], 0).unwrap()[0])
}

/// Generates a program that normalises the rows of a tensor by reductions and maps.
pub(crate) fn rows(random: &mut Random) -> Program {
    let shape: Shape = (0..4).map(|_| random.pick(&[1, 2, 3, 4, 7, 24])).collect();
    let first = random.below(4);
    let axes = (first..first + 1 + random.below(4 - first)).collect();
    rows_of(random, shape, axes, 3)
}

/// Generates a program like [`rows`], for images whose rows are long enough to be reduced in parts. The
/// elements that are summed are never negative, since long sums of both signs may nearly cancel.
pub(crate) fn long_rows(random: &mut Random) -> Program {
    let shape = [1 + random.below(2), 96, random.pick(&[90, 100, 172]), random.pick(&[3, 4, 8])];
    rows_of(random, shape.into(), vec![1, 2], 2)
}

/// Generates a program that normalises a tensor of this shape along these axes. The map between the two
/// reductions is chosen among the first `ways` maps.
fn rows_of(random: &mut Random, shape: Shape, axes: Vec<usize>, ways: usize) -> Program {
    let mut program = Program::default();
    let input = program.input(Scalar::F32, shape.clone());
    let channels = program.input(Scalar::F32, shape[3..].into());
    let step = |program: &mut Program, primitive, inputs: &[ValueId]| program.step(primitive, inputs, 0).unwrap()[0];
    let fold = |reduction| Primitive::Reduce { reduction, axes: axes.clone() };
    let map = |expression, scalar| Primitive::Map { expression, shape: shape.clone(), scalar };
    let [x, y, z] = [0, 1, 2].map(Expression::Input);
    let first = step(&mut program, fold(random.pick(&[ReduceOp::Mean, ReduceOp::Maximum])), &[input]);
    let lengthen = match random.below(ways) {
        0 => x.clone().subtract(y.clone()).unary(UnaryOp::Exponential),
        1 => x.clone().subtract(y.clone()).multiply(x.clone().subtract(y.clone())),
        _ => x.clone().multiply(z.clone()).add(y.clone()),
    };
    let longer = step(&mut program, map(lengthen, Scalar::F32), &[input, first, channels]);
    let sum = step(&mut program, fold(random.pick(&[ReduceOp::Sum, ReduceOp::Mean])), &[longer]);
    let scalar = random.pick(&[Scalar::F32, Scalar::F32, Scalar::I32]);
    let quotient = x.multiply(z).divide(y.unary(UnaryOp::Absolute).add(Expression::Constant(4.0)));
    let whole = quotient.clone().multiply(Expression::Constant(0.0)).add(Expression::Input(2).unary(UnaryOp::Floor));
    let last = if scalar == Scalar::F32 { quotient } else { whole };
    program.outputs = match random.below(3) {
        0 => vec![sum],
        _ => vec![step(&mut program, map(last, scalar), &[longer, sum, channels])],
    };
    program
}

/// Generates a program of a depthwise convolution and a pointwise convolution that reads its result.
pub(crate) fn separable(random: &mut Random) -> Program {
    let channels = random.pick(&[3, 4, 10, 24, 36]);
    let data = [1 + random.below(2), 5 + random.below(6), 5 + random.below(6), channels];
    let (rows, columns) = (1 + random.below(5), 1 + random.below(5));
    let each = ConvolutionGeometry {
        strides: [1 + random.below(2), 1 + random.below(2)],
        dilations: [1 + random.below(2), 1 + random.below(2)],
        before: [random.below(3), random.below(3)],
        output: [1 + random.below(12), 1 + random.below(12)],
        groups: channels,
        transposed: false,
        zero_points: [0; 2],
    };
    let (strides, dilations, before) = ([1, 1], [1, 1], [0, 0]);
    let across = ConvolutionGeometry { strides, dilations, before, groups: 1, ..each.clone() };
    let mut program = Program::default();
    let mut weights = |program: &mut Program, shape: Shape| {
        let numbers = random.numbers(shape.elements());
        program.constant(Scalar::F32, Constant::from_values(shape, &numbers))
    };
    let data = program.input(Scalar::F32, data.into());
    let inputs =
        [data, weights(&mut program, [channels, rows, columns, 1].into()), weights(&mut program, [channels].into())];
    let first = program.step(Primitive::Convolution(each), &inputs, 0).unwrap()[0];
    let slopes = weights(&mut program, [channels].into());
    let shape = program.shape(first).clone();
    let expression = Expression::Input(0).multiply(Expression::Input(1)).clamp(-1.0, 6.0);
    let first =
        program.step(Primitive::Map { expression, shape, scalar: Scalar::F32 }, &[first, slopes], 0).unwrap()[0];
    // The value between the convolutions is marked as inner, so that it is stored in full precision if the
    // convolutions are not fused.
    program.values[first.index()].is_inner = true;
    let outputs = [5, 8, 36, 68][channels % 4];
    let filter = weights(&mut program, [outputs, 1, 1, channels].into());
    let second = program.step(Primitive::Convolution(across), &[first, filter], 1).unwrap()[0];
    let shape = program.shape(second).clone();
    let residual = program.input(Scalar::F32, shape.clone());
    let expression = Expression::Input(0).add(Expression::Input(1));
    program.outputs =
        program.step(Primitive::Map { expression, shape, scalar: Scalar::F32 }, &[second, residual], 1).unwrap();
    program
}

/// Generates programs of a depthwise and a pointwise convolution that belong to different operators; some
/// have only the pointwise one. `with_large` adds programs that are large enough for large blocks of a work
/// group.
pub(crate) fn pairs_of_operators(random: &mut Random, with_large: bool) -> Vec<Program> {
    let mut programs: Vec<Program> = (0..12).map(|_| separable_operators(random)).collect();
    programs.extend(if with_large { large_operators(random) } else { Vec::new() });
    programs
}

/// Generates a program of a depthwise convolution and a pointwise convolution that reads its result, as two
/// operators, or of a pointwise convolution alone, whose strides may be larger than 1.
fn separable_operators(random: &mut Random) -> Program {
    let channels = random.pick(&[8, 10, 24, 36, 100]);
    let outputs = random.pick(&[8, 12, 33, 68, 130]);
    let (is_separable, image) = (random.below(4) > 0, [5 + random.below(9), 5 + random.below(9)]);
    let size = if is_separable { 1 + random.below(5) } else { 1 };
    let first = ConvolutionGeometry {
        strides: [1 + random.below(2), 1 + random.below(2)],
        dilations: [1 + random.below(2), 1 + random.below(2)],
        before: [random.below(size), random.below(size)],
        output: [3 + random.below(9), 3 + random.below(9)],
        groups: channels,
        transposed: false,
        zero_points: [0; 2],
    };
    let batch = 1 + random.below(2);
    operators(random, &first, [batch, image[0], image[1], channels], [size, outputs])
}

/// Generates programs like those of [`separable_operators`], of fixed sizes, with so many positions and
/// channels that work groups compute large blocks.
fn large_operators(random: &mut Random) -> Vec<Program> {
    let large = [([112, 32], [3, 64], 1), ([40, 64], [3, 126], 1), ([80, 40], [1, 126], 2), ([56, 128], [1, 254], 2)];
    let program = |([extent, channels], [size, outputs], stride): ([usize; 2], [usize; 2], usize)| {
        let first = ConvolutionGeometry {
            strides: [stride; 2],
            dilations: [1; 2],
            before: [size / 2; 2],
            output: [extent / stride; 2],
            groups: channels,
            transposed: false,
            zero_points: [0; 2],
        };
        operators(random, &first, [1, extent, extent, channels], [size, outputs])
    };
    large.map(program).into()
}

/// Generates a program of a depthwise convolution of an image, a clamp, and a pointwise convolution to which
/// a residual is added. `size` is the extent of the depthwise window and `outputs` is the number of output
/// channels. If `size` is 1, there is only the pointwise convolution, with the strides of `first`. The
/// weights are integers, so small that all intermediate sums are exact in f16.
fn operators(
    random: &mut Random,
    first: &ConvolutionGeometry,
    image: [usize; 4],
    [size, outputs]: [usize; 2],
) -> Program {
    let mut program = Program::default();
    let mut whole = |program: &mut Program, shape: Shape| {
        let numbers: Vec<f32> = (0..shape.elements()).map(|_| random.below(5) as f32 - 2.0).collect();
        program.constant(Scalar::F32, Constant::from_values(shape, &numbers))
    };
    let channels = image[3];
    let weights =
        [[channels, size, size, 1].into(), [channels].into(), [outputs, 1, 1, channels].into(), [outputs].into()];
    let [filter, bias, last_filter, last_bias] = weights.map(|shape| whole(&mut program, shape));
    let map = |program: &mut Program, expression, inputs: &[ValueId], operator| {
        let shape = program.shape(inputs[0]).clone();
        program.step(Primitive::Map { expression, shape, scalar: Scalar::F32 }, inputs, operator).unwrap()[0]
    };
    let input = program.input(Scalar::F32, image.into());
    let mut data = map(&mut program, Expression::Input(0).unary(UnaryOp::Floor), &[input], 0);
    let mut last = ConvolutionGeometry { groups: 1, ..first.clone() };
    if size > 1 {
        last = ConvolutionGeometry { strides: [1, 1], dilations: [1, 1], before: [0, 0], ..last };
        data = program.step(Primitive::Convolution(first.clone()), &[data, filter, bias], 1).unwrap()[0];
        data = map(&mut program, Expression::Input(0).clamp(-20.0, 30.0), &[data], 1);
    }
    let made = program.step(Primitive::Convolution(last), &[data, last_filter, last_bias], 2).unwrap()[0];
    let shape = program.shape(made).clone();
    let residual = program.input(Scalar::F32, shape);
    program.outputs = vec![map(&mut program, Expression::Input(0).add(Expression::Input(1)), &[made, residual], 3)];
    program
}

/// Generates a program of a convolution with a 3×3 window and strides of 1, with any padding, with or without
/// a bias and a residual.
pub(crate) fn small_window(random: &mut Random) -> Program {
    let extents = [1 + random.below(2), 1 + random.below(12), 1 + random.below(40)];
    let (channels, outputs) = (random.pick(&[1, 3, 8, 16, 20, 32]), random.pick(&[2, 5, 8, 16, 32, 36, 70]));
    let before = [random.below(3), random.below(3)];
    let output = [extents[1] + random.below(3), extents[2] + random.below(3)];
    let (strides, dilations) = ([1, 1], [1, 1]);
    let convolution =
        ConvolutionGeometry { strides, dilations, before, output, groups: 1, transposed: false, zero_points: [0; 2] };
    let mut program = Program::default();
    let mut inputs = vec![program.input(Scalar::F32, [extents[0], extents[1], extents[2], channels].into())];
    let mut constant = |program: &mut Program, shape: Shape| {
        let numbers = random.numbers(shape.elements());
        program.constant(Scalar::F32, Constant::from_values(shape, &numbers))
    };
    inputs.push(constant(&mut program, [outputs, 3, 3, channels].into()));
    if output[0].is_multiple_of(2) {
        inputs.push(constant(&mut program, [outputs].into()));
    }
    let mut result = program.step(Primitive::Convolution(convolution), &inputs, 0).unwrap()[0];
    if output[1].is_multiple_of(2) {
        let shape = program.shape(result).clone();
        let residual = program.input(Scalar::F32, shape.clone());
        let expression = Expression::Input(0).add(Expression::Input(1)).clamp(-30.0, 30.0);
        let map = Primitive::Map { expression, shape, scalar: Scalar::F32 };
        result = program.step(map, &[result, residual], 0).unwrap()[0];
    }
    program.outputs = vec![result];
    program
}

/// Generates a program of a depthwise convolution of bytes and a pointwise convolution that reads its result.
/// In some programs the depthwise convolution reads the result of a convolution with 6 output channels, which
/// is stored with one byte per word because 6 is not a multiple of 4.
pub(crate) fn separable_bytes(random: &mut Random) -> Program {
    let mut program = Program::default();
    let channels = random.pick(&[3, 4, 12, 24, 36, 200]);
    let image = [1 + random.below(2), 5 + random.below(6), 5 + random.below(6), channels];
    let [narrow, wide] = [[1, 4, 6, 6], [1, 6, 6, 4]].map(Shape::from);
    let is_narrow = random.below(4) == 0;
    let plain = ConvolutionGeometry {
        strides: [1, 1],
        dilations: [1, 1],
        before: [0, 0],
        output: [narrow[1], narrow[2]],
        groups: 1,
        transposed: false,
        zero_points: [0; 2],
    };
    let data_type = random.pick(&[DataType::Int8, DataType::UInt8]);
    let mut data = program.input(Scalar::I32, if is_narrow { narrow } else { image.into() });
    program.store_as(data, data_type);
    let mut held = data_type;
    if is_narrow {
        (data, held) = contracted(random, &mut program, (data, held), (plain.clone(), [6, 1, 1]));
        data = program.step(Primitive::Reshape(wide), &[data], 0).unwrap()[0];
        program.store_as(data, held);
    }
    let channels = program.shape(data)[3];
    let each = ConvolutionGeometry {
        strides: [1 + random.below(2), 1 + random.below(2)],
        dilations: [1 + random.below(2), 1 + random.below(2)],
        before: [random.below(3), random.below(3)],
        output: [1 + random.below(12), 1 + random.below(12)],
        groups: channels,
        ..plain
    };
    let across = ConvolutionGeometry { strides: [1, 1], dilations: [1, 1], before: [0, 0], groups: 1, ..each.clone() };
    let window = [channels, 1 + random.below(5), 1 + random.below(5)];
    let first = contracted(random, &mut program, (data, held), (each, window));
    let outputs = random.pick(&[5, 8, 36, 68]);
    let (second, _) = contracted(random, &mut program, first, (across, [outputs, 1, 1]));
    program.outputs = vec![second];
    program
}

/// Adds a convolution of bytes with random weights for this many outputs, rows and columns, and the
/// requantization of its sums to bytes, with one factor for each channel or one for all. Returns the
/// requantized value and its type.
fn contracted(
    random: &mut Random,
    program: &mut Program,
    (data, data_type): (ValueId, DataType),
    (convolution, [outputs, rows, columns]): (ConvolutionGeometry, [usize; 3]),
) -> (ValueId, DataType) {
    let mut types = || random.pick(&[DataType::Int8, DataType::UInt8]);
    let least = |data_type| if data_type == DataType::Int8 { -128 } else { 0 };
    let (filter_type, made_type) = (types(), types());
    let zero_points = [data_type, filter_type].map(|data_type| least(data_type) + random.below(256) as i32);
    let shape = Shape::from([outputs, rows, columns, program.shape(data)[3] / convolution.groups]);
    let filter: Vec<u8> = (0..shape.elements()).map(|_| random.below(256) as u8).collect();
    let filter = Constant { data_type: filter_type, shape, bytes: attache_base::Bytes::from_vec(filter) };
    let bias: Vec<i32> = (0..outputs).map(|_| random.below(1 << 16) as i32 - 30000).collect();
    let mut inputs = vec![data, program.constant(Scalar::I32, filter)];
    if random.below(3) > 0 {
        inputs.push(program.constant(Scalar::I32, Constant::from_values([outputs], &bias)));
    }
    let convolution = ConvolutionGeometry { zero_points, ..convolution };
    let sums = program.step(Primitive::Convolution(convolution), &inputs, 0).unwrap()[0];
    let mut operands = vec![sums];
    let mut factor = IntExpression::Constant(1 << 30);
    if random.below(2) == 0 {
        let factors: Vec<i32> = (0..outputs).map(|_| (1 << 30) + random.below(1 << 30) as i32).collect();
        operands.push(program.constant(Scalar::I32, Constant::from_values([outputs], &factors)));
        factor = IntExpression::Input(1);
    }
    let rounding = random.pick(&[IntRounding::Once, IntRounding::Twice]);
    let low = least(made_type);
    let expression = IntExpression::Input(0).rescale(rounding, factor, IntExpression::Constant(-8)).plus(low + 100);
    let (expression, shape) = (expression.clamp((low, low + 255)), program.shape(sums).clone());
    let made = program.step(Primitive::IntMap { expression, shape }, &operands, 0).unwrap()[0];
    program.store_as(made, made_type);
    (made, made_type)
}

/// Generates a program of the mean of each channel of an image, and a convolution of the means.
pub(crate) fn pooled(random: &mut Random) -> Program {
    let shape = random.image();
    let (kind, channels, outputs) = (WindowKind::Average, shape[3], random.channels());
    let size = [1 + random.below(shape[1].min(8)), 1 + random.below(shape[2].min(8))];
    let mut program = Program::default();
    let data = program.input(Scalar::F32, shape.clone());
    let window = Window { kind, size, strides: [1, 1], before: [0, 0], output: [1, 1] };
    let mean = program.step(Primitive::Window(window), &[data], 0).unwrap()[0];
    let expression = Expression::Input(0).clamp(-0.25, 0.5);
    let of_mean = Primitive::Map { expression, shape: program.shape(mean).clone(), scalar: Scalar::F32 };
    let mean = if random.below(2) == 0 { mean } else { program.step(of_mean, &[mean], 0).unwrap()[0] };
    let numbers = random.numbers(outputs * (1 + channels));
    let (bias, filter) = numbers.split_at(outputs);
    let filter = program.constant(Scalar::F32, Constant::from_values([outputs, 1, 1, channels], filter));
    let bias = program.constant(Scalar::F32, Constant::from_values([outputs], bias));
    let convolution = ConvolutionGeometry::pointwise([1, 1]);
    program.outputs = program.step(Primitive::Convolution(convolution), &[mean, filter, bias], 0).unwrap();
    program
}

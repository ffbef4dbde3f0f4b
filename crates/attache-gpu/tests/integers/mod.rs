//! Programs of integers for the test of primitives: expressions, convolutions and movement of 32-bit integers and
//! of bytes.

use attache_base::{Constant, DataType, Shape};
use attache_gpu_ir::{
    ConvolutionGeometry, IntBinaryOp, IntExpression, IntRounding, Primitive, Program, ReduceOp, Scalar,
};

use crate::index_map;
use crate::random::Random;

/// Generates a program of a map of integers of every magnitude: fixed-point products with a factor for each
/// channel, and other integer operations.
pub(crate) fn int_map(random: &mut Random) -> Program {
    let shape = random.image();
    let channels = shape[3];
    let mut integer = || match random.below(8) {
        0 => random.pick(&[i32::MIN, i32::MIN + 1, -1, 0, 1, i32::MAX]),
        _ => (random.below(1 << 31) as i32).wrapping_mul(2).wrapping_add(random.below(2) as i32) >> random.below(31),
    };
    let numbers: Vec<i32> = (0..shape.elements()).map(|_| integer()).collect();
    let mantissas: Vec<i32> = (0..channels).map(|_| integer().max(-i32::MAX)).collect();
    let exponents: Vec<i32> = (0..channels).map(|_| random.below(62) as i32 - 31).collect();
    let mut program = Program::default();
    let small = program.input(Scalar::I32, shape.clone());
    let mut constant =
        |shape: Shape, numbers: &[i32]| program.constant(Scalar::I32, Constant::from_values(shape, numbers));
    let inputs = [
        small,
        constant(shape.clone(), &numbers),
        constant([channels].into(), &mantissas),
        constant([channels].into(), &exponents),
    ];
    let [small, number, mantissa, exponent] = [0, 1, 2, 3].map(IntExpression::Input);
    let sum = number.clone().add(small.clone());
    let count = small.clone().plus(3);
    let expression = match random.below(11) {
        6 => IntExpression::LeadingZeros(Box::new(sum)),
        7 => sum.binary(IntBinaryOp::ShiftRight, count),
        8 => sum.binary(IntBinaryOp::And, number).binary(IntBinaryOp::ExclusiveOr, mantissa),
        9 => number.binary(IntBinaryOp::Power, count),
        10 => number.clone().equal(sum).add(number.less(mantissa)),
        0 => sum.multiply(number).subtract(mantissa),
        1 => sum.clone().binary(IntBinaryOp::Less, mantissa).select(sum.clamp((-100, 100)), small),
        2 => sum.binary(IntBinaryOp::Divide, small.plus(7)),
        3 => sum.binary(IntBinaryOp::ShiftLeft, count),
        4 => sum.rescale(IntRounding::Once, mantissa, exponent),
        _ => sum.rescale(IntRounding::Twice, mantissa, exponent),
    };
    program.outputs = program.step(Primitive::IntMap { expression, shape }, &inputs, 0).unwrap();
    program
}

/// Generates a program of a convolution of 32-bit integers whose sums overflow and wrap around.
pub(crate) fn int_convolution(random: &mut Random) -> Program {
    let data = random.image();
    let groups = random.pick(&[1, data[3]]);
    let outputs = groups * random.pick(&[1, 2, 4]);
    let filter = Shape::from([outputs, 1 + random.below(3), 1 + random.below(3), data[3] / groups]);
    let (strides, dilations, before) = ([1 + random.below(2), 1], [1, 1 + random.below(2)], [random.below(2), 1]);
    let output = [1 + random.below(8), 1 + random.below(8)];
    let zero_points = [random.below(9) as i32 - 4, random.below(9) as i32 - 4];
    let convolution =
        ConvolutionGeometry { strides, dilations, before, output, groups, transposed: groups == 1, zero_points };
    let mut program = Program::default();
    let mut weights = |shape: Shape, bound: usize| {
        let numbers: Vec<i32> = (0..shape.elements()).map(|_| random.below(bound) as i32 - 1000).collect();
        program.constant(Scalar::I32, Constant::from_values(shape, &numbers))
    };
    let constants = [weights(filter, 1 << 28), weights([outputs].into(), 1 << 31)];
    let inputs = [program.input(Scalar::I32, data), constants[0], constants[1]];
    program.outputs = program.step(Primitive::Convolution(convolution), &inputs, 0).unwrap();
    program
}

/// Generates a program of a convolution of signed or unsigned bytes, whose sums are requantized to signed
/// bytes.
pub(crate) fn byte_convolution(random: &mut Random) -> Program {
    let channels = random.pick(&[1, 3, 4, 8, 12, 21, 64, 130]);
    let data = Shape::from([random.pick(&[1, 2]), 1 + random.below(20), 1 + random.below(20), channels]);
    let groups = random.pick(&[1, 1, channels]);
    let outputs = if groups == 1 { random.pick(&[1, 4, 6, 16, 40]) } else { channels * random.pick(&[1, 1, 2]) };
    let (rows, columns) = (1 + random.below(3), 1 + random.below(3));
    let [data_type, filter_type] = [0; 2].map(|_| random.pick(&[DataType::Int8, DataType::UInt8]));
    let least = |data_type| if data_type == DataType::Int8 { -128 } else { 0 };
    let zero_points = [data_type, filter_type].map(|data_type| least(data_type) + random.below(256) as i32);
    let output = [data[1], data[2]].map(|extent| 1 + random.below(extent + 1));
    let (strides, before) = (random.pick(&[[1, 1], [2, 1]]), [random.below(2), random.below(2)]);
    let transposed = groups == 1 && random.below(4) == 0;
    let convolution =
        ConvolutionGeometry { strides, dilations: [1, 1], before, output, groups, transposed, zero_points };
    let mut program = Program::default();
    let filter: Vec<u8> = (0..outputs * rows * columns * channels / groups).map(|_| random.below(256) as u8).collect();
    let shape = Shape::from([outputs, rows, columns, channels / groups]);
    let filter = Constant { data_type: filter_type, shape, bytes: attache_base::Bytes::from_vec(filter) };
    let bias: Vec<i32> = (0..outputs).map(|_| random.below(1 << 16) as i32 - 30000).collect();
    let shape = Shape::from([data[0], output[0], output[1], outputs]);
    let input = program.input(Scalar::I32, data);
    program.store_as(input, data_type);
    let mut inputs = vec![input, program.constant(Scalar::I32, filter)];
    if random.below(3) > 0 {
        inputs.push(program.constant(Scalar::I32, Constant::from_values([outputs], &bias)));
    }
    let sums = program.step(Primitive::Convolution(convolution), &inputs, 0).unwrap()[0];
    let factor = (IntExpression::Constant(1 << 30), IntExpression::Constant(-random.pick(&[2, 6, 9])));
    let bytes = IntExpression::Input(0).rescale(IntRounding::Twice, factor.0, factor.1).clamp((-128, 127));
    let bytes = program.step(Primitive::IntMap { expression: bytes, shape }, &[sums], 0).unwrap()[0];
    program.store_as(bytes, DataType::Int8);
    program.outputs = vec![bytes];
    program
}

/// Generates a program that moves bytes by an index map, and multiplies the moved bytes by a row of bytes.
pub(crate) fn byte_moves(random: &mut Random) -> Program {
    let mut program = index_map(random);
    let data_type = random.pick(&[DataType::Int8, DataType::UInt8]);
    for value in &mut program.values {
        value.scalar = Scalar::I32;
    }
    for id in [program.inputs[0], program.outputs[0]] {
        program.store_as(id, data_type);
    }
    if let Primitive::IndexMap(map) = &mut program.steps[0].primitive {
        map.fill = map.fill.map(|_| 5.0);
    }
    let moved = program.outputs[0];
    let shape = program.shape(moved).clone();
    let row = program.input(Scalar::I32, shape[shape.rank().saturating_sub(1)..].into());
    program.store_as(row, data_type);
    let expression = IntExpression::Input(0).multiply(IntExpression::Input(1)).clamp((0, 100));
    let product = program.step(Primitive::IntMap { expression, shape }, &[moved, row], 0).unwrap()[0];
    program.store_as(product, DataType::UInt8);
    program.outputs = if random.below(2) == 0 { vec![product] } else { vec![product, moved] };
    program
}

/// Generates a program of a reduction of integers along some axes.
pub(crate) fn int_reduce(random: &mut Random) -> Program {
    let shape = random.image();
    let axes = (0..4).filter(|axis| *axis == 2 || random.below(2) == 0).collect();
    let reduction = random.pick(&[ReduceOp::Sum, ReduceOp::Maximum, ReduceOp::Minimum, ReduceOp::Product]);
    large(random, shape, Primitive::Reduce { reduction, axes })
}

/// Generates a program that searches, sorts or sums integers that floats do not tell apart, along an axis.
pub(crate) fn int_search(random: &mut Random) -> Program {
    let (shape, axis) = (random.image(), random.below(4));
    let primitive = match random.below(3) {
        0 => Primitive::ArgReduce { largest: random.below(2) == 0, axis, parts: 1 },
        1 => Primitive::TopK { count: 1 + random.below(shape[3]) },
        _ => Primitive::Scan { axis, exclusive: random.below(2) == 0, reverse: random.below(2) == 0 },
    };
    large(random, shape, primitive)
}

/// Returns a program that applies a primitive to integers whose sums and products overflow.
fn large(random: &mut Random, shape: Shape, primitive: Primitive) -> Program {
    let mut program = Program::default();
    let input = program.input(Scalar::I32, shape.clone());
    let offset = random.pick(&[i32::MAX - 3, i32::MIN + 1, 1 << 25, -3]);
    let map = Primitive::IntMap { expression: IntExpression::Input(0).plus(offset), shape };
    let moved = program.step(map, &[input], 0).unwrap()[0];
    program.outputs = program.step(primitive, &[moved], 0).unwrap();
    program
}

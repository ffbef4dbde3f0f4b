//! Generators of random programs with constants of integers that have scales.

use attache_base::{Bytes, Constant, DataType, Shape};
use attache_gpu_ir::{ConvolutionGeometry, Gather, Primitive, Program, Scalar, ValueId};

use super::Random;

/// Adds a constant of random integers, each of whose scales is for `block` elements.
fn integers(random: &mut Random, program: &mut Program, data_type: DataType, shape: Shape, block: usize) -> ValueId {
    let elements = shape.elements();
    let bytes = (0..data_type.byte_size(elements).unwrap()).map(|_| random.below(256) as u8).collect();
    // Powers of two, so that f16 holds the products with integers exactly.
    let scales: Vec<f32> = (0..elements / block).map(|_| random.pick(&[0.03125, 0.015625, 0.0078125])).collect();
    program.quantized_constant(Constant { data_type, shape, bytes: Bytes::from_vec(bytes) }, scales.into())
}

/// Generates a program of one or two products of few rows with weights of integers, which have a scale for each block of
/// elements of a row, for each row, or for all.
pub(crate) fn blocks(random: &mut Random) -> Program {
    let (rows, depth) = (1 + random.below(5), random.pick(&[32, 48, 64, 256]));
    let mut program = Program::default();
    let data = program.input(Scalar::F32, [rows, depth].into());
    let data_type = random.pick(&[DataType::Int8, DataType::Int4, DataType::Int2]);
    let mut parts = Vec::new();
    for _ in 0..1 + random.below(2) {
        let (outputs, other) = (random.pick(&[2, 3, 8, 36]), random.pick(&[data_type, data_type, DataType::Int4]));
        let block = random.pick(&[4, 16, 16, 16, 12, depth, depth * outputs]);
        let block = if depth.is_multiple_of(block) || block > depth { block } else { depth };
        let image = program.step(Primitive::Reshape([1, 1, rows, depth].into()), &[data], 0).unwrap()[0];
        let weights = integers(random, &mut program, other, [outputs, 1, 1, depth].into(), block);
        let bias = program.constant(Scalar::F32, Constant::from_values([outputs], &random.numbers(outputs)));
        let convolution = ConvolutionGeometry {
            strides: [1, 1],
            dilations: [1, 1],
            before: [0, 0],
            output: [1, rows],
            groups: 1,
            transposed: false,
            zero_points: [0; 2],
        };
        let inputs = [image, weights, bias];
        let sums = program.step(Primitive::Convolution(convolution), &inputs[..2 + random.below(2)], 0).unwrap()[0];
        parts.push(program.step(Primitive::Reshape([rows, outputs].into()), &[sums], 0).unwrap()[0]);
    }
    program.outputs = match parts.len() {
        1 => parts,
        _ => program.step(Primitive::Concatenate { axis: 1 }, &parts, 0).unwrap(),
    };
    program
}

/// Generates a program that gathers slices of a constant of integers, some of whose indices may be outside.
pub(crate) fn table(random: &mut Random) -> Program {
    let data_type = random.pick(&[DataType::Int8, DataType::Int4, DataType::Int2, DataType::UInt8]);
    let shape = Shape::from([1 + random.below(5), random.pick(&[1, 2, 3]), random.pick(&[1, 3, 4, 8, 40])]);
    let row = shape[1] * shape[2];
    let block = random.pick(&[shape.elements(), row, shape[2], if shape[2] == 40 { 20 } else { 1 }]);
    let mut program = Program::default();
    let data = integers(random, &mut program, data_type, shape, block);
    let axis = random.below(2);
    let named = 1 + random.below(2 - axis);
    let indices = program.input(Scalar::I32, [1 + random.below(6), named].into());
    program.outputs = program.step(Primitive::Gather(Gather { batch: 0, axis }), &[data, indices], 0).unwrap();
    program
}

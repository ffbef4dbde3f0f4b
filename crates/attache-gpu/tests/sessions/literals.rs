//! Tests that literals in shaders reach the device with all their bits, through Vulkan and through OpenGL.

use attache_base::Shape;
use attache_gpu::{Backend, Device, DeviceOptions, Precision, Session, Submission};
use attache_gpu_ir::{
    BinaryOp, Expression, Index, IndexMap, IntExpression, Primitive, Program, Scalar, UnaryOp, ValueId,
};

use crate::validation;

/// Floats that are hard to write as literals: limits, subnormal numbers, zeros, numbers with many or with rounded
/// decimal digits, infinities and NaN.
const REALS: [f32; 21] = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    0.1,
    16_777_217.0,
    f32::MAX,
    f32::MIN,
    f32::MIN_POSITIVE,
    -f32::MIN_POSITIVE,
    f32::EPSILON,
    f32::from_bits(1),
    f32::from_bits(0x8000_0001),
    f32::from_bits(0x007f_ffff),
    f32::from_bits(0x7f7f_fffe),
    f32::from_bits(0x3f80_0001),
    f32::from_bits(0x0080_0001),
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    f32::from_bits(0xffc0_0001),
];

const INTEGERS: [i32; 8] = [0, 1, -1, i32::MAX, i32::MIN, i32::MIN + 1, 0x7f80_0000, -0x0080_0000];

/// Returns constant expressions with overflow or division by zero, each with its expected result.
fn constant_results() -> Vec<(Expression, f32)> {
    use Expression::Constant;
    let product = Constant(f32::MAX).multiply(Constant(2.0));
    vec![
        (Constant(1.0).divide(Constant(0.0)), f32::INFINITY),
        (Constant(-1.0).divide(Constant(0.0)), f32::NEG_INFINITY),
        (product.clone(), f32::INFINITY),
        (Constant(1.0).binary(BinaryOp::Minimum, product.subtract(Constant(1.0))), 1.0),
        (Constant(100.0).unary(UnaryOp::Exponential), f32::INFINITY),
    ]
}

/// Returns powers of numbers that follow from an input of ones, for which devices have other results than the CPU, each with
/// its expected result.
fn powers() -> Vec<(Expression, f32)> {
    let power = |factor: f32, exponent: f32| {
        Expression::Input(0)
            .multiply(Expression::Constant(factor))
            .binary(BinaryOp::Power, Expression::Constant(exponent))
    };
    vec![
        (power(-2.0, 1.5), f32::NAN),
        (power(-0.5, -0.25), f32::NAN),
        (power(0.0, -2.5), f32::INFINITY),
        (power(0.0, 0.0), 1.0),
        (power(-1.0, 3.0), -1.0),
        (power(f32::NEG_INFINITY, 0.5), f32::INFINITY),
    ]
}

/// Returns a program that writes each number with each kind of literal, and the expected bits of the elements
/// of each output.
fn program(extent: usize) -> (Program, Vec<u32>) {
    let (mut program, mut expected) = (Program::default(), Vec::new());
    let shape = Shape::from([extent]);
    let [real, whole] = [Scalar::F32, Scalar::I32].map(|scalar| program.input(scalar, shape.clone()));
    let mut add = |from: ValueId, primitive: Primitive, bits: u32| {
        let made = program.step(primitive, &[from], expected.len()).unwrap()[0];
        program.outputs.push(made);
        expected.push(bits);
    };
    let map = |expression| Primitive::Map { expression, shape: shape.clone(), scalar: Scalar::F32 };
    for value in REALS {
        let chosen = Expression::Input(0).select(Expression::Constant(value), Expression::Constant(0.0));
        add(real, map(chosen), value.to_bits());
        let coordinates = vec![Index::Axis(0).plus(extent as i64)];
        let filled = IndexMap { output: vec![extent], coordinates, fill: Some(value) };
        add(real, Primitive::IndexMap(filled), value.to_bits());
    }
    for (expression, value) in constant_results() {
        add(real, map(Expression::Input(0).select(expression, Expression::Constant(0.0))), value.to_bits());
    }
    for (expression, value) in powers() {
        add(real, map(expression), value.to_bits());
    }
    for value in INTEGERS {
        let chosen = IntExpression::Select(Box::new([
            IntExpression::Input(0),
            IntExpression::Constant(value),
            IntExpression::Constant(7),
        ]));
        add(whole, Primitive::IntMap { expression: chosen, shape: shape.clone() }, value as u32);
    }
    (program, expected)
}

/// Runs the program with inputs of ones, and checks that every element of every output has the expected bits,
/// or is NaN if NaN is expected.
fn check(device: &Device, submission: Submission, extent: usize) {
    let (program, expected) = program(extent);
    let mut session = Session::new(device, program, Precision::F32, submission).unwrap();
    session.write(0, &1.0f32.to_le_bytes().repeat(extent)).unwrap();
    session.write(1, &1i32.to_le_bytes().repeat(extent)).unwrap();
    session.submit().unwrap();
    let mut outputs = vec![vec![0; extent * 4]; expected.len()];
    session.read(&mut outputs.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>()).unwrap();
    for (index, (bytes, expected)) in outputs.iter().zip(&expected).enumerate() {
        for word in bytes.as_chunks::<4>().0 {
            let found = u32::from_le_bytes(*word);
            let are_nan = [found, *expected].iter().all(|bits| f32::from_bits(*bits).is_nan());
            let is_right = found == *expected || are_nan;
            assert!(is_right, "{device:?}, output {index}, {submission:?}: {found:#x}, not {expected:#x}");
        }
    }
}

/// Checks programs of vectors and of single elements on a device that is opened with these options, with the
/// parameters as literals in the shaders and in a buffer.
fn check_on(options: DeviceOptions, submission: Submission) {
    for (as_hardware, extent) in [(true, 4), (true, 3), (false, 4)] {
        let options = DeviceOptions { as_hardware, ..options.clone() };
        let device = Device::open(&options).expect("a device (on Debian: mesa-vulkan-drivers, libegl1) to test on");
        check(&device, submission, extent);
    }
}

#[test]
fn vulkan_gets_every_bit() {
    let _alone = validation::alone();
    validation::listen();
    let options = DeviceOptions { backend: Some(Backend::Vulkan), validation: true, ..DeviceOptions::default() };
    check_on(options, Submission::Replay);
    validation::assert_silent();
}

#[test]
fn opengl_gets_every_bit() {
    let _alone = validation::alone();
    check_on(DeviceOptions { backend: Some(Backend::Gl), ..DeviceOptions::default() }, Submission::Encoder);
}

//! Tests of functions whose results must have a small relative error at every magnitude, on a device.
//!
//! Runs on the first Vulkan device, which may be a software one. Fails if there is none.

use attache_base::Shape;
use attache_gpu::{Backend, Device, DeviceOptions, Precision, Session, Submission};
use attache_gpu_ir::{Expression, HostTensor, Primitive, Program, Scalar, UnaryOp, interpret};

/// Applies a function to each number, on the device and with the interpreter. Returns both results for each
/// number, the device's first.
fn results(function: UnaryOp, numbers: &[f32]) -> Vec<(f32, f64)> {
    let options = DeviceOptions { backend: Some(Backend::Vulkan), ..DeviceOptions::default() };
    let device = Device::open(&options).expect("a Vulkan device (on Debian: mesa-vulkan-drivers) to test on");
    let mut program = Program::default();
    let input = program.input(Scalar::F32, [numbers.len()].into());
    let expression = Expression::Input(0).unary(function);
    let map = Primitive::Map { expression, shape: [numbers.len()].into(), scalar: Scalar::F32 };
    program.outputs = program.step(map, &[input], 0).unwrap();
    let elements = numbers.iter().map(|number| f64::from(*number)).collect();
    let expected = interpret(&program, &[HostTensor::new(Shape::from([numbers.len()]), elements)]).unwrap().remove(0);
    let mut session = Session::new(&device, program, Precision::F32, Submission::Encoder).unwrap();
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let mut output = vec![0; bytes.len()];
    session.write(0, &bytes).unwrap();
    session.submit().unwrap();
    session.read(&mut [&mut output]).unwrap();
    let found = output.as_chunks::<4>().0.iter().map(|word| f32::from_le_bytes(*word));
    found.zip(expected.elements).collect()
}

#[test]
fn the_error_function_keeps_its_digits_at_every_magnitude() {
    // Every exponent with several mantissas, except subnormal numbers, which a device may flush to 0.
    let least = f32::MIN_POSITIVE.to_bits();
    let magnitudes = (least..f32::MAX.to_bits()).step_by(1 << 19).map(|bits| f32::from_bits(bits + 12_345));
    let numbers: Vec<f32> = magnitudes.flat_map(|x| [x, -x]).chain([0.0]).collect();
    for (x, (found, expected)) in numbers.iter().zip(results(UnaryOp::ErrorFunction, &numbers)) {
        let error = (f64::from(found) - expected).abs();
        assert!(error <= 1e-6 * expected.abs(), "erf({x:e}) = {found:e}, not {expected:e}");
    }
}

//! The rounding of floats that are stored in 16 bits.

use attache_base::Shape;
use attache_gpu::{DeviceOptions, Precision, Session, Submission};
use attache_gpu_ir::{Expression, Primitive, Scalar};

use crate::random::Random;
use crate::{device, float, one, validation};

/// Intermediate values are rounded to the nearest f16, or to infinity if they are too large.
#[test]
fn halves_are_rounded_to_the_nearest() {
    let _alone = validation::alone();
    for no_shader_f16 in [false, true] {
        let form = DeviceOptions { no_shader_f16, ..DeviceOptions::default() };
        let device = device(form);
        assert_eq!(device.adapter().shader_f16, !no_shader_f16, "a device with binary16 in shaders is needed");
        let mut random = Random(5);
        let mut factor = || {
            let edges = [0x7c00, 0x7bff, 0x0400, 0x0001, 0x3c00, 0x4000, 0x3801, 0xfbff];
            let bits = if random.below(4) == 0 { random.pick(&edges) } else { random.below(0x7c00) as u16 };
            half::f16::from_bits(bits | (random.below(2) as u16) << 15).to_f32()
        };
        let factors: [Vec<f32>; 2] = [0; 2].map(|_| (0..4096).map(|_| factor()).collect());
        let product = Expression::Input(0).multiply(Expression::Input(1));
        let shape = Shape::from([4096, 1]);
        let map = Primitive::Map { expression: product, shape: shape.clone(), scalar: Scalar::F32 };
        let mut program = one(map, &[float(&shape), float(&shape)]);
        // Outputs are never stored as f16, so a scan along an axis of extent 1 copies the products to an output.
        let sums = Primitive::Scan { axis: 1, exclusive: false, reverse: false };
        program.outputs = program.step(sums, &[program.outputs[0]], 1).unwrap();
        let mut session = Session::new(&device, program, Precision::F16, Submission::Replay).unwrap();
        for (input, factors) in factors.iter().enumerate() {
            session.write(input, &factors.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>()).unwrap();
        }
        let mut products = vec![0; 4096 * 4];
        session.submit().unwrap();
        session.read(&mut [&mut products]).unwrap();
        for ((a, b), bytes) in factors[0].iter().zip(&factors[1]).zip(products.as_chunks::<4>().0) {
            let (found, expected) = (f32::from_le_bytes(*bytes), half::f16::from_f32(a * b).to_f32());
            let same = found == expected || (found.is_nan() && expected.is_nan());
            assert!(same, "{found}, not {expected}, for {a} x {b}; {device:?}, without the type: {no_shader_f16}");
        }
    }
}

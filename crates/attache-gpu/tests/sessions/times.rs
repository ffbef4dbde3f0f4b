//! Tests of timed sessions, and of the measurement of the peak rates with which their times are compared.
//!
//! Runs on the first Vulkan device, which may be a software one, under the Khronos validation layer. Fails if either is
//! missing.

use attache_base::Shape;
use attache_gpu::{Backend, Device, DeviceOptions, DevicePeaks, Precision, Session, Submission};
use attache_gpu_ir::{Primitive, Program, Scalar};

use crate::validation;

fn device() -> Device {
    validation::listen();
    let options = DeviceOptions { backend: Some(Backend::Vulkan), validation: true, ..DeviceOptions::default() };
    Device::open(&options).expect("a Vulkan device (on Debian: mesa-vulkan-drivers) to test on")
}

/// Returns a program of `steps` scans, each of which depends on the previous one.
fn program(steps: usize) -> Program {
    let mut program = Program::default();
    let mut value = program.input(Scalar::F32, Shape::from([64]));
    for _ in 0..steps {
        let sums = Primitive::Scan { axis: 0, exclusive: false, reverse: false };
        value = program.step(sums, &[value], 0).unwrap()[0];
    }
    program.outputs = vec![value];
    program
}

fn run(session: &mut Session) -> Vec<u8> {
    let ones: Vec<u8> = [1.0f32; 64].iter().flat_map(|one| one.to_le_bytes()).collect();
    let mut sums = vec![0; 256];
    session.write(0, &ones).unwrap();
    session.submit().unwrap();
    session.read(&mut [&mut sums]).unwrap();
    sums
}

#[test]
fn every_dispatch_is_timed() {
    let _alone = validation::alone();
    let device = device();
    for submission in [Submission::Replay, Submission::Encoder] {
        let mut plain = Session::new(&device, program(5), Precision::F32, submission).unwrap();
        let mut timed = Session::timed(&device, program(5), Precision::F32, submission).unwrap();
        assert!(plain.times().is_err());
        let expected = run(&mut plain);
        assert!(plain.times().is_err());
        for _ in 0..3 {
            assert_eq!(run(&mut timed), expected, "{submission:?}");
            let times = timed.times().unwrap();
            assert_eq!(times.spans.len(), timed.report().dispatches);
            assert_eq!(times.spans[0].begin, 0.0);
            assert!(times.spans.iter().all(|span| span.begin <= span.end), "{times:?}");
            assert!(times.spans.windows(2).all(|pair| pair[0].end <= pair[1].begin), "{times:?}");
            let barriers = (submission == Submission::Replay).then_some(times.spans.len() - 1);
            assert_eq!(times.barriers, barriers);
        }
        // Several runs without a wait between them.
        (0..10).for_each(|_| timed.submit().unwrap());
        assert_eq!(timed.times().unwrap().spans.len(), 5);
    }
    let mut idle = Session::timed(&device, program(1), Precision::F32, Submission::Replay).unwrap();
    assert!(idle.times().is_err(), "nothing ran");
    let mut empty = Session::timed(&device, program(0), Precision::F32, Submission::Encoder).unwrap();
    run(&mut empty);
    assert_eq!(empty.times().unwrap().spans, []);
    drop((idle, empty));
    validation::assert_silent();
}

#[test]
fn peaks_are_rates() {
    let _alone = validation::alone();
    let device = device();
    for submission in [Submission::Replay, Submission::Encoder] {
        let peaks = DevicePeaks::measure(&device, submission).unwrap();
        let rates = [peaks.bytes_per_second, peaks.operations_per_second];
        assert!(rates.iter().all(|rate| rate.is_finite() && *rate > 1e6), "{peaks:?}");
    }
    validation::assert_silent();
}

//! Tests of the traits `Interface` and `Recording`, which separate plans from the ways to run them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use attache_base::Shape;
use attache_gpu::{
    Backend, Device, DeviceLimits, DeviceOptions, GpuError, Interface, LoadCost, LoadedPlan, Plan, PlanReport,
    Precision, Runs, Session, ShaderCode, Submission, WeightSource, interface,
};
use attache_gpu_ir::{Primitive, Program, Scalar};

use crate::validation;

fn device() -> Device {
    validation::listen();
    let options = DeviceOptions { backend: Some(Backend::Vulkan), validation: true, ..DeviceOptions::default() };
    Device::open(&options).expect("a Vulkan device (on Debian: mesa-vulkan-drivers) to test on")
}

/// Returns a program that computes the prefix sums of four elements.
fn program() -> Program {
    let mut program = Program::default();
    let input = program.input(Scalar::F32, Shape::from([4]));
    let scan = Primitive::Scan { axis: 0, exclusive: false, reverse: false };
    program.outputs = program.step(scan, &[input], 0).unwrap();
    program
}

fn bytes(elements: [f32; 4]) -> Vec<u8> {
    elements.iter().flat_map(|element| element.to_le_bytes()).collect()
}

/// Of timed runs in two slots, only those that are submitted with `is_read` have outputs.
#[test]
fn unread_runs_have_no_outputs() {
    let _alone = validation::alone();
    let device = device();
    for submission in [Submission::Replay, Submission::Encoder] {
        let interface = interface(&device, submission).unwrap();
        assert!(interface.has_timestamps());
        let report = PlanReport::new(program(), Precision::F32, interface.limits(), interface.keeps_apart());
        let report = report.unwrap();
        let plan = Arc::new(report.plan().unwrap());
        let (loaded, _) = interface.load(&plan, &report, ShaderCode::Compile, None).unwrap();
        let mut recording = loaded.record(Runs { slots: 2, timed: true, ..Runs::default() }).unwrap();
        for (slot, value) in [(0, 1.0), (1, 2.0), (0, 3.0)] {
            recording.write(slot, 0, &bytes([value; 4])).unwrap();
            recording.submit(slot, false).unwrap();
            recording.wait(slot).unwrap();
            assert!(recording.output(slot, 0, 0).unwrap().is_none(), "{submission:?}");
            recording.submit(slot, true).unwrap();
            recording.wait(slot).unwrap();
            let output = recording.output(slot, 0, 16).unwrap().unwrap();
            assert_eq!(output[..16], bytes([value, 2.0 * value, 3.0 * value, 4.0 * value]), "{submission:?}");
        }
        (0..2).for_each(|slot| recording.submit(slot, true).unwrap());
        assert_eq!(recording.times().unwrap().spans.len(), plan.dispatches.len());
    }
    validation::assert_silent();
}

/// An interface that this test implements: it passes everything to another interface and counts the
/// plans that it loads.
struct Counting {
    inner: Box<dyn Interface>,
    loads: AtomicUsize,
}

impl Interface for Counting {
    fn limits(&self) -> &DeviceLimits {
        self.inner.limits()
    }

    fn keeps_apart(&self) -> bool {
        self.inner.keeps_apart()
    }

    fn has_timestamps(&self) -> bool {
        false
    }

    fn load(
        &self,
        plan: &Arc<Plan>,
        weights: &dyn WeightSource,
        code: ShaderCode<'_>,
        first: Option<Runs>,
    ) -> Result<(Box<dyn LoadedPlan>, LoadCost), GpuError> {
        self.loads.fetch_add(1, Ordering::Relaxed);
        self.inner.load(plan, weights, code, first)
    }
}

/// Code outside of the crate can implement an interface, and sessions run on it.
#[test]
fn sessions_run_on_any_interface() {
    let _alone = validation::alone();
    let inner = interface(&device(), Submission::Encoder).unwrap();
    let counting = Counting { inner, loads: AtomicUsize::new(0) };
    let mut session = Session::on(&counting, program(), Precision::F32, Runs::default()).unwrap();
    let mut sums = [0; 16];
    session.write(0, &bytes([1.0, 2.0, 3.0, 4.0])).unwrap();
    session.submit().unwrap();
    session.read(&mut [&mut sums]).unwrap();
    assert_eq!((sums.to_vec(), counting.loads.into_inner()), (bytes([1.0, 3.0, 6.0, 10.0]), 1));
    validation::assert_silent();
}

/// Recordings are as asked for, whether the plan was loaded for that, for something else, or for nothing in particular.
#[test]
fn the_first_recording_may_be_another_than_expected() {
    let _alone = validation::alone();
    let device = device();
    for submission in [Submission::Replay, Submission::Encoder] {
        let interface = interface(&device, submission).unwrap();
        let report = PlanReport::new(program(), Precision::F32, interface.limits(), interface.keeps_apart()).unwrap();
        let plan = Arc::new(report.plan().unwrap());
        for first in [None, Some(1), Some(2), Some(3)] {
            let first = first.map(|slots| Runs { slots, ..Runs::default() });
            let (loaded, _) = interface.load(&plan, &report, ShaderCode::Compile, first).unwrap();
            for slots in [2, 2, 3] {
                let mut recording = loaded.record(Runs { slots, ..Runs::default() }).unwrap();
                for slot in 0..slots {
                    recording.write(slot, 0, &bytes([slot as f32, 1.0, 1.0, 1.0])).unwrap();
                    recording.submit(slot, true).unwrap();
                }
                for slot in 0..slots {
                    recording.wait(slot).unwrap();
                    let (output, start) = (recording.output(slot, 0, 16).unwrap().unwrap(), slot as f32);
                    let expected = bytes([start, start + 1.0, start + 2.0, start + 3.0]);
                    assert_eq!(output[..16], expected, "{submission:?} {first:?} {slots}");
                }
            }
        }
    }
    validation::assert_silent();
}

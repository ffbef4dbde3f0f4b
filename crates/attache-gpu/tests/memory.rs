//! Measures the host memory that a session uses. This is the only test of its process, since it measures the
//! whole process.
#![cfg(target_os = "linux")]

use attache_base::{Constant, Shape};
use attache_gpu::{Backend, Device, DeviceOptions, PlanReport, Precision, Session, Submission, interface};
use attache_gpu_ir::{ConvolutionGeometry, Primitive, Program, Scalar};

/// Number of input channels, and of output channels, of the program's convolution.
const CHANNELS: usize = 3072;

/// Bytes of the convolution's weights as f32.
const WEIGHTS: usize = CHANNELS * CHANNELS * 4;

/// Returns a program of one pointwise convolution with many weights.
fn program() -> Program {
    let mut program = Program::default();
    let data = program.input(Scalar::F32, Shape::from([1, 1, 1, CHANNELS]));
    let numbers: Vec<f32> = (0..CHANNELS * CHANNELS).map(|at| (at % 1021) as f32 / 1024.0).collect();
    let filter = program.constant(Scalar::F32, Constant::from_values([CHANNELS, 1, 1, CHANNELS], &numbers));
    let (strides, dilations, before) = ([1; 2], [1; 2], [0; 2]);
    let output = [1, 1];
    let convolution =
        ConvolutionGeometry { strides, dilations, before, output, groups: 1, transposed: false, zero_points: [0; 2] };
    program.outputs = program.step(Primitive::Convolution(convolution), &[data, filter], 0).unwrap();
    program
}

/// Returns the resident bytes of the process that are not backed by a file.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

/// A session keeps its weights only on the device. A software device's memory is host memory, so the process
/// must contain the weights only once, in the device's format.
#[test]
fn the_device_alone_keeps_weights() {
    let options = DeviceOptions { backend: Some(Backend::Vulkan), ..DeviceOptions::default() };
    let device = Device::open(&options).expect("a Vulkan device (on Debian: mesa-vulkan-drivers) to test on");
    for submission in [Submission::Replay, Submission::Encoder] {
        for (precision, on_device) in [(Precision::F32, WEIGHTS), (Precision::F16, WEIGHTS / 2)] {
            let planned = PlanReport::new(
                program(),
                precision,
                device.limits(),
                interface(&device, submission).unwrap().keeps_apart(),
            )
            .unwrap();
            assert!(planned.host_constant_bytes() >= 2 * WEIGHTS, "the constants, and what was packed of them");
            drop(planned);

            let before = resident();
            let session = Session::new(&device, program(), precision, submission).unwrap();
            let grown = resident().saturating_sub(before);
            // The allocator retains part of the memory that preparation freed, but less than the weights as f32.
            assert!(grown < on_device + WEIGHTS, "{grown} bytes with {precision:?} and {submission:?}");

            assert!(session.report().weights_bytes >= on_device);
            assert!(session.summary().dispatches[0].cost.bytes_read as usize >= on_device);
        }
    }
}

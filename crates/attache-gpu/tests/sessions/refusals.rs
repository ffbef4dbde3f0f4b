//! Tests of the errors that a session returns for slots, inputs and outputs that do not exist, and for slices
//! of the wrong length. The session remains usable afterwards. Runs on any Vulkan device.

use attache_gpu::{Backend, Device, DeviceOptions, GpuError, Precision, Session, Submission};
use attache_gpu_ir::{ByteType, Expression, Primitive, Program, Scalar};

const SLOTS: usize = 2;

/// Prepares a session that adds five floats and five bytes.
fn session(device: &Device, submission: Submission) -> Session {
    let mut program = Program::default();
    let input = program.input(Scalar::F32, [5].into());
    let bytes = program.input(Scalar::I32, [5].into());
    program.values[bytes.index()].bytes = Some(ByteType::Unsigned);
    let expression = Expression::Input(0).add(Expression::Input(1));
    let map = Primitive::Map { expression: Expression::Input(0), shape: [5].into(), scalar: Scalar::F32 };
    let reals = program.step(map, &[bytes], 0).unwrap()[0];
    let sum = Primitive::Map { expression, shape: [5].into(), scalar: Scalar::F32 };
    program.outputs = program.step(sum, &[input, reals], 0).unwrap();
    Session::with_slots(device, program, Precision::F32, submission, SLOTS).unwrap()
}

fn refuses<T>(result: Result<T, GpuError>, text: &str) {
    let error = result.err().unwrap_or_else(|| panic!("no error, but {text}"));
    assert_eq!(error.to_string(), text);
}

#[test]
fn what_is_not_there_or_does_not_fit_is_refused() {
    let options = DeviceOptions { backend: Some(Backend::Vulkan), ..DeviceOptions::default() };
    let device = Device::open(&options).expect("a Vulkan device (on Debian: mesa-vulkan-drivers) to test on");
    for submission in [Submission::Replay, Submission::Encoder] {
        let mut session = session(&device, submission);
        for length in [0, 19, 21, 4096] {
            let text = format!("input 0 has 20 bytes, not {length}");
            refuses(session.write(0, &vec![1; length]), &text);
            refuses(session.write_to(1, 0, &vec![1; length]), &text);
            refuses(session.read_input(0, 0, &mut vec![1; length]), &text);
        }
        for length in [4, 6, 8, 20] {
            refuses(session.write(1, &vec![1; length]), &format!("input 1 has 5 bytes, not {length}"));
        }
        for input in [2, usize::MAX] {
            let text = format!("there is no input {input}: the program has 2");
            refuses(session.write(input, &[0; 20]), &text);
            refuses(session.input_mut(0, input).map(drop), &text);
            refuses(session.read_input(0, input, &mut [0; 20]), &text);
        }
        for slot in [SLOTS, usize::MAX] {
            let text = format!("there is no slot {slot}: the session has 2");
            refuses(session.write_to(slot, 0, &[0; 20]), &text);
            refuses(session.input_mut(slot, 0).map(drop), &text);
            refuses(session.read_input(slot, 0, &mut [0; 20]), &text);
            refuses(session.submit_in(slot, 1), &text);
            refuses(session.wait_for(slot), &text);
            refuses(session.output(slot, 0, 1).map(drop), &text);
        }
        session.write(0, &[1.0f32, 2.0, 3.0, 4.0, 5.0].map(f32::to_le_bytes).concat()).unwrap();
        session.write(1, &[1, 2, 3, 4, 255]).unwrap();
        session.submit().unwrap();
        refuses(session.read(&mut [&mut [0; 16]]), "output 0 has 20 bytes, not 16");
        refuses(session.read(&mut [&mut [0; 24]]), "output 0 has 20 bytes, not 24");
        refuses(session.read(&mut [&mut [0; 20], &mut [0; 20]]), "there is no output 1: the program has 1");
        refuses(session.output(0, 1, 1).map(drop), "there is no output 1: the program has 1");
        let mut sums = [0; 20];
        session.read(&mut [&mut sums]).unwrap();
        assert_eq!(sums, [2.0f32, 4.0, 6.0, 8.0, 260.0].map(f32::to_le_bytes).as_flattened());
        assert!(session.output(0, 0, usize::MAX).unwrap().is_some_and(|all| all.len() >= 20));
    }
    let none = Session::with_slots(&device, Program::default(), Precision::F32, Submission::Replay, usize::MAX);
    assert!(none.err().is_some_and(|error| error.to_string().contains("slots")));
}

#[test]
fn outputs_have_no_value_before_a_run() {
    let options = DeviceOptions { backend: Some(Backend::Vulkan), ..DeviceOptions::default() };
    let device = Device::open(&options).expect("a Vulkan device (on Debian: mesa-vulkan-drivers) to test on");
    for submission in [Submission::Replay, Submission::Encoder] {
        refuses(session(&device, submission).read(&mut [&mut [0; 20]]), "output 0 has no value before a run");
    }
}

//! Tests of recordings under the Khronos validation layer: runs without a wait between them, and concurrent
//! runs.
//!
//! Runs on the first Vulkan device, which may be a software one. Fails without a device or without the layer.

use attache_base::Shape;
use attache_gpu::{Backend, Device, DeviceOptions, Precision, Session, Submission, wgpu};
use attache_gpu_ir::{Expression, Index, IndexMap, Primitive, Program, Scalar, ValueId};

use crate::validation;

fn device(options: DeviceOptions) -> Device {
    validation::listen();
    let options = DeviceOptions { backend: Some(Backend::Vulkan), validation: true, ..options };
    Device::open(&options).expect("a Vulkan device (on Debian: mesa-vulkan-drivers) to test on")
}

/// Runs execute in order and with the right inputs: without a wait between them, with writes while runs are
/// pending, and with both submission methods at the same time. Recordings may be dropped while their runs are
/// pending.
#[test]
fn runs_follow_each_other() {
    let _alone = validation::alone();
    let device = device(DeviceOptions { frugal: true, ..DeviceOptions::default() });
    let shape = Shape::from([3000]);
    let step = |program: &mut Program, from: ValueId| {
        let expression = Expression::Input(0).multiply(Expression::Constant(2.0)).add(Expression::Constant(1.0));
        let map = Primitive::Map { expression, shape: shape.clone(), scalar: Scalar::F32 };
        let doubled = program.step(map, &[from], 0).unwrap()[0];
        program.step(Primitive::Scan { axis: 0, exclusive: false, reverse: false }, &[doubled], 0).unwrap()[0]
    };
    let session = |submission| {
        let mut program = Program::default();
        let input = program.input(Scalar::F32, shape.clone());
        let once = step(&mut program, input);
        program.outputs = vec![step(&mut program, once)];
        Session::new(&device, program, Precision::F32, submission).unwrap()
    };
    let write = |session: &mut Session, first: f32| {
        let input: Vec<u8> = (0..3000).flat_map(|at| (if at == 0 { first } else { -0.5 }).to_le_bytes()).collect();
        session.write(0, &input).unwrap();
    };
    // The first map turns all elements except the first into 0, so that all sums of the first scan are equal. The
    // second scan adds up equal elements.
    let read = |session: &mut Session, first: f32| {
        let mut bytes = vec![0; 12000];
        session.read(&mut [&mut bytes]).unwrap();
        let found: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|word| f32::from_le_bytes(*word)).collect();
        let each = 2.0 * (2.0 * first + 1.0) + 1.0;
        assert_eq!([found[0], found[2999]], [each, each * 3000.0]);
    };
    let mut sessions = [Submission::Replay, Submission::Encoder].map(session);
    for round in 0..3 {
        let first = round as f32;
        for session in &mut sessions {
            write(session, first + 7.0);
            session.submit().unwrap();
            write(session, first);
        }
        for _ in 0..150 {
            sessions.iter_mut().for_each(|session| session.submit().unwrap());
        }
        sessions.iter_mut().for_each(|session| read(session, first));
    }
    for session in &mut sessions {
        (0..20).for_each(|_| session.submit().unwrap());
    }
    drop(sessions);
    validation::assert_silent();
}

/// Several recordings may use one device concurrently: four threads, two with each submission method, each
/// have a recording with pending runs of several slots.
#[test]
fn recordings_share_a_device() {
    let _alone = validation::alone();
    let device = device(DeviceOptions::default());
    let shape = Shape::from([64, 16]);
    let session = |submission| {
        let mut program = Program::default();
        let input = program.input(Scalar::F32, shape.clone());
        let scan = |axis| Primitive::Scan { axis, exclusive: false, reverse: false };
        let rows = program.step(scan(1), &[input], 0).unwrap()[0];
        program.outputs = program.step(scan(0), &[rows], 1).unwrap();
        Session::with_slots(&device, program, Precision::F32, submission, 3).unwrap()
    };
    let work = |submission, seed: usize| {
        let mut session = session(submission);
        let number = |run: usize| (run * 2 + seed + 1) as f32;
        for run in 0..60 {
            let slot = run % 3;
            if run >= 3 {
                session.wait_for(slot).unwrap();
                let last = session.output(slot, 0, 4096).unwrap().unwrap()[4092..4096].try_into().unwrap();
                assert_eq!(f32::from_le_bytes(last), number(run - 3) * 1024.0, "run {run}");
            }
            let input: Vec<u8> = (0..1024).flat_map(|_| number(run).to_le_bytes()).collect();
            session.write_to(slot, 0, &input).unwrap();
            session.submit_in(slot, 1).unwrap();
            assert!(session.output(slot, 0, 0).unwrap().is_none(), "the output of a pending run cannot be read");
        }
    };
    std::thread::scope(|scope| {
        for seed in 0..2 {
            for submission in [Submission::Replay, Submission::Encoder] {
                let work = &work;
                scope.spawn(move || work(submission, seed));
            }
        }
    });
    validation::assert_silent();
}

/// Outputs of several megabytes are copied in parts. The first part can be read while the others are copied. The next
/// run overwrites parts that were not read.
#[test]
fn large_outputs_come_in_parts() {
    let _alone = validation::alone();
    let device = device(DeviceOptions::default());
    let shape = Shape::from([700_001]);
    for submission in [Submission::Replay, Submission::Encoder] {
        let mut program = Program::default();
        let input = program.input(Scalar::F32, shape.clone());
        let mut map = |factor: f32| {
            let expression = Expression::Input(0).multiply(Expression::Constant(factor));
            let map = Primitive::Map { expression, shape: shape.clone(), scalar: Scalar::F32 };
            program.step(map, &[input], 0).unwrap()[0]
        };
        program.outputs = vec![map(2.0), map(-1.0)];
        let mut session = Session::with_slots(&device, program, Precision::F32, submission, 2).unwrap();
        let size = 700_001 * 4;
        for run in 0..4 {
            let (slot, number) = (run % 2, |at: usize| (at + run) as f32);
            let input: Vec<u8> = (0..700_001).flat_map(|at| number(at).to_le_bytes()).collect();
            session.write_to(slot, 0, &input).unwrap();
            session.submit_in(slot, 2).unwrap();
            session.submit_in(slot, 1).unwrap();
            session.wait_for(slot).unwrap();
            for (output, factor) in [(0, 2.0), (1, -1.0)] {
                let mut read = Vec::new();
                while read.len() < size {
                    let there = session.output(slot, output, read.len() + 1).unwrap().unwrap();
                    let more = &there[read.len()..there.len().min(size)];
                    assert!(!more.is_empty(), "the requested bytes must have arrived");
                    read.extend_from_slice(more);
                }
                let numbers = read.as_chunks::<4>().0.iter().map(|word| f32::from_le_bytes(*word));
                assert!(numbers.eq((0..700_001).map(|at| number(at) * factor)), "output {output} of run {run}");
                assert!(session.output(slot, output, size).unwrap().is_some_and(|all| all.len() >= size));
            }
        }
        session.submit_in(0, 1).unwrap();
    }
    validation::assert_silent();
}

/// Shaders access no buffer out of bounds: without the device's bounds checks, the results are the same, and the
/// validation layer reports nothing.
#[test]
fn nothing_hangs_on_the_checks_of_buffers() {
    let _alone = validation::alone();
    let run = |unchecked_buffers| {
        let device = device(DeviceOptions { unchecked_buffers, as_hardware: true, ..DeviceOptions::default() });
        let mut program = Program::default();
        let input = program.input(Scalar::F32, Shape::from([5, 7, 3]));
        let scan = Primitive::Scan { axis: 1, exclusive: false, reverse: true };
        program.outputs = program.step(scan, &[input], 0).unwrap();
        let mut session = Session::new(&device, program, Precision::F32, Submission::Replay).unwrap();
        let numbers: Vec<u8> = (0..105).flat_map(|at| (at as f32).to_le_bytes()).collect();
        session.write(0, &numbers).unwrap();
        session.submit().unwrap();
        let mut found = vec![0; 420];
        session.read(&mut [&mut found]).unwrap();
        found
    };
    assert_eq!(run(true), run(false));
    validation::assert_silent();
}

/// Opens a device and returns it twice: as a wgpu device, which the test polls to find out whether
/// submissions are pending, and as a device of this crate.
fn shared_device() -> (wgpu::Device, Device) {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = wgpu::Backends::VULKAN;
    // Without the debug flag, which is the default in unoptimised builds. With it, shaders contain source language
    // information that older layers do not support.
    descriptor.flags = wgpu::InstanceFlags::empty();
    let adapters = wgpu::Instance::new(descriptor).enumerate_adapters(wgpu::Backends::VULKAN);
    let adapter = pollster::block_on(adapters).into_iter().next().expect("a Vulkan device to test on");
    let limits = wgpu::DeviceDescriptor { required_limits: adapter.limits(), ..Default::default() };
    let (device, queue) = pollster::block_on(adapter.request_device(&limits)).unwrap();
    (device.clone(), Device::from_wgpu(device, queue))
}

/// With the encoder, waiting for a run waits for the submissions up to that run, but not for later ones of
/// other slots or sessions.
#[test]
fn the_encoder_waits_for_its_own_run() {
    let _alone = validation::alone();
    let (polled, device) = shared_device();
    // Each column is summed sequentially, so that a run takes long. Few elements are copied to the host, so
    // that the copy takes little time. Mesa's software device ends a loop after 65,535 iterations.
    let session = |rows: usize| {
        let mut program = Program::default();
        let input = program.input(Scalar::F32, Shape::from([rows, 64]));
        let scan = Primitive::Scan { axis: 0, exclusive: false, reverse: false };
        let sums = program.step(scan, &[input], 0).unwrap()[0];
        let coordinates = vec![Index::Axis(0).plus(rows as i64 - 1), Index::Axis(1)];
        let last = Primitive::IndexMap(IndexMap { output: vec![1, 64], coordinates, fill: None });
        program.outputs = program.step(last, &[sums], 1).unwrap();
        let mut session = Session::with_slots(&device, program, Precision::F32, Submission::Encoder, 2).unwrap();
        for slot in 0..2 {
            session.write_to(slot, 0, &1.0f32.to_le_bytes().repeat(rows * 64)).unwrap();
        }
        session
    };
    let is_idle = || matches!(polled.poll(wgpu::PollType::Poll), Ok(wgpu::PollStatus::QueueEmpty));
    let sum = |session: &Session, slot| session.output(slot, 0, 4).unwrap().unwrap()[..4].try_into().unwrap();
    let (mut slow, mut quick) = (session(60_000), session(8));

    quick.submit_in(0, 1).unwrap();
    slow.submit_in(0, 1).unwrap();
    slow.submit_in(1, 12).unwrap();
    quick.wait_for(0).unwrap();
    assert!(!is_idle(), "another session's runs were waited for");
    slow.wait_for(0).unwrap();
    assert!(!is_idle(), "another slot's runs were waited for");
    assert_eq!([sum(&quick, 0), sum(&slow, 0)].map(f32::from_le_bytes), [8.0, 60_000.0]);
    slow.wait_for(1).unwrap();
    assert_eq!(f32::from_le_bytes(sum(&slow, 1)), 60_000.0);
    assert!(is_idle());
}

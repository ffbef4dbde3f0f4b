//! Endurance of interpreters on a GPU, with both submission methods, with pending runs and with other buffers bound in
//! each run: each run returns the same bits, memory does not grow, and two threads share one device.
//!
//! Uses a small shared model, since software devices are slow, or the file in `ATTACHE_MODEL`. The environment
//! variables `ATTACHE_INVOKES` (120 by default) and `ATTACHE_CYCLES` (12 by default) set the numbers of runs and of
//! interpreters for each configuration.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use attache::gpu::{AlignedBytes, Backend, BufferBinding, DeviceMemory, MemoryBinding, Submission, wgpu};
use attache::{GpuDelegate, GpuDelegateOptions, Interpreter, Model, Run};

fn times(variable: &str, otherwise: usize) -> usize {
    std::env::var(variable).map_or(otherwise, |value| value.parse().expect("a number of times"))
}

fn shared(model: &str) -> PathBuf {
    let shared = std::env::var_os("ATTACHE_SHARED")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")), PathBuf::from);
    shared.join("models").join(model)
}

fn model() -> Model {
    let small = || shared("mlperf_tiny_kws_float.tflite");
    let path = std::env::var_os("ATTACHE_MODEL").map_or_else(small, PathBuf::from);
    Model::from_path(&path)
        .expect("ATTACHE_SHARED names the folder of the shared models, ATTACHE_MODEL a model if anything")
}

fn delegate(submission: Submission) -> GpuDelegate {
    let options = GpuDelegateOptions::default().software(true).backend(Backend::Vulkan).submission(submission);
    GpuDelegate::new(options).expect("a Vulkan device (on Debian: mesa-vulkan-drivers) to test on")
}

fn interpreter(model: &Model, delegate: &GpuDelegate, seed: usize) -> Interpreter {
    let builder = Interpreter::builder(model).threads(1).delegate(Arc::new(delegate.clone())).require_delegation(true);
    let mut interpreter = builder.build().unwrap();
    write(&mut interpreter, seed);
    interpreter
}

fn write(interpreter: &mut Interpreter, seed: usize) {
    let input = interpreter.input_mut::<f32>(0).unwrap();
    input.iter_mut().enumerate().for_each(|(i, x)| *x = ((i + seed) * 7919 % 2003) as f32 / 1001.0 - 1.0);
}

fn outputs(interpreter: &Interpreter) -> Vec<Vec<u8>> {
    (0..interpreter.outputs().len()).map(|output| interpreter.read_bytes(output).unwrap().to_vec()).collect()
}

/// Runs an interpreter once more and returns the bytes of every output.
fn run(interpreter: &mut Interpreter) -> Vec<Vec<u8>> {
    interpreter.invoke().unwrap();
    outputs(interpreter)
}

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("a system that tells a process's memory");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
    let kibibytes: usize = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kibibytes * 1024
}

/// The parts of the test run one after the other, so that each one measures no other part's memory.
#[test]
fn runs_and_cycles_and_threads() {
    let model = model();
    let mut bits = Vec::new();
    for submission in [Submission::Replay, Submission::Encoder] {
        let delegate = delegate(submission);
        println!("on {} through {}, {}", delegate.adapter().name, delegate.adapter().backend, submission.name());
        threads(&model, &delegate);
        invokes(&model, &delegate);
        in_flight(&model, &delegate);
        cycles(&model, &delegate);
        bits.push(run(&mut interpreter(&model, &delegate, 0)));
    }
    assert_eq!(bits[0], bits[1], "both ways give the same bits");
    bound(&model);
    bound_memory(&model);
}

fn threads(model: &Model, delegate: &GpuDelegate) {
    let expected = [0, 1].map(|seed| run(&mut interpreter(model, delegate, seed)));
    assert_ne!(expected[0], expected[1], "the two threads compute different things");
    std::thread::scope(|scope| {
        for (seed, expected) in expected.iter().enumerate() {
            scope.spawn(move || {
                let mut interpreter = interpreter(model, delegate, seed);
                (0..20).for_each(|_| assert_eq!(&run(&mut interpreter), expected));
            });
        }
    });
}

fn invokes(model: &Model, delegate: &GpuDelegate) {
    let count = times("ATTACHE_INVOKES", 120);
    let mut interpreter = interpreter(model, delegate, 0);
    let first = run(&mut interpreter);
    let mut before = 0;
    for index in 2..=count {
        let outputs = run(&mut interpreter);
        if index == 2 || index == 50 || index == count {
            assert_eq!(outputs, first, "run {index}");
        }
        if index == 100 {
            before = resident_bytes();
        }
    }
    let after = resident_bytes();
    println!("{count} invokes: resident {before} bytes after run 100, {after} after the last");
    assert!(after as f64 <= before as f64 * 1.02, "{before} bytes grew to {after}");
}

/// Keeps as many runs pending as the queue allows, each with other inputs than the run before.
fn in_flight(model: &Model, delegate: &GpuDelegate) {
    let count = times("ATTACHE_INVOKES", 120);
    let expected = [0, 1].map(|seed| run(&mut interpreter(model, delegate, seed)));
    let mut interpreter = interpreter(model, delegate, 0);
    let mut under_way: VecDeque<Run> = VecDeque::new();
    let mut before = 0;
    for index in 0..count {
        if under_way.len() == interpreter.queue_depth() {
            interpreter.wait(under_way.pop_front().unwrap()).unwrap();
            assert_eq!(outputs(&interpreter), expected[(index - interpreter.queue_depth()) % 2], "run {index}");
        }
        write(&mut interpreter, index % 2);
        under_way.push_back(interpreter.invoke_async().unwrap());
        if index == 100 {
            before = resident_bytes();
        }
    }
    let after = resident_bytes();
    println!("{count} runs under way: resident {before} bytes after run 100, {after} after the last");
    assert!(after as f64 <= before as f64 * 1.02, "{before} bytes grew to {after}");
}

fn cycles(model: &Model, delegate: &GpuDelegate) {
    let count = times("ATTACHE_CYCLES", 12);
    let expected = run(&mut interpreter(model, delegate, 0));
    let mut before = 0;
    for index in 0..count {
        let mut interpreter = interpreter(model, delegate, 0);
        assert_eq!(run(&mut interpreter), expected);
        // Every other interpreter is dropped while a run is pending.
        if index % 2 == 1 {
            drop(interpreter.invoke_async().unwrap());
        }
        drop(interpreter);
        if index == count / 5 {
            before = resident_bytes();
        }
    }
    let after = resident_bytes();
    println!("{count} cycles: resident {before} bytes after a fifth of them, {after} after the last");
    assert!(after as f64 <= before as f64 * 1.05, "{before} bytes grew to {after}");
}

/// Runs two models on two threads and one device of the caller's, each run with other buffers for its first input and
/// output.
fn bound(model: &Model) {
    let descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor { backends: wgpu::Backends::VULKAN, ..descriptor });
    let adapters = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::VULKAN));
    let adapter = adapters.first().expect("a Vulkan device (on Debian: mesa-vulkan-drivers) to test on");
    let descriptor = wgpu::DeviceDescriptor { required_limits: adapter.limits(), ..Default::default() };
    let (device, queue) = pollster::block_on(adapter.request_device(&descriptor)).unwrap();
    let options = GpuDelegateOptions::default();
    let delegate = GpuDelegate::with_device(device.clone(), queue.clone(), options).unwrap();
    let models = [model.clone(), Model::from_path(shared("mlperf_tiny_resnet8_float.tflite")).unwrap()];
    let mut interpreters = models.each_ref().map(|model| (interpreter(model, &delegate, 0), Vec::new()));
    let count = times("ATTACHE_INVOKES", 120);
    // Drivers and wgpu keep what they have used once.
    for (runs, is_measured) in [(count.min(100), false), (count, true)] {
        let before = resident_bytes();
        std::thread::scope(|scope| {
            for (interpreter, expected) in &mut interpreters {
                let (device, queue) = (&device, &queue);
                scope.spawn(move || bound_runs(interpreter, expected, (device, queue), runs));
            }
        });
        let after = resident_bytes();
        println!("{runs} runs with other buffers, twice: resident {before} bytes before, {after} after");
        assert!(!is_measured || after as f64 <= before as f64 * 1.02, "{before} bytes grew to {after}");
    }
}

/// Runs an interpreter with a new buffer as input and as output each time: by turns in an encoder and by itself.
fn bound_runs(
    interpreter: &mut Interpreter,
    expected: &mut Vec<Vec<u8>>,
    (device, queue): (&wgpu::Device, &wgpu::Queue),
    runs: usize,
) {
    use wgpu::BufferUsages as Usages;
    if expected.is_empty() {
        for seed in 0..2 {
            write(interpreter, seed);
            expected.push(run(interpreter).remove(0));
        }
    }
    let buffer = |size: usize, usage| {
        let descriptor = wgpu::BufferDescriptor { label: None, size: size as u64, usage, mapped_at_creation: false };
        device.create_buffer(&descriptor)
    };
    let size = expected[0].len().next_multiple_of(4);
    let inputs = [0, 1].map(|seed| {
        write(interpreter, seed);
        bytes_of(interpreter.input_mut::<f32>(0).unwrap())
    });
    for index in 0..runs {
        let (bytes, expected) = (&inputs[index % 2], &expected[index % 2]);
        let input = buffer(bytes.len(), Usages::STORAGE | Usages::COPY_DST);
        let output = buffer(size, Usages::STORAGE | Usages::COPY_SRC);
        let staging = buffer(size, Usages::MAP_READ | Usages::COPY_DST);
        queue.write_buffer(&input, 0, bytes);
        interpreter.bind_input(0, BufferBinding::new(&input)).unwrap();
        interpreter.bind_output(0, BufferBinding::new(&output)).unwrap();
        let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        match index % 4 < 2 {
            true => interpreter.encode(&mut encoder).unwrap(),
            false => interpreter.invoke().unwrap(),
        }
        encoder.copy_buffer_to_buffer(&output, 0, &staging, 0, size as u64);
        queue.submit([encoder.finish()]);
        staging.map_async(wgpu::MapMode::Read, .., |mapped| mapped.unwrap());
        device.poll(wgpu::PollType::wait_indefinitely()).unwrap();
        assert_eq!(staging.get_mapped_range(..).unwrap()[..expected.len()], expected[..], "run {index}");
    }
    interpreter.unbind_input(0).unwrap();
    interpreter.unbind_output(0).unwrap();
}

/// Runs two models on two threads and one device that the delegate opened, each run with other memory for its first input
/// and output: by turns of the device and of the host.
fn bound_memory(model: &Model) {
    let delegate = delegate(Submission::Replay);
    let models = [model.clone(), Model::from_path(shared("mlperf_tiny_resnet8_float.tflite")).unwrap()];
    let mut interpreters = models.each_ref().map(|model| (interpreter(model, &delegate, 0), Vec::new()));
    let count = times("ATTACHE_INVOKES", 120);
    for (runs, is_measured) in [(count.min(100), false), (count, true)] {
        let before = resident_bytes();
        std::thread::scope(|scope| {
            for (interpreter, expected) in &mut interpreters {
                let delegate = &delegate;
                scope.spawn(move || bound_memory_runs(interpreter, expected, delegate, runs));
            }
        });
        let after = resident_bytes();
        println!("{runs} runs with other memory, twice: resident {before} bytes before, {after} after");
        assert!(!is_measured || after as f64 <= before as f64 * 1.02, "{before} bytes grew to {after}");
    }
}

/// Runs an interpreter with new memory for its input and for its output each time.
fn bound_memory_runs(interpreter: &mut Interpreter, expected: &mut Vec<Vec<u8>>, delegate: &GpuDelegate, runs: usize) {
    if expected.is_empty() {
        for seed in 0..2 {
            write(interpreter, seed);
            expected.push(run(interpreter).remove(0));
        }
    }
    let device = delegate.device();
    let memory = |size: usize, is_host: bool| match device.host_alignment().filter(|_| is_host) {
        Some(alignment) => DeviceMemory::of_host(device, AlignedBytes::new(size, alignment)).unwrap(),
        None => DeviceMemory::new(device, size.next_multiple_of(4)).unwrap(),
    };
    let inputs = [0, 1].map(|seed| {
        write(interpreter, seed);
        bytes_of(interpreter.input_mut::<f32>(0).unwrap())
    });
    let mut read = vec![0; expected[0].len()];
    for index in 0..runs {
        let (bytes, expected) = (&inputs[index % 2], &expected[index % 2]);
        let is_host = index % 4 < 2;
        let (input, output) = (memory(bytes.len(), is_host), memory(read.len(), is_host));
        input.write(0, bytes).unwrap();
        interpreter.bind_input(0, MemoryBinding::new(&input)).unwrap();
        interpreter.bind_output(0, MemoryBinding::new(&output)).unwrap();
        interpreter.invoke().unwrap();
        output.read(0, &mut read).unwrap();
        assert_eq!(&read, expected, "run {index}");
    }
    interpreter.unbind_input(0).unwrap();
    interpreter.unbind_output(0).unwrap();
}

fn bytes_of(floats: &[f32]) -> Vec<u8> {
    floats.iter().flat_map(|float| float.to_le_bytes()).collect()
}

//! Memory that cannot be bound, and uses at the wrong time: errors that say why, after which everything works as before.

use std::sync::Arc;

use attache::gpu::{AlignedBytes, BufferBinding, DeviceMemory, MemoryBinding, Submission, wgpu};
use attache::{DataType, ErrorKind, GpuDelegate, Interpreter, ModelBuilder, TensorBuilder};

use super::{
    at, builder, bytes, delegate, expected, filled, interpreter, numbers, on_host, options, read, refused, two_outputs,
};
use crate::common::Net;
use crate::validation;

use ErrorKind::Usage;

/// Runs the interpreter of a model of four elements, to show that it still works.
fn works(gpu: &GpuDelegate, interpreter: &mut Interpreter) {
    let (x, w) = (numbers(4, 5), numbers(4, 6));
    let (input, output) = (filled(gpu.device(), &x), filled(gpu.device(), &[0.0; 4]));
    interpreter.bind_input(0, at(&input)).unwrap();
    interpreter.bind_input(1, at(&filled(gpu.device(), &w))).unwrap();
    interpreter.bind_output(1, at(&output)).unwrap();
    interpreter.invoke().unwrap();
    assert_eq!(read(&output, 4), expected(&x, &w)[1]);
}

#[test]
fn memory_that_does_not_fit_is_refused() {
    let _alone = validation::alone();
    let gpu = delegate();
    let mut interpreter = interpreter(&two_outputs(4), &gpu);
    works(&gpu, &mut interpreter);
    let memory = |size| DeviceMemory::new(gpu.device(), size).unwrap();
    let small = memory(12);
    refused(interpreter.bind_input("x", at(&small)), Usage, &["input 0 (\"x\")", "12 bytes", "16 from the offset 0"]);
    refused(interpreter.bind_output(0, at(&small)), Usage, &["output 0", "12 bytes"]);
    let large = memory(1024);
    for (offset, text) in [(1012, "offset 1012"), (usize::MAX - 3, "has 1024 bytes"), (2, "multiple of 4")] {
        refused(interpreter.bind_input(0, at(&large).offset(offset)), Usage, &[text]);
    }
    interpreter.bind_output(0, at(&large)).unwrap();
    refused(interpreter.bind_output(1, at(&large).offset(12)), Usage, &["two outputs", "overlap"]);
    interpreter.unbind_output(0).unwrap();
    works(&gpu, &mut interpreter);
    refused(large.write(1000, &[0; 25]), Usage, &["1024 bytes", "offset 1000"]);
    refused(large.read(usize::MAX, &mut [0; 2]), Usage, &["1024 bytes"]);
    refused(large.with_host(|_| ()), Usage, &["not the host's"]);
    refused(DeviceMemory::new(gpu.device(), usize::MAX), Usage, &["more than the device's"]);
    validation::assert_silent();
}

#[test]
fn host_memory_is_aligned() {
    let _alone = validation::alone();
    let gpu = delegate();
    let alignment = gpu.device().host_alignment().expect("a device that imports host memory");
    for size in [0, alignment / 2, alignment + 4] {
        let owner: Vec<u8> = vec![0; size];
        refused(DeviceMemory::of_host(gpu.device(), owner), Usage, &["host memory", "multiples", "AlignedBytes"]);
    }
    let aligned = DeviceMemory::of_host(gpu.device(), AlignedBytes::new(1, alignment)).unwrap();
    assert_eq!(aligned.size(), alignment);
    validation::assert_silent();
}

#[test]
fn memory_of_other_devices_is_refused() {
    let _alone = validation::alone();
    let gpu = delegate();
    let other = Arc::new(GpuDelegate::new(options().as_hardware(true)).unwrap());
    assert!(!gpu.shares_device_with(&other));
    let mut interpreter = interpreter(&two_outputs(4), &gpu);
    works(&gpu, &mut interpreter);
    let theirs = DeviceMemory::new(other.device(), 64).unwrap();
    refused(interpreter.bind_input(0, at(&theirs)), Usage, &["another device"]);
    refused(interpreter.bind_output(1, at(&theirs)), Usage, &["another device"]);
    works(&gpu, &mut interpreter);
    // The device of the memory stays open with it.
    drop(other);
    theirs.write(0, &[1; 64]).unwrap();
    validation::assert_silent();
}

#[test]
fn each_way_to_run_binds_its_own_memory() {
    let _alone = validation::alone();
    let gpu = delegate();
    let own = crate::bound::Own::open();
    let buffer = own.device.create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size: 64,
        usage: wgpu::BufferUsages::STORAGE,
        mapped_at_creation: false,
    });
    let mut replayed = interpreter(&two_outputs(4), &gpu);
    refused(
        replayed.bind_input(0, BufferBinding::new(&buffer)),
        Usage,
        &["wgpu buffer", "with_device", "DeviceMemory"],
    );
    let memory = DeviceMemory::new(gpu.device(), 64).unwrap();
    let encoder = Arc::new(GpuDelegate::new(options().submission(Submission::Encoder)).unwrap());
    let mut encoded = builder(&two_outputs(4), &encoder).build().unwrap();
    refused(encoded.bind_input(0, at(&memory)), Usage, &["replays recorded commands"]);
    let with_device = own.delegate(Default::default());
    refused(DeviceMemory::new(with_device.device(), 64), ErrorKind::Unsupported, &["caller"]);
    let mut commands = own.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    replayed.bind_input(0, at(&memory)).unwrap();
    replayed.bind_input(1, at(&memory)).unwrap();
    refused(replayed.encode(&mut commands), Usage, &["encoder", "with_device"]);
    works(&gpu, &mut replayed);
    validation::assert_silent();
}

#[test]
fn tensors_of_other_types_are_refused() {
    let _alone = validation::alone();
    let gpu = delegate();
    let mut builder = ModelBuilder::new("bits");
    let graph = builder.subgraph("main");
    let [x, y] = ["x", "y"].map(|name| builder.tensor(graph, TensorBuilder::new(name, DataType::Bool, [4])));
    let operator = attache::model::schema::BuiltinOperator::LOGICAL_OR;
    builder.operator(graph, attache::OperatorBuilder::new(operator, [x, x], [y]));
    builder.inputs(graph, &[x]).outputs(graph, &[y]);
    let model = attache::Model::from_bytes(builder.finish()).unwrap();
    let mut interpreter = Interpreter::builder(&model).delegate(gpu.clone()).build().unwrap();
    assert_eq!(interpreter.report().nodes_delegated, 1);
    let memory = DeviceMemory::new(gpu.device(), 64).unwrap();
    refused(interpreter.bind_input(0, at(&memory)), Usage, &["BOOL", "convert"]);
    validation::assert_silent();
}

/// Host memory that is lent cannot be used by a run, and runs keep what they use.
#[test]
fn memory_is_not_used_by_both_sides_at_once() {
    let _alone = validation::alone();
    let gpu = delegate();
    let mut interpreter = interpreter(&two_outputs(4), &gpu);
    works(&gpu, &mut interpreter);
    let host = on_host(gpu.device(), &[0.0; 4]);
    interpreter.bind_input(0, at(&host)).unwrap();
    host.with_host(|bytes| {
        refused(interpreter.invoke(), ErrorKind::Usage, &["lent to the host"]);
        refused(host.with_host(|_| ()), Usage, &["lent to the host"]);
        bytes[..4].copy_from_slice(&1.0f32.to_le_bytes());
    })
    .unwrap();
    interpreter.invoke().unwrap();
    // A panic of the host ends the loan too.
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| host.with_host(|_| panic!("planned"))));
    assert!(panicked.is_err());
    interpreter.invoke().unwrap();
    // Memory that is dropped while a run uses it is freed when the run has ended.
    for _ in 0..20 {
        let memory = filled(gpu.device(), &numbers(4, 1));
        interpreter.bind_input(0, at(&memory)).unwrap();
        let run = interpreter.invoke_async().unwrap();
        drop(memory);
        interpreter.unbind_input(0).unwrap();
        interpreter.wait(run).unwrap();
    }
    works(&gpu, &mut interpreter);
    validation::assert_silent();
}

/// An output that is an input is copied, unless both are bound to the same bytes.
#[test]
fn outputs_that_are_inputs_are_copied() {
    let _alone = validation::alone();
    let gpu = delegate();
    let mut net = Net::new();
    let x = net.tensor("x", &[1, 6]);
    let y = net.reshape(x, &[2, 3], &[2, 3]);
    let z = net.relu(y, &[2, 3]);
    let mut interpreter = interpreter(&net.finish(&[x], &[y, z]), &gpu);
    let x = numbers(6, 1);
    let (input, output) = (filled(gpu.device(), &x), filled(gpu.device(), &[0.0; 70]));
    interpreter.bind_input(0, at(&input)).unwrap();
    interpreter.invoke().unwrap();
    assert_eq!(interpreter.read::<f32>(0).unwrap(), x, "the output is read on the host");
    interpreter.bind_output(0, at(&output)).unwrap();
    interpreter.bind_output(1, MemoryBinding::new(&output).offset(256)).unwrap();
    interpreter.invoke().unwrap();
    assert_eq!(read(&output, 6), x);
    refused(interpreter.bind_output(0, at(&input)), Usage, &["elements of an input"]);
    input.write(0, &bytes(&numbers(6, 2))).unwrap();
    interpreter.invoke().unwrap();
    assert_eq!(read(&output, 6), numbers(6, 2));
    validation::assert_silent();
}

//! Memory that cannot be bound, and runs that cannot be encoded: errors that say why.

use attache::gpu::{Backend, BufferBinding, wgpu};
use attache::{Error, ErrorKind, GpuDelegate, GpuDelegateOptions, Interpreter, Model};

use super::{ALL, Own, adapter};
use crate::common::{Net, on_cpu};
use crate::validation;

/// Builds a model of `y = relu(x + x)` of `count` elements.
pub(super) fn model(count: usize) -> Model {
    let mut net = Net::new();
    let x = net.tensor("x", &[count]);
    let sum = net.add(x, x, &[count]);
    let y = net.relu(sum, &[count]);
    net.finish(&[x], &[y])
}

pub(super) fn refused(result: Result<(), Error>, kind: ErrorKind, texts: &[&str]) {
    let error = result.unwrap_err();
    let text = error.to_string();
    assert!(error.kind() == kind && texts.iter().all(|part| text.contains(part)), "{error:?} where {texts:?} belong");
}

/// Runs the interpreter with other bindings, to show that it still works.
pub(super) fn works(own: &Own, interpreter: &mut Interpreter) {
    let (input, output) = (own.floats(&[1.5, -2.0, 0.25, 4.0]), own.floats(&[0.0; 4]));
    interpreter.bind_input(0, BufferBinding::new(&input)).unwrap();
    interpreter.bind_output(0, BufferBinding::new(&output)).unwrap();
    interpreter.invoke().unwrap();
    assert_eq!(own.read_floats(&output), [3.0, 0.0, 0.5, 8.0]);
    own.run(&mut [interpreter]);
    assert_eq!(own.read_floats(&output), [3.0, 0.0, 0.5, 8.0]);
}

#[test]
fn buffers_that_do_not_fit_are_refused() {
    let _alone = validation::alone();
    let own = Own::open();
    let mut interpreter = own.interpreter(&model(4));
    works(&own, &mut interpreter);
    let buffer = |size: usize, usage| own.buffer_at(0, &vec![0; size], usage);
    use ErrorKind::Usage;
    let small = buffer(12, ALL);
    refused(
        interpreter.bind_input("x", BufferBinding::new(&small)),
        Usage,
        &["input 0 (\"x\")", "12 bytes", "takes 16"],
    );
    refused(interpreter.bind_output(0, BufferBinding::new(&small)), Usage, &["output 0", "12 bytes"]);
    let large = buffer(1024, ALL);
    for (offset, text) in [(1012, "from the offset 1012"), (u64::MAX - 3, "takes 16"), (2, "multiple of 4")] {
        refused(interpreter.bind_input(0, BufferBinding::new(&large).offset(offset)), Usage, &[text]);
    }
    let uniform = buffer(64, wgpu::BufferUsages::UNIFORM);
    refused(interpreter.bind_input(0, BufferBinding::new(&uniform)), Usage, &["neither", "STORAGE", "COPY_SRC"]);
    let storage = own.device.create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size: 64,
        usage: wgpu::BufferUsages::STORAGE,
        mapped_at_creation: false,
    });
    interpreter.bind_input(0, BufferBinding::new(&storage)).unwrap();
    refused(interpreter.bind_input(0, BufferBinding::new(&storage).offset(4)), Usage, &["offset 4", "COPY_SRC"]);
    // As an output, it would be copied because the input has the same buffer.
    refused(interpreter.bind_output(0, BufferBinding::new(&storage)), Usage, &["use as well", "COPY_DST"]);
    works(&own, &mut interpreter);
    validation::assert_silent();
}

#[test]
fn buffers_of_other_devices_are_refused() {
    let _alone = validation::alone();
    let adapter = adapter();
    let (own, same_instance, other_instance) = (Own::of(&adapter), Own::of(&adapter), Own::open());
    let mut interpreter = own.interpreter(&model(4));
    works(&own, &mut interpreter);
    for other in [&same_instance, &other_instance] {
        // With wgpu's own handler of errors, which panics, and with another.
        for handles in [false, true] {
            if handles {
                other.device.on_uncaptured_error(std::sync::Arc::new(|_| {}));
            }
            // wgpu gives buffers of an instance numbers; some of these are the numbers of other buffers of `own`.
            for _ in 0..8 {
                let foreign = other.floats(&[1.0; 4]);
                let bound = interpreter.bind_input(0, BufferBinding::new(&foreign));
                refused(bound, ErrorKind::Usage, &["another device"]);
                let bound = interpreter.bind_output(0, BufferBinding::new(&foreign));
                refused(bound, ErrorKind::Usage, &["another device"]);
            }
        }
        works(&own, &mut interpreter);
    }
    validation::assert_silent();
}

#[test]
fn buffers_that_are_mapped_or_destroyed_are_refused() {
    let _alone = validation::alone();
    let own = Own::open();
    let mut interpreter = own.interpreter(&model(4));
    let descriptor = wgpu::BufferDescriptor { label: None, size: 16, usage: ALL, mapped_at_creation: true };
    let mapped = own.device.create_buffer(&descriptor);
    refused(interpreter.bind_input(0, BufferBinding::new(&mapped)), ErrorKind::Usage, &["mapped"]);
    mapped.get_mapped_range_mut(..).unwrap().copy_from_slice(&[0; 16]);
    mapped.unmap();
    interpreter.bind_input(0, BufferBinding::new(&mapped)).unwrap();
    mapped.destroy();
    let error = interpreter.invoke().unwrap_err();
    assert!(error.to_string().contains("destroyed"), "{error}");
    let destroyed = own.floats(&[0.0; 4]);
    destroyed.destroy();
    let error = interpreter.bind_output(0, BufferBinding::new(&destroyed)).unwrap_err();
    assert!(error.to_string().contains("destroyed"), "{error}");
    works(&own, &mut interpreter);
    validation::assert_silent();
}

#[test]
fn what_is_bound_is_not_written_or_read_by_the_host() {
    let _alone = validation::alone();
    let own = Own::open();
    let mut interpreter = own.interpreter(&model(4));
    works(&own, &mut interpreter);
    let bound = ["is bound", "unbind it"];
    refused(interpreter.write(0, &[0.0f32; 4]), ErrorKind::Usage, &bound);
    refused(interpreter.input(0).map(|_| ()), ErrorKind::Usage, &bound);
    refused(interpreter.read::<f32>(0).map(|_| ()), ErrorKind::Usage, &bound);
    refused(interpreter.read_into(0, &mut [0.0f32; 4]), ErrorKind::Usage, &bound);
    interpreter.unbind_input(0).unwrap();
    let mut encoder = own.encoder();
    refused(interpreter.encode(&mut encoder), ErrorKind::Usage, &["input 0 (\"x\") is not bound", "invoke"]);
    // The output has another shape now, and so another buffer.
    interpreter.resize_input(0, &[2]).unwrap();
    interpreter.unbind_output(0).unwrap();
    interpreter.write(0, &[1.0f32, -1.0]).unwrap();
    interpreter.invoke().unwrap();
    assert_eq!(interpreter.read::<f32>(0).unwrap(), [2.0, 0.0]);
    drop(encoder.finish());
    validation::assert_silent();
}

#[test]
fn graphs_that_no_delegate_runs_as_a_whole_are_refused() {
    let _alone = validation::alone();
    let own = Own::open();
    let buffer = own.floats(&[0.0; 4]);
    let binding = || BufferBinding::new(&buffer);
    let mut encoder = own.encoder();
    let kind = ErrorKind::NotDelegated;
    let mut cpu = on_cpu(&model(4));
    refused(cpu.bind_input(0, binding()), kind, &["one delegate", "no delegate"]);
    refused(cpu.encode(&mut encoder), kind, &["ADD", "no delegate"]);
    let options = GpuDelegateOptions::default().last_delegate_node_index(0);
    let mut split = Interpreter::builder(&model(4)).delegate(own.delegate(options)).build().unwrap();
    refused(split.bind_output(0, binding()), kind, &["operator 1 (RELU)", "runs on the CPU"]);
    refused(split.encode(&mut encoder), kind, &["operator 1 (RELU)"]);
    let mut falls_back = own.builder(&model(4)).cpu_fallback(true).build().unwrap();
    refused(falls_back.bind_input(0, binding()), ErrorKind::Usage, &["cpu_fallback"]);
    // A delegate that opened its device itself.
    let options = GpuDelegateOptions::default().software(true).backend(Backend::Vulkan).validation(true);
    let mut alone = Interpreter::builder(&model(4)).delegate(GpuDelegate::new(options).unwrap()).build().unwrap();
    refused(alone.bind_input(0, binding()), ErrorKind::Usage, &["with_device"]);
    alone.write(0, &[1.0f32; 4]).unwrap();
    alone.invoke().unwrap();
    drop(encoder.finish());
    validation::assert_silent();
}

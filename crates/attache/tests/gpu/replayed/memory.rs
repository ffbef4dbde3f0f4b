//! Runs with memory of the device and of the host: they have the same bits as runs without, and copy nothing.

use attache::gpu::{DeviceMemory, MemoryBinding, Quantized};
use attache::{GpuDelegate, Interpreter};

use super::{
    at, builder, bytes, delegate, expected, filled, floats, interpreter, layers, numbers, on_host, options, read,
    two_outputs,
};
use crate::goldens::{Case, cases};
use crate::validation;

#[test]
fn runs_use_bound_memory() {
    let _alone = validation::alone();
    let gpu = delegate();
    for (count, is_host) in [(1, false), (6, true), (6, false), (1000, true), (1000, false)] {
        let device = gpu.device();
        let memory = |values: &[f32]| if is_host { on_host(device, values) } else { filled(device, values) };
        let mut interpreter = interpreter(&two_outputs(count), &gpu);
        let (x, w) = (numbers(count, 0), numbers(count, 1));
        let (input, output) = (memory(&x), memory(&vec![9.0; count]));
        interpreter.write("w", &w).unwrap();
        interpreter.bind_input("x", at(&input)).unwrap();
        interpreter.bind_output(1, at(&output)).unwrap();
        for round in 0..2 {
            // The second round overwrites the input. Every slot reads the same memory.
            let x = numbers(count, round);
            input.write(0, &bytes(&x)).unwrap();
            let [y, z] = expected(&x, &w);
            interpreter.invoke().unwrap();
            assert_eq!(interpreter.read::<f32>(0).unwrap(), y);
            assert_eq!(read(&output, count), z);
            let runs: Vec<_> = (0..3).map(|_| interpreter.invoke_async().unwrap()).collect();
            for run in runs {
                interpreter.wait(run).unwrap();
                assert_eq!(interpreter.read::<f32>(0).unwrap(), y);
            }
            interpreter.invoke_repeatedly(2).unwrap();
            assert_eq!(read(&output, count), z);
        }
        assert!(interpreter.read::<f32>(1).unwrap_err().to_string().contains("bound"));
        // What was bound is written and read again.
        interpreter.unbind_input("x").unwrap();
        interpreter.unbind_output(1).unwrap();
        assert!(interpreter.read::<f32>(1).unwrap_err().to_string().contains("no value"));
        interpreter.write("x", &x).unwrap();
        interpreter.invoke().unwrap();
        assert_eq!(interpreter.read::<f32>(1).unwrap(), expected(&x, &w)[1]);
    }
    validation::assert_silent();
}

/// On a device whose memory is the host's, runs copy no inputs and outputs, bound or not; memory at an offset that kernels
/// cannot use is copied on the device.
#[test]
fn no_bytes_are_copied() {
    let _alone = validation::alone();
    let gpu = delegate();
    let model = layers(64);
    let x = numbers(64, 3);
    let mut interpreter = interpreter(&model, &gpu);
    let io_bytes = |interpreter: &Interpreter| interpreter.report().io_bytes.unwrap();
    interpreter.write(0, &x).unwrap();
    interpreter.invoke().unwrap();
    let plain: Vec<f32> = interpreter.read::<f32>(0).unwrap().to_vec();
    // A device that has memory of its own copies all that is the host's.
    let across = if ["software", "integrated GPU"].contains(&gpu.adapter().kind) { 0 } else { 4 * 64 };
    assert_eq!(io_bytes(&interpreter), 2 * across, "inputs and outputs are mapped");
    let [input, output] = [x.clone(), vec![0.0; 64]].map(|values| on_host(gpu.device(), &values));
    interpreter.bind_input(0, at(&input)).unwrap();
    interpreter.bind_output(0, at(&output)).unwrap();
    interpreter.invoke().unwrap();
    assert_eq!(output.with_host(|host| floats(&host[..256])).unwrap(), plain);
    assert_eq!(io_bytes(&interpreter), 4 * across, "host memory is used where it is");
    let device = [&x, &vec![0.0; 64]].map(|values| filled(gpu.device(), values));
    interpreter.bind_input(0, at(&device[0])).unwrap();
    interpreter.bind_output(0, at(&device[1])).unwrap();
    interpreter.invoke().unwrap();
    assert_eq!((read(&device[1], 64), io_bytes(&interpreter)), (plain.clone(), 4 * across));
    output.with_host(|host| host.fill(0)).unwrap();
    interpreter.bind_output(0, at(&output).offset(4)).unwrap();
    interpreter.invoke().unwrap();
    assert_eq!(output.with_host(|host| floats(&host[4..260])).unwrap(), plain);
    assert_eq!(
        io_bytes(&interpreter),
        4 * across + 256,
        "host memory is copied to an offset that kernels cannot write at"
    );
    validation::assert_silent();
}

/// Binding does not lose what was written, whether it is written before or while an input is bound.
#[test]
fn inputs_keep_their_value_while_they_are_bound() {
    let _alone = validation::alone();
    let gpu = delegate();
    let mut interpreter = interpreter(&two_outputs(4), &gpu);
    let (x, w, other) = (numbers(4, 2), numbers(4, 3), numbers(4, 4));
    interpreter.write("x", &x).unwrap();
    interpreter.write("w", &w).unwrap();
    let shifted: Vec<f32> = [7.0].iter().chain(&other).copied().collect();
    let (other_memory, shifted) = (filled(gpu.device(), &other), filled(gpu.device(), &shifted));
    // An offset that is no multiple of the device's alignment is copied, over the input's own memory.
    for binding in [at(&other_memory), at(&shifted).offset(4)] {
        interpreter.bind_input("x", binding).unwrap();
        interpreter.invoke().unwrap();
        assert_eq!(interpreter.read::<f32>(0).unwrap(), expected(&other, &w)[0]);
        interpreter.unbind_input("x").unwrap();
        interpreter.invoke().unwrap();
        assert_eq!(interpreter.read::<f32>(0).unwrap(), expected(&x, &w)[0]);
    }
    validation::assert_silent();
}

/// Two models on one device: the output of one is the input of the other, without a wait between them.
#[test]
fn models_are_chained() {
    let _alone = validation::alone();
    let gpu = delegate();
    let (first, second) = (layers(32), two_outputs(32));
    let (mut first, mut second) = (interpreter(&first, &gpu), interpreter(&second, &gpu));
    let middle = DeviceMemory::new(gpu.device(), 128).unwrap();
    let last = DeviceMemory::new(gpu.device(), 128).unwrap();
    let w = numbers(32, 1);
    second.write("w", &w).unwrap();
    let mut alone = interpreter(&layers(32), &gpu);
    first.bind_output(0, at(&middle)).unwrap();
    second.bind_input("x", at(&middle)).unwrap();
    second.bind_output(1, at(&last)).unwrap();
    for round in 0..20 {
        let x = numbers(32, round);
        alone.write(0, &x).unwrap();
        alone.invoke().unwrap();
        first.write(0, &x).unwrap();
        let runs = (first.invoke_async().unwrap(), second.invoke_async().unwrap());
        second.wait(runs.1).unwrap();
        first.wait(runs.0).unwrap();
        let [y, z] = expected(alone.read::<f32>(0).unwrap(), &w);
        assert_eq!((read(&last, 32), second.read::<f32>(0).unwrap().to_vec()), (z, y), "round {round}");
    }
    validation::assert_silent();
}

/// The same memory may be input and output, and hold several of them.
#[test]
fn bindings_share_memory() {
    let _alone = validation::alone();
    let gpu = delegate();
    let (x, w) = (numbers(8, 0), numbers(8, 1));
    // Inputs at 0 and 256 bytes, outputs at 512 and 768.
    let shared = DeviceMemory::new(gpu.device(), 1024).unwrap();
    shared.write(0, &bytes(&x)).unwrap();
    shared.write(256, &bytes(&w)).unwrap();
    let mut interpreter = interpreter(&two_outputs(8), &gpu);
    interpreter.bind_input(0, at(&shared)).unwrap();
    interpreter.bind_input(1, at(&shared).offset(256)).unwrap();
    interpreter.bind_output(0, at(&shared).offset(512)).unwrap();
    interpreter.bind_output(1, at(&shared).offset(768)).unwrap();
    let part = |offset| {
        let mut part = vec![0; 32];
        shared.read(offset, &mut part).unwrap();
        floats(&part)
    };
    interpreter.invoke().unwrap();
    let [y, z] = expected(&x, &w);
    assert_eq!((part(512), part(768)), (y, z.clone()));
    // An output over the input of the next run.
    interpreter.bind_output(1, at(&shared)).unwrap();
    interpreter.invoke().unwrap();
    assert_eq!(part(0), z);
    interpreter.invoke().unwrap();
    assert_eq!((part(0), part(256)), (expected(&z, &w)[1].clone(), w));
    validation::assert_silent();
}

/// Other memory in each run, with several runs in progress; memory is dropped as soon as its run is started.
#[test]
fn each_run_may_have_other_memory() {
    let _alone = validation::alone();
    let gpu = delegate();
    let (w, device) = (numbers(16, 1), gpu.device());
    let mut interpreter = interpreter(&two_outputs(16), &gpu);
    interpreter.write(1, &w).unwrap();
    let mut runs = Vec::new();
    for round in 0..60 {
        let x = numbers(16, round);
        let is_host = round % 3 == 1;
        let memory = |values: &[f32]| if is_host { on_host(device, values) } else { filled(device, values) };
        let output = memory(&[0.0; 16]);
        interpreter.bind_input(0, at(&memory(&x))).unwrap();
        interpreter.bind_output(0, at(&output)).unwrap();
        runs.push((interpreter.invoke_async().unwrap(), output, expected(&x, &w)));
        if runs.len() == 3 {
            let (run, output, [y, z]) = runs.remove(0);
            interpreter.wait(run).unwrap();
            assert_eq!(interpreter.read::<f32>(1).unwrap(), z);
            assert_eq!(read(&output, 16), y);
        }
    }
    drop(interpreter);
    for (_, output, [y, _]) in runs {
        assert_eq!(read(&output, 16), y, "runs in progress end before the interpreter is dropped");
    }
    validation::assert_silent();
}

/// The host's view of memory waits for the runs that use it.
#[test]
fn the_host_sees_what_runs_have_written() {
    let _alone = validation::alone();
    let gpu = delegate();
    let mut interpreter = interpreter(&two_outputs(256), &gpu);
    let (w, output) = (numbers(256, 1), on_host(gpu.device(), &[0.0; 256]));
    let input = on_host(gpu.device(), &[0.0; 256]);
    interpreter.write("w", &w).unwrap();
    interpreter.bind_input("x", at(&input)).unwrap();
    interpreter.bind_output(1, at(&output)).unwrap();
    for round in 0..50 {
        let x = numbers(256, round);
        input.with_host(|host| host[..1024].copy_from_slice(&bytes(&x))).unwrap();
        let run = interpreter.invoke_async().unwrap();
        let seen = output.with_host(|host| floats(&host[..1024])).unwrap();
        assert_eq!(seen, expected(&x, &w)[1]);
        interpreter.wait(run).unwrap();
    }
    validation::assert_silent();
}

/// Profiles, and devices that are treated like hardware, with several streams.
#[test]
fn other_ways_to_run_bind_memory_too() {
    let _alone = validation::alone();
    validation::listen();
    let hardware = GpuDelegate::new(options().as_hardware(true)).unwrap();
    for gpu in [hardware.clone(), hardware.profiled().unwrap()] {
        let gpu = std::sync::Arc::new(gpu);
        let mut interpreter = builder(&layers(64), &gpu).profile(true).build().unwrap();
        let x = numbers(64, 1);
        interpreter.write(0, &x).unwrap();
        interpreter.invoke_repeatedly(5).unwrap();
        let plain = interpreter.read::<f32>(0).unwrap().to_vec();
        let (input, output) = (filled(gpu.device(), &x), filled(gpu.device(), &[0.0; 64]));
        interpreter.bind_input(0, at(&input)).unwrap();
        interpreter.invoke().unwrap();
        assert_eq!(interpreter.read::<f32>(0).unwrap(), plain);
        interpreter.bind_output(0, at(&output)).unwrap();
        interpreter.invoke_repeatedly(5).unwrap();
        assert_eq!(read(&output, 64), plain);
        interpreter.unbind_input(0).unwrap();
        interpreter.unbind_output(0).unwrap();
        let runs: Vec<_> = (0..interpreter.queue_depth()).map(|_| interpreter.invoke_async().unwrap()).collect();
        for run in runs {
            interpreter.wait(run).unwrap();
        }
        assert_eq!(interpreter.read::<f32>(0).unwrap(), plain);
    }
    validation::assert_silent();
}

/// Runs a case on bound memory at an offset, and returns the bytes of its outputs; `None` if something cannot be bound.
fn bound_outputs(gpu: &GpuDelegate, case: &Case, interpreter: &mut Interpreter, offset: usize) -> Option<Vec<Vec<u8>>> {
    let memory = |size: usize| DeviceMemory::new(gpu.device(), offset + size.max(1).next_multiple_of(4)).unwrap();
    let binding = |memory: &DeviceMemory| MemoryBinding::new(memory).offset(offset);
    for index in 0..interpreter.inputs().len() {
        let input = memory(case.input(index).len());
        input.write(offset, case.input(index)).unwrap();
        interpreter.bind_input(index, binding(&input)).ok()?;
    }
    let outputs = interpreter.outputs().iter().map(|info| info.data_type.byte_size(info.shape.elements()));
    let sizes: Vec<usize> = outputs.collect::<Option<_>>()?;
    let memories: Vec<_> = sizes.iter().map(|size| memory(*size)).collect();
    for (index, memory) in memories.iter().enumerate() {
        memory.write(0, &vec![0xa5; memory.size()]).unwrap();
        interpreter.bind_output(index, binding(memory)).ok()?;
    }
    interpreter.invoke().unwrap();
    let outputs = memories.iter().zip(&sizes).map(|(memory, size)| {
        let mut all = vec![0; memory.size()];
        memory.read(0, &mut all).unwrap();
        assert!(all[..offset].iter().all(|byte| *byte == 0xa5), "{}: bytes before an output changed", case.name);
        all[offset..offset + size].to_vec()
    });
    Some(outputs.collect())
}

/// Tensors of all types that are bound and of all shapes, quantized ones both ways: bound memory has the bits of runs
/// without it, whether it is used in place or copied, on a device whose memory the host shares and on one that has its own.
#[test]
fn golden_cases_have_the_same_bits_in_bound_memory() {
    let _alone = validation::alone();
    validation::listen();
    let delegates =
        [(Quantized::Exact, false), (Quantized::View, true), (Quantized::View, false), (Quantized::Exact, true)];
    let delegates = delegates.map(|(quantized, has_own_memory)| {
        let delegate = GpuDelegate::new(options().quantized(quantized).own_memory(has_own_memory));
        std::sync::Arc::new(delegate.unwrap())
    });
    let mut types = std::collections::BTreeMap::<_, usize>::new();
    for (number, case) in cases().iter().enumerate().filter(|(number, case)| number % 9 == 0 || case.is_graph()) {
        let gpu = &delegates[number % delegates.len()];
        let Ok(mut interpreter) = case.interpreter(|builder| builder.delegate(gpu.clone())) else { continue };
        case.write(&mut interpreter).unwrap();
        interpreter.invoke().unwrap();
        let plain: Vec<Vec<u8>> =
            (0..interpreter.outputs().len()).map(|output| interpreter.read_bytes(output).unwrap().to_vec()).collect();
        for offset in [0, 4] {
            let Some(bound) = bound_outputs(gpu, case, &mut interpreter, offset) else { continue };
            for (info, (bound, plain)) in interpreter.outputs().iter().zip(bound.iter().zip(&plain)) {
                assert_eq!(bound, plain, "{} at {offset}, {} {}", case.name, info.data_type, info.shape);
                *types.entry((info.data_type.name(), offset)).or_default() += 1;
            }
        }
    }
    for name in ["FLOAT32", "INT32", "INT8", "UINT8"] {
        assert!(types.get(&(name, 0)) > Some(&2) && types.get(&(name, 4)) > Some(&2), "{types:?}");
    }
    println!("outputs by type and offset: {types:?}");
    validation::assert_silent();
}

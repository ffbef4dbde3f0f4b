//! Buffers as inputs and outputs: in place, by copies and by conversions, in runs that the interpreter submits and in
//! encoders of the caller's.

use std::collections::BTreeMap;

use attache::gpu::{BufferBinding, Quantized, wgpu};
use attache::{GpuDelegateOptions, Interpreter};

use super::{ALL, Own};
use crate::common::Net;
use crate::goldens::{Case, cases};
use crate::validation;

/// The usages of inputs and outputs that no copy can reach.
const IN_PLACE: [wgpu::BufferUsages; 2] =
    [wgpu::BufferUsages::STORAGE, wgpu::BufferUsages::STORAGE.union(wgpu::BufferUsages::COPY_SRC)];

/// Builds a model of `y = relu(x + w)` and `z = y * w`, both outputs, of `count` elements.
pub(super) fn two_outputs(count: usize) -> attache::Model {
    let mut net = Net::new();
    let [x, w] = ["x", "w"].map(|name| net.tensor(name, &[count]));
    let sum = net.add(x, w, &[count]);
    let y = net.relu(sum, &[count]);
    let z = net.multiply(y, w, &[count]);
    net.finish(&[x, w], &[y, z])
}

pub(super) fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|index| ((index * 7 + seed * 5) % 23) as f32 / 8.0 - 1.25).collect()
}

pub(super) fn expected(x: &[f32], w: &[f32]) -> [Vec<f32>; 2] {
    let y: Vec<f32> = x.iter().zip(w).map(|(x, w)| (x + w).max(0.0)).collect();
    let z = y.iter().zip(w).map(|(y, w)| y * w).collect();
    [y, z]
}

#[test]
fn runs_use_bound_buffers() {
    let _alone = validation::alone();
    let own = Own::open();
    for count in [1, 6, 1000] {
        let mut interpreter = own.interpreter(&two_outputs(count));
        let (x, w) = (numbers(count, 0), numbers(count, 1));
        let (input, output) = (own.floats(&x), own.floats(&vec![9.0; count]));
        interpreter.write("w", &w).unwrap();
        interpreter.bind_input("x", BufferBinding::new(&input)).unwrap();
        interpreter.bind_output(1, BufferBinding::new(&output)).unwrap();
        for round in 0..2 {
            // The second round overwrites the input on the device. Every slot reads the same buffer.
            let x = numbers(count, round);
            own.queue.write_buffer(&input, 0, &x.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>());
            let [y, z] = expected(&x, &w);
            interpreter.invoke().unwrap();
            assert_eq!(interpreter.read::<f32>(0).unwrap(), y);
            assert_eq!(own.read_floats(&output), z);
            let runs: Vec<_> = (0..3).map(|_| interpreter.invoke_async().unwrap()).collect();
            for run in runs {
                interpreter.wait(run).unwrap();
                assert_eq!(interpreter.read::<f32>(0).unwrap(), y);
            }
            interpreter.invoke_repeatedly(2).unwrap();
            assert_eq!(own.read_floats(&output), z);
        }
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

/// Buffers that nothing can copy: dispatches use them where they are.
#[test]
fn buffers_are_used_in_place() {
    let _alone = validation::alone();
    let own = Own::open();
    let (x, w) = (numbers(64, 0), numbers(64, 1));
    let input = |values: &[f32]| {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        own.buffer_at(0, &bytes, IN_PLACE[0])
    };
    let outputs = [0; 2].map(|_| own.buffer_at(0, &[0; 256], IN_PLACE[1]));
    let mut interpreter = own.interpreter(&two_outputs(64));
    for (index, values) in [&x, &w].into_iter().enumerate() {
        interpreter.bind_input(index, BufferBinding::new(&input(values))).unwrap();
        interpreter.bind_output(index, BufferBinding::new(&outputs[index])).unwrap();
    }
    own.run(&mut [&mut interpreter]);
    assert_eq!([0, 1].map(|output: usize| own.read_floats(&outputs[output])), expected(&x, &w));
    validation::assert_silent();
}

/// Binding does not lose what was written, whether it is written before or while an input is bound.
#[test]
fn inputs_keep_their_value_while_they_are_bound() {
    let _alone = validation::alone();
    let own = Own::open();
    let mut interpreter = own.interpreter(&two_outputs(4));
    let (x, w) = (numbers(4, 2), numbers(4, 3));
    interpreter.write("x", &x).unwrap();
    interpreter.write("w", &w).unwrap();
    let other = own.floats(&numbers(4, 4));
    // An offset that is no multiple of the device's alignment is copied.
    let shifted = own.buffer_at(4, &own.read(&other, 0, 16), ALL);
    for binding in [BufferBinding::new(&other), BufferBinding::new(&shifted).offset(4)] {
        interpreter.bind_input("x", binding).unwrap();
        interpreter.invoke().unwrap();
        assert_eq!(interpreter.read::<f32>(0).unwrap(), expected(&numbers(4, 4), &w)[0]);
        interpreter.unbind_input("x").unwrap();
        interpreter.invoke().unwrap();
        assert_eq!(interpreter.read::<f32>(0).unwrap(), expected(&x, &w)[0]);
    }
    validation::assert_silent();
}

/// Commands of a run are between those of the caller, and outputs of one model are inputs of another.
#[test]
fn runs_are_encoded_between_other_commands() {
    let _alone = validation::alone();
    let own = Own::open();
    let (count, model) = (100, two_outputs(100));
    let (mut first, mut second) = (own.interpreter(&model), own.interpreter(&model));
    let (x, w) = (numbers(count, 0), numbers(count, 1));
    let (source, weights) = (own.floats(&x), own.floats(&w));
    let [input, middle, last] = [0; 3].map(|_| own.floats(&vec![0.0; count]));
    for (interpreter, from, to) in [(&mut first, &input, &middle), (&mut second, &middle, &last)] {
        interpreter.bind_input(0, BufferBinding::new(from)).unwrap();
        interpreter.bind_input(1, BufferBinding::new(&weights)).unwrap();
        interpreter.bind_output(1, BufferBinding::new(to)).unwrap();
    }
    let copy = own.floats(&vec![0.0; count]);
    let mut encoder = own.encoder();
    encoder.copy_buffer_to_buffer(&source, 0, &input, 0, source.size());
    first.encode(&mut encoder).unwrap();
    second.encode(&mut encoder).unwrap();
    encoder.copy_buffer_to_buffer(&last, 0, &copy, 0, copy.size());
    // A second run in the same encoder, on another input.
    encoder.copy_buffer_to_buffer(&weights, 0, &input, 0, source.size());
    first.encode(&mut encoder).unwrap();
    own.queue.submit([encoder.finish()]);
    let [_, once] = expected(&x, &w);
    let [_, twice] = expected(&once, &w);
    assert_eq!(own.read_floats(&copy), twice);
    assert_eq!(own.read_floats(&middle), expected(&w, &w)[1]);
    assert!(second.read::<f32>(0).unwrap_err().to_string().contains("no value"));
    assert!(second.read::<f32>(1).unwrap_err().to_string().contains("bound"));
    // Interpreters, models and buffers may be dropped before the submission.
    let mut encoder = own.encoder();
    second.encode(&mut encoder).unwrap();
    encoder.copy_buffer_to_buffer(&last, 0, &copy, 0, copy.size());
    drop((first, second, model, middle, last, weights));
    own.queue.submit([encoder.finish()]);
    assert_eq!(own.read_floats(&copy), expected(&expected(&w, &w)[1], &w)[1]);
    validation::assert_silent();
}

/// The same buffer may be input and output, and hold several of them.
#[test]
fn bindings_share_buffers() {
    let _alone = validation::alone();
    let own = Own::open();
    let model = two_outputs(8);
    let (x, w) = (numbers(8, 0), numbers(8, 1));
    let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
    // Inputs at 0 and 256 bytes, outputs at 512 and 768.
    let mut all = vec![0; 1024];
    all[..32].copy_from_slice(&bytes(&x));
    all[256..288].copy_from_slice(&bytes(&w));
    let shared = own.buffer(&all);
    let mut interpreter = own.interpreter(&model);
    let at = |offset| BufferBinding::new(&shared).offset(offset);
    interpreter.bind_input(0, at(0)).unwrap();
    interpreter.bind_input(1, at(256)).unwrap();
    interpreter.bind_output(0, at(512)).unwrap();
    interpreter.bind_output(1, at(768)).unwrap();
    own.run(&mut [&mut interpreter]);
    let [y, z] = expected(&x, &w);
    assert_eq!((own.read(&shared, 512, 32), own.read(&shared, 768, 32)), (bytes(&y), bytes(&z)));
    // An output over the input of the next run.
    interpreter.bind_output(1, at(0)).unwrap();
    own.run(&mut [&mut interpreter]);
    let next = own.read(&shared, 0, 32);
    assert_eq!(next, bytes(&z));
    own.run(&mut [&mut interpreter]);
    assert_eq!(own.read(&shared, 0, 32), bytes(&expected(&z, &w)[1]));
    assert_eq!(own.read(&shared, 256, 32), bytes(&w));
    validation::assert_silent();
}

/// Another buffer in each run, on several slots.
#[test]
fn each_run_may_have_another_buffer() {
    let _alone = validation::alone();
    let own = Own::open();
    let mut interpreter = own.interpreter(&two_outputs(16));
    let w = numbers(16, 1);
    interpreter.write(1, &w).unwrap();
    let mut runs = Vec::new();
    for round in 0..60 {
        let x = numbers(16, round);
        let (input, output) = (own.floats(&x), own.floats(&[0.0; 16]));
        interpreter.bind_input(0, BufferBinding::new(&input)).unwrap();
        interpreter.bind_output(0, BufferBinding::new(&output)).unwrap();
        runs.push((interpreter.invoke_async().unwrap(), output, expected(&x, &w)));
        if runs.len() == 3 {
            let (run, output, [y, z]) = runs.remove(0);
            interpreter.wait(run).unwrap();
            assert_eq!(interpreter.read::<f32>(1).unwrap(), z);
            assert_eq!(own.read_floats(&output), y);
        }
    }
    validation::assert_silent();
}

/// Runs a case on buffers of these usages, bound at an offset, and returns the bytes of its outputs; `None` if something
/// cannot be bound.
fn bound_outputs(
    own: &Own,
    case: &Case,
    interpreter: &mut Interpreter,
    offset: usize,
    [input, output]: [wgpu::BufferUsages; 2],
) -> Option<Vec<Vec<u8>>> {
    for index in 0..interpreter.inputs().len() {
        let buffer = own.buffer_at(offset, case.input(index), input);
        interpreter.bind_input(index, BufferBinding::new(&buffer).offset(offset as u64)).ok()?;
    }
    let outputs = interpreter.outputs().iter().map(|info| info.data_type.byte_size(info.shape.elements()));
    let sizes: Vec<usize> = outputs.collect::<Option<_>>()?;
    let buffers: Vec<_> = sizes.iter().map(|size| own.buffer_at(offset, &vec![0x5a; *size], output)).collect();
    for (index, buffer) in buffers.iter().enumerate() {
        interpreter.bind_output(index, BufferBinding::new(buffer).offset(offset as u64)).ok()?;
    }
    own.run(&mut [interpreter]);
    let outputs = buffers.iter().zip(&sizes).map(|(buffer, size)| {
        let all = own.read(buffer, 0, buffer.size() as usize);
        assert!(all[..offset].iter().all(|byte| *byte == 0xa5), "{}: bytes before an output changed", case.name);
        all[offset..offset + size].to_vec()
    });
    Some(outputs.collect())
}

/// Tensors of all types and shapes, quantized ones both ways: bound buffers have the bits of runs without them, whether
/// they are used in place or copied.
#[test]
fn golden_cases_have_the_same_bits_in_bound_buffers() {
    let _alone = validation::alone();
    let own = Own::open();
    let mut types = BTreeMap::<_, usize>::new();
    let (mut all, mut in_place) = (0, 0);
    let is_chosen = |(number, case): &(usize, &Case)| {
        number % 9 == 0 || case.is_graph() || ["int64", "RFFT2D"].iter().any(|part| case.name.contains(part))
    };
    for (number, case) in cases().iter().enumerate().filter(is_chosen) {
        let quantized = [Quantized::Exact, Quantized::View][number % 2];
        let delegate = own.delegate(GpuDelegateOptions::default().quantized(quantized));
        let Ok(mut interpreter) = case.interpreter(|builder| builder.delegate(delegate.clone())) else { continue };
        case.write(&mut interpreter).unwrap();
        interpreter.invoke().unwrap();
        let plain: Vec<Vec<u8>> =
            (0..interpreter.outputs().len()).map(|output| interpreter.read_bytes(output).unwrap().to_vec()).collect();
        // At an offset of 4 bytes, buffers are copied; elements that are converted cannot be there.
        let ways = [(0, IN_PLACE), (0, [ALL; 2]), (4, [ALL; 2])];
        for (way, (offset, usages)) in ways.into_iter().enumerate() {
            let Some(bound) = bound_outputs(&own, case, &mut interpreter, offset, usages) else { continue };
            for (info, (bound, plain)) in interpreter.outputs().iter().zip(bound.iter().zip(&plain)) {
                assert_eq!(bound, plain, "{} at {offset}, {} {}", case.name, info.data_type, info.shape);
                *types.entry((info.data_type.name(), offset)).or_default() += 1;
            }
            in_place += usize::from(way == 0);
            all += usize::from(way == 1);
        }
    }
    for name in ["FLOAT32", "COMPLEX64", "INT32", "INT8", "UINT8"] {
        assert!(types.get(&(name, 0)) > Some(&2) && types.get(&(name, 4)) > Some(&2), "{types:?}");
    }
    for name in ["BOOL", "INT16", "INT64"] {
        assert!(types.contains_key(&(name, 0)), "{types:?}");
    }
    // Others have an output that is an input, or several that are the same.
    assert!(in_place * 10 > all * 9, "{in_place} of {all} in place");
    println!("{in_place} of {all} cases in place; outputs by type and offset: {types:?}");
    validation::assert_silent();
}

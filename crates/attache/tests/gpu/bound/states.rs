//! What bindings leave as it was: host inputs, earlier bindings, other slots, and bindings of unchanged
//! shape.

use std::thread::scope;

use attache::gpu::{BufferBinding, TextureSource, wgpu};
use attache::{DataType, Error, Interpreter};

use super::buffers::{expected, numbers, two_outputs};
use super::pictures::{Picture, same};
use super::{ALL, Own};
use crate::common::Net;
use crate::validation;

const RGBA: wgpu::TextureFormat = wgpu::TextureFormat::Rgba8Unorm;

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn refused(result: Result<(), Error>, texts: &[&str]) {
    let text = result.unwrap_err().to_string();
    assert!(texts.iter().all(|part| text.contains(part)), "{text} where {texts:?} belong");
}

/// Commands that transfer an input and are submitted after the input was unbound do not change what the host
/// wrote.
#[test]
fn late_submissions_leave_host_inputs_alone() {
    let _alone = validation::alone();
    let own = Own::open();
    let mut interpreter = own.interpreter(&same(&[1, 2, 2, 4], DataType::Float32, None));
    let texture = own.texture([2, 2], RGBA, wgpu::TextureUsages::TEXTURE_BINDING);
    own.upload(&texture, &Picture::draw(2, 2, 1));
    let shifted = own.buffer_at(4, &bytes(&[9.0; 16]), ALL);
    let written = numbers(16, 3);
    for is_texture in [true, false] {
        match is_texture {
            true => interpreter.bind_input(0, TextureSource::new(&texture)).unwrap(),
            false => interpreter.bind_input(0, BufferBinding::new(&shifted).offset(4)).unwrap(),
        }
        let mut encoder = own.encoder();
        interpreter.encode(&mut encoder).unwrap();
        interpreter.unbind_input(0).unwrap();
        interpreter.write(0, &written).unwrap();
        interpreter.invoke().unwrap();
        assert_eq!(interpreter.read::<f32>(0).unwrap(), written);
        own.queue.submit([encoder.finish()]);
        interpreter.invoke().unwrap();
        assert_eq!(interpreter.read::<f32>(0).unwrap(), written, "{is_texture}");
    }
    validation::assert_silent();
}

/// Runs that were encoded with different textures may be submitted in any order.
#[test]
fn encoders_are_submitted_in_any_order() {
    let _alone = validation::alone();
    let own = Own::open();
    let mut interpreter = own.interpreter(&same(&[1, 3, 2, 4], DataType::Float32, None));
    let mut encoded = Vec::new();
    for seed in 0..3 {
        let (picture, output) = (Picture::draw(2, 3, seed), own.floats(&[0.0; 24]));
        let texture = own.texture([2, 3], RGBA, wgpu::TextureUsages::TEXTURE_BINDING);
        own.upload(&texture, &picture);
        interpreter.bind_input(0, TextureSource::new(&texture).normalize(&[0.0], &[1.0])).unwrap();
        interpreter.bind_output(0, BufferBinding::new(&output)).unwrap();
        let mut encoder = own.encoder();
        interpreter.encode(&mut encoder).unwrap();
        encoded.push((encoder.finish(), output, picture));
    }
    let (commands, results): (Vec<_>, Vec<_>) =
        encoded.into_iter().rev().map(|(commands, output, picture)| (commands, (output, picture))).unzip();
    for commands in commands {
        own.queue.submit([commands]);
    }
    for (output, picture) in results {
        assert_eq!(own.read_floats(&output), picture.channels(4, false));
    }
    validation::assert_silent();
}

/// What is bound stays bound where its shape stays, and what has another shape is bound again, written or
/// unbound.
#[test]
fn bindings_survive_a_resize() {
    let _alone = validation::alone();
    let own = Own::open();
    let mut net = Net::new();
    let (x, w) = (net.tensor("x", &[4]), net.tensor("w", &[1]));
    let sum = net.add(x, w, &[4]);
    let (y, z) = (net.relu(sum, &[4]), net.multiply(w, w, &[1]));
    let mut interpreter = own.interpreter(&net.finish(&[x, w], &[y, z]));
    let (x, w) = (own.floats(&[1.0, -2.0, 3.0, -4.0]), own.floats(&[1.5]));
    let [y, z] = [4, 1].map(|count| own.floats(&vec![0.0; count]));
    interpreter.bind_input(0, BufferBinding::new(&x)).unwrap();
    interpreter.bind_input(1, BufferBinding::new(&w)).unwrap();
    interpreter.bind_output(0, BufferBinding::new(&y)).unwrap();
    interpreter.bind_output(1, BufferBinding::new(&z)).unwrap();
    interpreter.invoke().unwrap();
    assert_eq!(own.read_floats(&y), [2.5, 0.0, 4.5, 0.0]);
    interpreter.resize_input("x", &[2]).unwrap();
    let input = ["input 0 (\"x\")", "before its shape changed", "bind it again"];
    refused(interpreter.invoke(), &input);
    refused(interpreter.invoke_async().map(drop), &input);
    refused(interpreter.encode(&mut own.encoder()), &input);
    interpreter.write("x", &[5.0f32, -6.0]).unwrap();
    refused(interpreter.invoke(), &["output 0", "before its shape changed"]);
    interpreter.bind_output(0, BufferBinding::new(&y)).unwrap();
    own.queue.write_buffer(&w, 0, &2.0f32.to_le_bytes());
    interpreter.invoke().unwrap();
    assert_eq!((own.read_floats(&y), own.read_floats(&z)), (vec![7.0, 0.0, 4.5, 0.0], vec![4.0]));
    refused(interpreter.write("w", &[1.0f32]), &["is bound"]);
    interpreter.bind_input("x", BufferBinding::new(&x)).unwrap();
    interpreter.resize_input("x", &[3]).unwrap();
    interpreter.unbind_input("x").unwrap();
    interpreter.unbind_output(0).unwrap();
    interpreter.invoke().unwrap();
    assert_eq!(interpreter.read::<f32>(0).unwrap(), [2.0; 3]);
    validation::assert_silent();
}

/// The value of an earlier run is not that of the memory that an output is bound to.
#[test]
fn outputs_that_are_bound_after_a_run_are_not_read() {
    let _alone = validation::alone();
    let own = Own::open();
    let mut interpreter = own.interpreter(&two_outputs(4));
    interpreter.write(0, &numbers(4, 0)).unwrap();
    interpreter.write(1, &numbers(4, 1)).unwrap();
    interpreter.invoke().unwrap();
    let [y, z] = expected(&numbers(4, 0), &numbers(4, 1));
    interpreter.bind_output(1, BufferBinding::new(&own.floats(&[0.0; 4]))).unwrap();
    let bound = ["output 1 is bound", "unbind it"];
    refused(interpreter.read::<f32>(1).map(drop), &bound);
    refused(interpreter.read_bytes(1).map(drop), &bound);
    refused(interpreter.read_into(1, &mut [0.0f32; 4]), &bound);
    refused(interpreter.output(1).map(drop), &bound);
    assert_eq!(interpreter.read::<f32>(0).unwrap(), y);
    interpreter.unbind_output(1).unwrap();
    assert_eq!(interpreter.read::<f32>(1).unwrap(), z);
    validation::assert_silent();
}

fn start(interpreter: &mut Interpreter) -> Result<(), Error> {
    let run = interpreter.invoke_async()?;
    interpreter.wait(run)
}

/// Buffers that the caller destroys or maps after they were bound, for runs on all slots.
#[test]
fn buffers_that_are_lost_after_binding_fail_on_every_slot() {
    let _alone = validation::alone();
    let own = Own::open();
    let mut interpreter = own.interpreter(&two_outputs(4));
    let w = numbers(4, 1);
    interpreter.write(1, &w).unwrap();
    let lost = own.floats(&[0.0; 4]);
    interpreter.bind_input(0, BufferBinding::new(&lost)).unwrap();
    let first = interpreter.invoke_async().unwrap();
    lost.destroy();
    // The first slot is occupied.
    for _ in 0..3 {
        refused(interpreter.invoke_async().map(drop), &["destroyed"]);
    }
    interpreter.wait(first).unwrap();
    refused(start(&mut interpreter), &["destroyed"]);
    let usage = wgpu::BufferUsages::MAP_WRITE | wgpu::BufferUsages::COPY_SRC;
    let mapped = own.buffer_at(0, &bytes(&numbers(4, 2)), usage);
    interpreter.bind_input(0, BufferBinding::new(&mapped)).unwrap();
    mapped.map_async(wgpu::MapMode::Write, .., |result| result.unwrap());
    own.device.poll(wgpu::PollType::wait_indefinitely()).unwrap();
    refused(start(&mut interpreter), &["mapped"]);
    mapped.unmap();
    let runs: Vec<_> = (0..3).map(|_| interpreter.invoke_async().unwrap()).collect();
    for run in runs {
        interpreter.wait(run).unwrap();
        assert_eq!(interpreter.read::<f32>(0).unwrap(), expected(&numbers(4, 2), &w)[0]);
    }
    validation::assert_silent();
}

/// A buffer does not live longer than its binding, whatever slots have run.
#[test]
fn slots_do_not_keep_buffers_alive() {
    let _alone = validation::alone();
    let own = Own::open();
    let mut interpreter = own.interpreter(&two_outputs(4));
    interpreter.write(1, &numbers(4, 1)).unwrap();
    let allocations = || {
        own.queue.submit([]);
        own.device.poll(wgpu::PollType::wait_indefinitely()).unwrap();
        own.device.generate_allocator_report().unwrap().allocations.len()
    };
    let mut bind = |seed| interpreter.bind_input(0, BufferBinding::new(&own.floats(&numbers(4, seed)))).unwrap();
    bind(0);
    let once = allocations();
    bind(1);
    assert_eq!(allocations(), once);
    let runs: Vec<_> = (0..3).map(|_| interpreter.invoke_async().unwrap()).collect();
    runs.into_iter().for_each(|run| interpreter.wait(run).unwrap());
    let before = allocations();
    interpreter.bind_input(0, BufferBinding::new(&own.floats(&numbers(4, 2)))).unwrap();
    assert_eq!(allocations(), before);
    validation::assert_silent();
}

/// Several threads may bind one buffer at the same time.
#[test]
fn threads_bind_one_buffer() {
    let _alone = validation::alone();
    let own = Own::open();
    let model = two_outputs(4);
    let buffer = own.floats(&numbers(4, 0));
    let mut interpreters = [0; 4].map(|_| own.interpreter(&model));
    scope(|scope| {
        for interpreter in &mut interpreters {
            let buffer = &buffer;
            scope.spawn(move || {
                for _ in 0..1500 {
                    interpreter.bind_input(0, BufferBinding::new(buffer)).unwrap();
                }
            });
        }
    });
    validation::assert_silent();
}

/// Bindings that fail only when all of them are looked at together leave everything as it was.
#[test]
fn bindings_that_do_not_settle_change_nothing() {
    let _alone = validation::alone();
    let own = Own::open();
    let mut net = Net::new();
    let x = net.tensor("x", &[4]);
    let (y, z) = (net.reshape(x, &[2, 2], &[2, 2]), net.add(x, x, &[4]));
    let mut interpreter = own.interpreter(&net.finish(&[x], &[y, z]));
    let values = numbers(4, 2);
    let hidden = own.buffer_at(0, &bytes(&numbers(4, 5)), wgpu::BufferUsages::STORAGE);
    interpreter.write(0, &values).unwrap();
    let works = |interpreter: &mut Interpreter, values: &[f32]| {
        for _ in 0..2 {
            let runs: Vec<_> = (0..3).map(|_| interpreter.invoke_async().unwrap()).collect();
            for run in runs {
                interpreter.wait(run).unwrap();
                assert_eq!(interpreter.read::<f32>(0).unwrap(), values);
                let twice: Vec<f32> = values.iter().map(|value| 2.0 * value).collect();
                assert_eq!(interpreter.read::<f32>(1).unwrap(), twice);
            }
        }
    };
    let text = ["input 0", "output 0", "copied to the host", "COPY_SRC"];
    refused(interpreter.bind_input(0, BufferBinding::new(&hidden)), &text);
    works(&mut interpreter, &values);
    let seen = own.floats(&numbers(4, 6));
    interpreter.bind_input(0, BufferBinding::new(&seen)).unwrap();
    refused(interpreter.bind_input(0, BufferBinding::new(&hidden)), &text);
    works(&mut interpreter, &numbers(4, 6));
    // Two outputs in the same bytes.
    let output = own.floats(&[0.0; 4]);
    interpreter.bind_output(0, BufferBinding::new(&output)).unwrap();
    refused(interpreter.bind_output(1, BufferBinding::new(&output)), &["overlap"]);
    interpreter.unbind_output(0).unwrap();
    works(&mut interpreter, &numbers(4, 6));
    validation::assert_silent();
}

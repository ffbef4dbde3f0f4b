//! Inputs and outputs that are bound to memory of a device that the delegate opened, on software Vulkan under the
//! validation layer: memory of the device, of the host and of other processes.

mod memory;
mod misuse;
#[cfg(unix)]
mod processes;
mod semaphores;

use std::sync::Arc;

use attache::gpu::{AlignedBytes, Backend, Device, DeviceMemory, MemoryBinding, Precision, Submission};
use attache::{Error, ErrorKind, GpuDelegate, GpuDelegateOptions, Interpreter, InterpreterBuilder, Model};

use crate::common::Net;
use crate::validation;

fn options() -> GpuDelegateOptions {
    let options = GpuDelegateOptions::default().software(true).backend(Backend::Vulkan).submission(Submission::Replay);
    options.precision(Precision::F32).validation(true)
}

/// Opens the device, or takes the one that another test has opened.
fn delegate() -> Arc<GpuDelegate> {
    validation::listen();
    Arc::new(GpuDelegate::new(options()).expect("a Vulkan device (on Debian: mesa-vulkan-drivers) to test on"))
}

fn builder(model: &Model, delegate: &Arc<GpuDelegate>) -> InterpreterBuilder {
    Interpreter::builder(model).threads(1).delegate(delegate.clone()).require_delegation(true)
}

fn interpreter(model: &Model, delegate: &Arc<GpuDelegate>) -> Interpreter {
    builder(model, delegate).build().unwrap()
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|word| f32::from_le_bytes(*word)).collect()
}

/// Allocates memory of a device with these values.
fn filled(device: &Device, values: &[f32]) -> DeviceMemory {
    let memory = DeviceMemory::new(device, 4 * values.len()).unwrap();
    memory.write(0, &bytes(values)).unwrap();
    memory
}

/// Lets a device use memory of the host with these values.
fn on_host(device: &Device, values: &[f32]) -> DeviceMemory {
    let alignment = device.host_alignment().expect("a device that imports host memory");
    let mut owner = AlignedBytes::new(4 * values.len(), alignment);
    owner.as_mut()[..4 * values.len()].copy_from_slice(&bytes(values));
    DeviceMemory::of_host(device, owner).unwrap()
}

fn read(memory: &DeviceMemory, count: usize) -> Vec<f32> {
    let mut all = vec![0; 4 * count];
    memory.read(0, &mut all).unwrap();
    floats(&all)
}

fn at(memory: &DeviceMemory) -> MemoryBinding {
    MemoryBinding::new(memory)
}

/// Builds a model of `y = relu(x + w)` and `z = y * w`, both outputs, of `count` elements.
fn two_outputs(count: usize) -> Model {
    let mut net = Net::new();
    let [x, w] = ["x", "w"].map(|name| net.tensor(name, &[count]));
    let sum = net.add(x, w, &[count]);
    let y = net.relu(sum, &[count]);
    let z = net.multiply(y, w, &[count]);
    net.finish(&[x, w], &[y, z])
}

/// Builds a network of several dispatches, of which the first reads the input: `z = w2 · relu(w1 · x) + relu(w1 · x)`.
fn layers(width: usize) -> Model {
    let weights = |seed: usize| -> Vec<f32> {
        (0..width * width).map(|index| ((index * 7 + seed) % 13) as f32 / 64.0 - 0.09375).collect()
    };
    let mut net = Net::new();
    let x = net.tensor("x", &[1, width]);
    let first = net.fully_connected(x, [width, width], &weights(1));
    let relu = net.relu(first, &[1, width]);
    let second = net.fully_connected(relu, [width, width], &weights(2));
    let third = net.fully_connected(second, [width, width], &weights(3));
    let z = net.add(third, relu, &[1, width]);
    net.finish(&[x], &[z])
}

fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|index| ((index * 7 + seed * 5) % 23) as f32 / 8.0 - 1.25).collect()
}

fn expected(x: &[f32], w: &[f32]) -> [Vec<f32>; 2] {
    let y: Vec<f32> = x.iter().zip(w).map(|(x, w)| (x + w).max(0.0)).collect();
    let z = y.iter().zip(w).map(|(y, w)| y * w).collect();
    [y, z]
}

fn refused<T: std::fmt::Debug>(result: Result<T, impl Into<Error>>, kind: ErrorKind, texts: &[&str]) {
    let error: Error = result.unwrap_err().into();
    let text = error.to_string();
    assert!(error.kind() == kind && texts.iter().all(|part| text.contains(part)), "{error:?} where {texts:?} belong");
}

//! Runs a model on a wgpu device that the program opened for its own use, and goes on using the device.
//!
//!     cargo run --release -p attache-examples --bin own_device [MODEL]
//!
//! `attache::gpu::wgpu` is the version of wgpu that the delegate uses.

use attache::gpu::wgpu;
use attache::{GpuDelegate, GpuDelegateOptions, Interpreter};
use attache_examples::device::Gpu;
use attache_examples::{Arguments, Result};

fn main() -> Result {
    let Gpu { device, queue } = Gpu::open()?;
    let options = GpuDelegateOptions::default();
    let gpu = GpuDelegate::with_device(device.clone(), queue.clone(), options)?;
    eprintln!("on {}", gpu.adapter().name);

    let model = Arguments::read().model("lstm_128")?;
    let mut interpreter = Interpreter::builder(&model).delegate(gpu).build()?;
    let mut input = interpreter.input(0)?;
    let grey = vec![0.5; input.elements()];
    input.quantize_from(&grey)?;
    interpreter.invoke()?;
    println!("highest score {:.4}", interpreter.output(0)?.dequantize()?.into_iter().fold(f32::MIN, f32::max));

    // The program's own work on the same device: a buffer is filled and read back.
    let usage = wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ;
    let buffer =
        device.create_buffer(&wgpu::BufferDescriptor { label: None, size: 4, usage, mapped_at_creation: false });
    queue.write_buffer(&buffer, 0, &42u32.to_le_bytes());
    queue.submit([]);
    buffer.slice(..).map_async(wgpu::MapMode::Read, |_| {});
    device.poll(wgpu::PollType::wait_indefinitely())?;
    println!("own buffer: {:?}", &buffer.slice(..).get_mapped_range()?[..]);
    Ok(())
}

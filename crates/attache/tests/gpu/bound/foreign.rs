//! Memory and command encoders of other devices, and devices that cannot bind.

use attache::gpu::{Backend, BufferBinding, Submission, TextureSource, wgpu};
use attache::{DataType, ErrorKind, GpuDelegate, GpuDelegateOptions, Interpreter};

use super::misuse::{model, refused, works};
use super::pictures::{Picture, same};
use super::{Own, adapter};
use crate::common::Net;
use crate::validation;

/// A buffer that is refused can be mapped by its owner as before.
#[test]
fn refused_buffers_stay_as_they_were() {
    let _alone = validation::alone();
    let adapter = adapter();
    let own = Own::of(&adapter);
    let mut interpreter = own.interpreter(&model(4));
    let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
    for other in [Own::of(&adapter), Own::open()] {
        for handles in [false, true] {
            if handles {
                other.device.on_uncaptured_error(std::sync::Arc::new(|_| {}));
            }
            let foreign = other.buffer_at(0, &[7; 16], usage);
            let bound = interpreter.bind_input(0, BufferBinding::new(&foreign));
            refused(bound, ErrorKind::Usage, &["another device"]);
            assert_eq!(other.mapped(&foreign), [7; 16]);
            // Its owner's mapping is not ended.
            let bound = interpreter.bind_input(0, BufferBinding::new(&foreign));
            refused(bound, ErrorKind::Usage, &["mapped"]);
            assert_eq!(foreign.get_mapped_range(..).unwrap()[..], [7; 16]);
        }
    }
    let pending = own.buffer_at(0, &[8; 16], usage);
    pending.map_async(wgpu::MapMode::Read, .., |result| result.unwrap());
    refused(interpreter.bind_input(0, BufferBinding::new(&pending)), ErrorKind::Usage, &["mapped"]);
    own.device.poll(wgpu::PollType::wait_indefinitely()).unwrap();
    assert_eq!(pending.get_mapped_range(..).unwrap()[..], [8; 16]);
    works(&own, &mut interpreter);
    validation::assert_silent();
}

/// An encoder of another device of the same instance fails when it is finished, and one of another instance
/// when that instance does not know the numbers of what is encoded.
#[test]
fn encoders_of_other_devices() {
    let _alone = validation::alone();
    let adapter = adapter();
    let (own, neighbour) = (Own::of(&adapter), Own::of(&adapter));
    let mut interpreter = own.interpreter(&model(4));
    works(&own, &mut interpreter);
    let mut encoder = neighbour.encoder();
    let scope = neighbour.device.push_error_scope(wgpu::ErrorFilter::Validation);
    interpreter.encode(&mut encoder).unwrap();
    drop(encoder.finish());
    assert!(pollster::block_on(scope.pop()).is_some(), "wgpu takes the encoder of another device");
    works(&own, &mut interpreter);
    let stranger = Own::open();
    refused(interpreter.encode(&mut stranger.encoder()), ErrorKind::Usage, &["another device"]);
    works(&own, &mut interpreter);
    // With the same model, the numbers may be those of the other instance's own pipelines.
    let mut theirs = stranger.interpreter(&model(4));
    works(&stranger, &mut theirs);
    let mut encoder = stranger.encoder();
    if let Err(error) = interpreter.encode(&mut encoder) {
        assert!(error.to_string().contains("another device"), "{error}");
    }
    works(&own, &mut interpreter);
    works(&stranger, &mut theirs);
    validation::assert_silent();
}

/// Other errors of wgpu are reported as what they are.
#[test]
fn encoders_in_a_pass_are_refused() {
    let _alone = validation::alone();
    let own = Own::open();
    let mut interpreter = own.interpreter(&model(4));
    works(&own, &mut interpreter);
    let mut encoder = own.encoder();
    let pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default()).forget_lifetime();
    let error = interpreter.encode(&mut encoder).unwrap_err().to_string();
    assert!(error.contains("Encode") && !error.contains("another device"), "{error}");
    drop((pass, encoder));
    works(&own, &mut interpreter);
    validation::assert_silent();
}

/// Devices that the delegate opened bind nothing, whichever way they run.
#[test]
fn devices_of_the_delegate_bind_nothing() {
    let _alone = validation::alone();
    let own = Own::open();
    let buffer = own.floats(&[0.0; 4]);
    let texture = own.texture([2, 2], wgpu::TextureFormat::Rgba8Unorm, wgpu::TextureUsages::TEXTURE_BINDING);
    let options = GpuDelegateOptions::default().software(true).backend(Backend::Vulkan).validation(true);
    let delegate = GpuDelegate::new(options.submission(Submission::Encoder)).unwrap();
    let mut alone = Interpreter::builder(&model(4)).delegate(delegate.clone()).build().unwrap();
    let remedy = ["GpuDelegate::with_device"];
    refused(alone.bind_input(0, BufferBinding::new(&buffer)), ErrorKind::Usage, &remedy);
    refused(alone.bind_output(0, BufferBinding::new(&buffer)), ErrorKind::Usage, &remedy);
    let picture = same(&[1, 2, 2, 3], DataType::Float32, None);
    let mut pictures = Interpreter::builder(&picture).delegate(delegate).build().unwrap();
    refused(pictures.bind_input(0, TextureSource::new(&texture)), ErrorKind::Usage, &remedy);
    alone.write(0, &[1.0f32; 4]).unwrap();
    alone.invoke().unwrap();
    validation::assert_silent();
}

/// Graphs that are whole and cannot be bound all the same, and inputs without a reader: the errors say why.
#[test]
fn graphs_without_a_queue_say_why() {
    let _alone = validation::alone();
    let own = Own::open();
    let buffer = own.floats(&[0.0; 4]);
    let mut net = Net::new();
    let x = net.tensor("x", &[4]);
    let y = net.relu(x, &[4]);
    let mut passes_on = own.interpreter(&net.finish(&[x], &[y, x]));
    let bound = passes_on.bind_input(0, BufferBinding::new(&buffer));
    refused(bound, ErrorKind::Unsupported, &["output 1", "is an input"]);
    passes_on.invoke().unwrap();
    let mut net = Net::new();
    let [x, unread] = ["x", "unread"].map(|name| net.tensor(name, &[4]));
    let y = net.relu(x, &[4]);
    let mut interpreter = own.interpreter(&net.finish(&[x, unread], &[y]));
    refused(interpreter.bind_input(1, BufferBinding::new(&buffer)), ErrorKind::Usage, &["input 1", "nothing reads it"]);
    interpreter.unbind_input(1).unwrap();
    interpreter.bind_input(0, BufferBinding::new(&buffer)).unwrap();
    own.run(&mut [&mut interpreter]);
    validation::assert_silent();
}

/// The loss of the caller's device is an error of a run, and a panic nowhere.
#[test]
fn lost_devices_are_errors() {
    let _alone = validation::alone();
    let own = Own::open();
    let mut pictures = own.interpreter(&same(&[1, 4, 5, 4], DataType::Float32, None));
    let usage = wgpu::TextureUsages::TEXTURE_BINDING;
    let texture = own.texture([5, 4], wgpu::TextureFormat::Rgba8Unorm, usage);
    own.upload(&texture, &Picture::draw(5, 4, 0));
    pictures.bind_input(0, TextureSource::new(&texture)).unwrap();
    pictures.invoke().unwrap();
    let mut bound = own.interpreter(&model(4));
    works(&own, &mut bound);
    let mut encoder = own.encoder();
    own.device.destroy();
    for interpreter in [&mut bound, &mut pictures] {
        let error = interpreter.invoke().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Device, "{error}");
        // wgpu tells the loss to the caller alone.
        interpreter.encode(&mut encoder).unwrap();
    }
    let rebound = pictures.bind_input(0, TextureSource::new(&texture));
    refused(rebound, ErrorKind::Usage, &["that device is lost"]);
    validation::assert_silent();
}

//! Finds something in a picture with one network and looks at it with another. The picture, the place that was found and
//! the part of the picture that the second network reads stay on the GPU; the host sees the end. Writes `chain.png`.
//!
//!     cargo run --release -p attache-examples --bin chain [DETECTOR] [LANDMARKS] [PICTURE]
//!
//! For instance `blazeface_short_range.tflite` and `face_landmark.tflite` of MediaPipe. Without files, two small networks
//! of the same shapes find the sun in a drawn scene and mark four points around it.

use attache::gpu::{BufferBinding, TextureSource, wgpu};
use attache::{GpuDelegate, GpuDelegateOptions, Interpreter, Model};
use attache_examples::device::Gpu;
use attache_examples::{Arguments, Result, chained, picture};

/// Finds the box with the highest score, and writes it as a rectangle of the picture: left, top, width and height in
/// pixels, half as large again; then its score.
const FIND: &str = "
// Left, top and side of the square of the picture that the detector reads, in pixels.
@group(0) @binding(0) var<storage, read> square: vec4<f32>;
// Of each anchor: the centre of its box from the anchor's, width and height, in 128ths of the square; then key points.
@group(0) @binding(1) var<storage, read> boxes: array<array<f32, 16>>;
@group(0) @binding(2) var<storage, read> scores: array<f32>;
@group(0) @binding(3) var<storage, read_write> found: array<f32>;

// Two anchors in each cell of a grid of 16 by 16, then six in each of 8 by 8.
fn anchor(index: u32) -> vec2<f32> {
    let is_fine = index < 512u;
    let cell = select((index - 512u) / 6u, index / 2u, is_fine);
    let cells = select(8u, 16u, is_fine);
    return (vec2(f32(cell % cells), f32(cell / cells)) + 0.5) / f32(cells);
}

var<workgroup> bests: array<u32, 128>;

@compute @workgroup_size(128)
fn main(@builtin(local_invocation_index) thread: u32) {
    bests[thread] = thread;
    for (var index = thread + 128u; index < 896u; index += 128u) {
        bests[thread] = select(bests[thread], index, scores[index] > scores[bests[thread]]);
    }
    for (var half = 64u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if thread < half {
            // Of equal ones the first.
            let own = bests[thread];
            let other = bests[thread + half];
            let is_better = scores[other] > scores[own] || scores[other] == scores[own] && other < own;
            bests[thread] = select(own, other, is_better);
        }
    }
    if thread > 0u {
        return;
    }
    let best = bests[0];
    let place = boxes[best];
    let centre = anchor(best) + vec2(place[0], place[1]) / 128.0;
    let size = vec2(place[2], place[3]) / 128.0 * 1.5;
    let corner = square.xy + (centre - size / 2.0) * square.z;
    found[0] = corner.x;
    found[1] = corner.y;
    found[2] = size.x * square.z;
    found[3] = size.y * square.z;
    found[4] = scores[best];
}
";

fn main() -> Result {
    let arguments = Arguments::read();
    let [detector, landmarks] = match (arguments.file(0), arguments.file(1)) {
        (Some(detector), Some(landmarks)) => [Model::from_path(detector)?, Model::from_path(landmarks)?],
        _ => [chained::detector()?, chained::landmarks()?],
    };
    let gpu = Gpu::open()?;
    let delegate = GpuDelegate::with_device(gpu.device.clone(), gpu.queue.clone(), GpuDelegateOptions::default())?;
    eprintln!("on {}", delegate.adapter().name);
    let build = |model: &Model| Interpreter::builder(model).delegate(delegate.clone()).build();
    let (mut detector, mut landmarks) = (build(&detector)?, build(&landmarks)?);

    let mut picture = picture::open(arguments.file(2))?;
    let photo = gpu.upload(&picture);
    let (width, height) = (photo.width() as f32, photo.height() as f32);
    let side = width.min(height);
    let square = [(width - side) / 2.0, (height - side) / 2.0, side, side];
    let square_buffer = gpu.buffer(16);
    gpu.queue.write_buffer(&square_buffer, 0, square.map(f32::to_le_bytes).as_flattened());

    // The detector writes to buffers that the shader reads, and the second network reads the rectangle that it wrote.
    let buffers = [896 * 16 * 4, 896 * 4].map(|size| gpu.buffer(size));
    let found = gpu.buffer(32);
    let size = |interpreter: &Interpreter, output: usize| 4 * interpreter.outputs()[output].shape.elements() as u64;
    let (points, presence) = (gpu.buffer(size(&landmarks, 0)), gpu.buffer(size(&landmarks, 1)));
    detector.bind_input(0, TextureSource::new(&photo).crop(square))?;
    detector.bind_output(0, BufferBinding::new(&buffers[0]))?;
    detector.bind_output(1, BufferBinding::new(&buffers[1]))?;
    let part = TextureSource::new(&photo).crop_from(&found, 0).normalize(&[0.0], &[255.0]);
    landmarks.bind_input(0, part)?;
    landmarks.bind_output(0, BufferBinding::new(&points))?;
    landmarks.bind_output(1, BufferBinding::new(&presence))?;

    let pipeline = gpu.pipeline(FIND);
    let mut encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    detector.encode(&mut encoder)?;
    let bound = [&square_buffer, &buffers[0], &buffers[1], &found].map(wgpu::Buffer::as_entire_binding);
    gpu.dispatch(&mut encoder, &pipeline, &bound, [1, 1]);
    landmarks.encode(&mut encoder)?;
    gpu.queue.submit([encoder.finish()]);

    let floats = |buffer: &wgpu::Buffer| -> Result<Vec<f32>> {
        let bytes = gpu.read(buffer)?;
        Ok(bytes.as_chunks::<4>().0.iter().map(|word| f32::from_le_bytes(*word)).collect())
    };
    let [left, top, across, down, score, ..] = floats(&found)?[..] else { return Err("no rectangle".into()) };
    println!("found {across:.0} × {down:.0} pixels at ({left:.0}, {top:.0}), score {score:.2}");
    let edges = [top / height, left / width, (top + down) / height, (left + across) / width];
    picture::outline(&mut picture, edges, picture::colour(0));
    // Points are in pixels of the second network's input.
    let input = &landmarks.inputs()[0].shape;
    let (rows, columns) = (input.extents()[1] as f32, input.extents()[2] as f32);
    let points = floats(&points)?;
    for point in points.as_chunks::<3>().0 {
        let (x, y) = (left + point[0] / columns * across, top + point[1] / rows * down);
        if x >= 0.0 && y >= 0.0 && x < width && y < height {
            picture.put_pixel(x as u32, y as u32, picture::colour(1));
        }
    }
    println!("{} points, presence {:.2}", points.len() / 3, floats(&presence)?[0]);
    picture.save("chain.png")?;
    println!("wrote chain.png");
    Ok(())
}

//! Lays the classes of a picture's pixels over it without taking the picture from the GPU: the network reads a texture
//! and writes one, and a shader of the program mixes both. Writes `texture_to_texture.png`.
//!
//!     cargo run --release -p attache-examples --bin texture_to_texture [MODEL] [PICTURE]
//!
//! The output of the model has a score for each class at each pixel, `[1, height, width, classes]`, or the class of each
//! pixel, `[1, height, width]`. Class 0 is the background. The built-in model has synthetic weights, whose classes mean
//! nothing.

use std::collections::BTreeMap;

use attache::gpu::{TextureSource, TextureTarget, wgpu};
use attache::{GpuDelegate, GpuDelegateOptions, Interpreter};
use attache_examples::device::Gpu;
use attache_examples::{Arguments, Result, picture};

/// Mixes a picture with a mask as the mask's alpha says.
const MIX: &str = "
@group(0) @binding(0) var photo: texture_2d<f32>;
@group(0) @binding(1) var mask: texture_2d<f32>;
@group(0) @binding(2) var result: texture_storage_2d<rgba8unorm, write>;

@compute @workgroup_size(8, 8)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let place = id.xy;
    if all(place < textureDimensions(photo)) {
        let colour = textureLoad(mask, place, 0);
        textureStore(result, place, vec4(mix(textureLoad(photo, place, 0).rgb, colour.rgb, colour.a), 1.0));
    }
}
";

fn main() -> Result {
    let arguments = Arguments::read();
    let model = arguments.model("deeplabv3_257")?;
    let gpu = Gpu::open()?;
    let delegate = GpuDelegate::with_device(gpu.device.clone(), gpu.queue.clone(), GpuDelegateOptions::default())?;
    eprintln!("on {}", delegate.adapter().name);
    let mut interpreter = Interpreter::builder(&model).delegate(delegate).build()?;

    let photo = gpu.upload(&picture::open(arguments.file(1))?);
    let (width, height) = (photo.width(), photo.height());
    let [mask, result] = [0; 2].map(|_| gpu.texture(width, height));
    let colour = |class: usize| {
        let [red, green, blue] = picture::colour(class).0;
        [red, green, blue, if class == 0 { 0 } else { 128 }]
    };
    let colours: Vec<[u8; 4]> = (0..256).map(colour).collect();
    interpreter.bind_input(0, TextureSource::new(&photo))?;
    interpreter.bind_output(0, TextureTarget::new(&mask).classes(&colours))?;

    // One encoder has the commands of the network and the program's own. Nothing waits between them.
    let pipeline = gpu.pipeline(MIX);
    let mut encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    interpreter.encode(&mut encoder)?;
    let views = [&photo, &mask, &result].map(|texture| texture.create_view(&wgpu::TextureViewDescriptor::default()));
    let resources = views.each_ref().map(wgpu::BindingResource::TextureView);
    gpu.dispatch(&mut encoder, &pipeline, &resources, [width.div_ceil(8), height.div_ceil(8)]);
    gpu.queue.submit([encoder.finish()]);

    // A program with a window would draw the texture.
    let mut counts = BTreeMap::<[u8; 4], usize>::new();
    gpu.download(&mask)?.pixels().for_each(|pixel| *counts.entry(pixel.0).or_default() += 1);
    for ([red, green, blue, _], count) in counts {
        let share = count as f32 / (width * height) as f32;
        if share >= 0.01 {
            println!("{share:.3} of the picture has the colour {red} {green} {blue}");
        }
    }
    gpu.download(&result)?.save("texture_to_texture.png")?;
    println!("wrote texture_to_texture.png");
    Ok(())
}

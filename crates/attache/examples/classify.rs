//! Runs a classifier on a hardware GPU if there is one, else on the CPU, and prints the five highest scores.
//!
//!     cargo run --release -p attache --example classify [MODEL]
//!
//! Without a file it uses a built-in model with synthetic weights, whose scores are meaningless.

use std::error::Error;
use std::sync::Arc;

use attache::{GpuDelegate, GpuDelegateOptions, Interpreter, Model, zoo};

fn main() -> Result<(), Box<dyn Error>> {
    let model = match std::env::args().nth(1) {
        Some(path) => Model::from_path(path)?,
        None => Model::from_bytes(zoo::build("mobilenet_v1_1.0_224").ok_or("the built-in model is missing")?)?,
    };
    let mut builder = Interpreter::builder(&model).threads(2);
    match GpuDelegate::new(GpuDelegateOptions::default()) {
        Ok(gpu) => builder = builder.delegate(Arc::new(gpu)),
        Err(error) => eprintln!("on the CPU: {error}"),
    }
    let mut interpreter = builder.build()?;

    // Replace this gradient with a picture: height × width × channels, scaled to [-1, 1].
    let pixels = interpreter.input_mut::<f32>(0)?;
    let last = pixels.len().max(2) - 1;
    pixels.iter_mut().enumerate().for_each(|(index, pixel)| *pixel = 2.0 * index as f32 / last as f32 - 1.0);
    interpreter.invoke()?;

    let labels = model.labels()?.unwrap_or_default();
    let scores = interpreter.read::<f32>(0)?;
    let mut classes: Vec<usize> = (0..scores.len()).collect();
    classes.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    for class in classes.into_iter().take(5) {
        println!("{:6.4}  {class} {}", scores[class], labels.get(class).map_or("", String::as_str));
    }
    Ok(())
}

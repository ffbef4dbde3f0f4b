//! Runs a model on inputs of different sizes.
//!
//!     cargo run --release -p attache-examples --bin shapes [gpu]
//!
//! The model finds edges in a picture of any height and width. The first run of a size prepares the model for it; sizes
//! that come again find their plan in a cache. All sizes share the weights.

use std::time::Instant;

use attache_examples::{Arguments, Result, models, picture};

fn main() -> Result {
    let arguments = Arguments::read();
    let model = models::edges()?;
    let mut interpreter = arguments.builder(&model)?.build()?;
    println!("the file says {:?}", interpreter.inputs()[0].shape_signature);

    for (height, width) in [(32, 48), (64, 96), (32, 48), (64, 96)] {
        let shape = [1, height, width, 3];
        let start = Instant::now();
        interpreter.resize_input(0, &shape)?;
        eprintln!("prepared in {:.2} ms", start.elapsed().as_secs_f64() * 1e3);

        interpreter.write(0, &picture::floats(&picture::scene(480, 320), &shape)?)?;
        interpreter.invoke()?;
        let output = interpreter.output(0)?;
        let edges = output.as_slice::<f32>()?;
        let mean = edges.iter().sum::<f32>() / output.elements() as f32;
        println!("{shape:?} -> {:?}, mean {mean:.4}", output.shape());
    }

    // A shape that the model cannot take is an error, and the interpreter keeps the one before.
    let error = interpreter.resize_input(0, &[1, 32, 48, 4]).expect_err("the filter has three channels");
    println!("{error:?}");
    interpreter.invoke()?;
    Ok(())
}

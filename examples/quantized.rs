//! Writes floats into a quantized input and reads a quantized output as floats.
//!
//!     cargo run --release -p attache-examples --bin quantized [gpu] [MODEL]
//!
//! The built-in model tells from three int8 numbers how likely it is that their sum is positive.

use attache::Model;
use attache_examples::{Arguments, Result, models};

fn main() -> Result {
    let arguments = Arguments::read();
    let model = match arguments.file(0) {
        Some(path) => Model::from_path(path)?,
        None => models::quantized()?,
    };
    let mut interpreter = arguments.builder(&model)?.build()?;
    for end in [-1.0, 0.0, 1.0f32] {
        let mut input = interpreter.input(0)?;
        let count = input.elements();
        let ramp: Vec<f32> = (1..=count).map(|index| end * index as f32 / count as f32).collect();
        input.quantize_from(&ramp)?;
        println!("{} {:?}, filled up to {end}", input.data_type(), input.shape());
        interpreter.invoke()?;
        let output = interpreter.output(0)?;
        let highest = output.dequantize()?.into_iter().fold(f32::MIN, f32::max);
        match output.quantization() {
            Some(parameters) => println!(
                "output {highest:.3}, by scale {:.5} and zero point {}",
                parameters.scale[0], parameters.zero_point[0]
            ),
            None => println!("output {highest:.3}, not quantized"),
        }
    }
    Ok(())
}

//! Classifies a picture and prints the five highest scores.
//!
//!     cargo run --release -p attache-examples --bin classify [gpu] [MODEL] [PICTURE] [LABELS]
//!
//! Without a model it uses one with synthetic weights, whose scores mean nothing. Models with quantized inputs and
//! outputs work as well: `quantize_from` and `dequantize` convert.

use attache_examples::{Arguments, Result, picture};

fn main() -> Result {
    let arguments = Arguments::read();
    let model = arguments.model("mobilenet_v1_1.0_224")?;
    let picture = picture::open(arguments.file(1))?;
    let mut interpreter = arguments.builder(&model)?.build()?;

    let mut input = interpreter.input(0)?;
    let pixels = picture::floats(&picture, input.shape())?;
    input.quantize_from(&pixels)?;
    interpreter.invoke()?;
    let scores = interpreter.output(0)?.dequantize()?;

    // Labels are often packed into the model file.
    let labels: Vec<String> = match arguments.file(2) {
        Some(path) => std::fs::read_to_string(path)?.lines().map(str::to_owned).collect(),
        None => model.labels()?.unwrap_or_default(),
    };
    let mut classes: Vec<usize> = (0..scores.len()).collect();
    classes.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    for class in classes.into_iter().take(5) {
        println!("{:.4} {class} {}", scores[class], labels.get(class).map_or("", String::as_str));
    }
    Ok(())
}

//! Tells what each pixel of a picture belongs to, and lays the classes over the picture in colours: `segment.png`.
//!
//!     cargo run --release -p attache-examples --bin segment [gpu] [MODEL] [PICTURE] [LABELS]
//!
//! The output of the model has a score for each class at each pixel, `[1, height, width, classes]`, or the class of each
//! pixel, `[1, height, width]`. Class 0 is the background. Without a model it uses one with synthetic weights, whose
//! classes mean nothing.

use std::collections::BTreeMap;

use attache_examples::{Arguments, Result, picture};

fn main() -> Result {
    let arguments = Arguments::read();
    let model = arguments.model("deeplabv3_257")?;
    let mut picture = picture::open(arguments.file(1))?;
    let mut interpreter = arguments.builder(&model)?.build()?;

    let mut input = interpreter.input(0)?;
    let pixels = picture::floats(&picture, input.shape())?;
    input.quantize_from(&pixels)?;
    interpreter.invoke()?;
    let output = interpreter.output(0)?;
    let (height, width, best): (_, _, Vec<usize>) = match *output.shape() {
        [1, height, width, classes] => {
            (height, width, output.dequantize()?.chunks_exact(classes).map(highest).collect())
        }
        [1, height, width] => (height, width, output.integers()?.iter().map(|class| *class as usize).collect()),
        _ => return Err("the output is no map of classes".into()),
    };

    let mut counts = BTreeMap::<usize, usize>::new();
    best.iter().for_each(|class| *counts.entry(*class).or_default() += 1);
    let labels = arguments.file(2).map(std::fs::read_to_string).transpose()?.unwrap_or_default();
    let labels: Vec<&str> = labels.lines().collect();
    for (class, count) in counts {
        let share = count as f32 / best.len() as f32;
        if share >= 0.01 {
            println!("{share:.3} of the picture: {class} {}", labels.get(class).unwrap_or(&""));
        }
    }

    let (columns, rows) = (picture.width() as usize, picture.height() as usize);
    for (column, row, pixel) in picture.enumerate_pixels_mut() {
        let (x, y) = (column as usize * width / columns, row as usize * height / rows);
        let class = best[y * width + x];
        if class != 0 {
            picture::tint(pixel, picture::colour(class));
        }
    }
    picture.save("segment.png")?;
    println!("wrote segment.png");
    Ok(())
}

/// Returns the index of the highest score.
fn highest(scores: &[f32]) -> usize {
    (0..scores.len()).max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap_or(0)
}

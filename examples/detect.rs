//! Finds objects in a picture and draws a box around each: `detect.png`.
//!
//!     cargo run --release -p attache-examples --bin detect [gpu] [MODEL] [PICTURE] [LABELS]
//!
//! The model ends in TFLite_Detection_PostProcess, as detectors of TensorFlow's Object Detection API do. Without a model
//! it uses one with synthetic weights, whose boxes mean nothing.

use attache_examples::{Arguments, Result, picture};

fn main() -> Result {
    let arguments = Arguments::read();
    let model = arguments.model("ssd_mobilenet_v2_320")?;
    let mut picture = picture::open(arguments.file(1))?;
    let mut interpreter = arguments.builder(&model)?.build()?;

    let mut input = interpreter.input(0)?;
    let pixels = picture::floats(&picture, input.shape())?;
    input.quantize_from(&pixels)?;
    interpreter.invoke()?;

    // Four outputs: boxes `[1, n, 4]`, classes `[1, n]`, scores `[1, n]`, and how many of the n are detections.
    let [boxes, classes, scores, count] = [0, 1, 2, 3].map(|index| interpreter.read::<f32>(index));
    let (boxes, classes, scores) = (boxes?.as_chunks::<4>().0, classes?, scores?);
    let labels = arguments.file(2).map(std::fs::read_to_string).transpose()?.unwrap_or_default();
    let labels: Vec<&str> = labels.lines().collect();
    for index in 0..count?[0] as usize {
        let (score, class, edges) = (scores[index], classes[index] as usize, boxes[index]);
        if score < 0.5 {
            break; // the highest scores come first
        }
        picture::outline(&mut picture, edges, picture::colour(class));
        let [top, left, bottom, right] = edges;
        let label = labels.get(class).unwrap_or(&"");
        println!("{score:.3} at {top:.3} {left:.3} {bottom:.3} {right:.3}: {class} {label}");
    }
    picture.save("detect.png")?;
    println!("wrote detect.png");
    Ok(())
}

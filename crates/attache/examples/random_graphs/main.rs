//! Writes random graphs: small models that combine operators on floats, integers and booleans at random, including in
//! ways that no converter produces. `conformance/graphs.py` adds the outputs that LiteRT computes and compares them.
//!
//! ```text
//! cargo run --release -p attache --example random_graphs -- OUT_DIR --count N --seed S --kind f32|int8|uint8
//! ```
//!
//! Graph N is written to `OUT_DIR/graph_NNNN` as `model.tflite` and `in_K.npy`. The same seed gives the same files, and
//! graph N does not depend on the count. The integer kinds are quantized forms of the float graph. Values stay small
//! (see [`draft::MOST`]), and all functions of floats are continuous, so that rounding cannot cause a large error.

mod arithmetic;
mod draft;
mod emit;
mod integers;
mod motifs;
mod movement;
mod quantize;
mod random;
mod windows;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use draft::{Draft, Type};
use emit::Written;
use motifs::motifs;
use quantize::quantize;
use random::Random;

/// Minimum and maximum target number of operators of a graph. A step that adds several operators may exceed the target.
const OPERATORS: [usize; 2] = [3, 16];

/// Maximum number of attempts to add a motif. After that, a graph with fewer operators than its target is kept.
const ATTEMPTS: usize = 80;

/// The type in which a graph's floats are stored.
#[derive(Clone, Copy)]
enum Form {
    Float,
    Int8,
    UInt8,
}

fn main() -> Result<(), Box<dyn Error>> {
    let usage = "usage: random_graphs OUT_DIR [--count N] [--seed S] [--kind f32|int8|uint8]";
    let Arguments { folder, count, seed, form } = arguments().ok_or(usage)?;
    for index in 0..count {
        let draft = graph(Random::new(seed).fork(index));
        write(&draft, form, &folder.join(format!("graph_{index:04}")))?;
    }
    println!("{count} graphs in {}", folder.display());
    Ok(())
}

struct Arguments {
    folder: PathBuf,
    count: u64,
    seed: u64,
    form: Form,
}

fn arguments() -> Option<Arguments> {
    let (mut folder, mut count, mut seed, mut form) = (None, 100, 1, Form::Float);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--count" => count = words.next()?.parse().ok()?,
            "--seed" => seed = words.next()?.parse().ok()?,
            "--kind" => {
                form = match words.next()?.as_str() {
                    "f32" => Form::Float,
                    "int8" => Form::Int8,
                    "uint8" => Form::UInt8,
                    _ => return None,
                }
            }
            _ => folder = Some(PathBuf::from(word)),
        }
    }
    Some(Arguments { folder: folder?, count, seed, form })
}

/// Generates one graph.
fn graph(random: Random) -> Draft {
    let mut draft = Draft::new(random);
    for _ in 0..draft.random.pick(&[1, 1, 2, 3]) {
        draft.input(Type::Float);
    }
    for of_type in [Type::Integer, Type::Boolean] {
        if draft.random.percent(30) {
            draft.input(of_type);
        }
    }
    let wanted = draft.random.within(OPERATORS[0], OPERATORS[1]);
    for _ in 0..ATTEMPTS {
        if draft.nodes.len() >= wanted {
            break;
        }
        let mut value = draft.any();
        let choices = motifs(draft.of_type(value));
        let motif = choices[draft.random.below(choices.len())];
        for step in motif {
            value = step(&mut draft, value).unwrap_or(value);
            if draft.nodes.len() >= wanted {
                break;
            }
        }
    }
    draft.choose_outputs();
    draft
}

fn write(draft: &Draft, form: Form, folder: &Path) -> Result<(), Box<dyn Error>> {
    let Written { model, inputs } = match form {
        Form::Float => floats(draft),
        Form::Int8 => quantize(draft, true)?,
        Form::UInt8 => quantize(draft, false)?,
    };
    fs::create_dir_all(folder)?;
    fs::write(folder.join("model.tflite"), model)?;
    for (index, (kind, shape, bytes)) in inputs.iter().enumerate() {
        fs::write(folder.join(format!("in_{index}.npy")), emit::npy(kind, shape, bytes))?;
    }
    Ok(())
}

fn floats(draft: &Draft) -> Written {
    let input = |id: usize| {
        let (kind, bytes) = draft.values[id].elements.as_ref().expect("inputs have elements").bytes();
        (kind, draft.shape(id), bytes)
    };
    let inputs = emit::inputs(draft).into_iter().map(input).collect();
    Written { model: emit::model(draft, &draft.outputs), inputs }
}

//! Writes random graphs: small float models that combine operators in every way that a converter might, and some that
//! none would. `conformance/graphs.py` adds what LiteRT computes for them and compares.
//!
//! ```text
//! cargo run --release -p attache --example random_graphs -- OUT_DIR --count N --seed S
//! ```
//!
//! Graph N goes to `OUT_DIR/graph_NNNN`, as `model.tflite` and `in_K.npy`. The same seed gives the same files; graph N is
//! the same whatever the count. Values stay small (see [`draft::MOST`]), and nothing here has a jump: rounding may not
//! decide a result.

mod arithmetic;
mod draft;
mod motifs;
mod movement;
mod random;
mod windows;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use draft::{Draft, Kind};
use motifs::MOTIFS;
use random::Random;

/// Fewest and most operators of a graph. A motif that is under way may add a few.
const OPERATORS: [usize; 2] = [3, 12];

/// Attempts to add something before a graph stays as short as it is.
const ATTEMPTS: usize = 60;

fn main() -> Result<(), Box<dyn Error>> {
    let (folder, count, seed) = arguments().ok_or("usage: random_graphs OUT_DIR [--count N] [--seed S]")?;
    for index in 0..count {
        let draft = graph(Random::new(seed).fork(index));
        write(&draft, &folder.join(format!("graph_{index:04}")))?;
    }
    println!("{count} graphs in {}", folder.display());
    Ok(())
}

fn arguments() -> Option<(PathBuf, u64, u64)> {
    let (mut folder, mut count, mut seed) = (None, 100, 1);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--count" => count = words.next()?.parse().ok()?,
            "--seed" => seed = words.next()?.parse().ok()?,
            _ => folder = Some(PathBuf::from(word)),
        }
    }
    Some((folder?, count, seed))
}

/// One graph, finished but for its outputs' values.
fn graph(random: Random) -> Draft {
    let mut draft = Draft::new(random);
    for _ in 0..draft.random.pick(&[1, 1, 2, 3]) {
        draft.input();
    }
    let wanted = draft.random.within(OPERATORS[0], OPERATORS[1]);
    for _ in 0..ATTEMPTS {
        if draft.operators >= wanted {
            break;
        }
        let mut value = draft.any();
        let motif = MOTIFS[draft.random.below(MOTIFS.len())];
        for step in motif {
            value = step(&mut draft, value).unwrap_or(value);
            if draft.operators >= wanted {
                break;
            }
        }
    }
    draft.choose_outputs();
    draft
}

fn write(draft: &Draft, folder: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("model.tflite"), draft.to_bytes())?;
    for (index, input) in draft.values.iter().filter(|value| value.kind == Kind::Input).enumerate() {
        let mut random = draft.random.clone().fork(index as u64);
        let elements: Vec<f32> = (0..input.elements()).map(|_| random.float() * input.bound).collect();
        fs::write(folder.join(format!("in_{index}.npy")), npy(&input.shape, &elements))?;
    }
    Ok(())
}

/// An array as numpy's files of version 1 have it.
fn npy(shape: &[usize], elements: &[f32]) -> Vec<u8> {
    let extents: String = shape.iter().map(|extent| format!("{extent},")).collect();
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({extents}), }}");
    // The preamble has 10 bytes, the line its end; together they fill blocks of 64.
    header.push_str(&" ".repeat((header.len() + 11).next_multiple_of(64) - header.len() - 11));
    header.push('\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(elements.iter().flat_map(|element| element.to_le_bytes()));
    file
}

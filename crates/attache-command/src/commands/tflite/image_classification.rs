//! `image_classification_eval`, also called `run_eval`: how often a classifier of pictures is right.

use std::path::Path;

use serde_json::json;

use super::flags::{Flag, Flags, Kind, flag};
use super::lines::{Lines, six};
use super::metrics::{self, Runner};
use crate::arguments::entry::Entry;
use crate::commands::eval::classify::{self, Classes, Classified};
use crate::commands::eval::outcome;
use crate::commands::eval::pictures::Preparation;
use crate::commands::eval::truth::{self, Selection};
use crate::console::{Console, Report};
use crate::device::Device;
use crate::failure::Failure;
use crate::io::labels::Labels;
use crate::io::message::Message;
use crate::io::picture::Scaling;
use crate::io::source::Source;

/// The largest K of the accuracies.
const MOST: usize = 10;

/// The flags of the tool, beside those of evaluations and of all tools.
pub(super) static FLAGS: &[Flag] = &[
    flag("model_output_labels", Kind::Text, "", "Model output labels", "names of the model's classes, one a line"),
    flag("ground_truth_images_path", Kind::Text, "", "Ground truth images path", "folder of the pictures"),
    flag(
        "ground_truth_labels",
        Kind::Text,
        "",
        "Ground truth labels",
        "name of the true class of each picture, one a line",
    ),
    flag("denylist_file_path", Kind::Text, "", "Denylist file path", "numbers of pictures to leave out, from 1"),
    flag("blacklist_file_path", Kind::Text, "", "Denylist file path", "the same, in earlier versions"),
    flag("num_images", Kind::Whole, "0", "Num images", "most pictures, the first ones; 0 for all"),
    flag("num_threads", Kind::Whole, "1", "Num threads", "pictures that are evaluated at the same time"),
    flag(
        "cropping_fraction",
        Kind::Number,
        "0.875",
        "Cropping fraction",
        "side of the square that is cut out; not in TensorFlow Lite's tool",
    ),
    flag(
        "input_mean",
        Kind::Number,
        "127.5",
        "Input mean",
        "with --input_std: (value - mean) / std; not in TensorFlow Lite's tool",
    ),
    flag("input_std", Kind::Number, "127.5", "Input std", "with --input_mean; not in TensorFlow Lite's tool"),
];

/// Runs the tool.
pub(super) fn run(flags: &Flags, console: &Console) -> Result<Report, Failure> {
    let lines = Lines(console);
    let runner = Runner::of(flags)?;
    runner.begin(&lines)?;
    let name = flags.required("model_file")?;
    let images = Path::new(flags.required("ground_truth_images_path")?);
    let labels = Path::new(flags.required("ground_truth_labels")?);
    let preparation = preparation(flags)?;
    let source = Source::find(Path::new(name))?;
    let opening = Device::open_beside(&runner.device);
    let model = source.open()?;
    let names = Labels::find(flags.some("model_output_labels").map(Path::new), &model, console)?;
    let denied = flags.some("denylist_file_path").or_else(|| flags.some("blacklist_file_path")).map(Path::new);
    let pairs = truth::pair(images, labels, &Selection { denied, most: flags.count("num_images") })?;
    let device = opening.wait()?;
    let entry = Entry::first(&model, name, Vec::new());
    let compiled = device.compiled(&entry)?;
    runner.placed(&lines, console, compiled.placement())?;
    let count = classify::classes(&compiled.interpreter()?, name)?;
    let classes = Classes { count, names: names.of(count).unwrap_or(names.all()), are_names: names.are_asked_for() };
    let threads = flags.count("num_threads").unwrap_or(1);
    let mut all = classify::evaluate(console, (&compiled, threads), &classes, &preparation, (pairs, MOST))?;
    if !classes.names.is_empty() && classes.names.len() != count {
        all.problems.insert(0, names.mismatch(count, "output 0"));
    }
    say(&lines, &all)?;
    metrics::write(flags, &message(&all))?;
    let json = json!({ "images": all.count, "accuracies": all.accuracies(), "problems": all.problems });
    Ok(outcome(console, Report::new("", json), &all.problems))
}

fn preparation(flags: &Flags) -> Result<Preparation, Failure> {
    let fraction = flags.number("cropping_fraction");
    if !(fraction > 0.0 && fraction <= 1.0) {
        return Err(Failure::usage(format!("--cropping_fraction={fraction}: it must be above 0, up to 1")));
    }
    let (mean, std) = (flags.number("input_mean") as f32, flags.number("input_std") as f32);
    if std == 0.0 {
        return Err(Failure::usage("--input_std must not be 0"));
    }
    // Without a range, integers are taken as they are.
    let is_given = flags.is_given("input_mean") || flags.is_given("input_std");
    Ok(Preparation { crop: Some(fraction), scaling: is_given.then(|| Scaling { mean: vec![mean], std: vec![std] }) })
}

fn say(lines: &Lines<'_>, all: &Classified) -> Result<(), Failure> {
    lines.say(format!("Num evaluation runs: {}", all.count))?;
    lines.say(metrics::latency_line("Preprocessing", &all.preparing))?;
    lines.say(metrics::latency_line("Inference", &all.running))?;
    all.accuracies()
        .iter()
        .enumerate()
        .try_for_each(|(index, accuracy)| lines.say(format!("Top-{} Accuracy: {}", index + 1, six(*accuracy))))
}

/// Returns the message `EvaluationStageMetrics`.
fn message(all: &Classified) -> Message {
    let accuracies = all.accuracies().into_iter().map(|accuracy| accuracy as f32);
    let classification = Message::default()
        .with(1, "pre_processing_latency", metrics::latency(&all.preparing))
        .with(2, "inference_latency", metrics::latency(&all.running))
        .with(3, "inference_metrics", Message::default().with(1, "num_inferences", all.count))
        .with(4, "topk_accuracy_metrics", Message::default().with_all(1, "topk_accuracies", accuracies));
    metrics::stage(all.count, 4, "image_classification_metrics", classification)
}

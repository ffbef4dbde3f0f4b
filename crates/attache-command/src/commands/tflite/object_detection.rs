//! `coco_object_detection_eval`: the average precision of a detector of objects.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::json;

use super::flags::{Flag, Flags, Kind, flag};
use super::lines::{Lines, six};
use super::metrics::{self, Runner};
use crate::arguments::entry::Entry;
use crate::commands::eval::average_precision::{self, ImageBox, Precisions};
use crate::commands::eval::detect::{self, Detected};
use crate::commands::eval::outcome;
use crate::commands::eval::pictures::{self, Preparation};
use crate::console::{Console, Report};
use crate::device::Device;
use crate::failure::Failure;
use crate::io::files;
use crate::io::labels::Labels;
use crate::io::message::{self, Message};
use crate::io::source::Source;

/// What is added to a class of the model to get the class of the true boxes.
const CLASS_OFFSET: i64 = 1;

/// The flags of the tool, beside those of evaluations and of all tools.
pub(super) static FLAGS: &[Flag] = &[
    flag(
        "model_output_labels",
        Kind::Text,
        "",
        "Model output labels",
        "names of classes from the background on, one a line",
    ),
    flag("ground_truth_images_path", Kind::Text, "", "Ground truth images path", "folder of the pictures"),
    flag(
        "ground_truth_proto",
        Kind::Text,
        "",
        "Ground truth proto",
        "binary ObjectDetectionGroundTruth; without it nothing is compared",
    ),
    flag("debug_mode", Kind::Switch, "false", "Debug mode", "print the boxes of each picture"),
    flag("num_threads", Kind::Whole, "1", "Num threads", "pictures that are evaluated at the same time"),
];

/// The true boxes of each picture, by its name.
type Truth = BTreeMap<String, Vec<ImageBox>>;

/// Runs the tool.
pub(super) fn run(flags: &Flags, console: &Console) -> Result<Report, Failure> {
    let lines = Lines(console);
    let runner = Runner::of(flags)?;
    runner.begin(&lines)?;
    let name = flags.required("model_file")?;
    let folder = Path::new(flags.required("ground_truth_images_path")?);
    let truth = flags.some("ground_truth_proto").map(|path| read_truth(Path::new(path))).transpose()?;
    let paths = pictures::of_folder(folder)?;
    let source = Source::find(Path::new(name))?;
    let opening = Device::open_beside(&runner.device);
    let model = source.open()?;
    let labels = flags.some("model_output_labels").map(|path| Labels::find(Some(Path::new(path)), &model, console));
    let labels = labels.transpose()?;
    let device = opening.wait()?;
    let entry = Entry::first(&model, name, Vec::new());
    let compiled = device.compiled(&entry)?;
    runner.placed(&lines, console, compiled.placement())?;
    let outputs = detect::outputs(&compiled.interpreter()?, entry.subgraph(), None, name)?;
    let preparation = Preparation { crop: None, scaling: None };
    let threads = flags.count("num_threads").unwrap_or(1);
    let mut all = detect::evaluate(console, (&compiled, threads), outputs, &preparation, &paths)?;
    let names: Vec<String> = paths.iter().map(|path| pictures::name(path)).collect();
    // Class 0 is the background, whether the labels begin with it or not.
    let classes = labels.map(|labels| labels.of_detections().len() + 1);
    let found = found(&mut all, classes);
    if flags.is("debug_mode") {
        debug(&lines, &names, &found)?;
    }
    let precisions = truth.map(|truth| compare(&truth, &names, &paths, &found, (&mut all, classes)));
    say(&lines, &all, precisions.as_ref())?;
    metrics::write(flags, &message_of(&all, precisions.as_ref()))?;
    let json = json!({
        "images": all.seen.len(),
        "overall_mean_average_precision": precisions.as_ref().map(|all| all.overall),
        "average_precisions": precisions.as_ref().map(|all| all.thresholds.clone()),
        "problems": all.problems,
    });
    Ok(outcome(console, Report::new("", json), &all.problems))
}

/// Returns the boxes that were found. Those of classes beyond the labels are left out, and said.
fn found(all: &mut Detected, classes: Option<usize>) -> Vec<ImageBox> {
    let mut unknown: BTreeMap<i64, usize> = BTreeMap::new();
    let mut boxes = Vec::new();
    for seen in &all.seen {
        for one in &seen.found {
            let class = i64::try_from(one.class).unwrap_or(i64::MAX - CLASS_OFFSET) + CLASS_OFFSET;
            if is_beyond(class, classes) {
                *unknown.entry(class).or_default() += 1;
                continue;
            }
            let [top, left, bottom, right] = one.edges.map(|edge| edge as f32);
            boxes.push(ImageBox {
                image: seen.index,
                class,
                edges: [top, bottom, left, right],
                score: one.score as f32,
            });
        }
    }
    all.problems.extend(unknown.iter().map(|(class, count)| {
        format!("class {class} of the model is out of range of the labels ({count} boxes are left out)")
    }));
    boxes
}

fn is_beyond(class: i64, classes: Option<usize>) -> bool {
    classes.is_some_and(|count| usize::try_from(class).is_ok_and(|class| class >= count))
}

/// Computes the average precisions. Only pictures that were evaluated count; the missing ones are said.
fn compare(
    truth: &Truth,
    names: &[String],
    paths: &[PathBuf],
    found: &[ImageBox],
    (all, classes): (&mut Detected, Option<usize>),
) -> Precisions {
    let known: BTreeSet<&String> = names.iter().collect();
    let missing = truth.keys().filter(|name| !known.contains(name));
    let folder = paths.first().and_then(|path| path.parent()).unwrap_or(Path::new(""));
    all.problems.extend(missing.map(|name| format!("{}: there is no such picture", folder.join(name).display())));
    let mut boxes = Vec::new();
    for seen in &all.seen {
        for one in truth.get(&names[seen.index]).into_iter().flatten() {
            match is_beyond(one.class, classes) || one.class < 0 {
                true => all.problems.push(format!(
                    "{}: class {} of a true box is out of range of the labels",
                    names[seen.index], one.class
                )),
                false => boxes.push(ImageBox { image: seen.index, ..*one }),
            }
        }
    }
    average_precision::evaluate(&boxes, found)
}

/// Reads a binary `ObjectDetectionGroundTruth`.
fn read_truth(path: &Path) -> Result<Truth, Failure> {
    let bytes = files::read(path)?;
    parse_truth(&bytes).map_err(|reason| {
        Failure::usage(format!("this is no binary ObjectDetectionGroundTruth: {reason}")).at(path.display())
    })
}

fn parse_truth(bytes: &[u8]) -> Result<Truth, String> {
    let mut truth = Truth::new();
    for (number, result) in message::fields(bytes)? {
        if number != 1 {
            continue;
        }
        let (mut name, mut boxes) = (String::new(), Vec::new());
        for (number, value) in message::fields(result.bytes()?)? {
            match number {
                1 => boxes.push(parse_box(value.bytes()?)?),
                2 => name = value.text()?,
                _ => {}
            }
        }
        if name.is_empty() {
            return Err("a picture has no name".to_owned());
        }
        truth.entry(name).or_default().extend(boxes);
    }
    if truth.is_empty() { Err("it holds no pictures".to_owned()) } else { Ok(truth) }
}

fn parse_box(bytes: &[u8]) -> Result<ImageBox, String> {
    let mut one = ImageBox { image: 0, class: 0, edges: [0.0; 4], score: 1.0 };
    for (number, value) in message::fields(bytes)? {
        match number {
            1 => one.class = value.integer()?,
            2 => {
                for (number, edge) in message::fields(value.bytes()?)? {
                    let place =
                        usize::try_from(number).ok().and_then(|number| one.edges.get_mut(number.wrapping_sub(1)));
                    if let Some(place) = place {
                        *place = edge.float()?;
                    }
                }
            }
            3 => one.score = value.float()?,
            _ => {}
        }
    }
    Ok(one)
}

/// Prints the boxes of each picture; they are in the order of the pictures.
fn debug(lines: &Lines<'_>, names: &[String], found: &[ImageBox]) -> Result<(), Failure> {
    for (index, name) in names.iter().enumerate() {
        lines.say(format!("{}\n\nImage: {name}\n", "=".repeat(54)))?;
        let begin = found.partition_point(|one| one.image < index);
        for (place, one) in found[begin..].iter().take_while(|one| one.image == index).enumerate() {
            let [top, bottom, left, right] = one.edges.map(|edge| six(f64::from(edge)));
            lines.say(format!(
                "Object [{place}]\n  Score: {}\n  Class-ID: {}\n  Bounding Box:\n    Normalized Top: {top}\n    \
                 Normalized Bottom: {bottom}\n    Normalized Left: {left}\n    Normalized Right: {right}",
                six(f64::from(one.score)),
                one.class
            ))?;
        }
    }
    Ok(())
}

fn say(lines: &Lines<'_>, all: &Detected, precisions: Option<&Precisions>) -> Result<(), Failure> {
    lines.say(format!("Num evaluation runs: {}", all.seen.len()))?;
    lines.say(metrics::latency_line("Preprocessing", &all.preparing))?;
    lines.say(metrics::latency_line("Inference", &all.running))?;
    let Some(precisions) = precisions else { return Ok(()) };
    for (threshold, precision) in &precisions.thresholds {
        let threshold = six(f64::from(*threshold));
        lines.say(format!("Average Precision [IOU Threshold={threshold}]: {}", six(*precision)))?;
    }
    lines.say(format!("Overall mAP: {}", six(precisions.overall)))
}

/// Returns the message `EvaluationStageMetrics`.
fn message_of(all: &Detected, precisions: Option<&Precisions>) -> Message {
    let precisions = precisions.map(|precisions| {
        let one = |(threshold, precision): &(f32, f64)| {
            Message::default().with(1, "iou_threshold", *threshold).with(2, "average_precision", *precision as f32)
        };
        Message::default().with_all(1, "individual_average_precisions", precisions.thresholds.iter().map(one)).with(
            2,
            "overall_mean_average_precision",
            precisions.overall as f32,
        )
    });
    let count = all.seen.len();
    let detection = Message::default()
        .with(1, "pre_processing_latency", metrics::latency(&all.preparing))
        .with(2, "inference_latency", metrics::latency(&all.running))
        .with(3, "inference_metrics", Message::default().with(1, "num_inferences", count))
        .with_some(4, "average_precision_metrics", precisions);
    metrics::stage(count, 7, "object_detection_metrics", detection)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn true_boxes_are_read() {
        let edges =
            Message::default().with(1, "t", 0.25f32).with(2, "b", 0.5f32).with(3, "l", 0.0f32).with(4, "r", 1.0f32);
        let object = Message::default().with(1, "class_id", 3).with(2, "bounding_box", edges);
        let image = |name: &str| {
            Message::default().with(1, "objects", object.clone()).with(2, "image_name", name).with(3, "image_id", 7)
        };
        let all = Message::default().with_all(1, "detection_results", [image("a.jpg"), image("b.jpg")]).binary();
        let truth = parse_truth(&all).unwrap();
        let expected = ImageBox { image: 0, class: 3, edges: [0.25, 0.5, 0.0, 1.0], score: 1.0 };
        assert_eq!((truth.len(), truth["b.jpg"].as_slice()), (2, &[expected][..]));
        assert!(parse_truth(b"").is_err() && parse_truth(b"images").is_err());
        // Every beginning of the file is read or refused.
        (0..all.len()).for_each(|end| drop(parse_truth(&all[..end])));
    }
}

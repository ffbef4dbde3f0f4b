//! `attache eval detection`: the metrics of the COCO challenge for what a detector finds.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::coco::{self, FoundBox, Metrics};
use super::coco_files::{Annotations, Row, read_detections};
use super::detect::{self, Detected, Seen};
use super::pictures::is_picture;
use super::{ImageArguments, NOTHING, latency, outcome};
use crate::arguments::DeviceArguments;
use crate::arguments::entry::Entry;
use crate::console::{Console, Report};
use crate::device::Device;
use crate::failure::Failure;
use crate::io::files;
use crate::io::labels::Labels;
use crate::io::places::Places;
use crate::io::source::Source;

#[derive(Args, Debug)]
pub(super) struct DetectionTask {
    /// A .tflite file, or the name of a built-in model (`attache zoo` lists them); none with --detections
    #[arg(required_unless_present = "detections", conflicts_with = "detections")]
    model: Option<PathBuf>,
    /// File with the true boxes in COCO's form (instances_….json)
    #[arg(long, value_name = "FILE")]
    truth: PathBuf,
    /// Folder of the pictures that the file names
    #[arg(long, value_name = "DIR", required_unless_present = "detections", conflicts_with = "detections")]
    images: Option<PathBuf>,
    /// File with detections in COCO's form, instead of a model
    #[arg(long, value_name = "FILE")]
    detections: Option<PathBuf>,
    /// Names of the model's classes, one per line, by which categories are found; by default those in the model
    #[arg(short, long, value_name = "FILE", conflicts_with = "detections")]
    labels: Option<PathBuf>,
    /// What is added to a class to get the number of its category, where no label is the name of a category
    #[arg(long, value_name = "N", default_value = "1", allow_negative_numbers = true, conflicts_with = "detections")]
    class_offset: i64,
    /// Places of boxes, classes, scores and count among the model's outputs [default: those of the
    /// operator that gives all four, which are found by their shapes; else 0,1,2,3]
    #[arg(long, value_name = "A,B,C,D", conflicts_with = "detections", value_parser = places)]
    outputs: Option<[usize; 4]>,
    /// File for what the model finds, in COCO's form
    #[arg(long, value_name = "FILE", conflicts_with = "detections")]
    write_detections: Option<PathBuf>,
    #[command(flatten)]
    pictures: ImageArguments,
    #[command(flatten)]
    device: DeviceArguments,
}

/// Parses the places of four outputs.
fn places(text: &str) -> Result<[usize; 4], String> {
    let places = text.split(',').map(|place| place.trim().parse::<usize>().ok()).collect::<Option<Vec<_>>>();
    let places = places.and_then(|places| places.try_into().ok());
    let places: [usize; 4] =
        places.ok_or_else(|| "it must be four whole numbers with commas between them, such as 1,3,0,2".to_owned())?;
    match (1..4).find(|index| places[..*index].contains(&places[*index])) {
        Some(index) => {
            Err(format!("output {} is named twice; each of the four is an output of its own", places[index]))
        }
        None => Ok(places),
    }
}

/// What was found, where, and what is wrong with what was left out.
struct Found {
    boxes: Vec<FoundBox>,
    /// The numbers of the pictures that were evaluated: the boxes of others are not to be found.
    images: BTreeSet<i64>,
    problems: Vec<String>,
    /// The device and the times; `None` for detections of a file.
    ran: Option<(Device, Detected)>,
    /// Why the detections could not be written to a file.
    unwritten: Option<Failure>,
}

impl DetectionTask {
    pub(super) fn run(self, console: &Console) -> Result<Report, Failure> {
        self.places().check()?;
        let truth = Annotations::read(&self.truth)?;
        let mut found = match (&self.detections, &self.model, &self.images) {
            (Some(path), ..) => {
                let (boxes, problems) = read_detections(path, &truth)?;
                Found { boxes, images: truth.image_numbers(), problems, ran: None, unwritten: None }
            }
            (_, Some(model), Some(folder)) => self.detect(console, model, folder, &truth)?,
            _ => return Err(Failure::usage("name a model and --images, or --detections")),
        };
        found.problems.splice(0..0, truth.problems.iter().cloned());
        if truth.boxes.iter().any(|one| one.id == 0) {
            console
                .warn("an annotation has the number 0, which counts as never found, as in pycocotools; number from 1");
        }
        let categories = truth.categories.keys().copied().collect();
        let metrics = coco::evaluate(&found.images, &categories, &truth.boxes, &found.boxes);
        let json = json(&metrics, &truth, &found);
        let text = text(console, &metrics, &truth, &found);
        let written = self.pictures.write(&json);
        let report = Report::new(text, json).with_failure(written.err()).with_failure(found.unwritten);
        Ok(outcome(console, report, &found.problems))
    }

    fn places(&self) -> Places {
        let places = self.device.places().reads("MODEL", self.model.as_deref());
        let places = places.reads("--truth", [self.truth.as_path()]).reads("--detections", self.detections.as_deref());
        let places = places.reads("--labels", self.labels.as_deref());
        let places = places.reads_below("--images", self.images.as_deref(), is_picture);
        let places = places.writes("--out", self.pictures.out.as_deref());
        places.writes("--write-detections", self.write_detections.as_deref())
    }

    /// Runs a model on the pictures of the annotations.
    fn detect(&self, console: &Console, model: &Path, folder: &Path, truth: &Annotations) -> Result<Found, Failure> {
        let source = Source::find(model)?;
        let (device, threads) = self.pictures.device(&self.device);
        let opening = Device::open_beside(&device);
        let model = source.open()?;
        let labels = Labels::find(self.labels.as_deref(), &model, console)?;
        let device = opening.wait()?;
        let entry = Entry::first(&model, &source.name, Vec::new());
        let compiled = device.compiled(&entry)?;
        console.log(&compiled.placement().log);
        let outputs = detect::outputs(&compiled.interpreter()?, entry.subgraph(), self.outputs, &source.name)?;
        let mut images: Vec<_> = truth.images.iter().collect();
        images.sort_by(|one, other| one.file_name.cmp(&other.file_name));
        images.truncate(self.pictures.most().unwrap_or(usize::MAX));
        let paths: Vec<PathBuf> = images.iter().map(|image| folder.join(&image.file_name)).collect();
        let preparation = self.pictures.preparation(console, &entry, None);
        let mut all = detect::evaluate(console, (&compiled, threads), outputs, &preparation, &paths)?;
        let names = self.names(console, &labels, truth);
        let category = |class: usize| self.category(class, names, truth);
        let mut unknown: BTreeMap<usize, usize> = BTreeMap::new();
        let mut boxes = Vec::new();
        for seen in &all.seen {
            add(seen, images[seen.index].id, &category, &mut boxes, &mut unknown);
        }
        let mut problems = std::mem::take(&mut all.problems);
        for (class, count) in &unknown {
            match names.and_then(|names| names.get(*class)) {
                // Data sets need not have all classes of a model.
                Some(name) => {
                    console.warn(&format!("no category has the name \"{name}\", of which {count} boxes were found"))
                }
                None => problems.push(format!(
                    "class {class} of the model is out of range: no category belongs to it ({count} boxes are left out)"
                )),
            }
        }
        let rows: Vec<Row> = boxes.iter().map(row).collect();
        let write = |path: &PathBuf| files::write(path, json!(rows).to_string().as_bytes());
        let unwritten = self.write_detections.as_ref().and_then(|path| write(path).err());
        let evaluated = all.seen.iter().map(|seen| images[seen.index].id).collect();
        Ok(Found { boxes, images: evaluated, problems, ran: Some((device, all)), unwritten })
    }

    /// Returns the names by which categories are found; `None` if no label is the name of a category, so that numbers
    /// are meant.
    fn names<'a>(&self, console: &Console, labels: &'a Labels, truth: &Annotations) -> Option<&'a [String]> {
        let names = labels.of_detections();
        let is_category = |name: &String| !name.is_empty() && truth.category_named(name).is_some();
        if names.iter().any(is_category) {
            return Some(names);
        }
        if labels.are_asked_for() {
            let offset = self.class_offset;
            console.warn(&format!("no label is the name of a category; they are found by numbers (class + {offset})"));
        }
        None
    }

    /// Returns the number of the category of a class, which counts from 0 without the background.
    fn category(&self, class: usize, names: Option<&[String]>, truth: &Annotations) -> Option<i64> {
        match names {
            Some(names) => names.get(class).filter(|name| !name.is_empty()).and_then(|name| truth.category_named(name)),
            None => i64::try_from(class).ok()?.checked_add(self.class_offset),
        }
        .filter(|number| truth.categories.contains_key(number))
    }
}

/// Adds the boxes of a picture in pixels, and counts those of classes without a category.
fn add(
    seen: &Seen,
    image: i64,
    category: &impl Fn(usize) -> Option<i64>,
    boxes: &mut Vec<FoundBox>,
    unknown: &mut BTreeMap<usize, usize>,
) {
    let (height, width) = (seen.height as f64, seen.width as f64);
    for found in &seen.found {
        let [top, left, bottom, right] = found.edges;
        let edges = [left * width, top * height, (right - left) * width, (bottom - top) * height];
        match category(found.class) {
            Some(category) => boxes.push(FoundBox { image, category, edges, score: found.score }),
            None => *unknown.entry(found.class).or_default() += 1,
        }
    }
}

fn row(found: &FoundBox) -> Row {
    Row { image_id: found.image, category_id: found.category, bbox: found.edges, score: found.score }
}

fn json(metrics: &Metrics, truth: &Annotations, found: &Found) -> Value {
    let mut json = json!(metrics);
    json["images"] = json!(truth.images.len());
    json["boxes"] = json!(truth.boxes.len());
    json["evaluated_boxes"] = json!(evaluated_boxes(truth, found));
    json["detections"] = json!(found.boxes.len());
    json["problems"] = json!(found.problems);
    if let Some((device, all)) = &found.ran {
        json["delegate"] = json!(device.delegate());
        json["evaluated"] = json!(all.seen.len());
        json["preprocessing_us"] = json!(latency(&all.preparing));
        json["inference_us"] = json!(latency(&all.running));
    }
    json
}

/// Returns how many true boxes the pictures have that were evaluated.
fn evaluated_boxes(truth: &Annotations, found: &Found) -> usize {
    truth.boxes.iter().filter(|one| found.images.contains(&one.image)).count()
}

fn text(console: &Console, metrics: &Metrics, truth: &Annotations, found: &Found) -> String {
    let number = |value: f64| if value < 0.0 { "-".to_owned() } else { format!("{value:.4}") };
    let Metrics { ap, ap_50, ap_75, ap_small, ap_medium, ap_large, .. } = *metrics;
    let Metrics { ar_1, ar_10, ar_100, ar_small, ar_medium, ar_large, .. } = *metrics;
    let row = |what: &str, numbers: [f64; 6]| [vec![what.to_owned()], numbers.map(number).to_vec()].concat();
    let precision = console.table(
        &["precision", "IoU 0.50-0.95", "0.50", "0.75", "small", "medium", "large"],
        &[row("average", [ap, ap_50, ap_75, ap_small, ap_medium, ap_large])],
    );
    let recall = console.table(
        &["recall", "1 detection", "10", "100", "small", "medium", "large"],
        &[row("average", [ar_1, ar_10, ar_100, ar_small, ar_medium, ar_large])],
    );
    let categories =
        metrics.categories.iter().filter(|(_, precision)| **precision >= 0.0).map(|(category, precision)| {
            let name = truth.categories.get(category).filter(|name| !name.is_empty());
            let name = name.map_or_else(|| category.to_string(), |name| console.name(name));
            vec![name, number(*precision)]
        });
    let categories = console.table(&["category", "average precision"], &categories.collect::<Vec<_>>());
    let (boxes, detections) = (evaluated_boxes(truth, found), found.boxes.len());
    let mut counts = format!("{boxes} boxes in {} pictures, {detections} detections", found.images.len());
    if found.images.len() < truth.image_numbers().len() {
        counts += &format!(" (the file has {} boxes in {} pictures)", truth.boxes.len(), truth.images.len());
    }
    let mut parts: Vec<String> = found.ran.iter().map(|(device, _)| device.describe()).collect();
    parts.extend([counts, precision, recall, categories]);
    if let Some((_, all)) = &found.ran {
        parts.push(match (latency(&all.preparing), latency(&all.running)) {
            (Some(preparing), Some(running)) => format!(
                "preparing a picture: {:.0} us on average; running the model: {:.0} us",
                preparing.mean, running.mean
            ),
            _ => NOTHING.to_owned(),
        });
    }
    parts.join("\n")
}

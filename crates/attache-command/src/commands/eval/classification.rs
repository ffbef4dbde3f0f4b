//! `attache eval classification`: how often a classifier is right, and what it confuses.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::classify::{self, Classes, Classified};
use super::pictures::is_picture;
use super::truth::{self, Selection};
use super::{ImageArguments, NOTHING, latency, outcome};
use crate::arguments::entry::Entry;
use crate::arguments::{DeviceArguments, ModelArgument, finite, whole};
use crate::console::{Console, Report};
use crate::device::Device;
use crate::failure::Failure;
use crate::io::labels::Labels;
use crate::io::places::Places;
use crate::io::source::Source;

/// Most classes for which the whole table of confusion is printed.
const MOST_CLASSES: usize = 20;
/// Most pairs of confused classes that are printed instead.
const MOST_PAIRS: usize = 15;

#[derive(Args, Debug)]
pub(super) struct Classification {
    #[command(flatten)]
    model: ModelArgument,
    /// Folder of the pictures (JPEG, PNG, or .rgb8 with nothing but bytes)
    #[arg(long, value_name = "DIR")]
    images: PathBuf,
    /// File with the true classes: a label a line in the order of the pictures' names, or a picture's name, a comma and
    /// its label; labels are names of --labels, or all are numbers from 0
    #[arg(long, value_name = "FILE")]
    truth: PathBuf,
    /// Names of the classes, one per line; by default those in the model
    #[arg(short, long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// Largest number of best classes among which the true one is looked for
    #[arg(long, value_name = "K", default_value = "10", allow_negative_numbers = true, value_parser = whole::<u16, 1>)]
    top: u16,
    /// File with the numbers of pictures to leave out, from 1 in the order of names
    #[arg(long, value_name = "FILE")]
    deny: Option<PathBuf>,
    /// Fraction of the shorter side that is cut out of the middle as a square [default: the whole picture]
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = fraction)]
    crop: Option<f64>,
    #[command(flatten)]
    pictures: ImageArguments,
    #[command(flatten)]
    device: DeviceArguments,
}

/// Parses a fraction above 0, up to 1.
fn fraction(text: &str) -> Result<f64, String> {
    let number = finite::<f64>(text).ok().filter(|number| *number > 0.0 && *number <= 1.0);
    number.ok_or_else(|| "it must be a number above 0, up to 1".to_owned())
}

impl Classification {
    pub(super) fn run(self, console: &Console) -> Result<Report, Failure> {
        self.places().check()?;
        let source = Source::find(&self.model.model)?;
        let (device, threads) = self.pictures.device(&self.device);
        let opening = Device::open_beside(&device);
        let model = source.open()?;
        let labels = Labels::find(self.labels.as_deref(), &model, console)?;
        let selection = Selection { denied: self.deny.as_deref(), most: self.pictures.most() };
        let pairs = truth::pair(&self.images, &self.truth, &selection)?;
        let device = opening.wait()?;
        let entry = Entry::first(&model, &source.name, Vec::new());
        let compiled = device.compiled(&entry)?;
        console.log(&compiled.placement().log);
        let count = classify::classes(&compiled.interpreter()?, &source.name)?;
        let names = labels.of(count).unwrap_or(labels.all());
        let classes = Classes { count, names, are_names: false };
        let preparation = self.pictures.preparation(console, &entry, self.crop);
        let most = usize::from(self.top);
        let mut all = classify::evaluate(console, (&compiled, threads), &classes, &preparation, (pairs, most))?;
        if !names.is_empty() && names.len() != count {
            all.problems.insert(0, labels.mismatch(count, "output 0"));
        }
        let json = json(&all, &classes, &device);
        let text = text(console, &all, &classes, &device);
        let written = self.pictures.write(&json);
        Ok(outcome(console, Report::new(text, json).with_failure(written.err()), &all.problems))
    }

    fn places(&self) -> Places {
        let places = self.device.places().reads("MODEL", [self.model.model.as_path()]);
        let places = places.reads("--truth", [self.truth.as_path()]).reads("--labels", self.labels.as_deref());
        let places = places.reads("--deny", self.deny.as_deref());
        let places = places.reads_below("--images", Some(&self.images), is_picture);
        places.writes("--out", self.pictures.out.as_deref())
    }
}

/// Returns for each class how many pictures of it there are, how many were found, and how many were taken for it.
fn rows(all: &Classified, classes: &Classes<'_>) -> Vec<[usize; 3]> {
    let mut rows = vec![[0; 3]; classes.count];
    for ((truth, found), count) in &all.confusion {
        rows[*truth][0] += count;
        rows[*found][2] += count;
        if truth == found {
            rows[*truth][1] += count;
        }
    }
    rows
}

fn json(all: &Classified, classes: &Classes<'_>, device: &Device) -> Value {
    let pairs = all.confusion.iter().map(|((truth, found), count)| {
        json!({ "truth": classes.name(*truth), "found": classes.name(*found), "count": count })
    });
    let class = |(class, [count, right, taken]): (usize, &[usize; 3])| {
        let share = |part: &usize, whole: &usize| (*whole > 0).then(|| *part as f64 / *whole as f64);
        json!({
            "class": class, "name": classes.name(class), "count": count, "recall": share(right, count),
            "precision": share(right, taken),
        })
    };
    let rows = rows(all, classes);
    json!({
        "images": all.count,
        "accuracies": (all.count > 0).then(|| all.accuracies()),
        "hits": all.hits,
        "classes": rows.iter().enumerate().filter(|(_, row)| row[0] + row[2] > 0).map(class).collect::<Vec<_>>(),
        "confusion": pairs.collect::<Vec<_>>(),
        "preprocessing_us": latency(&all.preparing),
        "inference_us": latency(&all.running),
        "delegate": device.delegate(),
        "problems": all.problems,
    })
}

fn text(console: &Console, all: &Classified, classes: &Classes<'_>, device: &Device) -> String {
    if all.count == 0 {
        return format!("{}\n{NOTHING}", device.describe());
    }
    let heading = ["top", "accuracy", "right"];
    let row = |(index, (accuracy, hits)): (usize, (f64, &usize))| {
        vec![(index + 1).to_string(), format!("{:.4}", accuracy), format!("{hits} of {}", all.count)]
    };
    let accuracies: Vec<Vec<String>> = all.accuracies().into_iter().zip(&all.hits).enumerate().map(row).collect();
    let mut parts = vec![device.describe(), console.table(&heading, &accuracies)];
    parts.push(match classes.count <= MOST_CLASSES {
        true => matrix(console, all, classes),
        false => confused(console, all, classes),
    });
    for (what, times) in [("preparing a picture", &all.preparing), ("running the model", &all.running)] {
        if let Some(all) = latency(times) {
            parts.push(format!("{what}: {:.0} us on average, {:.0} us at the median", all.mean, all.median));
        }
    }
    parts.join("\n")
}

/// Returns the table of all classes: a row for each true one, a column for each that was found.
fn matrix(console: &Console, all: &Classified, classes: &Classes<'_>) -> String {
    let names: Vec<String> = (0..classes.count).map(|class| classes.name(class)).collect();
    let mut heading = vec!["true \\ found"];
    heading.extend(names.iter().map(String::as_str));
    heading.push("recall");
    let sums = rows(all, classes);
    let row = |truth: usize| {
        let cell = |found: usize| all.confusion.get(&(truth, found)).map_or(String::new(), usize::to_string);
        let recall = match sums[truth] {
            [0, ..] => "-".to_owned(),
            [count, right, _] => format!("{:.3}", right as f64 / count as f64),
        };
        [vec![names[truth].clone()], (0..classes.count).map(cell).collect(), vec![recall]].concat()
    };
    console.table(&heading, &(0..classes.count).map(row).collect::<Vec<_>>())
}

/// Returns the table of the classes that are confused most often.
fn confused(console: &Console, all: &Classified, classes: &Classes<'_>) -> String {
    let mut pairs: Vec<(usize, usize, usize)> = all
        .confusion
        .iter()
        .filter(|((truth, found), _)| truth != found)
        .map(|((truth, found), count)| (*count, *truth, *found))
        .collect();
    if pairs.is_empty() {
        return "no class is confused with another".to_owned();
    }
    pairs.sort_by_key(|(count, truth, found)| (std::cmp::Reverse(*count), *truth, *found));
    let row = |(count, truth, found): &(usize, usize, usize)| {
        vec![classes.name(*truth), classes.name(*found), count.to_string()]
    };
    let rows: Vec<Vec<String>> = pairs.iter().take(MOST_PAIRS).map(row).collect();
    console.table(&["true", "found instead", "pictures"], &rows)
}

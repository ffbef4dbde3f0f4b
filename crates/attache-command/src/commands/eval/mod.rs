//! `attache eval`: evaluates models on data sets, as classifiers or as detectors.

pub(crate) mod average_precision;
mod classification;
pub(crate) mod classify;
mod coco;
mod coco_files;
pub(crate) mod detect;
mod detection;
pub(crate) mod pictures;
pub(crate) mod truth;
mod workers;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::Command;
use crate::arguments::entry::Entry;
use crate::arguments::{DeviceArguments, whole};
use crate::console::{Console, Report, counted};
use crate::failure::{Failure, Status};
use crate::inputs::ScalingArguments;
use crate::io::files;
use crate::measure::timing::Statistics;
use pictures::Preparation;

/// What is said in place of metrics where there are none.
const NOTHING: &str = "no picture could be evaluated";
/// Most problems that are printed; --json has all.
const MOST_PROBLEMS: usize = 100;

#[derive(Args, Debug)]
pub(super) struct Eval {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Say how often a classifier of pictures is right, and what it confuses
    ///
    /// A picture or label that cannot be used is named, the rest is evaluated, and the exit status is 2.
    Classification(Box<classification::Classification>),
    /// Compute the metrics of the COCO challenge for a detector, or for a file of detections
    ///
    /// A picture or box that cannot be used is named, the rest is evaluated, and the exit status is 2.
    Detection(Box<detection::DetectionTask>),
}

impl Command for Eval {
    fn run(self, console: &Console) -> Result<Report, Failure> {
        match self.task {
            Task::Classification(task) => task.run(console),
            Task::Detection(task) => task.run(console),
        }
    }
}

// A doc comment on this structure would replace the descriptions of the commands that take it.
#[derive(Args, Debug)]
struct ImageArguments {
    #[command(flatten)]
    scaling: ScalingArguments,
    /// Most pictures to evaluate, the first ones by name [default: all]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32, 1>)]
    count: Option<u32>,
    /// File for the result as --json prints it
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Pictures that are evaluated at the same time [default: as many as the machine has threads]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u16, 1>)]
    workers: Option<u16>,
}

impl ImageArguments {
    /// Writes the result to the file of `--out`, if there is one.
    fn write(&self, json: &Value) -> Result<(), Failure> {
        self.out.iter().try_for_each(|path| files::write(path, json.to_string().as_bytes()))
    }

    fn most(&self) -> Option<usize> {
        self.count.map(|count| count as usize)
    }

    /// Returns the arguments of the device, and how many pictures are evaluated at the same time. Without --threads an
    /// interpreter then has one CPU thread.
    fn device(&self, arguments: &DeviceArguments) -> (DeviceArguments, usize) {
        let available = std::thread::available_parallelism().map_or(1, usize::from);
        let workers = self.workers.map_or(available, usize::from);
        let threads = arguments.threads.or((workers > 1).then_some(1));
        (DeviceArguments { threads, ..arguments.clone() }, workers)
    }

    /// Returns how the pictures of a data set become the input of a model, which takes pictures.
    fn preparation(&self, console: &Console, entry: &Entry<'_>, crop: Option<f64>) -> Preparation {
        let subgraph = entry.subgraph();
        let input = subgraph.inputs.first().map(|index| &subgraph.tensors[*index]);
        let scaling = input.and_then(|input| {
            let channels = input.shape.extents().last().copied().unwrap_or(1);
            self.scaling.scaling(console, entry, 0, input.data_type, channels)
        });
        Preparation { crop, scaling }
    }
}

/// Summarizes durations in milliseconds as microseconds.
fn latency(times: &[f64]) -> Option<Statistics> {
    Statistics::of(&times.iter().map(|time| time * 1e3).collect::<Vec<_>>())
}

/// Names what is wrong with parts of a data set, and returns the report with the exit status that says so.
pub(crate) fn outcome(console: &Console, report: Report, problems: &[String]) -> Report {
    if problems.is_empty() {
        return report;
    }
    for problem in problems.iter().take(MOST_PROBLEMS) {
        console.warn(problem);
    }
    if problems.len() > MOST_PROBLEMS {
        let rest = counted(problems.len() - MOST_PROBLEMS, "problem", "problems");
        console.warn(&format!("{rest} more; --json lists all"));
    }
    Report { status: Status::Usage, ..report }
}

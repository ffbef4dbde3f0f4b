//! `attache run`: runs a model once, prints a summary of its outputs and what they mean, and writes them to
//! files.

mod detections;
mod meaning;

use std::path::{Path, PathBuf};

use attache::{Interpreter, NodePlacement, Outcome, TensorInfo};
use clap::Args;
use meaning::{AnswerOutputs, Meaning, OutputForm, Question};
use serde_json::{Value, json};

use super::Command;
use crate::arguments::{DeviceArguments, ModelArgument, ShapeArguments, finite};
use crate::console::{Console, Report};
use crate::device::{Device, shapes_are_known};
use crate::failure::Failure;
use crate::inputs::{Given, InputArguments, Setting, fill_at_random};
use crate::io::files;
use crate::io::labels::Labels;
use crate::io::npy::{self, Array};
use crate::io::numbers::{Summary, numbers};
use crate::io::random::Random;
use crate::io::source::Source;

#[derive(Args, Debug)]
pub(super) struct Run {
    #[command(flatten)]
    model: ModelArgument,
    #[command(flatten)]
    inputs: InputArguments,
    /// Folder for the outputs, as out_0.npy, out_1.npy and so on; without it none are written
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Names of the classes, one per line; by default those in the model. There must be one for each class; a first
    /// line "background" (for detectors also "???") is allowed although the model does not count it
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// Number of top classes or of detections to print [default: 5 classes if there are labels or a --threshold; all
    /// detections]
    #[arg(long, value_name = "K")]
    top: Option<usize>,
    /// Minimum score of a class or detection to print [default: none for classes, 0.4 for detectors]
    #[arg(long, value_name = "X", allow_hyphen_values = true, value_parser = finite::<f64>)]
    threshold: Option<f64>,
    #[command(flatten)]
    shapes: ShapeArguments,
    #[command(flatten)]
    device: DeviceArguments,
}

/// An output of the run: its elements as stored and as floats, and their summary.
struct Output {
    info: TensorInfo,
    array: Array,
    values: Vec<f64>,
    summary: Summary,
}

/// The result of `attache run`.
struct Answer {
    device: Device,
    interpreter: Interpreter,
    given: Given,
    outputs: Vec<Output>,
    /// Paths of the files to which outputs were written; none without `--out`.
    files: Vec<PathBuf>,
    meaning: Meaning,
}

impl Command for Run {
    fn run(self, console: &Console) -> Result<Report, Failure> {
        let model = Source::find(&self.model.model)?.open()?;
        let labels = Labels::find(self.labels.as_deref(), &model, console)?;
        let device = Device::open(&self.device)?;
        let mut interpreter = device.interpreter(&model, &self.shapes)?;
        // Errors that follow from known shapes are reported before the model runs.
        let known = shapes_are_known(&model);
        let found = known.then(|| self.answer_outputs(console, &interpreter, &labels)).transpose()?;
        let setting = Setting { console, model: &model, device: &device, shapes: &self.shapes };
        let given = self.inputs.fill(setting, &mut interpreter)?;
        let mut random = Random::new(self.inputs.seed());
        for index in given.random() {
            fill_at_random(&mut interpreter, index, &mut random)?;
        }
        interpreter.invoke()?;
        let outputs = outputs(&interpreter)?;
        let files = self.out.as_ref().map_or(Ok(Vec::new()), |folder| write(folder, &outputs))?;
        let found = found.map_or_else(|| self.answer_outputs(console, &interpreter, &labels), Ok)?;
        let meaning = self.question(&labels).answer(found, &outputs);
        let answer = Answer { device, interpreter, given, outputs, files, meaning };
        Ok(Report::new(answer.text(console), answer.json()))
    }
}

impl Run {
    /// Determines which outputs contain classes or detections, as far as the outputs' shapes are known.
    fn answer_outputs(
        &self,
        console: &Console,
        interpreter: &Interpreter,
        labels: &Labels,
    ) -> Result<AnswerOutputs, Failure> {
        let form = |info: &TensorInfo| (info.data_type, info.shape.clone(), info.name.clone());
        let forms: Vec<OutputForm> = interpreter.outputs().iter().map(form).collect();
        self.question(labels).answer_outputs(console, interpreter.model(), &forms)
    }

    fn question<'a>(&self, labels: &'a Labels) -> Question<'a> {
        Question { labels, top: self.top, threshold: self.threshold }
    }
}

/// Reads and summarizes the outputs of the last run.
fn outputs(interpreter: &Interpreter) -> Result<Vec<Output>, Failure> {
    let all = interpreter.outputs().iter().enumerate();
    all.map(|(index, info)| {
        let bytes = interpreter.read_bytes(index)?.to_vec();
        let values = numbers(info.data_type, &bytes).unwrap_or_default();
        let summary = Summary::of(&values);
        let array = Array { data_type: info.data_type, shape: info.shape.clone(), bytes };
        Ok(Output { info: info.clone(), array, values, summary })
    })
    .collect()
}

/// Writes each output to a file `out_K.npy` in the folder; returns the paths of the files.
fn write(folder: &Path, outputs: &[Output]) -> Result<Vec<PathBuf>, Failure> {
    files::make_folder(folder)?;
    let write = |(index, output): (usize, &Output)| {
        let path = folder.join(format!("out_{index}.npy"));
        npy::write(&path, &output.array).map(|()| path)
    };
    outputs.iter().enumerate().map(write).collect()
}

/// Returns where an operator runs, and why, as a JSON object.
fn placement(node: &NodePlacement) -> Value {
    let (runs_on, partition) = match &node.outcome {
        Outcome::On { delegate, partition } => (delegate.as_str(), Some(*partition)),
        Outcome::Cpu => ("cpu", None),
        Outcome::Folded { into } => (into.as_str(), None),
    };
    json!({
        "index": node.index,
        "operator": node.operator,
        "version": node.version,
        "place": runs_on,
        "partition": partition,
        "merged": node.merged,
        "reason": node.reason,
    })
}

impl Answer {
    fn json(&self) -> Value {
        let output = |output: &Output| {
            let Summary { min, max, mean, nonfinite } = output.summary;
            json!({
                "name": output.info.name,
                "shape": output.info.shape.extents(),
                "dtype": output.info.data_type.name().to_lowercase(),
                "min": min,
                "max": max,
                "mean": mean,
                "nonfinite": nonfinite,
            })
        };
        let adapter = self.device.adapter();
        let (top, detections) = self.meaning.lists();
        json!({
            "delegate": self.device.delegate(),
            "device": adapter.map(|adapter| &adapter.name),
            "backend": adapter.map(|adapter| &adapter.backend),
            "precision": self.device.precision.word(),
            "quantized": self.device.quantized.word(),
            "inputs": self.given.json(),
            "outputs": self.outputs.iter().map(output).collect::<Vec<_>>(),
            "files": self.files,
            "top": top,
            "detections": detections,
            "fallback": self.interpreter.report().fallback,
            "placement": self.interpreter.placement().nodes.iter().map(placement).collect::<Vec<_>>(),
        })
    }

    fn text(&self, console: &Console) -> String {
        let mut parts = vec![self.device.describe()];
        parts.extend(self.interpreter.placement().log.iter().cloned());
        parts.extend(self.given.text(console));
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.6}"));
        let row = |output: &Output| {
            let Summary { min, max, mean, nonfinite } = output.summary;
            let (name, shape) = (console.name(&output.info.name), output.info.shape.to_string());
            let data_type = output.info.data_type.name().to_lowercase();
            vec![name, shape, data_type, number(min), number(max), number(mean), nonfinite.to_string()]
        };
        let heading = ["output", "shape", "dtype", "min", "max", "mean", "nonfinite"];
        parts.push(console.table(&heading, &self.outputs.iter().map(row).collect::<Vec<_>>()));
        parts.extend(self.meaning.text(console));
        parts.push(self.destination());
        parts.join("\n")
    }

    /// Returns a line that says to which files the outputs were written.
    fn destination(&self) -> String {
        match self.files.as_slice() {
            [] => "outputs are not written; --out DIR writes them as .npy files".to_owned(),
            [only] => format!("output written to {}", only.display()),
            [first, .., last] => format!("outputs written to {} to {}", first.display(), last.display()),
        }
    }
}

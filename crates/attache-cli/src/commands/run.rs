//! `attache run`: one run of a model, and what came out.

use std::path::{Path, PathBuf};

use attache::{Interpreter, Model, NodePlacement, Outcome, TensorInfo};
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use super::Command;
use crate::arguments::{DeviceArguments, ModelArgument, ShapeArguments};
use crate::console::{Console, Report};
use crate::detections::{self, DEFAULT_THRESHOLD, Detection, detections};
use crate::device::Device;
use crate::failure::Failure;
use crate::inputs::{InputArguments, fill_at_random};
use crate::labels::labels;
use crate::npy::{self, Array};
use crate::numbers::{Summary, dequantize, largest, numbers};
use crate::random::Random;
use crate::source::Source;

/// Classes that are named where `--top` doesn't say how many.
const DEFAULT_TOP: usize = 5;

#[derive(Args, Debug)]
pub(super) struct Run {
    #[command(flatten)]
    model: ModelArgument,
    #[command(flatten)]
    inputs: InputArguments,
    /// A folder for the outputs, as out_0.npy, out_1.npy and so on
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Names of the classes, one a line; by default those that the model holds
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// How many of the top classes to name [default: 5 where there are labels]
    #[arg(long, value_name = "K")]
    top: Option<usize>,
    /// The least score of what a detector finds [default: 0.4]
    #[arg(long, value_name = "X")]
    threshold: Option<f64>,
    #[command(flatten)]
    shapes: ShapeArguments,
    #[command(flatten)]
    device: DeviceArguments,
}

/// A class among the top ones.
#[derive(Debug, PartialEq, Serialize)]
struct Class {
    index: usize,
    label: Option<String>,
    score: f64,
}

/// What outputs mean.
enum Meaning {
    /// The likeliest classes, or none where nobody asks.
    Classes(Vec<Class>),
    /// What a detector found.
    Detections(Vec<Detection>),
}

/// An output and what is said of it.
struct Output {
    info: TensorInfo,
    array: Array,
    values: Vec<f64>,
    summary: Summary,
}

impl Command for Run {
    fn run(self, console: &Console) -> Result<Report, Failure> {
        let model = Source::find(&self.model.model)?.open()?;
        let labels = labels(self.labels.as_deref(), &model)?;
        let device = Device::open(&self.device)?;
        let mut interpreter = device.interpreter(&model, &self.shapes)?;
        let mut random = Random::new(self.inputs.seed);
        for index in self.inputs.fill(&model, &mut interpreter)? {
            fill_at_random(&mut interpreter, index, &mut random)?;
        }
        interpreter.invoke()?;
        let outputs = outputs(&interpreter)?;
        if let Some(folder) = &self.out {
            write(folder, &outputs)?;
        }
        let meaning = self.meaning(&model, &outputs, &labels);
        Ok(Report::new(
            text(console, &device, &interpreter, &outputs, &meaning),
            answer(&device, &interpreter, &outputs, &meaning),
        ))
    }
}

impl Run {
    /// What outputs mean: a detector's are detections, and where there are labels others are classes.
    fn meaning(&self, model: &Model, outputs: &[Output], labels: &[String]) -> Meaning {
        let forms: Vec<_> = outputs.iter().map(|it| (it.info.data_type, it.info.shape.clone())).collect();
        if let Some(places) = detections::outputs(&model.subgraphs()[0], &forms) {
            let threshold = self.threshold.unwrap_or(DEFAULT_THRESHOLD);
            let values = places.map(|place| outputs[place].values.as_slice());
            return Meaning::Detections(detections(values, labels, threshold));
        }
        match (self.top, labels.is_empty()) {
            (None, true) => Meaning::Classes(Vec::new()),
            (count, _) => Meaning::Classes(classes(outputs, labels, count.unwrap_or(DEFAULT_TOP))),
        }
    }
}

/// Outputs of the last run.
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

fn write(folder: &Path, outputs: &[Output]) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(|error| Failure::usage(error.to_string()).at(folder.display()))?;
    let mut files = outputs.iter().enumerate();
    files.try_for_each(|(index, output)| npy::write(&folder.join(format!("out_{index}.npy")), &output.array))
}

/// The top classes of the first output that has as many values as there are labels, else of the first output.
fn classes(outputs: &[Output], labels: &[String], count: usize) -> Vec<Class> {
    let fitting = outputs.iter().find(|output| output.values.len() == labels.len());
    let Some(output) = fitting.or(outputs.first()) else { return Vec::new() };
    let mut scores = output.values.clone();
    dequantize(&mut scores, output.info.quantization.as_ref());
    let class = |index: usize| Class { index, label: labels.get(index).cloned(), score: scores[index] };
    largest(&scores, count).into_iter().map(class).collect()
}

/// A placement as an object of JSON.
fn placement(node: &NodePlacement) -> Value {
    let (place, partition) = match &node.outcome {
        Outcome::On { delegate, partition } => (delegate.as_str(), Some(*partition)),
        Outcome::Cpu => ("cpu", None),
        Outcome::Folded { into } => (into.as_str(), None),
    };
    json!({
        "index": node.index,
        "operator": node.operator,
        "version": node.version,
        "place": place,
        "partition": partition,
        "merged": node.merged,
        "reason": node.reason,
    })
}

fn answer(device: &Device, interpreter: &Interpreter, outputs: &[Output], meaning: &Meaning) -> Value {
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
    let (top, detections) = match meaning {
        Meaning::Classes(classes) => (classes.as_slice(), None),
        Meaning::Detections(detections) => (&[] as &[Class], Some(detections)),
    };
    json!({
        "delegate": device.delegate(),
        "device": device.adapter().map(|adapter| &adapter.name),
        "backend": device.adapter().map(|adapter| &adapter.backend),
        "precision": device.precision.word(),
        "quantized": device.quantized.word(),
        "outputs": outputs.iter().map(output).collect::<Vec<_>>(),
        "top": top,
        "detections": detections,
        "fallback": interpreter.report().fallback,
        "placement": interpreter.placement().nodes.iter().map(placement).collect::<Vec<_>>(),
    })
}

fn text(
    console: &Console,
    device: &Device,
    interpreter: &Interpreter,
    outputs: &[Output],
    meaning: &Meaning,
) -> String {
    let mut parts = vec![device.describe()];
    parts.extend(interpreter.placement().log.iter().cloned());
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.6}"));
    let row = |output: &Output| {
        let Summary { min, max, mean, nonfinite } = output.summary;
        let (name, shape) = (output.info.name.clone(), output.info.shape.to_string());
        let data_type = output.info.data_type.name().to_lowercase();
        vec![name, shape, data_type, number(min), number(max), number(mean), nonfinite.to_string()]
    };
    let heading = ["output", "shape", "dtype", "min", "max", "mean", "nonfinite"];
    parts.push(console.table(&heading, &outputs.iter().map(row).collect::<Vec<_>>()));
    parts.extend(meaning.text(console));
    parts.join("\n")
}

impl Meaning {
    fn text(&self, console: &Console) -> Option<String> {
        let row = |class: usize, score: f64, label: &Option<String>| {
            vec![class.to_string(), format!("{score:.6}"), label.clone().unwrap_or_default()]
        };
        match self {
            Self::Classes(classes) if classes.is_empty() => None,
            Self::Classes(classes) => {
                let rows: Vec<_> = classes.iter().map(|it| row(it.index, it.score, &it.label)).collect();
                Some(console.table(&["class", "score", "label"], &rows))
            }
            Self::Detections(detections) if detections.is_empty() => Some("nothing is detected".to_owned()),
            Self::Detections(detections) => {
                let place = |edges: [f64; 4]| edges.map(|edge| format!("{edge:.3}"));
                let row = |it: &Detection| [row(it.class, it.score, &it.label), place(it.edges).to_vec()].concat();
                let rows: Vec<_> = detections.iter().map(row).collect();
                Some(console.table(&["class", "score", "label", "top", "left", "bottom", "right"], &rows))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use attache::{DataType, Quantization, Shape};

    use super::*;

    fn output(values: &[u8], quantization: Option<Quantization>) -> Output {
        let (data_type, shape) = (DataType::UInt8, Shape::from([1, values.len()]));
        let array = Array { data_type, shape: shape.clone(), bytes: values.to_vec() };
        let info = TensorInfo { name: "y".into(), data_type, shape, shape_signature: None, quantization };
        let values = numbers(data_type, values).unwrap();
        Output { info, array, summary: Summary::of(&values), values }
    }

    #[test]
    fn classes_come_from_the_output_that_fits_the_labels() {
        let quantization = Quantization { scale: vec![0.5], zero_point: vec![2], axis: 0 };
        let outputs = [output(&[9, 9, 9], None), output(&[4, 8], Some(quantization))];
        let labels = ["cat".to_owned(), "dog".to_owned()];
        let dog = Class { index: 1, label: Some("dog".into()), score: 3.0 };
        let cat = Class { index: 0, label: Some("cat".into()), score: 1.0 };
        assert_eq!(classes(&outputs, &labels, 5), [dog, cat]);
        assert_eq!(classes(&outputs, &[], 1), [Class { index: 0, label: None, score: 9.0 }]);
    }
}

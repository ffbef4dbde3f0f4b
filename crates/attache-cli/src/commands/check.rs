//! `attache check`: golden cases against what comes out here.

mod coverage;

use std::path::{Path, PathBuf};

use attache::diff::{Steps, Tolerance};
use attache::{DataType, Interpreter, Model, Report as Figures};
use clap::Args;
use coverage::Coverage;
use serde::Serialize;
use serde_json::json;

use super::Command;
use crate::arguments::{DeviceArguments, PrecisionName, tolerance};
use crate::compare::{self, compare};
use crate::console::{Console, Report};
use crate::device::Device;
use crate::failure::{Failure, Status};
use crate::golden::{self, Case};
use crate::npy::Array;

/// Limits of the error of floats, relative to the largest golden value.
const CPU_LIMIT: f64 = 1e-5;
const GPU_LIMIT: f64 = 2e-5;
const GPU_LIMIT_16_BITS: f64 = 2e-3;

#[derive(Args, Debug)]
pub(super) struct Check {
    /// Folders; every folder at or below them with model.tflite, in_K.npy and out_K.npy is a case
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Only cases with this text in their path
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// The largest error of floats that passes [default: 1e-5 on the CPU, 2e-5 on the GPU in f32, else 2e-3]
    #[arg(long, value_name = "X", allow_hyphen_values = true, value_parser = tolerance)]
    tolerance: Option<f64>,
    /// Steps that quantized outputs may be off: N everywhere, and M for P percent of the elements; none by default
    #[arg(long, value_name = "N[:P:M]")]
    ulp: Option<Steps>,
    #[command(flatten)]
    device: DeviceArguments,
}

/// What is wrong with a case.
#[derive(Debug, PartialEq, Serialize)]
struct Mismatch {
    case: String,
    operator: String,
    /// Index of the output; none where the case failed before there was one.
    output: Option<usize>,
    /// The largest error; none where nothing could be compared, or where a value is finite on one side only.
    error: Option<f64>,
    limit: Option<f64>,
    message: String,
}

impl Command for Check {
    fn run(self, console: &Console) -> Result<Report, Failure> {
        let cases = self.cases()?;
        // Each variant in turn is this command's own affair.
        let all = self.device.variant.as_deref() == Some("all");
        let variant = self.device.variant.clone().filter(|_| !all);
        let device = Device::open(&DeviceArguments { variant, ..self.device.clone() })?;
        let mut coverage = all.then(|| Coverage::of(&device)).transpose()?;
        let relative = self.tolerance.unwrap_or_else(|| default_limit(&device));
        let tolerance = Tolerance { relative, steps: self.ulp.unwrap_or_default() };
        let progress = console.progress(cases.len());
        let mut failures = Vec::new();
        let mut failed = 0;
        for folder in &cases {
            progress.set_message(folder.display().to_string());
            let mismatches = check(folder, &device, &tolerance, coverage.as_mut());
            failed += usize::from(!mismatches.is_empty());
            failures.extend(mismatches);
            progress.inc(1);
        }
        progress.finish_and_clear();
        Ok(report(console, &device, [cases.len() - failed, failed], &failures, coverage.as_ref()))
    }
}

fn default_limit(device: &Device) -> f64 {
    match (device.adapter(), device.precision) {
        (None, _) => CPU_LIMIT,
        (Some(_), PrecisionName::F32) => GPU_LIMIT,
        (Some(_), PrecisionName::F32F16 | PrecisionName::F16) => GPU_LIMIT_16_BITS,
    }
}

impl Check {
    fn cases(&self) -> Result<Vec<PathBuf>, Failure> {
        let mut cases = Vec::new();
        for folder in &self.folders {
            cases.extend(golden::find(folder)?);
        }
        cases.sort();
        cases.dedup();
        if let Some(text) = &self.filter {
            cases.retain(|folder| folder.to_string_lossy().contains(text.as_str()));
        }
        let no_case = "no case found: a case is a folder with model.tflite, in_0.npy, … and out_0.npy, …";
        if cases.is_empty() { Err(Failure::usage(no_case)) } else { Ok(cases) }
    }
}

/// Everything that is wrong with a case, in every form that its kernels can take where those are counted.
fn check(folder: &Path, device: &Device, tolerance: &Tolerance, coverage: Option<&mut Coverage>) -> Vec<Mismatch> {
    let case = folder.display().to_string();
    let whole = |operator: String, failure: Failure| {
        let message = failure.message;
        vec![Mismatch { case: case.clone(), operator, output: None, error: None, limit: None, message }]
    };
    let golden = match Case::read(folder) {
        Ok(golden) => golden,
        Err(failure) => return whole(String::new(), failure),
    };
    let noted = golden.notes.op.clone();
    let model = match Model::from_path(golden::model_file(folder)) {
        Ok(model) => model,
        Err(error) => return whole(noted.unwrap_or_default(), error.into()),
    };
    let operator = noted.unwrap_or_else(|| name(&model));
    let compared = |device: &Device| -> Result<(Vec<Mismatch>, Figures), Failure> {
        let (found, figures) = outputs(&model, &golden, device)?;
        let pairs = golden.outputs.iter().zip(&found).enumerate();
        let mismatch = |(index, (golden_output, found)): (usize, (&Array, &Array))| {
            let difference = compare(golden_output, found, golden.notes.scale, tolerance)?;
            let limit = compare::limit(golden_output.data_type, tolerance);
            Some(Mismatch {
                case: case.clone(),
                operator: operator.clone(),
                output: Some(index),
                error: difference.error().filter(|error| error.is_finite()),
                limit: Some(limit),
                message: difference.describe(limit),
            })
        };
        Ok((pairs.filter_map(mismatch).collect(), figures))
    };
    let checked = |device: &Device| {
        compared(device).unwrap_or_else(|failure| (whole(operator.clone(), failure), Figures::default()))
    };
    match coverage {
        None => checked(device).0,
        Some(coverage) => coverage.check(device, checked),
    }
}

/// The operators of the model, in short.
fn name(model: &Model) -> String {
    let operators = &model.subgraphs()[0].operators;
    match operators.as_slice() {
        [only] => only.code.name(),
        operators => format!("{} operators", operators.len()),
    }
}

/// What the model makes of the case's inputs, and figures of what made it.
fn outputs(model: &Model, case: &Case, device: &Device) -> Result<(Vec<Array>, Figures), Failure> {
    let subgraph = &model.subgraphs()[0];
    let counts =
        [("in", subgraph.inputs.len(), case.inputs.len()), ("out", subgraph.outputs.len(), case.outputs.len())];
    for (stem, needed, given) in counts {
        if needed != given {
            return Err(Failure::usage(format!("{given} files {stem}_K.npy for {needed} of the model")));
        }
    }
    let declared = subgraph.inputs.iter().map(|tensor| &subgraph.tensors[*tensor].shape);
    let shapes = declared.zip(&case.inputs).enumerate().filter(|(_, (declared, input))| **declared != input.shape);
    let shapes: Vec<_> = shapes.map(|(index, (_, input))| (index, input.shape.to_vec())).collect();
    let mut interpreter = device.interpreter_of_shapes(model, &shapes)?;
    for (index, input) in case.inputs.iter().enumerate() {
        let expected: DataType = interpreter.inputs()[index].data_type;
        if input.data_type != expected {
            let reason = format!("in_{index}.npy is of type {}, the input of type {expected}", input.data_type);
            return Err(Failure::usage(reason));
        }
        interpreter.write_bytes(index, &input.bytes)?;
    }
    interpreter.invoke()?;
    let outputs: Result<_, _> = (0..case.outputs.len()).map(|index| output(&interpreter, index)).collect();
    Ok((outputs?, interpreter.report()))
}

fn output(interpreter: &Interpreter, index: usize) -> Result<Array, Failure> {
    let bytes = interpreter.read_bytes(index)?.to_vec();
    let info = &interpreter.outputs()[index];
    Ok(Array { data_type: info.data_type, shape: info.shape.clone(), bytes })
}

fn report(
    console: &Console,
    device: &Device,
    [passed, failed]: [usize; 2],
    failures: &[Mismatch],
    coverage: Option<&Coverage>,
) -> Report {
    let mut lines = vec![device.describe()];
    lines.extend(failures.iter().map(|failure| line(console, failure)));
    lines.extend(coverage.iter().flat_map(|coverage| coverage.lines(console)));
    let unseen = coverage.map_or(Vec::new(), Coverage::unseen);
    let last = format!("{passed} passed, {failed} failed");
    let good = failed == 0 && unseen.is_empty();
    lines.push(if good { console.green(&last) } else { console.red(&last) });
    let mut json = json!({
        "delegate": device.delegate(),
        "device": device.adapter().map(|adapter| &adapter.name),
        "precision": device.precision.word(),
        "quantized": device.quantized.word(),
        "passed": passed,
        "failed": failed,
        "failures": failures,
    });
    if let Some(coverage) = coverage {
        json["variants"] = coverage.cases();
        json["unseen"] = json!(unseen);
    }
    let status = if good { Status::Success } else { Status::Comparison };
    Report { text: lines.join("\n"), json, status }
}

fn line(console: &Console, failure: &Mismatch) -> String {
    let Mismatch { case, operator, output, message, .. } = failure;
    let output = output.map_or(String::new(), |index| format!(", output {index}"));
    let message = message.replace('\n', "\n    ");
    format!("{} {case}: {operator}{output}: {message}", console.red("FAILED"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_lines_and_objects() {
        let failure = Mismatch {
            case: "cases/ADD_000".into(),
            operator: "ADD".into(),
            output: Some(1),
            error: Some(0.5),
            limit: Some(1e-5),
            message: "3 values beyond 1e-5".into(),
        };
        let expected = "FAILED cases/ADD_000: ADD, output 1: 3 values beyond 1e-5";
        let console = Console::new(true);
        assert!(line(&console, &failure).ends_with(expected.trim_start_matches("FAILED ")));
        let object = serde_json::to_value(&failure).unwrap();
        let keys: Vec<_> = object.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["case", "error", "limit", "message", "operator", "output"]);
    }
}

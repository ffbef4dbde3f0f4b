//! `attache check`: compares outputs with those of golden cases or of the CPU.

mod against;
mod coverage;

use std::cell::Cell;
use std::path::{Path, PathBuf};

use against::Against;
use attache::diff::{QuantizationSteps, Tolerance};
use attache::{DataType, Interpreter, Model, Report as Figures};
use clap::Args;
use coverage::Coverage;
use serde::Serialize;
use serde_json::json;

use super::Command;
use crate::arguments::entry::Entry;
use crate::arguments::{DeviceArguments, PrecisionName, tolerance};
use crate::console::{Console, Report};
use crate::device::Device;
use crate::failure::{Failure, Status};
use crate::io::array::Array;
use crate::io::compare::{self, compare};
use crate::io::golden::{self, Case};

/// Default of `--tolerance` on the CPU: the largest error of float outputs that passes, relative to the
/// largest golden value.
const CPU_LIMIT: f64 = 1e-5;
/// Default of `--tolerance` on the GPU in f32, relative to the largest golden value.
const GPU_LIMIT: f64 = 2e-5;
/// Default of `--tolerance` on the GPU with 16-bit floats, relative to the largest golden value.
const GPU_LIMIT_16_BITS: f64 = 2e-3;

#[derive(Args, Debug)]
pub(super) struct Check {
    /// Folders; every folder at or below them with model.tflite, in_K.npy and out_K.npy is a case
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Check only cases with this text in their path
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// What outputs are compared with
    #[arg(long, value_enum, default_value_t = Against::Golden)]
    against: Against,
    /// Skip, and count, cases whose outputs on the CPU change beyond the tolerance when the floats that operators read
    /// are rounded to 16 bits
    #[arg(long)]
    skip_ill_conditioned: bool,
    /// Largest error of floats that passes [default: 1e-5 on the CPU, 2e-5 on the GPU in f32, else 2e-3]
    #[arg(long, value_name = "X", allow_hyphen_values = true, value_parser = tolerance)]
    tolerance: Option<f64>,
    /// Quantization steps that outputs may be off: N for every element, and M for P percent of the elements; none by
    /// default
    #[arg(long, alias = "ulp", value_name = "N[:P:M]")]
    quantization_steps: Option<QuantizationSteps>,
    #[command(flatten)]
    device: DeviceArguments,
}

/// An output that differs from the expected one, or an error that prevented the comparison.
#[derive(Debug, PartialEq, Serialize)]
struct Mismatch {
    case: String,
    operator: String,
    /// Index of the output; `None` if the case failed before there was one.
    output: Option<usize>,
    /// The largest error; `None` if nothing was compared, or if a value is finite on one side only.
    error: Option<f64>,
    limit: Option<f64>,
    message: String,
}

impl Command for Check {
    fn run(self, console: &Console) -> Result<Report, Failure> {
        let cases = self.cases()?;
        // `all` is handled by this command; the device only knows single variants.
        let all = self.device.variant.as_deref() == Some("all");
        let variant = self.device.variant.clone().filter(|_| !all);
        let device = Device::open(&DeviceArguments { variant, ..self.device.clone() })?;
        let mut coverage = all.then(|| Coverage::of(&device)).transpose()?;
        let relative = self.tolerance.unwrap_or_else(|| default_limit(&device));
        let tolerance = Tolerance { relative, steps: self.quantization_steps.unwrap_or_default() };
        let progress = console.progress(cases.len());
        let mut found = Found::default();
        for folder in &cases {
            progress.set_message(folder.display().to_string());
            self.add(folder, &device, &tolerance, coverage.as_mut(), &mut found);
            progress.inc(1);
        }
        progress.finish_and_clear();
        Ok(report(console, &device, &found, coverage.as_ref()))
    }
}

/// The results of all cases: numbers of cases, and all mismatches.
#[derive(Debug, Default)]
struct Found {
    passed: usize,
    failed: usize,
    /// Number of cases that were skipped as ill-conditioned.
    left_out: usize,
    /// Number of operators that ran on the device, and number of all operators, summed over the cases.
    /// Repetitions with other variants are not counted.
    operators: [usize; 2],
    failures: Vec<Mismatch>,
}

fn default_limit(device: &Device) -> f64 {
    match (device.has_delegate(), device.precision) {
        (false, _) => CPU_LIMIT,
        (true, PrecisionName::F32) => GPU_LIMIT,
        (true, PrecisionName::F32F16 | PrecisionName::F16) => GPU_LIMIT_16_BITS,
    }
}

impl Check {
    fn cases(&self) -> Result<Vec<PathBuf>, Failure> {
        let mut cases = Vec::new();
        for folder in &self.folders {
            cases.extend(golden::find(folder, self.against == Against::Golden)?);
        }
        cases.sort();
        cases.dedup();
        if cases.is_empty() {
            return Err(self.no_case());
        }
        if let Some(text) = &self.filter {
            cases.retain(|folder| folder.to_string_lossy().contains(text.as_str()));
            if cases.is_empty() {
                let reason =
                    format!("--filter {text}: no case has this text in its path; give another, or leave it out");
                return Err(Failure::usage(reason));
            }
        }
        Ok(cases)
    }

    /// Returns the error that there is no case in the folders.
    fn no_case(&self) -> Failure {
        let folders = self.folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ");
        let files = match self.against {
            Against::Golden => "model.tflite, in_0.npy, … and out_0.npy, …",
            Against::Cpu | Against::Operators => "model.tflite and in_0.npy, …",
        };
        Failure::usage(format!("there is no case in it; name a folder with {files}, or one above it")).at(folders)
    }
}

impl Check {
    /// Checks a case and adds its results to `found`. With `coverage`, the case is checked with every variant
    /// that applies.
    fn add(
        &self,
        folder: &Path,
        device: &Device,
        tolerance: &Tolerance,
        coverage: Option<&mut Coverage>,
        found: &mut Found,
    ) {
        let case = folder.display().to_string();
        let mut operator = String::new();
        let failures =
            self.compared(folder, device, tolerance, coverage, (&mut operator, found)).unwrap_or_else(|failure| {
                let message = failure.message;
                Some(vec![Mismatch { case, operator, output: None, error: None, limit: None, message }])
            });
        match failures {
            None => found.left_out += 1,
            Some(failures) if failures.is_empty() => found.passed += 1,
            Some(failures) => {
                found.failed += 1;
                found.failures.extend(failures);
            }
        }
    }

    /// Checks a case and returns all mismatches; `None` if the case is skipped. Stores the operator's name in
    /// `operator` and adds the numbers of operators to `found`.
    fn compared(
        &self,
        folder: &Path,
        device: &Device,
        tolerance: &Tolerance,
        coverage: Option<&mut Coverage>,
        (operator, found): (&mut String, &mut Found),
    ) -> Result<Option<Vec<Mismatch>>, Failure> {
        let model = Model::from_path(golden::model_file(folder))?;
        *operator = name(&model);
        let golden = self.against.case(folder, &model, &device.limits)?;
        if let Some(noted) = &golden.notes.op {
            operator.clone_from(noted);
        }
        let case = folder.display().to_string();
        if self.skip_ill_conditioned {
            let trace = against::trace(&golden, &model, &device.limits)?;
            if against::is_ill_conditioned(&trace, golden.notes.scale, tolerance)? {
                return Ok(None);
            }
        }
        if self.against == Against::Operators {
            let trace = against::trace(&golden, &model, &device.limits)?;
            let (mismatches, operators) = against::operators(&case, &trace, device, tolerance)?;
            found.count(operators);
            return Ok(Some(mismatches));
        }
        let whole = |device: &Device| -> Result<Outcome, Failure> {
            let outcome = outputs(&model, &golden, device)?;
            let pairs = golden.outputs.iter().zip(&outcome.arrays).enumerate();
            let mismatch = |(index, (golden_output, made)): (usize, (&Array, &Array))| {
                let difference = compare(golden_output, made, golden.notes.scale, tolerance)?;
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
            Ok(Outcome { mismatches: pairs.filter_map(mismatch).collect(), ..outcome })
        };
        let counted = Cell::new(None);
        let checked = |device: &Device| match whole(device) {
            Ok(outcome) => {
                counted.set(counted.get().or(Some(outcome.operators)));
                (outcome.mismatches, outcome.figures)
            }
            Err(failure) => {
                let (case, operator, message) = (case.clone(), operator.clone(), failure.message);
                let mismatch = Mismatch { case, operator, output: None, error: None, limit: None, message };
                (vec![mismatch], Figures::default())
            }
        };
        let mismatches = match coverage {
            None => checked(device).0,
            Some(coverage) => coverage.check(device, checked),
        };
        found.count(counted.get().unwrap_or_default());
        Ok(Some(mismatches))
    }
}

impl Found {
    fn count(&mut self, [taken, all]: [usize; 2]) {
        self.operators = [self.operators[0] + taken, self.operators[1] + all];
    }
}

/// The result of running a case once.
struct Outcome {
    arrays: Vec<Array>,
    mismatches: Vec<Mismatch>,
    figures: Figures,
    /// Number of operators that ran on the device, and number of all operators.
    operators: [usize; 2],
}

/// Returns the name of the model's only operator, or the number of operators.
fn name(model: &Model) -> String {
    let operators = &model.subgraphs()[0].operators;
    match operators.as_slice() {
        [only] => only.code.name(),
        operators => format!("{} operators", operators.len()),
    }
}

/// Runs the model on the case's inputs and returns its outputs, not compared yet.
fn outputs(model: &Model, case: &Case, device: &Device) -> Result<Outcome, Failure> {
    let subgraph = &model.subgraphs()[0];
    check_count("out", subgraph.outputs.len(), case.outputs.len())?;
    let declared = subgraph.inputs.iter().map(|tensor| &subgraph.tensors[*tensor].shape);
    let shapes = declared.zip(&case.inputs).enumerate().filter(|(_, (declared, input))| **declared != input.shape);
    let shapes: Vec<_> = shapes.map(|(index, (_, input))| (index, input.shape.to_vec())).collect();
    let mut interpreter = device.interpreter(&Entry::first(model, "model.tflite", shapes))?;
    for (index, input) in case.inputs.iter().enumerate() {
        let expected: DataType = interpreter.inputs()[index].data_type;
        if input.data_type != expected {
            let reason = format!("in_{index}.npy is of type {}, the input of type {expected}", input.data_type);
            let remedy = format!("save array.astype(\"{}\")", expected.name().to_lowercase());
            return Err(Failure::usage(format!("{reason}; {remedy}")));
        }
        interpreter.write_bytes(index, &input.bytes)?;
    }
    interpreter.invoke()?;
    let arrays = (0..case.outputs.len()).map(|index| output(&interpreter, index)).collect::<Result<_, _>>()?;
    let figures = interpreter.report();
    Failure::of_panics(&figures)?;
    let [all, left] = [interpreter.placement().nodes.len(), interpreter.placement().left_behind().count()];
    Ok(Outcome { arrays, mismatches: Vec::new(), figures, operators: [all - left, all] })
}

/// Returns an error if a case has another number of files than the model has inputs (`in`) or outputs (`out`).
fn check_count(stem: &str, needed: usize, given: usize) -> Result<(), Failure> {
    if needed == given {
        return Ok(());
    }
    let reason = format!("files {stem}_K.npy: {given}, {stem}puts of the model: {needed}");
    Err(Failure::usage(format!("{reason}; add or remove files")))
}

fn output(interpreter: &Interpreter, index: usize) -> Result<Array, Failure> {
    let bytes = interpreter.read_bytes(index)?.to_vec();
    let info = &interpreter.outputs()[index];
    Ok(Array { data_type: info.data_type, shape: info.shape.clone(), bytes })
}

fn report(console: &Console, device: &Device, found: &Found, coverage: Option<&Coverage>) -> Report {
    let Found { passed, failed, left_out, operators: [taken, all], failures } = found;
    let (passed, failed) = (*passed, *failed);
    let mut lines = vec![device.describe()];
    lines.extend(failures.iter().map(|failure| line(console, failure)));
    lines.extend(coverage.iter().flat_map(|coverage| coverage.lines(console)));
    let unseen = coverage.map_or(Vec::new(), Coverage::unseen);
    if device.has_delegate() {
        let place = if device.adapter().is_some() { "GPU" } else { "delegate" };
        lines.push(format!("{taken} of {all} operators ran on the {place}"));
    }
    if *left_out > 0 {
        lines
            .push(format!("{left_out} left out: rounding to 16 bits moves the CPU's own outputs beyond the tolerance"));
    }
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
        "left_out": left_out,
        "operators": { "delegated": taken, "all": all },
        "failures": failures,
    });
    if let Some(coverage) = coverage {
        json["variants"] = coverage.cases();
        json["unseen"] = json!(unseen);
    }
    let status = if good { Status::Success } else { Status::Comparison };
    Report { status, ..Report::new(lines.join("\n"), json) }
}

fn line(console: &Console, failure: &Mismatch) -> String {
    let Mismatch { case, operator, output, message, .. } = failure;
    let output = output.map_or(String::new(), |index| format!(", output {index}"));
    let message = message.replace('\n', "\n    ");
    let of = if operator.is_empty() { String::new() } else { format!(" {operator}{output}:") };
    format!("{} {case}:{of} {message}", console.red("FAILED"))
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

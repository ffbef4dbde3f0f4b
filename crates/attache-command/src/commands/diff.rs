//! `attache diff`: compares the outputs of a delegate with those of the CPU, as a whole or by operator.

mod bisect;
pub(super) mod hybrid;
mod operators;
pub(super) mod outputs;

use std::path::PathBuf;
use std::sync::Arc;

use attache::diff::{QuantizationSteps, Tolerance, Trace, TraceInput};
use attache::{Delegate, Interpreter, TensorInfo};
use clap::Args;
use serde_json::{Value, json};

use super::Command;
use crate::arguments::entry::Entry;
use crate::arguments::{DelegateName, DeviceArguments, EntryArguments, ModelArgument, PrecisionName, tolerance, whole};
use crate::console::{Console, Report};
use crate::device::{Device, SOFTWARE};
use crate::failure::{Failure, Status};
use crate::inputs::{Given, InputArguments, Setting, fill_around_the_middle};
use crate::io::random::Random;
use crate::io::source::Source;
use crate::io::{files, golden};
use bisect::Bisection;
use hybrid::Hybrid;
use operators::Operators;
use outputs::Outputs;

/// Default of `--tolerance` in f32: the largest difference that passes, relative to the largest value of a
/// tensor.
const LIMIT: f64 = 1e-4;
/// Default of `--tolerance` with 16-bit floats, relative to the largest value of a tensor.
const LIMIT_16_BITS: f64 = 1e-2;

#[derive(Args, Debug)]
pub(super) struct Diff {
    #[command(flatten)]
    model: ModelArgument,
    /// Number of runs, each on other inputs [default: 10, or 1 if all inputs are given]
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32, 1>)]
    runs: Option<u32>,
    /// Run every operator alone on the delegate, with the CPU's values as inputs, and compare its outputs
    #[arg(long)]
    per_operator: bool,
    /// Find the first operator whose output differs from the CPU's
    #[arg(long)]
    bisect: bool,
    /// Folder for that operator as a golden case: model.tflite, in_K.npy and out_K.npy
    #[arg(short, long, value_name = "DIR", requires = "bisect")]
    out: Option<PathBuf>,
    /// Largest difference that passes, relative to the tensor's largest value [default: 1e-4, and 1e-2 in 16 bits]
    #[arg(long, value_name = "X", allow_hyphen_values = true, value_parser = tolerance)]
    tolerance: Option<f64>,
    /// Quantization steps by which tensors may differ: N for every element, and M for P percent of the elements; none
    /// by default
    #[arg(long, alias = "ulp", value_name = "N[:P:M]")]
    quantization_steps: Option<QuantizationSteps>,
    #[command(flatten)]
    inputs: InputArguments,
    #[command(flatten)]
    entry: EntryArguments,
    #[command(flatten)]
    device: DeviceArguments,
}

impl Command for Diff {
    fn run(self, console: &Console) -> Result<Report, Failure> {
        self.check_destination()?;
        let source = Source::find(&self.model.model)?;
        let opening = Device::open_beside(&self.device);
        let model = source.open()?;
        let entry = Entry::new(&model, &source.name, &self.entry)?;
        let device = self.checked(opening.wait()?)?;
        let tolerance = tolerance_for(device.precision, self.tolerance, self.quantization_steps);
        let reference = device.reference(&entry)?;
        let test = device.interpreter(&entry)?;
        let setting = Setting { console, entry: &entry, device: &device };
        let (outputs, worst, fallback, given) = self.compare(setting, (reference, test), &tolerance)?;
        let delegates = device.delegates();
        let hybrid = Hybrid::of(entry.subgraph());
        let (operators, bisection) = (None, None);
        let mut failure = None;
        let mut answer = Answer { device, tolerance, outputs, fallback, given, operators, bisection, hybrid };
        if self.per_operator || self.bisect {
            let trace = Trace::new(&model, entry.index, &worst, answer.device.threads, &answer.device.limits);
            let trace = trace.map_err(|error| entry.failure(error))?;
            answer.operators =
                self.per_operator.then(|| Operators::compare(console, &trace, &delegates)).transpose()?;
            if self.bisect {
                let (bisection, unwritten) = Bisection::search(&trace, &delegates, &tolerance, self.out.as_deref())?;
                (answer.bisection, failure) = (Some(bisection), unwritten);
            }
        }
        Ok(answer.report(console).with_failure(failure))
    }
}

impl Diff {
    /// Returns an error if nothing can be written in the folder of `--out`, or if a case in it is read.
    fn check_destination(&self) -> Result<(), Failure> {
        let Some(folder) = &self.out else { return Ok(()) };
        files::probe_folder(folder)?;
        let places = self.device.places().reads("MODEL", [self.model.model.as_path()]);
        let files = golden::files(folder);
        places
            .reads("--input", self.inputs.files())
            .writes("--out", files.iter().map(PathBuf::as_path))
            .check_distinct()
    }

    /// Returns the device. It is an error if there is no delegate to compare with, unless `--delegate cpu` requests
    /// that the CPU is compared with itself.
    fn checked(&self, device: Device) -> Result<Device, Failure> {
        if !device.has_delegate() && self.device.delegate != Some(DelegateName::Cpu) {
            return Err(Failure::unsupported(format!("there is no hardware GPU to compare with; {SOFTWARE}")));
        }
        Ok(device)
    }

    /// Runs both interpreters on the same inputs as often as `--runs` says. Returns the differences of the
    /// outputs in all runs, the inputs of the first run that failed (or else of the first run), the reason of
    /// a CPU fallback if there was one, and where the inputs are from.
    fn compare(
        &self,
        setting: Setting<'_>,
        (mut reference, mut test): (Interpreter, Interpreter),
        tolerance: &Tolerance,
    ) -> Result<(Outputs, Vec<TraceInput>, Option<String>, Given), Failure> {
        let given = self.inputs.fill(setting, &mut reference)?;
        let open = given.random();
        let runs = self.runs.unwrap_or(if open.is_empty() { 1 } else { 10 });
        let mut random = Random::new(self.inputs.seed());
        let mut outputs = Outputs::new(&reference);
        let mut kept = None;
        let progress = setting.console.progress(runs as usize);
        for _ in 0..runs {
            open.iter().try_for_each(|index| fill_around_the_middle(&mut reference, *index, &mut random))?;
            let inputs = copy_inputs(&mut reference, &mut test)?;
            for interpreter in [&mut reference, &mut test] {
                interpreter.reset_variables();
                interpreter.invoke().map_err(|error| given.explain(setting.entry.name, error.into()))?;
            }
            let passes = outputs.add(&reference, &test, tolerance)?;
            if kept.is_none() || (!passes && outputs.failed() == 1) {
                kept = Some(inputs);
            }
            progress.inc(1);
        }
        progress.finish_and_clear();
        let figures = test.report();
        Failure::of_panics(&figures)?;
        Ok((outputs, kept.unwrap_or_default(), figures.fallback, given))
    }
}

/// Returns by how much outputs may differ at this precision, unless the command line says otherwise.
pub(super) fn tolerance_for(
    precision: PrecisionName,
    relative: Option<f64>,
    steps: Option<QuantizationSteps>,
) -> Tolerance {
    let usual = match precision {
        PrecisionName::F32 => LIMIT,
        PrecisionName::F32F16 | PrecisionName::F16 => LIMIT_16_BITS,
    };
    Tolerance { relative: relative.unwrap_or(usual), steps: steps.unwrap_or_default() }
}

/// Copies the inputs of one interpreter to another, and returns them.
pub(super) fn copy_inputs(from: &mut Interpreter, to: &mut Interpreter) -> Result<Vec<TraceInput>, Failure> {
    let mut inputs = Vec::with_capacity(from.inputs().len());
    for index in 0..from.inputs().len() {
        let bytes = from.input_bytes_mut(index)?.to_vec();
        to.write_bytes(index, &bytes)?;
        inputs.push(TraceInput { shape: from.inputs()[index].shape.clone(), bytes });
    }
    Ok(inputs)
}

/// Returns the error for an output that cannot be compared.
pub(super) fn incomparable(index: usize, info: &TensorInfo) -> Failure {
    let reason = format!("output {index} (\"{}\") of type {}", info.name, info.data_type);
    Failure::unsupported(format!("{reason} can't be compared, or has another shape on the delegate"))
}

/// The result of `attache diff`.
struct Answer {
    device: Device,
    tolerance: Tolerance,
    outputs: Outputs,
    /// The reason that the CPU replaced the delegate, if it did.
    fallback: Option<String>,
    given: Given,
    operators: Option<Operators>,
    bisection: Option<Bisection>,
    hybrid: Hybrid,
}

impl Answer {
    fn report(&self, console: &Console) -> Report {
        let operators = self.operators.as_ref();
        let passes = self.outputs.failed() == 0
            && operators.is_none_or(|operators| operators.pass(&self.tolerance))
            && self.bisection.as_ref().is_none_or(Bisection::passes);
        let mut parts = vec![self.device.describe()];
        parts.extend(self.given.text(console));
        parts.push(self.outputs.text(console, &self.tolerance));
        parts.extend(operators.map(|operators| operators.text(console, &self.tolerance)));
        parts.extend(self.bisection.as_ref().map(|bisection| bisection.text(&self.hybrid)));
        if !passes && self.device.has_delegate() {
            parts.extend(self.hybrid.explanation());
        }
        let status = if passes { Status::Success } else { Status::Comparison };
        Report { status, ..Report::new(parts.join("\n"), self.json()) }
    }

    fn json(&self) -> Value {
        let adapter = self.device.adapter();
        let mut object = json!({
            "delegate": self.device.delegate(),
            "device": adapter.map(|adapter| &adapter.name),
            "backend": adapter.map(|adapter| &adapter.backend),
            "precision": self.device.precision.word(),
            "quantized": self.device.quantized.word(),
            "tolerance": self.tolerance.relative,
            "quantization_steps": self.tolerance.steps.to_string(),
            "ulp": self.tolerance.steps.to_string(),
            "fallback": self.fallback,
            "inputs": self.given.json(),
            "runs": self.outputs.runs(),
            "outputs": self.outputs.json(&self.tolerance),
            "hybrid_operators": self.hybrid.count(),
        });
        if let Some(operators) = &self.operators {
            object["operators"] = operators.json(&self.tolerance);
        }
        if let Some(bisection) = &self.bisection {
            object["bisect"] = bisection.json();
        }
        object
    }
}

/// A list of delegates, as the functions of [`Trace`] take it.
type Delegates = [Arc<dyn Delegate>];

//! `inference_diff_eval`: what a delegate computes against one thread of the CPU, on random inputs.

use std::path::Path;
use std::time::Instant;

use attache::Interpreter;
use attache::diff::Difference;
use serde_json::{Value, json};

use super::flags::{Flag, Flags, Kind, flag};
use super::lines::{Lines, microseconds, six};
use super::metrics::{self, Runner};
use crate::arguments::entry::Entry;
use crate::arguments::{DelegateName, DeviceArguments};
use crate::commands::diff::{copy_inputs, incomparable};
use crate::console::{Console, Report};
use crate::device::Device;
use crate::failure::Failure;
use crate::inputs::fill_around_the_middle;
use crate::io::message::Message;
use crate::io::random::Random;
use crate::io::source::Source;
use crate::measure::timing::{Statistics, milliseconds};

/// How often each interpreter runs on the same inputs.
const INVOCATIONS: usize = 3;

/// The flags of `inference_diff_eval`, beside those of evaluations and of all tools.
pub(super) static FLAGS: &[Flag] =
    &[flag("num_runs", Kind::Whole, "50", "Num runs", "runs on other inputs, of three invocations each")];

/// What was measured: milliseconds of each invocation, and the mean absolute difference of each output in each run.
struct Measured {
    runs: usize,
    reference: Vec<f64>,
    test: Vec<f64>,
    errors: Vec<Vec<f64>>,
}

/// Runs the tool.
pub(super) fn run(flags: &Flags, console: &Console) -> Result<Report, Failure> {
    let lines = Lines(console);
    let runner = Runner::of(flags)?;
    runner.begin(&lines)?;
    let name = flags.required("model_file")?;
    let runs = flags.count("num_runs").ok_or_else(|| Failure::usage("--num_runs must be 1 or more"))?;
    let source = Source::find(Path::new(name))?;
    let opening = Device::open_beside(&runner.device);
    let model = source.open()?;
    let entry = Entry::first(&model, name, Vec::new());
    let device = opening.wait()?;
    let cpu = DeviceArguments { delegate: Some(DelegateName::Cpu), threads: Some(1), ..DeviceArguments::default() };
    let reference = Device::open(&cpu)?.interpreter(&entry)?;
    let test = device.interpreter(&entry)?;
    runner.placed(&lines, console, test.placement())?;
    let measured = measure(console, runs, reference, test).map_err(|failure| failure.at(name))?;
    say(&lines, &measured)?;
    metrics::write(flags, &measured.message())?;
    Ok(Report::new("", measured.json()))
}

fn measure(
    console: &Console,
    runs: usize,
    mut reference: Interpreter,
    mut test: Interpreter,
) -> Result<Measured, Failure> {
    let mut random = Random::new(0);
    let (inputs, outputs) = (reference.inputs().len(), reference.outputs().len());
    let mut measured = Measured { runs, reference: Vec::new(), test: Vec::new(), errors: vec![Vec::new(); outputs] };
    let progress = console.progress(runs);
    for _ in 0..runs {
        (0..inputs).try_for_each(|index| fill_around_the_middle(&mut reference, index, &mut random))?;
        copy_inputs(&mut reference, &mut test)?;
        time(&mut reference, &mut measured.reference)?;
        time(&mut test, &mut measured.test)?;
        for (index, errors) in measured.errors.iter_mut().enumerate() {
            let info = &reference.outputs()[index];
            let difference = Difference::of(info.data_type, reference.read_bytes(index)?, test.read_bytes(index)?);
            errors.push(difference.ok_or_else(|| incomparable(index, info))?.average);
        }
        progress.inc(1);
    }
    progress.finish_and_clear();
    Failure::of_panics(&test.report())?;
    Ok(measured)
}

/// Runs an interpreter on its inputs, and adds the milliseconds of each invocation, with the reading of outputs.
fn time(interpreter: &mut Interpreter, times: &mut Vec<f64>) -> Result<(), Failure> {
    for _ in 0..INVOCATIONS {
        interpreter.reset_variables();
        let start = Instant::now();
        interpreter.invoke()?;
        (0..interpreter.outputs().len()).try_for_each(|index| interpreter.read_bytes(index).map(drop))?;
        times.push(milliseconds(start));
    }
    Ok(())
}

fn say(lines: &Lines<'_>, measured: &Measured) -> Result<(), Failure> {
    lines.say(format!("Num evaluation runs: {}", measured.runs))?;
    lines.say(metrics::latency_line("Reference run", &measured.reference))?;
    lines.say(metrics::latency_line("Test run", &measured.test))?;
    measured.errors.iter().enumerate().try_for_each(|(index, errors)| {
        let (mean, std) = Statistics::of(errors).map_or((0.0, 0.0), |all| (all.mean, all.std));
        lines.say(format!("OutputDiff[{index}]: avg_error={}, std_dev={}", six(mean), six(std)))
    })
}

impl Measured {
    /// Returns the message `EvaluationStageMetrics`.
    fn message(&self) -> Message {
        let errors = self.errors.iter().filter_map(|errors| Statistics::of(errors)).map(|all| {
            Message::default()
                .with(1, "max_value", all.max as f32)
                .with(2, "min_value", all.min as f32)
                .with(3, "avg_value", all.mean)
                .with(4, "std_deviation", all.std as f32)
        });
        let profiler = Message::default()
            .with(1, "reference_latency", metrics::latency(&self.reference))
            .with(2, "test_latency", metrics::latency(&self.test))
            .with_all(3, "output_errors", errors);
        metrics::stage(self.runs, 5, "inference_profiler_metrics", profiler)
    }

    fn json(&self) -> Value {
        let latency = |times: &[f64]| Statistics::of(&microseconds(times));
        json!({
            "runs": self.runs,
            "reference_us": latency(&self.reference),
            "test_us": latency(&self.test),
            "errors": self.errors.iter().map(|errors| Statistics::of(errors)).collect::<Vec<_>>(),
        })
    }
}

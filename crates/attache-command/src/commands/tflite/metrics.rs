//! What the evaluations of TensorFlow Lite's tools have in common: their flags about delegates, and their messages.

use std::path::Path;

use attache::Placement;

use super::delegates;
use super::flags::{Flag, Flags, Kind, flag};
use super::lines::{Lines, microseconds, six};
use crate::arguments::DeviceArguments;
use crate::console::Console;
use crate::failure::Failure;
use crate::io::files;
use crate::io::message::Message;
use crate::measure::timing::Statistics;

/// How an evaluation runs: the flags with what `--delegate` stands for, the device, and what is to be said of a delegate
/// that is not here.
pub(super) struct Runner {
    pub(super) flags: Flags,
    pub(super) device: DeviceArguments,
    note: Option<String>,
}

impl Runner {
    pub(super) fn of(flags: &Flags) -> Result<Self, Failure> {
        let threads = flags.count("num_interpreter_threads").or(Some(1));
        let (flags, note) = match flags.text("delegate") {
            "" | "xnnpack" => (flags.clone(), None),
            "gpu" => (flags.with("use_gpu", "true"), None),
            name @ ("nnapi" | "hexagon" | "coreml") => {
                let note = format!("--delegate={name}: there is no such delegate here, so the CPU runs the model");
                (flags.clone(), Some(note))
            }
            other => {
                let text = format!("--delegate={other}: it must be gpu, xnnpack, nnapi, hexagon or coreml");
                return Err(Failure::usage(text));
            }
        };
        let device = delegates::device(&flags, threads)?;
        Ok(Self { flags, device, note })
    }

    /// Prints which flags change nothing, and what is to be said of the delegate. Checks that the metrics can be
    /// written.
    pub(super) fn begin(&self, lines: &Lines<'_>) -> Result<(), Failure> {
        lines.say_all(&self.flags.notes())?;
        self.note.iter().try_for_each(|note| lines.say(note))?;
        self.flags.places(&["output_file_path"]).check()
    }

    /// Prints how much of the model delegates run.
    pub(super) fn placed(&self, lines: &Lines<'_>, console: &Console, placement: &Placement) -> Result<(), Failure> {
        console.log(&placement.log);
        lines.say_all(&delegates::applied(&self.flags, placement))
    }
}

/// Returns the message `LatencyMetrics` of durations in milliseconds.
pub(super) fn latency(times: &[f64]) -> Message {
    let times = microseconds(times);
    let Some(all) = Statistics::of(&times) else { return Message::default() };
    Message::default()
        .with(1, "last_us", times[times.len() - 1] as i64)
        .with(2, "max_us", all.max as i64)
        .with(3, "min_us", all.min as i64)
        .with(4, "sum_us", times.iter().sum::<f64>() as i64)
        .with(5, "avg_us", all.mean)
        .with(6, "std_deviation_us", all.std as i64)
}

/// Formats the average and the deviation of durations in milliseconds, which `what` names.
pub(super) fn latency_line(what: &str, times: &[f64]) -> String {
    let all = Statistics::of(&microseconds(times));
    let (mean, std) = all.map_or((0.0, 0.0), |all| (all.mean, all.std));
    format!("{what} latency: avg={}(us), std_dev={}(us)", six(mean), std.trunc())
}

/// Returns the message `EvaluationStageMetrics` with the metrics of a task in the field `number`.
pub(super) fn stage(runs: usize, number: u32, name: &'static str, metrics: Message) -> Message {
    let process = Message::default().with(number, name, metrics);
    Message::default().with(1, "num_runs", runs).with(2, "process_metrics", process)
}

/// Writes a message to the file of `--output_file_path`, if there is one.
pub(super) fn write(flags: &Flags, message: &Message) -> Result<(), Failure> {
    match flags.some("output_file_path").map(Path::new) {
        Some(path) => files::write(path, &message.for_file(path)),
        None => Ok(()),
    }
}

/// The flags that all evaluations have.
pub(super) static FLAGS: &[Flag] = &[
    flag("model_file", Kind::Text, "", "Model file", "model file, or the name of a built-in model"),
    flag("output_file_path", Kind::Text, "", "Output file path", "file for the metrics as EvaluationStageMetrics"),
    flag("num_interpreter_threads", Kind::Whole, "1", "Num interpreter threads", "CPU threads of an interpreter"),
    flag("delegate", Kind::Text, "", "Delegate", "gpu, or nothing for the CPU"),
];

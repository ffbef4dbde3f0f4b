//! What the evaluations of TensorFlow Lite's tools have in common: their flags about delegates, and their messages.

use std::path::Path;

use super::delegates;
use super::flags::Flags;
use super::lines::{Lines, microseconds, six};
use crate::arguments::DeviceArguments;
use crate::failure::Failure;
use crate::io::files;
use crate::io::message::Message;
use crate::measure::timing::Statistics;

/// Returns the device that an evaluation asks for with `--delegate`, or with the flags of all tools, and what is to be
/// said of a delegate that is not here.
pub(super) fn device(flags: &Flags) -> Result<(DeviceArguments, Option<String>), Failure> {
    let threads = flags.count("num_interpreter_threads").or(Some(1));
    let note =
        |name: &str| Some(format!("--delegate={name}: there is no such delegate here, so the CPU runs the model"));
    match flags.text("delegate") {
        "" | "xnnpack" => Ok((delegates::device(flags, threads)?, None)),
        "gpu" => Ok((delegates::device(&flags.with("use_gpu", "true"), threads)?, None)),
        name @ ("nnapi" | "hexagon" | "coreml") => Ok((delegates::device(flags, threads)?, note(name))),
        other => Err(Failure::usage(format!("--delegate={other}: it must be gpu, xnnpack, nnapi, hexagon or coreml"))),
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

/// Prints what the flags that change nothing are, and the note about the delegate.
pub(super) fn say_notes(lines: &Lines<'_>, flags: &Flags, note: Option<String>) -> Result<(), Failure> {
    lines.say_all(&flags.notes())?;
    note.map_or(Ok(()), |note| lines.say(note))
}

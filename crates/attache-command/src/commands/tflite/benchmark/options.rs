//! `benchmark_model_performance_options`: `benchmark_model` for each of several settings, and a summary.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;

use super::super::flags::{Flag, Flags, Kind, flag};
use super::super::lines::{Lines, microseconds, statistics};
use super::{Benchmark, Outcome};
use crate::console::{Console, Report};
use crate::device;
use crate::failure::Failure;
use crate::measure::timing::Statistics;

/// The flags of the tool, beside those of `benchmark_model`.
pub(in super::super) static FLAGS: &[Flag] = &[
    flag("perf_options_list", Kind::Text, "all", "Performance options", "all, cpu, gpu or none, separated by commas"),
    flag(
        "option_benchmark_run_delay",
        Kind::Number,
        "-1",
        "Delay between options (seconds)",
        "pause between two settings, in seconds",
    ),
    flag(
        "random_shuffle_benchmark_runs",
        Kind::Switch,
        "true",
        "Random shuffle",
        "take the settings in a random order",
    ),
];

/// A setting: its name, and the flags that it sets.
struct Setting {
    name: String,
    flags: Vec<(&'static str, String)>,
}

impl Setting {
    fn new(name: impl Into<String>, flags: &[(&'static str, &str)]) -> Self {
        Self { name: name.into(), flags: flags.iter().map(|(flag, value)| (*flag, (*value).to_owned())).collect() }
    }
}

/// Runs the tool.
pub(in super::super) fn run(flags: &Flags, console: &Console) -> Result<Report, Failure> {
    let lines = Lines(console);
    lines.say("STARTING!")?;
    lines.say_all(&flags.echo())?;
    lines.say_all(&flags.notes())?;
    let (mut settings, notes) = settings(flags)?;
    lines.say_all(&notes)?;
    if flags.is("random_shuffle_benchmark_runs") {
        shuffle(&mut settings);
    }
    let pause = Duration::try_from_secs_f64(flags.number("option_benchmark_run_delay")).unwrap_or(Duration::ZERO);
    let mut outcomes: Vec<(String, Result<Outcome, Failure>)> = Vec::new();
    for setting in settings {
        if !outcomes.is_empty() {
            std::thread::sleep(pause);
        }
        lines.say(format!("\n{}: begin", setting.name))?;
        let own = setting.flags.iter().fold(flags.clone(), |flags, (name, value)| flags.with(name, value));
        let outcome = Benchmark { flags: &own, console, lines: Lines(console) }.measure();
        match outcome {
            // What the command line or the file has wrong is wrong with every setting.
            Err(failure) if failure.kind == crate::failure::Kind::Usage => return Err(failure),
            Err(failure) if failure.kind == crate::failure::Kind::Model => return Err(failure),
            outcome => outcomes.push((setting.name, outcome)),
        }
    }
    summary(&lines, outcomes)
}

/// Prints the settings with their statistics, the fastest first.
fn summary(lines: &Lines<'_>, outcomes: Vec<(String, Result<Outcome, Failure>)>) -> Result<Report, Failure> {
    let mut rows = Vec::new();
    let mut failed = Vec::new();
    for (name, outcome) in outcomes {
        match outcome {
            Ok(outcome) => rows.push((name, microseconds(&outcome.runs))),
            Err(failure) => failed.push((name, failure)),
        }
    }
    let average = |times: &[f64]| Statistics::of(times).map_or(f64::INFINITY, |all| all.mean);
    rows.sort_by(|one, other| average(&one.1).total_cmp(&average(&other.1)));
    let bar = "=".repeat(14);
    lines.say(format!("\n{bar}Summary of All Runs w/ Different Performance Options{bar}"))?;
    for (name, times) in &rows {
        lines.say(format!("{name:>26}: {}", statistics(times)))?;
    }
    for (name, failure) in &failed {
        lines.say(format!("{name:>26}: failed: {failure}"))?;
    }
    if let (Some((_, failure)), true) = (failed.first(), rows.is_empty()) {
        return Err(failure.clone());
    }
    let json = rows.iter().map(|(name, times)| json!({ "option": name, "inference_us": Statistics::of(times) }));
    let failures = failed.iter().map(|(name, failure)| json!({ "option": name, "error": failure.message }));
    Ok(Report::new("", json!({ "options": json.chain(failures).collect::<Vec<_>>() })))
}

/// Returns the settings to measure, and what is to be said of names without one.
fn settings(flags: &Flags) -> Result<(Vec<Setting>, Vec<String>), Failure> {
    let (mut settings, mut notes) = (Vec::new(), Vec::new());
    let has_gpu = device::adapters().iter().any(|adapter| !adapter.is_software && adapter.unusable.is_none());
    for name in flags.text("perf_options_list").split(',').map(str::trim) {
        match name {
            "all" => {
                add_cpu(&mut settings);
                if has_gpu {
                    add_gpu(&mut settings);
                }
            }
            "cpu" => add_cpu(&mut settings),
            "gpu" => add_gpu(&mut settings),
            "none" => settings.push(Setting::new("as the flags say", &[])),
            "nnapi" | "coreml" | "dsp" => notes.push(format!("--perf_options_list: there is no {name} here")),
            other => {
                let text = format!("--perf_options_list: \"{other}\" is not known; name all, cpu, gpu or none");
                return Err(Failure::usage(text));
            }
        }
    }
    let mut seen: Vec<String> = Vec::new();
    settings.retain(|setting| {
        let is_new = !seen.contains(&setting.name);
        seen.push(setting.name.clone());
        is_new
    });
    match settings.is_empty() {
        true => Err(Failure::unsupported(format!("nothing is left to measure; {}", notes.join("; ")))),
        false => Ok((settings, notes)),
    }
}

fn add_cpu(settings: &mut Vec<Setting>) {
    for threads in ["1", "2", "4"] {
        let flags = [("use_gpu", "false"), ("num_threads", threads)];
        settings.push(Setting::new(format!("cpu w/ {threads} threads"), &flags));
    }
}

fn add_gpu(settings: &mut Vec<Setting>) {
    for (name, is_short) in [("gpu-fp16", "true"), ("gpu-default", "false")] {
        settings.push(Setting::new(name, &[("use_gpu", "true"), ("gpu_precision_loss_allowed", is_short)]));
    }
}

/// Puts settings in an order that differs from run to run.
fn shuffle(settings: &mut [Setting]) {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_nanos() as u64 | 1);
    let mut state = seed;
    for last in (1..settings.len()).rev() {
        // An xorshift generator: the order has to vary, nothing else.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        settings.swap(last, (state % (last as u64 + 1)) as usize);
    }
}

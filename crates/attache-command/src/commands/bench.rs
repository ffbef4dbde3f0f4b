//! `attache bench`: measures how long a model takes, from its bytes to its outputs, its memory use, and where
//! its time goes.

pub(super) mod compare;
mod operator;
mod operators;
pub(super) mod profile;
mod svg;
mod trace;

use std::path::{Path, PathBuf};
use std::time::Instant;

use attache::Report as Figures;
use clap::Args;
use serde_json::{Value, json};

use super::Command;
use crate::arguments::entry::Entry;
use crate::arguments::{DeviceArguments, EntryArguments, IoName, PreferenceName, whole};
use crate::console::{Console, Report, counted};
use crate::device::Device;
use crate::device::start::{StartUp, Started};
use crate::failure::Failure;
use crate::inputs::{Given, InputArguments, Setting};
use crate::io::files;
use crate::io::places::Places;
use crate::io::source::Source;
use crate::measure::caller::Caller;
use crate::measure::memory::peak_resident_bytes;
use crate::measure::timing::{Statistics, Stop, milliseconds};
use profile::Profiles;

/// Number of consecutive runs on the same inputs in one round of the pipelined measurement.
const PIPELINED: usize = 50;
/// Minimum number of measured runs without `--runs`, as in TensorFlow Lite's benchmark.
const RUNS: usize = 50;
/// Minimum duration of the measured runs without `--runs`, in seconds, as in TensorFlow Lite's benchmark.
const SECONDS: f64 = 1.0;
/// Time limit of the measured runs without `--runs`, and of the warm-up runs without `--warmup`, in seconds.
const MOST_SECONDS: f64 = 150.0;
/// Time limit of the pipelined measurement, in seconds. Each of its rounds has [`PIPELINED`] runs.
const MOST_SECONDS_PIPELINED: f64 = 20.0;
/// Number of measured runs per round of the pipelined measurement, which determines the number of rounds.
const RUNS_PER_ROUND: usize = 5;

#[derive(Args, Debug)]
pub(super) struct Bench {
    /// A .tflite file, or the name of a built-in model (`attache zoo` lists them)
    #[arg(required_unless_present = "compare")]
    model: Option<PathBuf>,
    /// Measured runs [default: at least 50, and at least one second of them]
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32, 1>)]
    runs: Option<u32>,
    /// Warm-up runs after the first run [default: at least 1, and at least half a second of them]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32, 0>)]
    warmup: Option<u32>,
    /// Where inputs and outputs are: with `device` and `import` a run is what it takes from its submission to its end
    #[arg(long, value_name = "PLACE", value_enum, default_value_t)]
    io: IoName,
    /// Show where the time goes: on the GPU dispatch by dispatch, on the CPU operator by operator
    #[arg(short, long)]
    profile: bool,
    /// File for the profile as a trace, for Perfetto or chrome://tracing
    #[arg(long, value_name = "FILE")]
    chrome_trace: Option<PathBuf>,
    /// File for the profile as an SVG picture
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// File for the result as --json prints it, for --compare
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Compare two measurements, given by their files, instead of measuring
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"])]
    #[arg(conflicts_with_all = ["model", "runs", "warmup", "io", "profile", "chrome_trace", "svg", "out"])]
    #[arg(conflicts_with_all = ["EntryArguments", "InputArguments", "LimitArguments"])]
    #[arg(conflicts_with_all = DeviceArguments::IDS)]
    compare: Option<Vec<PathBuf>>,
    #[command(flatten)]
    inputs: InputArguments,
    #[command(flatten)]
    entry: EntryArguments,
    #[command(flatten)]
    device: DeviceArguments,
}

/// The measured times, in milliseconds unless stated otherwise.
struct Times {
    start_up: StartUp,
    first: f64,
    end_to_end: Statistics,
    pipelined: Statistics,
    /// Microseconds from the start of a run, with inputs already written, until it is submitted to the
    /// device; `None` if runs cannot be asynchronous.
    submit_us: Option<Statistics>,
    /// Milliseconds that it took to bind inputs and outputs, with the pinning of imported memory.
    bind: f64,
    /// Bytes of inputs and outputs that a run copies between host and GPU; `None` if they are not counted.
    io_bytes: Option<u64>,
}

impl Command for Bench {
    fn run(self, console: &Console) -> Result<Report, Failure> {
        match (self.compare.as_deref(), &self.model) {
            (Some([before, after]), _) => compare::compare(console, before, after),
            (_, Some(model)) => self.measure(console, model),
            _ => Err(Failure::usage("name a model, or two files to --compare")),
        }
    }
}

impl Bench {
    fn measure(&self, console: &Console, model: &Path) -> Result<Report, Failure> {
        self.places(model).check()?;
        let source = Source::find(model)?;
        let name = source.name.clone();
        let started = Started::of(source, &self.device.usually(PreferenceName::SustainedSpeed))?;
        let entry = Entry::new(&started.model, &name, &self.entry)?;
        let mut interpreter = started.device.interpreter(&entry)?;
        let start_up = started.up();
        let device = &started.device;
        // Report that profiling is impossible before the long measurements start.
        let profiled = self.wants_profile().then(|| device.profiled()).transpose()?;

        let setting = Setting { console, entry: &entry, device };
        let given = self.inputs.fill_all(setting, &mut interpreter)?;
        let mut caller = Caller::new(interpreter)?;
        console.log(&caller.interpreter.placement().log);
        let bind = self.bind(device, &mut caller)?;
        let times = self.times(console, &mut caller, (start_up, bind));
        let times = times.map_err(|failure| given.explain(&name, failure))?;
        let figures = caller.interpreter.report();
        let profiles = match &profiled {
            Some(device) => {
                let caller = caller.with(device.interpreter(&entry)?);
                Some(Profiles::measure(device, caller, figures.partitions, profile::MOST_SECONDS)?)
            }
            None => None,
        };
        let measured = Measured { name, device: device.clone(), given, io: self.io, times, figures };
        let mut text = measured.text(console);
        text.extend(profiles.iter().map(|profiles| format!("\n{}", profiles.text(console))));
        let mut json = measured.json();
        json["profile"] = json!(profiles.as_ref().and_then(|profiles| profiles.gpu.as_ref()));
        json["cpu_profile"] = json!(profiles.as_ref().and_then(|profiles| profiles.cpu.as_ref()));
        let written = self.write_files(&measured.name, profiles.as_ref(), &json);
        Ok(Report::new(text, json).with_failure(written.err()))
    }

    fn places(&self, model: &Path) -> Places {
        let places = self.device.places().reads("MODEL", [model]).reads("--input", self.inputs.files());
        let places = places.writes("--out", self.out.as_deref());
        places.writes("--chrome-trace", self.chrome_trace.as_deref()).writes("--svg", self.svg.as_deref())
    }

    /// Binds inputs and outputs if they are not on the host. Returns the milliseconds that it took.
    fn bind(&self, device: &Device, caller: &mut Caller) -> Result<f64, Failure> {
        let start = Instant::now();
        if self.io != IoName::Host {
            device.bind(&mut caller.interpreter, &caller.inputs, self.io)?;
            caller.is_bound = true;
        }
        Ok(milliseconds(start))
    }

    /// Measures all times with the host's clock, except those of the start and of binding, which were measured before.
    fn times(
        &self,
        console: &Console,
        caller: &mut Caller,
        (start_up, bind): (StartUp, f64),
    ) -> Result<Times, Failure> {
        let start = Instant::now();
        caller.end_to_end()?;
        let first = milliseconds(start);
        let progress = console.progress(3);
        progress.set_message("warming up");
        self.warm_up().time(|| caller.end_to_end())?;
        progress.inc(1);
        progress.set_message("end to end");
        let end_to_end = durations(&self.measured().time(|| caller.end_to_end())?)?;
        progress.inc(1);
        progress.set_message("back to back");
        let rounds = self.rounds().time(|| caller.repeated(PIPELINED))?;
        let each: Vec<f64> = rounds.iter().map(|round| round / PIPELINED as f64).collect();
        let submit_us = self.submissions(caller)?;
        let before = caller.interpreter.report().io_bytes;
        caller.end_to_end()?;
        let after = caller.interpreter.report().io_bytes;
        let io_bytes = after.zip(before).map(|(after, before)| after - before);
        progress.finish_and_clear();
        Ok(Times { start_up, first, end_to_end, pipelined: durations(&each)?, submit_us, bind, io_bytes })
    }

    /// Measures the microseconds until a run is submitted; `None` if starting a run waits for its end.
    fn submissions(&self, caller: &mut Caller) -> Result<Option<Statistics>, Failure> {
        if caller.interpreter.queue_depth() == 1 {
            return Ok(None);
        }
        let mut times = Vec::new();
        Stop { seconds: 0.0, ..self.measured() }.time(|| {
            times.push(caller.submit()?);
            Ok(())
        })?;
        durations(&times).map(Some)
    }

    /// Whether one of the options needs a profile.
    fn wants_profile(&self) -> bool {
        self.profile || self.chrome_trace.is_some() || self.svg.is_some()
    }

    /// Writes the files that the command line names: all of them or none.
    fn write_files(&self, name: &str, profiles: Option<&Profiles>, json: &Value) -> Result<(), Failure> {
        let mut all: Vec<(&Path, String)> = Vec::new();
        all.extend(self.out.as_deref().map(|path| (path, json.to_string())));
        if let Some(profiles) = profiles {
            all.extend(self.chrome_trace.as_deref().map(|path| (path, trace::trace(name, profiles).to_string())));
            all.extend(self.svg.as_deref().map(|path| (path, svg::svg(name, profiles))));
        }
        let all: Vec<(&Path, &[u8])> = all.iter().map(|(path, text)| (*path, text.as_bytes())).collect();
        files::write_all(&all)
    }

    fn measured(&self) -> Stop {
        match self.runs {
            Some(runs) => Stop { runs: runs as usize, seconds: 0.0, most: f64::INFINITY },
            None => Stop { runs: RUNS, seconds: SECONDS, most: MOST_SECONDS },
        }
    }

    fn rounds(&self) -> Stop {
        let runs = self.runs.map_or(RUNS, |runs| runs as usize).div_ceil(RUNS_PER_ROUND);
        Stop { runs, seconds: 0.0, most: MOST_SECONDS_PIPELINED }
    }

    fn warm_up(&self) -> Stop {
        match self.warmup {
            Some(runs) => Stop { runs: runs as usize, seconds: 0.0, most: f64::INFINITY },
            None => Stop { runs: 1, seconds: 0.5, most: MOST_SECONDS },
        }
    }
}

fn durations(times: &[f64]) -> Result<Statistics, Failure> {
    Statistics::of(times).ok_or_else(|| Failure::usage("nothing was measured"))
}

/// Returns the bytes of the arena and their lower bound: the GPU's if anything runs there, else the CPU's.
fn arena(figures: &Figures) -> (usize, usize) {
    match figures.partitions {
        0 => (figures.cpu_arena_bytes, figures.cpu_arena_lower_bound_bytes),
        _ => (figures.arena_bytes, figures.arena_lower_bound_bytes),
    }
}

/// What was measured, of which model, on which device and inputs.
struct Measured {
    name: String,
    device: Device,
    given: Given,
    io: IoName,
    times: Times,
    figures: Figures,
}

impl Measured {
    /// Returns the milliseconds of initialization that are neither compilation nor upload: parsing, planning, packing.
    fn rest(&self) -> f64 {
        (self.times.start_up.init - self.figures.compile_ms - self.figures.upload_ms).max(0.0)
    }

    fn json(&self) -> Value {
        let Self { name, device, given, io, times, figures } = self;
        let adapter = device.adapter();
        let (arena_bytes, arena_lower_bound_bytes) = arena(figures);
        let opened = device.open_times();
        json!({
            "model": name,
            "delegate": device.delegate(),
            "precision": device.precision.word(),
            "quantized": device.quantized.word(),
            "threads": device.threads,
            "device": adapter.map(|adapter| &adapter.name),
            "driver": adapter.map(|adapter| &adapter.driver),
            "backend": adapter.map(|adapter| &adapter.backend),
            "inputs": given.json(),
            "ready_ms": times.start_up.ready,
            "read_ms": times.start_up.read,
            "device_ms": device.milliseconds,
            "device_instance_ms": opened.map(|opened| opened.instance),
            "device_search_ms": opened.map(|opened| opened.search),
            "device_open_ms": opened.map(|opened| opened.device),
            "init_ms": times.start_up.init,
            "compile_ms": figures.compile_ms,
            "upload_ms": figures.upload_ms,
            "rest_ms": self.rest(),
            "first_ms": times.first,
            "e2e_ms": times.end_to_end,
            "pipelined_ms": times.pipelined,
            "submit_us": times.submit_us,
            "io": io.word(),
            "io_bytes": times.io_bytes,
            "bind_ms": times.bind,
            "nodes": figures.nodes,
            "nodes_delegated": figures.nodes_delegated,
            "partitions": figures.partitions,
            "fallback": figures.fallback,
            "dispatches": figures.dispatches,
            "arena_bytes": arena_bytes,
            "arena_lower_bound_bytes": arena_lower_bound_bytes,
            "weights_bytes": figures.weights_bytes,
            "peak_rss_bytes": peak_resident_bytes(),
        })
    }

    fn text(&self, console: &Console) -> String {
        let Self { name, device, given, io, times, figures } = self;
        let mut parts = vec![format!("{}: {}", console.bold(name), device.describe())];
        parts.extend(given.text(console));
        parts.extend(device.search());
        let StartUp { read, init, ready } = times.start_up;
        let beside = if device.open_times().is_some() { " while the GPU was opened" } else { "" };
        parts.push(format!("the model was read in {read:.1} ms{beside}; ready to run after {ready:.1} ms"));
        parts.push(format!(
            "init {init:.1} ms (compile {:.1}, upload {:.1}, rest {:.1}), first run {:.3} ms",
            figures.compile_ms,
            figures.upload_ms,
            self.rest(),
            times.first
        ));
        let milliseconds = |time: f64| format!("{time:.3}");
        let row = |what: &str, each: usize, times: &Statistics| {
            let Statistics { count, median, p5, p95, min, max, mean, std } = *times;
            let words = [what.to_owned(), (count * each).to_string()];
            words.into_iter().chain([median, p5, p95, min, max, mean, std].map(milliseconds)).collect()
        };
        let rows = [row("end to end", 1, &times.end_to_end), row("pipelined", PIPELINED, &times.pipelined)];
        parts.push(console.table(&["ms", "runs", "median", "p5", "p95", "min", "max", "mean", "std"], &rows));
        if let Some(Statistics { median, p95, .. }) = times.submit_us {
            parts.push(format!("{median:.1} us until a run is the device's (p95 {p95:.1})"));
        }
        if *io != IoName::Host {
            let bytes = times.io_bytes.map_or("an unknown number of".to_owned(), |bytes| bytes.to_string());
            let bind = times.bind;
            parts.push(format!(
                "--io {}: a run copies {bytes} bytes of inputs and outputs; bound in {bind:.3} ms",
                io.word()
            ));
        }
        let megabytes = |bytes: u64| format!("{:.2} MB", bytes as f64 / 1e6);
        let (arena, bound) = arena(figures);
        parts.push(format!(
            "{} of {} delegated, {}, {}",
            figures.nodes_delegated,
            counted(figures.nodes, "node", "nodes"),
            counted(figures.partitions, "partition", "partitions"),
            counted(figures.dispatches, "dispatch", "dispatches")
        ));
        parts.push(format!(
            "arena {} (at least {}), weights on the device {}, peak memory {}",
            megabytes(arena as u64),
            megabytes(bound as u64),
            megabytes(figures.weights_bytes as u64),
            peak_resident_bytes().map_or("unknown".to_owned(), megabytes)
        ));
        parts.join("\n")
    }
}

//! `benchmark_model`: how long a model takes to start and to run, in the lines and files of TensorFlow Lite's tool.

mod inputs;
pub(super) mod options;
mod profile;
mod results;
mod state;
mod table;

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::delegates;
use super::flags::Flags;
use super::lines::{Lines, microseconds, six, statistics};
use crate::arguments::EntryArguments;
use crate::arguments::entry::Entry;
use crate::console::{Console, Report};
use crate::device::Device;
use crate::device::start::Started;
use crate::failure::{Failure, Kind as FailureKind};
use crate::io::files;
use crate::io::message::Message;
use crate::io::source::Source;
use crate::measure::caller::Caller;
use crate::measure::memory::{Watch, peak_resident_bytes};
use crate::measure::timing::{Pace, Statistics, Stop, milliseconds};
use inputs::Layers;
use profile::{Profiles, Step, Steps};
use results::Files;

pub(super) use table::FLAGS;

/// Memory of the process, in bytes more than when the tool started.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Memory {
    pub(super) init: u64,
    pub(super) overall: u64,
    /// The most that was resident, if it was watched.
    pub(super) peak: Option<u64>,
}

/// What was measured. Times are in milliseconds.
pub(super) struct Outcome {
    pub(super) model_bytes: usize,
    /// Bytes of all inputs of a run.
    pub(super) input_bytes: usize,
    pub(super) init: f64,
    pub(super) warm_up: Vec<f64>,
    pub(super) runs: Vec<f64>,
    pub(super) memory: Memory,
    /// What was printed of delegates.
    pub(super) delegates: Vec<String>,
}

impl Outcome {
    /// Returns the time of the first run; 0 if there was none.
    pub(super) fn first(&self) -> f64 {
        self.warm_up.first().or(self.runs.first()).copied().unwrap_or(0.0)
    }

    fn json(&self, graph: &str) -> Value {
        let phase = |times: &[f64]| Statistics::of(&microseconds(times));
        json!({
            "model": graph,
            "model_bytes": self.model_bytes,
            "init_us": (self.init * 1e3).round(),
            "first_us": (self.first() * 1e3).round(),
            "warmup_us": phase(&self.warm_up),
            "inference_us": phase(&self.runs),
            "memory_init_bytes": self.memory.init,
            "memory_overall_bytes": self.memory.overall,
            "memory_peak_bytes": self.memory.peak,
            "delegates": self.delegates,
        })
    }
}

/// Runs the tool.
pub(super) fn run(flags: &Flags, console: &Console) -> Result<Report, Failure> {
    let lines = Lines(console);
    lines.say("STARTING!")?;
    lines.say_all(&flags.echo())?;
    lines.say_all(&flags.notes())?;
    if flags.is("list_signatures") {
        return list_signatures(flags, &lines);
    }
    let outcome = Benchmark { flags, console, lines }.measure()?;
    Ok(Report::new("", outcome.json(flags.text("graph"))))
}

fn list_signatures(flags: &Flags, lines: &Lines<'_>) -> Result<Report, Failure> {
    let model = Source::find(Path::new(flags.required("graph")?))?.open()?;
    let keys: Vec<&str> = model.signatures().iter().map(|signature| signature.key.as_str()).collect();
    lines.say(format!("The Model contains {} signature key(s).", keys.len()))?;
    keys.iter().try_for_each(|key| lines.say(format!("-> Signature Key: {key}")))?;
    Ok(Report::new("", json!({ "signatures": keys })))
}

/// A run of the tool.
struct Benchmark<'a> {
    flags: &'a Flags,
    console: &'a Console,
    lines: Lines<'a>,
}

impl Benchmark<'_> {
    fn measure(&self) -> Result<Outcome, Failure> {
        let (flags, lines) = (self.flags, &self.lines);
        let graph = flags.required("graph")?;
        let layers = Layers::parse(flags)?;
        let places = flags.places(&results::DESTINATIONS);
        places.reads("--input_layer_value_files", layers.files().map(Path::new)).check()?;
        let profile_mode = ProfileMode::of(flags)?;
        let source = Source::find(Path::new(graph))?;
        let before = peak_resident_bytes().unwrap_or(0);
        let grown = || peak_resident_bytes().unwrap_or(0).saturating_sub(before);
        let interval = flags.count("memory_footprint_check_interval_ms").unwrap_or(1) as u64;
        let watched = flags.is("report_peak_memory_footprint");
        let watch = watched.then(|| Watch::start(Duration::from_millis(interval)));
        let mut arguments = delegates::device(flags, flags.count("num_threads"))?;
        let needs_all = flags.is("require_full_delegation");
        if needs_all && arguments.delegate == Some(crate::arguments::DelegateName::Cpu) {
            return self.fallback(Failure::new(
                FailureKind::NotDelegated,
                "--require_full_delegation needs --use_gpu=true or another delegate",
            ));
        }
        arguments.require_delegation = needs_all;
        let mut started = Started::of(source, &arguments)?;
        lines.say(format!("Loaded model {graph}"))?;
        if profile_mode.is_some() {
            started.device = started.device.profiled()?;
        }
        let signature = flags.some("signature_to_run_for").map(str::to_owned);
        let arguments = EntryArguments { signature, shape: Vec::new() };
        let entry = Entry::new(&started.model, graph, &arguments)?;
        lines.say_all(&layers.notes(&entry)?)?;
        let entry = entry.with_shapes(layers.shapes(&entry)?);
        let mut interpreter = match started.device.interpreter(&entry) {
            Err(failure) if failure.kind == FailureKind::NotDelegated => return self.fallback(failure),
            built => built?,
        };
        let init = started.up().ready;
        self.console.log(&interpreter.placement().log);
        let delegates = delegates::applied(flags, interpreter.placement());
        lines.say_all(&delegates)?;
        let model_bytes = started.model.bytes().len();
        lines.say(format!("The input model file size (MB): {}", six(model_bytes as f64 / 1e6)))?;
        lines.say(format!("Initialized session in {}ms.", six(init)))?;
        let init_grown = grown();
        layers.fill(&entry, &mut interpreter)?;
        let mut caller = Caller::new(interpreter)?;
        self.state("print_preinvoke_state", "Pre-invoke", &caller)?;
        let runs = Runs::new(flags, started.device.adapter().is_some());
        let mut profiles = profile_mode.is_some().then(|| Profiles::new(entry.subgraph()));
        let explained = |failure: Failure| failure.at(graph);
        let warm_up = runs.phase(lines, self.warm_up(), &mut caller, None).map_err(explained)?;
        let timed = runs.phase(lines, self.regular(), &mut caller, profiles.as_mut()).map_err(explained)?;
        self.state("print_postinvoke_state", "Post-invoke", &caller)?;
        let peak = watch.map(Watch::finish);
        let memory = Memory { init: init_grown, overall: grown(), peak };
        let input_bytes = caller.inputs.iter().map(Vec::len).sum();
        let outcome = Outcome { model_bytes, input_bytes, init, warm_up, runs: timed, memory, delegates };
        self.say_outcome(&outcome)?;
        let mut files = self.files(&entry, &caller, &outcome)?;
        if let Some((mode, profiles)) = profile_mode.zip(profiles) {
            let steps = profiles.finish();
            let init_steps = init_steps(&started.device, &caller, &outcome);
            self.profile(&entry, &mode, [&init_steps, &steps], &mut files)?;
        }
        let files: Vec<(&Path, &[u8])> = files.iter().map(|(path, bytes)| (path.as_path(), bytes.as_slice())).collect();
        files::write_all(&files)?;
        Ok(outcome)
    }

    /// Says that operators are left to the CPU although that is not allowed, and returns the failure.
    fn fallback<T>(&self, failure: Failure) -> Result<T, Failure> {
        self.lines.say("Disallowed CPU fallback detected.")?;
        Err(failure)
    }

    fn state(&self, flag: &str, when: &str, caller: &Caller) -> Result<(), Failure> {
        match self.flags.is(flag) {
            true => self.lines.say_all(&state::describe(when, &caller.interpreter, self.flags)),
            false => Ok(()),
        }
    }

    fn warm_up(&self) -> Stop {
        self.stop("warmup_runs", "warmup_min_secs")
    }

    fn regular(&self) -> Stop {
        self.stop("num_runs", "min_secs")
    }

    fn stop(&self, runs: &str, seconds: &str) -> Stop {
        let flags = self.flags;
        if flags.is("dry_run") {
            return Stop { runs: 0, seconds: 0.0, most: flags.number("max_secs") };
        }
        Stop { runs: flags.count(runs).unwrap_or(0), seconds: flags.number(seconds), most: flags.number("max_secs") }
    }

    fn say_outcome(&self, outcome: &Outcome) -> Result<(), Failure> {
        let average = |times: &[f64]| six(Statistics::of(&microseconds(times)).map_or(0.0, |all| all.mean));
        let [init, first] = [outcome.init, outcome.first()].map(|time| (time * 1e3).round());
        self.lines.say(format!(
            "{}Inference timings in us: Init: {init}, First inference: {first}, Warmup (avg): {}, Inference (avg): {}",
            self.flags.text("output_prefix"),
            average(&outcome.warm_up),
            average(&outcome.runs)
        ))?;
        self.lines.say(
            "Note: the tool's own memory is part of these figures, so they only approximate what the model needs.",
        )?;
        let megabytes = |bytes: u64| six(bytes as f64 / f64::from(1 << 20));
        let Memory { init, overall, peak } = outcome.memory;
        self.lines.say(format!(
            "Memory footprint delta from the start of the tool (MB): init={} overall={}",
            megabytes(init),
            megabytes(overall)
        ))?;
        match peak {
            Some(peak) => self
                .lines
                .say(format!("Overall peak memory footprint (MB) via periodic monitoring: {}", megabytes(peak))),
            None => Ok(()),
        }
    }

    /// Returns the files that the command line asks for, except for profiles.
    fn files(&self, entry: &Entry<'_>, caller: &Caller, outcome: &Outcome) -> Result<Files, Failure> {
        let flags = self.flags;
        let mut all = Files::new();
        if let Some(path) = flags.some("result_file_path") {
            let message = results::result(flags.text("benchmark_name"), outcome);
            all.push((path.into(), message.for_file(Path::new(path))));
        }
        if !outcome.runs.is_empty() || !outcome.warm_up.is_empty() {
            results::outputs(flags, &caller.interpreter, &mut all)?;
        }
        if flags.is("export_model_runtime_info") {
            let path = flags.some("model_runtime_info_output_file").ok_or_else(|| {
                Failure::usage("--export_model_runtime_info needs --model_runtime_info_output_file=FILE")
            })?;
            all.push((path.into(), results::runtime(entry, &caller.interpreter).for_file(Path::new(path))));
        }
        Ok(all)
    }

    /// Prints the profiles of the start and of the runs, or adds them to the files.
    fn profile(
        &self,
        entry: &Entry<'_>,
        mode: &ProfileMode,
        [init, runs]: [&Steps; 2],
        to: &mut Files,
    ) -> Result<(), Failure> {
        let text = |is_csv: bool| {
            format!(
                "Profiling Info for Benchmark Initialization:\n{}\n\nOperator-wise Profiling Info for Regular Benchmark Runs:\n{}\n",
                init.text(is_csv),
                runs.text(is_csv)
            )
        };
        match mode {
            ProfileMode::Tables => self.lines.say(text(false)),
            ProfileMode::Csv(None) => self.lines.say(text(true)),
            ProfileMode::Csv(Some(path)) => {
                to.push((path.into(), text(true).into_bytes()));
                Ok(())
            }
            ProfileMode::Message(path) => {
                let subgraph = (entry.subgraph().name.as_str(), entry.index);
                let message = Message::default()
                    .with(1, "model_name", entry.name)
                    .with(2, "init_profile", init.message(subgraph))
                    .with(3, "runtime_profile", runs.message(subgraph));
                to.push((path.into(), message.for_file(Path::new(path))));
                Ok(())
            }
        }
    }
}

/// Where the operator profile goes.
enum ProfileMode {
    Tables,
    /// To a file, or to standard output.
    Csv(Option<String>),
    /// A `BenchmarkProfilingData` in a file.
    Message(String),
}

impl ProfileMode {
    /// Returns what the flags ask for; `None` without a profile.
    fn of(flags: &Flags) -> Result<Option<Self>, Failure> {
        let file = flags.some("op_profiling_output_file").map(str::to_owned);
        let earlier = flags.some("profiling_output_csv_file").map(str::to_owned);
        let mode = match (flags.text("op_profiling_output_mode"), file) {
            ("stdout" | "", _) if earlier.is_none() => Self::Tables,
            ("stdout" | "", _) => Self::Csv(earlier),
            ("csv", file) => Self::Csv(file.or(earlier)),
            ("proto", Some(file)) => Self::Message(file),
            ("proto", None) => {
                return Err(Failure::usage("--op_profiling_output_mode=proto needs --op_profiling_output_file=FILE"));
            }
            (other, _) => {
                let text = format!("--op_profiling_output_mode={other}: it must be stdout, csv or proto");
                return Err(Failure::usage(text));
            }
        };
        Ok(Some(mode).filter(|_| flags.is("enable_op_profiling")))
    }
}

/// Returns the parts of the start: what delegates took, and the rest.
fn init_steps(device: &Device, caller: &Caller, outcome: &Outcome) -> Steps {
    let figures = caller.interpreter.report();
    let delegate = (figures.compile_ms + figures.upload_ms) * 1e3;
    let step = |kind: &str, us: f64| Step {
        kind: kind.to_owned(),
        name: format!("{kind}/0"),
        times: [us.max(0.0).round()].into_iter().collect(),
        is_delegated: false,
    };
    let mut steps = Vec::new();
    if device.has_delegate() {
        steps.push(step("ModifyGraphWithDelegate", delegate));
    }
    steps.push(step("AllocateTensors", outcome.init * 1e3 - if device.has_delegate() { delegate } else { 0.0 }));
    let totals = steps.iter().map(|step| step.times.average()).sum();
    Steps { steps, totals: vec![totals] }
}

/// How a model runs: at which pace, and how often for each measured time.
struct Runs {
    pace: Pace,
    loops: usize,
}

impl Runs {
    fn new(flags: &Flags, has_gpu: bool) -> Self {
        let seconds = |number: f64| Duration::try_from_secs_f64(number).unwrap_or(Duration::ZERO);
        let (delay, frequency) = (flags.number("run_delay"), flags.number("run_frequency"));
        let pace = match (frequency > 0.0, delay > 0.0) {
            (true, _) => Pace::Every(seconds(1.0 / frequency)),
            (_, true) => Pace::Delay(seconds(delay)),
            _ => Pace::Free,
        };
        let loops = flags.count("gpu_invoke_loop_times").filter(|_| has_gpu).unwrap_or(1);
        Self { pace, loops }
    }

    /// Runs the model until the condition is reached, and prints two lines; profiles are added up. Returns the milliseconds of each run.
    fn phase(
        &self,
        lines: &Lines<'_>,
        stop: Stop,
        caller: &mut Caller,
        mut profiles: Option<&mut Profiles<'_>>,
    ) -> Result<Vec<f64>, Failure> {
        lines.say(format!(
            "Running benchmark for at least {} iterations and at least {} seconds but terminate if exceeding {} seconds.",
            stop.runs,
            six(stop.seconds),
            six(stop.most)
        ))?;
        let mut times = Vec::new();
        stop.time_at(self.pace, || {
            let start = Instant::now();
            match self.loops {
                1 => caller.end_to_end()?,
                loops => caller.repeated(loops)?,
            }
            times.push(milliseconds(start) / self.loops as f64);
            if let Some(profiles) = &mut profiles {
                profiles.add(&caller.interpreter.profile()?);
            }
            Ok(())
        })?;
        lines.say(format!("{}\n", statistics(&microseconds(&times))))?;
        Ok(times)
    }
}

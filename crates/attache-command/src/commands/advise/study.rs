//! Measures the ways to run one model within a time budget, and chooses one.

use std::time::Instant;

use attache::diff::{QuantizationSteps, Tolerance};
use serde::{Deserialize, Serialize};

use super::race::{Rules, Times, race};
use super::ways::{self, Way};
use crate::arguments::LimitArguments;
use crate::arguments::entry::Entry;
use crate::commands::diff::outputs::{Outputs, Summary};
use crate::commands::diff::{copy_inputs, tolerance_for};
use crate::console::Console;
use crate::device::{Adapter, Device};
use crate::failure::Failure;
use crate::inputs::{InputArguments, Setting, fill_around_the_middle};
use crate::inspect::kind::Kinds;
use crate::io::random::Random;
use crate::measure::caller::Caller;
use crate::measure::timing::{Statistics, Stop, milliseconds};

/// Share of the budget after which no further way is prepared.
const PREPARING: f64 = 0.5;
/// Share of the budget after which accuracy is not compared on further inputs.
const COMPARING: f64 = 0.6;
/// Share of the budget after which nothing is timed any more.
const TIMING: f64 = 0.9;
/// Number of inputs on which outputs are compared, if there is time, as in `diff`.
const COMPARED: usize = 10;
/// Seconds that comparing may take, beyond the first input.
const SECONDS_COMPARED: f64 = 1.5;
/// Runs that take longer than this, in milliseconds, need no other run before them to warm up.
const LONG: f64 = 50.0;
/// Seconds that the exhaustive measurement may take for each way.
const SECONDS_EACH: f64 = 4.0;
/// Ways whose run takes this many times as long as another's are timed once only.
const HOPELESS: f64 = 8.0;
/// Ways this close to the fastest, relative to it or in milliseconds, count as equally fast.
const EQUAL: (f64, f64) = (0.02, 0.003);

/// What is to be measured, and how.
pub(in crate::commands) struct Plan<'a> {
    /// Seconds that it may take.
    pub(in crate::commands) budget: f64,
    /// Whether the CPU alone is a way. The usual way on the CPU is measured in any case.
    pub(in crate::commands) cpu: bool,
    pub(in crate::commands) adapters: &'a [Adapter],
    pub(in crate::commands) tolerance: Option<f64>,
    pub(in crate::commands) steps: Option<QuantizationSteps>,
    /// Whether all ways are measured once more, all equally long, to check the choice.
    pub(in crate::commands) exhaustive: bool,
    pub(in crate::commands) inputs: &'a InputArguments,
    pub(in crate::commands) limits: &'a LimitArguments,
}

/// What was measured of one way. Times are in milliseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::commands) struct Measured {
    pub(in crate::commands) name: String,
    #[serde(flatten)]
    pub(in crate::commands) way: Way,
    /// The time by which ways are compared; `None` if it was not timed.
    pub(in crate::commands) run_ms: Option<f64>,
    /// All measured runs, inputs and outputs included.
    pub(in crate::commands) e2e_ms: Option<Statistics>,
    /// Opening the device, as the first of its ways did.
    pub(in crate::commands) device_ms: f64,
    pub(in crate::commands) init_ms: f64,
    pub(in crate::commands) first_ms: f64,
    pub(in crate::commands) arena_bytes: u64,
    pub(in crate::commands) weights_bytes: u64,
    pub(in crate::commands) nodes: usize,
    pub(in crate::commands) nodes_delegated: usize,
    pub(in crate::commands) partitions: usize,
    /// Differences from the CPU in f32; `None` if outputs cannot be compared.
    pub(in crate::commands) accuracy: Option<Summary>,
    /// Why this way cannot be advised; `None` if it can.
    pub(in crate::commands) refused: Option<String>,
}

/// What a measurement of all ways says of the choice.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::commands) struct Exhaustive {
    /// The fastest way that can be advised.
    pub(in crate::commands) best: String,
    pub(in crate::commands) best_ms: f64,
    pub(in crate::commands) choice_ms: f64,
    /// Number of ways.
    pub(in crate::commands) ways: usize,
    /// Whether the choice is within 5 % or 10 µs of the best.
    pub(in crate::commands) agrees: bool,
}

/// All ways of a model, with the one that is advised.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::commands) struct Study {
    pub(in crate::commands) model: String,
    pub(in crate::commands) kind: String,
    pub(in crate::commands) budget_s: f64,
    /// Seconds that it took, without the exhaustive measurement.
    pub(in crate::commands) took_s: f64,
    pub(in crate::commands) compared_inputs: usize,
    pub(in crate::commands) ways: Vec<Measured>,
    /// Index of the way that a program takes that names nothing.
    pub(in crate::commands) usual: usize,
    /// Index of the way that is advised.
    pub(in crate::commands) choice: usize,
    /// Ways that there was no time for, and those that failed, with the reason.
    pub(in crate::commands) left_out: Vec<String>,
    pub(in crate::commands) exhaustive: Option<Exhaustive>,
}

/// A way that is ready to run.
pub(in crate::commands) struct Contender {
    pub(in crate::commands) device: Device,
    pub(in crate::commands) caller: Caller,
    measured: Measured,
    /// Milliseconds of a recent run.
    recent_ms: f64,
}

/// The measurement of one model while it goes on.
struct Session<'a> {
    console: &'a Console,
    entry: &'a Entry<'a>,
    plan: &'a Plan<'a>,
    start: Instant,
    contenders: Vec<Contender>,
    left_out: Vec<String>,
}

/// Measures the ways to run a model and chooses one. Also returns the ways in the order of the study's.
pub(in crate::commands) fn study(
    console: &Console,
    entry: &Entry<'_>,
    plan: &Plan<'_>,
) -> Result<(Study, Vec<Contender>), Failure> {
    let start = Instant::now();
    let mut session = Session { console, entry, plan, start, contenders: Vec::new(), left_out: Vec::new() };
    let progress = console.progress(4);
    progress.set_message("preparing");
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    session.prepare_usual(&ways::usual(available))?;
    let kinds = Kinds::of(entry.model);
    let others = if plan.cpu { ways::on_cpu(available) } else { Vec::new() };
    let others = others.into_iter().skip(1).chain(ways::on_gpus(&kinds, plan.adapters, available));
    others.for_each(|way| session.prepare(way, PREPARING));
    progress.inc(1);
    progress.set_message("comparing outputs");
    let compared_inputs = session.compare()?;
    progress.inc(1);
    progress.set_message("timing");
    session.time(TIMING * 0.85);
    session.try_threads(available);
    let choice = session.choice()?;
    let took_s = start.elapsed().as_secs_f64();
    progress.inc(1);
    progress.set_message("timing all ways");
    let exhaustive = plan.exhaustive.then(|| session.exhaustive(choice, available)).transpose()?;
    progress.finish_and_clear();
    let measured = session.contenders.iter().map(|contender| contender.measured.clone()).collect();
    let study = Study {
        model: entry.name.to_owned(),
        kind: kinds.text(),
        budget_s: plan.budget,
        took_s,
        compared_inputs,
        ways: measured,
        usual: 0,
        choice,
        left_out: session.left_out,
        exhaustive,
    };
    Ok((study, session.contenders))
}

impl Session<'_> {
    /// Whether this share of the budget is spent.
    fn is_past(&self, share: f64) -> bool {
        self.start.elapsed().as_secs_f64() > share * self.plan.budget
    }

    /// Prepares the usual way, whose outputs are those that others are compared with, and fills the inputs.
    fn prepare_usual(&mut self, way: &Way) -> Result<(), Failure> {
        let device = Device::open(&way.arguments(self.plan.limits))?;
        let start = Instant::now();
        let mut interpreter = device.interpreter(self.entry)?;
        let init_ms = milliseconds(start);
        let setting = Setting { console: self.console, entry: self.entry, device: &device };
        let given = self.plan.inputs.fill_all(setting, &mut interpreter)?;
        let caller = Caller::new(interpreter)?;
        let contender = Contender::first_run(way.clone(), device, caller, init_ms);
        self.contenders.push(contender.map_err(|failure| given.explain(self.entry.name, failure))?);
        Ok(())
    }

    /// Prepares a way, unless the time is up. If it fails, or the GPU takes no operator, it is left out.
    fn prepare(&mut self, way: Way, share: f64) {
        let name = way.label();
        if self.is_past(share) {
            self.left_out.push(format!("{name}: the budget left no time"));
            return;
        }
        match self.prepared(way) {
            Ok(contender) if contender.measured.way.gpu.is_some() && contender.measured.partitions == 0 => {
                self.left_out.push(format!("{name}: the GPU takes no operator"));
            }
            Ok(contender) => self.contenders.push(contender),
            Err(failure) => self.left_out.push(format!("{name}: {failure}")),
        }
    }

    fn prepared(&self, way: Way) -> Result<Contender, Failure> {
        let device = Device::open(&way.arguments(self.plan.limits))?;
        let start = Instant::now();
        let interpreter = device.interpreter(self.entry)?;
        let init_ms = milliseconds(start);
        let caller = self.contenders[0].caller.with(interpreter);
        let mut contender = Contender::first_run(way, device, caller, init_ms)?;
        // Devices stay open, so that only the first way on an adapter opens it.
        let own = contender.measured.way.gpu.as_ref().map(|gpu| &gpu.adapter);
        let mut before = self.contenders.iter().map(|other| &other.measured);
        let earlier = before.find(|other| own.is_some() && other.way.gpu.as_ref().map(|gpu| &gpu.adapter) == own);
        if let Some(device_ms) = earlier.map(|earlier| earlier.device_ms) {
            contender.measured.device_ms = device_ms;
        }
        Ok(contender)
    }

    /// Compares the outputs of all ways with those of the usual one, as `diff` does. Returns the number of inputs.
    fn compare(&mut self) -> Result<usize, Failure> {
        let (entry, plan) = (self.entry, self.plan);
        let (first, others) = self.contenders.split_first_mut().ok_or_else(|| Failure::usage("nothing to compare"))?;
        let mut reference = first.device.reference(entry)?;
        let setting = Setting { console: &self.console.silenced(true), entry, device: &first.device };
        let given = plan.inputs.fill(setting, &mut reference)?;
        let open = given.random();
        let count = if open.is_empty() { 1 } else { COMPARED };
        let mut random = Random::new(plan.inputs.seed());
        let mut outputs: Vec<Option<Outputs>> = others.iter().map(|_| Some(Outputs::new(&reference))).collect();
        let (begin, mut done) = (Instant::now(), 0);
        let is_over = |done: usize| {
            let spent = self.start.elapsed().as_secs_f64() > COMPARING * plan.budget;
            done > 0 && (spent || begin.elapsed().as_secs_f64() > SECONDS_COMPARED)
        };
        while done < count && !is_over(done) {
            open.iter().try_for_each(|index| fill_around_the_middle(&mut reference, *index, &mut random))?;
            reference.reset_variables();
            let start = Instant::now();
            reference.invoke().map_err(|error| given.explain(entry.name, error.into()))?;
            first.recent_ms = milliseconds(start);
            for (contender, outputs) in others.iter_mut().zip(&mut outputs) {
                let tolerance = contender.tolerance(plan);
                let test = &mut contender.caller.interpreter;
                let recent_ms = &mut contender.recent_ms;
                let mut run = |outputs: &mut Outputs| {
                    copy_inputs(&mut reference, test)?;
                    test.reset_variables();
                    let start = Instant::now();
                    test.invoke()?;
                    *recent_ms = milliseconds(start);
                    outputs.add(&reference, test, &tolerance)
                };
                if let Some(failure) = outputs.as_mut().and_then(|outputs| run(outputs).err()) {
                    contender.measured.refused = contender.measured.way.gpu.as_ref().map(|_| failure.to_string());
                    *outputs = None;
                }
            }
            done += 1;
        }
        for (contender, outputs) in others.iter_mut().zip(&outputs) {
            contender.judge(outputs.as_ref(), plan);
        }
        Ok(done)
    }

    /// Times all ways that may be advised against each other, and briefly the others. The slow drop out.
    fn time(&mut self, share: f64) {
        let end = share * self.plan.budget;
        let start = self.start;
        let best = self.contenders.iter().map(|contender| contender.recent_ms).fold(f64::INFINITY, f64::min);
        let is_over = || start.elapsed().as_secs_f64() > end;
        let (mut slow, mut others): (Vec<&mut Contender>, Vec<&mut Contender>) =
            self.contenders.iter_mut().partition(|contender| contender.recent_ms > HOPELESS * best.max(1.0));
        let times = contest(&mut others, &is_over, true);
        others.iter_mut().zip(times).for_each(|(contender, times)| contender.note(&times));
        for contender in &mut slow {
            if !is_over() {
                let times = contest(std::slice::from_mut(contender), &|| true, true);
                times.iter().for_each(|times| contender.note(times));
            }
        }
    }

    /// Tries other numbers of CPU threads with the best way, if that is a GPU: they matter for what the GPU leaves to the
    /// CPU, and for large inputs and outputs.
    fn try_threads(&mut self, available: usize) {
        let Ok(best) = self.choice() else { return };
        let way = self.contenders[best].measured.way.clone();
        let counts = ways::thread_counts(available).into_iter().filter(|threads| *threads != way.threads);
        let others: Vec<Way> = counts.map(|threads| Way { threads, ..way.clone() }).collect();
        if way.gpu.is_none() || others.is_empty() {
            return;
        }
        let count = self.contenders.len();
        let accuracy = (self.contenders[best].measured.accuracy, self.contenders[best].measured.refused.clone());
        others.into_iter().for_each(|way| self.prepare(way, TIMING * 0.9));
        for contender in &mut self.contenders[count..] {
            (contender.measured.accuracy, contender.measured.refused) = accuracy.clone();
        }
        let (start, end) = (self.start, TIMING * self.plan.budget);
        let mut again: Vec<&mut Contender> = self
            .contenders
            .iter_mut()
            .enumerate()
            .filter(|(index, _)| *index == best || *index >= count)
            .map(|it| it.1)
            .collect();
        let times = contest(&mut again, &|| start.elapsed().as_secs_f64() > end, true);
        again.iter_mut().zip(times).for_each(|(contender, times)| contender.note(&times));
    }

    /// Returns the index of the way to advise: the fastest that can be, or of equally fast ones the most modest.
    fn choice(&self) -> Result<usize, Failure> {
        let measured: Vec<&Measured> = self.contenders.iter().map(|contender| &contender.measured).collect();
        choose(&measured).ok_or_else(|| {
            let text = "nothing could be timed within the budget; give a larger --budget";
            Failure::usage(text).at(self.entry.name)
        })
    }

    /// Measures all combinations equally long, and compares the choice with the fastest that can be advised.
    fn exhaustive(&mut self, choice: usize, available: usize) -> Result<Exhaustive, Failure> {
        let known: Vec<Measured> = self.contenders.iter().map(|contender| contender.measured.clone()).collect();
        let count = self.contenders.len();
        for base in known.iter().filter(|measured| measured.way.gpu.is_some()) {
            for threads in ways::thread_counts(available) {
                let way = Way { threads, ..base.way.clone() };
                let exists = self.contenders.iter().any(|contender| contender.measured.way == way);
                if !exists && let Ok(mut contender) = self.prepared(way) {
                    contender.measured.refused = base.refused.clone();
                    self.contenders.push(contender);
                }
            }
        }
        let mut allowed: Vec<usize> = (0..self.contenders.len()).collect();
        allowed.retain(|index| self.contenders[*index].measured.refused.is_none());
        let mut callers: Vec<&mut Contender> = self.contenders.iter_mut().collect();
        callers.retain(|contender| contender.measured.refused.is_none());
        let (start, most) = (Instant::now(), SECONDS_EACH * callers.len() as f64);
        let times = contest(&mut callers, &|| start.elapsed().as_secs_f64() > most, false);
        let estimates: Vec<f64> = times.iter().map(|times| times.estimate().unwrap_or(f64::INFINITY)).collect();
        let place = allowed.iter().position(|index| *index == choice).unwrap_or(0);
        let best = (0..estimates.len()).min_by(|one, other| estimates[*one].total_cmp(&estimates[*other]));
        let best = best.unwrap_or(place);
        let (best_ms, choice_ms) = (estimates[best], estimates[place]);
        let name = self.contenders[allowed[best]].measured.name.clone();
        self.contenders.truncate(count);
        let agrees = choice_ms <= (best_ms * 1.05).max(best_ms + 0.01);
        Ok(Exhaustive { best: name, best_ms, choice_ms, ways: allowed.len(), agrees })
    }
}

/// Returns the index of the fastest way that can be advised, or of equally fast ones of the most modest.
fn choose(ways: &[&Measured]) -> Option<usize> {
    let time = |index: &usize| ways[*index].run_ms.filter(|_| ways[*index].refused.is_none());
    let best = (0..ways.len()).filter_map(|index| time(&index)).fold(f64::INFINITY, f64::min);
    let most = (best * (1.0 + EQUAL.0)).max(best + EQUAL.1);
    let equal = (0..ways.len()).filter(|index| time(index).is_some_and(|time| time <= most));
    equal.min_by_key(|index| ways[*index].way.modesty())
}

/// Times contenders against each other.
fn contest<C: AsMut<Contender>>(all: &mut [C], is_over: &dyn Fn() -> bool, drops: bool) -> Vec<Times> {
    race(all.len(), &Rules { is_over, drops }, |index, seconds| all[index].as_mut().slice(seconds))
}

impl AsMut<Contender> for Contender {
    fn as_mut(&mut self) -> &mut Contender {
        self
    }
}

impl Contender {
    /// Runs a way for the first time and notes what it needs.
    fn first_run(way: Way, device: Device, mut caller: Caller, init_ms: f64) -> Result<Self, Failure> {
        let start = Instant::now();
        caller.end_to_end()?;
        let first_ms = milliseconds(start);
        let figures = caller.interpreter.report();
        Failure::of_panics(&figures)?;
        let arena = figures.cpu_arena_bytes + if figures.partitions > 0 { figures.arena_bytes } else { 0 };
        let measured = Measured {
            name: way.label(),
            way,
            run_ms: None,
            e2e_ms: None,
            device_ms: device.milliseconds,
            init_ms,
            first_ms,
            arena_bytes: arena as u64,
            weights_bytes: figures.weights_bytes as u64,
            nodes: figures.nodes,
            nodes_delegated: figures.nodes_delegated,
            partitions: figures.partitions,
            accuracy: None,
            refused: None,
        };
        Ok(Self { device, caller, measured, recent_ms: first_ms })
    }

    fn tolerance(&self, plan: &Plan<'_>) -> Tolerance {
        tolerance_for(self.device.precision, plan.tolerance, plan.steps)
    }

    /// Notes how accurate the way is, and refuses it if that is beyond the tolerance.
    fn judge(&mut self, outputs: Option<&Outputs>, plan: &Plan<'_>) {
        let tolerance = self.tolerance(plan);
        self.measured.accuracy = outputs.map(|outputs| outputs.summary(&tolerance));
        if let Some(accuracy) = self.measured.accuracy.filter(|accuracy| !accuracy.passes) {
            self.measured.refused = Some(match accuracy.steps {
                Some(steps) => {
                    format!("it differs from the CPU by up to {steps} quantization steps, and {tolerance} is allowed")
                }
                None => {
                    format!("it differs from the CPU by up to {:.1e}, and {tolerance} is allowed", accuracy.relative)
                }
            });
        }
    }

    /// Runs the way for some seconds, and once before without measuring it unless runs are long. Returns the milliseconds
    /// of each run.
    fn slice(&mut self, seconds: f64) -> Result<Vec<f64>, Failure> {
        if self.recent_ms <= LONG {
            self.caller.end_to_end()?;
        }
        let times = Stop { runs: 1, seconds, most: f64::INFINITY }.time(|| self.caller.end_to_end())?;
        self.recent_ms = times.first().copied().unwrap_or(self.recent_ms);
        Ok(times)
    }

    fn note(&mut self, times: &Times) {
        let measured = &mut self.measured;
        (measured.run_ms, measured.e2e_ms) = (times.estimate(), times.statistics());
        if let Some(failure) = &times.failure {
            measured.refused = Some(failure.to_string());
        }
    }
}

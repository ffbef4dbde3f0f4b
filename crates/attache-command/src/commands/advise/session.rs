//! Measures the configurations of one model within a time budget, and chooses one.

use std::time::Instant;

use super::configurations::{self, Configuration};
use super::contender::{Contender, Setup, judge};
use super::exhaustive;
use super::race::{Clock, LONGEST_SLICE, Times, race};
use super::study::{Measured, Plan, Skipped, Study, choose};
use crate::arguments::entry::Entry;
use crate::commands::diff::copy_inputs;
use crate::commands::diff::hybrid::Hybrid;
use crate::console::Console;
use crate::failure::Failure;
use crate::inputs::{Given, fill_around_the_middle};
use crate::inspect::kind::Kinds;
use crate::io::random::Random;
use crate::measure::timing::milliseconds;

/// Share of the budget after which no further GPU is prepared.
const PREPARING: f64 = 0.5;
/// Share of the budget after which no further number of threads of the CPU is prepared.
const PREPARING_CPU: f64 = 0.8;
/// Share of the budget after which the race of the CPU and hardware ends, if software adapters follow.
const BEFORE_SOFTWARE: f64 = 0.35;
/// Share of the budget after which accuracy is not compared on further inputs.
const COMPARING: f64 = 0.6;
/// Share of the budget after which the first race ends, if numbers of threads are tried on GPUs then.
const RACING: f64 = 0.55;
/// Share of the budget after which no further number of threads is prepared for a GPU.
const THREADS: f64 = 0.75;
/// Share of the budget after which nothing is timed any more.
const TIMING: f64 = 0.97;
/// Preparing a configuration once more may take this share of the budget.
const AGAIN: f64 = 0.025;
/// Number of inputs on which outputs are compared, if there is time, as in `diff`.
const COMPARED: usize = 10;
/// Seconds that comparing may take, beyond the first input.
const SECONDS_COMPARED: f64 = 1.5;
/// A software adapter is taken to need this many times as long as the CPU, before it has run.
const SOFTWARE: f64 = 4.0;
/// Configurations whose run takes this many times as long as another's, and longer than a slice, are not timed further.
const HOPELESS: f64 = 8.0;
/// Runs before that is decided, if there is time.
const LOOKS: usize = 2;
/// Numbers of threads are tried on GPUs this close to the best.
const NEAR: f64 = 1.3;

/// The measurement of one model while it goes on.
struct Session<'a> {
    setup: &'a Setup<'a>,
    start: Instant,
    /// Seconds that measuring may take.
    budget: f64,
    contenders: Vec<Contender>,
    skipped: Vec<Skipped>,
}

/// Measures the configurations of a model and chooses one. Also returns them, ready to run, in the order of the study's, unless
/// all combinations are measured, which takes their place.
pub(in crate::commands) fn study(
    console: &Console,
    entry: &Entry<'_>,
    plan: &Plan<'_>,
) -> Result<(Study, Vec<Contender>), Failure> {
    let start = Instant::now();
    let kinds = Kinds::of(entry.model);
    let hybrid_operators = entry.model.subgraphs().iter().map(|subgraph| Hybrid::of(subgraph).count()).sum();
    let setup = Setup { entry, plan, console, is_hybrid: hybrid_operators > 0 };
    let budget = plan.budget * (1.0 - plan.reserved);
    let mut session = Session { setup: &setup, start, budget, contenders: Vec::new(), skipped: Vec::new() };
    let progress = console.progress(4);
    progress.set_message("preparing");
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    let given = session.prepare_all(&kinds, available)?;
    progress.inc(1);
    progress.set_message("comparing outputs");
    let compared_inputs = session.compare(&given)?;
    judge(&mut session.contenders, &setup);
    progress.inc(1);
    progress.set_message("timing");
    let has_threads_to_try = session.contenders.iter().any(Contender::needs_threads);
    session.time(if has_threads_to_try { RACING } else { TIMING }, |_| true);
    if has_threads_to_try {
        session.try_threads(available);
    }
    let choice = session.choice()?;
    let took_s = start.elapsed().as_secs_f64();
    progress.inc(1);
    progress.set_message("timing all combinations");
    let measured: Vec<Measured> = session.contenders.iter().map(|contender| contender.measured.clone()).collect();
    let mut exhaustive = None;
    if plan.exhaustive {
        session.contenders.clear();
        let silent = Setup { console: &console.silenced(true), ..setup };
        exhaustive = Some(exhaustive::check(&silent, &kinds, &measured, choice, available)?);
    }
    progress.finish_and_clear();
    let names_adapter = measured[choice].configuration.gpu.as_ref().is_some_and(|gpu| gpu.has_rivals(plan.known));
    let study = Study {
        model: entry.name.to_owned(),
        kind: kinds.text(),
        hybrid_operators,
        budget_s: plan.budget,
        took_s,
        compared_inputs,
        configurations: measured,
        default: 0,
        choice,
        skipped: session.skipped,
        no_gpu: plan.no_gpu.filter(|_| plan.adapters.is_empty()).map(str::to_owned),
        names_adapter,
        exhaustive,
    };
    Ok((study, session.contenders))
}

impl Session<'_> {
    /// Whether work that takes this many milliseconds would end before this share of the budget is spent.
    fn has_time(&self, milliseconds: f64, share: f64) -> bool {
        self.start.elapsed().as_secs_f64() + milliseconds / 1e3 <= share * self.budget
    }

    /// Prepares the CPU and the adapters.
    fn prepare_all(&mut self, kinds: &Kinds, available: usize) -> Result<Given, Failure> {
        let plan = self.setup.plan;
        let (first, given) = Contender::first(self.setup, &configurations::usual(available))?;
        let first = self.again(first)?;
        self.contenders.push(first);
        let on_cpu = if plan.cpu { configurations::on_cpu(available) } else { Vec::new() };
        on_cpu.into_iter().skip(1).for_each(|configuration| self.prepare(configuration, PREPARING_CPU));
        let on_gpus = configurations::on_gpus(kinds, plan.adapters, available).into_iter();
        let is_software = |it: &Configuration| it.gpu.as_ref().is_some_and(|gpu| gpu.is_software);
        let (software, hardware): (Vec<_>, Vec<_>) = on_gpus.partition(is_software);
        hardware.into_iter().for_each(|configuration| self.prepare(configuration, PREPARING));
        if !software.is_empty() {
            // They may take the rest of the budget.
            self.time(BEFORE_SOFTWARE, |_| true);
            self.contenders[0].start_anew().map_err(|failure| given.explain(self.setup.entry.name, failure))?;
        }
        software.into_iter().for_each(|configuration| self.prepare(configuration, PREPARING));
        Ok(given)
    }

    /// Prepares a configuration again if that is quick.
    fn again(&self, contender: Contender) -> Result<Contender, Failure> {
        let took = contender.measured.init_ms + contender.measured.first_ms;
        let is_quick = took / 1e3 <= AGAIN * self.budget && self.has_time(took, PREPARING);
        if is_quick { contender.prepare_again(self.setup) } else { Ok(contender) }
    }

    /// Prepares a configuration, unless it would take too long, and compares its outputs with the reference's. If it fails,
    /// or the GPU takes no operator, it is skipped.
    fn prepare(&mut self, configuration: Configuration, share: f64) {
        let name = configuration.label();
        let mut skip = |reason: String| self.skipped.push(Skipped { name: name.clone(), reason });
        let start = self.start.elapsed().as_secs_f64();
        if start + predicted(&self.contenders, &configuration) / 1e3 > share * self.budget {
            return skip("time budget exhausted; --budget allows more".to_owned());
        }
        let reference = &self.contenders[0].caller;
        let prepared = Contender::prepare(self.setup, configuration, reference).and_then(|it| self.again(it));
        match prepared {
            Ok(contender) if contender.measured.configuration.gpu.is_some() && contender.measured.partitions == 0 => {
                self.skipped.push(Skipped { name, reason: "the GPU takes no operator".to_owned() });
            }
            Ok(mut contender) => {
                // Devices stay open, so that only the first configuration of an adapter opens it.
                if let Some(earlier) = self.contenders.iter().find(|other| other.is_on_adapter_of(&contender)) {
                    contender.measured.device_ms = earlier.measured.device_ms;
                }
                if let Err(failure) = contender.compare(&self.contenders[0].caller, self.setup) {
                    contender.outputs = None;
                    let is_gpu = contender.measured.configuration.gpu.is_some();
                    contender.measured.refused = is_gpu.then(|| failure.to_string());
                }
                self.contenders.push(contender);
            }
            Err(failure) => self.skipped.push(Skipped { name, reason: failure.to_string() }),
        }
    }

    /// Compares the outputs of GPUs with the CPU's on further inputs. Returns the number of inputs.
    fn compare(&mut self, given: &Given) -> Result<usize, Failure> {
        let (setup, open) = (self.setup, given.random());
        let is_gpu =
            |contender: &Contender| contender.measured.configuration.gpu.is_some() && contender.outputs.is_some();
        let mut random = Random::new(setup.plan.inputs.seed().wrapping_add(1));
        let (begin, mut done) = (Instant::now(), usize::from(self.contenders.len() > 1));
        while done > 0 && done < COMPARED && !open.is_empty() && self.contenders.iter().any(is_gpu) {
            let compared = self.contenders.iter().skip(1).filter(|contender| is_gpu(contender));
            let predicted: f64 = self.contenders[0].shortest() + compared.map(Contender::shortest).sum::<f64>();
            if !self.has_time(predicted, COMPARING) || begin.elapsed().as_secs_f64() > SECONDS_COMPARED {
                break;
            }
            let Some((first, others)) = self.contenders.split_first_mut() else { break };
            let reference = &mut first.caller.interpreter;
            open.iter().try_for_each(|index| fill_around_the_middle(reference, *index, &mut random))?;
            reference.reset_variables();
            let start = Instant::now();
            reference.invoke().map_err(|error| given.explain(setup.entry.name, error.into()))?;
            first.times.add_early(milliseconds(start));
            for contender in others.iter_mut().filter(|contender| is_gpu(contender)) {
                let mut run = || {
                    copy_inputs(&mut first.caller.interpreter, &mut contender.caller.interpreter)?;
                    contender.caller.interpreter.reset_variables();
                    let start = Instant::now();
                    contender.caller.interpreter.invoke()?;
                    contender.times.add_early(milliseconds(start));
                    contender.compare(&first.caller, setup)
                };
                if let Err(failure) = run() {
                    (contender.outputs, contender.measured.failed) = (None, Some(failure.to_string()));
                    contender.times.failure = Some(failure);
                }
            }
            done += 1;
        }
        Ok(done)
    }

    /// Times the configurations that pass against each other until this share of the budget is spent. Those that are far
    /// slower are not timed further than by the runs that told so.
    fn time(&mut self, share: f64, passes: impl Fn(&Measured) -> bool) {
        self.look();
        let fastest = self.contenders.iter().map(Contender::shortest).fold(f64::INFINITY, f64::min);
        let is_hopeless = |own: f64| own > HOPELESS * fastest && own / 1e3 > LONGEST_SLICE;
        let mut entrants: Vec<&mut Contender> = self.contenders.iter_mut().collect();
        entrants.retain(|contender| passes(&contender.measured) && !is_hopeless(contender.shortest()));
        let mut times: Vec<Times> = entrants.iter_mut().map(|contender| std::mem::take(&mut contender.times)).collect();
        let (start, end) = (self.start, share * self.budget);
        let clock = Clock { now: &|| start.elapsed().as_secs_f64(), end };
        race(&mut times, &clock, |index, seconds| entrants[index].slice(seconds));
        entrants.iter_mut().zip(times).for_each(|(contender, times)| contender.times = times);
        self.contenders.iter_mut().for_each(Contender::note);
    }

    /// Runs each configuration a few times, so that none is judged by its first run, as far as there is time.
    fn look(&mut self) {
        for _ in 0..LOOKS {
            for index in 0..self.contenders.len() {
                let has_time = self.has_time(self.contenders[index].shortest(), COMPARING);
                let contender = &mut self.contenders[index];
                if !has_time || contender.times.is_raced() || contender.times.failure.is_some() {
                    continue;
                }
                let start = Instant::now();
                match contender.caller.end_to_end() {
                    Ok(()) => contender.times.add_early(milliseconds(start)),
                    Err(failure) => contender.times.failure = Some(failure),
                }
            }
        }
    }

    /// Tries other numbers of CPU threads on the GPUs that are about as fast as the best and for which they matter, and
    /// times these and the best once more.
    fn try_threads(&mut self, available: usize) {
        let best = self.contenders.iter().filter_map(|it| it.measured.advisable_ms()).fold(f64::INFINITY, f64::min);
        let is_near = |measured: &Measured| measured.advisable_ms().is_some_and(|own| own <= best * NEAR);
        let bases =
            self.contenders.iter().filter(|contender| is_near(&contender.measured) && contender.needs_threads());
        let bases: Vec<Measured> = bases.map(|contender| contender.measured.clone()).collect();
        for base in &bases {
            for threads in configurations::thread_counts(available) {
                let configuration = Configuration { threads, ..base.configuration.clone() };
                let count = self.contenders.len();
                if threads != base.configuration.threads {
                    self.prepare(configuration, THREADS);
                }
                for contender in &mut self.contenders[count..] {
                    // Numbers of threads change no bit.
                    let measured = &mut contender.measured;
                    (measured.accuracy, measured.refused) = (base.accuracy.clone(), base.refused.clone());
                }
            }
        }
        self.time(TIMING, |measured| measured.run_ms.is_none() || is_near(measured));
    }

    /// Returns the index of the configuration to advise.
    fn choice(&self) -> Result<usize, Failure> {
        let measured: Vec<&Measured> = self.contenders.iter().map(|contender| &contender.measured).collect();
        choose(&measured).ok_or_else(|| {
            let reason = measured.iter().find_map(|measured| measured.failed.clone()).unwrap_or_default();
            Failure::unsupported(format!("no configuration ran to the end: {reason}")).at(self.setup.entry.name)
        })
    }
}

impl Contender {
    /// Whether this is a GPU for which the number of CPU threads may matter.
    pub(super) fn needs_threads(&self) -> bool {
        self.measured.configuration.gpu.is_some() && self.measured.needs_threads(self.copied())
    }

    fn is_on_adapter_of(&self, other: &Self) -> bool {
        let adapter = |contender: &Self| contender.measured.configuration.gpu.as_ref().map(|gpu| gpu.adapter.clone());
        adapter(self).is_some() && adapter(self) == adapter(other)
    }
}

/// Returns the milliseconds that preparing a configuration and running it once may take, by what is known of others.
fn predicted(known: &[Contender], configuration: &Configuration) -> f64 {
    let took = |contender: &Contender| contender.measured.init_ms + contender.shortest();
    let default = &known[0];
    let Some(gpu) = &configuration.gpu else {
        let fewer = f64::from(default.measured.configuration.threads) / f64::from(configuration.threads);
        return took(default) * fewer.max(1.0);
    };
    let on_adapter = |contender: &&Contender| {
        contender.measured.configuration.gpu.as_ref().is_some_and(|other| other.adapter == gpu.adapter)
    };
    match known.iter().rev().find(on_adapter) {
        Some(earlier) => took(earlier),
        None if gpu.is_software => SOFTWARE * took(default),
        None => 0.0,
    }
}

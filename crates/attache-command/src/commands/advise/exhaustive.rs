//! Checks a choice: measures all combinations anew, each in long stretches of its own, in passes of a random order.

use super::configurations::{self, Configuration};
use super::contender::{Contender, Setup, judge};
use super::study::{Exhaustive, Measured, Skipped};
use crate::failure::Failure;
use crate::inspect::kind::Kinds;
use crate::io::random::Random;
use crate::measure::timing::{Statistics, Stop};

/// Passes over all combinations.
const PASSES: usize = 5;
/// Seconds of a combination in a pass, and seconds before that which are not measured.
const STRETCH: (f64, f64) = (0.6, 0.15);
/// Combinations that take this many times as long as the best after a pass are not timed in further ones.
const FAR: f64 = 2.0;
/// Combinations of which several runs took this many milliseconds are not timed in further passes.
const LONG: f64 = 20_000.0;
/// Passes over those near the best, if the choice is not near enough after the others: a busy machine needs more.
const FURTHER: (usize, f64) = (10, 1.15);
/// The choice may be this much slower than the best: by this factor, or by these milliseconds.
const ALLOWED: (f64, f64) = (1.05, 0.01);

/// A combination, with the medians of its passes in milliseconds.
struct Combination {
    contender: Contender,
    medians: Vec<f64>,
}

impl Combination {
    fn median(&self) -> Option<f64> {
        Statistics::of(&self.medians).map(|medians| medians.median)
    }
}

/// Measures all combinations: the CPU with each number of threads, and each adapter with each precision and form of quantized
/// tensors, with each number of threads where that matters. `known` and `choice` are the study's.
pub(super) fn check(
    setup: &Setup<'_>,
    kinds: &Kinds,
    known: &[Measured],
    choice: usize,
    available: usize,
) -> Result<Exhaustive, Failure> {
    let choice = &known[choice].configuration;
    let mut all = All { setup, contenders: Vec::new(), unmeasured: Vec::new() };
    let usual = configurations::usual(available);
    all.contenders.push(Contender::first(setup, &usual)?.0);
    configurations::on_cpu(available).into_iter().skip(1).for_each(|it| all.build(it));
    for configuration in configurations::on_gpus(kinds, setup.plan.adapters, available) {
        let count = all.contenders.len();
        all.build(configuration.clone());
        if all.contenders[count..].iter().any(Contender::needs_threads) {
            let others =
                configurations::thread_counts(available).into_iter().filter(|own| *own != configuration.threads);
            others.for_each(|threads| all.build(Configuration { threads, ..configuration.clone() }));
        }
    }
    judge(&mut all.contenders, setup);
    let All { mut contenders, mut unmeasured, .. } = all;
    let count = contenders.len();
    // What the study refused on more inputs is refused here too.
    contenders.retain(|contender| {
        let same = |other: &&Measured| other.configuration.is_but_for_threads(&contender.measured.configuration);
        let is_refused = known.iter().find(same).is_some_and(|known| known.refused.is_some());
        contender.measured.refused.is_none() && !is_refused
    });
    let refused = count - contenders.len();
    let mut combinations: Vec<Combination> =
        contenders.into_iter().map(|contender| Combination { contender, medians: Vec::new() }).collect();
    let mut random = Random::new(0);
    for _ in 0..PASSES {
        pass(&mut combinations, FAR, &mut random, &mut unmeasured);
    }
    let first = verdict(&combinations, choice, refused, &unmeasured);
    if first.is_near() {
        return Ok(first);
    }
    for _ in 0..FURTHER.0 {
        pass(&mut combinations, FURTHER.1, &mut random, &mut unmeasured);
    }
    Ok(verdict(&combinations, choice, refused, &unmeasured))
}

/// All combinations that could be prepared, and those that could not.
struct All<'a> {
    setup: &'a Setup<'a>,
    contenders: Vec<Contender>,
    unmeasured: Vec<Skipped>,
}

impl All<'_> {
    /// Prepares a combination and compares its outputs with those of the CPU. One of which the GPU takes no operator is none.
    fn build(&mut self, configuration: Configuration) {
        let name = configuration.label();
        let is_gpu = configuration.gpu.is_some();
        let reference = &self.contenders[0].caller;
        let built = Contender::prepare(self.setup, configuration, reference).and_then(|mut contender| {
            contender.compare(reference, self.setup)?;
            Ok(contender)
        });
        match built {
            Ok(contender) if is_gpu && contender.measured.partitions == 0 => {}
            Ok(contender) => self.contenders.push(contender),
            Err(failure) => self.unmeasured.push(Skipped { name, reason: failure.to_string() }),
        }
    }
}

/// Times the combinations that take at most `far` times as long as the best, or were not timed yet, for a stretch each. Those
/// that fail are moved to `unmeasured`.
fn pass(combinations: &mut Vec<Combination>, far: f64, random: &mut Random, unmeasured: &mut Vec<Skipped>) {
    let best = combinations.iter().filter_map(Combination::median).fold(f64::INFINITY, f64::min);
    for index in shuffled(combinations.len(), random) {
        let combination = &mut combinations[index];
        let is_known = combination.medians.iter().sum::<f64>() > LONG && combination.medians.len() > 1;
        if is_known || combination.median().is_some_and(|own| own > far * best) {
            continue;
        }
        match stretch(&mut combination.contender) {
            Ok(median) => combination.medians.push(median),
            Err(failure) => combination.contender.measured.failed = Some(failure.to_string()),
        }
    }
    combinations.retain(|combination| {
        let Measured { name, failed, .. } = &combination.contender.measured;
        unmeasured.extend(failed.clone().map(|reason| Skipped { name: name.clone(), reason }));
        failed.is_none()
    });
}

/// Returns the median of the runs of a stretch, in milliseconds.
fn stretch(contender: &mut Contender) -> Result<f64, Failure> {
    let (seconds, before) = STRETCH;
    if contender.shortest() / 1e3 < seconds {
        Stop { runs: 1, seconds: before, most: f64::INFINITY }.time(|| contender.caller.end_to_end())?;
    }
    let times = Stop { runs: 1, seconds, most: f64::INFINITY }.time(|| contender.caller.end_to_end())?;
    let median = Statistics::of(&times).map_or(f64::INFINITY, |times| times.median);
    contender.times.add_early(median);
    Ok(median)
}

/// Returns the numbers below `count` in a random order.
fn shuffled(count: usize, random: &mut Random) -> Vec<usize> {
    let mut keys: Vec<(f64, usize)> = (0..count).map(|index| (f64::from(random.float()), index)).collect();
    keys.sort_by(|one, other| one.0.total_cmp(&other.0));
    keys.into_iter().map(|(_, index)| index).collect()
}

/// Compares the choice with the fastest of the combinations.
fn verdict(all: &[Combination], choice: &Configuration, refused: usize, unmeasured: &[Skipped]) -> Exhaustive {
    let timed = |combination: &Combination| {
        let Measured { configuration, name, .. } = &combination.contender.measured;
        Some((configuration.clone(), name.clone(), combination.median()?))
    };
    let times: Vec<_> = all.iter().filter_map(timed).collect();
    compared(&times, choice, refused, unmeasured)
}

/// Compares the choice with the fastest of these configurations, with their names and milliseconds.
fn compared(
    times: &[(Configuration, String, f64)],
    choice: &Configuration,
    refused: usize,
    unmeasured: &[Skipped],
) -> Exhaustive {
    let best = times.iter().min_by(|one, other| one.2.total_cmp(&other.2));
    let (best, best_ms) = best.map_or((String::new(), f64::INFINITY), |(_, name, ms)| (name.clone(), *ms));
    let own = times.iter().find(|(configuration, ..)| configuration == choice);
    let choice_ms = own.map_or(f64::INFINITY, |own| own.2);
    let unmeasured = unmeasured.to_vec();
    let mut checked = Exhaustive { best, best_ms, choice_ms, timed: times.len(), refused, unmeasured, agrees: false };
    checked.agrees = checked.is_near() && checked.unmeasured.is_empty();
    checked
}

impl Exhaustive {
    /// Whether the choice was measured, and is near the best.
    fn is_near(&self) -> bool {
        let most = (self.best_ms * ALLOWED.0).max(self.best_ms + ALLOWED.1);
        self.choice_ms.is_finite() && self.choice_ms <= most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_has_to_be_near_the_best_of_all() {
        let cpu = |threads| Configuration { gpu: None, threads };
        let all = [cpu(1), cpu(2), cpu(4)];
        let check = |times: [f64; 3], choice: &Configuration, unmeasured: Vec<Skipped>| {
            let times: Vec<(Configuration, String, f64)> =
                all.iter().zip(times).map(|(configuration, ms)| (configuration.clone(), "x".to_owned(), ms)).collect();
            compared(&times, choice, 0, &unmeasured).agrees
        };
        assert!(check([1.0, 1.04, 2.0], &all[1], Vec::new()), "within 5 %");
        assert!(check([0.01, 0.019, 2.0], &all[1], Vec::new()), "within 10 µs");
        assert!(!check([1.0, 1.06, 2.0], &all[1], Vec::new()));
        assert!(!check([1.0, 1.0, 2.0], &cpu(8), Vec::new()), "a choice that was not measured");
        let skipped = Skipped { name: "x".to_owned(), reason: "no".to_owned() };
        assert!(!check([1.0, 1.0, 2.0], &all[0], vec![skipped]), "a combination that was not measured");
    }

    #[test]
    fn orders_differ_and_are_complete() {
        let mut random = Random::new(0);
        let orders: Vec<Vec<usize>> = (0..3).map(|_| shuffled(20, &mut random)).collect();
        assert!(orders[0] != orders[1] || orders[1] != orders[2]);
        for mut order in orders {
            order.sort_unstable();
            assert_eq!(order, (0..20).collect::<Vec<_>>());
        }
    }
}

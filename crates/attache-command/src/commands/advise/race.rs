//! Times several ways against each other: short slices in alternation, so that a disturbance meets all of them, and more
//! of them for those that lead.

use crate::failure::Failure;
use crate::measure::timing::Statistics;

/// After how many rounds, those drop out that take longer than the best by which factor, and whose fastest slice is
/// slower than the best's usual one, so that a busy machine drops none by chance.
const CUTS: [(usize, f64); 5] = [(4, 3.0), (6, 1.6), (9, 1.3), (12, 1.15), (16, 1.08)];
/// Number of rounds after which the leaders are known well enough on a quiet machine.
const ROUNDS: usize = 24;
/// Number of rounds after which they are on a machine that is busy otherwise.
const MOST_ROUNDS: usize = 72;
/// A quarter of the slices may be this much slower than another quarter on a quiet machine.
const QUIET: f64 = 1.1;
/// Seconds of a slice in the first round; later ones are longer.
const FIRST_SLICE: f64 = 0.01;
/// Seconds of the longest slices.
const LONGEST_SLICE: f64 = 0.08;

/// The measured times of one way, in milliseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Times {
    /// The median of each slice.
    slices: Vec<f64>,
    all: Vec<f64>,
    /// Why it was not timed further, if it failed.
    pub(super) failure: Option<Failure>,
}

impl Times {
    /// Returns the time of a run: the lower quartile over slices of their medians, so that each stretch of the machine's
    /// time counts alike, and stretches in which others used it count little; `None` if there is none.
    pub(super) fn estimate(&self) -> Option<f64> {
        self.quartile(1).filter(|_| self.failure.is_none())
    }

    /// Returns the quartile of this number over the slices.
    fn quartile(&self, number: usize) -> Option<f64> {
        let mut sorted = self.slices.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() * number / 4).copied()
    }

    /// Whether slices are about equal, so that more of them tell no more.
    fn is_quiet(&self) -> bool {
        self.quartile(1).zip(self.quartile(3)).is_none_or(|(lower, upper)| upper <= lower * QUIET)
    }

    /// Summarizes all runs; `None` if there are none.
    pub(super) fn statistics(&self) -> Option<Statistics> {
        Statistics::of(&self.all).filter(|_| self.failure.is_none())
    }

    fn add(&mut self, times: Result<Vec<f64>, Failure>) {
        match times {
            Ok(times) => {
                self.slices.extend(Statistics::of(&times).map(|times| times.median));
                self.all.extend(times);
            }
            Err(failure) => self.failure = Some(failure),
        }
    }
}

/// What a race may take.
pub(super) struct Rules<'a> {
    /// Whether the time is up. The first round is run in any case.
    pub(super) is_over: &'a dyn Fn() -> bool,
    /// Whether those that are slow drop out.
    pub(super) drops: bool,
}

/// Times `count` ways. `slice` runs one of them for some seconds, at least once, and returns the milliseconds of each
/// run.
pub(super) fn race(
    count: usize,
    rules: &Rules<'_>,
    mut slice: impl FnMut(usize, f64) -> Result<Vec<f64>, Failure>,
) -> Vec<Times> {
    let mut times = vec![Times::default(); count];
    let mut alive: Vec<usize> = (0..count).collect();
    let mut seconds = FIRST_SLICE;
    for round in 1..=MOST_ROUNDS {
        // Another one begins each round, so that no way always follows the same one.
        let start = round % alive.len().max(1);
        for way in alive.iter().skip(start).chain(alive.iter().take(start)) {
            if round > 1 && (rules.is_over)() {
                return times;
            }
            times[*way].add(slice(*way, seconds));
        }
        alive.retain(|way| times[*way].failure.is_none());
        if rules.drops {
            drop_slow(&mut alive, &times, round);
            // A slow one more is not worth waiting for once there is one leader.
            if alive.len() <= 1 && round >= CUTS[1].0 {
                return times;
            }
        }
        if round >= ROUNDS && alive.iter().all(|way| times[*way].is_quiet()) {
            return times;
        }
        seconds = (seconds * 1.25).min(LONGEST_SLICE);
    }
    times
}

fn drop_slow(alive: &mut Vec<usize>, times: &[Times], round: usize) {
    let Some((_, factor)) = CUTS.iter().find(|(rounds, _)| *rounds == round) else { return };
    let estimates = alive.iter().filter_map(|way| Some((times[*way].estimate()?, times[*way].quartile(2)?)));
    let Some((best, usual)) = estimates.min_by(|one, other| one.0.total_cmp(&other.0)) else { return };
    alive.retain(|way| {
        let is_near = times[*way].estimate().is_some_and(|time| time <= best * factor);
        is_near || times[*way].quartile(0).is_some_and(|fastest| fastest <= usual)
    });
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Runs a race of ways that take these milliseconds, all of them longer by `noise` of the number of slices so far.
    fn run(milliseconds: &[f64], drops: bool, most: usize, noise: impl Fn(usize) -> f64) -> Vec<Times> {
        let slices = Cell::new(0);
        let is_over = || slices.get() >= most;
        race(milliseconds.len(), &Rules { is_over: &is_over, drops }, |way, _| {
            slices.set(slices.get() + 1);
            Ok(vec![milliseconds[way] * noise(slices.get()); 3])
        })
    }

    fn best(times: &[Times]) -> usize {
        let estimates: Vec<f64> = times.iter().map(|times| times.estimate().unwrap()).collect();
        (0..estimates.len()).min_by(|one, other| estimates[*one].total_cmp(&estimates[*other])).unwrap()
    }

    #[test]
    fn leaders_are_timed_longer() {
        let times = run(&[9.0, 1.0, 1.05, 2.0], true, usize::MAX, |_| 1.0);
        let slices: Vec<usize> = times.iter().map(|times| times.slices.len()).collect();
        assert_eq!(slices, [4, ROUNDS, ROUNDS, 6]);
        assert_eq!(best(&times), 1);
        assert_eq!(times[1].statistics().unwrap().count, 3 * ROUNDS);
    }

    #[test]
    fn a_disturbance_does_not_choose() {
        // Two of five slices take four times as long, whichever way they are of.
        let noise = |slice: usize| if slice % 5 < 2 { 4.0 } else { 1.0 };
        let times = run(&[1.1, 1.0, 1.05], true, usize::MAX, noise);
        assert_eq!(best(&times), 1);
        assert_eq!(times[1].estimate(), Some(1.0));
        assert_eq!(times[1].slices.len(), MOST_ROUNDS, "more slices where they differ");
    }

    #[test]
    fn the_end_of_the_time_ends_it() {
        let slices = |most| run(&[1.0, 1.0, 1.0], false, most, |_| 1.0).iter().map(|times| times.slices.len()).sum();
        let found: [usize; 3] = [0, 3, 5].map(slices);
        assert_eq!(found, [3, 3, 5], "each is timed once in any case");
        let all = run(&[9.0, 1.0], false, usize::MAX, |_| 1.0);
        assert!(all.iter().all(|times| times.slices.len() == ROUNDS));
    }

    #[test]
    fn what_fails_is_not_timed_further() {
        let calls = Cell::new(0);
        let times = race(2, &Rules { is_over: &|| false, drops: false }, |way, _| match way {
            0 => {
                calls.set(calls.get() + 1);
                Err(Failure::usage("no"))
            }
            _ => Ok(vec![1.0]),
        });
        assert_eq!((calls.get(), times[0].estimate(), times[1].estimate()), (1, None, Some(1.0)));
        assert!(run(&[], true, usize::MAX, |_| 1.0).is_empty());
    }
}

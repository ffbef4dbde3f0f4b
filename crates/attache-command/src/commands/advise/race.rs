//! Times several configurations against each other: short slices in alternation, so that a disturbance meets all of them,
//! and more of them for those that lead.

use crate::failure::Failure;
use crate::measure::timing::Statistics;

/// After how many seconds, those drop out whose fastest slice takes longer than the best's time by which factor.
const CUTS: [(f64, f64); 5] = [(1.0, 3.0), (3.0, 1.6), (4.5, 1.3), (6.0, 1.15), (8.0, 1.08)];
/// Factors below this one need slices of equal length, and are no reason to leave the best alone.
const CLEAR: f64 = 3.0;
/// Fewest slices by which a configuration is judged.
const FEWEST: usize = 6;
/// A quarter of the slices may be this much slower than another quarter on a quiet machine.
const QUIET: f64 = 1.1;
/// Configurations this close are as fast as each other.
const EQUAL: f64 = 1.01;
/// The share of the slices, as a divisor, that is faster than the time of a run: one in ten.
const DECILE: usize = 10;
/// Share of the time after which a race may end, if it is decided. A disturbance that lasts is not seen before it ends.
const DECIDED: f64 = 0.5;
/// Seconds of a slice in the first round; later ones are longer.
const FIRST_SLICE: f64 = 0.01;
/// Seconds of the longest slices.
pub(super) const LONGEST_SLICE: f64 = 0.15;

/// The measured times of one configuration, in milliseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Times {
    /// Runs before the race, which count where there is no slice.
    early: Vec<f64>,
    /// The median of each slice.
    slices: Vec<f64>,
    all: Vec<f64>,
    /// Why it was not timed further, if it failed.
    pub(super) failure: Option<Failure>,
}

impl Times {
    /// Returns the time of a run: the lowest decile over slices of their medians, so that each stretch of the machine's
    /// time counts alike, and stretches in which others used it do not count. Without slices it is the shortest run;
    /// `None` if there is none.
    pub(super) fn estimate(&self) -> Option<f64> {
        let slices = sorted(&self.slices);
        let found = slices.get(slices.len() / DECILE).copied().or_else(|| self.shortest());
        found.filter(|_| self.failure.is_none())
    }

    /// Returns the shortest run.
    pub(super) fn shortest(&self) -> Option<f64> {
        self.all.iter().chain(&self.early).copied().min_by(f64::total_cmp)
    }

    /// Whether there are slices.
    pub(super) fn is_raced(&self) -> bool {
        !self.slices.is_empty()
    }

    /// Notes a run before the race.
    pub(super) fn add_early(&mut self, milliseconds: f64) {
        self.early.push(milliseconds);
    }

    /// Returns the quartile of this number over the slices.
    fn quartile(&self, number: usize) -> Option<f64> {
        let slices = sorted(&self.slices);
        slices.get(slices.len() * number / 4).copied()
    }

    /// Whether slices are about equal, so that more of them tell no more.
    fn is_quiet(&self) -> bool {
        let quartiles = self.quartile(1).zip(self.quartile(3));
        self.slices.len() >= FEWEST && quartiles.is_some_and(|(lower, upper)| upper <= lower * QUIET)
    }

    /// Summarizes all runs; `None` if there are none.
    pub(super) fn statistics(&self) -> Option<Statistics> {
        // The very first run prepares what later ones use.
        let early = if self.early.len() > 1 { &self.early[1..] } else { &self.early };
        let all = if self.all.is_empty() { early } else { &self.all };
        Statistics::of(all).filter(|_| self.failure.is_none())
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

fn sorted(numbers: &[f64]) -> Vec<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The clock of a race, and when its time is up, both in seconds.
pub(super) struct Clock<'a> {
    pub(super) now: &'a dyn Fn() -> f64,
    pub(super) end: f64,
}

impl Clock<'_> {
    /// Whether a run that takes this many milliseconds would end in time.
    fn has_time(&self, milliseconds: f64) -> bool {
        (self.now)() + milliseconds / 1e3 <= self.end
    }
}

/// Times configurations until the time is up or the race is decided, and adds to what is known of them. `slice` runs one of
/// them for some seconds, at least once, and returns the milliseconds of each run. A configuration whose run would end too
/// late is not run.
pub(super) fn race(
    times: &mut [Times],
    clock: &Clock<'_>,
    mut slice: impl FnMut(usize, f64) -> Result<Vec<f64>, Failure>,
) {
    let begin = (clock.now)();
    let mut alive: Vec<usize> = (0..times.len()).filter(|index| times[*index].failure.is_none()).collect();
    let mut seconds = FIRST_SLICE;
    for round in 1.. {
        // Another one begins each round, so that no configuration always follows the same one.
        let start = round % alive.len().max(1);
        let mut has_run = false;
        for index in alive.iter().skip(start).chain(alive.iter().take(start)) {
            if clock.has_time(times[*index].shortest().unwrap_or(0.0)) {
                has_run = true;
                times[*index].add(slice(*index, seconds));
            }
        }
        alive.retain(|index| times[*index].failure.is_none());
        let spent = (clock.now)() - begin;
        drop_slow(&mut alive, times, spent);
        if !has_run || (spent >= DECIDED * (clock.end - begin) && is_decided(&alive, times)) {
            return;
        }
        seconds = (seconds * 1.25).min(LONGEST_SLICE);
    }
}

/// Returns the estimates of those that have one, the fastest first.
fn ranked(alive: &[usize], times: &[Times]) -> Vec<(usize, f64)> {
    let mut ranked: Vec<(usize, f64)> =
        alive.iter().filter_map(|index| Some((*index, times[*index].estimate()?))).collect();
    ranked.sort_by(|one, other| one.1.total_cmp(&other.1));
    ranked
}

/// Drops those that are slow beyond doubt. The best two stay.
fn drop_slow(alive: &mut Vec<usize>, times: &[Times], spent: f64) {
    let Some((_, factor)) = CUTS.iter().rev().find(|(seconds, _)| *seconds <= spent) else { return };
    let ranked = ranked(alive, times);
    let Some((best, time)) = ranked.first().copied() else { return };
    let is_slow = |index: usize| {
        let own = &times[index];
        let is_sure = own.slices.len() >= FEWEST && (*factor >= CLEAR || (own.is_quiet() && times[best].is_quiet()));
        is_sure && own.quartile(0).is_some_and(|fastest| fastest > time * factor)
    };
    let slow: Vec<usize> = ranked.iter().skip(2).map(|(index, _)| *index).filter(|index| is_slow(*index)).collect();
    alive.retain(|index| !slow.contains(index));
}

/// Whether more slices would tell no more: all are quiet, and the best is either apart from the others or equal to them.
fn is_decided(alive: &[usize], times: &[Times]) -> bool {
    let ranked = ranked(alive, times);
    let Some((best, time)) = ranked.first().copied() else { return true };
    let is_apart = |index: usize, own: f64| {
        own <= time * EQUAL
            || times[best].quartile(3).zip(times[index].quartile(1)).is_some_and(|(upper, lower)| upper < lower)
    };
    let mut others = ranked.iter().skip(1);
    alive.iter().all(|index| times[*index].is_quiet()) && others.all(|(index, own)| is_apart(*index, *own))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Runs a race of configurations that take these milliseconds, all of them longer by `noise` of the seconds and the
    /// configuration.
    fn run(milliseconds: &[f64], end: f64, noise: impl Fn(f64, usize) -> f64) -> (Vec<Times>, f64) {
        let now = Cell::new(0.0);
        let mut times = vec![Times::default(); milliseconds.len()];
        let clock = Clock { now: &|| now.get(), end };
        race(&mut times, &clock, |index, seconds| {
            let own = milliseconds[index] * noise(now.get(), index);
            now.set(now.get() + seconds.max(own / 1e3));
            Ok(vec![own; 3])
        });
        (times, now.get())
    }

    fn best(times: &[Times]) -> usize {
        ranked(&(0..times.len()).collect::<Vec<_>>(), times)[0].0
    }

    #[test]
    fn leaders_are_timed_longer() {
        let (times, took) = run(&[9.0, 1.0, 1.05, 2.0], 20.0, |_, _| 1.0);
        let slices: Vec<usize> = times.iter().map(|times| times.slices.len()).collect();
        assert!(slices[0] < slices[3] && slices[3] < slices[1] && slices[1] == slices[2], "{slices:?}");
        assert_eq!(best(&times), 1);
        assert!((10.0..11.0).contains(&took), "{took}");
    }

    #[test]
    fn a_disturbance_does_not_choose() {
        // Two of five slices take four times as long, whichever configuration they are of.
        let noise =
            |now: f64, _: usize| if ((now * 1e3) as u32).wrapping_mul(2_654_435_761) % 5 < 2 { 4.0 } else { 1.0 };
        let (times, took) = run(&[1.1, 1.0, 1.05], 20.0, noise);
        assert_eq!((best(&times), times[1].estimate()), (1, Some(1.0)));
        assert!(took > 19.0, "a busy machine takes the whole time: {took}");
    }

    #[test]
    fn what_was_disturbed_at_first_is_timed_again() {
        // One of two is slow by another program until the seventh second.
        let noise = |now: f64, index: usize| if index == 0 && now < 7.0 { 20.0 } else { 1.0 };
        let (times, _) = run(&[1.0, 2.0], 20.0, noise);
        assert_eq!((best(&times), times[0].estimate()), (0, Some(1.0)));
        // So it is with others in the race, for as long as none is dropped by chance.
        let noise = |now: f64, index: usize| if index == 0 && now < 0.9 { 20.0 } else { 1.0 };
        let (times, _) = run(&[1.0, 2.0, 2.1], 20.0, noise);
        assert_eq!(best(&times), 0);
    }

    #[test]
    fn no_run_begins_that_would_end_too_late() {
        let slices = |end| run(&[1000.0, 3000.0], end, |_, _| 1.0);
        let (times, took) = slices(9.0);
        assert!(took <= 9.0 && times.iter().all(|times| !times.slices.is_empty()), "{took}");
        let mut times = vec![Times::default(); 2];
        times.iter_mut().zip([1000.0, 3000.0]).for_each(|(times, early)| times.add_early(early));
        let now = Cell::new(0.0);
        race(&mut times, &Clock { now: &|| now.get(), end: 2.5 }, |_, _| {
            now.set(now.get() + 1.0);
            Ok(vec![1000.0])
        });
        assert_eq!((times[0].slices.len(), times[1].slices.len()), (2, 0));
        assert_eq!(times[1].estimate(), Some(3000.0), "the run before the race counts");
        assert_eq!(times[1].statistics().unwrap().count, 1);
        times[1].add_early(2000.0);
        assert_eq!((times[1].estimate(), times[1].statistics().unwrap().max), (Some(2000.0), 2000.0));
    }

    #[test]
    fn what_fails_is_not_timed_further() {
        let (calls, now) = (Cell::new(0), Cell::new(0.0));
        let mut times = vec![Times::default(); 2];
        race(&mut times, &Clock { now: &|| now.get(), end: 9.0 }, |index, seconds| {
            now.set(now.get() + seconds);
            match index {
                0 => {
                    calls.set(calls.get() + 1);
                    Err(Failure::usage("no"))
                }
                _ => Ok(vec![1.0]),
            }
        });
        assert_eq!((calls.get(), times[0].estimate(), times[1].estimate()), (1, None, Some(1.0)));
        assert!(run(&[], 9.0, |_, _| 1.0).0.is_empty());
    }
}

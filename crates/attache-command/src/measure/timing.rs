//! Repeats work until its duration is known well enough, and summarizes the durations.

use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// When to stop repeating: after at least `runs` runs that took at least `seconds` seconds in total, and in
/// any case after the run that exceeds a total of `most` seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stop {
    pub(crate) runs: usize,
    pub(crate) seconds: f64,
    pub(crate) most: f64,
}

impl Stop {
    fn is_reached(&self, runs: usize, elapsed: Duration) -> bool {
        let elapsed = elapsed.as_secs_f64();
        elapsed >= self.most || (runs >= self.runs && elapsed >= self.seconds)
    }

    /// Runs `work` until the condition is reached. Returns the milliseconds that each run took.
    pub(crate) fn time(&self, work: impl FnMut() -> Result<(), Failure>) -> Result<Vec<f64>, Failure> {
        self.time_at(Pace::Free, work)
    }

    /// Does as [`Stop::time`], with runs that start at this pace. Pauses count for the condition, and not for a run.
    pub(crate) fn time_at(
        &self,
        pace: Pace,
        mut work: impl FnMut() -> Result<(), Failure>,
    ) -> Result<Vec<f64>, Failure> {
        let (start, mut times) = (Instant::now(), Vec::new());
        while !self.is_reached(times.len(), start.elapsed()) {
            let run = Instant::now();
            work()?;
            times.push(milliseconds(run));
            let pause = match pace {
                Pace::Free => continue,
                Pace::Delay(pause) => pause,
                // Runs that took too long are made up for: the times at which they should start do not move.
                Pace::Every(interval) => {
                    let due = interval.saturating_mul(times.len().try_into().unwrap_or(u32::MAX));
                    due.saturating_sub(start.elapsed())
                }
            };
            if !self.is_reached(times.len(), start.elapsed()) {
                thread::sleep(pause);
            }
        }
        Ok(times)
    }
}

/// When a run starts after the one before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pace {
    /// At once.
    Free,
    /// After a pause.
    Delay(Duration),
    /// So that runs start this far apart, as far as they are short enough.
    Every(Duration),
}

/// Returns the milliseconds since an instant.
pub(crate) fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// Summary of numbers, such as durations, in their unit. The median of an even number of them is the mean of the two in
/// the middle. Another percentile is one of the numbers, that of [`percentile`].
/// Measurements of version 0.1 have no `count`, `max` and `std`, which are then 0.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Statistics {
    /// How many numbers there are.
    #[serde(default)]
    pub(crate) count: usize,
    pub(crate) median: f64,
    pub(crate) p5: f64,
    pub(crate) p95: f64,
    pub(crate) min: f64,
    #[serde(default)]
    pub(crate) max: f64,
    pub(crate) mean: f64,
    /// Standard deviation.
    #[serde(default)]
    pub(crate) std: f64,
}

impl Statistics {
    /// Summarizes numbers; returns `None` if there are none.
    pub(crate) fn of(times: &[f64]) -> Option<Self> {
        let mut sorted = times.to_vec();
        sorted.sort_by(f64::total_cmp);
        let median = middle(&sorted)?;
        let mean = sorted.iter().sum::<f64>() / sorted.len() as f64;
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let variance = sorted.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / sorted.len() as f64;
        let [p5, p95] = [5, 95].map(|percent| percentile(&sorted, percent));
        Some(Self { count: sorted.len(), median, p5, p95, min, max, mean, std: variance.sqrt() })
    }
}

/// Returns the element at index `floor(count · percent / 100)`, as TensorFlow Lite's benchmark does, of sorted numbers, of
/// which there is at least one.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    sorted[sorted.len() * percent / 100]
}

/// Returns the median of sorted numbers; `None` if there are none.
fn middle(sorted: &[f64]) -> Option<f64> {
    let (low, high) = (sorted.get(sorted.len().checked_sub(1)? / 2)?, sorted[sorted.len() / 2]);
    Some(low + (high - low) / 2.0)
}

/// Returns the median of numbers as TensorFlow Lite's benchmark prints it: the upper one of the two in the middle of an
/// even number of them. 0 if there are none.
pub(crate) fn upper_median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    if sorted.is_empty() { 0.0 } else { percentile(&sorted, 50) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_elements() {
        let times: Vec<f64> = (0..100).rev().map(f64::from).collect();
        let std = (9999.0_f64 / 12.0).sqrt();
        let expected =
            Statistics { count: 100, median: 49.5, p5: 5.0, p95: 95.0, min: 0.0, max: 99.0, mean: 49.5, std };
        assert_eq!(Statistics::of(&times), Some(expected));
        assert_eq!(Statistics::of(&[2.0]).unwrap().p95, 2.0);
        let medians = [&[3.0][..], &[3.0, 1.0], &[5.0, 1.0, 2.0], &[1.0, 8.0, 2.0, 4.0]];
        let both = medians.map(|numbers| (Statistics::of(numbers).unwrap().median, upper_median(numbers)));
        assert_eq!(both, [(3.0, 3.0), (2.0, 3.0), (2.0, 2.0), (3.0, 4.0)]);
        assert_eq!(upper_median(&[]), 0.0);
        assert_eq!(Statistics::of(&[]), None);
    }

    #[test]
    fn runs_keep_their_pace() {
        let start = Instant::now();
        let stop = Stop { runs: 4, seconds: 0.0, most: 60.0 };
        let interval = Duration::from_millis(20);
        let times = stop.time_at(Pace::Every(interval), || Ok(())).unwrap();
        // There is a pause between two runs, and none after the last.
        assert!(start.elapsed() >= 3 * interval && times.iter().all(|time| *time < 20.0), "{times:?}");
        let start = Instant::now();
        stop.time_at(Pace::Delay(interval), || Ok(())).unwrap();
        assert!(start.elapsed() >= 3 * interval);
    }

    #[test]
    fn repeating_stops() {
        let count = |stop: Stop, pause: u64| {
            let work = || {
                std::thread::sleep(Duration::from_millis(pause));
                Ok(())
            };
            stop.time(work).unwrap().len()
        };
        assert_eq!(count(Stop { runs: 3, seconds: 0.0, most: 60.0 }, 0), 3);
        assert_eq!(count(Stop { runs: 0, seconds: 0.0, most: 60.0 }, 0), 0);
        assert_eq!(count(Stop { runs: 1000, seconds: 0.0, most: 0.001 }, 5), 1);
        assert!(count(Stop { runs: 1, seconds: 0.02, most: 60.0 }, 1) > 1);
        let failing = Stop { runs: 3, seconds: 0.0, most: 60.0 }.time(|| Err(Failure::usage("no")));
        assert!(failing.is_err());
    }
}

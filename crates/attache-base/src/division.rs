//! The division of work among threads: [`Division`] and [`portion`], and [`Speeds`], by which a pool divides. The smallest
//! libraries divide evenly.
#![cfg_attr(attache_small, allow(dead_code))]

use std::ops::Range;

/// Returns range `index` of `parts` into which `0..total` is divided as evenly as possible.
#[must_use]
pub fn portion(total: usize, parts: usize, index: usize) -> Range<usize> {
    let start = |index: usize| total / parts * index + total % parts * index / parts;
    start(index)..start(index + 1)
}

/// The division of some units into ranges that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Division {
    /// Where each range begins, and where the last one ends.
    bounds: Vec<usize>,
}

impl Division {
    /// Divides `0..units` into `parts` ranges, at least one, as evenly as possible.
    #[must_use]
    pub fn even(units: usize, parts: usize) -> Self {
        let parts = parts.max(1);
        Self { bounds: std::iter::once(0).chain((0..parts).map(|index| portion(units, parts, index).end)).collect() }
    }

    /// Divides `0..units` into one range for each weight, as long as its share of all weights. Where these are no numbers above
    /// 0, ranges are of any length, but still make up all units.
    fn weighted(units: usize, weights: &[f64]) -> Self {
        let (total, mut sum) = (weights.iter().sum::<f64>(), 0.0);
        let mut bounds = vec![0];
        for weight in &weights[..weights.len().saturating_sub(1)] {
            sum += weight;
            let bound = (units as f64 * (sum / total)).round() as usize;
            bounds.push(bound.clamp(bounds[bounds.len() - 1], units));
        }
        bounds.push(units);
        Self { bounds }
    }

    /// Divides each range in two, the second of which has a quarter of the units. A thread that has done its own part can take
    /// the second range of one that has not.
    #[must_use]
    pub fn in_two(self) -> Self {
        let cut = |pair: &[usize]| [pair[0], pair[1] - (pair[1] - pair[0]) / 4];
        let end = self.bounds.last().copied();
        Self { bounds: self.bounds.windows(2).flat_map(cut).chain(end).collect() }
    }

    /// Divides each range into `parts`, at least two, of which each has about half of the units that are left, and the last one
    /// the rest. A thread that has done its own part takes the short ranges at the end of others.
    #[must_use]
    pub fn in_halves(self, parts: usize) -> Self {
        let cut = |pair: &[usize]| {
            let (start, end) = (pair[0], pair[1]);
            (0..parts).map(move |index| end - (end - start).checked_shr(index as u32).unwrap_or(0))
        };
        let end = self.bounds.last().copied();
        Self { bounds: self.bounds.windows(2).flat_map(cut).chain(end).collect() }
    }

    /// Number of ranges.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.bounds.len() - 1
    }

    /// Returns a range by its index. Ranges may be empty.
    ///
    /// # Panics
    ///
    /// Panics if there are not so many.
    #[must_use]
    pub fn range(&self, index: usize) -> Range<usize> {
        self.bounds[index]..self.bounds[index + 1]
    }

    /// Calls `task` with the range with this index unless it is empty.
    pub(crate) fn call(&self, index: usize, task: &(dyn Fn(usize, Range<usize>) + Sync)) {
        let range = self.range(index);
        if !range.is_empty() {
            task(index, range);
        }
    }
}

/// How much of its distance from a new measurement a speed moves.
const RATE: f64 = 0.25;
/// The speeds that a measurement can give, relative to the mean.
const RANGE: [f64; 2] = [0.2, 2.0];
/// Differences of speeds that are no reason to divide otherwise: measurements vary by so much, and where divisions stay the
/// same, threads find in their caches what they wrote before.
const ALIKE: f64 = 0.1;

/// The speeds of threads relative to their mean: cores of one processor differ in speed, and some are shared with other
/// programs.
#[derive(Clone, Debug)]
pub(crate) struct Speeds {
    /// Means of what was measured.
    now: Vec<f64>,
    /// Those by which units are divided.
    used: Vec<f64>,
}

impl Speeds {
    /// Takes all threads for equally fast.
    pub(crate) fn new(threads: usize) -> Self {
        Self { now: vec![1.0; threads], used: vec![1.0; threads] }
    }

    /// Divides `0..units` into one range for each thread.
    pub(crate) fn divide(&self, units: usize) -> Division {
        match self.used.iter().all(|speed| *speed == 1.0) {
            true => Division::even(units, self.used.len()),
            false => Division::weighted(units, &self.used),
        }
    }

    /// Adjusts the speeds to the units that each thread just now computed in a unit of time. `None` stands for a thread of
    /// which that is not known; by and by it counts as one like the others.
    pub(crate) fn adjust(&mut self, measured: impl Iterator<Item = Option<f64>> + Clone) {
        let count = measured.clone().flatten().count();
        let mean = measured.clone().flatten().sum::<f64>() / count as f64;
        // One alone compares with nothing.
        let measured = measured.map(|speed| speed.filter(|_| count > 1));
        for (speed, measured) in self.now.iter_mut().zip(measured) {
            *speed += match measured {
                Some(measured) => ((measured / mean).clamp(RANGE[0], RANGE[1]) - *speed) * RATE,
                None => (1.0 - *speed) * (RATE / 8.0),
            };
        }
        let differ = |[one, other]: [f64; 2]| (one - other).abs() >= ALIKE;
        if self.now.iter().zip(&self.used).any(|(now, used)| differ([*now, *used])) {
            let are_alike = !self.now.iter().any(|now| differ([*now, 1.0]));
            self.used.iter_mut().zip(&self.now).for_each(|(used, now)| *used = if are_alike { 1.0 } else { *now });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(division: &Division) -> Vec<usize> {
        (0..division.parts()).map(|index| division.range(index).len()).collect()
    }

    #[test]
    fn ranges_make_up_all_units() {
        for units in [0, 1, 2, 7, 64, 1001] {
            for weights in [&[1.0][..], &[0.2, 2.0], &[1.0; 7], &[0.3, 1.9, 0.21, 1.0, 0.7], &[0.0; 3], &[f64::NAN; 2]]
            {
                for division in [Division::even(units, weights.len()), Division::weighted(units, weights)] {
                    for division in [division.clone().in_two(), division.clone().in_halves(4), division] {
                        assert_eq!(lengths(&division).iter().sum::<usize>(), units);
                        assert_eq!(division.range(0).start, 0);
                        assert_eq!(division.range(division.parts() - 1).end, units);
                    }
                }
            }
        }
        assert_eq!(lengths(&Division::weighted(100, &[1.0, 3.0]).in_two()), [19, 6, 57, 18]);
        assert_eq!(lengths(&Division::weighted(100, &[1.0, 3.0]).in_halves(3)), [13, 6, 6, 38, 19, 18]);
    }

    #[test]
    fn a_slow_thread_gets_less_until_it_is_fast_again() {
        let mut speeds = Speeds::new(3);
        assert_eq!(lengths(&speeds.divide(90)), [30, 30, 30]);
        (0..100).for_each(|_| speeds.adjust([Some(2.0), Some(1.0), Some(2.0)].into_iter()));
        let [first, slow, last] = lengths(&speeds.divide(1000))[..] else { panic!("three ranges") };
        assert!(first.abs_diff(400) < 40 && slow.abs_diff(200) < 40 && last.abs_diff(400) < 40, "{speeds:?}");
        // One that did nothing gets something again, also if only one did something.
        for others in [Some(2.0), None] {
            (0..300).for_each(|_| speeds.adjust([Some(2.0), None, others].into_iter()));
            assert_eq!(lengths(&speeds.divide(90)), [30, 30, 30]);
            (0..100).for_each(|_| speeds.adjust([Some(2.0), Some(1.0), Some(2.0)].into_iter()));
        }
    }

    #[test]
    fn measurements_that_vary_little_change_no_division() {
        let mut speeds = Speeds::new(2);
        for round in 0..1000 {
            let other = if round % 2 == 0 { 1.09 } else { 0.93 };
            speeds.adjust([Some(1.0), Some(other)].into_iter());
            assert_eq!(speeds.divide(101), Division::even(101, 2));
        }
    }
}

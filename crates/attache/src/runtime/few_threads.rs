//! Whether short runs are faster on the caller's thread alone: [`FewThreads`] measures it.
//!
//! What it costs to divide an operator depends on more than the operator. Where one divides an image and the next does not,
//! half of it has to be fetched from the cache of another processor, which takes a few microseconds on some machines and
//! nearly nothing on others. Of a run of less than a tenth of a millisecond this may be more than what threads save.

/// Consecutive runs of one kind that are compared with as many of the other. The first of them does not count: it fetches what
/// other threads have.
const BLOCK: usize = 4;
/// Comparisons that decide.
const COMPARISONS: usize = 9;
/// Runs from one comparison to the next, before the first decision and at most. They grow with each decision.
const FIRST_INTERVAL: usize = 16;
const LAST_INTERVAL: usize = 4096;
/// Milliseconds of a run on all threads from which on these are always used.
const LONG: f64 = 0.25;
/// Multiple of the time on all threads from which on single runs are not tried further, and this is decided.
const SLOW: f64 = 2.0;
/// Part of the time on all threads that the caller's thread may take to be preferred.
const GAIN: f64 = 0.9;

/// Compares short runs on all threads with runs on the caller's thread alone, now and then, and chooses the faster kind for
/// the others. Results do not depend on the number of threads.
#[derive(Debug)]
pub(super) struct FewThreads {
    /// All threads of the last run.
    threads: usize,
    /// Runs since the last comparison began. It consists of the first runs of an interval.
    runs: usize,
    interval: usize,
    is_alone: bool,
    /// The least milliseconds of a run on all threads and of one on the caller's alone, in the comparison under way.
    least: [f64; 2],
    /// The quotients of these of the comparisons since the last decision.
    quotients: Vec<f64>,
}

impl Default for FewThreads {
    fn default() -> Self {
        let least = [f64::INFINITY; 2];
        Self { threads: 0, runs: 2 * BLOCK, interval: FIRST_INTERVAL, is_alone: false, least, quotients: Vec::new() }
    }
}

impl FewThreads {
    /// Returns whether the next run is to be made on the caller's thread alone, and whether its time is to be measured. All
    /// threads are `threads`.
    pub(super) fn begin(&mut self, threads: usize) -> (bool, bool) {
        if self.threads != threads {
            *self = Self { threads, ..Self::default() };
        }
        match self.runs / BLOCK {
            block @ (0 | 1) => (block == 1, true),
            _ => (self.is_alone, false),
        }
    }

    /// Notes that a run has ended, and how many milliseconds it took if they were measured.
    pub(super) fn end(&mut self, milliseconds: Option<f64>) {
        let (block, place) = (self.runs / BLOCK, self.runs % BLOCK);
        if let Some((milliseconds, least)) = milliseconds.zip(self.least.get_mut(block)).filter(|_| place > 0) {
            *least = least.min(milliseconds);
        }
        self.runs += 1;
        let is_slow = block == 1 && milliseconds.is_some_and(|milliseconds| milliseconds >= SLOW * self.least[0]);
        if is_slow || self.runs == BLOCK && self.least[0] >= LONG {
            (self.is_alone, self.interval, self.runs) = (false, LAST_INTERVAL, 2 * BLOCK);
            self.quotients.clear();
        } else if self.runs == 2 * BLOCK {
            self.quotients.push(self.least[1] / self.least[0]);
            self.decide();
        }
        if self.runs >= self.interval {
            (self.runs, self.least) = (0, [f64::INFINITY; 2]);
        }
    }

    /// Chooses the faster kind once there are enough comparisons.
    fn decide(&mut self) {
        if self.quotients.len() < COMPARISONS {
            return;
        }
        let was_alone = self.is_alone;
        self.is_alone = *self.quotients.select_nth_unstable_by(COMPARISONS / 2, f64::total_cmp).1 < GAIN;
        self.quotients.clear();
        self.interval =
            if self.is_alone == was_alone { (2 * self.interval).min(LAST_INTERVAL) } else { FIRST_INTERVAL };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes runs that take `times` milliseconds on all threads and on one, and returns how many were made on one.
    fn made(few: &mut FewThreads, runs: usize, times: [f64; 2]) -> usize {
        let run = |_: &usize| {
            let (is_alone, is_measured) = few.begin(2);
            few.end(is_measured.then_some(times[usize::from(is_alone)]));
            is_alone
        };
        (0..runs).filter(run).count()
    }

    const DECISION: usize = COMPARISONS * FIRST_INTERVAL;

    #[test]
    fn short_runs_are_made_where_they_are_faster() {
        let mut few = FewThreads::default();
        assert_eq!(made(&mut few, DECISION, [0.1, 0.06]), COMPARISONS * BLOCK);
        assert_eq!(made(&mut few, 8, [0.1, 0.06]), 8, "{few:?}");
        made(&mut few, 4 * DECISION, [0.05, 0.06]);
        assert!(!few.is_alone, "another load of the machine");
    }

    #[test]
    fn what_is_compared_becomes_rare() {
        let mut few = FewThreads::default();
        made(&mut few, 1 << 18, [0.1, 0.095]);
        assert_eq!((few.is_alone, few.interval), (false, LAST_INTERVAL));
        assert!(made(&mut few, LAST_INTERVAL, [0.1, 0.095]) == BLOCK);
    }

    #[test]
    fn long_runs_use_all_threads() {
        let mut few = FewThreads::default();
        assert_eq!(made(&mut few, 10 * LAST_INTERVAL, [2.0 * LONG, 0.01]), 0);
    }

    #[test]
    fn runs_that_take_much_longer_alone_are_hardly_tried() {
        let mut few = FewThreads::default();
        assert_eq!(made(&mut few, LAST_INTERVAL, [0.1, 0.5]), 1);
    }

    #[test]
    fn other_threads_are_compared_anew() {
        let mut few = FewThreads::default();
        made(&mut few, DECISION, [0.1, 0.06]);
        assert!(few.is_alone);
        assert!(!few.begin(4).0 && few.interval == FIRST_INTERVAL);
    }

    #[test]
    fn single_slow_runs_decide_nothing() {
        let mut few = FewThreads::default();
        for run in 0..100_000 {
            let (is_alone, is_measured) = few.begin(2);
            let slow = if run % 5 == 0 { 10.0 } else { 1.0 };
            few.end(is_measured.then_some(slow * if is_alone { 0.06 } else { 0.05 }));
        }
        assert!(!few.is_alone);
    }
}

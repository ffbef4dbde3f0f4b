//! The cache of a device's compute pipelines, keyed by shader source. A pipeline stays cached as long as a
//! recording uses it, and a limited number of unused pipelines stay cached for later recordings.
//!
//! The number of unused pipelines is limited because sources contain the extents of shapes: the cache would
//! grow without bound if shapes changed often.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use attache_base::parallel::each;

use crate::kernel::GpuError;

/// Maximum number of unused pipelines that stay cached, enough for a few large networks.
const SPARE: usize = 512;

/// Maximum threads that compile shaders concurrently.
pub(crate) const COMPILING: usize = 16;

/// The pipeline cache of a device. `P` is the type of the pipelines.
pub(crate) struct Pipelines<P>(Mutex<Known<P>>);

struct Known<P> {
    /// Maps each shader source to its pipeline, and to the value of `turn` at the last request for the
    /// pipeline.
    by_source: HashMap<String, (Arc<P>, u64)>,
    /// Number of requests so far. Each call of [`Pipelines::of`] is one request.
    turn: u64,
}

impl<P> Default for Pipelines<P> {
    fn default() -> Self {
        Self(Mutex::new(Known { by_source: HashMap::new(), turn: 0 }))
    }
}

impl<P: Send + Sync> Pipelines<P> {
    /// Returns one pipeline for each source, in the order of the sources. Each source is paired with the
    /// number of buffers that its shader binds after its parameters. Calls `make`, on at most `threads` threads, for
    /// each source that is not cached. Fails if one of these calls fails.
    pub(crate) fn of(
        &self,
        sources: &[(&str, usize)],
        threads: usize,
        make: impl Fn(&str, usize) -> Result<P, GpuError> + Sync,
    ) -> Result<Vec<Arc<P>>, GpuError> {
        let different: BTreeSet<(&str, usize)> = sources.iter().copied().collect();
        let turn = self.next_turn();
        let mut found: HashMap<&str, Arc<P>> = HashMap::new();
        let mut missing = Vec::new();
        for (source, buffers) in different {
            match self.lock().ask(source, turn) {
                Some(pipeline) => drop(found.insert(source, pipeline)),
                None => missing.push((source, buffers)),
            }
        }
        let (found, failure) = (Mutex::new(found), Mutex::new(None));
        each(&missing, threads, |(source, buffers)| match make(source, *buffers) {
            Ok(pipeline) => {
                let pipeline = self.lock().keep(source, pipeline, turn);
                found.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(source, pipeline);
            }
            Err(error) => *failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(error),
        });
        self.lock().forget();
        if let Some(error) = failure.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            return Err(error);
        }
        let found = found.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        Ok(sources.iter().map(|(source, _)| found[source].clone()).collect())
    }

    fn lock(&self) -> MutexGuard<'_, Known<P>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn next_turn(&self) -> u64 {
        let mut known = self.lock();
        known.turn += 1;
        known.turn
    }
}

impl<P> Known<P> {
    fn ask(&mut self, source: &str, turn: u64) -> Option<Arc<P>> {
        let (pipeline, last) = self.by_source.get_mut(source)?;
        *last = turn;
        Some(pipeline.clone())
    }

    /// Caches a new pipeline and returns it. If another thread has cached a pipeline for the same source in
    /// the meantime, drops the new pipeline and returns the cached one.
    fn keep(&mut self, source: &str, pipeline: P, turn: u64) -> Arc<P> {
        self.by_source.entry(source.to_owned()).or_insert_with(|| (Arc::new(pipeline), turn)).0.clone()
    }

    /// Removes the least recently requested of the unused pipelines if there are more than `SPARE`.
    fn forget(&mut self) {
        let is_unused = |pipeline: &Arc<P>| Arc::strong_count(pipeline) == 1;
        let unused = self.by_source.values().filter(|(pipeline, _)| is_unused(pipeline));
        let mut turns: Vec<u64> = unused.map(|(_, last)| *last).collect();
        let Some(excess) = turns.len().checked_sub(SPARE + 1) else { return };
        let (_, newest, _) = turns.select_nth_unstable(excess);
        let newest = *newest;
        self.by_source.retain(|_, (pipeline, last)| *last > newest || !is_unused(pipeline));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::kernel::GpuErrorKind;

    /// Requests pipelines that are copies of their sources, and counts those that are made.
    fn ask(pipelines: &Pipelines<String>, made: &AtomicUsize, names: &[String]) -> Vec<Arc<String>> {
        let sources: Vec<(&str, usize)> = names.iter().map(|name| (name.as_str(), 1)).collect();
        let make = |source: &str, _| {
            made.fetch_add(1, Ordering::Relaxed);
            Ok(source.to_owned())
        };
        pipelines.of(&sources, COMPILING, make).unwrap()
    }

    fn names(numbers: std::ops::Range<usize>) -> Vec<String> {
        numbers.map(|number| format!("{number}")).collect()
    }

    #[test]
    fn each_is_made_once_and_given_in_order() {
        let (pipelines, made) = (Pipelines::default(), AtomicUsize::new(0));
        let wanted = ["b", "a", "b", "c"].map(str::to_owned);
        let given: Vec<String> = ask(&pipelines, &made, &wanted).iter().map(|pipeline| (**pipeline).clone()).collect();
        assert_eq!((given, made.load(Ordering::Relaxed)), (wanted.to_vec(), 3));
        ask(&pipelines, &made, &wanted[2..]);
        assert_eq!(made.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn those_go_that_nobody_asked_for_of_late_and_the_used_stay() {
        let (pipelines, made) = (Pipelines::default(), AtomicUsize::new(0));
        let used = ask(&pipelines, &made, &names(0..10));
        for number in 10..2000 {
            ask(&pipelines, &made, &names(number..number + 1));
        }
        // The requested pipeline is still in use when unused ones are removed.
        assert_eq!(pipelines.lock().by_source.len(), used.len() + SPARE + 1);
        ask(&pipelines, &made, &names(0..10));
        ask(&pipelines, &made, &names(2000 - SPARE..2000));
        assert_eq!(made.load(Ordering::Relaxed), 2000);
        ask(&pipelines, &made, &names(10..11));
        assert_eq!(made.load(Ordering::Relaxed), 2001);
    }

    #[test]
    fn a_failure_is_told_and_nothing_is_kept_of_it() {
        let pipelines: Pipelines<String> = Pipelines::default();
        let failing = |_: &str, _| Err(GpuError::new(GpuErrorKind::OutOfMemory, "full"));
        let error = pipelines.of(&[("a", 1), ("b", 1)], COMPILING, failing).unwrap_err();
        assert_eq!(error.kind(), GpuErrorKind::OutOfMemory);
        assert!(pipelines.lock().by_source.is_empty());
    }
}

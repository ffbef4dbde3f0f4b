//! The trait [`Parallel`], through which kernels run the tasks into which they split their work, and its
//! single-threaded implementation [`Serial`].
//!
//! The functions [`both`] and [`each`] run infrequent work on threads that are started for the call.

use std::fmt;
#[cfg(not(attache_small))]
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

#[cfg(not(attache_small))]
use crate::Division;

/// Keeps other crates from implementing [`Parallel`], on which kernels rely for memory safety.
pub(crate) trait Sealed {}

/// Runs independent tasks on one or more threads. Only this crate implements it: kernels rely on what it says of
/// indices when they write to memory without locks.
#[allow(private_bounds)] // as the supertrait says
pub trait Parallel: Sync + Sealed {
    /// Number of threads that work at once, including the caller's; at least 1.
    fn threads(&self) -> usize;

    /// Calls `task` exactly once with each index in `0..tasks`, in any order and on any thread. Returns when all
    /// calls are done.
    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync));

    /// Divides `0..units` into as many ranges as there are threads, each for one of them, by how fast each has computed the
    /// ranges of earlier divisions.
    #[cfg(not(attache_small))]
    fn division(&self, units: usize) -> Division {
        Division::even(units, self.threads())
    }

    /// Calls `task` exactly once with each range of a division that is not empty, and its index. A division comes from
    /// [`Self::division`], with its ranges cut or not; all units must take about the same time. Returns when all calls are
    /// done.
    #[cfg(not(attache_small))]
    fn run_division(&self, division: &Division, task: &(dyn Fn(usize, Range<usize>) + Sync)) {
        self.run(division.parts(), &|index| division.call(index, task));
    }

    /// States that calls of [`Parallel::run`] follow in short succession, until [`Parallel::end`]. Calls may nest.
    /// [`Succession`] calls both.
    fn begin(&self) {}

    /// Ends what [`Parallel::begin`] began.
    fn end(&self) {}
}

/// States of some threads, as long as it lives, that calls of [`Parallel::run`] follow in short succession, so that
/// they stay awake in between.
pub struct Succession<'a>(&'a dyn Parallel);

impl<'a> Succession<'a> {
    /// Begins a succession of calls.
    pub fn new(parallel: &'a dyn Parallel) -> Self {
        parallel.begin();
        Self(parallel)
    }
}

impl Drop for Succession<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl fmt::Debug for Succession<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Succession").finish_non_exhaustive()
    }
}

/// An implementation of [`Parallel`] that runs all tasks on the caller's thread, in ascending order of their
/// indices.
#[derive(Clone, Copy, Debug, Default)]
pub struct Serial;

impl Sealed for Serial {}

impl Parallel for Serial {
    fn threads(&self) -> usize {
        1
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        (0..tasks).for_each(task);
    }
}

/// Runs `there` on a new thread and `here` on the current one, waits for both, and returns what they
/// returned. If no thread can be started, runs `here` and then `there` on the current thread.
///
/// # Panics
///
/// Resumes a panic of `there` on the calling thread.
pub fn both<A: Send, B>(there: impl FnOnce() -> A + Send, here: impl FnOnce() -> B) -> (A, B) {
    let work = Mutex::new(Some(there));
    let take = || work.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, || take().map(|there| there()));
        let made_here = here();
        let made_there = match thread.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(made)) => made,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(_) => take().map(|there| there()),
        };
        (made_there.expect("what the thread did not take is still there"), made_here)
    })
}

/// Calls `work` once with each item, on at most `threads` threads including the current one, and at most as
/// many as the machine has cores. Returns when all calls are done.
///
/// # Panics
///
/// If calls to `work` panic, the other items are still processed, and then the first panic is resumed with its payload
/// on the calling thread.
pub fn each<T: Sync>(items: &[T], threads: usize, work: impl Fn(&T) + Sync) {
    each_index(items.len(), threads, &|index| work(&items[index]));
}

/// Does what [`each`] says with the indices below `count`. Not generic, so that it is compiled once.
fn each_index(count: usize, threads: usize, work: &(dyn Fn(usize) + Sync)) {
    let (next, panic) = (AtomicUsize::new(0), Mutex::new(None));
    let take = || {
        while let Some(index) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|index| *index < count) {
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| work(index))) {
                panic.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get_or_insert(payload);
            }
        }
    };
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 1..threads.min(available).min(count) {
            // If a thread cannot be started, the other threads process its items.
            drop(std::thread::Builder::new().spawn_scoped(scope, take));
        }
        take();
    });
    if let Some(payload) = panic.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
        resume_unwind(payload);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_are_done() {
        let mut here = 0;
        assert_eq!(both(|| 2, || here += 1), (2, ()));
        assert_eq!(here, 1);
    }

    #[test]
    fn a_panic_keeps_what_it_said() {
        for threads in [1, 4] {
            let work = || each(&[1, 2, 3, 4, 5, 6], threads, |item| assert_ne!(*item, 4, "it is {item}"));
            let payload = catch_unwind(work).unwrap_err();
            assert!(payload.downcast_ref::<String>().is_some_and(|text| text.contains("it is 4")));
        }
    }

    #[test]
    fn each_item_is_taken_once() {
        let taken: Vec<AtomicUsize> = (0..100).map(|_| AtomicUsize::new(0)).collect();
        each(&taken, 4, |count| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        assert!(taken.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    }
}

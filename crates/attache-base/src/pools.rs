//! Thread pools that the interpreters of a process share: [`Pools`].

use std::fmt;
#[cfg(not(attache_small))]
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::parallel::Sealed;
use crate::pool::{Idle, Pool};
#[cfg(not(attache_small))]
use crate::{Division, Serial};
use crate::{Parallel, process_id};

/// The pools of all who have asked for the same number of threads.
static SHARED: Mutex<Vec<Weak<Pools>>> = Mutex::new(Vec::new());

/// Thread pools of one kind, each of which is lent to one user at a time. There are as many as have been in use at once, so
/// that many interpreters need few threads, and two that run at once don't wait for each other. They end with the last
/// user.
#[derive(Debug)]
pub struct Pools {
    threads: usize,
    idle: Idle,
    /// The process that has their threads. A fork has none of them.
    process: u32,
    free: Mutex<Vec<Pool>>,
}

impl Pools {
    /// Returns the pools of this process with `threads` threads each, counted as by [`Pool::new`].
    #[must_use]
    pub fn shared(threads: usize, idle: Idle) -> Arc<Self> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.retain(|pools| pools.strong_count() > 0);
        let process = process_id();
        let is_same = |pools: &Arc<Self>| (pools.threads, pools.idle, pools.process) == (threads, idle, process);
        let found = shared.iter().filter_map(Weak::upgrade).find(is_same);
        found.unwrap_or_else(|| {
            let pools = Arc::new(Self { threads, idle, process, free: Mutex::default() });
            shared.push(Arc::downgrade(&pools));
            pools
        })
    }

    /// Lends a pool that nobody uses, the one that was used last, or a new one.
    #[must_use]
    pub fn lend(self: &Arc<Self>) -> LentPool {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        LentPool { pool: Some(free.unwrap_or_else(|| Pool::with_idle(self.threads, self.idle))), pools: self.clone() }
    }
}

/// A pool that is lent until this value is dropped.
pub struct LentPool {
    /// Taken only when the value is dropped.
    pool: Option<Pool>,
    pools: Arc<Pools>,
}

impl Sealed for LentPool {}

impl Parallel for LentPool {
    fn threads(&self) -> usize {
        self.pool.as_ref().map_or(1, Parallel::threads)
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        match &self.pool {
            Some(pool) => pool.run(tasks, task),
            None => (0..tasks).for_each(task),
        }
    }

    #[cfg(not(attache_small))]
    fn division(&self, units: usize) -> Division {
        self.pool.as_ref().map_or_else(|| Division::even(units, 1), |pool| pool.division(units))
    }

    #[cfg(not(attache_small))]
    fn run_division(&self, division: &Division, task: &(dyn Fn(usize, Range<usize>) + Sync)) {
        match &self.pool {
            Some(pool) => pool.run_division(division, task),
            None => Serial.run_division(division, task),
        }
    }

    fn begin(&self) {
        self.pool.iter().for_each(Parallel::begin);
    }

    fn end(&self) {
        self.pool.iter().for_each(Parallel::end);
    }
}

impl fmt::Debug for LentPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LentPool").field("threads", &self.threads()).finish_non_exhaustive()
    }
}

impl Drop for LentPool {
    fn drop(&mut self) {
        let mut free = self.pools.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.extend(self.pool.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_one_after_another_share_a_pool_and_users_at_once_have_their_own() {
        let count = |pools: &Arc<Pools>| pools.free.lock().unwrap().len();
        let (one, other) = (Pools::shared(3, Idle::Asleep), Pools::shared(3, Idle::Asleep));
        assert!(Arc::ptr_eq(&one, &other) && !Arc::ptr_eq(&one, &Pools::shared(2, Idle::Asleep)));
        for pools in [&one, &other] {
            assert_eq!(pools.lend().threads(), 3);
            assert_eq!(count(pools), 1);
        }
        let both = (one.lend(), other.lend());
        assert_eq!(count(&one), 0);
        drop(both);
        assert_eq!(count(&other), 2);
    }

    #[test]
    fn pools_end_with_their_last_user() {
        let pools = Pools::shared(2, Idle::Awake);
        let lent = pools.lend();
        let weak = Arc::downgrade(&pools);
        drop(pools);
        assert!(weak.upgrade().is_some());
        drop(lent);
        assert!(weak.upgrade().is_none());
    }
}

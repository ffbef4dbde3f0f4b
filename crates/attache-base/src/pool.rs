//! The thread pool that runs the CPU kernels: [`Pool`], an implementation of [`Parallel`] whose worker
//! threads spin briefly before they sleep.
//!
//! A call of [`Parallel::run`] is a job. The calling thread runs tasks of the job too, and never waits for a
//! worker that has not joined the job. A worker joins while the job is open, by incrementing the number of
//! joined workers in the state word. The caller closes the job when no task is left to take, and then waits
//! only for the workers that joined. A call from inside a task, or while another caller uses the pool, runs
//! all of its tasks on the calling thread. So does a call in a process that was forked, where the workers are missing.
#![allow(unsafe_code)] // The workers run a task that is borrowed from the caller's stack.

use std::any::Any;
use std::cell::UnsafeCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::Parallel;
use crate::process_id;

/// Iterations of a worker's spin loop before it sleeps, some tens of microseconds, and of the caller's spin
/// loop before it yields its time slice.
const SPINS: usize = 1000;

/// Bit of [`Board::state`] that is set while workers may join the current job. The bits below it are the
/// number of workers that have joined, the 32 bits above it the number of the job.
const OPEN: u64 = 1 << 31;
/// Increment of [`Board::state`] that raises the number of the job by 1.
const NUMBER: u64 = 1 << 32;

type Task<'a> = &'a (dyn Fn(usize) + Sync);
type Panic = Box<dyn Any + Send>;

/// A job: a task to run with each index below `tasks`. Read only by workers that have joined the job.
#[derive(Clone, Copy)]
struct Job {
    task: Task<'static>,
    tasks: usize,
}

/// State shared by the caller and the workers.
struct Board {
    state: AtomicU64,
    job: UnsafeCell<Option<Job>>,
    /// Index of the next task of the current job that no thread has taken; at least the number of tasks when
    /// none is left.
    next: AtomicUsize,
    /// The payload of the first panic of a task of the current job, until the caller takes it.
    panic: Mutex<Option<Panic>>,
    ended: AtomicBool,
    sleepers: AtomicUsize,
    gate: Mutex<()>,
    wake: Condvar,
}

// SAFETY: `job` is written only while the job is closed and no worker is joined, and read only by workers that joined.
unsafe impl Sync for Board {}

/// A thread pool for kernels. Dropping it ends the worker threads and waits for them.
pub struct Pool {
    board: Arc<Board>,
    caller: Mutex<()>,
    workers: Vec<JoinHandle<()>>,
    /// The process that has the workers.
    process: u32,
}

impl Pool {
    /// Creates a pool in which `threads` threads work at once, including the caller's: `threads - 1` workers
    /// are started, none for 0 or 1. If the system refuses to start a thread, the pool has fewer.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        let board = Arc::new(Board {
            state: AtomicU64::new(0),
            job: UnsafeCell::new(None),
            next: AtomicUsize::new(0),
            panic: Mutex::new(None),
            ended: AtomicBool::new(false),
            sleepers: AtomicUsize::new(0),
            gate: Mutex::new(()),
            wake: Condvar::new(),
        });
        let start = |index: usize| {
            let board = board.clone();
            std::thread::Builder::new().name(format!("attache-{index}")).spawn(move || board.work()).ok()
        };
        let workers = (1..threads).map_while(start).collect();
        Self { board, caller: Mutex::new(()), workers, process: process_id() }
    }

    /// Whether there are workers in this process. A fork copies the pool, but only the thread that forks.
    fn has_workers(&self) -> bool {
        !self.workers.is_empty() && self.process == process_id()
    }
}

impl Parallel for Pool {
    fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        let caller = if tasks > 1 && self.has_workers() { self.caller.try_lock().ok() } else { None };
        if caller.is_none() {
            return (0..tasks).for_each(task);
        }
        let panic = self.board.run(tasks, task);
        // The lock is released before the panic is resumed, because a panic while it is held would poison it.
        drop(caller);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("threads", &self.threads()).finish_non_exhaustive()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if !self.has_workers() {
            // To join or to detach threads of another process is undefined.
            return self.workers.drain(..).for_each(std::mem::forget);
        }
        self.board.ended.store(true, Ordering::SeqCst);
        self.board.wake_all();
        for worker in self.workers.drain(..) {
            let _ = worker.join(); // a worker never panics, because panics of tasks are caught
        }
    }
}

impl Board {
    /// Runs all tasks and returns the payload of the first panic of one of them. The calling thread holds the
    /// lock [`Pool::caller`], so no other job runs until this function returns.
    fn run(&self, tasks: usize, task: Task) -> Option<Panic> {
        // SAFETY: the borrow ends before this function returns: it waits for every worker that joined, no worker joins
        // after the job is closed, and nothing in between can panic.
        let task = unsafe { std::mem::transmute::<Task<'_>, Task<'static>>(task) };
        // SAFETY: the caller's lock makes this the only writer; the previous job is closed and no worker is joined to
        // it.
        unsafe { *self.job.get() = Some(Job { task, tasks }) };
        self.next.store(0, Ordering::Relaxed);
        let number = self.state.load(Ordering::Relaxed) & !(NUMBER - 1);
        self.state.store(number.wrapping_add(NUMBER) | OPEN, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            self.wake_all();
        }
        self.take_tasks(Job { task, tasks });
        self.state.fetch_and(!OPEN, Ordering::AcqRel);
        let mut turns = 0usize;
        while self.state.load(Ordering::Acquire) & (OPEN - 1) != 0 {
            turns += 1;
            if turns > SPINS { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
        self.panic.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Runs tasks of the job until none is left to take, and stores the first task's panic payload. Never
    /// panics.
    fn take_tasks(&self, job: Job) {
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= job.tasks {
                return;
            }
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (job.task)(index))) {
                self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
            }
        }
    }

    /// Runs the main loop of a worker thread until the pool is dropped.
    fn work(&self) {
        let mut seen = 0;
        while let Some(state) = self.wait(seen) {
            seen = state / NUMBER;
            if self.join(state) {
                // SAFETY: this worker has joined, so the job remains valid until it leaves.
                if let Some(job) = unsafe { *self.job.get() } {
                    self.take_tasks(job);
                }
                self.state.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }

    /// Joins the job whose number is in `state`. Returns false if that job has been closed in the meantime.
    fn join(&self, mut state: u64) -> bool {
        let number = state / NUMBER;
        while state & OPEN != 0 && state / NUMBER == number {
            match self.state.compare_exchange_weak(state, state + 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    /// Waits for an open job whose number is not `seen` and returns the state word; `None` when the pool is
    /// dropped.
    fn wait(&self, seen: u64) -> Option<u64> {
        let ready = || {
            let state = self.state.load(Ordering::SeqCst);
            (state & OPEN != 0 && state / NUMBER != seen).then_some(state)
        };
        loop {
            for _ in 0..SPINS {
                if self.ended.load(Ordering::Relaxed) {
                    return None;
                }
                if let Some(state) = ready() {
                    return Some(state);
                }
                std::hint::spin_loop();
            }
            let guard = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
            self.sleepers.fetch_add(1, Ordering::SeqCst);
            // A thread that opens a job or ends the pool after these checks sees a sleeper and takes the gate to wake
            // it.
            if ready().is_none() && !self.ended.load(Ordering::SeqCst) {
                drop(self.wake.wait(guard));
            }
            self.sleepers.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn wake_all(&self) {
        let _gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        self.wake.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn sum(pool: &Pool, tasks: usize) -> usize {
        let total = AtomicUsize::new(0);
        pool.run(tasks, &|index| {
            total.fetch_add(index + 1, Ordering::Relaxed);
        });
        total.into_inner()
    }

    #[test]
    fn every_task_runs_once() {
        for threads in [0, 1, 2, 5] {
            let pool = Pool::new(threads);
            assert_eq!(pool.threads(), threads.max(1));
            for round in 0..2000 {
                let tasks = round % 17;
                assert_eq!(sum(&pool, tasks), tasks * (tasks + 1) / 2);
            }
            std::thread::sleep(Duration::from_millis(5)); // workers fall asleep
            assert_eq!(sum(&pool, 100), 5050);
        }
    }

    #[test]
    fn nested_and_concurrent_calls_finish() {
        let pool = Pool::new(3);
        let total = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        pool.run(4, &|_| {
                            total.fetch_add(sum(&pool, 3), Ordering::Relaxed);
                        });
                    }
                });
            }
        });
        assert_eq!(total.into_inner(), 3 * 200 * 4 * 6);
    }

    #[test]
    fn each_caller_gets_its_own_panic_and_no_other() {
        const TASKS: usize = 3;
        let pool = Pool::new(2);
        // Callers 0 and 2 panic in every round, caller 1 in none.
        let call = |caller: usize| {
            for round in 0..20_000 {
                let done = AtomicUsize::new(0);
                let result = catch_unwind(AssertUnwindSafe(|| {
                    pool.run(TASKS, &|index| {
                        if index == 0 && caller != 1 {
                            resume_unwind(Box::new((caller, round))); // without the message of a panic
                        }
                        done.fetch_add(1, Ordering::Relaxed);
                    });
                }));
                let panic = result.err().map(|panic| *panic.downcast::<(usize, usize)>().unwrap());
                assert_eq!(panic, (caller != 1).then_some((caller, round)));
                assert!(panic.is_some() || done.into_inner() == TASKS);
            }
        };
        std::thread::scope(|scope| (0..3).for_each(|caller| drop(scope.spawn(move || call(caller)))));
    }

    #[test]
    fn the_pool_is_a_callers_until_its_panic_is_taken() {
        let (pool, gate) = (Pool::new(2), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let caller = scope.spawn(|| {
                catch_unwind(AssertUnwindSafe(|| {
                    pool.run(2, &|index| match index {
                        0 => resume_unwind(Box::new("zero")),
                        _ => {
                            while !gate.load(Ordering::Relaxed) {
                                std::thread::yield_now()
                            }
                        }
                    });
                }))
            });
            // Holds the lock of the panic payload, so that the caller has to wait wherever it takes the
            // payload.
            let panic = loop {
                let panic = pool.board.panic.lock().unwrap();
                if panic.is_some() {
                    break panic;
                }
            };
            gate.store(true, Ordering::Relaxed);
            for _ in 0..50 {
                assert!(pool.caller.try_lock().is_err(), "another caller would be given this panic");
                std::thread::sleep(Duration::from_millis(1));
            }
            drop(panic);
            assert_eq!(*caller.join().unwrap().unwrap_err().downcast::<&str>().unwrap(), "zero");
        });
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        let pool = Pool::new(2);
        let done = AtomicUsize::new(0);
        let result = catch_unwind(AssertUnwindSafe(|| {
            pool.run(8, &|index| {
                assert!(index != 3, "three");
                done.fetch_add(1, Ordering::Relaxed);
            });
        }));
        assert!(result.is_err());
        assert_eq!(done.into_inner(), 7);
        assert_eq!(sum(&pool, 10), 55);
    }
}

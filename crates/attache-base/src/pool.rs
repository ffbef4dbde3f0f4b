//! The thread pool that runs the CPU kernels: [`Pool`], an implementation of [`Parallel`] whose worker
//! threads stay awake from the first to the last operator of a run.
//!
//! A call of [`Parallel::run`] is a job. Each thread that takes part in it, the calling one first, has a range of the
//! job's tasks, takes them from the front, and then takes tasks from the back of the ranges of others. The caller
//! never waits for a worker that has not joined the job.
//!
//! What is handed over is little, because each cache line that moves from one core to another takes as long as hundreds
//! of products: the caller writes one line, and each worker writes one of its own, its [`Slot`]. A worker joins a job by
//! replacing the number of an earlier one in its slot. When no task is left to take, the caller does the same in the
//! slots of workers that have not joined, so that these cannot join any more, and waits for the others.
//!
//! A call from inside a task, or while another caller uses the pool, runs all of its tasks on the calling thread. So
//! does a call in a process that was forked, where the workers are missing.
//!
//! A worker without a task spins, then yields its core between looks at the state, and sleeps at last: see [`Idle`]. If it
//! finds itself on the core of the caller, where each would wait for the other, it moves to another one.
#![allow(unsafe_code)] // The workers run a task that is borrowed from the caller's stack.

use std::any::Any;
use std::cell::UnsafeCell;
use std::fmt;
#[cfg(not(attache_small))]
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use crate::division::Speeds;
use crate::parallel::Sealed;
use crate::{Division, Parallel, placement, process_id};

/// Iterations of a worker's spin loop between two looks at the clock.
const SPINS: usize = 64;
/// Iterations of the loop in which the caller waits for workers before it yields its core, some tens of microseconds.
const CALLER_SPINS: usize = 1000;

/// Factor of the number of the job in [`Current::state`]. Below it is the number of threads that take part.
const NUMBER: u64 = 1 << 16;
/// Greatest number of threads of a pool, for which [`Current::state`] has room.
const MOST_THREADS: usize = NUMBER as usize - 1;
/// Greatest number of tasks of a job, for which [`Slot::range`] has room.
const MOST_TASKS: usize = (1 << 20) - 1;
/// Number of different stamps of [`Slot::range`] and [`Slot::time`]. None is 0.
const STAMPS: u64 = (1 << 24) - 1;

/// Shortest time of a task, in nanoseconds, that says something of the speed of a thread.
const LEAST_MEASURED: u64 = 500;
/// One of so many divisions is measured: that takes about as long as handing over a task to one thread.
const MEASURED: u64 = 4;

/// What [`Slot::joined`] says of the job with the number that is above these two bits: the worker can no longer join it.
const CLOSED: u64 = 0;
/// The worker takes tasks of it.
const WORKING: u64 = 1;
/// The worker has left it.
const DONE: u64 = 2;

type Task<'a> = &'a (dyn Fn(usize) + Sync);
type Panic = Box<dyn Any + Send>;

/// The task of a job, and how many there are.
#[derive(Clone, Copy)]
struct Job<'a> {
    task: Task<'a>,
    tasks: usize,
    /// Whether each thread measures the first task of its range.
    is_timed: bool,
}

impl Job<'_> {
    /// Returns the first task of the range of thread `index` among `threads`, and its end.
    fn range(&self, index: usize, threads: usize) -> [u64; 2] {
        [index, index + 1].map(|index| self.tasks as u64 * index as u64 / threads as u64)
    }
}

/// What the workers of a [`Pool`] do when they have no task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Idle {
    /// They stay awake within a run, for at most two milliseconds without a task, and for 0.3 milliseconds after it. To
    /// wake a thread takes some tens of microseconds, as long as many operators take.
    #[default]
    Awake,
    /// They sleep after some tens of microseconds without a task, for least energy.
    Asleep,
}

impl Idle {
    /// Returns for how long a worker spins, and after how long it sleeps, within a run or after it.
    fn patience(self, in_run: bool) -> [Duration; 2] {
        let [spin, sleep] = match (self, in_run) {
            (Self::Awake, true) => [200, 2000],
            (Self::Awake, false) => [100, 300],
            (Self::Asleep, _) => [20, 20],
        };
        [spin, sleep].map(Duration::from_micros)
    }
}

/// What a thread of the pool writes during a job, on cache lines of its own. Slot 0 is the caller's.
#[derive(Default)]
#[repr(align(128))]
struct Slot {
    /// The tasks of this thread's range that nobody has taken: from the lowest bits on the first one (20 bits), the end
    /// (20 bits), and the stamp of the job. With the stamp of another job, nobody has taken any.
    range: AtomicU64,
    /// The number of the last job that the worker joined or may not join any more, times 4, plus [`CLOSED`], [`WORKING`]
    /// or [`DONE`].
    joined: AtomicU64,
    /// The nanoseconds that the first task of this thread's range took it (40 bits), and the stamp of the job.
    time: AtomicU64,
    asleep: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Slot {
    /// Takes a task, from the front or from the back of the range, which was `whole` when the job with this stamp began.
    fn take(&self, stamp: u64, whole: [u64; 2], front: bool) -> Option<usize> {
        const MASK: u64 = MOST_TASKS as u64;
        let mut range = self.range.load(Ordering::Relaxed);
        loop {
            let [first, end] = if range >> 40 == stamp { [range & MASK, range >> 20 & MASK] } else { whole };
            if first >= end {
                return None;
            }
            let (task, rest) = if front { (first, [first + 1, end]) } else { (end - 1, [first, end - 1]) };
            let rest = rest[0] | rest[1] << 20 | stamp << 40;
            match self.range.compare_exchange_weak(range, rest, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(task as usize),
                Err(now) => range = now,
            }
        }
    }

    /// Calls `body` and notes how long it took, for the job with this stamp.
    fn measure(&self, stamp: u64, body: impl FnOnce()) {
        let start = Instant::now();
        body();
        let time = start.elapsed().as_nanos().min((1 << 40) - 1) as u64;
        self.time.store(stamp << 40 | time, Ordering::Relaxed);
    }

    /// Returns the nanoseconds of the thread's first task in the job with this stamp, if it ran that task itself.
    fn measured(&self, stamp: u64) -> Option<u64> {
        let time = self.time.load(Ordering::Relaxed);
        (time >> 40 == stamp).then_some(time & ((1 << 40) - 1))
    }

    /// Joins the job with this number, and returns whether it was possible. Called by the slot's worker alone.
    fn join(&self, number: u64) -> bool {
        let before = self.joined.load(Ordering::Acquire);
        let joined = number * 4 + WORKING;
        before / 4 < number && self.joined.compare_exchange(before, joined, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Keeps the slot's worker from joining the job with this number, or waits until it has left it.
    fn close(&self, number: u64) {
        let mut turns = 0usize;
        loop {
            let joined = self.joined.load(Ordering::Acquire);
            if joined == number * 4 + DONE {
                return;
            }
            if joined / 4 < number {
                let closed = number * 4 + CLOSED;
                if self.joined.compare_exchange(joined, closed, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                    return;
                }
                continue;
            }
            turns += 1;
            if turns > CALLER_SPINS { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
    }
}

/// The words that the workers watch and the caller writes, on cache lines of their own.
#[repr(align(128))]
struct Current {
    /// The number of the job, times [`NUMBER`], plus the number of threads that take part.
    state: AtomicU64,
    /// Read only by workers that have joined the job.
    job: UnsafeCell<Option<Job<'static>>>,
}

// SAFETY: `job` is written only while no worker can join a job or is joined to one, and read only by workers that joined.
unsafe impl Sync for Current {}

/// State shared by the caller and the workers.
struct Board {
    current: Current,
    slots: Box<[Slot]>,
    idle: Idle,
    /// Number of runs that are under way, between [`Parallel::begin`] and [`Parallel::end`].
    runs: AtomicUsize,
    /// The processor on which the last run began, plus 1; 0 if it is not known.
    caller: AtomicUsize,
    sleepers: AtomicUsize,
    ended: AtomicBool,
    /// The payload of the first panic of a task of the current job, until the caller takes it.
    panic: Mutex<Option<Panic>>,
}

/// A thread pool for kernels. Dropping it ends the worker threads and waits for them.
pub struct Pool {
    board: Arc<Board>,
    caller: Mutex<()>,
    speeds: Mutex<Speeds>,
    workers: Vec<JoinHandle<()>>,
    /// The process that has the workers.
    process: u32,
    /// Whether a succession of calls began in a fork of the process that has the workers.
    is_forked: AtomicBool,
}

impl Pool {
    /// Creates a pool in which `threads` threads work at once, including the caller's: `threads - 1` workers
    /// are started, none for 0 or 1. If the system refuses to start a thread, the pool has fewer.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        Self::with_idle(threads, Idle::default())
    }

    /// Creates a pool as [`Pool::new`] does, with workers that wait as `idle` says.
    #[must_use]
    pub fn with_idle(threads: usize, idle: Idle) -> Self {
        let threads = threads.clamp(1, MOST_THREADS);
        let board = Arc::new(Board {
            current: Current { state: AtomicU64::new(0), job: UnsafeCell::new(None) },
            slots: (0..threads).map(|_| Slot::default()).collect(),
            idle,
            runs: AtomicUsize::new(0),
            caller: AtomicUsize::new(0),
            sleepers: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
            panic: Mutex::new(None),
        });
        let start = |index: usize| {
            let board = board.clone();
            std::thread::Builder::new().name(format!("attache-{index}")).spawn(move || board.work(index)).ok()
        };
        let workers: Vec<_> = (1..threads).map_while(start).collect();
        let (speeds, is_forked) = (Mutex::new(Speeds::new(workers.len() + 1)), AtomicBool::new(false));
        Self { board, caller: Mutex::new(()), speeds, workers, process: process_id(), is_forked }
    }

    /// Whether there are workers in this process. A fork copies the pool, but only the thread that forks.
    fn has_workers(&self) -> bool {
        !self.workers.is_empty() && self.process == process_id()
    }

    /// Like [`Self::has_workers`], but without the system call where a succession of calls has begun: asked for each
    /// operator, it would take as long as a small one. Where a process forks within a succession, the rest of that runs as
    /// if all workers were late.
    fn may_hand_over(&self) -> bool {
        let has_begun = self.board.runs.load(Ordering::Relaxed) > 0;
        if has_begun { !self.workers.is_empty() && !self.is_forked.load(Ordering::Relaxed) } else { self.has_workers() }
    }

    /// Runs a job, on the calling thread alone if the workers are missing or busy. Where its tasks are the ranges of a
    /// division, adjusts the threads' speeds.
    fn run_job(&self, tasks: usize, task: Task, division: Option<&Division>) {
        let is_shared = tasks > 1 && self.may_hand_over();
        let caller = if is_shared { self.caller.try_lock().ok() } else { None };
        if caller.is_none() {
            return (0..tasks).for_each(task);
        }
        let threads = self.threads().min(tasks);
        let is_measured = !cfg!(attache_small) && self.board.next_number().is_multiple_of(MEASURED);
        let division = division.filter(|division| is_measured && division.parts() % self.threads() == 0);
        let panic = self.board.run(threads, tasks, task, division.is_some());
        if let Some(division) = division {
            let units = |index: usize| division.range(index * division.parts() / threads).len();
            self.board.adjust(&mut self.speeds.lock().unwrap_or_else(PoisonError::into_inner), units);
        }
        // The lock is released before the panic is resumed, because a panic while it is held would poison it.
        drop(caller);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }
}

impl Sealed for Pool {}

impl Parallel for Pool {
    fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        if tasks > MOST_TASKS {
            let each = tasks.div_ceil(MOST_TASKS);
            let some = |part: usize| (part * each..((part + 1) * each).min(tasks)).for_each(task);
            return self.run(tasks.div_ceil(each), &some);
        }
        self.run_job(tasks, task, None);
    }

    #[cfg(not(attache_small))]
    fn division(&self, units: usize) -> Division {
        self.speeds.lock().unwrap_or_else(PoisonError::into_inner).divide(units)
    }

    #[cfg(not(attache_small))]
    fn run_division(&self, division: &Division, task: &(dyn Fn(usize, Range<usize>) + Sync)) {
        let task = |index: usize| division.call(index, task);
        match division.parts() <= MOST_TASKS {
            true => self.run_job(division.parts(), &task, Some(division)),
            false => self.run(division.parts(), &task),
        }
    }

    fn begin(&self) {
        if self.process != process_id() {
            self.is_forked.store(true, Ordering::Relaxed);
        }
        self.board.caller.store(placement::processor().map_or(0, |processor| processor + 1), Ordering::Relaxed);
        self.board.runs.fetch_add(1, Ordering::Relaxed);
    }

    fn end(&self) {
        self.board.runs.fetch_sub(1, Ordering::Relaxed);
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
        (1..=self.workers.len()).for_each(|index| _ = self.board.wake(index));
        for worker in self.workers.drain(..) {
            let _ = worker.join(); // a worker never panics, because panics of tasks are caught
        }
    }
}

impl Board {
    /// Returns the number of the next job. Only the caller, who begins it, may ask.
    fn next_number(&self) -> u64 {
        self.current.state.load(Ordering::Relaxed) / NUMBER + 1
    }

    /// Runs all tasks on up to `threads` threads and returns the payload of the first panic of one of them. The calling
    /// thread holds the lock [`Pool::caller`], so no other job runs until this function returns.
    fn run(&self, threads: usize, tasks: usize, task: Task, is_timed: bool) -> Option<Panic> {
        // SAFETY: the borrow ends before this function returns: it waits for every worker that joined, no worker joins
        // after its slot is closed, and nothing in between can panic.
        let task = unsafe { std::mem::transmute::<Task<'_>, Task<'static>>(task) };
        let number = self.next_number();
        let job = Job { task, tasks, is_timed };
        if number.is_multiple_of(STAMPS) {
            // The stamps begin again.
            for word in self.slots.iter().flat_map(|slot| [&slot.range, &slot.time]) {
                word.store(0, Ordering::Relaxed);
            }
        }
        // SAFETY: the caller's lock makes this the only writer; all slots of the previous job are closed or left.
        unsafe { *self.current.job.get() = Some(job) };
        let state = number * NUMBER + threads as u64;
        self.current.state.store(state, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            self.rouse(0, threads);
        }
        self.take_tasks(job, 0, state);
        self.slots[1..threads].iter().for_each(|slot| slot.close(number));
        self.panic.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Runs tasks of the job until none is left to take, first those of the thread's own range, and stores the payload of the
    /// first panic of a task. Never panics.
    ///
    /// Where no thread has more than one task, a worker looks for another one only at the next thread's: most often all have
    /// begun, and to look at each takes longer than to run a short task. The caller looks at all.
    fn take_tasks(&self, job: Job, own: usize, state: u64) {
        let (threads, stamp) = (threads_of(state), stamp_of(state / NUMBER));
        let seen = if own > 0 && job.tasks <= threads && !cfg!(attache_small) { 2 } else { threads };
        for victim in (own..threads).chain(0..own).take(seen) {
            let whole = job.range(victim, threads);
            while let Some(index) = self.slots[victim].take(stamp, whole, victim == own) {
                let run = || {
                    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (job.task)(index))) {
                        self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
                    }
                };
                match !cfg!(attache_small) && job.is_timed && victim == own && index as u64 == whole[0] {
                    true => self.slots[own].measure(stamp, run),
                    false => run(),
                }
            }
        }
    }

    /// Adjusts the speeds of threads to the last job, in which the first task of thread `index` had `units(index)` units.
    fn adjust(&self, speeds: &mut Speeds, units: impl Fn(usize) -> usize) {
        let stamp = stamp_of(self.current.state.load(Ordering::Relaxed) / NUMBER);
        let speed = |(index, slot): (usize, &Slot)| {
            let time = slot.measured(stamp).filter(|time| *time >= LEAST_MEASURED)?;
            // An empty range says nothing of the speed, however long it took.
            Some(units(index)).filter(|units| *units > 0).map(|units| units as f64 / time as f64)
        };
        speeds.adjust(self.slots.iter().enumerate().map(speed));
    }

    /// Runs the main loop of worker `index` until the pool is dropped.
    fn work(&self, index: usize) {
        let slot = &self.slots[index];
        let _ = slot.thread.set(std::thread::current());
        let mut seen = 0;
        while let Some(state) = self.wait(index, seen) {
            seen = state;
            let number = state / NUMBER;
            if slot.join(number) {
                // SAFETY: this worker has joined, so the job remains until it leaves.
                if let Some(job) = unsafe { *self.current.job.get() } {
                    self.take_tasks(job, index, state);
                }
                slot.joined.store(number * 4 + DONE, Ordering::Release);
            }
        }
    }

    /// Returns the state of the last job if worker `index` takes part in it and the state is not `seen`.
    fn ready(&self, index: usize, seen: u64) -> Option<u64> {
        let state = self.current.state.load(Ordering::SeqCst);
        (state != seen && index < threads_of(state)).then_some(state)
    }

    /// Waits for a job for worker `index` whose state is not `seen`, and returns its state; `None` when the pool is
    /// dropped.
    fn wait(&self, index: usize, seen: u64) -> Option<u64> {
        let mut since = Instant::now();
        let mut may_move = true;
        loop {
            for _ in 0..SPINS {
                if let Some(state) = self.ready(index, seen) {
                    return Some(state);
                }
                std::hint::spin_loop();
            }
            if self.ended.load(Ordering::Relaxed) {
                return None;
            }
            let in_run = self.runs.load(Ordering::Relaxed) > 0;
            if in_run && may_move {
                may_move = !self.leave_caller();
            }
            let [spin, sleep] = self.idle.patience(in_run);
            let waited = since.elapsed();
            if waited >= sleep {
                self.sleep(index, seen);
                since = Instant::now();
            } else if waited >= spin {
                std::thread::yield_now();
            }
        }
    }

    /// Moves the calling worker to another processor if it has the one on which the run began, and returns whether it was
    /// so. Systems often wake a thread on the processor of the thread that wakes it if all others are busy, even with work
    /// of lower priority, and may leave both there for a tenth of a second, while one of them waits for the other.
    fn leave_caller(&self) -> bool {
        let here = placement::processor().filter(|here| here + 1 == self.caller.load(Ordering::Relaxed));
        here.inspect(|here| placement::leave(*here)).is_some()
    }

    /// Sleeps until the worker is woken, if there is no job for it and the pool is not being dropped.
    fn sleep(&self, index: usize, seen: u64) {
        let slot = &self.slots[index];
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        slot.asleep.store(true, Ordering::SeqCst);
        // A thread that opens a job or ends the pool after these checks sees a sleeper and wakes it.
        if self.ready(index, seen).is_some() || self.ended.load(Ordering::SeqCst) {
            self.wake(index);
        }
        while slot.asleep.load(Ordering::SeqCst) {
            std::thread::park();
        }
        if let Some(state) = self.ready(index, seen) {
            self.rouse(index, threads_of(state));
        }
    }

    /// Wakes a worker. Returns false if it is awake.
    fn wake(&self, index: usize) -> bool {
        let slot = &self.slots[index];
        let was_asleep = slot.asleep.swap(false, Ordering::SeqCst);
        if was_asleep {
            self.sleepers.fetch_sub(1, Ordering::SeqCst);
            slot.thread.get().inspect(|thread| thread.unpark());
        }
        was_asleep
    }

    /// Wakes the workers below `threads` that sleep. Thread `index` wakes two others, each of which wakes two in turn.
    fn rouse(&self, index: usize, threads: usize) {
        for child in [2 * index + 1, 2 * index + 2] {
            if child < threads && !self.wake(child) {
                self.rouse(child, threads);
            }
        }
    }
}

/// Returns the stamp of the job with this number.
fn stamp_of(number: u64) -> u64 {
    number % STAMPS + 1
}

/// Returns the number of threads that take part in the job with this state.
fn threads_of(state: u64) -> usize {
    (state % NUMBER) as usize
}

#[cfg(test)]
mod tests {
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
    fn tasks_of_a_busy_thread_are_taken_by_another() {
        let (pool, done) = (Pool::new(2), AtomicUsize::new(0));
        // Task 0 is the first one of the caller's range, and task 1 the second.
        pool.run(4, &|index| {
            while index == 0 && done.load(Ordering::Relaxed) < 3 {
                std::thread::yield_now();
            }
            done.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(done.into_inner(), 4);
    }

    #[test]
    fn a_slow_thread_gets_fewer_units() {
        let pool = Pool::new(2);
        let _awake = crate::parallel::Succession::new(&pool);
        let caller = std::thread::current().id();
        // A unit takes a worker four times as long as the caller.
        let run = || {
            let division = pool.division(40);
            let (units, calls) = (AtomicUsize::new(0), AtomicUsize::new(0));
            pool.run_division(&division, &|index, range| {
                assert_eq!(range, division.range(index));
                let each = if std::thread::current().id() == caller { 2 } else { 8 };
                let start = Instant::now();
                while start.elapsed() < Duration::from_micros(each * range.len() as u64) {
                    std::hint::spin_loop();
                }
                units.fetch_add(range.len(), Ordering::Relaxed);
                calls.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!([units.into_inner(), calls.into_inner()], [40, 2]);
            division.range(1).len()
        };
        assert_eq!(run(), 20);
        // On a busy machine, the caller may take the worker's range before that is awake.
        assert!((0..100_000).any(|_| run() <= 10), "{:?}", pool.speeds);
    }

    #[test]
    fn divisions_of_many_ranges_and_of_other_pools_run_whole() {
        for threads in [1, 2, 5] {
            let pool = Pool::new(threads);
            for division in [pool.division(3).in_two(), Division::even(17, 4), Division::even(0, 7), pool.division(90)]
            {
                let sum = AtomicUsize::new(0);
                pool.run_division(&division, &|_, range| _ = sum.fetch_add(range.sum(), Ordering::Relaxed));
                let units = division.range(division.parts() - 1).end;
                assert_eq!(sum.into_inner(), (0..units).sum());
            }
        }
    }

    #[test]
    fn workers_sleep_after_a_run() {
        for idle in [Idle::Awake, Idle::Asleep] {
            let pool = Pool::with_idle(3, idle);
            let asleep = || pool.board.slots[1..].iter().all(|slot| slot.asleep.load(Ordering::SeqCst));
            for _ in 0..5 {
                {
                    let _awake = crate::parallel::Succession::new(&pool);
                    (0..20).for_each(|_| assert_eq!(sum(&pool, 10), 55));
                }
                let start = Instant::now();
                while !asleep() {
                    assert!(start.elapsed() < Duration::from_secs(20), "workers that have nothing to do sleep");
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            assert_eq!(pool.board.sleepers.load(Ordering::SeqCst), 2);
        }
    }

    /// Returns the nanoseconds that a thread of this process has computed for.
    #[cfg(target_os = "linux")]
    fn computed(task: &std::path::Path) -> u64 {
        let statistics = std::fs::read_to_string(std::path::Path::new("/proc").join(task).join("schedstat")).unwrap();
        statistics.split_whitespace().next().unwrap().parse().unwrap()
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn five_milliseconds_after_a_run_workers_take_no_time() {
        use std::collections::BTreeSet;
        let pool = Pool::new(3);
        let (threads, caller) = (Mutex::new(BTreeSet::new()), std::fs::read_link("/proc/thread-self").unwrap());
        let run = || {
            let _awake = crate::parallel::Succession::new(&pool);
            // Tasks that last until other threads have joined.
            pool.run(3, &|_| {
                threads.lock().unwrap().insert(std::fs::read_link("/proc/thread-self").unwrap());
                std::thread::sleep(Duration::from_millis(1));
            });
        };
        let idles = || {
            run();
            std::thread::sleep(Duration::from_millis(5));
            let workers: Vec<_> = threads.lock().unwrap().iter().filter(|thread| **thread != caller).cloned().collect();
            let times = || workers.iter().map(|worker| computed(worker)).collect::<Vec<_>>();
            let before = times();
            std::thread::sleep(Duration::from_millis(30));
            workers.len() == 2 && times() == before
        };
        // On a busy machine a worker may not have computed for as long as it stays awake.
        assert!((0..100).any(|_| idles()), "workers compute after a run");
    }

    #[test]
    fn callers_that_share_a_pool_advance_alike() {
        let (pool, ended) = (Pool::new(3), AtomicBool::new(false));
        let counts = [AtomicUsize::new(0), AtomicUsize::new(0)];
        std::thread::scope(|scope| {
            for count in &counts {
                let (pool, ended) = (&pool, &ended);
                scope.spawn(move || {
                    while !ended.load(Ordering::Relaxed) {
                        let _awake = crate::parallel::Succession::new(pool);
                        (0..10).for_each(|_| assert_eq!(sum(pool, 6), 21));
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            // A caller that finds the pool taken works alone, so both get through, whatever the other one does.
            let begin = Instant::now();
            while counts.iter().any(|count| count.load(Ordering::Relaxed) < 200) {
                let is_late = begin.elapsed() > Duration::from_secs(60);
                ended.store(is_late, Ordering::Relaxed);
                assert!(!is_late, "a caller waits for the other: {counts:?}");
                std::thread::sleep(Duration::from_millis(1));
            }
            ended.store(true, Ordering::Relaxed);
        });
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

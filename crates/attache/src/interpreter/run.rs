//! Runs that were started without waiting for them ([`Run`]), and the thread that does or watches them.

use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::Error;
use crate::delegate::guard::RunEnd;
use crate::runtime::{RunId, StartedRun};

const HOUR: Duration = Duration::from_secs(3600);

/// A run that [`Interpreter::invoke_async`](crate::Interpreter::invoke_async) started. Clones refer to the same run.
///
/// It is a [`Future`], which any executor can await, and which ends when the run has ended.
/// [`Interpreter::wait`](crate::Interpreter::wait) then makes the outputs of the run available without waiting. A handle
/// can be dropped at any time; the run goes on.
#[derive(Clone)]
#[must_use = "the outputs of a run are available after Interpreter::wait"]
pub struct Run(Arc<Shared>);

struct Shared {
    started: StartedRun,
    /// The interpreter that started the run. Its address tells interpreters apart.
    owner: Arc<()>,
    /// The subgraph that runs.
    subgraph: usize,
    progress: Mutex<Progress>,
    has_ended: Condvar,
    worker: Worker,
}

enum Progress {
    /// The run is under way on a device.
    Device(Arc<RunEnd>),
    /// The run is under way on a device, and the interpreter's thread waits for it.
    Watched(Arc<RunEnd>, Vec<Waker>),
    /// The run is under way on the interpreter's thread.
    Thread(Vec<Waker>),
    Ended(Result<(), Error>),
}

impl Run {
    /// Creates the handle of a run that the device works on.
    pub(super) fn on_device(started: StartedRun, source: (Arc<()>, usize), end: RunEnd, worker: &Worker) -> Self {
        Self::new(started, source, Progress::Device(Arc::new(end)), worker)
    }

    /// Creates the handle of a run that the interpreter's thread is going to do.
    pub(super) fn on_thread(started: StartedRun, source: (Arc<()>, usize), worker: &Worker) -> Self {
        Self::new(started, source, Progress::Thread(Vec::new()), worker)
    }

    fn new(started: StartedRun, (owner, subgraph): (Arc<()>, usize), progress: Progress, worker: &Worker) -> Self {
        let (progress, worker) = (Mutex::new(progress), worker.clone());
        Self(Arc::new(Shared { started, owner, subgraph, progress, has_ended: Condvar::new(), worker }))
    }

    pub(super) fn id(&self) -> RunId {
        self.0.started.id()
    }

    pub(super) fn subgraph(&self) -> usize {
        self.0.subgraph
    }

    /// Whether the interpreter with this identity started the run.
    pub(super) fn is_of(&self, owner: &Arc<()>) -> bool {
        Arc::ptr_eq(&self.0.owner, owner)
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.0.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the run has ended, unless that is recorded already, and wakes everything that waits for it. Returns
    /// what is recorded.
    pub(super) fn end(&self, result: Result<(), Error>) -> Result<(), Error> {
        let mut progress = self.progress();
        if let Progress::Ended(known) = &*progress {
            return known.clone();
        }
        let before = std::mem::replace(&mut *progress, Progress::Ended(result.clone()));
        drop(progress);
        self.0.has_ended.notify_all();
        if let Progress::Watched(_, wakers) | Progress::Thread(wakers) = before {
            wakers.into_iter().for_each(Waker::wake);
        }
        result
    }

    /// Records that the run has ended well on its device, or was cancelled before anybody knew. Returns what is
    /// recorded.
    pub(super) fn end_on_device(&self) -> Result<(), Error> {
        self.end(self.0.started.check())
    }

    /// Returns the error of the run, if it has ended in one.
    pub(super) fn failure(&self) -> Option<Error> {
        match &*self.progress() {
            Progress::Ended(Err(error)) => Some(error.clone()),
            _ => None,
        }
    }

    /// Cancels this run, as [`Cancellation::cancel`](crate::Cancellation::cancel) cancels all that are under way. Does
    /// nothing if the run has ended.
    pub fn cancel(&self) {
        self.0.started.cancel();
    }

    /// Whether the run has ended, successfully or not.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.wait_timeout(Duration::ZERO).is_some()
    }

    /// Waits until the run has ended, but at most this long. Returns `None` if it is still under way then, otherwise
    /// whether it failed.
    ///
    /// # Errors
    ///
    /// The error of the run, as [`Interpreter::invoke`](crate::Interpreter::invoke) returns it.
    pub fn wait_timeout(&self, timeout: Duration) -> Option<Result<(), Error>> {
        let deadline = Instant::now().checked_add(timeout);
        let mut progress = self.progress();
        loop {
            let end = match &*progress {
                Progress::Ended(result) => return Some(result.clone()),
                Progress::Device(end) | Progress::Watched(end, _) => Some(end.clone()),
                Progress::Thread(_) => None,
            };
            // A wait without a deadline is done in hours, since not every system can wait forever.
            let left = deadline.map_or(HOUR, |deadline| deadline.saturating_duration_since(Instant::now()).min(HOUR));
            match end {
                Some(end) => {
                    drop(progress);
                    match end.wait(left) {
                        Ok(false) if left < HOUR => return None,
                        Ok(false) => {}
                        Ok(true) => drop(self.end_on_device()),
                        Err(error) => drop(self.end(Err(Error::delegate(end.delegate(), &error)))),
                    }
                    progress = self.progress();
                }
                None if left.is_zero() => return None,
                None => {
                    progress = self.0.has_ended.wait_timeout(progress, left).unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }

    /// Waits until the run has ended, on the interpreter's thread, which then wakes the wakers.
    fn watch(&self) {
        let run = self.clone();
        self.0.worker.submit(Box::new(move || drop(run.wait_timeout(Duration::MAX))));
    }
}

impl Future for Run {
    type Output = Result<(), Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(result) = self.wait_timeout(Duration::ZERO) {
            return Poll::Ready(result);
        }
        let mut progress = self.progress();
        let waker = context.waker();
        match &mut *progress {
            Progress::Ended(result) => return Poll::Ready(result.clone()),
            Progress::Device(end) => {
                *progress = Progress::Watched(end.clone(), vec![waker.clone()]);
                drop(progress);
                self.watch();
            }
            Progress::Watched(_, wakers) | Progress::Thread(wakers) => {
                if !wakers.iter().any(|other| other.will_wake(waker)) {
                    wakers.push(waker.clone());
                }
            }
        }
        Poll::Pending
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Run").field(&self.id().0).finish()
    }
}

/// Something that the thread of an interpreter does.
type Job = Box<dyn FnOnce() + Send>;

/// The thread of an interpreter that does its runs on the CPU and waits for those on devices. It is started for the
/// first job, and ends with the last handle.
#[derive(Clone, Default)]
pub(super) struct Worker(Arc<Mutex<Option<Sender<Job>>>>);

impl Worker {
    /// Adds a job, which begins after all earlier ones have ended. If no thread can be started, the job is done
    /// here.
    pub(super) fn submit(&self, job: Job) {
        let mut jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = match &*jobs {
            Some(sender) => Ok(sender.clone()),
            None => start(),
        };
        match sender {
            Ok(sender) => {
                *jobs = Some(sender.clone());
                drop(jobs);
                if let Err(refused) = sender.send(job) {
                    (refused.0)();
                }
            }
            Err(_) => {
                drop(jobs);
                job();
            }
        }
    }
}

fn start() -> std::io::Result<Sender<Job>> {
    let (sender, jobs) = mpsc::channel::<Job>();
    let work = move || jobs.into_iter().for_each(|job| job());
    std::thread::Builder::new().name("attache run".into()).spawn(work)?;
    Ok(sender)
}

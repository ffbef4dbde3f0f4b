//! Cancellation of runs from other threads.
//!
//! Contract: the runs of an interpreter are numbered, and a cancellation names the last run that was started before it.
//! A run that is started later therefore cannot be cancelled by it, whichever thread is faster.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use super::asked::{Asked, Asking};
use super::run_queue::RunId;
use crate::{Error, ErrorKind};

/// Cancels runs of an interpreter from any thread. Clones cancel the same interpreter.
///
/// A run that is cancelled ends before its next operator, or group of operators, on the CPU or its next partition, with an error of kind
/// [`ErrorKind::Cancelled`]. A partition that was submitted to a device finishes there, and its outputs are not read. The
/// outputs of a cancelled run have no value, variables are as they were before it, and the interpreter can run again.
///
/// [`Run::cancel`](crate::Run::cancel) cancels a single run.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<Runs>);

/// The runs of an interpreter. They are numbered from 1 in the order in which they are started.
#[derive(Debug, Default)]
struct Runs {
    /// The number of the last run that was started.
    started: AtomicU64,
    /// The number of the last run that was started before the last cancellation. Started runs share it, so that looking
    /// at it before each operator takes no time.
    cancelled: Arc<AtomicU64>,
    /// What runs ask whether they are to end.
    asked: Asking,
}

impl Cancellation {
    /// Cancels the runs that are under way or queued. Does nothing to runs that are started later, or whose
    /// end was seen. A run that a device has finished, but that nobody has waited for, counts as under way.
    pub fn cancel(&self) {
        let last = self.0.started.load(Ordering::Acquire);
        self.0.cancelled.fetch_max(last, Ordering::AcqRel);
    }

    /// Sets a function that runs ask before each operator, or group of operators, on the CPU and before each partition, on the
    /// thread that runs: they end as cancelled ones where it returns true. `None` removes it. It concerns the runs that
    /// are started later.
    #[cfg(not(attache_small))]
    pub fn ask(&self, function: Option<Arc<dyn Fn() -> bool + Send + Sync>>) {
        self.0.asked.set(function);
    }

    /// Starts a run.
    pub(crate) fn start(&self) -> StartedRun {
        let number = self.0.started.fetch_add(1, Ordering::AcqRel) + 1;
        let Runs { cancelled, asked, .. } = &*self.0;
        StartedRun {
            id: RunId(number),
            runs: Arc::downgrade(&self.0),
            cancelled: cancelled.clone(),
            is_cancelled: Arc::default(),
            asked: asked.now(),
        }
    }
}

/// A run that was started. Clones refer to the same run.
#[derive(Clone, Debug)]
pub(crate) struct StartedRun {
    id: RunId,
    /// Weak, so that the handle of an ended run does not make later ones cancellable.
    runs: Weak<Runs>,
    cancelled: Arc<AtomicU64>,
    is_cancelled: Arc<AtomicBool>,
    asked: Asked,
}

impl StartedRun {
    pub(crate) fn id(&self) -> RunId {
        self.id
    }

    /// Cancels this run only.
    pub(crate) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Release);
    }

    /// Returns an error if the run was cancelled.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.is_cancelled.load(Ordering::Acquire) || self.cancelled.load(Ordering::Acquire) >= self.id.0 {
            Err(Error::new(ErrorKind::Cancelled, "the run was cancelled"))
        } else {
            Ok(())
        }
    }

    /// Returns an error if the run was cancelled, or if the function that it asks says that it is to end.
    #[inline]
    pub(crate) fn ask(&self) -> Result<(), Error> {
        if self.asked.ends() {
            self.is_cancelled.store(true, Ordering::Release);
        }
        self.check()
    }

    /// Whether something can cancel the run: another handle of it than this one, a [`Cancellation`] besides that of the
    /// interpreter, or a function that is asked.
    pub(crate) fn is_cancellable(&self) -> bool {
        Weak::strong_count(&self.runs) > 1 || Arc::strong_count(&self.is_cancelled) > 1 || self.asked.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancellation_ends_the_runs_that_were_started_before_it() {
        let cancellation = Cancellation::default();
        cancellation.cancel();
        let [first, second] = [(), ()].map(|()| cancellation.start());
        assert!(first.check().is_ok() && second.check().is_ok(), "they were started later");
        cancellation.clone().cancel();
        let third = cancellation.start();
        assert_eq!(first.check().unwrap_err().kind(), ErrorKind::Cancelled);
        assert_eq!(second.check().unwrap_err().kind(), ErrorKind::Cancelled);
        assert!(third.check().is_ok());
    }

    #[test]
    fn one_run_is_cancelled_alone() {
        let cancellation = Cancellation::default();
        let [first, second] = [(), ()].map(|()| cancellation.start());
        first.clone().cancel();
        assert!(first.check().is_err() && second.check().is_ok() && cancellation.start().check().is_ok());
    }

    #[test]
    fn a_function_ends_the_runs_that_start_while_it_is_set() {
        let cancellation = Cancellation::default();
        let before = cancellation.start();
        let ends = Arc::new(AtomicBool::new(false));
        let asked = ends.clone();
        cancellation.ask(Some(Arc::new(move || asked.load(Ordering::Relaxed))));
        let run = cancellation.start();
        assert!(run.ask().is_ok() && run.is_cancellable());
        ends.store(true, Ordering::Relaxed);
        assert_eq!(run.ask().unwrap_err().kind(), ErrorKind::Cancelled);
        ends.store(false, Ordering::Relaxed);
        assert!(run.ask().is_err(), "it was told to end");
        cancellation.ask(None);
        assert!(before.ask().is_ok() && cancellation.start().ask().is_ok());
    }

    #[test]
    fn no_race_cancels_a_later_run() {
        let cancellation = Cancellation::default();
        for _ in 0..1000 {
            let other = cancellation.clone();
            let thread = std::thread::spawn(move || other.cancel());
            drop(cancellation.start());
            thread.join().unwrap();
            assert!(cancellation.start().check().is_ok());
        }
    }

    #[test]
    fn runs_are_cancellable_while_a_handle_exists() {
        let of_interpreter = Cancellation::default();
        let run = of_interpreter.start();
        assert!(!run.is_cancellable());
        let handle = of_interpreter.clone();
        assert!(run.is_cancellable());
        drop(handle);
        assert!(!run.is_cancellable());
        let of_caller = run.clone();
        assert!(of_caller.is_cancellable(), "by the caller's handle of the run");
        assert!(!of_interpreter.start().is_cancellable(), "by the handle of an earlier run");
    }
}

//! Cancellation of runs from other threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Error, ErrorKind};

/// Cancels runs of an interpreter from any thread. Clones cancel the same interpreter.
///
/// A run that is cancelled ends before its next operator on the CPU or its next partition, with an error of kind
/// [`ErrorKind::Cancelled`]. A partition that was submitted to a device finishes there, and its outputs are not read. The
/// outputs of a cancelled run have no value, variables are as they were before it, and the interpreter can run again.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// Cancels the run that is under way, or else the next one.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Withdraws a cancellation by which no run has ended yet. A program that cancels a run from another thread calls it
    /// after the run, which may have ended before it was cancelled; otherwise the next run would be cancelled.
    pub fn withdraw(&self) {
        self.0.store(false, Ordering::Release);
    }

    /// Whether [`Cancellation::cancel`] was called and no run has ended because of it yet.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Whether a run may be cancelled: something besides the interpreter holds this handle, or held it and has
    /// cancelled. The interpreter holds two: one for its callers, and one in the environment of its runs.
    pub(crate) fn is_used(&self) -> bool {
        Arc::strong_count(&self.0) > 2 || self.is_cancelled()
    }

    /// Returns the error of a cancelled run, once for each cancellation.
    pub(crate) fn take(&self) -> Result<(), Error> {
        match self.is_cancelled() && self.0.swap(false, Ordering::AcqRel) {
            true => Err(Error::new(ErrorKind::Cancelled, "the run was cancelled")),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancellation_ends_one_run_unless_it_is_withdrawn() {
        let cancellation = Cancellation::default();
        cancellation.cancel();
        assert_eq!(cancellation.take().unwrap_err().kind(), ErrorKind::Cancelled);
        assert!(cancellation.take().is_ok());
        cancellation.clone().cancel();
        cancellation.withdraw();
        assert!(!cancellation.is_cancelled() && cancellation.take().is_ok());
    }
}

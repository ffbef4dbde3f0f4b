//! The opening of a device on a thread of its own ([`GpuDelegateOpening`]).

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use super::delegate::GpuDelegate;
use super::options::GpuDelegateOptions;
use crate::Error;
use crate::delegate::guard::guarded;

const HOUR: Duration = Duration::from_secs(3600);

/// A GPU delegate whose device [`GpuDelegate::open_async`] has started to open. Clones refer to the same opening.
///
/// It is a [`Future`], which any executor can await. The handle shares the device with the delegates that it returns.
/// It can be dropped at any time; without another user the device is then closed once it is open. Do not end the
/// process before the opening has ended: drivers do not expect to be unloaded while they work.
#[derive(Clone)]
#[must_use = "GpuDelegateOpening::wait returns the delegate"]
pub struct GpuDelegateOpening(Arc<Shared>);

struct Shared {
    progress: Mutex<Progress>,
    has_ended: Condvar,
}

enum Progress {
    /// The device is being opened. These are woken when that has ended.
    Opening(Vec<Waker>),
    Ended(Result<GpuDelegate, Error>),
}

impl GpuDelegate {
    /// Starts to open a device on a thread of its own, and returns at once. The caller can read its model meanwhile.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), attache::Error> {
    /// use attache::{GpuDelegate, GpuDelegateOptions, Interpreter, Model};
    ///
    /// let opening = GpuDelegate::open_async(GpuDelegateOptions::default());
    /// let model = Model::from_path("model.tflite")?;
    /// let interpreter = Interpreter::builder(&model).delegate(opening.wait()?).build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn open_async(options: GpuDelegateOptions) -> GpuDelegateOpening {
        GpuDelegateOpening::of(move || Self::new(options.clone()))
    }
}

impl GpuDelegateOpening {
    /// Calls `open` on another thread, or on this one if there can be no other.
    fn of(open: impl Fn() -> Result<GpuDelegate, Error> + Send + Sync + 'static) -> Self {
        let progress = Mutex::new(Progress::Opening(Vec::new()));
        let opening = Self(Arc::new(Shared { progress, has_ended: Condvar::new() }));
        let (open, other) = (Arc::new(open), opening.clone());
        let work = {
            let open = open.clone();
            move || other.end(&*open)
        };
        if thread::Builder::new().name("attache open".into()).spawn(work).is_err() {
            opening.end(&*open);
        }
        opening
    }

    /// Opens the device and wakes everything that waits for it.
    fn end(&self, open: impl FnOnce() -> Result<GpuDelegate, Error>) {
        let result = guarded("GPU", "open", open).unwrap_or_else(|panic| Err(Error::delegate("GPU", &panic)));
        let before = std::mem::replace(&mut *self.progress(), Progress::Ended(result));
        self.0.has_ended.notify_all();
        if let Progress::Opening(wakers) = before {
            wakers.into_iter().for_each(Waker::wake);
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.0.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the device is open, or cannot be opened.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(*self.progress(), Progress::Ended(_))
    }

    /// Waits until the device is open, and returns the delegate.
    ///
    /// # Errors
    ///
    /// As [`GpuDelegate::new`]; also of kind [`ErrorKind::Device`](crate::ErrorKind::Device) if the driver panics.
    pub fn wait(self) -> Result<GpuDelegate, Error> {
        let mut progress = self.progress();
        loop {
            if let Progress::Ended(result) = &*progress {
                return result.clone();
            }
            progress = self.0.has_ended.wait(progress).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until the device is open, but at most this long. Returns `None` if it is still being opened then.
    ///
    /// # Errors
    ///
    /// As [`GpuDelegateOpening::wait`].
    pub fn wait_timeout(&self, timeout: Duration) -> Option<Result<GpuDelegate, Error>> {
        let start = Instant::now();
        let mut progress = self.progress();
        loop {
            if let Progress::Ended(result) = &*progress {
                return Some(result.clone());
            }
            // Not every system can wait forever.
            let left = timeout.checked_sub(start.elapsed())?.min(HOUR);
            progress = self.0.has_ended.wait_timeout(progress, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Future for GpuDelegateOpening {
    type Output = Result<GpuDelegate, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self.progress() {
            Progress::Ended(result) => Poll::Ready(result.clone()),
            Progress::Opening(wakers) => {
                let waker = context.waker();
                if !wakers.iter().any(|other| other.will_wake(waker)) {
                    wakers.push(waker.clone());
                }
                Poll::Pending
            }
        }
    }
}

impl std::fmt::Debug for GpuDelegateOpening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GpuDelegateOpening").field("is_done", &self.is_done()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::task::Wake;

    use super::*;
    use crate::ErrorKind;

    /// Counts by its handles how often it was woken: waking it drops one.
    struct Counter;

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {}
    }

    #[test]
    fn an_opening_that_fails_wakes_those_who_wait() {
        let (sender, ready) = mpsc::channel::<()>();
        let ready = Mutex::new(ready);
        let opening = GpuDelegateOpening::of(move || {
            let _ = ready.lock().unwrap().recv();
            Err(Error::new(ErrorKind::Device, "there is none"))
        });
        assert!(!opening.is_done() && opening.wait_timeout(Duration::from_millis(1)).is_none());
        let counter = Arc::new(Counter);
        let waker = Waker::from(counter.clone());
        let mut awaited = opening.clone();
        let mut poll = || Pin::new(&mut awaited).poll(&mut Context::from_waker(&waker));
        assert!(poll().is_pending() && poll().is_pending());
        assert_eq!(Arc::strong_count(&counter), 3, "one waker is kept, although it was polled twice");
        drop(sender);
        let error = opening.clone().wait().expect_err("no device");
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Device, "there is none"));
        assert!(matches!(poll(), Poll::Ready(Err(_))) && opening.is_done());
        assert!(matches!(opening.wait_timeout(Duration::MAX), Some(Err(_))), "also when asked again");
        while Arc::strong_count(&counter) > 2 {
            thread::yield_now();
        }
    }

    #[test]
    fn a_panic_is_an_error_of_the_device() {
        let error = GpuDelegateOpening::of(|| panic!("in a driver")).wait().expect_err("no device");
        assert_eq!(error.kind(), ErrorKind::Device);
        assert!(error.to_string().contains("in a driver"), "{error}");
    }
}

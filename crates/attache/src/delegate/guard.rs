//! Calls into delegates, which are third-party code, so that a panic in them becomes an error of the delegate
//! and does not end the process.
//!
//! Contract: all methods that a delegate implements are called through this module, and all objects that a delegate
//! creates are dropped through it. A kernel that panicked is not called again, because its state may be inconsistent.

use std::any::Any;
use std::cell::OnceCell;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use attache_graph::{Fact, TensorMut, TensorRef};

use super::{
    Completion, Delegate, DelegateBindings, DelegateError, DelegateErrorKind, DelegateKernel, DelegateQueue,
    KernelReport, PreparedPartition,
};
use crate::KernelProfile;

/// Maximum number of slots of a kernel's queue that are used. Kernels may report more.
const MAX_SLOTS: usize = 64;

/// Calls `call`. If it panics, logs the message and returns it as an error of kind
/// [`DelegateErrorKind::Panicked`]. `what` names the method of the delegate that is called.
pub(crate) fn guarded<T>(delegate: &str, what: &str, call: impl FnOnce() -> T) -> Result<T, DelegateError> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|payload| {
        let message = message(payload);
        tracing::error!("{delegate} delegate: it panicked in {what}: {message}");
        let reason = format!("it panicked in {what}, which is a bug in the delegate: {message}");
        DelegateError::new(reason).with_kind(DelegateErrorKind::Panicked)
    })
}

/// Drops an object that a delegate created. A panic is only logged, because the object is not needed any more.
pub(crate) fn discard<T>(delegate: &str, value: T) {
    drop(guarded(delegate, "drop", || drop(value)));
}

/// Returns the message of a panic and drops the panic's payload.
fn message(payload: Box<dyn Any + Send>) -> String {
    let text = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => "without a message".to_owned(),
    };
    // The payload may be of any type, and dropping it may panic as well.
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(another);
    }
    text
}

/// Delegates in the order in which they are asked.
#[derive(Clone, Default)]
pub(crate) struct Delegates(Vec<Arc<dyn Delegate>>);

impl Delegates {
    pub(crate) fn push(&mut self, delegate: Arc<dyn Delegate>) {
        self.0.push(delegate);
    }
}

impl From<&[Arc<dyn Delegate>]> for Delegates {
    fn from(delegates: &[Arc<dyn Delegate>]) -> Self {
        Self(delegates.to_vec())
    }
}

impl Deref for Delegates {
    type Target = [Arc<dyn Delegate>];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Drop for Delegates {
    fn drop(&mut self) {
        self.0.drain(..).for_each(|delegate| discard("a", delegate));
    }
}

/// A partition that a delegate has prepared. Its methods catch panics.
pub(crate) struct Prepared {
    delegate: String,
    /// The partition; `None` only while it is dropped.
    inner: Option<Box<dyn PreparedPartition>>,
    report: KernelReport,
    /// The first kernel, until it is taken. It is made when the partition is prepared, so that a delegate that
    /// cannot make one fails then.
    first: Mutex<Option<Kernel>>,
}

impl Prepared {
    /// Calls `prepare` to prepare a partition, makes its first kernel, and stores its report.
    pub(crate) fn new(
        delegate: &str,
        prepare: impl FnOnce() -> Result<Box<dyn PreparedPartition>, DelegateError>,
    ) -> Result<Self, DelegateError> {
        let inner = guarded(delegate, "prepare", prepare)??;
        let (delegate, report) = (delegate.to_owned(), KernelReport::default());
        let mut prepared = Self { delegate, inner: Some(inner), report, first: Mutex::default() };
        let first = prepared.another()?;
        if let Some(inner) = &prepared.inner {
            prepared.report = guarded(&prepared.delegate, "report", || inner.report())?;
        }
        prepared.first = Mutex::new(Some(first));
        Ok(prepared)
    }

    /// Takes the parts to store; `None` if there are none.
    pub(crate) fn take_parts(&self) -> Option<Vec<Vec<u8>>> {
        let inner = self.inner.as_ref()?;
        guarded(&self.delegate, "take_parts", || inner.take_parts()).ok()?
    }

    /// Returns the statistics, which were read when the partition was prepared.
    pub(crate) fn report(&self) -> &KernelReport {
        &self.report
    }

    /// Returns a kernel for one interpreter: the first one if it was not taken yet, otherwise a new one.
    pub(crate) fn kernel(&self) -> Result<Kernel, DelegateError> {
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
        first.map_or_else(|| self.another(), Ok)
    }

    fn another(&self) -> Result<Kernel, DelegateError> {
        let Some(inner) = &self.inner else { return Err(DelegateError::new("its partition is gone")) };
        let kernel = guarded(&self.delegate, "kernel", || inner.kernel())??;
        Kernel::new(&self.delegate, kernel)
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.take() {
            discard(&self.delegate, inner);
        }
    }
}

/// A kernel of a delegate. Its methods catch panics, and return an error after the kernel has panicked once.
pub(crate) struct Kernel {
    delegate: String,
    /// The kernel; `None` only while it is dropped.
    inner: Option<Box<dyn DelegateKernel>>,
    slots: usize,
    /// The message of the panic, if a method of the kernel panicked.
    panicked: OnceCell<String>,
}

impl Kernel {
    /// Wraps a kernel and stores its number of slots, which does not change.
    fn new(delegate: &str, inner: Box<dyn DelegateKernel>) -> Result<Self, DelegateError> {
        let mut kernel =
            Self { delegate: delegate.to_owned(), inner: Some(inner), slots: 0, panicked: OnceCell::new() };
        kernel.slots = kernel.call("slots", |inner| Ok(inner.queue().map_or(0, DelegateQueue::slots)))?.min(MAX_SLOTS);
        Ok(kernel)
    }

    /// Returns the number of runs that can be in progress at the same time; 0 if the kernel has no queue.
    pub(crate) fn slots(&self) -> usize {
        self.slots
    }

    /// Returns the delegate's name and the panic's message, if the kernel panicked after it was prepared.
    pub(crate) fn panicked(&self) -> Option<String> {
        Some(format!("{} delegate: {}", self.delegate, self.panicked.get()?))
    }

    fn call<'a, T>(
        &'a self,
        what: &str,
        call: impl FnOnce(&'a dyn DelegateKernel) -> Result<T, DelegateError>,
    ) -> Result<T, DelegateError> {
        let inner = usable(self.inner.as_deref(), &self.panicked)?;
        noted(guarded(&self.delegate, what, || call(inner)), &self.panicked)
    }

    fn call_mut<'a, T>(
        &'a mut self,
        what: &str,
        call: impl FnOnce(&'a mut dyn DelegateKernel) -> Result<T, DelegateError>,
    ) -> Result<T, DelegateError> {
        let inner = usable(self.inner.as_deref_mut(), &self.panicked)?;
        noted(guarded(&self.delegate, what, || call(inner)), &self.panicked)
    }

    fn queue<'a, T>(
        &'a self,
        what: &str,
        call: impl FnOnce(&'a dyn DelegateQueue) -> Result<T, DelegateError>,
    ) -> Result<T, DelegateError> {
        self.call(what, |inner| call(inner.queue().ok_or_else(no_queue)?))
    }

    fn queue_mut<'a, T>(
        &'a mut self,
        what: &str,
        call: impl FnOnce(&'a mut dyn DelegateQueue) -> Result<T, DelegateError>,
    ) -> Result<T, DelegateError> {
        self.call_mut(what, |inner| call(inner.queue_mut().ok_or_else(no_queue)?))
    }

    /// Calls [`DelegateKernel::invoke`] if `times` is 1, otherwise [`DelegateKernel::invoke_repeatedly`].
    pub(crate) fn invoke(
        &mut self,
        times: usize,
        inputs: &[TensorRef<'_>],
        outputs: &mut [TensorMut<'_>],
    ) -> Result<(), DelegateError> {
        self.call_mut("invoke", |inner| match times {
            1 => inner.invoke(inputs, outputs),
            _ => inner.invoke_repeatedly(times, inputs, outputs),
        })
    }

    /// Calls [`DelegateKernel::share_output`]. Returns `None` if it panics.
    pub(crate) fn share_output(&mut self, output: usize) -> Option<Box<dyn Any>> {
        self.call_mut("share_output", |inner| Ok(inner.share_output(output))).ok().flatten()
    }

    /// Calls [`DelegateKernel::take_input`], then drops `shared`. Returns false if the call panics.
    pub(crate) fn take_input(&mut self, input: usize, shared: Box<dyn Any>) -> bool {
        let taken = self.call_mut("take_input", |inner| Ok(inner.take_input(input, &*shared))).unwrap_or(false);
        discard(&self.delegate, shared);
        taken
    }

    /// Calls [`DelegateKernel::keep_on_device`]. If it panics, later calls of the kernel return an error.
    pub(crate) fn keep_on_device(&mut self, outputs: &[usize]) {
        drop(self.call_mut("keep_on_device", |inner| {
            inner.keep_on_device(outputs);
            Ok(())
        }));
    }

    /// Calls [`DelegateKernel::io_bytes`]. Returns `None` if it panics.
    pub(crate) fn io_bytes(&self) -> Option<u64> {
        self.call("io_bytes", |inner| Ok(inner.io_bytes())).ok().flatten()
    }

    /// Calls [`DelegateKernel::profile`]. A panic is returned as an error.
    pub(crate) fn profile(&mut self) -> Result<KernelProfile, DelegateError> {
        self.call_mut("profile", |inner| inner.profile())
    }

    /// Calls [`DelegateBindings::bind_input`]. A panic is returned as an error.
    pub(crate) fn bind_input(
        &mut self,
        input: usize,
        tensor: &Fact,
        memory: Option<&dyn Any>,
    ) -> Result<(), DelegateError> {
        self.bindings("bind_input", |bindings| bindings.bind_input(input, tensor, memory))
    }

    /// Calls [`DelegateBindings::bind_output`]. A panic is returned as an error.
    pub(crate) fn bind_output(
        &mut self,
        output: usize,
        tensor: &Fact,
        memory: Option<&dyn Any>,
    ) -> Result<(), DelegateError> {
        self.bindings("bind_output", |bindings| bindings.bind_output(output, tensor, memory))
    }

    /// Calls [`DelegateBindings::updates`]. Returns nothing if the kernel has no bindings or panics.
    pub(crate) fn updates(&mut self) -> Vec<[usize; 2]> {
        self.bindings("updates", |bindings| Ok(bindings.updates())).unwrap_or_default()
    }

    /// Calls [`DelegateBindings::carry`] if the kernel has bindings. A panic is returned as an error.
    pub(crate) fn carry(&mut self, slot: usize, output: usize, input: usize) -> Result<bool, DelegateError> {
        self.call_mut("carry", |inner| match inner.bindings() {
            Some(bindings) => bindings.carry(slot, output, input),
            None => Ok(false),
        })
    }

    /// Calls [`DelegateBindings::end_carry`]. A panic is returned as an error.
    pub(crate) fn end_carry(&mut self, input: usize, value: Option<&mut [u8]>) -> Result<(), DelegateError> {
        self.bindings("end_carry", |bindings| bindings.end_carry(input, value))
    }

    /// Calls [`DelegateBindings::encode`]. A panic is returned as an error.
    pub(crate) fn encode(&mut self, commands: &mut dyn Any) -> Result<(), DelegateError> {
        self.bindings("encode", |bindings| bindings.encode(commands))
    }

    fn bindings<T>(
        &mut self,
        what: &str,
        call: impl FnOnce(&mut dyn DelegateBindings) -> Result<T, DelegateError>,
    ) -> Result<T, DelegateError> {
        let none = || DelegateError::new("it binds no memory").with_kind(DelegateErrorKind::Usage);
        self.call_mut(what, |inner| call(inner.bindings().ok_or_else(none)?))
    }

    /// Calls [`DelegateQueue::write`]. A panic is returned as an error.
    pub(crate) fn write(&mut self, slot: usize, input: usize, bytes: &[u8]) -> Result<(), DelegateError> {
        self.queue_mut("write", |queue| queue.write(slot, input, bytes))
    }

    /// Calls [`DelegateQueue::input_mut`]. A panic is returned as an error.
    pub(crate) fn input_mut(&mut self, slot: usize, input: usize) -> Result<Option<&mut [u8]>, DelegateError> {
        self.queue_mut("input_mut", |queue| queue.input_mut(slot, input))
    }

    /// Calls [`DelegateQueue::read_input`]. A panic is returned as an error.
    pub(crate) fn read_input(&mut self, slot: usize, input: usize, bytes: &mut [u8]) -> Result<(), DelegateError> {
        self.queue_mut("read_input", |queue| queue.read_input(slot, input, bytes))
    }

    /// Calls [`DelegateQueue::submit`]. A panic is returned as an error.
    pub(crate) fn submit(&mut self, slot: usize, times: usize) -> Result<(), DelegateError> {
        self.queue_mut("submit", |queue| queue.submit(slot, times))
    }

    /// Calls [`DelegateQueue::wait`]. A panic is returned as an error.
    pub(crate) fn wait(&mut self, slot: usize) -> Result<(), DelegateError> {
        self.queue_mut("wait", |queue| queue.wait(slot))
    }

    /// Calls [`DelegateQueue::completion`]. A panic is returned as an error.
    pub(crate) fn completion(&self, slot: usize) -> Result<RunEnd, DelegateError> {
        let inner = Some(self.queue("completion", |queue| Ok(queue.completion(slot)))?);
        Ok(RunEnd { delegate: self.delegate.clone(), inner })
    }

    /// Calls [`DelegateQueue::output`]. A panic is returned as an error.
    pub(crate) fn output(&self, slot: usize, output: usize, least: usize) -> Result<Option<&[u8]>, DelegateError> {
        self.queue("output", |queue| queue.output(slot, output, least))
    }

    /// Calls [`DelegateQueue::read`]. A panic is returned as an error.
    pub(crate) fn read(&self, slot: usize, output: usize, into: &mut [u8]) -> Result<bool, DelegateError> {
        self.queue("read", |queue| queue.read(slot, output, into))
    }
}

/// The end of a run on a delegate, for which any thread can wait.
pub(crate) struct RunEnd {
    delegate: String,
    /// The delegate's object; `None` only while it is dropped.
    inner: Option<Arc<dyn Completion>>,
}

impl RunEnd {
    /// Returns the delegate's name.
    pub(crate) fn delegate(&self) -> &str {
        &self.delegate
    }

    /// Calls [`Completion::wait`]. A panic is returned as an error.
    pub(crate) fn wait(&self, timeout: Duration) -> Result<bool, DelegateError> {
        let Some(inner) = &self.inner else { return Ok(true) };
        let waited = guarded(&self.delegate, "completion", || inner.wait(timeout));
        waited.and_then(|waited| waited)
    }
}

impl Drop for RunEnd {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.take() {
            discard(&self.delegate, inner);
        }
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.take() {
            discard(&self.delegate, inner);
        }
    }
}

/// Returns the kernel `inner`, or an error if the kernel has panicked before.
fn usable<T>(inner: Option<T>, panicked: &OnceCell<String>) -> Result<T, DelegateError> {
    match (inner, panicked.get()) {
        (Some(inner), None) => Ok(inner),
        (_, panicked) => {
            let before = panicked.map_or("it is gone", String::as_str);
            let reason = format!("its kernel failed earlier and is not used again: {before}");
            Err(DelegateError::new(reason).with_kind(DelegateErrorKind::Panicked))
        }
    }
}

/// Flattens the result of a guarded call of a kernel. If the call panicked, stores the message in `panicked`.
fn noted<T>(
    result: Result<Result<T, DelegateError>, DelegateError>,
    panicked: &OnceCell<String>,
) -> Result<T, DelegateError> {
    result.unwrap_or_else(|panic| {
        panicked.get_or_init(|| panic.to_string());
        Err(panic)
    })
}

fn no_queue() -> DelegateError {
    DelegateError::new("its kernel is no queue any more")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value whose destructor panics.
    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }

    #[test]
    fn a_panic_is_an_error_with_its_message() {
        let reason = |call: fn()| guarded("Test", "claim", call).unwrap_err();
        let error = reason(|| panic!("number {}", 3));
        assert_eq!(error.kind, DelegateErrorKind::Panicked);
        assert_eq!(error.reason, "it panicked in claim, which is a bug in the delegate: number 3");
        assert!(reason(|| panic!("plain")).reason.ends_with(": plain"));
        assert!(reason(|| std::panic::panic_any(7)).reason.ends_with(": without a message"));
        assert!(reason(|| std::panic::panic_any(Bomb)).reason.ends_with(": without a message"));
    }

    #[test]
    fn what_panics_when_it_is_dropped_is_dropped() {
        discard("Test", Bomb);
    }
}

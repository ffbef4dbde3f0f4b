#![allow(unsafe_code)]
//! A delegate of C: its address, the lock that all calls into it hold, and its end.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use attache::DelegateError;
use attache_abi::{DestroyDelegate, NULL_BUFFER_HANDLE, TfLiteContext, TfLiteDelegate, TfLiteStatus, TfLiteTensor};

/// A delegate of C.
#[derive(Debug)]
pub(crate) struct Source {
    delegate: NonNull<TfLiteDelegate>,
    destroy: Option<DestroyDelegate>,
    lock: Arc<Mutex<()>>,
    /// Why the delegate could not prepare a graph or a kernel, until somebody takes it.
    failure: Mutex<Option<String>>,
    /// The name of a kernel that the delegate put in the place of nodes.
    #[cfg(not(attache_small))]
    pub(crate) kernel: Mutex<Option<String>>,
}

// SAFETY: the delegate is called only while the lock is held, and those who give it away state that any thread may call it.
unsafe impl Send for Source {}
// SAFETY: as above.
unsafe impl Sync for Source {}

/// Returns the lock of the delegate at this address, which all interpreters share to which a program gives it.
fn lock_of(delegate: NonNull<TfLiteDelegate>) -> Arc<Mutex<()>> {
    static LOCKS: Mutex<Option<HashMap<usize, Weak<Mutex<()>>>>> = Mutex::new(None);
    let mut locks = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    let locks = locks.get_or_insert_default();
    let lock = locks.get(&delegate.addr().get()).and_then(Weak::upgrade).unwrap_or_default();
    locks.retain(|_, lock| lock.strong_count() > 0);
    locks.insert(delegate.addr().get(), Arc::downgrade(&lock));
    lock
}

impl Source {
    /// Takes a delegate, and the function that ends it, if somebody has to.
    ///
    /// # Safety
    ///
    /// The delegate is valid until `destroy` is called, or else for as long as this value lives. Its functions have the
    /// types that TensorFlow Lite gives them, and any thread may call them, one at a time.
    pub(crate) unsafe fn new(delegate: NonNull<TfLiteDelegate>, destroy: Option<DestroyDelegate>) -> Self {
        Self {
            delegate,
            destroy,
            lock: lock_of(delegate),
            failure: Mutex::new(None),
            #[cfg(not(attache_small))]
            kernel: Mutex::default(),
        }
    }

    pub(crate) fn as_ptr(&self) -> *mut TfLiteDelegate {
        self.delegate.as_ptr()
    }

    /// Keeps the error of a result.
    pub(crate) fn note<T>(&self, result: Result<T, DelegateError>) -> Result<T, DelegateError> {
        result.inspect_err(|error| *self.failure() = Some(error.to_string()))
    }

    /// Returns the error that [`Source::note`] kept last.
    pub(crate) fn failure(&self) -> MutexGuard<'_, Option<String>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no other thread calls the delegate.
    pub(crate) fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the delegate uses the opaque interface alone.
    pub(crate) fn is_opaque(&self) -> bool {
        // SAFETY: the delegate is valid, as `new` demands.
        unsafe { !(*self.as_ptr()).opaque_delegate_builder.is_null() }
    }

    /// Has the delegate prepare a graph.
    ///
    /// # Safety
    ///
    /// `context` is one of this library's, nothing refers to its session, and the lock is held.
    pub(crate) unsafe fn prepare(&self, context: *mut TfLiteContext) -> TfLiteStatus {
        let delegate = self.as_ptr();
        // SAFETY: `new` and the caller state that the functions may be called; the builder is null or valid.
        unsafe {
            if let Some(builder) = (*delegate).opaque_delegate_builder.as_ref() {
                return builder.Prepare.map_or(TfLiteStatus::ERROR, |prepare| prepare(context, delegate, builder.data));
            }
            (*delegate).Prepare.map_or(TfLiteStatus::ERROR, |prepare| prepare(context, delegate))
        }
    }

    /// Copies a tensor from a buffer of the delegate's to its own memory.
    ///
    /// # Safety
    ///
    /// As [`Source::prepare`]; `tensor` is one of the session.
    pub(crate) unsafe fn read(&self, context: *mut TfLiteContext, tensor: *mut TfLiteTensor) -> TfLiteStatus {
        let delegate = self.as_ptr();
        // SAFETY: as in `prepare`.
        unsafe {
            let handle = (*tensor).buffer_handle;
            if let Some(builder) = (*delegate).opaque_delegate_builder.as_ref() {
                let copy = builder.CopyFromBufferHandle;
                return copy.map_or(TfLiteStatus::ERROR, |copy| copy(context, delegate, builder.data, handle, tensor));
            }
            let copy = (*delegate).CopyFromBufferHandle;
            copy.map_or(TfLiteStatus::ERROR, |copy| copy(context, delegate, handle, tensor))
        }
    }

    /// Has the delegate free the buffer of a tensor.
    ///
    /// # Safety
    ///
    /// As [`Source::read`].
    pub(crate) unsafe fn free_handle(&self, context: *mut TfLiteContext, tensor: *mut TfLiteTensor) {
        let delegate = self.as_ptr();
        // SAFETY: as in `prepare`.
        unsafe {
            let handle = &raw mut (*tensor).buffer_handle;
            let status = match (*delegate).opaque_delegate_builder.as_ref() {
                Some(builder) => builder.FreeBufferHandle.map(|free| free(context, delegate, builder.data, handle)),
                None => (*delegate).FreeBufferHandle.map(|free| free(context, delegate, handle)),
            };
            let _: Option<()> = status;
            (*tensor).buffer_handle = NULL_BUFFER_HANDLE;
        }
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            // SAFETY: nothing uses the delegate any more: sessions and kernels keep their source.
            unsafe { destroy(self.as_ptr()) };
        }
    }
}

#![allow(unsafe_code)]
//! What a `TfLiteOperator` is in this library: an operator of C with the functions that its maker set.

use std::collections::BTreeSet;
use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use attache_abi::{TfLiteBuiltinOperator, TfLiteContext, TfLiteNode, TfLiteOperator, TfLiteStatus};

/// Makes the data of a node. The arguments are those of `TfLiteRegistration::init`.
pub(crate) type Init = unsafe extern "C" fn(*mut TfLiteContext, *const c_char, usize) -> *mut c_void;
/// The same with the operator's user data first.
pub(crate) type InitWithData =
    unsafe extern "C" fn(*mut c_void, *mut TfLiteContext, *const c_char, usize) -> *mut c_void;
/// Frees the data of a node.
pub(crate) type Free = unsafe extern "C" fn(*mut TfLiteContext, *mut c_void);
/// The same with the operator's user data first.
pub(crate) type FreeWithData = unsafe extern "C" fn(*mut c_void, *mut TfLiteContext, *mut c_void);
/// Prepares or runs a node.
pub(crate) type Step = unsafe extern "C" fn(*mut TfLiteContext, *mut TfLiteNode) -> TfLiteStatus;
/// The same with the operator's user data first.
pub(crate) type StepWithData = unsafe extern "C" fn(*mut c_void, *mut TfLiteContext, *mut TfLiteNode) -> TfLiteStatus;

/// An operator that a program or a delegate made with `TfLiteOperatorCreate`. Of two functions for one purpose, the one
/// with user data is called.
#[derive(Clone, Debug)]
pub(crate) struct Operator {
    pub(crate) code: TfLiteBuiltinOperator,
    pub(crate) name: Option<CString>,
    /// The name where the program has it, which programs compare.
    pub(crate) given: *const c_char,
    pub(crate) version: c_int,
    pub(crate) user_data: *mut c_void,
    pub(crate) init: Option<Init>,
    pub(crate) init_with_data: Option<InitWithData>,
    pub(crate) free: Option<Free>,
    pub(crate) free_with_data: Option<FreeWithData>,
    pub(crate) prepare: Option<Step>,
    pub(crate) prepare_with_data: Option<StepWithData>,
    pub(crate) invoke: Option<Step>,
    pub(crate) invoke_with_data: Option<StepWithData>,
    pub(crate) inplace: u64,
}

impl Operator {
    pub(crate) fn new(
        code: TfLiteBuiltinOperator,
        name: Option<CString>,
        version: c_int,
        user_data: *mut c_void,
    ) -> Self {
        Self {
            code,
            name,
            given: std::ptr::null(),
            version,
            user_data,
            init: None,
            init_with_data: None,
            free: None,
            free_with_data: None,
            prepare: None,
            prepare_with_data: None,
            invoke: None,
            invoke_with_data: None,
            inplace: 0,
        }
    }

    /// Returns the operator's name as C has it; null if it has none.
    pub(crate) fn name(&self) -> *const c_char {
        if !self.given.is_null() {
            return self.given;
        }
        self.name.as_ref().map_or(std::ptr::null(), |name| name.as_ptr())
    }

    /// Moves the operator to the heap, as C holds it.
    pub(crate) fn into_raw(self) -> *mut TfLiteOperator {
        let operator = Box::into_raw(Box::new(self));
        live().insert(operator.addr());
        operator.cast()
    }

    /// Returns a copy of the operator at a pointer; `None` if there is none. C code compiled with a shorter registration
    /// passes whatever is in memory after it.
    pub(crate) fn at(operator: *const TfLiteOperator) -> Option<Self> {
        let live = live();
        // SAFETY: what is listed was not deleted, and is not while the list is locked.
        live.contains(&operator.addr()).then(|| unsafe { (*operator.cast::<Self>()).clone() })
    }

    /// Deletes an operator of C; does nothing for null and for what is none.
    ///
    /// # Safety
    ///
    /// The operator is not used afterwards.
    pub(crate) unsafe fn delete(operator: *mut TfLiteOperator) {
        if live().remove(&operator.addr()) {
            // SAFETY: the operator was listed, so `into_raw` made it, and it is deleted once.
            drop(unsafe { Box::from_raw(operator.cast::<Self>()) });
        }
    }
}

/// Returns the addresses of the operators that C code has.
fn live() -> MutexGuard<'static, BTreeSet<usize>> {
    static LIVE: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

// SAFETY: whoever makes an operator states that its functions may be called with its user data from any thread, one at a
// time (`# Threads` in the crate's documentation).
unsafe impl Send for Operator {}
// SAFETY: as above; nothing changes an operator through a shared reference.
unsafe impl Sync for Operator {}

#![allow(unsafe_code)]
//! Calls of the functions of a `TfLiteRegistration`, or of the `TfLiteOperator` that stands in its place.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use attache_abi::{TfLiteContext, TfLiteNode, TfLiteRegistration, TfLiteStatus};

use crate::operator::Operator;

/// What `init` returns if it failed. Null is no failure.
const INIT_FAILED: *mut c_void = usize::MAX as *mut c_void;

/// The functions of an operator or of a delegate's kernel.
#[derive(Clone, Debug)]
pub(crate) struct Functions {
    registration: TfLiteRegistration,
    operator: Option<Arc<Operator>>,
}

impl Functions {
    /// Returns the functions of a registration. A `registration_external` that `TfLiteOperatorCreate` of this library did
    /// not make counts as null.
    ///
    /// # Safety
    ///
    /// All functions have the types that TensorFlow Lite gives them.
    pub(crate) unsafe fn new(registration: &TfLiteRegistration) -> Self {
        Self { registration: *registration, operator: Operator::at(registration.registration_external).map(Arc::new) }
    }

    /// Makes the data of a node.
    ///
    /// # Safety
    ///
    /// `context` is valid, and `buffer` is what the functions expect.
    pub(crate) unsafe fn init(&self, context: *mut TfLiteContext, buffer: *const c_char, length: usize) -> *mut c_void {
        // SAFETY: `new` and this function's caller state that the functions may be called like this.
        unsafe {
            match self.operator.as_deref() {
                Some(Operator { init_with_data: Some(init), user_data, .. }) => {
                    init(*user_data, context, buffer, length)
                }
                Some(Operator { init: Some(init), .. }) => init(context, buffer, length),
                Some(_) => std::ptr::null_mut(),
                None => self.registration.init.map_or(std::ptr::null_mut(), |init| init(context, buffer, length)),
            }
        }
    }

    /// Prepares a node, after its data was made.
    ///
    /// # Safety
    ///
    /// `context` and `node` are valid.
    pub(crate) unsafe fn prepare(&self, context: *mut TfLiteContext, node: *mut TfLiteNode) -> TfLiteStatus {
        // SAFETY: as in `init`; the caller states that the node is valid.
        unsafe {
            if (*node).user_data == INIT_FAILED {
                return TfLiteStatus::ERROR;
            }
            match self.operator.as_deref() {
                Some(Operator { prepare_with_data: Some(prepare), user_data, .. }) => {
                    prepare(*user_data, context, node)
                }
                Some(Operator { prepare: Some(prepare), .. }) => prepare(context, node),
                Some(_) => TfLiteStatus::OK,
                None => self.registration.prepare.map_or(TfLiteStatus::OK, |prepare| prepare(context, node)),
            }
        }
    }

    /// Runs a node.
    ///
    /// # Safety
    ///
    /// `context` and `node` are valid, and the node was prepared.
    pub(crate) unsafe fn invoke(&self, context: *mut TfLiteContext, node: *mut TfLiteNode) -> TfLiteStatus {
        // SAFETY: as in `init`.
        unsafe {
            match self.operator.as_deref() {
                Some(Operator { invoke_with_data: Some(invoke), user_data, .. }) => invoke(*user_data, context, node),
                Some(Operator { invoke: Some(invoke), .. }) => invoke(context, node),
                Some(_) => TfLiteStatus::ERROR,
                None => self.registration.invoke.map_or(TfLiteStatus::ERROR, |invoke| invoke(context, node)),
            }
        }
    }

    /// Frees the data of a node; does nothing if there is none.
    ///
    /// # Safety
    ///
    /// `context` is valid, and `init` returned `data`, which is not used afterwards.
    pub(crate) unsafe fn free(&self, context: *mut TfLiteContext, data: *mut c_void) {
        if data.is_null() || data == INIT_FAILED {
            return;
        }
        // SAFETY: as in `init`.
        unsafe {
            match self.operator.as_deref() {
                Some(Operator { free_with_data: Some(free), user_data, .. }) => free(*user_data, context, data),
                Some(Operator { free: Some(free), .. }) => free(context, data),
                Some(_) => {}
                None => {
                    if let Some(free) = self.registration.free {
                        free(context, data);
                    }
                }
            }
        }
    }
}

// SAFETY: whoever registers an operator or has a delegate states that any thread may call its functions, one at a time.
unsafe impl Send for Functions {}
// SAFETY: as above.
unsafe impl Sync for Functions {}

#![allow(unsafe_code)]
//! Attaché's own functions that run any subgraph, and that end runs and let go of memory. The smallest libraries lack them.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use attache::Interpreter;
use attache_abi::TfLiteStatus;

use crate::fault::Fault;
use crate::graph::with;
use crate::guard::exports;
use crate::interpreter::{self, TfLiteInterpreter};
use crate::state::State;

/// A function of the program's that returns whether a run is to end, and its data.
pub(crate) struct Asked {
    function: unsafe extern "C" fn(*mut c_void) -> bool,
    data: *mut c_void,
    /// Whether it has ended a run.
    has_ended: AtomicBool,
}

// SAFETY: the program states with the function that it may be called with its data by the threads that run the interpreter.
unsafe impl Send for Asked {}
// SAFETY: as above.
unsafe impl Sync for Asked {}

impl Asked {
    fn ends(&self) -> bool {
        // SAFETY: the program gave the function to be called with its data.
        let ends = unsafe { (self.function)(self.data) };
        self.has_ended.fetch_or(ends, Ordering::Relaxed);
        ends
    }

    /// Has the runs of an interpreter ask the function.
    pub(crate) fn watch(self: &Arc<Self>, interpreter: &Interpreter) {
        let asked = self.clone();
        interpreter.cancellation().ask(Some(Arc::new(move || asked.ends())));
    }

    /// Returns the fault of a run. As in TensorFlow Lite, a run that the function ends is no cancelled one.
    pub(crate) fn fault(&self, fault: Fault) -> Fault {
        match self.has_ended.swap(false, Ordering::Relaxed) {
            true => Fault { status: TfLiteStatus::ERROR, ..fault },
            false => fault,
        }
    }
}

exports! {
    /// Sets a function that runs ask before each operator, or group of operators, on the CPU and before each partition: where
    /// it returns true, they end with an error. Null removes it.
    fn attache_interpreter_set_cancellation_function(
        interpreter: *mut TfLiteInterpreter,
        data: *mut c_void,
        function: Option<unsafe extern "C" fn(*mut c_void) -> bool>,
    ) -> TfLiteStatus {
        interpreter::status(interpreter, |state| {
            let asked = function.map(|function| Arc::new(Asked { function, data, has_ended: AtomicBool::new(false) }));
            if let Some(interpreter) = &state.interpreter {
                match &asked {
                    Some(asked) => asked.watch(interpreter),
                    None => interpreter.cancellation().ask(None),
                }
            }
            state.configuration.asked = asked;
            Ok(())
        })
    } else TfLiteStatus::ERROR;

    /// As `TfLiteInterpreterAllocateTensors`, for any subgraph.
    fn attache_interpreter_allocate(interpreter: *mut TfLiteInterpreter, subgraph: i32) -> TfLiteStatus {
        match with(interpreter, subgraph, None, |_, subgraph| Ok(Some(subgraph))) {
            Some(subgraph) => interpreter::allocate(interpreter, subgraph),
            None => TfLiteStatus::ERROR,
        }
    } else TfLiteStatus::ERROR;

    /// As `TfLiteInterpreterInvoke`, for any subgraph.
    fn attache_interpreter_invoke(interpreter: *mut TfLiteInterpreter, subgraph: i32) -> TfLiteStatus {
        match with(interpreter, subgraph, None, |_, subgraph| Ok(Some(subgraph))) {
            Some(subgraph) => interpreter::status(interpreter, |state| state.invoke(subgraph)),
            None => TfLiteStatus::ERROR,
        }
    } else TfLiteStatus::ERROR;

    /// Lets go of the memory of tensors, apart from variables and the program's own. They have to be allocated again.
    fn attache_interpreter_release_memory(interpreter: *mut TfLiteInterpreter) -> TfLiteStatus {
        interpreter::status(interpreter, State::release)
    } else TfLiteStatus::ERROR;
}

#![allow(unsafe_code)]
//! Attaché's own functions that run any subgraph, and that end runs and let go of memory. The smallest libraries lack them.

use std::ffi::c_void;
use std::sync::Arc;

use attache_abi::TfLiteStatus;

use crate::graph::with;
use crate::guard::exports;
use crate::interpreter::{self, TfLiteInterpreter};
use crate::state::State;

/// A function of the program's that returns whether a run is to end, and its data.
#[derive(Clone, Copy)]
struct Asked(unsafe extern "C" fn(*mut c_void) -> bool, *mut c_void);

// SAFETY: the program states with the function that it may be called with its data by the threads that run the interpreter.
unsafe impl Send for Asked {}
// SAFETY: as above.
unsafe impl Sync for Asked {}

impl Asked {
    fn ends(self) -> bool {
        let Self(function, data) = self;
        // SAFETY: the program gave the function to be called with its data.
        unsafe { function(data) }
    }
}

exports! {
    /// Sets a function that runs ask before each operator, or group of operators, on the CPU and before each partition: where
    /// it returns true, they end as cancelled ones. Null removes it, and so does what prepares the interpreter again.
    fn attache_interpreter_set_cancellation_function(
        interpreter: *mut TfLiteInterpreter,
        data: *mut c_void,
        function: Option<unsafe extern "C" fn(*mut c_void) -> bool>,
    ) -> TfLiteStatus {
        interpreter::status(interpreter, |state| {
            let asked = function.map(|function| Asked(function, data));
            let asked = asked.map(|asked| Arc::new(move || asked.ends()) as Arc<dyn Fn() -> bool + Send + Sync>);
            if let Some(interpreter) = &state.interpreter {
                interpreter.cancellation().ask(asked);
            }
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

#![allow(unsafe_code)]
//! Attaché's own functions that show the subgraphs of an interpreter, on which the classes for C++ stand, and those that
//! change an interpreter after it was made.

use std::ffi::{c_char, c_int};

use attache_abi::report::text_from_c;
use attache_abi::{TfLiteNode, TfLiteRegistration, TfLiteStatus, TfLiteTensor};

use crate::fault::{Fault, Reporter};
use crate::guard::exports;
use crate::interpreter::{self, TfLiteCustomAllocation, TfLiteInterpreter, custom_memory, extents};
use crate::live;
use crate::plan::Plan;
use crate::state::{State, Subgraph};

/// Uses a subgraph of the model.
pub(crate) fn with<T>(
    interpreter: *const TfLiteInterpreter,
    subgraph: i32,
    failed: T,
    call: impl FnOnce(&mut State, usize) -> Result<T, Fault>,
) -> T {
    interpreter::with(interpreter, failed, |state| {
        let count = state.model.subgraphs().len();
        let index = usize::try_from(subgraph).ok().filter(|index| *index < count);
        let index = index.ok_or_else(|| Fault::new(format!("there is no subgraph {subgraph}; there are {count}")))?;
        state.require(index);
        call(state, index)
    })
}

/// Uses the plan of a subgraph.
fn with_plan<T>(
    interpreter: *const TfLiteInterpreter,
    subgraph: i32,
    failed: T,
    call: impl FnOnce(&mut Plan) -> Result<T, Fault>,
) -> T {
    with(interpreter, subgraph, failed, |state, subgraph| call(state.plan(subgraph)?))
}

/// Returns the start of a list, and writes its length.
fn list(
    interpreter: *const TfLiteInterpreter,
    subgraph: i32,
    count: *mut i32,
    get: impl FnOnce(&Subgraph) -> &Vec<c_int>,
) -> *const c_int {
    with(interpreter, subgraph, std::ptr::null(), |state, subgraph| give(get(state.subgraph(subgraph)?), count))
}

/// Uses the interpreter of a tensor, with the indices of the subgraph and of the tensor.
fn with_tensor(
    tensor: *const TfLiteTensor,
    call: impl FnOnce(&mut State, usize, usize) -> Result<(), Fault>,
) -> TfLiteStatus {
    match live::owner_of(tensor) {
        Some((owner, index)) => {
            let interpreter = std::ptr::with_exposed_provenance(owner.interpreter);
            interpreter::status(interpreter, |state| call(state, owner.subgraph, index))
        }
        None => Reporter::default().status(Err(Fault::new("the tensor is not one of an interpreter"))),
    }
}

fn give(list: &[c_int], count: *mut i32) -> Result<*const c_int, Fault> {
    if count.is_null() {
        return Err(Fault::new("null where a place for a number is expected"));
    }
    // SAFETY: the caller of the C function passes a place for the number, which is not null.
    unsafe { count.write(i32::try_from(list.len()).unwrap_or(i32::MAX)) };
    Ok(list.as_ptr())
}

exports! {
    /// Returns the number of subgraphs of the model; -1 on an error.
    fn attache_interpreter_subgraph_count(interpreter: *const TfLiteInterpreter) -> i32 {
        interpreter::with(interpreter, -1, |state| {
            Ok(i32::try_from(state.model.subgraphs().len()).unwrap_or(i32::MAX))
        })
    } else -1;

    /// Returns the number of tensors of a subgraph; -1 on an error.
    fn attache_interpreter_tensor_count(interpreter: *const TfLiteInterpreter, subgraph: i32) -> i32 {
        with(interpreter, subgraph, -1, |state, subgraph| {
            Ok(i32::try_from(state.subgraph(subgraph)?.tensors.len()).unwrap_or(i32::MAX))
        })
    } else -1;

    /// Returns a tensor of a subgraph; null if there is none.
    fn attache_interpreter_tensor(
        interpreter: *const TfLiteInterpreter,
        subgraph: i32,
        index: i32,
    ) -> *mut TfLiteTensor {
        with(interpreter, subgraph, std::ptr::null_mut(), |state, subgraph| Ok(state.subgraph(subgraph)?.tensor(index)))
    } else std::ptr::null_mut();

    /// Returns the indices of a subgraph's inputs, and writes their number; null on an error.
    fn attache_interpreter_inputs(
        interpreter: *const TfLiteInterpreter,
        subgraph: i32,
        count: *mut i32,
    ) -> *const c_int {
        list(interpreter, subgraph, count, |subgraph| &subgraph.inputs)
    } else std::ptr::null();

    /// Returns the indices of a subgraph's outputs, and writes their number; null on an error.
    fn attache_interpreter_outputs(
        interpreter: *const TfLiteInterpreter,
        subgraph: i32,
        count: *mut i32,
    ) -> *const c_int {
        list(interpreter, subgraph, count, |subgraph| &subgraph.outputs)
    } else std::ptr::null();

    /// Returns the number of nodes of a subgraph, with those that stand for partitions; -1 on an error.
    fn attache_interpreter_node_count(interpreter: *const TfLiteInterpreter, subgraph: i32) -> i32 {
        with_plan(interpreter, subgraph, -1, |plan| Ok(i32::try_from(plan.nodes.len()).unwrap_or(i32::MAX)))
    } else -1;

    /// Returns the indices of the nodes in the order in which they run, and writes their number; null on an error. The list
    /// is valid until the interpreter is changed.
    fn attache_interpreter_execution_plan(
        interpreter: *const TfLiteInterpreter,
        subgraph: i32,
        count: *mut i32,
    ) -> *const c_int {
        with_plan(interpreter, subgraph, std::ptr::null(), |plan| give(&plan.order, count))
    } else std::ptr::null();

    /// Gives what describes a node, which is valid until the interpreter is changed.
    fn attache_interpreter_node(
        interpreter: *const TfLiteInterpreter,
        subgraph: i32,
        index: i32,
        node: *mut *mut TfLiteNode,
        registration: *mut *mut TfLiteRegistration,
    ) -> TfLiteStatus {
        with_plan(interpreter, subgraph, TfLiteStatus::ERROR, |plan| {
            let found = usize::try_from(index).ok().and_then(|index| plan.nodes.get(index));
            let Some(found) = found.filter(|_| !node.is_null() && !registration.is_null()) else {
                return Err(Fault::new("null, or a node that does not exist"));
            };
            // SAFETY: the caller of the C function passes places for the results, which are not null.
            unsafe { (*node, *registration) = (found.0, found.1) };
            Ok(TfLiteStatus::OK)
        })
    } else TfLiteStatus::ERROR;

    /// Returns the index of the subgraph of a signature; -1 if there is no such signature.
    fn attache_interpreter_signature_subgraph(interpreter: *const TfLiteInterpreter, key: *const c_char) -> i32 {
        // SAFETY: the caller of the C function passes null or a text that a zero byte ends.
        let key = unsafe { text_from_c(key) };
        interpreter::with(interpreter, -1, |state| {
            let found = state.model.signatures().iter().find(|signature| Some(&*signature.key) == key);
            Ok(found.map_or(-1, |signature| i32::try_from(signature.subgraph).unwrap_or(-1)))
        })
    } else -1;

    /// Sets the number of threads on the CPU from the next run on; -1 for the library's choice. Smaller numbers are errors.
    fn attache_interpreter_set_num_threads(interpreter: *mut TfLiteInterpreter, threads: i32) -> TfLiteStatus {
        interpreter::status(interpreter, |state| match threads {
            ..=-2 => Err(Fault::new(format!("{threads} threads: a number from -1 on is expected"))),
            threads => {
                state.set_threads(usize::try_from(threads).ok());
                Ok(())
            }
        })
    } else TfLiteStatus::ERROR;

    /// Lets runs be cancelled with `TfLiteInterpreterCancel`.
    fn attache_interpreter_enable_cancellation(interpreter: *mut TfLiteInterpreter) -> TfLiteStatus {
        interpreter::status(interpreter, |state| {
            state.configuration.is_cancellable = true;
            live::get(interpreter)?.watch(state);
            Ok(())
        })
    } else TfLiteStatus::ERROR;

    /// Sets the extents of an input of any subgraph. `AllocateTensors` has to follow.
    fn attache_tensor_resize(tensor: *mut TfLiteTensor, shape: *const c_int, count: i32) -> TfLiteStatus {
        with_tensor(tensor, |state, subgraph, index| {
            let inputs = &state.subgraph(subgraph)?.inputs;
            let position = inputs.iter().position(|input| usize::try_from(*input) == Ok(index));
            let position = position.ok_or_else(|| Fault::new("the tensor is no input"))?;
            state.resize(subgraph, position, extents(shape, count)?)
        })
    } else TfLiteStatus::ERROR;

    /// As `TfLiteInterpreterSetCustomAllocationForTensor`, for a tensor of any subgraph.
    fn attache_tensor_set_custom_allocation(
        tensor: *mut TfLiteTensor,
        allocation: *const TfLiteCustomAllocation,
        flags: i64,
    ) -> TfLiteStatus {
        with_tensor(tensor, |state, subgraph, index| {
            let (data, size) = custom_memory(allocation, flags)?;
            state.set_custom(subgraph, index, data, size)
        })
    } else TfLiteStatus::ERROR;
}

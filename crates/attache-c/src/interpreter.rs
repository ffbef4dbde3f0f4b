#![allow(unsafe_code)]
//! `TfLiteInterpreter`.

use std::ffi::{c_char, c_int, c_void};
use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use attache::Cancellation;
use attache_abi::{TfLiteBufferHandle, TfLiteDelegate, TfLiteStatus, TfLiteTensor};

use crate::fault::{Fault, Reporter};
use crate::guard::{exports, guarded};
use crate::live::{self, Kind, Object};
use crate::model::TfLiteModel;
use crate::operators::check_selected;
use crate::options::{TfLiteInterpreterOptions, copy_of};
use crate::signature::Signatures;
use crate::state::{MAIN, State, Subgraph};

/// An interpreter. One thread at a time uses the state; others wait. Cancellation does not.
pub(crate) struct TfLiteInterpreter {
    pub(crate) reporter: Reporter,
    pub(crate) signatures: Signatures,
    /// Another one for each interpreter of the process, so that one at the address of a deleted one is noticed.
    pub(crate) number: usize,
    cancellation: Mutex<Option<Cancellation>>,
    state: Mutex<Option<State>>,
    /// The thread that uses the state, to tell waiting from waiting for oneself.
    user: AtomicUsize,
}

/// How many interpreters were made.
static NUMBER: AtomicUsize = AtomicUsize::new(0);

impl Object for TfLiteInterpreter {
    const KIND: Kind = Kind::Interpreter;
    const NAME: &'static str = "TfLiteInterpreter";
}

/// Returns a number of the thread that no other thread has while it runs.
fn this_thread() -> usize {
    thread_local!(static PLACE: u8 = const { 0 });
    PLACE.with(|place| std::ptr::from_ref(place).addr())
}

impl TfLiteInterpreter {
    /// Makes an interpreter. `build` gets its address, which its tensors refer to.
    pub(crate) fn give(
        reporter: Reporter,
        build: impl FnOnce(usize) -> Result<State, Fault>,
    ) -> Result<*mut Self, Fault> {
        let interpreter = Box::new(Self {
            reporter,
            signatures: Signatures::default(),
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            cancellation: Mutex::default(),
            state: Mutex::default(),
            user: AtomicUsize::new(0),
        });
        let mut interpreter = interpreter;
        let state = build(std::ptr::from_ref(&*interpreter).expose_provenance())?;
        interpreter.signatures = Signatures::of(&state.model);
        interpreter.watch(&state);
        *interpreter.state.get_mut().unwrap_or_else(PoisonError::into_inner) = Some(state);
        Ok(live::give(interpreter))
    }

    /// Notes what cancels runs of the state's interpreter, if the options ask for it.
    pub(crate) fn watch(&self, state: &State) {
        let interpreter = state.interpreter.as_ref().filter(|_| state.configuration.is_cancellable);
        let cancellation = interpreter.map(attache::Interpreter::cancellation);
        *self.cancellation.lock().unwrap_or_else(PoisonError::into_inner) = cancellation;
    }

    fn lock(&self) -> Result<MutexGuard<'_, Option<State>>, Fault> {
        match self.state.try_lock() {
            Ok(state) => Ok(state),
            Err(TryLockError::Poisoned(state)) => Ok(state.into_inner()),
            Err(TryLockError::WouldBlock) if self.user.load(Ordering::Acquire) == this_thread() => {
                Err(Fault::new("an interpreter is used by an operator, a delegate or a reporter that it called"))
            }
            Err(TryLockError::WouldBlock) => Ok(self.state.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// Uses the state. A panic is an error.
    pub(crate) fn with<T>(&self, call: impl FnOnce(&mut State) -> Result<T, Fault>) -> Result<T, Fault> {
        let mut state = self.lock()?;
        self.user.store(this_thread(), Ordering::Release);
        let result = guarded(|| call(state.as_mut().ok_or_else(|| Fault::new("an interpreter without a state"))?));
        self.user.store(0, Ordering::Release);
        result
    }
}

/// Uses the state of the interpreter at a pointer of C code. Errors are reported to its reporter.
pub(crate) fn with<T>(
    interpreter: *const TfLiteInterpreter,
    failed: T,
    call: impl FnOnce(&mut State) -> Result<T, Fault>,
) -> T {
    match live::get(interpreter) {
        Ok(interpreter) => interpreter.reporter.settle(interpreter.with(call), failed),
        Err(fault) => Reporter::default().settle(Err(fault), failed),
    }
}

/// As [`with`], and returns a status.
pub(crate) fn status(
    interpreter: *const TfLiteInterpreter,
    call: impl FnOnce(&mut State) -> Result<(), Fault>,
) -> TfLiteStatus {
    match live::get(interpreter) {
        Ok(interpreter) => interpreter.reporter.status(interpreter.with(call)),
        Err(fault) => Reporter::default().status(Err(fault)),
    }
}

/// Allocates the tensors of a subgraph, which may build the interpreter.
pub(crate) fn allocate(interpreter: *const TfLiteInterpreter, subgraph: usize) -> TfLiteStatus {
    status(interpreter, |state| {
        state.allocate(subgraph)?;
        live::get(interpreter)?.watch(state);
        Ok(())
    })
}

/// Uses the main subgraph.
fn main<T>(interpreter: *const TfLiteInterpreter, failed: T, call: impl FnOnce(&Subgraph) -> T) -> T {
    with(interpreter, failed, |state| Ok(call(state.subgraph(MAIN)?)))
}

/// Returns the extents that C code passes.
pub(crate) fn extents<'a>(extents: *const c_int, count: i32) -> Result<&'a [c_int], Fault> {
    match usize::try_from(count) {
        Ok(0) => Ok(&[]),
        // SAFETY: the caller of the C function passes as many extents as it states.
        Ok(count) if !extents.is_null() => Ok(unsafe { slice::from_raw_parts(extents, count) }),
        _ => Err(Fault::new("null, or a negative number, where extents are expected")),
    }
}

fn count(list: &[c_int]) -> i32 {
    i32::try_from(list.len()).unwrap_or(i32::MAX)
}

fn nth(subgraph: &Subgraph, list: &[c_int], position: i32) -> *mut TfLiteTensor {
    let index = usize::try_from(position).ok().and_then(|position| list.get(position));
    index.map_or(std::ptr::null_mut(), |index| subgraph.tensor(*index))
}

/// Makes an interpreter, of operators that the program added alone if `is_selected`.
fn create(
    model: *const TfLiteModel,
    options: *const TfLiteInterpreterOptions,
    is_selected: bool,
) -> *mut TfLiteInterpreter {
    let options = match copy_of(options) {
        Ok(options) => options,
        Err(fault) => return Reporter::default().settle(Err(fault), std::ptr::null_mut()),
    };
    let (reporter, configuration) = (options.reporter, options.configuration);
    let made = guarded(|| {
        let model = &live::get(model)?.0;
        if is_selected {
            check_selected(&configuration, model)?;
        }
        TfLiteInterpreter::give(reporter, |address| State::new(model, configuration, address))
    });
    reporter.settle(made, std::ptr::null_mut())
}

/// Cancels the run of an interpreter that is under way.
pub(crate) fn cancel(interpreter: *const TfLiteInterpreter) -> TfLiteStatus {
    let interpreter = match live::get(interpreter) {
        Ok(interpreter) => interpreter,
        Err(fault) => return Reporter::default().status(Err(fault)),
    };
    let cancellation = interpreter.cancellation.lock().unwrap_or_else(PoisonError::into_inner);
    let result = cancellation.as_ref().map(Cancellation::cancel);
    let text = "cancellation is not enabled: call TfLiteInterpreterOptionsEnableCancellation first";
    interpreter.reporter.status(result.ok_or_else(|| Fault::new(text)))
}

/// Returns address and size of memory that a program sets for a tensor.
pub(crate) fn custom_memory(allocation: *const TfLiteCustomAllocation, flags: i64) -> Result<(*mut u8, usize), Fault> {
    // SAFETY: the caller of the C function passes null or a valid struct.
    let allocation = unsafe { allocation.as_ref() }.filter(|allocation| !allocation.data.is_null());
    let allocation = allocation.ok_or_else(|| Fault::new("null where memory is expected"))?;
    if flags & SKIP_ALIGNMENT_CHECK == 0 && allocation.data.addr() % ALIGNMENT != 0 {
        return Err(Fault::new(format!("the memory is not aligned to {ALIGNMENT} bytes")));
    }
    Ok((allocation.data.cast(), allocation.bytes))
}

/// Adds a delegate to an interpreter, which is prepared again with it.
fn add_delegate(interpreter: *const TfLiteInterpreter, delegate: *mut TfLiteDelegate) -> Result<(), Fault> {
    let interpreter = live::get(interpreter)?;
    if delegate.is_null() {
        return Err(Fault::new("null where a delegate is expected"));
    }
    interpreter.with(|state| {
        let mut configuration = state.configuration.clone();
        configuration.add(delegate)?;
        state.profiled("ModifyGraphWithDelegate", MAIN, |state| {
            state.rebuild(configuration)?;
            interpreter.watch(state);
            // As in TensorFlow Lite, tensors are allocated then. Where extents are open, the program sets them first.
            let _ = state.allocate(MAIN);
            Ok(())
        })
    })
}

exports! {
    /// Makes an interpreter of a model. Options may be null. Returns null if the model cannot be run.
    fn TfLiteInterpreterCreate(
        model: *const TfLiteModel,
        options: *const TfLiteInterpreterOptions,
    ) -> *mut TfLiteInterpreter {
        create(model, options, false)
    } else std::ptr::null_mut();

    /// As `TfLiteInterpreterCreate`, for models of which the options have every builtin operator; null for others.
    fn TfLiteInterpreterCreateWithSelectedOps(
        model: *const TfLiteModel,
        options: *const TfLiteInterpreterOptions,
    ) -> *mut TfLiteInterpreter {
        create(model, options, true)
    } else std::ptr::null_mut();

    /// Deletes an interpreter, and its tensors with it. Does nothing for null.
    fn TfLiteInterpreterDelete(interpreter: *mut TfLiteInterpreter) {
        Reporter::default().settle(live::take(interpreter).map(drop), ());
    } else ();

    /// Returns the number of inputs.
    fn TfLiteInterpreterGetInputTensorCount(interpreter: *const TfLiteInterpreter) -> i32 {
        main(interpreter, 0, |subgraph| count(&subgraph.inputs))
    } else 0;

    /// Returns the indices of the inputs' tensors; as many as there are inputs.
    fn TfLiteInterpreterInputTensorIndices(interpreter: *const TfLiteInterpreter) -> *const c_int {
        main(interpreter, std::ptr::null(), |subgraph| subgraph.inputs.as_ptr())
    } else std::ptr::null();

    /// Returns an input by its position; null if there is none.
    fn TfLiteInterpreterGetInputTensor(interpreter: *const TfLiteInterpreter, position: i32) -> *mut TfLiteTensor {
        main(interpreter, std::ptr::null_mut(), |subgraph| nth(subgraph, &subgraph.inputs, position))
    } else std::ptr::null_mut();

    /// Returns the index of an input's tensor; -1 if there is no such input.
    fn TfLiteInterpreterGetInputTensorIndex(interpreter: *const TfLiteInterpreter, position: i32) -> i32 {
        main(interpreter, -1, |subgraph| {
            usize::try_from(position).ok().and_then(|position| subgraph.inputs.get(position).copied()).unwrap_or(-1)
        })
    } else -1;

    /// Sets the extents of an input. `AllocateTensors` has to follow.
    fn TfLiteInterpreterResizeInputTensor(
        interpreter: *mut TfLiteInterpreter,
        position: i32,
        shape: *const c_int,
        count: i32,
    ) -> TfLiteStatus {
        status(interpreter, |state| {
            let position = usize::try_from(position).map_err(|_| Fault::new("the position of an input is negative"))?;
            state.resize(MAIN, position, extents(shape, count)?)
        })
    } else TfLiteStatus::ERROR;

    /// Prepares the interpreter for the extents of its inputs.
    fn TfLiteInterpreterAllocateTensors(interpreter: *mut TfLiteInterpreter) -> TfLiteStatus {
        allocate(interpreter, MAIN)
    } else TfLiteStatus::ERROR;

    /// Runs the model once, and returns when the run has ended.
    fn TfLiteInterpreterInvoke(interpreter: *mut TfLiteInterpreter) -> TfLiteStatus {
        status(interpreter, |state| state.invoke(MAIN))
    } else TfLiteStatus::ERROR;

    /// Returns the number of outputs.
    fn TfLiteInterpreterGetOutputTensorCount(interpreter: *const TfLiteInterpreter) -> i32 {
        main(interpreter, 0, |subgraph| count(&subgraph.outputs))
    } else 0;

    /// Returns the indices of the outputs' tensors; as many as there are outputs.
    fn TfLiteInterpreterOutputTensorIndices(interpreter: *const TfLiteInterpreter) -> *const c_int {
        main(interpreter, std::ptr::null(), |subgraph| subgraph.outputs.as_ptr())
    } else std::ptr::null();

    /// Returns an output by its position; null if there is none.
    fn TfLiteInterpreterGetOutputTensor(
        interpreter: *const TfLiteInterpreter,
        position: i32,
    ) -> *const TfLiteTensor {
        main(interpreter, std::ptr::null(), |subgraph| nth(subgraph, &subgraph.outputs, position).cast_const())
    } else std::ptr::null();

    /// Returns the index of an output's tensor; -1 if there is no such output.
    fn TfLiteInterpreterGetOutputTensorIndex(interpreter: *const TfLiteInterpreter, position: i32) -> i32 {
        main(interpreter, -1, |subgraph| {
            usize::try_from(position).ok().and_then(|position| subgraph.outputs.get(position).copied()).unwrap_or(-1)
        })
    } else -1;

    /// Returns a tensor by its index; null if there is none.
    fn TfLiteInterpreterGetTensor(interpreter: *const TfLiteInterpreter, index: c_int) -> *mut TfLiteTensor {
        main(interpreter, std::ptr::null_mut(), |subgraph| subgraph.tensor(index))
    } else std::ptr::null_mut();

    /// Cancels the run that is under way, from any thread. An error if the options did not enable it.
    fn TfLiteInterpreterCancel(interpreter: *const TfLiteInterpreter) -> TfLiteStatus {
        cancel(interpreter)
    } else TfLiteStatus::ERROR;

    /// Sets variable tensors to their first values. Resource variables keep theirs.
    fn TfLiteInterpreterResetVariableTensors(interpreter: *mut TfLiteInterpreter) -> TfLiteStatus {
        status(interpreter, |state| {
            state.reset_variables();
            Ok(())
        })
    } else TfLiteStatus::ERROR;

    /// Returns the number of variable tensors.
    fn TfLiteInterpreterGetVariableTensorCount(interpreter: *const TfLiteInterpreter) -> i32 {
        main(interpreter, 0, |subgraph| i32::try_from(subgraph.variables.len()).unwrap_or(i32::MAX))
    } else 0;

    /// Returns a variable tensor by its position; null if there is none.
    fn TfLiteInterpreterGetVariableTensor(
        interpreter: *const TfLiteInterpreter,
        position: i32,
    ) -> *mut TfLiteTensor {
        main(interpreter, std::ptr::null_mut(), |subgraph| {
            let tensor = usize::try_from(position).ok().and_then(|position| subgraph.variables.get(position));
            tensor.map_or(std::ptr::null_mut(), |tensor| subgraph.tensors.at(*tensor))
        })
    } else std::ptr::null_mut();

    /// Adds a delegate to an interpreter, which is prepared again. Inputs keep their values. If the delegate fails, the
    /// interpreter stays as it was.
    fn TfLiteInterpreterModifyGraphWithDelegate(
        interpreter: *const TfLiteInterpreter,
        delegate: *mut TfLiteDelegate,
    ) -> TfLiteStatus {
        let reporter = live::get(interpreter).map_or(Reporter::default(), |interpreter| interpreter.reporter);
        let added = guarded(|| add_delegate(interpreter, delegate));
        reporter.status(added.map_err(|fault| Fault { status: TfLiteStatus::DELEGATE_ERROR, ..fault }))
    } else TfLiteStatus::DELEGATE_ERROR;

    /// Puts an input or an output into memory of the program's, aligned to 64 bytes, which stays valid until the
    /// interpreter is deleted. With the flag 1, the alignment is not checked.
    fn TfLiteInterpreterSetCustomAllocationForTensor(
        interpreter: *mut TfLiteInterpreter,
        index: c_int,
        allocation: *const TfLiteCustomAllocation,
        flags: i64,
    ) -> TfLiteStatus {
        status(interpreter, |state| {
            let (data, size) = custom_memory(allocation, flags)?;
            let index = usize::try_from(index).map_err(|_| Fault::new("the index of a tensor is negative"))?;
            state.set_custom(MAIN, index, data, size)
        })
    } else TfLiteStatus::ERROR;

    /// Sets a handle of a delegate's for a tensor. The delegate frees it when another one is set, and when the interpreter is
    /// deleted. An error if the tensor has one of another delegate.
    fn TfLiteInterpreterSetBufferHandle(
        interpreter: *mut TfLiteInterpreter,
        tensor: *mut TfLiteTensor,
        handle: TfLiteBufferHandle,
        delegate: *mut TfLiteDelegate,
    ) -> TfLiteStatus {
        status(interpreter, |state| {
            let owner = live::owner_of(tensor).filter(|(owner, _)| owner.interpreter == interpreter.addr());
            let (owner, index) = owner.ok_or_else(|| Fault::new("the tensor is not one of the interpreter"))?;
            state.subgraph_mut(owner.subgraph)?.tensors.set_handle(index, handle, delegate)
        })
    } else TfLiteStatus::ERROR;

    /// Gives the handle of a tensor's buffer and its delegate, as `TfLiteInterpreterSetBufferHandle` set them.
    fn TfLiteInterpreterGetBufferHandle(
        interpreter: *mut TfLiteInterpreter,
        index: c_int,
        handle: *mut TfLiteBufferHandle,
        delegate: *mut *mut TfLiteDelegate,
    ) -> TfLiteStatus {
        status(interpreter, |state| {
            // SAFETY: the tensor is null or one of the interpreter, which this thread uses.
            let tensor = unsafe { state.subgraph(MAIN)?.tensor(index).as_ref() };
            let Some(tensor) = tensor.filter(|_| !handle.is_null() && !delegate.is_null()) else {
                return Err(Fault::new("null, or a tensor that does not exist"));
            };
            // SAFETY: the caller of the C function passes places for the results, which are not null.
            unsafe { (*handle, *delegate) = (tensor.buffer_handle, tensor.delegate) };
            Ok(())
        })
    } else TfLiteStatus::ERROR;

    /// Allows inputs and outputs to stay on the device that runs the whole model. `TfLiteTensorCopyFromBuffer` and
    /// `TfLiteTensorCopyToBuffer` then copy from and to the device, and tensors are marked as stale (`data_is_stale`) until
    /// `TfLiteTensorData` or `TfLiteInterpreterEnsureTensorDataIsReadable` brings their bytes to memory.
    fn TfLiteSetAllowBufferHandleOutput(interpreter: *const TfLiteInterpreter, allow: bool) {
        status(interpreter, |state| state.allow_to_stay(allow));
    } else ();

    /// Makes the bytes of a tensor readable through its field `data`: if that is marked as stale, the delegate of its handle,
    /// or the device that has them, copies them there.
    fn TfLiteInterpreterEnsureTensorDataIsReadable(
        interpreter: *mut TfLiteInterpreter,
        index: c_int,
    ) -> TfLiteStatus {
        status(interpreter, |state| {
            let exists = !state.subgraph(MAIN)?.tensor(index).is_null();
            let index = usize::try_from(index).ok().filter(|_| exists);
            let index = index.ok_or_else(|| Fault::new("a tensor that does not exist"))?;
            state.settle(MAIN, index)?;
            state.subgraph_mut(MAIN)?.tensors.refresh(index)
        })
    } else TfLiteStatus::ERROR;

    /// Returns the number of signatures.
    fn TfLiteInterpreterGetSignatureCount(interpreter: *const TfLiteInterpreter) -> i32 {
        let count = live::get(interpreter).map(|interpreter| interpreter.signatures.keys.len());
        i32::try_from(Reporter::default().settle(count, 0)).unwrap_or(i32::MAX)
    } else 0;

    /// Returns the key of a signature by its position; null if there is none.
    fn TfLiteInterpreterGetSignatureKey(interpreter: *const TfLiteInterpreter, position: i32) -> *const c_char {
        let key = live::get(interpreter).map(|interpreter| interpreter.signatures.key(position));
        Reporter::default().settle(key, std::ptr::null())
    } else std::ptr::null();
}

/// The alignment of memory that programs set, in bytes.
const ALIGNMENT: usize = 64;

/// The flag that lets memory have any alignment.
const SKIP_ALIGNMENT_CHECK: i64 = 1;

/// Memory of the program's.
#[repr(C)]
pub(crate) struct TfLiteCustomAllocation {
    data: *mut c_void,
    bytes: usize,
}

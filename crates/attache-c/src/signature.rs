#![allow(unsafe_code)]
//! `TfLiteSignatureRunner`: runs a signature of an interpreter, whose inputs and outputs have names.

use std::ffi::{CString, c_char, c_int};

use attache::Model;
use attache::model::Signature;
use attache_abi::report::{text_from_c, text_of_c};
use attache_abi::{TfLiteStatus, TfLiteTensor};

use crate::fault::{Fault, Reporter};
use crate::guard::{exports, guarded};
use crate::interpreter::{self, TfLiteInterpreter, extents};
use crate::live::{self, Kind, Object};
use crate::state::MAIN;

/// The signatures of a model.
#[derive(Default)]
pub(crate) struct Signatures {
    pub(crate) keys: Vec<CString>,
}

impl Signatures {
    pub(crate) fn of(model: &Model) -> Self {
        Self { keys: model.signatures().iter().map(|signature| text_of_c(&signature.key)).collect() }
    }

    pub(crate) fn key(&self, position: i32) -> *const c_char {
        let key = usize::try_from(position).ok().and_then(|position| self.keys.get(position));
        key.map_or(std::ptr::null(), |key| key.as_ptr())
    }
}

/// A signature of an interpreter. Runners of the first subgraph share its tensors with the interpreter's own functions.
pub(crate) struct TfLiteSignatureRunner {
    interpreter: *const TfLiteInterpreter,
    /// The interpreter's number.
    number: usize,
    subgraph: usize,
    inputs: Vec<Named>,
    outputs: Vec<Named>,
}

/// An input or an output.
struct Named {
    name: CString,
    /// Its position in the subgraph.
    position: usize,
    tensor: *mut TfLiteTensor,
}

impl Object for TfLiteSignatureRunner {
    const KIND: Kind = Kind::SignatureRunner;
    const NAME: &'static str = "TfLiteSignatureRunner";
}

/// What a signature names: a subgraph, and tensors of its inputs and outputs.
struct Names {
    subgraph: usize,
    inputs: Vec<(String, usize)>,
    outputs: Vec<(String, usize)>,
}

impl From<&Signature> for Names {
    fn from(signature: &Signature) -> Self {
        let (inputs, outputs) = (signature.inputs.clone(), signature.outputs.clone());
        Self { subgraph: signature.subgraph, inputs, outputs }
    }
}

fn of_key(model: &Model, key: Option<&str>) -> Result<Names, Fault> {
    let key = key.ok_or_else(|| Fault::new("bytes that are not UTF-8 where the key of a signature is expected"))?;
    let signature = model.signatures().iter().find(|signature| signature.key == key);
    signature.map(Names::from).ok_or_else(|| Fault::new(format!("the model has no signature \"{key}\"")))
}

/// Returns the first signature of a model. As in TensorFlow Lite, a model without signatures has one of its main subgraph,
/// with the names of the tensors.
fn first(model: &Model) -> Names {
    if let Some(signature) = model.signatures().first() {
        return Names::from(signature);
    }
    let main = &model.subgraphs()[MAIN];
    let names = |list: &[usize]| list.iter().map(|index| (main.tensors[*index].name.clone(), *index)).collect();
    Names { subgraph: MAIN, inputs: names(&main.inputs), outputs: names(&main.outputs) }
}

fn create(interpreter: *const TfLiteInterpreter, key: *const c_char) -> Result<*mut TfLiteSignatureRunner, Fault> {
    let number = live::get(interpreter)?.number;
    live::get(interpreter)?.with(|state| {
        let signature = match key.is_null() {
            true => first(&state.model),
            // SAFETY: the caller of the C function passes a text that a zero byte ends.
            false => of_key(&state.model, unsafe { text_from_c(key) })?,
        };
        state.require(signature.subgraph);
        let subgraph = state.subgraph(signature.subgraph)?;
        let named = |names: &[(String, usize)], list: &[c_int]| {
            let mut named: Vec<Named> = Vec::new();
            for (name, index) in names {
                let Some(position) = list.iter().position(|tensor| *tensor as usize == *index) else { continue };
                let (name, tensor) = (text_of_c(name), subgraph.tensors.at(*index));
                named.insert(named.partition_point(|other| other.name < name), Named { name, position, tensor });
            }
            named
        };
        let (inputs, outputs) =
            (named(&signature.inputs, &subgraph.inputs), named(&signature.outputs, &subgraph.outputs));
        let runner = TfLiteSignatureRunner { interpreter, number, subgraph: signature.subgraph, inputs, outputs };
        Ok(live::give(Box::new(runner)))
    })
}

/// Returns the runner at a pointer of C code, whose interpreter is still there.
fn runner_at<'a>(runner: *const TfLiteSignatureRunner) -> Result<&'a TfLiteSignatureRunner, Fault> {
    let runner = live::get(runner)?;
    let is_there = live::get(runner.interpreter)?.number == runner.number;
    if is_there { Ok(runner) } else { Err(Fault::new("the interpreter of a signature runner was deleted")) }
}

/// Returns what `read` returns of the runner at a pointer of C code.
fn read<T>(runner: *const TfLiteSignatureRunner, failed: T, read: impl FnOnce(&TfLiteSignatureRunner) -> T) -> T {
    Reporter::default().settle(runner_at(runner).map(read), failed)
}

/// Uses the interpreter of the runner at a pointer of C code.
fn status(
    runner: *const TfLiteSignatureRunner,
    call: impl FnOnce(&mut crate::state::State, &TfLiteSignatureRunner) -> Result<(), Fault>,
) -> TfLiteStatus {
    match runner_at(runner) {
        Ok(runner) => interpreter::status(runner.interpreter, |state| call(state, runner)),
        Err(fault) => Reporter::default().status(Err(fault)),
    }
}

fn name(list: &[Named], position: i32) -> *const c_char {
    let named = usize::try_from(position).ok().and_then(|position| list.get(position));
    named.map_or(std::ptr::null(), |named| named.name.as_ptr())
}

fn find(list: &[Named], name: *const c_char) -> Option<&Named> {
    // SAFETY: the caller of the C function passes null or a text that a zero byte ends.
    let name = unsafe { text_from_c(name) }?;
    list.iter().find(|named| named.name.to_bytes() == name.as_bytes())
}

exports! {
    /// Returns a runner of the signature with this key; null if there is none. A null key stands for the first signature or,
    /// in a model without signatures, for the main subgraph. Delete the runner before the interpreter.
    fn TfLiteInterpreterGetSignatureRunner(
        interpreter: *const TfLiteInterpreter,
        key: *const c_char,
    ) -> *mut TfLiteSignatureRunner {
        let reporter = live::get(interpreter).map_or(Reporter::default(), |interpreter| interpreter.reporter);
        reporter.settle(guarded(|| create(interpreter, key)), std::ptr::null_mut())
    } else std::ptr::null_mut();

    /// Deletes a runner. Its tensors belong to the interpreter. Does nothing for null.
    fn TfLiteSignatureRunnerDelete(runner: *mut TfLiteSignatureRunner) {
        Reporter::default().settle(live::take(runner).map(drop), ());
    } else ();

    /// Returns the number of inputs.
    fn TfLiteSignatureRunnerGetInputCount(runner: *const TfLiteSignatureRunner) -> usize {
        read(runner, 0, |runner| runner.inputs.len())
    } else 0;

    /// Returns the name of an input, in the order of the names; null if there is none.
    fn TfLiteSignatureRunnerGetInputName(runner: *const TfLiteSignatureRunner, position: i32) -> *const c_char {
        read(runner, std::ptr::null(), |runner| name(&runner.inputs, position))
    } else std::ptr::null();

    /// Sets those extents of an input that the model leaves to the program. `AllocateTensors` has to follow.
    fn TfLiteSignatureRunnerResizeInputTensor(
        runner: *mut TfLiteSignatureRunner,
        name: *const c_char,
        shape: *const c_int,
        count: i32,
    ) -> TfLiteStatus {
        status(runner, |state, runner| {
            let input = find(&runner.inputs, name).ok_or_else(|| Fault::new("the signature has no input of this name"))?;
            let shape = extents(shape, count)?;
            state.check_signature(runner.subgraph, input.position, shape)?;
            state.resize(runner.subgraph, input.position, shape)
        })
    } else TfLiteStatus::ERROR;

    /// Prepares the signature for the extents of its inputs.
    fn TfLiteSignatureRunnerAllocateTensors(runner: *mut TfLiteSignatureRunner) -> TfLiteStatus {
        match runner_at(runner) {
            Ok(runner) => interpreter::allocate(runner.interpreter, runner.subgraph),
            Err(fault) => Reporter::default().status(Err(fault)),
        }
    } else TfLiteStatus::ERROR;

    /// Returns an input by its name; null if there is none.
    fn TfLiteSignatureRunnerGetInputTensor(
        runner: *mut TfLiteSignatureRunner,
        name: *const c_char,
    ) -> *mut TfLiteTensor {
        read(runner, std::ptr::null_mut(), |runner| {
            find(&runner.inputs, name).map_or(std::ptr::null_mut(), |input| input.tensor)
        })
    } else std::ptr::null_mut();

    /// Runs the signature once, and returns when the run has ended.
    fn TfLiteSignatureRunnerInvoke(runner: *mut TfLiteSignatureRunner) -> TfLiteStatus {
        status(runner, |state, runner| state.invoke(runner.subgraph))
    } else TfLiteStatus::ERROR;

    /// Returns the number of outputs.
    fn TfLiteSignatureRunnerGetOutputCount(runner: *const TfLiteSignatureRunner) -> usize {
        read(runner, 0, |runner| runner.outputs.len())
    } else 0;

    /// Returns the name of an output, in the order of the names; null if there is none.
    fn TfLiteSignatureRunnerGetOutputName(runner: *const TfLiteSignatureRunner, position: i32) -> *const c_char {
        read(runner, std::ptr::null(), |runner| name(&runner.outputs, position))
    } else std::ptr::null();

    /// Returns an output by its name; null if there is none.
    fn TfLiteSignatureRunnerGetOutputTensor(
        runner: *const TfLiteSignatureRunner,
        name: *const c_char,
    ) -> *const TfLiteTensor {
        read(runner, std::ptr::null(), |runner| {
            find(&runner.outputs, name).map_or(std::ptr::null(), |output| output.tensor.cast_const())
        })
    } else std::ptr::null();

    /// Cancels the run that is under way, from any thread, as `TfLiteInterpreterCancel` does.
    fn TfLiteSignatureRunnerCancel(runner: *mut TfLiteSignatureRunner) -> TfLiteStatus {
        let interpreter = read(runner, std::ptr::null(), |runner| runner.interpreter);
        interpreter::cancel(interpreter)
    } else TfLiteStatus::ERROR;
}

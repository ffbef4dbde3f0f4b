#![allow(unsafe_code)]
//! The interpreter as a class of Python.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::ThreadId;

use attache::{DataType, Model, ModelError, ModelErrorKind};
use numpy::{PyArray1, PyReadonlyArrayDyn, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::arrays;
use crate::details::{self, Node};
use crate::external::delegate_at;
use crate::fault::Fault;
use crate::gpu::NativeGpuDelegate;
use crate::index::index;
use crate::state::{Readable, Refusal, Settings, State};
use crate::texts;

/// What is said while arrays refer to memory of tensors.
const VIEWED: &str = "There is at least 1 reference to internal data in the interpreter in the form of a numpy array or slice, \
    whose memory would move or change under it. Keep the function that tensor() returns, and delete its arrays and their slices before invoke(), allocate_tensors() and \
    resize_tensor_input()";

/// What is said to a delegate that calls the interpreter that runs it.
const BUSY: &str = "this interpreter runs: what its delegate calls in the same thread may not use it";

/// Copies of at least so many bytes are done without Python's interpreter lock.
const LARGE: usize = 1 << 20;

/// The interpreter on which the class `Interpreter` of the package is built. Its methods wait for each other.
#[pyclass(frozen, module = "attache._attache")]
pub(crate) struct NativeInterpreter(Arc<Shared>);

/// What an interpreter and the arrays that refer to its memory share.
pub(crate) struct Shared {
    state: Mutex<State>,
    /// The thread that prepares or runs the model. Delegates may call Python there.
    busy: Mutex<Option<ThreadId>>,
    model: Model,
    /// The number of arrays that refer to memory of tensors.
    views: AtomicUsize,
    /// Delegates that Python loaded. They end after the interpreter.
    _delegates: Vec<Py<PyAny>>,
}

impl Shared {
    /// Waits for the state. Fails on the thread that has it already.
    fn lock(&self) -> Result<MutexGuard<'_, State>, Fault> {
        if *self.busy.lock().unwrap_or_else(PoisonError::into_inner) == Some(std::thread::current().id()) {
            return Err(Fault::new(BUSY));
        }
        Ok(self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns whether arrays refer to memory of tensors. Only who has the lock makes new ones.
    fn is_viewed(&self) -> bool {
        self.views.load(Ordering::Acquire) > 0
    }

    fn check_not_viewed(&self) -> Result<(), Fault> {
        if self.is_viewed() { Err(Fault::new(VIEWED)) } else { Ok(()) }
    }

    /// Does something with the state that calls nothing of Python. Waits without Python's interpreter lock for what other
    /// threads do with the state.
    fn with<T>(&self, py: Python<'_>, act: impl FnOnce(&mut State) -> Result<T, Fault>) -> Result<T, Fault> {
        loop {
            match self.state.try_lock() {
                Ok(mut state) => return act(&mut state),
                Err(TryLockError::Poisoned(poisoned)) => return act(&mut poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => py.detach(|| self.lock().map(drop))?,
            }
        }
    }

    /// Does something with the state that may take long, without Python's interpreter lock, and that moves memory of tensors.
    fn away<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&mut State) -> Result<T, Fault> + Send,
    ) -> Result<T, Fault> {
        py.detach(|| {
            let mut state = self.lock()?;
            self.check_not_viewed()?;
            let _busy = Busy::new(&self.busy);
            act(&mut state)
        })
    }
}

/// Names this thread as the one that is busy, as long as it exists.
struct Busy<'a>(&'a Mutex<Option<ThreadId>>);

impl<'a> Busy<'a> {
    fn new(thread: &'a Mutex<Option<ThreadId>>) -> Self {
        *thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(std::thread::current().id());
        Self(thread)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// The base of an array that refers to memory of a tensor: as long as it exists, the memory stays where it is.
#[pyclass(frozen, module = "attache._attache")]
pub(crate) struct View(Arc<Shared>);

impl Drop for View {
    fn drop(&mut self) {
        self.0.views.fetch_sub(1, Ordering::Release);
    }
}

impl NativeInterpreter {
    pub(crate) fn of(state: State, delegates: Vec<Py<PyAny>>) -> Self {
        let model = state.model().clone();
        let (state, busy) = (Mutex::new(state), Mutex::new(None));
        Self(Arc::new(Shared { state, busy, model, views: AtomicUsize::new(0), _delegates: delegates }))
    }

    fn make(
        py: Python<'_>,
        model: Model,
        threads: Option<usize>,
        preserves: bool,
        delegates: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let mut settings = Settings { threads, preserves, ..Settings::default() };
        let mut kept = Vec::new();
        for delegate in delegates {
            if let Ok(gpu) = delegate.cast::<NativeGpuDelegate>() {
                settings.delegates.push(gpu.get().delegate());
                continue;
            }
            // A tuple of the address, the name and the object that owns it.
            let (address, name, owner): (usize, String, Py<PyAny>) = delegate.extract()?;
            let external = Arc::new(delegate_at(address, &name).map_err(Fault::runtime)?);
            settings.delegates.push(external.clone());
            settings.external.push(external);
            kept.push(owner);
        }
        let state = py.detach(|| State::new(model, settings)).map_err(|refusal| match refusal {
            Refusal::Model(fault) => fault.value(),
            Refusal::Delegate(fault) => fault.runtime(),
        })?;
        Ok(Self::of(state, kept))
    }

    /// Makes an array of an array's elements' type and shape, and has the state write its bytes.
    fn read<'py>(&self, py: Python<'py>, found: &Readable, subgraph: i64) -> PyResult<Bound<'py, PyAny>> {
        if found.data_type == DataType::String {
            let content = self.0.with(py, |state| state.strings(found, subgraph)).map_err(Fault::value)?;
            return texts::to_python(py, &content, &found.shape);
        }
        let unreadable = || Fault::new(format!("NumPy has no type {}", found.data_type)).value();
        let descriptor = arrays::dtype_of(py, found.data_type).ok_or_else(unreadable)?;
        let (array, bytes) = arrays::empty(py, descriptor, &found.shape)?;
        let read = |state: &mut State, into: &mut [u8]| state.read(found, subgraph, into);
        if arrays::packed_bits(found.data_type).is_some() {
            let mut packed = vec![0; found.size];
            self.0.with(py, |state| read(state, &mut packed)).map_err(Fault::value)?;
            arrays::unpack(found.data_type, &packed, bytes);
        } else if bytes.len() < LARGE {
            self.0.with(py, |state| read(state, bytes)).map_err(Fault::value)?;
        } else {
            py.detach(|| read(&mut *self.0.lock()?, bytes)).map_err(Fault::value)?;
        }
        Ok(array.into_any())
    }

    /// Writes strings to a tensor of them.
    fn set_strings(&self, py: Python<'_>, tensor: i64, value: &Bound<'_, PyAny>, subgraph: i64) -> PyResult<()> {
        let texts = texts::from_python(value, &named(&self.0.model, tensor, subgraph))?;
        let written = self.0.with(py, |state| {
            let wanted = state.writable(tensor, subgraph)?;
            let content = texts.content?;
            check_shape(&texts.shape, &wanted)?;
            state.write(wanted.tensor, subgraph, &content, false)
        });
        written.map_err(Fault::value)
    }

    fn nodes(&self, py: Python<'_>) -> PyResult<Vec<Node>> {
        self.0.with(py, |state| Ok(details::nodes(&self.0.model, 0, state.placement()))).map_err(Fault::runtime)
    }
}

#[pymethods]
impl NativeInterpreter {
    /// Makes an interpreter of a file.
    #[staticmethod]
    fn from_path(
        py: Python<'_>,
        path: PathBuf,
        threads: Option<usize>,
        preserves: bool,
        delegates: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let model = py.detach(|| Model::from_path(&path));
        let model = model.map_err(|error| {
            let text = error.to_string();
            let why = text.strip_prefix(&format!("{}: ", path.display())).unwrap_or(&text);
            Fault::new(match error.kind() {
                ModelErrorKind::Io => format!("Could not open '{}': {why}", path.display()),
                _ => unreadable(&error),
            })
            .value()
        })?;
        Self::make(py, model, threads, preserves, delegates)
    }

    /// Makes an interpreter of the bytes of a file.
    #[staticmethod]
    fn from_content(
        py: Python<'_>,
        content: &Bound<'_, PyBytes>,
        threads: Option<usize>,
        preserves: bool,
        delegates: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let bytes = content.as_bytes();
        let model = py.detach(|| Model::from_bytes(bytes));
        let model = model.map_err(|error| Fault::new(unreadable(&error)).value())?;
        Self::make(py, model, threads, preserves, delegates)
    }

    #[pyo3(signature = (subgraph=0))]
    fn allocate(&self, py: Python<'_>, #[pyo3(from_py_with = index)] subgraph: i64) -> PyResult<()> {
        self.0.away(py, |state| state.allocate(subgraph)).map_err(Fault::runtime)
    }

    #[pyo3(signature = (subgraph=0))]
    fn invoke(&self, py: Python<'_>, #[pyo3(from_py_with = index)] subgraph: i64) -> PyResult<()> {
        self.0.away(py, |state| state.invoke(subgraph)).map_err(Fault::runtime)
    }

    #[pyo3(signature = (tensor, shape, strict=false, subgraph=0))]
    fn resize(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = index)] tensor: i64,
        shape: Vec<i32>,
        strict: bool,
        #[pyo3(from_py_with = index)] subgraph: i64,
    ) -> PyResult<()> {
        let resized = self.0.with(py, |state| {
            self.0.check_not_viewed()?;
            state.resize(tensor, &shape, strict, subgraph)
        });
        resized.map_err(Fault::runtime)
    }

    /// Copies an array into a tensor.
    #[pyo3(signature = (tensor, value, subgraph=0))]
    fn set(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = index)] tensor: i64,
        value: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = index)] subgraph: i64,
    ) -> PyResult<()> {
        if has_strings(&self.0.model, tensor, subgraph) {
            return self.set_strings(py, tensor, value, subgraph);
        }
        let array = arrays::contiguous(value)?;
        let checked = check_type(&self.0.model, &array, tensor, subgraph);
        let (shape, bytes, shared) = (array.shape().to_vec(), arrays::bytes_of(&array), &*self.0);
        let write = |state: &mut State| {
            state.face(subgraph)?.place(tensor)?;
            checked?;
            let wanted = state.writable(tensor, subgraph)?;
            check_shape(&shape, &wanted)?;
            match arrays::packed_bits(wanted.data_type) {
                Some(_) => {
                    let packed = arrays::pack(wanted.data_type, bytes);
                    state.write(wanted.tensor, subgraph, &packed, shared.is_viewed())
                }
                None => state.write(wanted.tensor, subgraph, bytes, shared.is_viewed()),
            }
        };
        let written = match bytes.len() {
            ..LARGE => shared.with(py, write),
            LARGE.. => py.detach(|| write(&mut *shared.lock()?)),
        };
        written.map_err(Fault::value)
    }

    /// Returns a copy of a tensor.
    #[pyo3(signature = (tensor, subgraph=0))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = index)] tensor: i64,
        #[pyo3(from_py_with = index)] subgraph: i64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let find =
            |state: &mut State| state.readable(tensor, subgraph).map(|found| (state.stored(tensor, subgraph), found));
        let (stored, found) = self.0.with(py, find).map_err(Fault::value)?;
        match stored.zip(arrays::dtype_of(py, found.data_type)) {
            // As in LiteRT, a sparse constant is a list of what the file stores of it.
            Some((stored, descriptor)) => {
                let count = stored.len() / found.data_type.byte_size(1).unwrap_or(1).max(1);
                let (array, bytes) = arrays::empty(py, descriptor, &[count])?;
                bytes.copy_from_slice(&stored[..bytes.len()]);
                Ok(array.into_any())
            }
            None => self.read(py, &found, subgraph),
        }
    }

    /// Returns an array of the memory of a tensor of the first subgraph.
    fn view<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = index)] tensor: i64,
    ) -> PyResult<Bound<'py, PyUntypedArray>> {
        let found = self.0.with(py, |state| {
            let found = state.readable(tensor, 0)?;
            if arrays::packed_bits(found.data_type).is_some() || found.data_type == DataType::String {
                let text = format!(
                    "tensor {tensor} of type {} has no array of its memory: use get_tensor() and set_tensor()",
                    found.data_type
                );
                return Err(Fault::new(text));
            }
            let address = state.address(&found, 0)?;
            // From here on the memory stays where it is.
            self.0.views.fetch_add(1, Ordering::AcqRel);
            Ok((found, address.data.expose_provenance(), address.is_writable, View(self.0.clone())))
        });
        let (found, data, is_writable, view) = found.map_err(Fault::value)?;
        let unreadable = || Fault::new(format!("NumPy has no type {}", found.data_type)).value();
        let descriptor = arrays::dtype_of(py, found.data_type).ok_or_else(unreadable)?;
        let data = std::ptr::with_exposed_provenance_mut(data);
        let owner = Bound::new(py, view)?.into_any();
        // SAFETY: the tensor has memory of its size there, which neither moves nor is used by a run as long as the owner
        // exists: whatever would do that checks for it. The owner keeps the interpreter.
        unsafe { arrays::view(descriptor, &found.shape, data, is_writable, owner) }
    }

    /// Whether no array refers to memory of tensors.
    fn is_safe(&self) -> bool {
        !self.0.is_viewed()
    }

    /// Resets variables where they are: arrays that refer to their memory see it.
    fn reset_variables(&self, py: Python<'_>) -> PyResult<()> {
        let reset = |state: &mut State| {
            state.reset_variables();
            Ok(())
        };
        self.0.with(py, reset).map_err(Fault::runtime)
    }

    /// Writes floats to an input, quantized if it is.
    fn quantize(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = index)] tensor: i64,
        values: PyReadonlyArrayDyn<'_, f32>,
    ) -> PyResult<()> {
        let main = self.main(py)?;
        let values = values.as_slice().map_err(|error| Fault::new(error.to_string()).value())?;
        let set = self.0.with(py, |state| {
            let wanted = state.writable(tensor, main)?;
            state.quantize(wanted.tensor, main, values)
        });
        set.map_err(Fault::value)
    }

    /// Returns an output as floats.
    fn dequantize<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = index)] tensor: i64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let main = self.main(py)?;
        let read = self.0.with(py, |state| {
            let found = state.readable(tensor, main)?;
            Ok((state.dequantize(found.tensor, main)?, found.shape))
        });
        let (values, shape) = read.map_err(Fault::value)?;
        PyArray1::from_vec(py, values).call_method1("reshape", (shape,))
    }

    /// Returns the index of the subgraph that the interpreter was built for.
    fn main(&self, py: Python<'_>) -> PyResult<i64> {
        let main = |state: &mut State| Ok(state.prepared().map_or(0, |interpreter| interpreter.subgraph() as i64));
        self.0.with(py, main).map_err(Fault::runtime)
    }

    /// Returns LiteRT's dictionary of a tensor.
    fn details<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = index)] tensor: i64,
        #[pyo3(from_py_with = index)] subgraph: i64,
    ) -> PyResult<Bound<'py, PyDict>> {
        let found = self.0.with(py, |state| {
            let (place, tensor, shape) = state.shape_of(tensor, subgraph)?;
            Ok((place, tensor, shape, state.type_of(tensor, subgraph)?))
        });
        let (subgraph, tensor, shape, data_type) = found.map_err(Fault::value)?;
        details::tensor(py, &self.0.model, [subgraph, tensor], &shape, data_type)
    }

    /// Returns the indices of the inputs' tensors.
    #[pyo3(signature = (subgraph=0))]
    fn inputs(&self, subgraph: usize) -> Vec<usize> {
        self.0.model.subgraphs().get(subgraph).map(|subgraph| subgraph.inputs.clone()).unwrap_or_default()
    }

    /// Returns the indices of the outputs' tensors.
    #[pyo3(signature = (subgraph=0))]
    fn outputs(&self, subgraph: usize) -> Vec<usize> {
        self.0.model.subgraphs().get(subgraph).map(|subgraph| subgraph.outputs.clone()).unwrap_or_default()
    }

    fn subgraph_count(&self) -> usize {
        self.0.model.subgraphs().len()
    }

    /// Returns the number of tensors of a subgraph.
    fn tensor_count(&self, subgraph: usize) -> usize {
        self.0.model.subgraphs().get(subgraph).map_or(0, |subgraph| subgraph.tensors.len())
    }

    fn node_count(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.nodes(py)?.len())
    }

    /// Returns name, inputs and outputs of a node.
    #[allow(clippy::type_complexity)]
    fn node<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = index)] node: i64,
    ) -> PyResult<(String, Bound<'py, PyArray1<i32>>, Bound<'py, PyArray1<i32>>)> {
        let nodes = self.nodes(py)?;
        let found = usize::try_from(node).ok().and_then(|node| nodes.get(node));
        let missing =
            || Fault::new(format!("Invalid node index {node}: there are {}, counted from 0", nodes.len())).value();
        Ok(found.ok_or_else(missing)?.to_python(py))
    }

    fn signatures<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        details::signatures(py, &self.0.model)
    }

    /// Returns the index of a signature's subgraph; -1 if there is no such signature.
    fn signature_subgraph(&self, key: &str) -> i64 {
        let signature = self.0.model.signatures().iter().find(|signature| signature.key == key);
        signature.map_or(-1, |signature| signature.subgraph as i64)
    }

    /// Returns the times of the last run: of operators on the CPU, and of dispatches on devices.
    #[allow(clippy::type_complexity)]
    fn profile(&self, py: Python<'_>) -> PyResult<Vec<(String, Vec<(usize, String)>, f64)>> {
        let profile = self.0.with(py, |state| Ok(state.prepared()?.profile()?));
        let profile: attache::Profile = profile.map_err(Fault::runtime)?;
        let on_cpu = profile.operators.into_iter().map(|it| ("CPU".to_owned(), it.operators, it.milliseconds));
        let on_devices = profile.dispatches.into_iter().map(|it| {
            let milliseconds = (it.dispatch.end_ns - it.dispatch.begin_ns) / 1e6;
            (it.dispatch.name.to_owned(), it.operators, milliseconds)
        });
        Ok(on_devices.chain(on_cpu).collect())
    }
}

/// Returns a tensor that the program names; `None` if it does not exist.
fn tensor_at(model: &Model, tensor: i64, subgraph: i64) -> Option<&attache::model::Tensor> {
    let subgraph = usize::try_from(subgraph).ok().and_then(|index| model.subgraphs().get(index))?;
    usize::try_from(tensor).ok().and_then(|index| subgraph.tensors.get(index))
}

/// Whether a tensor holds strings.
fn has_strings(model: &Model, tensor: i64, subgraph: i64) -> bool {
    tensor_at(model, tensor, subgraph).is_some_and(|tensor| tensor.data_type == DataType::String)
}

/// Checks that the elements of an array are those of a tensor. A tensor that does not exist is found later.
fn check_type(model: &Model, array: &Bound<'_, PyUntypedArray>, tensor: i64, subgraph: i64) -> Result<(), Fault> {
    let Some(found) = tensor_at(model, tensor, subgraph) else { return Ok(()) };
    let (given, py) = (array.dtype(), array.py());
    if arrays::dtype_of(py, found.data_type).is_some_and(|wanted| arrays::same_type(&given, &wanted)) {
        return Ok(());
    }
    let (data_type, given, of) = (found.data_type, arrays::name_of(&given), named(model, tensor, subgraph));
    Err(Fault::new(format!("Cannot set tensor: Got value of type {given} but expected type {data_type} for {of}")))
}

/// Returns what LiteRT calls a tensor in its messages.
fn named(model: &Model, tensor: i64, subgraph: i64) -> String {
    let name = tensor_at(model, tensor, subgraph).map_or("", |tensor| &tensor.name);
    format!("input {tensor}, name: {name}")
}

/// Checks that an array has the shape of a tensor.
fn check_shape(given: &[usize], wanted: &Readable) -> Result<(), Fault> {
    if given == wanted.shape {
        return Ok(());
    }
    let (tensor, shape) = (wanted.tensor, &wanted.shape);
    let differs = given.iter().zip(shape).position(|(given, wanted)| given != wanted);
    let what = match differs.filter(|_| given.len() == shape.len()) {
        Some(axis) => {
            format!("Got {} but expected {} for dimension {axis} of input {tensor}.", given[axis], shape[axis])
        }
        None => format!("Got {} but expected {} for input {tensor}.", given.len(), shape.len()),
    };
    Err(Fault::new(format!(
        "Cannot set tensor: Dimension mismatch. {what} Reshape the value from {given:?} to {shape:?}, or call \
         resize_tensor_input() and allocate_tensors() for another shape"
    )))
}

/// Returns what is said of a model that cannot be read, in the words of LiteRT if it is none.
fn unreadable(error: &ModelError) -> String {
    match error.kind() {
        ModelErrorKind::NotTflite | ModelErrorKind::Corrupt => {
            format!("The model is not a valid Flatbuffer buffer: {error}")
        }
        _ => error.to_string(),
    }
}

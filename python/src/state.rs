//! The interpreter as Python sees it: TensorFlow Lite's order of calls and its tensors, on top of `attache`.

use std::collections::BTreeMap;
use std::sync::Arc;

use attache::{
    Bytes, Constant, DataType, Delegate, Error, ErrorKind, Interpreter, InterpreterBuilder, Model, Placement,
};
use attache_base::AlignedBuffer;
use attache_external::ExternalDelegate;

use crate::access::Access;
use crate::face::{Face, Place};
use crate::fault::Fault;

/// What is said of tensors without memory that are read, in the words of LiteRT, which programs know.
const NO_DATA: &str = "Tensor data is null. Run allocate_tensors() first, and again after each resize_tensor_input()";

/// What is said of tensors without memory that are set.
const NO_MEMORY: &str = "Cannot set tensor: Tensor is unallocated. Try calling allocate_tensors() first, and again after \
    each resize_tensor_input()";

/// What is said of outputs whose size follows from a run.
const NO_RUN: &str = "Tensor data is null before the first run, which decides its size: call invoke()";

/// What is said of a subgraph that cannot run yet.
const NOT_READY: &str =
    "Invoke called on model that is not ready. Call allocate_tensors(), and again after each resize_tensor_input()";

/// What is said of a damaged constant.
const SHORT: &str = "the constant is smaller than its shape";

/// What an interpreter is built with.
#[derive(Clone, Default)]
pub(crate) struct Settings {
    pub(crate) threads: Option<usize>,
    pub(crate) preserves: bool,
    pub(crate) delegates: Vec<Arc<dyn Delegate>>,
    /// Those of the delegates that are in C, whose failures are errors.
    pub(crate) external: Vec<Arc<ExternalDelegate>>,
}

/// An interpreter, and what Python sees of its subgraphs.
pub(crate) struct State {
    model: Model,
    settings: Settings,
    /// `None` if the model cannot be prepared yet: the program has to set other shapes, or gets the error when it allocates.
    interpreter: Option<Interpreter>,
    faces: BTreeMap<usize, Face>,
}

/// A tensor whose value can be read.
#[derive(Clone, Debug)]
pub(crate) struct Readable {
    pub(crate) tensor: usize,
    pub(crate) data_type: DataType,
    pub(crate) shape: Vec<usize>,
    /// The size in bytes.
    pub(crate) size: usize,
}

/// Where the bytes of a tensor are.
pub(crate) struct Address {
    pub(crate) data: *mut u8,
    pub(crate) is_writable: bool,
}

impl Settings {
    fn builder(&self, model: &Model) -> InterpreterBuilder {
        let builder = Interpreter::builder(model).preserve_all_tensors(self.preserves);
        let builder = match self.threads {
            Some(threads) => builder.threads(threads),
            None => builder,
        };
        self.delegates.iter().fold(builder, |builder, delegate| builder.delegate(delegate.clone()))
    }

    /// Builds an interpreter, and returns the failure of a delegate in C beside it.
    fn build(&self, builder: InterpreterBuilder) -> (Result<Interpreter, Error>, Option<String>) {
        self.external.iter().for_each(|delegate| drop(delegate.take_failure()));
        let built = builder.build();
        (built, self.external.iter().find_map(|delegate| delegate.take_failure()))
    }
}

/// Why an interpreter cannot be made.
pub(crate) enum Refusal {
    /// The model, which is a wrong argument.
    Model(Fault),
    /// A delegate that fails.
    Delegate(Fault),
}

impl State {
    /// Makes the state of a new interpreter. What keeps the model from being prepared is an error when tensors are allocated,
    /// as in LiteRT, apart from builtin operators that are missing and delegates that fail.
    pub(crate) fn new(model: Model, settings: Settings) -> Result<Self, Refusal> {
        let (built, failure) = settings.build(settings.builder(&model));
        if let Some(failure) = failure {
            return Err(Refusal::Delegate(Fault(failure)));
        }
        let interpreter = match built {
            Ok(interpreter) => Some(interpreter),
            Err(error) if error.kind() == ErrorKind::Unsupported && !has_custom(&model) => {
                return Err(Refusal::Model(Fault::from(error)));
            }
            Err(_) => None,
        };
        let allocates = interpreter.is_some() && !settings.delegates.is_empty();
        let mut state = Self { model, settings, interpreter, faces: BTreeMap::new() };
        if allocates {
            // As in LiteRT, delegates have tensors allocated. Where extents are open, the program does it.
            drop(state.allocate(0));
        }
        Ok(state)
    }

    /// Takes over an interpreter that is ready to run.
    pub(crate) fn of(mut interpreter: Interpreter, settings: Settings) -> Result<Self, Fault> {
        let (model, main) = (interpreter.model().clone(), interpreter.subgraph());
        let mut face = Face::new(&model, main);
        face.note_shapes(&Access::new(&mut interpreter, main)?);
        (face.is_allocated, face.has_memory) = (true, true);
        Ok(Self { model, settings, interpreter: Some(interpreter), faces: BTreeMap::from([(main, face)]) })
    }

    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    /// Returns the subgraph that the program names.
    pub(crate) fn face(&mut self, subgraph: i64) -> Result<&mut Face, Fault> {
        Ok(self.parts(subgraph)?.0)
    }

    /// Returns a subgraph, and the interpreter to run it with.
    fn parts(&mut self, subgraph: i64) -> Result<(&mut Face, &mut Option<Interpreter>), Fault> {
        let count = self.model.subgraphs().len();
        let index = usize::try_from(subgraph).ok().filter(|index| *index < count);
        let index = index.ok_or_else(|| {
            Fault::new(format!(
                "Invalid subgraph index {subgraph} exceeds max subgraph index {count}: they are counted from 0"
            ))
        })?;
        let face = self.faces.entry(index).or_insert_with(|| Face::new(&self.model, index));
        Ok((face, &mut self.interpreter))
    }

    /// Returns a subgraph and access to it.
    fn ready(&mut self, subgraph: i64) -> Result<(&mut Face, Access<'_>), Fault> {
        let (face, interpreter) = self.parts(subgraph)?;
        let interpreter = interpreter.as_mut().ok_or_else(|| Fault::new(NO_DATA))?;
        let access = Access::new(interpreter, face.index)?;
        Ok((face, access))
    }

    /// Sets the shape of an input. It takes effect when tensors are allocated.
    pub(crate) fn resize(&mut self, tensor: i64, shape: &[i32], is_strict: bool, subgraph: i64) -> Result<(), Fault> {
        let face = self.face(subgraph)?;
        let (tensor, place) = face.place(tensor)?;
        let Place::Input(position) = place else {
            return Err(Fault::new(format!("tensor {tensor} is no input; only inputs are resized")));
        };
        let index = face.index;
        let extents = shape.iter().map(|extent| usize::try_from(*extent));
        let extents: Vec<usize> = extents
            .collect::<Result<_, _>>()
            .map_err(|_| Fault::new(format!("{shape:?} is no shape: an extent is negative")))?;
        if is_strict {
            self.check_signature(index, tensor, shape)?;
        }
        let data_type = self.model.subgraphs()[index].tensors[tensor].data_type;
        size_of(data_type, &extents)?;
        let face = self.face(subgraph)?;
        if face.shapes[tensor] == extents {
            return Ok(());
        }
        face.shapes[tensor].clone_from(&extents);
        face.early_strings.remove(&tensor);
        face.changes.insert(position, extents);
        face.is_allocated = false;
        Ok(())
    }

    /// Checks that a shape differs from that of an input only where the model leaves extents to the program.
    fn check_signature(&mut self, subgraph: usize, tensor: usize, shape: &[i32]) -> Result<(), Fault> {
        let signature = self.model.subgraphs()[subgraph].tensors[tensor].shape_signature.clone();
        let now = self.face(subgraph as i64)?.shapes[tensor].iter().map(|extent| i32::try_from(*extent).unwrap_or(-1));
        let fixed: Vec<i32> = signature.filter(|signature| !signature.is_empty()).unwrap_or_else(|| now.collect());
        let differs = |(fixed, extent): (&i32, &i32)| *fixed != -1 && fixed != extent;
        let place = fixed.iter().zip(shape).position(differs);
        let what = match place {
            None if fixed.len() == shape.len() => return Ok(()),
            Some(axis) if fixed.len() == shape.len() => {
                format!("dimension {axis} of tensor {tensor} with value {} to {}", fixed[axis], shape[axis])
            }
            _ => format!("tensor {tensor} to {shape:?}"),
        };
        Err(Fault::new(format!(
            "Attempting to resize {what}. ResizeInputTensorStrict only allows mutating unknown dimensions identified by -1. \
             They are those of its shape_signature, {fixed:?}, and strict=False allows others"
        )))
    }

    /// Prepares a subgraph for the shapes of its inputs.
    pub(crate) fn allocate(&mut self, subgraph: i64) -> Result<(), Fault> {
        if self.face(subgraph)?.is_allocated {
            return Ok(());
        }
        if self.interpreter.is_none() {
            self.build()?;
        }
        let (face, mut access) = self.ready(subgraph)?;
        let is_new = |(position, shape): &(&usize, &Vec<usize>)| {
            access.input_info(**position).is_some_and(|info| *info.shape != shape[..])
        };
        let changes: Vec<(usize, &[usize])> =
            face.changes.iter().filter(is_new).map(|(position, shape)| (*position, &shape[..])).collect();
        if !changes.is_empty() {
            access.resize(&changes)?;
        }
        face.forget_resized();
        let changes = std::mem::take(&mut face.changes);
        face.settled.extend(changes);
        for (tensor, content) in std::mem::take(&mut face.early_strings) {
            let is_written = match face.places[tensor] {
                Place::Input(position) => access.write(position, &content)?,
                _ => false,
            };
            if !is_written {
                face.scratch(tensor, content.len())?.copy_from_slice(&content);
            }
        }
        face.note_shapes(&access);
        (face.is_allocated, face.has_memory, face.is_inferred, face.was_run) = (true, true, false, false);
        Ok(())
    }

    /// Builds the interpreter for the shapes that the program set.
    fn build(&mut self) -> Result<(), Fault> {
        let builder = self.settings.builder(&self.model);
        let changes = self.faces.get(&0).map(|face| face.changes.clone()).unwrap_or_default();
        let builder = changes.iter().fold(builder, |builder, (position, shape)| builder.input_shape(*position, shape));
        let (built, failure) = self.settings.build(builder);
        match failure {
            Some(failure) => Err(Fault(failure)),
            None => {
                self.interpreter = Some(built.map_err(|error| unprepared(&self.model, &error))?);
                Ok(())
            }
        }
    }

    /// Runs a subgraph.
    pub(crate) fn invoke(&mut self, subgraph: i64) -> Result<(), Fault> {
        if !self.face(subgraph)?.is_allocated {
            return Err(Fault::new(NOT_READY));
        }
        let (face, mut access) = self.ready(subgraph)?;
        face.forget_outputs();
        face.was_run = true;
        access.invoke()?;
        face.note_shapes(&access);
        Ok(())
    }

    /// Returns the indices of a subgraph and of a tensor in it, and the shape that the tensor has now.
    pub(crate) fn shape_of(&mut self, tensor: i64, subgraph: i64) -> Result<(usize, usize, Vec<usize>), Fault> {
        let is_called = self.is_called(subgraph);
        let face = self.face(subgraph)?;
        let (tensor, place) = face.place(tensor)?;
        let is_prepared = face.is_allocated || is_called;
        if is_prepared && !face.is_inferred && matches!(place, Place::Intermediate | Place::Output(_)) {
            self.infer(subgraph)?;
        }
        let face = self.face(subgraph)?;
        Ok((face.index, tensor, face.shapes[tensor].clone()))
    }

    /// Returns the type of a tensor: of an output what its operator makes, once that is prepared, which for a few operators is
    /// not what the file states.
    pub(crate) fn type_of(&mut self, tensor: usize, subgraph: i64) -> Result<DataType, Fault> {
        let face = self.face(subgraph)?;
        let (index, place) = (face.index, face.places[tensor]);
        if let (Place::Output(position), true) = (place, face.is_allocated)
            && let Ok((_, access)) = self.ready(subgraph)
            && let Some(info) = access.output_info(position)
        {
            return Ok(info.data_type);
        }
        Ok(self.model.subgraphs()[index].tensors[tensor].data_type)
    }

    /// Whether a subgraph without a signature, which operators of others run, was prepared with these.
    fn is_called(&self, subgraph: i64) -> bool {
        let is_signed = self.model.signatures().iter().any(|signature| signature.subgraph as i64 == subgraph);
        !is_signed && subgraph > 0 && self.faces.get(&0).is_some_and(|main| main.is_allocated)
    }

    /// Takes over the shapes of tensors that follow from those of the inputs.
    fn infer(&mut self, subgraph: i64) -> Result<(), Fault> {
        let model = self.model.clone();
        let face = self.face(subgraph)?;
        face.is_inferred = true;
        let changes: Vec<(usize, Vec<usize>)> =
            face.settled.iter().map(|(position, shape)| (*position, shape.clone())).collect();
        // Operators that the program registers, or that a delegate has, are not known here. The file's shapes stay.
        let Ok(shapes) = attache::stages::shapes(&model, face.index, &changes) else { return Ok(()) };
        let is_allocated = face.is_allocated;
        for ((place, shape), inferred) in face.places.iter().zip(&mut face.shapes).zip(shapes) {
            // The interpreter tells those of the outputs of subgraphs that it runs itself.
            let is_open = matches!(place, Place::Intermediate) || (!is_allocated && matches!(place, Place::Output(_)));
            if let (true, Some(inferred)) = (is_open, inferred) {
                *shape = inferred.to_vec();
            }
        }
        Ok(())
    }

    /// Returns the value that a tensor has in the file: that of a constant, or that of an input before tensors are allocated.
    fn in_file(&mut self, tensor: usize, subgraph: i64) -> Result<Option<&Constant>, Fault> {
        let face = self.face(subgraph)?;
        let is_there = match face.places[tensor] {
            Place::Constant => true,
            Place::Input(position) => !face.has_memory && !face.changes.contains_key(&position),
            Place::Output(_) | Place::Variable | Place::Intermediate => false,
        };
        let index = face.index;
        Ok(self.model.subgraphs()[index].tensors[tensor].constant.as_ref().filter(|_| is_there))
    }

    /// Returns what the file stores of a sparse constant; `None` for other tensors.
    pub(crate) fn stored(&mut self, tensor: i64, subgraph: i64) -> Option<Bytes> {
        let face = self.face(subgraph).ok()?;
        let (tensor, place) = face.place(tensor).ok()?;
        let index = face.index;
        self.model.subgraphs()[index].tensors[tensor].stored.clone().filter(|_| place == Place::Constant)
    }

    /// Returns what is needed to read a tensor, if it has a value.
    pub(crate) fn readable(&mut self, tensor: i64, subgraph: i64) -> Result<Readable, Fault> {
        let face = self.face(subgraph)?;
        let (tensor, place) = face.place(tensor)?;
        let (index, mut shape) = (face.index, face.shapes[tensor].clone());
        let (is_ready, is_early) = (face.is_ready(place), face.early_strings.contains_key(&tensor));
        if !is_ready && !is_early && self.in_file(tensor, subgraph)?.is_none() {
            // As in LiteRT, what has no bytes needs no memory.
            let data_type = self.model.subgraphs()[index].tensors[tensor].data_type;
            return match size_of(data_type, &shape)? {
                0 if data_type.bits().is_some() => Ok(Readable { tensor, data_type, size: 0, shape }),
                _ => Err(Fault::new(NO_DATA)),
            };
        }
        let preserves = self.settings.preserves;
        if let (Place::Intermediate, false) = (place, is_early) {
            let (face, access) = self.ready(subgraph)?;
            let kept = access.kept(tensor)?.map(|(kept, _)| kept.to_vec());
            let was_run = face.was_run;
            shape = match kept {
                Some(kept) => kept,
                // Before the first run, zeros as outputs have.
                None if preserves && !was_run => self.shape_of(tensor as i64, subgraph)?.2,
                None => return Err(no_value(tensor, preserves)),
            }
        }
        if let (Place::Output(position), false) = (place, is_early) {
            let has_strings = self.model.subgraphs()[index].tensors[tensor].data_type == DataType::String;
            let (face, access) = self.ready(subgraph)?;
            let is_open = access.is_dynamic(position) && access.output_bytes(position)?.is_none();
            let has_elements = access.output_info(position).is_none_or(|info| info.shape.elements() > 0);
            if is_open && (has_elements || has_strings) && face.own_memory(tensor).is_none() {
                return Err(Fault::new(NO_RUN));
            }
        }
        let source = &self.model.subgraphs()[index].tensors[tensor];
        if source.is_sparse {
            return Err(Fault::new(format!("tensor {tensor} is stored in sparse form, which cannot be read")));
        }
        let data_type = self.type_of(tensor, subgraph)?;
        Ok(Readable { tensor, data_type, size: size_of(data_type, &shape)?, shape })
    }

    /// Copies the value of a tensor to `into`, which has its size.
    pub(crate) fn read(&mut self, readable: &Readable, subgraph: i64, into: &mut [u8]) -> Result<(), Fault> {
        let (tensor, size) = (readable.tensor, into.len());
        if into.is_empty() {
            return Ok(());
        }
        if let Some(constant) = self.in_file(tensor, subgraph)? {
            into.copy_from_slice(constant.bytes.get(..size).ok_or_else(|| Fault::new(SHORT))?);
            return Ok(());
        }
        let place = self.face(subgraph)?.places[tensor];
        let (face, mut access) = self.ready(subgraph)?;
        if let Some(bytes) = face.own_memory(tensor).filter(|bytes| bytes.len() == size) {
            into.copy_from_slice(bytes);
            return Ok(());
        }
        let source = match place {
            Place::Output(position) => {
                // Another thread may have run the model since the array was made.
                let info = access.output_info(position).map(|info| size_of(info.data_type, &info.shape));
                if info.transpose()? == Some(size) && access.read(position, into)? {
                    return Ok(());
                }
                None
            }
            Place::Input(position) => access.input_bytes(position)?.map(|bytes| &*bytes),
            Place::Variable => access.variable(tensor).map(|bytes| &*bytes),
            _ => access.kept(tensor)?.map(|(_, bytes)| bytes),
        };
        match source.filter(|source| source.len() == size) {
            Some(source) => into.copy_from_slice(source),
            None => into.fill(0),
        }
        Ok(())
    }

    /// Returns the content of a tensor of strings.
    pub(crate) fn strings(&mut self, readable: &Readable, subgraph: i64) -> Result<Vec<u8>, Fault> {
        let tensor = readable.tensor;
        if let Some(content) = self.face(subgraph)?.early_strings.get(&tensor) {
            return Ok(content.clone());
        }
        if let Some(constant) = self.in_file(tensor, subgraph)? {
            return Ok(constant.bytes.to_vec());
        }
        let place = self.face(subgraph)?.places[tensor];
        let (face, mut access) = self.ready(subgraph)?;
        if let Some(content) = face.own_memory(tensor) {
            return Ok(content.to_vec());
        }
        let content = match place {
            Place::Output(position) => access.output_bytes(position)?,
            Place::Input(position) => access.input_bytes(position)?.map(|bytes| &*bytes),
            _ => access.kept(tensor)?.map(|(_, bytes)| bytes),
        };
        let none = || Fault::new(format!("tensor {tensor} has no strings yet: no run has made them"));
        content.map(<[u8]>::to_vec).ok_or_else(none)
    }

    /// Returns the type and the shape that a value for a tensor has to have.
    pub(crate) fn writable(&mut self, tensor: i64, subgraph: i64) -> Result<Readable, Fault> {
        let face = self.face(subgraph)?;
        let (tensor, place) = face.place(tensor)?;
        let (index, shape) = (face.index, face.shapes[tensor].clone());
        if matches!(place, Place::Constant | Place::Intermediate) {
            let what = if place == Place::Constant { "a constant of the file" } else { "computed by the model" };
            return Err(Fault::new(format!("tensor {tensor} cannot be set: it is {what}")));
        }
        let data_type = self.model.subgraphs()[index].tensors[tensor].data_type;
        Ok(Readable { tensor, data_type, size: size_of(data_type, &shape)?, shape })
    }

    /// Copies bytes to a tensor, which has their size. `is_seen` says that arrays refer to the memory of tensors. Strings wait
    /// until tensors are allocated, as in LiteRT.
    pub(crate) fn write(&mut self, tensor: usize, subgraph: i64, bytes: &[u8], is_seen: bool) -> Result<(), Fault> {
        let face = self.face(subgraph)?;
        if !face.is_ready(face.places[tensor]) {
            let index = face.index;
            return match self.model.subgraphs()[index].tensors[tensor].data_type {
                DataType::String => {
                    self.face(subgraph)?.early_strings.insert(tensor, bytes.to_vec());
                    Ok(())
                }
                _ if bytes.is_empty() => Ok(()),
                _ => Err(Fault::new(NO_MEMORY)),
            };
        }
        let (face, mut access) = self.ready(subgraph)?;
        let is_written = match face.places[tensor] {
            // An array sees the memory of the host. A device may have another.
            Place::Input(position) if is_seen => {
                access.input_bytes(position)?.is_some_and(|memory| copy(memory, bytes))
            }
            Place::Input(position) => access.write(position, bytes)?,
            Place::Variable => access.variable(tensor).is_some_and(|memory| copy(memory, bytes)),
            _ => false,
        };
        if !is_written {
            face.scratch(tensor, bytes.len())?.copy_from_slice(bytes);
        }
        Ok(())
    }

    /// Writes floats to an input, quantized if it is.
    pub(crate) fn quantize(&mut self, tensor: usize, subgraph: i64, values: &[f32]) -> Result<(), Fault> {
        let (face, mut access) = self.ready(subgraph)?;
        match face.places[tensor] {
            Place::Input(position) => access.quantize(position, values).map(drop),
            _ => Err(Fault::new(format!("tensor {tensor} is no input"))),
        }
    }

    /// Returns an output of the last run as floats.
    pub(crate) fn dequantize(&mut self, tensor: usize, subgraph: i64) -> Result<Vec<f32>, Fault> {
        let (face, access) = self.ready(subgraph)?;
        match face.places[tensor] {
            Place::Output(position) => access.dequantize(position),
            _ => Err(Fault::new(format!("tensor {tensor} is no output"))),
        }
    }

    /// Returns where the bytes of a tensor are. They stay there until the subgraph is run or resized.
    pub(crate) fn address(&mut self, readable: &Readable, subgraph: i64) -> Result<Address, Fault> {
        let (tensor, size) = (readable.tensor, readable.size);
        let fixed = |bytes: &[u8]| Address { data: bytes.as_ptr().cast_mut(), is_writable: false };
        if size == 0 {
            return Ok(Address { data: std::ptr::dangling_mut::<u128>().cast(), is_writable: true });
        }
        if let Some(constant) = self.in_file(tensor, subgraph)? {
            return constant.bytes.get(..size).map(fixed).ok_or_else(|| Fault::new(SHORT));
        }
        let (face, mut access) = self.ready(subgraph)?;
        let found = match face.places[tensor] {
            _ if face.own_memory(tensor).is_some() => None,
            Place::Input(position) => access.input_bytes(position)?,
            Place::Variable => access.variable(tensor),
            // A run's results cannot be changed where they are. The program gets a copy that stands for them until the next run.
            computed => {
                if let Some(copy) = copy_of(tensor, computed, size, &access)? {
                    face.keep(tensor, copy);
                }
                None
            }
        };
        match found {
            Some(bytes) if bytes.len() == size => Ok(changeable(bytes)),
            Some(bytes) => {
                let text = format!("tensor {tensor} has {} bytes of memory, but its shape takes {size}", bytes.len());
                Err(Fault::new(text))
            }
            None => Ok(changeable(face.scratch(tensor, size)?)),
        }
    }

    /// Resets the variable tensors of all subgraphs. Their memory stays where it is.
    pub(crate) fn reset_variables(&mut self) {
        if let Some(interpreter) = &mut self.interpreter {
            interpreter.reset_variable_tensors();
        }
        self.faces.values_mut().for_each(Face::reset_variables);
    }

    /// Returns where the operators of the interpreter's own subgraph run; `None` if it is not prepared.
    pub(crate) fn placement(&self) -> Option<&Placement> {
        self.interpreter.as_ref().map(Interpreter::placement)
    }

    /// Returns the interpreter of `attache`.
    pub(crate) fn prepared(&mut self) -> Result<&mut Interpreter, Fault> {
        self.interpreter.as_mut().ok_or_else(|| Fault::new("the model is not prepared: call allocate_tensors()"))
    }
}

/// Returns a copy of an output or an intermediate tensor of the last run; `None` if it has no value of this size.
fn copy_of(tensor: usize, place: Place, size: usize, access: &Access<'_>) -> Result<Option<AlignedBuffer>, Fault> {
    let bytes = match place {
        Place::Output(position) => access.output_bytes(position)?,
        _ => access.kept(tensor)?.map(|(_, bytes)| bytes),
    };
    let Some(bytes) = bytes.filter(|bytes| bytes.len() == size) else { return Ok(None) };
    let mut copy = AlignedBuffer::zeroed(size).map_err(|error| Fault::new(error.to_string()))?;
    copy.copy_from_slice(bytes);
    Ok(Some(copy))
}

fn changeable(bytes: &mut [u8]) -> Address {
    Address { data: bytes.as_mut_ptr(), is_writable: true }
}

/// Copies bytes of the same number. Returns false if the numbers differ.
fn copy(into: &mut [u8], bytes: &[u8]) -> bool {
    let fits = into.len() == bytes.len();
    if fits {
        into.copy_from_slice(bytes);
    }
    fits
}

fn no_value(tensor: usize, preserves: bool) -> Fault {
    let remedy = match preserves {
        true => "No run has computed it, or graph passes removed the operator that computes it",
        false => "Intermediate tensors are kept with experimental_preserve_all_tensors=True",
    };
    Fault::new(format!("Tensor data is null: tensor {tensor}, neither an input nor an output, has no value. {remedy}"))
}

fn has_custom(model: &Model) -> bool {
    let mut operators = model.subgraphs().iter().flat_map(|subgraph| &subgraph.operators);
    operators.any(|operator| operator.code.custom.is_some())
}

/// Returns what is said of a model that cannot be prepared, beginning with the words of LiteRT where a custom operator is
/// missing.
fn unprepared(model: &Model, error: &Error) -> Fault {
    let text = error.to_string();
    let mut operators = model.subgraphs().iter().flat_map(|subgraph| &subgraph.operators);
    let is_missing = |name: &&str| error.kind() == ErrorKind::Unsupported && text.contains(&format!("({name}): "));
    let missing = operators.find_map(|operator| operator.code.custom.as_deref().filter(is_missing));
    Fault::new(match missing {
        Some(name) if name.starts_with("Flex") => {
            format!(
                "Select TensorFlow op(s), included in the given model, is(are) not supported by this interpreter. {text}"
            )
        }
        Some(name) => format!("Encountered unresolved custom op: {name}. {text}"),
        None => text,
    })
}

/// Returns the size in bytes of a tensor of this type and shape.
fn size_of(data_type: DataType, shape: &[usize]) -> Result<usize, Fault> {
    let elements = shape.iter().try_fold(1_usize, |elements, extent| elements.checked_mul(*extent));
    let size = elements.filter(|_| shape.iter().all(|extent| i32::try_from(*extent).is_ok()));
    let size = size.and_then(|elements| match data_type.bits() {
        Some(_) => data_type.byte_size(elements),
        None => Some(0),
    });
    let size = size.filter(|size| isize::try_from(*size).is_ok());
    size.ok_or_else(|| Fault::new(format!("a tensor of the shape {shape:?} has more bytes than can be counted")))
}

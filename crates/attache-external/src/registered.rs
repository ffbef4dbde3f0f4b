#![allow(unsafe_code)]
//! Operators of C as operators of ours, registered in an [`OpResolver`].

use std::collections::HashMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use attache::graph::{Eval, Fact, Inferred, Op, OpError, TensorRef};
use attache::model::Tensor;
use attache::model::schema::BuiltinOperator;
use attache::{Constant, DataType, Declaration, OpResolver, Shape};
use attache_abi::{
    TfLiteAllocationType, TfLiteBuiltinOperator, TfLiteOperator, TfLiteRegistration, TfLiteStatus, TfLiteTensor,
    TfLiteType,
};

use crate::calls::Functions;
use crate::operator::Operator;
use crate::session::{HostNode, Session, Tensors, reallocate};

/// Registers an operator of C: a custom one if `name` says so, else one in place of a builtin operator. The registration is
/// copied.
///
/// The operator's data is made when the model is compiled. All interpreters of a compiled model share it; they run the
/// operator one after the other. Other input shapes only prepare it again. It runs in each run of the model, even if all
/// its inputs are constant or nobody reads its outputs.
///
/// # Safety
///
/// The functions have the types that TensorFlow Lite gives them, they are valid as long as `resolver` and what is compiled
/// with it, and any thread may call them, one at a time.
pub unsafe fn add_registration(
    resolver: &mut OpResolver,
    code: TfLiteBuiltinOperator,
    name: Option<&str>,
    versions: RangeInclusive<i32>,
    registration: &TfLiteRegistration,
) {
    // SAFETY: the caller states it.
    let functions = unsafe { Functions::new(registration) };
    resolver.add_per_model(BuiltinOperator(code.0), name, versions, move |threads| {
        let functions = functions.clone();
        // By the address of the file's operator, which stays as long as the compiled model.
        let made = Mutex::<HashMap<usize, Arc<COperator>>>::default();
        move |declaration: &Declaration<'_>| {
            let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
            let entry = made.entry(std::ptr::from_ref(declaration.operator).addr());
            let operator = entry.or_insert_with(|| Arc::new(COperator::new(&functions, declaration, threads)));
            Ok(operator.clone() as Arc<dyn Op>)
        }
    });
}

/// Registers an operator that was made with `TfLiteOperatorCreate`, for the code, name and version that it says. The
/// operator is copied.
///
/// # Errors
///
/// If the operator is null, or if it is a custom one without a name of UTF-8.
///
/// # Safety
///
/// As [`add_registration`]; `operator` is null or was made with `TfLiteOperatorCreate` of this library.
pub unsafe fn add_operator(resolver: &mut OpResolver, operator: *mut TfLiteOperator) -> Result<(), OpError> {
    // SAFETY: the caller states it.
    let Some(own) = (unsafe { operator.cast::<Operator>().as_ref() }) else {
        return Err(OpError::invalid("the operator is null"));
    };
    let name = own.name.as_ref().map(|name| name.to_str()).transpose();
    let name = name.map_err(|_| OpError::invalid("the operator's name is not UTF-8"))?;
    if own.code == TfLiteBuiltinOperator::CUSTOM && name.is_none() {
        return Err(OpError::invalid("the custom operator has no name"));
    }
    let name = name.filter(|_| own.code == TfLiteBuiltinOperator::CUSTOM);
    let registration = TfLiteRegistration { registration_external: operator, ..TfLiteRegistration::empty() };
    // SAFETY: the caller states it.
    unsafe { add_registration(resolver, own.code, name, own.version..=own.version, &registration) };
    Ok(())
}

/// An operator of C with its data.
struct COperator {
    name: String,
    functions: Functions,
    /// The number of inputs. In the session, outputs follow inputs, and intermediates follow outputs.
    inputs: usize,
    /// Whether each input is a constant of the file. The values of others may be known as well, which C code is not told.
    constants: Vec<bool>,
    /// The outputs as the file states them.
    outputs: Vec<Fact>,
    state: Mutex<State>,
}

/// What is used by one thread at a time.
struct State {
    session: *mut Session,
    /// The shapes of the inputs for which the operator was prepared last.
    prepared: Option<Vec<Option<Shape>>>,
    /// Whether each input is a variable.
    variables: Vec<bool>,
}

// SAFETY: the session is used only by whoever has the state, and the functions may be called from any thread.
unsafe impl Send for State {}

impl fmt::Debug for COperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("COperator").field("name", &self.name).finish_non_exhaustive()
    }
}

impl COperator {
    fn new(functions: &Functions, declaration: &Declaration<'_>, threads: Option<usize>) -> Self {
        let operator = declaration.operator;
        let (inputs, outputs) = (operator.inputs.len(), operator.outputs.len());
        let used = operator.inputs.iter().copied();
        let used = used.chain(operator.outputs.iter().chain(&operator.intermediates).map(|tensor| Some(*tensor)));
        let used: Vec<Option<usize>> = used.collect();
        let is_constant = |input: &Option<usize>| {
            let tensor = input.and_then(|input| declaration.tensors.get(input));
            tensor.is_some_and(|tensor| tensor.constant.is_some())
        };
        let mut tensors = Tensors::with_room(used.len());
        for tensor in &used {
            match tensor.and_then(|tensor| declaration.tensors.get(tensor)) {
                Some(source) => tensors.push(&source.name, &stated(source), Some(source)),
                None => _ = tensors.add(1),
            }
        }
        let places: Vec<Option<usize>> = used.iter().enumerate().map(|(place, tensor)| tensor.map(|_| place)).collect();
        let node = HostNode::of_file(
            operator,
            declaration.options,
            &places[..inputs],
            inputs..inputs + outputs,
            inputs + outputs..used.len(),
        );
        let session = Session::of_operator(tensors, node, declaration.metadata(), threads);
        // SAFETY: the session was just made, and nobody else has it.
        unsafe {
            let node = &raw mut (*(*session).node(0)).node;
            let (buffer, length) = match ((*node).custom_initial_data, (*node).builtin_data) {
                (custom, builtin) if custom.is_null() => (builtin.cast_const(), 0),
                (custom, _) => (custom, usize::try_from((*node).custom_initial_data_size).unwrap_or(0)),
            };
            (*node).user_data = functions.init(&raw mut (*session).context, buffer.cast(), length);
        }
        Self {
            name: operator.code.name(),
            functions: functions.clone(),
            inputs,
            constants: operator.inputs.iter().map(is_constant).collect(),
            outputs: operator.outputs.iter().map(|output| stated(&declaration.tensors[*output])).collect(),
            state: Mutex::new(State { session, prepared: None, variables: Vec::new() }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prepares the operator for inputs of these types, shapes and values.
    fn prepare(&self, state: &mut State, inputs: &[Option<&Fact>]) -> Result<(), OpError> {
        state.prepared = None;
        // SAFETY: the state is locked, and no reference to the session is kept while C code is called.
        let status = unsafe {
            for (place, fact) in inputs.iter().enumerate() {
                let Some(fact) = *fact else { continue };
                let constant = fact.constant.clone().filter(|_| self.constants[place]);
                let fact = Fact { constant, ..fact.clone() };
                (*state.session).tensors.set(place, &fact, allocation_of(&fact));
            }
            for (place, output) in self.outputs.iter().enumerate() {
                (*state.session).tensors.set(self.inputs + place, output, allocation_of(output));
            }
            let node = &raw mut (*(*state.session).node(0)).node;
            self.functions.prepare(&raw mut (*state.session).context, node)
        };
        self.check(state, status, "prepare")?;
        state.prepared = Some(inputs.iter().map(|fact| fact.and_then(|fact| fact.shape.clone())).collect());
        state.variables = inputs.iter().map(|fact| fact.is_some_and(|fact| fact.is_variable)).collect();
        Ok(())
    }

    /// Turns the status of a call into an error, with what the operator has reported.
    fn check(&self, state: &mut State, status: TfLiteStatus, what: &str) -> Result<(), OpError> {
        // SAFETY: the state is locked, and no C code is called.
        let errors = unsafe { (*state.session).take_errors() };
        if status.is_ok() {
            return Ok(());
        }
        let why = errors.unwrap_or_else(|| "it does not say why".into());
        Err(OpError::unsupported(format!("its {what} failed with status {}: {why}", status.0)))
    }

    /// Returns the type and shape that the operator gave an output; no shape for dynamic ones.
    fn inferred(&self, state: &State, output: usize) -> Result<Inferred, OpError> {
        // SAFETY: the state is locked, and no C code is called.
        let tensors = unsafe { &(*state.session).tensors };
        let index = self.inputs + output;
        let Some(tensor) = tensors.get(index) else { return Err(OpError::unsupported("an output is gone")) };
        let data_type: Option<DataType> = tensor.kind.data_type();
        let data_type = data_type.ok_or_else(|| OpError::invalid(format!("it gives output {output} no type")))?;
        if tensor.allocation_type == TfLiteAllocationType::DYNAMIC {
            return Ok(Inferred::unknown(data_type));
        }
        Ok(Inferred::new(data_type, shape_of(tensors, index)?))
    }

    /// Makes the tensors point to the memory of an evaluation. Variables are copied, since inputs are not written, and so are
    /// strings, which have memory of their own in TensorFlow Lite.
    fn bind(&self, state: &State, eval: &mut Eval<'_>) -> Result<(), OpError> {
        // SAFETY: the state is locked, and no C code is called.
        let tensors = unsafe { &mut (*state.session).tensors };
        let no_memory = || OpError::unsupported("there is no memory for its tensors");
        for (place, input) in eval.inputs.iter().enumerate() {
            let (Some(input), Some(tensor)) = (input, tensors.get_mut(place)) else { continue };
            if tensor.kind == TfLiteType::STRING && tensor.allocation_type == TfLiteAllocationType::DYNAMIC {
                reallocate(tensor, input.bytes.len()).map_err(OpError::out_of_memory)?;
                copy_to(tensor, input.bytes);
            } else if tensor.is_variable {
                tensors.allocate(place).is_ok().then_some(()).ok_or_else(no_memory)?;
                let tensor = tensors.get(place).ok_or_else(no_memory)?;
                copy_to(tensor, input.bytes);
            } else {
                tensor.data = input.bytes.as_ptr().cast_mut().cast();
            }
        }
        for place in 0..self.outputs.len() {
            let Some(tensor) = tensors.get_mut(self.inputs + place) else { continue };
            match eval.outputs.get_mut(place) {
                _ if tensor.allocation_type == TfLiteAllocationType::DYNAMIC => {}
                Some(output) => tensor.data = output.bytes.as_mut_ptr().cast(),
                None => tensors.allocate(self.inputs + place).is_ok().then_some(()).ok_or_else(no_memory)?,
            }
        }
        // SAFETY: as above; the node is on the heap, apart from the tensors.
        let temporaries = unsafe { (*(*state.session).node(0)).temporaries() };
        let is_allocated = temporaries.into_iter().all(|tensor| tensors.allocate(tensor).is_ok());
        is_allocated.then_some(()).ok_or_else(no_memory)
    }

    /// Passes on outputs that are in memory of the session's, and the new values of variables.
    fn fetch(&self, state: &State, eval: &mut Eval<'_>) -> Result<(), OpError> {
        // SAFETY: the state is locked, and no C code is called.
        let tensors = unsafe { &(*state.session).tensors };
        for place in 0..self.outputs.len() {
            let index = self.inputs + place;
            let Some(tensor) = tensors.get(index) else { continue };
            match eval.outputs.get_mut(place) {
                None => eval.host.set_output(place, shape_of(tensors, index)?, bytes_of(tensor))?,
                Some(output) if tensor.allocation_type == TfLiteAllocationType::DYNAMIC => {
                    if shape_of(tensors, index)? != *output.shape || tensor.bytes != output.bytes.len() {
                        return Err(OpError::invalid(format!("it makes output {place} of another shape than before")));
                    }
                    output.bytes.copy_from_slice(bytes_of(tensor));
                }
                Some(_) => {}
            }
        }
        for place in 0..self.inputs {
            if let Some(tensor) = tensors.get(place).filter(|tensor| tensor.is_variable) {
                eval.host.set_state(place, bytes_of(tensor))?;
            }
        }
        Ok(())
    }
}

/// Returns where the bytes of a tensor that is no constant are.
fn allocation_of(fact: &Fact) -> TfLiteAllocationType {
    match fact {
        Fact { data_type: DataType::String, .. } => TfLiteAllocationType::DYNAMIC,
        Fact { is_variable: true, .. } => TfLiteAllocationType::ARENA_RW_PERSISTENT,
        _ => TfLiteAllocationType::ARENA_RW,
    }
}

/// Returns what the file states of a tensor that an operator computes or reads.
fn stated(tensor: &Tensor) -> Fact {
    Fact { quantization: tensor.quantization.clone(), ..Fact::new(tensor.data_type, tensor.shape.clone()) }
}

/// Returns the shape of a tensor.
fn shape_of(tensors: &Tensors, index: usize) -> Result<Shape, OpError> {
    let extents = tensors.extents(index).iter().map(|extent| usize::try_from(*extent));
    let extents = extents.collect::<Result<Vec<usize>, _>>();
    extents
        .map(|extents| Shape::from(&extents[..]))
        .map_err(|_| OpError::invalid("it gives an output a negative extent"))
}

/// Returns the bytes of a tensor that has memory.
fn bytes_of(tensor: &TfLiteTensor) -> &[u8] {
    if tensor.data.is_null() {
        return &[];
    }
    // SAFETY: a tensor with memory has as many bytes as it says, and no C code is called while they are in use.
    unsafe { std::slice::from_raw_parts(tensor.data.cast(), tensor.bytes) }
}

/// Copies bytes to a tensor of the same size.
fn copy_to(tensor: &TfLiteTensor, bytes: &[u8]) {
    if tensor.bytes == bytes.len() && !tensor.data.is_null() {
        // SAFETY: the tensor has as many bytes as it says, in memory of the session's own.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), tensor.data.cast(), bytes.len()) };
    }
}

/// Returns what an evaluation says about an input, as for a preparation.
fn fact_of(input: &TensorRef<'_>, is_variable: bool) -> Fact {
    let bytes = || attache::Bytes::from_vec(input.bytes.to_vec());
    let shape = input.shape.clone();
    let constant = Constant { data_type: input.data_type, shape: shape.clone(), bytes: bytes() };
    Fact {
        quantization: input.quantization.cloned(),
        constant: input.is_constant.then_some(constant),
        is_variable,
        ..Fact::new(input.data_type, shape)
    }
}

impl Op for COperator {
    fn name(&self) -> &str {
        &self.name
    }

    fn infer(&self, inputs: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError> {
        if inputs.iter().flatten().any(|fact| fact.shape.is_none()) {
            return Ok(self.outputs.iter().map(|output| Inferred::unknown(output.data_type)).collect());
        }
        let mut state = self.state();
        self.prepare(&mut state, inputs)?;
        (0..self.outputs.len()).map(|output| self.inferred(&state, output)).collect()
    }

    fn has_side_effects(&self) -> bool {
        // Nobody knows which state the operator keeps, or what else it does.
        true
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let mut state = self.state();
        let is_prepared = state.prepared.as_ref().is_some_and(|prepared| {
            let shapes = prepared.iter().map(Option::as_ref);
            shapes.eq(eval.inputs.iter().map(|input| input.as_ref().map(|input| input.shape)))
        });
        if !is_prepared {
            let variables = state.variables.clone();
            let is_variable = |place: usize| variables.get(place).copied().unwrap_or(false);
            let inputs = eval.inputs.iter().enumerate();
            let facts = inputs.map(|(place, input)| input.as_ref().map(|input| fact_of(input, is_variable(place))));
            let facts: Vec<Option<Fact>> = facts.collect();
            self.prepare(&mut state, &facts.iter().map(Option::as_ref).collect::<Vec<_>>())?;
        }
        self.bind(&state, eval)?;
        // SAFETY: the operator was prepared, its tensors have memory, and no reference to the session is kept.
        let status = unsafe {
            let node = &raw mut (*(*state.session).node(0)).node;
            self.functions.invoke(&raw mut (*state.session).context, node)
        };
        self.check(&mut state, status, "invoke")?;
        self.fetch(&state, eval)
    }
}

impl Drop for COperator {
    fn drop(&mut self) {
        let session = self.state().session;
        // SAFETY: the session is this value's own, and the functions are still there.
        unsafe {
            let data = (*(*session).node(0)).node.user_data;
            self.functions.free(&raw mut (*session).context, data);
            Session::free(session);
        }
    }
}

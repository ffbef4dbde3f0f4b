//! What an interpreter of the C API consists of: the interpreter of `attache`, and for each subgraph that the program
//! uses the tensors that it sees.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_int;
use std::sync::Arc;

use attache::model::Tensor;
use attache::{Bytes, Delegate, Interpreter, InterpreterBuilder, Model};
use attache_abi::{TfLiteAllocationType, TfLiteStatus, TfLiteTensor};
use attache_base::copy;
use attache_external::ExternalDelegate;

use crate::access::Access;
use crate::bound::{Bound, Device};
use crate::fault::Fault;
use crate::live::Owner;
use crate::options::Configuration;
use crate::plan::Plan;
use crate::storage::{Storage, Storages};
use crate::tensors::Tensors;

/// The subgraph of an interpreter's own functions. Others are used through signatures.
pub(crate) const MAIN: usize = 0;

/// An interpreter and its tensors.
pub(crate) struct State {
    pub(crate) model: Model,
    pub(crate) configuration: Configuration,
    /// `None` if the model cannot be prepared: the program has to set other shapes, or add operators or delegates.
    pub(crate) interpreter: Option<Interpreter>,
    address: usize,
    subgraphs: BTreeMap<usize, Subgraph>,
    /// Whether inputs and outputs may stay on devices.
    pub(crate) may_stay: bool,
}

/// A subgraph that the program uses.
pub(crate) struct Subgraph {
    index: usize,
    pub(crate) tensors: Tensors,
    pub(crate) inputs: Vec<c_int>,
    pub(crate) outputs: Vec<c_int>,
    pub(crate) variables: Vec<usize>,
    /// The memory of inputs, outputs and variables.
    pub(crate) storage: Storages,
    /// The outputs whose shapes are known only after a run.
    dynamic: BTreeSet<usize>,
    /// The nodes, from when the program first asks for them.
    plan: Option<Plan>,
    /// The shapes that the program set, by the position of the input.
    shapes: BTreeMap<usize, Vec<usize>>,
    is_allocated: bool,
    /// What runs use in the memory of the tensors. Others copy.
    pub(crate) bound: Bound,
    /// Whether inputs and outputs stay on the device that runs the subgraph.
    pub(crate) stays: bool,
}

impl State {
    /// Makes the state of a new interpreter. What keeps the model from being prepared is reported when tensors are
    /// allocated, as in TensorFlow Lite, apart from operators of the file format that the library does not have and
    /// delegates that fail.
    pub(crate) fn new(model: &Model, configuration: Configuration, address: usize) -> Result<Self, Fault> {
        let interpreter = match configuration.build(model, configuration.builder(model)?) {
            Ok(interpreter) => Some(interpreter),
            Err(fault) if fault.status == TfLiteStatus::DELEGATE_ERROR => return Err(fault),
            Err(fault) if fault.is_unsupported => return Err(fault),
            Err(_) => None,
        };
        let has_delegates = !configuration.delegates.is_empty();
        let model = model.clone();
        let mut state =
            Self { model, configuration, interpreter, address, subgraphs: BTreeMap::new(), may_stay: false };
        state.require(MAIN);
        if has_delegates && state.interpreter.is_some() {
            // As in TensorFlow Lite, delegates have tensors allocated. Where extents are open, the program does it.
            let _ = state.allocate(MAIN);
        }
        Ok(state)
    }

    /// Takes over an interpreter that was built already.
    pub(crate) fn of(interpreter: Interpreter, configuration: Configuration, address: usize) -> Self {
        let model = interpreter.model().clone();
        let interpreter = Some(interpreter);
        let mut state =
            Self { model, configuration, interpreter, address, subgraphs: BTreeMap::new(), may_stay: false };
        state.require(MAIN);
        state
    }

    /// Makes the tensors of a subgraph, unless there are some.
    pub(crate) fn require(&mut self, subgraph: usize) {
        let owner = Owner { interpreter: self.address, subgraph };
        let model = &self.model;
        self.subgraphs.entry(subgraph).or_insert_with(|| Subgraph::new(model, owner));
    }

    pub(crate) fn subgraph(&self, subgraph: usize) -> Result<&Subgraph, Fault> {
        self.subgraphs.get(&subgraph).ok_or_else(|| Fault::new("a subgraph that is not in use"))
    }

    pub(crate) fn subgraph_mut(&mut self, subgraph: usize) -> Result<&mut Subgraph, Fault> {
        Ok(self.parts(subgraph)?.0)
    }

    /// Returns a subgraph, and the interpreter to run it with.
    fn parts(&mut self, subgraph: usize) -> Result<(&mut Subgraph, &mut Option<Interpreter>), Fault> {
        let found = self.subgraphs.get_mut(&subgraph).ok_or_else(|| Fault::new("a subgraph that is not in use"))?;
        Ok((found, &mut self.interpreter))
    }

    /// Returns a subgraph whose tensors are allocated, and access to it.
    pub(crate) fn ready(&mut self, subgraph: usize) -> Result<(&mut Subgraph, Access<'_>), Fault> {
        let (subgraph, interpreter) = self.parts(subgraph)?;
        if !subgraph.is_allocated {
            // The words of TensorFlow Lite, which programs know: AllocateTensors comes first, and after each resize.
            return Err(Fault::new("Invoke called on model that is not ready."));
        }
        let access = Access::new(interpreter, subgraph.index)?;
        Ok((subgraph, access))
    }

    /// Sets the shape of an input. It takes effect when tensors are allocated.
    pub(crate) fn resize(&mut self, subgraph: usize, position: usize, shape: &[c_int]) -> Result<(), Fault> {
        self.settle_all(subgraph)?;
        let subgraph = self.subgraph_mut(subgraph)?;
        let tensor = subgraph.input(position)?;
        // A tensor that is an input several times has one shape.
        let position = subgraph.inputs.iter().position(|input| *input as usize == tensor).unwrap_or(position);
        let extent = |extent: &c_int| usize::try_from(*extent).map_err(|_| Fault::new("an extent is negative"));
        let shape: Vec<usize> = shape.iter().map(extent).collect::<Result<_, _>>()?;
        if subgraph.shape(tensor) == shape {
            return Ok(());
        }
        subgraph.tensors.set_shape(tensor, &shape)?;
        subgraph.set_shapes([(position, shape)]);
        if !subgraph.tensors.has_strings(tensor) {
            subgraph.tensors.set_data(tensor, std::ptr::null_mut(), subgraph.allocation(tensor));
        }
        Ok(())
    }

    /// Checks that a shape differs from that of an input only where the model leaves extents to the program.
    pub(crate) fn check_signature(&self, subgraph: usize, position: usize, shape: &[c_int]) -> Result<(), Fault> {
        let found = self.subgraph(subgraph)?;
        let tensor = found.input(position)?;
        let signature = self.model.subgraphs()[subgraph].tensors[tensor].shape_signature.as_deref();
        let fits = match signature.filter(|signature| !signature.is_empty()) {
            Some(fixed) => {
                fixed.len() == shape.len()
                    && fixed.iter().zip(shape).all(|(fixed, extent)| matches!(fixed, -1) || fixed == extent)
            }
            None => found
                .shape(tensor)
                .iter()
                .map(|extent| c_int::try_from(*extent).ok())
                .eq(shape.iter().copied().map(Some)),
        };
        if fits {
            Ok(())
        } else {
            Err(Fault::new(format!("the model does not leave the extents {shape:?} to the program")))
        }
    }

    /// Prepares a subgraph for the shapes of its inputs.
    pub(crate) fn allocate(&mut self, subgraph: usize) -> Result<(), Fault> {
        if self.subgraph(subgraph)?.is_allocated {
            return Ok(());
        }
        self.profiled("AllocateTensors", subgraph, |state| state.allocate_again(subgraph))
    }

    fn allocate_again(&mut self, subgraph: usize) -> Result<(), Fault> {
        if self.interpreter.is_none() {
            let builder = self.configured(&self.configuration)?;
            self.interpreter = Some(self.configuration.build(&self.model, builder)?);
        }
        let (devices, may_stay) = (self.devices(), self.may_stay);
        #[cfg(not(attache_small))]
        let model = self.model.clone();
        let (subgraph, interpreter) = self.parts(subgraph)?;
        let mut access = Access::new(interpreter, subgraph.index)?;
        subgraph.reset_variables();
        subgraph.bound.release(&mut access);
        subgraph.detach()?;
        access.resize(&subgraph.shapes)?;
        #[cfg(not(attache_small))]
        subgraph.note_inferred(&model, &access)?;
        subgraph.note_shapes(&mut access)?;
        subgraph.give_addresses(&mut access)?;
        subgraph.is_allocated = true;
        subgraph.bind(&mut access, &devices, may_stay);
        let index = subgraph.index;
        self.note_writers(index)
    }

    /// Notes in the tensors of a subgraph which delegate in C writes them. Delegates of one name are not told apart.
    fn note_writers(&mut self, subgraph: usize) -> Result<(), Fault> {
        let external = self.configuration.external.clone();
        let delegate = |name: &str| only(&external, name).map_or(std::ptr::null_mut(), |only| only.as_ptr());
        let mut writers = vec![std::ptr::null_mut(); self.subgraph(subgraph)?.tensors.len()];
        for (name, tensors) in self.plan(subgraph)?.written() {
            tensors.into_iter().for_each(|tensor| writers[tensor] = delegate(name));
        }
        let found = self.subgraph_mut(subgraph)?;
        writers.into_iter().enumerate().for_each(|(tensor, writer)| found.tensors.note_writer(tensor, writer));
        Ok(())
    }

    /// Decides for all subgraphs what runs use where.
    pub(crate) fn bind_all(&mut self) {
        let (devices, may_stay) = (self.devices(), self.may_stay);
        for subgraph in self.subgraphs.values_mut() {
            if let Ok(mut access) = Access::new(&mut self.interpreter, subgraph.index) {
                subgraph.bound.release(&mut access);
                if subgraph.is_allocated {
                    subgraph.bind(&mut access, &devices, may_stay);
                }
            }
        }
    }

    pub(crate) fn subgraph_indices(&self) -> impl Iterator<Item = usize> {
        self.subgraphs.keys().copied()
    }

    /// Returns the devices that may use the memory of tensors. What intermediate tensors were is copied, and so are
    /// inputs where the CPU may take over.
    fn devices(&self) -> Vec<Device> {
        let is_copied = self.configuration.preserves || self.configuration.falls_back;
        if is_copied { Vec::new() } else { self.configuration.devices.clone() }
    }

    /// Returns a builder for the shapes that the program set.
    fn configured(&self, configuration: &Configuration) -> Result<InterpreterBuilder, Fault> {
        let builder = configuration.builder(&self.model)?;
        let shapes = &self.subgraph(MAIN)?.shapes;
        Ok(shapes.iter().fold(builder, |builder, (position, shape)| builder.input_shape(*position, shape)))
    }

    /// Runs a subgraph. Inputs are read from the memory of their tensors, outputs are written there. If a delegate failed
    /// and the CPU did the run, the outputs are valid and the fault says that it did, once.
    pub(crate) fn invoke(&mut self, subgraph: usize) -> Result<(), Fault> {
        let before = self.fallback();
        #[cfg(attache_small)]
        self.run(subgraph)?;
        #[cfg(not(attache_small))]
        self.run_profiled(subgraph).map_err(|fault| match &self.configuration.asked {
            Some(asked) => asked.fault(fault),
            None => fault,
        })?;
        match self.fallback().filter(|_| before.is_none()) {
            Some(text) => {
                Err(Fault::with_status(TfLiteStatus::DELEGATE_ERROR, format!("{text}; the CPU has taken over")))
            }
            None => Ok(()),
        }
    }

    /// Returns why the CPU took over from delegates, if it did and the program asked for it.
    fn fallback(&self) -> Option<String> {
        let interpreter = self.interpreter.as_ref().filter(|_| self.configuration.falls_back);
        interpreter.and_then(|interpreter| interpreter.report().fallback)
    }

    pub(crate) fn run(&mut self, subgraph: usize) -> Result<(), Fault> {
        let (preserves, may_stay) = (self.configuration.preserves && subgraph == MAIN, self.may_stay);
        self.follow_strings(subgraph)?;
        let (subgraph, mut access) = self.ready(subgraph)?;
        for (position, tensor) in subgraph.inputs.iter().enumerate() {
            if subgraph.tensors.is_on_device(*tensor as usize) {
                continue;
            }
            subgraph.tensors.refresh(*tensor as usize)?;
            if subgraph.tensors.has_strings(*tensor as usize) {
                subgraph.write_strings(position, &mut access)?;
                continue;
            }
            let storage = subgraph.storage.get(*tensor as usize).filter(|storage| !storage.is_shared());
            let storage = storage.filter(|_| !subgraph.bound.has_input(position));
            if let Some(bytes) = storage.and_then(Storage::bytes) {
                access.write(position, &bytes[..subgraph.tensors.bytes(*tensor as usize)])?;
            }
        }
        subgraph.write_variables(&mut access);
        access.invoke()?;
        subgraph.read_variables(&mut access);
        if !subgraph.dynamic.is_empty() {
            subgraph.note_shapes(&mut access)?;
        }
        for position in 0..subgraph.outputs.len() {
            subgraph.fetch(position, may_stay, &access)?;
        }
        drop(access);
        if preserves { self.fetch_intermediates() } else { Ok(()) }
    }

    /// Copies the intermediate tensors that the interpreter kept of the last run to memory of theirs.
    fn fetch_intermediates(&mut self) -> Result<(), Fault> {
        let (found, interpreter) = self.parts(MAIN)?;
        let Some(interpreter) = interpreter else { return Ok(()) };
        let is_shared = |found: &Subgraph, tensor: usize| {
            let mut shared = found.inputs.iter().chain(&found.outputs);
            shared.any(|shared| *shared as usize == tensor) || found.variables.contains(&tensor)
        };
        for tensor in 0..found.tensors.len() {
            let has_strings = found.tensors.has_strings(tensor);
            if is_shared(found, tensor) || !(has_strings || found.tensors.may_move(tensor)) {
                continue;
            }
            // Tensors that graph passes removed, or that only a delegate has, were not kept.
            let Ok(kept) = interpreter.tensor(tensor) else { continue };
            found.tensors.set_shape(tensor, kept.shape())?;
            if has_strings {
                found.keep_strings(tensor, kept.bytes())?;
                continue;
            }
            let storage = found.storage.require(tensor);
            storage.fit(kept.bytes().len())?;
            storage.bytes_mut().unwrap_or_default()[..kept.bytes().len()].copy_from_slice(kept.bytes());
            let address = storage.address();
            found.tensors.set_data(tensor, address, found.allocation(tensor));
        }
        Ok(())
    }

    /// Returns the address of a tensor's bytes; null if it has none.
    pub(crate) fn address(&mut self, subgraph: usize, tensor: usize) -> Result<*mut u8, Fault> {
        self.settle(subgraph, tensor)?;
        Ok(self.subgraph(subgraph)?.tensors.data(tensor))
    }

    /// Copies `bytes` into a tensor.
    pub(crate) fn copy_from(&mut self, subgraph: usize, tensor: usize, bytes: &[u8]) -> Result<(), Fault> {
        let found = self.subgraph_mut(subgraph)?;
        if found.tensors.has_strings(tensor) {
            return found.tensors.copy_from_strings(tensor, bytes);
        }
        same_size(found.tensors.bytes(tensor), bytes.len())?;
        if found.stays && found.is_allocated {
            let (found, mut access) = self.ready(subgraph)?;
            if found.copy_to_device(tensor, bytes, &mut access)? {
                return Ok(());
            }
        }
        let found = self.subgraph_mut(subgraph)?;
        copy(&mut found.writable(tensor)?[..bytes.len()], bytes);
        found.tensors.note_fresh(tensor);
        Ok(())
    }

    /// Copies a tensor into `bytes`.
    pub(crate) fn copy_to(&mut self, subgraph: usize, tensor: usize, bytes: &mut [u8]) -> Result<(), Fault> {
        let constant = constant_bytes(&self.model.subgraphs()[subgraph].tensors[tensor]);
        same_size(self.subgraph(subgraph)?.tensors.bytes(tensor), bytes.len())?;
        if self.subgraph(subgraph)?.tensors.is_on_device(tensor) {
            let (found, mut access) = self.ready(subgraph)?;
            if found.copy_from_device(tensor, bytes, &mut access)? {
                return Ok(());
            }
        }
        let found = self.subgraph_mut(subgraph)?;
        match constant {
            Some(constant) if !found.tensors.may_move(tensor) => copy(bytes, &constant[..bytes.len()]),
            _ if found.tensors.has_strings(tensor) => found.tensors.copy_to_strings(tensor, bytes)?,
            _ => copy(bytes, &found.writable(tensor)?[..bytes.len()]),
        }
        Ok(())
    }

    /// Sets memory of the program's as that of a tensor. Its size is checked when tensors are allocated. Of tensors that
    /// are neither inputs nor outputs, nothing is written there.
    pub(crate) fn set_custom(
        &mut self,
        subgraph: usize,
        tensor: usize,
        data: *mut u8,
        size: usize,
    ) -> Result<(), Fault> {
        let is_constant = self.model.subgraphs()[subgraph].tensors.get(tensor).is_none_or(|it| it.constant.is_some());
        if is_constant {
            return Err(Fault::new("the tensor is a constant, or does not exist"));
        }
        self.settle_all(subgraph)?;
        let (found, interpreter) = self.parts(subgraph)?;
        if let Ok(mut access) = Access::new(interpreter, subgraph) {
            found.bound.release(&mut access);
        }
        found.is_allocated &= found.tensors.bytes(tensor) <= size;
        *found.storage.require(tensor) = Storage::Custom(data, size);
        found.tensors.set_data(tensor, data, TfLiteAllocationType::CUSTOM);
        Ok(())
    }

    /// Builds the interpreter again with a changed configuration. Inputs keep their values. If it cannot be built, everything
    /// stays; if there is no memory for tensors afterwards, they have to be allocated again.
    pub(crate) fn rebuild(&mut self, configuration: Configuration) -> Result<(), Fault> {
        for subgraph in self.subgraph_indices().collect::<Vec<_>>() {
            self.settle_all(subgraph)?;
        }
        let builder = self.configured(&configuration)?;
        let mut built = Some(configuration.build(&self.model, builder)?);
        for subgraph in self.subgraphs.values().filter(|subgraph| subgraph.is_allocated) {
            Access::new(&mut built, subgraph.index)?.resize(&subgraph.shapes)?;
        }
        self.subgraphs.values_mut().try_for_each(Subgraph::detach)?;
        (self.interpreter, self.configuration) = (built, configuration);
        // The new interpreter uses nothing yet.
        self.subgraphs.values_mut().for_each(|subgraph| subgraph.bound = Bound::default());
        for subgraph in self.subgraphs.values_mut().filter(|subgraph| subgraph.is_allocated) {
            let mut access = Access::new(&mut self.interpreter, subgraph.index)?;
            subgraph.is_allocated = false;
            subgraph.give_addresses(&mut access)?;
            subgraph.is_allocated = true;
        }
        self.bind_all();
        Ok(())
    }

    /// Returns the interpreter of `attache`.
    pub(crate) fn prepared(&mut self) -> Result<&mut Interpreter, Fault> {
        let interpreter = self.interpreter.as_mut();
        interpreter.ok_or_else(|| Fault::new("the model is not prepared: call AllocateTensors"))
    }

    /// Resets the variable tensors of all subgraphs.
    pub(crate) fn reset_variables(&mut self) {
        if let Some(interpreter) = &mut self.interpreter {
            interpreter.reset_variable_tensors();
        }
        self.subgraphs.values_mut().for_each(Subgraph::reset_variables);
    }

    /// Returns the nodes of a subgraph, as its operators are placed now.
    pub(crate) fn plan(&mut self, subgraph: usize) -> Result<&mut Plan, Fault> {
        let model = self.model.clone();
        #[cfg(not(attache_small))]
        let external = self.configuration.external.clone();
        let (found, interpreter) = self.parts(subgraph)?;
        let access = Access::new(interpreter, subgraph);
        let placement = access.as_ref().ok().map(Access::placement);
        if found.plan.as_ref().is_none_or(|plan| !plan.is_of(&model, subgraph, placement)) {
            #[cfg_attr(attache_small, expect(unused_mut, reason = "delegates are not shown"))]
            let mut plan = Plan::new(&model, subgraph, placement);
            #[cfg(not(attache_small))]
            plan.show_kernels(|name| only(&external, name).and_then(|only| Some((only.as_ptr(), only.kernel_name()?))));
            found.plan = Some(plan);
        }
        found.plan.as_mut().ok_or_else(|| Fault::new("a subgraph without nodes"))
    }

    /// Lets go of the memory of tensors, apart from variables and the program's own. They have to be allocated again.
    #[cfg(not(attache_small))]
    pub(crate) fn release(&mut self) -> Result<(), Fault> {
        for index in self.subgraph_indices().collect::<Vec<_>>() {
            self.settle_all(index)?;
            let (subgraph, interpreter) = self.parts(index)?;
            if let Ok(mut access) = Access::new(interpreter, index) {
                subgraph.bound.release(&mut access);
            }
            subgraph.release();
        }
        Ok(())
    }

    /// Sets the number of threads on the CPU; `None` for the library's choice.
    pub(crate) fn set_threads(&mut self, threads: Option<usize>) {
        self.configuration.threads = threads;
        if let Some(interpreter) = &mut self.interpreter {
            interpreter.set_threads(threads);
        }
    }
}

impl Subgraph {
    fn new(model: &Model, owner: Owner) -> Self {
        let source = &model.subgraphs()[owner.subgraph];
        let indices = |tensors: &[usize]| tensors.iter().map(|index| *index as c_int).collect();
        let variables = source.tensors.iter().enumerate().filter(|(_, tensor)| tensor.is_variable);
        let (subgraph, mut tensors) = (owner.subgraph, Tensors::new(model, owner));
        for input in &source.inputs {
            let Tensor { constant, data_type, .. } = &source.tensors[*input];
            // Data of an input is its first value, which the program may replace. Strings stay as they are.
            if constant.is_some() && data_type.bits().is_some() {
                tensors.set_data(*input, std::ptr::null_mut(), TfLiteAllocationType::ARENA_RW);
            }
        }
        Self {
            index: subgraph,
            tensors,
            inputs: indices(&source.inputs),
            outputs: indices(&source.outputs),
            variables: variables.map(|(index, _)| index).collect(),
            storage: Storages::default(),
            dynamic: BTreeSet::new(),
            plan: None,
            shapes: BTreeMap::new(),
            is_allocated: false,
            bound: Bound::default(),
            stays: false,
        }
    }

    /// Decides what runs use in the memory of the tensors, and what stays on a device.
    fn bind(&mut self, access: &mut Access<'_>, devices: &[Device], may_stay: bool) {
        self.decide_to_stay(may_stay && !devices.is_empty(), access);
        self.bound = if self.stays { Bound::default() } else { Bound::new(self, access, devices) };
    }

    /// Whether the shape of an output is known only after a run.
    pub(crate) fn is_dynamic(&self, tensor: usize) -> bool {
        self.dynamic.contains(&tensor)
    }

    fn input(&self, position: usize) -> Result<usize, Fault> {
        let tensor = self.inputs.get(position).map(|tensor| *tensor as usize);
        tensor.ok_or_else(|| Fault::new(format!("there is no input {position}; there are {}", self.inputs.len())))
    }

    fn shape(&self, tensor: usize) -> Vec<usize> {
        self.tensors.shape(tensor)
    }

    /// Sets the shapes of inputs, by position. They take effect when tensors are allocated.
    pub(crate) fn set_shapes(&mut self, shapes: impl IntoIterator<Item = (usize, Vec<usize>)>) {
        self.shapes.extend(shapes);
        self.is_allocated = false;
    }

    /// Takes over the shapes that are inferred for tensors from those of the inputs.
    #[cfg(not(attache_small))]
    fn note_inferred(&mut self, model: &Model, access: &Access<'_>) -> Result<(), Fault> {
        let inferred: BTreeMap<_, _> =
            access.inferred_shapes().iter().map(|(index, shape)| (*index, &shape[..])).collect();
        let tensors = model.subgraphs()[self.index].tensors.iter().enumerate();
        for (index, tensor) in tensors.filter(|(_, tensor)| tensor.constant.is_none()) {
            self.tensors.set_shape(index, inferred.get(&index).copied().unwrap_or(&tensor.shape))?;
        }
        Ok(())
    }

    /// Takes over the shapes of the interpreter's inputs and outputs.
    fn note_shapes(&mut self, access: &mut Access<'_>) -> Result<(), Fault> {
        for (position, tensor) in self.inputs.iter().enumerate() {
            access.input_shape(position, |shape| self.tensors.set_shape(*tensor as usize, shape))?;
        }
        for (position, tensor) in self.outputs.iter().enumerate() {
            access.output_shape(position, |shape| self.tensors.set_shape(*tensor as usize, shape))?;
        }
        Ok(())
    }

    /// Copies an output to the memory of its tensor, which has the size that the output had in the run.
    fn fetch(&mut self, position: usize, may_stay: bool, access: &Access<'_>) -> Result<(), Fault> {
        let tensor = self.outputs[position] as usize;
        if self.tensors.has_strings(tensor) {
            return self.read_strings(position, access);
        }
        if self.dynamic.contains(&tensor) {
            self.storage.require(tensor);
        }
        if self.leave(position) {
            return Ok(());
        }
        if self.bound.has_output(position) {
            return self.tensors.note_output(tensor, may_stay);
        }
        let Some(storage) = self.storage.get_mut(tensor) else { return Ok(()) };
        let size = self.tensors.bytes(tensor);
        if storage.is_shared() {
            return self.tensors.note_output(tensor, may_stay);
        }
        storage.fit(size)?;
        access.read(position, &mut storage.bytes_mut().unwrap_or_default()[..size])?;
        let address = storage.address();
        self.tensors.set_data(tensor, address, self.allocation(tensor));
        self.tensors.note_output(tensor, may_stay)
    }

    /// Returns how the bytes of a tensor that is no constant are allocated.
    fn allocation(&self, tensor: usize) -> TfLiteAllocationType {
        match self.storage.get(tensor) {
            Some(Storage::Custom(..)) => TfLiteAllocationType::CUSTOM,
            _ if self.dynamic.contains(&tensor) => TfLiteAllocationType::DYNAMIC,
            _ if self.variables.contains(&tensor) => TfLiteAllocationType::ARENA_RW_PERSISTENT,
            _ => TfLiteAllocationType::ARENA_RW,
        }
    }

    /// Notes which outputs have shapes only after a run. They have no memory until then.
    fn note_dynamic(&mut self, access: &Access<'_>) {
        let outputs = self.outputs.iter().enumerate().filter(|(_, tensor)| self.tensors.may_move(**tensor as usize));
        self.dynamic =
            outputs.filter(|(position, _)| access.is_dynamic(*position)).map(|(_, tensor)| *tensor as usize).collect();
        for tensor in self.dynamic.clone() {
            if !matches!(self.storage.get(tensor), Some(Storage::Custom(..))) {
                self.storage.take(tensor);
                self.tensors.set_data(tensor, std::ptr::null_mut(), TfLiteAllocationType::DYNAMIC);
            }
        }
    }

    /// Makes memory for variables, and for inputs and outputs that do not use the memory of runs. Inputs keep their content.
    /// Memory of the tensors' own stays where it is, with its content, if its size does. Constants are in the model, and
    /// tensors of strings have no memory here.
    fn give_addresses(&mut self, access: &mut Access<'_>) -> Result<(), Fault> {
        self.note_dynamic(access);
        let shared = self.inputs.iter().chain(&self.outputs).map(|tensor| *tensor as usize);
        let shared: BTreeSet<usize> = shared.chain(self.variables.iter().copied()).collect();
        for tensor in
            shared.iter().copied().filter(|tensor| self.tensors.may_move(*tensor) && !self.dynamic.contains(tensor))
        {
            self.storage.require(tensor);
        }
        self.share_memory(access);
        let mut addresses = Vec::new();
        for (tensor, storage) in self.storage.iter_mut() {
            let is_shared = shared.contains(&tensor);
            // Nothing is written to memory for other tensors, so that any size of it will do.
            if !is_shared && matches!(storage, Storage::Custom(..)) {
                continue;
            }
            let (is_first, is_new) = (storage.bytes().is_none(), !storage.has(self.tensors.bytes(tensor)));
            storage.fit(self.tensors.bytes(tensor))?;
            let bytes = storage.bytes_mut().unwrap_or_default();
            let position = self.inputs.iter().position(|input| *input as usize == tensor);
            match (position.filter(|_| is_first), access.variable(tensor).filter(|_| is_new)) {
                (_, Some(variable)) if variable.len() == bytes.len() => bytes.copy_from_slice(variable),
                (Some(position), _) => access.read_input(position, bytes)?,
                _ => {}
            }
            addresses.push((tensor, storage.address()));
        }
        for (tensor, address) in addresses {
            self.tensors.set_data(tensor, address, self.allocation(tensor));
        }
        Ok(())
    }

    /// Copies the memory of variables to the interpreter.
    fn write_variables(&self, access: &mut Access<'_>) {
        for tensor in &self.variables {
            let bytes = self.storage.get(*tensor).and_then(Storage::bytes);
            if let (Some(bytes), Some(variable)) = (bytes, access.variable(*tensor))
                && let Some(bytes) = bytes.get(..variable.len())
            {
                variable.copy_from_slice(bytes);
            }
        }
    }

    /// Copies the variables of the interpreter to their memory.
    fn read_variables(&mut self, access: &mut Access<'_>) {
        for tensor in &self.variables {
            let bytes = self.storage.get_mut(*tensor).and_then(Storage::bytes_mut);
            if let (Some(bytes), Some(variable)) = (bytes, access.variable(*tensor))
                && let Some(bytes) = bytes.get_mut(..variable.len())
            {
                bytes.copy_from_slice(variable);
            }
        }
    }

    /// Lets go of the memory of tensors, apart from variables and the program's own.
    #[cfg(not(attache_small))]
    fn release(&mut self) {
        self.is_allocated = false;
        for tensor in 0..self.tensors.len() {
            let is_kept = self.variables.contains(&tensor)
                || self.tensors.has_strings(tensor)
                || matches!(self.storage.get(tensor), None | Some(Storage::Custom(..)));
            if !is_kept {
                self.storage.take(tensor);
                self.tensors.set_data(tensor, std::ptr::null_mut(), self.allocation(tensor));
            }
        }
    }

    /// Sets the memory of variables to zero, or to the zero point if they are quantized int8.
    fn reset_variables(&mut self) {
        for tensor in &self.variables {
            let first = self.tensors.first_byte(*tensor);
            if let Some(bytes) = self.storage.get_mut(*tensor).and_then(Storage::bytes_mut) {
                bytes.fill(first);
            }
        }
    }

    /// Returns the bytes of a tensor.
    fn writable(&mut self, tensor: usize) -> Result<&mut [u8], Fault> {
        if !self.is_allocated {
            return Err(Fault::new("tensors are not allocated: call AllocateTensors first, and after each resize"));
        }
        let storage = self.storage.get_mut(tensor).and_then(Storage::bytes_mut);
        storage.ok_or_else(|| Fault::new("the tensor is neither an input nor an output that has memory"))
    }

    /// Returns the address of a tensor by its index in the subgraph; null if there is none.
    pub(crate) fn tensor(&self, index: c_int) -> *mut TfLiteTensor {
        usize::try_from(index).map_or(std::ptr::null_mut(), |index| self.tensors.at(index))
    }
}

/// Returns the bytes of a constant as its tensor shows them.
fn constant_bytes(tensor: &Tensor) -> Option<Bytes> {
    #[cfg(not(attache_small))]
    if let Some(stored) = &tensor.stored {
        return Some(stored.clone());
    }
    tensor.constant.as_ref().map(|constant| constant.bytes.clone())
}

/// Returns the delegate of C of this name; `None` if there are several.
fn only<'a>(external: &'a [Arc<ExternalDelegate>], name: &str) -> Option<&'a ExternalDelegate> {
    let mut named = external.iter().filter(|own| Delegate::name(&***own) == name);
    named.next().filter(|_| named.next().is_none()).map(|only| &**only)
}

fn same_size(size: usize, given: usize) -> Result<(), Fault> {
    if size == given { Ok(()) } else { Err(Fault::new(format!("the tensor has {size} bytes, not {given}"))) }
}

//! What an interpreter of the C API consists of: the interpreter of `attache`, and for each subgraph that the program
//! uses the tensors that it sees.

use std::collections::BTreeMap;
use std::ffi::c_int;

use attache::model::Subgraph as FileSubgraph;
use attache::{ErrorKind, Interpreter, Model, SignatureRunner};
use attache_abi::{TfLiteAllocationType, TfLiteStatus, TfLiteTensor};

use crate::fault::Fault;
use crate::live::Owner;
use crate::options::Configuration;
use crate::storage::Storage;
use crate::tensors::Tensors;

/// The subgraph of an interpreter's own functions. Others are used through signatures.
pub(crate) const MAIN: usize = 0;

/// An interpreter and its tensors.
pub(crate) struct State {
    pub(crate) model: Model,
    pub(crate) configuration: Configuration,
    /// `None` if the model cannot be prepared for the shapes of the file, which the program has to change.
    pub(crate) interpreter: Option<Interpreter>,
    address: usize,
    subgraphs: BTreeMap<usize, Subgraph>,
}

/// A subgraph that the program uses.
pub(crate) struct Subgraph {
    /// The key of its signature; `None` for the main subgraph.
    key: Option<String>,
    pub(crate) tensors: Tensors,
    pub(crate) inputs: Vec<c_int>,
    pub(crate) outputs: Vec<c_int>,
    pub(crate) variables: Vec<usize>,
    /// The positions of the signature's inputs and outputs in those of the subgraph; all of them in the main one.
    input_keys: Vec<Option<usize>>,
    output_keys: Vec<Option<usize>>,
    /// The memory of inputs and outputs, by the index of the tensor.
    pub(crate) storage: BTreeMap<usize, Storage>,
    /// The shapes that the program set, by the position of the input.
    shapes: BTreeMap<usize, Vec<usize>>,
    is_allocated: bool,
}

impl State {
    pub(crate) fn new(model: &Model, configuration: Configuration, address: usize) -> Result<Self, Fault> {
        let built = configuration.builder(model)?.build();
        let interpreter = match built {
            Ok(interpreter) => Some(interpreter),
            Err(error) if error.kind() != ErrorKind::Unsupported && has_open_shapes(&model.subgraphs()[MAIN]) => None,
            Err(error) => return Err(error.into()),
        };
        let mut state = Self { model: model.clone(), configuration, interpreter, address, subgraphs: BTreeMap::new() };
        state.require(MAIN, None);
        Ok(state)
    }

    /// Takes over an interpreter that was built already.
    pub(crate) fn of(interpreter: Interpreter, configuration: Configuration, address: usize) -> Self {
        let model = interpreter.model().clone();
        let interpreter = Some(interpreter);
        let mut state = Self { model, configuration, interpreter, address, subgraphs: BTreeMap::new() };
        state.require(MAIN, None);
        state
    }

    /// Makes the tensors of a subgraph, unless there are some.
    pub(crate) fn require(&mut self, subgraph: usize, key: Option<&str>) {
        let owner = Owner { interpreter: self.address, subgraph };
        let model = &self.model;
        self.subgraphs.entry(subgraph).or_insert_with(|| Subgraph::new(model, owner, key));
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
    fn ready(&mut self, subgraph: usize) -> Result<(&mut Subgraph, Access<'_>), Fault> {
        let (subgraph, interpreter) = self.parts(subgraph)?;
        if !subgraph.is_allocated {
            return Err(Fault::new("tensors are not allocated: call AllocateTensors first, and after each resize"));
        }
        let access = Access::new(interpreter, subgraph)?;
        Ok((subgraph, access))
    }

    /// Sets the shape of an input. It takes effect when tensors are allocated.
    pub(crate) fn resize(&mut self, subgraph: usize, position: usize, shape: &[c_int]) -> Result<(), Fault> {
        let subgraph = self.subgraph_mut(subgraph)?;
        let tensor = subgraph.input(position)?;
        let extent = |extent: &c_int| usize::try_from(*extent).map_err(|_| Fault::new("an extent is negative"));
        let shape: Vec<usize> = shape.iter().map(extent).collect::<Result<_, _>>()?;
        if subgraph.shape(tensor) == shape {
            return Ok(());
        }
        subgraph.tensors.set_shape(tensor, &shape);
        subgraph.shapes.insert(position, shape);
        subgraph.is_allocated = false;
        subgraph.forget_addresses();
        Ok(())
    }

    /// Prepares a subgraph for the shapes of its inputs.
    pub(crate) fn allocate(&mut self, subgraph: usize) -> Result<(), Fault> {
        if self.subgraph(subgraph)?.is_allocated {
            return Ok(());
        }
        if subgraph == MAIN && self.interpreter.is_none() {
            let mut builder = self.configuration.builder(&self.model)?;
            for (position, shape) in &self.subgraph(MAIN)?.shapes {
                builder = builder.input_shape(*position, shape);
            }
            self.interpreter = Some(builder.build()?);
        }
        let (subgraph, interpreter) = self.parts(subgraph)?;
        let mut access = Access::new(interpreter, subgraph)?;
        access.resize(&subgraph.shapes)?;
        subgraph.note_shapes(&mut access);
        drop(access);
        subgraph.is_allocated = true;
        subgraph.give_addresses()
    }

    /// Runs a subgraph. Inputs whose addresses the program has are read from there, outputs are written there.
    pub(crate) fn invoke(&mut self, subgraph: usize) -> Result<(), Fault> {
        let (subgraph, mut access) = self.ready(subgraph)?;
        for (position, tensor) in subgraph.inputs.iter().enumerate() {
            if let Some(bytes) = subgraph.storage.get(&(*tensor as usize)).and_then(Storage::bytes) {
                access.write(position, &bytes[..subgraph.tensors.bytes(*tensor as usize)])?;
            }
        }
        access.invoke()?;
        subgraph.note_shapes(&mut access);
        for position in 0..subgraph.outputs.len() {
            subgraph.fetch(position, &access)?;
        }
        Ok(())
    }

    /// Gives a tensor an address, and returns it; null if the tensor has none. Until the first run, outputs are zero.
    pub(crate) fn address(&mut self, subgraph: usize, tensor: usize) -> Result<*mut u8, Fault> {
        let found = self.subgraph(subgraph)?;
        let roles = (found.position_of_input(tensor), found.position_of_output(tensor));
        if roles == (None, None) {
            return Ok(constant_of(&self.model, subgraph, tensor));
        }
        if !found.is_allocated {
            return Ok(std::ptr::null_mut());
        }
        let (found, mut access) = self.ready(subgraph)?;
        let size = found.tensors.bytes(tensor);
        let storage = found.storage.entry(tensor).or_default();
        if storage.bytes().is_none() {
            storage.fit(size)?;
            let bytes = storage.bytes_mut().unwrap_or_default();
            match roles {
                (Some(input), _) => access.read_input(input, bytes)?,
                (None, Some(output)) => access.read(output, bytes).map(drop)?,
                (None, None) => {}
            }
        }
        let address = storage.address();
        found.tensors.set_data(tensor, address, TfLiteAllocationType::ARENA_RW);
        Ok(address)
    }

    /// Copies `bytes` into a tensor: directly into the interpreter where nobody has the tensor's address.
    pub(crate) fn copy_from(&mut self, subgraph: usize, tensor: usize, bytes: &[u8]) -> Result<(), Fault> {
        let (found, mut access) = self.ready(subgraph)?;
        same_size(found.tensors.bytes(tensor), bytes.len())?;
        let position = found.position_of_input(tensor);
        if let Some(into) = found.storage.get_mut(&tensor).and_then(Storage::bytes_mut) {
            into[..bytes.len()].copy_from_slice(bytes);
            return Ok(());
        }
        match position {
            Some(position) if access.write(position, bytes)? => Ok(()),
            _ => {
                self.address(subgraph, tensor)?;
                let storage = self.subgraph_mut(subgraph)?.storage.get_mut(&tensor);
                let into = storage.and_then(Storage::bytes_mut);
                into.ok_or_else(|| Fault::new("the tensor cannot be written"))?.copy_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// Copies a tensor into `bytes`.
    pub(crate) fn copy_to(&mut self, subgraph: usize, tensor: usize, bytes: &mut [u8]) -> Result<(), Fault> {
        let found = self.subgraph(subgraph)?;
        same_size(found.tensors.bytes(tensor), bytes.len())?;
        let roles = (found.position_of_input(tensor), found.position_of_output(tensor));
        if let Some(constant) = &self.model.subgraphs()[subgraph].tensors[tensor].constant {
            bytes.copy_from_slice(&constant.bytes[..bytes.len()]);
            return Ok(());
        }
        let (found, mut access) = self.ready(subgraph)?;
        match (found.storage.get(&tensor).and_then(Storage::bytes), roles) {
            (Some(stored), _) => bytes.copy_from_slice(&stored[..bytes.len()]),
            (None, (Some(input), _)) => access.read_input(input, bytes)?,
            (None, (None, Some(output))) if access.read(output, bytes)? => {}
            (None, (None, Some(_))) => return Err(Fault::new("the output has no value before the first run")),
            (None, (None, None)) => return Err(Fault::new("the tensor is neither an input, an output nor a constant")),
        }
        Ok(())
    }

    /// Sets memory of the program's as that of an input or an output.
    pub(crate) fn set_custom(&mut self, tensor: usize, data: *mut u8, size: usize) -> Result<(), Fault> {
        let found = self.subgraph_mut(MAIN)?;
        if found.position_of_input(tensor).or(found.position_of_output(tensor)).is_none() {
            return Err(Fault::new("only inputs and outputs can be in memory of the program's"));
        }
        let mut storage = Storage::Custom(data, size);
        storage.fit(found.tensors.bytes(tensor))?;
        found.storage.insert(tensor, storage);
        found.tensors.set_data(tensor, data, TfLiteAllocationType::CUSTOM);
        Ok(())
    }

    /// Builds the interpreter again with a changed configuration. Inputs keep their values; on failure everything stays.
    pub(crate) fn rebuild(&mut self, configuration: Configuration) -> Result<(), Fault> {
        let mut builder = configuration.builder(&self.model)?;
        for (position, shape) in &self.subgraph(MAIN)?.shapes {
            builder = builder.input_shape(*position, shape);
        }
        let mut built = Some(builder.build()?);
        let mut values = Vec::new();
        for (index, subgraph) in self.subgraphs.iter().filter(|(_, subgraph)| subgraph.is_allocated) {
            let mut before = Access::new(&mut self.interpreter, subgraph)?;
            for position in 0..subgraph.inputs.len() {
                let mut bytes = vec![0; subgraph.tensors.bytes(subgraph.inputs[position] as usize)];
                before.read_input(position, &mut bytes)?;
                values.push((*index, position, bytes));
            }
            drop(before);
            Access::new(&mut built, subgraph)?.resize(&subgraph.shapes)?;
        }
        for (index, position, bytes) in values {
            Access::new(&mut built, &self.subgraphs[&index])?.write(position, &bytes)?;
        }
        (self.interpreter, self.configuration) = (built, configuration);
        Ok(())
    }

    /// Returns the interpreter of `attache`.
    pub(crate) fn prepared(&mut self) -> Result<&mut Interpreter, Fault> {
        let interpreter = self.interpreter.as_mut();
        interpreter.ok_or_else(|| Fault::new("the model is not prepared: call AllocateTensors"))
    }

    /// Resets the variables of all subgraphs.
    pub(crate) fn reset_variables(&mut self) {
        if let Some(interpreter) = &mut self.interpreter {
            interpreter.reset_variables();
        }
    }
}

impl Subgraph {
    fn new(model: &Model, owner: Owner, key: Option<&str>) -> Self {
        let source = &model.subgraphs()[owner.subgraph];
        let signature = key.and_then(|key| model.signatures().iter().find(|signature| signature.key == key));
        let keys = |tensors: &[usize], names: Option<&Vec<(String, usize)>>| {
            let key = |(position, tensor): (usize, &usize)| match names {
                Some(names) => names.iter().position(|(_, named)| named == tensor),
                None => Some(position),
            };
            tensors.iter().enumerate().map(key).collect()
        };
        let indices = |tensors: &[usize]| tensors.iter().map(|index| *index as c_int).collect();
        let variables = source.tensors.iter().enumerate().filter(|(_, tensor)| tensor.is_variable);
        Self {
            key: key.map(str::to_owned),
            tensors: Tensors::new(model, owner),
            inputs: indices(&source.inputs),
            outputs: indices(&source.outputs),
            variables: variables.map(|(index, _)| index).collect(),
            input_keys: keys(&source.inputs, signature.map(|signature| &signature.inputs)),
            output_keys: keys(&source.outputs, signature.map(|signature| &signature.outputs)),
            storage: BTreeMap::new(),
            shapes: BTreeMap::new(),
            is_allocated: false,
        }
    }

    fn input(&self, position: usize) -> Result<usize, Fault> {
        let tensor = self.inputs.get(position).map(|tensor| *tensor as usize);
        tensor.ok_or_else(|| Fault::new(format!("there is no input {position}; there are {}", self.inputs.len())))
    }

    fn position_of_input(&self, tensor: usize) -> Option<usize> {
        self.inputs.iter().position(|index| *index as usize == tensor)
    }

    fn position_of_output(&self, tensor: usize) -> Option<usize> {
        self.outputs.iter().position(|index| *index as usize == tensor)
    }

    fn shape(&self, tensor: usize) -> Vec<usize> {
        self.tensors.shape(tensor)
    }

    /// Takes over the shapes of the interpreter's inputs and outputs.
    fn note_shapes(&mut self, access: &mut Access<'_>) {
        for (position, tensor) in self.inputs.iter().enumerate() {
            access.input_shape(position, |shape| self.tensors.set_shape(*tensor as usize, shape));
        }
        for (position, tensor) in self.outputs.iter().enumerate() {
            access.output_shape(position, |shape| self.tensors.set_shape(*tensor as usize, shape));
        }
    }

    /// Copies an output to where the program reads it, if it has asked for the address.
    fn fetch(&mut self, position: usize, access: &Access<'_>) -> Result<(), Fault> {
        let tensor = self.outputs[position] as usize;
        let size = self.tensors.bytes(tensor);
        let Some(storage) = self.storage.get_mut(&tensor) else { return Ok(()) };
        if storage.bytes().is_none() {
            return Ok(());
        }
        storage.fit(size)?;
        access.read(position, &mut storage.bytes_mut().unwrap_or_default()[..size])?;
        let allocation = storage.allocation();
        let address = storage.address();
        self.tensors.set_data(tensor, address, allocation);
        Ok(())
    }

    /// Makes the tensors' addresses null while they are not allocated.
    fn forget_addresses(&mut self) {
        for (tensor, storage) in &self.storage {
            self.tensors.set_data(*tensor, std::ptr::null_mut(), storage.allocation());
        }
    }

    /// Makes memory for the tensors whose addresses the program has asked for. It stays where it is if its size does.
    fn give_addresses(&mut self) -> Result<(), Fault> {
        for (tensor, storage) in &mut self.storage {
            storage.fit(self.tensors.bytes(*tensor))?;
            let allocation = storage.allocation();
            self.tensors.set_data(*tensor, storage.address(), allocation);
        }
        Ok(())
    }

    /// Returns the address of a tensor by its index in the subgraph; null if there is none.
    pub(crate) fn tensor(&self, index: c_int) -> *mut TfLiteTensor {
        usize::try_from(index).map_or(std::ptr::null_mut(), |index| self.tensors.at(index))
    }
}

/// Access to a subgraph of an interpreter by the positions of its inputs and outputs.
enum Access<'a> {
    Main(&'a mut Interpreter),
    Signature { runner: Box<SignatureRunner<'a>>, inputs: Vec<Option<usize>>, outputs: Vec<Option<usize>> },
}

impl<'a> Access<'a> {
    fn new(interpreter: &'a mut Option<Interpreter>, subgraph: &Subgraph) -> Result<Self, Fault> {
        let interpreter = interpreter.as_mut();
        let interpreter = interpreter.ok_or_else(|| Fault::new("the model is not prepared: call AllocateTensors"))?;
        let Some(key) = &subgraph.key else { return Ok(Self::Main(interpreter)) };
        let runner = Box::new(interpreter.signature(key)?);
        let (inputs, outputs) = (subgraph.input_keys.clone(), subgraph.output_keys.clone());
        Ok(Self::Signature { runner, inputs, outputs })
    }

    fn resize(&mut self, shapes: &BTreeMap<usize, Vec<usize>>) -> Result<(), Fault> {
        let changed: Vec<_> = shapes.iter().filter(|(position, shape)| !self.has_shape(**position, shape)).collect();
        match self {
            _ if changed.is_empty() => {}
            Self::Main(interpreter) => {
                let changes: Vec<_> = changed.iter().map(|(position, shape)| (**position, &shape[..])).collect();
                interpreter.resize_inputs(&changes)?;
            }
            Self::Signature { runner, inputs, .. } => {
                let key = |position: usize| inputs.get(position).copied().flatten();
                let changes = changed.iter().filter_map(|(position, shape)| Some((key(**position)?, &shape[..])));
                runner.resize_inputs(&changes.collect::<Vec<_>>())?;
            }
        }
        Ok(())
    }

    fn has_shape(&mut self, position: usize, shape: &[usize]) -> bool {
        let mut same = false;
        self.input_shape(position, |now| same = now == shape);
        same
    }

    fn input_shape(&mut self, position: usize, mut take: impl FnMut(&[usize])) {
        let info = match self {
            Self::Main(interpreter) => interpreter.inputs().get(position),
            Self::Signature { runner, inputs, .. } => {
                inputs[position].and_then(|key| runner.inputs().nth(key).map(|(_, info)| info))
            }
        };
        info.into_iter().for_each(|info| take(&info.shape));
    }

    fn output_shape(&mut self, position: usize, mut take: impl FnMut(&[usize])) {
        let info = match self {
            Self::Main(interpreter) => interpreter.outputs().get(position),
            Self::Signature { runner, outputs, .. } => {
                outputs[position].and_then(|key| runner.outputs().nth(key).map(|(_, info)| info))
            }
        };
        info.into_iter().for_each(|info| take(&info.shape));
    }

    fn invoke(&mut self) -> Result<(), Fault> {
        match self {
            Self::Main(interpreter) => interpreter.invoke()?,
            Self::Signature { runner, .. } => runner.invoke()?,
        }
        Ok(())
    }

    /// Writes an input. Returns false if the interpreter has no memory for it, because nothing reads it.
    fn write(&mut self, position: usize, bytes: &[u8]) -> Result<bool, Fault> {
        let written = match self {
            Self::Main(interpreter) => interpreter.write_bytes(position, bytes),
            Self::Signature { runner, inputs, .. } => match inputs[position] {
                Some(key) => runner.write_bytes(key, bytes),
                None => return Ok(false),
            },
        };
        unless_unsupported(written.map(|()| true))
    }

    /// Copies the value of an input.
    fn read_input(&mut self, position: usize, into: &mut [u8]) -> Result<(), Fault> {
        let bytes = match self {
            Self::Main(interpreter) => interpreter.input_bytes_mut(position),
            Self::Signature { runner, inputs, .. } => match inputs[position] {
                Some(key) => runner.input_bytes_mut(key),
                None => return Ok(()),
            },
        };
        unless_unsupported(bytes.map(|bytes| {
            into.copy_from_slice(bytes);
            true
        }))?;
        Ok(())
    }

    /// Copies an output. Returns false if it has no value.
    fn read(&self, position: usize, into: &mut [u8]) -> Result<bool, Fault> {
        let read = match self {
            Self::Main(interpreter) => interpreter.read_bytes_into(position, into),
            Self::Signature { runner, outputs, .. } => match outputs[position] {
                Some(key) => runner.read_bytes_into(key, into),
                None => return Ok(false),
            },
        };
        match read {
            Err(error) if error.kind() == ErrorKind::Usage => Ok(false),
            read => Ok(read.map(|()| true)?),
        }
    }
}

/// Turns the error that an input has no memory into false.
fn unless_unsupported(done: Result<bool, attache::Error>) -> Result<bool, Fault> {
    match done {
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(false),
        done => Ok(done?),
    }
}

fn same_size(size: usize, given: usize) -> Result<(), Fault> {
    let text = || format!("the tensor has {size} bytes, not {given}");
    if size == given { Ok(()) } else { Err(Fault { status: TfLiteStatus::ERROR, text: text() }) }
}

/// Whether the program has to choose extents of inputs.
fn has_open_shapes(subgraph: &FileSubgraph) -> bool {
    let mut inputs = subgraph.inputs.iter().map(|index| &subgraph.tensors[*index]);
    inputs.any(|input| {
        input.shape.contains(&0) || input.shape_signature.as_ref().is_some_and(|extents| extents.contains(&-1))
    })
}

/// Returns the address of a constant of the file; null for other tensors.
fn constant_of(model: &Model, subgraph: usize, tensor: usize) -> *mut u8 {
    let constant = model.subgraphs()[subgraph].tensors.get(tensor).and_then(|tensor| tensor.constant.as_ref());
    constant.map_or(std::ptr::null_mut(), |constant| constant.bytes.as_ptr().cast_mut())
}

//! What an operator's CPU form sees: its inputs and outputs as slices, threads, a place to keep packed weights, and the
//! interpreter around it.

use std::any::Any;

use attache_base::{Constant, DataType, Element, Parallel, Quantization, Shape};

use crate::OpError;

/// A tensor to read. Its bytes are aligned for their elements.
#[derive(Clone, Copy, Debug)]
pub struct TensorRef<'a> {
    /// Type of the elements.
    pub data_type: DataType,
    /// Extents, outermost first.
    pub shape: &'a Shape,
    /// Exactly as many bytes as the shape takes.
    pub bytes: &'a [u8],
    /// How stored numbers stand for real ones.
    pub quantization: Option<&'a Quantization>,
    /// Whether the value is the same at every run.
    pub is_constant: bool,
}

/// A tensor to write. Its bytes are aligned for their elements and hold anything.
#[derive(Debug)]
pub struct TensorMut<'a> {
    /// Type of the elements.
    pub data_type: DataType,
    /// Extents, outermost first.
    pub shape: &'a Shape,
    /// Exactly as many bytes as the shape takes.
    pub bytes: &'a mut [u8],
    /// How stored numbers stand for real ones.
    pub quantization: Option<&'a Quantization>,
}

impl<'a> TensorRef<'a> {
    /// The elements; an error where they are of another type.
    pub fn values<T: Element>(&self) -> Result<&'a [T], OpError> {
        typed(self.data_type, T::DATA_TYPE)?;
        bytemuck::try_cast_slice(self.bytes).map_err(|error| OpError::invalid(format!("the tensor's bytes: {error}")))
    }

    /// Integer elements of 32 or 64 bits, widened.
    pub fn integers(&self) -> Result<Vec<i64>, OpError> {
        match self.data_type {
            DataType::Int64 => Ok(self.values::<i64>()?.to_vec()),
            _ => Ok(self.values::<i32>()?.iter().map(|value| i64::from(*value)).collect()),
        }
    }
}

impl TensorMut<'_> {
    /// The elements; an error where they are of another type.
    pub fn values<T: Element>(&mut self) -> Result<&mut [T], OpError> {
        typed(self.data_type, T::DATA_TYPE)?;
        bytemuck::try_cast_slice_mut(self.bytes)
            .map_err(|error| OpError::invalid(format!("the tensor's bytes: {error}")))
    }
}

fn typed(is: DataType, expected: DataType) -> Result<(), OpError> {
    if is == expected {
        return Ok(());
    }
    Err(OpError::unsupported(format!("a tensor of type {is} where {expected} is implemented")))
}

/// What the interpreter offers an operator beyond its own tensors.
pub trait Host {
    /// Runs another subgraph of the model: its inputs in, its outputs out.
    fn run_subgraph(&mut self, subgraph: usize, inputs: &[TensorRef<'_>]) -> Result<Vec<(Shape, Vec<u8>)>, OpError>;

    /// Gives an output its value, where `infer` can't tell the shape even with all values at hand.
    fn set_output(&mut self, output: usize, shape: Shape, bytes: &[u8]) -> Result<(), OpError> {
        let _ = (output, shape, bytes);
        Err(OpError::unsupported(NO_HOST))
    }

    /// Gives an input that is a variable the value that the next run finds, once the operator is done. `bytes` are as many
    /// as it has.
    fn set_state(&mut self, input: usize, bytes: &[u8]) -> Result<(), OpError> {
        let _ = (input, bytes);
        Err(OpError::unsupported(NO_HOST))
    }

    /// Runs a subgraph without inputs and outputs, unless it ran before.
    fn run_subgraph_once(&mut self, subgraph: usize) -> Result<(), OpError> {
        let _ = subgraph;
        Err(OpError::unsupported(NO_HOST))
    }

    /// The handle of the resource variable of this name: the same at each call.
    fn variable_handle(&mut self, container: &str, name: &str) -> Result<Handle, OpError> {
        let _ = (container, name);
        Err(OpError::unsupported(NO_HOST))
    }

    /// The value of a resource variable; `None` before the first one is set.
    fn variable(&self, handle: Handle) -> Result<Option<Constant>, OpError> {
        let _ = handle;
        Err(OpError::unsupported(NO_HOST))
    }

    /// Sets a resource variable, of whatever type and shape.
    fn set_variable(&mut self, handle: Handle, value: Constant) -> Result<(), OpError> {
        let _ = (handle, value);
        Err(OpError::unsupported(NO_HOST))
    }
}

/// What an operator hears where there is no interpreter around it.
const NO_HOST: &str = "it runs only within an interpreter";

/// Names a resource variable: what an element of a tensor of type `RESOURCE` is at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(pub u64);

impl Handle {
    /// Bytes of an element.
    pub const SIZE: usize = 8;

    /// The handle that a tensor of one element holds; an error where it holds something else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, OpError> {
        let bytes =
            bytes.try_into().map_err(|_| OpError::invalid("a tensor of resources that does not hold just one"))?;
        Ok(Self(u64::from_le_bytes(bytes)))
    }

    /// The bytes of an element.
    pub fn to_bytes(self) -> [u8; Self::SIZE] {
        self.0.to_le_bytes()
    }
}

/// A place where an operator keeps what it computed once: packed weights, tables, scratch.
#[derive(Default)]
pub struct Cache(Option<Box<dyn Any + Send>>);

impl Cache {
    /// What was kept, made by `make` the first time.
    pub fn get_or_make<T: Any + Send>(&mut self, make: impl FnOnce() -> T) -> &mut T {
        if !self.0.as_ref().is_some_and(|kept| kept.is::<T>()) {
            self.0 = Some(Box::new(make()));
        }
        self.0.as_mut().and_then(|kept| kept.downcast_mut()).expect("just made with this type")
    }
}

/// What an operator's CPU form sees.
pub struct Eval<'a> {
    /// The inputs as the file has them, `None` for an optional one left out.
    pub inputs: Vec<Option<TensorRef<'a>>>,
    /// The outputs.
    pub outputs: Vec<TensorMut<'a>>,
    /// Kept from run to run; forgotten when a shape changes.
    pub cache: &'a mut Cache,
    /// Threads.
    pub parallel: &'a dyn Parallel,
    /// The interpreter around the operator.
    pub host: &'a mut dyn Host,
}

impl<'a> Eval<'a> {
    /// An input that must be there.
    pub fn input(&self, index: usize) -> Result<TensorRef<'a>, OpError> {
        self.optional(index).ok_or_else(|| OpError::invalid(format!("input {index} is missing")))
    }

    /// An input that may be left out.
    pub fn optional(&self, index: usize) -> Option<TensorRef<'a>> {
        self.inputs.get(index).copied().flatten()
    }
}

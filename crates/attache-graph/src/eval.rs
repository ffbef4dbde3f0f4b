//! Evaluation: the interface through which an operator runs on the CPU. It provides inputs and outputs as slices,
//! threads, a cache for packed weights, and access to the interpreter.

use std::any::Any;

use attache_base::{Constant, DataType, Element, Parallel, Quantization, Shape};

use crate::OpError;

/// A tensor to read. Its bytes are aligned for the element type.
#[derive(Clone, Copy, Debug)]
pub struct TensorRef<'a> {
    /// Type of the elements.
    pub data_type: DataType,
    /// Extents, outermost first.
    pub shape: &'a Shape,
    /// Exactly as many bytes as the shape needs.
    pub bytes: &'a [u8],
    /// Quantization parameters.
    pub quantization: Option<&'a Quantization>,
    /// Whether the value is the same at every run.
    pub is_constant: bool,
}

/// A tensor to write. Its bytes are aligned for the element type, and their initial content is arbitrary.
#[derive(Debug)]
pub struct TensorMut<'a> {
    /// Type of the elements.
    pub data_type: DataType,
    /// Extents, outermost first.
    pub shape: &'a Shape,
    /// Exactly as many bytes as the shape needs.
    pub bytes: &'a mut [u8],
    /// Quantization parameters.
    pub quantization: Option<&'a Quantization>,
}

impl<'a> TensorRef<'a> {
    /// The elements.
    ///
    /// # Errors
    ///
    /// Fails where the elements are of another type.
    pub fn values<T: Element>(&self) -> Result<&'a [T], OpError> {
        typed(self.data_type, T::DATA_TYPE)?;
        bytemuck::try_cast_slice(self.bytes).map_err(|error| OpError::invalid(format!("the tensor's bytes: {error}")))
    }

    /// Integer elements of 32 or 64 bits, widened to 64 bits.
    ///
    /// # Errors
    ///
    /// Fails where the elements are of another type.
    pub fn integers(&self) -> Result<Vec<i64>, OpError> {
        match self.data_type {
            DataType::Int64 => Ok(self.values::<i64>()?.to_vec()),
            _ => Ok(self.values::<i32>()?.iter().map(|value| i64::from(*value)).collect()),
        }
    }
}

impl TensorMut<'_> {
    /// The elements, to be written.
    ///
    /// # Errors
    ///
    /// Fails where the elements are of another type.
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

/// Services of the interpreter that an operator can call.
pub trait Host {
    /// Runs another subgraph of the model on these inputs and returns its outputs.
    ///
    /// # Errors
    ///
    /// Fails where the subgraph fails, or where there is no interpreter.
    fn run_subgraph(&mut self, subgraph: usize, inputs: &[TensorRef<'_>]) -> Result<Vec<(Shape, Vec<u8>)>, OpError>;

    /// Sets the value and shape of an output whose shape `infer` can't tell even from the input values.
    ///
    /// # Errors
    ///
    /// Fails where the value does not fit the output, or where there is no interpreter.
    fn set_output(&mut self, output: usize, shape: Shape, bytes: &[u8]) -> Result<(), OpError> {
        let _ = (output, shape, bytes);
        Err(OpError::unsupported(NO_HOST))
    }

    /// Sets the value that a variable input has at the next run, once the operator is done. `bytes` has the size of the
    /// variable.
    ///
    /// # Errors
    ///
    /// Fails where there is no interpreter.
    fn set_state(&mut self, input: usize, bytes: &[u8]) -> Result<(), OpError> {
        let _ = (input, bytes);
        Err(OpError::unsupported(NO_HOST))
    }

    /// Runs a subgraph without inputs and outputs, unless it has run before.
    ///
    /// # Errors
    ///
    /// Fails where the subgraph fails, or where there is no interpreter.
    fn run_subgraph_once(&mut self, subgraph: usize) -> Result<(), OpError> {
        let _ = subgraph;
        Err(OpError::unsupported(NO_HOST))
    }

    /// The handle of the resource variable with this name. Every call returns the same handle.
    ///
    /// # Errors
    ///
    /// Fails where there is no interpreter.
    fn variable_handle(&mut self, container: &str, name: &str) -> Result<Handle, OpError> {
        let _ = (container, name);
        Err(OpError::unsupported(NO_HOST))
    }

    /// The value of a resource variable; `None` before its first assignment.
    ///
    /// # Errors
    ///
    /// Fails where the handle is unknown, or where there is no interpreter.
    fn variable(&self, handle: Handle) -> Result<Option<Constant>, OpError> {
        let _ = handle;
        Err(OpError::unsupported(NO_HOST))
    }

    /// Sets a resource variable to a value of any type and shape.
    ///
    /// # Errors
    ///
    /// Fails where the handle is unknown, or where there is no interpreter.
    fn set_variable(&mut self, handle: Handle, value: Constant) -> Result<(), OpError> {
        let _ = (handle, value);
        Err(OpError::unsupported(NO_HOST))
    }
}

/// Error text of host services where there is no interpreter.
const NO_HOST: &str = "it runs only within an interpreter";

/// Identifies a resource variable; the run-time element of a tensor of type `RESOURCE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(pub u64);

impl Handle {
    /// Bytes of a handle.
    pub const SIZE: usize = 8;

    /// Decodes the handle of a tensor with one element.
    ///
    /// # Errors
    ///
    /// Fails where the bytes are not exactly one handle.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, OpError> {
        let bytes =
            bytes.try_into().map_err(|_| OpError::invalid("a tensor of resources that does not hold just one"))?;
        Ok(Self(u64::from_le_bytes(bytes)))
    }

    /// Encodes the handle as the bytes of an element.
    pub fn to_bytes(self) -> [u8; Self::SIZE] {
        self.0.to_le_bytes()
    }
}

/// Storage in which an operator keeps what it computes once: packed weights, tables, scratch buffers.
#[derive(Default)]
pub struct Cache(Option<Box<dyn Any + Send>>);

impl Cache {
    /// The cached value; `make` computes it where none of this type is cached.
    pub fn get_or_make<T: Any + Send>(&mut self, make: impl FnOnce() -> T) -> &mut T {
        if !self.0.as_ref().is_some_and(|kept| kept.is::<T>()) {
            self.0 = Some(Box::new(make()));
        }
        self.0.as_mut().and_then(|kept| kept.downcast_mut()).expect("just made with this type")
    }
}

/// The context of one evaluation on the CPU.
pub struct Eval<'a> {
    /// The inputs in the file's order, `None` for an optional input that is left out.
    pub inputs: Vec<Option<TensorRef<'a>>>,
    /// The outputs.
    pub outputs: Vec<TensorMut<'a>>,
    /// Kept from run to run; cleared when a shape changes.
    pub cache: &'a mut Cache,
    /// The thread pool.
    pub parallel: &'a dyn Parallel,
    /// The interpreter around the operator.
    pub host: &'a mut dyn Host,
}

impl<'a> Eval<'a> {
    /// A required input.
    ///
    /// # Errors
    ///
    /// Fails where the input is missing.
    pub fn input(&self, index: usize) -> Result<TensorRef<'a>, OpError> {
        self.optional(index).ok_or_else(|| OpError::invalid(format!("input {index} is missing")))
    }

    /// An optional input.
    pub fn optional(&self, index: usize) -> Option<TensorRef<'a>> {
        self.inputs.get(index).copied().flatten()
    }
}

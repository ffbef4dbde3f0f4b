//! Evaluation: the interface through which an operator runs on the CPU. [`Eval`] provides inputs and outputs
//! as slices, threads, a cache for packed weights, and access to the interpreter.

use std::any::Any;

use attache_base::{Constant, DataType, Element, Parallel, Quantization, Shape};

use crate::OpError;

/// An input tensor of an evaluation. Its bytes are aligned for the element type.
#[derive(Clone, Copy, Debug)]
pub struct TensorRef<'a> {
    /// Type of the elements.
    pub data_type: DataType,
    /// Extents per axis, outermost first.
    pub shape: &'a Shape,
    /// The elements in row-major order, in exactly as many bytes as the shape needs.
    pub bytes: &'a [u8],
    /// Quantization parameters; `None` for a tensor that is not quantized.
    pub quantization: Option<&'a Quantization>,
    /// Whether the tensor is a constant of the model, so that its value is the same in every run.
    pub is_constant: bool,
}

/// An output tensor of an evaluation. Its bytes are aligned for the element type, and their initial content
/// is arbitrary.
#[derive(Debug)]
pub struct TensorMut<'a> {
    /// Type of the elements.
    pub data_type: DataType,
    /// Extents per axis, outermost first.
    pub shape: &'a Shape,
    /// Memory for the elements in row-major order, exactly as many bytes as the shape needs.
    pub bytes: &'a mut [u8],
    /// Quantization parameters; `None` for a tensor that is not quantized.
    pub quantization: Option<&'a Quantization>,
}

impl<'a> TensorRef<'a> {
    /// Returns the elements in row-major order.
    ///
    /// # Errors
    ///
    /// Fails if `T` does not represent the element type.
    pub fn values<T: Element>(&self) -> Result<&'a [T], OpError> {
        typed(self.data_type, T::DATA_TYPE)?;
        bytemuck::try_cast_slice(self.bytes).map_err(|error| OpError::invalid(format!("the tensor's bytes: {error}")))
    }

    /// Returns the elements of an `INT32` or `INT64` tensor, widened to 64 bits.
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
    /// Returns the elements for writing, in row-major order.
    ///
    /// # Errors
    ///
    /// Fails if `T` does not represent the element type.
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

/// Services of the interpreter that an operator can use during its evaluation: other subgraphs, outputs of
/// unknown shape, and variables.
pub trait Host {
    /// Runs another subgraph of the model on these inputs and returns the shape and the bytes of each of its
    /// outputs.
    ///
    /// # Errors
    ///
    /// Fails where the subgraph fails, or where there is no interpreter.
    fn run_subgraph(&mut self, subgraph: usize, inputs: &[TensorRef<'_>]) -> Result<Vec<(Shape, Vec<u8>)>, OpError>;

    /// Sets the shape and the bytes of the output with index `output`, whose shape `infer` can't tell even
    /// from the input values.
    ///
    /// # Errors
    ///
    /// Fails if there is no such output, if memory for the bytes cannot be allocated, or if there is no
    /// interpreter.
    fn set_output(&mut self, output: usize, shape: Shape, bytes: &[u8]) -> Result<(), OpError> {
        let _ = (output, shape, bytes);
        Err(OpError::unsupported(NO_HOST))
    }

    /// Sets the new value of the variable tensor that is the input with index `input`. The interpreter copies
    /// `bytes`, which have the size of the variable, into the variable after the evaluation.
    ///
    /// # Errors
    ///
    /// Fails where there is no interpreter.
    fn set_state(&mut self, input: usize, bytes: &[u8]) -> Result<(), OpError> {
        let _ = (input, bytes);
        Err(OpError::unsupported(NO_HOST))
    }

    /// Runs a subgraph without inputs and outputs, unless an earlier call has run it already.
    ///
    /// # Errors
    ///
    /// Fails where the subgraph fails, or where there is no interpreter.
    fn run_subgraph_once(&mut self, subgraph: usize) -> Result<(), OpError> {
        let _ = subgraph;
        Err(OpError::unsupported(NO_HOST))
    }

    /// Returns the handle of the resource variable with this name in this container. Calls with the same
    /// names return the same handle.
    ///
    /// # Errors
    ///
    /// Fails where there is no interpreter.
    fn variable_handle(&mut self, container: &str, name: &str) -> Result<Handle, OpError> {
        let _ = (container, name);
        Err(OpError::unsupported(NO_HOST))
    }

    /// Returns the value of a resource variable; `None` before its first assignment.
    ///
    /// # Errors
    ///
    /// Fails if no variable has this handle, or if there is no interpreter.
    fn variable(&self, handle: Handle) -> Result<Option<Constant>, OpError> {
        let _ = handle;
        Err(OpError::unsupported(NO_HOST))
    }

    /// Assigns a value of any type and shape to a resource variable.
    ///
    /// # Errors
    ///
    /// Fails if no variable has this handle, or if there is no interpreter.
    fn set_variable(&mut self, handle: Handle, value: Constant) -> Result<(), OpError> {
        let _ = (handle, value);
        Err(OpError::unsupported(NO_HOST))
    }
}

/// Error text of the default methods of [`Host`], for hosts without an interpreter.
const NO_HOST: &str = "it runs only within an interpreter";

/// Identifies a resource variable of an interpreter. An element of a tensor of type `RESOURCE` is a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(pub u64);

impl Handle {
    /// Size of an encoded handle in bytes.
    pub const SIZE: usize = 8;

    /// Decodes the bytes of a `RESOURCE` tensor with one element.
    ///
    /// # Errors
    ///
    /// Fails if `bytes` are not exactly one handle.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, OpError> {
        let bytes =
            bytes.try_into().map_err(|_| OpError::invalid("a tensor of resources that does not hold just one"))?;
        Ok(Self(u64::from_le_bytes(bytes)))
    }

    /// Encodes the handle as the bytes of one element of a `RESOURCE` tensor.
    pub fn to_bytes(self) -> [u8; Self::SIZE] {
        self.0.to_le_bytes()
    }
}

/// Storage of a node for a value that its operator computes in one run and uses again in later runs: packed
/// weights, tables, scratch buffers.
#[derive(Default)]
pub struct Cache(Option<Box<dyn Any + Send>>);

impl Cache {
    /// Returns the cached value. If none of the type `T` is cached, computes it with `make` and replaces what
    /// is cached.
    pub fn get_or_make<T: Any + Send>(&mut self, make: impl FnOnce() -> T) -> &mut T {
        if !self.0.as_ref().is_some_and(|kept| kept.is::<T>()) {
            self.0 = Some(Box::new(make()));
        }
        self.0.as_mut().and_then(|kept| kept.downcast_mut()).expect("just made with this type")
    }
}

/// Everything that one evaluation of an operator on the CPU reads, writes and uses.
pub struct Eval<'a> {
    /// The inputs in the model file's order; `None` for an optional input that is left out.
    pub inputs: Vec<Option<TensorRef<'a>>>,
    /// The outputs in the model file's order. Empty if their shapes can't be inferred, in which case the
    /// operator calls [`Host::set_output`].
    pub outputs: Vec<TensorMut<'a>>,
    /// The node's cache, kept from run to run and cleared when a shape of an input or output changes.
    pub cache: &'a mut Cache,
    /// The threads on which kernels run their tasks.
    pub parallel: &'a dyn Parallel,
    /// The services of the interpreter that runs the operator.
    pub host: &'a mut dyn Host,
}

impl<'a> Eval<'a> {
    /// Returns the input with this index, which the operator requires.
    ///
    /// # Errors
    ///
    /// Fails if the input is left out or does not exist.
    pub fn input(&self, index: usize) -> Result<TensorRef<'a>, OpError> {
        self.optional(index).ok_or_else(|| OpError::invalid(format!("input {index} is missing")))
    }

    /// Returns the input with this index; `None` if it is left out or does not exist.
    pub fn optional(&self, index: usize) -> Option<TensorRef<'a>> {
        self.inputs.get(index).copied().flatten()
    }
}

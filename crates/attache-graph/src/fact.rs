//! Facts: what is known about a tensor before the first run ([`Fact`]), and what operators infer about their
//! outputs ([`Inferred`]).

use attache_base::{Constant, DataType, Quantization, Shape};

use crate::Handle;

/// What is known about a tensor of a graph before the first run.
#[derive(Clone, Debug)]
pub struct Fact {
    /// Type of the elements.
    pub data_type: DataType,
    /// Extents per axis, outermost first; `None` if they are known only at run time.
    pub shape: Option<Shape>,
    /// The tensor's elements, if they are known before the first run; `None` for tensors that a run computes
    /// or the caller writes.
    pub constant: Option<Constant>,
    /// Quantization parameters; `None` for tensors that are not quantized.
    pub quantization: Option<Quantization>,
    /// Whether the tensor is a variable, which keeps its value from run to run (the state of an LSTM).
    pub is_variable: bool,
    /// For a tensor that holds the handle of a resource variable: the shape that every read of the variable
    /// returns. `None` if that shape is not known, and for all other tensors.
    pub held: Option<Shape>,
}

impl Fact {
    /// Creates the fact of a tensor of known type and shape that is not constant, quantized or a variable.
    pub fn new(data_type: DataType, shape: impl Into<Shape>) -> Self {
        Self {
            data_type,
            shape: Some(shape.into()),
            constant: None,
            quantization: None,
            is_variable: false,
            held: None,
        }
    }

    /// Creates the fact of a constant tensor that is not quantized.
    #[must_use]
    pub fn constant(constant: Constant) -> Self {
        Self { constant: Some(constant.clone()), ..Self::new(constant.data_type, constant.shape) }
    }

    /// Returns the byte with which a variable is filled before its first write: the zero point for an `INT8`
    /// tensor with a single zero point, else 0.
    #[must_use]
    pub fn first_byte(&self) -> u8 {
        let points = self.quantization.as_ref().map(|quantization| quantization.zero_point.as_slice());
        match (self.data_type, points) {
            (DataType::Int8, Some([point])) => *point as u8,
            _ => 0,
        }
    }

    /// Returns the tensor's size in bytes; `None` if the shape is not known, elements have no fixed size, or
    /// the size overflows.
    #[must_use]
    pub fn byte_size(&self) -> Option<usize> {
        self.byte_size_as(self.shape.as_ref()?)
    }

    /// Returns the size in bytes that the tensor would have with the shape `shape`; `None` if elements have
    /// no fixed size or the size overflows.
    #[must_use]
    pub fn byte_size_as(&self, shape: &Shape) -> Option<usize> {
        let elements = shape.checked_elements()?;
        match self.data_type {
            DataType::Resource => elements.checked_mul(Handle::SIZE),
            _ => self.data_type.byte_size(elements),
        }
    }
}

/// Type and shape that an operator infers for one of its outputs.
#[derive(Clone, Debug, PartialEq)]
pub struct Inferred {
    /// Type of the elements.
    pub data_type: DataType,
    /// Extents per axis, outermost first; `None` if they are known only at run time.
    pub shape: Option<Shape>,
}

impl Inferred {
    /// Creates the result for an output of known shape.
    pub fn new(data_type: DataType, shape: impl Into<Shape>) -> Self {
        Self { data_type, shape: Some(shape.into()) }
    }

    /// Creates the result for an output whose shape is known only at run time.
    #[must_use]
    pub fn unknown(data_type: DataType) -> Self {
        Self { data_type, shape: None }
    }
}

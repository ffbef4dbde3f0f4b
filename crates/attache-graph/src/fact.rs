//! What is known about a tensor before anything runs.

use attache_base::{Constant, DataType, Quantization, Shape};

use crate::Handle;

/// What is known about a tensor before anything runs.
#[derive(Clone, Debug)]
pub struct Fact {
    /// Type of the elements.
    pub data_type: DataType,
    /// Extents; `None` where only a run tells them.
    pub shape: Option<Shape>,
    /// The value, where it is known.
    pub constant: Option<Constant>,
    /// How stored numbers stand for real ones, for quantized tensors.
    pub quantization: Option<Quantization>,
    /// Whether the tensor keeps its value between runs.
    pub is_variable: bool,
    /// Of the handle of a resource variable: the shape of every value that the variable is read with, where it is known.
    pub held: Option<Shape>,
}

impl Fact {
    /// A tensor of which the type and the shape are known.
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

    /// A tensor whose value is known.
    pub fn constant(constant: Constant) -> Self {
        Self { constant: Some(constant.clone()), ..Self::new(constant.data_type, constant.shape) }
    }

    /// What every byte of a variable is before it is first written: the zero point of bytes with a sign, else 0.
    pub fn first_byte(&self) -> u8 {
        let points = self.quantization.as_ref().map(|quantization| quantization.zero_point.as_slice());
        match (self.data_type, points) {
            (DataType::Int8, Some([point])) => *point as u8,
            _ => 0,
        }
    }

    /// Bytes that the tensor takes; `None` where its shape or the size of its elements is not known.
    pub fn byte_size(&self) -> Option<usize> {
        self.byte_size_as(self.shape.as_ref()?)
    }

    /// Bytes that the tensor takes when it has this shape; `None` where the size of its elements is not known.
    pub fn byte_size_as(&self, shape: &Shape) -> Option<usize> {
        let elements = shape.checked_elements()?;
        match self.data_type {
            DataType::Resource => elements.checked_mul(Handle::SIZE),
            _ => self.data_type.byte_size(elements),
        }
    }
}

/// Type and shape that an operator gives an output; no shape where only a run tells it.
#[derive(Clone, Debug, PartialEq)]
pub struct Inferred {
    /// Type of the elements.
    pub data_type: DataType,
    /// Extents; `None` where only a run tells them.
    pub shape: Option<Shape>,
}

impl Inferred {
    /// A known shape.
    pub fn new(data_type: DataType, shape: impl Into<Shape>) -> Self {
        Self { data_type, shape: Some(shape.into()) }
    }

    /// A shape that only a run tells.
    pub fn unknown(data_type: DataType) -> Self {
        Self { data_type, shape: None }
    }
}

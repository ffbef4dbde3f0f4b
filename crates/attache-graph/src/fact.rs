//! What is known about a tensor before anything runs.

use attache_base::{Constant, DataType, Quantization, Shape};

use crate::Handle;

/// What is known about a tensor before anything runs.
#[derive(Clone, Debug)]
pub struct Fact {
    /// Type of the elements.
    pub data_type: DataType,
    /// Extents; `None` where they are known only at run time.
    pub shape: Option<Shape>,
    /// The value, where it is known.
    pub constant: Option<Constant>,
    /// Quantization parameters, for quantized tensors.
    pub quantization: Option<Quantization>,
    /// Whether the tensor keeps its value between runs.
    pub is_variable: bool,
    /// For the handle of a resource variable: the shape that every read of the variable returns, where it is known.
    pub held: Option<Shape>,
}

impl Fact {
    /// A tensor of known type and shape.
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

    /// A constant tensor.
    pub fn constant(constant: Constant) -> Self {
        Self { constant: Some(constant.clone()), ..Self::new(constant.data_type, constant.shape) }
    }

    /// The byte that fills a variable before its first write: the zero point of `INT8` tensors with one scale, else 0.
    pub fn first_byte(&self) -> u8 {
        let points = self.quantization.as_ref().map(|quantization| quantization.zero_point.as_slice());
        match (self.data_type, points) {
            (DataType::Int8, Some([point])) => *point as u8,
            _ => 0,
        }
    }

    /// Size in bytes; `None` where the shape or the element size is not known.
    pub fn byte_size(&self) -> Option<usize> {
        self.byte_size_as(self.shape.as_ref()?)
    }

    /// Size in bytes with this shape; `None` where the element size is not known or the element count overflows.
    pub fn byte_size_as(&self, shape: &Shape) -> Option<usize> {
        let elements = shape.checked_elements()?;
        match self.data_type {
            DataType::Resource => elements.checked_mul(Handle::SIZE),
            _ => self.data_type.byte_size(elements),
        }
    }
}

/// Inferred type and shape of an output.
#[derive(Clone, Debug, PartialEq)]
pub struct Inferred {
    /// Type of the elements.
    pub data_type: DataType,
    /// Extents; `None` where they are known only at run time.
    pub shape: Option<Shape>,
}

impl Inferred {
    /// An output of known shape.
    pub fn new(data_type: DataType, shape: impl Into<Shape>) -> Self {
        Self { data_type, shape: Some(shape.into()) }
    }

    /// An output whose shape is known only at run time.
    pub fn unknown(data_type: DataType) -> Self {
        Self { data_type, shape: None }
    }
}

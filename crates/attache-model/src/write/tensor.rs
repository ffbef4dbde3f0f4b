//! Builder of one tensor.

use attache_base::{Bytes, Constant, DataType, Element, Quantization, Shape};

use crate::schema;

/// Describes a tensor to be written.
#[derive(Clone, Debug)]
pub struct TensorBuilder {
    tensor: schema::TensorT,
    data: Option<Bytes>,
}

impl TensorBuilder {
    /// A tensor without data: an input or a result.
    ///
    /// # Panics
    ///
    /// Panics if an extent exceeds 31 bits.
    pub fn new(name: &str, data_type: DataType, shape: impl Into<Shape>) -> Self {
        let extents = shape.into();
        let extents = extents.iter().map(|extent| i32::try_from(*extent).expect("extents fit 31 bits"));
        let tensor = schema::TensorT {
            name: Some(name.to_owned()),
            shape: Some(extents.collect()),
            type_: schema::TensorType(data_type.code()),
            has_rank: true,
            ..Default::default()
        };
        Self { tensor, data: None }
    }

    /// A constant tensor with these values.
    ///
    /// # Panics
    ///
    /// Panics if `values` does not have as many elements as `shape`, or if an extent exceeds 31 bits.
    pub fn values<T: Element>(name: &str, shape: impl Into<Shape>, values: &[T]) -> Self {
        Self::constant(name, &Constant::from_values(shape, values))
    }

    /// A tensor with the value of a constant.
    ///
    /// # Panics
    ///
    /// Panics if an extent exceeds 31 bits.
    pub fn constant(name: &str, constant: &Constant) -> Self {
        Self::new(name, constant.data_type, constant.shape.clone()).data(constant.bytes.clone())
    }

    /// Sets the data: little-endian elements, with packed types packed as in the file.
    pub fn data(mut self, bytes: Bytes) -> Self {
        self.data = Some(bytes);
        self
    }

    /// Sets affine quantization.
    pub fn quantization(mut self, quantization: &Quantization) -> Self {
        self.tensor.quantization = Some(Box::new(schema::QuantizationParametersT {
            scale: Some(quantization.scale.clone()),
            zero_point: Some(quantization.zero_point.clone()),
            quantized_dimension: quantization.axis as i32,
            ..Default::default()
        }));
        self
    }

    /// Sets affine quantization with one scale and zero point.
    pub fn quantized(self, scale: f32, zero_point: i64) -> Self {
        self.quantization(&Quantization { scale: vec![scale], zero_point: vec![zero_point], axis: 0 })
    }

    /// Makes the tensor a variable, whose value persists from one run to the next.
    pub fn variable(mut self) -> Self {
        self.tensor.is_variable = true;
        self
    }

    /// Sets the shape signature: -1 for extents that the caller decides.
    pub fn shape_signature(mut self, extents: impl Into<Vec<i32>>) -> Self {
        self.tensor.shape_signature = Some(extents.into());
        self
    }

    /// Modifies the table that will be written, for fields without a method here (sparsity, other quantization).
    pub fn with(mut self, change: impl FnOnce(&mut schema::TensorT)) -> Self {
        change(&mut self.tensor);
        self
    }

    pub(super) fn into_parts(self) -> (schema::TensorT, Option<Bytes>) {
        (self.tensor, self.data)
    }
}

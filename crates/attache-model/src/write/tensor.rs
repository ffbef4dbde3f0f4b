//! [`TensorBuilder`], which describes one tensor for a `ModelBuilder`.

use attache_base::{Bytes, Constant, DataType, Element, Quantization, Shape};

use crate::schema;

/// Describes a tensor to be written.
#[must_use]
#[derive(Clone, Debug)]
pub struct TensorBuilder {
    tensor: schema::TensorT,
    data: Option<Bytes>,
}

impl TensorBuilder {
    /// Describes a tensor without data: an input of the model or the output of an operator.
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

    /// Describes a constant tensor with these elements, in row-major order.
    ///
    /// # Panics
    ///
    /// Panics if `values` does not have as many elements as `shape`, or if an extent exceeds 31 bits.
    pub fn values<T: Element>(name: &str, shape: impl Into<Shape>, values: &[T]) -> Self {
        Self::constant(name, &Constant::from_values(shape, values))
    }

    /// Describes a constant tensor with the type, the shape and the bytes of `constant`.
    ///
    /// # Panics
    ///
    /// Panics if an extent exceeds 31 bits.
    pub fn constant(name: &str, constant: &Constant) -> Self {
        Self::new(name, constant.data_type, constant.shape.clone()).data(constant.bytes.clone())
    }

    /// Sets the tensor's data: little-endian elements; packed types are packed as in the file.
    pub fn data(mut self, bytes: Bytes) -> Self {
        self.data = Some(bytes);
        self
    }

    /// Sets the parameters of affine quantization, for the whole tensor or along one axis.
    pub fn quantization(mut self, quantization: &Quantization) -> Self {
        self.tensor.quantization = Some(Box::new(schema::QuantizationParametersT {
            scale: Some(quantization.scale.clone()),
            zero_point: Some(quantization.zero_point.clone()),
            quantized_dimension: quantization.axis as i32,
            ..Default::default()
        }));
        self
    }

    /// Sets affine quantization with one scale and zero point for the whole tensor.
    pub fn quantized(self, scale: f32, zero_point: i64) -> Self {
        self.quantization(&Quantization { scale: vec![scale], zero_point: vec![zero_point], axis: 0 })
    }

    /// Makes the tensor a variable, whose value persists from one run to the next.
    pub fn variable(mut self) -> Self {
        self.tensor.is_variable = true;
        self
    }

    /// Sets the shape signature: the extents, with -1 for those that the caller decides.
    pub fn shape_signature(mut self, extents: impl Into<Vec<i32>>) -> Self {
        self.tensor.shape_signature = Some(extents.into());
        self
    }

    /// Calls `change` on the table that will be written, to set fields without a method here (sparsity, other
    /// quantization).
    pub fn with(mut self, change: impl FnOnce(&mut schema::TensorT)) -> Self {
        change(&mut self.tensor);
        self
    }

    pub(super) fn into_parts(self) -> (schema::TensorT, Option<Bytes>) {
        (self.tensor, self.data)
    }
}

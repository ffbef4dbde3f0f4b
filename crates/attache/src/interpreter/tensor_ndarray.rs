//! Inputs and outputs as arrays of the crate ndarray.

use attache_base::Element;
use ndarray::{ArrayD, ArrayView, ArrayViewD, ArrayViewMutD, Dimension, ShapeError};

use super::{InputTensor, OutputTensor};
use crate::Error;

impl InputTensor<'_> {
    /// Returns the elements as an array of the tensor's shape, for the caller to write.
    ///
    /// # Errors
    ///
    /// If the tensor is not of type `T`.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn main() -> Result<(), attache::Error> {
    /// let model = attache::Model::from_path("model.tflite")?;
    /// let mut interpreter = attache::Interpreter::builder(&model).build()?;
    /// let picture = attache::ndarray::Array4::<f32>::zeros((1, 224, 224, 3));
    /// interpreter.input(0)?.as_array_mut::<f32>()?.assign(&picture);
    /// # Ok(())
    /// # }
    /// ```
    pub fn as_array_mut<T: Element>(&mut self) -> Result<ArrayViewMutD<'_, T>, Error> {
        let (index, shape) = (self.index, self.shape());
        ArrayViewMutD::from_shape(shape, self.as_mut_slice()?).map_err(|error| misshapen("input", index, &error))
    }

    /// Writes floats into the tensor, whatever its type, as [`quantize_from`](Self::quantize_from) does. The array's
    /// layout in memory does not matter.
    ///
    /// # Errors
    ///
    /// If the array has another shape, or if the tensor is neither a float nor quantized.
    pub fn quantize_from_array<D: Dimension>(&mut self, values: ArrayView<'_, f32, D>) -> Result<(), Error> {
        if values.shape() != self.shape() {
            let (index, shape) = (self.index, self.shape());
            return Err(Error::usage(format!("input {index} has the shape {shape:?}, not {:?}", values.shape())));
        }
        match values.as_slice() {
            Some(elements) => self.quantize_from(elements),
            None => self.quantize_from(&values.iter().copied().collect::<Vec<_>>()),
        }
    }
}

impl<'a> OutputTensor<'a> {
    /// Returns the elements as an array of the tensor's shape, without a copy.
    ///
    /// # Errors
    ///
    /// If the tensor is not of type `T`.
    pub fn as_array<T: Element>(&self) -> Result<ArrayViewD<'a, T>, Error> {
        ArrayViewD::from_shape(self.shape(), self.as_slice()?).map_err(|error| misshapen("output", self.index, &error))
    }

    /// Returns the elements as an array of floats, as [`dequantize`](Self::dequantize) does.
    ///
    /// # Errors
    ///
    /// If the elements are no numbers, or are integers of more than 32 bits.
    pub fn dequantize_array(&self) -> Result<ArrayD<f32>, Error> {
        let values = self.dequantize()?;
        ArrayD::from_shape_vec(self.shape(), values).map_err(|error| misshapen("output", self.index, &error))
    }
}

/// Returns the error for elements that do not fill the shape, or for a shape that ndarray cannot address.
fn misshapen(what: &str, index: usize, error: &ShapeError) -> Error {
    Error::usage(format!("{what} {index} is no array: {error}"))
}

#[cfg(test)]
mod tests {
    use attache_base::{DataType, Quantization, Shape};
    use ndarray::{arr2, aview2};

    use super::*;
    use crate::TensorInfo;

    fn info(data_type: DataType, quantization: Option<Quantization>) -> TensorInfo {
        let shape = Shape::from(&[2, 3][..]);
        TensorInfo { name: "x".into(), data_type, shape, shape_signature: None, quantization }
    }

    #[test]
    fn arrays_have_the_tensors_shape() {
        let info = info(DataType::Float32, None);
        let mut elements = [0.0f32; 6];
        let bytes = bytemuck::cast_slice_mut(&mut elements);
        let mut input = InputTensor { info: &info, index: 0, bytes };
        input.as_array_mut::<f32>().unwrap().assign(&aview2(&[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]));
        assert!(input.as_array_mut::<i32>().is_err());
        let output = OutputTensor { info: &info, index: 0, bytes: bytemuck::cast_slice(&elements) };
        assert_eq!(output.as_array::<f32>().unwrap()[[1, 0]], 4.0);
        assert_eq!(output.dequantize_array().unwrap().shape(), [2, 3]);
    }

    #[test]
    fn arrays_are_quantized_in_the_order_of_their_indices() {
        let quantization = Quantization { scale: vec![0.5], zero_point: vec![1], axis: 0 };
        let info = info(DataType::Int8, Some(quantization));
        let mut bytes = [0; 6];
        let mut input = InputTensor { info: &info, index: 0, bytes: &mut bytes };
        let columns = arr2(&[[0.0f32, 1.5], [0.5, 2.0], [1.0, 2.5]]);
        input.quantize_from_array(columns.t()).unwrap();
        let error = input.quantize_from_array(columns.view()).unwrap_err().to_string();
        assert!(error.contains("[2, 3], not [3, 2]"), "{error}");
        assert_eq!(bytes, [1, 2, 3, 4, 5, 6]);
    }
}

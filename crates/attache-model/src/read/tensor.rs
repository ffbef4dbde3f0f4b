//! Reads tensors and checks shapes, constants, quantization and sparsity against each other.

use attache_base::{Bytes, Constant, DataType, Quantization, Shape, Strings};

use super::sparse::{Unexpanded, expanded};
use super::{At, Reader, Unsupported, checked_index, numbers};
use crate::model::{QuantizationDetails, Tensor};
use crate::schema;

/// The element size in bytes that the overflow check assumes for types without a fixed size.
const LARGEST_ELEMENT: usize = 16;

impl<'a> Reader<'a> {
    /// Reads one tensor and checks it. `tensors` is the number of tensors in the subgraph.
    pub(super) fn tensor(&mut self, at: At, view: schema::Tensor<'a>, tensors: usize) -> Tensor {
        let data_type = self.data_type(at, view);
        let shape = self.shape(at, view, data_type);
        let mut constant = self.constant(at, view, data_type, &shape);
        let is_sparse = self.is_sparse(at, view, constant.is_some());
        let stored = self.expand(at, view, &mut constant);
        Tensor {
            name: view.name().unwrap_or_default().to_owned(),
            data_type,
            shape_signature: self.shape_signature(at, view, &shape),
            has_rank: view.has_rank(),
            quantization: self.quantization(at, view, &shape),
            quantization_details: self.quantization_details(at, view, &shape, tensors),
            is_variable: view.is_variable(),
            is_sparse: is_sparse && stored.is_none(),
            #[cfg(not(attache_small))]
            stored,
            constant,
            shape,
        }
    }

    fn data_type(&mut self, at: At, view: schema::Tensor<'a>) -> DataType {
        let code = view.type_().0;
        DataType::from_code(code).unwrap_or_else(|| {
            let text = || format!("element type {code} is not known here; a newer version may know it");
            self.report(Unsupported, at, text);
            DataType::Float32
        })
    }

    /// Reads the shape and checks that any product of its extents times the element size fits in memory. Extents of
    /// zero count as 1 in this check, because strides are products of only some of the extents.
    fn shape(&mut self, at: At, view: schema::Tensor<'a>, data_type: DataType) -> Shape {
        let extents: Vec<i32> = numbers(view.shape()).collect();
        let Some(shape) = Shape::from_signed(&extents) else {
            self.invalid(at, || {
                let axis = extents.iter().position(|extent| *extent < 0).unwrap_or_default();
                format!("extent {axis} of the shape is {}: extents are not negative", extents[axis])
            });
            return Shape::default();
        };
        let largest: Shape = shape.iter().map(|extent| *extent.max(&1)).collect();
        let bits = data_type.bits().unwrap_or(LARGEST_ELEMENT * 8);
        let bits = largest.checked_elements().and_then(|elements| elements.checked_mul(bits));
        if bits.is_none_or(|bits| bits > isize::MAX as usize) {
            self.invalid(at, || format!("a tensor of {} axes and type {data_type} is too large", shape.rank()));
            return Shape::default();
        }
        shape
    }

    /// Reads the shape signature and checks it against the shape; an empty list counts as missing.
    fn shape_signature(&mut self, at: At, view: schema::Tensor<'a>, shape: &Shape) -> Option<Vec<i32>> {
        let signature: Vec<i32> = numbers(view.shape_signature()).collect();
        if signature.is_empty() {
            return None;
        }
        if signature.len() != shape.rank() {
            let (axes, rank) = (signature.len(), shape.rank());
            self.invalid(at, || format!("the shape signature has {axes} axes, the shape {rank}"));
        }
        if let Some(extent) = signature.iter().find(|extent| **extent < -1) {
            self.invalid(at, || {
                format!("the shape signature has an extent of {extent}: only -1 means that it is open")
            });
        }
        Some(signature)
    }

    fn constant(&mut self, at: At, view: schema::Tensor<'a>, data_type: DataType, shape: &Shape) -> Option<Constant> {
        let bytes = match view.buffer() {
            0 => None,
            index => self.buffer(at, index, || "the tensor's data".into()),
        };
        if view.external_buffer() != 0 {
            let text = || "the data lies in another file (an external buffer), which is not supported".into();
            self.report(Unsupported, at, text);
        }
        let bytes = bytes?;
        if view.is_variable() {
            self.invalid(at, || "the tensor is a variable, but has data".into());
        }
        if view.sparsity().is_none() {
            self.check_size(at, data_type, shape, &bytes);
        }
        Some(Constant { data_type, shape: shape.clone(), bytes })
    }

    fn check_size(&mut self, at: At, data_type: DataType, shape: &Shape, bytes: &Bytes) {
        let (size, length) = (data_type.byte_size(shape.elements()), bytes.len());
        if let Some(size) = size.filter(|size| *size > length) {
            self.invalid(at, || format!("the data has {length} bytes, but {data_type} {shape} takes {size}"));
        }
        if data_type == DataType::String
            && let Err(error) = Strings::new(bytes, shape.elements())
        {
            self.invalid(at, || format!("the data of {data_type} {shape} is damaged: {error}"));
        }
    }

    /// Reads and checks the parameters of affine quantization; `None` if there are no scales. Source:
    /// TensorFlow Lite's loader. A tensor of rank 0 cannot have several scales.
    fn quantization(&mut self, at: At, view: schema::Tensor<'a>, shape: &Shape) -> Option<Quantization> {
        let parameters = view.quantization()?;
        let scale: Vec<f32> = numbers(parameters.scale()).collect();
        if scale.is_empty() {
            return None;
        }
        let zero_point: Vec<i64> = numbers(parameters.zero_point()).collect();
        if zero_point.len() != scale.len() {
            let (scales, points) = (scale.len(), zero_point.len());
            self.invalid(at, || format!("the quantization has {scales} scales, but {points} zero points"));
        }
        if let Some(point) = zero_point.iter().find(|point| i32::try_from(**point).is_err()) {
            self.invalid(at, || format!("the zero point {point} exceeds 32 bits"));
        }
        let axis = self.quantized_axis(at, parameters.quantized_dimension(), shape);
        let extent = shape.get(axis).copied().unwrap_or(1);
        if scale.len() != 1 && scale.len() != extent {
            let scales = scale.len();
            self.invalid(at, || format!("the quantization has {scales} scales along axis {axis} of extent {extent}"));
        }
        Some(Quantization { scale, zero_point, axis })
    }

    /// Checks a quantized axis and returns it. For a tensor of rank 0, any non-negative axis counts as 0.
    fn quantized_axis(&mut self, at: At, axis: i32, shape: &Shape) -> usize {
        let rank = shape.rank();
        match checked_index(axis, rank) {
            Some(axis) => axis,
            None if rank == 0 && axis >= 0 => 0,
            None => {
                self.invalid(at, || format!("quantized axis {axis} of {rank} doesn't exist"));
                0
            }
        }
    }

    fn quantization_details(
        &mut self,
        at: At,
        view: schema::Tensor<'a>,
        shape: &Shape,
        tensors: usize,
    ) -> QuantizationDetails {
        let Some(parameters) = view.quantization() else { return QuantizationDetails::None };
        if let Some(details) = parameters.details_as_blockwise_quantization() {
            return QuantizationDetails::Blockwise {
                scales: self.tensor_index(at, "scales: tensor", 0, details.scales(), tensors),
                zero_points: self.optional_tensor(at, "zero points: tensor", 0, details.zero_points(), tensors),
                block_size: self.block_size(at, details.block_size()),
                axis: self.quantized_axis(at, parameters.quantized_dimension(), shape),
            };
        }
        if let Some(details) = parameters.details_as_multi_axis_quantization() {
            let axes: Vec<i32> = numbers(details.quantized_dimensions()).collect();
            if axes.is_empty() {
                self.invalid(at, || "the multi-axis quantization has no axis".into());
            }
            return QuantizationDetails::MultiAxis {
                scales: self.tensor_index(at, "scales: tensor", 0, details.scales(), tensors),
                zero_points: self.optional_tensor(at, "zero points: tensor", 0, details.zero_points(), tensors),
                block_size: self.block_size(at, details.block_size()),
                axes: axes.into_iter().map(|axis| self.quantized_axis(at, axis, shape)).collect(),
            };
        }
        match parameters.details_type() {
            schema::QuantizationDetails::NONE => QuantizationDetails::None,
            schema::QuantizationDetails::CustomQuantization => QuantizationDetails::Custom,
            other => QuantizationDetails::Unknown(other.0),
        }
    }

    fn block_size(&mut self, at: At, size: i32) -> usize {
        usize::try_from(size).unwrap_or_else(|_| {
            self.invalid(at, || format!("the quantization has blocks of {size} elements"));
            0
        })
    }

    /// Replaces the data of a sparse constant by the elements in row-major order, and returns what it was. Returns none, and
    /// changes nothing, where elements are not made of whole bytes, or where there is a problem.
    fn expand(&mut self, at: At, view: schema::Tensor<'a>, constant: &mut Option<Constant>) -> Option<Bytes> {
        let (Some(sparsity), Some(constant)) = (view.sparsity(), constant) else { return None };
        let bits = constant.data_type.bits().filter(|bits| bits % 8 == 0)?;
        match expanded(sparsity, &constant.shape, bits / 8, &constant.bytes, &mut self.expanded) {
            Ok(bytes) => return Some(std::mem::replace(&mut constant.bytes, Bytes::from_vec(bytes))),
            Err(Unexpanded::Invalid(text)) => self.invalid(at, || text),
            Err(Unexpanded::TooLarge(text)) => self.report(Unsupported, at, || text),
        }
        None
    }

    fn is_sparse(&mut self, at: At, view: schema::Tensor<'a>, has_data: bool) -> bool {
        let Some(sparsity) = view.sparsity() else { return false };
        if sparsity.traversal_order().is_none() || sparsity.dim_metadata().is_none() {
            self.invalid(at, || "the sparsity has no traversal order or no metadata of its axes".into());
        }
        if !has_data {
            self.invalid(at, || "the tensor is sparse, but has no data".into());
        }
        true
    }
}

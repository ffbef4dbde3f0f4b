#![allow(unsafe_code)]
//! Tensors of the runtime as plain data.
//!
//! Constants are not copied: they refer to the runtime's memory, which is the mapped model file. It exists as long as the
//! interpreter, and so longer than the kernels that use it.

use std::sync::Arc;

use attache::model::schema::{
    BlockwiseQuantizationT, QuantizationDetailsT, QuantizationParametersT, SparsityParametersT,
};
use attache::{Bytes, DataType, Quantization, Shape, TensorBuilder};
use attache_abi::report::text_from_c;
use attache_abi::{
    OPTIONAL_TENSOR, TfLiteAffineQuantization, TfLiteAllocationType, TfLiteFloatArray, TfLiteIntArray,
    TfLiteQuantizationType, TfLiteTensor,
};

use crate::sparse::sparsity_of;

/// The blocks of elements of a tensor, whose scales and zero points are in tensors of the runtime.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    scales: usize,
    zero_points: Option<usize>,
    size: i32,
    axis: i32,
}

impl Blocks {
    /// Returns the tensors that hold scales and zero points.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = usize> {
        [self.scales].into_iter().chain(self.zero_points)
    }

    /// Returns the table that a file has for them, of a model in which `place` is the index of a tensor of the runtime.
    fn table(&self, place: impl Fn(&usize) -> usize) -> QuantizationParametersT {
        let details = BlockwiseQuantizationT {
            scales: place(&self.scales) as i32,
            zero_points: self.zero_points.map_or(OPTIONAL_TENSOR, |points| place(&points) as i32),
            block_size: self.size,
        };
        QuantizationParametersT {
            details: QuantizationDetailsT::BlockwiseQuantization(Box::new(details)),
            quantized_dimension: self.axis,
            ..QuantizationParametersT::default()
        }
    }
}

/// A tensor of the runtime.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    /// `None` if the runtime states none.
    pub(crate) data_type: Option<DataType>,
    pub(crate) shape: Shape,
    pub(crate) constant: Option<Bytes>,
    pub(crate) quantization: Option<Quantization>,
    pub(crate) blocks: Option<Blocks>,
    pub(crate) is_variable: bool,
    /// The form of a constant that is sparse.
    pub(crate) sparsity: Option<Box<SparsityParametersT>>,
    /// What keeps nodes that use the tensor from being delegated.
    pub(crate) obstacle: Option<&'static str>,
}

impl Tensor {
    /// Describes the tensor for a model, in which `place` is the index of a tensor of the runtime. `shape` replaces the one
    /// that the runtime states.
    pub(crate) fn build(&self, shape: Option<&Shape>, place: impl Fn(&usize) -> usize) -> TensorBuilder {
        let shape = shape.unwrap_or(&self.shape).clone();
        let mut tensor = TensorBuilder::new(&self.name, self.data_type.unwrap_or(DataType::Variant), shape);
        if let Some(constant) = &self.constant {
            tensor = tensor.data(constant.clone());
        }
        if let Some(quantization) = &self.quantization {
            tensor = tensor.quantization(quantization);
        }
        if let Some(blocks) = &self.blocks {
            tensor = tensor.with(|table| table.quantization = Some(Box::new(blocks.table(place))));
        }
        if let Some(sparsity) = &self.sparsity {
            tensor = tensor.with(|table| table.sparsity = Some(sparsity.clone()));
        }
        if self.is_variable { tensor.variable() } else { tensor }
    }
}

/// Describes a tensor of a runtime that has `count` tensors.
///
/// # Safety
///
/// The tensor is the runtime's, and its constant bytes are used only as long as the interpreter exists.
pub(crate) unsafe fn tensor_of(tensor: &TfLiteTensor, count: usize) -> Tensor {
    // SAFETY: the caller states that the pointers in the tensor are null or valid.
    unsafe {
        let shape = shape_of(tensor);
        let data_type = tensor.kind.data_type();
        let is_constant = tensor.allocation_type == TfLiteAllocationType::MMAP_RO;
        let (quantization, is_affine) = quantization_of(tensor);
        let blocks = blocks_of(tensor, count);
        let sparsity = tensor.sparsity.as_ref().and_then(|sparsity| sparsity_of(sparsity));
        let is_sparse = !tensor.sparsity.is_null();
        let obstacle = match () {
            () if data_type.is_none() => Some("has no type"),
            () if shape.is_none() => Some("has a negative extent"),
            () if is_sparse && (sparsity.is_none() || !is_constant) => Some("is sparse in a form that no file has"),
            () if !is_affine && blocks.is_none() => Some("has a quantization other than scales and zero points"),
            () => None,
        };
        Tensor {
            name: text_from_c(tensor.name).unwrap_or_default().to_owned(),
            data_type,
            shape: shape.unwrap_or_default(),
            // The bytes of a tensor of unknown form are not those that its shape takes.
            constant: (is_constant && is_sparse == sparsity.is_some()).then(|| borrowed(tensor)),
            quantization,
            blocks,
            is_variable: tensor.is_variable && !is_constant,
            sparsity: sparsity.filter(|_| is_constant).map(Box::new),
            obstacle,
        }
    }
}

/// Returns the extents of a tensor; `None` if one is negative.
///
/// # Safety
///
/// The tensor is the runtime's.
pub(crate) unsafe fn shape_of(tensor: &TfLiteTensor) -> Option<Shape> {
    // SAFETY: the caller states that the array is null or valid.
    Shape::from_signed(unsafe { TfLiteIntArray::elements(tensor.dims) })
}

/// Returns the scales and zero points of a tensor, and whether it has no other quantization.
///
/// # Safety
///
/// The tensor is the runtime's.
unsafe fn quantization_of(tensor: &TfLiteTensor) -> (Option<Quantization>, bool) {
    let of = &tensor.quantization;
    if of.kind == TfLiteQuantizationType::NONE || of.params.is_null() {
        return (None, of.kind == TfLiteQuantizationType::NONE || of.kind == TfLiteQuantizationType::AFFINE);
    }
    if of.kind != TfLiteQuantizationType::AFFINE {
        return (None, false);
    }
    // SAFETY: the caller states that the struct is the one that its kind names, and its arrays are null or valid.
    unsafe {
        let affine = &*of.params.cast::<TfLiteAffineQuantization>();
        let scale = TfLiteFloatArray::elements(affine.scale).to_vec();
        let zero_point: Vec<i64> = TfLiteIntArray::elements(affine.zero_point).iter().map(|n| i64::from(*n)).collect();
        let axis = usize::try_from(affine.quantized_dimension).unwrap_or_default();
        let has_scales = !scale.is_empty();
        (has_scales.then_some(Quantization { scale, zero_point, axis }), true)
    }
}

/// Returns the blocks of a tensor of a runtime that has `count` tensors; `None` if it has none, or if their scales are in no
/// tensor.
///
/// # Safety
///
/// The tensor is the runtime's.
unsafe fn blocks_of(tensor: &TfLiteTensor, count: usize) -> Option<Blocks> {
    // SAFETY: the caller states that the struct is the one that its kind names.
    let blocks = unsafe { tensor.quantization.blocks() }?;
    let known = |index: i32| usize::try_from(index).ok().filter(|index| *index < count);
    let zero_points = match blocks.zero_point {
        ..0 => None,
        index => Some(known(index)?),
    };
    let (size, axis) = (blocks.blocksize, blocks.quantized_dimension);
    Some(Blocks { scales: known(blocks.scale)?, zero_points, size, axis })
}

/// Bytes that belong to the runtime.
struct Borrowed(*const u8, usize);

// SAFETY: the bytes are a mapped, read-only file, which any thread may read.
unsafe impl Send for Borrowed {}
// SAFETY: as above.
unsafe impl Sync for Borrowed {}

impl AsRef<[u8]> for Borrowed {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `Graph::read` was promised that constants are used only as long as the runtime has them.
        unsafe { std::slice::from_raw_parts(self.0, self.1) }
    }
}

/// Returns the bytes of a constant where the runtime has them.
fn borrowed(tensor: &TfLiteTensor) -> Bytes {
    if tensor.data.is_null() || tensor.bytes == 0 {
        return Bytes::from_vec(Vec::new());
    }
    Bytes::new(Arc::new(Borrowed(tensor.data.cast(), tensor.bytes)))
}

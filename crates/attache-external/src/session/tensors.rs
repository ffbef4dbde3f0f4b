#![allow(unsafe_code)]
//! The tensors of a session: the array that `TfLiteContext::tensors` points to, and what it points to.

use std::ffi::{CString, c_char, c_int, c_void};

use attache::graph::Fact;
use attache::model::QuantizationDetails;
use attache::{Bytes, model};
use attache_abi::report::text_of_c;
use attache_abi::{
    TfLiteAllocationType, TfLiteIntArray, TfLiteQuantization, TfLiteQuantizationParams, TfLiteStatus, TfLiteTensor,
    TfLiteType,
};
use attache_base::AlignedBuffer;

use crate::memory::Integers;

/// Room for tensors that delegates add. More of them move the array.
const MORE: usize = 128;

/// The tensors of a session.
#[derive(Debug, Default)]
pub(crate) struct Tensors {
    raw: Vec<TfLiteTensor>,
    /// What each tensor points to.
    kept: Vec<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    name: CString,
    constant: Option<Bytes>,
    /// Memory of the session's own, for tensors that delegates add.
    own: AlignedBuffer,
}

impl Tensors {
    pub(crate) fn with_room(count: usize) -> Self {
        Self { raw: Vec::with_capacity(count + MORE), kept: Vec::with_capacity(count + MORE) }
    }

    /// Adds a tensor of a graph. `source` is the tensor of the file, if it is one.
    pub(crate) fn push(&mut self, name: &str, fact: &Fact, source: Option<&model::Tensor>) {
        let constant = fact.constant.as_ref().and_then(attache::Constant::aligned_bytes);
        let kept = Kept { name: text_of_c(name), constant, own: AlignedBuffer::default() };
        let mut raw = raw_of(fact, kept.constant.as_ref(), kept.name.as_ptr());
        let signature = source.and_then(|tensor| tensor.shape_signature.as_deref());
        // Constants have none, and other tensors an empty one where the file has none.
        if kept.constant.is_none() {
            raw.dims_signature = Integers::new(signature.unwrap_or_default()).into_raw();
        }
        self.raw.push(raw);
        self.kept.push(kept);
    }

    /// States how a tensor is quantized by blocks, by indices of tensors of the file, which are those of the tensors here.
    pub(crate) fn set_blocks(&mut self, index: usize, details: &QuantizationDetails) {
        let is_blockwise = matches!(details, QuantizationDetails::Blockwise { .. });
        if let Some(raw) = self.raw.get_mut(index).filter(|_| is_blockwise) {
            let before = std::mem::replace(&mut raw.quantization, TfLiteQuantization::new(None, details));
            // SAFETY: the quantization belonged to the tensor, which has another one.
            unsafe { before.free() };
        }
    }

    /// Makes a tensor of an operator that of a graph: its type, shape and value. `kind` is where its bytes are, if it is no
    /// constant.
    pub(crate) fn set(&mut self, index: usize, fact: &Fact, kind: TfLiteAllocationType) {
        let (Some(raw), Some(kept)) = (self.raw.get_mut(index), self.kept.get_mut(index)) else { return };
        let dims_signature = std::mem::replace(&mut raw.dims_signature, std::ptr::null());
        // SAFETY: what the tensor points to belongs to it, and it gets others.
        unsafe { release(raw) };
        kept.constant = fact.constant.as_ref().and_then(attache::Constant::aligned_bytes);
        *raw = TfLiteTensor { dims_signature, ..raw_of(fact, kept.constant.as_ref(), kept.name.as_ptr()) };
        if kept.constant.is_none() {
            raw.allocation_type = kind;
        }
    }

    /// Adds tensors without type and shape, which a delegate fills in. Returns the index of the first.
    pub(crate) fn add(&mut self, count: usize) -> usize {
        let first = self.raw.len();
        self.raw.resize(first + count, TfLiteTensor::empty());
        self.kept.resize_with(first + count, Kept::default);
        first
    }

    pub(crate) fn len(&self) -> usize {
        self.raw.len()
    }

    /// Returns the array, which moves when tensors are added.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut TfLiteTensor {
        self.raw.as_mut_ptr()
    }

    pub(crate) fn get(&self, index: usize) -> Option<&TfLiteTensor> {
        self.raw.get(index)
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut TfLiteTensor> {
        self.raw.get_mut(index)
    }

    /// Returns the extents of a tensor.
    pub(crate) fn extents(&self, index: usize) -> &[c_int] {
        let dims = self.raw.get(index).map_or(std::ptr::null_mut(), |tensor| tensor.dims);
        // SAFETY: tensors have an array of their own or null, and the array is not changed while `self` is borrowed.
        unsafe { TfLiteIntArray::elements(dims) }
    }

    /// Allocates memory for a tensor of the session's own that needs it, as the runtime does after `prepare`. Does nothing
    /// for others. Fails where there is no memory.
    pub(crate) fn allocate(&mut self, index: usize) -> TfLiteStatus {
        let (Some(raw), Some(kept)) = (self.raw.get_mut(index), self.kept.get_mut(index)) else {
            return TfLiteStatus::ERROR;
        };
        let is_arena =
            [TfLiteAllocationType::ARENA_RW, TfLiteAllocationType::ARENA_RW_PERSISTENT].contains(&raw.allocation_type);
        if !is_arena {
            return TfLiteStatus::OK;
        }
        if kept.own.len() < raw.bytes {
            let Ok(memory) = AlignedBuffer::zeroed(raw.bytes) else { return TfLiteStatus::ERROR };
            kept.own = memory;
        }
        raw.data = kept.own.as_mut_ptr().cast();
        TfLiteStatus::OK
    }
}

impl Drop for Tensors {
    fn drop(&mut self) {
        for tensor in &self.raw {
            // SAFETY: what a tensor points to belongs to it, and nothing uses it any more.
            unsafe { release(tensor) };
        }
    }
}

/// Frees what a tensor points to and what belongs to it. Constants and names do not.
///
/// # Safety
///
/// The tensor is one of [`Tensors`]. What it points to is of `malloc`: [`raw_of`] allocates it so, and so do delegates that
/// replace it, and [`reallocate`]. It is not used afterwards.
unsafe fn release(tensor: &TfLiteTensor) {
    // SAFETY: the caller states it.
    unsafe {
        TfLiteIntArray::free(tensor.dims);
        TfLiteIntArray::free(tensor.dims_signature.cast_mut());
        tensor.quantization.free();
        if tensor.allocation_type == TfLiteAllocationType::DYNAMIC {
            libc::free(tensor.data);
        }
    }
}

/// Returns a tensor with this type and shape, without memory unless it is constant.
fn raw_of(fact: &Fact, constant: Option<&Bytes>, name: *const c_char) -> TfLiteTensor {
    let extents = fact.shape.iter().flat_map(|shape| shape.iter().copied());
    let mut raw = TfLiteTensor {
        kind: fact.data_type.into(),
        dims: Integers::of_indices(extents).into_raw(),
        allocation_type: match (constant, fact) {
            (Some(_), _) => TfLiteAllocationType::MMAP_RO,
            (None, Fact { is_variable: true, .. }) => TfLiteAllocationType::ARENA_RW_PERSISTENT,
            (None, Fact { shape: None, .. }) => TfLiteAllocationType::DYNAMIC,
            (None, _) => TfLiteAllocationType::ARENA_RW,
        },
        bytes: fact.byte_size().unwrap_or(0),
        name,
        is_variable: fact.is_variable,
        quantization: TfLiteQuantization::new(fact.quantization.as_ref(), &QuantizationDetails::None),
        ..TfLiteTensor::empty()
    };
    if let Some(quantization) = &fact.quantization
        && let ([scale], [zero_point]) = (&quantization.scale[..], &quantization.zero_point[..])
    {
        raw.params = TfLiteQuantizationParams { scale: *scale, zero_point: *zero_point as i32 };
    }
    if let Some(bytes) = constant {
        // Nothing writes a tensor of this allocation type.
        raw.data = bytes.as_ptr().cast_mut().cast();
        raw.bytes = fact.byte_size().unwrap_or(bytes.len());
    }
    raw
}

/// Changes the shape of a tensor, as `TfLiteContext::ResizeTensor` does. Memory of dynamic tensors is allocated at once,
/// that of others later.
///
/// # Errors
///
/// If the tensor is of fixed size, if it is too large, or if there is no memory.
pub(crate) fn resize(tensor: &mut TfLiteTensor, dims: Integers) -> Result<(), String> {
    // SAFETY: a tensor has an array of its own or null.
    let before = unsafe { TfLiteIntArray::elements(tensor.dims) };
    let is_dynamic = tensor.allocation_type == TfLiteAllocationType::DYNAMIC;
    if !tensor.dims.is_null() && before == dims.elements() && !(is_dynamic && tensor.data.is_null()) {
        return Ok(());
    }
    if tensor.allocation_type == TfLiteAllocationType::MMAP_RO {
        return Err("a constant cannot be resized".into());
    }
    let bytes = byte_size(tensor.kind, dims.elements());
    if bytes.is_none() && tensor.kind != TfLiteType::STRING {
        return Err(format!("a tensor cannot have the shape {:?}", dims.elements()));
    }
    if is_dynamic && tensor.kind != TfLiteType::STRING {
        reallocate(tensor, bytes.unwrap_or(0))?;
    }
    if tensor.kind != TfLiteType::STRING {
        tensor.bytes = bytes.unwrap_or(0);
    }
    // SAFETY: the array belongs to the tensor, which gets another one.
    unsafe { TfLiteIntArray::free(tensor.dims) };
    tensor.dims = dims.into_raw();
    Ok(())
}

/// Gives a dynamic tensor memory of this size.
pub(crate) fn reallocate(tensor: &mut TfLiteTensor, bytes: usize) -> Result<(), String> {
    // SAFETY: the data of a dynamic tensor is null or of `malloc`.
    let data: *mut c_void = unsafe { libc::realloc(tensor.data, bytes.max(1)) };
    if data.is_null() {
        return Err(format!("there is no memory for a tensor of {bytes} bytes"));
    }
    (tensor.data, tensor.bytes) = (data, bytes);
    Ok(())
}

/// Returns the size of a tensor in bytes; `None` if elements have no fixed size, an extent is negative, or it overflows.
fn byte_size(kind: TfLiteType, extents: &[c_int]) -> Option<usize> {
    let mut elements = 1usize;
    for extent in extents {
        elements = elements.checked_mul(usize::try_from(*extent).ok()?)?;
    }
    kind.data_type()?.byte_size(elements).filter(|bytes| isize::try_from(*bytes).is_ok())
}

#![allow(unsafe_code)]
//! The `TfLiteTensor`s of a subgraph. Their addresses stay the same as long as the interpreter exists; what is in them
//! changes with shapes and with the memory of their bytes.

use std::collections::BTreeSet;
use std::ffi::{CString, c_int, c_void};

use attache::model::Tensor;
use attache::{DataType, Model, Quantization};
use attache_abi::report::text_of_c;
use attache_abi::{
    NULL_BUFFER_HANDLE, TfLiteAllocationType, TfLiteBufferHandle, TfLiteDelegate, TfLiteIntArray, TfLiteQuantization,
    TfLiteQuantizationParams, TfLiteTensor, TfLiteType,
};
use attache_external::opaque::tensor_memory::free_parts;
use attache_external::{copy_from_handle, free_handle};

use crate::delegates::is_own;
use crate::fault::Fault;
use crate::live::{self, Owner};

/// The tensors of one subgraph, in the order of the file.
pub(crate) struct Tensors {
    list: *mut TfLiteTensor,
    data_types: Vec<DataType>,
    /// The tensors that have handles of delegates of others.
    handles: BTreeSet<usize>,
    /// The tensors whose bytes are on the device that runs the subgraph.
    on_device: BTreeSet<usize>,
    /// What the tensors' `name` points to.
    _names: Vec<CString>,
}

impl Tensors {
    pub(crate) fn new(model: &Model, owner: Owner) -> Self {
        let tensors = &model.subgraphs()[owner.subgraph].tensors;
        let names: Vec<_> = tensors.iter().map(|tensor| text_of_c(&tensor.name)).collect();
        #[cfg_attr(attache_small, expect(unused_mut, reason = "sparse tensors look like others"))]
        let mut list: Box<[_]> = tensors.iter().zip(&names).map(|(tensor, name)| tensor_of(tensor, name)).collect();
        #[cfg(not(attache_small))]
        show_sparse(&mut list, model, owner.subgraph);
        let list = Box::into_raw(list).cast::<TfLiteTensor>();
        live::note_tensors(list, tensors.len(), owner);
        let data_types = tensors.iter().map(|tensor| tensor.data_type).collect();
        Self { list, data_types, handles: BTreeSet::new(), on_device: BTreeSet::new(), _names: names }
    }

    pub(crate) fn len(&self) -> usize {
        self.data_types.len()
    }

    /// Returns the address of a tensor; null if there is no such tensor.
    pub(crate) fn at(&self, index: usize) -> *mut TfLiteTensor {
        // SAFETY: the index is one of the list.
        if index < self.len() { unsafe { self.list.add(index) } } else { std::ptr::null_mut() }
    }

    /// Returns the tensor at an index that exists. C code reads its fields through other pointers, so no reference is
    /// kept.
    pub(crate) fn tensor(&mut self, index: usize) -> &mut TfLiteTensor {
        assert!(index < self.len(), "a tensor of the subgraph");
        // SAFETY: the tensor exists, and the program uses an interpreter and its tensors in one thread at a time.
        unsafe { &mut *self.at(index) }
    }

    /// Sets the extents of a tensor, and its size in bytes with them unless it holds strings or is stored in sparse form. An error if the size overflows; nothing changes then.
    pub(crate) fn set_shape(&mut self, index: usize, shape: &[usize]) -> Result<(), Fault> {
        let bytes = bytes_of(self.data_types[index], shape)?;
        let keeps_size = self.has_strings(index) || self.is_sparse(index);
        let tensor = self.tensor(index);
        // SAFETY: `dims` is null or an array that this type made.
        let before = unsafe { TfLiteIntArray::elements(tensor.dims) };
        if !before.iter().map(|extent| usize::try_from(*extent).ok()).eq(shape.iter().map(|extent| Some(*extent))) {
            // SAFETY: as above; nobody keeps the array, since the contract allows reading it only until a resize.
            unsafe { TfLiteIntArray::free(tensor.dims) };
            tensor.dims = TfLiteIntArray::new(&extents(shape));
        }
        if !keeps_size {
            tensor.bytes = bytes;
        }
        Ok(())
    }

    /// Returns the type of a tensor's elements.
    pub(crate) fn data_type(&self, index: usize) -> DataType {
        self.data_types[index]
    }

    /// Whether the interpreter decides where the bytes of a tensor are: it is no constant, and its elements have a size.
    pub(crate) fn may_move(&self, index: usize) -> bool {
        // SAFETY: `at` returns null or the address of a tensor of the list.
        let tensor = unsafe { self.at(index).as_ref() };
        let is_constant = tensor.is_none_or(|tensor| tensor.allocation_type == TfLiteAllocationType::MMAP_RO);
        !is_constant && self.data_types[index].bits().is_some()
    }

    /// Whether a tensor shows what the file stores in sparse form.
    fn is_sparse(&self, index: usize) -> bool {
        // SAFETY: `at` returns null or the address of a tensor of the list.
        !cfg!(attache_small) && unsafe { self.at(index).as_ref() }.is_some_and(|tensor| !tensor.sparsity.is_null())
    }

    /// Returns where the bytes of a tensor are; null if they are nowhere.
    pub(crate) fn data(&self, index: usize) -> *mut u8 {
        // SAFETY: `at` returns null or the address of a tensor of the list.
        unsafe { self.at(index).as_ref() }.map_or(std::ptr::null_mut(), |tensor| tensor.data.cast())
    }

    /// Returns the extents of a tensor.
    pub(crate) fn shape(&self, index: usize) -> Vec<usize> {
        // SAFETY: `at` returns null or the address of a tensor of the list, whose `dims` this type made.
        let extents =
            unsafe { self.at(index).as_ref().map_or(&[][..], |tensor| TfLiteIntArray::elements(tensor.dims)) };
        extents.iter().map(|extent| usize::try_from(*extent).unwrap_or(0)).collect()
    }

    /// Returns what the bytes of a variable are before the first run.
    pub(crate) fn first_byte(&self, index: usize) -> u8 {
        // SAFETY: `at` returns null or the address of a tensor of the list.
        let tensor = unsafe { self.at(index).as_ref() }.filter(|tensor| tensor.kind == TfLiteType::INT8);
        tensor.map_or(0, |tensor| tensor.params.zero_point as u8)
    }

    /// Returns the size of a tensor in bytes.
    pub(crate) fn bytes(&self, index: usize) -> usize {
        // SAFETY: `at` returns null or the address of a tensor of the list.
        unsafe { self.at(index).as_ref() }.map_or(0, |tensor| tensor.bytes)
    }

    /// Sets a handle of a delegate's for a tensor, in place of one that the delegate then frees. An error if the tensor is of another delegate.
    pub(crate) fn set_handle(
        &mut self,
        index: usize,
        handle: TfLiteBufferHandle,
        delegate: *mut TfLiteDelegate,
    ) -> Result<(), Fault> {
        let tensor = self.tensor(index);
        if !tensor.delegate.is_null() && tensor.delegate != delegate {
            return Err(Fault::new("the tensor has a handle of another delegate"));
        }
        tensor.delegate = delegate;
        self.free_handle(index);
        self.tensor(index).buffer_handle = handle;
        // Attaché's own delegates have no buffers, and may be deleted before the interpreter.
        if !is_own(delegate) {
            self.handles.insert(index);
        }
        Ok(())
    }

    /// Has the delegate of a tensor free the buffer of its handle, if it has one.
    fn free_handle(&mut self, index: usize) {
        if self.handles.remove(&index) {
            // SAFETY: delegates of others that programs set for tensors stay valid as long as the interpreter.
            unsafe { free_handle(self.at(index)) };
        }
    }

    /// Copies the bytes of a tensor from the buffer of its delegate, if the program or the delegate said that those in memory
    /// are stale.
    pub(crate) fn refresh(&mut self, index: usize) -> Result<(), Fault> {
        if !self.tensor(index).data_is_stale {
            return Ok(());
        }
        // SAFETY: as in `free_handle`; no reference to the tensor is kept.
        let is_read = self.handles.contains(&index) && unsafe { copy_from_handle(self.at(index)) }.is_ok();
        if !is_read {
            let text = "the bytes of a tensor are stale, and no delegate gives those of its buffer";
            return Err(Fault::new(text));
        }
        self.tensor(index).data_is_stale = false;
        Ok(())
    }

    /// Notes that a run wrote an output. Where the program set the handle of a delegate's buffer and said that the bytes in
    /// memory are stale, those of the buffer are the output; unless they may stay there, they are copied.
    pub(crate) fn note_output(&mut self, index: usize, may_stay: bool) -> Result<(), Fault> {
        if !self.handles.contains(&index) || self.on_device.contains(&index) || !self.tensor(index).data_is_stale {
            self.note_fresh(index);
            return Ok(());
        }
        if may_stay { Ok(()) } else { self.refresh(index) }
    }

    /// Notes which delegate writes a tensor; null for none. A tensor with a handle is that of the handle's delegate.
    pub(crate) fn note_writer(&mut self, index: usize, delegate: *mut TfLiteDelegate) {
        if !self.handles.contains(&index) && self.tensor(index).buffer_handle == NULL_BUFFER_HANDLE {
            self.tensor(index).delegate = delegate;
        }
    }

    /// Notes that the bytes of a tensor in memory are those of the last run, or those that the program copied there.
    pub(crate) fn note_fresh(&mut self, index: usize) {
        self.on_device.remove(&index);
        self.tensor(index).data_is_stale = false;
    }

    /// Notes that the device that runs the subgraph has the bytes of a tensor, and that those in memory are stale.
    pub(crate) fn note_on_device(&mut self, index: usize) {
        self.on_device.insert(index);
        self.tensor(index).data_is_stale = true;
    }

    /// Whether the device that runs the subgraph has the bytes of a tensor.
    pub(crate) fn is_on_device(&self, index: usize) -> bool {
        self.on_device.contains(&index)
    }

    /// Sets where the bytes of a tensor are; null while they are nowhere.
    pub(crate) fn set_data(&mut self, index: usize, data: *mut u8, allocation: TfLiteAllocationType) {
        let tensor = self.tensor(index);
        tensor.data = data.cast();
        tensor.allocation_type = allocation;
    }
}

impl Drop for Tensors {
    fn drop(&mut self) {
        live::forget_tensors(self.list);
        for index in 0..self.len() {
            self.free_handle(index);
            let has_strings = self.has_strings(index);
            let tensor = self.tensor(index);
            if !has_strings {
                // The bytes belong to the model or to the interpreter.
                tensor.data = std::ptr::null_mut();
            }
            // SAFETY: this type allocated the other parts, and nobody uses the tensors of an interpreter that is deleted.
            unsafe { free_parts(tensor) };
        }
        // SAFETY: `new` made the list from a box of as many tensors.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.list, self.len())) });
    }
}

/// Returns the size of a tensor in bytes; 0 if its elements have no fixed size.
fn bytes_of(data_type: DataType, shape: &[usize]) -> Result<usize, Fault> {
    let is_extent = |extent: &usize| c_int::try_from(*extent).is_ok();
    let elements = shape.iter().try_fold(1_usize, |elements, extent| elements.checked_mul(*extent));
    let bits = elements.and_then(|elements| elements.checked_mul(data_type.bits().unwrap_or(0)));
    if bits.is_none() || !shape.iter().all(is_extent) {
        return Err(Fault::new(format!("a tensor of the shape {shape:?} has more bytes than can be counted")));
    }
    Ok(elements.and_then(|elements| data_type.byte_size(elements)).unwrap_or(0))
}

fn extents(shape: &[usize]) -> Vec<c_int> {
    shape.iter().map(|extent| c_int::try_from(*extent).unwrap_or(c_int::MAX)).collect()
}

fn tensor_of(tensor: &Tensor, name: &CString) -> TfLiteTensor {
    let constant = tensor.constant.as_ref();
    let counted = bytes_of(tensor.data_type, &tensor.shape).unwrap_or(0);
    let size = constant.map_or(counted, |constant| constant.bytes.len());
    let allocation_type = match tensor.is_variable {
        _ if constant.is_some() => TfLiteAllocationType::MMAP_RO,
        _ if tensor.data_type == DataType::String => TfLiteAllocationType::DYNAMIC,
        true => TfLiteAllocationType::ARENA_RW_PERSISTENT,
        false => TfLiteAllocationType::ARENA_RW,
    };
    TfLiteTensor {
        kind: TfLiteType::from(tensor.data_type),
        data: constant.map_or(std::ptr::null_mut(), |constant| constant.bytes.as_ptr().cast_mut().cast::<c_void>()),
        dims: TfLiteIntArray::new(&extents(&tensor.shape)),
        params: only_scale(tensor.quantization.as_ref()),
        allocation_type,
        bytes: size,
        name: name.as_ptr(),
        is_variable: tensor.is_variable,
        quantization: TfLiteQuantization::new(tensor.quantization.as_ref(), &tensor.quantization_details),
        dims_signature: match (&tensor.shape_signature, constant) {
            (None, Some(_)) => std::ptr::null(),
            (signature, _) => TfLiteIntArray::new(signature.as_deref().unwrap_or_default()),
        },
        ..TfLiteTensor::empty()
    }
}

/// Has sparse tensors show what the file stores, and how.
#[cfg(not(attache_small))]
fn show_sparse(list: &mut [TfLiteTensor], model: &Model, subgraph: usize) {
    let source = &model.subgraphs()[subgraph];
    // The program may replace the data of an input.
    let inputs: BTreeSet<usize> = source.inputs.iter().copied().collect();
    let constants = list.iter_mut().zip(&source.tensors).enumerate().filter(|(index, _)| !inputs.contains(index));
    for (index, (tensor, source)) in constants {
        let (Some(stored), Some(sparsity)) = (&source.stored, model.sparsity(subgraph, index)) else { continue };
        tensor.sparsity = attache_abi::TfLiteSparsity::new(&sparsity);
        (tensor.data, tensor.bytes) = (stored.as_ptr().cast_mut().cast(), stored.len());
    }
}

/// Returns the older form of quantization, which has room for one scale.
fn only_scale(quantization: Option<&Quantization>) -> TfLiteQuantizationParams {
    match quantization.map(|all| (&all.scale[..], &all.zero_point[..])) {
        Some(([scale], [point])) => TfLiteQuantizationParams { scale: *scale, zero_point: saturated(*point) },
        _ => TfLiteQuantizationParams::default(),
    }
}

fn saturated(zero_point: i64) -> c_int {
    zero_point.clamp(c_int::MIN.into(), c_int::MAX.into()) as c_int
}

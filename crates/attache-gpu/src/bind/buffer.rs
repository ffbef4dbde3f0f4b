//! Ranges of wgpu buffers that hold the elements of a tensor.

use super::transfer::Slice;
use super::{BoundTensor, elements, usage};
use crate::device::Device;
use crate::kernel::GpuError;
use crate::plan::padded;

/// A range of a [`wgpu::Buffer`] that an input is read from or an output is written to: the elements of the tensor in its
/// own type, such as f32 or int8, in row-major order and without gaps.
///
/// The range takes the bytes of the tensor rounded up to a multiple of four; an output leaves the bytes after its last
/// element undefined.
///
/// Kernels use the range where it is if the buffer has the usage `STORAGE`, the offset is a multiple of the device's
/// limit `min_storage_buffer_offset_alignment` (and of 16), the elements are f32, int32, int8 or uint8, and no other
/// output and no input is bound to the same buffer. Otherwise each run copies the range on the device. That takes the
/// usage `COPY_SRC` for an input and `COPY_DST` for an output; elements of other types, such as float16 and int64, are
/// converted by one dispatch, which takes `STORAGE` and an aligned offset.
#[must_use]
#[derive(Clone, Debug)]
pub struct BufferBinding {
    buffer: wgpu::Buffer,
    offset: u64,
}

/// How a run reaches the elements in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Dispatches of the plan use them where they are.
    InPlace,
    /// A copy between buffers.
    Copy,
    /// A dispatch that converts them.
    Convert,
}

impl BufferBinding {
    /// Creates the binding of a buffer from its first byte on. The binding keeps the buffer alive.
    pub fn new(buffer: &wgpu::Buffer) -> Self {
        Self { buffer: buffer.clone(), offset: 0 }
    }

    /// Sets the offset of the first element in bytes, a multiple of 4.
    pub fn offset(mut self, bytes: u64) -> Self {
        self.offset = bytes;
        self
    }

    /// Returns the range of a tensor. Fails if the buffer has no such range, or is not one of the device.
    pub(crate) fn slice(&self, device: &Device, tensor: &BoundTensor) -> Result<Slice, GpuError> {
        let (bytes, offset) = (tensor.bytes()?, self.offset);
        let size = padded(usize::try_from(bytes).unwrap_or(usize::MAX - 3)) as u64;
        if !offset.is_multiple_of(wgpu::COPY_BUFFER_ALIGNMENT) {
            return Err(usage(format!("the offset {offset} is not a multiple of 4 bytes")));
        }
        if offset.checked_add(size).is_none_or(|end| end > self.buffer.size()) {
            let has = self.buffer.size();
            let padding = if size == bytes { "" } else { ", with the padding to a multiple of 4" };
            return Err(usage(format!(
                "the buffer has {has} bytes; the tensor takes {size}{padding} from the offset {offset} on"
            )));
        }
        device.check_buffer(&self.buffer)?;
        Ok(Slice { buffer: self.buffer.clone(), offset, size })
    }
}

/// Returns how runs read an input in a range of a buffer. Fails if the buffer lacks a usage.
pub(crate) fn input_access(device: &Device, tensor: &BoundTensor, slice: &Slice) -> Result<Access, GpuError> {
    access(device, tensor, slice, (wgpu::BufferUsages::COPY_SRC, "COPY_SRC"))
}

/// Returns how runs write an output to a range of a buffer. Fails if the buffer lacks a usage. `in_place` is whether
/// dispatches of the plan may write it.
pub(crate) fn output_access(
    device: &Device,
    tensor: &BoundTensor,
    slice: &Slice,
    in_place: bool,
) -> Result<Access, GpuError> {
    let (copy, name) = (wgpu::BufferUsages::COPY_DST, "COPY_DST");
    match access(device, tensor, slice, (copy, name))? {
        Access::InPlace if in_place => Ok(Access::InPlace),
        Access::InPlace if slice.buffer.usage().contains(copy) => Ok(Access::Copy),
        Access::InPlace => Err(usage(format!(
            "the output is copied to its buffer, which other inputs or outputs use as well; create the buffer with the \
             usage {name}, or bind a buffer of its own"
        ))),
        other => Ok(other),
    }
}

/// Returns how runs reach a range of a buffer, and in place where possible. `copy` is the usage that a copy takes.
fn access(
    device: &Device,
    tensor: &BoundTensor,
    slice: &Slice,
    (copy, name): (wgpu::BufferUsages, &str),
) -> Result<Access, GpuError> {
    let usages = slice.buffer.usage();
    let alignment = device.limits().alignment as u64;
    let is_bound = usages.contains(wgpu::BufferUsages::STORAGE);
    let is_aligned = slice.offset.is_multiple_of(alignment);
    let offset = slice.offset;
    match tensor.is_stored() {
        true if is_bound && is_aligned => Ok(Access::InPlace),
        true if usages.contains(copy) => Ok(Access::Copy),
        true if is_bound => Err(usage(format!(
            "the offset {offset} is not a multiple of the {alignment} bytes that the device asks for; bind at such an \
             offset, or create the buffer with the usage {name}, and each run copies it"
        ))),
        true => Err(usage(format!("the buffer has neither the usage STORAGE nor {name}; create it with STORAGE"))),
        false if !is_bound => Err(usage(format!(
            "elements of type {} are converted from and to buffers of the usage STORAGE; create it with that",
            tensor.data_type
        ))),
        false if !is_aligned => Err(usage(format!(
            "the offset {offset} is not a multiple of the {alignment} bytes that the device asks for where elements \
             are converted"
        ))),
        false => elements::check(tensor).map(|()| Access::Convert),
    }
}

//! The conversion between the types of tensors and the formats of the device, as a dispatch.

use std::sync::Arc;

use attache_base::DataType;

use super::transfer::{Slice, Transfer, bind_group};
use super::{BoundTensor, usage};
use crate::device::{Device, ShaderCode};
use crate::kernel::{GpuError, StorageFormat};

const SOURCE: &str = include_str!("elements.wgsl");

/// The number that the shader knows a type of tensors by.
fn code(data_type: DataType) -> Option<u32> {
    match data_type {
        DataType::Float16 => Some(0),
        DataType::Int64 => Some(1),
        // An element of 32 bits without a sign is the integer with the same bits.
        DataType::Int32 | DataType::UInt32 => Some(2),
        DataType::Int16 => Some(3),
        DataType::Int8 => Some(4),
        DataType::UInt8 => Some(5),
        DataType::Bool => Some(6),
        DataType::UInt16 => Some(7),
        _ => None,
    }
}

/// Fails if elements of the tensor's type cannot be converted to or from the format in which the device stores them.
pub(super) fn check(tensor: &BoundTensor) -> Result<(), GpuError> {
    if code(tensor.data_type).is_some() && matches!(tensor.storage, StorageFormat::F32 | StorageFormat::I32) {
        return Ok(());
    }
    Err(usage(format!("a tensor of type {} cannot be bound to a buffer", tensor.data_type)))
}

/// Returns the dispatch that converts the elements in `from`, of the tensor's type, to the device's format in `to`.
pub(crate) fn to_device(device: &Device, tensor: &BoundTensor, from: &Slice, to: &Slice) -> Result<Transfer, GpuError> {
    convert(device, tensor, (from, to), 0)
}

/// Returns the dispatch that converts the elements in `from`, in the device's format, to the tensor's type in `to`.
pub(crate) fn from_device(
    device: &Device,
    tensor: &BoundTensor,
    from: &Slice,
    to: &Slice,
) -> Result<Transfer, GpuError> {
    convert(device, tensor, (from, to), 1)
}

fn convert(
    device: &Device,
    tensor: &BoundTensor,
    (from, to): (&Slice, &Slice),
    direction: u32,
) -> Result<Transfer, GpuError> {
    let elements = tensor.shape.elements() as u32;
    let is_float = u32::from(tensor.storage == StorageFormat::F32);
    let parameters = [elements, code(tensor.data_type).unwrap_or_default(), is_float, direction];
    let parameters = device.constant(bytemuck::cast_slice(&parameters));
    // An invocation writes a word, or the two words of an element.
    let invocations =
        if direction == 1 && tensor.data_type == DataType::Int64 { elements } else { (to.size / 4) as u32 };
    let pipeline = device.converter(SOURCE)?;
    let resources = [(0, parameters.as_entire_binding()), (1, from.resource()), (2, to.resource())];
    let bindings = bind_group(device, &pipeline.get_bind_group_layout(0), resources);
    Ok(Transfer::Dispatch { pipeline, bindings, groups: groups(invocations) })
}

/// Returns the numbers of work groups, of 64 invocations each, of a grid with at least this many invocations.
pub(super) fn groups(invocations: u32) -> [u32; 3] {
    /// The largest number along an axis that every device supports.
    const MOST: u32 = 65_535;
    let groups = invocations.div_ceil(64).max(1);
    let rows = groups.div_ceil(MOST);
    [groups.div_ceil(rows), rows, 1]
}

impl Device {
    /// Returns the pipeline of a shader that converts.
    pub(super) fn converter(&self, source: &str) -> Result<Arc<wgpu::ComputePipeline>, GpuError> {
        Ok(self.pipelines(&[(source, 2)], ShaderCode::Compile)?.0.remove(0))
    }

    /// Creates a buffer of parameters or constants that shaders read.
    pub(super) fn constant(&self, bytes: &[u8]) -> wgpu::Buffer {
        let usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST;
        let descriptor =
            wgpu::BufferDescriptor { label: None, size: bytes.len() as u64, usage, mapped_at_creation: false };
        let buffer = self.wgpu().create_buffer(&descriptor);
        self.queue().write_buffer(&buffer, 0, bytes);
        buffer
    }
}

#[cfg(test)]
mod tests {
    use super::groups;

    #[test]
    fn grids_have_enough_invocations() {
        for invocations in [0, 1, 64, 65, 65_535 * 64, 65_535 * 64 + 1, 100_000_000, 1 << 31] {
            let [x, y, z] = groups(invocations);
            assert!(x <= 65_535 && y <= 65_535 && z == 1, "{invocations}");
            assert!(u64::from(x) * u64::from(y) * 64 >= u64::from(invocations), "{invocations}");
        }
    }
}

//! Memory of the caller's that inputs and outputs are bound to: buffers and textures of wgpu on a device of the caller's,
//! and memory of Vulkan ([`DeviceMemory`]) on a device that this crate opened.
//!
//! Contract: a buffer that holds the elements as the device stores them is used where it is. Every other memory is
//! transferred on the device, before the first or after the last dispatch of a run: by a copy, or by one dispatch that
//! converts ([`Transfer`]). What cannot be is an error when it is bound, never a panic, and changes nothing.

mod aligned;
mod buffer;
mod elements;
#[cfg(unix)]
mod external;
// Without Vulkan, no runs use such memory.
#[cfg_attr(
    not(all(feature = "vulkan", any(target_os = "linux", target_os = "android", target_os = "freebsd", windows))),
    allow(dead_code)
)]
mod memory;
mod owner;
mod pixels;
#[cfg_attr(
    not(all(feature = "vulkan", any(target_os = "linux", target_os = "android", target_os = "freebsd", windows))),
    allow(dead_code)
)]
mod semaphore;
mod source;
mod target;
mod transfer;

use attache_base::{DataType, Quantization, Shape};
use attache_gpu_ir::Scalar;

pub use aligned::AlignedBytes;
pub use buffer::BufferBinding;
pub(crate) use buffer::{Access, input_access, output_access};
pub(crate) use elements::{from_device, to_device};
#[cfg(unix)]
pub use external::ExternalMemory;
#[cfg(all(feature = "vulkan", any(target_os = "linux", target_os = "android", target_os = "freebsd", windows)))]
pub(crate) use memory::Submitting;
pub use memory::{DeviceMemory, MemoryBinding};
pub use pixels::ChannelOrder;
pub use semaphore::DeviceSemaphore;
#[cfg(all(feature = "vulkan", any(target_os = "linux", target_os = "android", target_os = "freebsd", windows)))]
pub(crate) use semaphore::PendingSignal;
pub use source::TextureSource;
pub use target::TextureTarget;
pub(crate) use transfer::{Slice, Transfer, bind_group};

use crate::kernel::{GpuError, GpuErrorKind, StorageFormat};

/// Memory that an input is read from.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum InputBinding {
    /// A range of a buffer with the elements of the tensor, in its own type.
    Buffer(BufferBinding),
    /// A texture, whose pixels are converted to the elements of the tensor.
    Texture(TextureSource),
    /// A range of memory of a device that the delegate opened, with the elements of the tensor, in its own type.
    Memory(MemoryBinding),
}

/// Memory that an output is written to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum OutputBinding {
    /// A range of a buffer for the elements of the tensor, in its own type.
    Buffer(BufferBinding),
    /// A texture, whose pixels are made from the elements of the tensor.
    Texture(TextureTarget),
    /// A range of memory of a device that the delegate opened, for the elements of the tensor, in its own type.
    Memory(MemoryBinding),
}

/// A tensor that is bound: what its elements mean to the caller, and how the device stores them.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundTensor {
    /// The type of its elements, which a bound buffer holds.
    pub data_type: DataType,
    /// Extents, outermost first.
    pub shape: Shape,
    /// Quantization parameters; `None` if the tensor is not quantized.
    pub quantization: Option<Quantization>,
    /// The type of the elements in the program.
    pub scalar: Scalar,
    /// The format in which the device stores the elements.
    pub storage: StorageFormat,
}

impl BoundTensor {
    /// Returns the number of bytes of the tensor in its own type. Fails if elements of the type have no memory of their
    /// own, such as strings.
    pub(crate) fn bytes(&self) -> Result<u64, GpuError> {
        let bytes = self.data_type.byte_size(self.shape.elements()).filter(|_| self.data_type.bits() >= Some(8));
        let bytes = bytes.ok_or_else(|| usage(format!("a tensor of type {} has no buffer", self.data_type)))?;
        Ok(bytes as u64)
    }

    /// Returns the number of bytes in which the device stores the elements, without padding.
    pub(crate) fn device_bytes(&self) -> usize {
        self.shape.elements() * self.storage.bytes()
    }

    /// Whether the device stores the elements as the tensor's type has them.
    pub(crate) fn is_stored(&self) -> bool {
        match (self.data_type, self.storage) {
            (DataType::Float32, StorageFormat::F32) => true,
            (DataType::Int32 | DataType::UInt32, StorageFormat::I32) => self.scalar == Scalar::I32,
            (DataType::Int8 | DataType::UInt8, StorageFormat::Bytes(_)) => true,
            _ => false,
        }
    }

    /// Returns scale and zero point of a quantized tensor of integers; `None` for others, and for several scales.
    fn affine(&self) -> Option<(f32, f32)> {
        let quantization = self.quantization.as_ref()?;
        match (quantization.scale.as_slice(), quantization.zero_point.as_slice()) {
            ([scale], [zero_point]) => Some((*scale, *zero_point as f32)),
            _ => None,
        }
    }
}

/// Returns the error for memory that cannot be bound.
pub(crate) fn usage(message: impl Into<String>) -> GpuError {
    GpuError::new(GpuErrorKind::Usage, message)
}

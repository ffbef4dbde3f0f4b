#![allow(unsafe_code)]
//! The bytes of an input, an output or a variable, as C code sees them.
//!
//! A tensor has memory from `AllocateTensors` on. Its address stays the same until a resize, and runs copy from or to
//! it.

use std::slice;

use attache_base::AlignedBuffer;

use crate::fault::Fault;

/// Memory with a fixed address.
#[derive(Debug, Default)]
pub(crate) enum Storage {
    /// Tensors were never allocated.
    #[default]
    None,
    Own(AlignedBuffer),
    /// Memory of the program's (`TfLiteCustomAllocation`).
    Custom(*mut u8, usize),
}

impl Storage {
    /// Returns the bytes; `None` where there are none.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::None => None,
            Self::Own(buffer) => Some(buffer),
            // SAFETY: the program states that the memory is valid and stays so until the interpreter is deleted.
            Self::Custom(data, size) => Some(unsafe { slice::from_raw_parts(*data, *size) }),
        }
    }

    /// Returns the bytes, to be changed.
    pub(crate) fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        match self {
            Self::None => None,
            Self::Own(buffer) => Some(buffer),
            // SAFETY: as in `bytes`; the program does not use the memory while it calls a function of the interpreter.
            Self::Custom(data, size) => Some(unsafe { slice::from_raw_parts_mut(*data, *size) }),
        }
    }

    /// Whether there is memory that [`Storage::fit`] keeps for this size.
    pub(crate) fn has(&self, size: usize) -> bool {
        match self {
            Self::None => false,
            Self::Own(buffer) => buffer.len() == size,
            Self::Custom(..) => true,
        }
    }

    /// Makes `size` bytes of storage, unless there are as many. Bytes of another size are gone.
    pub(crate) fn fit(&mut self, size: usize) -> Result<(), Fault> {
        match self {
            Self::Custom(_, room) if size > *room => {
                Err(Fault::new(format!("the tensor needs {size} bytes; the memory that was set for it has {room}")))
            }
            Self::Custom(..) => Ok(()),
            Self::Own(buffer) if buffer.len() == size => Ok(()),
            _ => {
                let buffer = AlignedBuffer::zeroed(size).map_err(|error| Fault::new(error.to_string()))?;
                *self = Self::Own(buffer);
                Ok(())
            }
        }
    }

    /// Returns the address of the bytes; null where there are none. It is one to write to, whatever it was made from.
    pub(crate) fn address(&mut self) -> *mut u8 {
        self.bytes_mut().filter(|bytes| !bytes.is_empty()).map_or(std::ptr::null_mut(), <[u8]>::as_mut_ptr)
    }
}

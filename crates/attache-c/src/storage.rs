#![allow(unsafe_code)]
//! The bytes of an input, an output or a variable, as C code sees them.
//!
//! A tensor has memory from `AllocateTensors` on. Its address stays the same until a resize, or until a delegate is added.
//! Runs on the CPU use it where it is (`sharing.rs`), others copy from or to it, or a device uses it where it is
//! (`bound.rs`).

use std::alloc::{self, Layout};
use std::slice;
use std::sync::Arc;

use crate::fault::Fault;

/// The memory of the tensors of a subgraph that have some, by the index of the tensor.
#[derive(Debug, Default)]
pub(crate) struct Storages(Vec<Option<Storage>>);

impl Storages {
    pub(crate) fn get(&self, tensor: usize) -> Option<&Storage> {
        self.0.get(tensor)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, tensor: usize) -> Option<&mut Storage> {
        self.0.get_mut(tensor)?.as_mut()
    }

    /// Returns the memory of a tensor, which has some from then on.
    pub(crate) fn require(&mut self, tensor: usize) -> &mut Storage {
        if self.0.len() <= tensor {
            self.0.resize_with(tensor + 1, || None);
        }
        self.0[tensor].get_or_insert_default()
    }

    pub(crate) fn take(&mut self, tensor: usize) -> Option<Storage> {
        self.0.get_mut(tensor)?.take()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Storage)> {
        self.0.iter_mut().enumerate().filter_map(|(tensor, storage)| Some((tensor, storage.as_mut()?)))
    }
}

/// Memory with a fixed address.
#[derive(Debug, Default)]
pub(crate) enum Storage {
    /// Tensors were never allocated.
    #[default]
    None,
    Own(Pages),
    /// Memory of the interpreter of `attache`, which runs use where it is: its start and its size in bytes.
    Shared(*mut u8, usize),
    /// Memory of the program's (`TfLiteCustomAllocation`).
    Custom(*mut u8, usize),
}

impl Storage {
    /// Returns the bytes; `None` where there are none.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::None => None,
            Self::Own(pages) => Some(pages.bytes()),
            // SAFETY: the program states that the memory is valid and stays so until the interpreter is deleted.
            Self::Custom(data, size) => Some(unsafe { slice::from_raw_parts(*data, *size) }),
            // SAFETY: the interpreter has the memory as long as it is shared, and runs, which write there, need the interpreter.
            Self::Shared(data, size) => Some(unsafe { slice::from_raw_parts(*data, *size) }),
        }
    }

    /// Returns the bytes, to be changed.
    pub(crate) fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        match self {
            Self::None => None,
            Self::Own(pages) => Some(pages.bytes_mut()),
            // SAFETY: as in `bytes`; the program does not use the memory while it calls a function of the interpreter.
            Self::Custom(data, size) => Some(unsafe { slice::from_raw_parts_mut(*data, *size) }),
            // SAFETY: as in `bytes`.
            Self::Shared(data, size) => Some(unsafe { slice::from_raw_parts_mut(*data, *size) }),
        }
    }

    /// Has the storage be memory of the interpreter's, `None` if there is none to be had. Bytes of the same size that the
    /// storage had of its own are copied there. Memory of the program's stays. Before the interpreter's memory goes, this or
    /// [`Storage::detach`] is called.
    pub(crate) fn share(&mut self, memory: Option<&mut [u8]>) {
        match (memory, &*self) {
            (_, Self::Custom(..)) => {}
            (None, Self::Shared(..)) => *self = Self::None,
            (None, _) => {}
            (Some(memory), before) => {
                if let Self::Own(pages) = before
                    && pages.size == memory.len()
                {
                    memory.copy_from_slice(pages.bytes());
                }
                *self = Self::Shared(memory.as_mut_ptr(), memory.len());
            }
        }
    }

    /// Copies memory of the interpreter's to memory of the storage's own, where it stays when the interpreter is gone.
    pub(crate) fn detach(&mut self) -> Result<(), Fault> {
        if let Self::Shared(_, size) = *self {
            let mut pages = Pages::zeroed(size)?;
            pages.bytes_mut().copy_from_slice(self.bytes().unwrap_or_default());
            *self = Self::Own(pages);
        }
        Ok(())
    }

    /// Whether runs use the memory where it is.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Self::Shared(..))
    }

    /// Whether there is memory that [`Storage::fit`] keeps for this size.
    pub(crate) fn has(&self, size: usize) -> bool {
        match self {
            Self::None => false,
            Self::Own(pages) => pages.size == size,
            Self::Shared(_, shared) => *shared == size,
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
            Self::Own(pages) if pages.size == size => Ok(()),
            Self::Shared(_, shared) if *shared == size => Ok(()),
            _ => {
                *self = Self::Own(Pages::zeroed(size)?);
                Ok(())
            }
        }
    }

    /// Returns the pages that a device may use where they are, if it asks for no larger ones; `None` of other memory.
    #[cfg_attr(not(feature = "gpu"), allow(dead_code))]
    pub(crate) fn pages(&self, alignment: usize) -> Option<Pages> {
        match self {
            Self::Own(pages) if Pages::PAGE.is_multiple_of(alignment) => Some(pages.clone()),
            _ => None,
        }
    }

    /// Returns the address of the bytes; null where there are none. It is one to write to, whatever it was made from.
    pub(crate) fn address(&mut self) -> *mut u8 {
        self.bytes_mut().filter(|bytes| !bytes.is_empty()).map_or(std::ptr::null_mut(), <[u8]>::as_mut_ptr)
    }
}

/// Bytes in pages of their own, so that a device can use them where they are. Clones are the same bytes.
#[derive(Clone, Debug)]
pub(crate) struct Pages {
    block: Arc<Block>,
    /// The number of bytes. The rest of the last page belongs to the block as well.
    size: usize,
}

/// The memory of [`Pages`], which programs write to through pointers while the library has it.
#[derive(Debug)]
struct Block {
    start: *mut u8,
    layout: Layout,
}

// SAFETY: whoever has the last clone may free the memory, in any thread.
unsafe impl Send for Block {}
// SAFETY: one thread at a time uses the bytes, that which has the interpreter; a device does so only during its runs.
unsafe impl Sync for Block {}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: `Pages::zeroed` allocated the memory with this layout.
        unsafe { alloc::dealloc(self.start, self.layout) };
    }
}

impl Pages {
    /// The size of a page in bytes: that of most systems, and what devices ask for at most.
    const PAGE: usize = 4096;

    fn zeroed(size: usize) -> Result<Self, Fault> {
        let failed = || Fault::new(format!("there is no memory for a tensor of {size} bytes"));
        let room = size.max(1).checked_next_multiple_of(Self::PAGE).ok_or_else(failed)?;
        let layout = Layout::from_size_align(room, Self::PAGE).map_err(|_| failed())?;
        // SAFETY: the layout has a size.
        let start = unsafe { alloc::alloc_zeroed(layout) };
        if start.is_null() {
            return Err(failed());
        }
        Ok(Self { block: Arc::new(Block { start, layout }), size })
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the block has these bytes, and the program does not change them during a call of the interpreter.
        unsafe { slice::from_raw_parts(self.block.start, self.size) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; a device uses them in runs alone, which need the interpreter as well.
        unsafe { slice::from_raw_parts_mut(self.block.start, self.size) }
    }
}

impl AsMut<[u8]> for Pages {
    /// Returns all pages.
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes_mut`.
        unsafe { slice::from_raw_parts_mut(self.block.start, self.block.layout.size()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_in_pages_that_a_device_may_share() {
        for size in [0, 1, 4096, 4097, 100_000] {
            let mut storage = Storage::default();
            storage.fit(size).unwrap();
            let address = storage.bytes().unwrap().as_ptr().addr();
            assert_eq!((storage.bytes().unwrap().len(), address % 4096), (size, 0));
            let mut pages = storage.pages(4096).unwrap();
            assert!(pages.as_mut().len() >= size && pages.as_mut().len() % 4096 == 0);
            pages.as_mut().fill(7);
            assert!(storage.bytes().unwrap().iter().all(|byte| *byte == 7));
            storage.fit(size).unwrap();
            assert_eq!(storage.bytes().unwrap().as_ptr().addr(), address);
            assert!(storage.pages(1 << 16).is_none());
        }
    }
}

//! [`BuiltinData`], the parameter struct of a node in memory of `malloc`.

use std::ffi::c_void;
use std::mem::size_of;

/// The `builtin_data` of a node: a parameter struct in memory of `malloc`, or null.
#[derive(Debug)]
pub struct BuiltinData(*mut c_void);

// SAFETY: the memory belongs to this value alone, and holds numbers and what their addresses lead to.
unsafe impl Send for BuiltinData {}
// SAFETY: as above; nothing changes it through a shared reference.
unsafe impl Sync for BuiltinData {}

impl BuiltinData {
    /// Returns the data of an operator without parameters.
    pub(super) fn none() -> Self {
        Self(std::ptr::null_mut())
    }

    /// Copies a struct to memory of `malloc`; `None` where there is none.
    pub(super) fn new<P: Copy>(params: &P) -> Option<Self> {
        Self::with_bytes(&[], |_| *params)
    }

    /// Makes a struct that points to bytes. They follow it in memory, so that they are aligned as it is. `None` where there
    /// is no memory.
    pub(super) fn with_bytes<P: Copy>(bytes: &[u8], params: impl FnOnce(*const u8) -> P) -> Option<Self> {
        // SAFETY: malloc has no preconditions.
        let memory = unsafe { libc::malloc(size_of::<P>() + bytes.len()) };
        if memory.is_null() {
            return None;
        }
        // SAFETY: the memory has room for the struct and the bytes, is aligned for any type, and nobody else has it.
        unsafe {
            let after = memory.cast::<u8>().add(size_of::<P>());
            after.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            memory.cast::<P>().write(params(after));
        }
        Some(Self(memory))
    }

    /// Returns the address of the struct, which stays valid as long as this value; null if the operator has none.
    #[must_use]
    pub fn as_ptr(&self) -> *mut c_void {
        self.0
    }
}

impl Drop for BuiltinData {
    fn drop(&mut self) {
        // SAFETY: the memory is of malloc, or the pointer is null, and it is freed once.
        unsafe { libc::free(self.0) };
    }
}

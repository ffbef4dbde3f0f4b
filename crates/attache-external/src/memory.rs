#![allow(unsafe_code)]
//! Arrays of C that free themselves.

use std::ffi::c_int;

use attache_abi::TfLiteIntArray;

/// A `TfLiteIntArray` that frees itself.
#[derive(Debug)]
pub(crate) struct Integers(*mut TfLiteIntArray);

impl Integers {
    /// Allocates an array with these elements.
    pub(crate) fn new(elements: &[c_int]) -> Self {
        Self(TfLiteIntArray::new(elements))
    }

    /// Allocates an array of indices. Graphs have fewer tensors and nodes than an `int` can count.
    pub(crate) fn of_indices(indices: impl IntoIterator<Item = usize>) -> Self {
        Self::new(&indices.into_iter().map(|index| c_int::try_from(index).unwrap_or(-1)).collect::<Vec<_>>())
    }

    /// Returns the array, which stays valid as long as this value.
    pub(crate) fn as_ptr(&self) -> *mut TfLiteIntArray {
        self.0
    }

    /// Returns the elements.
    pub(crate) fn elements(&self) -> &[c_int] {
        // SAFETY: the array was made by `new`, and C code that gets it only reads it.
        unsafe { TfLiteIntArray::elements(self.0) }
    }

    /// Gives the array away; whoever gets it frees it.
    pub(crate) fn into_raw(self) -> *mut TfLiteIntArray {
        let array = self.0;
        std::mem::forget(self);
        array
    }
}

impl Drop for Integers {
    fn drop(&mut self) {
        // SAFETY: the array was made by `new` and belongs to this value.
        unsafe { TfLiteIntArray::free(self.0) };
    }
}

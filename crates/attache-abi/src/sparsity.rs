#![allow(unsafe_code)]
//! Sparse tensors as structs of C, which are allocated with `malloc` because C code on the other side frees them.

use std::ffi::c_int;

use attache::model::{SparseAxis, Sparsity};

use crate::{TfLiteDimensionMetadata, TfLiteDimensionType, TfLiteIntArray, TfLiteSparsity};

impl TfLiteSparsity {
    /// Allocates what describes a sparse tensor. Returns null where there is no memory.
    #[must_use]
    pub fn new(sparsity: &Sparsity) -> *mut Self {
        let count = sparsity.axes.len();
        // SAFETY: calloc has no preconditions. Null in structs of zeros is a valid pointer, and so is a size of 0.
        let (all, axes) = unsafe {
            let axes = libc::calloc(count.max(1), size_of::<TfLiteDimensionMetadata>());
            (libc::calloc(1, size_of::<Self>()).cast::<Self>(), axes.cast::<TfLiteDimensionMetadata>())
        };
        if all.is_null() || axes.is_null() {
            // SAFETY: each is null or was just allocated.
            unsafe {
                libc::free(all.cast());
                libc::free(axes.cast());
            }
            return std::ptr::null_mut();
        }
        for (index, axis) in sparsity.axes.iter().enumerate() {
            // SAFETY: there is room for so many axes, and nobody else has it.
            unsafe { axes.add(index).write(TfLiteDimensionMetadata::new(axis)) };
        }
        // SAFETY: as above.
        unsafe {
            all.write(Self {
                traversal_order: TfLiteIntArray::new(&sparsity.traversal_order),
                block_map: TfLiteIntArray::new(&sparsity.block_map),
                dim_metadata: axes,
                dim_metadata_size: c_int::try_from(count).unwrap_or(0),
            });
        }
        all
    }
}

impl TfLiteDimensionMetadata {
    fn new(axis: &SparseAxis) -> Self {
        let dense = |size| Self {
            format: TfLiteDimensionType::DENSE,
            dense_size: size,
            array_segments: std::ptr::null_mut(),
            array_indices: std::ptr::null_mut(),
        };
        match axis {
            SparseAxis::Dense(size) => dense(*size),
            SparseAxis::Sparse { segments, indices, .. } => Self {
                format: TfLiteDimensionType::SPARSE_CSR,
                dense_size: 0,
                array_segments: TfLiteIntArray::new(segments),
                array_indices: TfLiteIntArray::new(indices),
            },
            _ => dense(0),
        }
    }
}

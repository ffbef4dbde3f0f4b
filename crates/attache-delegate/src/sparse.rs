#![allow(unsafe_code)]
//! The sparse form of the runtime's constants, as the table that a file has for it. Reading the model expands them.

use attache::model::schema::{
    DimensionMetadataT, DimensionType, Int32VectorT, SparseIndexVectorT, SparsityParametersT,
};
use attache_abi::{TfLiteDimensionMetadata, TfLiteDimensionType, TfLiteIntArray, TfLiteSparsity};

/// Returns the table; `None` if the struct has no axes.
///
/// # Safety
///
/// The pointers in the struct are null or valid, and `dim_metadata` leads to as many structs as it states.
pub(crate) unsafe fn sparsity_of(sparsity: &TfLiteSparsity) -> Option<SparsityParametersT> {
    let count = usize::try_from(sparsity.dim_metadata_size).ok()?;
    if sparsity.dim_metadata.is_null() || count == 0 {
        return None;
    }
    // SAFETY: the caller states that the structs are there, and that arrays are null or valid.
    unsafe {
        let axes = std::slice::from_raw_parts(sparsity.dim_metadata, count);
        Some(SparsityParametersT {
            traversal_order: Some(TfLiteIntArray::elements(sparsity.traversal_order).to_vec()),
            block_map: (!sparsity.block_map.is_null()).then(|| TfLiteIntArray::elements(sparsity.block_map).to_vec()),
            dim_metadata: Some(axes.iter().map(|axis| axis_of(axis)).collect()),
        })
    }
}

/// Returns the table of one axis.
///
/// # Safety
///
/// As [`sparsity_of`].
unsafe fn axis_of(axis: &TfLiteDimensionMetadata) -> DimensionMetadataT {
    if axis.format == TfLiteDimensionType::DENSE {
        return DimensionMetadataT {
            format: DimensionType::DENSE,
            dense_size: axis.dense_size,
            ..DimensionMetadataT::default()
        };
    }
    let list = |array: *mut TfLiteIntArray| {
        // SAFETY: the caller states that the array is null or valid.
        let values = Some(unsafe { TfLiteIntArray::elements(array) }.to_vec());
        SparseIndexVectorT::Int32Vector(Box::new(Int32VectorT { values }))
    };
    DimensionMetadataT {
        format: DimensionType::SPARSE_CSR,
        array_segments: list(axis.array_segments),
        array_indices: list(axis.array_indices),
        ..DimensionMetadataT::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_dense_or_have_segments_and_indices() {
        let arrays = [&[0, 1][..], &[0, 2, 3], &[1, 3, 0]].map(TfLiteIntArray::new);
        let [traversal_order, array_segments, array_indices] = arrays;
        let (null, sparse) = (std::ptr::null_mut(), TfLiteDimensionType::SPARSE_CSR);
        let dense = TfLiteDimensionType::DENSE;
        let mut axes = [
            TfLiteDimensionMetadata { format: dense, dense_size: 2, array_segments: null, array_indices: null },
            TfLiteDimensionMetadata { format: sparse, dense_size: 0, array_segments, array_indices },
        ];
        let sparsity =
            TfLiteSparsity { traversal_order, block_map: null, dim_metadata: axes.as_mut_ptr(), dim_metadata_size: 2 };
        // SAFETY: all pointers are null or lead to what lives until the end.
        let table = unsafe { sparsity_of(&sparsity) }.unwrap();
        assert_eq!((table.traversal_order, table.block_map), (Some(vec![0, 1]), None));
        let [first, second] = &table.dim_metadata.unwrap()[..] else { panic!("two axes") };
        assert_eq!((first.format, first.dense_size), (DimensionType::DENSE, 2));
        let SparseIndexVectorT::Int32Vector(indices) = &second.array_indices else { panic!("32-bit indices") };
        assert_eq!((second.format, &indices.values), (DimensionType::SPARSE_CSR, &Some(vec![1, 3, 0])));
        // SAFETY: as above.
        let none = unsafe { sparsity_of(&TfLiteSparsity { dim_metadata: std::ptr::null_mut(), ..sparsity }) };
        assert!(none.is_none());
        // SAFETY: the arrays are not used any more.
        arrays.into_iter().for_each(|array| unsafe { TfLiteIntArray::free(array) });
    }
}

//! How a file stores a sparse tensor, as it says it.

use crate::model::Model;
use crate::schema::{DimensionMetadata, DimensionType};

/// How a file stores a sparse tensor: the axes of the tensor and those of blocks, in the order in which the stored elements
/// follow from them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sparsity {
    /// The axes, in the order in which they are traversed; those behind the rank of the tensor are of blocks.
    pub traversal_order: Vec<i32>,
    /// The axis of the tensor that each axis of blocks divides.
    pub block_map: Vec<i32>,
    /// How each axis is stored, in the order of traversal.
    pub axes: Vec<SparseAxis>,
}

/// How one axis of a sparse tensor is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SparseAxis {
    /// With all indices, of which there are so many.
    Dense(i32),
    /// With those that are listed.
    #[non_exhaustive]
    Sparse {
        /// Where the indices begin below each node of the axis before it, and the end of all.
        segments: Vec<i32>,
        /// The indices.
        indices: Vec<i32>,
    },
}

/// Reads a list of integers, which a file stores with 8, 16 or 32 bits each.
macro_rules! list {
    ($axis:expr, $as_8:ident, $as_16:ident, $as_32:ident) => {{
        let bytes = $axis.$as_8().and_then(|it| it.values()).map(|it| it.iter().map(i32::from).collect());
        let words = || $axis.$as_16().and_then(|it| it.values()).map(|it| it.iter().map(i32::from).collect());
        let whole = || $axis.$as_32().and_then(|it| it.values()).map(|it| it.iter().collect());
        bytes.or_else(words).or_else(whole).unwrap_or_default()
    }};
}

fn axis(axis: &DimensionMetadata<'_>) -> SparseAxis {
    if axis.format() == DimensionType::DENSE {
        return SparseAxis::Dense(axis.dense_size());
    }
    SparseAxis::Sparse {
        segments: list!(
            axis,
            array_segments_as_uint_8_vector,
            array_segments_as_uint_16_vector,
            array_segments_as_int_32_vector
        ),
        indices: list!(
            axis,
            array_indices_as_uint_8_vector,
            array_indices_as_uint_16_vector,
            array_indices_as_int_32_vector
        ),
    }
}

impl Model {
    /// Returns how the file stores a tensor, given by the indices of its subgraph and of the tensor in it; `None` if it is
    /// not sparse.
    ///
    /// # Panics
    ///
    /// Panics if there is no such tensor.
    #[must_use]
    pub fn sparsity(&self, subgraph: usize, tensor: usize) -> Option<Sparsity> {
        let view = self.tensor_view(subgraph, tensor).sparsity()?;
        Some(Sparsity {
            traversal_order: view.traversal_order().map(|list| list.iter().collect()).unwrap_or_default(),
            block_map: view.block_map().map(|list| list.iter().collect()).unwrap_or_default(),
            axes: view.dim_metadata().into_iter().flatten().map(|it| axis(&it)).collect(),
        })
    }
}

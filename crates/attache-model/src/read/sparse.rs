//! Expands constants that a file stores in sparse form.
//!
//! The elements are those of a tree with one level for each axis, in the order of traversal: the axes of the tensor, of which
//! some are divided into blocks, and the axes within the blocks. A dense axis has all of its indices below each node of the
//! level above; a sparse one has those that are listed, with the end of each node's part of the list in `array_segments`. The
//! leaves are the stored elements, in order. Source: Kjolstad et al., "The Tensor Algebra Compiler".

use attache_base::{Shape, strides};

use super::numbers;
use crate::schema::{self, DimensionType};

/// How many times larger the expanded constants of a file may be than the file.
const MOST_TIMES: usize = 64;
/// The bytes that they may have in any case.
const ALWAYS: usize = 16 << 20;

/// The bytes that the expanded constants of a file may still take.
pub(super) struct Budget(usize);

impl Budget {
    /// Returns the budget of a file of this length in bytes.
    pub(super) fn new(file: usize) -> Self {
        Self(file.saturating_mul(MOST_TIMES).saturating_add(ALWAYS))
    }

    /// Allocates zeroed memory; `None` where that exceeds the budget.
    fn zeroed(&mut self, size: usize) -> Option<Vec<u8>> {
        self.0 = self.0.checked_sub(size)?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(size).ok()?;
        bytes.resize(size, 0);
        Some(bytes)
    }
}

/// Why a sparse constant is not expanded.
#[derive(Debug, PartialEq)]
pub(super) enum Unexpanded {
    /// The description of the sparse form contradicts itself, the shape or the data.
    Invalid(String),
    /// The constant would be too large.
    TooLarge(String),
}

fn invalid<T>(text: impl Into<String>) -> Result<T, Unexpanded> {
    Err(Unexpanded::Invalid(text.into()))
}

/// One level of the tree.
enum Level {
    /// All indices below this extent.
    Dense(usize),
    /// For each node of the level above, the end of its part of the indices, behind a 0; and the indices.
    Sparse { segments: Vec<usize>, indices: Vec<usize> },
}

/// Reads a list of integers, which the file stores in one of three widths; `None` if it is missing or has a negative one.
macro_rules! list {
    ($view:expr, $as_8:ident, $as_16:ident, $as_32:ident) => {{
        if let Some(list) = $view.$as_8() {
            numbers(list.values()).map(|value: u8| Some(usize::from(value))).collect::<Option<Vec<usize>>>()
        } else if let Some(list) = $view.$as_16() {
            numbers(list.values()).map(|value: u16| Some(usize::from(value))).collect()
        } else if let Some(list) = $view.$as_32() {
            numbers(list.values()).map(|value: i32| usize::try_from(value).ok()).collect()
        } else {
            None
        }
    }};
}

impl Level {
    fn new(view: schema::DimensionMetadata<'_>) -> Result<Self, Unexpanded> {
        match view.format() {
            DimensionType::DENSE => match usize::try_from(view.dense_size()) {
                Ok(size) => Ok(Self::Dense(size)),
                Err(_) => invalid(format!("a dense axis of the sparse form has the size {}", view.dense_size())),
            },
            DimensionType::SPARSE_CSR => {
                let segments = list!(
                    view,
                    array_segments_as_uint_8_vector,
                    array_segments_as_uint_16_vector,
                    array_segments_as_int_32_vector
                );
                let indices = list!(
                    view,
                    array_indices_as_uint_8_vector,
                    array_indices_as_uint_16_vector,
                    array_indices_as_int_32_vector
                );
                let (Some(segments), Some(indices)) = (segments, indices) else {
                    return invalid("a sparse axis has no segments or indices, or negative ones");
                };
                if segments.first() != Some(&0) || !segments.is_sorted() || segments.last() != Some(&indices.len()) {
                    return invalid("the segments of a sparse axis do not divide its indices");
                }
                Ok(Self::Sparse { segments, indices })
            }
            other => invalid(format!("axis format {} is neither DENSE (0) nor SPARSE_CSR (1)", other.0)),
        }
    }

    /// Returns the number of nodes of this level, for so many of the level above.
    fn nodes(&self, above: usize) -> Option<usize> {
        match self {
            Self::Dense(size) => above.checked_mul(*size),
            Self::Sparse { segments, indices } => (segments.len() == above + 1).then_some(indices.len()),
        }
    }
}

/// The tree, with how far each index of a level moves the offset of the dense element, and the number of indices that the
/// axis of the level has.
struct Tree {
    levels: Vec<(Level, usize, usize)>,
}

impl Tree {
    fn new(view: schema::SparsityParameters<'_>, shape: &Shape) -> Result<Self, Unexpanded> {
        let order: Vec<i32> = numbers(view.traversal_order()).collect();
        let blocked: Vec<i32> = numbers(view.block_map()).collect();
        let (rank, axes) = (shape.rank(), shape.rank() + blocked.len());
        let metadata = view.dim_metadata().filter(|list| list.len() == axes && order.len() == axes);
        let Some(metadata) = metadata else {
            return invalid(format!("the sparse form does not have {axes} axes in its order and its metadata"));
        };
        let order = order.iter().map(|axis| usize::try_from(*axis).ok().filter(|axis| *axis < axes));
        let Some(order) = order.collect::<Option<Vec<_>>>() else {
            return invalid("the order of traversal names an axis that does not exist");
        };
        let levels = metadata.iter().map(Level::new).collect::<Result<Vec<_>, _>>()?;
        // The block of each axis: its extent, 1 where the axis is not divided.
        let (mut blocks, mut steps_of_blocks) = (vec![1; rank], Vec::new());
        let steps = strides(shape);
        for (block, axis) in blocked.iter().enumerate() {
            let Some(axis) = usize::try_from(*axis).ok().filter(|axis| *axis < rank && blocks[*axis] == 1) else {
                return invalid("the block map names an axis that does not exist, or one twice");
            };
            let level = order.iter().position(|traversed| *traversed == rank + block);
            let Some(Level::Dense(size)) = level.map(|level| &levels[level]) else {
                return invalid("a block is not dense, or not traversed");
            };
            if *size == 0 || !shape[axis].is_multiple_of(*size) {
                return invalid(format!("axis {axis} of {shape} is not divided into blocks of {size}"));
            }
            blocks[axis] = *size;
            steps_of_blocks.push((steps[axis], *size));
        }
        let mut seen = vec![false; axes];
        let place = |(level, axis): (Level, usize)| {
            if std::mem::replace(&mut seen[axis], true) {
                return invalid(format!("axis {axis} is traversed twice"));
            }
            let (step, extent) = match axis.checked_sub(rank) {
                Some(block) => steps_of_blocks[block],
                None => (steps[axis] * blocks[axis], shape[axis] / blocks[axis]),
            };
            match &level {
                Level::Dense(size) if *size != extent => {
                    invalid(format!("axis {axis} has {size} indices, not {extent}"))
                }
                Level::Sparse { indices, .. } if indices.iter().any(|index| *index >= extent) => {
                    invalid(format!("an index of axis {axis} is not below {extent}"))
                }
                _ => Ok((level, step, extent)),
            }
        };
        Ok(Self { levels: levels.into_iter().zip(order).map(place).collect::<Result<_, _>>()? })
    }

    /// Returns the number of stored elements; fails where a level does not fit the one above, or where a level has more nodes
    /// than the tensor has elements.
    fn leaves(&self, elements: usize) -> Result<usize, Unexpanded> {
        let mut nodes = 1;
        for (index, (level, ..)) in self.levels.iter().enumerate() {
            nodes = match level.nodes(nodes).filter(|nodes| *nodes <= elements) {
                Some(nodes) => nodes,
                None => return invalid(format!("level {index} of the sparse form does not fit the level above")),
            };
        }
        Ok(nodes)
    }

    /// Returns the offsets of the stored elements in the expanded constant, in order.
    fn offsets(&self) -> Vec<usize> {
        let mut offsets = vec![0];
        for (level, step, _) in &self.levels {
            offsets = match level {
                Level::Dense(size) => {
                    offsets.iter().flat_map(|offset| (0..*size).map(move |index| offset + index * step)).collect()
                }
                Level::Sparse { segments, indices } => {
                    let parts = segments.windows(2).map(|ends| &indices[ends[0]..ends[1]]);
                    let nodes = offsets.iter().zip(parts);
                    nodes.flat_map(|(offset, part)| part.iter().map(move |index| offset + index * step)).collect()
                }
            };
        }
        offsets
    }
}

/// Returns the elements of a sparse constant in row-major order, with zeros for those that are not stored. Elements have
/// `size` bytes.
pub(super) fn expanded(
    view: schema::SparsityParameters<'_>,
    shape: &Shape,
    size: usize,
    stored: &[u8],
    budget: &mut Budget,
) -> Result<Vec<u8>, Unexpanded> {
    let tree = Tree::new(view, shape)?;
    let leaves = tree.leaves(shape.elements())?;
    let bytes = shape.elements() * size;
    if leaves * size > stored.len() {
        let (has, needs) = (stored.len(), leaves * size);
        return invalid(format!(
            "the sparse form has {leaves} elements in {needs} bytes, but the data has {has} bytes"
        ));
    }
    let Some(mut expanded) = budget.zeroed(bytes) else {
        let text = format!("sparse tensors of this file take more than {MOST_TIMES} times its size when expanded");
        return Err(Unexpanded::TooLarge(text));
    };
    for (offset, element) in tree.offsets().into_iter().zip(stored.chunks_exact(size)) {
        expanded[offset * size..][..size].copy_from_slice(element);
    }
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use flatbuffers::FlatBufferBuilder;

    use super::*;
    use crate::schema::{
        DimensionMetadataT, Int32VectorT, SparseIndexVectorT, SparsityParametersT, Uint8VectorT, Uint16VectorT,
    };

    fn dense(size: i32) -> DimensionMetadataT {
        DimensionMetadataT { format: DimensionType::DENSE, dense_size: size, ..Default::default() }
    }

    fn sparse(segments: &[u8], indices: &[u8]) -> DimensionMetadataT {
        let list =
            |values: &[u8]| SparseIndexVectorT::Uint8Vector(Box::new(Uint8VectorT { values: Some(values.to_vec()) }));
        DimensionMetadataT {
            format: DimensionType::SPARSE_CSR,
            array_segments: list(segments),
            array_indices: list(indices),
            ..Default::default()
        }
    }

    fn expand(
        order: &[i32],
        blocks: &[i32],
        axes: Vec<DimensionMetadataT>,
        shape: &[usize],
    ) -> Result<Vec<u8>, Unexpanded> {
        let table = SparsityParametersT {
            traversal_order: Some(order.to_vec()),
            block_map: Some(blocks.to_vec()),
            dim_metadata: Some(axes),
        };
        let mut builder = FlatBufferBuilder::new();
        let root = table.pack(&mut builder);
        builder.finish(root, None);
        let view = flatbuffers::root::<schema::SparsityParameters<'_>>(builder.finished_data()).unwrap();
        expanded(view, &shape.into(), 1, &[1, 2, 3, 4, 5, 6], &mut Budget::new(0))
    }

    #[test]
    fn rows_are_compressed() {
        let made = expand(&[0, 1], &[], vec![dense(3), sparse(&[0, 2, 2, 3], &[0, 3, 1])], &[3, 4]);
        assert_eq!(made.unwrap(), [1, 0, 0, 2, 0, 0, 0, 0, 0, 3, 0, 0]);
        let made = expand(&[1, 0], &[], vec![sparse(&[0, 2], &[0, 3]), sparse(&[0, 1, 3], &[2, 0, 1])], &[3, 4]);
        assert_eq!(made.unwrap(), [0, 0, 0, 2, 0, 0, 0, 3, 1, 0, 0, 0]);
    }

    #[test]
    fn blocks_are_dense() {
        let axes = vec![dense(1), sparse(&[0, 1], &[1]), dense(2), dense(2)];
        let made = expand(&[0, 1, 2, 3], &[0, 1], axes, &[2, 4]);
        assert_eq!(made.unwrap(), [0, 0, 1, 2, 0, 0, 3, 4]);
    }

    #[test]
    fn lists_have_three_widths() {
        let segments = SparseIndexVectorT::Uint16Vector(Box::new(Uint16VectorT { values: Some(vec![0, 1]) }));
        let indices = SparseIndexVectorT::Int32Vector(Box::new(Int32VectorT { values: Some(vec![2]) }));
        let axis = DimensionMetadataT {
            format: DimensionType::SPARSE_CSR,
            array_segments: segments,
            array_indices: indices,
            ..Default::default()
        };
        assert_eq!(expand(&[0], &[], vec![axis], &[3]).unwrap(), [0, 0, 1]);
    }

    #[test]
    fn contradictions_are_errors() {
        let wrong = [
            expand(&[0], &[], vec![dense(3)], &[3, 4]),
            expand(&[0, 0], &[], vec![dense(3), dense(4)], &[3, 4]),
            expand(&[0, 2], &[], vec![dense(3), dense(4)], &[3, 4]),
            expand(&[0, 1], &[], vec![dense(3), dense(5)], &[3, 4]),
            expand(&[0, 1], &[], vec![dense(3), sparse(&[0, 2, 1, 3], &[0, 1, 2])], &[3, 4]),
            expand(&[0, 1], &[], vec![dense(3), sparse(&[0, 2, 2, 3], &[0, 4, 1])], &[3, 4]),
            expand(&[0, 1], &[], vec![dense(3), sparse(&[0, 3], &[0, 3, 1])], &[3, 4]),
            expand(&[0, 1], &[], vec![dense(3), dense(4)], &[3, 4]), // more elements than data
            expand(&[0, 1], &[7], vec![dense(3), dense(2), dense(2)], &[3, 4]),
            expand(&[0, 1, 2], &[1], vec![dense(3), dense(1), dense(3)], &[3, 4]),
        ];
        for (index, wrong) in wrong.iter().enumerate() {
            assert!(matches!(wrong, Err(Unexpanded::Invalid(_))), "{index}: {wrong:?}");
        }
        let large = expand(&[0], &[], vec![sparse(&[0, 1], &[7])], &[1 << 40]);
        assert!(matches!(large, Err(Unexpanded::TooLarge(_))));
    }
}

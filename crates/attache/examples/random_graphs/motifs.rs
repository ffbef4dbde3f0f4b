//! Chains of steps: single ones, and those that invite a fusion.

use crate::arithmetic::{binary, by_channel, divide, prelu, reduce, residual, running_sum, softmax, unary};
use crate::draft::{Draft, Id, Step};
use crate::movement::{blocks, concatenate, join, pack, pad, replicate, reshape, slice, split, transpose};
use crate::windows::{convolution, depthwise, fully_connected, multiply_matrices, pool, resize, transpose_convolution};

/// Chains that are drawn from with equal chances. A step that doesn't apply is left out.
pub(crate) static MOTIFS: &[&[Step]] = &[
    &[binary],
    &[binary],
    &[unary],
    &[divide],
    &[prelu],
    &[reduce],
    &[softmax],
    &[pad],
    &[reshape],
    &[slice],
    &[transpose],
    &[concatenate],
    &[pack],
    &[split],
    &[blocks],
    &[convolution],
    &[depthwise],
    &[fully_connected],
    &[transpose_convolution],
    &[pool],
    &[resize],
    &[replicate],
    &[running_sum],
    &[multiply_matrices, softmax],
    &[pad, convolution, unary, residual, by_channel],
    &[pad, depthwise, prelu, convolution, residual, unary],
    &[convolution, by_channel, binary, unary],
    &[convolution, two_uses, binary],
    &[depthwise, residual, residual],
    &[fully_connected, unary, binary],
    &[transpose_convolution, binary, unary],
    &[binary, unary, binary, binary, unary],
    &[two_uses, two_uses],
    &[unary, reshape, binary, reshape, unary],
    &[reshape, convolution, reshape],
    &[halves, convolution],
    &[binary, halves, unary],
    &[squeeze_and_excite],
    &[pool, convolution, resize, concatenate],
    &[reduce, reshape, fully_connected, softmax],
    &[convolution, reshape, transpose, softmax],
    &[convolution, concatenate, unary],
    &[resize, binary, convolution],
];

/// A diamond: two functions of one value, joined.
fn two_uses(draft: &mut Draft, value: Id) -> Option<Id> {
    let one = unary(draft, value).unwrap_or(value);
    let other = binary(draft, value).unwrap_or(value);
    let joined = if draft.random.percent(50) { residual(draft, one) } else { binary(draft, one) };
    joined.or(Some(other))
}

/// Slices of one value, concatenated again, perhaps in another order.
fn halves(draft: &mut Draft, value: Id) -> Option<Id> {
    let rank = draft.shape(value).len();
    let first = split(draft, value)?;
    let shape = draft.shape(first);
    if shape.len() != rank {
        return Some(first);
    }
    let pieces = draft.all(|other| other.shape == shape);
    let mut pieces: Vec<Id> = pieces.into_iter().filter(|piece| *piece >= first).collect();
    if draft.random.percent(50) {
        pieces.reverse();
    }
    let axis = draft.random.below(rank);
    join(draft, &pieces, axis)
}

/// An image times a function of its means.
fn squeeze_and_excite(draft: &mut Draft, value: Id) -> Option<Id> {
    draft.image(value)?;
    let squeezed = reduce(draft, value)?;
    let excited = fully_connected(draft, squeezed).unwrap_or(squeezed);
    let excited = unary(draft, excited).unwrap_or(excited);
    binary(draft, value).or(Some(excited))
}

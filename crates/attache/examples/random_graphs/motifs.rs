//! Motifs: single steps, and chains of steps that kernels may fuse.

use attache::model::schema::{self, BuiltinOperator as B, BuiltinOptionsT as O};

use crate::arithmetic::{binary, by_channel, divide, prelu, reduce, residual, running_sum, softmax, unary};
use crate::draft::{Draft, Elements, Id, Step, Type};
use crate::integers::{self, arg_extremum, cast, choose, compare, gather, logical, to_float, top};
use crate::movement::{blocks, concatenate, join, pack, pad, replicate, reshape, slice, split, transpose};
use crate::windows::{convolution, depthwise, fully_connected, multiply_matrices, pool, resize, transpose_convolution};

/// The motifs that start from a value of this type. One is drawn at random with equal probability; steps that do not
/// apply are skipped.
pub(crate) fn motifs(of_type: Type) -> &'static [&'static [Step]] {
    match of_type {
        Type::Float => FLOATS,
        Type::Integer => INTEGERS,
        Type::Boolean => BOOLEANS,
    }
}

static FLOATS: &[&[Step]] = &[
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
    &[gather],
    &[normalize],
    &[normalize, convolution],
    &[convolution, normalize, unary, convolution],
    &[depthwise, convolution, normalize, depthwise, convolution],
    &[pad, pool],
    &[pad, depthwise, convolution],
    &[transpose, pool],
    &[slice, resize],
    &[concatenate, pool],
    &[transpose, convolution, concatenate, depthwise],
    &[squeeze_and_excite, convolution],
    &[depthwise, squeeze_and_excite, convolution, residual],
    &[fully_connected, reshape, fully_connected],
    &[pad, pool, convolution],
    &[transpose, resize],
    &[blocks, pool],
    &[replicate, pool],
    &[by_channel, convolution],
];

static INTEGERS: &[&[Step]] = &[
    &[integers::combine],
    &[integers::combine, integers::combine],
    &[integers::divide],
    &[integers::unary],
    &[integers::reduce],
    &[compare],
    &[compare, choose],
    &[compare, logical, cast, integers::combine],
    &[cast],
    &[to_float],
    &[arg_extremum],
    &[arg_extremum, integers::combine],
    &[top],
    &[gather],
    &[pad],
    &[reshape],
    &[slice],
    &[transpose],
    &[concatenate],
    &[pack],
    &[split],
    &[blocks],
    &[replicate],
    &[transpose, to_float, pool],
    &[pad, to_float, pool],
    &[slice, to_float, resize],
    &[concatenate, to_float, convolution],
    &[transpose, transpose, to_float, depthwise],
    &[integers::combine, to_float, convolution],
    &[transpose, arg_extremum],
    &[slice, top],
    &[gather, integers::combine, to_float],
];

static BOOLEANS: &[&[Step]] = &[
    &[logical],
    &[logical, logical],
    &[choose],
    &[choose],
    &[cast],
    &[cast, integers::combine],
    &[to_float],
    &[to_float, pool],
    &[integers::reduce],
    &[reshape],
    &[transpose],
    &[concatenate],
    &[slice],
    &[gather],
    &[transpose, to_float, resize],
];

/// Two operators that read the same value, then a binary operator on the first result. Its other operand is random,
/// and may be the second result, which makes a diamond.
fn two_uses(draft: &mut Draft, value: Id) -> Option<Id> {
    let one = unary(draft, value).unwrap_or(value);
    let other = binary(draft, value).unwrap_or(value);
    let joined = if draft.random.percent(50) { residual(draft, one) } else { binary(draft, one) };
    joined.or(Some(other))
}

/// SPLIT of a value and CONCATENATION of the parts, along a random axis and in either order. After an UNPACK, which
/// changes the rank, there is no CONCATENATION.
fn halves(draft: &mut Draft, value: Id) -> Option<Id> {
    let rank = draft.shape(value).len();
    let first = split(draft, value)?;
    let shape = draft.shape(first);
    if shape.len() != rank {
        return Some(first);
    }
    let pieces = draft.peers(value, |other| other == shape);
    let mut pieces: Vec<Id> = pieces.into_iter().filter(|piece| *piece >= first).collect();
    if draft.random.percent(50) {
        pieces.reverse();
    }
    let axis = draft.random.below(rank);
    join(draft, &pieces, axis)
}

/// A reduction of an image, a fully connected layer and a unary operator, then a binary operator on the image. Its
/// other operand is random, and may be the result of the reduction branch.
fn squeeze_and_excite(draft: &mut Draft, value: Id) -> Option<Id> {
    draft.image(value)?;
    let squeezed = reduce(draft, value)?;
    let excited = fully_connected(draft, squeezed).unwrap_or(squeezed);
    let excited = unary(draft, excited).unwrap_or(excited);
    binary(draft, value).or(Some(excited))
}

/// A normalization over height and width, made of the operators that converters emit.
fn normalize(draft: &mut Draft, value: Id) -> Option<Id> {
    let [batch, height, width, channels] = draft.image(value)?;
    let (shape, folded) = ([batch, height, width, channels], [batch, 1, 1, channels]);
    let bound = draft.bound(value);
    let mean = |draft: &mut Draft, value: Id, bound: f32| {
        let axes = draft.list([1, 2]);
        let options = O::ReducerOptions(Box::new(schema::ReducerOptionsT { keep_dims: true }));
        draft.node((B::MEAN, 1), &[value, axes], options, &folded, bound)
    };
    let average = mean(draft, value, bound)?;
    let centred = draft.node((B::SUB, 1), &[value, average], O::SubOptions(Default::default()), &shape, 2.0 * bound)?;
    let (options, inputs) = (O::SquaredDifferenceOptions(Default::default()), [value, average]);
    let squares = match draft.random.percent(50) {
        true => draft.node((B::SQUARED_DIFFERENCE, 1), &inputs, options, &shape, 12.0)?,
        false => draft.node((B::MUL, 1), &[centred; 2], O::MulOptions(Default::default()), &shape, 12.0)?,
    };
    let variance = mean(draft, squares, 12.0)?;
    let epsilon = draft.elements(&[], 0.5, Elements::Floats(vec![0.5]));
    let options = O::AddOptions(Default::default());
    let variance = draft.node((B::ADD, 1), &[variance, epsilon], options, &folded, 12.0)?;
    let factor = draft.node((B::RSQRT, 1), &[variance], O::NONE, &folded, 1.5)?;
    // A value divided by its own standard deviation is small, whatever its range was.
    let scaled = draft.node((B::MUL, 1), &[centred, factor], O::MulOptions(Default::default()), &shape, 4.0)?;
    if draft.random.percent(60) { by_channel(draft, scaled).or(Some(scaled)) } else { Some(scaled) }
}

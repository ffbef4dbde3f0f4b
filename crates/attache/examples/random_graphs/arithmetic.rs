//! Steps that compute elementwise or along axes.

use attache::model::schema::{self, BuiltinOperator as B, BuiltinOptionsT as O};

use crate::draft::{Draft, Elements, Id};

/// The shape that two shapes broadcast to; `None` if they are incompatible.
pub(crate) fn broadcast(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let rank = a.len().max(b.len());
    let extent = |shape: &[usize], axis: usize| (axis + shape.len()).checked_sub(rank).map_or(1, |axis| shape[axis]);
    let both = |axis| match (extent(a, axis), extent(b, axis)) {
        (a, b) if a == b => Some(a),
        (1, extent) | (extent, 1) => Some(extent),
        _ => None,
    };
    (0..rank).map(both).collect()
}

/// A random shape that broadcasts with `shape`. Either shape may have extents of 1 where the other has not, and the
/// ranks may differ.
pub(crate) fn partner(draft: &mut Draft, shape: &[usize]) -> Vec<usize> {
    let random = &mut draft.random;
    if random.percent(15) {
        return random.pick(&[&[][..], &[1]]).to_vec();
    }
    if let (Some(channels), true) = (shape.last(), random.percent(30)) {
        return random.pick(&[&[*channels][..], &[1, 1, *channels]]).to_vec();
    }
    let keep = random.pick(&[30, 60, 100]);
    let mut other: Vec<usize> = shape.iter().map(|extent| if random.percent(keep) { *extent } else { 1 }).collect();
    for axis in 0..shape.len() {
        if shape[axis] == 1 && random.percent(30) {
            other[axis] = random.within(1, 5);
        }
    }
    if random.percent(25) {
        other.drain(..random.below(shape.len() + 1));
    } else if shape.len() < 5 && random.percent(10) {
        other.insert(0, random.within(1, 3));
    }
    other
}

/// The second operand: an existing value, which may be the same one, or a new constant.
fn operand(draft: &mut Draft, value: Id) -> Id {
    let shape = draft.shape(value);
    let there = draft.peers(value, |other| broadcast(&shape, other).is_some());
    if !there.is_empty() && draft.random.percent(55) {
        return draft.random.pick(&there);
    }
    let shape = partner(draft, &shape);
    draft.constant(&shape, 1.5)
}

/// ADD, SUB, MUL, MINIMUM, MAXIMUM or SQUARED_DIFFERENCE.
pub(crate) fn binary(draft: &mut Draft, value: Id) -> Option<Id> {
    let other = operand(draft, value);
    let operator =
        draft.random.pick(&[B::ADD, B::ADD, B::MUL, B::MUL, B::SUB, B::MINIMUM, B::MAXIMUM, B::SQUARED_DIFFERENCE]);
    combine(draft, operator, value, other)
}

/// ADD of a value of the same shape, as at the end of a residual block.
pub(crate) fn residual(draft: &mut Draft, value: Id) -> Option<Id> {
    let shape = draft.shape(value);
    let there = draft.peers(value, |other| other == shape);
    let other = draft.random.pick(&there);
    combine(draft, B::ADD, value, other)
}

/// MUL by a constant with one factor per channel.
pub(crate) fn by_channel(draft: &mut Draft, value: Id) -> Option<Id> {
    let channels = *draft.shape(value).last()?;
    let other = draft.constant(&[channels], 1.5);
    combine(draft, B::MUL, value, other)
}

/// DIV by a constant with elements between 1 and 2.
pub(crate) fn divide(draft: &mut Draft, value: Id) -> Option<Id> {
    let shape = draft.shape(value);
    let shape = partner(draft, &shape);
    let count: usize = shape.iter().product();
    let elements: Vec<f32> = (0..count).map(|_| 1.5 + draft.random.float() * 0.5).collect();
    let other = draft.elements(&shape, 1.0, Elements::Floats(elements));
    let shape = broadcast(&draft.shape(value), &shape)?;
    let options = schema::DivOptionsT { fused_activation_function: draft.activation() };
    draft.node((B::DIV, 1), &[value, other], O::DivOptions(Box::new(options)), &shape, draft.bound(value))
}

fn combine(draft: &mut Draft, operator: B, value: Id, other: Id) -> Option<Id> {
    let shape = broadcast(&draft.shape(value), &draft.shape(other))?;
    let (a, b) = (draft.bound(value), draft.bound(other));
    let activation = draft.activation();
    let (options, bound) = match operator {
        B::ADD => {
            let options = schema::AddOptionsT { fused_activation_function: activation, ..Default::default() };
            (O::AddOptions(Box::new(options)), a + b)
        }
        B::SUB => {
            let options = schema::SubOptionsT { fused_activation_function: activation, ..Default::default() };
            (O::SubOptions(Box::new(options)), a + b)
        }
        B::MUL => (O::MulOptions(Box::new(schema::MulOptionsT { fused_activation_function: activation })), a * b),
        B::SQUARED_DIFFERENCE => (O::SquaredDifferenceOptions(Default::default()), (a + b) * (a + b)),
        _ => (O::MaximumMinimumOptions(Default::default()), a.max(b)),
    };
    let inputs = if draft.random.percent(30) { [other, value] } else { [value, other] };
    draft.node((operator, 1), &inputs, options, &shape, bound)
}

/// A unary elementwise operator.
pub(crate) fn unary(draft: &mut Draft, value: Id) -> Option<Id> {
    let (shape, bound) = (draft.shape(value), draft.bound(value));
    let bare = O::NONE;
    let (operator, options, bound) = match draft.random.below(15) {
        0 | 1 => (B::RELU, bare, bound),
        2 => (B::RELU6, bare, bound),
        3 => (B::RELU_N1_TO_1, bare, 1.0),
        4 => (B::LOGISTIC, bare, 1.0),
        5 => (B::TANH, bare, 1.0),
        6 => (B::ABS, O::AbsOptions(Default::default()), bound),
        7 => (B::NEG, O::NegOptions(Default::default()), bound),
        8 => (B::ELU, bare, bound),
        9 => (B::HARD_SWISH, O::HardSwishOptions(Default::default()), bound),
        10 => (B::LEAKY_RELU, O::LeakyReluOptions(Box::new(schema::LeakyReluOptionsT { alpha: 0.25 })), bound),
        11 => (B::SQUARE, O::SquareOptions(Default::default()), bound * bound),
        12 => (B::COS, O::CosOptions(Default::default()), 1.0),
        13 => (B::GELU, O::GeluOptions(Box::new(schema::GeluOptionsT { approximate: false })), bound),
        _ => (B::SIN, bare, 1.0),
    };
    draft.node((operator, 1), &[value], options, &shape, bound)
}

/// PRELU with one slope per channel or one per element of the image.
pub(crate) fn prelu(draft: &mut Draft, value: Id) -> Option<Id> {
    let [_, height, width, channels] = draft.image(value)?;
    let alpha = if draft.random.percent(70) { [1, 1, channels] } else { [height, width, channels] };
    let alpha = draft.constant(&alpha, 0.9);
    let (shape, bound) = (draft.shape(value), draft.bound(value));
    draft.node((B::PRELU, 1), &[value, alpha], O::NONE, &shape, bound)
}

/// SOFTMAX along the last axis.
pub(crate) fn softmax(draft: &mut Draft, value: Id) -> Option<Id> {
    let shape = draft.shape(value);
    let options = schema::SoftmaxOptionsT { beta: draft.random.pick(&[1.0, 0.5]) };
    (!shape.is_empty()).then_some(())?;
    draft.node((B::SOFTMAX, 1), &[value], O::SoftmaxOptions(Box::new(options)), &shape, 1.0)
}

/// MEAN, SUM, REDUCE_MAX or REDUCE_MIN along random axes.
pub(crate) fn reduce(draft: &mut Draft, value: Id) -> Option<Id> {
    let shape = draft.shape(value);
    let rank = shape.len();
    let mut axes: Vec<usize> = (0..rank).filter(|_| draft.random.percent(40)).collect();
    if rank == 4 && draft.random.percent(50) {
        axes = vec![1, 2];
    }
    (!axes.is_empty()).then_some(())?;
    let keep_dims = draft.random.percent(60);
    let kept = |(axis, extent): (usize, &usize)| match (axes.contains(&axis), keep_dims) {
        (false, _) => Some(*extent),
        (true, keep) => keep.then_some(1),
    };
    let reduced: Vec<usize> = shape.iter().enumerate().filter_map(kept).collect();
    let count: usize = axes.iter().map(|axis| shape[*axis]).product();
    let operator = draft.random.pick(&[B::MEAN, B::MEAN, B::SUM, B::REDUCE_MAX, B::REDUCE_MIN]);
    let bound = draft.bound(value) * if operator == B::SUM { count as f32 } else { 1.0 };
    let negative = draft.random.percent(30);
    let axes: Vec<i32> = axes.iter().map(|axis| *axis as i32 - if negative { rank as i32 } else { 0 }).collect();
    draft.fits(value, &reduced, bound).then_some(())?;
    let axes = draft.setting(&[axes.len()], &axes);
    let options = O::ReducerOptions(Box::new(schema::ReducerOptionsT { keep_dims }));
    draft.node((operator, 1), &[value, axes], options, &reduced, bound)
}

/// CUMSUM along a random axis.
pub(crate) fn running_sum(draft: &mut Draft, value: Id) -> Option<Id> {
    let shape = draft.shape(value);
    (!shape.is_empty()).then_some(())?;
    let axis = draft.random.below(shape.len());
    let bound = draft.bound(value) * shape[axis] as f32;
    draft.fits(value, &shape, bound).then_some(())?;
    let exclusive = draft.random.percent(30);
    let reverse = draft.random.percent(30);
    let along = draft.setting(&[], &[axis as i32]);
    let options = O::CumsumOptions(Box::new(schema::CumsumOptionsT { exclusive, reverse }));
    draft.node((B::CUMSUM, 1), &[value, along], options, &shape, bound)
}

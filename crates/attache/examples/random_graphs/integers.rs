//! Steps on integers and booleans, which may also produce floats.

use attache::model::schema::{self, BuiltinOperator as B, BuiltinOptionsT as O, TensorType};

use crate::arithmetic::{broadcast, partner};
use crate::draft::{Draft, Elements, Id, MOST, Operator, Type};

/// CAST of integers or booleans to another type. Integers whose magnitude is too large for a float value become
/// booleans. Floats are not cast, because rounding could change the result.
pub(crate) fn cast(draft: &mut Draft, value: Id) -> Option<Id> {
    let (from, bound) = (draft.of_type(value), draft.bound(value));
    let to = match from {
        Type::Float => return None,
        Type::Integer if bound <= MOST => Type::Float,
        Type::Integer => Type::Boolean,
        Type::Boolean => draft.random.pick(&[Type::Float, Type::Integer]),
    };
    cast_to(draft, value, to)
}

/// CAST of integers or booleans to floats.
pub(crate) fn to_float(draft: &mut Draft, value: Id) -> Option<Id> {
    (draft.of_type(value) != Type::Float).then_some(())?;
    cast_to(draft, value, Type::Float)
}

fn cast_to(draft: &mut Draft, value: Id, to: Type) -> Option<Id> {
    let code = |of: Type| TensorType(of.data_type().code());
    let from = draft.of_type(value);
    let options = schema::CastOptionsT { in_data_type: code(from), out_data_type: code(to) };
    let bound = if to == Type::Boolean { 1.0 } else { draft.bound(value) };
    let shape = draft.shape(value);
    draft.typed((B::CAST, 1), &[value], O::CastOptions(Box::new(options)), &shape, (to, bound))
}

/// An integer operand that broadcasts with the value: an existing value or a new constant.
fn integer(draft: &mut Draft, value: Id, bound: f32) -> Id {
    let shape = draft.shape(value);
    let there = draft.peers(value, |other| broadcast(&shape, other).is_some());
    if draft.random.percent(50) {
        return draft.random.pick(&there);
    }
    let shape = partner(draft, &shape);
    draft.constant_of(Type::Integer, &shape, bound)
}

/// ADD, SUB, MUL, MINIMUM or MAXIMUM of integers.
pub(crate) fn combine(draft: &mut Draft, value: Id) -> Option<Id> {
    (draft.of_type(value) == Type::Integer).then_some(())?;
    let other = integer(draft, value, 9.0);
    let shape = broadcast(&draft.shape(value), &draft.shape(other))?;
    let (a, b) = (draft.bound(value), draft.bound(other));
    let (operator, options, bound) = match draft.random.below(6) {
        0 | 1 => (B::ADD, O::AddOptions(Default::default()), a + b),
        2 => (B::SUB, O::SubOptions(Default::default()), a + b),
        3 => (B::MUL, O::MulOptions(Default::default()), a * b),
        4 => (B::MINIMUM, O::MaximumMinimumOptions(Default::default()), a.max(b)),
        _ => (B::MAXIMUM, O::MaximumMinimumOptions(Default::default()), a.max(b)),
    };
    draft.node((operator, 1), &[value, other], options, &shape, bound)
}

/// FLOOR_DIV or FLOOR_MOD of integers by nonzero constants.
pub(crate) fn divide(draft: &mut Draft, value: Id) -> Option<Id> {
    (draft.of_type(value) == Type::Integer).then_some(())?;
    let shape = draft.shape(value);
    let shape = partner(draft, &shape);
    let count: usize = shape.iter().product();
    let divisors = (0..count).map(|_| draft.random.pick(&[1, 2, 3, 5, 7, -1, -2, -4])).collect();
    let other = draft.elements(&shape, 7.0, Elements::Integers(divisors));
    let shape = broadcast(&draft.shape(value), &shape)?;
    let (operator, options, bound) = match draft.random.percent(50) {
        true => (B::FLOOR_DIV, O::FloorDivOptions(Default::default()), draft.bound(value)),
        false => (B::FLOOR_MOD, O::FloorModOptions(Default::default()), 7.0),
    };
    draft.node((operator, 1), &[value, other], options, &shape, bound)
}

/// ABS or NEG of integers.
pub(crate) fn unary(draft: &mut Draft, value: Id) -> Option<Id> {
    (draft.of_type(value) == Type::Integer).then_some(())?;
    let (shape, bound) = (draft.shape(value), draft.bound(value));
    match draft.random.percent(50) {
        true => draft.node((B::ABS, 1), &[value], O::AbsOptions(Default::default()), &shape, bound),
        false => draft.node((B::NEG, 1), &[value], O::NegOptions(Default::default()), &shape, bound),
    }
}

/// SUM, REDUCE_MAX or REDUCE_MIN of integers; REDUCE_ANY or REDUCE_ALL of booleans.
pub(crate) fn reduce(draft: &mut Draft, value: Id) -> Option<Id> {
    let shape = draft.shape(value);
    let axes: Vec<usize> = (0..shape.len()).filter(|_| draft.random.percent(40)).collect();
    (!axes.is_empty()).then_some(())?;
    let count: usize = axes.iter().map(|axis| shape[*axis]).product();
    let (operator, factor) = match draft.of_type(value) {
        Type::Float => return None,
        Type::Integer => draft.random.pick(&[(B::SUM, count as f32), (B::REDUCE_MAX, 1.0), (B::REDUCE_MIN, 1.0)]),
        Type::Boolean => draft.random.pick(&[(B::REDUCE_ANY, 1.0), (B::REDUCE_ALL, 1.0)]),
    };
    let keep_dims = draft.random.percent(60);
    let kept = |(axis, extent): (usize, &usize)| match (axes.contains(&axis), keep_dims) {
        (false, _) => Some(*extent),
        (true, keep) => keep.then_some(1),
    };
    let reduced: Vec<usize> = shape.iter().enumerate().filter_map(kept).collect();
    let bound = draft.bound(value) * factor;
    draft.fits(value, &reduced, bound).then_some(())?;
    let axes = draft.list(axes);
    let options = O::ReducerOptions(Box::new(schema::ReducerOptionsT { keep_dims }));
    draft.node((operator, 1), &[value, axes], options, &reduced, bound)
}

/// A comparison of integers.
pub(crate) fn compare(draft: &mut Draft, value: Id) -> Option<Id> {
    (draft.of_type(value) == Type::Integer).then_some(())?;
    let bound = draft.bound(value);
    let other = integer(draft, value, bound.max(1.0));
    let shape = broadcast(&draft.shape(value), &draft.shape(other))?;
    let comparisons: [(Operator, O); 6] = [
        ((B::EQUAL, 1), O::EqualOptions(Default::default())),
        ((B::NOT_EQUAL, 1), O::NotEqualOptions(Default::default())),
        ((B::LESS, 1), O::LessOptions(Default::default())),
        ((B::LESS_EQUAL, 1), O::LessEqualOptions(Default::default())),
        ((B::GREATER, 1), O::GreaterOptions(Default::default())),
        ((B::GREATER_EQUAL, 1), O::GreaterEqualOptions(Default::default())),
    ];
    let (operator, options) = comparisons[draft.random.below(comparisons.len())].clone();
    draft.typed(operator, &[value, other], options, &shape, (Type::Boolean, 1.0))
}

/// LOGICAL_AND, LOGICAL_OR or LOGICAL_NOT.
pub(crate) fn logical(draft: &mut Draft, value: Id) -> Option<Id> {
    (draft.of_type(value) == Type::Boolean).then_some(())?;
    let shape = draft.shape(value);
    if draft.random.percent(30) {
        let options = O::LogicalNotOptions(Default::default());
        return draft.node((B::LOGICAL_NOT, 1), &[value], options, &shape, 1.0);
    }
    let there = draft.peers(value, |other| broadcast(&shape, other).is_some());
    let other = draft.random.pick(&there);
    let shape = broadcast(&shape, &draft.shape(other))?;
    let (operator, options) = match draft.random.percent(50) {
        true => (B::LOGICAL_AND, O::LogicalAndOptions(Default::default())),
        false => (B::LOGICAL_OR, O::LogicalOrOptions(Default::default())),
    };
    draft.node((operator, 1), &[value, other], options, &shape, 1.0)
}

/// SELECT_V2 of floats or integers, with the boolean value as the condition.
pub(crate) fn choose(draft: &mut Draft, value: Id) -> Option<Id> {
    (draft.of_type(value) == Type::Boolean).then_some(())?;
    let of_type = draft.random.pick(&[Type::Float, Type::Float, Type::Integer]);
    let shape = draft.shape(value);
    let there = draft.all(of_type, |other| broadcast(&shape, &other.shape).is_some());
    (!there.is_empty()).then_some(())?;
    let first = draft.random.pick(&there);
    let both = broadcast(&shape, &draft.shape(first))?;
    let second = match draft.random.percent(50) {
        true => first,
        false => {
            let shape = partner(draft, &both);
            draft.constant_of(of_type, &shape, 2.0)
        }
    };
    let shape = broadcast(&both, &draft.shape(second))?;
    let bound = draft.bound(first).max(draft.bound(second));
    let options = O::SelectV2Options(Default::default());
    let branches = if draft.random.percent(50) { [first, second] } else { [second, first] };
    draft.typed((B::SELECT_V2, 1), &[value, branches[0], branches[1]], options, &shape, (of_type, bound))
}

/// ARG_MAX or ARG_MIN of integers.
pub(crate) fn arg_extremum(draft: &mut Draft, value: Id) -> Option<Id> {
    (draft.of_type(value) == Type::Integer).then_some(())?;
    let mut shape = draft.shape(value);
    (!shape.is_empty()).then_some(())?;
    let axis = draft.random.below(shape.len());
    let extent = shape.remove(axis);
    let along = draft.setting(&[], &[axis as i32]);
    let output_type = TensorType::INT32;
    let (operator, options) = match draft.random.percent(60) {
        true => (B::ARG_MAX, O::ArgMaxOptions(Box::new(schema::ArgMaxOptionsT { output_type }))),
        false => (B::ARG_MIN, O::ArgMinOptions(Box::new(schema::ArgMinOptionsT { output_type }))),
    };
    draft.node((operator, 1), &[value, along], options, &shape, extent as f32)
}

/// TOPK_V2 of integers. Returns either the values or the indices.
pub(crate) fn top(draft: &mut Draft, value: Id) -> Option<Id> {
    (draft.of_type(value) == Type::Integer).then_some(())?;
    let mut shape = draft.shape(value);
    let last = shape.last_mut()?;
    *last = draft.random.within(1, *last);
    let bound = draft.bound(value).max(*last as f32);
    let count = draft.setting(&[], &[*last as i32]);
    let options = O::TopKV2Options(Default::default());
    let found = draft.split((B::TOPK_V2, 1), &[value, count], options, &[shape.clone(), shape], bound);
    Some(found[draft.random.below(2)])
}

/// GATHER with indices from an input, which are known only at run time.
pub(crate) fn gather(draft: &mut Draft, value: Id) -> Option<Id> {
    let shape = draft.shape(value);
    (1..=4).contains(&shape.len()).then_some(())?;
    let axis = draft.random.below(shape.len());
    let wanted: Vec<usize> = match draft.random.below(3) {
        0 => vec![],
        1 => vec![draft.random.within(1, 5)],
        _ => vec![draft.random.within(1, 3), 2],
    };
    let result = [&shape[..axis], &wanted, &shape[axis + 1..]].concat();
    let bound = draft.bound(value);
    draft.fits(value, &result, bound).then_some(())?;
    let indices = draft.indices(&wanted, shape[axis]);
    let options = O::GatherOptions(Box::new(schema::GatherOptionsT { axis: axis as i32, batch_dims: 0 }));
    draft.node((B::GATHER, 1), &[value, indices], options, &result, bound)
}

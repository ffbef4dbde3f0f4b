//! What many operators' files share: checks of operands, in the words of one error.

use attache_base::{DataType, Shape};
use attache_graph::{Fact, OpError};

/// An input that must be there.
pub(crate) fn required<'a>(inputs: &[Option<&'a Fact>], index: usize) -> Result<&'a Fact, OpError> {
    let input = inputs.get(index).copied().flatten();
    input.ok_or_else(|| OpError::invalid(format!("input {index} is missing")))
}

/// An error unless there are `range` inputs.
pub(crate) fn arity(inputs: &[Option<&Fact>], range: std::ops::RangeInclusive<usize>) -> Result<(), OpError> {
    if range.contains(&inputs.len()) {
        return Ok(());
    }
    let (low, high) = (range.start(), range.end());
    let expected = if low == high { low.to_string() } else { format!("{low} to {high}") };
    Err(OpError::invalid(format!("{} inputs; it takes {expected}", inputs.len())))
}

/// An error unless the input is of one of these types.
pub(crate) fn one_of(index: usize, fact: &Fact, allowed: &[DataType]) -> Result<(), OpError> {
    if allowed.contains(&fact.data_type) {
        return Ok(());
    }
    let names: Vec<_> = allowed.iter().map(|data_type| data_type.name()).collect();
    let reason = format!("input {index} is of type {}; implemented: {}", fact.data_type, names.join(", "));
    Err(OpError::unsupported(reason))
}

/// The shape of rank 4, `[batch, height, width, channels]`, that an input must have.
pub(crate) fn image(index: usize, shape: &Shape) -> Result<[usize; 4], OpError> {
    <[usize; 4]>::try_from(shape.extents())
        .map_err(|_| OpError::invalid(format!("input {index} of shape {shape} is not of rank 4")))
}

/// The value of an input that decides shapes: `None` where only a run tells it.
pub(crate) fn known_integers(index: usize, fact: &Fact) -> Result<Option<Vec<i64>>, OpError> {
    let Some(constant) = &fact.constant else { return Ok(None) };
    let integers = constant.integers();
    integers.map(Some).ok_or_else(|| OpError::invalid(format!("input {index} does not hold integers")))
}

/// A shape whose elements can be counted.
pub(crate) fn countable(shape: Shape) -> Result<Shape, OpError> {
    match shape.checked_elements() {
        Some(elements) if elements <= isize::MAX as usize / 16 => Ok(shape),
        _ => Err(OpError::invalid(format!("the shape {shape} is too large"))),
    }
}

//! Checks of operands shared by many operators, with uniform error texts.

use attache_base::{DataType, Shape};
use attache_graph::{Eval, Fact, OpError, Refusal, TensorRef};
use bytemuck::Pod;

/// A required input.
pub(crate) fn required<'a>(inputs: &[Option<&'a Fact>], index: usize) -> Result<&'a Fact, OpError> {
    let input = inputs.get(index).copied().flatten();
    input.ok_or_else(|| OpError::invalid(format!("input {index} is missing")))
}

/// An error unless the number of inputs is in `range`.
pub(crate) fn arity(inputs: &[Option<&Fact>], range: std::ops::RangeInclusive<usize>) -> Result<(), OpError> {
    if range.contains(&inputs.len()) {
        return Ok(());
    }
    let (low, high) = (range.start(), range.end());
    let expected = if low == high { low.to_string() } else { format!("{low} to {high}") };
    Err(OpError::invalid(format!("{} inputs; it takes {expected}", inputs.len())))
}

/// An error unless the input has one of these types.
pub(crate) fn one_of(index: usize, fact: &Fact, allowed: &[DataType]) -> Result<(), OpError> {
    if allowed.contains(&fact.data_type) {
        return Ok(());
    }
    let names: Vec<_> = allowed.iter().map(|data_type| data_type.name()).collect();
    let reason = format!("input {index} is of type {}; implemented: {}", fact.data_type, names.join(", "));
    Err(OpError::unsupported(reason))
}

/// An error unless input 0 is the handle of a resource variable.
pub(crate) fn resource(inputs: &[Option<&Fact>]) -> Result<(), OpError> {
    match required(inputs, 0)?.data_type {
        DataType::Resource => Ok(()),
        other => Err(OpError::invalid(format!("input 0 is of type {other}, not RESOURCE"))),
    }
}

/// The shape of an input that must have rank 4, `[batch, height, width, channels]`.
pub(crate) fn image(index: usize, shape: &Shape) -> Result<[usize; 4], OpError> {
    <[usize; 4]>::try_from(shape.extents())
        .map_err(|_| OpError::invalid(format!("input {index} of shape {shape} is not of rank 4")))
}

/// The value of an input that determines shapes: `None` where it is known only at run time.
pub(crate) fn known_integers(index: usize, fact: &Fact) -> Result<Option<Vec<i64>>, OpError> {
    let Some(constant) = &fact.constant else { return Ok(None) };
    let integers = constant.integers();
    integers.map(Some).ok_or_else(|| OpError::invalid(format!("input {index} does not hold integers")))
}

/// The integer of an input with exactly one element: an axis, a count.
pub(crate) fn single(values: &[i64]) -> Result<i64, OpError> {
    match values {
        [value] => Ok(*value),
        _ => Err(OpError::invalid(format!("{} numbers where one belongs", values.len()))),
    }
}

/// The axis of a shape; negative axes count from the end.
pub(crate) fn axis_of(shape: &Shape, axis: i64) -> Result<usize, OpError> {
    shape.axis(axis).ok_or_else(|| OpError::invalid(format!("{shape} has no axis {axis}")))
}

/// An error unless the input has 32-bit or 64-bit integers.
pub(crate) fn integral(index: usize, fact: &Fact) -> Result<(), OpError> {
    one_of(index, fact, &[DataType::Int32, DataType::Int64])
}

/// The shape, unless its element count overflows or is too large.
pub(crate) fn countable(shape: Shape) -> Result<Shape, OpError> {
    match shape.checked_elements() {
        Some(elements) if elements <= isize::MAX as usize / 16 => Ok(shape),
        _ => Err(OpError::invalid(format!("the shape {shape} is too large"))),
    }
}

/// The shape that inputs broadcast to by NumPy's rules; `None` where a shape is not known yet.
pub(crate) fn broadcast(facts: &[&Fact]) -> Result<Option<Shape>, OpError> {
    let mut result = Shape::default();
    for fact in facts {
        let Some(shape) = &fact.shape else { return Ok(None) };
        let reason = || OpError::invalid(format!("the shapes {result} and {shape} do not broadcast"));
        result = result.broadcast(shape).ok_or_else(reason)?;
    }
    countable(result).map(Some)
}

/// An error unless two inputs have the same type.
pub(crate) fn same_type(left: &Fact, right: &Fact) -> Result<(), OpError> {
    if left.data_type == right.data_type {
        return Ok(());
    }
    Err(OpError::invalid(format!("its inputs are of types {} and {}", left.data_type, right.data_type)))
}

/// An error unless elements of the input can be copied as whole bytes.
pub(crate) fn movable(index: usize, fact: &Fact) -> Result<(), OpError> {
    match fact.data_type.bits() {
        Some(8 | 16 | 32 | 64 | 128) => Ok(()),
        _ => Err(OpError::unsupported(format!("input {index} of type {} is not implemented", fact.data_type))),
    }
}

/// Evaluates an expression with `$element` bound to a type as wide as the elements of a [`movable`] type.
macro_rules! with_element {
    ($data_type:expr, $element:ident => $body:expr) => {{
        macro_rules! with {
            ($width:ty) => {{
                type $element = $width;
                $body
            }};
        }
        match $data_type.bits() {
            Some(8) => with!(u8),
            Some(16) => with!(u16),
            Some(32) => with!(u32),
            Some(64) => with!(u64),
            Some(128) => with!([u64; 2]),
            _ => return Err(OpError::unsupported(format!("elements of type {} cannot be moved", $data_type))),
        }
    }};
}
pub(crate) use with_element;

/// The bytes as elements of the tensor's width.
pub(crate) fn elements<T: Pod>(bytes: &[u8]) -> Result<&[T], OpError> {
    bytemuck::try_cast_slice(bytes).map_err(|error| OpError::invalid(format!("the tensor's bytes: {error}")))
}

/// The bytes as mutable elements of the tensor's width.
pub(crate) fn elements_mut<T: Pod>(bytes: &mut [u8]) -> Result<&mut [T], OpError> {
    bytemuck::try_cast_slice_mut(bytes).map_err(|error| OpError::invalid(format!("the tensor's bytes: {error}")))
}

/// An integer as an element of one or two bytes, from its lowest bits; for wider elements only 0 is possible.
pub(crate) fn narrow<T: Pod>(value: i32) -> T {
    match size_of::<T>() {
        1 => bytemuck::pod_read_unaligned(bytemuck::bytes_of(&(value as u8))),
        2 => bytemuck::pod_read_unaligned(bytemuck::bytes_of(&(value as u16))),
        _ => T::zeroed(),
    }
}

/// The only element of a tensor.
pub(crate) fn only<T: Pod>(tensor: TensorRef<'_>) -> Result<T, OpError> {
    match elements::<T>(tensor.bytes)? {
        [value] => Ok(*value),
        values => Err(OpError::invalid(format!("{} values where one belongs", values.len()))),
    }
}

/// Converts an error about parameters to an unsupported reason.
pub(crate) fn refuse(error: OpError) -> Refusal {
    Refusal::new(error.to_string())
}

/// Whether the first output has no elements, so that there is nothing to compute.
pub(crate) fn is_empty(eval: &Eval<'_>) -> bool {
    eval.outputs[0].bytes.is_empty()
}

/// The product of factors from a file, saturated.
pub(crate) fn product(factors: &[usize]) -> u64 {
    factors.iter().fold(1, |product: u64, factor| product.saturating_mul(*factor as u64))
}

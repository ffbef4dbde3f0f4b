//! Checks of operands shared by many operators, with uniform error texts.

use attache_base::Shape;
use attache_graph::{Fact, OpError, TensorRef, Unsupported};
use bytemuck::Pod;

/// The shape of an input that must have rank 4, `[batch, height, width, channels]`.
pub(crate) fn image(index: usize, shape: &Shape) -> Result<[usize; 4], OpError> {
    <[usize; 4]>::try_from(shape.extents())
        .map_err(|_| OpError::invalid(format!("input {index} of shape {shape} is not of rank 4")))
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

/// Evaluates an expression with `$element` bound to a type as wide as the elements of a type that
/// [`movable`](crate::Input::movable) inputs accept.
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
pub(crate) fn refuse(error: OpError) -> Unsupported {
    Unsupported::new(error.to_string())
}

/// The product of factors from a file, saturated.
pub(crate) fn product(factors: &[usize]) -> u64 {
    factors.iter().fold(1, |product: u64, factor| product.saturating_mul(*factor as u64))
}

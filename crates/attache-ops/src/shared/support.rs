//! Small helpers of many operators: checks of operands with uniform error texts, and access to elements of
//! any type.

use attache_base::Shape;
use attache_graph::{Fact, OpError, TensorRef, Unsupported};
use bytemuck::Pod;

/// Returns the extents of an input that must have rank 4, `[batch, height, width, channels]`. An error where
/// it has another rank; `index` is the input's index, for the error.
pub(crate) fn image(index: usize, shape: &Shape) -> Result<[usize; 4], OpError> {
    <[usize; 4]>::try_from(shape.extents())
        .map_err(|_| OpError::invalid(format!("input {index} of shape {shape} is not of rank 4")))
}

/// Returns the only integer of an input that must have exactly one element, such as an axis or a count.
pub(crate) fn single(values: &[i64]) -> Result<i64, OpError> {
    match values {
        [value] => Ok(*value),
        _ => Err(OpError::invalid(format!("{} numbers where one belongs", values.len()))),
    }
}

/// Returns the index of an axis of a shape. A negative `axis` counts from the end; an error where there is no
/// such axis.
pub(crate) fn axis_of(shape: &Shape, axis: i64) -> Result<usize, OpError> {
    shape.axis(axis).ok_or_else(|| OpError::invalid(format!("{shape} has no axis {axis}")))
}

/// Returns the shape; an error where its element count overflows or is too large for a tensor.
pub(crate) fn countable(shape: Shape) -> Result<Shape, OpError> {
    match shape.checked_elements() {
        Some(elements) if elements <= isize::MAX as usize / 16 => Ok(shape),
        _ => Err(OpError::invalid(format!("the shape {shape} is too large"))),
    }
}

/// Returns the shape that inputs broadcast to by NumPy's rules; `None` where a shape is not known yet. An
/// error where the shapes do not broadcast.
pub(crate) fn broadcast(facts: &[&Fact]) -> Result<Option<Shape>, OpError> {
    let mut result = Shape::default();
    for fact in facts {
        let Some(shape) = &fact.shape else { return Ok(None) };
        let reason = || OpError::invalid(format!("the shapes {result} and {shape} do not broadcast"));
        result = result.broadcast(shape).ok_or_else(reason)?;
    }
    countable(result).map(Some)
}

/// Checks that two inputs have the same element type.
pub(crate) fn same_type(left: &Fact, right: &Fact) -> Result<(), OpError> {
    if left.data_type == right.data_type {
        return Ok(());
    }
    Err(OpError::invalid(format!("its inputs are of types {} and {}", left.data_type, right.data_type)))
}

/// Evaluates an expression with `$element` bound to a plain Rust type that is as wide as the elements of a
/// tensor of type `$data_type`, for operators that only move elements. Returns an error from the enclosing
/// function for types other than those that [`movable`](crate::Input::movable) inputs accept.
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

/// Returns a tensor's bytes as elements of type `T`, which has the width of the tensor's elements. An error
/// where length or alignment do not fit.
pub(crate) fn elements<T: Pod>(bytes: &[u8]) -> Result<&[T], OpError> {
    bytemuck::try_cast_slice(bytes).map_err(|error| OpError::invalid(format!("the tensor's bytes: {error}")))
}

/// Returns a tensor's bytes as mutable elements of type `T`, which has the width of the tensor's elements. An
/// error where length or alignment do not fit.
pub(crate) fn elements_mut<T: Pod>(bytes: &mut [u8]) -> Result<&mut [T], OpError> {
    bytemuck::try_cast_slice_mut(bytes).map_err(|error| OpError::invalid(format!("the tensor's bytes: {error}")))
}

/// Returns an integer as an element of one or two bytes, from the integer's lowest bits. Wider elements
/// become 0, the only fill value that occurs for them.
pub(crate) fn narrow<T: Pod>(value: i32) -> T {
    match size_of::<T>() {
        1 => bytemuck::pod_read_unaligned(bytemuck::bytes_of(&(value as u8))),
        2 => bytemuck::pod_read_unaligned(bytemuck::bytes_of(&(value as u16))),
        _ => T::zeroed(),
    }
}

/// Returns the only element of a tensor; an error where it has several elements or none.
pub(crate) fn only<T: Pod>(tensor: TensorRef<'_>) -> Result<T, OpError> {
    match elements::<T>(tensor.bytes)? {
        [value] => Ok(*value),
        values => Err(OpError::invalid(format!("{} values where one belongs", values.len()))),
    }
}

/// Converts an error about a node's parameters to the reason why the node cannot run on a device.
pub(crate) fn refuse(error: OpError) -> Unsupported {
    Unsupported::new(error.to_string())
}

/// Returns the product of factors, such as extents from a model file, saturated to the largest `u64`.
pub(crate) fn product(factors: &[usize]) -> u64 {
    factors.iter().fold(1, |product: u64, factor| product.saturating_mul(*factor as u64))
}
/// Orders floats. Zeros of both signs are equal. NaN is larger than any number, or smaller if its sign bit is set.
pub(crate) fn float_key(value: f32) -> i64 {
    let bits = (value + 0.0).to_bits() as i32;
    // The magnitudes of negative numbers are in the opposite order.
    i64::from(if bits < 0 { bits ^ i32::MAX } else { bits })
}

//! Plain integers on a device: elements of 8 to 32 bits without a scale. A device computes in 32 bits, and what may be
//! outside of the type is wrapped to it. An element of UINT32 is the 32-bit integer with the same bits; other elements are
//! integers of the same value.

use attache_base::{Constant, DataType, Shape};
use attache_gpu_ir::{Expression, IndexMap, IntBinaryOp, IntExpression, Primitive, ValueId};
use attache_graph::{Lowering, Unsupported};

/// Whether a device computes on elements of this type as plain integers.
pub(crate) fn is_integer(data_type: DataType) -> bool {
    use DataType::{Int8, Int16, Int32, UInt8, UInt16, UInt32};
    matches!(data_type, Int8 | UInt8 | Int16 | UInt16 | Int32 | UInt32)
}

/// Whether a device moves elements of this type as integers: plain integers, or truth values.
pub(crate) fn moves_as_integer(data_type: DataType) -> bool {
    is_integer(data_type) || data_type == DataType::Bool
}

/// Returns the expression `x` wrapped to the type of the elements.
pub(crate) fn wrapped(x: IntExpression, data_type: DataType) -> IntExpression {
    let masked = |x: IntExpression, mask| x.binary(IntBinaryOp::And, IntExpression::Constant(mask));
    match data_type {
        DataType::Int8 => x.shifted_left(24).shifted_right(24),
        DataType::Int16 => x.shifted_left(16).shifted_right(16),
        DataType::UInt8 => masked(x, 0xff),
        DataType::UInt16 => masked(x, 0xffff),
        DataType::Bool => x.select(IntExpression::Constant(1), IntExpression::Constant(0)),
        _ => x,
    }
}

/// Returns an expression of an element that orders elements of the type as they are ordered. Applied twice, it is the
/// element again.
pub(crate) fn ordered(x: IntExpression, data_type: DataType) -> IntExpression {
    match data_type {
        // The elements with the highest bit, which are negative as integers, come last.
        DataType::UInt32 => x.binary(IntBinaryOp::ExclusiveOr, IntExpression::Constant(i32::MIN)),
        _ => x,
    }
}

/// Emits the element-wise choice between the second and the third input by the first, which are of the type
/// `data_type` and broadcast to the shape of output 0. Returns the result.
pub(crate) fn choose(
    lowering: &mut Lowering<'_>,
    data_type: DataType,
    inputs: &[ValueId; 3],
) -> Result<ValueId, Unsupported> {
    let shape = lowering.output_shape(0)?.clone();
    match data_type {
        DataType::Float32 | DataType::Float16 => {
            let [condition, then, otherwise] = [0, 1, 2].map(Expression::Input);
            lowering.map(condition.select(then, otherwise), &shape, inputs)
        }
        other if moves_as_integer(other) => {
            let [condition, then, otherwise] = [0, 1, 2].map(IntExpression::Input);
            lowering.int_map(condition.select(then, otherwise), &shape, inputs)
        }
        other => Err(Unsupported::new(format!("a device does not choose between elements of type {other}"))),
    }
}

/// Emits an index map of `input` that fills with the only element of the operator's input `fill`, and returns its result.
/// Elements are of the type of that input. The map has no fill value yet.
pub(crate) fn filled(
    lowering: &mut Lowering<'_>,
    map: IndexMap,
    input: ValueId,
    fill: usize,
) -> Result<ValueId, Unsupported> {
    let (shape, output) = (lowering.shape(input).clone(), Shape::from(map.output.clone()));
    let fact = lowering.input_fact(fill)?;
    let filled = |fill: f32| Primitive::IndexMap(IndexMap { fill: Some(fill), ..map.clone() });
    let known = fact.constant.as_ref().and_then(|constant| constant.floats()?.first().copied());
    if let (Some(value), DataType::Float32) = (known, fact.data_type) {
        return lowering.emit(filled(value), &[input]);
    }
    let value = lowering.input(fill)?;
    let value = lowering.reshape(value, &Shape::default())?;
    match fact.data_type {
        DataType::Float32 => {
            let one = lowering.constant(Constant::from_values([], &[1.0f32]))?;
            let ones = lowering.map(Expression::Input(0), &shape, &[one])?;
            let (inside, moved) = (lowering.emit(filled(0.0), &[ones])?, lowering.emit(filled(0.0), &[input])?);
            let [inside_at, element, value_at] = [0, 1, 2].map(Expression::Input);
            lowering.map(inside_at.select(element, value_at), &output, &[inside, moved, value])
        }
        other if moves_as_integer(other) => {
            // An index map fills with a float, which is not any integer: the value is subtracted before and added after.
            let [element, value_at] = [0, 1].map(IntExpression::Input);
            let above = lowering.int_map(element.clone().subtract(value_at.clone()), &shape, &[input, value])?;
            let above = lowering.emit(filled(0.0), &[above])?;
            lowering.int_map(element.add(value_at), &output, &[above, value])
        }
        other => Err(Unsupported::new(format!("a device does not pad with elements of type {other}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap_to_their_type() {
        let wrap = |data_type| wrapped(IntExpression::Input(0), data_type);
        let of = |data_type| [200, -129, 65_537].map(|x| wrap(data_type).evaluate(&[x]));
        assert_eq!(of(DataType::Int8), [-56, 127, 1]);
        assert_eq!(of(DataType::UInt8), [200, 127, 1]);
        assert_eq!(of(DataType::Int16), [200, -129, 1]);
        assert_eq!(of(DataType::UInt16), [200, 65_407, 1]);
        assert_eq!(of(DataType::UInt32), [200, -129, 65_537]);
        assert_eq!(of(DataType::Bool), [1, 1, 1]);
    }

    #[test]
    fn integers_without_a_sign_keep_their_order() {
        let key = |x: u32| ordered(IntExpression::Input(0), DataType::UInt32).evaluate(&[x as i32]);
        assert!([0, 1, 1 << 31, u32::MAX].map(key).is_sorted());
        assert_eq!(key(key(7) as u32), 7);
    }
}

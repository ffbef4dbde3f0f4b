//! BITCAST: the bytes of the input read as elements of another type. Elements twice or four times as wide take the last
//! axis, narrower ones add an axis.

use attache_base::{Constant, DataType, Shape};
use attache_gpu_ir::{IntBinaryOp, IntExpression, Primitive, ReduceOp, ValueId};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::shared::integers::{is_integer, wrapped};
use crate::shared::support::countable;
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::BITCAST),
    versions: 1..=1,
    inputs: &[input("input").movable()],
    parse,
}];

#[derive(Debug)]
struct Bitcast {
    /// The type of the output's elements.
    data_type: DataType,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    match declaration.outputs.first().map(|output| output.data_type) {
        Some(data_type) if data_type.bits().is_some_and(|bits| bits % 8 == 0) => Ok(Box::new(Bitcast { data_type })),
        Some(other) => Err(OpError::unsupported(format!("elements of type {other} are not made of whole bytes"))),
        None => Err(OpError::invalid("it has no output")),
    }
}

impl Bitcast {
    /// Returns the output's shape for an input of this type and shape.
    fn output(&self, data_type: DataType, shape: &Shape) -> Result<Shape, OpError> {
        let (from, to) = (data_type.bits().unwrap_or(8), self.data_type.bits().unwrap_or(8));
        let mut extents = shape.to_vec();
        if to > from {
            if extents.pop() != Some(to / from) {
                let reason = format!("the last axis of {shape} does not hold an element of type {}", self.data_type);
                return Err(OpError::invalid(format!("{reason}: it must have the extent {}", to / from)));
            }
        } else if from > to {
            extents.push(from / to);
        }
        countable(extents.into())
    }
}

fn bits(data_type: DataType) -> i32 {
    data_type.bits().unwrap_or(8) as i32
}

/// Emits the number of the first bit of each of `count` narrow elements in a wide one, along the last axis.
fn places(lowering: &mut Lowering<'_>, count: usize, bits: i32) -> Result<ValueId, Unsupported> {
    let places: Vec<i32> = (0..count as i32).map(|place| place * bits).collect();
    lowering.constant(Constant::from_values([count], &places))
}

/// Emits the parts of each element as elements of the type `to`, along the last axis of `shape`.
fn divided(lowering: &mut Lowering<'_>, input: ValueId, to: DataType, shape: &Shape) -> Result<ValueId, Unsupported> {
    let count = shape[shape.rank() - 1];
    let places = places(lowering, count, bits(to))?;
    let outer = shape.rank() - 1;
    let wide = lowering.reshape(input, &[&shape[..outer], &[1]].concat().into())?;
    let part = IntExpression::Input(0).binary(IntBinaryOp::ShiftRight, IntExpression::Input(1));
    lowering.int_map(wrapped(part, to), shape, &[wide, places])
}

/// Emits the elements of the type `from` along the last axis as one element of the type `to`.
fn joined(
    lowering: &mut Lowering<'_>,
    input: ValueId,
    [from, to]: [DataType; 2],
    shape: &Shape,
) -> Result<ValueId, Unsupported> {
    let parts = lowering.shape(input).clone();
    let axis = parts.rank() - 1;
    let places = places(lowering, parts[axis], bits(from))?;
    let mask = if bits(from) == 8 { 0xff } else { 0xffff };
    let part = IntExpression::Input(0).binary(IntBinaryOp::And, IntExpression::Constant(mask));
    let part = part.binary(IntBinaryOp::ShiftLeft, IntExpression::Input(1));
    let part = lowering.int_map(part, &parts, &[input, places])?;
    let whole = lowering.emit(Primitive::Reduce { reduction: ReduceOp::Sum, axes: vec![axis] }, &[part])?;
    let whole = lowering.reshape(whole, shape)?;
    lowering.int_map(wrapped(IntExpression::Input(0), to), shape, &[whole])
}

impl Operator for Bitcast {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.fact(0);
        let shape = input.shape.as_ref().map(|shape| self.output(input.data_type, shape)).transpose()?;
        Ok(vec![Inferred { data_type: self.data_type, shape }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let input = eval.input(0)?;
        eval.outputs[0].bytes.copy_from_slice(input.bytes);
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        lowering.use_stored();
        let (from, shape) = (lowering.input_fact(0)?.data_type, lowering.output_shape(0)?.clone());
        if from == self.data_type {
            let input = lowering.input(0)?;
            return lowering.output(0, input);
        }
        if !is_integer(from) || !is_integer(self.data_type) {
            return Err(Unsupported::new(format!("the bits of {from} as those of {} on a device", self.data_type)));
        }
        let input = lowering.input(0)?;
        let output = match (bits(from), bits(self.data_type)) {
            (wide, narrow) if wide > narrow => divided(lowering, input, self.data_type, &shape)?,
            (narrow, wide) if narrow < wide => joined(lowering, input, [from, self.data_type], &shape)?,
            _ => lowering.int_map(wrapped(IntExpression::Input(0), self.data_type), &shape, &[input])?,
        };
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_axis_has_the_parts_of_an_element() {
        let output = |to, from, shape: &[usize]| Bitcast { data_type: to }.output(from, &shape.into());
        assert_eq!(output(DataType::Int32, DataType::Float32, &[2, 3]).unwrap(), Shape::from([2, 3]));
        assert_eq!(output(DataType::UInt8, DataType::Int32, &[2]).unwrap(), Shape::from([2, 4]));
        assert_eq!(output(DataType::Int64, DataType::Int16, &[2, 4]).unwrap(), Shape::from([2]));
        assert!(output(DataType::Int32, DataType::Int16, &[2, 3]).is_err());
        assert!(output(DataType::Int32, DataType::Int16, &[]).is_err());
        assert!(output(DataType::Int8, DataType::Int64, &[usize::MAX / 8]).is_err());
    }
}

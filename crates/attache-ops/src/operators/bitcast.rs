//! BITCAST: the bytes of the input read as elements of another type. Elements twice or four times as wide take the last
//! axis, narrower ones add an axis.

use attache_base::{DataType, Shape};
use attache_graph::{Eval, Inferred, OpError};
use attache_model::schema::BuiltinOperator;

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

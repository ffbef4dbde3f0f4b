//! FILL: a tensor of a given shape, filled with one value.

use attache_base::{DataType, Shape};
use attache_gpu_ir::{Expression, IntExpression};
use attache_graph::{Eval, Fact, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::shared::integers::moves_as_integer;
use crate::shared::quantized::require_one_scale;
use crate::shared::support::{countable, elements_mut, only, with_element};
use crate::{Code, Definition, Facts, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::FILL),
    versions: 1..=5,
    inputs: &[input("dims").integral(), input("value").movable_or_strings()],
    parse: |_| Ok(Box::new(Fill)),
}];

#[derive(Debug)]
struct Fill;

impl Operator for Fill {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let [extents, element] = inputs.required();
        if extents.shape.as_ref().is_some_and(|shape| shape.rank() != 1) {
            return Err(OpError::invalid("input 0 is not a list"));
        }
        if let Some(shape) = element.shape.as_ref().filter(|shape| shape.rank() != 0) {
            return Err(OpError::invalid(format!("input 1 of shape {shape} is not a scalar")));
        }
        let Some(extents) = inputs.integers(0)? else { return Ok(vec![Inferred::unknown(element.data_type)]) };
        let wrong = || OpError::invalid(format!("{extents:?} is no shape"));
        let shape = countable(Shape::from_signed(&extents).ok_or_else(wrong)?)?;
        Ok(vec![Inferred::new(element.data_type, shape)])
    }

    fn check_scales(&self, inputs: &[Option<&Fact>], outputs: &[&Fact]) -> Result<(), OpError> {
        require_one_scale(inputs, 1..2, outputs)
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let element = eval.input(1)?;
        with_element!(element.data_type, T => {
            elements_mut::<T>(eval.outputs[0].bytes)?.fill(only(element)?);
        });
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let (element, shape) = (lowering.input(1)?, lowering.output_shape(0)?.clone());
        let output = match lowering.input_fact(1)?.data_type {
            DataType::Float32 | DataType::Float16 => lowering.map(Expression::Input(0), &shape, &[element])?,
            integer if moves_as_integer(integer) => lowering.int_map(IntExpression::Input(0), &shape, &[element])?,
            other => return Err(Unsupported::new(format!("elements of type {other}"))),
        };
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use attache_base::Constant;

    use super::*;

    #[test]
    fn a_list_tells_the_shape() {
        let element = Fact::new(DataType::Bool, []);
        let shape = |extents: Fact| DEFINITIONS[0].infer(&Fill, &[Some(&extents), Some(&element)]);
        let list = |extents: &[i64]| Fact::constant(Constant::from_values([extents.len()], extents));
        assert_eq!(shape(list(&[2, 0])).unwrap(), [Inferred::new(DataType::Bool, [2, 0])]);
        assert_eq!(shape(list(&[])).unwrap(), [Inferred::new(DataType::Bool, [])]);
        assert_eq!(shape(Fact::new(DataType::Int32, [2])).unwrap(), [Inferred::unknown(DataType::Bool)]);
        assert!(shape(list(&[-1])).is_err());
        assert!(shape(list(&[i64::MAX, i64::MAX])).is_err());
        assert!(shape(Fact::new(DataType::Float32, [2])).is_err());
        assert!(shape(Fact::new(DataType::Int32, [2, 2])).is_err());
    }
}

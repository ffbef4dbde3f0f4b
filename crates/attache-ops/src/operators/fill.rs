//! FILL: a tensor of a given shape, filled with one value.

use std::sync::Arc;

use attache_base::Shape;
use attache_graph::{Eval, Fact, Inferred, Op, OpError};
use attache_model::schema::BuiltinOperator;

use crate::shared::quantized::require_one_scale;
use crate::shared::support::{
    arity, countable, elements_mut, integral, known_integers, movable, only, required, with_element,
};
use crate::{Code, Definition};

pub(crate) static DEFINITIONS: &[Definition] =
    &[Definition { code: Code::Builtin(BuiltinOperator::FILL), versions: 1..=5, parse: |_| Ok(Arc::new(Fill)) }];

/// Inputs: the extents, and the value.
#[derive(Debug)]
struct Fill;

impl Op for Fill {
    fn name(&self) -> &str {
        DEFINITIONS[0].name()
    }

    fn infer(&self, inputs: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError> {
        arity(inputs, 2..=2)?;
        let (extents, element) = (required(inputs, 0)?, required(inputs, 1)?);
        integral(0, extents)?;
        movable(1, element)?;
        if extents.shape.as_ref().is_some_and(|shape| shape.rank() != 1) {
            return Err(OpError::invalid("input 0 is not a list"));
        }
        if let Some(shape) = element.shape.as_ref().filter(|shape| shape.rank() != 0) {
            return Err(OpError::invalid(format!("input 1 of shape {shape} is not a scalar")));
        }
        let Some(extents) = known_integers(0, extents)? else { return Ok(vec![Inferred::unknown(element.data_type)]) };
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
}

#[cfg(test)]
mod tests {
    use attache_base::{Constant, DataType};

    use super::*;

    #[test]
    fn a_list_tells_the_shape() {
        let element = Fact::new(DataType::Bool, []);
        let shape = |extents: Fact| Fill.infer(&[Some(&extents), Some(&element)]);
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

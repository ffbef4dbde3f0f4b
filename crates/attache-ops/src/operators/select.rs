//! SELECT and SELECT_V2: the second input's elements where the first, a boolean condition, is true, else the third's.
//! SELECT_V2 broadcasts all three by NumPy's rules. In SELECT the second and the third have one shape, and the
//! condition has that shape too, is a scalar, or has one element for each outermost slice.

use attache_base::{DataType, Shape};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_kernels::elementwise::broadcast3;
use attache_model::schema::BuiltinOperator;

use crate::shared::integers::choose;
use crate::shared::support::{broadcast, elements, elements_mut, same_type, with_element};
use crate::{Code, Definition, Facts, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[
    Definition {
        code: Code::Builtin(BuiltinOperator::SELECT),
        versions: 1..=4,
        inputs: INPUTS,
        parse: |_| Ok(Box::new(Select { broadcasts: false })),
    },
    Definition {
        code: Code::Builtin(BuiltinOperator::SELECT_V2),
        versions: 1..=2,
        inputs: INPUTS,
        parse: |_| Ok(Box::new(Select { broadcasts: true })),
    },
];

const INPUTS: &[crate::Input] = &[input("condition").of(&[DataType::Bool]), input("x").movable(), input("y")];

#[derive(Debug)]
struct Select {
    /// Whether this is SELECT_V2, whose inputs broadcast.
    broadcasts: bool,
}

impl Select {
    /// Returns the condition's shape, in SELECT extended by axes of extent 1 so that it broadcasts to the
    /// output's shape.
    fn condition(&self, condition: &Shape, output: &Shape) -> Shape {
        let mut extents = condition.to_vec();
        if !self.broadcasts && extents.len() == 1 {
            extents.resize(output.rank(), 1);
        }
        extents.into()
    }

    fn check(&self, condition: &Shape, then: &Shape, otherwise: &Shape) -> Result<(), OpError> {
        let is_row = condition.rank() == 1 && condition.first() == then.first();
        if then == otherwise && (condition.rank() == 0 || is_row || condition == then) {
            return Ok(());
        }
        Err(OpError::invalid(format!("a condition {condition} does not choose between {then} and {otherwise}")))
    }
}

impl Operator for Select {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let [condition, then, otherwise] = inputs.required();
        same_type(then, otherwise)?;
        let shape = if self.broadcasts {
            broadcast(&[condition, then, otherwise])?
        } else {
            if let (Some(condition), Some(then), Some(otherwise)) = (&condition.shape, &then.shape, &otherwise.shape) {
                self.check(condition, then, otherwise)?;
            }
            then.shape.clone()
        };
        Ok(vec![Inferred { data_type: then.data_type, shape }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let [condition, then, otherwise] = [eval.input(0)?, eval.input(1)?, eval.input(2)?];
        let output = &mut eval.outputs[0];
        let shape = self.condition(condition.shape, output.shape);
        with_element!(output.data_type, T => {
            broadcast3(
                (elements::<u8>(condition.bytes)?, &shape[..]),
                (elements::<T>(then.bytes)?, &then.shape[..]),
                (elements::<T>(otherwise.bytes)?, &otherwise.shape[..]),
                (elements_mut::<T>(output.bytes)?, &output.shape[..]),
                |condition, then, otherwise| if condition != 0 { then } else { otherwise },
            );
        });
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let shape = lowering.output_shape(0)?.clone();
        let condition = self.condition(lowering.input_shape(0)?, &shape);
        let inputs = [lowering.input(0)?, lowering.input(1)?, lowering.input(2)?];
        let inputs = [lowering.reshape(inputs[0], &condition)?, inputs[1], inputs[2]];
        let output = choose(lowering, lowering.input_fact(1)?.data_type, &inputs)?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use attache_graph::Fact;

    use super::*;

    fn infer(broadcasts: bool, [condition, then, otherwise]: [&[usize]; 3]) -> Result<Shape, OpError> {
        let condition = Fact::new(DataType::Bool, condition);
        let [then, otherwise] = [then, otherwise].map(|shape| Fact::new(DataType::Float32, shape));
        let select = Select { broadcasts };
        Ok(DEFINITIONS[usize::from(broadcasts)]
            .infer(&select, &[Some(&condition), Some(&then), Some(&otherwise)])?
            .remove(0)
            .shape
            .unwrap())
    }

    #[test]
    fn the_older_form_takes_a_condition_for_each_slice() {
        for condition in [&[][..], &[2], &[2, 3]] {
            assert_eq!(infer(false, [condition, &[2, 3], &[2, 3]]).unwrap(), Shape::from([2, 3]), "{condition:?}");
        }
        for condition in [&[3][..], &[1], &[2, 1]] {
            assert!(matches!(infer(false, [condition, &[2, 3], &[2, 3]]), Err(OpError::Invalid(_))), "{condition:?}");
        }
        assert!(infer(false, [&[2, 3], &[2, 3], &[3]]).is_err());
    }

    #[test]
    fn the_newer_form_broadcasts() {
        assert_eq!(infer(true, [&[2, 1], &[3], &[4, 1, 1]]).unwrap(), Shape::from([4, 2, 3]));
        assert!(matches!(infer(true, [&[2], &[2, 3], &[2, 3]]), Err(OpError::Invalid(_))));
    }
}

//! SELECT and SELECT_V2: the second input's elements where the first, a boolean condition, is true, else the third's.
//! SELECT_V2 broadcasts all three by NumPy's rules. In SELECT the second and the third have one shape, and the
//! condition has that shape too, is a scalar, or has one element for each outermost slice. Where each of the three has one
//! element, of any shape, so has the output, in the shape that the file states.

use attache_base::{DataType, Shape};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_kernels::elementwise::broadcast3;
use attache_model::schema::BuiltinOperator;

use crate::shared::integers::choose;
use crate::shared::support::{broadcast, elements, elements_mut, same_type, with_element};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[
    Definition {
        code: Code::Builtin(BuiltinOperator::SELECT),
        versions: 1..=4,
        inputs: INPUTS,
        parse: |declaration| parse(declaration, false),
    },
    Definition {
        code: Code::Builtin(BuiltinOperator::SELECT_V2),
        versions: 1..=2,
        inputs: INPUTS,
        parse: |declaration| parse(declaration, true),
    },
];

const INPUTS: &[crate::Input] = &[input("condition").of(&[DataType::Bool]), input("x").movable(), input("y")];

#[derive(Debug)]
struct Select {
    /// Whether this is SELECT_V2, whose inputs broadcast.
    broadcasts: bool,
    /// The output's shape in the file, if that has one element.
    single: Option<Shape>,
}

fn parse(declaration: &Declaration<'_>, broadcasts: bool) -> Parsed {
    let stated = declaration.outputs.first().and_then(|output| output.shape.clone());
    Ok(Box::new(Select { broadcasts, single: stated.filter(is_single) }))
}

fn is_single(shape: &Shape) -> bool {
    shape.checked_elements() == Some(1)
}

impl Select {
    /// Returns the shape in which an input broadcasts to the output's: in SELECT the condition's, which is the first
    /// input's, is extended by axes of extent 1.
    fn broadcasting(&self, index: usize, input: &Shape, output: &Shape) -> Shape {
        if is_single(output) {
            return output.clone();
        }
        let mut extents = input.to_vec();
        if !self.broadcasts && index == 0 && extents.len() == 1 {
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
        let data_type = then.data_type;
        let (Some(condition), Some(then), Some(otherwise)) = (&condition.shape, &then.shape, &otherwise.shape) else {
            return Ok(vec![Inferred::unknown(data_type)]);
        };
        if let Some(single) = &self.single
            && [condition, then, otherwise].into_iter().all(is_single)
        {
            return Ok(vec![Inferred::new(data_type, single.clone())]);
        }
        if self.broadcasts {
            return Ok(vec![Inferred { data_type, shape: broadcast(&inputs.required::<3>())? }]);
        }
        self.check(condition, then, otherwise)?;
        Ok(vec![Inferred::new(data_type, then.clone())])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let [condition, then, otherwise] = [eval.input(0)?, eval.input(1)?, eval.input(2)?];
        let output = &mut eval.outputs[0];
        let inputs = [condition, then, otherwise];
        let shapes = [0, 1, 2].map(|index: usize| self.broadcasting(index, inputs[index].shape, output.shape));
        with_element!(output.data_type, T => {
            broadcast3(
                (elements::<u8>(condition.bytes)?, &shapes[0][..]),
                (elements::<T>(then.bytes)?, &shapes[1][..]),
                (elements::<T>(otherwise.bytes)?, &shapes[2][..]),
                (elements_mut::<T>(output.bytes)?, &output.shape[..]),
                |condition, then, otherwise| if condition != 0 { then } else { otherwise },
            );
        });
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let shape = lowering.output_shape(0)?.clone();
        let mut inputs = [lowering.input(0)?, lowering.input(1)?, lowering.input(2)?];
        for (index, input) in inputs.iter_mut().enumerate() {
            let broadcasting = self.broadcasting(index, lowering.input_shape(index)?, &shape);
            *input = lowering.reshape(*input, &broadcasting)?;
        }
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
        let select = Select { broadcasts, single: Some([1, 1].into()) };
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
    fn single_elements_have_the_shape_of_the_file() {
        for (broadcasts, shapes) in [(false, [&[][..], &[1], &[1, 1, 1]]), (true, [&[1], &[1], &[1]])] {
            assert_eq!(infer(broadcasts, shapes).unwrap(), Shape::from([1, 1]));
        }
        assert_eq!(infer(true, [&[1], &[1], &[1, 2]]).unwrap(), Shape::from([1, 2]));
        assert!(infer(false, [&[1], &[2], &[2]]).is_err());
    }

    #[test]
    fn the_newer_form_broadcasts() {
        assert_eq!(infer(true, [&[2, 1], &[3], &[4, 1, 1]]).unwrap(), Shape::from([4, 2, 3]));
        assert!(matches!(infer(true, [&[2], &[2, 3], &[2, 3]]), Err(OpError::Invalid(_))));
    }
}

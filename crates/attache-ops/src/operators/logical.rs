//! LOGICAL_AND, LOGICAL_NOT and LOGICAL_OR: elementwise operators of booleans, whose inputs broadcast by
//! NumPy's rules. Any byte other than 0 is true.

use attache_base::DataType;
use attache_gpu_ir::Expression;
use attache_gpu_ir::Expression::{Constant, Input};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_kernels::elementwise::broadcast2;
use attache_model::schema::BuiltinOperator;

use crate::shared::support::{broadcast, elements, elements_mut};
use crate::{Code, Combination, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[
    Definition {
        code: Code::Builtin(BuiltinOperator::LOGICAL_AND),
        versions: 1..=1,
        inputs: BOTH,
        parse: |_| logical(2, |a, b| a && b, || Input(0).select(truth(Input(1)), Constant(0.0))),
    },
    Definition {
        code: Code::Builtin(BuiltinOperator::LOGICAL_NOT),
        versions: 1..=1,
        inputs: ONE,
        parse: |_| logical(1, |a, _| !a, || Input(0).select(Constant(0.0), Constant(1.0))),
    },
    Definition {
        code: Code::Builtin(BuiltinOperator::LOGICAL_OR),
        versions: 1..=1,
        inputs: BOTH,
        parse: |_| logical(2, |a, b| a || b, || Input(0).select(Constant(1.0), truth(Input(1)))),
    },
];

const ONE: &[crate::Input] = &[input("x").of(&[DataType::Bool])];
const BOTH: &[crate::Input] = &[input("x").of(&[DataType::Bool]), input("y").of(&[DataType::Bool])];

/// Returns an expression that is 1 where `expression` is not 0, else 0.
fn truth(expression: Expression) -> Expression {
    expression.select(Constant(1.0), Constant(0.0))
}

#[derive(Debug)]
struct Logical {
    /// Number of inputs, 1 or 2.
    inputs: usize,
    /// The function; with one input, both arguments are that input.
    function: fn(bool, bool) -> bool,
    /// The GPU expression of the inputs, 1 for true and 0 for false.
    expression: Expression,
}

fn logical(inputs: usize, function: fn(bool, bool) -> bool, expression: fn() -> Expression) -> Parsed {
    Ok(Box::new(Logical { inputs, function, expression: expression() }))
}

impl Operator for Logical {
    fn combination(&self) -> Option<Combination> {
        let of_unequals = (self.function)(true, false);
        (self.inputs == 2).then_some(if of_unequals { Combination::Any } else { Combination::All })
    }

    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let facts: Vec<_> = inputs.from(0).iter().copied().flatten().collect();
        Ok(vec![Inferred { data_type: DataType::Bool, shape: broadcast(&facts)? }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (left, right) = (eval.input(0)?, eval.input(self.inputs - 1)?);
        let output = &mut eval.outputs[0];
        let left = (elements::<u8>(left.bytes)?, &left.shape[..]);
        let right = (elements::<u8>(right.bytes)?, &right.shape[..]);
        let function = |l: u8, r: u8| u8::from((self.function)(l != 0, r != 0));
        broadcast2(left, right, (elements_mut(output.bytes)?, output.shape), function);
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let inputs = (0..self.inputs).map(|index| lowering.input(index)).collect::<Result<Vec<_>, _>>()?;
        let shape = lowering.output_shape(0)?.clone();
        let output = lowering.integer_map(self.expression.clone(), &shape, &inputs)?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use attache_graph::Fact;

    use super::*;

    #[test]
    fn only_truths_are_combined() {
        let and = Logical { inputs: 2, function: |a, b| a && b, expression: Input(0) };
        let infer = |left: &Fact, right: &Fact| DEFINITIONS[0].infer(&and, &[Some(left), Some(right)]);
        let truth = |shape: &[usize]| Fact::new(DataType::Bool, shape);
        assert_eq!(infer(&truth(&[2, 1]), &truth(&[3])).unwrap(), [Inferred::new(DataType::Bool, [2, 3])]);
        assert!(matches!(infer(&truth(&[2]), &Fact::new(DataType::Int32, [2])), Err(OpError::Unsupported(_))));
        assert!(DEFINITIONS[0].infer(&and, &[Some(&truth(&[2]))]).is_err());
    }
}

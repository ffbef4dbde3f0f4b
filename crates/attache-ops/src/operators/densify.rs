//! DENSIFY: a sparse constant as a dense tensor. The reader of files expands sparse constants, so that nothing is left to do.

use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::{Code, Definition, Facts, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::DENSIFY),
    versions: 1..=1,
    inputs: &[input("input").movable()],
    parse: |_| Ok(Box::new(Densify)),
}];

#[derive(Debug)]
struct Densify;

impl Operator for Densify {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.fact(0);
        if input.constant.is_none() {
            return Err(OpError::invalid("its input is no constant"));
        }
        Ok(vec![Inferred { data_type: input.data_type, shape: input.shape.clone() }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let input = eval.input(0)?;
        eval.outputs[0].bytes.copy_from_slice(input.bytes);
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let input = lowering.input(0)?;
        lowering.output(0, input)
    }

    fn is_reshape(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use attache_base::{Constant, DataType};
    use attache_graph::Fact;

    use super::*;

    #[test]
    fn only_constants_are_dense() {
        let infer = |fact: Fact| DEFINITIONS[0].infer(&Densify, &[Some(&fact)]);
        assert!(infer(Fact::constant(Constant::from_values([2], &[1i8, 2]))).is_ok());
        assert!(infer(Fact::new(DataType::Int8, [2])).is_err());
    }
}

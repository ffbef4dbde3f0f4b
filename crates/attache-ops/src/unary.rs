//! Operators that are a function of one float32 element: a row each.

use std::sync::Arc;

use attache_base::DataType;
use attache_gpu_ir::{Expression, Unary};
use attache_graph::{Eval, Fact, Inferred, Lowering, Op, OpError, Refusal};
use attache_kernels::{Engine, elementwise};
use attache_model::schema::BuiltinOperator;

use crate::support::{arity, one_of, required};
use crate::{Code, Declaration, Definition};

pub(crate) static DEFINITIONS: &[Definition] = &[
    Definition {
        code: Code::Builtin(BuiltinOperator::LOGISTIC),
        versions: 1..=3,
        parse: |declaration| row(declaration, elementwise::Unary::Logistic, |x| x.unary(Unary::Logistic)),
    },
    Definition {
        code: Code::Builtin(BuiltinOperator::RELU),
        versions: 1..=3,
        parse: |declaration| clamp(declaration, 0.0, f32::INFINITY),
    },
    Definition {
        code: Code::Builtin(BuiltinOperator::RELU6),
        versions: 1..=3,
        parse: |declaration| clamp(declaration, 0.0, 6.0),
    },
    Definition {
        code: Code::Builtin(BuiltinOperator::RSQRT),
        versions: 1..=3,
        parse: |declaration| row(declaration, elementwise::Unary::Rsqrt, |x| x.unary(Unary::InverseSquareRoot)),
    },
];

#[derive(Debug)]
struct Function {
    name: &'static str,
    /// The function on the CPU.
    function: elementwise::Unary,
    /// The function of the only input.
    expression: Expression,
}

fn row(
    declaration: &Declaration<'_>,
    function: elementwise::Unary,
    expression: fn(Expression) -> Expression,
) -> Result<Arc<dyn Op>, OpError> {
    Ok(Arc::new(Function { name: declaration.builtin_name(), function, expression: expression(Expression::Input(0)) }))
}

fn clamp(declaration: &Declaration<'_>, low: f32, high: f32) -> Result<Arc<dyn Op>, OpError> {
    Ok(Arc::new(clamp_function(declaration.builtin_name(), low, high)))
}

fn clamp_function(name: &'static str, low: f32, high: f32) -> Function {
    Function { name, function: elementwise::Unary::Clamp(low, high), expression: Expression::Input(0).clamp(low, high) }
}

impl Op for Function {
    fn name(&self) -> &str {
        self.name
    }

    fn infer(&self, inputs: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError> {
        arity(inputs, 1..=1)?;
        let input = required(inputs, 0)?;
        one_of(0, input, &[DataType::Float32])?;
        Ok(vec![Inferred { data_type: input.data_type, shape: input.shape.clone() }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (engine, input) = (Engine::new(eval.parallel), eval.input(0)?.values()?);
        elementwise::unary(engine, self.function, input, eval.outputs[0].values()?);
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Refusal> {
        let (input, shape) = (lowering.float_input(0)?, lowering.output_shape(0)?.clone());
        let output = lowering.map(self.expression.clone(), &shape, &[input])?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use attache_base::Serial;

    use super::*;

    #[test]
    fn both_forms_of_a_clamp_are_one() {
        let clamp = clamp_function("", 0.0, 6.0);
        let (inputs, mut outputs) = ([-2.5f32, 0.25, 6.0, 9.0], [0.0; 4]);
        elementwise::unary(Engine::new(&Serial), clamp.function, &inputs, &mut outputs);
        assert_eq!(outputs, [0.0, 0.25, 6.0, 6.0]);
        assert_eq!(inputs.map(|x| clamp.expression.evaluate(&[x])), outputs);
    }

    #[test]
    fn integers_are_not_implemented() {
        let error = clamp_function("", 0.0, 6.0).infer(&[Some(&Fact::new(DataType::Int32, [2]))]).unwrap_err();
        assert!(matches!(error, OpError::Unsupported(_)));
    }
}

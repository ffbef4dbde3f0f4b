//! ASSIGN_VARIABLE: assigns a value of any type and shape to a resource variable.

use std::sync::Arc;

use attache_base::{Bytes, Constant};
use attache_graph::{Eval, Fact, Handle, Inferred, Op, OpError, VariableUse};
use attache_model::schema::BuiltinOperator;

use crate::shared::support::{arity, required, resource};
use crate::{Code, Declaration, Definition};

pub(crate) static DEFINITIONS: &[Definition] =
    &[Definition { code: Code::Builtin(BuiltinOperator::ASSIGN_VARIABLE), versions: 1..=1, parse }];

#[derive(Debug)]
struct AssignVariable;

fn parse(_: &Declaration<'_>) -> Result<Arc<dyn Op>, OpError> {
    Ok(Arc::new(AssignVariable))
}

impl Op for AssignVariable {
    fn name(&self) -> &str {
        DEFINITIONS[0].name()
    }

    fn infer(&self, inputs: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError> {
        arity(inputs, 2..=2)?;
        resource(inputs)?;
        required(inputs, 1)?;
        Ok(Vec::new())
    }

    fn variable_use(&self) -> Option<VariableUse<'_>> {
        Some(VariableUse::Assign { handle: 0, value: 1 })
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (handle, value) = (Handle::from_bytes(eval.input(0)?.bytes)?, eval.input(1)?);
        let bytes = Bytes::from_vec(value.bytes.to_vec());
        eval.host.set_variable(handle, Constant { data_type: value.data_type, shape: value.shape.clone(), bytes })
    }
}

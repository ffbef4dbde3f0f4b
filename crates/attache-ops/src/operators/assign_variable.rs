//! ASSIGN_VARIABLE: assigns a value of any type and shape to a resource variable.

use attache_graph::{Eval, Handle, Host, Inferred, OpError, PassedTensor, VariableUse};
use attache_model::schema::BuiltinOperator;

use crate::shared::callee::argument;
use crate::{Code, Definition, Facts, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::ASSIGN_VARIABLE),
    versions: 1..=1,
    inputs: &[input("resource_id").resource(), input("value")],
    parse: |_| Ok(Box::new(AssignVariable)),
}];

#[derive(Debug)]
struct AssignVariable;

impl Operator for AssignVariable {
    fn infer(&self, _: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        Ok(Vec::new())
    }

    fn variable_use(&self) -> Option<VariableUse<'_>> {
        Some(VariableUse::Assign { handle: 0, value: 1 })
    }

    fn passes_tensors(&self) -> bool {
        true
    }

    fn pass(&self, inputs: Vec<Option<PassedTensor>>, host: &mut dyn Host) -> Result<Vec<PassedTensor>, OpError> {
        let handle = Handle::from_bytes(&argument(&inputs, 0)?.bytes)?;
        let value = inputs.into_iter().nth(1).flatten().ok_or_else(|| OpError::invalid("input 1 is missing"))?;
        host.set_variable(handle, value)?;
        Ok(Vec::new())
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (handle, value) = (Handle::from_bytes(eval.input(0)?.bytes)?, eval.input(1)?);
        eval.host.copy_to_variable(handle, &value)
    }
}

//! ASSIGN_VARIABLE: assigns a value of any type and shape to a resource variable.

use attache_base::{Bytes, Constant};
use attache_graph::{Eval, Handle, Inferred, OpError, VariableUse};
use attache_model::schema::BuiltinOperator;

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

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (handle, value) = (Handle::from_bytes(eval.input(0)?.bytes)?, eval.input(1)?);
        let bytes = Bytes::from_vec(value.bytes.to_vec());
        eval.host.set_variable(handle, Constant { data_type: value.data_type, shape: value.shape.clone(), bytes })
    }
}

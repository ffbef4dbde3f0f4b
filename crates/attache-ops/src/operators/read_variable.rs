//! READ_VARIABLE: the value of a resource variable.

use attache_base::DataType;
use attache_graph::{Eval, Handle, Host, Inferred, OpError, PassedTensor, VariableUse};
use attache_model::schema::BuiltinOperator;

use crate::shared::callee::{argument, stated_types};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::READ_VARIABLE),
    versions: 1..=1,
    inputs: &[input("resource_id").resource()],
    parse,
}];

#[derive(Debug)]
struct ReadVariable {
    /// The type of the variable's value, as the only element of the list.
    types: Vec<DataType>,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let types = stated_types(declaration);
    match types.len() {
        1 => Ok(Box::new(ReadVariable { types })),
        count => Err(OpError::invalid(format!("{count} outputs; it has 1"))),
    }
}

impl Operator for ReadVariable {
    /// Infers the type and shape of the output. The shape is that of the last assigned value, which is known
    /// where all assignments have the same shape.
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let shape = inputs.fact(0).held.clone();
        Ok(self.types.iter().map(|data_type| Inferred { data_type: *data_type, shape: shape.clone() }).collect())
    }

    fn variable_use(&self) -> Option<VariableUse<'_>> {
        Some(VariableUse::Read { handle: 0 })
    }

    fn passes_tensors(&self) -> bool {
        true
    }

    fn pass(&self, inputs: Vec<Option<PassedTensor>>, host: &mut dyn Host) -> Result<Vec<PassedTensor>, OpError> {
        Ok(vec![self.value(host, &argument(&inputs, 0)?.bytes)?.clone()])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let value = self.value(eval.host, eval.input(0)?.bytes)?;
        let output = &mut eval.outputs[0].bytes;
        if value.bytes.len() != output.len() {
            let reason = format!("a variable of {} bytes is read to a tensor of {}", value.bytes.len(), output.len());
            return Err(OpError::invalid(reason));
        }
        output.copy_from_slice(&value.bytes);
        Ok(())
    }
}

impl ReadVariable {
    /// Returns the value of the variable with the handle that these bytes encode.
    fn value<'a>(&self, host: &'a dyn Host, handle: &[u8]) -> Result<&'a PassedTensor, OpError> {
        let value = host.variable(Handle::from_bytes(handle)?)?;
        let value = value.ok_or_else(|| OpError::invalid("the variable is read before it is assigned"))?;
        if value.data_type != self.types[0] {
            let reason = format!("the variable is of type {}; it is read as {}", value.data_type, self.types[0]);
            return Err(OpError::invalid(reason));
        }
        Ok(value)
    }
}

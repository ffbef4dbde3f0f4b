//! READ_VARIABLE: the value of a resource variable.

use std::sync::Arc;

use attache_base::DataType;
use attache_graph::{Eval, Fact, Handle, Inferred, Op, OpError};
use attache_model::schema::BuiltinOperator;

use crate::shared::callee::{deliver, stated_types};
use crate::shared::support::{arity, required, resource};
use crate::{Code, Declaration, Definition};

pub(crate) static DEFINITIONS: &[Definition] =
    &[Definition { code: Code::Builtin(BuiltinOperator::READ_VARIABLE), versions: 1..=1, parse }];

#[derive(Debug)]
struct ReadVariable {
    /// Type of the value that is read, as the only entry.
    types: Vec<DataType>,
}

fn parse(declaration: &Declaration<'_>) -> Result<Arc<dyn Op>, OpError> {
    let types = stated_types(declaration);
    match types.len() {
        1 => Ok(Arc::new(ReadVariable { types })),
        count => Err(OpError::invalid(format!("{count} outputs; it has 1"))),
    }
}

impl Op for ReadVariable {
    fn name(&self) -> &str {
        DEFINITIONS[0].name()
    }

    /// The shape is that of the last assigned value, which is known where all assignments have the same shape.
    fn infer(&self, inputs: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError> {
        arity(inputs, 1..=1)?;
        resource(inputs)?;
        let shape = required(inputs, 0)?.held.clone();
        Ok(self.types.iter().map(|data_type| Inferred { data_type: *data_type, shape: shape.clone() }).collect())
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let value = eval.host.variable(Handle::from_bytes(eval.input(0)?.bytes)?)?;
        let value = value.ok_or_else(|| OpError::invalid("the variable is read before it is assigned"))?;
        if value.data_type != self.types[0] {
            let reason = format!("the variable is of type {}; it is read as {}", value.data_type, self.types[0]);
            return Err(OpError::invalid(reason));
        }
        deliver(eval, 0, value.shape, &value.bytes)
    }
}

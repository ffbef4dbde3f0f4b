//! CALL_ONCE: runs an initialization subgraph at the first run only, typically to initialize variables.

use std::sync::Arc;

use attache_graph::{Eval, Fact, Inferred, Op, OpError};
use attache_model::schema::BuiltinOperator;

use crate::shared::callee::Callee;
use crate::shared::support::arity;
use crate::{Code, Declaration, Definition};

pub(crate) static DEFINITIONS: &[Definition] =
    &[Definition { code: Code::Builtin(BuiltinOperator::CALL_ONCE), versions: 1..=1, parse }];

#[derive(Debug)]
struct CallOnce {
    /// A subgraph without inputs and outputs.
    setup: Callee,
}

fn parse(declaration: &Declaration<'_>) -> Result<Arc<dyn Op>, OpError> {
    let options = declaration.options.builtin_options_as_call_once_options();
    let index = options.ok_or_else(|| declaration.no_options())?.init_subgraph_index();
    Ok(Arc::new(CallOnce { setup: Callee::new(declaration, index, (0, 0))? }))
}

impl Op for CallOnce {
    fn name(&self) -> &str {
        DEFINITIONS[0].name()
    }

    fn infer(&self, inputs: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError> {
        arity(inputs, 0..=0)?;
        Ok(Vec::new())
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        eval.host.run_subgraph_once(self.setup.index)
    }

    fn has_side_effects(&self) -> bool {
        true
    }
}

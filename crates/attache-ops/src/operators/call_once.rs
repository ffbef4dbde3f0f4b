//! CALL_ONCE: runs an initialization subgraph at the first run only, typically to initialize variables.

use attache_graph::{Eval, Inferred, OpError};
use attache_model::schema::BuiltinOperator;

use crate::shared::callee::Callee;
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed};

pub(crate) static DEFINITIONS: &[Definition] =
    &[Definition { code: Code::Builtin(BuiltinOperator::CALL_ONCE), versions: 1..=1, inputs: &[], parse }];

#[derive(Debug)]
struct CallOnce {
    /// The initialization subgraph, which has no inputs and no outputs.
    setup: Callee,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_call_once_options();
    let index = options.ok_or_else(|| declaration.no_options())?.init_subgraph_index();
    Ok(Box::new(CallOnce { setup: Callee::new(declaration, index, (0, 0))? }))
}

impl Operator for CallOnce {
    fn infer(&self, _: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        Ok(Vec::new())
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        eval.host.run_subgraph_once(self.setup.index)
    }

    fn has_side_effects(&self) -> bool {
        true
    }
}

//! STABLEHLO_COMPOSITE: an operator that a program may register by its name, with a subgraph of the model that does the same.
//! This file runs the subgraph, where its nodes do not take the place of the operator.

use attache_base::DataType;
use attache_graph::{Body, Eval, Host, Inferred, OpError, PassedTensor};
use attache_model::schema::BuiltinOperator;

use crate::shared::callee::{Callee, arguments, passes_only, shapes_of, stated_types};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::STABLEHLO_COMPOSITE),
    versions: 1..=1,
    inputs: &[input("arguments").optional().repeated()],
    parse,
}];

/// Maximum number of characters of a name in reports.
const MOST_SHOWN: usize = 64;

#[derive(Debug)]
struct Composite {
    /// The beginning of the name, for reports.
    name: String,
    /// The subgraph that does what the name stands for.
    decomposition: Callee,
    outputs: Vec<DataType>,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_2_as_stable_hlocomposite_options();
    let options = options.ok_or_else(|| declaration.no_options())?;
    let index = options.decomposition_subgraph_index();
    let name = options.name().filter(|name| !name.is_empty()).unwrap_or("STABLEHLO_COMPOSITE");
    let name = name.chars().take(MOST_SHOWN).collect();
    let outputs = stated_types(declaration);
    let decomposition = Callee::new(declaration, index, (declaration.operator.inputs.len(), outputs.len()))?;
    decomposition.check_outputs(&outputs)?;
    Ok(Box::new(Composite { name, decomposition, outputs }))
}

impl Operator for Composite {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let inputs = inputs.from(0);
        self.decomposition.check_inputs(inputs)?;
        let shapes = self.decomposition.shapes(&shapes_of(inputs));
        let outputs = self.outputs.iter().zip(shapes);
        Ok(outputs.map(|(data_type, shape)| Inferred { data_type: *data_type, shape }).collect())
    }

    fn passes_tensors(&self) -> bool {
        true
    }

    fn pass(&self, inputs: Vec<Option<PassedTensor>>, host: &mut dyn Host) -> Result<Vec<PassedTensor>, OpError> {
        host.run_subgraph(self.decomposition.index, arguments(inputs, 0)?)
    }

    fn body(&self, inputs: Facts<'_>) -> Option<Result<Body, String>> {
        Some(self.decomposition.body(&self.name, inputs.from(0), 0))
    }

    fn eval(&self, _: &mut Eval<'_>) -> Result<(), OpError> {
        Err(passes_only())
    }

    /// True, because the subgraph may assign variables.
    fn has_side_effects(&self) -> bool {
        true
    }
}

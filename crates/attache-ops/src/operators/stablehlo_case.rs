//! STABLEHLO_CASE: runs one of several subgraphs of the model, the one with the number in the first input. A number out of
//! range stands for the last one.

use attache_base::DataType;
use attache_graph::{Body, Eval, Host, Inferred, OpError, PassedTensor};
use attache_model::schema::BuiltinOperator;

use crate::shared::callee::{Callee, argument, arguments, passes_only, shapes_of, stated_types};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::STABLEHLO_CASE),
    versions: 1..=1,
    inputs: &[input("index").of(&[DataType::Int32]), input("arguments").optional().repeated()],
    parse,
}];

/// Maximum number of branches. The shapes of each are inferred.
const MOST_BRANCHES: usize = 256;

#[derive(Debug)]
struct Case {
    /// The subgraphs, which run on the inputs after the index.
    branches: Vec<Callee>,
    outputs: Vec<DataType>,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_2_as_stablehlo_case_options();
    let indices = options.ok_or_else(|| declaration.no_options())?.branch_subgraph_indices();
    let indices: Vec<i32> = indices.map(|list| list.iter().take(MOST_BRANCHES + 1).collect()).unwrap_or_default();
    if indices.is_empty() || indices.len() > MOST_BRANCHES {
        return Err(OpError::unsupported(format!("it has no branch, or more than {MOST_BRANCHES}")));
    }
    let outputs = stated_types(declaration);
    let counts = (declaration.operator.inputs.len().saturating_sub(1), outputs.len());
    let branch = |index: i32| {
        let branch = Callee::new(declaration, index, counts)?;
        branch.check_outputs(&outputs)?;
        Ok(branch)
    };
    let branches = indices.into_iter().map(branch).collect::<Result<_, OpError>>()?;
    Ok(Box::new(Case { branches, outputs }))
}

impl Case {
    /// Returns the branch with this index.
    fn branch(&self, index: i64) -> &Callee {
        let last = self.branches.len() - 1;
        &self.branches[usize::try_from(index).map_or(last, |index| index.min(last))]
    }
}

impl Operator for Case {
    /// Infers the types and shapes of the outputs. A shape is known where all branches infer the same one.
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        if let Some(shape) = inputs.fact(0).shape.as_ref().filter(|shape| shape.checked_elements() != Some(1)) {
            return Err(OpError::invalid(format!("the index has the shape {shape}; it must be one number")));
        }
        let arguments = inputs.from(1);
        self.branches.iter().try_for_each(|branch| branch.check_inputs(arguments))?;
        let given = shapes_of(arguments);
        let mut shapes = self.branches[0].shapes(&given);
        for branch in &self.branches[1..] {
            let others = branch.shapes(&given);
            shapes.iter_mut().zip(others).for_each(|(shape, other)| {
                if *shape != other {
                    *shape = None;
                }
            });
        }
        let outputs = self.outputs.iter().zip(shapes);
        Ok(outputs.map(|(data_type, shape)| Inferred { data_type: *data_type, shape }).collect())
    }

    fn passes_tensors(&self) -> bool {
        true
    }

    fn pass(&self, inputs: Vec<Option<PassedTensor>>, host: &mut dyn Host) -> Result<Vec<PassedTensor>, OpError> {
        let index = <[u8; 4]>::try_from(&argument(&inputs, 0)?.bytes[..]);
        let index = i32::from_ne_bytes(index.map_err(|_| OpError::invalid("it takes one index"))?);
        host.run_subgraph(self.branch(index.into()).index, arguments(inputs, 1)?)
    }

    fn body(&self, inputs: Facts<'_>) -> Option<Result<Body, String>> {
        let [index] = inputs.fact(0).constant.as_ref()?.integers()?[..] else { return None };
        Some(self.branch(index).body("STABLEHLO_CASE", inputs.from(0), 1))
    }

    fn eval(&self, _: &mut Eval<'_>) -> Result<(), OpError> {
        Err(passes_only())
    }

    /// True, because a branch may assign variables.
    fn has_side_effects(&self) -> bool {
        true
    }
}

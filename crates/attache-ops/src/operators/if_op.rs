//! IF: runs one of two subgraphs of the model.

use attache_base::{DataType, Shape};
use attache_graph::{Body, Eval, Host, Inferred, OpError, PassedTensor};
use attache_model::schema::BuiltinOperator;

use crate::shared::callee::{Callee, argument, arguments, passes_only, shapes_of, stated_types, truth};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::IF),
    versions: 1..=1,
    inputs: &[input("condition"), input("arguments").optional().repeated()],
    parse,
}];

#[derive(Debug)]
struct If {
    /// The subgraph that runs on the inputs after the condition, if the condition is true.
    then_branch: Callee,
    /// The subgraph that runs on the inputs after the condition, if the condition is false.
    else_branch: Callee,
    outputs: Vec<DataType>,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_if_options().ok_or_else(|| declaration.no_options())?;
    let outputs = stated_types(declaration);
    let counts = (declaration.operator.inputs.len().saturating_sub(1), outputs.len());
    let branch = |index| {
        let branch = Callee::new(declaration, index, counts)?;
        branch.check_outputs(&outputs)?;
        Ok(branch)
    };
    let then_branch = branch(options.then_subgraph_index())?;
    let else_branch = branch(options.else_subgraph_index())?;
    Ok(Box::new(If { then_branch, else_branch, outputs }))
}

impl Operator for If {
    /// Infers the types and shapes of the outputs. A shape is known where both branches infer the same one.
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let condition = inputs.fact(0);
        if condition.data_type != DataType::Bool {
            return Err(OpError::invalid(format!("the condition is of type {}, not BOOL", condition.data_type)));
        }
        if let Some(shape) = condition.shape.as_ref().filter(|shape| shape.checked_elements() != Some(1)) {
            return Err(OpError::invalid(format!("the condition has the shape {shape}; it must be one truth value")));
        }
        let arguments = inputs.from(1);
        self.then_branch.check_inputs(arguments)?;
        self.else_branch.check_inputs(arguments)?;
        let given = shapes_of(arguments);
        let [made, other] = [&self.then_branch, &self.else_branch].map(|branch| branch.shapes(&given));
        let outputs = self.outputs.iter().zip(made).zip(other);
        let output = |((data_type, made), other): ((&DataType, Option<Shape>), Option<Shape>)| Inferred {
            data_type: *data_type,
            shape: made.filter(|made| other.as_ref() == Some(made)),
        };
        Ok(outputs.map(output).collect())
    }

    fn passes_tensors(&self) -> bool {
        true
    }

    fn pass(&self, inputs: Vec<Option<PassedTensor>>, host: &mut dyn Host) -> Result<Vec<PassedTensor>, OpError> {
        let is_true = truth(&argument(&inputs, 0)?.bytes)?;
        let branch = if is_true { &self.then_branch } else { &self.else_branch };
        host.run_subgraph(branch.index, arguments(inputs, 1)?)
    }

    fn body(&self, inputs: Facts<'_>) -> Option<Result<Body, String>> {
        let [condition] = inputs.fact(0).constant.as_ref()?.integers()?[..] else { return None };
        let branch = if condition != 0 { &self.then_branch } else { &self.else_branch };
        Some(branch.body("IF", inputs.from(0), 1))
    }

    fn eval(&self, _: &mut Eval<'_>) -> Result<(), OpError> {
        Err(passes_only())
    }

    /// True, because a branch may assign variables.
    fn has_side_effects(&self) -> bool {
        true
    }
}

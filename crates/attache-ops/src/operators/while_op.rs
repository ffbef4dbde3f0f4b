//! WHILE: runs a subgraph of the model on its own outputs while a condition subgraph returns true.

use attache_base::{DataType, Shape};
#[cfg(not(attache_small))]
use attache_graph::{Body, Graph, Loop};
use attache_graph::{Eval, Host, Inferred, OpError, PassedTensor};
use attache_model::schema::BuiltinOperator;

use crate::shared::callee::{Callee, arguments, passes_only, shapes_of, stated_types, truth};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::WHILE),
    versions: 1..=1,
    inputs: &[input("values").optional().repeated()],
    parse,
}];

#[derive(Debug)]
struct While {
    /// The subgraph that computes from the loop's values whether the body runs again.
    condition: Callee,
    /// The subgraph that computes the next values from the loop's values.
    body: Callee,
    values: Vec<DataType>,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_while_options().ok_or_else(|| declaration.no_options())?;
    let (values, count) = (stated_types(declaration), declaration.operator.inputs.len());
    let condition = Callee::new(declaration, options.cond_subgraph_index(), (count, 1))?;
    condition.check_outputs(&[DataType::Bool])?;
    let body = Callee::new(declaration, options.body_subgraph_index(), (count, values.len()))?;
    body.check_outputs(&values)?;
    Ok(Box::new(While { condition, body, values }))
}

impl While {
    /// Returns the initial shapes that no iteration changes, whatever the number of iterations; `None` for
    /// the others. A shape that changes may change others in the next iteration, so inference of the body is
    /// repeated with the remaining known shapes until it reaches a fixed point.
    fn steady(&self, mut shapes: Vec<Option<Shape>>) -> Vec<Option<Shape>> {
        loop {
            let before = shapes.clone();
            for (shape, made) in shapes.iter_mut().zip(self.body.shapes(&before)) {
                *shape = shape.take().filter(|shape| made.as_ref() == Some(shape));
            }
            if shapes == before {
                return shapes;
            }
        }
    }
}

#[cfg(not(attache_small))]
impl Loop for While {
    fn condition(&self, shapes: &[Option<Shape>]) -> Result<Graph, String> {
        self.condition.examined(shapes)
    }

    fn body(&self, shapes: &[Option<Shape>]) -> Result<Body, String> {
        let graph = self.body.examined(shapes)?;
        Ok(Body { name: "WHILE".into(), subgraph: self.body.index, graph, first: 0 })
    }
}

impl Operator for While {
    /// Infers the types and shapes of the outputs, which are the values after the last iteration. A shape is
    /// known where no iteration changes it.
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let inputs = inputs.from(0);
        self.condition.check_inputs(inputs)?;
        self.body.check_inputs(inputs)?;
        if inputs.len() != self.values.len() {
            let reason = format!("{} inputs and {} outputs; a loop has as many", inputs.len(), self.values.len());
            return Err(OpError::invalid(reason));
        }
        for (index, (input, output)) in inputs.iter().flatten().zip(&self.values).enumerate() {
            if input.data_type != *output {
                let reason = format!("value {index} is of type {} before the loop, {output} after it", input.data_type);
                return Err(OpError::invalid(reason));
            }
        }
        let shapes = self.steady(shapes_of(inputs)).into_iter();
        Ok(self.values.iter().zip(shapes).map(|(data_type, shape)| Inferred { data_type: *data_type, shape }).collect())
    }

    fn passes_tensors(&self) -> bool {
        true
    }

    fn pass(&self, inputs: Vec<Option<PassedTensor>>, host: &mut dyn Host) -> Result<Vec<PassedTensor>, OpError> {
        let mut values = arguments(inputs, 0)?;
        loop {
            let answer = host.run_subgraph(self.condition.index, values.clone())?;
            if !truth(answer.first().map_or(&[], |answer| &answer.bytes))? {
                return Ok(values);
            }
            values = host.run_subgraph(self.body.index, values)?;
        }
    }

    #[cfg(not(attache_small))]
    fn as_loop(&self) -> Option<&dyn Loop> {
        Some(self)
    }

    fn eval(&self, _: &mut Eval<'_>) -> Result<(), OpError> {
        Err(passes_only())
    }

    /// True, because the subgraphs may assign variables.
    fn has_side_effects(&self) -> bool {
        true
    }
}

//! Inference of the shapes of resource variables, so that the outputs of READ_VARIABLE have known shapes.
//!
//! A variable contains the value that was last assigned, so its shape is known if all assignments in the
//! model have the same shape. The value of an assignment often depends on an earlier read
//! (`state = f(state)`). Therefore the shape of some assignments is assumed for all reads, the model is
//! inferred again, and the assumption is kept only if every assignment then has that shape: by induction over
//! the assignments in execution order, it holds for every read. The code depends on [`VariableUse`], not on
//! the names of operators.

use std::collections::BTreeMap;

use attache_base::{DataType, Shape};
use attache_graph::VariableUse;
use attache_model::Model;

use super::{callees, import_within};
use crate::resolver::OpResolver;
use crate::subgraphs::Held;

/// The shapes of all values assigned to each variable, by container and name; `None` where a shape is not
/// known.
type Assigned = BTreeMap<(String, String), Vec<Option<Shape>>>;

/// Maximum number of inference rounds. If the assumptions still change after as many rounds, no variable gets
/// a shape.
const MOST_ROUNDS: usize = 4;

/// Infers the shapes that resource variables have at every read. `fixed` is the index of the subgraph that
/// runs and the shapes that its inputs have at every run; the input shapes of other subgraphs are unknown.
pub(super) fn held(model: &Model, fixed: (usize, &[Option<Shape>]), resolver: &OpResolver) -> Held {
    let mut tensors = model.subgraphs().iter().flat_map(|subgraph| &subgraph.tensors);
    if !tensors.any(|tensor| tensor.data_type == DataType::Resource) {
        return Held::default();
    }
    let Some(assigned) = assigned(model, fixed, &Held::default(), resolver) else { return Held::default() };
    let mut assumed = Held::default();
    for (name, shapes) in assigned {
        assumed.0.extend(common(shapes.iter().flatten()).map(|shape| (name, shape)));
    }
    for _ in 0..MOST_ROUNDS {
        let Some(assigned) = self::assigned(model, fixed, &assumed, resolver) else { break };
        let before = assumed.0.len();
        assumed.0.retain(|(name, shape)| assigned[name].iter().all(|made| made.as_ref() == Some(shape)));
        if assumed.0.len() == before {
            return assumed;
        }
    }
    Held::default()
}

/// Returns the shape that all of `shapes` are equal to; `None` where they differ or there are none.
fn common<'a>(mut shapes: impl Iterator<Item = &'a Shape>) -> Option<Shape> {
    let first = shapes.next()?;
    shapes.all(|shape| shape == first).then(|| first.clone())
}

/// Collects the shapes of all values assigned to variables in the model, where every read of a variable has
/// the shape in `assumed`. Returns `None` where a node assigns to a variable whose name cannot be determined.
fn assigned(
    model: &Model,
    fixed: (usize, &[Option<Shape>]),
    assumed: &Held,
    resolver: &OpResolver,
) -> Option<Assigned> {
    let callees = callees(model, assumed.clone(), resolver);
    let mut assigned = Assigned::new();
    for (index, subgraph) in model.subgraphs().iter().enumerate() {
        let inputs = if index == fixed.0 { fixed.1.to_vec() } else { vec![None; subgraph.inputs.len()] };
        let (graph, _) = import_within(&callees, resolver, index, inputs);
        let producers = graph.producers();
        for node in &graph.nodes {
            let Some(VariableUse::Assign { handle, value }) = node.op.variable_use() else { continue };
            let shape = node.inputs.get(value).copied().flatten().and_then(|id| graph.fact(id).shape.clone());
            let handle = producers[node.inputs.get(handle).copied().flatten()?.index()]?;
            let VariableUse::Handle { container, name } = graph.node(handle).op.variable_use()? else { return None };
            assigned.entry((container.to_owned(), name.to_owned())).or_default().push(shape);
        }
    }
    Some(assigned)
}

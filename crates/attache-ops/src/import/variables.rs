//! Which shapes resource variables hold, as far as a file tells.
//!
//! A variable holds whatever was assigned to it last, so its shape is known where every assignment of the model gives it
//! one and the same. The value of an assignment often hangs on what was read before (`state = f(state)`), so a shape that
//! some assignments have is taken for granted and then has to come out at all of them: what is true of every assignment
//! while it holds for those before is true of every read. Knows no operator by name.

use std::collections::BTreeMap;

use attache_base::{DataType, Shape};
use attache_graph::VariableUse;
use attache_model::Model;

use super::{import_within, infer};
use crate::subgraphs::{Callees, Held};

/// The shapes of what is assigned to each variable; `None` for one that isn't known.
type Assigned = BTreeMap<(String, String), Vec<Option<Shape>>>;

/// Models of which more rounds would tell more are not looked into any further.
const MOST_ROUNDS: usize = 4;

/// The shapes that variables hold whenever they are read. `fixed` is a subgraph with the shapes that its inputs have at
/// all runs; of the inputs of others nothing is taken for granted.
pub(super) fn held(model: &Model, fixed: (usize, &[Option<Shape>])) -> Held {
    let mut tensors = model.subgraphs().iter().flat_map(|subgraph| &subgraph.tensors);
    if !tensors.any(|tensor| tensor.data_type == DataType::Resource) {
        return Held::default();
    }
    let Some(assigned) = assigned(model, fixed, &Held::default()) else { return Held::default() };
    let mut assumed: Held =
        assigned.into_iter().filter_map(|(name, shapes)| Some((name, common(shapes.iter().flatten())?))).collect();
    for _ in 0..MOST_ROUNDS {
        let Some(assigned) = self::assigned(model, fixed, &assumed) else { break };
        let before = assumed.len();
        assumed.retain(|name, shape| assigned[name].iter().all(|made| made.as_ref() == Some(shape)));
        if assumed.len() == before {
            return assumed;
        }
    }
    Held::default()
}

/// The shape that all of these are.
fn common<'a>(mut shapes: impl Iterator<Item = &'a Shape>) -> Option<Shape> {
    let first = shapes.next()?;
    shapes.all(|shape| shape == first).then(|| first.clone())
}

/// Every assignment of the model, with variables of the shapes assumed; `None` where one goes to a variable that isn't
/// known by its name.
fn assigned(model: &Model, fixed: (usize, &[Option<Shape>]), assumed: &Held) -> Option<Assigned> {
    let callees = Callees::new(model, assumed.clone(), infer);
    let mut assigned = Assigned::new();
    for (index, subgraph) in model.subgraphs().iter().enumerate() {
        let inputs = if index == fixed.0 { fixed.1.to_vec() } else { vec![None; subgraph.inputs.len()] };
        let (graph, _) = import_within(&callees, index, inputs);
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

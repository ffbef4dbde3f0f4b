//! Inference of the shapes of resource variables.
//!
//! A variable contains the value that was last assigned, so its shape is known if every assignment in the model has the
//! same shape. The value of an assignment often depends on a previous read (`state = f(state)`). So a shape found at
//! some assignments is assumed and then must result at all of them: what holds for every assignment if it held for the
//! ones before holds for every read. Independent of the operators' names.

use std::collections::BTreeMap;

use attache_base::{DataType, Shape};
use attache_graph::VariableUse;
use attache_model::Model;

use super::{import_within, infer};
use crate::subgraphs::{Callees, Held};

/// The shapes assigned to each variable; `None` where a shape is not known.
type Assigned = BTreeMap<(String, String), Vec<Option<Shape>>>;

/// Limit on inference rounds; a model that needs more gets no shapes at all.
const MOST_ROUNDS: usize = 4;

/// The shapes that variables have at every read. `fixed` is a subgraph and the shapes that its inputs have at all runs;
/// the input shapes of other subgraphs are unknown.
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

/// The shape that all of these are equal to.
fn common<'a>(mut shapes: impl Iterator<Item = &'a Shape>) -> Option<Shape> {
    let first = shapes.next()?;
    shapes.all(|shape| shape == first).then(|| first.clone())
}

/// All assignments of the model, with variables assumed to have the shapes `assumed`; `None` where one assigns to a
/// variable that can't be identified.
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

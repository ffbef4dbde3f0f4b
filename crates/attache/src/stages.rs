//! The stages between a model file and a running interpreter, most of them as text: the imported graph, the
//! graph after the passes, and the partitions. They show why an operator is placed or computed differently
//! than expected.

use std::collections::BTreeMap;
use std::sync::Arc;

use attache_base::Shape;
use attache_graph::Graph;
use attache_model::Model;
use attache_ops::OpResolver;

use crate::runtime::{Key, Options, Plans, PrepareMode, Prepared, import as import_graph};
use crate::{Delegate, Error, Limits};

/// New shapes of inputs, as pairs of the index of the input and its shape.
type Shapes = [(usize, Vec<usize>)];

/// Imports a subgraph, with other shapes for some inputs (pairs of the input's index and its shape), and
/// returns its graph, before any graph pass, as text.
///
/// # Errors
///
/// Of kind [`ErrorKind::Usage`](crate::ErrorKind::Usage) if the subgraph or an input does not exist, of kind
/// [`ErrorKind::Model`](crate::ErrorKind::Model) if it is invalid.
pub fn import(model: &Model, subgraph: usize, shapes: &Shapes) -> Result<String, Error> {
    Ok(imported(model, subgraph, shapes)?.to_string())
}

/// Imports a subgraph, runs the graph passes, and returns their log and the resulting graph as text.
///
/// # Errors
///
/// As [`import`].
pub fn passes(model: &Model, subgraph: usize, shapes: &Shapes) -> Result<String, Error> {
    let mut graph = imported(model, subgraph, shapes)?;
    let log = attache_passes::run(&mut graph);
    Ok(format!("{log}\n{graph}"))
}

/// Returns the graph of a subgraph after the graph passes, as delegates see it, and a map from the index of
/// each operator of the model file that the passes removed to what became of it, for example `constant`. An
/// operator that is not implemented is in the graph as a node whose
/// [`Op::missing`](attache_graph::Op::missing) gives the reason.
///
/// # Errors
///
/// As [`import`].
pub fn graph(model: &Model, subgraph: usize, shapes: &Shapes) -> Result<(Graph, BTreeMap<usize, String>), Error> {
    let mut graph = imported(model, subgraph, shapes)?;
    let removed = attache_passes::run(&mut graph).removed;
    let own = removed.iter().filter(|removal| removal.inlined.is_none());
    let fates = own.flat_map(|removal| removal.origins.iter().map(|origin| (*origin, removal.fate.to_owned())));
    Ok((graph, fates.collect()))
}

/// Imports a subgraph and returns the shape of each of its tensors, by its index in the file, as far as it follows from the
/// shapes of the inputs; `None` where only a run tells.
///
/// # Errors
///
/// As [`import`].
pub fn shapes(model: &Model, subgraph: usize, shapes: &Shapes) -> Result<Vec<Option<Shape>>, Error> {
    let graph = imported(model, subgraph, shapes)?;
    let count = model.subgraphs()[subgraph].tensors.len();
    Ok(graph.tensors.iter().take(count).map(|tensor| tensor.fact.shape.clone()).collect())
}

/// Prepares a subgraph with these delegates and returns the placement of every operator, with the reason, as
/// text.
///
/// # Errors
///
/// As [`InterpreterBuilder::build`](crate::InterpreterBuilder::build). A model that exceeds `limits` is an error of
/// kind [`ErrorKind::LimitExceeded`](crate::ErrorKind::LimitExceeded). A subgraph that does not exist is one of kind
/// [`ErrorKind::Usage`](crate::ErrorKind::Usage).
pub fn partition(
    model: &Model,
    subgraph: usize,
    shapes: &Shapes,
    delegates: &[Arc<dyn Delegate>],
    limits: &Limits,
) -> Result<String, Error> {
    Ok(prepared(model, subgraph, shapes, delegates, limits)?.placement.to_string())
}

/// Prepares a subgraph for one CPU thread, including the partitions of all delegates.
pub(crate) fn prepared(
    model: &Model,
    subgraph: usize,
    shapes: &Shapes,
    delegates: &[Arc<dyn Delegate>],
    limits: &Limits,
) -> Result<Arc<Prepared>, Error> {
    let shapes = check(model, subgraph, shapes)?;
    let options = Options { delegates: delegates.into(), ..Options::new(1, limits) };
    let key = Key { subgraph, shapes, mode: prepare_mode(subgraph), is_called: false };
    Plans::new(model, &options).prepared(&key)
}

/// Returns the prepare mode of a subgraph. Interpreters run the first subgraph; all others are treated as
/// subgraphs that it calls.
fn prepare_mode(subgraph: usize) -> PrepareMode {
    if subgraph == 0 { PrepareMode::First } else { PrepareMode::Later }
}

fn imported(model: &Model, subgraph: usize, shapes: &Shapes) -> Result<Graph, Error> {
    let shapes = check(model, subgraph, shapes)?;
    import_graph(model, subgraph, &shapes, prepare_mode(subgraph), &OpResolver::new())
}

/// Returns the new shape of each input; `None` for inputs that keep theirs.
fn check(model: &Model, subgraph: usize, shapes: &Shapes) -> Result<Vec<Option<Shape>>, Error> {
    let count = model.subgraphs().len();
    let graph = model.subgraphs().get(subgraph);
    let graph = graph.ok_or_else(|| Error::usage(format!("there is no subgraph {subgraph} of {count}")))?;
    let mut wanted = vec![None; graph.inputs.len()];
    for (input, shape) in shapes {
        let count = wanted.len();
        let slot = wanted.get_mut(*input);
        *slot.ok_or_else(|| Error::usage(format!("a shape for input {input}; the model has {count}")))? =
            Some(Shape::from(shape.as_slice()));
    }
    Ok(wanted)
}

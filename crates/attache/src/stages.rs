//! The stages between a file and a running interpreter, most of them as text. They help to find out why an operator is
//! placed or computed differently than expected.

use std::collections::BTreeMap;
use std::sync::Arc;

use attache_graph::Graph;
use attache_model::Model;

use crate::runtime::{Options, PrepareMode, Prepared, import as import_graph, prepare};
use crate::{Delegate, Error, Limits};

/// The graph of a subgraph after import, as text.
///
/// # Errors
///
/// Of kind [`ErrorKind::Usage`](crate::ErrorKind::Usage) if the subgraph does not exist, of kind
/// [`ErrorKind::Model`](crate::ErrorKind::Model) if it is invalid.
pub fn import(model: &Model, subgraph: usize) -> Result<String, Error> {
    check(model, subgraph)?;
    Ok(import_graph(model, subgraph, &[], prepare_mode(subgraph))?.to_string())
}

/// The log of the graph passes and the resulting graph, as text.
///
/// # Errors
///
/// As [`import`].
pub fn passes(model: &Model, subgraph: usize) -> Result<String, Error> {
    check(model, subgraph)?;
    let mut graph = import_graph(model, subgraph, &[], prepare_mode(subgraph))?;
    let log = attache_passes::run(&mut graph);
    Ok(format!("{log}\n{graph}"))
}

/// The graph of a subgraph after the passes, as delegates see it. The map contains each operator of the file that the
/// passes removed, with the reason, for example `constant`. Operators that are not implemented are in the graph as
/// nodes that say so.
///
/// # Errors
///
/// As [`import`].
pub fn graph(model: &Model, subgraph: usize) -> Result<(Graph, BTreeMap<usize, String>), Error> {
    check(model, subgraph)?;
    let mut graph = import_graph(model, subgraph, &[], prepare_mode(subgraph))?;
    let removed = attache_passes::run(&mut graph).removed;
    let fates =
        removed.iter().flat_map(|removal| removal.origins.iter().map(|origin| (*origin, removal.fate.to_owned())));
    Ok((graph, fates.collect()))
}

/// The placement of every operator and its reason, as text.
///
/// # Errors
///
/// As [`InterpreterBuilder::build`](crate::InterpreterBuilder::build). A model that exceeds `limits` is an error of
/// kind [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported). A subgraph that does not exist is one of kind
/// [`ErrorKind::Usage`](crate::ErrorKind::Usage).
pub fn partition(
    model: &Model,
    subgraph: usize,
    delegates: &[Arc<dyn Delegate>],
    limits: &Limits,
) -> Result<String, Error> {
    Ok(prepared(model, subgraph, delegates, limits)?.placement.to_string())
}

/// Prepares a subgraph, including the partitions of all delegates.
pub(crate) fn prepared(
    model: &Model,
    subgraph: usize,
    delegates: &[Arc<dyn Delegate>],
    limits: &Limits,
) -> Result<Prepared, Error> {
    check(model, subgraph)?;
    let options = Options { delegates: delegates.into(), ..Options::new(1, limits) };
    prepare(model, subgraph, &options, &[], prepare_mode(subgraph))
}

/// The prepare mode of a subgraph. Interpreters run the first subgraph; others are treated as subgraphs called by it.
fn prepare_mode(subgraph: usize) -> PrepareMode {
    if subgraph == 0 { PrepareMode::First } else { PrepareMode::Later }
}

fn check(model: &Model, subgraph: usize) -> Result<(), Error> {
    let count = model.subgraphs().len();
    if subgraph < count { Ok(()) } else { Err(Error::usage(format!("there is no subgraph {subgraph} of {count}"))) }
}

//! The stages between a file and a running interpreter, most of them as text: what a developer looks at when something is
//! placed or computed otherwise than expected.

use std::collections::BTreeMap;
use std::sync::Arc;

use attache_graph::Graph;
use attache_model::Model;

use crate::runtime::{Moment, Options, Prepared, import as import_graph, prepare};
use crate::{Delegate, Error, Limits};

/// The graph of a subgraph as imported.
pub fn import(model: &Model, subgraph: usize) -> Result<String, Error> {
    check(model, subgraph)?;
    Ok(import_graph(model, subgraph, &[], moment(subgraph))?.to_string())
}

/// What the rules did to the graph, and what they left.
pub fn passes(model: &Model, subgraph: usize) -> Result<String, Error> {
    check(model, subgraph)?;
    let mut graph = import_graph(model, subgraph, &[], moment(subgraph))?;
    let log = attache_passes::run(&mut graph);
    Ok(format!("{log}\n{graph}"))
}

/// The graph of a subgraph as delegates get to see it, and for each operator of the file that nothing is left of what
/// became of it, as `constant`. Operators that aren't implemented are nodes that say so.
pub fn graph(model: &Model, subgraph: usize) -> Result<(Graph, BTreeMap<usize, String>), Error> {
    check(model, subgraph)?;
    let mut graph = import_graph(model, subgraph, &[], moment(subgraph))?;
    let removed = attache_passes::run(&mut graph).removed;
    let fates =
        removed.iter().flat_map(|removal| removal.origins.iter().map(|origin| (*origin, removal.fate.to_owned())));
    Ok((graph, fates.collect()))
}

/// Which operator goes where, and why, in a model that asks for no more than `limits`.
pub fn partition(
    model: &Model,
    subgraph: usize,
    delegates: &[Arc<dyn Delegate>],
    limits: &Limits,
) -> Result<String, Error> {
    Ok(prepared(model, subgraph, delegates, limits)?.placement.to_string())
}

/// A subgraph with all of its delegates' work prepared.
pub(crate) fn prepared(
    model: &Model,
    subgraph: usize,
    delegates: &[Arc<dyn Delegate>],
    limits: &Limits,
) -> Result<Prepared, Error> {
    check(model, subgraph)?;
    let options = Options { delegates: delegates.into(), ..Options::new(1, limits) };
    prepare(model, subgraph, &options, &[], moment(subgraph))
}

/// The first subgraph is what interpreters run; others are looked at as what it may run.
fn moment(subgraph: usize) -> Moment {
    if subgraph == 0 { Moment::First } else { Moment::Later }
}

fn check(model: &Model, subgraph: usize) -> Result<(), Error> {
    let count = model.subgraphs().len();
    if subgraph < count { Ok(()) } else { Err(Error::usage(format!("there is no subgraph {subgraph} of {count}"))) }
}

#![allow(unsafe_code)]
//! The contexts of other subgraphs, which a delegate acquires to look at what operators of the one that it prepares run.

use attache::graph::NodeId;
use attache_abi::TfLiteContext;

use super::{Session, View};

/// The sessions of other subgraphs, by their indices. They live as long as the session that they belong to.
#[derive(Debug, Default)]
pub(super) struct Others(Vec<(usize, *mut Session)>);

impl Others {
    /// Whether the subgraph was acquired.
    pub(super) fn has(&self, subgraph: usize) -> bool {
        self.0.iter().any(|(index, _)| *index == subgraph)
    }

    /// Returns the context of another subgraph of a view's model, in which nothing can be replaced.
    pub(super) fn acquire(&mut self, view: &View, subgraph: usize) -> Result<*mut TfLiteContext, String> {
        if let Some((_, session)) = self.0.iter().find(|(index, _)| *index == subgraph) {
            // SAFETY: the session lives as long as this list.
            return Ok(unsafe { &raw mut (**session).context });
        }
        let (graph, _) = attache::stages::graph(&view.model, subgraph, &[]).map_err(|error| error.to_string())?;
        let offered = (0..graph.nodes.len()).map(|index| NodeId(index as u32)).collect();
        let other = View { subgraph, graph, offered, ..view.clone() };
        let session = Session::of_view(other);
        self.0.push((subgraph, session));
        // SAFETY: the session was just made.
        Ok(unsafe { &raw mut (*session).context })
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        for (_, session) in self.0.drain(..) {
            // SAFETY: the session is this list's own. None of its nodes has code of a delegate's, since none was replaced.
            unsafe { Session::free(session) };
        }
    }
}

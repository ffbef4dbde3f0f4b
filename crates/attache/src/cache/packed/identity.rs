//! What identifies a value in an entry: everything that it was made from.
//!
//! The entry's key tells models apart; here a keyless hash suffices, as it does for checksums.

use std::fmt::{Debug, Write};

use attache_base::Constant;
use attache_graph::{Fact, Node};
use attache_model::Model;

use super::super::entry::checksum;
use super::super::model::range_in_file;

/// What identifies a value in an entry.
pub(super) type Identity = [u8; 16];

/// A description of what a value is made from.
#[derive(Default)]
pub(super) struct Origin(Vec<u8>);

impl Origin {
    /// Starts the origin of a value of a node of a subgraph.
    pub(super) fn of_node(subgraph: usize, node: &Node) -> Self {
        let mut origin = Self::default();
        origin.add(node.op.name().as_bytes()).add_debug(&node.place(subgraph));
        origin
    }

    /// Starts the origin of a value from the identity of another origin.
    pub(super) fn of(identity: &Identity) -> Self {
        Self(identity.to_vec())
    }

    /// Adds a part. The same bytes split differently are another origin.
    pub(super) fn add(&mut self, part: &[u8]) -> &mut Self {
        self.0.extend((part.len() as u64).to_le_bytes());
        self.0.extend(part);
        self
    }

    /// Adds a value as its text.
    pub(super) fn add_debug(&mut self, part: &impl Debug) -> &mut Self {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = write!(text, "{part:?}");
        self.add(text.as_bytes())
    }

    /// Adds what values depend on of an input or output: type, quantization and the constant, by its place in the model
    /// file or, if it was computed or moved, by its bytes.
    pub(super) fn add_fact(&mut self, model: &Model, fact: Option<&Fact>) {
        let Some(Fact { data_type, quantization, constant, .. }) = fact else {
            self.add(b"none");
            return;
        };
        self.add_debug(data_type);
        match quantization {
            None => self.add(b"not quantized"),
            Some(quantization) => self
                .add(bytemuck::cast_slice(&quantization.scale))
                .add(bytemuck::cast_slice(&quantization.zero_point))
                .add_debug(&quantization.axis),
        };
        let Some(Constant { shape, bytes, .. }) = constant else { return };
        self.add_debug(shape);
        match range_in_file(model, bytes) {
            Some(range) => self.add_debug(&range),
            None => self.add(&checksum(bytes).to_le_bytes()),
        };
    }

    pub(super) fn identity(&self) -> Identity {
        checksum(&self.0).to_le_bytes()
    }
}

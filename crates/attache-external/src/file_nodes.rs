//! The nodes of a subgraph of a file as structs of C, for programs that look at the graph of an interpreter.

use std::ffi::{CString, c_int};

use attache::Model;
#[cfg(not(attache_small))]
use attache_abi::TfLiteDelegate;
use attache_abi::report::text_of_c;
use attache_abi::{TfLiteBuiltinOperator, TfLiteNode, TfLiteRegistration};

use crate::memory::Integers;
use crate::session::{HostNode, Nodes};

/// The nodes of a subgraph, by their indices in the file, and nodes that stand for partitions, behind them. The structs
/// stay where they are as long as this value. Nothing runs through them: their registrations have no functions.
#[derive(Debug)]
pub struct FileNodes {
    nodes: Nodes,
    /// What the registrations of partitions point to.
    names: Vec<CString>,
}

impl FileNodes {
    /// Makes the structs of all operators of a subgraph of the model.
    #[must_use]
    pub fn new(model: &Model, subgraph: usize) -> Self {
        let operators = model.subgraphs()[subgraph].operators.iter().enumerate();
        let nodes = operators.map(|(index, operator)| {
            Box::new(HostNode::of_file(
                operator,
                model.operator_view(subgraph, index),
                &operator.inputs,
                operator.outputs.iter().copied(),
                operator.intermediates.iter().copied(),
            ))
        });
        Self { nodes: nodes.collect(), names: Vec::new() }
    }

    /// Adds a node that stands for a partition of a delegate, with the tensors that it reads and writes.
    pub fn add_partition(&mut self, delegate: &str, inputs: &[c_int], outputs: &[c_int]) {
        let name = text_of_c(delegate);
        let registration = TfLiteRegistration {
            builtin_code: TfLiteBuiltinOperator::DELEGATE.0,
            custom_name: name.as_ptr(),
            version: 1,
            ..TfLiteRegistration::empty()
        };
        self.nodes.push(Box::new(HostNode::without_kernel(
            registration,
            Integers::new(inputs),
            Integers::new(outputs),
        )));
        self.names.push(name);
    }

    /// Shows the delegate of a node that stands for a partition, and the name of its kernel.
    #[cfg(not(attache_small))]
    pub fn show_kernel(&mut self, index: usize, delegate: *mut TfLiteDelegate, name: &str) {
        if let Some(node) = self.nodes.get_mut(index) {
            let name = text_of_c(name);
            (node.node.delegate, node.registration.custom_name) = (delegate, name.as_ptr());
            self.names.push(name);
        }
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are no nodes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the structs of a node; `None` if there is no such node.
    pub fn get(&mut self, index: usize) -> Option<(&mut TfLiteNode, &mut TfLiteRegistration)> {
        self.nodes.get_mut(index).map(|node| (&mut node.node, &mut node.registration))
    }
}

#![allow(unsafe_code)]
//! A session: the `TfLiteContext` that a delegate or an operator of C sees, with its tensors and nodes.
//!
//! C code gets the address of the context, and calls its functions (`callbacks.rs`) while a call into C is in progress.
//! So no reference to a session may be held during such a call. All functions that call C take a raw pointer.

pub(crate) mod callbacks;
mod nodes;
mod open;
#[cfg_attr(attache_small, path = "no_others.rs")]
mod others;
mod partitions;
mod tensors;

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};

use attache::graph::{Graph, Node, NodeId};
use attache::{Clustering, Metadata, Model};
use attache_abi::report::{ContextHead, text_of_c};
use attache_abi::{TfLiteContext, TfLiteDelegate, TfLiteDelegateParams, TfLiteNode, TfLiteOperator, TfLiteTensor};

use crate::memory::Integers;
use crate::operator::Operator;

pub(crate) use nodes::{HostNode, Nodes, is_documented};
pub(crate) use open::OpenSession;
pub(crate) use partitions::{preview, replace};
pub(crate) use tensors::{Tensors, reallocate, resize};

/// Maximum number of error messages that a session keeps.
const MOST_ERRORS: usize = 16;

/// What a session shows of a model.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) model: Model,
    pub(crate) subgraph: usize,
    pub(crate) graph: Graph,
    /// The nodes of the execution plan.
    pub(crate) offered: Vec<NodeId>,
    pub(crate) clustering: Clustering,
    /// The number of threads that the interpreter runs operators on.
    pub(crate) threads: usize,
}

/// A context with everything that its pointers lead to.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Session {
    /// Has to be first: `TfLiteContext::impl_` points to it.
    head: ContextHead,
    pub(crate) context: TfLiteContext,
    pub(crate) tensors: Tensors,
    /// By the number that C code has of a node: first those of the file, then those of called subgraphs that took the place
    /// of calls, then those of partitions.
    pub(crate) nodes: Nodes,
    /// The execution plan, after those that were replaced, which C code may still hold.
    plans: Vec<Integers>,
    /// The result of the last preview, with the arrays that it points to.
    previews: (Vec<nodes::Params>, Vec<TfLiteDelegateParams>),
    /// What a delegate may replace; `None` for the session of an operator.
    claims: Option<Claims>,
    /// Operators that delegates gave away.
    operators: Vec<*mut TfLiteOperator>,
    external_contexts: [*mut c_void; 5],
    /// Indices of tensors: inputs, outputs and variables of the graph.
    pub(crate) inputs: Vec<c_int>,
    pub(crate) outputs: Vec<c_int>,
    pub(crate) variables: Vec<c_int>,
    pub(crate) name: CString,
    /// The metadata of the model file.
    metadata: Vec<Metadata>,
    errors: Vec<String>,
    /// The contexts of other subgraphs that the delegate acquired.
    others: others::Others,
}

/// What the delegate of a session may replace.
#[derive(Debug)]
struct Claims {
    view: View,
    /// The number of each node of the graph; `None` for one that was not made from an operator.
    numbers: Vec<Option<usize>>,
    /// The node of the graph for each number of a node in the plan.
    nodes: HashMap<c_int, NodeId>,
    /// The nodes that each earlier call replaced.
    replaced: Vec<Vec<NodeId>>,
    consumers: Vec<Vec<NodeId>>,
    is_output: Vec<bool>,
    /// Whether the delegate prepares, which is when it may replace nodes.
    is_open: bool,
}

impl Session {
    /// Makes a session for a delegate, at an address that does not change. [`Session::free`] ends it.
    pub(crate) fn of_view(view: View) -> *mut Self {
        let source = &view.model.subgraphs()[view.subgraph];
        let mut tensors = Tensors::with_room(view.graph.tensors.len());
        for (index, tensor) in view.graph.tensors.iter().enumerate() {
            let stated = source.tensors.get(index);
            tensors.push(&tensor.name, &tensor.fact, stated);
            if let Some(stated) = stated {
                tensors.set_blocks(index, &stated.quantization_details);
            }
        }
        let numbers = numbers(&view);
        let nodes = file_nodes(&view);
        let offered = view.offered.iter().filter_map(|id| numbers[id.index()]);
        let plan = Integers::of_indices(offered);
        let ids = plan.elements().iter().copied().zip(view.offered.iter().copied()).collect();
        let of = |ids: &[attache::graph::TensorId]| ids.iter().map(|id| id.0 as c_int).collect();
        let (inputs, outputs) = (of(&view.graph.inputs), of(&view.graph.outputs));
        let variables = view.graph.tensors.iter().enumerate().filter(|(_, tensor)| tensor.fact.is_variable);
        let variables = variables.map(|(index, _)| index as c_int).collect();
        let name = text_of_c(&view.graph.name);
        let mut is_output = vec![false; view.graph.tensors.len()];
        view.graph.outputs.iter().for_each(|id| is_output[id.index()] = true);
        let (consumers, threads) = (view.graph.consumers(), view.threads);
        let metadata = view.model.metadata().to_vec();
        let claims = Claims { view, numbers, nodes: ids, replaced: Vec::new(), consumers, is_output, is_open: false };
        let session =
            Self { plans: vec![plan], inputs, outputs, variables, name, metadata, ..Self::new(tensors, nodes) };
        let session = Self { claims: Some(claims), ..session };
        session.with_threads(Some(threads)).into_raw()
    }

    /// Makes a session with these tensors and one node, for an operator of a model with this metadata.
    pub(crate) fn of_operator(
        tensors: Tensors,
        node: HostNode,
        metadata: &[Metadata],
        threads: Option<usize>,
    ) -> *mut Self {
        let session = Self::new(tensors, vec![Box::new(node)]);
        let session = Self { plans: vec![Integers::new(&[0])], metadata: metadata.to_vec(), ..session };
        session.with_threads(threads).into_raw()
    }

    /// Has the context recommend a number of threads, if it is known.
    fn with_threads(mut self, threads: Option<usize>) -> Self {
        let threads = threads.and_then(|threads| c_int::try_from(threads).ok());
        self.context.recommended_num_threads = threads.unwrap_or(-1);
        self
    }

    fn new(tensors: Tensors, nodes: Nodes) -> Self {
        Self {
            head: ContextHead { report: Some(callbacks::take_error) },
            context: callbacks::context(),
            tensors,
            nodes,
            plans: Vec::new(),
            previews: (Vec::new(), Vec::new()),
            claims: None,
            operators: Vec::new(),
            external_contexts: [std::ptr::null_mut(); 5],
            inputs: Vec::new(),
            outputs: Vec::new(),
            variables: Vec::new(),
            name: CString::default(),
            metadata: Vec::new(),
            errors: Vec::new(),
            others: others::Others::default(),
        }
    }

    fn into_raw(self) -> *mut Self {
        let session = Box::into_raw(Box::new(self));
        // SAFETY: the session was just made, and nobody else has its address.
        unsafe {
            (*session).context.impl_ = session.cast();
            (*session).renew_tensors();
        }
        session
    }

    /// Frees the data of the nodes.
    ///
    /// # Safety
    ///
    /// The session was made by this type and nothing refers to it. The code of its nodes is still there.
    pub(crate) unsafe fn free_nodes(session: *mut Self) {
        // SAFETY: the caller states it; C code is called while nobody refers to the session.
        unsafe {
            let context = &raw mut (*session).context;
            for index in 0..(*session).nodes.len() {
                let node = &raw mut *(&mut (*session).nodes)[index];
                let Some(functions) = (*node).kernel.as_ref().map(|kernel| kernel.functions.clone()) else { continue };
                let data = std::mem::replace(&mut (*node).node.user_data, std::ptr::null_mut());
                functions.free(context, data);
            }
        }
    }

    /// Frees the data of the nodes, then the session.
    ///
    /// # Safety
    ///
    /// As [`Session::free_nodes`]; the session is not used afterwards.
    pub(crate) unsafe fn free(session: *mut Self) {
        // SAFETY: the caller gives the session away.
        unsafe {
            Self::free_nodes(session);
            for operator in std::mem::take(&mut (*session).operators) {
                Operator::delete(operator);
            }
            drop(Box::from_raw(session));
        }
    }

    /// Returns the session of a context; `None` for null and for contexts that have none.
    ///
    /// # Safety
    ///
    /// `context` is null or was made by this library, and nothing else refers to the session while the result is in use.
    pub(crate) unsafe fn of<'a>(context: *const TfLiteContext) -> Option<&'a mut Self> {
        // SAFETY: the caller states that the context is of this library, so `impl_` leads to its session.
        unsafe { context.as_ref()?.impl_.cast::<Self>().as_mut() }
    }

    /// Makes the context tell the place and number of the tensors.
    pub(crate) fn renew_tensors(&mut self) {
        (self.context.tensors, self.context.tensors_size) = (self.tensors.as_mut_ptr(), self.tensors.len());
    }

    /// Returns the tensor with this index; null if there is none.
    pub(crate) fn tensor(&mut self, index: c_int) -> *mut TfLiteTensor {
        let tensor = usize::try_from(index).ok().and_then(|index| self.tensors.get_mut(index));
        tensor.map_or(std::ptr::null_mut(), |tensor| tensor)
    }

    /// Returns the node with this number; null if there is none.
    pub(crate) fn node(&mut self, index: c_int) -> *mut HostNode {
        let node = usize::try_from(index).ok().and_then(|index| self.nodes.get_mut(index));
        node.map_or(std::ptr::null_mut(), |node| &raw mut **node)
    }

    /// Whether a node is one of this session.
    pub(crate) fn has_node(&self, node: *const TfLiteNode) -> bool {
        self.nodes.iter().any(|own| std::ptr::eq(&raw const own.node, node))
    }

    /// Returns the execution plan.
    pub(crate) fn plan(&self) -> *mut attache_abi::TfLiteIntArray {
        self.plans.last().map_or(std::ptr::null_mut(), Integers::as_ptr)
    }

    /// Adds tensors without type and shape, and returns the index of the first.
    pub(crate) fn add_tensors(&mut self, count: usize) -> usize {
        let first = self.tensors.add(count);
        self.renew_tensors();
        first
    }

    /// Returns the model and the index of the subgraph; `None` for the session of an operator.
    pub(crate) fn source(&self) -> Option<(&Model, usize)> {
        self.claims.as_ref().map(|claims| (&claims.view.model, claims.view.subgraph))
    }

    /// Returns the context of a subgraph of the model; that of the session itself for its own.
    pub(crate) fn acquire(&mut self, subgraph: c_int) -> Result<*mut TfLiteContext, String> {
        match (&self.claims, usize::try_from(subgraph)) {
            (Some(claims), Ok(own)) if own == claims.view.subgraph => Ok(&raw mut self.context),
            (Some(claims), Ok(other)) if other < claims.view.model.subgraphs().len() => {
                self.others.acquire(&claims.view, other)
            }
            _ => Err(unavailable(subgraph)),
        }
    }

    /// Whether [`Session::acquire`] gave the context of a subgraph, or it is the session's own.
    pub(crate) fn has_acquired(&self, subgraph: c_int) -> bool {
        let is_own = |index| self.source().is_some_and(|(_, own)| own == index);
        usize::try_from(subgraph).is_ok_and(|index| is_own(index) || self.others.has(index))
    }

    /// Lets the delegate replace nodes, or forbids it.
    pub(crate) fn set_open(&mut self, is_open: bool) {
        if let Some(claims) = &mut self.claims {
            claims.is_open = is_open;
        }
    }

    /// Logs the text of an error, and keeps it for the error of the call.
    pub(crate) fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        // Code that reports an error and then succeeds is heard as well.
        tracing::warn!("{text}");
        if self.errors.len() < MOST_ERRORS {
            self.errors.push(text);
        }
    }

    /// Returns the texts of the errors since the last call, joined; `None` if there are none.
    pub(crate) fn take_errors(&mut self) -> Option<String> {
        let errors = std::mem::take(&mut self.errors);
        (!errors.is_empty()).then(|| errors.join("; "))
    }

    /// Returns the data of the delegate, as an opaque delegate's kernels get it.
    pub(crate) fn set_external_context(&mut self, kind: c_int, context: *mut c_void) {
        if let Some(slot) = usize::try_from(kind).ok().and_then(|kind| self.external_contexts.get_mut(kind)) {
            *slot = context;
        }
    }

    pub(crate) fn external_context(&self, kind: c_int) -> *mut c_void {
        let slot = usize::try_from(kind).ok().and_then(|kind| self.external_contexts.get(kind));
        slot.copied().unwrap_or(std::ptr::null_mut())
    }

    /// Returns the bytes of the model's metadata of this name; `None` if there is none.
    ///
    /// # Safety
    ///
    /// `name` is null or a text that ends with a zero byte.
    pub(crate) unsafe fn metadata(&self, name: *const c_char) -> Option<&[u8]> {
        if name.is_null() {
            return None;
        }
        // SAFETY: the caller states that a zero byte ends the text.
        let name = unsafe { CStr::from_ptr(name) }.to_str().ok()?;
        self.metadata.iter().find(|entry| entry.name == name).map(|entry| &entry.bytes[..])
    }
}

/// Returns what is said of a subgraph whose context a delegate does not get.
fn unavailable(subgraph: c_int) -> String {
    format!("the context of subgraph {subgraph} is not available")
}

/// Returns the number that C code has of each node of the graph: the index of its operator in the file; for nodes that took
/// the place of a call, numbers after these.
fn numbers(view: &View) -> Vec<Option<usize>> {
    let mut next = view.model.subgraphs()[view.subgraph].operators.len()..;
    let number = |node: &Node| if node.inlined.is_some() { next.next() } else { node.origins.first().copied() };
    view.graph.nodes.iter().map(number).collect()
}

/// Returns the nodes of all operators of the file, then those that took the place of calls. Nodes that the graph still has
/// read the tensors that it says.
fn file_nodes(view: &View) -> Nodes {
    let source = &view.model.subgraphs()[view.subgraph];
    let mut inputs: Vec<Vec<Option<usize>>> = source.operators.iter().map(|operator| operator.inputs.clone()).collect();
    for node in view.graph.nodes.iter().filter(|node| node.inlined.is_none()) {
        if let Some(own) = node.origins.first().and_then(|origin| inputs.get_mut(*origin)) {
            *own = node.inputs.iter().map(|id| id.map(attache::graph::TensorId::index)).collect();
        }
    }
    let nodes = source.operators.iter().zip(inputs).enumerate().map(|(index, (operator, inputs))| {
        Box::new(HostNode::of_file(
            operator,
            view.model.operator_view(view.subgraph, index),
            &inputs,
            operator.outputs.iter().copied(),
            operator.intermediates.iter().copied(),
        ))
    });
    let inlined = view.graph.nodes.iter().filter(|node| node.inlined.is_some()).filter_map(|node| {
        let (subgraph, index) = node.place(view.subgraph)?;
        let inputs: Vec<_> = node.inputs.iter().map(|id| id.map(attache::graph::TensorId::index)).collect();
        let outputs = node.outputs.iter().map(|id| id.index());
        let operator = &view.model.subgraphs()[subgraph].operators[index];
        Some(Box::new(HostNode::of_file(operator, view.model.operator_view(subgraph, index), &inputs, outputs, [])))
    });
    let mut all: Vec<_> = nodes.collect();
    // The smallest libraries replace no calls.
    if !cfg!(attache_small) {
        all.extend(inlined);
    }
    all
}

/// Returns the data of an opaque delegate; null for others.
///
/// # Safety
///
/// `delegate` is valid.
pub(crate) unsafe fn opaque_data(delegate: *mut TfLiteDelegate) -> Option<*mut c_void> {
    // SAFETY: the caller states that the delegate is valid, so its builder is null or valid.
    unsafe { (*delegate).opaque_delegate_builder.as_ref().map(|builder| builder.data) }
}

#![allow(unsafe_code)]
//! The graph of the runtime as plain data, and models of some of its nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_int;
use std::hash::{DefaultHasher, Hash, Hasher};

use attache::model::schema::BuiltinOptions2T::StablehloReduceWindowOptions;
use attache::model::schema::BuiltinOptionsT::CallOnceOptions;
use attache::model::schema::{BuiltinOperator, OperatorT};
use attache::{Model, ModelBuilder, ModelError, OperatorBuilder, Shape};
use attache_abi::report::text_from_c;
use attache_abi::{
    HAVE_BODIES, OPTIONAL_TENSOR, Options, TfLiteContext, TfLiteIntArray, TfLiteNode, TfLiteRegistration,
};

use crate::calls::{callees, options_of_node, with_subgraph};
use crate::tensor::{Blocks, Tensor, tensor_of};

/// The name, in models, of the custom operator that stands for nodes that no model can contain. Its options are the
/// reason.
pub(crate) const UNKNOWN: &str = "an operator of the runtime";

/// What a node does.
#[derive(Clone, Debug)]
enum Code {
    Builtin(BuiltinOperator, Options),
    Custom(String, Vec<u8>),
    /// Something that no model can say, and why not.
    Unknown(String),
}

/// A node of the execution plan.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// The runtime's index.
    pub(crate) index: c_int,
    /// TensorFlow Lite's name of the operator.
    pub(crate) name: String,
    code: Code,
    version: i32,
    inputs: Vec<Option<usize>>,
    pub(crate) outputs: Vec<usize>,
    intermediates: Vec<usize>,
    /// The subgraph that the operator runs, if what the operator does or the shapes of variables depend on it.
    body: Option<Box<Graph>>,
}

impl Node {
    /// Returns why no model can contain the node, if none can.
    pub(crate) fn obstacle(&self) -> Option<&str> {
        match &self.code {
            Code::Unknown(reason) => Some(reason),
            Code::Builtin(..) | Code::Custom(..) => None,
        }
    }

    /// Makes this a node of which nothing but its outputs is known.
    pub(crate) fn obscure(&mut self, reason: String) {
        self.code = Code::Unknown(reason);
    }

    /// Reads the subgraph that the operator runs, if a model of the node contains it. Without it, the node is an unknown
    /// one.
    ///
    /// # Safety
    ///
    /// As [`Graph::read`].
    unsafe fn read_body(&mut self, context: *mut TfLiteContext, is_called: bool) {
        let Code::Builtin(_, options) = &self.code else { return };
        let (index, is_reduction) = match (&options.first, &options.second) {
            (CallOnceOptions(options), _) => (options.init_subgraph_index, false),
            (_, StablehloReduceWindowOptions(options)) => (options.body_subgraph_index, true),
            _ => return,
        };
        // SAFETY: the caller states that the context is valid, and so are those that it gives.
        let read = || unsafe { with_subgraph(context, index, |body| Graph::of(body, true)) };
        let body = if is_called { None } else { read().and_then(Result::ok) };
        let is_whole = |body: &Graph| matches!(&body.nodes[..], [node] if node.obstacle().is_none());
        match body.filter(|body| !is_reduction || is_whole(body)) {
            Some(body) => self.body = Some(Box::new(body)),
            None => self.obscure("the runtime does not show the subgraph that it runs".into()),
        }
    }

    /// Whether the operator combines elements by what its subgraph does.
    fn is_reduction(&self) -> bool {
        matches!(&self.code, Code::Builtin(_, Options { second: StablehloReduceWindowOptions(_), .. }))
    }

    fn tensors(&self) -> impl Iterator<Item = usize> {
        self.inputs.iter().flatten().chain(&self.outputs).chain(&self.intermediates).copied()
    }

    /// Returns the tensors that the node reads.
    pub(crate) fn reads(&self) -> impl Iterator<Item = usize> {
        self.inputs.iter().flatten().copied()
    }
}

/// The execution plan of the runtime, with the tensors that its nodes use. Tensors have the runtime's indices.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    tensors: BTreeMap<usize, Tensor>,
    pub(crate) nodes: Vec<Node>,
    /// The number of tensors that the runtime has, whether nodes of the plan use them or not.
    all_tensors: usize,
}

/// A model of some nodes. Tensor `i` of its subgraph is the runtime's tensor `tensors[i]`.
#[derive(Clone, Debug)]
pub(crate) struct PartModel {
    pub(crate) model: Model,
    pub(crate) tensors: Vec<usize>,
}

impl Graph {
    /// Reads the execution plan.
    ///
    /// # Safety
    ///
    /// `context` is the context that the runtime passed, and constants are used only as long as its interpreter exists.
    pub(crate) unsafe fn read(context: *mut TfLiteContext) -> Result<Self, String> {
        // SAFETY: as the caller states.
        unsafe { Self::of(context, false) }
    }

    /// Reads the execution plan; of a subgraph that an operator runs, without those that its own operators run.
    ///
    /// # Safety
    ///
    /// As [`Graph::read`].
    unsafe fn of(context: *mut TfLiteContext, is_called: bool) -> Result<Self, String> {
        // SAFETY: the caller passes a valid context, whose functions may be called with it; what they return is valid
        // until the plan is changed.
        unsafe {
            let functions = *context;
            let (Some(plan_of), Some(node_of)) = (functions.GetExecutionPlan, functions.GetNodeAndRegistration) else {
                return Err("the runtime shows no execution plan".into());
            };
            let mut plan = std::ptr::null_mut();
            if !plan_of(context, &mut plan).is_ok() {
                return Err("the runtime returns no execution plan".into());
            }
            let all_tensors = functions.tensors_size;
            let mut graph = Self { tensors: BTreeMap::new(), nodes: Vec::new(), all_tensors };
            for index in TfLiteIntArray::elements(plan).to_vec() {
                let (mut node, mut registration) = (std::ptr::null_mut(), std::ptr::null_mut());
                if !node_of(context, index, &mut node, &mut registration).is_ok() {
                    return Err(format!("the runtime returns no node {index}"));
                }
                graph.add(context, index, &*node, &*registration, is_called)?;
            }
            Ok(graph)
        }
    }

    /// Adds a node and its tensors.
    ///
    /// # Safety
    ///
    /// As [`Graph::read`]; the node and the registration belong to the context.
    unsafe fn add(
        &mut self,
        context: *mut TfLiteContext,
        index: c_int,
        node: &TfLiteNode,
        registration: &TfLiteRegistration,
        is_called: bool,
    ) -> Result<(), String> {
        // SAFETY: the caller states that the structs are the runtime's, so their pointers are null or valid.
        unsafe {
            let count = (*context).tensors_size;
            let known = |tensor: &c_int| usize::try_from(*tensor).ok().filter(|tensor| *tensor < count);
            let list = |array| TfLiteIntArray::elements(array).iter().map(known).collect::<Option<Vec<usize>>>();
            let optional = |tensor: &c_int| match *tensor {
                OPTIONAL_TENSOR => Some(None),
                _ => known(tensor).map(Some),
            };
            let inputs = TfLiteIntArray::elements(node.inputs).iter().map(optional).collect::<Option<Vec<_>>>();
            let outputs = list(node.outputs);
            let is_whole = inputs.is_some() && outputs.is_some();
            // Of a node that uses a tensor that does not exist, the others are known.
            let outputs =
                outputs.unwrap_or_else(|| TfLiteIntArray::elements(node.outputs).iter().filter_map(known).collect());
            let inputs = inputs.unwrap_or_default();
            // Not all versions of the runtime have intermediates of all nodes.
            let intermediates = list(node.intermediates).unwrap_or_default();
            let (name, code) = code_of(context, node, registration);
            let version = registration.version;
            let mut node = Node { index, name, code, version, inputs, outputs, intermediates, body: None };
            node.read_body(context, is_called);
            if !is_whole {
                node.obscure("it uses a tensor that does not exist".into());
            }
            for tensor in node.tensors().collect::<BTreeSet<usize>>() {
                self.add_tensor(context, tensor);
                let tensor = &self.tensors[&tensor];
                if let (Some(obstacle), None) = (tensor.obstacle, node.obstacle()) {
                    let text = format!("tensor \"{}\" {obstacle}", tensor.name);
                    node.obscure(text);
                }
            }
            self.nodes.push(node);
        }
        Ok(())
    }

    /// Adds a tensor, and those that hold the scales of its blocks.
    ///
    /// # Safety
    ///
    /// As [`Graph::read`]; the context has the tensor.
    unsafe fn add_tensor(&mut self, context: *mut TfLiteContext, index: usize) {
        // SAFETY: the caller states that the context has the tensor; `tensor_of` returns no other indices.
        let read = |index: usize| unsafe { tensor_of(&*(*context).tensors.add(index), self.all_tensors) };
        if self.tensors.contains_key(&index) {
            return;
        }
        let tensor = read(index);
        let held: Vec<(usize, Tensor)> =
            tensor.blocks.iter().flat_map(Blocks::tensors).map(|of| (of, read(of))).collect();
        self.tensors.insert(index, tensor);
        held.into_iter().for_each(|(index, tensor)| _ = self.tensors.entry(index).or_insert(tensor));
    }

    /// Returns the tensors among these, and those that hold the scales of their blocks, in ascending order.
    fn with_scales(&self, used: impl Iterator<Item = usize>) -> Vec<usize> {
        let mut tensors: BTreeSet<usize> = used.collect();
        let blocks: Vec<&Blocks> = tensors.iter().filter_map(|index| self.tensors[index].blocks.as_ref()).collect();
        tensors.extend(blocks.into_iter().flat_map(Blocks::tensors));
        tensors.into_iter().collect()
    }

    /// Returns the tensors that the runtime or other nodes write before `nodes` run.
    pub(crate) fn inputs_of<'a>(&self, nodes: impl Iterator<Item = &'a Node> + Clone) -> Vec<usize> {
        let made: BTreeSet<usize> = nodes.clone().flat_map(|node| node.outputs.iter().copied()).collect();
        let read: BTreeSet<usize> = nodes.flat_map(Node::reads).collect();
        read.into_iter().filter(|tensor| self.is_input(*tensor) && !made.contains(tensor)).collect()
    }

    /// Whether a partition that reads the tensor has it as an input: constants and variables are its own.
    pub(crate) fn is_input(&self, tensor: usize) -> bool {
        self.tensors.get(&tensor).is_some_and(|tensor| tensor.constant.is_none() && !tensor.is_variable)
    }

    /// Whether the tensor is a variable, whose value nodes read and write.
    pub(crate) fn is_variable(&self, tensor: usize) -> bool {
        self.tensors.get(&tensor).is_some_and(|tensor| tensor.is_variable)
    }

    /// Builds a model of some nodes. `shapes` replaces the shapes of tensors that the runtime states. `is_stored` tells
    /// whether what is prepared of the model may be stored.
    pub(crate) fn model<'a>(
        &self,
        nodes: impl Iterator<Item = &'a Node> + Clone,
        inputs: &[usize],
        outputs: &[usize],
        shapes: &BTreeMap<usize, Shape>,
        is_stored: bool,
    ) -> Result<PartModel, ModelError> {
        let used = nodes.clone().flat_map(Node::tensors).chain(inputs.iter().chain(outputs).copied());
        let tensors = self.with_scales(used);
        let place = |tensor: &usize| tensors.binary_search(tensor).expect("all tensors in use are listed");
        let weights = if is_stored { self.hash_of_weights(&tensors) } else { 0 };
        let mut builder = ModelBuilder::new(&self.description(nodes.clone(), &tensors, weights));
        builder.subgraph("main");
        for index in &tensors {
            builder.tensor(0, self.tensors[index].build(shapes.get(index), place));
        }
        let mut subgraphs = 1;
        for node in nodes {
            let operator = match &node.body {
                Some(body) => {
                    let index = subgraphs;
                    body.write_body(&mut builder, index, node.is_reduction());
                    subgraphs += 1;
                    node.build(place).with(|table| set_body(table, index))
                }
                None => node.build(place),
            };
            builder.operator(0, operator);
        }
        let places = |tensors: &[usize]| tensors.iter().map(place).collect::<Vec<usize>>();
        builder.inputs(0, &places(inputs)).outputs(0, &places(outputs));
        Ok(PartModel { model: builder.model()?, tensors })
    }
}

impl Graph {
    /// Writes the subgraph that an operator runs. What combines elements has the inputs and outputs of its one node.
    fn write_body(&self, builder: &mut ModelBuilder, subgraph: usize, is_reduction: bool) {
        let tensors = self.with_scales(self.nodes.iter().flat_map(Node::tensors));
        let place = |tensor: &usize| tensors.binary_search(tensor).expect("all tensors in use are listed");
        builder.subgraph("body");
        for index in &tensors {
            builder.tensor(subgraph, self.tensors[index].build(None, place));
        }
        for node in &self.nodes {
            builder.operator(subgraph, node.build(place));
        }
        if is_reduction {
            let inputs: Vec<usize> = self.nodes.iter().flat_map(Node::reads).map(|tensor| place(&tensor)).collect();
            let outputs: Vec<usize> = self.nodes.iter().flat_map(|node| &node.outputs).map(place).collect();
            builder.inputs(subgraph, &inputs).outputs(subgraph, &outputs);
        }
    }

    /// Describes some nodes, so that what is stored for them is not found for other nodes of equal structure, such as
    /// others of the same model, whose large constants no key contains where the user names the model.
    fn description<'a>(&self, nodes: impl Iterator<Item = &'a Node>, tensors: &[usize], weights: u128) -> String {
        // The graph has no name, so that the names of its tensors stand for it.
        let mut names = DefaultHasher::new();
        self.tensors.values().for_each(|tensor| tensor.name.hash(&mut names));
        let nodes: Vec<c_int> = nodes.map(|node| node.index).collect();
        let (count, plan, names) = (self.all_tensors, self.nodes.len(), names.finish());
        format!(
            "nodes {nodes:?}, tensors {tensors:?} of {count} tensors {names:016x}, {plan} nodes, weights {weights:032x}"
        )
    }

    /// Returns a hash of all constants among some tensors: subgraphs of one model may have the same nodes and tensors, and
    /// differ in a few weights.
    fn hash_of_weights(&self, tensors: &[usize]) -> u128 {
        let constants = tensors.iter().filter_map(|index| self.tensors.get(index)?.constant.as_ref());
        let mut hasher = twox_hash::XxHash3_128::new();
        constants.for_each(|constant| {
            hasher.write(&constant.len().to_le_bytes());
            hasher.write(constant);
        });
        hasher.finish_128()
    }
}

/// Sets the subgraph that an operator runs.
fn set_body(table: &mut OperatorT, subgraph: usize) {
    match (&mut table.builtin_options, &mut table.builtin_options_2) {
        (CallOnceOptions(options), _) => options.init_subgraph_index = subgraph as i32,
        (_, StablehloReduceWindowOptions(options)) => options.body_subgraph_index = subgraph as i32,
        _ => {}
    }
}

impl Node {
    fn build(&self, place: impl Fn(&usize) -> usize) -> OperatorBuilder {
        let inputs: Vec<Option<usize>> = self.inputs.iter().map(|tensor| tensor.as_ref().map(&place)).collect();
        let outputs = self.outputs.iter().map(&place);
        let operator = match &self.code {
            Code::Builtin(operator, Options { first, second }) => {
                OperatorBuilder::new(*operator, inputs, outputs).options(first.clone()).options_2(second.clone())
            }
            Code::Custom(name, options) => OperatorBuilder::custom(name, options.clone(), inputs, outputs),
            Code::Unknown(reason) => OperatorBuilder::custom(UNKNOWN, reason.as_bytes(), inputs, outputs),
        };
        let intermediates: Vec<usize> = self.intermediates.iter().map(&place).collect();
        operator.version(self.version).intermediates(&intermediates)
    }
}

/// Returns the name of a node's operator, and what it does.
///
/// # Safety
///
/// Both structs are the runtime's.
unsafe fn code_of(
    context: *const TfLiteContext,
    node: &TfLiteNode,
    registration: &TfLiteRegistration,
) -> (String, Code) {
    let operator = BuiltinOperator(registration.builtin_code);
    // SAFETY: the caller states that the name is null or a text, that the options of a custom operator have the stated
    // size, and that `builtin_data` is what the operator has.
    unsafe {
        let custom = text_from_c(registration.custom_name);
        if operator == BuiltinOperator::CUSTOM {
            let name = custom.unwrap_or("CUSTOM").to_owned();
            let options = bytes_of(node.custom_initial_data.cast(), node.custom_initial_data_size);
            return (name.clone(), Code::Custom(name, options.to_vec()));
        }
        let name = operator.variant_name().map_or_else(|| format!("BUILTIN_{}", operator.0), str::to_owned);
        let unknown = |reason: &str| Code::Unknown(reason.to_owned());
        let code = match operator {
            BuiltinOperator::DELEGATE => unknown("another delegate runs it"),
            _ => match options_of_node(context, node, registration) {
                Some(options) if !HAVE_BODIES.contains(&operator) && !callees(&options).is_empty() => {
                    unknown("it calls subgraphs, which stay on the CPU with it")
                }
                Some(options) => Code::Builtin(operator, options),
                None => unknown("its parameters are not documented, or have values that no file has"),
            },
        };
        let name = if operator == BuiltinOperator::DELEGATE { custom.unwrap_or(&name).to_owned() } else { name };
        (name, code)
    }
}

/// Returns the bytes at an address; none for null.
///
/// # Safety
///
/// The pointer is null or leads to as many bytes, which are not changed while they are in use.
unsafe fn bytes_of<'a>(data: *const u8, size: c_int) -> &'a [u8] {
    match usize::try_from(size) {
        // SAFETY: the caller states that the bytes are there.
        Ok(size) if !data.is_null() => unsafe { std::slice::from_raw_parts(data, size) },
        _ => &[],
    }
}

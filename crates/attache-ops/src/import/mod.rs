//! Import of a subgraph of a model file as a [`Graph`]: operators are parsed, and shapes inferred, in
//! execution order. The interpreter imports each subgraph that it runs.

mod variables;

use std::ops::RangeInclusive;
use std::sync::Arc;

use attache_base::{DataType, Shape};
use attache_graph::{Fact, Graph, Inferred, Node, Op, OpError, TensorId, UnresolvedOperator, VariableUse};
use attache_model::{Model, Operator, QuantizationDetails, Subgraph, Tensor};

use self::variables::held;
use crate::definition::{Declaration, Definition};
use crate::operators::definitions;
use crate::resolver::OpResolver;
use crate::subgraphs::{Callees, Held, Shapes};

/// Why an operator that neither this crate nor the program has does not run.
pub const NOT_IMPLEMENTED: &str = "it is not implemented";

/// Error for one invalid operator of a file.
#[derive(Clone, Debug, thiserror::Error)]
#[error("subgraph {subgraph}, operator {operator} ({name}): {error}")]
pub struct ImportError {
    /// Index of the subgraph in the model.
    pub subgraph: usize,
    /// The operator's index in the subgraph.
    pub operator: usize,
    /// The operator's name, such as `CONV_2D`.
    pub name: String,
    /// What is wrong with the operator.
    pub error: OpError,
}

/// Imports a subgraph as a graph, with the operators that `resolver` registers. Also returns one error for each invalid
/// operator.
///
/// An entry of `input_shapes` that is `Some` replaces the shape that the file states for the input at that
/// position. An operator whose kind, version or options are not implemented becomes a placeholder node with
/// the outputs that the file states. So does an invalid operator.
///
/// # Panics
///
/// Panics where the model has no such subgraph.
#[must_use]
pub fn import(
    model: &Model,
    subgraph: usize,
    input_shapes: &[Option<Shape>],
    resolver: &OpResolver,
) -> (Graph, Vec<ImportError>) {
    import_within(
        &callees(model, Held::default(), resolver),
        resolver,
        subgraph,
        shapes_of(model, subgraph, input_shapes),
    )
}

/// Like [`import`], for the subgraph that an interpreter runs while no resource variable has a value yet. The
/// inputs are assumed to have these shapes at every run, so that the shapes of resource variables can be
/// inferred.
///
/// # Panics
///
/// Panics where the model has no such subgraph.
#[must_use]
pub fn import_first(
    model: &Model,
    subgraph: usize,
    input_shapes: &[Option<Shape>],
    resolver: &OpResolver,
) -> (Graph, Vec<ImportError>) {
    let inputs = shapes_of(model, subgraph, input_shapes);
    let held = held(model, (subgraph, &inputs), resolver);
    import_within(&callees(model, held, resolver), resolver, subgraph, inputs)
}

/// Returns the access to the model's subgraphs from outside, which imports called ones with the operators that `resolver`
/// registers.
fn callees(model: &Model, held: Held, resolver: &OpResolver) -> Callees {
    let resolver = resolver.clone();
    let import = move |callees: &Callees, subgraph: usize, inputs: Shapes| {
        let (graph, errors) = import_within(callees, &resolver, subgraph, inputs);
        errors.is_empty().then_some(graph)
    };
    Callees::new(model, held, Arc::new(import))
}

/// Returns the shapes of a subgraph's inputs: the requested shape, or that of the file where none is
/// requested. A tensor that is an input several times has one shape, the first that is requested.
fn shapes_of(model: &Model, subgraph: usize, asked: &[Option<Shape>]) -> Vec<Option<Shape>> {
    let source = &model.subgraphs()[subgraph];
    let mut shapes: Vec<&Shape> = source.tensors.iter().map(|tensor| &tensor.shape).collect();
    for (place, asked) in asked.iter().enumerate().rev() {
        let Some(tensor) = source.inputs.get(place) else { continue };
        shapes[*tensor] = asked.as_ref().unwrap_or(shapes[*tensor]);
    }
    source.inputs.iter().map(|tensor| Some(shapes[*tensor].clone())).collect()
}

/// Imports a subgraph, called from the subgraph that `callees` describes, with the input shapes `inputs`;
/// `None` for a shape that is known only at run time. Returns the graph and one error for each invalid
/// operator.
fn import_within(
    callees: &Callees,
    resolver: &OpResolver,
    subgraph: usize,
    inputs: Vec<Option<Shape>>,
) -> (Graph, Vec<ImportError>) {
    let callees = callees.within(subgraph);
    let source = &callees.model().subgraphs()[subgraph];
    let mut graph = Graph { name: source.name.clone(), ..Graph::default() };
    for tensor in &source.tensors {
        graph.add_tensor(&tensor.name, fact(tensor));
    }
    let ids = |indices: &[usize]| indices.iter().map(|index| TensorId(*index as u32)).collect::<Vec<_>>();
    (graph.inputs, graph.outputs) = (ids(&source.inputs), ids(&source.outputs));
    for (id, shape) in graph.inputs.clone().into_iter().zip(inputs) {
        let fact = &mut graph.tensors[id.index()].fact;
        // The data of an input is its first value, which a caller may replace.
        (fact.shape, fact.constant) = (shape, None);
    }
    let mut errors = Vec::new();
    for (index, operator) in source.operators.iter().enumerate() {
        let declared = declared_outputs(source, operator);
        let inputs: Vec<_> = operator.inputs.iter().map(|index| index.map(|index| TensorId(index as u32))).collect();
        let facts: Vec<_> = inputs.iter().map(|id| id.map(|id| graph.fact(id))).collect();
        let outputs = ids(&operator.outputs);
        let made: Vec<_> = outputs.iter().map(|id| graph.fact(*id)).collect();
        let parsed = parse(&callees, resolver, (subgraph, index), &declared);
        let (op, inferred) = match parsed.and_then(|op| Ok((op.clone(), checked(&*op, &facts, &declared, &made)?))) {
            Ok(parsed) => parsed,
            Err(error) => {
                let (name, reason) = (operator.code.name(), error.to_string());
                if matches!(error, OpError::Invalid(_)) {
                    errors.push(ImportError { subgraph, operator: index, name: name.clone(), error });
                }
                let outputs = stated(declared);
                (Arc::new(UnresolvedOperator { name, reason, outputs: outputs.clone() }) as Arc<dyn Op>, outputs)
            }
        };
        for (id, inferred) in outputs.iter().zip(inferred) {
            let fact = &mut graph.tensors[id.index()].fact;
            (fact.data_type, fact.shape) = (inferred.data_type, inferred.shape);
        }
        if let (Some(VariableUse::Handle { container, name }), [handle]) = (op.variable_use(), &outputs[..]) {
            let held = callees.held.get(container, name).cloned();
            graph.tensors[handle.index()].fact.held = held;
        }
        graph.nodes.push(Node { op, inputs, outputs, origins: vec![index], inlined: None });
    }
    (graph, errors)
}

/// Returns what the file states about a tensor. Extents that the file leaves open are 1. The constants of
/// sparse tensors are left out.
fn fact(tensor: &Tensor) -> Fact {
    Fact {
        data_type: tensor.data_type,
        shape: Some(tensor.shape.clone()),
        constant: tensor.constant.clone().filter(|_| !tensor.is_sparse),
        quantization: tensor.quantization.clone(),
        is_variable: tensor.is_variable,
        held: None,
    }
}

fn declared_outputs(source: &Subgraph, operator: &Operator) -> Vec<Inferred> {
    let tensors = operator.outputs.iter().map(|index| &source.tensors[*index]);
    tensors.map(|tensor| Inferred::new(tensor.data_type, tensor.shape.clone())).collect()
}

/// Returns the outputs as stated by the file, for an operator that cannot infer them. Files encode an unknown
/// shape as an empty one, like that of a scalar, so shapes of rank 0 become unknown.
fn stated(declared: Vec<Inferred>) -> Vec<Inferred> {
    let shape = |inferred: &Inferred| inferred.shape.clone().filter(|shape| shape.rank() > 0);
    declared.into_iter().map(|inferred| Inferred { shape: shape(&inferred), ..inferred }).collect()
}

fn parse(
    callees: &Callees,
    resolver: &OpResolver,
    (subgraph, index): (usize, usize),
    declared: &[Inferred],
) -> Result<Arc<dyn Op>, OpError> {
    let model = callees.model();
    let source = &model.subgraphs()[subgraph];
    let operator = &source.operators[index];
    let code = &operator.code;
    let definition: Option<&Definition> = definitions().find(|definition| definition.is(code));
    check_storage(source, operator, definition)?;
    let options = model.operator_view(subgraph, index);
    let intermediates = operator.intermediates.iter().map(|index| &source.tensors[*index]);
    let intermediates = intermediates.map(|tensor| (tensor.data_type, tensor.quantization.clone())).collect();
    let (outputs, tensors) = (declared.to_vec(), &source.tensors[..]);
    let declaration = Declaration { operator, options, outputs, tensors, intermediates, callees };
    if let Some(registered) = resolver.op(&declaration) {
        return registered;
    }
    let missing = || match resolver.versions(code) {
        Some(versions) => other_version(code.version, versions, "are registered"),
        None => OpError::unsupported(NOT_IMPLEMENTED),
    };
    let definition = definition.ok_or_else(missing)?;
    if !definition.versions.contains(&code.version) {
        return Err(other_version(code.version, &definition.versions, "are"));
    }
    definition.op(&declaration)
}

/// Checks that the tensors of an operator are stored as its definition takes them, if it has one: all elements one after the
/// other, with no other quantization than by scales and zero points, or by blocks where it takes those.
fn check_storage(source: &Subgraph, operator: &Operator, definition: Option<&Definition>) -> Result<(), OpError> {
    let inputs = operator.inputs.iter().enumerate().filter_map(|(index, tensor)| Some((Some(index), (*tensor)?)));
    for (input, tensor) in inputs.chain(operator.outputs.iter().map(|tensor| (None, *tensor))) {
        let tensor = &source.tensors[tensor];
        if tensor.is_sparse {
            return Err(OpError::unsupported(format!("tensor \"{}\" is sparse", tensor.name)));
        }
        let takes_blocks = || input.zip(definition).is_some_and(|(input, definition)| definition.takes_blocks(input));
        let is_taken = match tensor.quantization_details {
            QuantizationDetails::None => true,
            QuantizationDetails::Blockwise { .. } => takes_blocks(),
            _ => false,
        };
        if !is_taken {
            let kind = tensor.quantization_details.name();
            return Err(OpError::unsupported(format!("tensor \"{}\" has {kind} quantization", tensor.name)));
        }
    }
    Ok(())
}

/// Returns the error for a version that is not among `versions`, which `are` implemented or registered.
fn other_version(version: i32, versions: &RangeInclusive<i32>, are: &str) -> OpError {
    let (low, high) = (versions.start(), versions.end());
    OpError::unsupported(format!("version {version} is not implemented (versions {low} to {high} {are})"))
}

/// Infers the outputs and checks that they agree with the file in number and type, that their element counts
/// do not overflow, and that the operator accepts the quantization parameters of its inputs and outputs.
fn checked(
    op: &dyn Op,
    inputs: &[Option<&Fact>],
    declared: &[Inferred],
    outputs: &[&Fact],
) -> Result<Vec<Inferred>, OpError> {
    let inferred = op.infer(inputs)?;
    if inferred.len() != declared.len() {
        return Err(OpError::invalid(format!("{} outputs; it has {}", declared.len(), inferred.len())));
    }
    for (index, (made, stated)) in inferred.iter().zip(declared).enumerate() {
        if made.data_type != stated.data_type && !op.sets_types() {
            let (made, stated): (DataType, DataType) = (made.data_type, stated.data_type);
            return Err(OpError::invalid(format!("output {index} is of type {stated}; it makes {made}")));
        }
        if made.shape.as_ref().is_some_and(|shape| shape.checked_elements().is_none()) {
            return Err(OpError::invalid(format!("output {index} has too many elements")));
        }
    }
    op.check_scales(inputs, outputs)?;
    Ok(inferred)
}

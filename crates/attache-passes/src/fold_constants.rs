//! The rule `fold_constants`: nodes whose inputs are all constant are computed once, by their CPU
//! implementation, and their outputs become constants. So do outputs that depend only on known shapes.

use std::collections::HashMap;
use std::sync::Arc;

use attache_base::{AlignedBuffer, Bytes, Constant, DataType, Serial, Shape};
use attache_graph::{
    Cache, Eval, Fact, Graph, Host, Inferred, Node, OpError, PassedTensor, TensorId, TensorMut, TensorRef,
};

use crate::{FoldedConstants, Found, Rule, has_side_effects, visits};

pub(crate) const RULE: Rule = Rule { name: "fold_constants", fate: "constant", find };

/// Outputs of a node that take at most this many bytes together may be folded whatever the size of the
/// inputs.
const SMALL: usize = 1 << 20;
/// Larger outputs are folded only if they take at most this many times the bytes of the inputs. Operators
/// that expand a few elements into many are computed in each run, because their folded outputs would fill
/// memory.
const GROWTH: usize = 8;

/// The size in bytes from which on outputs are stored and taken from what is stored. Smaller ones are computed sooner.
const STORED: usize = 1 << 16;

/// Maximum size in bytes of the strings that a node that is folded reads.
const MOST_STRINGS: usize = 4 << 10;

/// Maximum working memory in bytes (packed weights and scratch) of a node that is folded. A node that needs
/// more runs in each run, under the limits of the interpreter.
const MOST_WORKING: u64 = 256 << 20;

/// Maximum size in bytes of all constants of the graph together after a node is folded: in a chain, every
/// output may be larger than the one before. The limit does not apply to values that depend only on shapes,
/// nor to reshapes, which share the bytes of their input.
const MOST: u64 = 8 << 30;

fn find(graph: &Graph, stored: &dyn FoldedConstants) -> Found {
    let mut found = Found::default();
    let mut known = Known { graph, learnt: HashMap::new() };
    let constants = graph.tensors.iter().filter_map(|tensor| tensor.fact.constant.as_ref());
    let mut total: u64 = constants.map(size).fold(0, u64::saturating_add);
    for (id, node) in visits::nodes(graph) {
        known.refresh(node);
        if let (Some(value), [output]) = (node.op.value_of_shapes(&known.inputs(node)), &node.outputs[..]) {
            total = total.saturating_add(size(&value));
            known.learn(*output, value);
            found.patch.remove.push(id);
            continue;
        }
        let Some(facts) = known.constant_inputs(node) else { continue };
        match fold(graph, node, &facts, MOST.saturating_sub(total), stored) {
            Ok(outputs) => {
                total = outputs.iter().map(size).fold(total, u64::saturating_add);
                node.outputs.iter().zip(outputs).for_each(|(output, value)| known.learn(*output, value));
                found.patch.remove.push(id);
            }
            Err(reason) => found.declined.push((id, reason)),
        }
    }
    // In the order of the nodes, so that patches and logs are the same in every process.
    let outputs = found.patch.remove.iter().flat_map(|id| &graph.node(*id).outputs);
    found.patch.constants = outputs.filter_map(|id| Some((*id, known.learnt.remove(id)?.constant?))).collect();
    found
}

fn size(constant: &Constant) -> u64 {
    constant.data_type.byte_size(constant.shape.elements()).unwrap_or(0) as u64
}

/// Facts of the graph, overlaid with facts that follow from the values folded so far in the same walk over
/// the nodes. Without the overlay, each walk would fold only one node of a chain of shape computations.
struct Known<'a> {
    graph: &'a Graph,
    learnt: HashMap<TensorId, Fact>,
}

impl Known<'_> {
    fn fact(&self, id: TensorId) -> &Fact {
        self.learnt.get(&id).unwrap_or_else(|| self.graph.fact(id))
    }

    fn inputs(&self, node: &Node) -> Vec<Option<&Fact>> {
        node.inputs.iter().map(|id| id.map(|id| self.fact(id))).collect()
    }

    fn learn(&mut self, id: TensorId, value: Constant) {
        let shape = Some(value.shape.clone());
        self.learnt.insert(id, Fact { shape, constant: Some(value), ..self.graph.fact(id).clone() });
    }

    /// Infers the node's unknown output shapes, if one of its inputs has become known.
    fn refresh(&mut self, node: &Node) {
        let is_learnt = |id: &TensorId| self.learnt.contains_key(id);
        let is_open = node.outputs.iter().any(|id| self.graph.fact(*id).shape.is_none());
        if !is_open || !node.inputs.iter().flatten().any(is_learnt) {
            return;
        }
        let Ok(inferred) = node.op.infer(&self.inputs(node)) else { return };
        for (id, inferred) in node.outputs.iter().zip(inferred) {
            let shape = inferred.shape.filter(|shape| shape.checked_elements().is_some());
            self.learnt.insert(*id, Fact { shape, ..self.graph.fact(*id).clone() });
        }
    }

    /// Returns the facts of the node's inputs if there is at least one, all are constant, and the node has no
    /// side effects; `None` otherwise.
    fn constant_inputs(&self, node: &Node) -> Option<Vec<Option<Fact>>> {
        let is_constant = |id: &TensorId| self.fact(*id).constant.is_some();
        let has_values = node.inputs.iter().any(Option::is_some) && node.inputs.iter().flatten().all(is_constant);
        // What operators do with strings takes as long as these are, which shapes do not tell.
        let constants = node.inputs.iter().flatten().filter_map(|id| self.fact(*id).constant.as_ref());
        let strings = constants.filter(|constant| constant.data_type == DataType::String);
        let has_long = strings.map(|constant| constant.bytes.len()).sum::<usize>() > MOST_STRINGS;
        if !has_values || has_long || has_side_effects(self.graph, node) {
            return None;
        }
        let fact = |id: &TensorId| {
            let fact = self.fact(*id).clone();
            Fact { shape: fact.constant.as_ref().map(|constant| constant.shape.clone()), ..fact }
        };
        Some(node.inputs.iter().map(|id| id.as_ref().map(fact)).collect())
    }
}

/// Computes the outputs of a node with the constant inputs `inputs`. Fails with the reason if the node is not
/// folded, for example because the outputs take more than `room` bytes.
pub(crate) fn fold(
    graph: &Graph,
    node: &Node,
    inputs: &[Option<Fact>],
    room: u64,
    stored: &dyn FoldedConstants,
) -> Result<Vec<Constant>, String> {
    if node.op.missing().is_some() {
        return Err("it is not implemented".into());
    }
    let facts: Vec<_> = inputs.iter().map(Option::as_ref).collect();
    let inferred = node.op.infer(&facts).map_err(|error| error.to_string())?;
    let shapes: Option<Vec<Shape>> = inferred.iter().map(|inferred| inferred.shape.clone()).collect();
    let shapes = shapes.ok_or("its shape isn't known even with its inputs' values")?;
    let sizes = sizes(&inferred, inputs)?;
    if node.op.is_reshape()
        && let ([shape], Some(Some(Fact { constant: Some(constant), .. }))) = (&shapes[..], inputs.first())
    {
        return Ok(vec![Constant { shape: shape.clone(), ..constant.clone() }]);
    }
    if sizes.iter().fold(0, |sum: u64, size| sum.saturating_add(*size as u64)) > room {
        return Err(format!("all constants together would take more than {MOST} bytes"));
    }
    let working = node.op.working_memory(&facts, &shapes.iter().collect::<Vec<_>>()).total();
    if working > MOST_WORKING {
        return Err(format!("it would take {working} bytes for packed weights and scratch"));
    }
    let is_large = sizes.iter().any(|size| *size >= STORED);
    let outputs = match is_large.then(|| stored.find(node, inputs, &sizes)).flatten() {
        Some(outputs) => outputs,
        None => {
            let outputs = evaluate(graph, node, &facts, &shapes, &sizes)?;
            if is_large {
                stored.made(node, inputs, &outputs);
            }
            outputs
        }
    };
    let constants = outputs.into_iter().zip(inferred).zip(shapes);
    Ok(constants.map(|((bytes, inferred), shape)| Constant { data_type: inferred.data_type, shape, bytes }).collect())
}

/// Returns the size of each output in bytes. Fails with the reason if the outputs are too large by [`SMALL`]
/// and [`GROWTH`], or if elements have no fixed size.
fn sizes(outputs: &[Inferred], inputs: &[Option<Fact>]) -> Result<Vec<usize>, String> {
    let read: usize = inputs.iter().flatten().filter_map(Fact::byte_size).fold(0, usize::saturating_add);
    let limit = read.saturating_mul(GROWTH).max(SMALL);
    let size = |inferred: &Inferred| {
        let elements = inferred.shape.as_ref()?.checked_elements()?;
        inferred.data_type.byte_size(elements)
    };
    let sizes: Vec<usize> =
        outputs.iter().map(size).collect::<Option<_>>().ok_or("its elements have no fixed size".to_owned())?;
    let total = sizes.iter().fold(0usize, |total, size| total.saturating_add(*size));
    if total > limit {
        return Err(format!("it would make {total} bytes out of {read}"));
    }
    Ok(sizes)
}

/// Computes the outputs, of these sizes in bytes, of a node with constant inputs.
fn evaluate(
    graph: &Graph,
    node: &Node,
    facts: &[Option<&Fact>],
    shapes: &[Shape],
    sizes: &[usize],
) -> Result<Vec<Bytes>, String> {
    let mut buffers = Vec::with_capacity(sizes.len());
    for size in sizes {
        buffers.push(AlignedBuffer::zeroed(*size).map_err(|error| error.to_string())?);
    }
    evaluate_into(graph, node, facts, shapes, &mut buffers).map_err(|error| error.to_string())?;
    Ok(buffers.into_iter().map(|buffer| Bytes::new(Arc::new(buffer))).collect())
}

fn evaluate_into(
    graph: &Graph,
    node: &Node,
    facts: &[Option<&Fact>],
    shapes: &[Shape],
    buffers: &mut [AlignedBuffer],
) -> Result<(), OpError> {
    let bytes = facts.iter().map(|fact| fact.map(aligned).transpose()).collect::<Result<Vec<_>, _>>()?;
    let mut inputs = Vec::with_capacity(facts.len());
    for (fact, bytes) in facts.iter().zip(&bytes) {
        inputs.push(match (fact, bytes) {
            (Some(Fact { data_type, shape: Some(shape), quantization, .. }), Some(bytes)) => Some(TensorRef {
                data_type: *data_type,
                shape,
                bytes,
                quantization: quantization.as_ref(),
                is_constant: true,
            }),
            _ => None,
        });
    }
    let outputs = buffers.iter_mut().zip(shapes).zip(&node.outputs);
    let outputs = outputs.map(|((bytes, shape), id)| {
        let Fact { data_type, quantization, .. } = graph.fact(*id);
        TensorMut { data_type: *data_type, shape, bytes, quantization: quantization.as_ref() }
    });
    let (outputs, mut cache, mut host) = (outputs.collect(), Cache::default(), NoHost);
    node.op.eval(&mut Eval { inputs, outputs, cache: &mut cache, parallel: &Serial, host: &mut host })
}

/// Returns the bytes of a constant tensor, exactly as many as its shape needs; copied only if they are not
/// aligned.
fn aligned(fact: &Fact) -> Result<Bytes, OpError> {
    let bytes = fact.constant.as_ref().and_then(Constant::aligned_bytes);
    bytes.ok_or_else(|| OpError::unsupported("a constant's bytes can't be read as they are"))
}

/// The host of operators that are evaluated by constant folding. It has no interpreter, so every service
/// fails.
struct NoHost;

impl Host for NoHost {
    fn run_subgraph(&mut self, _: usize, _: Vec<PassedTensor>) -> Result<Vec<PassedTensor>, OpError> {
        Err(OpError::unsupported("it runs a subgraph"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NothingFolded;
    use crate::testing::{Double, fact, graph};

    fn values(graph: &Graph, id: TensorId) -> Vec<f32> {
        graph.fact(id).constant.as_ref().unwrap().values::<f32>().unwrap().to_vec()
    }

    #[test]
    fn a_chain_of_constants_becomes_one() {
        let mut graph = graph(3);
        let c = graph.add_tensor("c", Fact::constant(Constant::from_values([3], &[1.0f32, 2.0, 3.0])));
        let (d, y) = (graph.add_tensor("d", fact(3)), graph.outputs[0]);
        graph.nodes = vec![Double::node(c, d, 0), Double::node(d, y, 1)];
        let log = crate::run(&mut graph);
        assert!(graph.nodes.is_empty());
        assert_eq!(values(&graph, y), [4.0, 8.0, 12.0]);
        assert_eq!(log.removed.iter().map(|removal| removal.origins[0]).collect::<Vec<_>>(), [0, 1]);
        assert!(log.removed.iter().all(|removal| removal.fate == "constant"));
    }

    #[test]
    fn what_blows_up_is_declined() {
        let mut graph = graph(3);
        let c = graph.add_tensor("c", Fact::constant(Constant::from_values([1], &[1.0f32])));
        let y = graph.outputs[0];
        graph.nodes = vec![Double::growing(c, y, 0, 1 << 30)];
        graph.tensors[y.index()].fact.shape = Some([1 << 30].into());
        let log = crate::run(&mut graph);
        assert_eq!(graph.nodes.len(), 1);
        assert_eq!(log.declined[0].reason, "it would make 4294967296 bytes out of 4");
    }

    #[test]
    fn chains_do_not_grow_without_bound() {
        let mut graph = graph(3);
        let c = graph.add_tensor("c", Fact::constant(Constant::from_values([1], &[1.0f32])));
        let y = graph.outputs[0];
        graph.nodes = vec![Double::node(c, y, 0)];
        let known = Known { graph: &graph, learnt: HashMap::new() };
        let facts = known.constant_inputs(&graph.nodes[0]).unwrap();
        assert_eq!(fold(&graph, &graph.nodes[0], &facts, 4, &NothingFolded).unwrap().len(), 1);
        assert!(fold(&graph, &graph.nodes[0], &facts, 3, &NothingFolded).unwrap_err().contains("together"));
    }

    #[test]
    fn unaligned_constants_are_read() {
        let mut graph = graph(1);
        let bytes: Vec<u8> = [0].into_iter().chain(1.5f32.to_le_bytes()).collect();
        let bytes = Bytes::from_vec(bytes).slice(1..5).unwrap();
        let constant = Constant { data_type: attache_base::DataType::Float32, shape: [1].into(), bytes };
        let (c, y) = (graph.add_tensor("c", Fact::constant(constant)), graph.outputs[0]);
        graph.nodes = vec![Double::node(c, y, 0)];
        crate::run(&mut graph);
        assert_eq!(values(&graph, y), [3.0]);
    }
}

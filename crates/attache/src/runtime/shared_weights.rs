//! The constants and packed weights that the preparations of a model have in common ([`SharedWeights`]): those of its
//! subgraphs, of other input shapes, and of all interpreters.

use std::collections::HashMap;
use std::sync::Arc;

use attache_base::{Bytes, Constant, DataType, Quantization};
use attache_graph::{Fact, Graph, Node, SharedCache, TensorId};
use attache_passes::{FoldedConstants, NothingFolded};

use crate::cache::PackedWeights;

/// Constants and packed weights, for as long as something uses them.
#[derive(Default)]
pub(crate) struct SharedWeights {
    /// The bytes of each constant in the last preparation, by subgraph and tensor: a part of the model file, or a copy
    /// if the constant was folded or is not aligned there. Small ones count as well, since packed weights are found by
    /// the addresses of all constants of their node.
    constants: HashMap<(usize, TensorId), Bytes>,
    caches: HashMap<NodeKey, (Arc<SharedCache>, Vec<Bytes>)>,
    /// The packed weights that were stored.
    stored: Option<Arc<dyn PackedWeights>>,
}

/// Everything on which the packed weights of a node may depend, apart from shapes.
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct NodeKey {
    operator: String,
    attributes: Attributes,
    /// Address and length of each constant input; `None` for other inputs.
    constants: Vec<Option<(usize, usize)>>,
    /// The types of all inputs and outputs, and their quantization parameters with the bits of the scales.
    types: Vec<Option<(DataType, QuantizationKey)>>,
}

/// The attributes of an operator.
#[derive(PartialEq, Eq, Hash)]
enum Attributes {
    Known(String),
    /// Those of the operator at this place in the file, which of a called subgraph may be several nodes.
    OfPlace(Option<(usize, usize)>),
}

/// Bits of the scales, zero points and axis.
type QuantizationKey = Option<(Vec<u32>, Vec<i64>, usize)>;

impl SharedWeights {
    /// Creates an empty collection that looks for packed weights among stored ones.
    pub(crate) fn new(stored: Option<Arc<dyn PackedWeights>>) -> Self {
        Self { stored, ..Self::default() }
    }

    /// Replaces constants of the graph of a subgraph by equal ones of an earlier preparation, and aligns the others,
    /// so that executors need not copy them.
    pub(crate) fn share_constants(&mut self, graph: &mut Graph, subgraph: usize) {
        for (index, tensor) in graph.tensors.iter_mut().enumerate() {
            let Some(constant) = &mut tensor.fact.constant else { continue };
            let key = (subgraph, TensorId(index as u32));
            let is_same = |known: &&Bytes| {
                let is_one =
                    std::ptr::eq(known.as_ptr(), constant.bytes.as_ptr()) && known.len() == constant.bytes.len();
                is_one || known[..] == constant.bytes[..]
            };
            if let Some(known) = self.constants.get(&key).filter(is_same) {
                constant.bytes = known.clone();
                continue;
            }
            if let Some(aligned) = Constant::aligned_bytes(constant) {
                constant.bytes = aligned;
            }
            self.constants.insert(key, constant.bytes.clone());
        }
    }

    /// Returns the constants of a subgraph that were folded and stored.
    pub(crate) fn folded(&self, subgraph: usize) -> Box<dyn FoldedConstants> {
        self.stored.clone().map_or_else(|| Box::new(NothingFolded) as _, |stored| stored.folded(subgraph))
    }

    /// Returns the cache for the packed weights of a node.
    pub(crate) fn cache(&mut self, graph: &Graph, subgraph: usize, node: &Node) -> Arc<SharedCache> {
        let key = NodeKey::of(graph, subgraph, node);
        // The bytes are kept, so that their addresses stay theirs.
        let bytes = || constants(graph, node).flatten().map(|constant| constant.bytes.clone()).collect();
        let stored = || self.stored.clone().map(|stored| stored.of_node(graph, subgraph, node));
        let (cache, _) = self.caches.entry(key).or_insert_with(|| (Arc::new(SharedCache::new(stored())), bytes()));
        cache.clone()
    }

    /// Frees the packed weights that no preparation uses any more.
    pub(crate) fn free_unused(&mut self) {
        self.caches.retain(|_, (cache, _)| Arc::strong_count(cache) > 1);
    }
}

/// Returns the constant of each input of a node; `None` for other inputs.
fn constants<'a>(graph: &'a Graph, node: &'a Node) -> impl Iterator<Item = Option<&'a Constant>> {
    node.inputs.iter().map(|id| id.as_ref().and_then(|id| graph.fact(*id).constant.as_ref()))
}

impl NodeKey {
    /// Returns the key of a node, whose constants stay where they are as long as the key is used.
    pub(crate) fn of(graph: &Graph, subgraph: usize, node: &Node) -> Self {
        let inputs = node.inputs.iter().map(|id| id.as_ref().map(|id| graph.fact(*id)));
        let facts = inputs.chain(node.outputs.iter().map(|id| Some(graph.fact(*id))));
        // Without constants there is little to share.
        let attributes = constants(graph, node).flatten().next().and_then(|_| node.op.attributes());
        let place = || Attributes::OfPlace(node.place(subgraph));
        let address = |constant: &Constant| (constant.bytes.as_ptr().addr(), constant.bytes.len());
        let described = |fact: &Fact| (fact.data_type, fact.quantization.as_ref().map(quantization_key));
        Self {
            operator: node.op.name().to_owned(),
            attributes: attributes.map_or_else(place, Attributes::Known),
            constants: constants(graph, node).map(|constant| constant.map(address)).collect(),
            types: facts.map(|fact| fact.map(described)).collect(),
        }
    }
}

fn quantization_key(quantization: &Quantization) -> (Vec<u32>, Vec<i64>, usize) {
    let scales = quantization.scale.iter().map(|scale| scale.to_bits()).collect();
    (scales, quantization.zero_point.clone(), quantization.axis)
}

#[cfg(test)]
mod tests {
    use attache_graph::{Eval, Inferred, Lowering, NodeId, Op, OpError, UnresolvedOperator, Unsupported};

    use super::*;

    /// An operator with one attribute.
    #[derive(Debug)]
    struct Scaled(#[expect(dead_code, reason = "the text has it")] f32);

    impl Op for Scaled {
        fn name(&self) -> &'static str {
            "SCALED"
        }

        fn attributes(&self) -> Option<String> {
            Some(format!("{self:?}"))
        }

        fn infer(&self, _: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError> {
            Ok(Vec::new())
        }

        fn eval(&self, _: &mut Eval<'_>) -> Result<(), OpError> {
            Ok(())
        }

        fn lower(&self, _: &mut Lowering<'_>) -> Result<(), Unsupported> {
            Err(Unsupported::new("it is a test"))
        }
    }

    /// Returns a graph with one node that has two constant inputs, one of them small.
    fn graph(bias: f32) -> Graph {
        let mut graph = Graph::default();
        let weights = graph.add_tensor("weights", Fact::constant(Constant::from_values([512], &[1.0f32; 512])));
        let bias = graph.add_tensor("bias", Fact::constant(Constant::from_values([1], &[bias])));
        let (name, reason) = ("TEST".to_owned(), String::new());
        let op = Arc::new(UnresolvedOperator { name, reason, outputs: Vec::new() });
        let inputs = vec![Some(weights), Some(bias)];
        graph.nodes = vec![Node { op, inputs, outputs: Vec::new(), origins: vec![0], inlined: None }];
        graph
    }

    #[test]
    fn nodes_with_equal_constants_have_one_cache() {
        let mut shared = SharedWeights::default();
        let mut cache = |bias: f32| {
            let mut graph = graph(bias);
            shared.share_constants(&mut graph, 0);
            shared.cache(&graph, 0, graph.node(NodeId(0)))
        };
        let (first, second, other) = (cache(1.0), cache(1.0), cache(2.0));
        assert!(Arc::ptr_eq(&first, &second), "equal constants of another preparation");
        assert!(!Arc::ptr_eq(&first, &other), "another bias");
    }

    #[test]
    fn nodes_with_equal_attributes_and_constants_have_one_cache() {
        let mut graph = graph(1.0);
        let unknown = graph.node(NodeId(0)).clone();
        let scaled = |scale| Node { op: Arc::new(Scaled(scale)), ..unknown.clone() };
        let nodes = [unknown.clone(), unknown.clone(), scaled(1.0), scaled(1.0), scaled(2.0)];
        let nodes = nodes.into_iter().enumerate();
        graph.nodes = nodes.map(|(place, node)| Node { origins: vec![place], ..node }).collect();
        let mut shared = SharedWeights::default();
        shared.share_constants(&mut graph, 0);
        let caches: Vec<_> = graph.nodes.iter().map(|node| shared.cache(&graph, 0, node)).collect();
        assert!(!Arc::ptr_eq(&caches[0], &caches[1]), "attributes that are not known");
        assert!(Arc::ptr_eq(&caches[2], &caches[3]), "equal attributes at two places");
        assert!(!Arc::ptr_eq(&caches[3], &caches[4]), "another attribute");
    }
}

//! The cost of a node, computed from shapes alone: arithmetic operations and memory traffic.
//!
//! - **Operations**: two per multiply-add of a convolution, a matrix product or a recurrent layer. One per element read
//!   by the windows of a pooling. Zero if only the shape changes. Otherwise one per element of the largest tensor read
//!   or written.
//! - **Bytes**: all tensors read (including weights) and written, each counted once, in the data types of the graph.
//!
//! The cost is a property of the model. It ignores devices, caches and fusion.

use attache_base::Shape;
use attache_graph::{Graph, Node, Op, TensorId};

/// Arithmetic operations and memory traffic of one run of a node. Values that overflow saturate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cost {
    /// Number of arithmetic operations; `None` if a shape is known only at run time, or if the operator has
    /// side effects (for example runs other subgraphs) or is not implemented.
    pub operations: Option<u64>,
    /// Bytes of all tensors read and written, each counted once; `None` if a size is known only at run time.
    pub bytes: Option<u64>,
}

impl Cost {
    /// Computes the cost of `node` from the shapes and data types in `graph`.
    ///
    /// # Panics
    ///
    /// If `node` refers to tensors that are not in `graph`.
    #[must_use]
    pub fn of(graph: &Graph, node: &Node) -> Self {
        Self { operations: operations(graph, node), bytes: bytes(graph, node) }
    }

    /// Returns the arithmetic intensity in operations per byte; `None` if either number is unknown or there
    /// are no bytes.
    #[must_use]
    pub fn intensity(&self) -> Option<f64> {
        let bytes = self.bytes.filter(|bytes| *bytes > 0)?;
        Some(self.operations? as f64 / bytes as f64)
    }
}

/// Returns the number of elements of the largest tensor among `inputs` and `outputs`; 0 if there are none.
pub(crate) fn largest(inputs: &[Option<&Shape>], outputs: &[&Shape]) -> u64 {
    let elements = |shape: &Shape| shape.checked_elements().map_or(u64::MAX, |elements| elements as u64);
    inputs.iter().flatten().chain(outputs).map(|shape| elements(shape)).max().unwrap_or(0)
}

fn operations(graph: &Graph, node: &Node) -> Option<u64> {
    let op: &dyn Op = &*node.op;
    // An operator with side effects may run other subgraphs, whose cost is not known here.
    if op.missing().is_some() || op.has_side_effects() {
        return None;
    }
    let shape = |id: &TensorId| graph.fact(*id).shape.as_ref();
    let mut inputs = Vec::with_capacity(node.inputs.len());
    for id in &node.inputs {
        inputs.push(id.as_ref().map(|id| shape(id).ok_or(())).transpose().ok()?);
    }
    let outputs: Vec<&Shape> = node.outputs.iter().map(shape).collect::<Option<_>>()?;
    if op.is_reshape() {
        return Some(0);
    }
    Some(op.operations(&inputs, &outputs).unwrap_or_else(|| largest(&inputs, &outputs)))
}

fn bytes(graph: &Graph, node: &Node) -> Option<u64> {
    let mut tensors: Vec<TensorId> = node.inputs.iter().flatten().chain(&node.outputs).copied().collect();
    tensors.sort_unstable();
    tensors.dedup();
    let sizes = tensors.iter().map(|id| graph.fact(*id).byte_size());
    sizes.map(|size| size.map(|size| size as u64)).try_fold(0, |sum: u64, size| Some(sum.saturating_add(size?)))
}

#[cfg(test)]
mod tests {
    use attache_base::DataType;
    use attache_model::schema::{self, BuiltinOperator};
    use attache_model::{Model, ModelBuilder, OperatorBuilder, TensorBuilder};

    use super::*;

    /// Computes the cost of a single f32 operator with inputs of shapes `inputs` and an output of shape
    /// `output`.
    fn cost(operator: OperatorBuilder, inputs: &[&[usize]], output: &[usize]) -> Cost {
        let mut builder = ModelBuilder::new("cost");
        let main = builder.subgraph("main");
        let mut tensor = |shape: &[usize]| builder.tensor(main, TensorBuilder::new("", DataType::Float32, shape));
        let inputs: Vec<_> = inputs.iter().map(|shape| tensor(shape)).collect();
        let output = tensor(output);
        builder.operator(main, operator);
        builder.inputs(main, &inputs).outputs(main, &[output]);
        let model = Model::from_bytes(builder.finish()).unwrap();
        let graph =
            crate::runtime::import(&model, 0, &[], crate::runtime::PrepareMode::First, &Default::default()).unwrap();
        Cost::of(&graph, &graph.nodes[0])
    }

    #[test]
    fn a_product_counts_two_for_each_multiply_add() {
        let options = schema::FullyConnectedOptionsT { keep_num_dims: true, ..Default::default() };
        let operator = OperatorBuilder::new(BuiltinOperator::FULLY_CONNECTED, [0, 1], [2]);
        let operator = operator.options(schema::BuiltinOptionsT::FullyConnectedOptions(Box::new(options)));
        let cost = cost(operator, &[&[2, 3], &[5, 3]], &[2, 5]);
        assert_eq!((cost.operations, cost.bytes), (Some(2 * 2 * 3 * 5), Some(4 * (6 + 15 + 10))));
        assert_eq!(cost.intensity(), Some(60.0 / 124.0));
    }

    #[test]
    fn elements_are_counted_once_and_reshapes_are_free() {
        let squared = OperatorBuilder::new(BuiltinOperator::SQUARED_DIFFERENCE, [0, 0], [1]);
        assert_eq!(cost(squared, &[&[4, 3]], &[4, 3]), Cost { operations: Some(12), bytes: Some(2 * 48) });
        let squeeze = OperatorBuilder::new(BuiltinOperator::SQUEEZE, [0], [1]);
        assert_eq!(cost(squeeze, &[&[1, 3]], &[3]), Cost { operations: Some(0), bytes: Some(24) });
    }

    #[test]
    fn what_is_not_known_is_not_nought() {
        let custom = OperatorBuilder::custom("NoSuchOperator", [], [0], [1]);
        assert_eq!(cost(custom, &[&[2]], &[]), Cost { operations: None, bytes: None });
    }
}

//! A graph and an operator to try rules on.

use std::sync::Arc;

use attache_base::DataType;
use attache_graph::{Eval, Fact, Graph, Inferred, Node, Op, OpError, TensorId};

/// Twice its input, repeated until it has `elements` elements where that is stated.
#[derive(Debug)]
pub(crate) struct Double {
    elements: Option<usize>,
}

impl Double {
    pub(crate) fn node(input: TensorId, output: TensorId, origin: usize) -> Node {
        let op = Arc::new(Double { elements: None });
        Node { op, inputs: vec![Some(input)], outputs: vec![output], origins: vec![origin] }
    }

    pub(crate) fn growing(input: TensorId, output: TensorId, origin: usize, elements: usize) -> Node {
        Node { op: Arc::new(Double { elements: Some(elements) }), ..Self::node(input, output, origin) }
    }
}

impl Op for Double {
    fn name(&self) -> &str {
        "Double"
    }

    fn infer(&self, inputs: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError> {
        let input = inputs[0].and_then(|fact| fact.shape.clone());
        let shape = self.elements.map(|elements| [elements].into()).or(input);
        Ok(vec![Inferred { data_type: DataType::Float32, shape }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let input = eval.input(0)?.values::<f32>()?;
        let output = eval.outputs[0].values::<f32>()?;
        output.iter_mut().zip(input.iter().cycle()).for_each(|(output, input)| *output = input * 2.0);
        Ok(())
    }
}

/// A tensor of `extent` floats.
pub(crate) fn fact(extent: usize) -> Fact {
    Fact::new(DataType::Float32, [extent])
}

/// A graph of one input and one output of `extent` floats, without nodes.
pub(crate) fn graph(extent: usize) -> Graph {
    let mut graph = Graph::default();
    graph.inputs = vec![graph.add_tensor("x", fact(extent))];
    graph.outputs = vec![graph.add_tensor("y", fact(extent))];
    graph
}

//! A graph and operators for tests of rules.

use std::sync::Arc;

use attache_base::{Constant, DataType, Shape};
use attache_graph::{Conversion, Eval, Fact, Graph, Inferred, Node, Op, OpError, TensorId};

/// An operator that doubles its float input. If `elements` is set, the output has that many elements and
/// repeats the input.
#[derive(Debug)]
pub(crate) struct Double {
    elements: Option<usize>,
}

impl Double {
    pub(crate) fn node(input: TensorId, output: TensorId, origin: usize) -> Node {
        let op = Arc::new(Double { elements: None });
        Node { op, inputs: vec![Some(input)], outputs: vec![output], origins: vec![origin], inlined: None }
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

/// Returns the fact of a tensor of `extent` floats.
pub(crate) fn fact(extent: usize) -> Fact {
    Fact::new(DataType::Float32, [extent])
}

/// Builds a graph with one input and one output of `extent` floats each, without nodes.
pub(crate) fn graph(extent: usize) -> Graph {
    let mut graph = Graph::default();
    graph.inputs = vec![graph.add_tensor("x", fact(extent))];
    graph.outputs = vec![graph.add_tensor("y", fact(extent))];
    graph
}

/// An operator of which tests use only the inferred shapes and the conversion. Its `eval` computes nothing.
#[derive(Debug)]
pub(crate) enum Fake {
    /// A conversion to quantized elements or to floats.
    Convert(Conversion),
    /// Computes the extents of its input, like SHAPE.
    Extents,
    /// Reshapes its first input to the shape that the second input contains.
    Reshape,
}

impl Fake {
    pub(crate) fn node(self, inputs: &[TensorId], output: TensorId, origin: usize) -> Node {
        let inputs = inputs.iter().copied().map(Some).collect();
        Node { op: Arc::new(self), inputs, outputs: vec![output], origins: vec![origin], inlined: None }
    }
}

impl Op for Fake {
    fn name(&self) -> &str {
        "Fake"
    }

    fn infer(&self, inputs: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError> {
        let first = inputs[0].and_then(|fact| fact.shape.clone());
        let (data_type, shape) = match self {
            Fake::Convert(_) => (DataType::Int8, first),
            Fake::Extents => (DataType::Int32, first.map(|shape| [shape.rank()].into())),
            Fake::Reshape => {
                let values = inputs[1].and_then(|fact| fact.constant.as_ref()?.integers());
                (DataType::Float32, values.and_then(|values| Shape::from_signed(&values)))
            }
        };
        Ok(vec![Inferred { data_type, shape }])
    }

    fn eval(&self, _: &mut Eval<'_>) -> Result<(), OpError> {
        Ok(())
    }

    fn conversion(&self) -> Option<Conversion> {
        if let Fake::Convert(conversion) = self { Some(*conversion) } else { None }
    }

    fn value_of_shapes(&self, inputs: &[Option<&Fact>]) -> Option<Constant> {
        let shape = inputs[0]?.shape.as_ref().filter(|_| matches!(self, Fake::Extents))?;
        let extents: Vec<i32> = shape.iter().map(|extent| *extent as i32).collect();
        Some(Constant::from_values([extents.len()], &extents))
    }
}

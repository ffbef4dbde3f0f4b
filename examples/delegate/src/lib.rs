//! A delegate that runs sums of floats. It shows the whole interface, with what `attache` alone exports: which nodes
//! it claims, what it keeps of a partition, and how a kernel runs it. An accelerator's delegate would upload constants
//! in `prepare` and start the device in `invoke`; this one computes on the host.

use attache::graph::{Graph, TensorId, TensorMut, TensorRef, Unsupported};
use attache::model::schema::{ActivationFunctionType, BuiltinOperator};
use attache::{
    Claim, DataType, Delegate, DelegateError, DelegateKernel, NodeContext, Partition, Partitioning, PreparedPartition,
    Shape,
};

/// Runs `ADD` of tensors of one shape and type FLOAT32.
#[derive(Debug)]
pub struct SumDelegate;

impl Delegate for SumDelegate {
    fn name(&self) -> &str {
        "Sum"
    }

    fn partitioning(&self) -> Partitioning {
        Partitioning::default().max_delegated_partitions(4)
    }

    fn claim(&self, node: NodeContext<'_>) -> Result<Claim, Unsupported> {
        // The operator of the file: its code, its version, and the options in its table.
        let operator = node.operator().ok_or_else(|| Unsupported::new("it is of no operator of the file"))?;
        if (operator.code.builtin, operator.code.version) != (BuiltinOperator::ADD, 1) {
            return Err(Unsupported::new(format!("{} is no sum of version 1", operator.code.name())));
        }
        let options = node.options().and_then(|table| table.builtin_options_as_add_options());
        let activation = options.map_or(ActivationFunctionType::NONE, |options| options.fused_activation_function());
        if activation != ActivationFunctionType::NONE {
            return Err(Unsupported::new("its sum has an activation"));
        }
        // The tensors: their types, and their shapes where they are known before the run.
        let facts = [node.input(0), node.input(1), node.output(0)];
        let shape = |index: usize| facts[index].and_then(|fact| fact.shape.as_ref());
        let same = shape(0).is_some() && shape(0) == shape(1) && shape(0) == shape(2);
        if !same || facts.iter().flatten().any(|fact| fact.data_type != DataType::Float32) {
            return Err(Unsupported::new("it is no sum of two FLOAT32 tensors of one known shape"));
        }
        let ids = node.node();
        let terms = [ids.inputs[0], ids.inputs[1]].map(|id| id.expect("both inputs have facts"));
        Ok(Claim::new(Sum { terms, total: ids.outputs[0] }))
    }

    fn prepare(&self, partition: Partition<'_>) -> Result<Box<dyn PreparedPartition>, DelegateError> {
        let (graph, inputs, outputs) = (partition.graph, partition.inputs, partition.outputs);
        let claims = partition.nodes.into_iter().map(|(_, claim)| claim.downcast::<Sum>());
        let sums: Option<Vec<Sum>> = claims.map(|sum| sum.map(|sum| *sum)).collect();
        let sums = sums.ok_or_else(|| DelegateError::new("a claim is not one of this delegate"))?;
        let values = Values::of(graph, &sums);
        Ok(Box::new(SumPartition { sums, inputs, outputs, values }))
    }
}

/// What the delegate keeps of a node: the tensors that are added, and their sum.
#[derive(Clone, Copy)]
struct Sum {
    terms: [TensorId; 2],
    total: TensorId,
}

/// The elements of all tensors of a partition, by the index of the tensor in the graph.
#[derive(Clone)]
struct Values(Vec<Vec<f32>>);

impl Values {
    /// Returns the constants of the partition, and zeros for all other tensors.
    fn of(graph: &Graph, sums: &[Sum]) -> Self {
        let mut values = vec![Vec::new(); graph.tensors.len()];
        for id in sums.iter().flat_map(|sum| [sum.terms[0], sum.terms[1], sum.total]) {
            let fact = graph.fact(id);
            let constant = fact.constant.as_ref().and_then(|constant| constant.values::<f32>());
            values[id.index()] = match constant {
                Some(constant) => constant.into_owned(),
                None => vec![0.0; fact.shape.as_ref().map_or(0, Shape::elements)],
            };
        }
        Self(values)
    }
}

/// A partition that is ready to run; all interpreters of a compiled model have it in common.
struct SumPartition {
    sums: Vec<Sum>,
    inputs: Vec<TensorId>,
    outputs: Vec<TensorId>,
    values: Values,
}

impl PreparedPartition for SumPartition {
    fn kernel(&self) -> Result<Box<dyn DelegateKernel>, DelegateError> {
        let (inputs, outputs) = (self.inputs.clone(), self.outputs.clone());
        Ok(Box::new(SumKernel { sums: self.sums.clone(), inputs, outputs, values: self.values.clone() }))
    }
}

/// The partition in one interpreter, with memory of its own.
struct SumKernel {
    sums: Vec<Sum>,
    inputs: Vec<TensorId>,
    outputs: Vec<TensorId>,
    values: Values,
}

impl DelegateKernel for SumKernel {
    fn invoke(&mut self, inputs: &[TensorRef<'_>], outputs: &mut [TensorMut<'_>]) -> Result<(), DelegateError> {
        let values = &mut self.values.0;
        for (id, input) in self.inputs.iter().zip(inputs) {
            values[id.index()].copy_from_slice(input.values::<f32>().map_err(failed)?);
        }
        for Sum { terms: [a, b], total } in &self.sums {
            let sum = values[a.index()].iter().zip(&values[b.index()]).map(|(a, b)| a + b).collect();
            values[total.index()] = sum;
        }
        for (id, output) in self.outputs.iter().zip(outputs) {
            output.values::<f32>().map_err(failed)?.copy_from_slice(&values[id.index()]);
        }
        Ok(())
    }
}

fn failed(error: attache::graph::OpError) -> DelegateError {
    DelegateError::new("a tensor is of another type than claimed").with_source(error)
}

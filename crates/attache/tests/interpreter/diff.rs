//! Tests of [`Trace`], which finds the differences between the CPU and a delegate, operator by operator. The
//! delegate is wrong on purpose.

use std::sync::Arc;

use attache::diff::{Tolerance, Trace, TraceInput};
use attache::graph::{
    Cache, Eval, Fact, Host, Node, OpError, PassedTensor, TensorId, TensorMut, TensorRef, Unsupported,
};
use attache::{
    Claim, Delegate, DelegateError, DelegateKernel, Model, NodeContext, Partition, PreparedPartition, Shape,
};

use crate::common::Net;

/// A delegate that computes all operators as the CPU does, except that it multiplies the outputs of one
/// operator of the model file by `by`.
struct Scaled {
    operator: Option<usize>,
    by: f32,
}

struct Kernel {
    nodes: Vec<(Node, f32)>,
    facts: Vec<Fact>,
    inputs: Vec<TensorId>,
    outputs: Vec<TensorId>,
}

impl Delegate for Scaled {
    fn name(&self) -> &str {
        "Scaled"
    }

    fn claim(&self, node: NodeContext<'_>) -> Result<Claim, Unsupported> {
        let node = node.node().clone();
        let by = if self.operator.is_some_and(|index| node.origins.contains(&index)) { self.by } else { 1.0 };
        Ok(Claim::new((node, by)))
    }

    fn prepare(&self, partition: Partition<'_>) -> Result<Box<dyn PreparedPartition>, DelegateError> {
        let nodes: Vec<_> =
            partition.nodes.into_iter().map(|(_, claim)| *claim.downcast::<(Node, f32)>().unwrap()).collect();
        let facts: Vec<_> = partition.graph.tensors.iter().map(|tensor| tensor.fact.clone()).collect();
        let (inputs, outputs) = (partition.inputs, partition.outputs);
        Ok(Box::new(move || -> Result<Box<dyn DelegateKernel>, DelegateError> {
            let (nodes, facts) = (nodes.clone(), facts.clone());
            Ok(Box::new(Kernel { nodes, facts, inputs: inputs.clone(), outputs: outputs.clone() }))
        }))
    }
}

struct Nobody;

impl Host for Nobody {
    fn run_subgraph(&mut self, _: usize, _: Vec<PassedTensor>) -> Result<Vec<PassedTensor>, OpError> {
        Err(OpError::unsupported("no subgraphs here"))
    }
}

impl Kernel {
    fn compute(&self, node: &Node, values: &[Vec<f32>]) -> Vec<f32> {
        let tensor = |id: &TensorId| {
            let fact = &self.facts[id.index()];
            let constant = fact.constant.as_ref().map(|constant| &constant.bytes[..]);
            TensorRef {
                data_type: fact.data_type,
                shape: fact.shape.as_ref().unwrap(),
                bytes: constant.unwrap_or(bytemuck::cast_slice(&values[id.index()])),
                quantization: None,
                is_constant: constant.is_some(),
            }
        };
        let inputs = node.inputs.iter().map(|id| id.as_ref().map(tensor)).collect();
        let fact = &self.facts[node.outputs[0].index()];
        let shape = fact.shape.as_ref().unwrap();
        let mut output = vec![0.0f32; shape.elements()];
        let bytes = bytemuck::cast_slice_mut(&mut output);
        let outputs = vec![TensorMut { data_type: fact.data_type, shape, bytes, quantization: None }];
        let (mut cache, parallel) = (Cache::default(), attache_base::Serial);
        let mut eval = Eval { inputs, outputs, cache: &mut cache, parallel: &parallel, host: &mut Nobody };
        node.op.eval(&mut eval).unwrap();
        output
    }
}

impl DelegateKernel for Kernel {
    fn invoke(&mut self, inputs: &[TensorRef<'_>], outputs: &mut [TensorMut<'_>]) -> Result<(), DelegateError> {
        let mut values = vec![Vec::new(); self.facts.len()];
        for (id, input) in self.inputs.iter().zip(inputs) {
            values[id.index()] = input.values::<f32>().unwrap().to_vec();
        }
        for (node, by) in &self.nodes {
            let made = self.compute(node, &values);
            values[node.outputs[0].index()] = made.into_iter().map(|value| value * by).collect();
        }
        for (id, output) in self.outputs.iter().zip(outputs) {
            output.values::<f32>().unwrap().copy_from_slice(&values[id.index()]);
        }
        Ok(())
    }
}

/// Builds a model of two branches that join: 0: a = x + x, 1: b = relu(x), 2: c = a + x, 3: d = relu(b), 4: y
/// = c × d, 5: z = y + x.
fn branches() -> Model {
    let mut net = Net::new();
    let x = net.tensor("x", &[2]);
    let a = net.add(x, x, &[2]);
    let b = net.relu(x, &[2]);
    let c = net.add(a, x, &[2]);
    let d = net.relu(b, &[2]);
    let y = net.multiply(c, d, &[2]);
    let z = net.add(y, x, &[2]);
    net.finish(&[x], &[z])
}

fn trace(model: &Model, x: &[f32]) -> Trace {
    let input = TraceInput { shape: Shape::from([x.len()]), bytes: bytemuck::cast_slice(x).to_vec() };
    Trace::new(model, 0, &[input], 1, &attache::Limits::default()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_trace_keeps_to_the_limits_of_its_caller() {
    let model = branches();
    let input = || TraceInput { shape: Shape::from([2]), bytes: vec![0; 8] };
    for (name, limits) in [
        ("operators", attache::Limits::default().operators(0)),
        ("multiply_adds", attache::Limits::default().multiply_adds(1)),
        ("arena_bytes", attache::Limits::default().arena_bytes(7)),
    ] {
        let error = Trace::new(&model, 0, &[input()], 1, &limits).expect_err("an error");
        assert!(error.to_string().contains(&format!("the limit {name} is")), "{error}");
    }
}

fn delegates(operator: Option<usize>) -> Vec<Arc<dyn Delegate>> {
    vec![Arc::new(Scaled { operator, by: 1.01 })]
}

#[test]
fn what_computes_alike_does_not_differ() {
    let trace = trace(&branches(), &[1.5, -2.0]);
    assert_eq!(trace.nodes(), 6);
    assert_eq!(trace.first_divergence(&delegates(None), &Tolerance::relative(0.0)).unwrap(), None);
    assert_eq!(trace.first_divergence(&[], &Tolerance::relative(0.0)).unwrap(), None);
    for node in 0..6 {
        let comparison = trace.compare_operator(node, &delegates(None)).unwrap();
        let differences = comparison.outcome.unwrap();
        assert_eq!((comparison.operator, differences.len()), (node, 1));
        assert!(differences[0].is_within(&Tolerance::relative(0.0)), "{node}");
        assert_eq!(trace.compare_operator(node, &[]).unwrap().outcome, Err("there is no delegate".into()));
    }
}

#[test]
fn a_fault_is_found_wherever_it_is() {
    let trace = trace(&branches(), &[1.5, 2.0]);
    for faulty in 0..6 {
        let delegates = delegates(Some(faulty));
        let divergence = trace.first_divergence(&delegates, &Tolerance::relative(1e-4)).unwrap().expect("a divergence");
        assert_eq!((divergence.node, divergence.operator), (faulty, faulty));
        let relative = divergence.difference.unwrap().relative();
        assert!((relative - 0.01).abs() < 1e-5, "{relative}");
        for node in 0..6 {
            let differences = trace.compare_operator(node, &delegates).unwrap().outcome.unwrap();
            assert_eq!(differences[0].is_within(&Tolerance::relative(1e-4)), node != faulty, "{faulty} {node}");
        }
    }
}

/// RELU turns negative inputs into 0, so that a fault before it does not show in later tensors.
#[test]
fn a_fault_that_fades_is_found() {
    let mut net = Net::new();
    let x = net.tensor("x", &[1]);
    let mut y = net.add(x, x, &[1]);
    for _ in 0..6 {
        y = net.relu(y, &[1]);
    }
    let trace = trace(&net.finish(&[x], &[y]), &[-1.0]);
    let divergence =
        trace.first_divergence(&delegates(Some(0)), &Tolerance::relative(1e-4)).unwrap().expect("a divergence");
    assert_eq!(divergence.operator, 0);
}

#[test]
fn a_case_runs_as_its_operator_did() {
    let mut net = Net::new();
    let x = net.tensor("x", &[2]);
    let constant = net.constant(&[3.0, -1.0]);
    let y = net.add(x, x, &[2]);
    let z = net.multiply(y, constant, &[2]);
    let trace = trace(&net.finish(&[x], &[z]), &[1.5, -2.0]);
    let case = trace.case(1).unwrap();
    assert_eq!((case.operator, case.name.as_str()), (1, "MUL"));
    let model = Model::from_bytes(case.model).unwrap();
    let mut interpreter = attache::Interpreter::builder(&model).threads(1).build().unwrap();
    let input: Vec<f32> = bytemuck::pod_collect_to_vec(&case.inputs[0].bytes);
    assert_eq!((case.inputs.len(), &input[..]), (1, &[3.0, -4.0][..]));
    interpreter.write(0, &input).unwrap();
    interpreter.invoke().unwrap();
    assert_eq!(interpreter.read::<f32>(0).unwrap(), [9.0, 4.0]);
    assert_eq!(bytemuck::pod_collect_to_vec::<u8, f32>(&case.outputs[0].bytes), [9.0, 4.0]);
    assert!(trace.case(2).is_err());
}

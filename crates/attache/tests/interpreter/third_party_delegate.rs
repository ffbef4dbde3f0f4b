//! Tests of an external delegate, which uses only the public interface. It claims element-wise operators of
//! two inputs and computes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use attache::graph::{
    Cache, Eval, Fact, Host, Lowering, Node, OpError, PassedTensor, Quantized, TensorMut, TensorRef, Unsupported,
};
use attache::model::schema::{ActivationFunctionType, AddOptionsT, BuiltinOperator, BuiltinOptionsT};
use attache::{
    Claim, Delegate, DelegateError, DelegateKernel, ErrorKind, Interpreter, KernelReport, NodeContext, OperatorBuilder,
    Outcome, Partition, Partitioning, PreparedPartition,
};
use attache_gpu_ir::Primitive;

use crate::common::{Net, floats, run};

/// A delegate that claims every operator that applies one function to pairs of elements of its two inputs.
struct Pairs {
    name: &'static str,
    partitioning: Partitioning,
    /// Index of the partition whose preparation fails, in the order of preparation; `None` if none fails.
    fails_at: Option<usize>,
    prepared: AtomicUsize,
    alive: Arc<AtomicUsize>,
}

impl Pairs {
    fn new(name: &'static str, partitioning: Partitioning) -> Self {
        let (prepared, alive) = (AtomicUsize::new(0), Arc::default());
        Self { name, partitioning, fails_at: None, prepared, alive }
    }
}

impl Delegate for Pairs {
    fn name(&self) -> &str {
        self.name
    }

    fn partitioning(&self) -> Partitioning {
        self.partitioning.clone()
    }

    fn claim(&self, node: NodeContext<'_>) -> Result<Claim, Unsupported> {
        let lowered = Lowering::lower(node.graph, node.node(), Quantized::default())?;
        match &lowered.program.steps[..] {
            [step] if matches!(step.primitive, Primitive::Map { .. }) && step.inputs.len() == 2 => {
                Ok(Claim::new(node.node().clone()))
            }
            _ => Err(Unsupported::new("it is not a function of two values")),
        }
    }

    fn prepare(&self, partition: Partition<'_>) -> Result<Box<dyn PreparedPartition>, DelegateError> {
        if Some(self.prepared.fetch_add(1, Ordering::Relaxed)) == self.fails_at {
            return Err(DelegateError::new("out of luck"));
        }
        let nodes: Vec<Node> =
            partition.nodes.into_iter().map(|(_, claim)| *claim.downcast::<Node>().unwrap()).collect();
        let facts: Vec<Fact> = partition.graph.tensors.iter().map(|tensor| tensor.fact.clone()).collect();
        let (inputs, outputs) = (partition.inputs, partition.outputs);
        let ids = |ids: Vec<attache::graph::TensorId>| ids.into_iter().map(|id| id.index()).collect::<Vec<_>>();
        Ok(Box::new(Prepared { nodes, facts, inputs: ids(inputs), outputs: ids(outputs), alive: self.alive.clone() }))
    }
}

struct Prepared {
    nodes: Vec<Node>,
    facts: Vec<Fact>,
    inputs: Vec<usize>,
    outputs: Vec<usize>,
    alive: Arc<AtomicUsize>,
}

impl PreparedPartition for Prepared {
    fn kernel(&self) -> Result<Box<dyn DelegateKernel>, DelegateError> {
        self.alive.fetch_add(1, Ordering::Relaxed);
        let (nodes, facts, alive) = (self.nodes.clone(), self.facts.clone(), self.alive.clone());
        Ok(Box::new(Kernel { nodes, facts, inputs: self.inputs.clone(), outputs: self.outputs.clone(), alive }))
    }

    fn report(&self) -> KernelReport {
        let mut report = KernelReport::default();
        report.dispatches = self.nodes.len();
        report
    }
}

struct Kernel {
    nodes: Vec<Node>,
    facts: Vec<Fact>,
    inputs: Vec<usize>,
    outputs: Vec<usize>,
    alive: Arc<AtomicUsize>,
}

impl Drop for Kernel {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
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
        let tensor = |id: &attache::graph::TensorId| {
            let fact = &self.facts[id.index()];
            let values = &values[id.index()];
            TensorRef {
                data_type: fact.data_type,
                shape: fact.shape.as_ref().unwrap(),
                bytes: bytemuck::cast_slice(values),
                quantization: None,
                is_constant: false,
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
        assert_eq!((inputs.len(), outputs.len()), (self.inputs.len(), self.outputs.len()));
        let constant = |fact: &Fact| match &fact.constant {
            Some(constant) => constant.values::<f32>().map(|values| values.into_owned()).unwrap_or_default(),
            None => Vec::new(),
        };
        let mut values: Vec<Vec<f32>> = self.facts.iter().map(constant).collect();
        for (id, input) in self.inputs.iter().zip(inputs) {
            assert!(!input.is_constant);
            values[*id] = input.values::<f32>().unwrap().to_vec();
        }
        for node in &self.nodes {
            values[node.outputs[0].index()] = self.compute(node, &values);
        }
        for (id, output) in self.outputs.iter().zip(outputs) {
            output.values::<f32>().unwrap().copy_from_slice(&values[*id]);
        }
        Ok(())
    }
}

/// Builds a model of blocks of 1, 3 and 2 additions with a RELU between them: y = relu(relu(x + x) + 3 x) + 2
/// x.
fn blocks() -> attache::Model {
    let mut net = Net::new();
    let x = net.tensor("x", &[2]);
    let mut y = net.add(x, x, &[2]);
    for additions in [3, 2] {
        y = net.relu(y, &[2]);
        for _ in 0..additions {
            y = net.add(y, x, &[2]);
        }
    }
    net.finish(&[x], &[y])
}

fn build(delegates: Vec<Pairs>) -> Interpreter {
    let builder = Interpreter::builder(&blocks()).threads(1);
    let builder = delegates.into_iter().fold(builder, |builder, delegate| builder.delegate(Arc::new(delegate)));
    builder.build().unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the placement of the operators, one character each: the number of the partition, `-` for the CPU,
/// or `f` for an operator that was folded.
fn placements(interpreter: &Interpreter) -> String {
    let placement = |node: &attache::NodePlacement| match &node.outcome {
        Outcome::On { partition, .. } => partition.to_string(),
        Outcome::Cpu => "-".to_owned(),
        Outcome::Folded { .. } => "f".to_owned(),
    };
    interpreter.placement().nodes.iter().map(placement).collect()
}

#[cfg(not(feature = "_poison"))]
fn check(mut interpreter: Interpreter, expected: &str) -> Interpreter {
    assert_eq!(placements(&interpreter), expected, "{}", interpreter.placement());
    run(&mut interpreter, &[&[1.0, -1.0]]);
    assert_eq!(floats(&interpreter, 0), [7.0, -2.0]);
    interpreter.invoke_repeatedly(3).unwrap();
    assert_eq!(floats(&interpreter, 0), [7.0, -2.0]);
    interpreter
}

/// Checks only the placement, because the CPU's kernels are poisoned and the outputs are NaN.
#[cfg(feature = "_poison")]
fn check(mut interpreter: Interpreter, expected: &str) -> Interpreter {
    assert_eq!(placements(&interpreter), expected, "{}", interpreter.placement());
    run(&mut interpreter, &[&[1.0, -1.0]]);
    assert!(floats(&interpreter, 0).iter().all(|value| value.is_nan()));
    interpreter
}

#[test]
fn every_partition_is_taken() {
    let interpreter = check(build(vec![Pairs::new("Pairs", Partitioning::default())]), "0-111-22");
    let report = interpreter.report();
    assert_eq!((report.nodes, report.nodes_delegated, report.partitions, report.dispatches), (8, 6, 3, 6));
    let log = [
        "Following operations are not supported by Pairs delegate:",
        "RELU: it is not a function of two values",
        "6 operations will run on the Pairs, and the remaining 2 operations will run on the CPU.",
        "Created TensorFlow Lite delegate for Pairs.",
        "Created 3 Pairs delegate kernels.",
    ];
    assert_eq!(interpreter.placement().log, log);
    assert_eq!(interpreter.placement().nodes[1].reason.as_deref(), Some("it is not a function of two values"));
    assert_eq!(interpreter.placement().nodes[0].reason, None);
}

#[test]
fn the_largest_partitions_are_taken_first() {
    let partitioning = |max| Partitioning::default().max_delegated_partitions(max);
    let interpreter = check(build(vec![Pairs::new("Pairs", partitioning(1))]), "--000---");
    let reason = interpreter.placement().nodes[7].reason.clone().unwrap();
    assert_eq!(reason, "its partition is not among the 1 largest");
    check(build(vec![Pairs::new("Pairs", partitioning(2))]), "--000-11");
    check(build(vec![Pairs::new("Pairs", partitioning(9))]), "0-111-22");
    let none = check(build(vec![Pairs::new("Pairs", partitioning(0))]), "--------");
    assert_eq!(none.report().nodes_delegated, 0);
    assert!(
        none.placement()
            .log
            .contains(&"No operations will run on the Pairs, and all 8 operations will run on the CPU.".to_owned())
    );
}

#[test]
fn small_partitions_are_left() {
    let partitioning = Partitioning::default().min_nodes_per_partition(2);
    check(build(vec![Pairs::new("Pairs", partitioning)]), "--000-11");
}

#[test]
fn nodes_outside_of_a_range_are_left() {
    let partitioning = Partitioning::default().first_delegate_node_index(3).last_delegate_node_index(6);
    let interpreter = check(build(vec![Pairs::new("Pairs", partitioning)]), "---00-1-");
    let reason = interpreter.placement().nodes[7].reason.clone().unwrap();
    assert_eq!(reason, "it is not among the operators 3 to 6 that the delegate may take");
}

#[test]
fn a_later_delegate_gets_what_is_left() {
    let first = Partitioning::default().max_delegated_partitions(1);
    let delegates = vec![Pairs::new("First", first), Pairs::new("Second", Partitioning::default())];
    let interpreter = check(build(delegates), "0-111-22");
    let delegate = |index: usize| match &interpreter.placement().nodes[index].outcome {
        Outcome::On { delegate, .. } => delegate.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!((delegate(0), delegate(2), delegate(6)), ("Second".into(), "First".into(), "Second".into()));
    let reason = interpreter.placement().nodes[1].reason.clone().unwrap();
    assert!(reason.starts_with("First: ") && reason.contains("; Second: "), "{reason}");
}

#[test]
fn independent_nodes_join_one_partition() {
    let mut net = Net::new();
    let x = net.tensor("x", &[2]);
    let a = net.add(x, x, &[2]);
    let r = net.relu(x, &[2]);
    let b = net.add(x, a, &[2]);
    let c = net.add(b, r, &[2]);
    let model = net.finish(&[x], &[c, a]);
    let delegate = Arc::new(Pairs::new("Pairs", Partitioning::default()));
    let interpreter = Interpreter::builder(&model).delegate(delegate).build().unwrap();
    assert_eq!(placements(&interpreter), "0-01", "c waits for r, which the CPU makes after the first partition");
}

#[test]
fn constants_and_shared_reshapes_cross_to_partitions() {
    let mut net = Net::new();
    let x = net.tensor("x", &[2, 1]);
    let flat = net.reshape(x, &[2], &[2]);
    let c = net.constant(&[1.0, 2.0]);
    let sum = net.add(flat, c, &[2]);
    let back = net.reshape(sum, &[1, 2], &[1, 2]);
    let y = net.multiply(back, c, &[1, 2]);
    let delegate = Arc::new(Pairs::new("Pairs", Partitioning::default()));
    let model = net.finish(&[x], &[y, back]);
    let mut interpreter = Interpreter::builder(&model).delegate(delegate).build().unwrap();
    assert_eq!(placements(&interpreter), "-0-1");
    run(&mut interpreter, &[&[1.0, -1.0]]);
    assert_eq!((floats(&interpreter, 0), floats(&interpreter, 1)), (vec![2.0, 2.0], vec![2.0, 1.0]));
}

#[test]
fn a_delegate_that_fails_leaves_nothing_behind() {
    let delegate = Pairs { fails_at: Some(1), ..Pairs::new("Pairs", Partitioning::default()) };
    let alive = delegate.alive.clone();
    let interpreter = check(build(vec![delegate]), "--------");
    assert_eq!(alive.load(Ordering::Relaxed), 0);
    assert_eq!(interpreter.placement().nodes[0].reason.as_deref(), Some("the delegate failed: out of luck"));
    assert_eq!(interpreter.report().partitions, 0);
    assert!(!interpreter.placement().log.iter().any(|line| line.starts_with("Created")));

    let failing = Pairs { fails_at: Some(1), ..Pairs::new("Failing", Partitioning::default()) };
    check(build(vec![failing, Pairs::new("Working", Partitioning::default())]), "0-111-22");
}

#[test]
fn required_delegation_lists_what_was_left() {
    let delegate = Arc::new(Pairs::new("Pairs", Partitioning::default()));
    let build = |model: &attache::Model| {
        Interpreter::builder(model).delegate(delegate.clone()).require_delegation(true).build()
    };
    let error = build(&blocks()).err().unwrap();
    assert_eq!((error.kind(), error.places().len()), (ErrorKind::NotDelegated, 2));
    assert_eq!(
        error.to_string(),
        "2 of 8 operators are not delegated; without require_delegation they run on the CPU:\n  \
         subgraph 0, operator 1 (RELU): it is not a function of two values\n  \
         subgraph 0, operator 5 (RELU): it is not a function of two values"
    );
    assert_eq!(delegate.alive.load(Ordering::Relaxed), 0);

    let mut net = Net::new();
    let (x, c) = (net.tensor("x", &[2]), net.constant(&[1.0, 2.0]));
    let folded = net.add(c, c, &[2]);
    let y = net.add(x, folded, &[2]);
    let mut interpreter = build(&net.finish(&[x], &[y])).unwrap();
    let report = interpreter.report();
    assert_eq!((report.nodes, report.nodes_delegated, report.partitions), (2, 2, 1), "what is folded counts");
    run(&mut interpreter, &[&[1.0, 1.0]]);
    assert_eq!(floats(&interpreter, 0), [3.0, 5.0]);

    let without = Interpreter::builder(&blocks()).require_delegation(true).build().err().unwrap();
    assert_eq!((without.kind(), without.places().len()), (ErrorKind::NotDelegated, 8));
}

#[test]
fn a_resize_prepares_the_delegate_anew() {
    let delegate = Arc::new(Pairs::new("Pairs", Partitioning::default()));
    let mut net = Net::new();
    let x = net.tensor("x", &[2]);
    let y = net.add(x, x, &[2]);
    let model = net.finish(&[x], &[y]);
    let mut interpreter = Interpreter::builder(&model).delegate(delegate.clone()).build().unwrap();
    interpreter.resize_input(0, &[3]).unwrap();
    run(&mut interpreter, &[&[1.0, 2.0, 3.0]]);
    assert_eq!(floats(&interpreter, 0), [2.0, 4.0, 6.0]);
    assert_eq!((delegate.prepared.load(Ordering::Relaxed), delegate.alive.load(Ordering::Relaxed)), (2, 1));
    drop(interpreter);
    assert_eq!(delegate.alive.load(Ordering::Relaxed), 0);
}

#[test]
fn alternating_shapes_prepare_the_delegate_once_each() {
    let delegate = Arc::new(Pairs::new("Pairs", Partitioning::default()));
    let mut net = Net::new();
    let x = net.tensor("x", &[2]);
    let y = net.add(x, x, &[2]);
    let model = net.finish(&[x], &[y]);
    let mut interpreter = Interpreter::builder(&model).delegate(delegate.clone()).build().unwrap();
    for round in 0..500_u16 {
        let value = f32::from(round);
        for extent in [2, 3] {
            interpreter.resize_input(0, &[extent]).unwrap();
            run(&mut interpreter, &[&vec![value; extent]]);
            assert_eq!(floats(&interpreter, 0), vec![2.0 * value; extent]);
        }
    }
    assert_eq!((delegate.prepared.load(Ordering::Relaxed), delegate.alive.load(Ordering::Relaxed)), (2, 1));
}

/// A delegate that claims nothing and says what the file says of each operator.
struct Reader;

impl Delegate for Reader {
    fn name(&self) -> &str {
        "Reader"
    }

    fn claim(&self, node: NodeContext<'_>) -> Result<Claim, Unsupported> {
        let code = &node.operator().unwrap().code;
        let options = node.options().unwrap().builtin_options_as_add_options();
        let activation = options.map(|options| options.fused_activation_function());
        Err(Unsupported::new(format!("{} version {}, {activation:?}", code.name(), code.version)))
    }

    fn prepare(&self, _: Partition<'_>) -> Result<Box<dyn PreparedPartition>, DelegateError> {
        Err(DelegateError::new("never asked"))
    }
}

#[test]
fn a_delegate_reads_the_options_in_the_file() {
    let mut net = Net::new();
    let (x, y) = (net.tensor("x", &[2]), net.tensor("y", &[2]));
    let fused_activation_function = ActivationFunctionType::RELU6;
    let options = AddOptionsT { fused_activation_function, ..Default::default() };
    let add = OperatorBuilder::new(BuiltinOperator::ADD, [x, x], [y]).version(2);
    net.builder.operator(0, add.options(BuiltinOptionsT::AddOptions(options.into())));
    let z = net.relu(y, &[2]);
    let model = net.finish(&[x], &[z]);
    let interpreter = Interpreter::builder(&model).delegate(Arc::new(Reader)).build().unwrap();
    let reason = |index: usize| interpreter.placement().nodes[index].reason.clone().unwrap();
    assert_eq!(reason(0), "ADD version 2, Some(RELU6)");
    assert_eq!(reason(1), "RELU version 1, None");
}

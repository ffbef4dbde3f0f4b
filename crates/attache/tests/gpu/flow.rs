//! Counts the GPU partitions of golden cases with branches, loops and variables, including the partitions of
//! called subgraphs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use attache::graph::Unsupported;
use attache::{
    Claim, Delegate, DelegateError, GpuDelegate, GpuDelegateOptions, NodeContext, Partition, Partitioning,
    PreparedPartition,
};

use crate::goldens::{Case, cases};

/// The GPU delegate, with a count of the partitions that it prepared, including those of called subgraphs.
struct Counted {
    gpu: GpuDelegate,
    partitions: AtomicUsize,
}

impl Delegate for Counted {
    fn name(&self) -> &str {
        self.gpu.name()
    }

    fn partitioning(&self) -> Partitioning {
        self.gpu.partitioning()
    }

    fn claim(&self, node: NodeContext<'_>) -> Result<Claim, Unsupported> {
        self.gpu.claim(node)
    }

    fn prepare(&self, partition: Partition<'_>) -> Result<Box<dyn PreparedPartition>, DelegateError> {
        self.partitions.fetch_add(1, Ordering::Relaxed);
        self.gpu.prepare(partition)
    }
}

/// For each case: its name, the number of partitions of its main graph, and the number of partitions prepared
/// in two runs, including those of called subgraphs.
static PARTITIONS: &[(&str, usize, usize)] = &[
    // One partition is the MUL after READ_VARIABLE. All assignments have the same shape.
    ("f32_ASSIGN_VARIABLE_then_read", 2, 2),
    // The partition is MUL and ADD before the assignment, together with TANH. The state is a function of
    // itself.
    ("f32_ASSIGN_VARIABLE_state_of_itself", 1, 1),
    ("f32_CALL_ONCE_sets_weights", 1, 1),
    // The partitions are RELU after a branch of known shape, and ADD or MUL in the branch that ran.
    ("f32_IF_same_shapes_then_more", 1, 2),
    ("f32_IF_shapes_differ", 0, 1),
    // The operators of a branch that is known, and of composites, are in the partition of those around them.
    ("f32_IF_constant_true", 1, 1),
    ("f32_IF_folded_condition", 1, 1),
    ("f32_STABLEHLO_CASE_constant", 1, 1),
    ("f32_STABLEHLO_COMPOSITE_nested_twice", 1, 1),
    ("f32_STABLEHLO_COMPOSITE_one_subgraph_twice", 1, 1),
    ("f32_STABLEHLO_COMPOSITE_own_constants", 1, 1),
    ("f32_STABLEHLO_COMPOSITE_passed_on_twice", 1, 1),
    // There is one partition after the loop, one in its condition and one in its body.
    ("f32_WHILE_same_shapes_then_more", 1, 3),
    // The partition of the main graph is ABS of the value that no iteration changes. The
    // condition has one partition for each of three shapes of the growing value, and the body one for each of
    // two shapes; the second run uses them again.
    ("f32_WHILE_one_grows_then_more", 1, 6),
];

#[test]
fn partitions_form_around_and_within_control_flow() {
    let gpu = GpuDelegate::new(GpuDelegateOptions::default().software(true)).expect("a device to test on");
    let all: Vec<Case> = cases();
    for (name, own, total) in PARTITIONS {
        let case = all.iter().find(|case| case.name == *name).unwrap_or_else(|| panic!("{name} is there"));
        let delegate = Arc::new(Counted { gpu: gpu.clone(), partitions: AtomicUsize::new(0) });
        let mut interpreter = case.interpreter(|builder| builder.delegate(delegate.clone())).expect("an interpreter");
        case.check(&mut interpreter, 2e-5).unwrap_or_else(|error| panic!("{name}: {error}"));
        let partitions = (interpreter.report().partitions, delegate.partitions.load(Ordering::Relaxed));
        assert_eq!(partitions, (*own, *total), "{name}");
    }
}

//! Islands on a GPU around branches, loops and variables, and within the subgraphs that these run: counted, on golden
//! cases from LiteRT.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use attache::graph::{Graph, NodeId, Refusal};
use attache::{Claim, Delegate, DelegateError, DelegateKernel, GpuDelegate, GpuDelegateOptions, Island, Partitioning};

use crate::goldens::{Case, cases};

/// The GPU's delegate, of which every island is counted, those in called subgraphs too.
struct Counted {
    gpu: GpuDelegate,
    islands: AtomicUsize,
}

impl Delegate for Counted {
    fn name(&self) -> &str {
        self.gpu.name()
    }

    fn partitioning(&self) -> Partitioning {
        self.gpu.partitioning()
    }

    fn claim(&self, graph: &Graph, node: NodeId) -> Result<Claim, Refusal> {
        self.gpu.claim(graph, node)
    }

    fn prepare(&self, island: Island<'_>) -> Result<Box<dyn DelegateKernel>, DelegateError> {
        self.islands.fetch_add(1, Ordering::Relaxed);
        self.gpu.prepare(island)
    }
}

/// A case by its name; islands of its own graph, and islands of all subgraphs that it ran.
static ISLANDS: &[(&str, usize, usize)] = &[
    // MUL after READ_VARIABLE: every assignment is of one shape.
    ("f32_ASSIGN_VARIABLE_then_read", 2, 2),
    // MUL and ADD before the assignment, TANH with them: the state is a function of itself.
    ("f32_ASSIGN_VARIABLE_state_of_itself", 1, 1),
    ("f32_CALL_ONCE_sets_weights", 1, 1),
    // RELU after a branch of known shape; ADD or MUL in the branch that ran.
    ("f32_IF_same_shapes_then_more", 1, 2),
    ("f32_IF_shapes_differ", 0, 1),
    // After the loop; its condition and its body.
    ("f32_WHILE_same_shapes_then_more", 1, 3),
    // ABS of the value that no step changes; in each of two runs the condition for three shapes of the value that grows,
    // the body for two.
    ("f32_WHILE_one_grows_then_more", 1, 11),
];

#[test]
fn islands_form_around_and_within_control_flow() {
    let gpu = GpuDelegate::new(GpuDelegateOptions::default()).expect("a device to test on");
    let all: Vec<Case> = cases();
    for (name, own, total) in ISLANDS {
        let case = all.iter().find(|case| case.name == *name).unwrap_or_else(|| panic!("{name} is there"));
        let delegate = Arc::new(Counted { gpu: gpu.clone(), islands: AtomicUsize::new(0) });
        let mut interpreter = case.interpreter(|builder| builder.delegate(delegate.clone())).expect("an interpreter");
        case.check(&mut interpreter, 2e-5).unwrap_or_else(|error| panic!("{name}: {error}"));
        let islands = (interpreter.report().partitions, delegate.islands.load(Ordering::Relaxed));
        assert_eq!(islands, (*own, *total), "{name}");
    }
}

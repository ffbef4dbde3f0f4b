//! The bridge between the interpreter and an accelerator. Anyone can implement it.
//!
//! A delegate is asked about each node, and answers with a claim or with the reason why not. Claimed nodes are clustered
//! into islands; each island that is taken is handed back to the delegate, which prepares a kernel that runs it. A
//! delegate that fails to prepare an island leaves its nodes to the CPU.

pub(crate) mod guard;

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;

use attache_base::copy;
use attache_graph::{Graph, NodeId, Refusal, TensorId, TensorMut, TensorRef};

use self::guard::discard;
use crate::KernelProfile;

/// Runs parts of graphs on an accelerator. A panic in it, or in a kernel that it made, is caught: it counts as a refusal of
/// the node, a failure to prepare or a failed run, and [`Report::panics`](crate::Report::panics) lists it.
pub trait Delegate: Send + Sync {
    /// Its name, as reports and log lines have it.
    fn name(&self) -> &str;

    /// Which and how many of the islands it wants.
    fn partitioning(&self) -> Partitioning {
        Partitioning::default()
    }

    /// Claims a node, or says why not. A claim is a promise: the island that holds it can be prepared.
    fn claim(&self, graph: &Graph, node: NodeId) -> Result<Claim, Refusal>;

    /// Makes the kernel that runs an island.
    fn prepare(&self, island: Island<'_>) -> Result<Box<dyn DelegateKernel>, DelegateError>;
}

/// What a delegate keeps of a node that it claims, to find it again in [`Delegate::prepare`].
pub struct Claim(Option<Box<dyn Any + Send>>);

impl Claim {
    /// A claim that keeps `work`.
    pub fn new(work: impl Any + Send) -> Self {
        Self(Some(Box::new(work)))
    }

    /// What was kept, where it is of this type.
    pub fn downcast<T: Any>(mut self) -> Option<Box<T>> {
        self.0.take_if(|work| work.is::<T>())?.downcast().ok()
    }

    /// What was kept, where it is of this type.
    pub fn downcast_ref<T: Any>(&self) -> Option<&T> {
        self.0.as_ref()?.downcast_ref()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(work) = self.0.take() {
            discard("a", work);
        }
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Claim")
    }
}

/// Which and how many islands a delegate wants, under TensorFlow Lite's names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partitioning {
    /// The largest islands that are taken; `None`: all of them.
    pub max_delegated_partitions: Option<usize>,
    /// Islands of fewer nodes stay with others.
    pub min_nodes_per_partition: usize,
    /// Nodes before this one stay with others.
    pub first_delegate_node_index: usize,
    /// Nodes after this one stay with others.
    pub last_delegate_node_index: usize,
}

impl Default for Partitioning {
    fn default() -> Self {
        Self {
            max_delegated_partitions: None,
            min_nodes_per_partition: 1,
            first_delegate_node_index: 0,
            last_delegate_node_index: usize::MAX,
        }
    }
}

/// Nodes that run together on a delegate.
#[derive(Debug)]
pub struct Island<'a> {
    /// The graph they are of.
    pub graph: &'a Graph,
    /// The nodes in the order in which they run, each with the delegate's own claim on it.
    pub nodes: Vec<(NodeId, Claim)>,
    /// Tensors that others make and the island reads, constants not counted, ascending.
    pub inputs: Vec<TensorId>,
    /// Tensors that the island makes and others read, or that are outputs of the graph, ascending.
    pub outputs: Vec<TensorId>,
}

/// An island, ready to run.
pub trait DelegateKernel: Send {
    /// Runs the island: tensors in the order of [`Island::inputs`] and [`Island::outputs`].
    fn invoke(&mut self, inputs: &[TensorRef<'_>], outputs: &mut [TensorMut<'_>]) -> Result<(), DelegateError>;

    /// Runs the island `times` over on the same inputs and reads the outputs once, without waiting in between where
    /// the device allows it.
    fn invoke_repeatedly(
        &mut self,
        times: usize,
        inputs: &[TensorRef<'_>],
        outputs: &mut [TensorMut<'_>],
    ) -> Result<(), DelegateError> {
        (0..times).try_for_each(|_| self.invoke(inputs, outputs))
    }

    /// The kernel as a queue, where it can have several runs under way.
    fn queue(&self) -> Option<&dyn DelegateQueue> {
        None
    }

    /// As [`DelegateKernel::queue`], to use it.
    fn queue_mut(&mut self) -> Option<&mut dyn DelegateQueue> {
        None
    }

    /// An output where the device has it, for another kernel of the same delegate that reads it in the same run, later;
    /// `None` where it goes through the host. What it is lies between the delegate's kernels.
    fn share_output(&mut self, _output: usize) -> Option<Box<dyn Any>> {
        None
    }

    /// Takes an input from what [`DelegateKernel::share_output`] of the kernel that makes it gave, at every run from now on,
    /// whatever [`DelegateKernel::invoke`] is handed for it; false where that can't be.
    fn take_input(&mut self, _input: usize, _shared: &dyn Any) -> bool {
        false
    }

    /// Tells that nobody reads these outputs but kernels that take them from the device: what `invoke` leaves in their place
    /// does not matter.
    fn keep_outputs(&mut self, _outputs: &[usize]) {}

    /// What preparing it cost and what it holds.
    fn report(&self) -> KernelReport {
        KernelReport::default()
    }

    /// Where the time of the last run went, where that was measured.
    fn profile(&mut self) -> Result<KernelProfile, DelegateError> {
        Ok(KernelProfile::default())
    }
}

/// A kernel of which several runs may be under way at once, each in a slot with memory of its own for inputs and outputs.
/// Runs begin in the order in which they are started.
pub trait DelegateQueue {
    /// How many runs that is.
    fn slots(&self) -> usize;

    /// Sets an input of a slot, by its place in [`Island::inputs`], once no run of the slot reads it any more.
    fn write(&mut self, slot: usize, input: usize, bytes: &[u8]) -> Result<(), DelegateError>;

    /// Where the host may write an input of a slot itself, once no run of the slot reads it any more: the tensor's bytes, in
    /// memory that may be very slow to read. `None` where there is only [`DelegateQueue::write`].
    fn input_mut(&mut self, _slot: usize, _input: usize) -> Result<Option<&mut [u8]>, DelegateError> {
        Ok(None)
    }

    /// Copies back what was written there last. It is asked for seldom, where [`DelegateQueue::input_mut`] gave memory.
    fn read_input(&mut self, _slot: usize, _input: usize, _bytes: &mut [u8]) -> Result<(), DelegateError> {
        Err(DelegateError::new("what was written to it cannot be read"))
    }

    /// Starts so many runs on what was last written to the slot, and doesn't wait for them; they may go on beside each other.
    /// The slot's outputs are those of the last.
    fn submit(&mut self, slot: usize, times: usize) -> Result<(), DelegateError>;

    /// Waits for the slot's last run. Its outputs may still be on their way.
    fn wait(&mut self, slot: usize) -> Result<(), DelegateError>;

    /// The bytes of an output of the slot's last run, by its place in [`Island::outputs`], from the first on, where the
    /// device left them if the host sees that memory: those that are there, once they are as many as `least`. `None` unless
    /// the run was waited for.
    fn output(&self, slot: usize, output: usize, least: usize) -> Result<Option<&[u8]>, DelegateError>;

    /// Copies an output of the slot's last run, what comes first while the rest comes; false unless the run was waited for.
    fn read(&self, slot: usize, output: usize, into: &mut [u8]) -> Result<bool, DelegateError> {
        let mut done = 0;
        while done < into.len() {
            let Some(there) = self.output(slot, output, done + 1)? else { return Ok(false) };
            let end = there.len().min(into.len());
            if end <= done {
                return Err(DelegateError::new("an output is of another size"));
            }
            copy(&mut into[done..end], &there[done..end]);
            done = end;
        }
        Ok(true)
    }
}

/// What preparing an island cost and what it holds. Zero where a delegate doesn't know.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelReport {
    /// Dispatches of one run.
    pub dispatches: usize,
    /// The forms in which dispatches were written, where a delegate names such.
    pub variants: BTreeSet<&'static str>,
    /// Forms in which some of them could have been written as well.
    pub alternatives: BTreeSet<&'static str>,
    /// Bytes of device memory for intermediate tensors.
    pub arena_bytes: usize,
    /// The largest sum of bytes of intermediate tensors live at one step: no arena can be smaller.
    pub arena_lower_bound_bytes: usize,
    /// Bytes of device memory for constants.
    pub weights_bytes: usize,
    /// Milliseconds spent on making pipelines.
    pub compile_ms: f64,
    /// Milliseconds spent on packing and uploading constants, but for those in which pipelines were made meanwhile.
    pub upload_ms: f64,
    /// For nodes that no longer run by themselves: into what they were folded, as text.
    pub merged: Vec<(NodeId, String)>,
}

/// A delegate's failure to prepare or to run an island.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct DelegateError {
    /// What sort of failure it is.
    pub kind: DelegateErrorKind,
    /// What went wrong, and what to do about it where that is known.
    pub reason: String,
}

/// What sort of failure it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DelegateErrorKind {
    /// The delegate can't: others may.
    #[default]
    Failed,
    /// The device ran out of memory.
    OutOfMemory,
    /// The device was lost: nothing that was made on it works any more.
    DeviceLost,
    /// The delegate panicked, which is a bug in it. What panicked in a run is not used again.
    Panicked,
}

impl DelegateError {
    /// A failure for this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { kind: DelegateErrorKind::default(), reason: reason.into() }
    }

    /// The same, of this kind.
    pub fn with_kind(self, kind: DelegateErrorKind) -> Self {
        Self { kind, ..self }
    }
}

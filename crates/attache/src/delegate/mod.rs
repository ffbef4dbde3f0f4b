//! The interface between the interpreter and an accelerator. Anyone can implement it.
//!
//! The interpreter asks a delegate about each node. The delegate either claims the node or gives the reason why it
//! cannot run it. Claimed nodes are clustered into partitions ([`Partition`]). The delegate receives each accepted
//! partition and prepares a kernel that runs it. If a delegate fails to prepare a partition, its nodes run elsewhere.

pub(crate) mod guard;

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;

use attache_base::copy;
use attache_graph::{Graph, NodeId, TensorId, TensorMut, TensorRef, Unsupported};

use self::guard::discard;
use crate::KernelProfile;

/// Runs parts of graphs on an accelerator. Panics in a delegate or in one of its kernels are caught. They count as an
/// unsupported node, a failed preparation or a failed run, and are listed in [`Report::panics`](crate::Report::panics).
pub trait Delegate: Send + Sync {
    /// The name of the delegate, used in reports and log lines.
    fn name(&self) -> &str;

    /// Which partitions the delegate accepts, and how many.
    fn partitioning(&self) -> Partitioning {
        Partitioning::default()
    }

    /// Claims a node. A claim is a promise that the partition with this node can be prepared.
    ///
    /// # Errors
    ///
    /// The reason why the delegate does not support the node.
    fn claim(&self, graph: &Graph, node: NodeId) -> Result<Claim, Unsupported>;

    /// Prepares the kernel that runs a partition.
    ///
    /// # Errors
    ///
    /// If the delegate cannot prepare the partition. The delegate is then not used at all. An error of kind
    /// [`DelegateErrorKind::OutOfMemory`] or [`DelegateErrorKind::DeviceLost`] also makes the build of the interpreter
    /// fail, unless [`InterpreterBuilder::cpu_fallback`](crate::InterpreterBuilder::cpu_fallback) is set.
    fn prepare(&self, partition: Partition<'_>) -> Result<Box<dyn DelegateKernel>, DelegateError>;
}

/// Data that a delegate attaches to a node it claims and receives back in [`Delegate::prepare`].
pub struct Claim(Option<Box<dyn Any + Send>>);

impl Claim {
    /// A claim that carries `data`.
    pub fn new(data: impl Any + Send) -> Self {
        Self(Some(Box::new(data)))
    }

    /// The data of the claim, if it is of type `T`.
    pub fn downcast<T: Any>(mut self) -> Option<Box<T>> {
        self.0.take_if(|data| data.is::<T>())?.downcast().ok()
    }

    /// A reference to the data of the claim, if it is of type `T`.
    pub fn downcast_ref<T: Any>(&self) -> Option<&T> {
        self.0.as_ref()?.downcast_ref()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(data) = self.0.take() {
            discard("a", data);
        }
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Claim")
    }
}

/// Which partitions a delegate accepts, and how many. The names are those of TensorFlow Lite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partitioning {
    /// Maximum number of partitions. The largest ones are taken; `None` means no limit.
    pub max_delegated_partitions: Option<usize>,
    /// Minimum number of nodes of a partition. Smaller partitions are not delegated.
    pub min_nodes_per_partition: usize,
    /// Index of the first operator in the file that may be delegated.
    pub first_delegate_node_index: usize,
    /// Index of the last operator in the file that may be delegated.
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

/// A partition: nodes that run together on a delegate.
#[derive(Debug)]
pub struct Partition<'a> {
    /// The graph that contains the nodes.
    pub graph: &'a Graph,
    /// The nodes in execution order, each with the delegate's own claim.
    pub nodes: Vec<(NodeId, Claim)>,
    /// Non-constant tensors that the partition reads and that are made outside of it, ascending.
    pub inputs: Vec<TensorId>,
    /// Tensors that the partition makes and that are read outside of it or are outputs of the graph, ascending.
    pub outputs: Vec<TensorId>,
}

/// A prepared partition.
pub trait DelegateKernel: Send {
    /// Runs the partition and returns when the outputs are written. Tensors are in the order of [`Partition::inputs`]
    /// and [`Partition::outputs`].
    ///
    /// # Errors
    ///
    /// If the run fails. The contents of `outputs` are then unspecified.
    fn invoke(&mut self, inputs: &[TensorRef<'_>], outputs: &mut [TensorMut<'_>]) -> Result<(), DelegateError>;

    /// Runs the partition `times` times on the same inputs and reads the outputs once. Runs are not waited for one by
    /// one if the device allows that.
    ///
    /// # Errors
    ///
    /// As [`DelegateKernel::invoke`].
    fn invoke_repeatedly(
        &mut self,
        times: usize,
        inputs: &[TensorRef<'_>],
        outputs: &mut [TensorMut<'_>],
    ) -> Result<(), DelegateError> {
        (0..times).try_for_each(|_| self.invoke(inputs, outputs))
    }

    /// The kernel as a run queue; `None` if it cannot have several runs in progress.
    fn queue(&self) -> Option<&dyn DelegateQueue> {
        None
    }

    /// As [`DelegateKernel::queue`], with mutable access.
    fn queue_mut(&mut self) -> Option<&mut dyn DelegateQueue> {
        None
    }

    /// Shares an output in device memory with another kernel of the same delegate that reads it later in the same run.
    /// `None` if the output has to be copied through the host. The meaning of the value is private to the delegate.
    fn share_output(&mut self, _output: usize) -> Option<Box<dyn Any>> {
        None
    }

    /// Reads an input from the value that the producing kernel returned from [`DelegateKernel::share_output`]. This
    /// applies to all following runs, and [`DelegateKernel::invoke`] then ignores the tensor passed for this input.
    /// Returns false if that is not possible.
    fn take_input(&mut self, _input: usize, _shared: &dyn Any) -> bool {
        false
    }

    /// Declares that only kernels that share them on the device read these outputs. `invoke` need not write them to the
    /// host.
    fn keep_on_device(&mut self, _outputs: &[usize]) {}

    /// Statistics about the prepared kernel.
    fn report(&self) -> KernelReport {
        KernelReport::default()
    }

    /// Timing of the last run; empty if it was not measured.
    ///
    /// # Errors
    ///
    /// If the measurement cannot be read from the device.
    fn profile(&mut self) -> Result<KernelProfile, DelegateError> {
        Ok(KernelProfile::default())
    }
}

/// A kernel that can have several runs in progress. Each run uses a slot, which has its own memory for inputs and
/// outputs. Runs begin in the order in which they are submitted.
pub trait DelegateQueue {
    /// Number of slots, that is, of runs that can be in progress at the same time.
    fn slots(&self) -> usize;

    /// Writes an input of a slot, by its index in [`Partition::inputs`]. Waits for runs in the slot that still read it.
    ///
    /// # Errors
    ///
    /// If the input does not exist or the device fails.
    fn write(&mut self, slot: usize, input: usize, bytes: &[u8]) -> Result<(), DelegateError>;

    /// Memory of an input of a slot that the host can write directly. Waits for runs in the slot that still read it.
    /// The memory contains the bytes of the tensor and may be very slow to read. `None` if only
    /// [`DelegateQueue::write`] is supported.
    ///
    /// # Errors
    ///
    /// If the input does not exist or the device fails.
    fn input_mut(&mut self, _slot: usize, _input: usize) -> Result<Option<&mut [u8]>, DelegateError> {
        Ok(None)
    }

    /// Copies back the bytes that were last written to an input of a slot. This is called rarely, and only for inputs
    /// that [`DelegateQueue::input_mut`] gave memory for.
    ///
    /// # Errors
    ///
    /// If the input cannot be read back.
    fn read_input(&mut self, _slot: usize, _input: usize, _bytes: &mut [u8]) -> Result<(), DelegateError> {
        Err(DelegateError::new("what was written to it cannot be read"))
    }

    /// Starts `times` runs on the inputs last written to the slot and does not wait for them. The runs may overlap. The
    /// slot's outputs are those of the last run.
    ///
    /// # Errors
    ///
    /// If the runs cannot be started.
    fn submit(&mut self, slot: usize, times: usize) -> Result<(), DelegateError>;

    /// Waits for the last run of the slot. The transfer of its outputs to the host may still be in progress.
    ///
    /// # Errors
    ///
    /// If the run failed.
    fn wait(&mut self, slot: usize) -> Result<(), DelegateError>;

    /// The bytes of an output of the slot's last run, by its index in [`Partition::outputs`]. The slice starts at the
    /// first byte and contains what has arrived so far, at least `least` bytes. It refers to the memory that the device
    /// wrote if the host can see that memory. `None` unless the run was waited for.
    ///
    /// # Errors
    ///
    /// If the output cannot be read from the device.
    fn output(&self, slot: usize, output: usize, least: usize) -> Result<Option<&[u8]>, DelegateError>;

    /// Copies an output of the slot's last run into `into`, part by part as it arrives. False unless the run was waited
    /// for.
    ///
    /// # Errors
    ///
    /// If the output cannot be read from the device or is smaller than `into`.
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

/// Statistics about the preparation and the memory of a partition. Values that a delegate does not know are zero.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelReport {
    /// Dispatches of one run.
    pub dispatches: usize,
    /// The kernel variants in use, if the delegate names them.
    pub variants: BTreeSet<&'static str>,
    /// Kernel variants that could have been used for some of the dispatches.
    pub alternatives: BTreeSet<&'static str>,
    /// Bytes of device memory for intermediate tensors.
    pub arena_bytes: usize,
    /// Largest sum of the bytes of intermediate tensors that are live at one step. No arena can be smaller.
    pub arena_lower_bound_bytes: usize,
    /// Bytes of device memory for constants.
    pub weights_bytes: usize,
    /// Milliseconds spent on compiling pipelines.
    pub compile_ms: f64,
    /// Milliseconds spent on packing and uploading constants, excluding the time that overlapped with pipeline
    /// compilation.
    pub upload_ms: f64,
    /// Nodes that were fused into another kernel, with a text that names that kernel.
    pub merged: Vec<(NodeId, String)>,
}

/// A delegate's failure to prepare or to run a partition.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct DelegateError {
    /// The category of the failure.
    pub kind: DelegateErrorKind,
    /// What went wrong, and the remedy if it is known.
    pub reason: String,
}

/// The category of a [`DelegateError`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DelegateErrorKind {
    /// The delegate failed. Others may succeed.
    #[default]
    Failed,
    /// The device ran out of memory.
    OutOfMemory,
    /// The device was lost. Everything that was created on it is unusable.
    DeviceLost,
    /// The delegate panicked, which is a bug in the delegate. A kernel that panicked in a run is not used again.
    Panicked,
}

impl DelegateError {
    /// A failure of kind [`DelegateErrorKind::Failed`] with this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { kind: DelegateErrorKind::default(), reason: reason.into() }
    }

    /// Replaces the kind of the error.
    pub fn with_kind(self, kind: DelegateErrorKind) -> Self {
        Self { kind, ..self }
    }
}

//! The interface between the interpreter and an accelerator. Applications and libraries can implement it.
//!
//! The interpreter asks a delegate about each node. The delegate either claims the node or gives the reason
//! why it cannot run the node. Claimed nodes are clustered into partitions ([`Partition`]). The delegate
//! receives each accepted partition and prepares a kernel that runs it. A delegate that fails to prepare a
//! partition runs nothing; its nodes run elsewhere.

mod bindings;
mod graph;
pub(crate) mod guard;

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use attache_base::{Bytes, copy};
use attache_graph::{Fact, Graph, Node, NodeId, TensorId, TensorMut, TensorRef, Unsupported};
use attache_model::{Model, Operator, schema};

pub use self::bindings::{Commands, DelegateBindings, InputMemory, OutputMemory};
pub use self::graph::{Clustering, GraphClaims, GraphContext};
use self::guard::discard;
use crate::{CacheFolder, KernelProfile};

/// Runs parts of graphs on an accelerator. Panics in a delegate or in one of its kernels are caught. They count as an
/// unsupported node, a failed preparation or a failed run, and are listed in [`Report::panics`](crate::Report::panics).
pub trait Delegate: Send + Sync {
    /// Returns the name of the delegate, which reports and log lines use.
    fn name(&self) -> &str;

    /// Returns the conditions that partitions must meet to be delegated. The default accepts all partitions.
    fn partitioning(&self) -> Partitioning {
        Partitioning::default()
    }

    /// Claims a node. A claim is a promise that the delegate can prepare the partition that contains the
    /// node.
    ///
    /// # Errors
    ///
    /// The reason why the delegate does not support the node.
    fn claim(&self, node: NodeContext<'_>) -> Result<Claim, Unsupported>;

    /// Claims nodes of a graph together, for a delegate that decides on the graph as a whole. Returns an answer for each
    /// of [`GraphContext::nodes`], in their order; `None`, the default, if the delegate is asked about each node alone
    /// ([`Delegate::claim`]).
    ///
    /// # Errors
    ///
    /// If the delegate cannot run any part of the graph. It is then not used at all.
    fn claim_graph(&self, _graph: &GraphContext<'_>) -> Result<Option<GraphClaims>, DelegateError> {
        Ok(None)
    }

    /// Prepares a partition, once for all interpreters of a compiled model.
    ///
    /// # Errors
    ///
    /// If the delegate cannot prepare the partition. The delegate is then not used at all. An error of kind
    /// [`DelegateErrorKind::OutOfMemory`] or [`DelegateErrorKind::DeviceLost`] also makes the build of the interpreter
    /// fail, unless [`InterpreterBuilder::cpu_fallback`](crate::InterpreterBuilder::cpu_fallback) is set.
    fn prepare(&self, partition: Partition<'_>) -> Result<Box<dyn PreparedPartition>, DelegateError>;

    /// Returns where what the delegate prepares is stored, so that later starts take it from there; `None` if nothing is
    /// stored, which is the default.
    fn cache(&self) -> Option<DelegateCache<'_>> {
        None
    }

    /// Prepares a partition from the parts that [`PreparedPartition::take_parts`] returned when it was first prepared.
    /// The claims of its nodes are empty. The default fails.
    ///
    /// # Errors
    ///
    /// If the parts cannot be used. All nodes are then claimed and prepared as if nothing were stored.
    fn restore(
        &self,
        _partition: Partition<'_>,
        _parts: &[Bytes],
    ) -> Result<Box<dyn PreparedPartition>, DelegateError> {
        Err(DelegateError::new("the delegate restores no partitions"))
    }
}

/// Where a delegate stores what it prepares.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DelegateCache<'a> {
    /// The folder.
    pub cache: &'a CacheFolder,
    /// A text that stands for the weights of the model, so that they need not be read to find what is stored. A program
    /// that gives two models that differ in nothing but weights the same token gets the weights of the first one.
    pub model_token: Option<&'a str>,
    /// Everything that prepared partitions depend on besides the model and the operators that the program registered:
    /// the device, its driver, and the delegate's version and options.
    pub key: Vec<u8>,
    /// What the partitions are prepared for, for people, such as the name of the device.
    pub description: String,
}

impl<'a> DelegateCache<'a> {
    /// Describes what a delegate stores in a folder.
    #[must_use]
    pub fn new(cache: &'a CacheFolder, key: Vec<u8>, description: impl Into<String>) -> Self {
        Self { cache, model_token: None, key, description: description.into() }
    }

    /// Sets the token that stands for the weights of the model.
    #[must_use]
    pub fn model_token(self, token: Option<&'a str>) -> Self {
        Self { model_token: token, ..self }
    }
}

impl<D: Delegate + ?Sized> Delegate for Arc<D> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn partitioning(&self) -> Partitioning {
        (**self).partitioning()
    }

    fn claim(&self, node: NodeContext<'_>) -> Result<Claim, Unsupported> {
        (**self).claim(node)
    }

    fn claim_graph(&self, graph: &GraphContext<'_>) -> Result<Option<GraphClaims>, DelegateError> {
        (**self).claim_graph(graph)
    }

    fn prepare(&self, partition: Partition<'_>) -> Result<Box<dyn PreparedPartition>, DelegateError> {
        (**self).prepare(partition)
    }

    fn cache(&self) -> Option<DelegateCache<'_>> {
        (**self).cache()
    }

    fn restore(&self, partition: Partition<'_>, parts: &[Bytes]) -> Result<Box<dyn PreparedPartition>, DelegateError> {
        (**self).restore(partition, parts)
    }
}

/// A node that a delegate is asked about: the node of the graph, and the operator of the model file that it was made
/// from.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct NodeContext<'a> {
    /// The model.
    pub model: &'a Model,
    /// The index of the node's subgraph.
    pub subgraph: usize,
    /// The graph that contains the node.
    pub graph: &'a Graph,
    /// The node.
    pub id: NodeId,
}

impl<'a> NodeContext<'a> {
    /// Returns the node: its operator, inputs and outputs.
    #[must_use]
    pub fn node(&self) -> &'a Node {
        self.graph.node(self.id)
    }

    /// Returns the operator of the model file that the node was made from, with its code, version and options;
    /// the first one if there are several, `None` if there is none. It is one of another subgraph if the node took the place
    /// of a call ([`Node::inlined`]).
    #[must_use]
    pub fn operator(&self) -> Option<&'a Operator> {
        let (subgraph, operator) = self.node().place(self.subgraph)?;
        self.model.subgraphs().get(subgraph)?.operators.get(operator)
    }

    /// Returns the FlatBuffers table of the operator of the model file, for the options of builtin operators:
    /// `options.builtin_options_as_…()`. `None` if the node was not made from an operator of the file.
    #[must_use]
    pub fn options(&self) -> Option<schema::Operator<'a>> {
        let (subgraph, operator) = self.node().place(self.subgraph)?;
        self.operator()?;
        Some(self.model.operator_view(subgraph, operator))
    }

    /// Returns the facts known about an input: type, shape, quantization parameters, and the value of a constant.
    /// `None` if the input is left out or does not exist.
    #[must_use]
    pub fn input(&self, index: usize) -> Option<&'a Fact> {
        let id = self.node().inputs.get(index).copied().flatten()?;
        Some(self.graph.fact(id))
    }

    /// Returns the facts known about an output; `None` if it does not exist.
    #[must_use]
    pub fn output(&self, index: usize) -> Option<&'a Fact> {
        let id = *self.node().outputs.get(index)?;
        Some(self.graph.fact(id))
    }
}

/// Data that a delegate attaches to a node it claims and receives back in [`Delegate::prepare`].
pub struct Claim(Option<Box<dyn Any + Send>>);

impl Claim {
    /// Creates a claim without data.
    pub(crate) fn empty() -> Self {
        Self(None)
    }

    /// Creates a claim that carries `data`.
    pub fn new(data: impl Any + Send) -> Self {
        Self(Some(Box::new(data)))
    }

    /// Takes the data out of the claim; `None` if it is not of type `T`.
    #[must_use]
    pub fn downcast<T: Any>(mut self) -> Option<Box<T>> {
        self.0.take_if(|data| data.is::<T>())?.downcast().ok()
    }

    /// Returns a reference to the data of the claim; `None` if it is not of type `T`.
    #[must_use]
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

/// Conditions that partitions must meet to be delegated. The names are those of TensorFlow Lite.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Partitioning {
    /// Maximum number of partitions. The ones with the most nodes are taken; `None` means no limit.
    pub max_delegated_partitions: Option<usize>,
    /// Minimum number of nodes of a partition. Smaller partitions are not delegated.
    pub min_nodes_per_partition: usize,
    /// Index, within its subgraph of the file, of the first operator that may be delegated.
    pub first_delegate_node_index: usize,
    /// Index, within its subgraph of the file, of the last operator that may be delegated.
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

impl Partitioning {
    /// Limits the number of partitions.
    #[must_use]
    pub fn max_delegated_partitions(self, most: usize) -> Self {
        Self { max_delegated_partitions: Some(most), ..self }
    }

    /// Sets the minimum number of nodes of a partition.
    #[must_use]
    pub fn min_nodes_per_partition(self, least: usize) -> Self {
        Self { min_nodes_per_partition: least, ..self }
    }

    /// Sets the index of the first operator that may be delegated.
    #[must_use]
    pub fn first_delegate_node_index(self, index: usize) -> Self {
        Self { first_delegate_node_index: index, ..self }
    }

    /// Sets the index of the last operator that may be delegated.
    #[must_use]
    pub fn last_delegate_node_index(self, index: usize) -> Self {
        Self { last_delegate_node_index: index, ..self }
    }
}

/// A partition: nodes that run together on a delegate.
#[derive(Debug)]
#[non_exhaustive]
pub struct Partition<'a> {
    /// The model.
    pub model: &'a Model,
    /// The index of the subgraph.
    pub subgraph: usize,
    /// The graph that contains the nodes.
    pub graph: &'a Graph,
    /// The nodes in execution order, each with the claim that the delegate returned for it.
    pub nodes: Vec<(NodeId, Claim)>,
    /// Non-constant tensors that the partition reads and that are made outside of it, ascending.
    pub inputs: Vec<TensorId>,
    /// Tensors that the partition makes and that are read outside of it or are outputs of the graph, ascending. Variables
    /// that nodes of the partition read are among them: the kernel finds their values in the inputs, and writes the values
    /// that they have after the run. What it does not write stays as it is.
    pub outputs: Vec<TensorId>,
}

impl<'a> Partition<'a> {
    /// Returns the nodes in execution order, with the operators that they were made from.
    pub fn contexts(&self) -> impl Iterator<Item = NodeContext<'a>> {
        let (model, subgraph, graph) = (self.model, self.subgraph, self.graph);
        self.nodes.iter().map(move |(id, _)| NodeContext { model, subgraph, graph, id: *id })
    }
}

/// A partition that a delegate has prepared: what all interpreters of a compiled model have in common, such as weights on
/// the device and pipelines.
pub trait PreparedPartition: Send + Sync {
    /// Makes a kernel, which runs the partition for one interpreter with memory of its own.
    ///
    /// # Errors
    ///
    /// If the kernel cannot be made, for example because the device is out of memory.
    fn kernel(&self) -> Result<Box<dyn DelegateKernel>, DelegateError>;

    /// Returns statistics about the prepared partition.
    fn report(&self) -> KernelReport {
        KernelReport::default()
    }

    /// Takes the parts from which [`Delegate::restore`] prepares the partition again; `None` if it is not to be stored,
    /// or if the parts were taken before. Called once, if [`Delegate::cache`] says where parts are stored.
    fn take_parts(&self) -> Option<Vec<Vec<u8>>> {
        None
    }
}

/// A function that makes kernels is a prepared partition without statistics.
impl<F> PreparedPartition for F
where
    F: Fn() -> Result<Box<dyn DelegateKernel>, DelegateError> + Send + Sync,
{
    fn kernel(&self) -> Result<Box<dyn DelegateKernel>, DelegateError> {
        self()
    }
}

/// The end of a run, for which any thread can wait.
pub trait Completion: Send + Sync {
    /// Waits until the run has ended, but at most this long. Returns whether it has ended.
    ///
    /// # Errors
    ///
    /// If the run failed.
    fn wait(&self, timeout: Duration) -> Result<bool, DelegateError>;
}

/// A prepared partition in one interpreter, which runs on the accelerator.
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

    /// Returns the run queue of the kernel; `None` if the kernel cannot have several runs in progress.
    fn queue(&self) -> Option<&dyn DelegateQueue> {
        None
    }

    /// Returns the run queue of the kernel for mutable access; `None` if [`DelegateKernel::queue`] returns
    /// `None`.
    fn queue_mut(&mut self) -> Option<&mut dyn DelegateQueue> {
        None
    }

    /// Returns what binds inputs and outputs of the kernel to memory of the caller's; `None` if the kernel cannot do that.
    fn bindings(&mut self) -> Option<&mut dyn DelegateBindings> {
        None
    }

    /// Shares an output in device memory with another kernel of the same delegate that reads it later in the
    /// same run. Returns a handle for [`DelegateKernel::take_input`], whose type only the delegate needs to
    /// know, or `None` if the output has to be copied through the host.
    fn share_output(&mut self, _output: usize) -> Option<Box<dyn Any>> {
        None
    }

    /// Makes the kernel read an input from the device memory behind `shared`, which the producing kernel
    /// returned from [`DelegateKernel::share_output`]. This applies to all following runs, and
    /// [`DelegateKernel::invoke`] then ignores the tensor passed for this input. Returns false if that is not
    /// possible; the input is then copied through the host.
    fn take_input(&mut self, _input: usize, _shared: &dyn Any) -> bool {
        false
    }

    /// Declares that the outputs with these indices are read only by kernels to which they were shared on the
    /// device. [`DelegateKernel::invoke`] then need not write them to the host.
    fn keep_on_device(&mut self, _outputs: &[usize]) {}

    /// Returns the bytes of inputs and outputs that were copied between memory of the host and of the accelerator so far;
    /// `None` if they are not counted.
    fn io_bytes(&self) -> Option<u64> {
        None
    }

    /// Returns the timing of the last run; empty if it was not measured.
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
    /// Returns the number of slots, which is the number of runs that can be in progress at the same time.
    fn slots(&self) -> usize;

    /// Writes an input of a slot. `input` is its index in [`Partition::inputs`]. Waits for runs in the slot
    /// that still read it.
    ///
    /// # Errors
    ///
    /// If the input does not exist or the device fails.
    fn write(&mut self, slot: usize, input: usize, bytes: &[u8]) -> Result<(), DelegateError>;

    /// Returns the memory of an input of a slot, for the host to write the bytes of the tensor directly.
    /// Waits for runs in the slot that still read it. Reading from the memory may be very slow. `None` if
    /// only [`DelegateQueue::write`] is supported.
    ///
    /// # Errors
    ///
    /// If the input does not exist or the device fails.
    fn input_mut(&mut self, _slot: usize, _input: usize) -> Result<Option<&mut [u8]>, DelegateError> {
        Ok(None)
    }

    /// Copies the bytes that were last written to an input of a slot into `_bytes`. This is called rarely,
    /// and only for inputs for which [`DelegateQueue::input_mut`] returned memory.
    ///
    /// # Errors
    ///
    /// If the input cannot be read back.
    fn read_input(&mut self, _slot: usize, _input: usize, _bytes: &mut [u8]) -> Result<(), DelegateError> {
        Err(DelegateError::new("what was written to it cannot be read"))
    }

    /// Starts `times` runs on the inputs last written to the slot, without waiting for them. The runs may
    /// overlap. Afterwards the slot has the outputs of the last of these runs.
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

    /// Returns an object with which any thread can wait for the last run of the slot.
    fn completion(&self, slot: usize) -> Arc<dyn Completion>;

    /// Returns the bytes of an output of the slot's last run, from the first byte to the last one that has
    /// arrived on the host, but at least `least` bytes. `output` is its index in [`Partition::outputs`]. If
    /// the host can see the memory that the device wrote, the slice refers to it. `None` unless the run was
    /// waited for.
    ///
    /// # Errors
    ///
    /// If the output cannot be read from the device.
    fn output(&self, slot: usize, output: usize, least: usize) -> Result<Option<&[u8]>, DelegateError>;

    /// Copies an output of the slot's last run into `into`, part by part as it arrives. Returns false, and
    /// copies nothing, unless the run was waited for.
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
#[non_exhaustive]
pub struct KernelReport {
    /// Number of dispatches that one run submits.
    pub dispatches: usize,
    /// Names of the kernel variants that the dispatches use; empty if the delegate does not name them.
    pub variants: BTreeSet<&'static str>,
    /// Names of further kernel variants that apply to some of the kernels and were not chosen for them.
    pub alternatives: BTreeSet<&'static str>,
    /// Bytes of device memory for intermediate tensors.
    pub arena_bytes: usize,
    /// Largest sum of the bytes of intermediate tensors that are live at one step. No arena can be smaller.
    pub arena_lower_bound_bytes: usize,
    /// Bytes of device memory for constants.
    pub weights_bytes: usize,
    /// Whether the partition was restored from what an earlier preparation stored.
    pub is_restored: bool,
    /// Milliseconds spent on compiling pipelines.
    pub compile_ms: f64,
    /// Milliseconds spent on packing and uploading constants, excluding the time that overlapped with pipeline
    /// compilation.
    pub upload_ms: f64,
    /// Nodes that were fused with others into one kernel, each with a text that names the others.
    pub merged: Vec<(NodeId, String)>,
    /// Choices that the delegate made, each as a sentence without a full stop.
    pub notes: Vec<String>,
}

/// A delegate's failure to prepare or to run a partition.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
#[non_exhaustive]
pub struct DelegateError {
    /// The category of the failure.
    pub kind: DelegateErrorKind,
    /// What went wrong, and the remedy if it is known.
    pub reason: String,
    /// The error that caused this one, if there is one.
    pub source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// The category of a [`DelegateError`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DelegateErrorKind {
    /// The delegate cannot prepare or run the partition, for a reason other than memory, device loss or a
    /// panic.
    #[default]
    Failed,
    /// The device ran out of memory.
    OutOfMemory,
    /// The device was lost. Everything that was created on it is unusable.
    DeviceLost,
    /// The delegate panicked, which is a bug in the delegate. A kernel that panicked in a run is not used again.
    Panicked,
    /// The caller asked for something that cannot be, such as memory that does not fit a tensor. Nothing changed.
    Usage,
}

impl DelegateError {
    /// Creates an error of kind [`DelegateErrorKind::Failed`] with this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { kind: DelegateErrorKind::default(), reason: reason.into(), source: None }
    }

    /// Returns the error with this cause, which [`std::error::Error::source`] returns.
    #[must_use]
    pub fn with_source(self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self { source: Some(Arc::new(source)), ..self }
    }

    /// Returns the error with its kind replaced.
    #[must_use]
    pub fn with_kind(self, kind: DelegateErrorKind) -> Self {
        Self { kind, ..self }
    }
}

//! The host of an operator that runs on the CPU ([`NodeHost`]): its access to the interpreter's other
//! subgraphs and resource variables, and storage for new variable values and for outputs that only the
//! operator itself can size.

use std::sync::Arc;

use attache_base::{AlignedBuffer, IntegerRounding, Parallel, Shape, SharedBuffer};
use attache_graph::{Handle, HashTable, Host, OpError, PassedTensor, TensorRef};

use super::observer::Watch;
use crate::{Error, Limits};

/// The threads, the called subgraphs and the resource variables of an interpreter, as the executor of one of its
/// subgraphs uses them.
pub(crate) trait Subgraphs {
    /// Returns threads for a run, which start when they are first asked for and are lent until the value is dropped.
    fn threads(&mut self) -> Arc<dyn Parallel + Send + Sync>;

    /// Returns how results of quantized operators are rounded.
    fn rounding(&self) -> IntegerRounding;

    /// Begins a run of the interpreter: resets the number of subgraph runs and the error.
    fn start(&mut self);

    /// Returns an error if the interpreter's run was cancelled. Called before each step.
    fn check_cancelled(&self) -> Result<(), Error>;

    /// Returns what tells an observer about a run of a subgraph.
    #[cfg(not(attache_small))]
    fn watch(&self, subgraph: usize) -> Watch;

    /// Takes the error of a called subgraph that made the calling operator fail; `None` if no called subgraph
    /// failed.
    fn failure(&mut self) -> Option<Error>;

    /// Runs a subgraph on the threads of its caller. Returns the outputs.
    fn call(
        &mut self,
        subgraph: usize,
        inputs: Vec<PassedTensor>,
        parallel: &dyn Parallel,
    ) -> Result<Vec<PassedTensor>, OpError>;

    /// Counts bytes of tensors that were copied to pass them on.
    fn note_copied(&mut self, bytes: usize);

    /// Runs a subgraph without inputs, unless an earlier call has run it already.
    fn call_once(&mut self, subgraph: usize, parallel: &dyn Parallel) -> Result<(), OpError>;

    /// Returns the handle of the resource variable with this name in this container. Creates the variable,
    /// without a value, if there is none yet.
    fn variable_handle(&mut self, container: &str, name: &str) -> Handle;

    /// Returns the value of a resource variable; `None` before its first assignment.
    fn variable(&self, handle: Handle) -> Result<Option<&PassedTensor>, OpError>;

    /// Assigns a value to a resource variable.
    fn set_variable(&mut self, handle: Handle, value: PassedTensor) -> Result<(), OpError>;

    /// Assigns a copy of a tensor to a resource variable.
    fn copy_to_variable(&mut self, handle: Handle, value: &TensorRef<'_>) -> Result<(), OpError>;

    /// Takes its value from a resource variable if it is this memory, so that the caller may be the only owner. Returns
    /// whether it was; the caller then sets the variable again.
    fn release_variable(&mut self, handle: Handle, value: &SharedBuffer) -> bool;

    /// Returns the handle of the hash table with this number. Creates the table if there is none yet.
    fn table_handle(&mut self, table: i32) -> Handle;

    /// Returns a hash table; `None` before it is filled.
    fn table(&self, handle: Handle) -> Result<Option<Arc<HashTable>>, OpError>;

    /// Fills a hash table.
    fn set_table(&mut self, handle: Handle, table: Arc<HashTable>) -> Result<(), OpError>;
}

/// Returns what tells an observer about a run of a subgraph.
#[cfg(not(attache_small))]
pub(crate) fn watch(subgraphs: &dyn Subgraphs, subgraph: usize) -> Watch {
    subgraphs.watch(subgraph)
}

/// There is no observer in the smallest libraries.
#[cfg(attache_small)]
pub(crate) fn watch(_: &dyn Subgraphs, _: usize) -> Watch {
    Watch
}

/// The host of one node during its evaluation.
pub(crate) struct NodeHost<'a> {
    pub(crate) subgraphs: &'a mut dyn Subgraphs,
    pub(crate) parallel: &'a dyn Parallel,
    pub(crate) limits: &'a Limits,
    pub(crate) watch: Watch,
    /// Shape and bytes of outputs that only the operator itself can size, by index of the output; `None`
    /// until the operator sets them.
    pub(crate) made: Vec<Option<(Shape, AlignedBuffer)>>,
    /// New values of variable inputs, each with the index of the input, to be copied into the variables after
    /// the evaluation.
    pub(crate) states: Vec<(usize, Vec<u8>)>,
}

impl<'a> NodeHost<'a> {
    /// Makes the host for a run of the subgraph with this index.
    pub(crate) fn new(
        (subgraphs, subgraph): (&'a mut dyn Subgraphs, usize),
        parallel: &'a dyn Parallel,
        limits: &'a Limits,
    ) -> Self {
        let watch = watch(subgraphs, subgraph);
        Self { subgraphs, parallel, limits, watch, made: Vec::new(), states: Vec::new() }
    }
}

impl Host for NodeHost<'_> {
    fn run_subgraph(&mut self, subgraph: usize, inputs: Vec<PassedTensor>) -> Result<Vec<PassedTensor>, OpError> {
        self.subgraphs.call(subgraph, inputs, self.parallel)
    }

    fn rounding(&self) -> IntegerRounding {
        self.subgraphs.rounding()
    }

    fn make_output(&mut self, output: usize, shape: Shape, size: usize) -> Result<&mut [u8], OpError> {
        let slot = self.made.get_mut(output);
        let slot = slot.ok_or_else(|| OpError::invalid(format!("output {output} is set; there is no such output")))?;
        self.limits.check_size(size)?;
        let buffer = AlignedBuffer::zeroed(size).map_err(|error| OpError::out_of_memory(error.to_string()))?;
        Ok(&mut slot.insert((shape, buffer)).1)
    }

    fn set_state(&mut self, input: usize, bytes: &[u8]) -> Result<(), OpError> {
        self.states.push((input, bytes.to_vec()));
        Ok(())
    }

    fn run_subgraph_once(&mut self, subgraph: usize) -> Result<(), OpError> {
        self.subgraphs.call_once(subgraph, self.parallel)
    }

    fn variable_handle(&mut self, container: &str, name: &str) -> Result<Handle, OpError> {
        Ok(self.subgraphs.variable_handle(container, name))
    }

    fn variable(&self, handle: Handle) -> Result<Option<&PassedTensor>, OpError> {
        self.subgraphs.variable(handle)
    }

    fn set_variable(&mut self, handle: Handle, value: PassedTensor) -> Result<(), OpError> {
        self.subgraphs.set_variable(handle, value)
    }

    fn copy_to_variable(&mut self, handle: Handle, value: &TensorRef<'_>) -> Result<(), OpError> {
        self.subgraphs.copy_to_variable(handle, value)
    }

    fn table_handle(&mut self, table: i32) -> Result<Handle, OpError> {
        Ok(self.subgraphs.table_handle(table))
    }

    fn table(&self, handle: Handle) -> Result<Option<Arc<HashTable>>, OpError> {
        self.subgraphs.table(handle)
    }

    fn set_table(&mut self, handle: Handle, table: Arc<HashTable>) -> Result<(), OpError> {
        self.subgraphs.set_table(handle, table)
    }
}

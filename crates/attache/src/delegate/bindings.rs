//! Inputs and outputs that stay on the accelerator: kernels that use memory of the caller's there.

use std::any::Any;

use attache_graph::Fact;

use super::DelegateError;

/// Memory that an input of an interpreter can be bound to ([`Interpreter::bind_input`](crate::Interpreter::bind_input)).
/// Each delegate has types of its own for that; the delegate that runs the graph has to know the type.
pub trait InputMemory: Any + Send + Sync {}

/// Memory that an output of an interpreter can be bound to
/// ([`Interpreter::bind_output`](crate::Interpreter::bind_output)).
pub trait OutputMemory: Any + Send + Sync {}

/// An object that commands of a run are added to ([`Interpreter::encode`](crate::Interpreter::encode)). Each delegate that
/// has such an object has a type of its own.
pub trait Commands: Any {}

/// A kernel with a queue ([`DelegateKernel::queue`](crate::DelegateKernel::queue)) that can use memory of the caller's on
/// the accelerator in place of tensors of the host. The interpreter neither writes an input nor reads an output while it
/// is bound.
///
/// Errors of kind [`DelegateErrorKind::Usage`](crate::DelegateErrorKind::Usage) tell the caller what is wrong with the
/// memory. Where a call fails, the binding stays as it was.
pub trait DelegateBindings {
    /// Makes all further runs read an input from `memory`, an [`InputMemory`] of a type that the delegate knows, or with
    /// `None` from the slots of the queue. `input` is its index in [`Partition::inputs`](crate::Partition::inputs), and
    /// `tensor` describes it.
    ///
    /// # Errors
    ///
    /// If the delegate does not know the type of the memory, or the memory does not fit the tensor.
    fn bind_input(&mut self, input: usize, tensor: &Fact, memory: Option<&dyn Any>) -> Result<(), DelegateError>;

    /// Makes all further runs write an output to `memory`, an [`OutputMemory`] of a type that the delegate knows, or with
    /// `None` to the slots of the queue. `output` is its index in [`Partition::outputs`](crate::Partition::outputs), and
    /// `tensor` describes it.
    ///
    /// # Errors
    ///
    /// If the delegate does not know the type of the memory, or the memory does not fit the tensor.
    fn bind_output(&mut self, output: usize, tensor: &Fact, memory: Option<&dyn Any>) -> Result<(), DelegateError>;

    /// Returns pairs of an input and the output that has its elements with some of them replaced, which runs write in place
    /// where both are bound to the same memory, if the accelerator can.
    fn updates(&self) -> Vec<[usize; 2]> {
        Vec::new()
    }

    /// Makes further runs read an input where they write an output, which has the same type and shape, so that the value of
    /// the output after a run is that of the input in the next one. The output of the last run of a slot is the first such
    /// value. The host still reads the output after each run ([`DelegateQueue::output`](crate::DelegateQueue::output)) until
    /// the next one starts. Returns false and changes nothing if the kernel cannot do this.
    ///
    /// # Errors
    ///
    /// If the accelerator fails.
    fn carry(&mut self, _slot: usize, _output: usize, _input: usize) -> Result<bool, DelegateError> {
        Ok(false)
    }

    /// Makes further runs read an input that an output was carried to from the slots of the queue again, and write the output
    /// there. Before that, copies the value of the input to `value`, if there is any.
    ///
    /// # Errors
    ///
    /// If the accelerator fails, or if nothing was carried to the input.
    fn end_carry(&mut self, _input: usize, _value: Option<&mut [u8]>) -> Result<(), DelegateError> {
        Err(DelegateError::new("it carries nothing over"))
    }

    /// Adds the commands of a run to `commands`, [`Commands`] of a type that the delegate knows. The caller executes them.
    /// All inputs are bound.
    ///
    /// # Errors
    ///
    /// If the delegate does not know the type of the commands, or cannot add to them.
    fn encode(&mut self, commands: &mut dyn Any) -> Result<(), DelegateError>;
}

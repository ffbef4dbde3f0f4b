//! Inputs and outputs of interpreters that are bound to memory on a device.

use std::any::Any;
use std::sync::Arc;

use super::{Interpreter, SignatureRunner, TensorKey};
use crate::{Commands, Error, InputMemory, OutputMemory};

impl Interpreter {
    /// Binds an input to memory on the device of the delegate that runs the whole graph: `gpu::MemoryBinding` on
    /// a device that the delegate opened, `gpu::BufferBinding` and `gpu::TextureSource` on one of the caller's.
    /// All further runs read the input there, at the time when they execute on the device, until it is bound to
    /// other memory or unbound. The memory stays alive that long. The input cannot be written meanwhile. If it is
    /// resized, it has to be bound again, written or unbound before the next run.
    ///
    /// # Errors
    ///
    /// Of kind [`ErrorKind::NotDelegated`](crate::ErrorKind::NotDelegated), with the operators on the CPU,
    /// unless one delegate runs the whole graph; of kind [`ErrorKind::Usage`](crate::ErrorKind::Usage) if the
    /// input does not exist or nothing reads it, if the memory does not fit it, is of another device or lacks
    /// a usage, or with [`cpu_fallback`](crate::InterpreterBuilder::cpu_fallback), since the CPU could not
    /// read the memory. The input is then bound as before.
    pub fn bind_input(&mut self, input: impl TensorKey, memory: impl InputMemory) -> Result<(), Error> {
        let input = self.find_input(&input)?;
        self.set_input(self.main, input, Some(Arc::new(memory)))
    }

    /// Binds an output to memory on the device of the delegate that runs the whole graph: `gpu::MemoryBinding` on
    /// a device that the delegate opened, `gpu::BufferBinding` and `gpu::TextureTarget` on one of the caller's.
    /// All further runs write the output there, until it is bound to other memory or unbound. The host cannot
    /// read the output meanwhile. If inputs are resized and its shape changes, it has to be bound again or unbound
    /// before the next run.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::bind_input`].
    pub fn bind_output(&mut self, output: impl TensorKey, memory: impl OutputMemory) -> Result<(), Error> {
        let output = self.find_output(&output)?;
        self.set_output(self.main, output, Some(Arc::new(memory)))
    }

    /// Makes further runs read an input from host memory again. It has the value that was written before it was bound.
    ///
    /// # Errors
    ///
    /// If the input does not exist, or as [`Interpreter::bind_input`] if inputs cannot be bound.
    pub fn unbind_input(&mut self, input: impl TensorKey) -> Result<(), Error> {
        let input = self.find_input(&input)?;
        self.set_input(self.main, input, None)
    }

    /// Makes further runs write an output to host memory again. It has no value until the next run, unless
    /// the last one wrote it there.
    ///
    /// # Errors
    ///
    /// If the output does not exist, or as [`Interpreter::bind_output`] if outputs cannot be bound.
    pub fn unbind_output(&mut self, output: impl TensorKey) -> Result<(), Error> {
        let output = self.find_output(&output)?;
        self.set_output(self.main, output, None)
    }

    /// Returns pairs of an input and the output that has its elements with some of them replaced, as a cache of keys has after
    /// a step of a language model, by their indices. Where both are bound to the same memory, runs replace these elements
    /// there and copy nothing, if the device can. Empty unless one delegate runs the whole graph.
    pub fn in_place_updates(&mut self) -> Vec<[usize; 2]> {
        self.instance_of_mut(self.main).executor.updates()
    }

    fn set_input(&mut self, subgraph: usize, input: usize, memory: Option<Arc<dyn InputMemory>>) -> Result<(), Error> {
        self.check_fallback()?;
        self.instance_of_mut(subgraph).executor.bind_input(input, memory)
    }

    fn set_output(
        &mut self,
        subgraph: usize,
        output: usize,
        memory: Option<Arc<dyn OutputMemory>>,
    ) -> Result<(), Error> {
        self.check_fallback()?;
        self.instance_of_mut(subgraph).executor.bind_output(output, memory)
    }

    /// Adds the commands of a run to commands of the caller's, such as a `wgpu::CommandEncoder`, and waits for nothing. The
    /// caller submits them, between its own work. Outputs that are bound have their values when the device has executed
    /// the commands; the host can read none.
    ///
    /// With the GPU delegate, the encoder is of the device that was given to `GpuDelegate::with_device`, and
    /// is not in a pass. An encoder of another device is an error, here or of wgpu when it is finished; one
    /// of another wgpu instance may also have no error, and then runs what that instance has made.
    ///
    /// # Errors
    ///
    /// Of kind [`ErrorKind::NotDelegated`](crate::ErrorKind::NotDelegated), with the operators on the CPU,
    /// unless one delegate runs the whole graph; of kind [`ErrorKind::Usage`](crate::ErrorKind::Usage) if an
    /// input is not bound ([`Interpreter::bind_input`]), or as there; or if the delegate knows that the
    /// device has failed. Of the loss of a device that the caller opened, wgpu tells the caller alone.
    pub fn encode<C: Commands>(&mut self, commands: &mut C) -> Result<(), Error> {
        self.encode_subgraph(self.main, commands)
    }

    fn encode_subgraph(&mut self, subgraph: usize, commands: &mut dyn Any) -> Result<(), Error> {
        self.check_fallback()?;
        self.instance_of_mut(subgraph).executor.encode(commands)
    }

    fn check_fallback(&self) -> Result<(), Error> {
        if self.core().options().cpu_fallback {
            let reason = "the CPU, which could not use the memory, may take over; build without cpu_fallback";
            return Err(Error::usage(format!("nothing can be bound: {reason}")));
        }
        Ok(())
    }
}

impl SignatureRunner<'_> {
    /// Binds an input to memory on a device, as [`Interpreter::bind_input`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::bind_input`], or if the signature has no such input.
    pub fn bind_input(&mut self, input: impl TensorKey, memory: impl InputMemory) -> Result<(), Error> {
        let input = self.find_input(&input)?;
        self.interpreter.set_input(self.subgraph, input, Some(Arc::new(memory)))
    }

    /// Binds an output to memory on a device, as [`Interpreter::bind_output`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::bind_output`], or if the signature has no such output.
    pub fn bind_output(&mut self, output: impl TensorKey, memory: impl OutputMemory) -> Result<(), Error> {
        let output = self.find_output(&output)?;
        self.interpreter.set_output(self.subgraph, output, Some(Arc::new(memory)))
    }

    /// Makes further runs read an input from host memory again, as [`Interpreter::unbind_input`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::unbind_input`], or if the signature has no such input.
    pub fn unbind_input(&mut self, input: impl TensorKey) -> Result<(), Error> {
        let input = self.find_input(&input)?;
        self.interpreter.set_input(self.subgraph, input, None)
    }

    /// Makes further runs write an output to host memory again, as [`Interpreter::unbind_output`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::unbind_output`], or if the signature has no such output.
    pub fn unbind_output(&mut self, output: impl TensorKey) -> Result<(), Error> {
        let output = self.find_output(&output)?;
        self.interpreter.set_output(self.subgraph, output, None)
    }

    /// Adds the commands of a run to commands of the caller's, as [`Interpreter::encode`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::encode`].
    pub fn encode<C: Commands>(&mut self, commands: &mut C) -> Result<(), Error> {
        self.interpreter.encode_subgraph(self.subgraph, commands)
    }
}

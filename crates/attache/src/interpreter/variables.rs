//! What programs in C see of a subgraph besides inputs and outputs: the memory of these, variable tensors, outputs without
//! a planned shape, and subgraphs without a signature.

use attache_graph::TensorId;

use super::{Instance, Interpreter, SignatureRunner};
use crate::Error;

impl Instance {
    fn variable_mut(&mut self, tensor: usize) -> Result<&mut [u8], Error> {
        let id = u32::try_from(tensor).ok().map(TensorId);
        let bytes = id.and_then(|id| self.executor.variable_mut(id));
        bytes.ok_or_else(|| Error::usage(format!("tensor {tensor} is no variable that has memory")))
    }
}

impl Interpreter {
    /// Returns the bytes of a variable tensor, little-endian elements, by its index in the subgraph of the file, for the
    /// caller to read or to write. Resource variables are no tensors.
    ///
    /// # Errors
    ///
    /// If the tensor does not exist, is no variable, or no operator that runs uses it.
    pub fn variable_bytes_mut(&mut self, tensor: usize) -> Result<&mut [u8], Error> {
        self.instance_mut().variable_mut(tensor)
    }

    /// Returns the memory from which runs read an input, by its position in [`Interpreter::inputs`]: what is there when a
    /// run starts is the input, and it stays from run to run. Its address is the same until inputs are resized. An input
    /// that [`Interpreter::carry`] has replaced is asked for again before it is written.
    /// `None` if there is no such memory: where a delegate runs a part of the graph or may be replaced by the CPU, and for
    /// strings, constants and, without [`InterpreterBuilder::fixed_addresses`](crate::InterpreterBuilder::fixed_addresses),
    /// inputs that are passed by reference.
    pub fn input_memory(&mut self, input: usize) -> Option<&mut [u8]> {
        self.instance_mut().executor.input_memory(input)
    }

    /// Returns the memory to which runs write an output, by its position in [`Interpreter::outputs`], whether there was a
    /// run or not. Its address is the same until inputs are resized. `None` in the cases of
    /// [`Interpreter::input_memory`], and if the shape is known only after a run.
    pub fn output_memory(&mut self, output: usize) -> Option<&mut [u8]> {
        self.instance_mut().executor.output_memory(output)
    }

    /// Whether the shape of an output, by its position in [`Interpreter::outputs`], is known only after a run.
    pub fn is_dynamic(&self, output: usize) -> bool {
        self.instance().executor.is_dynamic(output)
    }

    /// Sets the number of threads that work on the CPU at the same time, including the calling thread, from the next run
    /// on. `None` stands for the default of [`InterpreterBuilder::threads`](crate::InterpreterBuilder::threads), which says
    /// which numbers there are.
    pub fn set_threads(&mut self, threads: Option<usize>) {
        self.core_mut().environment.set_threads(threads);
    }

    /// Returns a runner of a subgraph of the model, whether it has a signature or not. Its inputs and outputs are all those
    /// of the subgraph, in their order, and have the names of their tensors.
    ///
    /// # Errors
    ///
    /// If there is no such subgraph, or as [`InterpreterBuilder::build`](crate::InterpreterBuilder::build).
    pub fn subgraph_runner(&mut self, subgraph: usize) -> Result<SignatureRunner<'_>, Error> {
        let subgraphs = self.model().subgraphs();
        let Some(source) = subgraphs.get(subgraph) else {
            return Err(super::no_such("subgraph", subgraph, subgraphs.len()));
        };
        let names = |list: &[usize]| -> Vec<(String, usize)> {
            list.iter().enumerate().map(|(position, tensor)| (source.tensors[*tensor].name.clone(), position)).collect()
        };
        let (inputs, outputs) = (names(&source.inputs), names(&source.outputs));
        self.core_mut().require(subgraph)?;
        Ok(SignatureRunner { interpreter: self, subgraph, inputs, outputs })
    }
}

impl SignatureRunner<'_> {
    /// Returns the bytes of a variable tensor, as [`Interpreter::variable_bytes_mut`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::variable_bytes_mut`].
    pub fn variable_bytes_mut(&mut self, tensor: usize) -> Result<&mut [u8], Error> {
        self.instance_mut().variable_mut(tensor)
    }

    /// Returns the memory from which runs read an input, by its position in [`SignatureRunner::inputs`], as
    /// [`Interpreter::input_memory`] does.
    pub fn input_memory(&mut self, input: usize) -> Option<&mut [u8]> {
        let position = self.inputs.get(input)?.1;
        self.instance_mut().executor.input_memory(position)
    }

    /// Returns the memory to which runs write an output, by its position in [`SignatureRunner::outputs`], as
    /// [`Interpreter::output_memory`] does.
    pub fn output_memory(&mut self, output: usize) -> Option<&mut [u8]> {
        let position = self.outputs.get(output)?.1;
        self.instance_mut().executor.output_memory(position)
    }

    /// Whether the shape of an output, by its position in [`SignatureRunner::outputs`], is known only after a run.
    #[must_use]
    pub fn is_dynamic(&self, output: usize) -> bool {
        self.outputs.get(output).is_some_and(|(_, position)| self.instance().executor.is_dynamic(*position))
    }
}

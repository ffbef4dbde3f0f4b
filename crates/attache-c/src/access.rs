//! Access to a subgraph of an interpreter by the positions of its inputs and outputs.

use std::collections::BTreeMap;

#[cfg(feature = "gpu")]
use attache::gpu::MemoryBinding;
use attache::{ErrorKind, Interpreter, Placement, SignatureRunner};
use attache_abi::TfLiteStatus;

use crate::fault::Fault;
use crate::state::MAIN;

/// Access to a subgraph of an interpreter by the positions of its inputs and outputs. The interpreter's own functions are
/// the direct way to the main one.
pub(crate) enum Access<'a> {
    Main(&'a mut Interpreter),
    Other(Box<SignatureRunner<'a>>),
}

/// Calls a method that both ways have.
macro_rules! either {
    ($access:expr, $name:ident => $call:expr) => {
        match $access {
            Access::Main($name) => $call,
            Access::Other($name) => $call,
        }
    };
}

impl<'a> Access<'a> {
    pub(crate) fn new(interpreter: &'a mut Option<Interpreter>, subgraph: usize) -> Result<Self, Fault> {
        let interpreter = interpreter.as_mut();
        let interpreter = interpreter.ok_or_else(|| Fault::new("the model is not prepared: call AllocateTensors"))?;
        match subgraph {
            MAIN => Ok(Self::Main(interpreter)),
            other => Ok(Self::Other(Box::new(interpreter.subgraph_runner(other)?))),
        }
    }

    pub(crate) fn resize(&mut self, shapes: &BTreeMap<usize, Vec<usize>>) -> Result<(), Fault> {
        let changed = shapes.iter().filter(|(position, shape)| !self.has_shape(**position, shape));
        let changes: Vec<(usize, &[usize])> = changed.map(|(position, shape)| (*position, &shape[..])).collect();
        if !changes.is_empty() {
            either!(self, runs => runs.resize_inputs(&changes))?;
        }
        Ok(())
    }

    fn has_shape(&self, position: usize, shape: &[usize]) -> bool {
        let mut same = false;
        let _ = self.input_shape(position, |now| {
            same = now == shape;
            Ok(())
        });
        same
    }

    pub(crate) fn input_shape(
        &self,
        position: usize,
        take: impl FnOnce(&[usize]) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let info = match self {
            Self::Main(interpreter) => interpreter.inputs().get(position),
            Self::Other(runner) => runner.inputs().nth(position).map(|(_, info)| info),
        };
        info.map_or(Ok(()), |info| take(&info.shape))
    }

    pub(crate) fn output_shape(
        &self,
        position: usize,
        take: impl FnOnce(&[usize]) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let info = match self {
            Self::Main(interpreter) => interpreter.outputs().get(position),
            Self::Other(runner) => runner.outputs().nth(position).map(|(_, info)| info),
        };
        info.map_or(Ok(()), |info| take(&info.shape))
    }

    /// Whether the shape of an output is known only after a run.
    pub(crate) fn is_dynamic(&self, position: usize) -> bool {
        either!(self, runs => runs.is_dynamic(position))
    }

    /// Returns where the operators run.
    pub(crate) fn placement(&self) -> &Placement {
        either!(self, runs => runs.placement())
    }

    /// Returns the tensors whose shapes are others than the file states.
    #[cfg(not(attache_small))]
    pub(crate) fn inferred_shapes(&self) -> &[(usize, attache::Shape)] {
        either!(self, runs => runs.inferred_shapes())
    }

    /// Runs the subgraph. The failure of a delegate is an error as any other, since nothing took over.
    pub(crate) fn invoke(&mut self) -> Result<(), Fault> {
        either!(self, runs => runs.invoke()).map_err(|error| match Fault::from(error) {
            fault if fault.status == TfLiteStatus::DELEGATE_ERROR => Fault { status: TfLiteStatus::ERROR, ..fault },
            fault => fault,
        })
    }

    /// Writes an input. Returns false if the interpreter has no memory for it, because nothing reads it.
    pub(crate) fn write(&mut self, position: usize, bytes: &[u8]) -> Result<bool, Fault> {
        unless_unsupported(either!(self, runs => runs.write_bytes(position, bytes)).map(|()| true))
    }

    /// Has runs read an input from memory on the device that runs the whole subgraph.
    #[cfg(feature = "gpu")]
    pub(crate) fn bind_input(&mut self, position: usize, memory: MemoryBinding) -> Result<(), Fault> {
        Ok(either!(self, runs => runs.bind_input(position, memory))?)
    }

    /// Has runs write an output to memory on the device that runs the whole subgraph.
    #[cfg(feature = "gpu")]
    pub(crate) fn bind_output(&mut self, position: usize, memory: MemoryBinding) -> Result<(), Fault> {
        Ok(either!(self, runs => runs.bind_output(position, memory))?)
    }

    /// Has runs read an input that was bound from memory of the interpreter's again.
    pub(crate) fn unbind_input(&mut self, position: usize) {
        // What is bound can be unbound.
        let _ = either!(self, runs => runs.unbind_input(position));
    }

    /// Has runs write an output that was bound to memory of the interpreter's again.
    pub(crate) fn unbind_output(&mut self, position: usize) {
        let _ = either!(self, runs => runs.unbind_output(position));
    }

    /// Returns the memory that runs use for a tensor, an input or else an output, as long as the shapes stay; `None` where
    /// runs need copies.
    pub(crate) fn memory(&mut self, input: Option<usize>, output: Option<usize>) -> Option<&mut [u8]> {
        match (input, output) {
            (Some(position), _) => either!(self, runs => runs.input_memory(position)),
            (None, Some(position)) => either!(self, runs => runs.output_memory(position)),
            (None, None) => None,
        }
    }

    /// Copies the value of an input.
    pub(crate) fn read_input(&mut self, position: usize, into: &mut [u8]) -> Result<(), Fault> {
        let bytes = either!(self, runs => runs.input_bytes_mut(position));
        unless_unsupported(bytes.map(|bytes| {
            into.copy_from_slice(bytes);
            true
        }))?;
        Ok(())
    }

    /// Returns the bytes of an output; `None` if it has no value.
    pub(crate) fn bytes(&self, position: usize) -> Result<Option<&[u8]>, Fault> {
        match either!(self, runs => runs.read_bytes(position)) {
            Err(error) if error.kind() == ErrorKind::Usage => Ok(None),
            read => Ok(Some(read?)),
        }
    }

    /// Copies an output. Returns false if it has no value.
    pub(crate) fn read(&self, position: usize, into: &mut [u8]) -> Result<bool, Fault> {
        match either!(self, runs => runs.read_bytes_into(position, into)) {
            Err(error) if error.kind() == ErrorKind::Usage => Ok(false),
            read => Ok(read.map(|()| true)?),
        }
    }

    /// Returns the bytes of a variable tensor; `None` if no operator uses it.
    pub(crate) fn variable(&mut self, tensor: usize) -> Option<&mut [u8]> {
        either!(self, runs => runs.variable_bytes_mut(tensor).ok())
    }
}

/// Turns the error that an input has no memory into false.
fn unless_unsupported(done: Result<bool, attache::Error>) -> Result<bool, Fault> {
    match done {
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(false),
        done => Ok(done?),
    }
}

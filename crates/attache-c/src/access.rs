//! Access to a subgraph of an interpreter by the positions of its inputs and outputs, through the interpreter's own
//! functions or those of a signature.

use std::collections::BTreeMap;

use attache::{ErrorKind, Interpreter, SignatureRunner};
use attache_abi::TfLiteStatus;

use crate::fault::Fault;
use crate::state::Subgraph;

/// Access to a subgraph of an interpreter by the positions of its inputs and outputs.
pub(crate) enum Access<'a> {
    Main(&'a mut Interpreter),
    Signature { runner: Box<SignatureRunner<'a>>, inputs: Vec<Option<usize>>, outputs: Vec<Option<usize>> },
}

impl<'a> Access<'a> {
    pub(crate) fn new(interpreter: &'a mut Option<Interpreter>, subgraph: &Subgraph) -> Result<Self, Fault> {
        let interpreter = interpreter.as_mut();
        let interpreter = interpreter.ok_or_else(|| Fault::new("the model is not prepared: call AllocateTensors"))?;
        let Some(key) = &subgraph.key else { return Ok(Self::Main(interpreter)) };
        let runner = Box::new(interpreter.signature(key)?);
        let (inputs, outputs) = (subgraph.input_keys.clone(), subgraph.output_keys.clone());
        Ok(Self::Signature { runner, inputs, outputs })
    }

    pub(crate) fn resize(&mut self, shapes: &BTreeMap<usize, Vec<usize>>) -> Result<(), Fault> {
        let changed: Vec<_> = shapes.iter().filter(|(position, shape)| !self.has_shape(**position, shape)).collect();
        match self {
            _ if changed.is_empty() => {}
            Self::Main(interpreter) => {
                let changes: Vec<_> = changed.iter().map(|(position, shape)| (**position, &shape[..])).collect();
                interpreter.resize_inputs(&changes)?;
            }
            Self::Signature { runner, inputs, .. } => {
                let key = |position: usize| inputs.get(position).copied().flatten();
                let changes = changed.iter().filter_map(|(position, shape)| Some((key(**position)?, &shape[..])));
                runner.resize_inputs(&changes.collect::<Vec<_>>())?;
            }
        }
        Ok(())
    }

    fn has_shape(&mut self, position: usize, shape: &[usize]) -> bool {
        let mut same = false;
        let _ = self.input_shape(position, |now| {
            same = now == shape;
            Ok(())
        });
        same
    }

    pub(crate) fn input_shape(
        &mut self,
        position: usize,
        take: impl FnOnce(&[usize]) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let info = match self {
            Self::Main(interpreter) => interpreter.inputs().get(position),
            Self::Signature { runner, inputs, .. } => {
                inputs[position].and_then(|key| runner.inputs().nth(key).map(|(_, info)| info))
            }
        };
        info.map_or(Ok(()), |info| take(&info.shape))
    }

    pub(crate) fn output_shape(
        &mut self,
        position: usize,
        take: impl FnOnce(&[usize]) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let info = match self {
            Self::Main(interpreter) => interpreter.outputs().get(position),
            Self::Signature { runner, outputs, .. } => {
                outputs[position].and_then(|key| runner.outputs().nth(key).map(|(_, info)| info))
            }
        };
        info.map_or(Ok(()), |info| take(&info.shape))
    }

    /// Runs the subgraph. The failure of a delegate is an error as any other, since nothing took over.
    pub(crate) fn invoke(&mut self) -> Result<(), Fault> {
        let run = match self {
            Self::Main(interpreter) => interpreter.invoke(),
            Self::Signature { runner, .. } => runner.invoke(),
        };
        run.map_err(|error| match Fault::from(error) {
            fault if fault.status == TfLiteStatus::DELEGATE_ERROR => Fault { status: TfLiteStatus::ERROR, ..fault },
            fault => fault,
        })
    }

    /// Writes an input. Returns false if the interpreter has no memory for it, because nothing reads it.
    pub(crate) fn write(&mut self, position: usize, bytes: &[u8]) -> Result<bool, Fault> {
        let written = match self {
            Self::Main(interpreter) => interpreter.write_bytes(position, bytes),
            Self::Signature { runner, inputs, .. } => match inputs[position] {
                Some(key) => runner.write_bytes(key, bytes),
                None => return Ok(false),
            },
        };
        unless_unsupported(written.map(|()| true))
    }

    /// Copies the value of an input.
    pub(crate) fn read_input(&mut self, position: usize, into: &mut [u8]) -> Result<(), Fault> {
        let bytes = match self {
            Self::Main(interpreter) => interpreter.input_bytes_mut(position),
            Self::Signature { runner, inputs, .. } => match inputs[position] {
                Some(key) => runner.input_bytes_mut(key),
                None => return Ok(()),
            },
        };
        unless_unsupported(bytes.map(|bytes| {
            into.copy_from_slice(bytes);
            true
        }))?;
        Ok(())
    }

    /// Copies an output. Returns false if it has no value.
    pub(crate) fn read(&self, position: usize, into: &mut [u8]) -> Result<bool, Fault> {
        let read = match self {
            Self::Main(interpreter) => interpreter.read_bytes_into(position, into),
            Self::Signature { runner, outputs, .. } => match outputs[position] {
                Some(key) => runner.read_bytes_into(key, into),
                None => return Ok(false),
            },
        };
        match read {
            Err(error) if error.kind() == ErrorKind::Usage => Ok(false),
            read => Ok(read.map(|()| true)?),
        }
    }
}

/// Turns the error that an input has no memory into false.
fn unless_unsupported(done: Result<bool, attache::Error>) -> Result<bool, Fault> {
    match done {
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(false),
        done => Ok(done?),
    }
}

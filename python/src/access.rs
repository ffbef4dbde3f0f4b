//! Access to a subgraph of an interpreter by the positions of its inputs and outputs.

use attache::{Error, ErrorKind, Interpreter, SignatureRunner, TensorInfo};

use crate::fault::Fault;

/// A subgraph of an interpreter. The interpreter's own methods are the direct way to the one that it was built for.
pub(crate) enum Access<'a> {
    Main(&'a mut Interpreter),
    Other(Box<SignatureRunner<'a>>),
}

/// The shape and the bytes of an intermediate tensor.
pub(crate) type Kept<'a> = (&'a [usize], &'a [u8]);

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
    pub(crate) fn new(interpreter: &'a mut Interpreter, subgraph: usize) -> Result<Self, Fault> {
        if interpreter.subgraph() == subgraph {
            return Ok(Self::Main(interpreter));
        }
        Ok(Self::Other(Box::new(interpreter.subgraph_runner(subgraph)?)))
    }

    pub(crate) fn resize(&mut self, changes: &[(usize, &[usize])]) -> Result<(), Fault> {
        Ok(either!(self, runs => runs.resize_inputs(changes))?)
    }

    pub(crate) fn invoke(&mut self) -> Result<(), Fault> {
        Ok(either!(self, runs => runs.invoke())?)
    }

    pub(crate) fn input_info(&self, position: usize) -> Option<&TensorInfo> {
        match self {
            Self::Main(interpreter) => interpreter.inputs().get(position),
            Self::Other(runner) => runner.inputs().nth(position).map(|(_, info)| info),
        }
    }

    pub(crate) fn output_info(&self, position: usize) -> Option<&TensorInfo> {
        match self {
            Self::Main(interpreter) => interpreter.outputs().get(position),
            Self::Other(runner) => runner.outputs().nth(position).map(|(_, info)| info),
        }
    }

    /// Whether the shape of an output is known only after a run.
    pub(crate) fn is_dynamic(&self, output: usize) -> bool {
        either!(self, runs => runs.is_dynamic(output))
    }

    /// Writes an input. Returns false if the interpreter has no memory for it, because nothing reads it.
    pub(crate) fn write(&mut self, input: usize, bytes: &[u8]) -> Result<bool, Fault> {
        unless_unsupported(either!(self, runs => runs.write_bytes(input, bytes)).map(|()| true))
    }

    /// Writes floats to an input, quantized if it is. Returns false if the interpreter has no memory for it.
    pub(crate) fn quantize(&mut self, input: usize, values: &[f32]) -> Result<bool, Fault> {
        let written = either!(self, runs => runs.input(input).and_then(|mut tensor| tensor.quantize_from(values)));
        unless_unsupported(written.map(|()| true))
    }

    /// Returns the bytes of an input; `None` if the interpreter has no memory for it.
    pub(crate) fn input_bytes(&mut self, input: usize) -> Result<Option<&mut [u8]>, Fault> {
        match either!(self, runs => runs.input_bytes_mut(input)) {
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(None),
            bytes => Ok(Some(bytes?)),
        }
    }

    /// Returns the bytes of an output; `None` if it has no value.
    pub(crate) fn output_bytes(&self, output: usize) -> Result<Option<&[u8]>, Fault> {
        match either!(self, runs => runs.read_bytes(output)) {
            Err(error) if error.kind() == ErrorKind::Usage => Ok(None),
            bytes => Ok(Some(bytes?)),
        }
    }

    /// Copies an output. Returns false if it has no value.
    pub(crate) fn read(&self, output: usize, into: &mut [u8]) -> Result<bool, Fault> {
        match either!(self, runs => runs.read_bytes_into(output, into)) {
            Err(error) if error.kind() == ErrorKind::Usage => Ok(false),
            read => Ok(read.map(|()| true)?),
        }
    }

    /// Returns an output as floats.
    pub(crate) fn dequantize(&self, output: usize) -> Result<Vec<f32>, Fault> {
        Ok(either!(self, runs => runs.output(output))?.dequantize()?)
    }

    /// Returns the shape and the bytes of an intermediate tensor of the last run; `None` if it was not kept.
    pub(crate) fn kept(&self, tensor: usize) -> Result<Option<Kept<'_>>, Fault> {
        match either!(self, runs => runs.tensor(tensor)) {
            Err(error) if error.kind() == ErrorKind::Usage => Ok(None),
            kept => {
                let kept = kept?;
                Ok(Some((kept.shape(), kept.bytes())))
            }
        }
    }

    /// Returns the bytes of a variable tensor; `None` if no operator uses it.
    pub(crate) fn variable(&mut self, tensor: usize) -> Option<&mut [u8]> {
        either!(self, runs => runs.variable_bytes_mut(tensor).ok())
    }
}

/// Turns the error that an input has no memory into false.
fn unless_unsupported(done: Result<bool, Error>) -> Result<bool, Fault> {
    match done {
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(false),
        done => Ok(done?),
    }
}

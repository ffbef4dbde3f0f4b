//! [`Caller`], the program that runs a model: what it does in a run is what measurements time.

use std::time::Instant;

use attache::{Interpreter, TensorInfo};

use crate::failure::Failure;
use crate::measure::timing::milliseconds;

/// The caller's side of a model: an interpreter, and memory for every input and output.
pub(crate) struct Caller {
    pub(crate) interpreter: Interpreter,
    pub(crate) inputs: Vec<Vec<u8>>,
    pub(crate) outputs: Vec<Vec<u8>>,
    /// Whether inputs and outputs are bound, so that runs neither write nor read them.
    pub(crate) is_bound: bool,
}

impl Caller {
    /// Creates the caller of an interpreter, whose inputs are filled.
    pub(crate) fn new(mut interpreter: Interpreter) -> Result<Self, Failure> {
        let count = interpreter.inputs().len();
        let inputs = (0..count).map(|index| Ok(interpreter.input_bytes_mut(index)?.to_vec()));
        let inputs = inputs.collect::<Result<_, Failure>>()?;
        let outputs = vec![Vec::new(); interpreter.outputs().len()];
        Ok(Self { interpreter, inputs, outputs, is_bound: false })
    }

    /// Returns a caller of another interpreter with the same inputs.
    pub(crate) fn with(&self, interpreter: Interpreter) -> Self {
        let outputs = vec![Vec::new(); self.outputs.len()];
        Self { interpreter, inputs: self.inputs.clone(), outputs, is_bound: false }
    }

    fn write(&mut self) -> Result<(), Failure> {
        if self.is_bound {
            return Ok(());
        }
        let mut inputs = self.inputs.iter().enumerate();
        Ok(inputs.try_for_each(|(index, bytes)| self.interpreter.write_bytes(index, bytes))?)
    }

    fn read(&mut self) -> Result<(), Failure> {
        if self.is_bound {
            return Ok(());
        }
        for (index, memory) in self.outputs.iter_mut().enumerate() {
            let TensorInfo { data_type, shape, .. } = &self.interpreter.outputs()[index];
            // `read_bytes` would wait for the whole output. If type and shape determine the size, parts are
            // copied as they arrive.
            let size = data_type.byte_size(shape.elements());
            memory.resize(size.map_or_else(|| self.interpreter.read_bytes(index).map(<[u8]>::len), Ok)?, 0);
            self.interpreter.read_bytes_into(index, memory)?;
        }
        Ok(())
    }

    /// Runs the model once, including the copies of inputs from the caller's memory and of outputs to it.
    pub(crate) fn end_to_end(&mut self) -> Result<(), Failure> {
        self.write()?;
        self.interpreter.invoke()?;
        self.read()
    }

    /// Runs the model once without reading outputs. Returns the microseconds until the run was submitted.
    pub(crate) fn submit(&mut self) -> Result<f64, Failure> {
        self.write()?;
        let start = Instant::now();
        let run = self.interpreter.invoke_async()?;
        let time = milliseconds(start) * 1e3;
        self.interpreter.wait(run)?;
        Ok(time)
    }

    /// Runs the model `times` times on the same inputs, and reads the outputs of the last run.
    pub(crate) fn repeated(&mut self, times: usize) -> Result<(), Failure> {
        self.write()?;
        self.interpreter.invoke_repeatedly(times)?;
        self.read()
    }
}

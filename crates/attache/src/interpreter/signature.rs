//! Signatures, which give access to an interpreter by the names of its inputs and outputs.

use attache_base::Element;
use attache_model::{Model, Signature};

use super::{InputTensor, Interpreter, OutputTensor, TensorInfo};
use crate::Error;

/// Returns the signature with this key. The key may be empty if the model has exactly one signature.
pub(super) fn find<'a>(model: &'a Model, key: &str) -> Result<&'a Signature, Error> {
    if let ("", [only]) = (key, model.signatures()) {
        return Ok(only);
    }
    model.signatures().iter().find(|signature| signature.key == key).ok_or_else(|| {
        let known: Vec<_> = model.signatures().iter().map(|signature| format!("\"{}\"", signature.key)).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Error::usage(format!("the model has no signature \"{key}\"; it has {known}"))
    })
}

/// Runs a signature of an interpreter: gives access to its inputs and outputs by their names.
///
/// All signatures of an interpreter share its resource variables.
pub struct SignatureRunner<'a> {
    interpreter: &'a mut Interpreter,
    /// The subgraph that the interpreter runs otherwise.
    main: usize,
    /// Name of each input in the signature, and its index in [`Interpreter::inputs`].
    inputs: Vec<(String, usize)>,
    /// Name of each output in the signature, and its index in [`Interpreter::outputs`].
    outputs: Vec<(String, usize)>,
}

impl Interpreter {
    /// Returns the keys of all signatures of the model, including those of other subgraphs.
    pub fn signatures(&self) -> impl Iterator<Item = &str> {
        self.model().signatures().iter().map(|signature| signature.key.as_str())
    }

    /// Returns a runner of the signature with this key. The key may be empty if the model has exactly one
    /// signature. The signature's subgraph is prepared when it is first asked for. Its inputs keep their values until the
    /// signature is run again.
    ///
    /// # Errors
    ///
    /// If there is no such signature, or as [`InterpreterBuilder::build`](crate::InterpreterBuilder::build).
    pub fn signature(&mut self, key: &str) -> Result<SignatureRunner<'_>, Error> {
        let signature = find(self.model(), key)?.clone();
        self.core_mut().require(signature.subgraph)?;
        let subgraph = &self.model().subgraphs()[signature.subgraph];
        let inputs = indices(&signature.inputs, &subgraph.inputs);
        let outputs = indices(&signature.outputs, &subgraph.outputs);
        let main = std::mem::replace(&mut self.main, signature.subgraph);
        Ok(SignatureRunner { interpreter: self, main, inputs, outputs })
    }
}

impl Drop for SignatureRunner<'_> {
    fn drop(&mut self) {
        self.interpreter.main = self.main;
    }
}

fn indices(names: &[(String, usize)], tensors: &[usize]) -> Vec<(String, usize)> {
    let index = |tensor: usize| tensors.iter().position(|other| *other == tensor);
    names.iter().filter_map(|(name, tensor)| Some((name.clone(), index(*tensor)?))).collect()
}

fn index(what: &str, names: &[(String, usize)], name: &str) -> Result<usize, Error> {
    names.iter().find(|known| known.0 == name).map(|known| known.1).ok_or_else(|| {
        let known: Vec<_> = names.iter().map(|known| format!("\"{}\"", known.0)).collect();
        Error::usage(format!("the signature has no {what} \"{name}\"; it has {}", known.join(", ")))
    })
}

impl SignatureRunner<'_> {
    /// Returns name and description of each input.
    pub fn inputs(&self) -> impl Iterator<Item = (&str, &TensorInfo)> {
        self.inputs.iter().map(|(name, index)| (name.as_str(), &self.interpreter.inputs()[*index]))
    }

    /// Returns name and description of each output.
    pub fn outputs(&self) -> impl Iterator<Item = (&str, &TensorInfo)> {
        self.outputs.iter().map(|(name, index)| (name.as_str(), &self.interpreter.outputs()[*index]))
    }

    /// Copies `values` into the input with this name, as [`Interpreter::write`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::write`], or if the signature has no input with this name.
    pub fn write<T: Element>(&mut self, input: &str, values: &[T]) -> Result<(), Error> {
        self.interpreter.write(index("input", &self.inputs, input)?, values)
    }

    /// Returns the elements of the output with this name, as [`Interpreter::read`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::read`], or if the signature has no output with this name.
    pub fn read<T: Element>(&self, output: &str) -> Result<&[T], Error> {
        self.interpreter.read(index("output", &self.outputs, output)?)
    }

    /// Returns the input with this name, as [`Interpreter::input`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::input`], or if the signature has no input with this name.
    pub fn input(&mut self, input: &str) -> Result<InputTensor<'_>, Error> {
        self.interpreter.input(index("input", &self.inputs, input)?)
    }

    /// Returns the output with this name, as [`Interpreter::output`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::output`], or if the signature has no output with this name.
    pub fn output(&self, output: &str) -> Result<OutputTensor<'_>, Error> {
        self.interpreter.output(index("output", &self.outputs, output)?)
    }

    /// Changes the shape of the input with this name, as [`Interpreter::resize_input`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::resize_input`], or if the signature has no input with this name.
    pub fn resize_input(&mut self, input: &str, shape: &[usize]) -> Result<(), Error> {
        self.interpreter.resize_input(index("input", &self.inputs, input)?, shape)
    }

    /// Runs the subgraph once, as [`Interpreter::invoke`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::invoke`].
    pub fn invoke(&mut self) -> Result<(), Error> {
        self.interpreter.invoke()
    }
}

//! Signatures, which give access to an interpreter by the names of its inputs and outputs.

use attache_base::Element;
use attache_model::{Model, Signature};

use super::{Interpreter, TensorInfo};
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

/// Gives access to the inputs and outputs of an interpreter by their names in a signature.
pub struct SignatureRunner<'a> {
    interpreter: &'a mut Interpreter,
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

    /// Returns a runner that accesses the interpreter by the names in the signature with this key. The key
    /// may be empty if the model has exactly one signature.
    ///
    /// # Errors
    ///
    /// If there is no such signature, or if it belongs to another subgraph than the one the interpreter was built for.
    pub fn signature(&mut self, key: &str) -> Result<SignatureRunner<'_>, Error> {
        let signature = find(self.model(), key)?.clone();
        if signature.subgraph != self.subgraph() {
            let key = &signature.key;
            return Err(Error::usage(format!(
                "signature \"{key}\" is of another subgraph; build an interpreter with `.signature(\"{key}\")`"
            )));
        }
        let subgraph = &self.model().subgraphs()[signature.subgraph];
        let inputs = indices(&signature.inputs, &subgraph.inputs);
        let outputs = indices(&signature.outputs, &subgraph.outputs);
        Ok(SignatureRunner { interpreter: self, inputs, outputs })
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

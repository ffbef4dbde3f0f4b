//! Signatures, which give access to an interpreter by the names of its inputs and outputs.

use attache_base::Element;
use attache_model::{Model, Signature};

use super::{InputTensor, Instance, Interpreter, OutputTensor, TensorInfo};
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
    subgraph: usize,
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
        Ok(SignatureRunner { interpreter: self, subgraph: signature.subgraph, inputs, outputs })
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
    fn instance(&self) -> &Instance {
        &self.interpreter.core().instances[&self.subgraph]
    }

    fn instance_mut(&mut self) -> &mut Instance {
        let subgraph = self.subgraph;
        self.interpreter.core_mut().instances.get_mut(&subgraph).expect("the signature's subgraph is prepared")
    }

    /// Returns name and description of each input.
    pub fn inputs(&self) -> impl Iterator<Item = (&str, &TensorInfo)> {
        self.inputs.iter().map(|(name, index)| (name.as_str(), &self.instance().inputs[*index]))
    }

    /// Returns name and description of each output.
    pub fn outputs(&self) -> impl Iterator<Item = (&str, &TensorInfo)> {
        self.outputs.iter().map(|(name, index)| (name.as_str(), &self.instance().outputs[*index]))
    }

    /// Copies `values` into the input with this name, as [`Interpreter::write`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::write`], or if the signature has no input with this name.
    pub fn write<T: Element>(&mut self, input: &str, values: &[T]) -> Result<(), Error> {
        let index = index("input", &self.inputs, input)?;
        self.instance_mut().write(index, values)
    }

    /// Returns the elements of the output with this name, as [`Interpreter::read`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::read`], or if the signature has no output with this name.
    pub fn read<T: Element>(&self, output: &str) -> Result<&[T], Error> {
        self.instance().read(index("output", &self.outputs, output)?)
    }

    /// Returns the input with this name, as [`Interpreter::input`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::input`], or if the signature has no input with this name.
    pub fn input(&mut self, input: &str) -> Result<InputTensor<'_>, Error> {
        let index = index("input", &self.inputs, input)?;
        self.instance_mut().input(index)
    }

    /// Returns the output with this name, as [`Interpreter::output`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::output`], or if the signature has no output with this name.
    pub fn output(&self, output: &str) -> Result<OutputTensor<'_>, Error> {
        self.instance().output(index("output", &self.outputs, output)?)
    }

    /// Changes the shape of the input with this name, as [`Interpreter::resize_input`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::resize_input`], or if the signature has no input with this name.
    pub fn resize_input(&mut self, input: &str, shape: &[usize]) -> Result<(), Error> {
        let index = index("input", &self.inputs, input)?;
        self.interpreter.resize(self.subgraph, &[(index, shape)])
    }

    /// Runs the subgraph once, as [`Interpreter::invoke`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::invoke`].
    pub fn invoke(&mut self) -> Result<(), Error> {
        self.interpreter.run(self.subgraph, 1)
    }
}

//! Signatures, which give access to an interpreter by the names of its inputs and outputs.

use std::borrow::Borrow;

use attache_base::Element;
use attache_model::{Model, Signature};

use super::{InputTensor, Instance, Interpreter, OutputTensor, Run, TensorInfo, TensorKey};
use crate::{Error, Placement};

/// Returns the signature with this key. The key may be empty if the model has exactly one signature.
pub(super) fn signature_of<'a>(model: &'a Model, key: &str) -> Result<&'a Signature, Error> {
    if let ("", [only]) = (key, model.signatures()) {
        return Ok(only);
    }
    model.signatures().iter().find(|signature| signature.key == key).ok_or_else(|| {
        let known: Vec<_> = model.signatures().iter().map(|signature| format!("\"{}\"", signature.key)).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Error::usage(format!("the model has no signature \"{key}\"; it has {known}"))
    })
}

/// Returns the position of the first input of a subgraph with this name. Tensor names are searched first, then the
/// input names in the subgraph's signatures.
pub(super) fn input_index(model: &Model, subgraph: usize, name: &str) -> Option<usize> {
    position(model, subgraph, &model.subgraphs()[subgraph].inputs, |signature| &signature.inputs, name)
}

/// Returns the position of the first output of a subgraph with this name, as [`input_index`] does for inputs.
pub(super) fn output_index(model: &Model, subgraph: usize, name: &str) -> Option<usize> {
    position(model, subgraph, &model.subgraphs()[subgraph].outputs, |signature| &signature.outputs, name)
}

fn position(
    model: &Model,
    subgraph: usize,
    among: &[usize],
    names: fn(&Signature) -> &Vec<(String, usize)>,
    name: &str,
) -> Option<usize> {
    let tensors = &model.subgraphs()[subgraph].tensors;
    among.iter().position(|tensor| tensors[*tensor].name == name).or_else(|| {
        let signatures = model.signatures().iter().filter(|signature| signature.subgraph == subgraph);
        let tensor = signatures.flat_map(names).find(|(known, _)| known == name)?.1;
        among.iter().position(|index| *index == tensor)
    })
}

/// Runs a signature of an interpreter. Inputs and outputs are given by their names in the signature, or by their
/// positions in [`SignatureRunner::inputs`] and [`SignatureRunner::outputs`].
///
/// All signatures of an interpreter share its resource variables.
#[derive(Debug)]
pub struct SignatureRunner<'a> {
    pub(super) interpreter: &'a mut Interpreter,
    pub(super) subgraph: usize,
    /// Name of each input in the signature, and its index in [`Interpreter::inputs`].
    pub(super) inputs: Vec<(String, usize)>,
    /// Name of each output in the signature, and its index in [`Interpreter::outputs`].
    pub(super) outputs: Vec<(String, usize)>,
}

impl Interpreter {
    /// Returns the keys of all signatures of the model, including those of other subgraphs.
    pub fn signatures(&self) -> impl Iterator<Item = &str> {
        self.model().signatures().iter().map(|signature| signature.key.as_str())
    }

    /// Returns a runner of the signature with this key. The key may be empty if the model has exactly one
    /// signature. The signature's subgraph is prepared when it is first asked for. Its inputs keep their values from run
    /// to run.
    ///
    /// # Errors
    ///
    /// If there is no such signature, or as [`InterpreterBuilder::build`](crate::InterpreterBuilder::build).
    pub fn signature(&mut self, key: &str) -> Result<SignatureRunner<'_>, Error> {
        let signature = signature_of(self.model(), key)?.clone();
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

/// Finds an input or an output of a signature, and returns its position in the subgraph.
fn find(what: &str, names: &[(String, usize)], key: &impl TensorKey) -> Result<usize, Error> {
    let known = names.iter().map(|(name, _)| name.as_str()).collect();
    let position = key.find(what, known, |name| names.iter().position(|known| known.0 == name))?;
    Ok(names[position].1)
}

impl SignatureRunner<'_> {
    pub(super) fn instance(&self) -> &Instance {
        self.interpreter.instance_of(self.subgraph)
    }

    pub(super) fn instance_mut(&mut self) -> &mut Instance {
        self.interpreter.instance_of_mut(self.subgraph)
    }

    pub(super) fn find_input(&self, input: &impl TensorKey) -> Result<usize, Error> {
        find("input", &self.inputs, input)
    }

    pub(super) fn find_output(&self, output: &impl TensorKey) -> Result<usize, Error> {
        find("output", &self.outputs, output)
    }

    /// Returns name and description of each input.
    pub fn inputs(&self) -> impl Iterator<Item = (&str, &TensorInfo)> {
        self.inputs.iter().map(|(name, index)| (name.as_str(), &self.instance().inputs[*index]))
    }

    /// Returns name and description of each output.
    pub fn outputs(&self) -> impl Iterator<Item = (&str, &TensorInfo)> {
        self.outputs.iter().map(|(name, index)| (name.as_str(), &self.instance().outputs[*index]))
    }

    /// Returns an input, as [`Interpreter::input`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::input`], or if the signature has no such input.
    pub fn input(&mut self, input: impl TensorKey) -> Result<InputTensor<'_>, Error> {
        let input = self.find_input(&input)?;
        self.instance_mut().input(input)
    }

    /// Returns an output, as [`Interpreter::output`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::output`], or if the signature has no such output.
    pub fn output(&self, output: impl TensorKey) -> Result<OutputTensor<'_>, Error> {
        let output = self.find_output(&output)?;
        self.instance().output(output)
    }

    /// Returns a tensor that was kept, as [`Interpreter::tensor`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::tensor`].
    pub fn tensor(&self, tensor: impl TensorKey) -> Result<OutputTensor<'_>, Error> {
        self.instance().kept_tensor(&tensor)
    }

    /// Copies `values` into an input, as [`Interpreter::write`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::write`], or if the signature has no such input.
    pub fn write<T: Element>(&mut self, input: impl TensorKey, values: &[T]) -> Result<(), Error> {
        let input = self.find_input(&input)?;
        self.instance_mut().write(input, values)
    }

    /// Copies `bytes` into an input, as [`Interpreter::write_bytes`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::write_bytes`], or if the signature has no such input.
    pub fn write_bytes(&mut self, input: impl TensorKey, bytes: &[u8]) -> Result<(), Error> {
        let input = self.find_input(&input)?;
        self.instance_mut().write_bytes(input, bytes)
    }

    /// Writes strings into an input, as [`Interpreter::write_strings`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::write_strings`], or if the signature has no such input.
    pub fn write_strings<T: AsRef<[u8]>>(&mut self, input: impl TensorKey, strings: &[T]) -> Result<(), Error> {
        let input = self.find_input(&input)?;
        self.instance_mut().write_strings(input, strings.iter().map(AsRef::as_ref))
    }

    /// Returns the elements of an input, as [`Interpreter::input_mut`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::input_mut`], or if the signature has no such input.
    pub fn input_mut<T: Element>(&mut self, input: impl TensorKey) -> Result<&mut [T], Error> {
        self.input(input)?.into_slice()
    }

    /// Returns the bytes of an input, as [`Interpreter::input_bytes_mut`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::input_bytes_mut`], or if the signature has no such input.
    pub fn input_bytes_mut(&mut self, input: impl TensorKey) -> Result<&mut [u8], Error> {
        Ok(self.input(input)?.bytes)
    }

    /// Returns the elements of an output, as [`Interpreter::read`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::read`], or if the signature has no such output.
    pub fn read<T: Element>(&self, output: impl TensorKey) -> Result<&[T], Error> {
        let output = self.find_output(&output)?;
        self.instance().read(output)
    }

    /// Returns the bytes of an output, as [`Interpreter::read_bytes`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::read_bytes`], or if the signature has no such output.
    pub fn read_bytes(&self, output: impl TensorKey) -> Result<&[u8], Error> {
        let output = self.find_output(&output)?;
        self.instance().read_bytes(output)
    }

    /// Copies an output into `values`, as [`Interpreter::read_into`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::read_into`], or if the signature has no such output.
    pub fn read_into<T: Element>(&self, output: impl TensorKey, values: &mut [T]) -> Result<(), Error> {
        let output = self.find_output(&output)?;
        self.instance().read_into(output, values)
    }

    /// Copies the bytes of an output, as [`Interpreter::read_bytes_into`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::read_bytes_into`], or if the signature has no such output.
    pub fn read_bytes_into(&self, output: impl TensorKey, bytes: &mut [u8]) -> Result<(), Error> {
        let output = self.find_output(&output)?;
        self.instance().read_bytes_into(output, bytes)
    }

    /// Changes the shape of an input, as [`Interpreter::resize_input`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::resize_input`], or if the signature has no such input.
    pub fn resize_input(&mut self, input: impl TensorKey, shape: &[usize]) -> Result<(), Error> {
        self.resize_inputs(&[(input, shape)])
    }

    /// Changes the shapes of several inputs, as [`Interpreter::resize_inputs`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::resize_inputs`], or if the signature has no such input.
    pub fn resize_inputs<K: TensorKey>(&mut self, changes: &[(K, &[usize])]) -> Result<(), Error> {
        let index = |(input, shape): &(K, _)| Ok((self.find_input(input)?, *shape));
        let changes: Vec<_> = changes.iter().map(index).collect::<Result<_, Error>>()?;
        self.interpreter.resize(self.subgraph, &changes)
    }

    /// Runs the signature once, as [`Interpreter::invoke`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::invoke`].
    pub fn invoke(&mut self) -> Result<(), Error> {
        self.interpreter.run(self.subgraph, 1)
    }

    /// Runs the signature `times` times, as [`Interpreter::invoke_repeatedly`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::invoke`].
    pub fn invoke_repeatedly(&mut self, times: usize) -> Result<(), Error> {
        self.interpreter.run(self.subgraph, times)
    }

    /// Starts a run without waiting for it, as [`Interpreter::invoke_async`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::invoke_async`].
    pub fn invoke_async(&mut self) -> Result<Run, Error> {
        self.interpreter.start(self.subgraph)
    }

    /// Starts a run, unless that would discard outputs, as [`Interpreter::try_invoke_async`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::invoke_async`].
    pub fn try_invoke_async(&mut self) -> Result<Option<Run>, Error> {
        self.interpreter.try_start(self.subgraph)
    }

    /// Waits for a run, as [`Interpreter::wait`] does.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::wait`].
    pub fn wait(&mut self, run: impl Borrow<Run>) -> Result<(), Error> {
        self.interpreter.wait(run)
    }

    /// Returns the maximum number of runs in progress, as [`Interpreter::queue_depth`] does.
    #[must_use]
    pub fn queue_depth(&self) -> usize {
        self.interpreter.depth(self.subgraph)
    }

    /// Returns the tensors whose shapes are others than the file states, for the shapes that inputs have now, by their indices
    /// in the file. Those whose shapes only a run shows are not among them.
    #[cfg(not(attache_small))]
    #[must_use]
    pub fn inferred_shapes(&self) -> &[(usize, attache_base::Shape)] {
        &self.instance().executor.prepared().inferred.0
    }

    /// Returns the placement report of the signature's subgraph.
    #[must_use]
    pub fn placement(&self) -> &Placement {
        &self.instance().placement
    }
}

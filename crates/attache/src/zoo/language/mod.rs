//! The builder of the built-in language models ([`Language`]): several subgraphs over the same weights, which are floats or
//! integers of 8 or 4 bits. This file has the state and the weights; the layers are in `layers`.

mod layers;

use std::collections::BTreeMap;

use attache_base::{Bytes, Constant, DataType, Quantization, Shape};
use attache_model::schema::{BuiltinOperator, BuiltinOptionsT};
use attache_model::{ModelBuilder, OperatorBuilder, TensorBuilder};

use super::weights::{Random, biases, filters};

/// How the weights of matrices and the table of embeddings are stored. Everything else is in floats, also the activations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Stored {
    /// As FLOAT32.
    Float,
    /// As INT8 with a scale for each output.
    Int8,
    /// As INT4 with a scale for each output.
    Int4,
}

/// A tensor of the subgraph under construction: its index and its shape.
#[derive(Clone, Debug)]
pub(super) struct Value {
    tensor: usize,
    pub(super) shape: Shape,
}

/// A model under construction. Layers are added to the subgraph that was begun last. A layer that does not fit its input is
/// a bug in this crate and panics.
#[derive(Debug)]
pub(super) struct Language {
    model: ModelBuilder,
    random: Random,
    stored: Stored,
    /// The constants of the model by name.
    constants: BTreeMap<String, TensorBuilder>,
    subgraph: usize,
    /// The constants of the subgraph by name.
    placed: BTreeMap<String, usize>,
    inputs: Vec<(String, usize)>,
    outputs: Vec<(String, usize)>,
}

impl Language {
    /// Creates a model without subgraphs. `description` is stored in the file; `seed` determines the weights.
    pub(super) fn new(description: &str, seed: u64, stored: Stored) -> Self {
        Self {
            model: ModelBuilder::new(description),
            random: Random::new(seed),
            stored,
            constants: BTreeMap::new(),
            subgraph: 0,
            placed: BTreeMap::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
        }
    }

    /// Begins the subgraph of a signature.
    pub(super) fn begin(&mut self, key: &str) {
        self.subgraph = self.model.subgraph(key);
        self.placed.clear();
        self.inputs.clear();
        self.outputs.clear();
    }

    /// Ends a subgraph, which becomes the signature `key`.
    pub(super) fn end(&mut self, key: &str) {
        let tensors = |list: &[(String, usize)]| list.iter().map(|(_, tensor)| *tensor).collect::<Vec<_>>();
        let (inputs, outputs) = (tensors(&self.inputs), tensors(&self.outputs));
        self.model.inputs(self.subgraph, &inputs).outputs(self.subgraph, &outputs);
        fn named(list: &[(String, usize)]) -> Vec<(&str, usize)> {
            list.iter().map(|(name, tensor)| (name.as_str(), *tensor)).collect()
        }
        self.model.signature(key, self.subgraph, &named(&self.inputs), &named(&self.outputs));
    }

    /// Returns the bytes of the `.tflite` file.
    pub(super) fn finish(self) -> Vec<u8> {
        self.model.finish()
    }

    pub(super) fn input(&mut self, name: &str, data_type: DataType, shape: impl Into<Shape>) -> Value {
        let value = self.value(name, data_type, shape.into());
        self.inputs.push((name.to_owned(), value.tensor));
        value
    }

    /// Makes a tensor an output of the signature, with this name.
    pub(super) fn output(&mut self, name: &str, value: &Value) {
        self.outputs.push((name.to_owned(), value.tensor));
    }

    fn value(&mut self, name: &str, data_type: DataType, shape: Shape) -> Value {
        let tensor = self.model.tensor(self.subgraph, TensorBuilder::new(name, data_type, shape.clone()));
        Value { tensor, shape }
    }

    /// Adds an operator of version `version` with one FLOAT32 output.
    fn operator(
        &mut self,
        (operator, version): (BuiltinOperator, i32),
        inputs: &[Option<usize>],
        options: BuiltinOptionsT,
        name: &str,
        shape: impl Into<Shape>,
    ) -> Value {
        let output = self.value(name, DataType::Float32, shape.into());
        let operator = OperatorBuilder::new(operator, inputs.iter().copied(), [output.tensor]);
        self.model.operator(self.subgraph, operator.options(options).version(version));
        output
    }

    /// Returns a constant, which `make` makes the first time that the model needs it.
    fn constant(&mut self, name: &str, make: impl FnOnce(&mut Random) -> TensorBuilder) -> usize {
        if let Some(tensor) = self.placed.get(name) {
            return *tensor;
        }
        if !self.constants.contains_key(name) {
            let made = make(&mut self.random);
            self.constants.insert(name.to_owned(), made);
        }
        let tensor = self.model.tensor(self.subgraph, self.constants[name].clone());
        self.placed.insert(name.to_owned(), tensor);
        tensor
    }

    fn floats(&mut self, name: &str, shape: impl Into<Shape>, make: impl FnOnce() -> Vec<f32>) -> usize {
        self.constant(name, |_| TensorBuilder::values(name, shape, &make()))
    }

    fn integers(&mut self, name: &str, values: &[i32]) -> usize {
        self.constant(name, |_| TensorBuilder::values(name, [values.len()], values))
    }

    /// Returns the weights of `outputs` rows of `fan_in`, with this gain, as the model stores them.
    fn matrix(&mut self, name: &str, [outputs, fan_in]: [usize; 2], gain: f32) -> usize {
        let stored = self.stored;
        self.constant(name, |random| {
            let values = filters(random, outputs, fan_in, gain);
            match stored {
                Stored::Float => TensorBuilder::values(name, [outputs, fan_in], &values),
                Stored::Int8 => quantized(name, &values, [outputs, fan_in], DataType::Int8),
                Stored::Int4 => quantized(name, &values, [outputs, fan_in], DataType::Int4),
            }
        })
    }

    /// Returns small biases.
    fn biases(&mut self, name: &str, count: usize) -> usize {
        self.constant(name, |random| TensorBuilder::values(name, [count], &biases(random, count)))
    }

    /// Returns factors around 1.
    fn factors(&mut self, name: &str, count: usize) -> usize {
        self.constant(name, |random| {
            let values: Vec<f32> = biases(random, count).iter().map(|value| 1.0 + value).collect();
            TensorBuilder::values(name, [count], &values)
        })
    }
}

/// Returns rows of weights as symmetric integers with a scale for each row: INT8, or INT4 with two in a byte.
fn quantized(name: &str, values: &[f32], [rows, columns]: [usize; 2], data_type: DataType) -> TensorBuilder {
    let most = if data_type == DataType::Int4 { 7.0 } else { 127.0 };
    let (mut scales, mut integers) = (Vec::with_capacity(rows), Vec::with_capacity(values.len()));
    for row in values.chunks_exact(columns) {
        let scale = row.iter().fold(f32::MIN_POSITIVE, |most, value| most.max(value.abs())) / most;
        scales.push(scale);
        integers.extend(row.iter().map(|value| (value / scale).round() as i8));
    }
    let bytes: Vec<u8> = match data_type {
        DataType::Int4 => integers.chunks(2).map(|pair| pair[0] as u8 & 15 | (pair[1] as u8) << 4).collect(),
        _ => integers.iter().map(|value| *value as u8).collect(),
    };
    let constant = Constant { data_type, shape: [rows, columns].into(), bytes: Bytes::from_vec(bytes) };
    let quantization = Quantization { zero_point: vec![0; rows], scale: scales, axis: 0 };
    TensorBuilder::constant(name, &constant).quantization(&quantization)
}

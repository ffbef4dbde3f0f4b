//! Built-in models: the published architectures of well-known networks, with synthetic weights.
//!
//! The language models have weights of floats, or of 8 or 4 bits where the name says so.
//!
//! Contract: a name always gives the same bytes on every machine. Operators, shapes and tensor names are
//! those of the published files. The outputs of layers have a standard deviation between 0.1 and 10 for
//! inputs that are uniform in [-1, 1). The models are not trained, so the classes that they predict are
//! meaningless. They serve to measure a device and to test a runtime where no file can be downloaded.
//!
//! Each network has its own file and an entry in the table `MODELS`.

mod bert_tiny;
mod decoder_tiny;
mod deeplabv3;
mod language;
mod lstm;
mod mobilenet_v1;
mod mobilenet_v2;
mod network;
mod posenet;
mod resnet50;
mod ssd_mobilenet_v2;
mod weights;

use language::Stored;
use network::Network;

use crate::{Error, Model};

/// A built-in model.
struct Entry {
    name: &'static str,
    form: Form,
}

/// What builds a model.
enum Form {
    /// One network of floats.
    Network(fn() -> Network),
    /// A language model with weights that are stored in this way.
    Language(fn(Stored) -> Vec<u8>, Stored),
}

/// Every built-in model, sorted by name.
static MODELS: &[Entry] = &[
    Entry { name: "bert_tiny", form: Form::Language(bert_tiny::build, Stored::Float) },
    Entry { name: "bert_tiny_int4", form: Form::Language(bert_tiny::build, Stored::Int4) },
    Entry { name: "bert_tiny_int8", form: Form::Language(bert_tiny::build, Stored::Int8) },
    Entry { name: "decoder_tiny", form: Form::Language(decoder_tiny::build, Stored::Float) },
    Entry { name: "decoder_tiny_int4", form: Form::Language(decoder_tiny::build, Stored::Int4) },
    Entry { name: "decoder_tiny_int8", form: Form::Language(decoder_tiny::build, Stored::Int8) },
    Entry { name: "deeplabv3_257", form: Form::Network(deeplabv3::network) },
    Entry { name: "lstm_128", form: Form::Network(lstm::network) },
    Entry { name: "mobilenet_v1_1.0_224", form: Form::Network(mobilenet_v1::network) },
    Entry { name: "mobilenet_v2_1.0_224", form: Form::Network(mobilenet_v2::network) },
    Entry { name: "posenet_mobilenet_v1_257", form: Form::Network(posenet::network) },
    Entry { name: "resnet50_224", form: Form::Network(resnet50::network) },
    Entry { name: "ssd_mobilenet_v2_320", form: Form::Network(ssd_mobilenet_v2::network) },
];

/// Returns the names of the built-in models, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    MODELS.iter().map(|entry| entry.name)
}

/// Builds a model.
///
/// ```
/// # fn main() -> Result<(), attache::Error> {
/// let model = attache::zoo::model("lstm_128")?;
/// assert_eq!(model.signatures().len(), 1);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// If no built-in model has this name. The error lists the names that there are.
pub fn model(name: &str) -> Result<Model, Error> {
    let names = || names().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
    let bytes = build(name);
    Ok(Model::from_bytes(
        bytes.ok_or_else(|| Error::usage(format!("there is no built-in model \"{name}\"; there is {}", names())))?,
    )?)
}

/// Builds a model and returns the bytes of its `.tflite` file; `None` if no built-in model has this name.
#[must_use]
pub fn build(name: &str) -> Option<Vec<u8>> {
    let entry = MODELS.iter().find(|entry| entry.name == name)?;
    Some(match entry.form {
        Form::Network(network) => network().finish(),
        Form::Language(build, stored) => build(stored),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use attache_base::DataType;

    use super::weights::Random;
    use super::*;
    use crate::Interpreter;

    /// Returns the number of occurrences of each operator in the first subgraph, sorted by name.
    pub(super) fn counts(model: &Model) -> Vec<(String, usize)> {
        let mut counts = BTreeMap::new();
        for operator in &model.subgraphs()[0].operators {
            *counts.entry(operator.code.name()).or_default() += 1;
        }
        counts.into_iter().collect()
    }

    /// Returns the number of `FLOAT32` constant elements of the first subgraph: weights and biases.
    pub(super) fn parameters(model: &Model) -> usize {
        let constants = model.subgraphs()[0].tensors.iter().filter_map(|tensor| tensor.constant.as_ref());
        let floats = constants.filter(|constant| constant.data_type == DataType::Float32);
        floats.map(|constant| constant.shape.elements()).sum()
    }

    #[test]
    fn every_model_opens_and_is_the_same_each_time() {
        assert!(names().is_sorted());
        for name in names() {
            let bytes = build(name).unwrap();
            assert!(bytes == build(name).unwrap(), "{name}");
            let model = model(name).unwrap_or_else(|error| panic!("{name}: {error}"));
            let signatures = if name.starts_with("decoder") { 2 } else { 1 };
            assert_eq!(model.signatures().len(), signatures, "{name}");
        }
        assert_eq!(build("mobilenet"), None);
        let error = model("mobilenet").unwrap_err().to_string();
        assert!(error.contains("\"mobilenet\"") && error.contains("\"lstm_128\""), "{error}");
    }

    fn deviation(values: &[f32]) -> f32 {
        let mean = values.iter().sum::<f32>() / values.len() as f32;
        (values.iter().map(|value| (value - mean).powi(2)).sum::<f32>() / values.len() as f32).sqrt()
    }

    #[test]
    fn activations_keep_a_healthy_size() {
        for Entry { name, form } in MODELS {
            let Form::Network(network) = form else { continue };
            let model = Model::from_bytes(network().opened_up().finish()).unwrap();
            let mut interpreter = Interpreter::builder(&model).build().unwrap();
            for seed in 0..3 {
                Random::new(seed).fill(interpreter.input_mut(0).unwrap(), 1.0);
                interpreter.invoke().unwrap();
                let operators = model.subgraphs()[0].operators.iter();
                let names = operators.flat_map(|operator| vec![operator.code.name(); operator.outputs.len()]);
                for (output, operator) in names.enumerate() {
                    let values: &[f32] = interpreter.read(output).unwrap();
                    let (measure, healthy) = match operator.as_str() {
                        // This operator only selects values that earlier layers computed.
                        "TFLite_Detection_PostProcess" => continue,
                        "SOFTMAX" | "LOGISTIC" => (values.iter().copied().fold(0.0, f32::max), 0.01..0.9),
                        _ => (deviation(values), 0.1..10.0),
                    };
                    assert!(
                        healthy.contains(&measure),
                        "{name}, seed {seed}, output {output} of {operator}: {measure}"
                    );
                }
            }
        }
    }

    #[test]
    fn every_number_of_threads_gives_the_same_bits() {
        for name in ["deeplabv3_257", "mobilenet_v2_1.0_224"] {
            let form = &MODELS.iter().find(|entry| entry.name == name).unwrap().form;
            let Form::Network(network) = form else { panic!("{name} is no network") };
            let model = Model::from_bytes(network().opened_up().finish()).unwrap();
            let run = |threads: usize| {
                let mut interpreter = Interpreter::builder(&model).threads(threads).build().unwrap();
                Random::new(7).fill(interpreter.input_mut(0).unwrap(), 1.0);
                interpreter.invoke().unwrap();
                interpreter
            };
            let alone = run(1);
            for threads in [2, 3, 16] {
                let together = run(threads);
                for output in 0..model.subgraphs()[0].outputs.len() {
                    let [alone, together] =
                        [&alone, &together].map(|interpreter| interpreter.read_bytes(output).unwrap());
                    assert!(alone == together, "{name}, output {output}, {threads} threads");
                }
            }
        }
    }
}

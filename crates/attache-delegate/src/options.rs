//! The options of the plug-in: keys and values, with the words of the command `attache`.

use std::str::FromStr;

use attache::gpu::{Backend, InferencePreference, Precision, Quantized};
use attache::{GpuDelegateOptions, Partitioning};

use crate::log::Log;

/// What the delegate is created with.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) gpu: GpuDelegateOptions,
    pub(crate) partitioning: Partitioning,
    /// Whether an operation that is left to the runtime is an error.
    pub(crate) require_delegation: bool,
    pub(crate) log: Log,
}

impl Default for Options {
    fn default() -> Self {
        // The runtime has one run in progress at a time.
        let gpu = GpuDelegateOptions::default().inference_preference(InferencePreference::FastSingleAnswer);
        Self { gpu, partitioning: Partitioning::default(), require_delegation: false, log: Log::default() }
    }
}

/// The keys, for messages.
const KEYS: &str = "precision, quantized, backend, adapter, software, serialization_dir, model_token, \
    max_delegated_partitions, min_nodes_per_partition, require_delegation, log";

impl Options {
    /// Reads keys and values. An unknown key and a value that the key does not have are errors that name what there is.
    pub(crate) fn of<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Self, String> {
        let mut options = Self::default();
        let (mut folder, mut token) = (None, None);
        for (key, value) in pairs {
            let gpu = options.gpu.clone();
            match key {
                "precision" => options.gpu = gpu.precision(word(key, value, &PRECISIONS)?),
                "quantized" => {
                    let quantized = word(key, value, &QUANTIZED)?;
                    options.gpu = quantized.map_or(gpu.clone(), |quantized| gpu.quantized(quantized));
                }
                "backend" => options.gpu = gpu.backend(word(key, value, &BACKENDS)?),
                "adapter" => options.gpu = gpu.adapter(value),
                "software" => options.gpu = gpu.software(word(key, value, &TRUTHS)?),
                "serialization_dir" => folder = Some(value),
                "model_token" => token = Some(value),
                "max_delegated_partitions" => {
                    options.partitioning.max_delegated_partitions = Some(most(number(key, value)?));
                }
                "min_nodes_per_partition" => options.partitioning.min_nodes_per_partition = number(key, value)?,
                "require_delegation" => options.require_delegation = word(key, value, &TRUTHS)?,
                "log" => options.log = word(key, value, &Log::WORDS)?,
                _ => return Err(format!("there is no option \"{key}\"; the options are {KEYS}")),
            }
        }
        // Unlike TensorFlow Lite's options, a folder alone suffices: the model is then found by its content.
        if let Some(folder) = folder {
            options.gpu = options.gpu.cache(folder);
        }
        if let Some(token) = token {
            options.gpu = options.gpu.model_token(token);
        }
        Ok(options)
    }

    /// Returns TensorFlow Lite's options: at most as many partitions, and at least one.
    pub(crate) fn tensorflow_lite(gpu: GpuDelegateOptions, max_delegated_partitions: i32) -> Self {
        let partitioning = Partitioning::default().max_delegated_partitions(most(max_delegated_partitions));
        // The limit is one of the runtime's plan, and not of what is made of a single partition.
        Self { gpu: gpu.max_delegated_partitions(usize::MAX), partitioning, ..Self::default() }
    }
}

static PRECISIONS: [(&str, Precision); 3] =
    [("f32", Precision::F32), ("f32_f16", Precision::F32F16), ("f16", Precision::F16)];

static QUANTIZED: [(&str, Option<Quantized>); 3] =
    [("auto", None), ("view", Some(Quantized::View)), ("exact", Some(Quantized::Exact))];

static BACKENDS: [(&str, Backend); 4] =
    [("vulkan", Backend::Vulkan), ("metal", Backend::Metal), ("dx12", Backend::Dx12), ("gl", Backend::Gl)];

static TRUTHS: [(&str, bool); 4] = [("true", true), ("false", false), ("1", true), ("0", false)];

/// Returns what a word stands for.
fn word<T: Clone>(key: &str, value: &str, words: &[(&str, T)]) -> Result<T, String> {
    // Python writes truth values with a capital letter.
    let found = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(value)).map(|(_, meaning)| meaning.clone());
    found.ok_or_else(|| {
        let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        format!("{key} is \"{value}\"; it can be {}", words.join(", "))
    })
}

/// Returns a maximum number of partitions: at least one, as in TensorFlow Lite.
fn most(partitions: i32) -> usize {
    usize::try_from(partitions).unwrap_or(1).max(1)
}

fn number<T: FromStr>(key: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{key} is \"{value}\"; it has to be a whole number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let pairs =
            [("precision", "f16"), ("quantized", "exact"), ("software", "true"), ("adapter", "llvm"), ("log", "Off")];
        let options = Options::of(pairs.into_iter()).unwrap();
        let wanted = Options::default().gpu.precision(Precision::F16).quantized(Quantized::Exact);
        assert_eq!(options.gpu, wanted.software(true).adapter("llvm"));
        assert_eq!(options.log, Log::Off);
        let options = Options::of([("max_delegated_partitions", "0"), ("min_nodes_per_partition", "3")].into_iter());
        let partitioning = Partitioning::default().max_delegated_partitions(1).min_nodes_per_partition(3);
        assert_eq!(options.unwrap().partitioning, partitioning);
        let options = Options::of([("max_delegated_partitions", "-1")].into_iter()).unwrap();
        assert_eq!(options.partitioning.max_delegated_partitions, Some(1));
    }

    #[test]
    fn wrong_options_are_errors_that_name_what_there_is() {
        for (key, value, says) in [
            ("speed", "high", "there is no option \"speed\"; the options are precision, quantized"),
            ("precision", "f64", "precision is \"f64\"; it can be f32, f32_f16, f16"),
            ("max_delegated_partitions", "many", "has to be a whole number"),
        ] {
            let error = Options::of([(key, value)].into_iter()).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}

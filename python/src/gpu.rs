//! The GPU delegate as a class of Python.

use std::path::PathBuf;
use std::sync::Arc;

use attache::gpu::{self, Backend, InferencePreference, InferencePriority, Precision, Quantized};
use attache::{Delegate, GpuDelegate, GpuDelegateOptions};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::fault::Fault;

/// Flags of TensorFlow Lite's option `experimental_flags`. The others have no effect here: quantized models run anyway, and
/// `backend` chooses the graphics API.
const ENABLE_SERIALIZATION: u32 = 8;

/// An opened GPU. Interpreters that use it share its device.
#[pyclass(frozen, module = "attache._attache")]
pub(crate) struct NativeGpuDelegate(Arc<GpuDelegate>);

impl NativeGpuDelegate {
    pub(crate) fn delegate(&self) -> Arc<dyn Delegate> {
        self.0.clone()
    }

    pub(crate) fn gpu(&self) -> &GpuDelegate {
        &self.0
    }
}

#[pymethods]
impl NativeGpuDelegate {
    /// Opens a GPU by options with the words of the command, or with TensorFlow Lite's numbers.
    #[new]
    fn new(py: Python<'_>, options: &Bound<'_, PyDict>) -> PyResult<Self> {
        let options = options_of(options)?;
        // A panic of a driver's library is its error.
        let gpu = py.detach(|| GpuDelegate::new(options));
        Ok(Self(Arc::new(gpu.map_err(|error| Fault::from(error).value())?)))
    }

    /// Returns the name of the GPU.
    fn adapter(&self) -> String {
        self.0.adapter().name.clone()
    }
}

/// Returns the names of all GPUs of this machine, software included, each once per graphics API, which comes first.
#[pyfunction]
pub(crate) fn adapters(py: Python<'_>) -> Vec<(String, String)> {
    py.detach(|| gpu::adapters().iter().map(|it| (format!("{:?}", it.backend), it.name.clone())).collect())
}

/// The names of options, for messages.
const NAMES: &str = "precision, quantized, backend, adapter, software, cache, max_delegated_partitions, \
    min_nodes_per_partition, first_delegate_node_index, last_delegate_node_index, is_precision_loss_allowed, \
    inference_preference, inference_priority1, inference_priority2, inference_priority3, experimental_flags, \
    serialization_dir, enable_serialization, model_token, enable_quantized_inference";

fn options_of(given: &Bound<'_, PyDict>) -> PyResult<GpuDelegateOptions> {
    // A run of an interpreter is waited for before the next one starts.
    let mut options = GpuDelegateOptions::default().inference_preference(InferencePreference::FastSingleAnswer);
    let mut priorities = [InferencePriority::MaxPrecision, InferencePriority::Auto, InferencePriority::Auto];
    let (mut has_priorities, mut loss) = (false, None);
    for (key, value) in given.iter() {
        let key: String = key.extract()?;
        if value.is_none() {
            continue;
        }
        let name = key.as_str();
        options = match name {
            "precision" => options.precision(choice(name, &value, &PRECISIONS)?),
            "quantized" => match choice(name, &value, &QUANTIZED)? {
                Some(quantized) => options.quantized(quantized),
                None => options,
            },
            "backend" => options.backend(choice(name, &value, &BACKENDS)?),
            "adapter" => options.adapter(text(name, &value)?),
            "software" => options.software(truth(name, &value)?),
            "cache" => options.cache(folder(name, &value)?),
            "max_delegated_partitions" => options.max_delegated_partitions(count(name, &value)?),
            "min_nodes_per_partition" => options.min_nodes_per_partition(count(name, &value)?),
            "first_delegate_node_index" => options.first_delegate_node_index(count(name, &value)?),
            "last_delegate_node_index" => options.last_delegate_node_index(count(name, &value)?),
            "inference_preference" => options.inference_preference(choice(name, &value, &PREFERENCES)?),
            "serialization_dir" => options.serialization_dir(folder(name, &value)?),
            "enable_serialization" => options.enable_serialization(truth(name, &value)?),
            "model_token" => options.model_token(text(name, &value)?),
            "experimental_flags" => match flags(name, &value)? & ENABLE_SERIALIZATION {
                0 => options,
                _ => options.enable_serialization(true),
            },
            "is_precision_loss_allowed" => {
                // TensorFlow Lite's -1 leaves the choice to the priorities.
                loss = if value.extract::<i64>().is_ok_and(|it| it == -1) { None } else { Some(truth(name, &value)?) };
                options
            }
            "inference_priority1" | "inference_priority2" | "inference_priority3" => {
                let place = usize::from(name.as_bytes()[name.len() - 1] - b'1');
                priorities[place] = choice(name, &value, &PRIORITIES)?;
                has_priorities = true;
                options
            }
            "enable_quantized_inference" => options,
            _ => {
                let text = format!("GpuDelegate has no option '{name}'; the options are {NAMES}");
                return Err(PyTypeError::new_err(text));
            }
        };
    }
    let [first, second, third] = priorities;
    let options = if has_priorities { options.inference_priorities(first, second, third) } else { options };
    Ok(loss.map_or(options.clone(), |allowed| options.is_precision_loss_allowed(allowed)))
}

static PRECISIONS: [(&str, Precision); 3] =
    [("f32", Precision::F32), ("f32_f16", Precision::F32F16), ("f16", Precision::F16)];

static QUANTIZED: [(&str, Option<Quantized>); 3] =
    [("auto", None), ("view", Some(Quantized::View)), ("exact", Some(Quantized::Exact))];

static BACKENDS: [(&str, Backend); 4] =
    [("vulkan", Backend::Vulkan), ("metal", Backend::Metal), ("dx12", Backend::Dx12), ("gl", Backend::Gl)];

// In the order of TensorFlow Lite's numbers.
static PREFERENCES: [(&str, InferencePreference); 3] = [
    ("fast_single_answer", InferencePreference::FastSingleAnswer),
    ("sustained_speed", InferencePreference::SustainedSpeed),
    ("balanced", InferencePreference::Balanced),
];

// In the order of TensorFlow Lite's numbers.
static PRIORITIES: [(&str, InferencePriority); 4] = [
    ("auto", InferencePriority::Auto),
    ("max_precision", InferencePriority::MaxPrecision),
    ("min_latency", InferencePriority::MinLatency),
    ("min_memory_usage", InferencePriority::MinMemoryUsage),
];

/// Returns what a word, or its number in the list, stands for.
fn choice<T: Clone>(name: &str, value: &Bound<'_, PyAny>, words: &[(&str, T)]) -> PyResult<T> {
    let number = value.extract::<usize>().ok().and_then(|number| words.get(number));
    let word = value.extract::<String>().ok();
    let by_word = || words.iter().find(|(known, _)| word.as_ref().is_some_and(|word| word.eq_ignore_ascii_case(known)));
    let found = number.or_else(by_word).map(|(_, meaning)| meaning.clone());
    found.ok_or_else(|| {
        let known: Vec<String> = words.iter().map(|(word, _)| format!("'{word}'")).collect();
        PyValueError::new_err(format!("{name} is {value:?}; it can be {}", known.join(", ")))
    })
}

fn text(name: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    value.extract().map_err(|_| PyTypeError::new_err(format!("{name} is {value:?}; it has to be a text")))
}

fn folder(name: &str, value: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    value.extract().map_err(|_| PyTypeError::new_err(format!("{name} is {value:?}; it has to be the path of a folder")))
}

fn flags(name: &str, value: &Bound<'_, PyAny>) -> PyResult<u32> {
    value.extract().map_err(|_| {
        PyValueError::new_err(format!("{name} is {value:?}; it has to be a sum of flags, a whole number of 32 bits"))
    })
}

fn truth(name: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let number = || value.extract::<i64>().ok().filter(|number| (0..=1).contains(number)).map(|number| number == 1);
    let truth = value.extract::<bool>().ok().or_else(number);
    truth.ok_or_else(|| PyTypeError::new_err(format!("{name} is {value:?}; it has to be True or False")))
}

fn count(name: &str, value: &Bound<'_, PyAny>) -> PyResult<usize> {
    value
        .extract()
        .map_err(|_| PyValueError::new_err(format!("{name} is {value:?}; it has to be a whole number, 0 or more")))
}

//! Options of the GPU delegate, named as in `TfLiteGpuDelegateOptionsV2`.

use std::path::PathBuf;

use attache_gpu::{Backend, Fault, Precision, Submission, VariantChoice, Wait};
use attache_graph::Quantized;

use super::stored::PlanFolder;
use crate::{Error, Partitioning};

/// The intended use of the delegate, as in TensorFlow Lite. It decides how many runs of an interpreter can be in progress
/// at once, if the delegate runs the whole graph ([`Interpreter::queue_depth`](crate::Interpreter::queue_depth)), and
/// with that how much memory each interpreter takes: each run in progress has memory of its own. It also decides how many
/// runs the device can execute concurrently: opening it takes longer for each, on an NVIDIA H200 22 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum InferencePreference {
    /// A single run at a time, with the least memory.
    FastSingleAnswer,
    /// The highest throughput: three runs in progress, and as many executed concurrently, also of repeated runs and of
    /// several interpreters, as help.
    #[default]
    SustainedSpeed,
    /// Two runs in progress, so that the next inputs are written while the device works.
    Balanced,
}

impl InferencePreference {
    /// Returns the maximum number of runs in progress.
    pub(crate) fn slots(self) -> usize {
        match self {
            Self::FastSingleAnswer => 1,
            Self::SustainedSpeed => 3,
            Self::Balanced => 2,
        }
    }

    /// Returns how many runs the device has to be able to execute concurrently; `None` for as many as help.
    pub(crate) fn concurrent_runs(self) -> Option<usize> {
        match self {
            Self::FastSingleAnswer => Some(1),
            Self::SustainedSpeed => None,
            Self::Balanced => Some(2),
        }
    }
}

/// An optimization goal, as in TensorFlow Lite. The options contain three of them in order of importance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InferencePriority {
    /// Not specified: the delegate chooses a goal that the other priorities do not name. The first priority
    /// must not be `Auto`.
    Auto,
    /// High numerical precision.
    MaxPrecision,
    /// Low latency of a run.
    MinLatency,
    /// Low use of device memory.
    MinMemoryUsage,
}

use InferencePriority::{Auto, MaxPrecision, MinLatency, MinMemoryUsage};

/// Options of the GPU delegate. [`GpuDelegateOptions::default`] delegates all partitions of a graph.
/// [`GpuDelegateOptions::tensorflow_lite`] has TensorFlow Lite's defaults, which delegate only the largest
/// partition.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuDelegateOptions {
    pub(crate) inference_preference: InferencePreference,
    pub(crate) priorities: [InferencePriority; 3],
    pub(crate) precision: Option<Precision>,
    pub(crate) quantized: Option<Quantized>,
    pub(crate) submission: Option<Submission>,
    pub(crate) partitioning: Partitioning,
    pub(crate) backend: Option<Backend>,
    pub(crate) adapter: Option<String>,
    pub(crate) software: bool,
    pub(crate) wait: Wait,
    pub(crate) validation: bool,
    pub(crate) no_shader_f16: bool,
    pub(crate) no_subgroups: bool,
    pub(crate) as_hardware: bool,
    pub(crate) own_memory: bool,
    pub(crate) emulate_matrices: bool,
    pub(crate) fault: Option<Fault>,
    pub(crate) variants: VariantChoice,
    pub(super) cache: Option<PlanFolder>,
    pub(super) serialization_dir: Option<PlanFolder>,
    pub(super) serializes: bool,
    pub(super) model_token: Option<String>,
}

impl Default for GpuDelegateOptions {
    fn default() -> Self {
        Self {
            inference_preference: InferencePreference::default(),
            priorities: [MaxPrecision, Auto, Auto],
            precision: None,
            quantized: None,
            submission: None,
            partitioning: Partitioning::default(),
            backend: None,
            adapter: None,
            software: false,
            wait: Wait::default(),
            validation: false,
            no_shader_f16: false,
            no_subgroups: false,
            as_hardware: false,
            own_memory: false,
            emulate_matrices: false,
            fault: None,
            variants: VariantChoice::default(),
            cache: None,
            serialization_dir: None,
            serializes: false,
            model_token: None,
        }
    }
}

impl GpuDelegateOptions {
    /// Returns the defaults of `TfLiteGpuDelegateOptionsV2Default`: at most one delegated partition, maximum
    /// precision, and one run at a time.
    pub fn tensorflow_lite() -> Self {
        Self::default().max_delegated_partitions(1).inference_preference(InferencePreference::FastSingleAnswer)
    }

    /// Sets TensorFlow Lite's option `is_precision_loss_allowed`, which exists there for compatibility. It
    /// sets the first inference priority to [`InferencePriority::MinLatency`] if `allowed`, otherwise to
    /// [`InferencePriority::MaxPrecision`], and the other two to [`InferencePriority::Auto`].
    pub fn is_precision_loss_allowed(self, allowed: bool) -> Self {
        self.inference_priorities(if allowed { MinLatency } else { MaxPrecision }, Auto, Auto)
    }

    /// Sets the intended use of the delegate. The default is [`InferencePreference::SustainedSpeed`], and with
    /// [`GpuDelegateOptions::tensorflow_lite`] it is [`InferencePreference::FastSingleAnswer`].
    pub fn inference_preference(mut self, preference: InferencePreference) -> Self {
        self.inference_preference = preference;
        self
    }

    /// Sets TensorFlow Lite's options `inference_priority1` to `inference_priority3`. They determine the
    /// precision unless [`GpuDelegateOptions::precision`] is called. Contradictory priorities make
    /// [`GpuDelegate::new`](super::GpuDelegate::new) fail.
    pub fn inference_priorities(
        mut self,
        first: InferencePriority,
        second: InferencePriority,
        third: InferencePriority,
    ) -> Self {
        self.priorities = [first, second, third];
        self
    }

    /// Sets the precision in which tensors are stored and computed. It overrides the inference priorities.
    pub fn precision(mut self, precision: Precision) -> Self {
        self.precision = Some(precision);
        self
    }

    /// Sets how quantized tensors are computed: as floats or as integers. By default the delegate chooses for each
    /// partition: [`Quantized::Exact`] if the device multiplies packed bytes and every node of the partition has an
    /// integer form, so that the outputs are those of the CPU at no cost; otherwise [`Quantized::View`], except for nodes
    /// that only have an integer form. The report ([`Report::notes`](crate::Report::notes)) and the log tell what it chose.
    pub fn quantized(mut self, quantized: Quantized) -> Self {
        self.quantized = Some(quantized);
        self
    }

    /// Sets how commands are submitted to the device. The default is [`Submission::Replay`] if it is
    /// possible.
    pub fn submission(mut self, submission: Submission) -> Self {
        self.submission = Some(submission);
        self
    }

    /// Sets the maximum number of partitions to delegate; the largest are taken. 0 counts as 1. By default
    /// there is no maximum.
    pub fn max_delegated_partitions(mut self, most: usize) -> Self {
        self.partitioning.max_delegated_partitions = Some(most.max(1));
        self
    }

    /// Sets the minimum number of nodes of a partition. Smaller partitions are not delegated. The default is
    /// 1.
    pub fn min_nodes_per_partition(mut self, least: usize) -> Self {
        self.partitioning.min_nodes_per_partition = least;
        self
    }

    /// Sets the index, within its subgraph of the file, of the first operator that may be delegated.
    pub fn first_delegate_node_index(mut self, index: usize) -> Self {
        self.partitioning.first_delegate_node_index = index;
        self
    }

    /// Sets the index, within its subgraph of the file, of the last operator that may be delegated.
    pub fn last_delegate_node_index(mut self, index: usize) -> Self {
        self.partitioning.last_delegate_node_index = index;
        self
    }

    /// Restricts the choice of device to this graphics API.
    pub fn backend(mut self, backend: Backend) -> Self {
        self.backend = Some(backend);
        self
    }

    /// Restricts the choice of device to adapters whose name contains `text`, ignoring case.
    pub fn adapter(mut self, text: impl Into<String>) -> Self {
        self.adapter = Some(text.into());
        self
    }

    /// Sets whether software adapters, which compute on the CPU, may be chosen where there is no hardware. By
    /// default only hardware is, unless the environment variable `ATTACHE_SOFTWARE` is 1.
    pub fn software(mut self, allowed: bool) -> Self {
        self.software = allowed;
        self
    }

    /// Stores plans, compiled shaders and packed weights in a folder, which is created if it is missing, so that later
    /// starts with the same model, device, driver and options take them from there ([`CacheFolder`](crate::CacheFolder)). If the
    /// folder cannot be used, nothing is stored, which is a line in the log. Nothing is stored by default.
    pub fn cache(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cache = Some(PlanFolder::new(folder.into()));
        self
    }

    /// Sets TensorFlow Lite's option `model_token`: a text that stands for the weights of the model, so that they need not
    /// be read to find what is stored. It must differ for models that differ in nothing but weights; a model that
    /// differs in anything else is told apart. Without a token, the model is found by its content.
    pub fn model_token(mut self, token: impl Into<String>) -> Self {
        self.model_token = Some(token.into());
        self
    }

    /// Sets TensorFlow Lite's option `serialization_dir`: the folder of [`GpuDelegateOptions::cache`]. As there, it is used
    /// if [`GpuDelegateOptions::enable_serialization`] and [`GpuDelegateOptions::model_token`] are set as well.
    pub fn serialization_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.serialization_dir = Some(PlanFolder::new(folder.into()));
        self
    }

    /// Sets TensorFlow Lite's experimental flag `TFLITE_GPU_EXPERIMENTAL_FLAGS_ENABLE_SERIALIZATION`.
    pub fn enable_serialization(mut self, enabled: bool) -> Self {
        self.serializes = enabled;
        self
    }

    /// Returns the folder in which plans are stored; `None` if they are not.
    pub(super) fn plan_folder(&self) -> Option<&PlanFolder> {
        let serialized = self.serialization_dir.as_ref().filter(|_| self.serializes && self.model_token.is_some());
        self.cache.as_ref().or(serialized)
    }

    /// Sets how the host waits for runs: a choice between latency and energy. The default is [`Wait::Adaptive`].
    pub fn wait(mut self, wait: Wait) -> Self {
        self.wait = wait;
        self
    }

    /// Whether software adapters may be chosen.
    pub(crate) fn allows_software(&self) -> bool {
        self.software || std::env::var_os("ATTACHE_SOFTWARE").is_some_and(|value| value == "1")
    }

    /// Sets whether the validation layer of the graphics API is enabled. Its messages go to the log. For
    /// tests.
    pub fn validation(mut self, validation: bool) -> Self {
        self.validation = validation;
        self
    }

    /// Sets whether shaders do without f16 types even if the device supports them. The 16-bit precisions then
    /// work as on a device without that support. For tests.
    #[doc(hidden)]
    pub fn no_shader_f16(mut self, without: bool) -> Self {
        self.no_shader_f16 = without;
        self
    }

    /// Sets whether shaders do without exchanges within subgroups, even if the device supports them. For tests.
    #[doc(hidden)]
    pub fn no_subgroups(mut self, without: bool) -> Self {
        self.no_subgroups = without;
        self
    }

    /// Sets whether a software device uses the kernels for hardware. For tests.
    #[doc(hidden)]
    pub fn as_hardware(mut self, as_hardware: bool) -> Self {
        self.as_hardware = as_hardware;
        self
    }

    /// Sets whether the memory of a software device counts as apart from the host's. For tests.
    #[doc(hidden)]
    pub fn own_memory(mut self, own: bool) -> Self {
        self.own_memory = own;
        self
    }

    /// Sets whether the 16-bit kernels for cooperative matrices are used on a device without cooperative
    /// matrices. Loops replace the matrix instructions, and shaders must support f16. For tests.
    #[doc(hidden)]
    pub fn emulate_matrices(mut self, emulate: bool) -> Self {
        self.emulate_matrices = emulate;
        self
    }

    /// Makes a device operation fail as `fault` describes. For tests.
    #[doc(hidden)]
    pub fn fault(mut self, fault: Fault) -> Self {
        self.fault = Some(fault);
        self
    }

    /// Sets which kernel variant is used if several apply. The default is the one with the lowest priority
    /// number.
    pub fn variants(mut self, variants: VariantChoice) -> Self {
        self.variants = variants;
        self
    }

    /// Returns the precision that the options result in: the one that was set, or else one that depends, as
    /// in TensorFlow Lite, on the position of `MaxPrecision` among the priorities. Contradictory priorities
    /// are an error.
    pub(crate) fn resolved_precision(&self) -> Result<Precision, Error> {
        if let Some(precision) = self.precision {
            return Ok(precision);
        }
        let position = complete(self.priorities)?.iter().position(|priority| *priority == MaxPrecision);
        Ok(match position {
            Some(0) => Precision::F32,
            Some(1) => Precision::F32F16,
            _ => Precision::F16,
        })
    }
}

/// Replaces each `Auto` by a goal that is left, by TensorFlow Lite's rules for its GPU delegate.
/// Contradictory priorities are an error.
fn complete(priorities: [InferencePriority; 3]) -> Result<[InferencePriority; 3], Error> {
    let wrong = |text: &str| Err(Error::usage(format!("inference priorities: {text}")));
    match priorities {
        [Auto, ..] => wrong("the first must not be Auto; name a goal"),
        [_, Auto, third] if third != Auto => wrong("the third must be Auto where the second is"),
        [MinLatency, Auto, _] => Ok([MinLatency, MinMemoryUsage, MaxPrecision]),
        [MinMemoryUsage, Auto, _] => Ok([MinMemoryUsage, MaxPrecision, MinLatency]),
        [MaxPrecision, Auto, _] => Ok([MaxPrecision, MinLatency, MinMemoryUsage]),
        [first, second, third] if first == second || second == third || first == third => {
            wrong("two are the same; name each goal once")
        }
        [first, second, Auto] => {
            let left = [MaxPrecision, MinLatency, MinMemoryUsage].into_iter().find(|p| *p != first && *p != second);
            Ok([first, second, left.expect("two of three leave one")])
        }
        given => Ok(given),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precision_follows_from_the_priorities() {
        let precision = |first, second, third| {
            GpuDelegateOptions::default().inference_priorities(first, second, third).resolved_precision().ok()
        };
        assert_eq!(precision(MaxPrecision, Auto, Auto), Some(Precision::F32));
        assert_eq!(precision(MinLatency, MaxPrecision, Auto), Some(Precision::F32F16));
        assert_eq!(precision(MinMemoryUsage, Auto, Auto), Some(Precision::F32F16));
        assert_eq!(precision(MinLatency, Auto, Auto), Some(Precision::F16));
        assert_eq!(precision(Auto, Auto, Auto), None);
        assert_eq!(precision(MinLatency, Auto, MaxPrecision), None);
        assert_eq!(precision(MinLatency, MinLatency, Auto), None);
    }

    #[test]
    fn tensorflow_lite_takes_one_partition() {
        assert_eq!(GpuDelegateOptions::tensorflow_lite().partitioning.max_delegated_partitions, Some(1));
        assert_eq!(GpuDelegateOptions::default().partitioning.max_delegated_partitions, None);
    }
}

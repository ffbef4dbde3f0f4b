//! Options of the GPU delegate, named as in `TfLiteGpuDelegateOptionsV2`.

use attache_gpu::{Backend, Fault, Precision, Submission, VariantChoice};
use attache_graph::Quantized;

use crate::{Error, Partitioning};

/// The intended use of the delegate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InferencePreference {
    /// Few runs: fast startup matters.
    #[default]
    FastSingleAnswer,
    /// Many runs: throughput matters.
    SustainedSpeed,
    /// A compromise of both.
    Balanced,
}

/// An optimization goal. Three of them are given in order of importance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InferencePriority {
    /// Filled in from the other priorities.
    Auto,
    /// Exact results.
    MaxPrecision,
    /// Low latency.
    MinLatency,
    /// Low memory use.
    MinMemoryUsage,
}

use InferencePriority::{Auto, MaxPrecision, MinLatency, MinMemoryUsage};

/// Options of the GPU delegate. [`GpuDelegateOptions::default`] takes every partition of the graph.
/// [`GpuDelegateOptions::tensorflow_lite`] has the defaults of TensorFlow Lite, which takes only the largest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuDelegateOptions {
    pub(crate) inference_preference: InferencePreference,
    pub(crate) priorities: [InferencePriority; 3],
    pub(crate) precision: Option<Precision>,
    pub(crate) quantized: Quantized,
    pub(crate) submission: Option<Submission>,
    pub(crate) partitioning: Partitioning,
    pub(crate) backend: Option<Backend>,
    pub(crate) adapter: Option<String>,
    pub(crate) hardware_only: bool,
    pub(crate) validation: bool,
    pub(crate) no_shader_f16: bool,
    pub(crate) as_hardware: bool,
    pub(crate) emulate_matrices: bool,
    pub(crate) fault: Option<Fault>,
    pub(crate) variants: VariantChoice,
}

impl Default for GpuDelegateOptions {
    fn default() -> Self {
        Self {
            inference_preference: InferencePreference::default(),
            priorities: [MaxPrecision, Auto, Auto],
            precision: None,
            quantized: Quantized::default(),
            submission: None,
            partitioning: Partitioning::default(),
            backend: None,
            adapter: None,
            hardware_only: false,
            validation: false,
            no_shader_f16: false,
            as_hardware: false,
            emulate_matrices: false,
            fault: None,
            variants: VariantChoice::default(),
        }
    }
}

impl GpuDelegateOptions {
    /// The defaults of `TfLiteGpuDelegateOptionsV2Default`: one delegated partition and maximum precision.
    pub fn tensorflow_lite() -> Self {
        Self::default().max_delegated_partitions(1)
    }

    /// `is_precision_loss_allowed`, which TensorFlow Lite keeps for compatibility. It sets the first priority to
    /// [`InferencePriority::MinLatency`] or [`InferencePriority::MaxPrecision`] and the others to
    /// [`InferencePriority::Auto`].
    pub fn is_precision_loss_allowed(self, allowed: bool) -> Self {
        self.inference_priorities(if allowed { MinLatency } else { MaxPrecision }, Auto, Auto)
    }

    /// The intended use of the delegate. It is accepted for compatibility and has no effect.
    pub fn inference_preference(mut self, preference: InferencePreference) -> Self {
        self.inference_preference = preference;
        self
    }

    /// `inference_priority1` to `inference_priority3`. They determine the precision unless
    /// [`GpuDelegateOptions::precision`] is set. Contradictory priorities make
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

    /// The precision. It overrides the priorities.
    pub fn precision(mut self, precision: Precision) -> Self {
        self.precision = Some(precision);
        self
    }

    /// How quantized tensors are computed.
    pub fn quantized(mut self, quantized: Quantized) -> Self {
        self.quantized = quantized;
        self
    }

    /// How commands are submitted to the device. The default is replay if it is possible.
    pub fn submission(mut self, submission: Submission) -> Self {
        self.submission = Some(submission);
        self
    }

    /// Maximum number of partitions; the largest are taken first. 0 counts as 1.
    pub fn max_delegated_partitions(mut self, most: usize) -> Self {
        self.partitioning.max_delegated_partitions = Some(most.max(1));
        self
    }

    /// Minimum number of nodes of a partition.
    pub fn min_nodes_per_partition(mut self, least: usize) -> Self {
        self.partitioning.min_nodes_per_partition = least;
        self
    }

    /// Index of the first operator in the file that may be delegated.
    pub fn first_delegate_node_index(mut self, index: usize) -> Self {
        self.partitioning.first_delegate_node_index = index;
        self
    }

    /// Index of the last operator in the file that may be delegated.
    pub fn last_delegate_node_index(mut self, index: usize) -> Self {
        self.partitioning.last_delegate_node_index = index;
        self
    }

    /// Restricts the choice of device to this graphics API.
    pub fn backend(mut self, backend: Backend) -> Self {
        self.backend = Some(backend);
        self
    }

    /// Restricts the choice of device to adapters whose name contains this text, ignoring case.
    pub fn adapter(mut self, text: impl Into<String>) -> Self {
        self.adapter = Some(text.into());
        self
    }

    /// Restricts the choice of device to hardware. Devices that compute on the CPU are excluded.
    pub fn hardware_only(mut self, only: bool) -> Self {
        self.hardware_only = only;
        self
    }

    /// Enables the validation layer of the graphics API, whose messages go to the log. For tests.
    pub fn validation(mut self, validation: bool) -> Self {
        self.validation = validation;
        self
    }

    /// Does not use f16 as a type in shaders even if the device supports it. The 16-bit precisions then work as on a
    /// device without that support. For tests.
    pub fn no_shader_f16(mut self, without: bool) -> Self {
        self.no_shader_f16 = without;
        self
    }

    /// Uses the kernels for hardware on a software device as well. For tests.
    pub fn as_hardware(mut self, as_hardware: bool) -> Self {
        self.as_hardware = as_hardware;
        self
    }

    /// Uses the 16-bit kernels for cooperative matrices on a device without them that has f16 in shaders. Loops replace
    /// the matrix instructions. For tests.
    pub fn emulate_matrices(mut self, emulate: bool) -> Self {
        self.emulate_matrices = emulate;
        self
    }

    /// Injects a device failure. For tests.
    pub fn fault(mut self, fault: Fault) -> Self {
        self.fault = Some(fault);
        self
    }

    /// Which kernel variant is used if several apply. The default is the one with the lowest cost.
    pub fn variants(mut self, variants: VariantChoice) -> Self {
        self.variants = variants;
        self
    }

    /// The precision that the options resolve to. As in TensorFlow Lite, it depends on the position of `MaxPrecision`
    /// among the priorities.
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

/// The priorities with each `Auto` filled in, by TensorFlow Lite's rules for its GPU delegate.
fn complete(priorities: [InferencePriority; 3]) -> Result<[InferencePriority; 3], Error> {
    let wrong = |text: &str| Err(Error::usage(format!("inference priorities: {text}")));
    match priorities {
        [Auto, ..] => wrong("the first must not be Auto"),
        [_, Auto, third] if third != Auto => wrong("the third must be Auto where the second is"),
        [MinLatency, Auto, _] => Ok([MinLatency, MinMemoryUsage, MaxPrecision]),
        [MinMemoryUsage, Auto, _] => Ok([MinMemoryUsage, MaxPrecision, MinLatency]),
        [MaxPrecision, Auto, _] => Ok([MaxPrecision, MinLatency, MinMemoryUsage]),
        [first, second, third] if first == second || second == third || first == third => wrong("two are the same"),
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

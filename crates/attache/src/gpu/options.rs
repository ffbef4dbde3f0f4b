//! The GPU delegate's options, under the names of `TfLiteGpuDelegateOptionsV2`.

use attache_gpu::{Backend, Fault, Precision, Submission, Variants};
use attache_graph::Quantized;

use crate::{Error, Partitioning};

/// What the delegate is used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InferencePreference {
    /// Few runs: a quick start counts.
    #[default]
    FastSingleAnswer,
    /// Many runs: throughput counts.
    SustainedSpeed,
    /// Something of both.
    Balanced,
}

/// What counts, in order of three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InferencePriority {
    /// Whatever the others leave.
    Auto,
    /// Exact numbers.
    MaxPrecision,
    /// Speed.
    MinLatency,
    /// Little memory.
    MinMemoryUsage,
}

use InferencePriority::{Auto, MaxPrecision, MinLatency, MinMemoryUsage};

/// How the GPU delegate is made. [`GpuDelegateOptions::default`] takes every island of the graph;
/// [`GpuDelegateOptions::tensorflow_lite`] has the defaults of TensorFlow Lite, which takes the largest only.
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
    pub(crate) variants: Variants,
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
            variants: Variants::default(),
        }
    }
}

impl GpuDelegateOptions {
    /// The defaults of `TfLiteGpuDelegateOptionsV2Default`: one delegated partition, maximal precision.
    pub fn tensorflow_lite() -> Self {
        Self::default().max_delegated_partitions(1)
    }

    /// `is_precision_loss_allowed`, which TensorFlow Lite keeps for old callers: it decides the first priority.
    pub fn is_precision_loss_allowed(self, allowed: bool) -> Self {
        self.inference_priorities(if allowed { MinLatency } else { MaxPrecision }, Auto, Auto)
    }

    /// What the delegate is used for.
    pub fn inference_preference(mut self, preference: InferencePreference) -> Self {
        self.inference_preference = preference;
        self
    }

    /// `inference_priority1` to `3`: they decide the precision unless [`GpuDelegateOptions::precision`] does.
    pub fn inference_priorities(
        mut self,
        first: InferencePriority,
        second: InferencePriority,
        third: InferencePriority,
    ) -> Self {
        self.priorities = [first, second, third];
        self
    }

    /// The precision, whatever the priorities say.
    pub fn precision(mut self, precision: Precision) -> Self {
        self.precision = Some(precision);
        self
    }

    /// What becomes of quantized tensors.
    pub fn quantized(mut self, quantized: Quantized) -> Self {
        self.quantized = quantized;
        self
    }

    /// How commands get to the device; by default replayed where that is possible.
    pub fn submission(mut self, submission: Submission) -> Self {
        self.submission = Some(submission);
        self
    }

    /// Takes that many islands at most, the largest first; 0 counts as 1.
    pub fn max_delegated_partitions(mut self, most: usize) -> Self {
        self.partitioning.max_delegated_partitions = Some(most.max(1));
        self
    }

    /// Takes islands of that many nodes at least.
    pub fn min_nodes_per_partition(mut self, least: usize) -> Self {
        self.partitioning.min_nodes_per_partition = least;
        self
    }

    /// Takes no node before this one.
    pub fn first_delegate_node_index(mut self, index: usize) -> Self {
        self.partitioning.first_delegate_node_index = index;
        self
    }

    /// Takes no node after this one.
    pub fn last_delegate_node_index(mut self, index: usize) -> Self {
        self.partitioning.last_delegate_node_index = index;
        self
    }

    /// Only through this graphics interface.
    pub fn backend(mut self, backend: Backend) -> Self {
        self.backend = Some(backend);
        self
    }

    /// Only an adapter whose name holds this text, whatever its case.
    pub fn adapter(mut self, text: impl Into<String>) -> Self {
        self.adapter = Some(text.into());
        self
    }

    /// Only a hardware device, never one that computes on the CPU.
    pub fn hardware_only(mut self, only: bool) -> Self {
        self.hardware_only = only;
        self
    }

    /// With the graphics interface's own validation layer, whose messages go to the log. For tests.
    pub fn validation(mut self, validation: bool) -> Self {
        self.validation = validation;
        self
    }

    /// Without binary16 as a type of shaders, on a device that has it as well: 16-bit precisions then do as on one that
    /// does not. For tests.
    pub fn no_shader_f16(mut self, without: bool) -> Self {
        self.no_shader_f16 = without;
        self
    }

    /// With the kernels that hardware would have, on a software device too. For tests.
    pub fn as_hardware(mut self, as_hardware: bool) -> Self {
        self.as_hardware = as_hardware;
        self
    }

    /// With the kernels that a device with cooperative matrices would have in 16 bits, on another one with binary16 in
    /// shaders too: loops take the place of the matrices. For tests.
    pub fn emulate_matrices(mut self, emulate: bool) -> Self {
        self.emulate_matrices = emulate;
        self
    }

    /// With a failure to come. For tests.
    pub fn fault(mut self, fault: Fault) -> Self {
        self.fault = Some(fault);
        self
    }

    /// Which variant writes a kernel where several apply; by default the cheapest.
    pub fn variants(mut self, variants: Variants) -> Self {
        self.variants = variants;
        self
    }

    /// The precision that follows: from the place of `MaxPrecision` among the priorities, as TensorFlow Lite has it.
    pub(crate) fn resolved_precision(&self) -> Result<Precision, Error> {
        if let Some(precision) = self.precision {
            return Ok(precision);
        }
        let place = complete(self.priorities)?.iter().position(|priority| *priority == MaxPrecision);
        Ok(match place {
            Some(0) => Precision::F32,
            Some(1) => Precision::F32F16,
            _ => Precision::F16,
        })
    }
}

/// The priorities with each `Auto` filled in. Source: TensorFlow Lite's rules for its GPU delegate.
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

//! What a study of one model is to measure, and what it found.

use attache::diff::QuantizationSteps;
use serde::{Deserialize, Serialize};

use super::configurations::Configuration;
use crate::arguments::LimitArguments;
use crate::commands::diff::outputs::Summary;
use crate::device::Adapter;
use crate::inputs::InputArguments;
use crate::measure::timing::Statistics;

/// Configurations this close to the fastest, relative to it or in milliseconds, count as equally fast.
const EQUAL: (f64, f64) = (0.02, 0.003);

/// What is to be measured, and how.
pub(in crate::commands) struct Plan<'a> {
    /// Seconds that it may take.
    pub(in crate::commands) budget: f64,
    /// The share of the budget that is left to the caller.
    pub(in crate::commands) reserved: f64,
    /// Whether all configurations of the CPU are measured. The default one is measured in any case.
    pub(in crate::commands) cpu: bool,
    pub(in crate::commands) adapters: &'a [Adapter],
    /// What to say if GPUs were asked for and there are none; `None` if none were asked for.
    pub(in crate::commands) no_gpu: Option<&'a str>,
    /// All adapters of this machine that can be used, measured or not.
    pub(in crate::commands) known: &'a [Adapter],
    pub(in crate::commands) tolerance: Option<f64>,
    pub(in crate::commands) steps: Option<QuantizationSteps>,
    /// Whether all combinations are measured once more, to check the choice.
    pub(in crate::commands) exhaustive: bool,
    pub(in crate::commands) inputs: &'a InputArguments,
    pub(in crate::commands) limits: &'a LimitArguments,
}

/// What was measured of one configuration. Times are in milliseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::commands) struct Measured {
    pub(in crate::commands) name: String,
    #[serde(flatten)]
    pub(in crate::commands) configuration: Configuration,
    /// The time by which configurations are compared; `None` if it failed.
    pub(in crate::commands) run_ms: Option<f64>,
    /// All measured runs, inputs and outputs included.
    pub(in crate::commands) e2e_ms: Option<Statistics>,
    /// Opening the device, as the first of its configurations did.
    pub(in crate::commands) device_ms: f64,
    /// Preparing the model.
    pub(in crate::commands) init_ms: f64,
    pub(in crate::commands) first_ms: f64,
    /// Whether the model was prepared in this configuration once before that was timed.
    pub(in crate::commands) is_warm: bool,
    pub(in crate::commands) arena_bytes: u64,
    pub(in crate::commands) weights_bytes: u64,
    pub(in crate::commands) nodes: usize,
    pub(in crate::commands) nodes_delegated: usize,
    pub(in crate::commands) partitions: usize,
    /// Differences from the default configuration of the CPU; `None` for that one, and where there was no comparison.
    pub(in crate::commands) accuracy: Option<Summary>,
    /// Why this configuration is not accurate enough; `None` if it is.
    pub(in crate::commands) refused: Option<String>,
    /// Why it failed while it ran; `None` if it did not.
    pub(in crate::commands) failed: Option<String>,
}

/// A configuration that was not measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::commands) struct Skipped {
    pub(in crate::commands) name: String,
    pub(in crate::commands) reason: String,
}

/// What a measurement of all combinations says of the choice.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::commands) struct Exhaustive {
    /// The fastest combination that can be advised.
    pub(in crate::commands) best: String,
    pub(in crate::commands) best_ms: f64,
    pub(in crate::commands) choice_ms: f64,
    /// Number of combinations that were timed.
    pub(in crate::commands) timed: usize,
    /// Number of combinations that were not, because they are not accurate enough.
    pub(in crate::commands) refused: usize,
    /// Combinations that could not be measured.
    pub(in crate::commands) unmeasured: Vec<Skipped>,
    /// Whether all could be measured, and the choice is within 5 % or 10 µs of the best.
    pub(in crate::commands) agrees: bool,
}

/// All configurations of a model, with the one that is advised.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::commands) struct Study {
    pub(in crate::commands) model: String,
    pub(in crate::commands) kind: String,
    /// Number of operators with dynamic range quantization, for which a GPU is more precise than the CPU.
    pub(in crate::commands) hybrid_operators: usize,
    pub(in crate::commands) budget_s: f64,
    /// Seconds that it took, without the exhaustive measurement.
    pub(in crate::commands) took_s: f64,
    pub(in crate::commands) compared_inputs: usize,
    pub(in crate::commands) configurations: Vec<Measured>,
    /// Index of the CPU with its default number of threads, with which the others are compared.
    pub(in crate::commands) default: usize,
    /// Index of the configuration that is advised.
    pub(in crate::commands) choice: usize,
    /// Configurations that there was no time for, that the GPU takes no operator of, and that failed.
    pub(in crate::commands) skipped: Vec<Skipped>,
    /// Why there is no GPU, if GPUs were asked for.
    pub(in crate::commands) no_gpu: Option<String>,
    /// Whether the advice has to name the adapter, because others might be taken.
    pub(in crate::commands) names_adapter: bool,
    pub(in crate::commands) exhaustive: Option<Exhaustive>,
}

impl Measured {
    /// Returns the milliseconds of a run if this configuration can be advised.
    pub(super) fn advisable_ms(&self) -> Option<f64> {
        self.run_ms.filter(|_| self.refused.is_none() && self.failed.is_none())
    }

    /// Whether the number of CPU threads may matter on a GPU: for operators that are left to the CPU, and for the copies of
    /// inputs and outputs of this many bytes.
    pub(super) fn needs_threads(&self, copied: usize) -> bool {
        /// Copies of more bytes use several threads.
        const THREADED: usize = 1 << 20;
        self.nodes_delegated < self.nodes || copied > THREADED
    }
}

/// Returns the index of the fastest configuration that can be advised, or of equally fast ones of the most modest.
pub(super) fn choose(all: &[&Measured]) -> Option<usize> {
    let time = |index: &usize| all[*index].advisable_ms();
    let best = (0..all.len()).filter_map(|index| time(&index)).fold(f64::INFINITY, f64::min);
    let most = (best * (1.0 + EQUAL.0)).max(best + EQUAL.1);
    let equal = (0..all.len()).filter(|index| time(index).is_some_and(|time| time <= most));
    equal.min_by_key(|index| all[*index].configuration.modesty())
}

#[cfg(test)]
pub(in crate::commands) mod tests {
    use super::*;
    use crate::arguments::{PrecisionName, QuantizedName};
    use crate::commands::advise::configurations::GpuConfiguration;

    /// Returns a configuration of the CPU that takes this long.
    pub(in crate::commands) fn on_cpu(threads: u16, run_ms: Option<f64>) -> Measured {
        let configuration = Configuration { gpu: None, threads };
        Measured {
            name: configuration.label(),
            configuration,
            run_ms,
            e2e_ms: None,
            device_ms: 0.0,
            init_ms: 1.0,
            first_ms: 2.0,
            is_warm: true,
            arena_bytes: 4096,
            weights_bytes: 0,
            nodes: 3,
            nodes_delegated: 0,
            partitions: 0,
            accuracy: None,
            refused: None,
            failed: None,
        }
    }

    pub(in crate::commands) fn on_gpu(precision: PrecisionName, run_ms: Option<f64>) -> Measured {
        let gpu = GpuConfiguration {
            adapter: "Adapter".to_owned(),
            backend: "vulkan".to_owned(),
            is_software: false,
            precision,
            quantized: QuantizedName::Auto,
        };
        let configuration = Configuration { gpu: Some(gpu), threads: 4 };
        Measured { name: configuration.label(), configuration, nodes_delegated: 3, partitions: 1, ..on_cpu(4, run_ms) }
    }

    pub(in crate::commands) fn study(configurations: Vec<Measured>) -> Study {
        let choice = choose(&configurations.iter().collect::<Vec<_>>()).unwrap();
        Study {
            model: "m.tflite".to_owned(),
            kind: "float".to_owned(),
            hybrid_operators: 0,
            budget_s: 20.0,
            took_s: 5.0,
            compared_inputs: 10,
            configurations,
            default: 0,
            choice,
            skipped: Vec::new(),
            no_gpu: None,
            names_adapter: false,
            exhaustive: None,
        }
    }

    #[test]
    fn of_equally_fast_ones_the_modest_is_chosen() {
        let gpu = |run_ms| on_gpu(PrecisionName::F32, run_ms);
        let choice = |all: &[Measured]| choose(&all.iter().collect::<Vec<_>>());
        assert_eq!(choice(&[on_cpu(4, Some(10.0)), on_cpu(1, Some(10.1)), gpu(Some(9.95))]), Some(1));
        assert_eq!(choice(&[on_cpu(4, Some(10.0)), gpu(Some(9.0))]), Some(1));
        let refused = Measured { refused: Some("far".to_owned()), ..gpu(Some(1.0)) };
        let failed = Measured { failed: Some("lost".to_owned()), ..gpu(Some(1.0)) };
        assert_eq!(choice(&[on_cpu(4, Some(10.0)), refused, failed, gpu(None)]), Some(0));
        assert_eq!(choice(&[gpu(None)]), None);
    }
}

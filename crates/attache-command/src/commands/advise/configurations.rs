//! The configurations in which a model can run on this machine, of which one is advised: where they come from, and what
//! each is called.

use std::collections::BTreeSet;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::arguments::{BackendName, DelegateName, DeviceArguments, LimitArguments, PrecisionName, QuantizedName};
use crate::console::counted;
use crate::device::{Adapter, DEFAULT_THREADS};
use crate::inspect::kind::{Kind, Kinds};

/// Where and how a model runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::commands) struct Configuration {
    /// The GPU; `None` for the CPU alone.
    pub(in crate::commands) gpu: Option<GpuConfiguration>,
    /// Threads of the CPU.
    pub(in crate::commands) threads: u16,
}

/// A GPU and how it computes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::commands) struct GpuConfiguration {
    pub(in crate::commands) adapter: String,
    pub(in crate::commands) backend: String,
    pub(in crate::commands) is_software: bool,
    pub(in crate::commands) precision: PrecisionName,
    /// How quantized tensors are computed; `auto` for models without them.
    pub(in crate::commands) quantized: QuantizedName,
}

/// How a GPU may compute models of a kind, the most exact first.
type Forms = &'static [(PrecisionName, QuantizedName)];

const FLOATS: Forms = &[
    (PrecisionName::F32, QuantizedName::Auto),
    (PrecisionName::F32F16, QuantizedName::Auto),
    (PrecisionName::F16, QuantizedName::Auto),
];
const INTEGERS: Forms = &[
    (PrecisionName::F32, QuantizedName::Exact),
    (PrecisionName::F32, QuantizedName::View),
    (PrecisionName::F32F16, QuantizedName::View),
    (PrecisionName::F16, QuantizedName::View),
];
/// Models of integers with operators on floats, for which the precision matters with `exact` too.
const MIXED: Forms = &[
    (PrecisionName::F32, QuantizedName::Exact),
    (PrecisionName::F32F16, QuantizedName::Exact),
    (PrecisionName::F16, QuantizedName::Exact),
    (PrecisionName::F32, QuantizedName::View),
    (PrecisionName::F32F16, QuantizedName::View),
    (PrecisionName::F16, QuantizedName::View),
];

/// For each kind of model, the delegates that run it, as TensorFlow Lite's overview of delegates has it for its own: here
/// CPU and GPU run all kinds, and what differs is how the GPU computes.
static TABLE: &[(Kind, Forms)] = &[
    (Kind::Float, FLOATS),
    (Kind::Float16, FLOATS),
    (Kind::WeightOnly, FLOATS),
    (Kind::DynamicRange, FLOATS),
    (Kind::UInt8, INTEGERS),
    (Kind::Int8, INTEGERS),
    (Kind::Int16, INTEGERS),
];

/// Returns how a GPU may compute a model with operators of these kinds.
fn forms(kinds: &Kinds) -> Forms {
    let has = |forms: Forms| TABLE.iter().any(|(kind, own)| kinds.has(*kind) && *own == forms);
    match (has(INTEGERS), has(FLOATS)) {
        (true, true) => MIXED,
        (true, false) => INTEGERS,
        (false, _) => FLOATS,
    }
}

/// Returns the numbers of CPU threads that are measured: 1, 2, 4, 8 and all, as far as there are as many.
pub(in crate::commands) fn thread_counts(available: usize) -> Vec<u16> {
    let counts: BTreeSet<usize> = [1, 2, 4, 8, available, usual_threads(available)].into();
    counts.into_iter().filter(|count| *count <= available).filter_map(|count| u16::try_from(count).ok()).collect()
}

/// Returns the number of CPU threads without `--threads`.
fn usual_threads(available: usize) -> usize {
    available.clamp(1, DEFAULT_THREADS)
}

/// Returns the configuration that others are compared with: the CPU with the usual number of threads.
pub(in crate::commands) fn usual(available: usize) -> Configuration {
    Configuration { gpu: None, threads: usual_threads(available) as u16 }
}

/// Returns the configurations of the CPU, the usual one first.
pub(in crate::commands) fn on_cpu(available: usize) -> Vec<Configuration> {
    let usual = usual(available);
    let others = thread_counts(available).into_iter().map(|threads| Configuration { gpu: None, threads });
    let others: Vec<Configuration> = others.filter(|configuration| *configuration != usual).collect();
    [vec![usual], others].concat()
}

/// Returns the configurations of these adapters, with the usual number of CPU threads.
pub(in crate::commands) fn on_gpus(kinds: &Kinds, adapters: &[Adapter], available: usize) -> Vec<Configuration> {
    let configuration = |adapter: &Adapter, (precision, quantized): &(PrecisionName, QuantizedName)| {
        let Adapter { name, backend, is_software, .. } = adapter.clone();
        let gpu =
            GpuConfiguration { adapter: name, backend, is_software, precision: *precision, quantized: *quantized };
        Configuration { gpu: Some(gpu), threads: usual(available).threads }
    };
    adapters.iter().flat_map(|adapter| forms(kinds).iter().map(move |form| configuration(adapter, form))).collect()
}

/// Returns the adapters that can be used, each once although several graphics interfaces may lead to it.
pub(in crate::commands) fn usable(adapters: Vec<Adapter>) -> Vec<Adapter> {
    let mut kept: Vec<Adapter> = Vec::new();
    for adapter in adapters.into_iter().filter(|adapter| adapter.unusable.is_none()) {
        let own_name = bare(&adapter.name).to_owned();
        match kept.iter().position(|other| bare(&other.name) == own_name) {
            Some(place) if kept[place].backend == "gl" => kept[place] = adapter,
            Some(_) => {}
            None => kept.push(adapter),
        }
    }
    kept
}

/// Returns the name of an adapter without what OpenGL's drivers put behind it.
fn bare(name: &str) -> &str {
    let name = name.split('/').next().unwrap_or(name);
    name.split(" (").next().unwrap_or(name).trim()
}

impl Configuration {
    /// Returns the arguments that open the device of this configuration.
    pub(in crate::commands) fn arguments(&self, limits: &LimitArguments) -> DeviceArguments {
        let common = DeviceArguments {
            delegate: Some(DelegateName::Cpu),
            threads: Some(self.threads),
            limits: limits.clone(),
            ..DeviceArguments::default()
        };
        let Some(gpu) = &self.gpu else { return common };
        DeviceArguments {
            delegate: Some(DelegateName::Gpu),
            adapter: Some(gpu.adapter.clone()),
            backend: gpu.backend_name(),
            precision: gpu.precision,
            quantized: gpu.quantized,
            ..common
        }
    }

    /// Returns what people call this configuration.
    pub(in crate::commands) fn label(&self) -> String {
        let threads = counted(usize::from(self.threads), "thread", "threads");
        match &self.gpu {
            None => format!("CPU, {threads}"),
            Some(gpu) => format!("{}, {}; CPU {threads}", gpu.adapter, gpu.form()),
        }
    }

    /// Whether another one is the same but for the number of threads.
    pub(in crate::commands) fn is_but_for_threads(&self, other: &Self) -> bool {
        self.gpu == other.gpu
    }

    /// Whether another one uses the same GPU in the same form, at this or another precision.
    pub(in crate::commands) fn is_but_for_precision(&self, other: &Self) -> bool {
        let form = |configuration: &Self| {
            let precision = PrecisionName::F32;
            configuration.gpu.clone().map(|gpu| GpuConfiguration { precision, ..gpu })
        };
        self.gpu.is_some() && form(self) == form(other)
    }

    /// Returns an order in which of equally fast configurations the earlier is advised: the CPU, the more exact, the fewer threads.
    pub(in crate::commands) fn modesty(&self) -> impl Ord + use<> {
        let form = |gpu: &GpuConfiguration| {
            let all = || MIXED.iter().chain(FLOATS);
            (gpu.is_software, all().position(|form| *form == (gpu.precision, gpu.quantized)))
        };
        (self.gpu.as_ref().map(form), self.threads)
    }
}

impl GpuConfiguration {
    /// Whether another adapter might be taken if this one were not named: hardware is taken before software.
    pub(in crate::commands) fn has_rivals(&self, known: &[Adapter]) -> bool {
        known.iter().any(|other| other.name != self.adapter && (self.is_software || !other.is_software))
    }

    /// Returns precision and form of quantized tensors, as on the command line.
    pub(in crate::commands) fn form(&self) -> String {
        match self.quantized {
            QuantizedName::Auto => self.precision.word().to_owned(),
            QuantizedName::Exact if self.precision == PrecisionName::F32 => self.quantized.word().to_owned(),
            QuantizedName::Exact | QuantizedName::View => {
                format!("{} {}", self.quantized.word(), self.precision.word())
            }
        }
    }

    fn backend_name(&self) -> Option<BackendName> {
        BackendName::from_str(&self.backend, true).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapter(name: &str, backend: &str) -> Adapter {
        Adapter {
            name: name.to_owned(),
            backend: backend.to_owned(),
            driver: String::new(),
            device_type: String::new(),
            is_software: false,
            features: Vec::new(),
            limits: serde_json::Map::new(),
            unusable: None,
        }
    }

    #[test]
    fn threads_are_as_many_as_there_are() {
        assert_eq!(thread_counts(1), [1]);
        assert_eq!(thread_counts(2), [1, 2]);
        assert_eq!(thread_counts(3), [1, 2, 3]);
        assert_eq!(thread_counts(16), [1, 2, 4, 8, 16]);
        let first: Vec<u16> = on_cpu(16).iter().map(|configuration| configuration.threads).collect();
        assert_eq!(first, [4, 1, 2, 8, 16]);
    }

    #[test]
    fn a_gpu_is_tried_once_through_vulkan() {
        let unusable = Adapter { unusable: Some("old".to_owned()), ..adapter("C", "vulkan") };
        let found = usable(vec![adapter("A/PCIe/SSE2", "gl"), adapter("A", "vulkan"), adapter("B", "gl"), unusable]);
        let found: Vec<(&str, &str)> = found.iter().map(|it| (it.name.as_str(), it.backend.as_str())).collect();
        assert_eq!(found, [("A", "vulkan"), ("B", "gl")]);
    }

    #[test]
    fn an_adapter_is_named_where_another_might_be_taken() {
        let software = Adapter { is_software: true, ..adapter("llvmpipe", "vulkan") };
        let configuration = |adapter: &Adapter| {
            let found =
                on_gpus(&Kinds::of(&attache::zoo::model("lstm_128").unwrap()), std::slice::from_ref(adapter), 4);
            found[0].gpu.clone().unwrap()
        };
        let (fast, other) = (adapter("A", "vulkan"), adapter("B", "vulkan"));
        let has_rivals = |own: &Adapter, known: &[&Adapter]| {
            configuration(own).has_rivals(&known.iter().map(|adapter| (*adapter).clone()).collect::<Vec<_>>())
        };
        assert!(!has_rivals(&fast, &[&fast]) && !has_rivals(&fast, &[&fast, &software]));
        assert!(has_rivals(&fast, &[&fast, &other]) && has_rivals(&software, &[&fast, &software]));
        assert!(!has_rivals(&software, &[&software]));
    }

    #[test]
    fn of_equals_the_modest_comes_first() {
        let gpu = |precision, quantized| Configuration {
            gpu: Some(GpuConfiguration {
                adapter: "A".to_owned(),
                backend: "vulkan".to_owned(),
                is_software: false,
                precision,
                quantized,
            }),
            threads: 4,
        };
        let cpu = |threads| Configuration { gpu: None, threads };
        let ordered = [
            cpu(1),
            cpu(8),
            gpu(PrecisionName::F32, QuantizedName::Exact),
            gpu(PrecisionName::F32, QuantizedName::View),
            gpu(PrecisionName::F16, QuantizedName::View),
        ];
        assert!(ordered.windows(2).all(|pair| pair[0].modesty() < pair[1].modesty()));
        assert_eq!(gpu(PrecisionName::F16, QuantizedName::Exact).label(), "A, exact f16; CPU 4 threads");
        assert_eq!(gpu(PrecisionName::F32, QuantizedName::Exact).label(), "A, exact; CPU 4 threads");
        let [f32, f16] = [PrecisionName::F32, PrecisionName::F16].map(|precision| gpu(precision, QuantizedName::View));
        assert!(
            f16.is_but_for_precision(&f32) && !f16.is_but_for_threads(&f32) && !cpu(1).is_but_for_precision(&cpu(1))
        );
        assert!(!f16.is_but_for_precision(&gpu(PrecisionName::F32, QuantizedName::Exact)));
        assert!(cpu(1).is_but_for_threads(&cpu(8)));
        assert_eq!(gpu(PrecisionName::F32F16, QuantizedName::View).label(), "A, view f32_f16; CPU 4 threads");
        let arguments = gpu(PrecisionName::F16, QuantizedName::View).arguments(&LimitArguments::default());
        assert_eq!((arguments.precision, arguments.backend), (PrecisionName::F16, Some(BackendName::Vulkan)));
        assert_eq!(cpu(1).label(), "CPU, 1 thread");
    }
}

//! What hosts and reports need to know about a plan besides what a device runs, as plain data ([`PlanSummary`]).

use std::collections::BTreeSet;

use attache_gpu_ir::{Scalar, ValueId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{DispatchCost, Plan, PlanReport};
use crate::kernel::StorageFormat;
use crate::variants::variants;

/// What hosts and reports need to know about a plan: the formats of its inputs and outputs, and what its dispatches
/// compute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanSummary {
    /// The format of each input.
    pub inputs: Vec<ValueFormat>,
    /// The format of each output.
    pub outputs: Vec<ValueFormat>,
    /// What each dispatch computes, in the order of [`Plan::dispatches`](super::Plan::dispatches).
    pub dispatches: Vec<DispatchSummary>,
    /// For each kernel that implements steps of several origins ([`attache_gpu_ir::Step::origin`]), each of these
    /// origins paired with the other origins of the kernel.
    pub merged: Vec<(usize, Vec<usize>)>,
    /// The largest number of bytes of intermediate values that are live at one kernel.
    pub arena_lower_bound: usize,
    alternatives: BTreeSet<VariantName>,
}

/// The type of a value, and its format on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueFormat {
    /// The type of the elements in the program.
    pub scalar: Scalar,
    /// How the elements are stored on the device.
    pub storage: StorageFormat,
    /// Number of elements.
    pub elements: usize,
}

/// What a dispatch computes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DispatchSummary {
    variant: VariantName,
    /// The origins of the steps that its kernel implements ([`attache_gpu_ir::Step::origin`]).
    pub origins: Vec<usize>,
    /// Whether it multiplies cooperative matrices.
    pub on_matrices: bool,
    /// Its arithmetic operations and memory traffic.
    pub cost: DispatchCost,
}

impl DispatchSummary {
    /// Returns the name of the variant that generated the shader.
    #[must_use]
    pub fn variant(&self) -> &'static str {
        self.variant.0
    }
}

impl PlanSummary {
    /// Summarizes a planned program.
    #[must_use]
    pub fn new(report: &PlanReport) -> Self {
        let format = |id: &ValueId| {
            let value = report.program.value(*id);
            let elements = value.shape.elements();
            ValueFormat { scalar: value.scalar, storage: report.storages.of(*id), elements }
        };
        let costs = DispatchCost::of(report);
        let dispatches = report.dispatches.iter().zip(costs).map(|(dispatch, cost)| DispatchSummary {
            variant: VariantName(dispatch.shader.variant),
            origins: report.kernels[dispatch.kernel].origins.clone(),
            on_matrices: dispatch.shader.multiplies_matrices(),
            cost,
        });
        Self {
            inputs: report.program.inputs.iter().map(format).collect(),
            outputs: report.program.outputs.iter().map(format).collect(),
            dispatches: dispatches.collect(),
            merged: merged(report),
            arena_lower_bound: report.layout.lower_bound,
            alternatives: report.alternatives.iter().copied().map(VariantName).collect(),
        }
    }

    /// Whether the summary may be that of a plan: it has as many dispatches, and inputs and outputs of the same sizes.
    pub(crate) fn fits(&self, plan: &Plan) -> bool {
        let bytes = |format: &ValueFormat| format.elements.checked_mul(format.storage.bytes());
        let inputs = self.inputs.iter().map(bytes).eq(plan.inputs.iter().map(|bytes| Some(*bytes)));
        let outputs = self.outputs.iter().map(bytes).eq(plan.outputs.iter().map(|range| Some(range.size)));
        inputs && outputs && self.dispatches.len() == plan.dispatches.len()
    }

    /// Returns the names of the variants that generated the dispatches.
    #[must_use]
    pub fn variants(&self) -> BTreeSet<&'static str> {
        self.dispatches.iter().map(DispatchSummary::variant).collect()
    }

    /// Returns the names of the variants that apply to some kernel for which another variant was chosen.
    #[must_use]
    pub fn alternatives(&self) -> BTreeSet<&'static str> {
        self.alternatives.iter().map(|name| name.0).collect()
    }
}

fn merged(report: &PlanReport) -> Vec<(usize, Vec<usize>)> {
    let mut merged = Vec::new();
    for kernel in report.kernels.iter().filter(|kernel| kernel.origins.len() > 1) {
        for origin in &kernel.origins {
            let others = kernel.origins.iter().copied().filter(|other| other != origin).collect();
            merged.push((*origin, others));
        }
    }
    merged
}

/// The name of a variant of the table. Other names are not deserialized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct VariantName(&'static str);

impl Serialize for VariantName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for VariantName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&str>::deserialize(deserializer)?;
        let known = variants().map(|(name, _)| name).find(|name| *name == text);
        known.map(VariantName).ok_or_else(|| serde::de::Error::custom(format!("there is no variant {text}")))
    }
}

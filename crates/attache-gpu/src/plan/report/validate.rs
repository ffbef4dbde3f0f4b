//! Checks of the invariants of a planned program.

use attache_gpu_ir::ValueId;

use super::PlanReport;
use crate::kernel::{GpuError, broken, validate};
use crate::layout::Location;
use crate::wgsl::Binding;

/// Checks the kernels again, since planning may have added some. Checks that every value that a dispatch
/// binds, and every output, has memory.
pub(super) fn validate_report(plan: &PlanReport) -> Result<(), GpuError> {
    validate(&plan.program, &plan.kernels, "planning")?;
    let is_unallocated = |id: ValueId| plan.layout.locations[id.index()] == Location::Unallocated;
    for (index, dispatch) in plan.dispatches.iter().enumerate() {
        for binding in &dispatch.shader.bindings {
            if let Binding::Read(id) | Binding::Write(id, _) = binding
                && is_unallocated(*id)
            {
                let variant = dispatch.shader.variant;
                return Err(broken(format!("dispatch {index} ({variant}) binds %{}, which has no memory", id.0)));
            }
        }
    }
    match plan.program.outputs.iter().find(|id| is_unallocated(**id)) {
        Some(id) => Err(broken(format!("the output %{} has no memory", id.0))),
        None => Ok(()),
    }
}

//! What must hold of a planned program.

use attache_gpu_ir::ValueId;

use super::PlanReport;
use crate::kernel::{GpuError, broken, validate};
use crate::layout::Place;
use crate::wgsl::Binding;

/// Checks the kernels once more, with those that its making added; that whatever its dispatches bind lies somewhere;
/// and that each output does.
pub(super) fn validate_report(plan: &PlanReport) -> Result<(), GpuError> {
    validate(&plan.program, &plan.kernels, "planning")?;
    let is_nowhere = |id: ValueId| plan.layout.places[id.index()] == Place::Nowhere;
    for (index, dispatch) in plan.dispatches.iter().enumerate() {
        for binding in &dispatch.shader.bindings {
            if let Binding::Read(id) | Binding::Write(id, _) = binding
                && is_nowhere(*id)
            {
                let variant = dispatch.shader.variant;
                return Err(broken(format!("dispatch {index} ({variant}) binds %{}, which lies nowhere", id.0)));
            }
        }
    }
    match plan.program.outputs.iter().find(|id| is_nowhere(**id)) {
        Some(id) => Err(broken(format!("the output %{} lies nowhere", id.0))),
        None => Ok(()),
    }
}

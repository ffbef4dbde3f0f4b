//! Which kernels can update an input in the memory that the output shares with it.

use attache_gpu_ir::{Primitive, Program};

use super::{PlanReport, PlannedInPlace};
use crate::kernel::{DeviceLimits, Kernel, roots};
use crate::variants::write_in_place;
use crate::wgsl::Binding;

/// Returns the other forms of dispatches for runs in which an input and the output that it is updated to share memory.
pub(super) fn in_place(report: &PlanReport, limits: &DeviceLimits) -> Vec<PlannedInPlace> {
    let form = |(index, kernel): (usize, &Kernel)| {
        let (input, output) = updated(&report.program, &report.kernels, kernel)?;
        let mut own = report.dispatches.iter().enumerate().filter(|(_, dispatch)| dispatch.kernel == index);
        let (Some((dispatch, _)), None) = (own.next(), own.next()) else { return None };
        let shader = write_in_place(&report.program, kernel, &report.storages, limits);
        let format = report.storages.of(kernel.outputs[0]);
        let is_alike = report.storages.of(kernel.inputs[0]) == format;
        let is_plain = |binding: &Binding| match binding {
            Binding::Read(_) => true,
            Binding::Write(_, storage) => *storage == format,
            Binding::Packed(_) | Binding::Words(_) => false,
        };
        let is_usable = is_alike && shader.bindings.iter().all(is_plain);
        is_usable.then_some(PlannedInPlace { dispatch, input, output, shader })
    };
    report.kernels.iter().enumerate().filter_map(form).collect()
}

/// Returns the input and the output of the program of which the second is the first with some elements replaced, if this
/// kernel replaces them and nothing else reads the input.
fn updated(program: &Program, kernels: &[Kernel], kernel: &Kernel) -> Option<(usize, usize)> {
    let ([operand, block, _], [made]) = (kernel.inputs.as_slice(), kernel.outputs.as_slice()) else { return None };
    let is_update = kernel.primitive == Primitive::Update && kernel.epilogue.is_identity();
    if !is_update || program.shape(*block).elements() == 0 {
        return None;
    }
    let roots = roots(program);
    let root = roots[operand.index()];
    let input = program.inputs.iter().position(|id| *id == root)?;
    let reads = kernels.iter().flat_map(Kernel::reads).filter(|id| roots[id.index()] == root).count();
    let is_kept = program.outputs.iter().any(|id| roots[id.index()] == root);
    let mut outputs = program.outputs.iter().enumerate().filter(|(_, id)| roots[id.index()] == *made);
    let (Some((output, _)), None) = (outputs.next(), outputs.next()) else { return None };
    // Only then the operand is loaded, and from the input itself.
    let is_loaded = kernel.source(*operand) == *operand && kernel.computed(*operand).is_none();
    (is_loaded && reads == 1 && !is_kept).then_some((input, output))
}

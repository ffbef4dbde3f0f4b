//! Which kernels can update an input in the memory that the output shares with it.

use std::collections::HashMap;

use attache_gpu_ir::{Primitive, Program, ValueId};

use super::{PlanReport, PlannedInPlace};
use crate::kernel::{DeviceLimits, Kernel, roots};
use crate::variants::write_in_place;
use crate::wgsl::Binding;

/// Returns the other forms of dispatches for runs in which an input and the output that it is updated to share memory.
pub(super) fn in_place(report: &PlanReport, limits: &DeviceLimits) -> Vec<PlannedInPlace> {
    let updates = Updates::new(&report.program, &report.kernels);
    let mut dispatches = vec![Vec::new(); report.kernels.len()];
    report.dispatches.iter().enumerate().for_each(|(index, dispatch)| dispatches[dispatch.kernel].push(index));
    let form = |(index, kernel): (usize, &Kernel)| {
        let (input, output) = updates.of(kernel)?;
        let [dispatch] = dispatches[index][..] else { return None };
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

/// What decides whether a kernel updates an input.
struct Updates<'a> {
    program: &'a Program,
    /// For each value, the value whose memory it uses, and for each of these the number of times that kernels read it.
    roots: Vec<ValueId>,
    reads: Vec<usize>,
    /// For each root, its inputs and its outputs of the program.
    inputs: HashMap<ValueId, usize>,
    outputs: HashMap<ValueId, Vec<usize>>,
}

impl<'a> Updates<'a> {
    fn new(program: &'a Program, kernels: &[Kernel]) -> Self {
        let (roots, mut reads) = (roots(program), vec![0; program.values.len()]);
        kernels.iter().flat_map(Kernel::reads).for_each(|id| reads[roots[id.index()].index()] += 1);
        let inputs = program.inputs.iter().enumerate().map(|(index, id)| (*id, index)).collect();
        let mut outputs: HashMap<ValueId, Vec<usize>> = HashMap::new();
        for (index, id) in program.outputs.iter().enumerate() {
            outputs.entry(roots[id.index()]).or_default().push(index);
        }
        Self { program, roots, reads, inputs, outputs }
    }

    /// Returns the input and the output of the program of which the second is the first with some elements replaced, if this
    /// kernel replaces them and nothing else reads the input.
    fn of(&self, kernel: &Kernel) -> Option<(usize, usize)> {
        let ([operand, block, _], [made]) = (kernel.inputs.as_slice(), kernel.outputs.as_slice()) else { return None };
        let is_update = kernel.primitive == Primitive::Update && kernel.epilogue.is_identity();
        if !is_update || self.program.shape(*block).elements() == 0 {
            return None;
        }
        let root = self.roots[operand.index()];
        let input = *self.inputs.get(&root)?;
        let [output] = self.outputs.get(made)?[..] else { return None };
        // Only then the operand is loaded, and from the input itself.
        let is_loaded = kernel.source(*operand) == *operand && kernel.computed(*operand).is_none();
        let is_read_once = self.reads[root.index()] == 1 && !self.outputs.contains_key(&root);
        (is_loaded && is_read_once).then_some((input, output))
    }
}

//! Which kernels can update an input in the memory that the output shares with it.

use std::collections::HashMap;

use attache_gpu_ir::{Primitive, Program, ValueId};

use super::{PlanReport, PlannedInPlace};
use crate::kernel::{DeviceLimits, Kernel, roots};
use crate::variants::{write_in_place, write_updating};
use crate::wgsl::Binding;

/// Returns the kernels that update an input, each with the product that alone reads what they make, as its right matrix.
pub(super) fn readers(program: &Program, kernels: &[Kernel]) -> Vec<[usize; 2]> {
    let updates = Updates::new(program, kernels);
    let mut made: HashMap<ValueId, usize> = HashMap::new();
    let mut readers = Vec::new();
    for (index, kernel) in kernels.iter().enumerate() {
        if updates.of(kernel).is_some_and(|_| updates.reads[kernel.outputs[0].index()] == 1) {
            made.insert(kernel.outputs[0], index);
        }
        if matches!(kernel.primitive, Primitive::MatMul { .. }) {
            let right = updates.roots[kernel.source(kernel.inputs[1]).index()];
            readers.extend(made.get(&right).map(|update| [*update, index]));
        }
    }
    readers
}

/// Returns the other forms of dispatches for runs in which an input and the output that it is updated to share memory.
/// `readers` are those of [`readers`] for whose forms the layout has room.
pub(super) fn in_place(report: &PlanReport, readers: &[[usize; 2]], limits: &DeviceLimits) -> Vec<PlannedInPlace> {
    let updates = Updates::new(&report.program, &report.kernels);
    let mut dispatches = vec![Vec::new(); report.kernels.len()];
    report.dispatches.iter().enumerate().for_each(|(index, dispatch)| dispatches[dispatch.kernel].push(index));
    let form = |(index, kernel): (usize, &Kernel)| {
        let (input, output) = updates.of(kernel)?;
        let [dispatch] = dispatches[index][..] else { return None };
        let PlanReport { program, storages, .. } = report;
        let shader = write_in_place(program, kernel, storages, limits);
        let format = report.storages.of(kernel.outputs[0]);
        let is_alike = report.storages.of(kernel.inputs[0]) == format;
        let is_plain = |binding: &Binding| match binding {
            Binding::Read(_) => true,
            Binding::Write(_, storage) => *storage == format,
            Binding::Packed(_) | Binding::Words(_) => false,
        };
        let is_usable = is_alike && shader.bindings.iter().all(is_plain);
        let reader = readers.iter().find(|[update, _]| *update == index).and_then(|[_, reader]| {
            let [dispatch] = dispatches[*reader][..] else { return None };
            let kernels = [kernel, &report.kernels[*reader]];
            let shader = write_updating(program, (kernels, &report.dispatches[dispatch].shader), storages, limits)?;
            Some((dispatch, shader))
        });
        is_usable.then_some(PlannedInPlace { dispatch, input, output, shader, reader })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Precision;
    use crate::plan::InPlace;
    use attache_gpu_ir::{ReduceOp, Scalar};

    /// Returns the report of a program that updates a cache of two matrices and multiplies by it, or by what `read` makes of
    /// it, and the number of forms in which the product updates.
    fn readers(apart: bool, read: impl FnOnce(&mut Program, ValueId) -> ValueId) -> (PlanReport, usize) {
        let mut program = Program::default();
        let [cache, block] = [64, 1].map(|rows| program.input(Scalar::F32, [2, rows, 32].into()));
        let start = program.input(Scalar::I32, [3].into());
        let query = program.input(Scalar::F32, [2, 1, 32].into());
        let next = program.step(Primitive::Update, &[cache, block, start], 0).unwrap()[0];
        let right = read(&mut program, next);
        let product = Primitive::MatMul { transposed: [false, true], order: Vec::new() };
        let scores = program.step(product, &[query, right], 0).unwrap()[0];
        program.outputs = vec![next, scores];
        let limits = DeviceLimits { max_bindings: 8, ..DeviceLimits::default() };
        let report = PlanReport::new(program, Precision::F32, &limits, apart).unwrap();
        let forms = report.in_place.iter().filter(|form| form.reader.is_some()).count();
        (report, forms)
    }

    #[test]
    fn products_update_what_they_alone_read_as_a_whole() {
        let (report, forms) = readers(false, |_, next| next);
        assert_eq!(forms, 1);
        let plan = report.plan().unwrap();
        let InPlace { dispatch, reader, .. } = &plan.in_place[0];
        let (reader, form) = reader.as_ref().unwrap();
        assert_eq!([*dispatch, *reader], [0, 1]);
        assert!(form.needs_barrier && plan.all_dispatches().count() == 4);
        let sum = |program: &mut Program, next| {
            let sum = Primitive::Reduce { reduction: ReduceOp::Sum, axes: vec![1] };
            let made = program.step(sum, &[next], 0).unwrap()[0];
            program.outputs.push(made);
            next
        };
        assert_eq!(readers(true, |_, next| next).1, 0, "another interface");
        assert_eq!(readers(false, sum).1, 0, "two readers");
    }
}

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
    let readers: HashMap<usize, usize> = readers.iter().map(|[update, reader]| (*update, *reader)).collect();
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
        let of_reader = readers.get(&index).and_then(|reader| {
            let [dispatch] = dispatches[*reader][..] else { return None };
            let kernels = [kernel, &report.kernels[*reader]];
            let shader = write_updating(program, (kernels, &report.dispatches[dispatch].shader), storages, limits)?;
            Some((dispatch, shader))
        });
        let (reader, shader) = of_reader.map_or((None, shader), |(reader, shader)| (Some(reader), shader));
        is_usable.then_some(PlannedInPlace { dispatch, input, output, reader, shader })
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
    use crate::plan::{BoundRange, Dispatch, InPlace};
    use attache_gpu_ir::{Index, IndexMap, ReduceOp, Scalar};

    /// A program that updates a cache of two matrices and multiplies by it.
    struct Attention {
        program: Program,
        cache: ValueId,
        next: ValueId,
        outputs: Vec<ValueId>,
    }

    impl Attention {
        /// The block is a sum over rows, so that it is in memory that is used again.
        fn new() -> Self {
            let mut program = Program::default();
            let [cache, wide] = [64, 8].map(|rows| program.input(Scalar::F32, [2, rows, 32].into()));
            let start = program.input(Scalar::I32, [3].into());
            let block = program.step(sum(), &[wide], 0).unwrap()[0];
            let block = program.step(Primitive::Reshape([2, 1, 32].into()), &[block], 0).unwrap()[0];
            let next = program.step(Primitive::Update, &[cache, block, start], 0).unwrap()[0];
            Self { program, cache, next, outputs: vec![next] }
        }

        fn step(&mut self, primitive: Primitive, inputs: &[ValueId]) -> ValueId {
            self.program.step(primitive, inputs, 0).unwrap()[0]
        }

        fn multiply(mut self, right: ValueId) -> Self {
            let query = self.program.input(Scalar::F32, [2, 1, 32].into());
            let product = Primitive::MatMul { transposed: [false, true], order: Vec::new() };
            let scores = self.step(product, &[query, right]);
            self.outputs.push(scores);
            self
        }

        fn report(mut self, (apart, max_bindings): (bool, usize)) -> PlanReport {
            self.program.outputs = self.outputs;
            let limits = DeviceLimits { max_bindings, ..DeviceLimits::default() };
            PlanReport::new(self.program, Precision::F32, &limits, apart).unwrap()
        }

        fn readers(self, (apart, max_bindings): (bool, usize)) -> usize {
            self.report((apart, max_bindings)).in_place.iter().filter(|form| form.reader.is_some()).count()
        }
    }

    fn sum() -> Primitive {
        Primitive::Reduce { reduction: ReduceOp::Sum, axes: vec![1] }
    }

    const MANY: (bool, usize) = (false, 8);

    #[test]
    fn products_update_what_they_alone_read_as_a_whole() {
        let whole = || {
            let attention = Attention::new();
            let next = attention.next;
            attention.multiply(next)
        };
        let plan = whole().report(MANY).plan().unwrap();
        let InPlace { dispatch, reader, form, .. } = &plan.in_place[0];
        assert_eq!((*dispatch, *reader), (1, Some(2)));
        assert!(form.needs_barrier && plan.all_dispatches().count() == 4);
        assert_eq!(whole().readers((true, 8)), 0, "another interface");
        assert_eq!(whole().readers((false, 4)), 0, "few bindings");
        let mut twice = whole();
        let (next, cache) = (twice.next, twice.cache);
        let other = twice.step(sum(), &[next]);
        twice.outputs.push(other);
        assert_eq!(twice.readers(MANY), 0, "two readers");
        let mut before = whole();
        let other = before.step(sum(), &[cache]);
        before.outputs.push(other);
        assert_eq!(before.readers(MANY), 0, "the cache before is read");
        let mut part = Attention::new();
        let rows = Index::Axis(1).plus(8);
        let map =
            IndexMap { output: vec![2, 32, 32], coordinates: vec![Index::Axis(0), rows, Index::Axis(2)], fill: None };
        let right = part.step(Primitive::IndexMap(map), &[part.next]);
        assert_eq!(part.multiply(right).readers(MANY), 0, "a part of the cache");
    }

    #[test]
    fn what_the_update_reads_stays_until_the_product_has_read_it() {
        let mut attention = Attention::new();
        let next = attention.next;
        attention = attention.multiply(next);
        let other = attention.program.input(Scalar::F32, [2, 8, 32].into());
        let last = attention.step(sum(), &[other]);
        attention.outputs.push(last);
        let plan = attention.report(MANY).plan().unwrap();
        let InPlace { reader, form, .. } = &plan.in_place[0];
        let written = |dispatch: &Dispatch| {
            let overlaps =
                |bound: &BoundRange| form.bindings.iter().any(|read| !read.writes && read.range.overlaps(&bound.range));
            dispatch.bindings.iter().any(|bound| bound.writes && overlaps(bound))
        };
        let later = &plan.dispatches[reader.unwrap() + 1..];
        assert!(later.iter().any(written), "no memory is used again");
        assert!(later.iter().filter(|dispatch| written(dispatch)).all(|dispatch| dispatch.needs_barrier));
    }

    #[test]
    fn damaged_forms_are_rejected() {
        let mut attention = Attention::new();
        let next = attention.next;
        attention = attention.multiply(next);
        let plan = attention.report(MANY).plan().unwrap();
        plan.check().unwrap();
        let damages: [fn(&mut InPlace); 6] = [
            |form| form.reader = Some(form.dispatch),
            |form| form.reader = Some(99),
            |form| form.dispatch = 99,
            |form| form.form.bindings.clear(),
            |form| form.form.bindings.iter_mut().for_each(|bound| bound.writes = false),
            |form| form.output = 1,
        ];
        for (index, damage) in damages.into_iter().enumerate() {
            let mut damaged = plan.clone();
            damage(&mut damaged.in_place[0]);
            assert!(damaged.check().is_err(), "damage {index}");
        }
        let mut twice = plan.clone();
        twice.in_place.push(plan.in_place[0].clone());
        assert!(twice.check().is_err());
    }
}

//! What a dispatch does, counted from shapes, whatever its shader makes of them.
//!
//! - **Operations**: two for each multiply-add of a contraction or a product of matrices, padding included; one for each
//!   element that a reduction, a fold of rows, a window or a scan reads; one for each function of an expression at each
//!   element; none where elements are but moved.
//! - **Bytes**: each value and each packed constant that the dispatch binds, once, as stored. Where elements are picked,
//!   no more of them than are written.
//!
//! Knows nothing of time and of caches: it is what must be done, not how well that is done.

use attache_base::Shape;
use attache_gpu_ir::{Primitive, Program, RowStep, Sampling, ValueId};

use super::{PlanReport, PlannedDispatch};
use crate::kernel::{Epilogue, Kernel};
use crate::wgsl::Binding;

/// Operations and bytes of one dispatch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Arithmetic operations.
    pub operations: u64,
    /// Bytes read from memory.
    pub bytes_read: u64,
    /// Bytes written to memory.
    pub bytes_written: u64,
}

impl Work {
    /// Of each dispatch of a planned program.
    pub(crate) fn of(plan: &PlanReport) -> Vec<Self> {
        let mut last = None;
        let work = plan.dispatches.iter().map(|dispatch| {
            let is_first = last.replace(dispatch.kernel) != Some(dispatch.kernel);
            Self::of_dispatch(plan, dispatch, is_first)
        });
        work.collect()
    }

    /// A kernel's operations are its first dispatch's, but where each dispatch has some of the inputs.
    fn of_dispatch(plan: &PlanReport, dispatch: &PlannedDispatch, is_first: bool) -> Self {
        let (program, kernel) = (&plan.program, &plan.kernels[dispatch.kernel]);
        let bound: Vec<ValueId> = read(dispatch).collect();
        let joins = matches!(kernel.primitive, Primitive::Concatenate { .. });
        let written = match joins {
            true => {
                let joined = kernel.inputs.iter().filter(|id| bound.contains(&kernel.source(**id)));
                joined.map(|id| elements(program, *id)).sum()
            }
            false => elements(program, kernel.outputs[0]),
        };
        let read = |id: &ValueId| {
            let reached = elements(program, *id).min(reached(program, kernel, *id, written));
            reached * plan.storages.of(*id).bytes() as u64
        };
        let packed = dispatch.shader.bindings.iter().map(|binding| match binding {
            Binding::Packed(numbers) => (numbers.count() * plan.storages.packed().bytes()) as u64,
            Binding::Words(words) => 4 * words.count() as u64,
            Binding::Read(_) | Binding::Write(..) => 0,
        });
        let made = dispatch.shader.bindings.iter().map(|binding| match binding {
            Binding::Write(_, storage) if joins => written * storage.bytes() as u64,
            Binding::Write(id, _) => plan.bytes(*id) as u64,
            Binding::Read(_) | Binding::Packed(_) | Binding::Words(_) => 0,
        });
        let operations = match (joins, is_first) {
            (true, _) => written * functions(&kernel.epilogue),
            (false, true) => operations(program, kernel),
            (false, false) => 0,
        };
        Self {
            operations,
            bytes_read: bound.iter().map(read).sum::<u64>() + packed.sum::<u64>(),
            bytes_written: made.sum(),
        }
    }
}

/// As many elements of a value as a kernel that writes so many can reach, with what stands in front of it.
fn reached(program: &Program, kernel: &Kernel, id: ValueId, written: u64) -> u64 {
    let picks = matches!(kernel.primitive, Primitive::IndexMap(_) | Primitive::Gather(_));
    if kernel.operands.contains(&id) || (kernel.inputs.contains(&id) && !picks) {
        return u64::MAX;
    }
    let direct = if kernel.inputs.contains(&id) { written } else { 0 };
    let views = kernel.views.iter().filter(|view| view.source == id);
    let seen = views.map(|view| elements(program, view.value));
    let first = kernel.prologue.as_ref().map(|first| reached(program, first, id, u64::MAX));
    seen.chain(first).fold(direct, u64::saturating_add)
}

/// The values that a dispatch reads, each once.
fn read(dispatch: &PlannedDispatch) -> impl Iterator<Item = ValueId> {
    let read = dispatch.shader.bindings.iter().filter_map(|binding| match binding {
        Binding::Read(id) => Some(*id),
        Binding::Packed(_) | Binding::Words(_) | Binding::Write(..) => None,
    });
    let mut read: Vec<ValueId> = read.collect();
    read.sort_unstable();
    read.dedup();
    read.into_iter()
}

fn elements(program: &Program, id: ValueId) -> u64 {
    program.shape(id).elements() as u64
}

fn functions(epilogue: &Epilogue) -> u64 {
    match epilogue {
        Epilogue::Real(expression) => expression.functions() as u64,
        Epilogue::Whole(expression) => expression.functions() as u64,
    }
}

/// Of a kernel as a whole. Numbers too large to count are the largest there are.
fn operations(program: &Program, kernel: &Kernel) -> u64 {
    let outputs = elements(program, kernel.outputs[0]);
    let inputs: Vec<&Shape> = kernel.inputs.iter().map(|id| program.shape(*id)).collect();
    let after = outputs.saturating_mul(functions(&kernel.epilogue));
    let first = kernel.prologue.as_ref().map_or(0, |first| operations(program, first));
    primitive(&kernel.primitive, &inputs, outputs).saturating_add(after).saturating_add(first)
}

/// Of a primitive that makes so many elements from inputs of these shapes.
fn primitive(primitive: &Primitive, inputs: &[&Shape], outputs: u64) -> u64 {
    let read = inputs.first().map_or(0, |shape| shape.elements() as u64);
    match primitive {
        Primitive::Map { expression, .. } => outputs.saturating_mul(expression.functions() as u64),
        Primitive::WholeMap { expression, .. } => outputs.saturating_mul(expression.functions() as u64),
        Primitive::Reduce { .. } | Primitive::ArgReduce { .. } | Primitive::Scan { .. } => read,
        Primitive::Rows(rows) => {
            let (each, row) = (rows.shape.elements() as u64, rows.folded().elements() as u64);
            let step = |step: &RowStep| match step {
                RowStep::Fold(_, expression) => each.saturating_mul(1 + expression.functions() as u64),
                RowStep::Map(expression) => row.saturating_mul(expression.functions() as u64),
                RowStep::Across(_, expression) => {
                    row.saturating_mul(rows.parts() as u64).saturating_mul(1 + expression.functions() as u64)
                }
            };
            let last = outputs.saturating_mul(rows.result.functions() as u64);
            rows.steps.iter().map(step).fold(last, u64::saturating_add)
        }
        Primitive::Window(window) => {
            window.size.iter().fold(outputs, |product, extent| product.saturating_mul(*extent as u64))
        }
        Primitive::Contract(contraction) => {
            let filter = inputs[1];
            // Transposed, every element of the data meets the whole window and every output channel.
            let (elements, others) = match contraction.transposed {
                true => (read, filter[0] * filter[1] * filter[2]),
                false => (outputs, filter[1] * filter[2] * filter[3]),
            };
            elements.saturating_mul(2 * others as u64)
        }
        Primitive::Multiply { transposed } => {
            let left = inputs[0];
            let depth = left[left.rank() - if transposed[0] { 2 } else { 1 }];
            outputs.saturating_mul(2 * depth as u64)
        }
        // Three times between two neighbours: a difference, a product and a sum.
        Primitive::Resample(resample) if resample.sampling == Sampling::Bilinear => outputs.saturating_mul(9),
        // Each element is compared with those chosen so far.
        Primitive::TopK { count } => read.saturating_mul(*count as u64),
        Primitive::Resample(_)
        | Primitive::Reshape(_)
        | Primitive::IndexMap(_)
        | Primitive::Concatenate { .. }
        | Primitive::Gather(_)
        | Primitive::Unpool { .. } => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Limits, Precision};
    use attache_base::Constant;
    use attache_gpu_ir::{Contraction, Expression, Index, IndexMap, Scalar};

    /// The work of each dispatch of a program.
    fn work(program: Program, precision: Precision) -> Vec<Work> {
        let limits = Limits { shader_f16: true, ..Limits::default() };
        Work::of(&PlanReport::new(program, precision, &limits, true).unwrap())
    }

    fn contraction(output: [usize; 2], groups: usize, transposed: bool) -> Primitive {
        let (strides, dilations, before) = ([1; 2], [1; 2], [0; 2]);
        Primitive::Contract(Contraction { strides, dilations, before, output, groups, transposed, zero_points: [0; 2] })
    }

    /// A contraction of `[1, 4, 4, channels]` by a filter, with what follows it.
    fn contracted(filter: [usize; 4], channels: usize, primitive: Primitive, then: Option<Expression>) -> Program {
        let mut program = Program::default();
        let data = program.input(Scalar::F32, Shape::from([1, 4, 4, channels]));
        let numbers = vec![0.5f32; filter.iter().product()];
        let filter = program.constant(Scalar::F32, Constant::from_values(filter, &numbers));
        let made = program.step(primitive, &[data, filter], 0).unwrap()[0];
        program.outputs = vec![made];
        if let Some(expression) = then {
            let map = Primitive::Map { expression, shape: program.shape(made).clone(), scalar: Scalar::F32 };
            program.outputs = program.step(map, &[made], 1).unwrap();
        }
        program
    }

    #[test]
    fn a_contraction_counts_two_for_each_multiply_add() {
        let pointwise = || contraction([4, 4], 1, false);
        let works = work(contracted([16, 1, 1, 8], 8, pointwise(), None), Precision::F32);
        assert_eq!(works.len(), 1);
        assert_eq!(works[0].operations, 2 * 16 * 8 * 16, "2 · positions · channels in · channels out");
        assert_eq!(works[0].bytes_written, 16 * 16 * 4);
        // The filter may be packed with a bias.
        let filter = 16 * 8 * 4;
        assert!((16 * 8 * 4 + filter..=16 * 8 * 4 + filter + 64).contains(&works[0].bytes_read), "{works:?}");

        let clamped = Expression::Input(0).clamp(0.0, 6.0);
        let works = work(contracted([16, 1, 1, 8], 8, pointwise(), Some(clamped)), Precision::F32);
        assert_eq!(works.iter().map(|work| work.operations).collect::<Vec<_>>(), [2 * 16 * 8 * 16 + 2 * 16 * 16]);

        let depthwise = work(contracted([8, 3, 3, 1], 8, contraction([2, 2], 8, false), None), Precision::F32);
        assert_eq!(depthwise[0].operations, 2 * 4 * 8 * 9);
        let transposed = work(contracted([5, 2, 2, 8], 8, contraction([5, 5], 1, true), None), Precision::F32);
        assert_eq!(transposed[0].operations, 2 * 16 * 8 * 4 * 5);
    }

    #[test]
    fn what_stands_in_front_counts_as_well() {
        let mut program = contracted([8, 3, 3, 1], 8, contraction([2, 2], 8, false), None);
        let numbers = vec![0.5f32; 8 * 16];
        let filter = program.constant(Scalar::F32, Constant::from_values([16, 1, 1, 8], &numbers));
        let data = program.outputs[0];
        program.outputs = program.step(contraction([2, 2], 1, false), &[data, filter], 1).unwrap();
        let works = work(program, Precision::F32);
        assert_eq!(works.iter().map(|work| work.operations).sum::<u64>(), 2 * 4 * 8 * 9 + 2 * 4 * 8 * 16);
        assert!(works[0].bytes_read >= 4 * (16 * 8 + 8 * 9), "the data and the first filter: {works:?}");
    }

    #[test]
    fn products_count_their_depth() {
        let mut program = Program::default();
        let left = program.input(Scalar::F32, Shape::from([3, 2, 5]));
        let right = program.input(Scalar::F32, Shape::from([7, 5]));
        let product = Primitive::Multiply { transposed: [false, true] };
        program.outputs = program.step(product, &[left, right], 0).unwrap();
        assert_eq!(work(program, Precision::F32)[0].operations, 2 * 3 * 2 * 7 * 5);
    }

    #[test]
    fn what_is_picked_is_all_that_is_read() {
        let mut program = Program::default();
        let input = program.input(Scalar::F32, Shape::from([1000]));
        let slice = IndexMap { output: vec![8], coordinates: vec![Index::Axis(0).plus(5)], fill: None };
        program.outputs = program.step(Primitive::IndexMap(slice), &[input], 0).unwrap();
        assert_eq!(work(program, Precision::F32), [Work { operations: 0, bytes_read: 32, bytes_written: 32 }]);
    }

    #[test]
    fn what_is_seen_through_a_view_is_all_that_is_read() {
        let mut program = Program::default();
        let input = program.input(Scalar::F32, Shape::from([1000]));
        let slice = IndexMap { output: vec![8], coordinates: vec![Index::Axis(0).plus(5)], fill: None };
        let slice = program.step(Primitive::IndexMap(slice), &[input], 0).unwrap()[0];
        let expression = Expression::Input(0).add(Expression::Constant(1.0));
        let map = Primitive::Map { expression, shape: Shape::from([8]), scalar: Scalar::F32 };
        program.outputs = program.step(map, &[slice], 1).unwrap();
        assert_eq!(work(program, Precision::F32), [Work { operations: 8, bytes_read: 32, bytes_written: 32 }]);
    }

    #[test]
    fn the_dispatches_of_a_concatenation_share_it() {
        let mut program = Program::default();
        let inputs: Vec<ValueId> = (1..=5).map(|n| program.input(Scalar::F32, Shape::from([4 * n]))).collect();
        program.outputs = program.step(Primitive::Concatenate { axis: 0 }, &inputs, 0).unwrap();
        let works = work(program, Precision::F32);
        assert!(works.len() > 1, "four bindings don't hold six buffers");
        assert_eq!(works.iter().map(|work| work.bytes_written).sum::<u64>(), 60 * 4);
        assert_eq!(works.iter().map(|work| work.bytes_read).sum::<u64>(), 60 * 4);
    }
}

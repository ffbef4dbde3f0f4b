//! The cost of each dispatch: its arithmetic operations and its memory traffic, for reports and rooflines.
//! Both are counted from the shapes of values and bound buffers, whatever instructions the shader executes.
//! Time and caches are not modelled.
//!
//! - **Operations**: two for each multiply-add of a convolution or matrix product, padding included. One for each
//!   element that a reduction, a fold of rows, a window or a scan reads. One for each function of an expression at
//!   each element. Nine for each element of a bilinear resampling. `k` for each element that a top-k selection
//!   reads. One for each update that is scattered. None for other data movement.
//! - **Bytes**: the size in memory of each value and each packed constant that the dispatch binds, counted once. If
//!   only some elements of a value are read, at most as many elements as are written.

use attache_base::Shape;
use attache_gpu_ir::{Primitive, Program, RowStep, Sampling, ValueId};
use serde::{Deserialize, Serialize};

use super::{PlanReport, PlannedDispatch};
use crate::kernel::{Epilogue, Kernel};
use crate::wgsl::Binding;

/// The arithmetic operations and the memory traffic of one dispatch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DispatchCost {
    /// Number of arithmetic operations. A multiply-add counts as two.
    pub operations: u64,
    /// Bytes read from memory.
    pub bytes_read: u64,
    /// Bytes written to memory.
    pub bytes_written: u64,
}

impl DispatchCost {
    /// Returns the cost of each dispatch of a planned program, in the order of the dispatches.
    pub(crate) fn of(plan: &PlanReport) -> Vec<Self> {
        let mut last = None;
        let costs = plan.dispatches.iter().map(|dispatch| {
            let is_first = last.replace(dispatch.kernel) != Some(dispatch.kernel);
            Self::of_dispatch(plan, dispatch, is_first)
        });
        costs.collect()
    }

    /// Returns the cost of one dispatch. If a kernel has several dispatches, all operations of the kernel are
    /// counted for the first one, which `is_first` indicates. The dispatches of a concatenation each copy
    /// some of the inputs, and their operations are counted separately.
    fn of_dispatch(plan: &PlanReport, dispatch: &PlannedDispatch, is_first: bool) -> Self {
        let (program, kernel) = (&plan.program, &plan.kernels[dispatch.kernel]);
        let bound: Vec<ValueId> = read(dispatch).collect();
        let joins = matches!(kernel.primitive, Primitive::Concatenate { .. });
        let written = match joins {
            true if kernel.maps.is_empty() => {
                let joined = kernel.inputs.iter().filter(|id| bound.contains(&kernel.source(**id)));
                joined.map(|id| elements(program, *id)).sum()
            }
            _ => elements(program, kernel.outputs[0]),
        };
        let read = |id: &ValueId| {
            let reached = elements(program, *id).min(reached(program, kernel, *id, written));
            reached * plan.storages.of(*id).bytes() as u64
        };
        let packed = dispatch.shader.bindings.iter().map(|binding| match binding {
            Binding::Packed(floats) => (floats.count() * plan.storages.packed().bytes()) as u64,
            Binding::Words(words) => 4 * words.count() as u64,
            Binding::Read(_) | Binding::Write(..) => 0,
        });
        let stored = dispatch.shader.bindings.iter().map(|binding| match binding {
            Binding::Write(_, storage) if joins => written * storage.bytes() as u64,
            Binding::Write(id, _) => plan.bytes(*id) as u64,
            Binding::Read(_) | Binding::Packed(_) | Binding::Words(_) => 0,
        });
        let operations = match (joins, is_first) {
            (true, _) => written * functions(&kernel.epilogue) + mapped(program, kernel),
            (false, true) => operations(program, kernel),
            (false, false) => 0,
        };
        Self {
            operations,
            bytes_read: bound.iter().map(read).sum::<u64>() + packed.sum::<u64>(),
            bytes_written: stored.sum(),
        }
    }
}

/// Returns the maximum number of elements of the value `id` that a kernel, including those within it, can read if it writes
/// `written` elements. Views of kernels within it are among its own.
fn reached(program: &Program, kernel: &Kernel, id: ValueId, written: u64) -> u64 {
    fn reads(part: &Kernel, id: ValueId) -> bool {
        part.inputs.iter().chain(&part.operands).any(|read| *read == id) || part.within().any(|part| reads(part, id))
    }
    let picks = matches!(kernel.primitive, Primitive::IndexMap(_) | Primitive::Gather(_));
    let is_read = kernel.inputs.contains(&id) && !picks;
    if kernel.operands.contains(&id) || is_read || kernel.within().any(|part| reads(part, id)) {
        return u64::MAX;
    }
    let direct = if kernel.inputs.contains(&id) { written } else { 0 };
    let views = kernel.views.iter().filter(|view| view.source == id);
    views.map(|view| elements(program, view.value)).fold(direct, u64::saturating_add)
}

/// Returns the values that a dispatch reads from memory, without duplicates.
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
        Epilogue::Float(expression) => expression.functions() as u64,
        Epilogue::Int(expression) => expression.functions() as u64,
    }
}

/// Returns the number of operations of a kernel, including its prologue and epilogue. The number saturates.
fn operations(program: &Program, kernel: &Kernel) -> u64 {
    let outputs = elements(program, kernel.outputs[0]);
    let inputs: Vec<&Shape> = kernel.inputs.iter().map(|id| program.shape(*id)).collect();
    let after = outputs.saturating_mul(functions(&kernel.epilogue));
    let first = kernel.prologue.as_ref().map_or(0, |first| operations(program, first));
    let before = first.saturating_add(mapped(program, kernel));
    primitive(&kernel.primitive, &inputs, outputs).saturating_add(after).saturating_add(before)
}

/// Returns the number of operations of the maps that a kernel computes where it loads their elements.
fn mapped(program: &Program, kernel: &Kernel) -> u64 {
    // A twin computes the same prologue as the kernel.
    let prologue = |map: &Kernel| map.prologue.as_ref().map_or(0, |first| operations(program, first));
    let own = |map: &Kernel| operations(program, map).saturating_sub(prologue(map));
    kernel.maps.iter().map(own).fold(0, u64::saturating_add)
}

/// Returns the number of operations of a primitive that computes `outputs` elements from inputs of these
/// shapes.
fn primitive(primitive: &Primitive, inputs: &[&Shape], outputs: u64) -> u64 {
    let read = inputs.first().map_or(0, |shape| shape.elements() as u64);
    match primitive {
        Primitive::Map { expression, .. } => outputs.saturating_mul(expression.functions() as u64),
        Primitive::IntMap { expression, .. } => outputs.saturating_mul(expression.functions() as u64),
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
        Primitive::Convolution(convolution) => {
            let filter = inputs[1];
            // In a transposed convolution every element of the data is multiplied by the whole window for every output
            // channel.
            let (elements, others) = match convolution.transposed {
                true => (read, filter[0] * filter[1] * filter[2]),
                false => (outputs, filter[1] * filter[2] * filter[3]),
            };
            elements.saturating_mul(2 * others as u64)
        }
        Primitive::MatMul { transposed, .. } => {
            let left = inputs[0];
            let depth = left[left.rank() - if transposed[0] { 2 } else { 1 }];
            outputs.saturating_mul(2 * depth as u64)
        }
        // Three linear interpolations between two elements, each with a difference, a product and a sum.
        Primitive::Resample(resample) if resample.sampling == Sampling::Bilinear => outputs.saturating_mul(9),
        // Each element is compared with the others until it is known to be among the `count` largest.
        Primitive::TopK { count } => read.saturating_mul(*count as u64),
        // Each selected box is compared with the others, by about 20 operations.
        Primitive::Suppress(limits) => inputs[1].elements().saturating_mul(20 * limits.most) as u64,
        // Each update is combined once, or replaces what was there.
        Primitive::Scatter { .. } => inputs[2].elements() as u64,
        Primitive::Resample(_)
        | Primitive::Reshape(_)
        | Primitive::IndexMap(_)
        | Primitive::Concatenate { .. }
        | Primitive::Gather(_)
        | Primitive::Unpool { .. }
        | Primitive::Update => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{DeviceLimits, Precision};
    use attache_base::Constant;
    use attache_gpu_ir::{ConvolutionGeometry, Expression, Index, IndexMap, Scalar};

    /// Plans a program and returns the cost of each dispatch.
    fn costs_of(program: Program, precision: Precision) -> Vec<DispatchCost> {
        let limits = DeviceLimits { shader_f16: true, ..DeviceLimits::default() };
        DispatchCost::of(&PlanReport::new(program, precision, &limits, true).unwrap())
    }

    fn convolution(output: [usize; 2], groups: usize, transposed: bool) -> Primitive {
        let (strides, dilations, before) = ([1; 2], [1; 2], [0; 2]);
        Primitive::Convolution(ConvolutionGeometry {
            strides,
            dilations,
            before,
            output,
            groups,
            transposed,
            zero_points: [0; 2],
        })
    }

    /// Returns a program: a convolution of `[1, 4, 4, channels]` with a filter, followed by a map of the
    /// expression `then` if there is one.
    fn convolved(filter: [usize; 4], channels: usize, primitive: Primitive, then: Option<Expression>) -> Program {
        let mut program = Program::default();
        let data = program.input(Scalar::F32, Shape::from([1, 4, 4, channels]));
        let weights = vec![0.5f32; filter.iter().product()];
        let filter = program.constant(Scalar::F32, Constant::from_values(filter, &weights));
        let made = program.step(primitive, &[data, filter], 0).unwrap()[0];
        program.outputs = vec![made];
        if let Some(expression) = then {
            let map = Primitive::Map { expression, shape: program.shape(made).clone(), scalar: Scalar::F32 };
            program.outputs = program.step(map, &[made], 1).unwrap();
        }
        program
    }

    #[test]
    fn a_convolution_counts_two_operations_for_each_multiply_add() {
        let pointwise = || convolution([4, 4], 1, false);
        let costs = costs_of(convolved([16, 1, 1, 8], 8, pointwise(), None), Precision::F32);
        assert_eq!(costs.len(), 1);
        assert_eq!(costs[0].operations, 2 * 16 * 8 * 16, "2 · positions · channels in · channels out");
        assert_eq!(costs[0].bytes_written, 16 * 16 * 4);
        // The filter may be packed with a bias.
        let filter = 16 * 8 * 4;
        assert!((16 * 8 * 4 + filter..=16 * 8 * 4 + filter + 64).contains(&costs[0].bytes_read), "{costs:?}");

        let clamped = Expression::Input(0).clamp(0.0, 6.0);
        let costs = costs_of(convolved([16, 1, 1, 8], 8, pointwise(), Some(clamped)), Precision::F32);
        assert_eq!(costs.iter().map(|cost| cost.operations).collect::<Vec<_>>(), [2 * 16 * 8 * 16 + 2 * 16 * 16]);

        let depthwise = costs_of(convolved([8, 3, 3, 1], 8, convolution([2, 2], 8, false), None), Precision::F32);
        assert_eq!(depthwise[0].operations, 2 * 4 * 8 * 9);
        let transposed = costs_of(convolved([5, 2, 2, 8], 8, convolution([5, 5], 1, true), None), Precision::F32);
        assert_eq!(transposed[0].operations, 2 * 16 * 8 * 4 * 5);
    }

    #[test]
    fn prologues_are_counted() {
        let mut program = convolved([8, 3, 3, 1], 8, convolution([2, 2], 8, false), None);
        let weights = vec![0.5f32; 8 * 16];
        let filter = program.constant(Scalar::F32, Constant::from_values([16, 1, 1, 8], &weights));
        let data = program.outputs[0];
        program.outputs = program.step(convolution([2, 2], 1, false), &[data, filter], 1).unwrap();
        let costs = costs_of(program, Precision::F32);
        assert_eq!(costs.iter().map(|cost| cost.operations).sum::<u64>(), 2 * 4 * 8 * 9 + 2 * 4 * 8 * 16);
        assert!(costs[0].bytes_read >= 4 * (16 * 8 + 8 * 9), "the data and the first filter: {costs:?}");
    }

    #[test]
    fn products_count_their_depth() {
        let mut program = Program::default();
        let left = program.input(Scalar::F32, Shape::from([3, 2, 5]));
        let right = program.input(Scalar::F32, Shape::from([7, 5]));
        let product = Primitive::MatMul { transposed: [false, true], order: Vec::new() };
        program.outputs = program.step(product, &[left, right], 0).unwrap();
        assert_eq!(costs_of(program, Precision::F32)[0].operations, 2 * 3 * 2 * 7 * 5);
    }

    #[test]
    fn a_slice_reads_only_its_elements() {
        let mut program = Program::default();
        let input = program.input(Scalar::F32, Shape::from([1000]));
        let slice = IndexMap { output: vec![8], coordinates: vec![Index::Axis(0).plus(5)], fill: None };
        program.outputs = program.step(Primitive::IndexMap(slice), &[input], 0).unwrap();
        assert_eq!(
            costs_of(program, Precision::F32),
            [DispatchCost { operations: 0, bytes_read: 32, bytes_written: 32 }]
        );
    }

    #[test]
    fn a_view_reads_only_its_elements() {
        let mut program = Program::default();
        let input = program.input(Scalar::F32, Shape::from([1000]));
        let slice = IndexMap { output: vec![8], coordinates: vec![Index::Axis(0).plus(5)], fill: None };
        let slice = program.step(Primitive::IndexMap(slice), &[input], 0).unwrap()[0];
        let expression = Expression::Input(0).add(Expression::Constant(1.0));
        let map = Primitive::Map { expression, shape: Shape::from([8]), scalar: Scalar::F32 };
        program.outputs = program.step(map, &[slice], 1).unwrap();
        assert_eq!(
            costs_of(program, Precision::F32),
            [DispatchCost { operations: 8, bytes_read: 32, bytes_written: 32 }]
        );
    }

    #[test]
    fn the_dispatches_of_a_concatenation_divide_its_cost() {
        let mut program = Program::default();
        let inputs: Vec<ValueId> = (1..=5).map(|n| program.input(Scalar::F32, Shape::from([4 * n]))).collect();
        program.outputs = program.step(Primitive::Concatenate { axis: 0 }, &inputs, 0).unwrap();
        let costs = costs_of(program, Precision::F32);
        assert!(costs.len() > 1, "four bindings don't hold six buffers");
        assert_eq!(costs.iter().map(|cost| cost.bytes_written).sum::<u64>(), 60 * 4);
        assert_eq!(costs.iter().map(|cost| cost.bytes_read).sum::<u64>(), 60 * 4);
    }
}

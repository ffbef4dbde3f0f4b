//! Splits kernels that reduce few long rows into several kernels. A few work groups would otherwise run for a
//! long time while the rest of the device is idle. Parts of the rows are reduced first, in parallel, and
//! later kernels reduce the partial results to those of whole rows.

use std::ops::RangeInclusive;

use attache_base::Shape;
use attache_gpu_ir::{Expression, Primitive, Program, ReduceOp, RowStep, Rows, Scalar, ValueId};

use crate::kernel::{Epilogue, Kernel};

/// Maximum elements of a row that is always reduced as a whole, so that sums keep the order of the input.
/// Longer rows may be reduced in parts.
pub(super) const MAX_EXTENT: usize = 8192;

/// The allowed numbers of parts of a row. With fewer, splitting gains nothing; with more, reducing the
/// partial results takes too long.
const PARTS: RangeInclusive<usize> = 8..=128;

/// Maximum parts of all rows of a kernel together. With more, the rows alone occupy the device, so splitting
/// is not needed.
const MANY_PARTS: usize = 4096;

/// Minimum elements along the axis of an arg-reduction that is split.
const LONG_SEARCH: usize = 1024;

/// Minimum elements of a part of such an axis, and the maximum number of parts of one axis.
const SEARCH: [usize; 2] = [64, 1024];

/// Number of results of an arg-reduction, of all parts together, that occupies a device.
const MANY_SEARCHES: usize = 16384;

/// Replaces each kernel that reduces few long rows, or searches them, by kernels that do so in parts, and returns all
/// kernels in execution order. `max_bindings` is the maximum number of storage buffers of a shader.
pub(crate) fn split(program: &mut Program, kernels: Vec<Kernel>, max_bindings: usize) -> Vec<Kernel> {
    let in_parts = |kernel: Kernel| {
        let kernels = in_parts(program, &kernel, max_bindings);
        kernels.or_else(|| search_in_parts(program, &kernel, max_bindings)).unwrap_or_else(|| vec![kernel])
    };
    kernels.into_iter().flat_map(in_parts).collect()
}

/// Returns the number of parts into which each row is split, for inputs of these shapes; `None` if rows are
/// not split.
pub(super) fn parts(rows: &Rows, inputs: &[&Shape], max_bindings: usize) -> Option<usize> {
    let folds = rows.steps.iter().filter(|step| matches!(step, RowStep::Fold(..))).count();
    let [outer, inner] = around(rows);
    // If the elements of a row are contiguous, one work group already reads them fast.
    let is_worth_it = folds > 0 && rows.extent() > MAX_EXTENT && (inner > 1 || (folds == 1 && rows.is_folded));
    let fits = |parts: &usize| rows.extent().is_multiple_of(*parts) && parts * outer * inner <= MANY_PARTS;
    let parts = PARTS.rev().find(fits).filter(|_| is_worth_it && inputs.len() + folds < max_bindings)?;
    inputs.iter().all(|input| layout(rows, input, parts).is_some()).then_some(parts)
}

/// Returns the product of the extents outside of the row's axes, and that of the extents inside of them.
fn around(rows: &Rows) -> [usize; 2] {
    [&rows.shape[..rows.axes.start], &rows.shape[rows.axes.end..]].map(|extents| extents.iter().product())
}

/// Returns the shape of an input that broadcasts to the parts' shape `[outer, parts, extent of a part,
/// inner]`, to which the input is reshaped; `None` if the input is broadcast along only some of the axes
/// around the rows.
fn layout(rows: &Rows, input: &Shape, parts: usize) -> Option<Shape> {
    let [outer, inner] = around(rows);
    let (whole, row) = ([outer, parts, rows.extent() / parts, inner], [outer, 1, 1, inner]);
    // An input with as many elements as there are rows may still vary along the row.
    let shapes = if rows.varies(input) { vec![whole.into()] } else { vec![row.into(), Shape::from([1])] };
    shapes.into_iter().find(|shape| shape.elements() == input.elements())
}

/// Splits the rows of a kernel. Returns one kernel for each fold, which reduces every part, and a final
/// kernel that computes the output from the partial results; `None` if the kernel is not split. Adds the
/// reshapes and the partial results to the program.
fn in_parts(program: &mut Program, kernel: &Kernel, max_bindings: usize) -> Option<Vec<Kernel>> {
    let Primitive::Rows(rows) = &kernel.primitive else { return None };
    let shapes: Vec<&Shape> = kernel.inputs.iter().map(|id| program.shape(*id)).collect();
    let parts = parts(rows, &shapes, max_bindings).filter(|_| kernel.views.is_empty())?;
    let layouts: Option<Vec<Shape>> = shapes.iter().map(|shape| layout(rows, shape, parts)).collect();
    let reshaped = kernel.inputs.iter().zip(layouts?);
    let inputs = reshaped.map(|(id, shape)| Some(program.step(Primitive::Reshape(shape), &[*id], 0).ok()?[0]));
    let mut split = SplitRows { rows, parts, inputs: inputs.collect::<Option<_>>()?, made: Vec::new() };
    let mut kernels = Vec::new();
    for (index, step) in rows.steps.iter().enumerate() {
        if let RowStep::Fold(reduction, of) = step {
            let (rows, inputs) = split.fold(index, *reduction, of);
            let made = program.step(Primitive::Rows(rows.clone()), &inputs, 0).ok()?[0];
            program.values[made.index()].is_inner = true;
            split.made.push(made);
            kernels.push(Kernel { primitive: Primitive::Rows(rows), inputs, outputs: vec![made], ..kernel.clone() });
        }
    }
    let (rows, inputs) = split.finish();
    kernels.push(Kernel { primitive: Primitive::Rows(rows), inputs, ..kernel.clone() });
    Some(kernels)
}

/// Splits an arg-reduction of few long axes: the first kernel searches each part of an axis, the second one what the
/// first has found. `None` if the kernel is not split. Adds the places that the first kernel finds to the program.
fn search_in_parts(program: &mut Program, kernel: &Kernel, max_bindings: usize) -> Option<Vec<Kernel>> {
    let (Primitive::ArgReduce { largest, axis, parts: 1 }, [data]) = (&kernel.primitive, &kernel.inputs[..]) else {
        return None;
    };
    let (shape, [least, most]) = (program.shape(*data), SEARCH);
    let results = shape.elements() / shape[*axis].max(1);
    let parts = (MANY_SEARCHES / results.max(1)).min(shape[*axis] / least).min(most);
    if parts < 2 || shape[*axis] < LONG_SEARCH || kernel.operands.len() + 2 >= max_bindings {
        return None;
    }
    let primitive = Primitive::ArgReduce { largest: *largest, axis: *axis, parts };
    let places = program.step(primitive.clone(), &[*data], 0).ok()?[0];
    let first = Kernel {
        primitive,
        epilogue: Epilogue::Float(Expression::Input(0)),
        operands: Vec::new(),
        outputs: vec![places],
        ..kernel.clone()
    };
    Some(vec![first, Kernel { inputs: vec![*data, places], ..kernel.clone() }])
}

/// Long rows that are being split into parts, and the partial results of the folds so far.
struct SplitRows<'a> {
    rows: &'a Rows,
    parts: usize,
    /// The inputs of the rows, reshaped to match the shape of the parts.
    inputs: Vec<ValueId>,
    /// For each fold so far, the value that holds its partial results.
    made: Vec<ValueId>,
}

/// Steps of rows under construction. Their inputs are the original inputs with the indices `read`, followed
/// by the partial results of `made` folds.
struct RowSteps {
    read: Vec<usize>,
    made: usize,
    steps: Vec<RowStep>,
    /// For each original step, the index of the new step that computes its result.
    step_indices: Vec<usize>,
}

impl RowSteps {
    fn inputs(&self) -> usize {
        self.read.len() + self.made
    }

    /// Returns the result of the last step as an expression.
    fn last(&self) -> Expression {
        Expression::Input(self.inputs() + self.steps.len() - 1)
    }

    /// Returns an expression of the original inputs and steps, renumbered for the new inputs and steps.
    /// `inputs` is the original number of inputs.
    fn renumbered(&self, expression: &Expression, inputs: usize) -> Expression {
        expression.substitute(&|input| match input.checked_sub(inputs) {
            Some(step) => Expression::Input(self.inputs() + self.step_indices[step]),
            None => Expression::Input(self.read.iter().position(|read| *read == input).expect("the input is read")),
        })
    }
}

/// Returns the reduction of a part, and the factor of the final result if there is one: a mean is a sum of
/// parts, divided by the extent of the whole row.
fn of_parts(reduction: ReduceOp, extent: usize) -> (ReduceOp, Option<f32>) {
    if reduction == ReduceOp::Mean { (ReduceOp::Sum, Some(1.0 / extent as f32)) } else { (reduction, None) }
}

impl SplitRows<'_> {
    /// Returns the first `count` steps, computed from partial results instead of elements. `next` is the
    /// expression that follows them, whose inputs are needed too. `join` makes the step that combines the
    /// parts of a row.
    fn steps(&self, count: usize, next: &Expression, join: fn(ReduceOp, Expression) -> RowStep) -> RowSteps {
        let before = &self.rows.steps[..count];
        let reads = |step: &RowStep, input: usize| matches!(step, RowStep::Map(of) if of.reads(input));
        let is_read = |input: &usize| next.reads(*input) || before.iter().any(|step| reads(step, *input));
        let read = (0..self.inputs.len()).filter(is_read).collect();
        let mut steps = RowSteps { read, made: self.made.len(), steps: Vec::new(), step_indices: Vec::new() };
        let mut folds = 0..;
        for step in before {
            let step = match step {
                RowStep::Fold(reduction, _) | RowStep::Across(reduction, _) => {
                    let (reduction, mean_factor) = of_parts(*reduction, self.rows.extent());
                    let made = Expression::Input(steps.read.len() + folds.next().expect("there is always one more"));
                    steps.steps.push(join(reduction, made));
                    mean_factor
                        .map(|mean_factor| RowStep::Map(steps.last().multiply(Expression::Constant(mean_factor))))
                }
                RowStep::Map(of) => Some(RowStep::Map(steps.renumbered(of, self.inputs.len()))),
            };
            steps.steps.extend(step);
            steps.step_indices.push(steps.steps.len() - 1);
        }
        steps
    }

    /// Returns the values that the steps read, in the order of their inputs.
    fn read(&self, steps: &RowSteps) -> Vec<ValueId> {
        steps.read.iter().map(|input| self.inputs[*input]).chain(self.made.iter().copied()).collect()
    }

    /// Returns the shape of the rows in parts: `[outer, parts, extent of a part, inner]`.
    fn shape(&self) -> Shape {
        let [outer, inner] = around(self.rows);
        [outer, self.parts, self.rows.extent() / self.parts, inner].into()
    }

    /// Returns the rows that apply the fold of step `index` to each part, and the values that they read.
    fn fold(&self, index: usize, reduction: ReduceOp, of: &Expression) -> (Rows, Vec<ValueId>) {
        let mut steps = self.steps(index, of, RowStep::Across);
        let of = steps.renumbered(of, self.inputs.len());
        steps.steps.push(RowStep::Fold(of_parts(reduction, 1).0, of));
        let (inputs, result) = (self.read(&steps), steps.last());
        let (shape, scalar) = (self.shape(), Scalar::F32);
        let rows = Rows { shape, axes: 2..3, steps: steps.steps, result, is_folded: true, is_part: true, scalar };
        (rows, inputs)
    }

    /// Returns the rows that compute the final result, and the values that they read: the elements of rows
    /// and partial results, or only partial results.
    fn finish(&self) -> (Rows, Vec<ValueId>) {
        let Rows { steps, result, is_folded, scalar, .. } = self.rows;
        let join: fn(ReduceOp, Expression) -> RowStep = if *is_folded { RowStep::Fold } else { RowStep::Across };
        let mut shape = self.shape();
        let axes = if *is_folded { 1..2 } else { 2..3 };
        if *is_folded {
            shape = [shape[0], shape[1], 1, shape[3]].into();
        }
        let steps = self.steps(steps.len(), result, join);
        let (inputs, result) = (self.read(&steps), steps.renumbered(result, self.inputs.len()));
        let (steps, is_folded, scalar) = (steps.steps, *is_folded, *scalar);
        (Rows { shape, axes, steps, result, is_folded, is_part: !is_folded, scalar }, inputs)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fuse;
    use super::*;
    use crate::kernel::DeviceLimits;
    use attache_gpu_ir::{HostTensor, interpret};

    /// Runs kernels of rows in order and returns the elements of the last kernel's output.
    fn run(program: &Program, kernels: &[Kernel], input: &HostTensor) -> Vec<f64> {
        let mut known: Vec<(ValueId, HostTensor)> = vec![(program.inputs[0], input.clone())];
        for kernel in kernels {
            let mut alone = Program::default();
            let root = |id: ValueId| crate::kernel::roots(program)[id.index()];
            let tensors: Vec<HostTensor> = (kernel.inputs.iter())
                .map(|id| known.iter().find(|(known, _)| *known == root(*id)).expect("it was made").1.clone())
                .zip(&kernel.inputs)
                .map(|(tensor, id)| HostTensor::new(program.shape(*id).clone(), tensor.elements))
                .collect();
            let ids: Vec<ValueId> = tensors.iter().map(|t| alone.input(Scalar::F32, t.shape.clone())).collect();
            alone.outputs = alone.step(kernel.primitive.clone(), &ids, 0).unwrap();
            known.push((kernel.outputs[0], interpret(&alone, &tensors).unwrap().remove(0)));
        }
        known.pop().expect("there is a kernel").1.elements
    }

    #[test]
    fn long_folds_come_in_two() {
        for reduction in [ReduceOp::Mean, ReduceOp::Sum, ReduceOp::Maximum] {
            let mut program = Program::default();
            let shape = Shape::from([2, 96, 100, 3]);
            let input = program.input(Scalar::F32, shape.clone());
            let reduce = Primitive::Reduce { reduction, axes: vec![1, 2] };
            let folded = program.step(reduce, &[input], 0).unwrap()[0];
            let expression = Expression::Input(0).add(Expression::Constant(1.0));
            let map = Primitive::Map { expression, shape: [2, 1, 1, 3].into(), scalar: Scalar::F32 };
            program.outputs = program.step(map, &[folded], 1).unwrap();
            let element = |index: usize| f64::from((index * 7 % 11) as f32 / 4.0 - 1.0);
            let tensor = HostTensor::new(shape.clone(), (0..shape.elements()).map(element).collect());
            let expected = interpret(&program, std::slice::from_ref(&tensor)).unwrap().remove(0).elements;
            let fused = fuse(&program, &DeviceLimits::default());
            let kernels = split(&mut program, fused, 8);
            assert_eq!(kernels.len(), 2, "{kernels:?}");
            let found = run(&program, &kernels, &tensor);
            let differs = |(a, b): (&f64, &f64)| (a - b).abs() > 1e-6 * b.abs().max(1.0);
            assert!(!found.iter().zip(&expected).any(differs), "{found:?} is not {expected:?}");
        }
    }

    #[test]
    fn long_normalisations_come_in_three() {
        for is_folded in [false, true] {
            let mut program = Program::default();
            let shape = Shape::from([2, 96, 100, 3]);
            let input = program.input(Scalar::F32, shape.clone());
            let fold = |program: &mut Program, of: ValueId| {
                program.step(Primitive::Reduce { reduction: ReduceOp::Mean, axes: vec![1, 2] }, &[of], 0).unwrap()[0]
            };
            let map = |program: &mut Program, expression: Expression, shape: Shape, inputs: &[ValueId]| {
                program.step(Primitive::Map { expression, shape, scalar: Scalar::F32 }, inputs, 0).unwrap()[0]
            };
            let difference = || Expression::Input(0).subtract(Expression::Input(1));
            let mean = fold(&mut program, input);
            let squares = map(&mut program, difference().multiply(difference()), shape.clone(), &[input, mean]);
            let variance = fold(&mut program, squares);
            let result = match is_folded {
                true => {
                    let sum = Expression::Input(0).add(Expression::Input(1));
                    map(&mut program, sum, [2, 1, 1, 3].into(), &[mean, variance])
                }
                false => {
                    let scaled = difference().multiply(Expression::Input(2));
                    map(&mut program, scaled, shape.clone(), &[input, mean, variance])
                }
            };
            program.outputs = vec![result];
            let element = |index: usize| f64::from((index * 7 % 11) as f32 / 4.0 - 1.0);
            let tensor = HostTensor::new(shape.clone(), (0..shape.elements()).map(element).collect());
            let expected = interpret(&program, std::slice::from_ref(&tensor)).unwrap().remove(0).elements;
            let limits = DeviceLimits { max_bindings: 8, ..DeviceLimits::default() };
            let fused = fuse(&program, &limits);
            let kernels = split(&mut program, fused, limits.max_bindings);
            assert_eq!(kernels.len(), 3, "{kernels:?}");
            let found = run(&program, &kernels, &tensor);
            let differs = |(a, b): (&f64, &f64)| (a - b).abs() > 1e-5 * b.abs().max(1.0);
            assert!(found.len() == expected.len() && !found.iter().zip(&expected).any(differs), "folded: {is_folded}");
        }
    }

    #[test]
    fn long_searches_come_in_two() {
        let kernels = |shape: [usize; 3]| {
            let mut program = Program::default();
            let input = program.input(Scalar::F32, shape.into());
            let search = Primitive::ArgReduce { largest: true, axis: 1, parts: 1 };
            program.outputs = program.step(search, &[input], 0).unwrap();
            let fused = fuse(&program, &DeviceLimits::default());
            let kernels = split(&mut program, fused, 4);
            crate::kernel::validate(&program, &kernels, "the splitting").unwrap();
            kernels.len()
        };
        let shapes = [[1, 8400, 80], [1, 1009, 1], [8400, 80, 1], [100, 4000, 100], [1, 100_003, 1]];
        assert_eq!(shapes.map(kernels), [2, 1, 1, 1, 2]);
    }

    #[test]
    fn short_folds_and_odd_ones_stay() {
        let kernels = |shape: [usize; 2]| {
            let mut program = Program::default();
            let input = program.input(Scalar::F32, shape.into());
            let reduce = Primitive::Reduce { reduction: ReduceOp::Sum, axes: vec![1] };
            program.outputs = program.step(reduce, &[input], 0).unwrap();
            let fused = fuse(&program, &DeviceLimits::default());
            split(&mut program, fused, 8).len()
        };
        assert_eq!([[4, 8192], [4, 8209], [4, 16384], [1024, 16384]].map(kernels), [1, 1, 2, 1]);
    }
}

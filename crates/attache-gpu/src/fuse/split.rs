//! Long folds in two: few rows of many elements would keep few work groups busy for long, so parts of them are folded
//! first, many at once, and then what these parts made.

use std::ops::RangeInclusive;

use attache_base::Shape;
use attache_gpu_ir::{Expression, Primitive, Program, Reduction, RowStep, Rows, Scalar, ValueId};

use super::Kernel;

/// Elements of a row beyond which it is folded in parts. Shorter sums keep the input's order.
pub(super) const MAX_EXTENT: usize = 8192;

/// Parts of a row: not so few that nothing is won, and not so many that folding them takes long.
const PARTS: RangeInclusive<usize> = 8..=128;

/// Parts of all rows beyond which a device is busy anyway.
const MANY_PARTS: usize = 4096;

/// The kernels, those of long folds in two.
pub(crate) fn split(program: &mut Program, kernels: Vec<Kernel>) -> Vec<Kernel> {
    let halves = |kernel: Kernel| match halves(program, &kernel) {
        Some(both) => both.into(),
        None => vec![kernel],
    };
    kernels.into_iter().flat_map(halves).collect()
}

/// A fold of parts and a fold of what those made, which together do what the kernel does.
fn halves(program: &mut Program, kernel: &Kernel) -> Option<[Kernel; 2]> {
    let Primitive::Rows(rows) = &kernel.primitive else { return None };
    let [RowStep::Fold(reduction, of), after @ ..] = &rows.steps[..] else { return None };
    let is_last = after.iter().all(|step| matches!(step, RowStep::Map(_)));
    if !is_last || !rows.is_folded || rows.extent() <= MAX_EXTENT || !kernel.views.is_empty() {
        return None;
    }
    let extents = [&rows.shape[..rows.axes.start], &rows.shape[rows.axes.end..]];
    let [outer, inner] = extents.map(|extents| extents.iter().product::<usize>());
    let fits = |parts: &usize| rows.extent().is_multiple_of(*parts) && parts * outer * inner <= MANY_PARTS;
    let parts = PARTS.rev().find(fits)?;
    let whole = Shape::from([outer, parts, rows.extent() / parts, inner]);
    let inputs: Vec<ValueId> =
        kernel.inputs.iter().map(|id| laid(program, *id, rows, &whole)).collect::<Option<_>>()?;
    let mean = (*reduction == Reduction::Mean).then_some(Expression::Constant(1.0 / rows.extent() as f32));
    let reduction = if mean.is_some() { Reduction::Sum } else { *reduction };
    let long = Long { rows, reduction, mean, inputs, whole };

    let (first, inputs) = long.parts(of);
    let made = program.step(Primitive::Rows(first.clone()), &inputs, 0).ok()?[0];
    program.values[made.index()].is_inner = true;
    let first = Kernel { primitive: Primitive::Rows(first), inputs, outputs: vec![made], ..kernel.clone() };
    let (second, inputs) = long.whole(made, after);
    let second = Kernel { primitive: Primitive::Rows(second), inputs, ..kernel.clone() };
    Some([first, second])
}

/// A long fold of one step, with maps of what it makes.
struct Long<'a> {
    rows: &'a Rows,
    /// How parts are folded, and what they make.
    reduction: Reduction,
    /// What the sum of all is multiplied by for a mean.
    mean: Option<Expression>,
    /// The inputs, laid out as `whole`.
    inputs: Vec<ValueId>,
    /// `[outer, parts, extent of a part, inner]`.
    whole: Shape,
}

impl Long<'_> {
    /// The inputs that some expressions read.
    fn read(&self, expressions: &[&Expression]) -> Vec<usize> {
        (0..self.inputs.len()).filter(|input| expressions.iter().any(|expression| expression.reads(*input))).collect()
    }

    /// The fold of each part, and what it reads.
    fn parts(&self, of: &Expression) -> (Rows, Vec<ValueId>) {
        let read = self.read(&[of]);
        let place = |input: usize| Expression::Input(position(&read, input));
        let steps = vec![RowStep::Fold(self.reduction, of.substitute(&place))];
        let (result, scalar) = (Expression::Input(read.len()), Scalar::F32);
        let rows = Rows { shape: self.whole.clone(), axes: 2..3, steps, result, is_folded: true, scalar };
        (rows, read.iter().map(|input| self.inputs[*input]).collect())
    }

    /// The fold of what the parts made, with the maps after it, and what it reads.
    fn whole(&self, made: ValueId, after: &[RowStep]) -> (Rows, Vec<ValueId>) {
        let later: Vec<&Expression> = self.rows.expressions().skip(1).map(|(expression, _)| expression).collect();
        let read = self.read(&later);
        let inputs: Vec<ValueId> = [made].into_iter().chain(read.iter().map(|input| self.inputs[*input])).collect();
        let (folded, added) = (Expression::Input(inputs.len()), usize::from(self.mean.is_some()));
        let number = |expression: &Expression| {
            expression.substitute(&|input| match input.checked_sub(self.inputs.len()) {
                Some(step) => Expression::Input(inputs.len() + step + added),
                None => Expression::Input(1 + position(&read, input)),
            })
        };
        let fold = RowStep::Fold(self.reduction, Expression::Input(0));
        let share = self.mean.iter().map(|mean| RowStep::Map(folded.clone().multiply(mean.clone())));
        let after = after.iter().map(|step| match step {
            RowStep::Map(expression) => RowStep::Map(number(expression)),
            RowStep::Fold(..) => unreachable!("there is but one fold"),
        });
        let steps = [fold].into_iter().chain(share).chain(after).collect();
        let (result, scalar) = (number(&self.rows.result), self.rows.scalar);
        let shape = Shape::from([self.whole[0], self.whole[1], 1, self.whole[3]]);
        (Rows { shape, axes: 1..2, steps, result, is_folded: true, scalar }, inputs)
    }
}

fn position(of: &[usize], input: usize) -> usize {
    of.iter().position(|other| *other == input).expect("the input is read")
}

/// The value in the shape `[outer, parts, extent, inner]`, or of one element for each row; `None` where it is neither.
fn laid(program: &mut Program, id: ValueId, rows: &Rows, whole: &Shape) -> Option<ValueId> {
    let elements = program.shape(id).elements();
    let row = Shape::from([whole[0], 1, 1, whole[3]]);
    // As many elements as there are rows may still be others for each element of a row.
    let shapes = if rows.varies(program.shape(id)) { vec![whole.clone()] } else { vec![row, Shape::from([1])] };
    let shape = shapes.into_iter().find(|shape| shape.elements() == elements)?;
    Some(program.step(Primitive::Reshape(shape), &[id], 0).ok()?[0])
}

#[cfg(test)]
mod tests {
    use super::super::fuse;
    use super::*;
    use crate::limits::Limits;
    use attache_gpu_ir::{Tensor, interpret};

    /// Runs kernels of rows one after the other.
    fn run(program: &Program, kernels: &[Kernel], input: &Tensor) -> Vec<f64> {
        let mut known: Vec<(ValueId, Tensor)> = vec![(program.inputs[0], input.clone())];
        for kernel in kernels {
            let mut alone = Program::default();
            let root = |id: ValueId| crate::layout::roots(program)[id.index()];
            let tensors: Vec<Tensor> = (kernel.inputs.iter())
                .map(|id| known.iter().find(|(known, _)| *known == root(*id)).expect("it was made").1.clone())
                .zip(&kernel.inputs)
                .map(|(tensor, id)| Tensor::new(program.shape(*id).clone(), tensor.elements))
                .collect();
            let ids: Vec<ValueId> = tensors.iter().map(|t| alone.input(Scalar::F32, t.shape.clone())).collect();
            alone.outputs = alone.step(kernel.primitive.clone(), &ids, 0).unwrap();
            known.push((kernel.outputs[0], interpret(&alone, &tensors).unwrap().remove(0)));
        }
        known.pop().expect("there is a kernel").1.elements
    }

    #[test]
    fn long_folds_come_in_two() {
        for reduction in [Reduction::Mean, Reduction::Sum, Reduction::Maximum] {
            let mut program = Program::default();
            let shape = Shape::from([2, 96, 100, 3]);
            let input = program.input(Scalar::F32, shape.clone());
            let reduce = Primitive::Reduce { reduction, axes: vec![1, 2] };
            let folded = program.step(reduce, &[input], 0).unwrap()[0];
            let expression = Expression::Input(0).add(Expression::Constant(1.0));
            let map = Primitive::Map { expression, shape: [2, 1, 1, 3].into(), scalar: Scalar::F32 };
            program.outputs = program.step(map, &[folded], 1).unwrap();
            let number = |place: usize| f64::from((place * 7 % 11) as f32 / 4.0 - 1.0);
            let tensor = Tensor::new(shape.clone(), (0..shape.elements()).map(number).collect());
            let expected = interpret(&program, std::slice::from_ref(&tensor)).unwrap().remove(0).elements;
            let fused = fuse(&program, &Limits::default());
            let kernels = split(&mut program, fused);
            assert_eq!(kernels.len(), 2, "{kernels:?}");
            let found = run(&program, &kernels, &tensor);
            let differs = |(a, b): (&f64, &f64)| (a - b).abs() > 1e-6 * b.abs().max(1.0);
            assert!(!found.iter().zip(&expected).any(differs), "{found:?} is not {expected:?}");
        }
    }

    #[test]
    fn short_folds_and_odd_ones_stay() {
        let kernels = |shape: [usize; 2]| {
            let mut program = Program::default();
            let input = program.input(Scalar::F32, shape.into());
            let reduce = Primitive::Reduce { reduction: Reduction::Sum, axes: vec![1] };
            program.outputs = program.step(reduce, &[input], 0).unwrap();
            let fused = fuse(&program, &Limits::default());
            split(&mut program, fused).len()
        };
        assert_eq!([[4, 8192], [4, 8209], [4, 16384], [1024, 16384]].map(kernels), [1, 1, 2, 1]);
    }
}

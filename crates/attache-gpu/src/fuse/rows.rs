//! Joins chains of reductions and maps along the same rows into one kernel, so that a normalization becomes
//! one dispatch.
//!
//! A chain begins with a reduction. It includes kernels that read its results, as long as these are
//! reductions of the same rows, maps of per-row values or maps of the rows' elements. It also includes maps
//! that only compute the input of one of its reductions. The output of a map of elements is not stored, but
//! computed wherever it is needed, repeatedly if necessary.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use attache_base::Shape;
use attache_gpu_ir::{Expression, Primitive, Program, RowStep, Rows, Scalar, ValueId};

use super::{MAX_SIZE, split};
use crate::kernel::{Epilogue, Kernel, View};

/// Maximum kernels of one chain, without the maps that only compute the input of a reduction.
const MAX_MEMBERS: usize = 32;

/// Maximum elements of a row in a joined kernel, since one work group would take too long for longer rows. Longer rows
/// are joined only if they are split into parts, or if the kernel has a single fold and one result for each row.
const MAX_EXTENT: usize = 16384;

/// Input index of the result of a chain's first step while the chain is built. The results of later steps
/// follow.
const MADE: usize = 1 << 16;

/// Joins each chain among the kernels into one kernel. Returns all kernels in execution order.
pub(super) fn join(program: &Program, kernels: Vec<Kernel>, max_bindings: usize) -> Vec<Kernel> {
    let mut chains = Chains::new(program, kernels, max_bindings);
    for start in 0..chains.kernels.len() {
        chains.join_from(start);
    }
    chains.kernels.into_iter().flatten().collect()
}

struct Chains<'a> {
    program: &'a Program,
    kernels: Vec<Option<Kernel>>,
    /// For each value, the indices of the kernels that read it.
    readers: Vec<BTreeSet<usize>>,
    /// For each value, the index of the kernel that computes it.
    makers: Vec<Option<usize>>,
    /// For each value, whether it is an output of the program or the input of a reshape, so that it has to be
    /// stored.
    is_seen: Vec<bool>,
    max_bindings: usize,
}

impl<'a> Chains<'a> {
    fn new(program: &'a Program, kernels: Vec<Kernel>, max_bindings: usize) -> Self {
        let mut readers = vec![BTreeSet::new(); program.values.len()];
        let mut makers = vec![None; program.values.len()];
        for (index, kernel) in kernels.iter().enumerate() {
            for id in kernel.reads() {
                readers[id.index()].insert(index);
            }
            for id in &kernel.outputs {
                makers[id.index()] = Some(index);
            }
        }
        let mut is_seen = vec![false; program.values.len()];
        let reshapes = program.steps.iter().filter(|step| matches!(step.primitive, Primitive::Reshape(_)));
        let reshaped = reshapes.flat_map(|step| &step.inputs);
        reshaped.chain(&program.outputs).for_each(|id| is_seen[id.index()] = true);
        Self { program, kernels: kernels.into_iter().map(Some).collect(), readers, makers, is_seen, max_bindings }
    }

    fn kernel(&self, index: usize) -> &Kernel {
        self.kernels[index].as_ref().expect("a kernel that was joined is read by nobody")
    }

    /// Joins the longest chain that begins with the kernel `start`. Does nothing if the kernel begins no
    /// chain.
    fn join_from(&mut self, start: usize) {
        let Some(axes) = self.kernels[start].as_ref().and_then(|kernel| folded_axes(self.program, kernel)) else {
            return;
        };
        let shape = self.program.shape(self.kernel(start).inputs[0]).clone();
        let mut members = self.members(start, &shape, &axes);
        while let Some(last) = members.last().copied() {
            let all = self.with_sources(&members, &shape);
            // Even a single long fold becomes a kernel of rows, since those can be split.
            let is_long = shape[axes.clone()].iter().product::<usize>() > split::MAX_EXTENT;
            if let Some(kernel) = (is_long || all.len() > 1).then(|| self.joined(&all, &shape, &axes)).flatten() {
                for member in all {
                    let gone = self.kernels[member].take();
                    for id in gone.iter().flat_map(Kernel::reads) {
                        self.readers[id.index()].remove(&member);
                    }
                }
                for id in kernel.reads() {
                    self.readers[id.index()].insert(last);
                }
                self.kernels[last] = Some(kernel);
                return;
            }
            members.pop();
        }
    }

    /// Returns the indices of the kernels that may form the chain beginning with `start`, in execution order.
    fn members(&self, start: usize, shape: &Shape, axes: &Range<usize>) -> Vec<usize> {
        let mut members = vec![start];
        let readers = |index: usize| self.kernel(index).outputs.iter().flat_map(|id| &self.readers[id.index()]);
        let mut waiting: BTreeSet<usize> = readers(start).copied().collect();
        while let Some(index) = waiting.pop_first() {
            if members.len() == MAX_MEMBERS || !self.fits(self.kernel(index), shape, axes) {
                break;
            }
            members.push(index);
            waiting.extend(readers(index));
        }
        members
    }

    /// Whether a kernel can be part of a chain whose rows extend along these axes of this shape.
    fn fits(&self, kernel: &Kernel, shape: &Shape, axes: &Range<usize>) -> bool {
        let reads_floats = kernel.reads().all(|id| self.program.value(id).scalar == Scalar::F32);
        let Primitive::Map { shape: output, .. } = &kernel.primitive else {
            let same = || self.program.shape(kernel.inputs[0]) == shape;
            return folded_axes(self.program, kernel).is_some_and(|other| other == *axes) && same();
        };
        reads_floats && (output == shape || *output == folded(shape, axes))
    }

    /// Returns the members of a chain and the maps that only compute the input of a reduction among them, in
    /// execution order.
    fn with_sources(&self, members: &[usize], shape: &Shape) -> Vec<usize> {
        let source = |index: &usize| {
            let kernel = self.kernel(*index);
            let id = kernel.inputs.first().filter(|_| matches!(kernel.primitive, Primitive::Reduce { .. }))?;
            let maker = self.makers[id.index()].filter(|maker| !members.contains(maker))?;
            let alone = !self.is_seen[id.index()] && self.readers[id.index()].len() == 1;
            let is_map = matches!(&self.kernel(maker).primitive, Primitive::Map { shape: made, .. } if made == shape);
            (alone && is_map).then_some(maker)
        };
        let mut all: Vec<usize> = members.iter().filter_map(source).chain(members.iter().copied()).collect();
        all.sort_unstable();
        all
    }

    /// Joins these kernels into one; `None` if they cannot be joined. The outputs of all but the last may be
    /// read only inside the chain.
    fn joined(&self, members: &[usize], shape: &Shape, axes: &Range<usize>) -> Option<Kernel> {
        let (last, inner) = members.split_last()?;
        let is_own =
            |id: &ValueId| !self.is_seen[id.index()] && self.readers[id.index()].iter().all(|r| members.contains(r));
        if !inner.iter().flat_map(|index| &self.kernel(*index).outputs).all(is_own) {
            return None;
        }
        // Intermediate values are not stored, so no view may read them.
        let mut views: Vec<View> = Vec::new();
        for view in members.iter().flat_map(|index| &self.kernel(*index).views) {
            if members.iter().any(|index| self.kernel(*index).outputs.contains(&view.source)) {
                return None;
            }
            if !views.contains(view) {
                views.push(view.clone());
            }
        }
        let mut chain =
            Chain { program: self.program, shape, inputs: Vec::new(), steps: Vec::new(), known: HashMap::new() };
        members.iter().for_each(|index| chain.add(self.kernel(*index)));
        let outputs = self.kernel(*last).outputs.clone();
        let (rows, inputs) = chain.finish(outputs[0], axes);
        let folds = rows.steps.iter().filter(|step| matches!(step, RowStep::Fold(..))).count();
        let shapes: Vec<&Shape> = inputs.iter().map(|id| self.program.shape(*id)).collect();
        let is_split = || views.is_empty() && split::parts(&rows, &shapes, self.max_bindings).is_some();
        let is_short = rows.extent() <= MAX_EXTENT || (folds == 1 && rows.is_folded) || is_split();
        let is_small = rows.expressions().all(|(expression, _)| expression.size() <= MAX_SIZE);
        if !is_short || !is_small || inputs.len() >= self.max_bindings {
            return None;
        }
        let mut origins: Vec<usize> = members.iter().flat_map(|index| &self.kernel(*index).origins).copied().collect();
        origins.sort_unstable();
        origins.dedup();
        Some(Kernel { views, ..Kernel::of(Primitive::Rows(rows), inputs, outputs, origins) })
    }
}

/// Returns the range of axes that a reduction of floats folds; `None` for other kernels, and if an axis
/// within the range is not folded and has an extent other than 1, since the elements of a row would not be
/// evenly spaced.
fn folded_axes(program: &Program, kernel: &Kernel) -> Option<Range<usize>> {
    let Primitive::Reduce { axes, .. } = &kernel.primitive else { return None };
    let shape = program.shape(kernel.inputs[0]);
    let range = *axes.first()?..*axes.last()? + 1;
    let even = range.clone().all(|axis| shape[axis] == 1 || axes.contains(&axis));
    let is_float =
        program.value(kernel.inputs[0]).scalar == Scalar::F32 && matches!(kernel.epilogue, Epilogue::Float(_));
    let reads_floats = kernel.reads().all(|id| program.value(id).scalar == Scalar::F32);
    (even && is_float && reads_floats && shape.elements() > 0).then_some(range)
}

/// Returns the shape with these axes reduced to extent 1.
fn folded(shape: &Shape, axes: &Range<usize>) -> Shape {
    shape.iter().enumerate().map(|(axis, extent)| if axes.contains(&axis) { 1 } else { *extent }).collect()
}

/// The steps and inputs of a chain of kernels while they are joined into one kernel of rows.
struct Chain<'a> {
    program: &'a Program,
    shape: &'a Shape,
    /// The values that the chain reads from memory, in the order of its input indices.
    inputs: Vec<ValueId>,
    steps: Vec<RowStep>,
    /// The outputs of the chain's kernels so far, as expressions of its inputs and steps.
    known: HashMap<ValueId, Expression>,
}

impl Chain<'_> {
    /// Returns a value as an expression. A value that the chain does not compute becomes an input.
    fn of(&mut self, id: ValueId) -> Expression {
        if let Some(known) = self.known.get(&id) {
            return known.clone();
        }
        let index = self.inputs.iter().position(|input| *input == id).unwrap_or_else(|| {
            self.inputs.push(id);
            self.inputs.len() - 1
        });
        Expression::Input(index)
    }

    /// Adds a step and returns its result as an expression.
    fn step(&mut self, step: RowStep) -> Expression {
        self.steps.push(step);
        Expression::Input(MADE + self.steps.len() - 1)
    }

    /// Returns the expression with each input replaced by the expression of its value.
    fn with(&mut self, expression: &Expression, inputs: &[ValueId]) -> Expression {
        // Unused inputs must not become inputs of the chain.
        let read = |(index, id): (usize, &ValueId)| expression.reads(index).then(|| self.of(*id));
        let inputs: Vec<Option<Expression>> = inputs.iter().enumerate().map(read).collect();
        expression.substitute(&|input| inputs[input].clone().expect("the input is read"))
    }

    /// Adds the steps of a kernel to the chain.
    fn add(&mut self, kernel: &Kernel) {
        let made = match (&kernel.primitive, &kernel.epilogue) {
            (Primitive::Map { expression, shape, .. }, _) => {
                let made = self.with(expression, &kernel.inputs);
                if shape == self.shape { made } else { self.step(RowStep::Map(made)) }
            }
            (Primitive::Reduce { reduction, .. }, Epilogue::Float(epilogue)) => {
                let of = self.of(kernel.inputs[0]);
                let folded = self.step(RowStep::Fold(*reduction, of));
                let own = [&kernel.outputs[..], &kernel.operands].concat();
                self.known.insert(own[0], folded.clone());
                let made = self.with(epilogue, &own);
                if epilogue.is_identity() { folded } else { self.step(RowStep::Map(made)) }
            }
            (other, _) => unreachable!("{} is in no chain", other.name()),
        };
        self.known.insert(kernel.outputs[0], made);
    }

    /// Returns the rows that compute the value `output`, and the values that the rows read.
    fn finish(mut self, output: ValueId, axes: &Range<usize>) -> (Rows, Vec<ValueId>) {
        let (result, inputs) = (self.of(output), self.inputs.len());
        let renumber = |expression: &Expression| {
            expression.substitute(&|input| match input.checked_sub(MADE) {
                Some(step) => Expression::Input(inputs + step),
                None => Expression::Input(input),
            })
        };
        let steps = self.steps.iter().map(|step| match step {
            RowStep::Fold(reduction, expression) => RowStep::Fold(*reduction, renumber(expression)),
            RowStep::Map(expression) => RowStep::Map(renumber(expression)),
            RowStep::Across(..) => unreachable!("only a fold that is split has parts"),
        });
        let rows = Rows {
            shape: self.shape.clone(),
            axes: axes.clone(),
            steps: steps.collect(),
            result: renumber(&result),
            is_folded: self.program.shape(output) != self.shape,
            is_part: false,
            scalar: self.program.value(output).scalar,
        };
        (rows, self.inputs)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fuse;
    use super::*;
    use crate::kernel::DeviceLimits;
    use attache_gpu_ir::Expression::{Constant, Input};
    use attache_gpu_ir::{BinaryOp, HostTensor, ReduceOp, UnaryOp, interpret};

    fn reduce(program: &mut Program, reduction: ReduceOp, axes: &[usize], input: ValueId) -> ValueId {
        program.step(Primitive::Reduce { reduction, axes: axes.into() }, &[input], 0).unwrap()[0]
    }

    fn map(program: &mut Program, expression: Expression, inputs: &[ValueId]) -> ValueId {
        let shape = program.shape(inputs[0]).clone();
        program.step(Primitive::Map { expression, shape, scalar: Scalar::F32 }, inputs, 1).unwrap()[0]
    }

    /// Returns the fused kernels of a program. If there is a kernel of rows, its output is checked against
    /// the program's.
    fn joined(program: &Program) -> Vec<Kernel> {
        let kernels = fuse(program, &DeviceLimits::default());
        let Some(kernel) = kernels.iter().find(|kernel| matches!(kernel.primitive, Primitive::Rows(_))) else {
            return kernels;
        };
        let element = |index: usize| f64::from((index * 7 % 11) as f32 / 4.0 - 1.0);
        let tensors: Vec<HostTensor> = (program.inputs.iter())
            .map(|id| {
                HostTensor::new(program.shape(*id).clone(), (0..program.shape(*id).elements()).map(element).collect())
            })
            .collect();
        let mut alone = Program::default();
        let inputs: Vec<ValueId> =
            kernel.inputs.iter().map(|id| alone.input(Scalar::F32, program.shape(*id).clone())).collect();
        alone.outputs = alone.step(kernel.primitive.clone(), &inputs, 0).unwrap();
        let index =
            |id: &ValueId| program.inputs.iter().position(|input| input == id).expect("an input of the program");
        let given: Vec<HostTensor> = kernel.inputs.iter().map(|id| tensors[index(id)].clone()).collect();
        let [found, expected] =
            [(&alone, &given), (program, &tensors)].map(|(p, t)| interpret(p, t).unwrap().remove(0));
        let differs = |(a, b): (&f64, &f64)| (a - b).abs() > 1e-6;
        assert!(!found.elements.iter().zip(&expected.elements).any(differs), "{found:?} is not {expected:?}");
        kernels
    }

    fn softmax(shape: &[usize]) -> (Program, ValueId) {
        let mut program = Program::default();
        let (input, axis) = (program.input(Scalar::F32, shape.into()), shape.len() - 1);
        let largest = reduce(&mut program, ReduceOp::Maximum, &[axis], input);
        let powers = map(&mut program, Input(0).subtract(Input(1)).unary(UnaryOp::Exponential), &[input, largest]);
        let sum = reduce(&mut program, ReduceOp::Sum, &[axis], powers);
        program.outputs = vec![map(&mut program, Input(0).divide(Input(1)), &[powers, sum])];
        (program, sum)
    }

    #[test]
    fn a_softmax_is_one_kernel() {
        let kernels = joined(&softmax(&[2, 5]).0);
        let [Kernel { primitive: Primitive::Rows(rows), .. }] = &*kernels else { panic!("{kernels:?}") };
        assert_eq!((rows.steps.len(), rows.is_folded, rows.axes.clone()), (2, false, 1..2));
    }

    #[test]
    fn a_normalisation_over_the_image_is_one_kernel() {
        let mut program = Program::default();
        let (input, scale) = (program.input(Scalar::F32, [2, 3, 4, 5].into()), program.input(Scalar::F32, [5].into()));
        let mean = reduce(&mut program, ReduceOp::Mean, &[1, 2], input);
        let difference = || Input(0).subtract(Input(1));
        let squares = map(&mut program, difference().multiply(difference()), &[input, mean]);
        let variance = reduce(&mut program, ReduceOp::Mean, &[1, 2], squares);
        let root = map(&mut program, Input(0).add(Constant(1e-3)).unary(UnaryOp::InverseSquareRoot), &[variance]);
        let scaled = difference().multiply(Input(2)).multiply(Input(3));
        program.outputs = vec![map(&mut program, scaled, &[input, mean, root, scale])];
        assert_eq!(joined(&program).len(), 1);
    }

    #[test]
    fn a_map_read_only_by_a_reduction_is_computed_there() {
        let mut program = Program::default();
        let input = program.input(Scalar::F32, [3, 4].into());
        let squares = map(&mut program, Input(0).multiply(Input(0)), &[input]);
        let sum = reduce(&mut program, ReduceOp::Sum, &[1], squares);
        let norm = Input(1).unary(UnaryOp::SquareRoot).binary(BinaryOp::Maximum, Constant(1e-6));
        program.outputs = vec![map(&mut program, Input(0).divide(norm), &[input, sum])];
        assert_eq!(joined(&program).len(), 1);
        program.outputs.push(squares);
        assert_eq!(fuse(&program, &DeviceLimits::default()).len(), 2, "the squares are an output");
    }

    #[test]
    fn other_readers_end_a_chain() {
        let (mut program, sum) = softmax(&[2, 5]);
        program.outputs.push(sum);
        assert_eq!(fuse(&program, &DeviceLimits::default()).len(), 3, "powers and sums are both needed");
        let (program, _) = softmax(&[2, MAX_EXTENT + 1]);
        assert_eq!(fuse(&program, &DeviceLimits::default()).len(), 4, "a row is too long");
    }

    #[test]
    fn other_rows_end_a_chain() {
        let mut program = Program::default();
        let input = program.input(Scalar::F32, [2, 3, 4].into());
        let outer = reduce(&mut program, ReduceOp::Maximum, &[0, 2], input);
        let inner = map(&mut program, Input(0).subtract(Input(1)), &[input, outer]);
        program.outputs = vec![reduce(&mut program, ReduceOp::Sum, &[2], inner)];
        let kernels = fuse(&program, &DeviceLimits::default());
        assert!(matches!(&kernels[0].primitive, Primitive::Reduce { .. }), "axes that are no neighbours: {kernels:?}");
        assert_eq!(kernels.len(), 2, "the map is computed in the sum");
    }
}

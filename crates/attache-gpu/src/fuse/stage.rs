//! Stages the rows of products with few rows: what makes the left matrix, such as a normalization, a softmax, a rotation or
//! an activation, becomes the prologue of the products that alone read it. Each of their work groups computes the rows in
//! its own memory. Where rows are scaled in front of products on matrices, these scale their results instead, and both products
//! of a gated layer become one kernel.

use std::collections::BTreeSet;

use attache_gpu_ir::{Primitive, Program, RowStep, Rows, Scalar, ValueId};

use super::{is_float_concatenation, split};
use crate::kernel::{DeviceLimits, Kernel, roots, scales_rows, staged_rows, takes_twin};

/// Maximum products that compute the same rows.
const MAX_READERS: usize = 4;

/// Number of columns of all products beyond which so many work groups compute rows that sums in order, which take long, are
/// better made once.
const MANY_COLUMNS: usize = 4096;

/// Moves what makes the left matrix of products with few rows into the products. Returns all kernels in execution order.
pub(super) fn stage(program: &Program, kernels: Vec<Kernel>, limits: &DeviceLimits) -> Vec<Kernel> {
    let mut stages = Stages::new(program, kernels, limits);
    for index in 0..stages.kernels.len() {
        stages.move_into_readers(index);
    }
    for index in 0..stages.kernels.len() {
        stages.take_twin(index);
    }
    stages.kernels.into_iter().flatten().collect()
}

struct Stages<'a> {
    program: &'a Program,
    limits: &'a DeviceLimits,
    kernels: Vec<Option<Kernel>>,
    /// For each value, the value whose memory it uses, and for each of these the indices of the kernels that read it.
    roots: Vec<ValueId>,
    readers: Vec<BTreeSet<usize>>,
    /// For each value, the index of the kernel that computes it as its only output; `None` if there is none.
    makers: Vec<Option<usize>>,
    /// For each root, whether it is an output of the program.
    is_output: Vec<bool>,
}

impl<'a> Stages<'a> {
    fn new(program: &'a Program, kernels: Vec<Kernel>, limits: &'a DeviceLimits) -> Self {
        let roots = roots(program);
        let mut readers = vec![BTreeSet::new(); program.values.len()];
        for (index, kernel) in kernels.iter().enumerate() {
            for id in kernel.reads() {
                readers[roots[id.index()].index()].insert(index);
            }
        }
        let mut makers = vec![None; program.values.len()];
        for (index, kernel) in kernels.iter().enumerate() {
            if let [made] = kernel.outputs[..] {
                makers[made.index()] = Some(index);
            }
        }
        let mut is_output = vec![false; program.values.len()];
        program.outputs.iter().for_each(|id| is_output[roots[id.index()].index()] = true);
        Self { program, limits, kernels: kernels.into_iter().map(Some).collect(), roots, readers, makers, is_output }
    }

    /// Makes a kernel the prologue of all kernels that read its output, if each of them is a product of which the output is the
    /// left matrix, and can compute it or scale its results instead.
    fn move_into_readers(&mut self, index: usize) {
        let Some(first) = self.kernels[index].as_ref().filter(|kernel| self.makes_rows(kernel)) else { return };
        let made = first.outputs[0];
        let readers = self.readers[made.index()].clone();
        if self.is_output[made.index()] || !(1..=MAX_READERS).contains(&readers.len()) {
            return;
        }
        let fused: Option<Vec<Kernel>> = readers.iter().map(|reader| self.fused(first, *reader)).collect();
        let Some(fused) = fused else { return };
        let read: Vec<ValueId> = first.reads().collect();
        for (reader, kernel) in readers.into_iter().zip(fused) {
            self.kernels[reader] = Some(kernel);
            read.iter().for_each(|id| {
                self.readers[self.roots[id.index()].index()].insert(reader);
            });
        }
        read.iter().for_each(|id| {
            self.readers[self.roots[id.index()].index()].remove(&index);
        });
        self.kernels[index] = None;
    }

    /// Makes a product of the same scaled rows, which only the epilogue of another product reads, a part of that product: both
    /// are the products of a gated layer.
    fn take_twin(&mut self, index: usize) {
        let Some(kernel) = &self.kernels[index] else { return };
        let root = |id: ValueId| self.roots[id.index()];
        let reads = |id: ValueId| kernel.reads().filter(|read| root(*read) == id).count();
        let is_viewed = |id: ValueId| kernel.views.iter().any(|view| root(view.value) == id || root(view.source) == id);
        let is_alone = |id: ValueId| self.readers[id.index()].len() == 1 && !self.is_output[id.index()];
        let operands = kernel.operands.iter().filter(|id| is_alone(**id) && reads(**id) == 1 && !is_viewed(**id));
        let twins = operands.filter_map(|id| {
            let position = self.makers[id.index()]?;
            let twin = self.kernels[position].as_ref()?;
            takes_twin(self.program, kernel, twin, self.limits).then_some((position, twin))
        });
        let Some((position, twin)) = twins.into_iter().next() else { return };
        let mut fused = kernel.clone();
        fused.take_map(twin.clone());
        if fused.bindings() < self.limits.max_bindings {
            (self.kernels[index], self.kernels[position]) = (Some(fused), None);
        }
    }

    /// Whether a kernel makes floats that a work group can compute row by row.
    fn makes_rows(&self, kernel: &Kernel) -> bool {
        let is_float = |id: &ValueId| self.program.value(*id).scalar == Scalar::F32;
        let can_be_first = match &kernel.primitive {
            Primitive::Map { .. } => true,
            Primitive::Rows(rows) => is_along_last(rows),
            _ => is_float_concatenation(self.program, kernel),
        };
        can_be_first && kernel.outputs.iter().all(is_float) && self.program.shape(kernel.outputs[0]).elements() > 0
    }

    /// Returns the kernel `reader` with `first` as its prologue; `None` if it cannot have it.
    fn fused(&self, first: &Kernel, reader: usize) -> Option<Kernel> {
        let made = first.outputs[0];
        let kernel = self.kernels[reader].as_ref()?;
        let is_made = |id: ValueId| self.roots[id.index()] == made;
        let read: usize = kernel.reads().filter(|id| is_made(*id)).count();
        if kernel.prologue.is_some() || !is_made(kernel.inputs[0]) || read != 1 || !self.fits(first, kernel) {
            return None;
        }
        let mut fused = kernel.clone();
        fused.take_prologue(first.clone());
        // The views of both kernels are one list now.
        (self.fits(first, &fused) && fused.bindings() < self.limits.max_bindings).then_some(fused)
    }

    /// Whether the work groups of a product can compute what `first` makes, or scale their results instead, and should.
    fn fits(&self, first: &Kernel, kernel: &Kernel) -> bool {
        let Some([rows, depth]) = staged_rows(self.program, kernel, self.limits) else {
            return scales_rows(self.program, kernel, first, self.limits);
        };
        let columns = self.program.shape(kernel.outputs[0]).elements() / rows;
        match &first.primitive {
            Primitive::Rows(made) => {
                made.extent() == depth && (!adds_in_order(made) || (rows == 1 && columns <= MANY_COLUMNS))
            }
            _ => true,
        }
    }
}

/// Whether one invocation adds the elements of a row one after the other.
fn adds_in_order(rows: &Rows) -> bool {
    rows.steps.iter().any(|step| matches!(step, RowStep::Fold(reduction, of) if reduction.depends_on_order(of)))
}

/// Whether rows extend along the last axes, are not parts of longer rows, and each element of them is computed.
fn is_along_last(rows: &Rows) -> bool {
    let has_parts = rows.is_part || rows.steps.iter().any(|step| matches!(step, RowStep::Across(..)));
    let inner: usize = rows.shape[rows.axes.end..].iter().product();
    !has_parts && !rows.is_folded && inner == 1 && (1..=split::MAX_EXTENT).contains(&rows.extent())
}

#[cfg(test)]
mod tests {
    use attache_base::Constant;
    use attache_gpu_ir::{Expression, ReduceOp, UnaryOp};

    use crate::fuse::fuse;
    use crate::fuse::tests::pointwise;
    use crate::kernel::Matrices;

    use super::*;

    fn map(program: &mut Program, expression: Expression, inputs: &[ValueId]) -> ValueId {
        let shape = program.shape(inputs[0]).clone();
        program.step(Primitive::Map { expression, shape, scalar: Scalar::F32 }, inputs, 0).unwrap()[0]
    }

    /// Returns the rows of an input, each divided by the root of the mean of its squares.
    fn normalized(program: &mut Program, rows: usize) -> ValueId {
        let data = program.input(Scalar::F32, [rows, 8].into());
        normalized_from(program, data)
    }

    fn normalized_from(program: &mut Program, data: ValueId) -> ValueId {
        let [x, y] = [0, 1].map(Expression::Input);
        let squares = map(program, x.clone().multiply(x.clone()), &[data]);
        let mean = Primitive::Reduce { reduction: ReduceOp::Mean, axes: vec![1] };
        let mean = program.step(mean, &[squares], 0).unwrap()[0];
        let root = map(program, x.clone().unary(UnaryOp::InverseSquareRoot), &[mean]);
        map(program, x.multiply(y), &[data, root])
    }

    fn projected(program: &mut Program, value: ValueId) -> ValueId {
        let rows = program.shape(value)[0];
        let image = program.step(Primitive::Reshape([1, 1, rows, 8].into()), &[value], 0).unwrap()[0];
        let filter = program.constant(Scalar::F32, Constant::from_values([12, 1, 1, 8], &[1.0f32; 96]));
        program.step(pointwise([1, rows]), &[image, filter], 0).unwrap()[0]
    }

    /// Returns the rows of a map, each divided by the root of the mean of its squares.
    fn scaled(program: &mut Program, rows: usize) -> ValueId {
        let input = program.input(Scalar::F32, [rows, 8].into());
        let data = map(program, Expression::Input(0).unary(UnaryOp::Tanh), &[input]);
        normalized_from(program, data)
    }

    /// Returns the limits of a device that multiplies matrices.
    fn on_matrices() -> DeviceLimits {
        DeviceLimits {
            max_bindings: 8,
            max_invocations: 256,
            work_group_bytes: 32768,
            matrices: Matrices::Emulated,
            ..DeviceLimits::default()
        }
    }

    fn kernels(program: &Program) -> usize {
        let kernels = fuse(program, &DeviceLimits { max_bindings: 8, ..DeviceLimits::default() });
        crate::kernel::validate(program, &kernels, "fusion").unwrap();
        kernels.len()
    }

    #[test]
    fn a_normalization_is_computed_within_products_with_few_rows() {
        for (rows, expected) in [(1, 1), (4, 1), (5, 2)] {
            let mut program = Program::default();
            let made = normalized(&mut program, rows);
            program.outputs = vec![projected(&mut program, made)];
            assert_eq!(kernels(&program), expected, "{rows} rows");
        }
        let mut program = Program::default();
        let made = normalized(&mut program, 2);
        program.outputs = vec![projected(&mut program, made), projected(&mut program, made)];
        assert_eq!(kernels(&program), 2, "both products compute it");
    }

    #[test]
    fn products_on_matrices_scale_what_a_normalization_reads() {
        let limits = on_matrices();
        for (rows, limits, expected) in [(20, &limits, 2), (20, &DeviceLimits::default(), 3), (5, &limits, 3)] {
            let mut program = Program::default();
            let scaled = scaled(&mut program, rows);
            let factors = program.constant(Scalar::F32, Constant::from_values([8], &[0.5f32; 8]));
            let made = map(&mut program, Expression::Input(0).multiply(Expression::Input(1)), &[scaled, factors]);
            program.outputs = vec![projected(&mut program, made)];
            let kernels = fuse(&program, limits);
            crate::kernel::validate(&program, &kernels, "fusion").unwrap();
            assert_eq!(kernels.len(), expected, "{rows} rows");
        }
    }

    #[test]
    fn both_products_of_a_gated_layer_are_one_kernel() {
        let limits = on_matrices();
        for (is_reshaped, expected) in [(false, 2), (true, 4)] {
            let mut program = Program::default();
            let made = scaled(&mut program, 20);
            let sides = [0, 1].map(|_| projected(&mut program, made));
            let gate = Expression::Input(0).unary(UnaryOp::Tanh).multiply(Expression::Input(1));
            let mut output = map(&mut program, gate, &sides);
            if is_reshaped {
                // The results of the twin are read in another shape as well.
                let flat = program.step(Primitive::Reshape([20, 12].into()), &[sides[1]], 0).unwrap()[0];
                output = map(&mut program, Expression::Input(0).add(Expression::Input(1)), &[output, flat]);
            }
            program.outputs = vec![output];
            let kernels = fuse(&program, &limits);
            crate::kernel::validate(&program, &kernels, "fusion").unwrap();
            let twins = kernels.iter().filter(|kernel| kernel.twin().is_some()).count();
            assert_eq!((kernels.len() <= expected, twins), (true, usize::from(!is_reshaped)), "{kernels:?}");
        }
    }

    #[test]
    fn what_others_read_is_stored() {
        let mut program = Program::default();
        let made = normalized(&mut program, 2);
        program.outputs = vec![projected(&mut program, made), made];
        assert_eq!(kernels(&program), 2, "it is an output");
        let mut program = Program::default();
        let made = normalized(&mut program, 2);
        let right = Primitive::MatMul { transposed: [false, true], order: Vec::new() };
        program.outputs = program.step(right, &[made, made], 0).unwrap();
        assert_eq!(kernels(&program), 2, "it is both matrices");
    }

    #[test]
    fn a_gate_is_computed_within_the_next_product() {
        let mut program = Program::default();
        let data = program.input(Scalar::F32, [1, 8].into());
        let [x, y] = [0, 1].map(Expression::Input);
        let sides = [0, 1].map(|_| {
            let image = program.step(Primitive::Reshape([1, 1, 1, 8].into()), &[data], 0).unwrap()[0];
            let filter = program.constant(Scalar::F32, Constant::from_values([8, 1, 1, 8], &[1.0f32; 64]));
            program.step(pointwise([1, 1]), &[image, filter], 0).unwrap()[0]
        });
        let gate = map(&mut program, x.clone().unary(UnaryOp::Logistic), &[sides[0]]);
        let gated = map(&mut program, x.multiply(y), &[gate, sides[1]]);
        let rows = program.step(Primitive::Reshape([1, 8].into()), &[gated], 0).unwrap()[0];
        program.outputs = vec![projected(&mut program, rows)];
        let limits = DeviceLimits { max_bindings: 8, ..DeviceLimits::default() };
        let merged = crate::fuse::merge(&program, &limits).unwrap();
        assert_eq!([kernels(&program), kernels(&crate::fuse::defer(&merged))], [3, 2]);
    }
}

//! Fusion: assigns the steps of a program to kernels, each of which runs in one dispatch or in a few.
//!
//! These rules are applied in the order of the steps:
//!
//! - A map becomes one kernel with maps that compute its inputs, and the epilogue of another kernel that computes one.
//! - Maps that a concatenation or an update alone reads are computed where it loads them, and so are concatenations that an
//!   update alone reads.
//! - Padding with the data's zero point becomes the padding of the convolution that reads it.
//! - A depthwise convolution, or an average pool with one output pixel, becomes the prologue of the pointwise
//!   convolution that reads it.
//! - Data movement, and integers that are only cast to float, are fused into their consumers, which read the source.
//! - A reshape needs no kernel, since its output shares the memory of its input.
//!
//! Finally, the module `rows` joins reductions and maps along the same rows into one kernel, and `stage` moves what makes
//! the left matrix of a product with few rows into the product, and what scales rows into a product on matrices. Four modules
//! are passes of their own: `scaled_products`, which comes first, scales products in place of their matrices, `siblings`
//! merges convolutions of the same data, `deferral` moves reshapes and transposes behind other steps, and `split`, which
//! comes last, splits long reductions.

mod compose;
mod deferral;
mod order;
mod padding;
mod prologue;
mod rows;
mod scaled_products;
mod siblings;
mod split;
mod stage;
mod strided;
mod views;

use attache_gpu_ir::{Index, IndexMap, Primitive, Program, Scalar, Source, Step, ValueId};

use self::compose::{Composed, read_once};
pub(crate) use self::deferral::defer;
use self::order::{Order, Position};
pub(crate) use self::scaled_products::scale_products;
pub(crate) use self::siblings::merge;
pub(crate) use self::split::split;
use self::views::Views;
use crate::kernel::{DeviceLimits, Epilogue, Kernel, View};

/// Maximum nodes of an expression tree that fusion composes. Kernels whose composed expression would be
/// larger are not fused.
const MAX_SIZE: usize = 200;

/// Fuses the steps of a program into kernels and returns the kernels in a valid execution order. Fusion never
/// makes a kernel bind more buffers than the limits allow. A kernel that exceeds the limit does so because
/// its step alone needs that many.
#[must_use]
pub fn fuse(program: &Program, limits: &DeviceLimits) -> Vec<Kernel> {
    let (views, kernels) = (Views::default(), Order::default());
    let (uses, is_combined) = (uses(program), is_combined(program));
    let mut fuser = Fuser { program, uses, is_combined, views, kernels, limits };
    for step in &program.steps {
        fuser.add(step);
    }
    for id in &program.outputs {
        fuser.store(*id);
    }
    let kernels = rows::join(program, fuser.kernels.into_kernels(), limits.max_bindings);
    stage::stage(program, kernels, limits)
}

/// Returns for each value the number of steps that read it. Each occurrence among the program's outputs
/// counts as another reader.
fn uses(program: &Program) -> Vec<usize> {
    let mut uses = vec![0; program.values.len()];
    for step in &program.steps {
        let mut inputs = step.inputs.clone();
        inputs.sort_unstable();
        inputs.dedup();
        inputs.iter().for_each(|id| uses[id.index()] += 1);
    }
    program.outputs.iter().for_each(|id| uses[id.index()] += 1);
    uses
}

/// Returns for each value whether a map or a reduction reads it.
fn is_combined(program: &Program) -> Vec<bool> {
    let mut is_combined = vec![false; program.values.len()];
    for step in &program.steps {
        if matches!(step.primitive, Primitive::Map { .. } | Primitive::IntMap { .. } | Primitive::Reduce { .. }) {
            step.inputs.iter().for_each(|id| is_combined[id.index()] = true);
        }
    }
    is_combined
}

fn is_map(kernel: &Kernel) -> bool {
    matches!(kernel.primitive, Primitive::Map { .. } | Primitive::IntMap { .. })
}

fn is_float_concatenation(program: &Program, kernel: &Kernel) -> bool {
    let mut values = kernel.inputs.iter().chain(&kernel.outputs);
    matches!(kernel.primitive, Primitive::Concatenate { .. })
        && values.all(|id| program.value(*id).scalar == Scalar::F32)
}

struct Fuser<'a> {
    program: &'a Program,
    uses: Vec<usize>,
    /// For each value, whether a map or a reduction reads it.
    is_combined: Vec<bool>,
    views: Views,
    kernels: Order,
    limits: &'a DeviceLimits,
}

impl Fuser<'_> {
    fn add(&mut self, step: &Step) {
        if let Some(map) = views::moves(self.program, step) {
            if !self.views.note(step, &map) {
                self.store(step.inputs[0]);
                self.views.note(step, &map);
            }
            return;
        }
        let (primitive, inputs) = (step.primitive.clone(), step.inputs.clone());
        let mut kernel = Kernel::of(primitive, inputs, step.outputs.clone(), vec![step.origin]);
        if let Primitive::Convolution(_) = step.primitive {
            self.absorb_padding(&mut kernel);
        }
        for id in self.views.resolve(&mut kernel, &self.uses) {
            self.store(id);
        }
        let kernel = match &step.primitive {
            Primitive::Reshape(_) => return,
            Primitive::Map { .. } | Primitive::IntMap { .. } => self.join_producers(read_once(kernel)),
            Primitive::Convolution(_) => self.fuse_prologue(kernel),
            Primitive::Concatenate { .. } | Primitive::Update => self.compute_inputs(kernel),
            Primitive::Window(_) | Primitive::Resample(_) | Primitive::ArgReduce { .. } | Primitive::TopK { .. } => {
                self.read_integers(kernel)
            }
            _ => kernel,
        };
        self.kernels.push(kernel);
    }

    /// Adds a kernel that computes and stores the value, if it is a pending view.
    fn store(&mut self, id: ValueId) {
        let Some((View { value, source, map }, origins)) = self.views.take(id) else { return };
        self.kernels.push(Kernel::of(Primitive::IndexMap(map), vec![source], vec![value], origins));
    }

    /// Returns the position of the kernel that computes `id`, and the kernel, if `id` has only one reader and
    /// is the kernel's only output.
    fn sole_producer(&self, id: ValueId) -> Option<(Position, &Kernel)> {
        let produced = matches!(self.program.value(id).source, Source::Step(_)) && self.uses[id.index()] == 1;
        produced.then(|| self.kernels.maker(id)).flatten()
    }

    /// Fuses a map with kernels that compute its inputs in the map's own shape and type: with the last one, since the map's
    /// other inputs may be computed by later kernels than the first, then with all that are maps, and then with another,
    /// unless other maps or reductions read the result: these may become one kernel with the map. Returns the fused kernel,
    /// or the map if none qualifies.
    fn join_producers(&mut self, mut map: Kernel) -> Kernel {
        let mut takes_any = true;
        while let Some((position, joined)) = self.join_producer(&map, takes_any) {
            self.kernels.take(position);
            map = joined;
            takes_any = !self.is_combined[map.outputs[0].index()];
        }
        map
    }

    /// Fuses a map with the last of the kernels that compute its inputs, which is a map unless `takes_any` is set. Returns
    /// the position of that kernel and the fused one.
    fn join_producer(&self, map: &Kernel, takes_any: bool) -> Option<(Position, Kernel)> {
        let (shape, scalar) = match &map.primitive {
            Primitive::Map { shape, .. } => (shape, Scalar::F32),
            Primitive::IntMap { shape, .. } => (shape, Scalar::I32),
            _ => return None,
        };
        // Floats 0 and 1 that stand for integers are the same where a map of floats reads them.
        let is_alike = |id: ValueId, (_, kernel): &(Position, &Kernel)| {
            self.program.value(id).scalar == scalar || (scalar == Scalar::F32 && makes_truths(kernel))
        };
        let mut candidates: Vec<(usize, (Position, &Kernel))> = (map.inputs.iter().enumerate())
            .filter(|(_, id)| self.program.shape(**id) == shape)
            .filter_map(|(index, id)| Some((index, self.sole_producer(*id).filter(|made| is_alike(*id, made))?)))
            .collect();
        candidates.retain(|(_, (_, kernel))| takes_any || is_map(kernel));
        // A comparison does not take the place of a kernel whose epilogue the map could be.
        candidates.sort_by_key(|(_, (position, kernel))| (makes_truths(kernel), std::cmp::Reverse(*position)));
        let mut joined = (candidates.into_iter())
            .filter_map(|(index, (position, kernel))| Some((position, self.joined(kernel, map, index)?)));
        joined.next()
    }

    fn joined(&self, producer: &Kernel, map: &Kernel, index: usize) -> Option<Kernel> {
        let value = map.inputs[index];
        let mut kernel = producer.clone();
        kernel.outputs = map.outputs.clone();
        kernel.views.extend(map.views.iter().filter(|view| !producer.views.contains(view)).cloned());
        kernel.origins.extend(&map.origins);
        kernel.origins.sort_unstable();
        kernel.origins.dedup();
        let is_map = is_map(producer);
        // Each input of the map is the producer's output or an operand. Operands that the kernel does not
        // have yet are added.
        let operand_indices: Vec<Option<usize>> = (map.inputs.iter())
            .map(|id| {
                let operands = if is_map { &mut kernel.inputs } else { &mut kernel.operands };
                (*id != value).then(|| {
                    operands.iter().position(|operand| operand == id).unwrap_or_else(|| {
                        operands.push(*id);
                        operands.len() - 1
                    })
                })
            })
            .collect();
        let first = usize::from(!is_map);
        let composed = Composed { producer, operand_indices: &operand_indices, first };
        match &mut kernel.primitive {
            Primitive::Map { expression, scalar, .. } => {
                *expression = composed.float(map)?;
                *scalar = self.program.value(map.outputs[0]).scalar;
            }
            Primitive::IntMap { expression, .. } => *expression = composed.integer(self.program, map)?,
            _ => {
                kernel.epilogue = match &map.primitive {
                    Primitive::Map { .. } => Epilogue::Float(composed.float(map)?),
                    _ => Epilogue::Int(composed.integer(self.program, map)?),
                }
            }
        }
        (kernel.bindings() < self.limits.max_bindings).then_some(kernel)
    }

    /// Fuses the maps that compute what the kernel reads, itself or through a view, if nothing else reads it and no element
    /// is computed more than once. Returns the kernel, fused or unchanged.
    fn compute_inputs(&mut self, mut kernel: Kernel) -> Kernel {
        // The indices of an update are read for each element.
        let is_update = kernel.primitive == Primitive::Update;
        let count = if is_update { 2 } else { kernel.inputs.len() };
        if count >= self.limits.max_bindings {
            return kernel;
        }
        let inputs = kernel.inputs.clone();
        for id in inputs[..count].iter().copied() {
            let is_own = inputs.iter().filter(|input| **input == id).count() == 1;
            let mut fused = kernel.clone();
            let source = match self.squeezed(id).filter(|_| is_update && is_own && kernel.source(id) == id) {
                Some(view) => {
                    fused.views.push(view.clone());
                    view.source
                }
                None => kernel.source(id),
            };
            if !is_own || (kernel.source(id) != id && !self.is_plain_view(id, source)) {
                continue;
            }
            let takes = |kernel: &Kernel| is_map(kernel) || (is_update && is_float_concatenation(self.program, kernel));
            let Some((position, map)) = self.sole_producer(source).filter(|(_, map)| takes(map)) else { continue };
            fused.take_map(map.clone());
            if fused.bindings() < self.limits.max_bindings {
                kernel = fused;
                self.kernels.take(position);
            }
        }
        kernel
    }

    /// Returns the view of the input of a reshape that only adds or removes axes of extent 1, as which its output can be
    /// read; `None` if `id` is no such reshape or has several readers.
    fn squeezed(&self, id: ValueId) -> Option<View> {
        let Source::Step(step) = self.program.value(id).source else { return None };
        let Step { primitive: Primitive::Reshape(shape), inputs, .. } = &self.program.steps[step] else { return None };
        let from = self.program.shape(inputs[0]);
        let mut axes = (0..shape.rank()).filter(|axis| shape[*axis] != 1);
        let coordinate = |extent: &usize| match extent {
            1 => Some(Index::Constant(0)),
            extent => axes.next().filter(|axis| shape[*axis] == *extent).map(Index::Axis),
        };
        let coordinates = from.iter().map(coordinate).collect::<Option<Vec<_>>>()?;
        let map = IndexMap { output: shape.to_vec(), coordinates, fill: None };
        (self.uses[id.index()] == 1).then_some(View { value: id, source: inputs[0], map })
    }

    /// Whether a view with one reader is the output of one step, which reads its source, and repeats no element. A view of
    /// a view may have other readers between.
    fn is_plain_view(&self, id: ValueId, source: ValueId) -> bool {
        let Source::Step(step) = self.program.value(id).source else { return false };
        let elements = |id| self.program.shape(id).elements();
        self.program.steps[step].inputs[0] == source && self.uses[id.index()] == 1 && elements(id) <= elements(source)
    }

    /// If the kernel's first input is a plain cast of integers to float, fuses the cast into the kernel,
    /// which then reads the integers directly, or through the cast's view of them. Returns the kernel, fused
    /// or unchanged. An arg-reduction compares the integers that it reads, so it takes only those that floats
    /// tell apart: bytes.
    fn read_integers(&mut self, mut kernel: Kernel) -> Kernel {
        let Some((position, producer)) = self.sole_producer(kernel.inputs[0]) else { return kernel };
        if !producer.views.is_empty() && !views::reads_each_once(&kernel.primitive) {
            return kernel;
        }
        let Primitive::Map { expression, shape, .. } = &producer.primitive else { return kernel };
        let takes_all = !matches!(kernel.primitive, Primitive::ArgReduce { .. });
        let is_integer = |id: &ValueId| {
            let value = self.program.value(*id);
            value.scalar == Scalar::I32 && &value.shape == shape && (takes_all || value.bytes.is_some())
        };
        if !expression.is_identity() || producer.inputs.len() != 1 || !is_integer(&producer.inputs[0]) {
            return kernel;
        }
        kernel.inputs[0] = producer.inputs[0];
        kernel.views.extend(producer.views.iter().cloned());
        kernel.origins.splice(0..0, producer.origins.iter().copied());
        kernel.origins.sort_unstable();
        kernel.origins.dedup();
        self.kernels.take(position);
        kernel
    }
}

/// Whether a kernel is a map of floats each of which is 0 or 1.
fn makes_truths(kernel: &Kernel) -> bool {
    matches!(&kernel.primitive, Primitive::Map { expression, .. } if expression.is_truth())
}

#[cfg(test)]
mod tests {
    use attache_base::Shape;
    use attache_gpu_ir::{BinaryOp, ConvolutionGeometry, Expression};

    use super::*;

    pub(in crate::fuse) fn pointwise(output: [usize; 2]) -> Primitive {
        Primitive::Convolution(ConvolutionGeometry::pointwise(output))
    }

    /// Returns the kernels of the halves of a tensor, rotated by angles and joined again: what attention does to positions.
    fn rotated(max_bindings: usize) -> Vec<Kernel> {
        let mut program = Program::default();
        let data = program.input(Scalar::F32, [4, 16].into());
        let angles = [0, 1].map(|_| program.input(Scalar::F32, [1, 8].into()));
        let mut step = |primitive, inputs: &[ValueId]| program.step(primitive, inputs, 0).unwrap()[0];
        let halves = [0, 8].map(|start| {
            let coordinates = vec![Index::Axis(0), Index::Axis(1).plus(start)];
            step(Primitive::IndexMap(IndexMap { output: vec![4, 8], coordinates, fill: None }), &[data])
        });
        let [x, y] = [0, 1].map(Expression::Input);
        let map = |expression| Primitive::Map { expression, shape: [4, 8].into(), scalar: Scalar::F32 };
        let parts = [(0, x.clone().subtract(y.clone())), (1, x.clone().add(y.clone()))].map(|(half, joined)| {
            let products = [half, 1 - half].map(|side| {
                step(map(x.clone().multiply(y.clone())), &[halves[side], angles[usize::from(side != half)]])
            });
            step(map(joined), &products)
        });
        let whole = step(Primitive::Concatenate { axis: 1 }, &parts);
        program.outputs = vec![whole];
        let kernels = fuse(&program, &DeviceLimits { max_bindings, ..DeviceLimits::default() });
        crate::kernel::validate(&program, &kernels, "fusion").unwrap();
        kernels
    }

    #[test]
    fn a_rotation_is_one_kernel_where_bindings_suffice() {
        let kernels = rotated(9);
        assert_eq!((kernels.len(), kernels[0].maps.len(), kernels[0].reads().count()), (1, 2, 8));
        assert_eq!(rotated(8).len(), 2, "one part is computed apart");
        assert_eq!(rotated(4).len(), 5, "each product is stored");
    }

    /// Slices of a padded value are views of the same map. The map is stored, also where something else reads the padding.
    #[test]
    fn a_map_behind_two_moves_is_stored() {
        for is_read in [false, true] {
            let mut program = Program::default();
            let data = program.input(Scalar::F32, [4, 6].into());
            let mut step = |primitive, inputs: &[ValueId]| program.step(primitive, inputs, 0).unwrap()[0];
            let expression = Expression::Input(0).add(Expression::Input(0));
            let double = step(Primitive::Map { expression, shape: [4, 6].into(), scalar: Scalar::F32 }, &[data]);
            let moved = |output: [usize; 2], plus: i64, fill| {
                let coordinates = vec![Index::Axis(0), Index::Axis(1).plus(plus)];
                Primitive::IndexMap(IndexMap { output: output.to_vec(), coordinates, fill })
            };
            let padded = step(moved([4, 8], -1, Some(0.0)), &[double]);
            let slices = [0, 4].map(|start| step(moved([4, 4], start, None), &[padded]));
            let joined = step(Primitive::Concatenate { axis: 1 }, &[slices[1], slices[0]]);
            program.outputs = vec![joined];
            program.outputs.extend(is_read.then_some(padded));
            let kernels = fuse(&program, &DeviceLimits { max_bindings: 9, ..DeviceLimits::default() });
            crate::kernel::validate(&program, &kernels, "fusion").unwrap();
            assert!(kernels.iter().all(|kernel| kernel.maps.is_empty()), "{kernels:?}");
        }
    }

    #[test]
    fn a_comparison_is_computed_where_it_selects() {
        for (is_compared, expected) in [(true, 1), (false, 2)] {
            let mut program = Program::default();
            let [x, y, z] = [0, 1, 2].map(Expression::Input);
            let inputs = [0, 1].map(|_| program.input(Scalar::F32, [4, 6].into()));
            let made = if is_compared { x.clone().binary(BinaryOp::Less, y.clone()) } else { x.clone().add(y.clone()) };
            let map = |expression, scalar| Primitive::Map { expression, shape: [4, 6].into(), scalar };
            let made = program.step(map(made, Scalar::I32), &inputs, 0).unwrap()[0];
            let selected = map(x.select(y, z), Scalar::F32);
            program.outputs = program.step(selected, &[made, inputs[0], inputs[1]], 0).unwrap();
            let kernels = fuse(&program, &DeviceLimits::default());
            crate::kernel::validate(&program, &kernels, "fusion").unwrap();
            assert_eq!(kernels.len(), expected, "integers are truncated, truths are not");
        }
    }

    #[test]
    fn a_value_with_other_readers_stays_a_kernel() {
        let mut program = Program::default();
        let shape = Shape::from([4]);
        let input = program.input(Scalar::F32, shape.clone());
        let square = Expression::Input(0).multiply(Expression::Input(0));
        let map = Primitive::Map { expression: square, shape, scalar: Scalar::F32 };
        let first = program.step(map.clone(), &[input], 0).unwrap()[0];
        let second = program.step(map, &[first], 1).unwrap()[0];
        program.outputs = vec![second];
        assert_eq!(
            fuse(&program, &DeviceLimits::default()).len(),
            1,
            "the second square reads the first twice, but alone"
        );
        program.outputs = vec![first, second];
        assert_eq!(fuse(&program, &DeviceLimits::default()).len(), 2);
    }
}

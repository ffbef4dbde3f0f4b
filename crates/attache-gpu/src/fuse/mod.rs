//! Fusion: assigns the steps of a program to kernels, each of which runs in one dispatch or in a few.
//!
//! These rules are applied in the order of the steps:
//!
//! - A map becomes the epilogue of the kernel that computes one of its inputs.
//! - Padding with the data's zero point becomes the padding of the convolution that reads it.
//! - A depthwise convolution, or an average pool with one output pixel, becomes the prologue of the pointwise
//!   convolution that reads it.
//! - Data movement, and integers that are only cast to float, are fused into their consumers, which read the source.
//! - A reshape needs no kernel, since its output shares the memory of its input.
//!
//! Finally, the module `rows` joins reductions and maps along the same rows into one kernel. Two modules are passes of
//! their own: `deferral`, which comes first, moves reshapes and transposes behind other steps, and `split`, which comes
//! last, splits long reductions.

mod compose;
mod deferral;
mod order;
mod padding;
mod prologue;
mod rows;
mod split;
mod strided;
mod views;

use attache_gpu_ir::{Expression, Primitive, Program, Scalar, Source, Step, ValueId};

use self::compose::{Composed, read_once};
pub(crate) use self::deferral::defer;
use self::order::{Order, Position};
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
    let mut fuser = Fuser { program, uses: uses(program), views, kernels, limits };
    for step in &program.steps {
        fuser.add(step);
    }
    for id in &program.outputs {
        fuser.store(*id);
    }
    rows::join(program, fuser.kernels.into_kernels(), limits.max_bindings)
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

struct Fuser<'a> {
    program: &'a Program,
    uses: Vec<usize>,
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
        let mut kernel = Kernel {
            primitive: step.primitive.clone(),
            inputs: step.inputs.clone(),
            prologue: None,
            epilogue: Epilogue::Float(Expression::Input(0)),
            operands: Vec::new(),
            views: Vec::new(),
            outputs: step.outputs.clone(),
            origins: vec![step.origin],
        };
        if let Primitive::Convolution(_) = step.primitive {
            self.absorb_padding(&mut kernel);
        }
        for id in self.views.resolve(&mut kernel, &self.uses) {
            self.store(id);
        }
        let kernel = match &step.primitive {
            Primitive::Reshape(_) => return,
            Primitive::Map { .. } | Primitive::IntMap { .. } => self.join_producer(read_once(kernel)),
            Primitive::Convolution(_) => self.fuse_prologue(kernel),
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
        self.kernels.push(Kernel {
            primitive: Primitive::IndexMap(map),
            inputs: vec![source],
            prologue: None,
            epilogue: Epilogue::Float(Expression::Input(0)),
            operands: Vec::new(),
            views: Vec::new(),
            outputs: vec![value],
            origins,
        });
    }

    /// Returns the position of the kernel that computes `id`, and the kernel, if `id` has only one reader and
    /// is the kernel's only output.
    fn sole_producer(&self, id: ValueId) -> Option<(Position, &Kernel)> {
        let produced = matches!(self.program.value(id).source, Source::Step(_)) && self.uses[id.index()] == 1;
        produced.then(|| self.kernels.maker(id)).flatten()
    }

    /// Fuses a map into a kernel that computes one of its inputs in the map's own shape and type. If several qualify,
    /// the last one is taken, since the map's other inputs may be computed by later kernels than the first. Returns the
    /// fused kernel, or the map if none qualifies.
    fn join_producer(&mut self, map: Kernel) -> Kernel {
        let (shape, scalar) = match &map.primitive {
            Primitive::Map { shape, .. } => (shape, Scalar::F32),
            Primitive::IntMap { shape, .. } => (shape, Scalar::I32),
            _ => return map,
        };
        let mut candidates: Vec<(usize, (Position, &Kernel))> = (map.inputs.iter().enumerate())
            .filter(|(_, id)| self.program.shape(**id) == shape && self.program.value(**id).scalar == scalar)
            .filter_map(|(index, id)| Some((index, self.sole_producer(*id)?)))
            .collect();
        candidates.sort_by_key(|(_, (position, _))| std::cmp::Reverse(*position));
        let mut joined = (candidates.into_iter())
            .filter_map(|(index, (position, kernel))| Some((position, self.joined(kernel, &map, index)?)));
        match joined.next() {
            Some((position, joined)) => {
                self.kernels.take(position);
                joined
            }
            None => map,
        }
    }

    fn joined(&self, producer: &Kernel, map: &Kernel, index: usize) -> Option<Kernel> {
        let value = map.inputs[index];
        let mut kernel = producer.clone();
        kernel.outputs = map.outputs.clone();
        kernel.views.extend(map.views.iter().filter(|view| !producer.views.contains(view)).cloned());
        kernel.origins.extend(&map.origins);
        kernel.origins.sort_unstable();
        kernel.origins.dedup();
        let is_map = matches!(producer.primitive, Primitive::Map { .. } | Primitive::IntMap { .. });
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
            Primitive::Map { expression, .. } => *expression = composed.float(map)?,
            Primitive::IntMap { expression, .. } => *expression = composed.integer(self.program, map)?,
            _ => {
                kernel.epilogue = match &map.primitive {
                    Primitive::Map { .. } => Epilogue::Float(composed.float(map)?),
                    _ => Epilogue::Int(composed.integer(self.program, map)?),
                }
            }
        }
        (self.bindings(&kernel) < self.limits.max_bindings).then_some(kernel)
    }

    /// Returns the number of buffers that a kernel reads. A value that is read as two different operands is
    /// bound twice and counts twice. With a prologue, the filters and biases of both kernels are packed into
    /// one buffer.
    fn bindings(&self, kernel: &Kernel) -> usize {
        let packed = |id: &ValueId| {
            let weights = [Some(kernel), kernel.prologue.as_deref()].into_iter().flatten().flat_map(|k| &k.inputs[1..]);
            kernel.prologue.is_some() && weights.into_iter().any(|weight| weight == id)
        };
        let made = usize::from(kernel.prologue.is_some());
        let first = kernel.prologue.iter().flat_map(|first| first.inputs.iter().chain(&first.operands));
        let read = kernel.inputs[made..].iter().chain(&kernel.operands).chain(first);
        read.filter(|id| !packed(id)).count() + usize::from(kernel.prologue.is_some())
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

#[cfg(test)]
mod tests {
    use attache_base::Shape;
    use attache_gpu_ir::ConvolutionGeometry;

    use super::*;

    pub(in crate::fuse) fn pointwise(output: [usize; 2]) -> Primitive {
        let (strides, dilations, before) = ([1, 1], [1, 1], [0, 0]);
        Primitive::Convolution(ConvolutionGeometry {
            strides,
            dilations,
            before,
            output,
            groups: 1,
            transposed: false,
            zero_points: [0; 2],
        })
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

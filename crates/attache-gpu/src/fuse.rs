//! Program to kernels: which steps run in one dispatch.
//!
//! Rules, applied in the order of the steps: a map joins the kernel that makes one of its inputs, as its epilogue; a
//! padding with zeros joins the contraction that reads it; a reshape is no kernel at all.

use attache_gpu_ir::{Contraction, Expression, IndexMap, Primitive, Program, Scalar, Source, Step, ValueId};

/// What one dispatch (or a few, where a binding limit asks for it) computes: a primitive, then an expression of its
/// result and further operands.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// What is done. Never a reshape.
    pub primitive: Primitive,
    /// What it reads.
    pub inputs: Vec<ValueId>,
    /// What becomes of each element before it is stored: `Input(0)` is the primitive's result, `Input(k)` the k-th
    /// operand. The identity for a map, whose expression already holds all.
    pub epilogue: Expression,
    /// Further operands of the epilogue, broadcast to the output.
    pub operands: Vec<ValueId>,
    /// What it makes.
    pub outputs: Vec<ValueId>,
    /// Whose work it is, ascending.
    pub origins: Vec<usize>,
}

impl Kernel {
    /// Everything that it reads.
    pub fn reads(&self) -> impl Iterator<Item = ValueId> + '_ {
        self.inputs.iter().chain(&self.operands).copied()
    }
}

/// The program's kernels, in an order in which they can run. No kernel binds more than `max_bindings` buffers that
/// would not have to anyway.
pub fn fuse(program: &Program, max_bindings: usize) -> Vec<Kernel> {
    let mut fuser = Fuser { program, uses: uses(program), kernels: Vec::new(), max_bindings };
    for step in &program.steps {
        fuser.add(step);
    }
    fuser.kernels
}

/// How many steps read each value; outputs of the program count as one more reader.
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
    kernels: Vec<Kernel>,
    max_bindings: usize,
}

impl Fuser<'_> {
    fn add(&mut self, step: &Step) {
        let kernel = Kernel {
            primitive: step.primitive.clone(),
            inputs: step.inputs.clone(),
            epilogue: Expression::Input(0),
            operands: Vec::new(),
            outputs: step.outputs.clone(),
            origins: vec![step.origin],
        };
        let kernel = match &step.primitive {
            Primitive::Reshape(_) => return,
            Primitive::Map { .. } => self.join_producer(read_once(kernel)),
            Primitive::Contract(_) => self.absorb_padding(kernel),
            _ => kernel,
        };
        self.kernels.push(kernel);
    }

    /// The kernel that makes `id`, where nothing else reads it and it makes nothing else.
    fn sole_producer(&self, id: ValueId) -> Option<usize> {
        let produced = matches!(self.program.value(id).source, Source::Step(_)) && self.uses[id.index()] == 1;
        produced.then(|| self.kernels.iter().rposition(|kernel| kernel.outputs == [id])).flatten()
    }

    /// A map becomes the epilogue of the kernel that makes one of its inputs in the map's own shape, contractions
    /// before others.
    fn join_producer(&mut self, map: Kernel) -> Kernel {
        let Primitive::Map { expression, shape, .. } = &map.primitive else { return map };
        let mut candidates: Vec<(usize, usize)> = (map.inputs.iter().enumerate())
            .filter(|(_, id)| self.program.shape(**id) == shape && self.program.value(**id).scalar == Scalar::F32)
            .filter_map(|(index, id)| Some((index, self.sole_producer(*id)?)))
            .collect();
        let weight = |kernel: usize| matches!(self.kernels[kernel].primitive, Primitive::Contract(_));
        candidates.sort_by_key(|(_, kernel)| (!weight(*kernel), std::cmp::Reverse(*kernel)));
        for (index, kernel) in candidates {
            if let Some(joined) = self.joined(&self.kernels[kernel], &map, index, expression) {
                self.kernels.remove(kernel);
                return joined;
            }
        }
        map
    }

    fn joined(&self, producer: &Kernel, map: &Kernel, index: usize, expression: &Expression) -> Option<Kernel> {
        let value = map.inputs[index];
        let mut kernel = producer.clone();
        kernel.outputs = map.outputs.clone();
        kernel.origins.extend(&map.origins);
        kernel.origins.sort_unstable();
        kernel.origins.dedup();
        let is_map = matches!(producer.primitive, Primitive::Map { .. });
        // Each of the map's inputs is the producer's result or an operand, added where it isn't one yet.
        let places: Vec<Option<usize>> = (map.inputs.iter())
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
        let inner = match &producer.primitive {
            Primitive::Map { expression, .. } => expression.clone(),
            _ => producer.epilogue.clone(),
        };
        let first = usize::from(!is_map);
        let expression = expression.substitute(&|input| match places[input] {
            None => inner.clone(),
            Some(place) => Expression::Input(place + first),
        });
        let mut bound: Vec<ValueId> = kernel.reads().collect();
        bound.sort_unstable();
        bound.dedup();
        if bound.len() >= self.max_bindings || expression.size() > 200 {
            return None;
        }
        match &mut kernel.primitive {
            Primitive::Map { expression: whole, .. } => *whole = expression,
            _ => kernel.epilogue = expression,
        }
        Some(kernel)
    }

    /// A padding of the two middle axes with zeros becomes the contraction's own.
    fn absorb_padding(&mut self, mut kernel: Kernel) -> Kernel {
        if kernel.inputs[1..].contains(&kernel.inputs[0]) {
            return kernel;
        }
        let Some(padding) = self.sole_producer(kernel.inputs[0]) else { return kernel };
        let Primitive::Contract(contraction) = &mut kernel.primitive else { return kernel };
        let producer = &self.kernels[padding];
        let Primitive::IndexMap(map) = &producer.primitive else { return kernel };
        if !producer.epilogue.is_identity() || contraction.transposed {
            return kernel;
        }
        let Some([top, left]) = zero_padding(map, self.program.shape(producer.inputs[0])) else { return kernel };
        let before = [contraction.before[0] + top, contraction.before[1] + left];
        *contraction = Contraction { before, ..contraction.clone() };
        kernel.inputs[0] = producer.inputs[0];
        kernel.origins.splice(0..0, producer.origins.iter().copied());
        self.kernels.remove(padding);
        kernel
    }
}

/// The map with each value among its inputs once.
fn read_once(mut map: Kernel) -> Kernel {
    let mut inputs: Vec<ValueId> = Vec::new();
    let places: Vec<usize> = (map.inputs.iter())
        .map(|id| {
            inputs.iter().position(|input| input == id).unwrap_or_else(|| {
                inputs.push(*id);
                inputs.len() - 1
            })
        })
        .collect();
    if let Primitive::Map { expression, .. } = &mut map.primitive {
        *expression = expression.substitute(&|input| Expression::Input(places[input]));
    }
    map.inputs = inputs;
    map
}

/// Rows and columns of zeros before the image, where the map does nothing but add zeros around its two middle axes.
fn zero_padding(map: &IndexMap, input: &[usize]) -> Option<[usize; 2]> {
    let shifts = map.shifts()?;
    let grows = |axis: usize| shifts[axis] >= 0 && map.output[axis] as i64 >= shifts[axis] + input[axis] as i64;
    let same = |axis: usize| shifts[axis] == 0 && map.output[axis] == input[axis];
    let fits = shifts.len() == 4 && same(0) && grows(1) && grows(2) && same(3) && map.fill == Some(0.0);
    fits.then(|| [shifts[1] as usize, shifts[2] as usize])
}

#[cfg(test)]
mod tests {
    use super::*;
    use attache_base::{Constant, Shape};
    use attache_gpu_ir::{Index, Unary};

    fn pointwise(output: [usize; 2]) -> Primitive {
        let (strides, dilations, before) = ([1, 1], [1, 1], [0, 0]);
        Primitive::Contract(Contraction { strides, dilations, before, output, groups: 1, transposed: false })
    }

    #[test]
    fn padding_and_activation_join_the_contraction() {
        let mut program = Program::default();
        let input = program.input(Scalar::F32, Shape::from([1, 4, 4, 1]));
        let coordinates = vec![Index::Axis(0), Index::Axis(1).plus(-1), Index::Axis(2).plus(-2), Index::Axis(3)];
        let pad = IndexMap { output: vec![1, 6, 8, 1], coordinates, fill: Some(0.0) };
        let padded = program.step(Primitive::IndexMap(pad), &[input], 0).unwrap()[0];
        let filter = program.constant(Scalar::F32, Constant::from_values([1, 1, 1, 1], &[2.0f32]));
        let product = program.step(pointwise([6, 8]), &[padded, filter], 1).unwrap()[0];
        let expression = Expression::Input(0).unary(Unary::Tanh);
        let map = Primitive::Map { expression, shape: Shape::from([1, 6, 8, 1]), scalar: Scalar::F32 };
        program.outputs = program.step(map, &[product], 2).unwrap();
        let kernels = fuse(&program, 4);
        assert_eq!(kernels.len(), 1);
        let Primitive::Contract(contraction) = &kernels[0].primitive else { panic!("{kernels:?}") };
        assert_eq!((contraction.before, &*kernels[0].origins), ([1, 2], &[0, 1, 2][..]));
        assert_eq!(kernels[0].epilogue.to_string(), "Tanh(in0)");
    }

    #[test]
    fn a_padding_that_is_filter_as_well_stays() {
        let mut program = Program::default();
        let input = program.input(Scalar::F32, Shape::from([1, 3, 3, 4]));
        let coordinates = vec![Index::Axis(0), Index::Axis(1).plus(-1), Index::Axis(2).plus(-1), Index::Axis(3)];
        let pad = IndexMap { output: vec![1, 5, 5, 4], coordinates, fill: Some(0.0) };
        let padded = program.step(Primitive::IndexMap(pad), &[input], 0).unwrap()[0];
        program.outputs = program.step(pointwise([1, 1]), &[padded, padded], 1).unwrap();
        assert_eq!(fuse(&program, 4).len(), 2);
    }

    #[test]
    fn what_others_read_stays_a_kernel() {
        let mut program = Program::default();
        let shape = Shape::from([4]);
        let input = program.input(Scalar::F32, shape.clone());
        let square = Expression::Input(0).multiply(Expression::Input(0));
        let map = Primitive::Map { expression: square, shape, scalar: Scalar::F32 };
        let first = program.step(map.clone(), &[input], 0).unwrap()[0];
        let second = program.step(map, &[first], 1).unwrap()[0];
        program.outputs = vec![second];
        assert_eq!(fuse(&program, 4).len(), 1, "the second square reads the first twice, but alone");
        program.outputs = vec![first, second];
        assert_eq!(fuse(&program, 4).len(), 2);
    }
}

//! Defers movement: rewrites a program so that reshapes, transposes and slices come as late as possible.
//!
//! A value that only has other places than the value that it was moved from is not made until a step needs it in its own
//! shape. Maps and reductions of a reshaped value are computed in the shape that the value had before, so that they fuse
//! with what makes it, and a transpose of a matrix product's result becomes the order of the product's axes.

use std::collections::HashMap;

use attache_base::Shape;
use attache_gpu_ir::{Primitive, Program, Source, Step, ValueId};

use super::strided::{Run, Strided, refined, regrouped};
use super::uses;

/// Returns the program with movement deferred. It computes the same.
#[must_use]
pub(crate) fn defer(program: &Program) -> Program {
    let mut made = Program { values: Vec::new(), steps: Vec::new(), inputs: Vec::new(), outputs: Vec::new() };
    let mut held: Vec<Option<Held>> = vec![None; program.values.len()];
    for (index, value) in program.values.iter().enumerate() {
        if !matches!(value.source, Source::Step(_)) {
            made.values.push(value.clone());
            let id = ValueId(made.values.len() as u32 - 1);
            held[index] = Some(Held::whole(id, &value.shape));
        }
    }
    let of = |id: &ValueId| held[id.index()].as_ref().map_or(*id, |held| held.base);
    made.inputs = program.inputs.iter().map(of).collect();
    let mut deferral = Deferral { program, uses: uses(program), made, held, reshapes: HashMap::new() };
    for step in &program.steps {
        if deferral.add(step).is_none() {
            // A step that was accepted before is accepted again. Were it not, the program would stay as it is.
            return program.clone();
        }
    }
    let outputs: Option<Vec<ValueId>> = program.outputs.iter().map(|id| deferral.value(*id)).collect();
    match outputs {
        Some(outputs) => Program { outputs, ..deferral.made },
        None => program.clone(),
    }
}

/// Where the elements of a value of the original program are: at these places of the value `base` of the new one.
#[derive(Clone, Debug)]
struct Held {
    base: ValueId,
    places: Strided,
}

impl Held {
    fn whole(base: ValueId, shape: &Shape) -> Self {
        Self { base, places: Strided::dense(shape.elements()) }
    }
}

struct Deferral<'a> {
    /// The original program.
    program: &'a Program,
    /// For each of its values, the number of readers.
    uses: Vec<usize>,
    made: Program,
    /// For each value of the original program, where it is; `None` before it is made.
    held: Vec<Option<Held>>,
    /// The reshaped forms of values of the new program.
    reshapes: HashMap<(ValueId, Shape), ValueId>,
}

impl Deferral<'_> {
    /// Adds a step of the original program. `None` if the new program does not accept it.
    fn add(&mut self, step: &Step) -> Option<()> {
        let is_empty = step.inputs.iter().chain(&step.outputs).any(|id| self.program.shape(*id).elements() == 0);
        let deferred = match &step.primitive {
            _ if is_empty => None,
            Primitive::Reshape(_) | Primitive::IndexMap(_) => self.moved(step),
            Primitive::Map { .. } | Primitive::IntMap { .. } => self.mapped(step),
            Primitive::Reduce { .. } => self.reduced(step),
            Primitive::MatMul { .. } => self.multiplied(step),
            _ => None,
        };
        if let Some(held) = deferred {
            self.held[step.outputs[0].index()] = Some(held);
            return Some(());
        }
        let inputs: Vec<ValueId> = step.inputs.iter().map(|id| self.value(*id)).collect::<Option<_>>()?;
        let outputs = self.made.step(step.primitive.clone(), &inputs, step.origin).ok()?;
        for (new, old) in outputs.into_iter().zip(&step.outputs) {
            self.take_over(new, *old);
            self.held[old.index()] = Some(Held::whole(new, self.program.shape(*old)));
        }
        Some(())
    }

    /// Gives a value of the new program what is known of how a value of the original one is stored.
    fn take_over(&mut self, new: ValueId, old: ValueId) {
        let (old, new) = (self.program.value(old), &mut self.made.values[new.index()]);
        (new.is_inner, new.bytes) = (old.is_inner, old.bytes);
    }

    fn held(&self, id: ValueId) -> Option<&Held> {
        self.held[id.index()].as_ref()
    }

    /// Whether a value of the original program has all elements of its base, in order.
    fn is_dense(&self, id: ValueId) -> bool {
        self.held(id).is_some_and(|held| held.places.is_dense(self.made.shape(held.base).elements()))
    }

    /// Returns where the output of a step that only moves elements is; `None` if the step has to be made.
    fn moved(&self, step: &Step) -> Option<Held> {
        let held = self.held(step.inputs[0])?;
        let places = match &step.primitive {
            Primitive::IndexMap(map) if map.fill.is_none() => {
                held.places.moved(self.program.shape(step.inputs[0]), map)?
            }
            Primitive::Reshape(_) => held.places.clone(),
            _ => return None,
        };
        Some(Held { base: held.base, places })
    }

    /// Returns the value of the new program that has the elements and the shape of a value of the original one. Makes it
    /// if there is none yet.
    fn value(&mut self, id: ValueId) -> Option<ValueId> {
        let shape = self.program.shape(id).clone();
        let value = self.shaped(id, &shape)?;
        if !self.is_dense(id) {
            self.held[id.index()] = Some(Held::whole(value, &shape));
        }
        Some(value)
    }

    /// Returns a value of the new program that has the elements of a value of the original one, in this shape.
    fn shaped(&mut self, id: ValueId, shape: &Shape) -> Option<ValueId> {
        let Held { base, places } = self.held(id)?.clone();
        if self.is_dense(id) {
            return self.reshaped(base, shape);
        }
        let Source::Step(origin) = self.program.value(id).source else { return None };
        let origin = self.program.steps[origin].origin;
        if let Some(ordered) = self.in_order(id) {
            return self.reshaped(ordered, shape);
        }
        let from = self.made.shape(base).clone();
        let flat = Shape::from([from.elements()]);
        let grids = [Some(from.clone()), places.grid(from.elements()).map(Shape::from), Some(flat)];
        let runs: Shape = places.runs().iter().map(|run| run.extent).collect();
        for (output, grid) in
            [shape, &runs].into_iter().flat_map(|output| grids.iter().flatten().map(move |g| (output, g)))
        {
            if let Some(map) = places.index_map(output, grid) {
                let source = self.reshaped(base, grid)?;
                let moved = self.made.step(Primitive::IndexMap(map), &[source], origin).ok()?[0];
                self.take_over(moved, id);
                return self.reshaped(moved, shape);
            }
        }
        None
    }

    /// Returns a value of the new program in another shape.
    fn reshaped(&mut self, value: ValueId, shape: &Shape) -> Option<ValueId> {
        if self.made.shape(value) == shape {
            return Some(value);
        }
        if let Some(known) = self.reshapes.get(&(value, shape.clone())) {
            return Some(*known);
        }
        let reshaped = self.made.step(Primitive::Reshape(shape.clone()), &[value], 0).ok()?[0];
        let (is_inner, bytes) = (self.made.value(value).is_inner, self.made.value(value).bytes);
        let made = &mut self.made.values[reshaped.index()];
        (made.is_inner, made.bytes) = (is_inner, bytes);
        self.reshapes.insert((value, shape.clone()), reshaped);
        Some(reshaped)
    }

    /// If a value is a permutation of a matrix product that nothing else reads, neither before nor after, makes the product
    /// store its axes in that order, and returns it.
    fn in_order(&mut self, id: ValueId) -> Option<ValueId> {
        let Held { base, places } = self.held(id)?.clone();
        let Source::Step(step) = self.made.value(base).source else { return None };
        let Primitive::MatMul { order: known, .. } = &self.made.steps[step].primitive else { return None };
        let shape = self.made.shape(base).clone();
        let is_read = || self.made.steps[step + 1..].iter().any(|step| step.inputs.contains(&base));
        let is_only = || self.is_alone(id, base) && self.held_of(base) == self.steps_from(id, base) && !is_read();
        if !known.is_empty() || !places.is_permutation(shape.elements()) || !is_only() {
            return None;
        }
        let strides = attache_base::strides(&shape);
        let mut order: Vec<usize> = Vec::with_capacity(shape.rank());
        for run in places.runs() {
            let mut left = *run;
            // A run may go along several neighbouring axes.
            let first = order.len();
            while left.extent > 1 {
                let axis = (0..shape.rank()).find(|axis| shape[*axis] > 1 && strides[*axis] == left.stride)?;
                if !left.extent.is_multiple_of(shape[axis]) {
                    return None;
                }
                order.insert(first, axis);
                left = Run { extent: left.extent / shape[axis], stride: left.stride * shape[axis] };
            }
        }
        order.extend((0..shape.rank()).filter(|axis| shape[*axis] == 1));
        let ordered: Shape = order.iter().map(|axis| shape[*axis]).collect();
        if let Primitive::MatMul { order: known, .. } = &mut self.made.steps[step].primitive {
            *known = order;
        }
        self.made.values[base.index()].shape = ordered;
        self.held[id.index()] = Some(Held::whole(base, &shape));
        Some(base)
    }

    /// Returns the number of values of the original program whose elements are those of `base`.
    fn held_of(&self, base: ValueId) -> usize {
        self.held.iter().flatten().filter(|held| held.base == base).count()
    }

    /// Returns the number of values of the original program from the first that is held by `base` to `id`, each of which
    /// is moved to the next.
    fn steps_from(&self, id: ValueId, base: ValueId) -> usize {
        let before = |at: &ValueId| match self.program.value(*at).source {
            Source::Step(step) => self.program.steps[step].inputs.first().copied(),
            Source::Input | Source::Constant(_) => None,
        };
        let is_of_base = |id: &ValueId| self.held(*id).is_some_and(|held| held.base == base);
        std::iter::successors(Some(id), before).take_while(is_of_base).count()
    }

    /// Whether a value of the original program is the only thing that is made of `base`, a value of the new one: between
    /// them, each value has one reader.
    fn is_alone(&self, id: ValueId, base: ValueId) -> bool {
        let mut at = id;
        while let Source::Step(step) = self.program.value(at).source {
            let step = &self.program.steps[step];
            let is_of_base = |id: ValueId| self.held(id).is_some_and(|held| held.base == base);
            if !matches!(step.primitive, Primitive::Reshape(_) | Primitive::IndexMap(_)) {
                return true;
            }
            at = step.inputs[0];
            if self.uses[at.index()] != 1 || !is_of_base(at) {
                return false;
            }
        }
        false
    }

    /// Computes a map in the shape of the value that one of its inputs was moved from. Returns where its output is;
    /// `None` if the map is computed in its own shape.
    fn mapped(&mut self, step: &Step) -> Option<Held> {
        let nominal = self.program.shape(step.outputs[0]).clone();
        let (input, base) = self.frame(step, &nominal)?;
        let shape = self.made.shape(base).clone();
        let places = self.held(input)?.places.clone();
        let inputs: Vec<ValueId> = match self.is_dense(input) {
            true if shape == nominal => return None,
            true => {
                let shapes: Option<Vec<Shape>> =
                    step.inputs.iter().map(|id| self.broadcast(*id, &nominal, &shape)).collect();
                step.inputs.iter().zip(shapes?).map(|(id, shape)| self.shaped(*id, &shape)).collect::<Option<_>>()?
            }
            false => {
                let single = Shape::from([1]);
                let of = |id: &ValueId| if *id == input { Some(base) } else { self.shaped(*id, &single) };
                step.inputs.iter().map(of).collect::<Option<_>>()?
            }
        };
        let primitive = match &step.primitive {
            Primitive::Map { expression, scalar, .. } => {
                Primitive::Map { expression: expression.clone(), shape, scalar: *scalar }
            }
            Primitive::IntMap { expression, .. } => Primitive::IntMap { expression: expression.clone(), shape },
            _ => return None,
        };
        let made = self.made.step(primitive, &inputs, step.origin).ok()?[0];
        self.take_over(made, step.outputs[0]);
        Some(Held { base: made, places })
    }

    /// Returns the input of a map in whose original shape the map is best computed, and the value that it was moved from:
    /// the one that is made last of those that have all elements of such a value. Permuted elements of a value count
    /// only if the map alone reads them, a contraction or a concatenation makes them, and the other inputs are single elements.
    fn frame(&self, step: &Step, nominal: &Shape) -> Option<(ValueId, ValueId)> {
        let whole = step.inputs.iter().filter(|id| self.program.shape(**id).elements() == nominal.elements());
        let is_single = |id: &ValueId| self.program.shape(*id).elements() == 1;
        let candidates = whole.filter_map(|id| {
            let Held { base, places } = self.held(*id)?;
            let has_epilogue = match self.made.value(*base).source {
                Source::Step(step) => {
                    use Primitive::{Concatenate, Convolution, MatMul};
                    matches!(self.made.steps[step].primitive, Convolution(_) | MatMul { .. } | Concatenate { .. })
                }
                Source::Input | Source::Constant(_) => false,
            };
            let is_own = || {
                let others = step.inputs.iter().all(|other| other == id || is_single(other));
                let is_permuted = places.is_permutation(self.made.shape(*base).elements());
                has_epilogue && is_permuted && others && self.uses[id.index()] == 1 && self.is_alone(*id, *base)
            };
            (self.is_dense(*id) || is_own()).then_some((*id, *base))
        });
        candidates.max_by_key(|(_, base)| *base)
    }

    /// Computes a matrix product whose outer axes are merged from axes at uneven distances with these axes. Returns where
    /// its output is; `None` if it is computed as it is.
    fn multiplied(&mut self, step: &Step) -> Option<Held> {
        let shapes = [0, 1].map(|input| self.program.shape(step.inputs[input]).clone());
        let [left, right] = shapes.each_ref().map(|shape| shape.split_at(shape.rank() - 2));
        let runs = [0, 1].map(|input| {
            let held = self.held(step.inputs[input])?;
            held.places.by_axis(&shapes[input])
        });
        let [Some(own), Some(others)] = &runs else { return None };
        let is_merged = own.iter().chain(others).any(|runs| runs.len() > 1);
        if !is_merged || left.0 != right.0 {
            return None;
        }
        let outer = [own, others].map(|axes| {
            let runs = axes[..axes.len() - 2].iter().flatten();
            runs.map(|run| run.extent).collect::<Vec<usize>>()
        });
        let outer = refined(&outer[0], &outer[1])?;
        let inputs = [left.1, right.1].map(|matrix| Shape::from([&outer[..], matrix].concat()));
        let inputs: Vec<ValueId> =
            step.inputs.iter().zip(&inputs).map(|(id, s)| self.shaped(*id, s)).collect::<Option<_>>()?;
        let made = self.made.step(step.primitive.clone(), &inputs, step.origin).ok()?[0];
        self.take_over(made, step.outputs[0]);
        Some(Held::whole(made, self.program.shape(step.outputs[0])))
    }

    /// Returns the shape in which a value of the original program, which is broadcast to `nominal`, broadcasts to `to`,
    /// which has as many elements; `None` if there is none.
    fn broadcast(&self, id: ValueId, nominal: &Shape, to: &Shape) -> Option<Shape> {
        let from = self.program.shape(id);
        let missing = nominal.rank().checked_sub(from.rank())?;
        let varies = |axis: usize| axis >= missing && from[axis - missing] != 1;
        let marked: Vec<(usize, bool)> =
            nominal.iter().enumerate().map(|(axis, extent)| (*extent, varies(axis))).collect();
        let marks = regrouped(&marked, to)?;
        let shape: Shape = to.iter().zip(marks).map(|(extent, mark)| if mark { *extent } else { 1 }).collect();
        // Leading axes of extent 1 need not be there, so that most constants stay as they are. What has them already is
        // not reshaped.
        let has_shape = self.held(id).is_some_and(|held| *self.made.shape(held.base) == shape);
        let own = from.broadcast(to).is_some_and(|all| all == *to)
            && shape[shape.rank() - from.rank().min(shape.rank())..] == **from;
        Some(if own && !has_shape { from.clone() } else { shape })
    }

    /// Computes a reduction in the shape that its input was reshaped from, and without axes of extent 1. Returns where
    /// its output is; `None` if it is computed as it is.
    fn reduced(&mut self, step: &Step) -> Option<Held> {
        let Primitive::Reduce { reduction, axes } = &step.primitive else { return None };
        let [input] = step.inputs[..] else { return None };
        if !self.is_dense(input) {
            return None;
        }
        let base = self.held(input)?.base;
        let (nominal, shape) = (self.program.shape(input), self.made.shape(base).clone());
        let marked: Vec<(usize, bool)> =
            nominal.iter().enumerate().map(|(axis, extent)| (*extent, axes.contains(&axis))).collect();
        let marks = regrouped(&marked, &shape)?;
        let found: Vec<usize> = (0..shape.rank()).filter(|axis| marks[*axis] && shape[*axis] > 1).collect();
        if found.is_empty() || (found == *axes && *nominal == shape) {
            return None;
        }
        let made =
            self.made.step(Primitive::Reduce { reduction: *reduction, axes: found }, &[base], step.origin).ok()?[0];
        self.take_over(made, step.outputs[0]);
        Some(Held::whole(made, self.program.shape(step.outputs[0])))
    }
}

#[cfg(test)]
mod tests {
    use attache_gpu_ir::{Expression, HostTensor, Index, IndexMap, ReduceOp, Scalar, interpret};

    use super::*;
    use crate::kernel::DeviceLimits;

    /// Pseudorandom numbers below a bound.
    struct Random(u64);

    impl Random {
        fn below(&mut self, bound: usize) -> usize {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (self.0 >> 33) as usize % bound
        }

        /// Returns a shape of `elements` elements.
        fn shape(&mut self, mut elements: usize) -> Shape {
            let mut extents = Vec::new();
            while extents.len() < 4 && elements > 1 {
                let divisors: Vec<usize> = (1..=elements).filter(|extent| elements.is_multiple_of(*extent)).collect();
                let extent = divisors[self.below(divisors.len())];
                extents.push(extent);
                elements /= extent;
            }
            extents.push(elements);
            extents.into()
        }
    }

    /// Adds a step of a random kind that reads `value`, and returns its output.
    fn step(program: &mut Program, random: &mut Random, value: ValueId) -> ValueId {
        let shape = program.shape(value).clone();
        let axes: Vec<usize> = (0..shape.rank()).collect();
        let (primitive, inputs) = match random.below(6) {
            0 => (Primitive::Reshape(random.shape(shape.elements())), vec![value]),
            1 => {
                let mut order = axes;
                order.rotate_left(random.below(shape.rank()));
                let output: Vec<usize> = order.iter().map(|axis| shape[*axis]).collect();
                let coordinates = (0..shape.rank())
                    .map(|axis| Index::Axis(order.iter().position(|of| *of == axis).expect("an order has all axes")));
                let map = IndexMap { output, coordinates: coordinates.collect(), fill: None };
                (Primitive::IndexMap(map), vec![value])
            }
            2 => {
                let starts: Vec<usize> = shape.iter().map(|extent| random.below(*extent)).collect();
                let output =
                    shape.iter().zip(&starts).map(|(extent, start)| 1 + random.below(extent - start)).collect();
                let coordinates = starts.iter().enumerate().map(|(axis, start)| Index::Axis(axis).plus(*start as i64));
                let map = IndexMap { output, coordinates: coordinates.collect(), fill: None };
                (Primitive::IndexMap(map), vec![value])
            }
            3 => {
                let keep = random.below(shape.rank() + 1);
                let other = program.input(Scalar::F32, shape[shape.rank() - keep..].into());
                let expression = Expression::Input(0).multiply(Expression::Constant(0.5)).add(Expression::Input(1));
                (Primitive::Map { expression, shape, scalar: Scalar::F32 }, vec![value, other])
            }
            4 => {
                let axes = axes.into_iter().filter(|_| random.below(2) == 0).collect();
                (Primitive::Reduce { reduction: ReduceOp::Sum, axes }, vec![value])
            }
            _ if shape.rank() < 2 => (Primitive::Reshape(random.shape(shape.elements())), vec![value]),
            _ => {
                let other = program.input(Scalar::F32, shape);
                (Primitive::MatMul { transposed: [false, true], order: Vec::new() }, vec![value, other])
            }
        };
        program.step(primitive, &inputs, 1).unwrap()[0]
    }

    fn assert_same(program: &Program, label: &str) {
        let tensors: Vec<HostTensor> = (program.inputs.iter())
            .map(|id| {
                let shape = program.shape(*id).clone();
                let element = |index: usize| (index * 7 % 11) as f64 / 4.0 - 1.0;
                HostTensor::new(shape.clone(), (0..shape.elements()).map(element).collect())
            })
            .collect();
        let deferred = defer(program);
        let expected = interpret(program, &tensors).unwrap();
        let found = interpret(&deferred, &tensors).unwrap_or_else(|e| panic!("{label}: {e} in\n{deferred}"));
        assert!(expected == found, "{label}:\n{program}is not\n{deferred}");
        let kernels = super::super::fuse(&deferred, &DeviceLimits::default());
        crate::kernel::validate(&deferred, &kernels, "fusion").unwrap();
    }

    #[test]
    fn deferred_programs_compute_the_same() {
        for seed in 0..3000 {
            let mut random = Random(seed);
            let mut program = Program::default();
            let elements = [24, 36, 64, 120][random.below(4)];
            let shape = random.shape(elements);
            let mut values = vec![program.input(Scalar::F32, shape)];
            for _ in 0..2 + random.below(9) {
                let from = values.len() - 1 - random.below(values.len().min(2));
                let made = step(&mut program, &mut random, values[from]);
                values.push(made);
            }
            program.outputs = values[values.len().saturating_sub(2)..].to_vec();
            assert_same(&program, &format!("seed {seed}"));
        }
    }

    /// The heads of attention are joined, and read by a projection and by something else.
    #[test]
    fn a_product_that_was_read_keeps_its_order() {
        let mut program = Program::default();
        let [left, right] = [[4, 3, 5], [4, 5, 8]].map(|shape| program.input(Scalar::F32, shape.into()));
        let mut step = |primitive, inputs: &[ValueId]| program.step(primitive, inputs, 0).unwrap()[0];
        let product = step(Primitive::MatMul { transposed: [false; 2], order: Vec::new() }, &[left, right]);
        let coordinates = [1, 0, 2].map(Index::Axis).to_vec();
        let moved = step(Primitive::IndexMap(IndexMap { output: vec![3, 4, 8], coordinates, fill: None }), &[product]);
        let joined = step(Primitive::Reshape([3, 32].into()), &[moved]);
        let again = step(Primitive::Reshape([3, 1, 32].into()), &[joined]);
        let scan = step(Primitive::Scan { axis: 2, exclusive: false, reverse: false }, &[again]);
        program.outputs = vec![joined, scan];
        assert_same(&program, "joined heads with two readers");
    }

    /// The steps of a normalization as converters write it, of rows of 64 elements, `[1, 16, 64]` of them.
    fn normalized(program: &mut Program, value: ValueId) -> ValueId {
        let (rows, all) = (Shape::from([16]), Shape::from([1, 16, 64]));
        let column = Shape::from([1, 16, 1]);
        let mut add = |primitive, inputs: &[ValueId]| program.step(primitive, inputs, 0).unwrap()[0];
        let map = |expression, shape: &Shape| Primitive::Map { expression, shape: shape.clone(), scalar: Scalar::F32 };
        let mean = || Primitive::Reduce { reduction: ReduceOp::Mean, axes: vec![0, 2] };
        let [a, b] = [0, 1].map(Expression::Input);
        let difference = a.clone().subtract(b.clone());
        let means = add(mean(), &[value]);
        let means = add(Primitive::Reshape(rows.clone()), &[means]);
        let spread = add(Primitive::Reshape(column.clone()), &[means]);
        let squares = add(map(difference.clone().multiply(difference), &all), &[value, spread]);
        let variance = add(mean(), &[squares]);
        let variance = add(Primitive::Reshape(rows.clone()), &[variance]);
        let root = a.clone().add(Expression::Constant(1e-5)).unary(attache_gpu_ir::UnaryOp::InverseSquareRoot);
        let scale = add(map(root, &rows), &[variance]);
        let offset = Expression::Constant(0.0).subtract(a.clone().multiply(b.clone()));
        let offset = add(map(offset, &rows), &[scale, means]);
        let [scale, offset] = [scale, offset].map(|id| add(Primitive::Reshape(column.clone()), &[id]));
        let scaled = add(map(a.clone().multiply(b.clone()), &all), &[value, scale]);
        add(map(a.add(b), &all), &[scaled, offset])
    }

    #[test]
    fn normalizations_as_converters_write_them_are_one_kernel() {
        let mut program = Program::default();
        let input = program.input(Scalar::F32, [16, 64].into());
        let value = program.step(Primitive::Reshape([1, 16, 64].into()), &[input], 0).unwrap()[0];
        program.outputs = vec![normalized(&mut program, value)];
        assert_same(&program, "a normalization");
        assert_eq!(super::super::fuse(&defer(&program), &DeviceLimits::default()).len(), 1);
    }
}

//! Program to kernels: which steps run in one dispatch.
//!
//! Rules, applied in the order of the steps: a map joins the kernel that makes one of its inputs, as its epilogue; a
//! padding with what stands for zero joins the contraction that reads it; a depthwise contraction, or the mean of a whole
//! image, joins the pointwise one that reads it, as its prologue; what is but moved, and integers that are but read as
//! reals, are read where they lie; a reshape is no kernel at all. Reductions and maps along the same rows are joined in the
//! end, and long folds split.

mod order;
mod rows;
mod split;
mod views;

use attache_gpu_ir::{
    Expression, IndexMap, Primitive, Program, Scalar, Source, Step, ValueId, Whole, Window, WindowKind,
};

use self::order::{Order, Position};
pub(crate) use self::split::split;
pub use self::views::View;
use self::views::Views;

use crate::access::{carried, lanes};
use crate::limits::{Limits, MAX_OUTPUTS};
use crate::storage::signed_point;

/// What becomes of each element that a kernel's primitive makes before it is stored: `Input(0)` is that element,
/// `Input(k)` the k-th operand's.
#[derive(Clone, Debug, PartialEq)]
pub enum Epilogue {
    /// Of reals, or of whatever the primitive makes where it is the identity.
    Real(Expression),
    /// Of integers.
    Whole(Whole),
}

impl Epilogue {
    /// Whether elements are stored as they are made.
    pub fn is_identity(&self) -> bool {
        match self {
            Epilogue::Real(expression) => expression.is_identity(),
            Epilogue::Whole(expression) => expression.is_identity(),
        }
    }

    /// WGSL's type of the operands.
    pub(crate) fn element(&self) -> &'static str {
        match self {
            Epilogue::Real(_) => "f32",
            Epilogue::Whole(_) => "i32",
        }
    }
}

/// Nodes that an expression may have.
const MAX_SIZE: usize = 200;

/// Nodes that an expression may have where another needs its value twice.
const MAX_REPEATED: usize = 8;

/// Taps that a depthwise contraction may have that is computed again for each block of channels.
const MAX_TAPS: usize = 25;

/// Positions of an image whose mean is computed again for each block of channels.
const MAX_POOLED: usize = 64;

/// Memory of a work group that a prologue asks for.
const WORK_GROUP_BYTES: usize = 16384;

/// Positions from which on bytes are computed as they are read: each work group does as many.
const FEW_POSITIONS: usize = 4;

/// Channels of bytes of which that memory holds as many as four positions have, each with a word more.
const MAX_BYTES: usize = WORK_GROUP_BYTES / 4 - 4;

/// What one dispatch (or a few, where a binding limit asks for it) computes: a primitive, then an expression of its
/// result and further operands.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// What is done. Never a reshape.
    pub primitive: Primitive,
    /// What it reads. With a prologue, the first is made by that and lies nowhere.
    pub inputs: Vec<ValueId>,
    /// A kernel that makes the first input as it is read.
    pub prologue: Option<Box<Kernel>>,
    /// What becomes of each element before it is stored. The identity for a map, whose expression already holds all.
    pub epilogue: Epilogue,
    /// Further operands of the epilogue, broadcast to the output.
    pub operands: Vec<ValueId>,
    /// Those of its inputs and operands that lie nowhere, but are read where they come from.
    pub views: Vec<View>,
    /// What it makes.
    pub outputs: Vec<ValueId>,
    /// Whose work it is, ascending.
    pub origins: Vec<usize>,
}

impl Kernel {
    /// Everything that it reads, where it lies.
    pub fn reads(&self) -> Box<dyn Iterator<Item = ValueId> + '_> {
        let made = usize::from(self.prologue.is_some());
        let own = self.inputs[made..].iter().chain(&self.operands).map(|id| self.source(*id));
        Box::new(own.chain(self.prologue.iter().flat_map(|first| first.reads())))
    }

    /// What holds the elements of an input or operand.
    pub fn source(&self, id: ValueId) -> ValueId {
        self.views.iter().find(|view| view.value == id).map_or(id, |view| view.source)
    }
}

/// The program's kernels, in an order in which they can run. No kernel binds more buffers than the limits allow that would
/// not have to anyway.
pub fn fuse(program: &Program, limits: &Limits) -> Vec<Kernel> {
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
    views: Views,
    kernels: Order,
    limits: &'a Limits,
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
            epilogue: Epilogue::Real(Expression::Input(0)),
            operands: Vec::new(),
            views: Vec::new(),
            outputs: step.outputs.clone(),
            origins: vec![step.origin],
        };
        if let Primitive::Contract(_) = step.primitive {
            self.absorb_padding(&mut kernel);
        }
        for id in self.views.resolve(&mut kernel, &self.uses) {
            self.store(id);
        }
        let kernel = match &step.primitive {
            Primitive::Reshape(_) => return,
            Primitive::Map { .. } | Primitive::WholeMap { .. } => self.join_producer(read_once(kernel)),
            Primitive::Contract(_) => self.join_first(kernel),
            Primitive::Window(_) | Primitive::Resample(_) | Primitive::ArgReduce { .. } | Primitive::TopK { .. } => {
                self.read_integers(kernel)
            }
            _ => kernel,
        };
        self.kernels.push(kernel);
    }

    /// Makes a view a value that lies somewhere.
    fn store(&mut self, id: ValueId) {
        let Some((View { value, source, map }, origins)) = self.views.take(id) else { return };
        self.kernels.push(Kernel {
            primitive: Primitive::IndexMap(map),
            inputs: vec![source],
            prologue: None,
            epilogue: Epilogue::Real(Expression::Input(0)),
            operands: Vec::new(),
            views: Vec::new(),
            outputs: vec![value],
            origins,
        });
    }

    /// The kernel that makes `id`, where nothing else reads it and it makes nothing else.
    fn sole_producer(&self, id: ValueId) -> Option<(Position, &Kernel)> {
        let produced = matches!(self.program.value(id).source, Source::Step(_)) && self.uses[id.index()] == 1;
        produced.then(|| self.kernels.maker(id)).flatten()
    }

    /// A map becomes the epilogue of the last kernel that makes one of its inputs in the map's own shape: what is made
    /// earlier waits for nothing then.
    fn join_producer(&mut self, map: Kernel) -> Kernel {
        let (shape, scalar) = match &map.primitive {
            Primitive::Map { shape, .. } => (shape, Scalar::F32),
            Primitive::WholeMap { shape, .. } => (shape, Scalar::I32),
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
        let is_map = matches!(producer.primitive, Primitive::Map { .. } | Primitive::WholeMap { .. });
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
        let first = usize::from(!is_map);
        let composed = Composed { producer, places: &places, first };
        match &mut kernel.primitive {
            Primitive::Map { expression, .. } => *expression = composed.real(map)?,
            Primitive::WholeMap { expression, .. } => *expression = composed.whole(self.program, map)?,
            _ => {
                kernel.epilogue = match &map.primitive {
                    Primitive::Map { .. } => Epilogue::Real(composed.real(map)?),
                    _ => Epilogue::Whole(composed.whole(self.program, map)?),
                }
            }
        }
        (self.bindings(&kernel) < self.limits.max_bindings).then_some(kernel)
    }

    /// Buffers that a kernel reads: what it reads in two places counts twice, since it is bound twice. Filters and biases
    /// around a prologue are packed into one.
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

    /// What nothing else reads becomes the prologue of the pointwise contraction that does: a depthwise contraction, or the
    /// mean of each image's channels.
    fn join_first(&mut self, mut kernel: Kernel) -> Kernel {
        let made = self.unreshaped(kernel.inputs[0]);
        let Some((position, first)) = self.sole_producer(made) else { return kernel };
        // Whatever is reshaped from it on the way here, or is itself, may be viewed by others.
        let is_viewed = |id: ValueId| self.views.are_read_of(id, &self.uses);
        if is_viewed(made)
            || self.reshaped_from(kernel.inputs[0]).any(is_viewed)
            || !self.is_plain_pointwise(&kernel)
            || !self.can_come_first(first)
        {
            return kernel;
        }
        let (origins, views) = (first.origins.clone(), first.views.clone());
        kernel.prologue = Some(Box::new(first.clone()));
        let (data, outputs) = (self.program.shape(kernel.inputs[0])[3], self.program.shape(kernel.inputs[1])[0]);
        let numbers =
            (1 + data.next_multiple_of(4)) * outputs.next_multiple_of(4) + (1 + MAX_TAPS) * data.next_multiple_of(4);
        let fits = numbers * 4 <= self.limits.max_binding_bytes
            && outputs <= MAX_OUTPUTS
            && self.limits.work_group_bytes >= WORK_GROUP_BYTES;
        if !fits || self.bindings(&kernel) >= self.limits.max_bindings {
            kernel.prologue = None;
            return kernel;
        }
        kernel.views.extend(views);
        kernel.origins.splice(0..0, origins);
        kernel.origins.sort_unstable();
        kernel.origins.dedup();
        self.kernels.take(position);
        kernel
    }

    /// Whether a kernel multiplies reals by constants.
    fn is_of_reals(&self, kernel: &Kernel) -> bool {
        let constant = |id: &ValueId| {
            let value = self.program.value(*id);
            value.scalar == Scalar::F32 && matches!(value.source, Source::Constant(_))
        };
        kernel.inputs[1..].iter().all(constant)
    }

    /// Whether a kernel contracts bytes with constants; so few channels of theirs that any work group holds them.
    fn is_of_bytes(&self, kernel: &Kernel) -> bool {
        let Primitive::Contract(contraction) = &kernel.primitive else { return false };
        let (data, filter) = (self.program.value(kernel.inputs[0]), self.program.value(kernel.inputs[1]));
        let known = |id: &ValueId| matches!(self.program.value(*id).source, Source::Constant(_));
        let has_points = |bytes| signed_point(bytes, contraction.zero_points[0]).is_some();
        data.bytes.is_some_and(has_points)
            && filter.bytes.is_some()
            && kernel.inputs[1..].iter().all(known)
            && data.shape[3] <= MAX_BYTES
    }

    /// Whether the kernel is a contraction that takes each position by itself, with a constant filter.
    fn is_plain_pointwise(&self, kernel: &Kernel) -> bool {
        let Primitive::Contract(contraction) = &kernel.primitive else { return false };
        let [data, filter] = [0, 1].map(|input| self.program.shape(kernel.inputs[input]));
        let positions: usize = self.program.shape(kernel.outputs[0])[..3].iter().product();
        [kernel.inputs[1], kernel.outputs[0]].iter().all(|id| self.program.shape(*id).elements() > 0)
            && contraction.groups == 1
            && contraction.is_pointwise(data, filter)
            && (self.is_of_reals(kernel) || (self.is_of_bytes(kernel) && positions >= FEW_POSITIONS))
    }

    /// The value of the same shape that this one is reshaped from, with nothing else reading it on the way.
    fn unreshaped(&self, id: ValueId) -> ValueId {
        let at = self.reshaped_from(id).last().unwrap_or(id);
        if self.program.shape(at) == self.program.shape(id) { at } else { id }
    }

    /// The value, what it is reshaped from, what that is reshaped from and so on, as long as nothing else reads it.
    fn reshaped_from(&self, id: ValueId) -> impl Iterator<Item = ValueId> {
        std::iter::successors(Some(id), |at| match self.program.value(*at).source {
            Source::Step(step) if self.uses[at.index()] == 1 => {
                let Step { primitive, inputs, .. } = &self.program.steps[step];
                matches!(primitive, Primitive::Reshape(_)).then(|| inputs[0])
            }
            _ => None,
        })
    }

    /// Whether the kernel is small and without weights that are made at a run, and any quad of channels can be computed alone.
    fn can_come_first(&self, kernel: &Kernel) -> bool {
        let data = self.program.shape(kernel.inputs[0]);
        let is_small = match &kernel.primitive {
            Primitive::Contract(contraction) => {
                let filter = self.program.shape(kernel.inputs[1]);
                contraction.is_depthwise(data, filter) && filter[1] * filter[2] <= MAX_TAPS
            }
            Primitive::Window(window) => is_one_mean(window, data) && window.size[0] * window.size[1] <= MAX_POOLED,
            _ => false,
        };
        // Only images get this far, so that there is an axis of channels to look at.
        if !is_small || data.elements() == 0 || kernel.prologue.is_some() {
            return false;
        }
        let in_quads = lanes(self.program, kernel) == 4 && data[3].is_multiple_of(4);
        match &kernel.epilogue {
            Epilogue::Real(epilogue) => {
                let makes_reals = self.program.value(kernel.outputs[0]).scalar == Scalar::F32;
                makes_reals && self.is_of_reals(kernel) && (in_quads || epilogue.is_identity())
            }
            Epilogue::Whole(_) => self.is_of_bytes(kernel) && in_quads,
        }
    }

    /// Integers that a map only hands on as reals are read where they lie, or through the map's view of them.
    fn read_integers(&mut self, mut kernel: Kernel) -> Kernel {
        let Some((position, producer)) = self.sole_producer(kernel.inputs[0]) else { return kernel };
        if !producer.views.is_empty() && !views::reads_each_once(&kernel.primitive) {
            return kernel;
        }
        let Primitive::Map { expression, shape, .. } = &producer.primitive else { return kernel };
        let whole = |id: &ValueId| self.program.value(*id).scalar == Scalar::I32 && self.program.shape(*id) == shape;
        if !expression.is_identity() || producer.inputs.len() != 1 || !whole(&producer.inputs[0]) {
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

    /// A padding of the two middle axes with what stands for zero becomes the contraction's own.
    fn absorb_padding(&self, kernel: &mut Kernel) {
        if kernel.inputs[1..].contains(&kernel.inputs[0]) {
            return;
        }
        let Some((view, origins)) = self.views.get(kernel.inputs[0]) else { return };
        let Primitive::Contract(contraction) = &mut kernel.primitive else { return };
        if contraction.transposed {
            return;
        }
        let zero = contraction.zero_points[0] as f32;
        let Some([top, left]) = padding_with(zero, &view.map, self.program.shape(view.source)) else { return };
        contraction.before = [contraction.before[0] + top, contraction.before[1] + left];
        kernel.inputs[0] = view.source;
        kernel.origins.splice(0..0, origins.iter().copied());
    }
}

/// Whether the window takes the mean of one place of each image, without padding.
fn is_one_mean(window: &Window, data: &[usize]) -> bool {
    let is_inside = window.before == [0, 0] && window.size[0] <= data[1] && window.size[1] <= data[2];
    window.kind == WindowKind::Average && window.output == [1, 1] && is_inside
}

/// A map after what makes one of its inputs, as one expression.
struct Composed<'a> {
    producer: &'a Kernel,
    /// For each of the map's inputs its place among the operands, or `None` where it is what the producer makes.
    places: &'a [Option<usize>],
    /// The number of the first operand.
    first: usize,
}

impl Composed<'_> {
    fn real(&self, map: &Kernel) -> Option<Expression> {
        let Primitive::Map { expression, .. } = &map.primitive else { return None };
        let inner = match (&self.producer.primitive, &self.producer.epilogue) {
            (Primitive::Map { expression, .. }, _) | (_, Epilogue::Real(expression)) => expression,
            (_, Epilogue::Whole(_)) => return None,
        };
        let composed = expression.substitute(&|input| match self.places[input] {
            None => inner.clone(),
            Some(place) => Expression::Input(place + self.first),
        });
        (composed.size() <= MAX_SIZE).then_some(composed)
    }

    fn whole(&self, program: &Program, map: &Kernel) -> Option<Whole> {
        let Primitive::WholeMap { expression, .. } = &map.primitive else { return None };
        let made = Whole::Input(0);
        let inner = match (&self.producer.primitive, &self.producer.epilogue) {
            (Primitive::WholeMap { expression, .. }, _) | (_, Epilogue::Whole(expression)) => expression,
            (_, epilogue) if epilogue.is_identity() && carried(program, self.producer) == "i32" => &made,
            _ => return None,
        };
        let uses = std::cell::Cell::new(0);
        let composed = expression.substitute(&|input| match self.places[input] {
            None => {
                uses.set(uses.get() + 1);
                inner.clone()
            }
            Some(place) => Whole::Input(place + self.first),
        });
        let repeats = uses.get() > 1 && inner.size() > MAX_REPEATED;
        (composed.size() <= MAX_SIZE && !repeats).then_some(composed)
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
    match &mut map.primitive {
        Primitive::Map { expression, .. } => {
            *expression = expression.substitute(&|input| Expression::Input(places[input]));
        }
        Primitive::WholeMap { expression, .. } => {
            *expression = expression.substitute(&|input| Whole::Input(places[input]));
        }
        _ => {}
    }
    map.inputs = inputs;
    map
}

/// Rows and columns of `zero` before the image, where the map does nothing but add such around its two middle axes.
fn padding_with(zero: f32, map: &IndexMap, input: &[usize]) -> Option<[usize; 2]> {
    let shifts = map.shifts()?;
    let grows = |axis: usize| shifts[axis] >= 0 && map.output[axis] as i64 >= shifts[axis] + input[axis] as i64;
    let same = |axis: usize| shifts[axis] == 0 && map.output[axis] == input[axis];
    let fits = shifts.len() == 4 && same(0) && grows(1) && grows(2) && same(3) && map.fill == Some(zero);
    fits.then(|| [shifts[1] as usize, shifts[2] as usize])
}

#[cfg(test)]
mod tests {
    use super::*;
    use attache_base::{Constant, DataType, Shape};
    use attache_gpu_ir::{Contraction, Index, Unary};

    pub(in crate::fuse) fn pointwise(output: [usize; 2]) -> Primitive {
        let (strides, dilations, before) = ([1, 1], [1, 1], [0, 0]);
        Primitive::Contract(Contraction {
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
        let kernels = fuse(&program, &Limits::default());
        assert_eq!(kernels.len(), 1);
        let Primitive::Contract(contraction) = &kernels[0].primitive else { panic!("{kernels:?}") };
        assert_eq!((contraction.before, &*kernels[0].origins), ([1, 2], &[0, 1, 2][..]));
        assert_eq!(kernels[0].epilogue, Epilogue::Real(Expression::Input(0).unary(Unary::Tanh)));
    }

    #[test]
    fn a_depthwise_contraction_becomes_the_prologue_of_a_pointwise_one() {
        let fused = |filter: [usize; 4], is_read_twice: bool| {
            let mut program = Program::default();
            let data = program.input(Scalar::F32, [1, 6, 6, 8].into());
            let weights = |program: &mut Program, shape: [usize; 4]| {
                let numbers = vec![1.0f32; shape.iter().product()];
                program.constant(Scalar::F32, Constant::from_values(Shape::from(shape), &numbers))
            };
            let taps = weights(&mut program, filter);
            let Primitive::Contract(plain) = pointwise([6, 6]) else { unreachable!("it is a contraction") };
            let each = Contraction { before: [1, 1], groups: 8, ..plain };
            let first = program.step(Primitive::Contract(each), &[data, taps], 0).unwrap()[0];
            let filter = weights(&mut program, [12, 1, 1, 8]);
            program.outputs = program.step(pointwise([6, 6]), &[first, filter], 1).unwrap();
            if is_read_twice {
                program.outputs.push(first);
            }
            fuse(&program, &Limits::default()).len()
        };
        assert_eq!(fused([8, 3, 3, 1], false), 1);
        assert_eq!(fused([8, 3, 3, 1], true), 2, "somebody else reads it");
        assert_eq!(fused([8, 7, 7, 1], false), 2, "it is too large to be computed again");
    }

    #[test]
    fn the_same_of_bytes_where_what_lies_between_is_bytes() {
        let fused = |channels: usize, made: DataType| {
            let mut program = Program::default();
            let data = program.input(Scalar::I32, [1, 6, 6, channels].into());
            program.hold(data, DataType::UInt8);
            let weights = |program: &mut Program, shape: [usize; 4]| {
                let bytes = vec![3u8; shape.iter().product()];
                program.constant(Scalar::I32, Constant::from_values(Shape::from(shape), &bytes))
            };
            let taps = weights(&mut program, [channels, 3, 3, 1]);
            let Primitive::Contract(plain) = pointwise([6, 6]) else { unreachable!("it is a contraction") };
            let each = Contraction { before: [1, 1], groups: channels, ..plain };
            let first = program.step(Primitive::Contract(each), &[data, taps], 0).unwrap()[0];
            let (expression, shape) = (Whole::Input(0).clamp((0, 100)), program.shape(first).clone());
            let first = program.step(Primitive::WholeMap { expression, shape }, &[first], 0).unwrap()[0];
            program.hold(first, made);
            let filter = weights(&mut program, [12, 1, 1, channels]);
            program.outputs = program.step(pointwise([6, 6]), &[first, filter], 1).unwrap();
            fuse(&program, &Limits::default()).len()
        };
        assert_eq!(fused(8, DataType::Int8), 1);
        assert_eq!(fused(8, DataType::Int16), 2, "it is multiplied as bytes");
        assert_eq!(fused(6, DataType::Int8), 2, "its channels are no quads");
        assert_eq!(fused(MAX_BYTES, DataType::Int8), 1);
        assert_eq!(fused(MAX_BYTES + 4, DataType::Int8), 2, "four positions don't fit a work group");
    }

    #[test]
    fn reals_are_no_prologue_of_bytes() {
        let mut program = Program::default();
        let data = program.input(Scalar::F32, [1, 6, 6, 8].into());
        let taps = program.constant(Scalar::F32, Constant::from_values([8, 3, 3, 1], &[1.0f32; 72]));
        let Primitive::Contract(plain) = pointwise([6, 6]) else { unreachable!("it is a contraction") };
        let each = Contraction { before: [1, 1], groups: 8, ..plain };
        let first = program.step(Primitive::Contract(each), &[data, taps], 0).unwrap()[0];
        let (expression, shape) = (Expression::Input(0).clamp(0.0, 9.0), program.shape(first).clone());
        let cast = Primitive::Map { expression, shape, scalar: Scalar::I32 };
        let bytes = program.step(cast, &[first], 0).unwrap()[0];
        program.hold(bytes, DataType::UInt8);
        let filter = program.constant(Scalar::I32, Constant::from_values([12, 1, 1, 8], &[3u8; 96]));
        program.outputs = program.step(pointwise([6, 6]), &[bytes, filter], 1).unwrap();
        assert_eq!(fuse(&program, &Limits::default()).len(), 2);
    }

    #[test]
    fn the_mean_of_an_image_becomes_the_prologue_of_what_reads_it() {
        let fused = |kind: WindowKind, size: usize, output: usize| {
            let mut program = Program::default();
            let data = program.input(Scalar::F32, [1, 9, 9, 8].into());
            let window = Window { kind, size: [size; 2], strides: [1; 2], before: [0; 2], output: [output; 2] };
            let pooled = program.step(Primitive::Window(window), &[data], 0).unwrap()[0];
            let flat = program.step(Primitive::Reshape([output, output * 8].into()), &[pooled], 0).unwrap()[0];
            let again = program.step(Primitive::Reshape([1, output, output, 8].into()), &[flat], 0).unwrap()[0];
            let filter = program.constant(Scalar::F32, Constant::from_values([4, 1, 1, 8], &[1.0f32; 32]));
            program.outputs = program.step(pointwise([output; 2]), &[again, filter], 1).unwrap();
            fuse(&program, &Limits::default()).len()
        };
        assert_eq!(fused(WindowKind::Average, 7, 1), 1);
        assert_eq!(fused(WindowKind::Average, 9, 1), 2, "it is too large to be computed again");
        assert_eq!(fused(WindowKind::Average, 7, 3), 2, "it is computed for several positions");
        assert_eq!(fused(WindowKind::Maximum, 7, 1), 2);
    }

    #[test]
    fn what_is_made_of_a_vector_first_is_no_prologue() {
        // Its first input has no axis of channels to look at.
        let mut program = Program::default();
        let factors = program.constant(Scalar::F32, Constant::from_values([8], &[2.0f32; 8]));
        let image = program.input(Scalar::F32, [1, 6, 6, 8].into());
        let expression = Expression::Input(0).multiply(Expression::Input(1));
        let scale = Primitive::Map { expression, shape: [1, 6, 6, 8].into(), scalar: Scalar::F32 };
        let scaled = program.step(scale, &[factors, image], 0).unwrap()[0];
        let filter = program.constant(Scalar::F32, Constant::from_values([4, 1, 1, 8], &[1.0f32; 32]));
        program.outputs = program.step(pointwise([6, 6]), &[scaled, filter], 1).unwrap();
        assert_eq!(fuse(&program, &Limits::default()).len(), 2);
    }

    #[test]
    fn a_prologue_has_none_of_its_own() {
        let mut program = Program::default();
        let mut value = program.input(Scalar::F32, [1, 5, 5, 1].into());
        for extent in [3, 1, 1] {
            let filter = Constant::from_values(Shape::from([1, extent, extent, 1]), &vec![1.0f32; extent * extent]);
            let filter = program.constant(Scalar::F32, filter);
            let Primitive::Contract(plain) = pointwise([5, 5]) else { unreachable!("it is a contraction") };
            let window = Contraction { before: [extent / 2; 2], ..plain };
            value = program.step(Primitive::Contract(window), &[value, filter], 0).unwrap()[0];
        }
        program.outputs = vec![value];
        assert_eq!(fuse(&program, &Limits::default()).len(), 2);
    }

    #[test]
    fn what_is_read_through_a_view_as_well_is_no_prologue() {
        let mut program = Program::default();
        let input = program.input(Scalar::F32, [1, 5, 5, 1].into());
        let weights = |program: &mut Program| {
            program.constant(Scalar::F32, Constant::from_values(Shape::from([1, 1, 1, 1]), &[2.0f32]))
        };
        let filters = [weights(&mut program), weights(&mut program)];
        let first = program.step(pointwise([5, 5]), &[input, filters[0]], 0).unwrap()[0];
        let coordinates = (0..4).map(Index::Axis).collect();
        let same = IndexMap { output: vec![1, 5, 5, 1], coordinates, fill: Some(0.0) };
        let padded = program.step(Primitive::IndexMap(same), &[first], 1).unwrap()[0];
        let second = program.step(pointwise([5, 5]), &[padded, filters[1]], 2).unwrap()[0];
        let (expression, shape) = (Expression::Input(0).multiply(Expression::Input(0)), Shape::from([1, 5, 5, 1]));
        let square = Primitive::Map { expression, shape, scalar: Scalar::F32 };
        program.outputs = vec![second, program.step(square, &[padded], 3).unwrap()[0]];
        let kernels = fuse(&program, &Limits::default());
        assert!(kernels.iter().any(|kernel| kernel.outputs == [first]), "{kernels:?}");
    }

    #[test]
    fn a_padding_that_is_filter_as_well_stays() {
        let mut program = Program::default();
        let input = program.input(Scalar::F32, Shape::from([1, 3, 3, 4]));
        let coordinates = vec![Index::Axis(0), Index::Axis(1).plus(-1), Index::Axis(2).plus(-1), Index::Axis(3)];
        let pad = IndexMap { output: vec![1, 5, 5, 4], coordinates, fill: Some(0.0) };
        let padded = program.step(Primitive::IndexMap(pad), &[input], 0).unwrap()[0];
        program.outputs = program.step(pointwise([1, 1]), &[padded, padded], 1).unwrap();
        assert_eq!(fuse(&program, &Limits::default()).len(), 2);
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
        assert_eq!(fuse(&program, &Limits::default()).len(), 1, "the second square reads the first twice, but alone");
        program.outputs = vec![first, second];
        assert_eq!(fuse(&program, &Limits::default()).len(), 2);
    }
}

//! Views: pads, slices and transposes become index maps that the consumer applies when it loads, instead of kernels
//! that store moved elements.
//!
//! An index map needs no kernel if all readers of its output load each element only once or a few times. As
//! soon as one reader cannot apply the map, a kernel stores the output for that reader and later ones.

use std::collections::HashMap;

use attache_gpu_ir::{Index, IndexMap, Primitive, Program, Resample, Sampling, Step, ValueId};

use crate::kernel::{Kernel, View};

/// Maximum readers of a value that is not stored. With more, applying the index map in each reader takes longer than
/// reading a stored value.
const MAX_READERS: usize = 2;

/// Maximum views of one kernel, since each lookup searches all of them. Inputs beyond the limit are stored.
const MAX_VIEWS: usize = 64;

/// Maximum nodes of the expression of one coordinate when two index maps are composed. If it would be larger,
/// the output of the first map is stored.
const MAX_SIZE: usize = 24;

/// The pending views: values that a kernel can read from their source through an index map, and that are not
/// stored so far. Each comes with the origins of its steps.
#[derive(Default)]
pub(super) struct Views {
    pending: HashMap<ValueId, (View, Vec<usize>)>,
    /// For each source, the values that are or were views of it.
    viewers: HashMap<ValueId, Vec<ValueId>>,
}

impl Views {
    /// Records the output of a step that only moves elements as a pending view. A view of a view becomes a
    /// view of the first view's source. Returns `false` if the two maps cannot be composed; the caller then
    /// has to store the first view.
    pub(super) fn note(&mut self, step: &Step, map: &IndexMap) -> bool {
        let (value, source, mut origins) = (step.outputs[0], step.inputs[0], vec![step.origin]);
        let is_small = |map: &IndexMap| map.coordinates.iter().all(|index| index.size() <= MAX_SIZE);
        let view = match self.pending.get(&source) {
            None => View { value, source, map: map.clone() },
            Some((first, before)) => {
                let Some(map) = first.map.then(map).filter(is_small) else { return false };
                origins.splice(0..0, before.iter().copied());
                View { value, source: first.source, map }
            }
        };
        self.viewers.entry(view.source).or_default().push(value);
        self.pending.insert(value, (view, origins));
        true
    }

    /// Returns the value's pending view and the origins of its steps; `None` if the value has none.
    pub(super) fn get(&self, id: ValueId) -> Option<&(View, Vec<usize>)> {
        self.pending.get(&id)
    }

    /// Whether kernels other than the current one may still read `source` through a pending view: such a view
    /// has several readers.
    pub(super) fn are_read_of(&self, source: ValueId, uses: &[usize]) -> bool {
        let viewers = self.viewers.get(&source).into_iter().flatten();
        viewers.into_iter().any(|value| self.pending.contains_key(value) && uses[value.index()] > 1)
    }

    /// Removes and returns the value's pending view and the origins of its steps. The caller then stores the
    /// value.
    pub(super) fn take(&mut self, id: ValueId) -> Option<(View, Vec<usize>)> {
        self.pending.remove(&id)
    }

    /// Makes the kernel read inputs that are pending views from their sources where possible. Returns the
    /// inputs that the caller has to store instead.
    pub(super) fn resolve(&self, kernel: &mut Kernel, uses: &[usize]) -> Vec<ValueId> {
        let fetches = reads_each_once(&kernel.primitive);
        let mut stored = Vec::new();
        for id in kernel.inputs.clone() {
            let Some((view, origins)) = self.get(id) else { continue };
            if kernel.views.contains(view) {
                continue;
            }
            if !fetches || uses[id.index()] > MAX_READERS || kernel.views.len() == MAX_VIEWS {
                stored.push(id);
            } else {
                kernel.views.push(view.clone());
                kernel.origins.splice(0..0, origins.iter().copied());
            }
        }
        kernel.origins.sort_unstable();
        kernel.origins.dedup();
        stored
    }
}

/// Whether the primitive reads each element of its inputs only once or a few times, and with many
/// invocations, so that it can read them through an index map.
pub(super) fn reads_each_once(primitive: &Primitive) -> bool {
    match primitive {
        Primitive::Map { .. } | Primitive::IntMap { .. } | Primitive::Concatenate { .. } => true,
        Primitive::Update => true,
        Primitive::Window(_) | Primitive::Resample(_) | Primitive::MatMul { .. } => true,
        Primitive::Convolution(_) | Primitive::TopK { .. } | Primitive::Scan { .. } => false,
        Primitive::Suppress(_) => false,
        Primitive::Reduce { .. } | Primitive::Rows(_) | Primitive::ArgReduce { .. } => false,
        Primitive::Gather(_) | Primitive::Unpool { .. } | Primitive::Reshape(_) | Primitive::IndexMap(_) => false,
        Primitive::Scatter { .. } => false,
    }
}

/// Returns the index map of a step that only moves elements; `None` for other steps.
pub(super) fn moves(program: &Program, step: &Step) -> Option<IndexMap> {
    match &step.primitive {
        Primitive::IndexMap(map) => Some(map.clone()),
        Primitive::Resample(resample) => repeated(resample, program.shape(step.inputs[0])),
        _ => None,
    }
}

/// Returns the index map of a nearest-neighbour resize that repeats each element equally often; `None` for
/// other resizes. `input` is the shape `[batch, height, width, channel]`.
fn repeated(resample: &Resample, input: &[usize]) -> Option<IndexMap> {
    let size = [input[1], input[2]];
    let output = vec![input[0], resample.output[0], resample.output[1], input[3]];
    let times = [0, 1].map(|axis| resample.output[axis].checked_div(size[axis]).unwrap_or(0));
    let point = if resample.half_pixel_centers { 0.5 } else { 0.0 };
    let repeats = |axis: usize| {
        let (scale, times) = (resample.scales(size)[axis], times[axis]);
        let is_same = |o: usize| ((o as f32 + point) * scale).floor() as usize == o / times;
        times > 0 && size[axis] * times == resample.output[axis] && (0..resample.output[axis]).all(is_same)
    };
    let applies = resample.sampling == Sampling::Nearest && !resample.align_corners && repeats(0) && repeats(1);
    let middle = |axis: usize| Index::Axis(axis).divided_by(times[axis - 1] as i64);
    applies.then(|| IndexMap {
        output,
        coordinates: vec![Index::Axis(0), middle(1), middle(2), Index::Axis(3)],
        fill: None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::fuse;
    use super::*;
    use crate::kernel::DeviceLimits;
    use attache_gpu_ir::{Expression, ReduceOp, Scalar, Window, WindowKind};

    /// Pads a value by one channel of zeros at the end and returns the padded value.
    fn wider(program: &mut Program, input: ValueId) -> ValueId {
        let mut output = program.shape(input).to_vec();
        output[3] += 1;
        let map = IndexMap { output, coordinates: (0..4).map(Index::Axis).collect(), fill: Some(0.0) };
        program.step(Primitive::IndexMap(map), &[input], 0).unwrap()[0]
    }

    fn sum(program: &mut Program, inputs: [ValueId; 2]) -> ValueId {
        let (expression, shape) = (Expression::Input(0).add(Expression::Input(1)), program.shape(inputs[0]).clone());
        program.step(Primitive::Map { expression, shape, scalar: Scalar::F32 }, &inputs, 1).unwrap()[0]
    }

    fn start() -> (Program, [ValueId; 2]) {
        let mut program = Program::default();
        let inputs = [3, 4].map(|channels| program.input(Scalar::F32, [1, 2, 2, channels].into()));
        (program, inputs)
    }

    #[test]
    fn a_sum_reads_padding_through_a_view() {
        let (mut program, [narrow, wide]) = start();
        let padded = wider(&mut program, narrow);
        program.outputs = vec![sum(&mut program, [padded, wide])];
        let kernels = fuse(&program, &DeviceLimits::default());
        assert_eq!((kernels.len(), kernels[0].origins.clone()), (1, vec![0, 1]));
        assert_eq!(kernels[0].reads().collect::<Vec<_>>(), [narrow, wide]);
    }

    #[test]
    fn a_view_with_many_readers_or_an_output_is_stored() {
        let (mut program, [narrow, wide]) = start();
        let padded = wider(&mut program, narrow);
        program.outputs = vec![sum(&mut program, [padded, wide]), padded];
        assert_eq!(fuse(&program, &DeviceLimits::default()).len(), 2);
        let (mut program, [narrow, wide]) = start();
        let padded = wider(&mut program, narrow);
        program.outputs = (0..3).map(|_| sum(&mut program, [padded, wide])).collect();
        assert_eq!(fuse(&program, &DeviceLimits::default()).len(), 4);
    }

    #[test]
    fn a_view_read_by_a_reduction_is_stored() {
        let (mut program, [narrow, _]) = start();
        let padded = wider(&mut program, narrow);
        let reduce = Primitive::Reduce { reduction: ReduceOp::Sum, axes: vec![1] };
        program.outputs = program.step(reduce, &[padded], 1).unwrap();
        assert_eq!(fuse(&program, &DeviceLimits::default()).len(), 2);
    }

    #[test]
    fn maps_are_composed_if_the_second_has_no_fill() {
        let (mut program, [narrow, wide]) = start();
        let padded = wider(&mut program, narrow);
        let coordinates = vec![Index::Axis(0), Index::Axis(2), Index::Axis(1), Index::Axis(3)];
        let swap = Primitive::IndexMap(IndexMap { output: vec![1, 2, 2, 4], coordinates, fill: None });
        let swapped = program.step(swap, &[padded], 0).unwrap()[0];
        program.outputs = vec![sum(&mut program, [swapped, wide])];
        assert_eq!(fuse(&program, &DeviceLimits::default()).len(), 1);
        let (mut program, [narrow, _]) = start();
        let twice = [0; 2].iter().fold(narrow, |id, _| wider(&mut program, id));
        program.outputs = vec![sum(&mut program, [twice, twice])];
        assert_eq!(fuse(&program, &DeviceLimits::default()).len(), 2);
    }

    /// Returns the fused kernels of a program that moves integers, casts them to float and applies the
    /// primitive.
    fn cast_and_read(map: IndexMap, primitive: Primitive) -> Vec<Kernel> {
        let mut program = Program::default();
        let input = program.input(Scalar::I32, [1, 4, 6, 3].into());
        let shape = attache_base::Shape::from(map.output.as_slice());
        let moved = program.step(Primitive::IndexMap(map), &[input], 0).unwrap()[0];
        let cast = Primitive::Map { expression: Expression::Input(0), shape, scalar: Scalar::F32 };
        let cast = program.step(cast, &[moved], 1).unwrap()[0];
        program.outputs = program.step(primitive, &[cast], 2).unwrap();
        let kernels = fuse(&program, &DeviceLimits::default());
        crate::kernel::validate(&program, &kernels, "fusion").unwrap();
        kernels
    }

    #[test]
    fn moved_and_cast_integers_are_read_through_a_view() {
        let coordinates = [0, 2, 1, 3].map(Index::Axis).to_vec();
        let transposed = IndexMap { output: vec![1, 6, 4, 3], coordinates, fill: None };
        let coordinates = vec![Index::Axis(0), Index::Axis(1).plus(-1), Index::Axis(2).plus(-1), Index::Axis(3)];
        let padded = IndexMap { output: vec![1, 6, 8, 3], coordinates, fill: Some(-7.0) };
        let resample = |output| {
            let sampling = Sampling::Bilinear;
            Primitive::Resample(Resample { sampling, output, align_corners: false, half_pixel_centers: true })
        };
        for map in [transposed, padded] {
            let output = [map.output[1] / 2, map.output[2] / 2];
            let kind = WindowKind::Maximum;
            let window = Window { kind, size: [2; 2], strides: [2; 2], before: [0; 2], output };
            for reader in [Primitive::Window(window), resample([9, 5])] {
                let kernels = cast_and_read(map.clone(), reader);
                assert_eq!((kernels.len(), kernels[0].views.len()), (1, 1), "{kernels:?}");
            }
            // `ArgReduce` and `TopK` read each element often, or with few invocations. The cast stays a
            // kernel and applies the index map.
            let largest = Primitive::ArgReduce { largest: true, axis: 3, parts: 1 };
            for reader in [largest, Primitive::TopK { count: 2 }] {
                assert_eq!(cast_and_read(map.clone(), reader).len(), 2);
            }
        }
    }

    #[test]
    fn a_value_viewed_through_a_reshape_is_no_prologue() {
        let mut program = Program::default();
        let input = program.input(Scalar::F32, [1, 5, 5, 1].into());
        let constant = attache_base::Constant::from_values(attache_base::Shape::from([1, 1, 1, 1]), &[2.0f32]);
        let convolution = |program: &mut Program, data: ValueId| {
            let filter = program.constant(Scalar::F32, constant.clone());
            let plain = super::super::tests::pointwise([5, 5]);
            program.step(plain, &[data, filter], 0).unwrap()[0]
        };
        let first = convolution(&mut program, input);
        let flat = program.step(Primitive::Reshape([25].into()), &[first], 0).unwrap()[0];
        let image = program.step(Primitive::Reshape([1, 5, 5, 1].into()), &[flat], 0).unwrap()[0];
        let same =
            IndexMap { output: vec![1, 5, 5, 1], coordinates: (0..4).map(Index::Axis).collect(), fill: Some(0.0) };
        let padded = program.step(Primitive::IndexMap(same), &[image], 1).unwrap()[0];
        let second = convolution(&mut program, padded);
        program.outputs = vec![second, sum(&mut program, [padded; 2])];
        let kernels = fuse(&program, &DeviceLimits::default());
        crate::kernel::validate(&program, &kernels, "fusion").unwrap();
        assert!(kernels.iter().any(|kernel| kernel.outputs == [first]), "{kernels:?}");
    }

    #[test]
    fn repeated_elements_are_moved() {
        let resample = |output, half_pixel_centers| {
            let sampling = Sampling::Nearest;
            repeated(&Resample { sampling, output, align_corners: false, half_pixel_centers }, &[1, 4, 6, 3])
        };
        let map = resample([8, 18], true).unwrap();
        assert_eq!(map.coordinates[1..3], [Index::Axis(1).divided_by(2), Index::Axis(2).divided_by(3)]);
        assert_eq!((resample([8, 9], false), resample([2, 6], false)), (None, None));
    }
}

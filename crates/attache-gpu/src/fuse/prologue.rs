//! Fusion of prologues. If only a pointwise convolution reads the output of a small kernel, that kernel
//! becomes the convolution's prologue: the convolution computes the elements where it would otherwise load
//! them, and they are never stored in device memory.

use attache_gpu_ir::{Primitive, Scalar, Source, Step, ValueId, Window, WindowKind};

use super::Fuser;
use crate::kernel::{Epilogue, Kernel, MAX_OUTPUTS, signed_point, vector_width};

/// Maximum filter taps of a depthwise prologue, which is recomputed for each block of output channels.
const MAX_TAPS: usize = 25;

/// Maximum input pixels of an average-pool prologue, which is recomputed for each block of output channels.
const MAX_POOLED: usize = 64;

/// Bytes of work-group memory that a prologue requires.
const WORK_GROUP_BYTES: usize = 16384;

/// Minimum output pixels of a quantized convolution with a prologue, since each work group computes this
/// many.
const FEW_POSITIONS: usize = 4;

/// Maximum channels of a quantized prologue. Work-group memory stages four pixels of this many one-byte channels, each
/// pixel padded by one 32-bit word.
const MAX_BYTES: usize = WORK_GROUP_BYTES / 4 - 4;

impl Fuser<'_> {
    /// Fuses the producer of a pointwise convolution's data as its prologue, if nothing else reads that data.
    /// The producer is a depthwise convolution or an average pool with one output pixel. Returns the
    /// convolution, fused or unchanged.
    pub(super) fn fuse_prologue(&mut self, kernel: Kernel) -> Kernel {
        let made = self.unreshaped(kernel.inputs[0]);
        let Some((position, first)) = self.sole_producer(made) else { return kernel };
        // Other kernels may read the value, or a reshape of it, through a view.
        let is_viewed = |id: ValueId| self.views.are_read_of(id, &self.uses);
        if is_viewed(made)
            || self.reshaped_from(kernel.inputs[0]).any(is_viewed)
            || !self.is_plain_pointwise(&kernel)
            || !self.can_be_prologue(first)
        {
            return kernel;
        }
        let first = first.clone();
        let (data, outputs) = (self.program.shape(kernel.inputs[0])[3], self.program.shape(kernel.inputs[1])[0]);
        let weights =
            (1 + data.next_multiple_of(4)) * outputs.next_multiple_of(4) + (1 + MAX_TAPS) * data.next_multiple_of(4);
        let fits = weights * 4 <= self.limits.max_binding_bytes
            && outputs <= MAX_OUTPUTS
            && self.limits.work_group_bytes >= WORK_GROUP_BYTES;
        let mut fused = kernel.clone();
        fused.take_prologue(first);
        if !fits || fused.bindings() >= self.limits.max_bindings {
            return kernel;
        }
        self.kernels.take(position);
        fused
    }

    /// Whether all inputs of a kernel but the first are float constants.
    fn is_of_floats(&self, kernel: &Kernel) -> bool {
        let constant = |id: &ValueId| {
            let value = self.program.value(*id);
            value.scalar == Scalar::F32 && matches!(value.source, Source::Constant(_))
        };
        kernel.inputs[1..].iter().all(constant)
    }

    /// Whether the kernel is a convolution of byte data with a constant filter of bytes and a constant bias,
    /// with a data zero point that fits a signed byte, and with few enough channels to be staged in the
    /// work-group memory of any device.
    fn is_of_bytes(&self, kernel: &Kernel) -> bool {
        let Primitive::Convolution(convolution) = &kernel.primitive else { return false };
        let (data, filter) = (self.program.value(kernel.inputs[0]), self.program.value(kernel.inputs[1]));
        let known = |id: &ValueId| matches!(self.program.value(*id).source, Source::Constant(_));
        let has_points = |bytes| signed_point(bytes, convolution.zero_points[0]).is_some();
        data.bytes.is_some_and(has_points)
            && filter.bytes.is_some()
            && kernel.inputs[1..].iter().all(known)
            && data.shape[3] <= MAX_BYTES
    }

    /// Whether the kernel is a pointwise convolution with one group and a constant filter that can have a
    /// prologue: of floats, or of bytes with at least [`FEW_POSITIONS`] output pixels.
    fn is_plain_pointwise(&self, kernel: &Kernel) -> bool {
        let Primitive::Convolution(convolution) = &kernel.primitive else { return false };
        let [data, filter] = [0, 1].map(|input| self.program.shape(kernel.inputs[input]));
        let positions: usize = self.program.shape(kernel.outputs[0])[..3].iter().product();
        [kernel.inputs[1], kernel.outputs[0]].iter().all(|id| self.program.shape(*id).elements() > 0)
            && convolution.groups == 1
            && convolution.is_pointwise(data, filter)
            && (self.is_of_floats(kernel) || (self.is_of_bytes(kernel) && positions >= FEW_POSITIONS))
    }

    /// Returns the value at the start of the chain of reshapes that ends in `id`, if it has the same shape as
    /// `id` and only the chain reads the values in between; otherwise `id`.
    fn unreshaped(&self, id: ValueId) -> ValueId {
        let at = self.reshaped_from(id).last().unwrap_or(id);
        if self.program.shape(at) == self.program.shape(id) { at } else { id }
    }

    /// Returns an iterator over `id`, the input of the reshape that computes it, the input of the reshape
    /// before that, and so on. It ends at a value that is not computed by a reshape or that has several
    /// readers.
    fn reshaped_from(&self, id: ValueId) -> impl Iterator<Item = ValueId> {
        std::iter::successors(Some(id), |at| match self.program.value(*at).source {
            Source::Step(step) if self.uses[at.index()] == 1 => {
                let Step { primitive, inputs, .. } = &self.program.steps[step];
                matches!(primitive, Primitive::Reshape(_)).then(|| inputs[0])
            }
            _ => None,
        })
    }

    /// Whether the kernel can be a prologue: it is small, its weights are constants, and each group of four channels
    /// can be computed on its own.
    fn can_be_prologue(&self, kernel: &Kernel) -> bool {
        let data = self.program.shape(kernel.inputs[0]);
        let is_small = match &kernel.primitive {
            Primitive::Convolution(convolution) => {
                let filter = self.program.shape(kernel.inputs[1]);
                convolution.is_depthwise(data, filter) && filter[1] * filter[2] <= MAX_TAPS
            }
            Primitive::Window(window) => is_global_mean(window, data) && window.size[0] * window.size[1] <= MAX_POOLED,
            _ => false,
        };
        // `is_small` implies an image of rank 4, so `data` has a channel axis.
        if !is_small || data.elements() == 0 || kernel.prologue.is_some() {
            return false;
        }
        let in_vec4s = vector_width(self.program, kernel) == 4 && data[3].is_multiple_of(4);
        match &kernel.epilogue {
            Epilogue::Float(epilogue) => {
                let makes_floats = self.program.value(kernel.outputs[0]).scalar == Scalar::F32;
                makes_floats && self.is_of_floats(kernel) && (in_vec4s || epilogue.is_identity())
            }
            Epilogue::Int(_) => self.is_of_bytes(kernel) && in_vec4s,
        }
    }
}

/// Whether the window is an average pool with a single output pixel and no padding.
fn is_global_mean(window: &Window, data: &[usize]) -> bool {
    let is_inside = window.before == [0, 0] && window.size[0] <= data[1] && window.size[1] <= data[2];
    window.kind == WindowKind::Average && window.output == [1, 1] && is_inside
}

#[cfg(test)]
mod tests {
    use attache_base::{Constant, DataType, Shape};
    use attache_gpu_ir::{ConvolutionGeometry, Expression, Index, IndexMap, IntExpression, Program};

    use super::*;
    use crate::fuse::fuse;
    use crate::fuse::tests::pointwise;
    use crate::kernel::DeviceLimits;

    #[test]
    fn a_depthwise_convolution_becomes_the_prologue_of_a_pointwise_one() {
        let fused = |filter: [usize; 4], is_read_twice: bool| {
            let mut program = Program::default();
            let data = program.input(Scalar::F32, [1, 6, 6, 8].into());
            let weights = |program: &mut Program, shape: [usize; 4]| {
                let values = vec![1.0f32; shape.iter().product()];
                program.constant(Scalar::F32, Constant::from_values(Shape::from(shape), &values))
            };
            let taps = weights(&mut program, filter);
            let Primitive::Convolution(plain) = pointwise([6, 6]) else { unreachable!("it is a convolution") };
            let each = ConvolutionGeometry { before: [1, 1], groups: 8, ..plain };
            let first = program.step(Primitive::Convolution(each), &[data, taps], 0).unwrap()[0];
            let filter = weights(&mut program, [12, 1, 1, 8]);
            program.outputs = program.step(pointwise([6, 6]), &[first, filter], 1).unwrap();
            if is_read_twice {
                program.outputs.push(first);
            }
            fuse(&program, &DeviceLimits::default()).len()
        };
        assert_eq!(fused([8, 3, 3, 1], false), 1);
        assert_eq!(fused([8, 3, 3, 1], true), 2, "it has another reader");
        assert_eq!(fused([8, 7, 7, 1], false), 2, "it is too large to be computed again");
    }

    #[test]
    fn byte_convolutions_fuse_if_the_intermediate_value_is_bytes() {
        let fused = |channels: usize, made: DataType| {
            let mut program = Program::default();
            let data = program.input(Scalar::I32, [1, 6, 6, channels].into());
            program.store_as(data, DataType::UInt8);
            let weights = |program: &mut Program, shape: [usize; 4]| {
                let bytes = vec![3u8; shape.iter().product()];
                program.constant(Scalar::I32, Constant::from_values(Shape::from(shape), &bytes))
            };
            let taps = weights(&mut program, [channels, 3, 3, 1]);
            let Primitive::Convolution(plain) = pointwise([6, 6]) else { unreachable!("it is a convolution") };
            let each = ConvolutionGeometry { before: [1, 1], groups: channels, ..plain };
            let first = program.step(Primitive::Convolution(each), &[data, taps], 0).unwrap()[0];
            let (expression, shape) = (IntExpression::Input(0).clamp((0, 100)), program.shape(first).clone());
            let first = program.step(Primitive::IntMap { expression, shape }, &[first], 0).unwrap()[0];
            program.store_as(first, made);
            let filter = weights(&mut program, [12, 1, 1, channels]);
            program.outputs = program.step(pointwise([6, 6]), &[first, filter], 1).unwrap();
            fuse(&program, &DeviceLimits::default()).len()
        };
        assert_eq!(fused(8, DataType::Int8), 1);
        assert_eq!(fused(8, DataType::Int16), 2, "it is multiplied as bytes");
        assert_eq!(fused(6, DataType::Int8), 2, "its channels are no vec4s");
        assert_eq!(fused(MAX_BYTES, DataType::Int8), 1);
        assert_eq!(fused(MAX_BYTES + 4, DataType::Int8), 2, "four positions don't fit a work group");
    }

    #[test]
    fn floats_are_no_prologue_of_bytes() {
        let mut program = Program::default();
        let data = program.input(Scalar::F32, [1, 6, 6, 8].into());
        let taps = program.constant(Scalar::F32, Constant::from_values([8, 3, 3, 1], &[1.0f32; 72]));
        let Primitive::Convolution(plain) = pointwise([6, 6]) else { unreachable!("it is a convolution") };
        let each = ConvolutionGeometry { before: [1, 1], groups: 8, ..plain };
        let first = program.step(Primitive::Convolution(each), &[data, taps], 0).unwrap()[0];
        let (expression, shape) = (Expression::Input(0).clamp(0.0, 9.0), program.shape(first).clone());
        let cast = Primitive::Map { expression, shape, scalar: Scalar::I32 };
        let bytes = program.step(cast, &[first], 0).unwrap()[0];
        program.store_as(bytes, DataType::UInt8);
        let filter = program.constant(Scalar::I32, Constant::from_values([12, 1, 1, 8], &[3u8; 96]));
        program.outputs = program.step(pointwise([6, 6]), &[bytes, filter], 1).unwrap();
        assert_eq!(fuse(&program, &DeviceLimits::default()).len(), 2);
    }

    #[test]
    fn the_mean_of_an_image_becomes_a_prologue() {
        let fused = |kind: WindowKind, size: usize, output: usize| {
            let mut program = Program::default();
            let data = program.input(Scalar::F32, [1, 9, 9, 8].into());
            let window = Window { kind, size: [size; 2], strides: [1; 2], before: [0; 2], output: [output; 2] };
            let pooled = program.step(Primitive::Window(window), &[data], 0).unwrap()[0];
            let flat = program.step(Primitive::Reshape([output, output * 8].into()), &[pooled], 0).unwrap()[0];
            let again = program.step(Primitive::Reshape([1, output, output, 8].into()), &[flat], 0).unwrap()[0];
            let filter = program.constant(Scalar::F32, Constant::from_values([4, 1, 1, 8], &[1.0f32; 32]));
            program.outputs = program.step(pointwise([output; 2]), &[again, filter], 1).unwrap();
            fuse(&program, &DeviceLimits::default()).len()
        };
        assert_eq!(fused(WindowKind::Average, 7, 1), 1);
        assert_eq!(fused(WindowKind::Average, 9, 1), 2, "it is too large to be computed again");
        assert_eq!(fused(WindowKind::Average, 7, 3), 2, "it is computed for several positions");
        assert_eq!(fused(WindowKind::Maximum, 7, 1), 2);
    }

    #[test]
    fn a_map_whose_first_input_has_rank_one_is_no_prologue() {
        // The first input of the map has rank 1, so it has no channel axis.
        let mut program = Program::default();
        let factors = program.constant(Scalar::F32, Constant::from_values([8], &[2.0f32; 8]));
        let image = program.input(Scalar::F32, [1, 6, 6, 8].into());
        let expression = Expression::Input(0).multiply(Expression::Input(1));
        let scale = Primitive::Map { expression, shape: [1, 6, 6, 8].into(), scalar: Scalar::F32 };
        let scaled = program.step(scale, &[factors, image], 0).unwrap()[0];
        let filter = program.constant(Scalar::F32, Constant::from_values([4, 1, 1, 8], &[1.0f32; 32]));
        program.outputs = program.step(pointwise([6, 6]), &[scaled, filter], 1).unwrap();
        assert_eq!(fuse(&program, &DeviceLimits::default()).len(), 2);
    }

    #[test]
    fn a_prologue_has_none_of_its_own() {
        let mut program = Program::default();
        let mut value = program.input(Scalar::F32, [1, 5, 5, 1].into());
        for extent in [3, 1, 1] {
            let filter = Constant::from_values(Shape::from([1, extent, extent, 1]), &vec![1.0f32; extent * extent]);
            let filter = program.constant(Scalar::F32, filter);
            let Primitive::Convolution(plain) = pointwise([5, 5]) else { unreachable!("it is a convolution") };
            let window = ConvolutionGeometry { before: [extent / 2; 2], ..plain };
            value = program.step(Primitive::Convolution(window), &[value, filter], 0).unwrap()[0];
        }
        program.outputs = vec![value];
        assert_eq!(fuse(&program, &DeviceLimits::default()).len(), 2);
    }

    #[test]
    fn a_value_also_read_through_a_view_is_no_prologue() {
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
        let kernels = fuse(&program, &DeviceLimits::default());
        assert!(kernels.iter().any(|kernel| kernel.outputs == [first]), "{kernels:?}");
    }
}

//! Fuses padding with the data's zero point into the convolution that reads the padded data.

use attache_gpu_ir::{IndexMap, Primitive};

use super::Fuser;
use crate::kernel::Kernel;

impl Fuser<'_> {
    /// If the convolution's data is padded with its zero point along height and width, adds that padding to
    /// the convolution's own, and makes the convolution read the data without padding.
    pub(super) fn absorb_padding(&self, kernel: &mut Kernel) {
        if kernel.inputs[1..].contains(&kernel.inputs[0]) {
            return;
        }
        let Some((view, origins)) = self.views.get(kernel.inputs[0]) else { return };
        let Primitive::Convolution(convolution) = &mut kernel.primitive else { return };
        if convolution.transposed {
            return;
        }
        let zero = convolution.zero_points[0] as f32;
        let Some([top, left]) = padding_with(zero, &view.map, self.program.shape(view.source)) else { return };
        convolution.before = [convolution.before[0] + top, convolution.before[1] + left];
        kernel.inputs[0] = view.source;
        kernel.origins.splice(0..0, origins.iter().copied());
    }
}

/// Returns the rows of padding above the image and the columns to its left, if the map only pads the two
/// middle axes with `zero`; otherwise `None`.
fn padding_with(zero: f32, map: &IndexMap, input: &[usize]) -> Option<[usize; 2]> {
    let shifts = map.shifts()?;
    let grows = |axis: usize| shifts[axis] >= 0 && map.output[axis] as i64 >= shifts[axis] + input[axis] as i64;
    let same = |axis: usize| shifts[axis] == 0 && map.output[axis] == input[axis];
    let fits = shifts.len() == 4 && same(0) && grows(1) && grows(2) && same(3) && map.fill == Some(zero);
    fits.then(|| [shifts[1] as usize, shifts[2] as usize])
}

#[cfg(test)]
mod tests {
    use attache_base::{Constant, Shape};
    use attache_gpu_ir::{Expression, Index, Program, Scalar, UnaryOp};

    use super::*;
    use crate::fuse::fuse;
    use crate::fuse::tests::pointwise;
    use crate::kernel::{DeviceLimits, Epilogue};

    #[test]
    fn padding_and_activation_are_fused_into_the_convolution() {
        let mut program = Program::default();
        let input = program.input(Scalar::F32, Shape::from([1, 4, 4, 1]));
        let coordinates = vec![Index::Axis(0), Index::Axis(1).plus(-1), Index::Axis(2).plus(-2), Index::Axis(3)];
        let pad = IndexMap { output: vec![1, 6, 8, 1], coordinates, fill: Some(0.0) };
        let padded = program.step(Primitive::IndexMap(pad), &[input], 0).unwrap()[0];
        let filter = program.constant(Scalar::F32, Constant::from_values([1, 1, 1, 1], &[2.0f32]));
        let product = program.step(pointwise([6, 8]), &[padded, filter], 1).unwrap()[0];
        let expression = Expression::Input(0).unary(UnaryOp::Tanh);
        let map = Primitive::Map { expression, shape: Shape::from([1, 6, 8, 1]), scalar: Scalar::F32 };
        program.outputs = program.step(map, &[product], 2).unwrap();
        let kernels = fuse(&program, &DeviceLimits::default());
        assert_eq!(kernels.len(), 1);
        let Primitive::Convolution(convolution) = &kernels[0].primitive else { panic!("{kernels:?}") };
        assert_eq!((convolution.before, &*kernels[0].origins), ([1, 2], &[0, 1, 2][..]));
        assert_eq!(kernels[0].epilogue, Epilogue::Float(Expression::Input(0).unary(UnaryOp::Tanh)));
    }

    #[test]
    fn padding_of_a_value_that_is_also_the_filter_stays() {
        let mut program = Program::default();
        let input = program.input(Scalar::F32, Shape::from([1, 3, 3, 4]));
        let coordinates = vec![Index::Axis(0), Index::Axis(1).plus(-1), Index::Axis(2).plus(-1), Index::Axis(3)];
        let pad = IndexMap { output: vec![1, 5, 5, 4], coordinates, fill: Some(0.0) };
        let padded = program.step(Primitive::IndexMap(pad), &[input], 0).unwrap()[0];
        program.outputs = program.step(pointwise([1, 1]), &[padded, padded], 1).unwrap();
        assert_eq!(fuse(&program, &DeviceLimits::default()).len(), 2);
    }
}

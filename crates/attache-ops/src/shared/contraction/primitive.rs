//! Emission of the GPU primitive for convolutions of any element type.

use attache_gpu_ir::{ConvolutionGeometry, Primitive, ValueId};
use attache_graph::{Lowering, Unsupported};
use attache_kernels::convolution::Convolution;

/// Emits the convolution of data, a filter and an optional bias (`operands`) and returns the sums.
/// `zero_points` are those of data and filter.
pub(crate) fn contract(
    lowering: &mut Lowering<'_>,
    convolution: &Convolution,
    transposed: bool,
    operands: &[ValueId],
    zero_points: [i32; 2],
) -> Result<ValueId, Unsupported> {
    check_reach(convolution)?;
    let [height, width, _] = convolution.output;
    let contraction = ConvolutionGeometry {
        strides: convolution.strides,
        dilations: convolution.dilations,
        before: convolution.before,
        output: [height, width],
        groups: convolution.groups,
        transposed,
        zero_points,
    };
    lowering.emit(Primitive::Convolution(contraction), operands)
}

/// Checks that the input coordinates that a window reads fit a device's 32-bit integers.
pub(crate) fn check_reach(convolution: &Convolution) -> Result<(), Unsupported> {
    let reach = |axis: usize| {
        let window = convolution.kernel[axis].checked_mul(convolution.dilations[axis])?;
        // Transposed or not, the window moves over the larger image and has as many positions as the smaller one has
        // pixels.
        let places = convolution.input[axis].min(convolution.output[axis]);
        let moved = places.saturating_sub(1).checked_mul(convolution.strides[axis])?;
        window.checked_add(moved)?.checked_add(convolution.before[axis])
    };
    match [reach(0), reach(1)].iter().all(|reach| reach.is_some_and(|reach| reach <= i32::MAX as usize)) {
        true => Ok(()),
        false => Err(Unsupported::new("its window reaches further than 32 bits count")),
    }
}

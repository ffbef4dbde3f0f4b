//! Convolutions over depth, height and width, which CONV_3D and its transposed form share: options, geometry, the elements
//! that a window covers, and the sum that a device computes.

use attache_base::{Activation, Padding, Shape};
use attache_gpu_ir::{Expression, Index, IndexMap, Primitive, ValueId};
use attache_graph::{Lowering, OpError, Unsupported};

use crate::definition::{activation, padding, positive};
use crate::shared::fused;
use crate::shared::view::View;
use crate::{Declaration, Parsed};

/// Maximum depth of a window for a device, which takes a dispatch for each element of it.
const MOST_TAPS: usize = 32;

/// The options of a convolution; triples are `[depth, height, width]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VolumeConvolution {
    pub(crate) padding: Padding,
    pub(crate) strides: [usize; 3],
    pub(crate) dilations: [usize; 3],
    pub(crate) activation: Activation,
}

/// A volume of features, the positions of a window in it, and the elements of the window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Geometry {
    /// Depth, height and width of the volume that windows cover.
    pub(crate) volume: [usize; 3],
    /// Number of positions of the window along each axis.
    pub(crate) positions: [usize; 3],
    pub(crate) window: [usize; 3],
    pub(crate) strides: [usize; 3],
    pub(crate) dilations: [usize; 3],
    /// Padding before the volume.
    pub(crate) before: [usize; 3],
}

impl VolumeConvolution {
    pub(crate) fn parse(declaration: &Declaration<'_>, operator: fn(Self) -> Parsed) -> Parsed {
        let options = declaration.options.builtin_options_as_conv_3_doptions();
        let options = options.ok_or_else(|| declaration.no_options())?;
        operator(Self {
            padding: padding(options.padding())?,
            strides: [
                positive("stride_d", options.stride_d())?,
                positive("stride_h", options.stride_h())?,
                positive("stride_w", options.stride_w())?,
            ],
            dilations: [
                positive("dilation_d_factor", options.dilation_d_factor())?,
                positive("dilation_h_factor", options.dilation_h_factor())?,
                positive("dilation_w_factor", options.dilation_w_factor())?,
            ],
            activation: activation(options.fused_activation_function())?,
        })
    }

    /// Returns the positions of a window in a volume.
    pub(crate) fn geometry(&self, volume: [usize; 3], window: [usize; 3]) -> Result<Geometry, OpError> {
        let Self { padding, strides, dilations, .. } = *self;
        let (mut positions, mut before) = ([0; 3], [0; 3]);
        for axis in 0..3 {
            let extent = padding.window(volume[axis], window[axis], strides[axis], dilations[axis]);
            let extent =
                extent.ok_or_else(|| OpError::invalid(format!("a window {window:?} of the volume {volume:?}")))?;
            (positions[axis], before[axis]) = (extent.output, extent.before);
        }
        Ok(Geometry { volume, positions, window, strides, dilations, before })
    }
}

impl Geometry {
    /// Returns the element of the volume, along an axis, that element `tap` of the window covers at `position`; `None` in the
    /// padding.
    pub(crate) fn covered(&self, axis: usize, position: usize, tap: usize) -> Option<usize> {
        let place = position * self.strides[axis] + tap * self.dilations[axis];
        place.checked_sub(self.before[axis]).filter(|place| *place < self.volume[axis])
    }

    /// Checks that the coordinates that a window covers fit a device's 32-bit integers.
    pub(crate) fn check_reach(&self) -> Result<(), Unsupported> {
        let reach = |axis: usize| {
            let window = self.window[axis].checked_mul(self.dilations[axis])?;
            let moved = self.positions[axis].saturating_sub(1).checked_mul(self.strides[axis])?;
            window.checked_add(moved)?.checked_add(self.before[axis])
        };
        match (0..3).all(|axis| reach(axis).is_some_and(|reach| i32::try_from(reach).is_ok())) {
            true => Ok(()),
            false => Err(Unsupported::new("its window reaches further than 32 bits count")),
        }
    }

    /// Calls `visit` for each run of adjacent elements that the window covers at a position, along the width, with the first
    /// element's place in the window and in the volume, both counted in pixels, and the number of elements.
    pub(crate) fn visit_runs(&self, position: usize, mut visit: impl FnMut(usize, usize, usize)) {
        if self.dilations[2] != 1 {
            return self.visit(position, |tap, place| visit(tap, place, 1));
        }
        let [_, height, width] = self.positions;
        let at = [position / (height * width), position / width % height, position % width];
        let [_, rows, columns] = self.window;
        let left = at[2] * self.strides[2];
        let first = self.before[2].saturating_sub(left);
        let end = columns.min((self.volume[2] + self.before[2]).saturating_sub(left));
        if first >= end {
            return;
        }
        let column = left + first - self.before[2];
        for d in 0..self.window[0] {
            let Some(depth) = self.covered(0, at[0], d) else { continue };
            for h in 0..rows {
                let Some(row) = self.covered(1, at[1], h) else { continue };
                let place = (depth * self.volume[1] + row) * self.volume[2] + column;
                visit((d * rows + h) * columns + first, place, end - first);
            }
        }
    }

    /// Calls `visit` for each element that the window covers at a position, with the element's place in the window and in the
    /// volume, both counted in pixels.
    pub(crate) fn visit(&self, position: usize, mut visit: impl FnMut(usize, usize)) {
        let [_, height, width] = self.positions;
        let at = [position / (height * width), position / width % height, position % width];
        let [_, rows, columns] = self.window;
        for d in 0..self.window[0] {
            let Some(depth) = self.covered(0, at[0], d) else { continue };
            for h in 0..rows {
                let Some(row) = self.covered(1, at[1], h) else { continue };
                for w in 0..columns {
                    let Some(column) = self.covered(2, at[2], w) else { continue };
                    let place = (depth * self.volume[1] + row) * self.volume[2] + column;
                    visit((d * rows + h) * columns + w, place);
                }
            }
        }
    }
}

/// Emits the sum of what `tap` emits for each element of a window's depth, one value of the output's elements for each, with
/// the bias, where there is an input `bias`, and the activation; declares it as the output.
///
/// # Errors
///
/// Fails where the window is too deep.
pub(crate) fn lower_sum(
    lowering: &mut Lowering<'_>,
    (taps, bias, activation): (usize, usize, Activation),
    tap: &dyn Fn(&mut Lowering<'_>, usize) -> Result<ValueId, Unsupported>,
) -> Result<(), Unsupported> {
    if taps > MOST_TAPS {
        return Err(Unsupported::new(format!("a window with a depth of {taps}, more than {MOST_TAPS}")));
    }
    let add = || Expression::Input(0).add(Expression::Input(1));
    let mut sum = tap(lowering, 0)?;
    let shape = lowering.shape(sum).clone();
    for index in 1..taps {
        let next = tap(lowering, index)?;
        sum = lowering.map(add(), &shape, &[sum, next])?;
    }
    if lowering.has_input(bias) {
        let bias = lowering.input(bias)?;
        let channels = shape.last().copied().unwrap_or(1);
        let bias = lowering.reshape(bias, &[channels].into())?;
        sum = lowering.map(add(), &shape, &[sum, bias])?;
    }
    let sum = fused::lower(lowering, activation, sum)?;
    let output = lowering.output_shape(0)?.clone();
    let sum = lowering.reshape(sum, &output)?;
    lowering.output(0, sum)
}

/// Emits the filter of one element of the window's depth, `[output, height, width, channel]`. The axes `[output, channel]`
/// of `filter` are given.
pub(crate) fn filter_of_tap(
    lowering: &mut Lowering<'_>,
    filter: ValueId,
    tap: usize,
    [output, channel]: [usize; 2],
) -> Result<ValueId, Unsupported> {
    let shape = lowering.shape(filter).clone();
    let part = View::slices(&shape, 0, tap, 1).lower(lowering, filter)?;
    let part = lowering.reshape(part, &shape[1..].into())?;
    let coordinate = |axis: usize| match axis {
        axis if axis == output => Index::Axis(0),
        axis if axis == channel => Index::Axis(3),
        axis => Index::Axis(axis),
    };
    let coordinates = (1..5).map(coordinate).collect();
    let map = IndexMap { output: vec![shape[output], shape[1], shape[2], shape[channel]], coordinates, fill: None };
    lowering.emit(Primitive::IndexMap(map), &[part])
}

/// Returns the extents of an input that must have rank 5; `index` is the input's index, for the error.
pub(crate) fn volume(index: usize, shape: &Shape) -> Result<[usize; 5], OpError> {
    <[usize; 5]>::try_from(shape.extents())
        .map_err(|_| OpError::invalid(format!("input {index} of shape {shape} is not of rank 5")))
}

/// Checks that the bias, where there is one, has as many elements as there are output channels.
pub(crate) fn check_bias(bias: Option<&Shape>, channels: usize) -> Result<(), OpError> {
    match bias.filter(|bias| bias.checked_elements() != Some(channels)) {
        Some(bias) => Err(OpError::invalid(format!("a bias of shape {bias} for {channels} channels"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cover_what_is_not_padding() {
        let convolution = VolumeConvolution {
            padding: Padding::Same,
            strides: [2, 1, 1],
            dilations: [1, 1, 2],
            activation: Activation::None,
        };
        let geometry = convolution.geometry([3, 2, 4], [2, 1, 2]).unwrap();
        assert_eq!((geometry.positions, geometry.before), ([2, 2, 4], [0, 0, 1]));
        let mut covered = Vec::new();
        geometry.visit(8, |tap, place| covered.push((tap, place)));
        assert_eq!(covered, [(1, 17)]);
        for dilation in [1, 2] {
            let window = VolumeConvolution { dilations: [1, 2, dilation], ..convolution };
            let geometry = window.geometry([3, 4, 5], [2, 3, 4]).unwrap();
            for position in 0..geometry.positions.iter().product() {
                let [mut single, mut runs] = [Vec::new(), Vec::new()];
                geometry.visit(position, |tap, place| single.push((tap, place)));
                geometry.visit_runs(position, |tap, place, count| {
                    runs.extend((0..count).map(|index| (tap + index, place + index)));
                });
                assert_eq!(runs, single);
            }
        }
        assert!(convolution.geometry([3, 2, 4], [0, 1, 1]).is_err());
        assert!(geometry.check_reach().is_ok());
        assert!(Geometry { dilations: [1, 1, 1 << 30], window: [2, 1, 9], ..geometry }.check_reach().is_err());
        assert!(Geometry { dilations: [usize::MAX, 1, 1], ..geometry }.check_reach().is_err());
    }
}

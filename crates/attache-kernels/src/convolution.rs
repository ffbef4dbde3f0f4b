//! Convolution over channels-last tensors, computed as a matrix product that reads the activations in place (implicit
//! GEMM).
//!
//! The windows of adjacent output pixels are a constant number of elements apart, so the pixels of an output row form
//! consecutive rows of A, and the rows of a window are segments of K. If windows reach into the padding, or if matrices
//! read other elements than the tensor has, the input rows for a band of output rows are first copied to scratch memory
//! together with their padding. Whole windows are gathered (im2col, a few pixels at a time) only if that copy does not
//! pay off, i.e. for very narrow outputs or padding wider than the input.
#![allow(unsafe_code)] // Tasks write interleaved columns of the output through the GEMM's micro-kernel.

use std::ops::Range;

use attache_base::storable::{Parts, Storable, StoredParts};
use bytemuck::Pod;

use crate::engine::Shared;
use crate::gemm::{LEAST_ROWS, Lines, Matrix, PackedMatrix, Rows, Split, Target, gemm};
use crate::{Engine, Isa, scratch};

/// Parameters of a convolution. Extents are `[height, width, channels]`; pairs are `[vertical, horizontal]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Convolution {
    /// Number of images.
    pub batches: usize,
    /// Extents of one input image, `[height, width, channels]`.
    pub input: [usize; 3],
    /// Extents of one output image, `[height, width, channels]`.
    pub output: [usize; 3],
    /// Height and width of the kernel, in taps.
    pub kernel: [usize; 2],
    /// Vertical and horizontal distance between adjacent windows, at least 1, in input pixels (in output
    /// pixels for a transposed convolution).
    pub strides: [usize; 2],
    /// Vertical and horizontal distance between adjacent taps of a window, in pixels, at least 1.
    pub dilations: [usize; 2],
    /// Rows of padding above the input and columns of padding to its left. For a transposed convolution, the
    /// output rows and columns cropped there.
    pub before: [usize; 2],
    /// Pixels of the output before the first one that is computed, in the order in which they are in memory: 0 unless a
    /// depthwise convolution computes the pixels from there on of which there is room in its output.
    pub first: usize,
    /// Number of channel groups, which are convolved independently; divides both channel counts. Ignored by depthwise
    /// convolution.
    pub groups: usize,
    /// Lower and upper bound to which f32 outputs are clamped. Quantized kernels use the bounds of their
    /// epilogue instead.
    pub clamp: (f32, f32),
}

impl Convolution {
    pub(crate) fn check<I, O>(&self, input: &[I], output: &[O]) {
        assert_eq!(input.len(), self.batches * self.input.iter().product::<usize>(), "the input has its shape");
        assert_eq!(output.len(), self.batches * self.output.iter().product::<usize>(), "the output has its shape");
        assert!(self.strides.iter().chain(&self.dilations).all(|size| *size > 0), "strides and dilations are positive");
    }

    /// Returns the outputs and the depth (N and K) of the weight matrix of one group.
    ///
    /// # Panics
    ///
    /// Panics if the groups do not divide the channels, or if `filter` elements are not one such matrix per
    /// group.
    pub(crate) fn matrix(&self, filter: usize) -> [usize; 2] {
        let groups = self.groups;
        let divides = |channels: usize| groups > 0 && channels.is_multiple_of(groups);
        assert!(divides(self.input[2]) && divides(self.output[2]), "whole groups");
        let outputs = self.output[2] / groups;
        let depth = self.kernel[0] * self.kernel[1] * (self.input[2] / groups);
        assert_eq!(filter, groups * outputs * depth, "the filter has its shape");
        [outputs, depth]
    }

    /// Checks operands of a depthwise convolution, which may compute only some pixels.
    pub(crate) fn check_part<I, O>(&self, input: &[I], output: &[O]) {
        assert_eq!(input.len(), self.batches * self.input.iter().product::<usize>(), "the input has its shape");
        let (channels, all) = (self.output[2], self.batches * self.output.iter().product::<usize>());
        let is_part = output.len().checked_rem(channels) == Some(0) && self.first * channels + output.len() <= all;
        assert!(output.len() == all && self.first == 0 || is_part, "the output has pixels of its shape");
        assert!(self.strides.iter().chain(&self.dilations).all(|size| *size > 0), "strides and dilations are positive");
    }

    /// Whether this is a 1×1 convolution with stride 1 and no padding, which is a matrix product.
    #[must_use]
    pub fn is_pointwise(&self) -> bool {
        self.kernel == [1, 1]
            && self.strides == [1, 1]
            && self.before == [0, 0]
            && self.groups == 1
            && self.input[..2] == self.output[..2]
    }
}

/// Weights and bias of a convolution, packed for one instruction set.
#[derive(Clone)]
pub struct PackedFilter {
    groups: Vec<PackedMatrix>,
}

impl PackedFilter {
    /// Returns the numbers from which the extents of the packed form follow: groups, and outputs and depth of each.
    pub fn parameters(convolution: &Convolution) -> Vec<usize> {
        Self::extents(convolution).to_vec()
    }

    pub(crate) fn extents(convolution: &Convolution) -> [usize; 3] {
        let Convolution { groups, input: [.., channels], output: [.., outputs], kernel, .. } = *convolution;
        let each = |count: usize| count.checked_div(groups).unwrap_or(0);
        [groups, each(outputs), kernel[0] * kernel[1] * each(channels)]
    }

    /// Packs a filter `[output channels, height, width, input channels / groups]` and its bias.
    ///
    /// # Panics
    ///
    /// Panics if the length of `filter` or `bias` does not match, or if the groups do not divide the channels.
    pub fn pack(isa: Isa, convolution: &Convolution, filter: &[f32], bias: Option<&[f32]>) -> Self {
        let (groups, [outputs, depth]) = (convolution.groups, convolution.matrix(filter.len()));
        let pack = |group: usize| {
            let bias = bias.map(|bias| &bias[group * outputs..][..outputs]);
            PackedMatrix::pack(isa, outputs, depth, &filter[group * outputs * depth..][..outputs * depth], bias)
        };
        Self { groups: (0..groups).map(pack).collect() }
    }
}

impl Storable for PackedFilter {
    fn store<'a>(&'a self, parts: &mut Parts<'a>) {
        self.groups.store(parts);
    }

    fn load(parts: &mut StoredParts<'_>, parameters: &[usize]) -> Option<Self> {
        Some(Self { groups: Vec::load(parts, parameters)? })
    }
}

/// Convolves `input` (`[batches, height, width, channels]`) with a filter that was packed for the same
/// convolution, and writes `output`. Uses the filter's instruction set.
///
/// # Panics
///
/// Panics if the lengths of `input` and `output` do not match the convolution, if a stride or dilation is 0, or if the
/// filter was packed for another number of groups.
pub fn convolve(engine: Engine, convolution: &Convolution, input: &[f32], filter: &PackedFilter, output: &mut [f32]) {
    convolution.check(input, output);
    let [height, width, channels] = convolution.output;
    if convolution.is_pointwise() {
        let rows = convolution.batches * height * width;
        let depth = convolution.input[2];
        return gemm(engine, rows, input, depth, &filter.groups[0], output, channels, convolution.clamp);
    }
    let direct = DirectConvolution::new(convolution);
    // SAFETY: the output holds every image, row and pixel that the direct convolution's pitches reach.
    unsafe { direct.run(engine, &input, &filter.groups, &convolution.clamp, output.as_mut_ptr()) }
}

/// The input of a direct convolution, as the elements of type `T` that its matrices read.
pub(crate) trait Activations<T>: Sync {
    /// Returns the elements, if they are in memory as the matrices read them.
    fn in_place(&self) -> Option<&[T]>;
    /// Copies elements from index `first` on to `target`.
    fn copy(&self, first: usize, target: &mut [T]);
    /// Returns the element that represents zero, which is the value of padding.
    fn zero(&self) -> T;
}

impl<T: Pod + Sync> Activations<T> for &[T] {
    fn in_place(&self) -> Option<&[T]> {
        Some(self)
    }

    fn copy(&self, first: usize, target: &mut [T]) {
        target.copy_from_slice(&self[first..][..target.len()]);
    }

    fn zero(&self) -> T {
        T::zeroed()
    }
}

/// Parameters of a convolution whose output rows and pixels may be any distance apart. An ordinary
/// convolution runs one; a transposed convolution runs one per phase of its strides.
#[derive(Clone, Copy)]
pub(crate) struct DirectConvolution {
    pub(crate) batches: usize,
    pub(crate) input: [usize; 3],
    /// Number of windows (output pixels), vertically and horizontally.
    pub(crate) windows: [usize; 2],
    pub(crate) kernel: [usize; 2],
    pub(crate) strides: [usize; 2],
    pub(crate) dilations: [usize; 2],
    /// Padding above and to the left; negative if the first windows start inside the input.
    pub(crate) before: [isize; 2],
    pub(crate) groups: usize,
    /// Distance between adjacent images of the output, in elements.
    pub(crate) image: usize,
    /// Distances between adjacent rows and between adjacent pixels of the output, in elements.
    pub(crate) pitch: [usize; 2],
}

/// Memory layout of the windows of some output rows; all distances are in elements.
struct View<T> {
    start: *const T,
    /// Distances between vertically and horizontally adjacent windows.
    window: [usize; 2],
    /// Distances between vertically and horizontally adjacent taps.
    tap: [usize; 2],
}

/// Maximum number of input elements that are copied to scratch memory for a band of output rows, unless a
/// single row needs more.
const BAND: usize = 1 << 17;

/// Operands of a direct convolution: the input, one weight matrix per group, the epilogue that converts sums to
/// outputs, and the output.
struct ConvolutionOperands<'a, T, F, M: Matrix<T, F>> {
    input: &'a dyn Activations<T>,
    groups: &'a [M],
    finish: &'a F,
    output: Shared<M::Output>,
}

/// Spare elements at the end of scratch buffers, because integer matrices read up to three bytes past each
/// segment.
const SLACK: usize = 4;

impl DirectConvolution {
    /// Returns the direct convolution that computes `convolution` with a dense output.
    pub(crate) fn new(convolution: &Convolution) -> Self {
        let [height, width, channels] = convolution.output;
        Self {
            batches: convolution.batches,
            input: convolution.input,
            windows: [height, width],
            kernel: convolution.kernel,
            strides: convolution.strides,
            dilations: convolution.dilations,
            before: convolution.before.map(|before| before as isize),
            groups: convolution.groups,
            image: height * width * channels,
            pitch: [width * channels, channels],
        }
    }

    /// Runs the convolution with one weight matrix per group. `finish` is the epilogue that the matrices apply to sums
    /// (clamping or requantization).
    ///
    /// # Safety
    /// The output channels of every window (for all groups) must be writable at `output` and not accessed by other
    /// threads.
    pub(crate) unsafe fn run<T: Pod + Send + Sync, F: Sync, M: Matrix<T, F>>(
        &self,
        engine: Engine,
        input: &dyn Activations<T>,
        groups: &[M],
        finish: &F,
        output: *mut M::Output,
    ) where
        M::Output: Send,
    {
        let [height, width] = self.windows;
        assert_eq!(groups.len(), self.groups, "a matrix for each group");
        let outputs = groups[0].outputs() * groups.len();
        if self.batches * height * width * outputs == 0 {
            return;
        }
        let operands = ConvolutionOperands { input, groups, finish, output: Shared(output) };
        let gather = self.gathers();
        let pixels_per_unit = if gather { 1 } else { width };
        let units = self.batches * height * width / pixels_per_unit;
        let nanoseconds = groups.len() as f64 * groups[0].nanoseconds(self.batches * height * width);
        // Each row of windows is a product of its own, so more of them make no larger tiles.
        let least = LEAST_ROWS.div_ceil(pixels_per_unit);
        let split = Split::new(&engine, units, least, groups[0].panels(), nanoseconds);
        split.for_each(&engine, |units, panels| {
            // SAFETY: tasks write different units or different panels.
            unsafe {
                match gather {
                    true => self.run_gathered(units, panels, &operands),
                    false => self.run_rows(units, panels, &operands),
                }
            }
        });
    }

    /// Returns the number of taps per segment and the number of elements per segment. A segment is a part of
    /// one group's window that is contiguous in memory.
    pub(crate) fn segment(&self) -> (usize, usize) {
        let channels = self.input[2] / self.groups;
        let taps = match (self.gathers(), self.groups == 1 && self.dilations[1] == 1) {
            (true, _) => self.kernel[0] * self.kernel[1],
            (false, true) => self.kernel[1],
            (false, false) => 1,
        };
        (taps, taps * channels)
    }

    /// Returns the number of input pixels along `axis` that `windows` adjacent windows span.
    fn covered(&self, axis: usize, windows: usize) -> usize {
        (windows - 1) * self.strides[axis] + (self.kernel[axis].max(1) - 1) * self.dilations[axis] + 1
    }

    /// Whether every window along `axis` is inside the input.
    fn is_inside(&self, axis: usize) -> bool {
        let last = self.covered(axis, self.windows[axis]) as isize - self.before[axis];
        self.before[axis] <= 0 && last <= self.input[axis] as isize
    }

    /// Whether whole windows are gathered (im2col): if output rows are too short for a tile, if there are no
    /// taps, or if rows with their padding would be mostly padding.
    fn gathers(&self) -> bool {
        let narrow = self.windows[1] < 4 && self.windows[0] > 1;
        narrow || self.kernel.contains(&0) || self.covered(1, self.windows[1]) > 2 * self.input[1] + 64
    }

    /// Computes the output rows `units`, counted over all images, for the output channels of `panels` in each
    /// group.
    unsafe fn run_rows<T: Pod, F, M: Matrix<T, F>>(
        &self,
        units: Range<usize>,
        panels: Range<usize>,
        operands: &ConvolutionOperands<T, F, M>,
    ) {
        let [height, width] = self.windows;
        let [_, input_width, channels] = self.input;
        let elements = operands.input.in_place().filter(|_| self.is_inside(0) && self.is_inside(1));
        let inside = elements.is_some();
        // If the copied rows are shared, every window of the band reads the same copy. Otherwise each row of windows
        // gets its own copies. Whichever of the two needs fewer copies is used.
        let padded = self.covered(1, width);
        let shared = inside || self.covered(0, 8) < 8 * self.kernel[0];
        let [window_step, tap_step] =
            if shared { [self.strides[0], self.dilations[0]] } else { [self.kernel[0].max(1), 1] };
        let stored = |rows: usize| (rows - 1) * window_step + (self.kernel[0].max(1) - 1) * tap_step + 1;
        let band = if inside {
            height
        } else {
            (BAND / (padded * channels).max(1)).saturating_sub(stored(1)) / window_step + 1
        };
        let mut unit = units.start;
        while unit < units.end {
            let (batch, y) = (unit / height, unit % height);
            let rows = band.min(units.end - unit).min(height - y);
            let image = batch * self.input.iter().product::<usize>();
            // SAFETY: the caller's guarantee; the views contain every window of these rows.
            let multiply = |view: View<T>| unsafe {
                let output = operands.output.get().add(batch * self.image + y * self.pitch[0]);
                self.multiply_band(&view, rows, panels.clone(), operands, output)
            };
            if let Some(elements) = elements {
                let first = (y * self.strides[0]) as isize - self.before[0];
                let first = (first as usize * input_width + -self.before[1] as usize) * channels;
                let start = elements[image + first..].as_ptr();
                let [down, across] = [input_width * channels, channels];
                multiply(View {
                    start,
                    window: [self.strides[0] * down, self.strides[1] * across],
                    tap: [self.dilations[0] * down, self.dilations[1] * across],
                });
            } else {
                let length = stored(rows) * padded * channels;
                scratch::with(length + SLACK, |buffer| {
                    self.copy_rows(operands.input, image, y, shared, padded, &mut buffer[..length]);
                    let [down, across] = [padded * channels, channels];
                    multiply(View {
                        start: buffer.as_ptr(),
                        window: [window_step * down, self.strides[1] * across],
                        tap: [tap_step * down, self.dilations[1] * across],
                    });
                });
            }
            unit += rows;
        }
    }

    /// Fills `buffer` with the input rows, `padded` pixels wide, that windows from output row `y` on read, with zeros
    /// outside of the input. `image` is the index of the image's first element. If `shared`, each input row is copied
    /// once, otherwise once for each row of windows.
    fn copy_rows<T: Copy>(
        &self,
        input: &dyn Activations<T>,
        image: usize,
        y: usize,
        shared: bool,
        padded: usize,
        buffer: &mut [T],
    ) {
        for (index, target) in buffer.chunks_exact_mut((padded * self.input[2]).max(1)).enumerate() {
            let row = if shared {
                y * self.strides[0] + index
            } else {
                (y + index / self.kernel[0]) * self.strides[0] + index % self.kernel[0] * self.dilations[0]
            };
            self.copy_row(input, image, row as isize - self.before[0], target);
        }
    }

    fn copy_row<T: Copy>(&self, input: &dyn Activations<T>, image: usize, y: isize, target: &mut [T]) {
        let [height, width, channels] = self.input;
        if y < 0 || y >= height as isize {
            return target.fill(input.zero());
        }
        let skipped = ((-self.before[1]).max(0) as usize).min(width) * channels;
        let left = (self.before[1].max(0) as usize * channels).min(target.len());
        let count = (width * channels - skipped).min(target.len() - left);
        target[..left].fill(input.zero());
        input.copy(image + y as usize * width * channels + skipped, &mut target[left..left + count]);
        target[left + count..].fill(input.zero());
    }

    /// Multiplies the windows of `rows` output rows by the `panels` of each group's matrix.
    /// # Safety
    /// Every window of these rows must be readable through the view, and their outputs must be writable at
    /// `output` and not accessed by other threads.
    unsafe fn multiply_band<T: Copy, F, M: Matrix<T, F>>(
        &self,
        view: &View<T>,
        rows: usize,
        panels: Range<usize>,
        operands: &ConvolutionOperands<T, F, M>,
        output: *mut M::Output,
    ) {
        let channels = self.input[2] / self.groups;
        let (joined, length) = self.segment();
        let taps = self.kernel[1] / joined; // segments of a row of the window
        let segment = |index: usize| index / taps * view.tap[0] + index % taps * view.tap[1];
        let segments: Vec<usize> = (0..self.kernel[0] * taps).map(segment).collect();
        for (group, matrix) in operands.groups.iter().enumerate() {
            // SAFETY: guaranteed by the caller.
            unsafe {
                let start = view.start.add(group * channels);
                let a = Rows { start, stride: view.window[1], segments: &segments, length };
                let c = Target { start: output.add(group * matrix.outputs()), stride: self.pitch[1] };
                let lines = Lines { count: rows, steps: [view.window[0], self.pitch[0]] };
                let position = [0, group * matrix.outputs()];
                matrix.multiply_lines(panels.clone(), a, c, self.windows[1], lines, operands.finish, position);
            }
        }
    }

    /// Computes the output pixels `units`, counted over all images, from windows that are copied to scratch
    /// memory a few at a time (im2col).
    unsafe fn run_gathered<T: Pod, F, M: Matrix<T, F>>(
        &self,
        units: Range<usize>,
        panels: Range<usize>,
        operands: &ConvolutionOperands<T, F, M>,
    ) {
        const PIXELS: usize = 48;
        let [height, width] = self.windows;
        let channels = self.input[2] / self.groups;
        let depth = self.kernel[0] * self.kernel[1] * channels;
        scratch::with((PIXELS.min(units.len())) * depth + SLACK, |buffer| {
            for group in 0..self.groups {
                for first in units.clone().step_by(PIXELS) {
                    let pixels = first..(first + PIXELS).min(units.end);
                    for (pixel, window) in pixels.clone().zip(buffer.chunks_exact_mut(depth.max(1))) {
                        let (batch, y, x) = (pixel / (height * width), pixel / width % height, pixel % width);
                        let image = batch * self.input.iter().product::<usize>();
                        self.gather(operands.input, [y, x], image + group * channels, window);
                    }
                    self.multiply_gathered(pixels, panels.clone(), buffer, group, operands);
                }
            }
        });
    }

    /// Multiplies the gathered windows of `pixels` by the matrix of `group`, one run of evenly spaced output
    /// pixels at a time.
    fn multiply_gathered<T: Copy, F, M: Matrix<T, F>>(
        &self,
        pixels: Range<usize>,
        panels: Range<usize>,
        windows: &[T],
        group: usize,
        operands: &ConvolutionOperands<T, F, M>,
    ) {
        let matrix = &operands.groups[group];
        let [height, width] = self.windows;
        let depth = matrix.depth();
        let even = self.pitch[0] == width * self.pitch[1] && self.image == height * self.pitch[0];
        let mut pixel = pixels.start;
        while pixel < pixels.end {
            let run = if even { pixels.end } else { ((pixel / width + 1) * width).min(pixels.end) };
            let (batch, y, x) = (pixel / (height * width), pixel / width % height, pixel % width);
            let start = windows[(pixel - pixels.start) * depth..].as_ptr();
            let a = Rows { start, stride: depth, segments: &[0], length: depth };
            let offset = batch * self.image + y * self.pitch[0] + x * self.pitch[1] + group * matrix.outputs();
            // SAFETY: the windows are dense rows of A; `run`'s caller guarantees the output.
            unsafe {
                let c = Target { start: operands.output.get().add(offset), stride: self.pitch[1] };
                let position = [0, group * matrix.outputs()];
                matrix.multiply(panels.clone(), a, c, run - pixel, operands.finish, position);
            }
            pixel = run;
        }
    }

    /// Copies the window of output pixel `at` (`[y, x]`) to `window`, for the image and group whose first element is
    /// `first`. Taps outside of the input are set to zero.
    fn gather<T: Copy>(&self, input: &dyn Activations<T>, at: [usize; 2], first: usize, window: &mut [T]) {
        let [height, width, all] = self.input;
        let channels = all / self.groups;
        let position = |axis: usize, tap: usize| {
            (at[axis] * self.strides[axis]) as isize + (tap * self.dilations[axis]) as isize - self.before[axis]
        };
        for (index, target) in window.chunks_exact_mut(channels.max(1)).enumerate() {
            let (y, x) = (position(0, index / self.kernel[1]), position(1, index % self.kernel[1]));
            if y < 0 || x < 0 || y >= height as isize || x >= width as isize {
                target.fill(input.zero());
            } else {
                input.copy(first + (y as usize * width + x as usize) * all, target);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use attache_base::Serial;

    use super::*;
    use crate::testing::{Random, assert_close, three_by_three};

    fn naive(convolution: &Convolution, input: &[f32], filter: &[f32], bias: &[f32]) -> Vec<f32> {
        let Convolution { batches, input: [h, w, c], output: [oh, ow, o], kernel: [kh, kw], groups, .. } = *convolution;
        let mut output = Vec::new();
        for index in 0..batches * oh * ow * o {
            let (n, y, x, channel) = (index / (oh * ow * o), index / (ow * o) % oh, index / o % ow, index % o);
            let depth = c / groups;
            let first = channel / (o / groups) * depth;
            let mut sum = bias[channel];
            for tap in 0..kh * kw {
                let iy = (y * convolution.strides[0] + tap / kw * convolution.dilations[0])
                    .wrapping_sub(convolution.before[0]);
                let ix = (x * convolution.strides[1] + tap % kw * convolution.dilations[1])
                    .wrapping_sub(convolution.before[1]);
                if iy < h && ix < w {
                    for i in 0..depth {
                        sum += input[((n * h + iy) * w + ix) * c + first + i]
                            * filter[(channel * kh * kw + tap) * depth + i];
                    }
                }
            }
            output.push(sum.clamp(convolution.clamp.0, convolution.clamp.1));
        }
        output
    }

    fn check(engine: Engine, convolution: &Convolution, random: &mut Random) {
        let count = |extents: [usize; 3]| convolution.batches * extents.iter().product::<usize>();
        let input = random.floats(count(convolution.input));
        let depth = convolution.kernel[0] * convolution.kernel[1] * convolution.input[2] / convolution.groups;
        let filter = random.floats(convolution.output[2] * depth);
        let bias = random.floats(convolution.output[2]);
        let packed = PackedFilter::pack(engine.isa, convolution, &filter, Some(&bias));
        let mut output = vec![9.0; count(convolution.output)];
        convolve(engine, convolution, &input, &packed, &mut output);
        let expected = naive(convolution, &input, &filter, &bias);
        assert_close(&output, &expected, 1e-5, || format!("{} {convolution:?}", engine.isa.name()));
    }

    #[test]
    fn every_isa_matches_the_sum_over_windows() {
        let mut random = Random::new(3);
        for isa in Isa::available() {
            for _ in 0..150 {
                check(Engine { isa, parallel: &Serial }, &random.convolution(), &mut random);
            }
        }
    }

    #[test]
    fn threads_and_bands_meet() {
        let pool = attache_base::Pool::new(3);
        let mut random = Random::new(4);
        for (input, outputs) in [([60, 60, 40], 24), ([9, 9, 128], 200)] {
            let convolution = three_by_three(input, outputs);
            check(Engine::new(&pool), &convolution, &mut random);
        }
    }

    #[test]
    fn a_window_far_larger_than_the_input_takes_no_memory() {
        let convolution = Convolution {
            batches: 1,
            input: [4, 40, 2],
            output: [4, 40, 3],
            kernel: [3, 3],
            strides: [1, 1],
            dilations: [1 << 30, 1 << 30],
            before: [1 << 30, 1 << 30],
            first: 0,
            groups: 1,
            clamp: (-1.0, 1.0),
        };
        check(Engine::new(&Serial), &convolution, &mut Random::new(5));
    }
}

//! Bilinear and nearest-neighbour resizing of channels-last images. Coordinates are those of TensorFlow
//! Lite's reference kernels, computed in f32.

use crate::Engine;
use crate::simd::{Multiversioned, Simd};

/// Parameters of a resize of `[height, width, channels]` images to `[height, width]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resize {
    /// Number of images.
    pub batches: usize,
    /// Extents of one input image, `[height, width, channels]`; none may be zero.
    pub input: [usize; 3],
    /// Height and width of the output, in pixels.
    pub output: [usize; 2],
    /// Whether the centers of the input's corner pixels are mapped to the centers of the output's corner
    /// pixels.
    pub align_corners: bool,
    /// Whether the center of pixel `i` has coordinate `i + 0.5` instead of `i`.
    pub half_pixel_centers: bool,
}

impl Resize {
    fn scale(&self, axis: usize) -> f32 {
        let (input, output) = (self.input[axis], self.output[axis]);
        if self.align_corners && output > 1 {
            (input - 1) as f32 / (output - 1) as f32
        } else {
            input as f32 / output as f32
        }
    }

    /// Returns the two input positions along `axis` (0 for rows, 1 for columns) between which output position
    /// `index` is interpolated, and the weight of the second one.
    pub fn neighbours(&self, axis: usize, index: usize) -> (usize, usize, f32) {
        let scale = self.scale(axis);
        let position = if self.half_pixel_centers { (index as f32 + 0.5) * scale - 0.5 } else { index as f32 * scale };
        let last = self.input[axis] as i64 - 1;
        let floor = position.floor() as i64;
        // The weight is the distance from the clamped neighbour, as in the reference kernel.
        let lower = floor.clamp(0, last);
        let upper = (position.ceil() as i64).clamp(0, last);
        (lower as usize, upper as usize, position - lower as f32)
    }

    /// Returns the input position along `axis` nearest to output position `index`.
    ///
    /// # Panics
    ///
    /// If `axis` is neither 0 (height) nor 1 (width).
    #[must_use]
    pub fn nearest(&self, axis: usize, index: usize) -> usize {
        let offset = if self.half_pixel_centers { 0.5 } else { 0.0 };
        let position = (index as f32 + offset) * self.scale(axis);
        let position = if self.align_corners { position.round() } else { position.floor() };
        (position as usize).min(self.input[axis] - 1)
    }

    pub(crate) fn check<T>(&self, input: &[T], output: &[T]) {
        assert_eq!(input.len(), self.batches * self.input.iter().product::<usize>(), "the input has its shape");
        let pixels = self.batches * self.output[0] * self.output[1];
        assert_eq!(output.len(), pixels * self.input[2], "the output has its shape");
    }
}

/// Resizes images by bilinear interpolation between the four nearest input pixels.
///
/// # Panics
///
/// Panics if the lengths of the slices do not match.
pub fn bilinear(engine: Engine, resize: &Resize, input: &[f32], output: &mut [f32]) {
    resize.check(input, output);
    let ([height, width, channels], [rows, columns]) = (resize.input, resize.output);
    if output.is_empty() {
        return;
    }
    let across: Vec<_> = (0..columns).map(|x| resize.neighbours(1, x)).collect();
    let row = columns * channels;
    let parts = engine.tasks(output.len() as f64 / 4.0, resize.batches * rows);
    engine.for_each_part(output, row, parts, |first, output| {
        for (index, output) in (first..).zip(output.chunks_exact_mut(row)) {
            let (upper, lower, weight) = resize.neighbours(0, index % rows);
            let line = |y: usize| &input[(index / rows * height + y) * width * channels..][..width * channels];
            let lines = [line(upper), line(lower)];
            engine.isa.dispatch(Row { lines, weight, across: &across, channels, output });
        }
    });
}

/// Kernel that computes one output row of a bilinear resize.
struct Row<'a> {
    lines: [&'a [f32]; 2],
    weight: f32,
    across: &'a [(usize, usize, f32)],
    channels: usize,
    output: &'a mut [f32],
}

impl Multiversioned for Row<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let (dy, channels) = (self.weight, self.channels);
        let zero = simd.splat(0.0);
        for (output, &(left, right, dx)) in self.output.chunks_exact_mut(channels).zip(self.across) {
            let [upper, lower] = self.lines;
            let weights = [(1.0 - dy) * (1.0 - dx), dy * (1.0 - dx), (1.0 - dy) * dx, dy * dx];
            let corners = [
                &upper[left * channels..][..channels],
                &lower[left * channels..][..channels],
                &upper[right * channels..][..channels],
                &lower[right * channels..][..channels],
            ];
            for (index, output) in output.chunks_mut(S::LANES).enumerate() {
                let part = index * S::LANES..index * S::LANES + output.len();
                let mut sum = zero;
                for (corner, weight) in corners.iter().zip(weights) {
                    sum = simd.multiply_add(simd.load_slice(&corner[part.clone()]), simd.splat(weight), sum);
                }
                simd.store_slice(output, sum);
            }
        }
    }
}

/// Resizes images of any element type by copying the nearest input pixel to each output pixel.
///
/// # Panics
///
/// Panics if the lengths of the slices do not match.
pub fn nearest<T: Copy + Send + Sync>(engine: Engine, resize: &Resize, input: &[T], output: &mut [T]) {
    resize.check(input, output);
    let ([height, width, channels], [rows, columns]) = (resize.input, resize.output);
    if output.is_empty() {
        return;
    }
    let across: Vec<usize> = (0..columns).map(|x| resize.nearest(1, x) * channels).collect();
    let row = columns * channels;
    let parts = engine.tasks(output.len() as f64 / 8.0, resize.batches * rows);
    engine.for_each_part(output, row, parts, |first, output| {
        for (index, output) in (first..).zip(output.chunks_exact_mut(row)) {
            let line = &input[(index / rows * height + resize.nearest(0, index % rows)) * width * channels..];
            for (target, start) in output.chunks_exact_mut(channels).zip(&across) {
                target.copy_from_slice(&line[*start..start + channels]);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use attache_base::Serial;

    use super::*;

    fn line(output: usize, align_corners: bool, half_pixel_centers: bool) -> (Vec<f32>, Vec<f32>) {
        let resize = Resize { batches: 1, input: [1, 3, 1], output: [1, output], align_corners, half_pixel_centers };
        let (mut smooth, mut near) = (vec![0.0; output], vec![0.0; output]);
        bilinear(Engine::new(&Serial), &resize, &[0.0, 10.0, 20.0], &mut smooth);
        nearest(Engine::new(&Serial), &resize, &[0.0, 10.0, 20.0], &mut near);
        (smooth, near)
    }

    #[test]
    fn coordinates_are_the_reference_kernels() {
        assert_eq!(
            line(6, false, false),
            (vec![0.0, 5.0, 10.0, 15.0, 20.0, 20.0], vec![0.0, 0.0, 10.0, 10.0, 20.0, 20.0])
        );
        assert_eq!(line(5, true, false), (vec![0.0, 5.0, 10.0, 15.0, 20.0], vec![0.0, 10.0, 10.0, 20.0, 20.0]));
        assert_eq!(
            line(6, false, true),
            (vec![0.0, 2.5, 7.5, 12.5, 17.5, 20.0], vec![0.0, 0.0, 10.0, 10.0, 20.0, 20.0])
        );
    }
}

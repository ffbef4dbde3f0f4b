//! Bilinear resizing of images of quantized elements with equal input and output quantization parameters.

use super::Stored;
use crate::Engine;
use crate::resize::Resize;

/// Number of fraction bits of input coordinates.
pub const DIGITS: u32 = 10;

/// Returns the two input positions along `axis` (0 for rows, 1 for columns) around output position `index`,
/// and the distance of the interpolated position from the first one, in units of 2⁻¹⁰ pixels.
pub fn neighbours(resize: &Resize, axis: usize, index: usize) -> (usize, usize, i64) {
    let (input, output, index) = (resize.input[axis] as i64, resize.output[axis] as i64, index as i64);
    let ratio = |input: i64, output: i64| ((input << DIGITS) + output / 2) / output;
    let scale = if resize.align_corners && output > 1 { ratio(input - 1, output - 1) } else { ratio(input, output) };
    let position =
        if resize.half_pixel_centers { index * scale + scale / 2 - (1 << (DIGITS - 1)) } else { index * scale };
    // Rounded towards zero, as in the reference kernel. Positions before the first pixel are clamped to it.
    let lower = (position / (1 << DIGITS)).clamp(0, input - 1);
    let upper = ((position + (1 << DIGITS) - 1) / (1 << DIGITS)).clamp(0, input - 1);
    (lower as usize, upper as usize, position - (lower << DIGITS))
}

/// Resizes images by bilinear interpolation in integer arithmetic, as TensorFlow Lite does for signed
/// elements.
///
/// # Panics
///
/// Panics if the lengths of the slices do not match.
pub fn bilinear<T: Stored>(engine: Engine, resize: &Resize, input: &[T], output: &mut [T]) {
    T::bilinear(engine, resize, input, output);
}

pub(super) fn bilinear_of<T: Stored>(engine: Engine, resize: &Resize, input: &[T], output: &mut [T]) {
    const ONE: i64 = 1 << DIGITS;
    let [down, across] =
        [0, 1].map(|axis| (0..resize.output[axis]).map(|index| neighbours(resize, axis, index)).collect::<Vec<_>>());
    run(engine, resize, input, output, [&down, &across], |corners: [i32; 4], dy, dx| {
        let weights = [(ONE - dy) * (ONE - dx), dy * (ONE - dx), (ONE - dy) * dx, dy * dx];
        let sum: i64 = corners.iter().zip(weights).map(|(corner, weight)| i64::from(*corner) * weight).sum();
        let half = if sum > 0 { 1 << (2 * DIGITS - 1) } else { -(1 << (2 * DIGITS - 1)) };
        T::truncate(((sum + half) / (1 << (2 * DIGITS))) as i32)
    });
}

/// Resizes images by bilinear interpolation in f32, as TensorFlow Lite does for unsigned elements.
///
/// # Panics
///
/// Panics if the lengths of the slices do not match.
pub fn bilinear_in_floats<T: Stored>(engine: Engine, resize: &Resize, input: &[T], output: &mut [T]) {
    T::bilinear_in_floats(engine, resize, input, output);
}

pub(super) fn bilinear_in_floats_of<T: Stored>(engine: Engine, resize: &Resize, input: &[T], output: &mut [T]) {
    let [down, across] =
        [0, 1].map(|axis| (0..resize.output[axis]).map(|index| resize.neighbours(axis, index)).collect::<Vec<_>>());
    run(engine, resize, input, output, [&down, &across], |corners: [i32; 4], dy, dx| {
        let [a, b, c, d] = corners.map(|corner| corner as f32);
        let sum = a * (1.0 - dy) * (1.0 - dx) + b * dy * (1.0 - dx) + c * (1.0 - dy) * dx + d * dy * dx;
        T::truncate((sum + 0.5) as i32)
    });
}

/// The two input positions around an output position along one axis, and the weight of the second one.
type Neighbours<W> = (usize, usize, W);

/// Writes `weigh(corners, dy, dx)` for each output element. The corners are upper left, lower left, upper right and
/// lower right; `dy` and `dx` are the vertical and horizontal weights.
fn run<T: Stored, W: Copy + Sync>(
    engine: Engine,
    resize: &Resize,
    input: &[T],
    output: &mut [T],
    [down, across]: [&[Neighbours<W>]; 2],
    weigh: impl Fn([i32; 4], W, W) -> T + Sync,
) {
    resize.check(input, output);
    let ([height, width, channels], [rows, columns]) = (resize.input, resize.output);
    if output.is_empty() {
        return;
    }
    let row = columns * channels;
    let band = (resize.batches * rows).div_ceil(engine.tasks(output.len() as f64 * 2.0, resize.batches * rows));
    engine.for_each_chunk(output, band * row, |task, output| {
        for (offset, output) in output.chunks_exact_mut(row).enumerate() {
            let index = task * band + offset;
            let (upper, lower, dy) = down[index % rows];
            let line = |y: usize| &input[(index / rows * height + y) * width * channels..][..width * channels];
            let (upper, lower) = (line(upper), line(lower));
            for (output, &(left, right, dx)) in output.chunks_exact_mut(channels).zip(across) {
                let pixel = |line: &'_ [T], x: usize, channel: usize| line[x * channels + channel].into();
                for (channel, value) in output.iter_mut().enumerate() {
                    let corner = |line, x| pixel(line, x, channel);
                    let corners =
                        [corner(upper, left), corner(lower, left), corner(upper, right), corner(lower, right)];
                    *value = weigh(corners, dy, dx);
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use attache_base::Serial;

    use super::*;

    #[test]
    fn pixels_between_are_weighed() {
        let resize =
            Resize { batches: 1, input: [1, 2, 1], output: [1, 4], align_corners: false, half_pixel_centers: false };
        let mut output = [0i8; 4];
        bilinear(Engine::new(&Serial), &resize, &[-10, 9], &mut output);
        assert_eq!(output, [-10, -1, 9, 9]);
        let mut output = [0u8; 4];
        bilinear_in_floats(Engine::new(&Serial), &resize, &[10, 29], &mut output);
        assert_eq!(output, [10, 20, 29, 29]);
    }
}

//! Bilinear resizing of images of quantized elements with equal input and output quantization parameters.

use super::Stored;
use crate::Engine;
use crate::resize::Resize;
use crate::simd::{Multiversioned, Simd};

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
    let [down, across] =
        [0, 1].map(|axis| (0..resize.output[axis]).map(|index| neighbours(resize, axis, index)).collect::<Vec<_>>());
    // With weights of at most 1½, the magnitudes of those of one axis add up to 2 at most.
    let is_near = |weight: i64| (-ONE / 2..=ONE * 3 / 2).contains(&weight);
    let are_near = down.iter().chain(&across).all(|neighbours| is_near(neighbours.2));
    match are_near && T::LEAST >= -128 && T::MOST <= 255 {
        true => run(engine, resize, input, output, [&down, &across], Narrow),
        false => run(engine, resize, input, output, [&down, &across], Wide),
    }
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
    run(engine, resize, input, output, [&down, &across], Floats);
}

/// The two input positions around an output position along one axis, and the weight of the second one.
type Neighbours<W> = (usize, usize, W);

/// The weight of a whole pixel.
const ONE: i64 = 1 << DIGITS;

/// An arithmetic of bilinear interpolation. The corners are upper left, lower left, upper right and lower right.
trait Arithmetic: Copy + Sync {
    /// The vertical and the horizontal distance from the first corner.
    type Weight: Copy + Sync;
    /// The weight of a corner.
    type Corner: Copy;
    fn corners(self, dy: Self::Weight, dx: Self::Weight) -> [Self::Corner; 4];
    fn weigh(self, corners: [i32; 4], weights: [Self::Corner; 4]) -> i32;
}

/// Integers of 32 bits, for sums of 8-bit elements.
#[derive(Clone, Copy)]
struct Narrow;

impl Arithmetic for Narrow {
    type Weight = i64;
    type Corner = i32;

    #[inline(always)]
    fn corners(self, dy: i64, dx: i64) -> [i32; 4] {
        Wide.corners(dy, dx).map(|weight| weight as i32)
    }

    #[inline(always)]
    fn weigh(self, corners: [i32; 4], weights: [i32; 4]) -> i32 {
        let [a, b, c, d] = corners;
        let sum = a * weights[0] + b * weights[1] + c * weights[2] + d * weights[3];
        let half = if sum > 0 { 1 << (2 * DIGITS - 1) } else { -(1 << (2 * DIGITS - 1)) };
        (sum + half) / (1 << (2 * DIGITS))
    }
}

/// Integers of 64 bits.
#[derive(Clone, Copy)]
struct Wide;

impl Arithmetic for Wide {
    type Weight = i64;
    type Corner = i64;

    #[inline(always)]
    fn corners(self, dy: i64, dx: i64) -> [i64; 4] {
        [(ONE - dy) * (ONE - dx), dy * (ONE - dx), (ONE - dy) * dx, dy * dx]
    }

    #[inline(always)]
    fn weigh(self, corners: [i32; 4], weights: [i64; 4]) -> i32 {
        let [a, b, c, d] = corners.map(i64::from);
        let sum = a * weights[0] + b * weights[1] + c * weights[2] + d * weights[3];
        let half = if sum > 0 { 1 << (2 * DIGITS - 1) } else { -(1 << (2 * DIGITS - 1)) };
        ((sum + half) / (1 << (2 * DIGITS))) as i32
    }
}

/// Floats of 32 bits, whose products are rounded in the order of the reference kernel.
#[derive(Clone, Copy)]
struct Floats;

impl Arithmetic for Floats {
    type Weight = f32;
    type Corner = [f32; 2];

    #[inline(always)]
    fn corners(self, dy: f32, dx: f32) -> [[f32; 2]; 4] {
        [[1.0 - dy, 1.0 - dx], [dy, 1.0 - dx], [1.0 - dy, dx], [dy, dx]]
    }

    #[inline(always)]
    fn weigh(self, corners: [i32; 4], weights: [[f32; 2]; 4]) -> i32 {
        let product = |corner: usize| corners[corner] as f32 * weights[corner][0] * weights[corner][1];
        (product(0) + product(1) + product(2) + product(3) + 0.5) as i32
    }
}

/// Resizes images in an arithmetic.
fn run<T: Stored, A: Arithmetic>(
    engine: Engine,
    resize: &Resize,
    input: &[T],
    output: &mut [T],
    [down, across]: [&[Neighbours<A::Weight>]; 2],
    arithmetic: A,
) {
    resize.check(input, output);
    let ([height, width, channels], [rows, columns]) = (resize.input, resize.output);
    if output.is_empty() {
        return;
    }
    let row = columns * channels;
    let band = (resize.batches * rows).div_ceil(engine.tasks(output.len() as f64, resize.batches * rows));
    engine.for_each_chunk(output, band * row, |task, output| {
        for (offset, output) in output.chunks_exact_mut(row).enumerate() {
            let index = task * band + offset;
            let (upper, lower, dy) = down[index % rows];
            let line = |y: usize| &input[(index / rows * height + y) * width * channels..][..width * channels];
            engine.isa.dispatch(Row { lines: [line(upper), line(lower)], dy, across, channels, output, arithmetic });
        }
    });
}

/// Kernel that computes one output row.
struct Row<'a, T, A: Arithmetic> {
    lines: [&'a [T]; 2],
    dy: A::Weight,
    across: &'a [Neighbours<A::Weight>],
    channels: usize,
    output: &'a mut [T],
    arithmetic: A,
}

impl<T: Stored, A: Arithmetic> Multiversioned for Row<'_, T, A> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { lines: [upper, lower], dy, across, channels, output, arithmetic } = self;
        for (output, &(left, right, dx)) in output.chunks_exact_mut(channels).zip(across) {
            let weights = arithmetic.corners(dy, dx);
            let [left, right] = [left, right].map(|x| x * channels..(x + 1) * channels);
            let (a, b) = (&upper[left.clone()], &lower[left]);
            let (c, d) = (&upper[right.clone()], &lower[right]);
            for (channel, value) in output.iter_mut().enumerate() {
                let corners = [a[channel].into(), b[channel].into(), c[channel].into(), d[channel].into()];
                *value = T::truncate(arithmetic.weigh(corners, weights));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use attache_base::Serial;

    use super::*;
    use crate::Isa;
    use crate::testing::Random;

    #[test]
    fn every_isa_gives_the_bits_of_the_definition() {
        let mut random = Random::new(81);
        for round in 0..200 {
            let resize = Resize {
                batches: 1 + random.below(2),
                input: [1 + random.below(6), 1 + random.below(6), 1 + random.below(40)],
                output: [1 + random.below(9), 1 + random.below(9)],
                align_corners: round % 3 == 0,
                half_pixel_centers: round % 3 == 1,
            };
            let [height, width, channels] = resize.input;
            let input: Vec<i8> =
                random.bytes(resize.batches * height * width * channels).into_iter().map(|byte| byte as i8).collect();
            let mut expected = Vec::new();
            for index in 0..resize.batches * resize.output[0] * resize.output[1] * channels {
                let (pixel, channel) = (index / channels, index % channels);
                let (row, x) = (pixel / resize.output[1], pixel % resize.output[1]);
                let (batch, y) = (row / resize.output[0], row % resize.output[0]);
                let ((top, bottom, dy), (left, right, dx)) = (neighbours(&resize, 0, y), neighbours(&resize, 1, x));
                let at = |y: usize, x: usize| i64::from(input[((batch * height + y) * width + x) * channels + channel]);
                let sum = (at(top, left) * (ONE - dy) + at(bottom, left) * dy) * (ONE - dx)
                    + (at(top, right) * (ONE - dy) + at(bottom, right) * dy) * dx;
                expected.push((sum + if sum > 0 { 1 << 19 } else { -(1 << 19) }) / (1 << 20));
            }
            for isa in Isa::available() {
                let engine = Engine { isa, parallel: &Serial };
                let mut output = vec![0i8; expected.len()];
                bilinear(engine, &resize, &input, &mut output);
                assert!(output.iter().map(|value| i64::from(*value)).eq(expected.iter().copied()), "{}", isa.name());
                // 16-bit elements take the wide arithmetic, for which numbers are the same.
                let wide: Vec<i16> = input.iter().map(|value| i16::from(*value)).collect();
                let mut output = vec![0i16; expected.len()];
                bilinear(engine, &resize, &wide, &mut output);
                assert!(output.iter().map(|value| i64::from(*value)).eq(expected.iter().copied()), "{}", isa.name());
                let bytes: Vec<u8> = input.iter().map(|value| *value as u8).collect();
                let [mut portable, mut found] = [(); 2].map(|()| vec![0u8; expected.len()]);
                bilinear_in_floats(Engine { isa: Isa::portable(), ..engine }, &resize, &bytes, &mut portable);
                bilinear_in_floats(engine, &resize, &bytes, &mut found);
                assert_eq!(found, portable, "{}", isa.name());
            }
        }
    }

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

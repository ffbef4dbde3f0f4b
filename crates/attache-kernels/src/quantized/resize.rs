//! Bilinear resizing of images of quantized elements with equal input and output quantization parameters.

use bytemuck::Pod;

use super::Stored;
use crate::math::truncated;
use crate::resize::Resize;
use crate::simd::{Multiversioned, Simd};
use crate::{Engine, scratch};

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

/// An arithmetic of bilinear interpolation: first between two rows, then between two columns.
trait Arithmetic: Copy + Sync {
    /// The vertical and the horizontal distance from the first row or column.
    type Weight: Copy + Sync;
    /// A term of an element between two rows.
    type Mixed: Pod;
    /// The number of terms of such an element: one or two.
    const TERMS: usize;
    /// Returns the terms of the element between `upper` and `lower`; if there is one, twice.
    fn down(self, upper: i32, lower: i32, dy: Self::Weight) -> [Self::Mixed; 2];
    /// Returns the element between two others, of which it gets the terms.
    fn across(self, left: [Self::Mixed; 2], right: [Self::Mixed; 2], dx: Self::Weight) -> i32;
}

/// Integers of 32 bits, for sums of 8-bit elements.
#[derive(Clone, Copy)]
struct Narrow;

impl Arithmetic for Narrow {
    type Weight = i64;
    type Mixed = i32;
    const TERMS: usize = 1;

    #[inline(always)]
    fn down(self, upper: i32, lower: i32, dy: i64) -> [i32; 2] {
        [upper * (ONE - dy) as i32 + lower * dy as i32; 2]
    }

    #[inline(always)]
    fn across(self, [left, _]: [i32; 2], [right, _]: [i32; 2], dx: i64) -> i32 {
        // What is computed for elements beyond a pixel may wrap.
        let sum = left.wrapping_mul((ONE - dx) as i32).wrapping_add(right.wrapping_mul(dx as i32));
        let half = if sum > 0 { 1 << (2 * DIGITS - 1) } else { -(1 << (2 * DIGITS - 1)) };
        sum.wrapping_add(half) / (1 << (2 * DIGITS))
    }
}

/// Integers of 64 bits.
#[derive(Clone, Copy)]
struct Wide;

impl Arithmetic for Wide {
    type Weight = i64;
    type Mixed = i64;
    const TERMS: usize = 1;

    #[inline(always)]
    fn down(self, upper: i32, lower: i32, dy: i64) -> [i64; 2] {
        [i64::from(upper) * (ONE - dy) + i64::from(lower) * dy; 2]
    }

    #[inline(always)]
    fn across(self, [left, _]: [i64; 2], [right, _]: [i64; 2], dx: i64) -> i32 {
        let sum = left.wrapping_mul(ONE - dx).wrapping_add(right.wrapping_mul(dx));
        let half = if sum > 0 { 1 << (2 * DIGITS - 1) } else { -(1 << (2 * DIGITS - 1)) };
        (sum.wrapping_add(half) / (1 << (2 * DIGITS))) as i32
    }
}

/// Floats of 32 bits, whose products are rounded in the order of the reference kernel.
#[derive(Clone, Copy)]
struct Floats;

impl Arithmetic for Floats {
    type Weight = f32;
    type Mixed = f32;
    const TERMS: usize = 2;

    #[inline(always)]
    fn down(self, upper: i32, lower: i32, dy: f32) -> [f32; 2] {
        [upper as f32 * (1.0 - dy), lower as f32 * dy]
    }

    #[inline(always)]
    fn across(self, left: [f32; 2], right: [f32; 2], dx: f32) -> i32 {
        let sum = left[0] * (1.0 - dx) + left[1] * (1.0 - dx) + right[0] * dx + right[1] * dx + 0.5;
        truncated(sum)
    }
}

/// Channels that are computed at a time. Those of the last block of a pixel may lie beyond it.
const BLOCK: usize = 16;

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
    // Where the output is much narrower, only the columns that it needs are interpolated between rows.
    let needed: Option<Vec<usize>> =
        (width > 2 * columns).then(|| across.iter().flat_map(|&(left, right, _)| [left, right]).collect());
    let moved: Vec<Neighbours<A::Weight>> =
        across.iter().enumerate().map(|(x, &(.., dx))| (2 * x, 2 * x + 1, dx)).collect();
    let across = if needed.is_some() { &moved } else { across };
    let mixed = needed.as_ref().map_or(width, Vec::len) * channels;
    let row = columns * channels;
    let nanoseconds = resize.batches as f64 * rows as f64 * (row as f64 * 0.25 + mixed as f64 * 0.15);
    let parts = engine.tasks(nanoseconds, resize.batches * rows);
    engine.for_each_part(output, row, parts, |first, output| {
        scratch::with(A::TERMS * (mixed + BLOCK), |terms: &mut [A::Mixed]| {
            for (index, output) in (first..).zip(output.chunks_exact_mut(row)) {
                let (upper, lower, dy) = down[index % rows];
                let line = |y: usize| &input[(index / rows * height + y) * width * channels..][..width * channels];
                let (lines, needed) = ([line(upper), line(lower)], needed.as_deref());
                engine.isa.dispatch(Down { lines, dy, needed, channels, terms, arithmetic });
                engine.isa.dispatch(Across { terms, across, channels, output, arithmetic });
            }
        });
    });
}

/// Kernel that computes the terms of the elements between two rows: of all columns, or of those that are needed.
struct Down<'a, T, A: Arithmetic> {
    lines: [&'a [T]; 2],
    dy: A::Weight,
    needed: Option<&'a [usize]>,
    channels: usize,
    terms: &'a mut [A::Mixed],
    arithmetic: A,
}

impl<T: Stored, A: Arithmetic> Multiversioned for Down<'_, T, A> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { lines: [upper, lower], dy, needed, channels, terms, arithmetic } = self;
        let (first, second) = terms.split_at_mut(terms.len() / A::TERMS);
        let Some(columns) = needed else {
            return mix([upper, lower], first, second, dy, arithmetic);
        };
        for (index, column) in columns.iter().enumerate() {
            let (from, to) = (column * channels, index * channels);
            let second = if A::TERMS == 1 { &mut [] } else { &mut second[to..] };
            mix([&upper[from..][..channels], &lower[from..][..channels]], &mut first[to..], second, dy, arithmetic);
        }
    }
}

/// Writes the terms of the elements between those of two lines.
#[inline(always)]
fn mix<T: Stored, A: Arithmetic>(
    [upper, lower]: [&[T]; 2],
    first: &mut [A::Mixed],
    second: &mut [A::Mixed],
    dy: A::Weight,
    arithmetic: A,
) {
    let elements = upper.iter().zip(lower);
    if A::TERMS == 1 {
        for ((upper, lower), first) in elements.zip(first) {
            [*first, _] = arithmetic.down((*upper).into(), (*lower).into(), dy);
        }
    } else {
        for ((upper, lower), (first, second)) in elements.zip(first.iter_mut().zip(second)) {
            [*first, *second] = arithmetic.down((*upper).into(), (*lower).into(), dy);
        }
    }
}

/// Kernel that computes one output row from the terms of elements between two rows of the input.
struct Across<'a, T, A: Arithmetic> {
    terms: &'a [A::Mixed],
    across: &'a [Neighbours<A::Weight>],
    channels: usize,
    output: &'a mut [T],
    arithmetic: A,
}

impl<T: Stored, A: Arithmetic> Multiversioned for Across<'_, T, A> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        // The pixels of which all blocks lie within the row. What lies beyond a pixel is overwritten by those after it.
        let whole = self.output.len().checked_sub(self.channels.next_multiple_of(BLOCK));
        let whole = whole.map_or(0, |rest| rest / self.channels + 1);
        let Self { terms, across, channels, output, arithmetic } = self;
        let terms = terms.split_at(terms.len() / A::TERMS);
        for (pixel, neighbours) in across.iter().enumerate() {
            for channel in (0..channels).step_by(BLOCK) {
                let block = interpolate(terms, neighbours, channels, channel, arithmetic);
                let target = &mut output[pixel * channels + channel..];
                if pixel < whole {
                    target[..BLOCK].copy_from_slice(&block);
                } else {
                    for (target, value) in target.iter_mut().zip(&block) {
                        *target = *value;
                    }
                }
            }
        }
    }
}

/// Returns a block of elements between two columns, from channel `channel` on.
#[inline(always)]
fn interpolate<T: Stored, A: Arithmetic>(
    (first, second): (&[A::Mixed], &[A::Mixed]),
    &(left, right, dx): &Neighbours<A::Weight>,
    channels: usize,
    channel: usize,
    arithmetic: A,
) -> [T; BLOCK] {
    let second = if A::TERMS == 1 { first } else { second };
    let (left, right) = (left * channels + channel, right * channels + channel);
    let (a, b) = (block(first, left), block(second, left));
    let (c, d) = (block(first, right), block(second, right));
    let mut words = [0; BLOCK];
    for (lane, word) in words.iter_mut().enumerate() {
        *word = arithmetic.across([a[lane], b[lane]], [c[lane], d[lane]], dx);
    }
    let mut block = [T::truncate(0); BLOCK];
    for (value, word) in block.iter_mut().zip(&words) {
        *value = T::truncate(*word);
    }
    block
}

/// Returns the block of terms from element `start` on.
#[inline(always)]
fn block<M>(terms: &[M], start: usize) -> &[M; BLOCK] {
    terms[start..].first_chunk().expect("a block after the last column")
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
                input: [
                    1 + random.below(6),
                    1 + random.below(if round % 5 == 0 { 40 } else { 6 }),
                    1 + random.below(40),
                ],
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

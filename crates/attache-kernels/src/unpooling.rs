//! Maximum pooling that also returns the place of each maximum in its window, and its inverse. A place is
//! `column × window height + row`.

use std::sync::{Mutex, PoisonError};

use crate::Engine;
use crate::pooling::Pooling;
use crate::simd::{Multiversioned, Simd};

/// Writes the maximum of each window and its place. Of equal elements the first one wins; windows are read column by column.
/// NaN is kept only where it is the first element of a window. Padding replicates the border of the image: an element of
/// the first row or column has the place of its replica at the window's start. The bounds of `pooling` have no effect.
///
/// # Panics
///
/// Panics if the lengths of the slices do not match.
pub fn max_pool_with_places(engine: Engine, pooling: &Pooling, input: &[f32], values: &mut [f32], places: &mut [u32]) {
    pooling.check(input, values.len());
    assert_eq!(places.len(), values.len(), "a place for each maximum");
    if values.is_empty() {
        return;
    }
    let ([height, width, channels], [rows, columns]) = (pooling.input, pooling.output);
    let (row, image) = (columns * channels, height * width * channels);
    let nanoseconds = (values.len() * pooling.kernel[0] * pooling.kernel[1]) as f64 * 0.2;
    let band = (pooling.batches * rows).div_ceil(engine.tasks(nanoseconds, pooling.batches * rows));
    let parts = values.chunks_mut(band * row).zip(places.chunks_mut(band * row));
    let parts: Vec<_> = parts.map(Mutex::new).collect();
    engine.for_each(parts.len(), |task| {
        let (values, places) = &mut *parts[task].lock().unwrap_or_else(PoisonError::into_inner);
        let rows_of_places = places.chunks_exact_mut(row);
        for (offset, (values, places)) in values.chunks_exact_mut(row).zip(rows_of_places).enumerate() {
            let index = task * band + offset;
            let image = &input[index / rows * image..][..image];
            engine.isa.dispatch(Row { pooling, image, y: index % rows, values, places });
        }
    });
}

/// Kernel that computes one row of maxima and places.
struct Row<'a> {
    pooling: &'a Pooling,
    image: &'a [f32],
    y: usize,
    values: &'a mut [f32],
    places: &'a mut [u32],
}

impl Multiversioned for Row<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let [_, width, channels] = self.pooling.input;
        let (ys, skipped_rows) = self.pooling.window(0, self.y);
        let pixels = self.values.chunks_exact_mut(channels).zip(self.places.chunks_exact_mut(channels));
        for (column, (values, places)) in pixels.enumerate() {
            let (xs, skipped_columns) = self.pooling.window(1, column);
            for (j, x) in xs.clone().enumerate() {
                for (i, y) in ys.clone().enumerate() {
                    let row = if y == 0 { 0 } else { skipped_rows + i };
                    let column = if x == 0 { 0 } else { skipped_columns + j };
                    let place = (column * self.pooling.kernel[0] + row) as u32;
                    let elements = &self.image[(y * width + x) * channels..][..channels];
                    if (i, j) == (0, 0) {
                        values.copy_from_slice(elements);
                        places.fill(place);
                        continue;
                    }
                    for ((value, found), element) in values.iter_mut().zip(places.iter_mut()).zip(elements) {
                        let is_greater = *element > *value;
                        *value = if is_greater { *element } else { *value };
                        *found = if is_greater { place } else { *found };
                    }
                }
            }
        }
    }
}

/// Writes each element of images of `extents` `[batches, height, width, channels]` to its place in its window of `size`
/// `[height, width]`, and zeros elsewhere. Windows do not overlap. Elements with a place outside of the window are dropped.
///
/// # Panics
///
/// Panics if the lengths of the slices do not match.
pub fn unpool(
    engine: Engine,
    size: [usize; 2],
    extents: [usize; 4],
    values: &[f32],
    places: &[u32],
    output: &mut [f32],
) {
    let ([batches, height, width, channels], [rows, columns]) = (extents, size);
    assert_eq!(values.len(), batches * height * width * channels, "the input has its shape");
    assert_eq!(places.len(), values.len(), "a place for each element");
    assert_eq!(output.len(), values.len() * rows * columns, "the output has its shape");
    if output.is_empty() {
        return;
    }
    let (line, pitch) = (width * channels, width * columns * channels);
    // The distance of each place from the window's start, in elements.
    let offsets: Vec<usize> = (0..rows * columns).map(|place| place % rows * pitch + place / rows * channels).collect();
    let band = (batches * height).div_ceil(engine.tasks(output.len() as f64 * 0.5, batches * height));
    engine.for_each_chunk(output, band * rows * pitch, |task, output| {
        for (offset, output) in output.chunks_exact_mut(rows * pitch).enumerate() {
            output.fill(0.0);
            let start = (task * band + offset) * line;
            let pixels = values[start..][..line].chunks_exact(channels).zip(places[start..].chunks_exact(channels));
            for (x, (values, places)) in pixels.enumerate() {
                for (channel, (value, place)) in values.iter().zip(places).enumerate() {
                    if let Some(offset) = offsets.get(*place as usize) {
                        output[x * columns * channels + offset + channel] = *value;
                    }
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use attache_base::{Pool, Serial};

    use super::*;
    use crate::Isa;
    use crate::testing::Random;

    #[test]
    fn elements_go_to_their_places() {
        let (engine, mut output) = (Engine::new(&Serial), [9.0; 12]);
        unpool(engine, [2, 3], [1, 1, 2, 1], &[5.0, 6.0], &[1, 4], &mut output);
        assert_eq!(output, [0.0, 0.0, 0.0, 0.0, 0.0, 6.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        let mut output = [9.0; 6];
        unpool(engine, [2, 3], [1, 1, 1, 1], &[5.0], &[u32::MAX], &mut output);
        assert_eq!(output, [0.0; 6]);
    }

    #[test]
    fn what_is_pooled_returns_to_where_it_was() {
        let (pool, mut random) = (Pool::new(3), Random::new(91));
        for round in 0..60 {
            let (batches, channels) = (1 + random.below(2), 1 + random.below(40));
            let [rows, columns] = [(); 2].map(|()| 1 + random.below(if round % 10 == 0 { 30 } else { 6 }));
            let size = [1 + random.below(3), 1 + random.below(3)];
            let pooling = Pooling {
                batches,
                input: [rows * size[0], columns * size[1], channels],
                output: [rows, columns],
                kernel: size,
                strides: size,
                before: [0, 0],
                clamp: (f32::MIN, f32::MAX),
            };
            let input = random.floats(batches * rows * columns * channels * size[0] * size[1]);
            let count = batches * rows * columns * channels;
            for isa in Isa::available() {
                for parallel in [&Serial as &dyn attache_base::Parallel, &pool] {
                    let engine = Engine { isa, parallel };
                    let (mut values, mut places) = (vec![9.0; count], vec![9; count]);
                    max_pool_with_places(engine, &pooling, &input, &mut values, &mut places);
                    let mut output = vec![9.0; input.len()];
                    unpool(engine, size, [batches, rows, columns, channels], &values, &places, &mut output);
                    let back = input.iter().zip(&output).filter(|(before, after)| before == after && **after != 0.0);
                    assert_eq!(back.count(), count, "{} {pooling:?}", isa.name());
                    assert_eq!(output.iter().filter(|value| **value != 0.0).count(), count);
                    let most = input.iter().copied().fold(f32::MIN, f32::max);
                    assert_eq!(values.iter().copied().fold(f32::MIN, f32::max), most);
                }
            }
        }
    }
}

//! Sums of quantized elements over any set of axes, in 32 bits.

use crate::Engine;
use crate::reduce::{Axis, merge};
use crate::simd::{Multiversioned, Simd};

/// Neighbouring sums that a thread computes at least.
const TOGETHER: usize = 64;

/// Sums `input` over the axes of `shape` for which `reduced` is true. `sums` has the remaining axes in order, and no sum may
/// need more than 32 bits.
pub(super) fn sums_of<T: Copy + Into<i32> + Sync>(
    engine: Engine,
    input: &[T],
    shape: &[usize],
    reduced: &[bool],
    sums: &mut [i32],
) {
    assert_eq!(input.len(), shape.iter().product::<usize>(), "the input has its shape");
    let pairs = || shape.iter().zip(reduced);
    let kept: usize = pairs().filter(|pair| !pair.1).map(|pair| pair.0).product();
    assert!(sums.len() == kept && shape.len() == reduced.len(), "the sums have the axes that are kept");
    sums.fill(0);
    if input.is_empty() {
        return;
    }
    let axes = merge(shape, reduced);
    match axes[..] {
        // The pixels of an image: threads divide the channels.
        [Axis { reduced: true, .. }, Axis { extent: width, .. }] if width % TOGETHER == 0 => {
            let parts = engine.tasks(input.len() as f64 / 32.0, width / TOGETHER);
            engine.for_each_part(sums, TOGETHER, parts, |first, sums| {
                engine.isa.dispatch(Rows { input, width, first: first * TOGETHER, sums });
            });
        }
        _ => engine.isa.dispatch(Sums { input, axes: &axes, sums }),
    }
}

struct Sums<'a, T> {
    input: &'a [T],
    axes: &'a [Axis],
    sums: &'a mut [i32],
}

impl<T: Copy + Into<i32>> Multiversioned for Sums<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { input, axes, sums } = self;
        let add = |sum: i32, value: T| sum.wrapping_add(value.into());
        match axes {
            [] => sums[0] = add(sums[0], input[0]),
            [Axis { reduced: true, .. }] => sums[0] = input.iter().fold(sums[0], |sum, value| add(sum, *value)),
            [Axis { reduced: false, .. }] => {
                sums.iter_mut().zip(input).for_each(|(sum, value)| *sum = add(*sum, *value))
            }
            [Axis { reduced: true, .. }, Axis { extent, .. }] => {
                Rows { input, width: *extent, first: 0, sums }.run(simd);
            }
            [outer, inner @ ..] => {
                let chunk = sums.len() / if outer.reduced { 1 } else { outer.extent };
                for (index, input) in input.chunks_exact(input.len() / outer.extent).enumerate() {
                    let start = if outer.reduced { 0 } else { index * chunk };
                    simd.vectorize(Sums { input, axes: inner, sums: &mut sums[start..start + chunk] });
                }
            }
        }
    }
}

/// Sums the elements of rows of `width` elements, from `first` on as many of each as there are sums.
struct Rows<'a, T> {
    input: &'a [T],
    width: usize,
    first: usize,
    sums: &'a mut [i32],
}

impl<T: Copy + Into<i32>> Multiversioned for Rows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { input, width, mut first, sums } = self;
        let mut blocks = sums.chunks_exact_mut(TOGETHER);
        for block in &mut blocks {
            // They stay in registers.
            let mut totals = [0i32; TOGETHER];
            for row in input.chunks_exact(width) {
                for (total, value) in totals.iter_mut().zip(&row[first..first + TOGETHER]) {
                    *total = total.wrapping_add((*value).into());
                }
            }
            block.iter_mut().zip(totals).for_each(|(sum, total)| *sum = sum.wrapping_add(total));
            first += TOGETHER;
        }
        let rest = blocks.into_remainder();
        for row in input.chunks_exact(width) {
            rest.iter_mut().zip(&row[first..]).for_each(|(sum, value)| *sum = sum.wrapping_add((*value).into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use attache_base::{Parallel, Pool, Serial};

    use super::*;
    use crate::Isa;
    use crate::reduce::fold;
    use crate::testing::Random;

    #[test]
    fn every_isa_axis_and_number_of_threads_gives_the_sums() {
        let (pool, mut random) = (Pool::new(3), Random::new(57));
        let shapes: [&[usize]; 8] =
            [&[], &[5], &[0, 3], &[3, 0], &[49, 256], &[2, 7, 7, 64], &[3, 5, 2, 9], &[600, 1, 320]];
        for shape in shapes {
            let input: Vec<i8> = (0..shape.iter().product()).map(|_| random.below(256) as u8 as i8).collect();
            for set in 0..1usize << shape.len() {
                let reduced: Vec<bool> = (0..shape.len()).map(|axis| set >> axis & 1 == 1).collect();
                let kept = shape.iter().zip(&reduced).filter(|pair| !pair.1).map(|pair| pair.0).product();
                let mut expected = vec![0; kept];
                fold(&input, shape, &reduced, &mut expected, 0, |sum, value| sum + i32::from(value));
                for (isa, parallel) in Isa::available()
                    .into_iter()
                    .flat_map(|isa| [&Serial as &dyn Parallel, &pool].map(|parallel| (isa, parallel)))
                {
                    let mut sums = vec![9; kept];
                    sums_of(Engine { isa, parallel }, &input, shape, &reduced, &mut sums);
                    assert_eq!(sums, expected, "{shape:?} {reduced:?} {}", isa.name());
                }
            }
        }
    }
}

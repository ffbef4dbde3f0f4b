//! Products with matrices that are used once ([`gemm_once`]).
#![allow(unsafe_code)] // Micro-kernels on pointers: rows of C that belong to different tasks interleave.

use std::ops::Range;

use attache_base::portion;

use super::strided::StridedMatrix;
use super::{PANEL_VECTORS, Pass, Rows, Target, add_products};
use crate::engine::Shared;
use crate::simd::{Multiversioned, Simd};
use crate::{Engine, Isa, scratch};

/// Computes `C[m, n] = Σₖ A[m, k] × W[n, k]` for `rows` rows of `a`, without a gap between rows, by weights that are used
/// once. A few rows are multiplied by the weights as they lie, where the terms of an output or those of a column are adjacent.
/// For others a few panels are packed right before they are used, in memory that stays in the cache, instead of all of them
/// before the first.
///
/// # Panics
///
/// Panics if `a`, `c` or the weights are too short.
pub fn gemm_once(engine: Engine, rows: usize, a: &[f32], weights: StridedMatrix<'_>, c: &mut [f32]) {
    let StridedMatrix { outputs, depth, .. } = weights;
    let fits = |length: usize, width: usize| rows.checked_mul(width).is_some_and(|needed| length >= needed);
    assert!(fits(a.len(), depth) && fits(c.len(), outputs), "A and C have every row");
    weights.check();
    if rows == 0 || outputs == 0 || depth == 0 {
        return c[..rows * outputs].fill(0.0);
    }
    let isa = engine.isa;
    let full = PANEL_VECTORS * isa.lanes();
    let (panels, target) = (outputs.div_ceil(full), Shared(c.as_mut_ptr()));
    let unpacked = if rows <= MOST_UNPACKED { weights.columns_unpacked(isa) } else { 0 };
    let reading = if unpacked > 0 { 3 } else { 8 };
    let nanoseconds = (outputs * depth * (rows + reading)) as f64 / (4 * isa.lanes()) as f64;
    let parts = engine.tasks(nanoseconds, panels);
    engine.for_each(parts, |part| {
        let columns = portion(panels, parts, part);
        let columns = columns.start * full..(columns.end * full).min(outputs);
        let before = columns.start..columns.end.min(unpacked);
        if !before.is_empty() {
            // SAFETY: A and C have every row; tasks write disjoint columns.
            isa.dispatch(Unpacked {
                rows,
                a,
                weights,
                columns: before,
                c: Target { start: target.get(), stride: outputs },
            });
        }
        if columns.end <= unpacked {
            return;
        }
        // SAFETY: A and C have every row; tasks write disjoint columns.
        unsafe {
            let c = Target { start: target.get(), stride: outputs };
            multiply_packed(isa, [rows, columns.start.max(unpacked), columns.end], a, weights, c);
        }
    });
}

/// Multiplies `rows` rows of A by the columns from `first` to `end`, in panels that are packed before.
///
/// # Safety
/// A and C must have every row, and nothing else may access these columns of C.
unsafe fn multiply_packed(
    isa: Isa,
    [rows, first, end]: [usize; 3],
    a: &[f32],
    weights: StridedMatrix<'_>,
    c: Target<f32>,
) {
    let (full, depth, lanes) = (PANEL_VECTORS * isa.lanes(), weights.depth, isa.lanes());
    let size = full.min((end - first).next_multiple_of(lanes)) * (depth + 1);
    let together = (TOGETHER / size).clamp(1, (end - first).div_ceil(full));
    let block = if together > 1 { ROWS } else { rows };
    scratch::with(together * size, |memory: &mut [f32]| {
        for group in (first..end).step_by(together * full) {
            let starts = (group..end).step_by(full).take(together);
            let columns = |start: usize| start..(start + full).min(end);
            for (start, panel) in starts.clone().zip(memory.chunks_exact_mut(size)) {
                let width = columns(start).len().next_multiple_of(lanes);
                let (bias, lines) = panel[..width * (depth + 1)].split_at_mut(width);
                bias.fill(0.0);
                weights.pack_panel(isa, columns(start), width, lines);
            }
            for row in (0..rows).step_by(block) {
                for (start, panel) in starts.clone().zip(memory.chunks_exact(size)) {
                    let (rows, columns) = (block.min(rows - row), columns(start).len());
                    let a = Rows { start: a[row * depth..].as_ptr(), stride: depth, segments: &[0], length: depth };
                    // SAFETY: guaranteed by the caller.
                    let c = Target { start: unsafe { c.start.add(row * c.stride + start) }, ..c };
                    let clamp = (f32::NEG_INFINITY, f32::INFINITY);
                    isa.dispatch(Pass { a, c, rows, panels: panel, distance: 0, columns, clamp });
                }
            }
        }
    });
}

/// Elements of the panels that are packed at once. They stay in the second-level cache while all rows are multiplied by them.
const TOGETHER: usize = 1 << 16;

/// Rows that are multiplied by one of several panels after the other. Adjacent columns of C are then written soon after each
/// other, before a cache line that belongs to two panels leaves the caches.
const ROWS: usize = 48;

/// Maximum number of rows that are multiplied by weights as they lie. Packing takes less time than reading them again.
const MOST_UNPACKED: usize = 4;

/// Kernel that multiplies at most [`MOST_UNPACKED`] rows of A by columns of weights as they lie.
struct Unpacked<'a> {
    rows: usize,
    a: &'a [f32],
    weights: StridedMatrix<'a>,
    /// Columns before [`StridedMatrix::columns_unpacked`].
    columns: Range<usize>,
    c: Target<f32>,
}

impl Multiversioned for Unpacked<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        macro_rules! rows {
            ($($rows:literal)*) => {
                match self.rows {
                    $($rows if self.weights.strides[1] == 1 => simd.vectorize(DotProducts::<$rows>(&self)),)*
                    $($rows => self.sums::<S, $rows>(simd),)*
                    _ => unreachable!("few rows"),
                }
            };
        }
        rows!(1 2 3 4)
    }
}

impl Unpacked<'_> {
    /// Adds whole rows of the weights, of which columns are adjacent.
    #[inline(always)]
    fn sums<S: Simd, const ROWS: usize>(&self, simd: S) {
        let mut column = self.columns.start;
        while column < self.columns.end {
            column += match (self.columns.end - column) / S::LANES {
                8.. if ROWS == 1 => simd.vectorize(Sums::<ROWS, 8> { of: self, column }),
                4.. if ROWS <= 2 => simd.vectorize(Sums::<ROWS, 4> { of: self, column }),
                2.. => simd.vectorize(Sums::<ROWS, 2> { of: self, column }),
                _ => simd.vectorize(Sums::<ROWS, 1> { of: self, column }),
            };
        }
    }
}

/// Kernel that computes `ROWS` rows of `VECTORS` vectors of columns, from `column` on, of weights whose columns are adjacent.
/// Returns the number of columns.
struct Sums<'p, 'a, const ROWS: usize, const VECTORS: usize> {
    of: &'p Unpacked<'a>,
    column: usize,
}

impl<const ROWS: usize, const VECTORS: usize> Multiversioned for Sums<'_, '_, ROWS, VECTORS> {
    type Output = usize;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> usize {
        let (Unpacked { a, c, .. }, StridedMatrix { values, depth, strides, .. }) = (self.of, self.of.weights);
        let mut sums = [[simd.splat(0.0); VECTORS]; ROWS];
        // SAFETY: the weights were checked to have these columns, A and C to have `ROWS` rows.
        unsafe {
            let weights = values.as_ptr().add(self.column);
            for k in 0..depth {
                let (a, weights) = (a.as_ptr().add(k), weights.add(k * strides[1]));
                add_products(simd, a, depth, weights, PANEL_VECTORS * S::LANES, &mut sums);
            }
            for (r, sums) in sums.into_iter().enumerate() {
                let c = c.start.add(r * c.stride + self.column);
                sums.into_iter().enumerate().for_each(|(v, sum)| simd.store(c.add(v * S::LANES), sum));
            }
        }
        VECTORS * S::LANES
    }
}

/// Kernel that computes `ROWS` rows of columns of weights whose terms are adjacent.
struct DotProducts<'p, 'a, const ROWS: usize>(&'p Unpacked<'a>);

impl<const ROWS: usize> Multiversioned for DotProducts<'_, '_, ROWS> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Unpacked { a, weights: StridedMatrix { values, depth, strides, .. }, ref columns, c, .. } = *self.0;
        let (whole, rest) = (depth / S::LANES * S::LANES, depth % S::LANES);
        for column in columns.clone() {
            let mut sums = [simd.splat(0.0); ROWS];
            // SAFETY: the weights were checked to have this column, A and C to have `ROWS` rows.
            unsafe {
                let (a, weights) = (a.as_ptr(), values.as_ptr().add(column * strides[0]));
                for k in (0..whole).step_by(S::LANES) {
                    let terms = simd.load(weights.add(k));
                    for (r, sum) in sums.iter_mut().enumerate() {
                        *sum = simd.multiply_add(simd.load(a.add(r * depth + k)), terms, *sum);
                    }
                }
                if rest > 0 {
                    let terms = simd.load_partial(weights.add(whole), rest);
                    for (r, sum) in sums.iter_mut().enumerate() {
                        *sum = simd.multiply_add(simd.load_partial(a.add(r * depth + whole), rest), terms, *sum);
                    }
                }
                for (r, sum) in sums.into_iter().enumerate() {
                    c.start.add(r * c.stride + column).write(simd.sum(sum));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemm::{PackedMatrix, gemm};
    use crate::testing::{Random, assert_close};

    #[test]
    fn weights_used_once_give_what_packed_ones_do() {
        let (pool, mut random) = (attache_base::Pool::new(3), Random::new(3));
        for isa in Isa::available() {
            for round in 0..60 {
                let rows = if round % 3 == 0 { 1 + random.below(200) } else { 1 + random.below(6) };
                let [depth, outputs] =
                    [1 + random.below(90) * if round % 5 == 0 { 9 } else { 1 }, 1 + random.below(400)];
                let (a, values) = (random.floats(rows * depth), random.floats(outputs * depth));
                let strides = if round % 2 == 0 { [1, outputs] } else { [depth, 1] };
                let matrix = PackedMatrix::pack_strided(isa, [outputs, depth], &values, strides, None);
                let [mut packed, mut once] = [vec![7.0; rows * outputs], vec![8.0; rows * outputs]];
                let everything = (f32::NEG_INFINITY, f32::INFINITY);
                let engine = Engine { isa, parallel: &pool };
                gemm(engine, rows, &a, depth, &matrix, &mut packed, outputs, everything);
                gemm_once(engine, rows, &a, StridedMatrix { values: &values, outputs, depth, strides }, &mut once);
                let case = || format!("{} {rows}x{depth}x{outputs}, {strides:?}", isa.name());
                // Where the terms are adjacent, few sums are added in another order.
                match rows <= MOST_UNPACKED && strides[1] == 1 {
                    true => assert_close(&once, &packed, 1e-5, case),
                    false => assert_eq!(once, packed, "{}", case()),
                }
            }
        }
    }
}

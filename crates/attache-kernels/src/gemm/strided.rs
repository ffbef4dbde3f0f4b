//! Matrices as they lie in memory ([`StridedMatrix`]), and their packing into panels.
#![allow(unsafe_code)] // Blocks of a strided plane, which are no slices.

use std::ops::Range;

use crate::simd::{Multiversioned, Simd};
use crate::{Engine, Isa};

/// Weights of `outputs` columns (N) and `depth` terms per sum (K), as they lie in memory.
#[derive(Clone, Copy)]
pub struct StridedMatrix<'a> {
    /// The weights.
    pub values: &'a [f32],
    /// The number of columns.
    pub outputs: usize,
    /// The number of terms of each sum.
    pub depth: usize,
    /// The distances in `values`, in elements, between adjacent outputs and between adjacent terms.
    pub strides: [usize; 2],
}

impl StridedMatrix<'_> {
    /// Checks that there are values for all outputs.
    ///
    /// # Panics
    ///
    /// Panics if they are too few.
    pub(super) fn check(&self) {
        let Self { values, outputs, depth, strides } = *self;
        if outputs > 0 && depth > 0 {
            let reach = |count: usize, stride: usize| (count - 1).checked_mul(stride);
            let last = reach(outputs, strides[0]).zip(reach(depth, strides[1]));
            let last = last.and_then(|(column, term)| column.checked_add(term));
            assert!(last.is_some_and(|last| last < values.len()), "weights of every output");
        }
    }

    /// Returns the number of columns, from the first on, by which rows can be multiplied as they lie.
    #[cfg(not(attache_small))]
    pub(super) fn columns_unpacked(&self, isa: Isa) -> usize {
        match self.strides {
            [_, 1] => self.outputs,
            [1, step] if step >= self.outputs => self.outputs / isa.lanes() * isa.lanes(),
            _ => 0,
        }
    }

    /// Writes the terms of the outputs `columns` into the lines of a panel, of `width` elements each. What belongs to no
    /// column is not modified.
    pub(super) fn pack_panel(&self, isa: Isa, columns: Range<usize>, width: usize, lines: &mut [f32]) {
        match cfg!(attache_small) {
            true => self.pack_terms(columns, 0..self.depth, width, lines),
            false => isa.dispatch(Packing { stored: self, columns, width, lines }),
        }
    }

    /// Writes the lines of a panel where they are parts of the rows of the matrix.
    #[inline(always)]
    fn pack_rows(&self, columns: Range<usize>, width: usize, lines: &mut [f32]) {
        let rows = self.values[columns.start.min(self.values.len())..].chunks(self.strides[1].max(columns.len()));
        for (line, row) in lines.chunks_exact_mut(width).zip(rows).take(self.depth) {
            let (line, row) = (&mut line[..columns.len()], &row[..columns.len()]);
            // Lines of a constant length are copied without a call.
            match line.len() {
                32 => line[..32].copy_from_slice(&row[..32]),
                16 => line[..16].copy_from_slice(&row[..16]),
                _ => line.copy_from_slice(row),
            }
        }
    }

    /// Writes these terms of the outputs `columns` into lines of `width` elements, one by one.
    #[inline(always)]
    fn pack_terms(&self, columns: Range<usize>, terms: Range<usize>, width: usize, lines: &mut [f32]) {
        let [apart, step] = self.strides;
        for (lane, output) in columns.enumerate() {
            for term in terms.clone() {
                lines[term * width + lane] = self.values[output * apart + term * step];
            }
        }
    }
}

/// Kernel that writes a panel.
struct Packing<'p, 'a> {
    stored: &'p StridedMatrix<'a>,
    columns: Range<usize>,
    width: usize,
    lines: &'p mut [f32],
}

impl Multiversioned for Packing<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { stored, columns, width, lines } = self;
        let StridedMatrix { values, depth, strides: [apart, step], .. } = *stored;
        if depth == 0 {
            return;
        }
        if apart == 1 && (step >= columns.len() || depth == 1) {
            return stored.pack_rows(columns, width, lines);
        }
        let [lanes, terms] =
            [columns.len(), depth].map(|extent| if step == 1 { extent / S::BLOCK * S::BLOCK } else { 0 });
        assert!(columns.len() <= width && depth * width <= lines.len(), "lines for every term");
        for lane in (0..lanes).step_by(S::BLOCK) {
            for term in (0..terms).step_by(S::BLOCK) {
                // SAFETY: the matrix was checked to have these outputs, and the panel has their lines.
                unsafe {
                    let from = values.as_ptr().add((columns.start + lane) * apart + term);
                    simd.transpose(from, apart, lines.as_mut_ptr().add(term * width + lane), width);
                }
            }
        }
        let whole = columns.start + lanes;
        stored.pack_terms(columns.start..whole, terms..depth, width, lines);
        stored.pack_terms(whole..columns.end, 0..depth, width, &mut lines[lanes..]);
    }
}

/// Writes the products of a row and each row of weights `[outputs, depth]`.
///
/// # Panics
///
/// Panics if there are too few weights.
pub fn multiply_row(engine: Engine, row: &[f32], weights: &[f32], products: &mut [f32]) {
    #[cfg(not(attache_small))]
    {
        let (outputs, depth) = (products.len(), row.len());
        let matrix = StridedMatrix { values: weights, outputs, depth, strides: [depth, 1] };
        super::gemm_once(engine, 1, row, matrix, products);
    }
    #[cfg(attache_small)]
    for (index, product) in products.iter_mut().enumerate() {
        let weights = &weights[index * row.len()..][..row.len()];
        *product = row.iter().zip(weights).map(|(value, weight)| value * weight).sum();
    }
    #[cfg(attache_small)]
    let _ = engine;
}

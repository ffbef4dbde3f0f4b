//! Matrix product with packed weights: `C[m, n] = clamp(Σₖ A[m, k] × W[n, k] + bias[n])`.
//!
//! Weights are packed into panels of two vectors along N. Each panel consists of its bias followed by its weights at k
//! = 0, 1, …. Activations are read in place. A tile of up to `Simd::ROWS` rows times one panel stays in registers over
//! all of K; tiles of one or two rows take several panels, so that enough sums are independent of each other. Convolution
//! uses the same tiles; there, K consists of separate segments in memory.
#![allow(unsafe_code)] // Micro-kernel on pointers: rows of C that belong to different tasks interleave.

#[cfg(not(attache_small))]
mod once;
mod strided;

use std::ops::Range;

use attache_base::portion;
use attache_base::storable::{Parts, Storable, StoredParts};

use crate::engine::{FEW, Shared, for_each_rectangle};
use crate::packed::{PackedValues, lines};
use crate::simd::{Isa, Multiversioned, Simd};
use crate::{AlignedFloats, Engine};

#[cfg(not(attache_small))]
pub use self::once::gemm_once;
pub use self::strided::{StridedMatrix, multiply_row};

/// Width of a full panel, in vectors.
const PANEL_VECTORS: usize = 2;

/// Weights and bias of a matrix product, packed for one instruction set.
#[derive(Clone)]
pub struct PackedMatrix {
    isa: Isa,
    outputs: usize,
    depth: usize,
    values: PackedValues,
}

impl PackedMatrix {
    /// Packs `weights[outputs, depth]` and one bias per output (zero if there is none).
    ///
    /// # Panics
    ///
    /// Panics if the lengths of `weights` or `bias` do not match.
    pub fn pack(isa: Isa, outputs: usize, depth: usize, weights: &[f32], bias: Option<&[f32]>) -> Self {
        Self::pack_strided(isa, [outputs, depth], weights, [depth, 1], bias)
    }

    /// Packs weights of `outputs` columns (N) and `depth` terms per sum (K), and one bias per output (zero if
    /// there is none). `strides` are the distances in `weights`, in elements, between adjacent outputs and
    /// between adjacent terms: `[1, outputs]` for a K × N matrix.
    ///
    /// # Panics
    ///
    /// Panics if `weights` is too short or `bias` does not have `outputs` elements.
    pub fn pack_strided(
        isa: Isa,
        [outputs, depth]: [usize; 2],
        weights: &[f32],
        strides: [usize; 2],
        bias: Option<&[f32]>,
    ) -> Self {
        assert!(bias.is_none_or(|bias| bias.len() == outputs), "one bias per output");
        let stored = StridedMatrix { values: weights, outputs, depth, strides };
        stored.check();
        let lanes = isa.lanes();
        let length = outputs.next_multiple_of(lanes) * (depth + 1);
        let mut matrix = Self { isa, outputs, depth, values: AlignedFloats::zeros(length).into() };
        for panel in 0..matrix.panels() {
            let (columns, width) = (matrix.columns(panel), matrix.width(panel));
            let start = matrix.offset(panel);
            let values = &mut matrix.values.to_mut()[start..start + width * (depth + 1)];
            for (lane, output) in columns.clone().enumerate() {
                values[lane] = bias.map_or(0.0, |bias| bias[output]);
            }
            stored.pack_panel(isa, columns, width, &mut values[width..]);
        }
        matrix
    }

    /// Returns the numbers from which the extents of the packed form of `outputs` columns and `depth` terms follow.
    pub fn parameters(outputs: usize, depth: usize) -> Vec<usize> {
        vec![outputs, depth]
    }

    /// Returns the number of columns of C (N).
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Returns the number of terms of each sum (K).
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Returns the memory used, in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&self.values[..])
    }

    /// Returns the instruction set that the weights are packed for.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Returns the outputs (columns of C) that a panel computes.
    fn columns(&self, panel: usize) -> Range<usize> {
        let full = PANEL_VECTORS * self.isa.lanes();
        panel * full..((panel + 1) * full).min(self.outputs)
    }

    /// Returns the number of columns of a panel, including the zero padding of its last vector.
    fn width(&self, panel: usize) -> usize {
        self.columns(panel).len().next_multiple_of(self.isa.lanes())
    }

    fn offset(&self, panel: usize) -> usize {
        panel * PANEL_VECTORS * self.isa.lanes() * (self.depth + 1)
    }

    /// Returns the number of panels, from the first of `panels` on, that a tile of `rows` rows computes at once. Several have
    /// full width.
    fn together(&self, rows: usize, panels: &Range<usize>) -> usize {
        let most = match rows {
            _ if cfg!(attache_small) => 1,
            1 => 4,
            2 => 2,
            _ => 1,
        };
        let lanes = self.isa.lanes();
        let full = (self.outputs + lanes - 1) / (PANEL_VECTORS * lanes);
        match full.min(panels.end).saturating_sub(panels.start) {
            found if found >= most => most,
            found if found >= 2 => 2,
            _ => 1,
        }
    }
}

impl Storable for PackedMatrix {
    fn store<'a>(&'a self, parts: &mut Parts<'a>) {
        self.values.store(parts);
    }

    fn load(parts: &mut StoredParts<'_>, parameters: &[usize]) -> Option<Self> {
        let (isa, &[outputs, depth]) = (Isa::detect(), parameters) else { return None };
        let values = PackedValues::load(parts, lines(outputs, isa.lanes(), depth)?)?;
        Some(Self { isa, outputs, depth, values })
    }
}

/// Multiplies `rows` rows of A, `a_stride` elements apart, by the packed weights, adds the bias, clamps to
/// `clamp`, and stores the rows of C `c_stride` elements apart. Elements of C between the last output of a
/// row and the next row are not modified.
///
/// # Panics
///
/// Panics if `a` or `c` is too short, or if rows of C overlap.
#[allow(clippy::too_many_arguments)] // the customary ones
pub fn gemm(
    engine: Engine,
    rows: usize,
    a: &[f32],
    a_stride: usize,
    matrix: &PackedMatrix,
    c: &mut [f32],
    c_stride: usize,
    clamp: (f32, f32),
) {
    let (outputs, depth) = (matrix.outputs, matrix.depth);
    if rows == 0 || outputs == 0 {
        return;
    }
    assert!(a.len() >= (rows - 1) * a_stride + depth, "A has every row");
    assert!(c.len() >= (rows - 1) * c_stride + outputs, "C has every row");
    assert!(rows == 1 || c_stride >= outputs, "rows of C don't overlap");
    let target = Shared(c.as_mut_ptr());
    let split = Split::new(&engine, rows, LEAST_ROWS, matrix.panels(), matrix.nanoseconds(rows));
    split.for_each(&engine, |rows, panels| {
        // As many rows of A and C as stay in the L2 cache while every panel is applied to them.
        let block = ((1 << 16) / depth.max(1)).min((1 << 17) / outputs) / 12 * 12;
        for start in rows.clone().step_by(block.max(24)) {
            let count = block.max(24).min(rows.end - start);
            let source =
                Rows { start: a[start * a_stride..].as_ptr(), stride: a_stride, segments: &[0], length: depth };
            // SAFETY: A and C were checked to contain these rows; tasks write disjoint rows or disjoint panels of C.
            unsafe {
                let c = Target { start: target.get().add(start * c_stride), stride: c_stride };
                matrix.multiply(panels.clone(), source, c, count, &clamp, [start, 0]);
            }
        }
    });
}

/// Rows of a task below which panels are divided instead: several tiles of most instruction sets.
pub(crate) const LEAST_ROWS: usize = 24;

/// Fewest rows of a task that prepares them.
#[cfg(not(attache_small))]
const TILE_ROWS: usize = 16;

/// The division of the rows and panels of a matrix product among tasks: each task computes one part of the
/// rows for one part of the panels.
pub(crate) struct Split {
    rows: usize,
    panels: usize,
    row_parts: usize,
    panel_parts: usize,
    /// Number of blocks of rows where threads divide blocks times `across`.
    blocks: usize,
    /// The number of panels, or 1 where all panels of a row belong to one thread.
    across: usize,
}

impl Split {
    /// Splits `rows` units and `panels` panels, which take about `nanoseconds` in total. A unit is a row or several. Units are
    /// split first, because then each task reads the weights only once; and panels if tasks would have fewer units than about
    /// `least`, at least 1.
    // Short beside any product; inlined, it would add half a kilobyte to each kind of them.
    #[inline(never)]
    pub(crate) fn new(engine: &Engine, rows: usize, least: usize, panels: usize, nanoseconds: f64) -> Self {
        let tasks = engine.tasks(nanoseconds, rows.max(1) * panels.max(1));
        // With too few panels, even small parts of the rows are better than threads without work.
        let least = if rows.div_ceil(least) * panels < tasks { least.min(LEAST_ROWS) } else { least };
        let row_parts = tasks.min(rows.div_ceil(least)).max(1);
        // Each part of the panels prepares the rows of A anew.
        let tasks = if row_parts < tasks { tasks.min(FEW * engine.parallel.threads()) } else { tasks };
        let panel_parts = tasks.div_ceil(row_parts).min(panels).max(1);
        // With few panels, smaller blocks are better than threads that have one more than others, as long as they fill tiles.
        // With one panel, the blocks of a thread are computed together.
        let threads = engine.parallel.threads();
        let smallest = if panels > 1 { (least / 2).max(1) } else { 1 };
        let fine = || (FEW * threads).div_ceil(panels.max(1)).min(rows / smallest);
        let blocks = || rows.div_ceil(least).max(fine()).clamp(1, 64 * threads);
        let blocks = if cfg!(attache_small) { 1 } else { blocks() };
        Self { rows, panels, row_parts, panel_parts, blocks, across: panels.max(1) }
    }

    /// Splits rows and panels as [`Self::new`] does, but only rows if these are enough for all threads: they take long to
    /// prepare, which each part of the panels would do anew.
    #[cfg(not(attache_small))]
    pub(crate) fn by_rows(engine: &Engine, rows: usize, least: usize, panels: usize, nanoseconds: f64) -> Self {
        let threads = engine.parallel.threads();
        let least = least.min((rows / (2 * threads)).max(TILE_ROWS));
        let split = Self::new(engine, rows, least, panels, nanoseconds);
        match split.row_parts >= threads {
            true => Self { panel_parts: 1, blocks: rows.div_ceil(TILE_ROWS), across: 1, ..split },
            false => split,
        }
    }

    /// As [`Self::new`], because no small library prepares rows in parts.
    #[cfg(attache_small)]
    pub(crate) fn by_rows(engine: &Engine, rows: usize, least: usize, panels: usize, nanoseconds: f64) -> Self {
        Self::new(engine, rows, least, panels, nanoseconds)
    }

    /// Calls `task` with the row units and the panels of each part, on the engine's threads.
    pub(crate) fn for_each(&self, engine: &Engine, task: impl Fn(Range<usize>, Range<usize>) + Sync) {
        let tasks = self.row_parts * self.panel_parts;
        if engine.divides(tasks) {
            let block = |index: usize| portion(self.rows, self.blocks, index);
            return engine.divide(self.blocks * self.across, tasks, |cells| {
                for_each_rectangle(cells, self.across, |blocks, panels| {
                    let panels = if self.across == 1 { 0..self.panels } else { panels };
                    task(block(blocks.start).start..block(blocks.end - 1).end, panels);
                });
            });
        }
        engine.for_each(tasks, |index| {
            let (row, panel) = (index / self.panel_parts, index % self.panel_parts);
            task(portion(self.rows, self.row_parts, row), portion(self.panels, self.panel_parts, panel));
        });
    }
}

/// Rows of A. Row `r` is the concatenation of `length` elements at `start + r × stride + segment` for each of
/// `segments`; all distances are in elements.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a, T> {
    pub(crate) start: *const T,
    pub(crate) stride: usize,
    pub(crate) segments: &'a [usize],
    pub(crate) length: usize,
}

/// Rows of C. Row `r` starts at `start + r × stride`, in elements.
#[derive(Clone, Copy)]
#[allow(unreachable_pub)] // A public trait that cannot be named elsewhere takes it.
pub struct Target<T> {
    pub(crate) start: *mut T,
    pub(crate) stride: usize,
}

/// Several products with the same matrix: their number, and the distances between their rows of A and of C, in elements.
#[derive(Clone, Copy)]
pub(crate) struct Lines {
    pub(crate) count: usize,
    pub(crate) steps: [usize; 2],
}

/// The packed matrix B (weights) of a product A × B = C. `T` is the type of the elements of A. `F` is the
/// epilogue that converts sums to elements of C: clamping or requantization.
pub(crate) trait Matrix<T, F>: Sync {
    type Output;

    /// Returns the number of columns of C (N).
    fn outputs(&self) -> usize;
    /// Returns the number of terms of each sum (K).
    fn depth(&self) -> usize;
    /// Returns the number of panels into which the columns are divided.
    fn panels(&self) -> usize;
    /// Returns about how long one thread takes for `rows` rows of C, in nanoseconds, including the conversion of the rows
    /// of A and the epilogue. The number of tasks is derived from it.
    fn nanoseconds(&self, rows: usize) -> f64;

    /// Computes `rows` rows of C in the columns of `panels`. `c` points at column 0 of the first row.
    /// `position` is the row and column that this element has for the epilogue `finish`, whose parameters may
    /// depend on both.
    ///
    /// # Safety
    /// Every element of `rows` rows of A must be readable. The panels' columns of as many rows of C must be writable
    /// and not accessed by other threads in the meantime. `segments × length` must be the matrix's depth. Integer
    /// matrices read up to three bytes past each segment.
    unsafe fn multiply(
        &self,
        panels: Range<usize>,
        a: Rows<T>,
        c: Target<Self::Output>,
        rows: usize,
        finish: &F,
        position: [usize; 2],
    );

    /// Computes several products as [`Self::multiply`] does, of which all have the same position.
    ///
    /// # Safety
    /// As for [`Self::multiply`], for each of them.
    #[allow(clippy::too_many_arguments)] // those of `multiply`
    unsafe fn multiply_lines(
        &self,
        panels: Range<usize>,
        a: Rows<T>,
        c: Target<Self::Output>,
        rows: usize,
        lines: Lines,
        finish: &F,
        position: [usize; 2],
    ) {
        for panel in panels {
            for line in 0..lines.count {
                // SAFETY: guaranteed by the caller.
                unsafe {
                    let a = Rows { start: a.start.add(line * lines.steps[0]), ..a };
                    let c = Target { start: c.start.add(line * lines.steps[1]), ..c };
                    self.multiply(panel..panel + 1, a, c, rows, finish, position);
                }
            }
        }
    }
}

impl Matrix<f32, (f32, f32)> for PackedMatrix {
    type Output = f32;

    fn outputs(&self) -> usize {
        self.outputs
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn panels(&self) -> usize {
        self.outputs.div_ceil(PANEL_VECTORS * self.isa.lanes())
    }

    fn nanoseconds(&self, rows: usize) -> f64 {
        // Products, and the clamping and stores of the outputs.
        (rows * self.outputs * (self.depth + 4)) as f64 / (4 * self.isa.lanes()) as f64
    }

    unsafe fn multiply(
        &self,
        panels: Range<usize>,
        a: Rows<f32>,
        c: Target<f32>,
        rows: usize,
        clamp: &(f32, f32),
        _: [usize; 2],
    ) {
        debug_assert_eq!(a.segments.len() * a.length, self.depth);
        let mut panels = panels;
        while !panels.is_empty() {
            let group = panels.start..panels.start + self.together(rows, &panels);
            let columns = self.columns(group.start).start..self.columns(group.end - 1).end;
            // SAFETY: the column is within C.
            let start = unsafe { c.start.add(columns.start) };
            let c = Target { start, ..c };
            let values = &self.values[self.offset(group.start)..];
            let distance = self.offset(1);
            let pass = Pass { a, c, rows, panels: values, distance, columns: columns.len(), clamp: *clamp };
            self.isa.dispatch(pass);
            panels.start = group.end;
        }
    }
}

/// Kernel that multiplies `rows` rows of A by one panel, or by a few of full width.
struct Pass<'a> {
    a: Rows<'a, f32>,
    c: Target<f32>,
    rows: usize,
    panels: &'a [f32],
    /// The distance between the starts of adjacent panels, in elements.
    distance: usize,
    columns: usize,
    clamp: (f32, f32),
}

impl Multiversioned for Pass<'_> {
    type Output = ();
    const WIDE: bool = !cfg!(attache_small);

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        // Tiles of nearly equal height: a last tile of a single row would leave the multipliers idle.
        let tiles = self.rows.div_ceil(S::ROWS);
        for index in 0..tiles {
            let rows = portion(self.rows, tiles, index);
            // SAFETY: `multiply`'s caller guarantees every row.
            let (a, c) =
                unsafe { (self.a.start.add(rows.start * self.a.stride), self.c.start.add(rows.start * self.c.stride)) };
            self.tile(simd, rows.len(), a, c);
        }
    }
}

impl Pass<'_> {
    #[inline(always)]
    fn tile<S: Simd>(&self, simd: S, rows: usize, a: *const f32, c: *mut f32) {
        macro_rules! heights {
            ($($rows:literal)*) => {
                match rows {
                    #[cfg(not(attache_small))]
                    1 if self.columns > 6 * S::LANES => simd.vectorize(Tile::<1, 8> { pass: self, a, c }),
                    #[cfg(not(attache_small))]
                    1 if self.columns > 2 * S::LANES => simd.vectorize(Tile::<1, 4> { pass: self, a, c }),
                    #[cfg(not(attache_small))]
                    2 if self.columns > 2 * S::LANES => simd.vectorize(Tile::<2, 4> { pass: self, a, c }),
                    $($rows if $rows <= S::ROWS && self.columns > S::LANES => {
                        simd.vectorize(Tile::<$rows, 2> { pass: self, a, c })
                    })*
                    $($rows if $rows <= S::ROWS => simd.vectorize(Tile::<$rows, 1> { pass: self, a, c }),)*
                    _ => unreachable!("tiles are as high as the registers allow"),
                }
            };
        }
        heights!(1 2 3 4 5 6 7 8 9 10 11 12)
    }
}

/// Kernel that computes one tile of `ROWS` rows × `VECTORS` vectors of columns, with all sums in registers.
struct Tile<'p, 'a, const ROWS: usize, const VECTORS: usize> {
    pass: &'p Pass<'a>,
    a: *const f32,
    c: *mut f32,
}

impl<const ROWS: usize, const VECTORS: usize> Multiversioned for Tile<'_, '_, ROWS, VECTORS> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Pass { a: rows, c: target, panels, distance, columns, clamp, .. } = *self.pass;
        let width = VECTORS.min(PANEL_VECTORS) * S::LANES;
        // SAFETY: each panel contains its bias and `depth` further lines of `width` elements; `multiply`'s caller
        // guarantees A and C, and the last vector stores only the columns that exist.
        unsafe {
            let mut weights = panels.as_ptr();
            let mut sums = [[simd.splat(0.0); VECTORS]; ROWS];
            for v in 0..VECTORS {
                let bias = simd.load(weights.add(place::<S>(v, distance)));
                for row in &mut sums {
                    row[v] = bias;
                }
            }
            weights = weights.add(width);
            for segment in rows.segments {
                let (mut a, mut rest) = (self.a.add(*segment), rows.length);
                while rest >= UNROLLED {
                    for k in 0..UNROLLED {
                        add_products(simd, a.add(k), rows.stride, weights.add(k * width), distance, &mut sums);
                    }
                    (a, weights, rest) = (a.add(UNROLLED), weights.add(UNROLLED * width), rest - UNROLLED);
                }
                for _ in 0..rest {
                    add_products(simd, a, rows.stride, weights, distance, &mut sums);
                    (a, weights) = (a.add(1), weights.add(width));
                }
            }
            let (lower, upper) = (simd.splat(clamp.0), simd.splat(clamp.1));
            for (r, sums) in sums.into_iter().enumerate() {
                let c = self.c.add(r * target.stride);
                for (v, sum) in sums.into_iter().enumerate() {
                    let sum = simd.clamp(sum, lower, upper);
                    let c = c.add(v * S::LANES);
                    match columns - v * S::LANES {
                        count if count < S::LANES => simd.store_partial(c, sum, count),
                        _ => simd.store(c, sum),
                    }
                }
            }
        }
    }
}

/// Terms of the sums of a tile that are added in one turn of a loop.
const UNROLLED: usize = if cfg!(attache_small) { 1 } else { 4 };

/// Returns where the vector of columns `v` of a tile lies in a line of its panels, which are `distance` elements apart.
#[inline(always)]
fn place<S: Simd>(v: usize, distance: usize) -> usize {
    v / PANEL_VECTORS * distance + v % PANEL_VECTORS * S::LANES
}

/// Adds one term to each sum of a tile: the products of the elements of A at `a`, `stride` elements apart, with a line of
/// each of the panels, the first of which is at `weights`; they are `distance` elements apart.
///
/// # Safety
/// An element of A must be readable for each row, and the whole lines.
#[inline(always)]
unsafe fn add_products<S: Simd, const ROWS: usize, const VECTORS: usize>(
    simd: S,
    a: *const f32,
    stride: usize,
    weights: *const f32,
    distance: usize,
    sums: &mut [[S::Vector; VECTORS]; ROWS],
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let mut column = [simd.splat(0.0); VECTORS];
        for (v, column) in column.iter_mut().enumerate() {
            *column = simd.load(weights.add(place::<S>(v, distance)));
        }
        for (r, sums) in sums.iter_mut().enumerate() {
            let x = simd.splat(*a.add(r * stride));
            for (sum, column) in sums.iter_mut().zip(column) {
                *sum = simd.multiply_add(x, column, *sum);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use attache_base::Serial;

    use super::*;
    use crate::testing::{Random, assert_close};

    fn check(isa: Isa, rows: usize, depth: usize, outputs: usize, transposed: bool, random: &mut Random) {
        let (a_stride, c_stride) = (depth + random.below(3), outputs + random.below(3));
        let a = random.floats(rows * a_stride + 1);
        let weights = random.floats(outputs * depth);
        let bias = random.floats(outputs);
        let strides = if transposed { [1, outputs] } else { [depth, 1] };
        let matrix = PackedMatrix::pack_strided(isa, [outputs, depth], &weights, strides, Some(&bias));
        let mut c = vec![7.0; rows * c_stride];
        let mut expected = c.clone();
        for m in 0..rows {
            for n in 0..outputs {
                let product = |k: usize| a[m * a_stride + k] * weights[n * strides[0] + k * strides[1]];
                expected[m * c_stride + n] = ((0..depth).map(product).sum::<f32>() + bias[n]).clamp(-2.0, 3.0);
            }
        }
        let engine = Engine { isa, parallel: &Serial };
        gemm(engine, rows, &a, a_stride, &matrix, &mut c, c_stride, (-2.0, 3.0));
        assert_close(&c, &expected, 1e-5, || format!("{} {rows}x{depth}x{outputs}", isa.name()));
    }

    #[test]
    fn every_isa_matches_the_sum() {
        let mut random = Random::new(1);
        for isa in Isa::available() {
            for rows in 1..=26 {
                check(isa, rows, 5, 33, false, &mut random);
            }
            for _ in 0..60 {
                let (rows, depth, outputs) = (1 + random.below(70), random.below(40), 1 + random.below(100));
                let transposed = random.below(2) == 1;
                check(isa, rows, depth, outputs, transposed, &mut random);
            }
        }
    }

    #[test]
    fn threads_share_rows_and_panels() {
        let pool = attache_base::Pool::new(3);
        let mut random = Random::new(2);
        for [rows, depth, outputs] in [[1, 700, 1000], [300, 128, 96], [49, 256, 300]] {
            let (a, weights) = (random.floats(rows * depth), random.floats(outputs * depth));
            let matrix = PackedMatrix::pack(Isa::detect(), outputs, depth, &weights, None);
            let everything = (f32::NEG_INFINITY, f32::INFINITY);
            let [mut on_one_thread, mut on_three] = [vec![0.0; rows * outputs], vec![0.0; rows * outputs]];
            gemm(Engine::new(&Serial), rows, &a, depth, &matrix, &mut on_one_thread, outputs, everything);
            gemm(Engine::new(&pool), rows, &a, depth, &matrix, &mut on_three, outputs, everything);
            assert_eq!(on_one_thread, on_three);
        }
    }

    #[test]
    fn not_a_number_stays() {
        for isa in Isa::available() {
            let matrix = PackedMatrix::pack(isa, 1, 1, &[f32::NAN], None);
            let mut c = [0.0];
            gemm(Engine { isa, parallel: &Serial }, 1, &[1.0], 1, &matrix, &mut c, 1, (0.0, 6.0));
            assert!(c[0].is_nan(), "{}", isa.name());
        }
    }
}

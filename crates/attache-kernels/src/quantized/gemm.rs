//! Matrix product of 8-bit elements: `C[m, n] = epilogue(Σₖ (A[m, k] − a₀) × (W[n, k] − w₀) + bias[n])`. Sums have 32
//! bits and wrap.
//!
//! As in the float product, weights are packed into panels of two vectors, and a tile stays in registers. A word
//! contains a group of adjacent terms along K, so each segment of K is padded to whole groups with zero weights. There
//! are two formats:
//!
//! - Groups of two contain 16-bit numbers with their zero points already subtracted.
//! - Groups of four contain unsigned activations and signed weights as stored. The contributions of the zero points are
//!   subtracted using the sums of the weights, which are known in advance, and the sums of the rows of A.
//!
//! Weights of 2 bits may stay packed in the second format ([`PackedIntegers::quartered`]).
//!
//! On processors that only multiply signed bytes, activations and their zero points are reduced by 128.
#![allow(unsafe_code)] // Micro-kernel on pointers: rows of C that belong to different tasks interleave.

mod element;
mod floats;
mod quarters;

use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::atomic::{Ordering, compiler_fence};

use attache_base::portion;
use attache_base::storable::{Parts, Storable, StoredParts};

pub(super) use self::element::{Element, convert};
pub use self::floats::dynamic_gemm;
use super::epilogue::{GemmEpilogue, Sums};
use super::simd::{IntegerIsa, IntegerMultiversioned, Integers, widen};
use super::tiles::Tiles;
use crate::engine::Shared;
use crate::gemm::{LEAST_ROWS, Lines, Matrix, Rows, Split, Target};
use crate::packed::{PackedValues, lines};
use crate::{AlignedFloats, Engine, Isa, scratch};

/// Width of a full panel, in vectors.
const PANEL_VECTORS: usize = 2;

/// Maximum rows of a tile that also sums each of its rows of A, for weights with a zero point.
const SUMMED_ROWS: usize = 8;

/// Bytes of weights that a thread reads in a nanosecond from the second cache.
const READ: f64 = 60.0;

/// Zero point of 8-bit elements: a byte represents `scale × (byte − point)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zero {
    /// Whether the bytes are signed (−128 to 127) or unsigned (0 to 255).
    pub signed: bool,
    /// The quantized value that represents 0.
    pub point: i32,
}

impl Zero {
    /// Zero point to pack weights for if that of the signed activations is known only at run time. The
    /// epilogue then corrects the sums, as [`Rescale`](super::Rescale) does.
    pub const UNKNOWN: Self = Self { signed: true, point: -128 };

    /// Returns the zero point relative to the smallest value of the type, which is that of the bytes made
    /// unsigned.
    pub(super) fn unsigned_point(self) -> i32 {
        self.point.wrapping_add(if self.signed { 128 } else { 0 })
    }
}

/// Quantized 8-bit elements of a tensor, with their zero point.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    /// The elements: bit patterns of `i8` if `zero.signed`, else of `u8`.
    pub bytes: &'a [u8],
    /// The zero point of the elements.
    pub zero: Zero,
}

/// Weights and bias of a product of 8-bit elements, packed for one instruction set.
#[derive(Clone)]
pub struct PackedIntegers {
    integer_isa: IntegerIsa,
    outputs: usize,
    depth: usize,
    /// Words per output: groups of two or four terms, with each segment padded to whole groups.
    words: usize,
    /// Terms per segment, which is a part of K that is contiguous in A.
    segment: usize,
    /// Whether the weights in the panels have 2 bits each: four lines are then in the bytes of one.
    is_quartered: bool,
    /// The panels, as `i32` words: a line of bias, then one line of weights per word of K. A line has one
    /// word per column of the panel.
    values: PackedValues,
    /// The sum of each output's weights for words of four bytes, else zeros; followed by one vector of spare
    /// elements.
    sums: Vec<i32>,
    /// Zero point of the packed weights, by which the sums of the rows of A are multiplied; 0 if those are
    /// not needed.
    row_factor: i32,
}

impl PackedIntegers {
    /// Packs weights of `outputs` columns (N) and `depth` terms per sum (K), for activations with zero point
    /// `input`. `strides` are the distances, in elements, between adjacent outputs and between adjacent
    /// terms. K consists of segments of `segment` elements.
    ///
    /// # Panics
    ///
    /// Panics if there are too few weights, if the bias does not have one element per output, or if the depth is not a
    /// multiple of `segment`.
    pub fn pack(
        isa: Isa,
        [outputs, depth]: [usize; 2],
        weights: Operand,
        strides: [usize; 2],
        segment: usize,
        bias: Option<&[i32]>,
        input: Zero,
    ) -> Self {
        assert!(bias.is_none_or(|bias| bias.len() == outputs), "one bias per output");
        assert!(depth == 0 || segment > 0 && depth % segment == 0, "whole segments");
        if outputs > 0 && depth > 0 {
            assert!((outputs - 1) * strides[0] + (depth - 1) * strides[1] < weights.bytes.len(), "every weight");
        }
        let integer_isa = IntegerIsa::of(isa);
        let (group, lanes) = (integer_isa.group(), integer_isa.lanes());
        let words = words(integer_isa, depth, segment);
        // Groups of four contain weights as signed bytes.
        let shift = if integer_isa.packs_k4() && !weights.zero.signed { 128 } else { 0 };
        let (taken, row_factor) =
            if integer_isa.packs_k4() { (shift, weights.zero.point - shift) } else { (weights.zero.point, 0) };
        let point =
            if integer_isa.packs_k4() { input.unsigned_point().wrapping_sub(integer_isa.flip().into()) } else { 0 };
        let mut matrix = Self {
            integer_isa,
            outputs,
            depth,
            words,
            segment,
            is_quartered: false,
            values: AlignedFloats::zeros(outputs.next_multiple_of(lanes) * (words + 1)).into(),
            sums: vec![0; outputs + lanes],
            row_factor,
        };
        let mut terms = vec![0; words * group];
        for output in 0..outputs {
            let mut sum = 0i32;
            for (at, index) in (0..depth).zip((output * strides[0]..).step_by(strides[1].max(1))) {
                let term = widen(weights.bytes[index], weights.zero.signed) - taken;
                terms[at / segment * segment.next_multiple_of(group) + at % segment] = term;
                sum = sum.wrapping_add(term);
            }
            let bias = bias.map_or(0, |bias| bias[output]);
            let both = (depth as i32).wrapping_mul(row_factor).wrapping_mul(point);
            matrix.set_output(output, bias.wrapping_sub(sum.wrapping_mul(point)).wrapping_add(both), &terms);
            matrix.sums[output] = if integer_isa.packs_k4() { sum } else { 0 };
        }
        matrix
    }

    /// Lines of weights of a panel in memory.
    fn lines(&self) -> usize {
        lines_of(self.words, self.is_quartered)
    }

    /// Writes the bias and the weights of one output to its column in the panels.
    fn set_output(&mut self, output: usize, bias: i32, terms: &[i32]) {
        let full = PANEL_VECTORS * self.integer_isa.lanes();
        let (panel, lane) = (output / full, output % full);
        let (start, width, packs_k4) = (self.offset(panel), self.width(panel), self.integer_isa.packs_k4());
        let values: &mut [i32] = bytemuck::cast_slice_mut(self.values.to_mut());
        let column = &mut values[start + lane..];
        column[0] = bias;
        let group = |terms: &[i32]| match packs_k4 {
            true => i32::from_le_bytes([0, 1, 2, 3].map(|index| terms[index] as u8)),
            false => terms[0] & 0xffff | terms[1] << 16,
        };
        for (line, terms) in terms.chunks_exact(if packs_k4 { 4 } else { 2 }).enumerate() {
            column[(line + 1) * width] = group(terms);
        }
    }

    /// Returns the number of columns of C (N).
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Returns the numbers from which the extents of the packed form follow, besides those of bias and zero point.
    pub fn parameters(outputs: usize, depth: usize, segment: usize) -> Vec<usize> {
        vec![outputs, depth, segment]
    }

    /// Returns the integer instruction set that the weights are packed for.
    pub(super) fn integer_isa(&self) -> IntegerIsa {
        self.integer_isa
    }

    fn columns(&self, panel: usize) -> Range<usize> {
        let full = PANEL_VECTORS * self.integer_isa.lanes();
        panel * full..((panel + 1) * full).min(self.outputs)
    }

    fn width(&self, panel: usize) -> usize {
        self.columns(panel).len().next_multiple_of(self.integer_isa.lanes())
    }

    fn offset(&self, panel: usize) -> usize {
        panel * PANEL_VECTORS * self.integer_isa.lanes() * (self.lines() + 1)
    }

    fn panel(&self, panel: usize) -> &[i32] {
        let start = self.offset(panel);
        &bytemuck::cast_slice(&self.values)[start..start + self.width(panel) * (self.lines() + 1)]
    }
}

/// Returns the words per output: groups of two or four terms, with each segment padded to whole groups.
fn words(integer_isa: IntegerIsa, depth: usize, segment: usize) -> usize {
    depth.checked_div(segment).unwrap_or(0) * segment.div_ceil(integer_isa.group())
}

/// Returns the lines of weights of a panel in memory.
fn lines_of(words: usize, is_quartered: bool) -> usize {
    words.div_ceil(if is_quartered { quarters::LINES } else { 1 })
}

impl Storable for PackedIntegers {
    fn store<'a>(&'a self, parts: &mut Parts<'a>) {
        parts.number(self.row_factor.into());
        parts.number(self.is_quartered.into());
        parts.field(&self.sums);
        self.values.store(parts);
    }

    fn load(parts: &mut StoredParts<'_>, parameters: &[usize]) -> Option<Self> {
        let (integer_isa, &[outputs, depth, segment]) = (IntegerIsa::of(Isa::detect()), parameters) else {
            return None;
        };
        let (lanes, words) = (integer_isa.lanes(), words(integer_isa, depth, segment));
        let row_factor = parts.number()?.try_into().ok()?;
        let is_quartered = match (parts.number()?, integer_isa.packs_k4()) {
            (0, _) => false,
            (1, true) if !cfg!(attache_small) => true,
            _ => return None,
        };
        let sums = parts.field(outputs.checked_add(lanes)?)?;
        let values = PackedValues::load(parts, lines(outputs, lanes, lines_of(words, is_quartered))?)?;
        Some(Self { integer_isa, outputs, depth, words, segment, is_quartered, values, sums, row_factor })
    }
}

impl<T: Element, F: GemmEpilogue> Matrix<T, F> for PackedIntegers {
    type Output = F::Output;

    fn outputs(&self) -> usize {
        self.outputs
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn panels(&self) -> usize {
        self.outputs.div_ceil(PANEL_VECTORS * self.integer_isa.lanes())
    }

    fn nanoseconds(&self, rows: usize) -> f64 {
        let lanes = self.integer_isa.lanes();
        let per_lane = if self.integer_isa.has_tiles() {
            60
        } else if T::PACKS_K4 {
            12
        } else {
            6
        };
        // Of few rows, the products take less than reading the weights.
        let weights = (self.depth * self.outputs) as f64;
        let (products, reading) =
            (weights / (lanes * per_lane) as f64, if cfg!(attache_small) { 0.0 } else { weights / READ });
        reading + rows as f64 * (products + self.outputs as f64 * 8.0 / lanes as f64 + self.depth as f64 * 0.05)
    }

    unsafe fn multiply(
        &self,
        panels: Range<usize>,
        a: Rows<T>,
        c: Target<F::Output>,
        rows: usize,
        epilogue: &F,
        position: [usize; 2],
    ) {
        // SAFETY: guaranteed by the caller.
        unsafe { self.multiply_lines(panels, a, c, rows, Lines { count: 1, steps: [0, 0] }, epilogue, position) }
    }

    unsafe fn multiply_lines(
        &self,
        panels: Range<usize>,
        a: Rows<T>,
        c: Target<F::Output>,
        rows: usize,
        lines: Lines,
        epilogue: &F,
        position: [usize; 2],
    ) {
        assert!(T::PACKS_K4 == self.integer_isa.packs_k4(), "activations as the weights were packed for");
        assert!(a.segments.len() * a.length == self.depth && (self.depth == 0 || a.length == self.segment));
        assert!(position[1] + self.outputs <= epilogue.outputs(), "an epilogue for every column");
        let words = a.length.div_ceil(if T::PACKS_K4 { 4 } else { 2 });
        let tiled = self.integer_isa.has_tiles() && self.row_factor == 0;
        // SAFETY: the instruction set has tiles only if they are available; an epilogue uses none.
        let tiles = if tiled { unsafe { Tiles::new(rows, words) } } else { None };
        let multiply = |number: usize, panel: &[i32]| {
            let columns = self.columns(number);
            for line in 0..lines.count {
                // SAFETY: the lines are within A and C, and the column is within C.
                let (a, c) = unsafe {
                    let a = Rows { start: a.start.add(line * lines.steps[0]), ..a };
                    (a, Target { start: c.start.add(line * lines.steps[1] + columns.start), ..c })
                };
                let pass = Pass {
                    a,
                    c,
                    rows,
                    panel,
                    sums: &self.sums[columns.start..],
                    columns: columns.len(),
                    words,
                    row_factor: self.row_factor,
                    epilogue,
                    position: [position[0], position[1] + columns.start],
                };
                match &tiles {
                    // SAFETY: guaranteed by the caller; the tiles have shapes for these rows and words.
                    Some(tiles) => unsafe { tiles.run(&pass) },
                    None => self.integer_isa.dispatch(pass),
                }
            }
        };
        for number in panels {
            self.with_panel(number, |panel| multiply(number, panel));
        }
    }
}

/// Kernel that multiplies `rows` rows of A by one panel.
pub(super) struct Pass<'a, T, F: GemmEpilogue> {
    pub(super) a: Rows<'a, T>,
    pub(super) c: Target<F::Output>,
    pub(super) rows: usize,
    pub(super) panel: &'a [i32],
    /// The sums of the weights of the panel's columns.
    pub(super) sums: &'a [i32],
    pub(super) columns: usize,
    /// Words per segment.
    words: usize,
    row_factor: i32,
    pub(super) epilogue: &'a F,
    pub(super) position: [usize; 2],
}

/// Rows whose sums are in memory until one call of the epilogue converts them.
const FINISHED_ROWS: usize = 24;

impl<T: Element, F: GemmEpilogue> IntegerMultiversioned for Pass<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Integers>(self, simd: S) {
        // Only groups of four need the sums of rows, so no other tiles with sums are compiled.
        let summed = T::PACKS_K4 && self.row_factor != 0;
        let most = if summed { S::ROWS.min(SUMMED_ROWS) } else { S::ROWS };
        let tiles = self.rows.div_ceil(most);
        let vectors = if self.columns > S::LANES { 2 } else { 1 };
        let mut stored = MaybeUninit::<[[S::Vector; PANEL_VECTORS]; FINISHED_ROWS]>::uninit();
        let start = stored.as_mut_ptr().cast::<S::Vector>();
        let mut first = 0; // of the rows whose sums are stored
        for index in 0..tiles {
            let rows = portion(self.rows, tiles, index);
            // SAFETY: `multiply`'s caller guarantees every row of A, and there is room for the sums of the rows.
            let (a, sums) =
                unsafe { (self.a.start.add(rows.start * self.a.stride), start.add((rows.start - first) * vectors)) };
            match summed {
                true => self.tile::<S, true>(simd, rows.len(), a, sums.cast()),
                false => self.tile::<S, false>(simd, rows.len(), a, sums.cast()),
            }
            if index + 1 < tiles && rows.end - first + most <= FINISHED_ROWS {
                continue;
            }
            let (position, width) = ([self.position[0] + first, self.position[1]], vectors * S::LANES);
            let sums = Sums { start: start.cast(), rows: rows.end - first, columns: self.columns, width, position };
            // SAFETY: `multiply`'s caller guarantees every row of C.
            let target = unsafe { Target { start: self.c.start.add(first * self.c.stride), stride: self.c.stride } };
            simd.vectorize(Finish { epilogue: self.epilogue, sums, weights: self.sums, target });
            first = rows.end;
        }
    }
}

impl<T: Element, F: GemmEpilogue> Pass<'_, T, F> {
    #[inline(always)]
    fn tile<S: Integers, const SUMMED: bool>(&self, simd: S, rows: usize, a: *const T, sums: *mut i32) {
        macro_rules! heights {
            ($($rows:literal)*) => {
                match rows {
                    $($rows if $rows <= S::ROWS && (!SUMMED || $rows <= SUMMED_ROWS) && self.columns > S::LANES => {
                        simd.vectorize(Tile::<T, F, $rows, 2, SUMMED> { pass: self, a, sums })
                    })*
                    $($rows if $rows <= S::ROWS && (!SUMMED || $rows <= SUMMED_ROWS) => {
                        simd.vectorize(Tile::<T, F, $rows, 1, SUMMED> { pass: self, a, sums })
                    })*
                    _ => unreachable!("tiles are as high as the registers allow"),
                }
            };
        }
        heights!(1 2 3 4 5 6 7 8 9 10 11 12)
    }
}

/// Kernel that computes one tile of `ROWS` rows × `VECTORS` vectors of columns, with all sums in registers.
/// `SUMMED` means that each row of A is also summed, for weights with a zero point. The sums of a row, `VECTORS` vectors, are
/// stored after those of the row before.
struct Tile<'p, 'a, T, F: GemmEpilogue, const ROWS: usize, const VECTORS: usize, const SUMMED: bool> {
    pass: &'p Pass<'a, T, F>,
    a: *const T,
    sums: *mut i32,
}

impl<T: Element, F: GemmEpilogue, const ROWS: usize, const VECTORS: usize, const SUMMED: bool> IntegerMultiversioned
    for Tile<'_, '_, T, F, ROWS, VECTORS, SUMMED>
{
    type Output = ();

    #[inline(always)]
    fn run<S: Integers>(self, simd: S) {
        // With one or two rows, words take turns on sums of their own: one product does not wait for the one before.
        match ROWS {
            1 if !cfg!(attache_small) => self.sum::<S, 4>(simd),
            2 if !cfg!(attache_small) => self.sum::<S, 2>(simd),
            _ => self.sum::<S, 1>(simd),
        }
    }
}

impl<T: Element, F: GemmEpilogue, const ROWS: usize, const VECTORS: usize, const SUMMED: bool>
    Tile<'_, '_, T, F, ROWS, VECTORS, SUMMED>
{
    #[inline(always)]
    fn sum<S: Integers, const TURNS: usize>(self, simd: S) {
        let Pass { a: rows, panel, words, row_factor, .. } = *self.pass;
        let width = VECTORS * S::LANES;
        let zero = simd.splat(0);
        // A one for each byte of a group of four; rows are only summed in that format. The last word of a segment may
        // extend past the segment.
        let ones = simd.splat(0x0101_0101);
        let last = simd.splat(0x0101_0101 >> ((words * 4).saturating_sub(rows.length).min(3) * 8));
        let (mut sums, mut totals) = ([[[zero; VECTORS]; ROWS]; TURNS], [zero; ROWS]);
        // SAFETY: the panel contains its bias and one line per word; `multiply`'s caller guarantees A and C.
        unsafe {
            let mut weights = panel.as_ptr();
            for v in 0..VECTORS {
                let bias = simd.load(weights.add(v * S::LANES));
                for row in &mut sums[0] {
                    row[v] = bias;
                }
            }
            weights = weights.add(width);
            for segment in rows.segments {
                let (mut a, mut rest) = (self.a.add(*segment).cast::<i32>(), words);
                let stride = rows.stride * size_of::<T>();
                while rest >= UNROLLED + usize::from(SUMMED) {
                    for word in 0..UNROLLED {
                        let (a, weights) = (a.add(word), weights.add(word * width));
                        let sums = &mut sums[word % TURNS];
                        add_products::<_, _, _, SUMMED>(simd, a, stride, weights, sums, &mut totals, ones);
                        // Keeps loads for the next word, for which there are no registers, behind these products.
                        compiler_fence(Ordering::SeqCst);
                    }
                    (a, weights, rest) = (a.add(UNROLLED), weights.add(UNROLLED * width), rest - UNROLLED);
                }
                while rest > 0 {
                    let ones = if rest == 1 { last } else { ones };
                    add_products::<_, _, _, SUMMED>(simd, a, stride, weights, &mut sums[0], &mut totals, ones);
                    (a, weights, rest) = (a.add(1), weights.add(width), rest - 1);
                }
            }
            // The epilogue reads the sums from memory: one function then serves tiles of any height, with its parameters in
            // registers.
            let start = self.sums.cast::<S::Vector>();
            for (r, total) in totals.into_iter().enumerate() {
                for v in 0..VECTORS {
                    let mut sum = sums[0][r][v];
                    for others in &sums[1..] {
                        sum = simd.subtract_scaled(sum, others[r][v], -1);
                    }
                    let sum = if SUMMED { simd.subtract_scaled(sum, total, row_factor) } else { sum };
                    start.add(r * VECTORS + v).write(sum);
                }
            }
        }
    }
}

/// Words of a segment whose products a tile adds in one turn of a loop.
const UNROLLED: usize = if cfg!(attache_small) { 1 } else { 4 };

/// Adds the products of one word of each row of A at `a`, `stride` bytes apart, with the line of the panel at `weights` to
/// the sums of a tile. If `SUMMED`, also adds the elements of each of these words to its row's total, by the products with
/// `ones`.
///
/// # Safety
/// A word must be readable for each row, and a whole line at `weights`.
#[inline(always)]
unsafe fn add_products<S: Integers, const ROWS: usize, const VECTORS: usize, const SUMMED: bool>(
    simd: S,
    a: *const i32,
    stride: usize,
    weights: *const i32,
    sums: &mut [[S::Vector; VECTORS]; ROWS],
    totals: &mut [S::Vector; ROWS],
    ones: S::Vector,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let mut column = [simd.splat(0); VECTORS];
        for (v, column) in column.iter_mut().enumerate() {
            *column = simd.load(weights.add(v * S::LANES));
        }
        for (r, (sums, total)) in sums.iter_mut().zip(totals).enumerate() {
            let x = simd.splat(a.byte_add(r * stride).read_unaligned());
            for (sum, column) in sums.iter_mut().zip(column) {
                *sum = simd.dot(*sum, x, column);
            }
            if SUMMED {
                *total = simd.dot(*total, x, ones);
            }
        }
    }
}

/// Kernel that converts the sums of tiles to outputs.
pub(super) struct Finish<'a, F: GemmEpilogue> {
    pub(super) epilogue: &'a F,
    pub(super) sums: Sums,
    /// The sums of the weights of the tiles' columns.
    pub(super) weights: &'a [i32],
    pub(super) target: Target<F::Output>,
}

impl<F: GemmEpilogue> IntegerMultiversioned for Finish<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Integers>(self, simd: S) {
        // SAFETY: whoever makes this kernel guarantees that the sums are readable and the target writable.
        unsafe { self.epilogue.finish(simd, self.sums, self.weights.as_ptr(), self.target) }
    }
}

/// Number of elements past the end of a buffer that tiles of an integer product may read.
const SLACK: usize = 4;

/// Multiplies dense rows of A by the packed weights, and writes dense rows of C. `signed` is whether the
/// bytes of A are signed. `zero_points` has the zero point of each row of A, or one for all rows. The matrix
/// must have been packed with a single segment.
///
/// # Panics
///
/// Panics if `a` or `c` does not consist of whole rows, or if the number of zero points does not match.
pub fn gemm<F: GemmEpilogue>(
    engine: Engine,
    a: &[u8],
    signed: bool,
    zero_points: &[i32],
    matrix: &PackedIntegers,
    epilogue: &F,
    c: &mut [F::Output],
) {
    epilogue.gemm(engine, (a, signed), zero_points, matrix, c);
}

pub(super) fn gemm_with<F: GemmEpilogue>(
    engine: Engine,
    (a, signed): (&[u8], bool),
    zero_points: &[i32],
    matrix: &PackedIntegers,
    epilogue: &F,
    c: &mut [F::Output],
) {
    match matrix.integer_isa.packs_k4() {
        true => gemm_as::<u8, F>(engine, a, signed, zero_points, matrix, epilogue, c),
        false => gemm_as::<i16, F>(engine, a, signed, zero_points, matrix, epilogue, c),
    }
}

fn gemm_as<T: Element, F: GemmEpilogue>(
    engine: Engine,
    a: &[u8],
    signed: bool,
    zero_points: &[i32],
    matrix: &PackedIntegers,
    epilogue: &F,
    c: &mut [F::Output],
) {
    let (depth, rows) = (matrix.depth, c.len().checked_div(matrix.outputs).unwrap_or(0));
    assert!(zero_points.len() == 1 || zero_points.len() == rows, "a zero point for each row, or one");
    for_each_block::<T, F>(engine, a.len(), 0.0, matrix, c, |block| {
        let Range { start, end } = block.rows;
        let bytes = &a[start * depth..end * depth];
        scratch::with(bytes.len() + SLACK, |elements: &mut [T]| {
            convert_rows(matrix.integer_isa, bytes, depth, signed, zero_points, start, elements);
            block.multiply(elements, epilogue, start);
        });
    });
}

/// Rows of a product that one task computes for some panels, so few that they stay in the L1 cache.
struct Block<'a, O> {
    rows: Range<usize>,
    panels: Range<usize>,
    matrix: &'a PackedIntegers,
    /// These rows of C.
    c: Target<O>,
}

impl<O: Copy + Send> Block<'_, O> {
    /// Multiplies the rows of A, which [`SLACK`] follows, and writes those of C. `first` is the number by which the epilogue
    /// knows the first of them.
    fn multiply<T: Element, F: GemmEpilogue<Output = O>>(&self, elements: &[T], epilogue: &F, first: usize) {
        let Self { rows, panels, matrix, c } = self;
        let (weights, depth): (&dyn Matrix<T, F, Output = O>, _) = (*matrix, matrix.depth);
        assert!(elements.len() == rows.len() * depth + SLACK, "whole rows");
        let source = Rows { start: elements.as_ptr(), stride: depth, segments: &[0], length: depth };
        // SAFETY: these are the rows of A; `for_each_block` has checked that C contains its own, and gives tasks disjoint
        // rows or disjoint panels of C.
        unsafe { weights.multiply(panels.clone(), source, *c, rows.len(), epilogue, [first, 0]) }
    }
}

/// Calls `task` with blocks of the rows of A, which have so many `elements` together, and of C, dense rows. The tasks take so
/// many `nanoseconds` more than the product, to prepare rows; where they take any, rows rather than panels are divided.
fn for_each_block<T: Element, F: GemmEpilogue>(
    engine: Engine,
    elements: usize,
    nanoseconds: f64,
    matrix: &PackedIntegers,
    c: &mut [F::Output],
    task: impl Fn(Block<'_, F::Output>) + Sync,
) {
    let (outputs, depth) = (matrix.outputs, matrix.depth);
    let rows = c.len().checked_div(outputs).unwrap_or(0);
    assert!(c.len() == rows * outputs && elements == rows * depth, "whole rows");
    let weights: &dyn Matrix<T, F, Output = F::Output> = matrix;
    // Tile registers have 16 rows.
    let least = if matrix.integer_isa.has_tiles() && matrix.row_factor == 0 { 48 } else { LEAST_ROWS };
    let all = weights.nanoseconds(rows) + nanoseconds;
    let split = match nanoseconds > 0.0 {
        true => Split::by_rows(&engine, rows, least, weights.panels(), all),
        false => Split::new(&engine, rows, least, weights.panels(), all),
    };
    let target = Shared(c.as_mut_ptr());
    // As many rows of A as approximately fit in the L1 cache while every panel is applied to them.
    let block = ((1 << 15) / depth.max(1) / 48 * 48).max(48);
    split.for_each(&engine, |rows, panels| {
        for start in rows.clone().step_by(block) {
            let rows = start..rows.end.min(start + block);
            // SAFETY: the row lies in C, as checked.
            let c = unsafe { Target { start: target.get().add(start * outputs), stride: outputs } };
            task(Block { rows, panels: panels.clone(), matrix, c });
        }
    });
}

/// Converts rows of A, of `depth` bytes each, to elements of type `T`. `first` is the index of the first row,
/// at which its zero point is found.
fn convert_rows<T: Element>(
    integer_isa: IntegerIsa,
    bytes: &[u8],
    depth: usize,
    signed: bool,
    zero_points: &[i32],
    first: usize,
    buffer: &mut [T],
) {
    match zero_points {
        [point] => convert(integer_isa, bytes, Zero { signed, point: *point }, buffer),
        points => {
            let rows = bytes.chunks_exact(depth.max(1)).zip(buffer.chunks_exact_mut(depth.max(1)));
            for ((source, target), point) in rows.zip(&points[first..]) {
                convert(integer_isa, source, Zero { signed, point: *point }, target);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use attache_base::Serial;

    use super::*;
    use crate::quantized::{ColumnScales, Multiplier, Requantize, Rescale, Rounding};
    use crate::testing::Random;

    fn check(engine: Engine, [rows, depth, outputs]: [usize; 3], random: &mut Random) {
        let zero = |random: &mut Random| {
            let signed = random.below(2) == 1;
            Zero { signed, point: random.below(256) as i32 - if signed { 128 } else { 0 } }
        };
        let (input, mut weights_zero) = (zero(random), zero(random));
        if weights_zero.signed && random.below(3) > 0 {
            weights_zero.point = 0;
        }
        // Weights of 2 bits are signed.
        let bits = if weights_zero.signed && random.below(2) == 1 { 2 } else { 8 };
        let (a, mut weights) = (random.bytes(rows * depth), random.bytes(outputs * depth));
        weights.iter_mut().for_each(|byte| *byte = (*byte as i8 >> (8 - bits)) as u8);
        let bias: Vec<i32> = (0..outputs).map(|_| random.below(1 << 31) as i32 - (1 << 30)).collect();
        let transposed = random.below(2) == 1;
        let strides = if transposed { [1, outputs] } else { [depth, 1] };
        let operand = Operand { bytes: &weights, zero: weights_zero };
        let matrix =
            PackedIntegers::pack(engine.isa, [outputs, depth], operand, strides, depth.max(1), Some(&bias), input);
        let matrix = if bits == 2 { matrix.quartered() } else { matrix };
        let rounding = [Rounding::Once, Rounding::Twice][random.below(2)];
        let factors: Vec<_> = (0..outputs).map(|_| Multiplier::new((1 + random.below(999)) as f64 / 1e10)).collect();
        let epilogue = Requantize::new(&factors, outputs, rounding, 3, (-100, 120));
        let mut c = vec![0; rows * outputs];
        gemm(engine, &a, input.signed, &[input.point], &matrix, &epilogue, &mut c);
        for (index, byte) in c.iter().enumerate() {
            let (m, n) = (index / outputs, index % outputs);
            let mut sum = bias[n];
            for k in 0..depth {
                let x = widen(a[m * depth + k], input.signed) - input.point;
                let w = widen(weights[n * strides[0] + k * strides[1]], weights_zero.signed) - weights_zero.point;
                sum = sum.wrapping_add(x * w);
            }
            let expected = factors[n].apply(sum, rounding).wrapping_add(3).clamp(-100, 120) as u8;
            assert_eq!(*byte, expected, "{} {rows}x{depth}x{outputs} at {index}", engine.isa.name());
        }
    }

    #[test]
    fn every_isa_gives_the_same_bits() {
        let mut random = Random::new(31);
        for isa in Isa::available() {
            let engine = Engine { isa, parallel: &Serial };
            for rows in 1..=26 {
                check(engine, [rows, 5, 33], &mut random);
            }
            for _ in 0..150 {
                let extents = [1 + random.below(40), random.below(70), 1 + random.below(100)];
                check(engine, extents, &mut random);
            }
        }
    }

    #[test]
    fn threads_share_rows_and_panels() {
        let pool = attache_base::Pool::new(3);
        let mut random = Random::new(32);
        for extents in [[1, 700, 1000], [300, 128, 96], [49, 256, 300]] {
            check(Engine::new(&pool), extents, &mut random);
        }
    }

    #[test]
    fn rows_have_scales_and_zero_points_of_their_own() {
        let mut random = Random::new(33);
        let (a, weights) = (random.bytes(3 * 7), random.bytes(5 * 7));
        let (scales, points) = ([0.5, 0.25, 2.0], [3, -100, 0]);
        for isa in Isa::available() {
            let operand = Operand { bytes: &weights, zero: Zero { signed: true, point: 0 } };
            let matrix = PackedIntegers::pack(isa, [5, 7], operand, [7, 1], 7, None, Zero::UNKNOWN);
            let columns = [1.0, 2.0, 3.0, 4.0, 5.0];
            let parameters = ColumnScales::new(&columns, Some(&[1.0; 5]), 5);
            let epilogue = Rescale::new(&parameters, &scales, &points, (f32::MIN, f32::MAX));
            let mut c = vec![0.0; 15];
            gemm(Engine { isa, parallel: &Serial }, &a, true, &points, &matrix, &epilogue, &mut c);
            for (index, value) in c.iter().enumerate() {
                let (m, n) = (index / 5, index % 5);
                let product = |k: usize| (widen(a[m * 7 + k], true) - points[m]) * widen(weights[n * 7 + k], true);
                let sum: i32 = (0..7).map(product).sum();
                assert_eq!(*value, 1.0 + sum as f32 * (scales[m] * columns[n]), "{} {index}", isa.name());
            }
        }
    }
}

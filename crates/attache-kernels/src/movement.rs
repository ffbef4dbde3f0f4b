//! Data movement kernels (strided copies, transposes, tiling, padding) for elements of any plain type,
//! with dense outputs, and concatenation of bytes.
#![allow(unsafe_code)] // Blocks of a strided plane, which are no slices.

use std::ops::Range;

use bytemuck::Pod;

use crate::simd::{Multiversioned, Simd};
use crate::{Engine, Isa};

/// Bytes that one thread moves in a nanosecond.
const SPEED: f64 = 8.0;

/// Copies `source[offset + Σ index × stride]`, for every index within `extents`, to the dense `target`, as
/// [`StridedCopy`].
///
/// # Panics
///
/// Panics if an index is outside of the source, or if the lengths of the slices do not match.
pub fn copy_strided<T: Pod + Send + Sync>(
    engine: Engine,
    source: &[T],
    offset: i64,
    strides: &[i64],
    target: &mut [T],
    extents: &[usize],
) {
    StridedCopy::new(offset, strides, extents).run(engine, source, target);
}

/// A copy of `source[offset + Σ index × stride]`, for every index within `extents`, to a dense target.
///
/// Strides are in elements and may be zero or negative. Transposes, slices, flips, tiles and broadcasts are special
/// cases.
#[derive(Clone, Debug, PartialEq)]
pub struct StridedCopy {
    offset: isize,
    /// Extents and strides of the target's axes, where neighbours that one stride covers are one axis.
    axes: Vec<(usize, isize)>,
    /// Number of elements of the target.
    elements: usize,
    /// The first and the last element of the source that is read.
    reach: (i128, i128),
}

impl StridedCopy {
    /// Plans the copy.
    ///
    /// # Panics
    ///
    /// Panics if there are not as many strides as extents.
    #[must_use]
    pub fn new(offset: i64, strides: &[i64], extents: &[usize]) -> Self {
        assert_eq!(strides.len(), extents.len(), "a stride per axis");
        let reach = |sign: i128| -> i128 {
            let far =
                |(stride, extent): (&i64, &usize)| (i128::from(*stride) * (*extent as i128 - 1) * sign).max(0) * sign;
            i128::from(offset) + strides.iter().zip(extents).map(far).sum::<i128>()
        };
        let mut axes: Vec<(usize, isize)> = Vec::new();
        for (&extent, &stride) in extents.iter().zip(strides).filter(|axis| *axis.0 != 1) {
            let stride = stride as isize;
            match axes.last_mut() {
                Some((outer, last)) if *last == stride.wrapping_mul(extent as isize) => {
                    (*outer, *last) = (*outer * extent, stride);
                }
                _ => axes.push((extent, stride)),
            }
        }
        Self { offset: offset as isize, axes, elements: extents.iter().product(), reach: (reach(-1), reach(1)) }
    }

    /// Copies the elements.
    ///
    /// # Panics
    ///
    /// Panics if an index is outside of the source, or if the target has another number of elements.
    pub fn run<T: Pod + Send + Sync>(&self, engine: Engine, source: &[T], target: &mut [T]) {
        assert_eq!(target.len(), self.elements, "the target has its extents");
        if target.is_empty() {
            return;
        }
        let (first, last) = self.reach;
        assert!(first >= 0 && last < source.len() as i128, "every index lies in the source");
        let extent = self.axes.first().map_or(1, |axis| axis.0);
        let parts = engine.tasks(size_of_val(target) as f64 / SPEED, extent);
        if parts == 1 || cfg!(attache_small) {
            return copy_axes(engine.isa, source, self.offset, &self.axes, target);
        }
        let unit = target.len() / extent;
        engine.for_each_part(target, unit, parts, |first, target| {
            let mut axes = self.axes.clone();
            axes[0].0 = target.len() / unit;
            copy_axes(engine.isa, source, self.offset + first as isize * axes[0].1, &axes, target);
        });
    }
}

fn copy_axes<T: Pod>(isa: Isa, source: &[T], offset: isize, axes: &[(usize, isize)], target: &mut [T]) {
    match *axes {
        [] => target[0] = source[offset as usize],
        [(extent, 1)] => target.copy_from_slice(&source[offset as usize..][..extent]),
        [(_, 0)] => target.fill(source[offset as usize]),
        [(_, stride)] => {
            for (index, value) in target.iter_mut().enumerate() {
                *value = source[(offset + index as isize * stride) as usize];
            }
        }
        [(rows, 1), (columns, stride)] => transpose_plane(isa, source, offset, [rows, columns], stride, target),
        [(extent, stride), ref inner @ ..] => {
            for (index, part) in target.chunks_exact_mut(target.len() / extent).enumerate() {
                copy_axes(isa, source, offset + index as isize * stride, inner, part);
            }
        }
    }
}

/// Copies `source[offset + row + column × stride]` to element `[row, column]` of the dense `target`.
fn transpose_plane<T: Pod>(
    isa: Isa,
    source: &[T],
    offset: isize,
    [rows, columns]: [usize; 2],
    stride: isize,
    target: &mut [T],
) {
    let (Ok(start), Ok(step), false) = (usize::try_from(offset), usize::try_from(stride), cfg!(attache_small)) else {
        return transpose_part(source, offset, [0..rows, 0..columns], columns, stride, target);
    };
    match (rows, columns) {
        (_, 2) => return interleave::<T, 2>(&source[start..], rows, step, target),
        (_, 3) => return interleave::<T, 3>(&source[start..], rows, step, target),
        (_, 4) => return interleave::<T, 4>(&source[start..], rows, step, target),
        (2, _) if step == 2 => return deinterleave::<T, 2>(&source[start..], columns, target),
        (3, _) if step == 3 => return deinterleave::<T, 3>(&source[start..], columns, target),
        (4, _) if step == 4 => return deinterleave::<T, 4>(&source[start..], columns, target),
        _ => {}
    }
    let [whole_rows, whole_columns] = match (size_of::<T>(), bytemuck::try_cast_slice(source)) {
        (4, Ok(source)) => {
            let extents = [rows, columns];
            isa.dispatch(Blocks { source: &source[start..], step, extents, target: bytemuck::cast_slice_mut(target) })
        }
        _ => [0, 0],
    };
    transpose_part(source, offset, [0..whole_rows, whole_columns..columns], columns, stride, target);
    transpose_part(source, offset, [whole_rows..rows, 0..columns], columns, stride, target);
}

/// Rows and columns of a tile.
const TILE: usize = 16;

/// Copies the rows and columns of a part as [`transpose_plane`] does, one by one.
fn transpose_part<T: Copy>(
    source: &[T],
    offset: isize,
    [rows, part]: [Range<usize>; 2],
    columns: usize,
    stride: isize,
    target: &mut [T],
) {
    for first_row in rows.clone().step_by(TILE) {
        for first in part.clone().step_by(TILE) {
            for row in first_row..rows.end.min(first_row + TILE) {
                let values = &mut target[row * columns + first..row * columns + part.end.min(first + TILE)];
                for (index, value) in values.iter_mut().enumerate() {
                    *value = source[(offset + row as isize + (first + index) as isize * stride) as usize];
                }
            }
        }
    }
}

/// Kernel that copies whole blocks of rows and columns of words as [`transpose_plane`] does. Returns how many rows and columns
/// these are.
struct Blocks<'a> {
    source: &'a [f32],
    step: usize,
    extents: [usize; 2],
    target: &'a mut [f32],
}

impl Multiversioned for Blocks<'_> {
    type Output = [usize; 2];
    const WIDE: bool = false;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> [usize; 2] {
        let Self { source, step, extents: [height, width], target } = self;
        let [rows, columns] = [height, width].map(|extent| extent / S::BLOCK * S::BLOCK);
        if rows == 0 || columns == 0 {
            return [0, 0];
        }
        assert!((columns - 1) * step + rows <= source.len() && rows * width <= target.len(), "blocks lie in both");
        // Tiles, so that the cache lines of both sides stay in the L1 cache.
        for first_row in (0..rows).step_by(TILE) {
            for column in (0..columns).step_by(S::BLOCK) {
                for row in (first_row..rows.min(first_row + TILE)).step_by(S::BLOCK) {
                    // SAFETY: the block lies in the source and in the target, as checked.
                    unsafe {
                        let (from, to) = (source.as_ptr(), target.as_mut_ptr());
                        simd.transpose(from.add(row + column * step), step, to.add(row * width + column), width);
                    }
                }
            }
        }
        [rows, columns]
    }
}

/// Writes one element of each of `N` lines of the source, `step` elements apart, after the other.
#[inline(always)]
fn interleave<T: Copy, const N: usize>(source: &[T], rows: usize, step: usize, target: &mut [T]) {
    let target = &mut target.as_chunks_mut::<N>().0[..rows];
    for line in 0..N {
        let source = &source[line * step..][..rows];
        for row in 0..rows {
            target[row][line] = source[row];
        }
    }
}

/// Writes the first elements of all groups of `N` elements, then the second ones, and so on.
#[inline(always)]
fn deinterleave<T: Copy, const N: usize>(source: &[T], columns: usize, target: &mut [T]) {
    let source = &source.as_chunks::<N>().0[..columns];
    for (index, line) in target.chunks_exact_mut(columns).enumerate().take(N) {
        for column in 0..columns {
            line[column] = source[column][index];
        }
    }
}

/// Transposes a source of shape `shape`: axis `a` of the target is axis `permutation[a]` of the source.
///
/// # Panics
///
/// Panics if the lengths of the slices do not match.
pub fn transpose<T: Pod + Send + Sync>(
    engine: Engine,
    source: &[T],
    shape: &[usize],
    permutation: &[usize],
    target: &mut [T],
) {
    assert_eq!(shape.len(), permutation.len(), "an entry per axis");
    let dense = attache_base::strides(shape);
    let strides: Vec<i64> = permutation.iter().map(|axis| dense[*axis] as i64).collect();
    let extents: Vec<usize> = permutation.iter().map(|axis| shape[*axis]).collect();
    copy_strided(engine, source, 0, &strides, target, &extents);
}

/// Repeats a source of shape `shape` `multiples[a]` times along each axis `a`.
///
/// # Panics
///
/// Panics if the lengths of the slices do not match.
pub fn tile<T: Pod + Send + Sync>(
    engine: Engine,
    source: &[T],
    shape: &[usize],
    multiples: &[usize],
    target: &mut [T],
) {
    assert_eq!(shape.len(), multiples.len(), "a multiple per axis");
    let dense = attache_base::strides(shape);
    let axes = || 0..shape.len();
    let strides: Vec<i64> = axes().flat_map(|axis| [0, dense[axis] as i64]).collect();
    let extents: Vec<usize> = axes().flat_map(|axis| [multiples[axis], shape[axis]]).collect();
    copy_strided(engine, source, 0, &strides, target, &extents);
}

/// Pads a source of shape `shape` with `before[a]` and `after[a]` elements of `value` along each axis `a`.
///
/// # Panics
///
/// Panics if the lengths of the slices do not match.
pub fn pad<T: Copy + Send + Sync>(
    engine: Engine,
    source: &[T],
    shape: &[usize],
    before: &[usize],
    after: &[usize],
    value: T,
    target: &mut [T],
) {
    check_padding(source, shape, before, after, target);
    if cfg!(attache_small) {
        return pad_axes(source, shape, before, after, value, target);
    }
    // The slices along the first padded axis are divided.
    let axis = (0..shape.len()).find(|axis| before[*axis] + after[*axis] > 0).unwrap_or(0);
    let outer: usize = shape.iter().take(axis).product();
    let extent = shape.get(axis).map_or(1, |extent| before[axis] + extent + after[axis]);
    let unit = target.len().checked_div(outer * extent).unwrap_or(0);
    let parts = engine.tasks(size_of_val(target) as f64 / SPEED, outer * extent);
    if parts == 1 || source.is_empty() || unit < LEAST_UNIT {
        return pad_axes(source, shape, before, after, value, target);
    }
    let piece = source.len() / (outer * shape[axis]);
    engine.for_each_part(target, unit, parts, |first, target| {
        for (index, target) in (first..).zip(target.chunks_exact_mut(unit)) {
            match (index % extent).checked_sub(before[axis]).filter(|row| *row < shape[axis]) {
                Some(row) => {
                    let source = &source[(index / extent * shape[axis] + row) * piece..][..piece];
                    pad_axes(source, &shape[axis + 1..], &before[axis + 1..], &after[axis + 1..], value, target);
                }
                None => target.fill(value),
            }
        }
    });
}

fn check_padding<T>(source: &[T], shape: &[usize], before: &[usize], after: &[usize], target: &[T]) {
    assert!(shape.len() == before.len() && shape.len() == after.len(), "padding per axis");
    assert_eq!(source.len(), shape.iter().product::<usize>(), "the source has its shape");
    let length: usize = (0..shape.len()).map(|axis| before[axis] + shape[axis] + after[axis]).product();
    assert_eq!(target.len(), length, "the target has the padded shape");
}

fn pad_axes<T: Copy>(source: &[T], shape: &[usize], before: &[usize], after: &[usize], value: T, target: &mut [T]) {
    if source.len() == target.len() {
        return target.copy_from_slice(source); // nothing to pad from here on
    }
    if source.is_empty() {
        return target.fill(value);
    }
    let chunk = target.len() / (before[0] + shape[0] + after[0]);
    let (head, rest) = target.split_at_mut(before[0] * chunk);
    let (body, tail) = rest.split_at_mut(shape[0] * chunk);
    head.fill(value);
    tail.fill(value);
    if source.len() == body.len() {
        return body.copy_from_slice(source);
    }
    let pieces = source.chunks_exact(source.len() / shape[0]).zip(body.chunks_exact_mut(chunk));
    if let ([_, length @ 1..=SHORT], [_, before], false) = (shape, before, cfg!(attache_small)) {
        for (source, target) in pieces {
            target[..*before].fill(value);
            copy_short(source, &mut target[*before..][..*length]);
            target[before + length..].fill(value);
        }
        return;
    }
    for (source, target) in pieces {
        pad_axes(source, &shape[1..], &before[1..], &after[1..], value, target);
    }
}

/// Elements of a slice below which padded slices are not divided among threads: several of them are copied together.
const LEAST_UNIT: usize = 128;

/// Number of elements up to which a loop takes less time than a call that copies memory.
const SHORT: usize = 128;

/// Copies a slice to one of the same length.
#[inline(always)]
fn copy_short<T: Copy>(source: &[T], target: &mut [T]) {
    let ((from, last), (to, end)) = (source.as_chunks::<8>(), target.as_chunks_mut::<8>());
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    end.iter_mut().zip(last).for_each(|(to, from)| *to = *from);
}

/// Mode of mirror padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mirror {
    /// The edge element is not repeated: `[1, 2, 3]` padded by 2 on both sides is `[3, 2, 1, 2, 3, 2, 1]`.
    Reflect,
    /// The edge element is repeated: `[1, 2, 3]` padded by 2 on both sides is `[2, 1, 1, 2, 3, 3, 2]`.
    Symmetric,
}

/// Pads a source of shape `shape` with `before[a]` and `after[a]` elements of its mirror image along each
/// axis `a`.
///
/// # Panics
///
/// Panics if the padding exceeds the mirrored elements (the extent, or one less with [`Mirror::Reflect`]), or if the
/// lengths of the slices do not match.
pub fn mirror_pad<T: Copy>(
    source: &[T],
    shape: &[usize],
    before: &[usize],
    after: &[usize],
    mirror: Mirror,
    target: &mut [T],
) {
    check_padding(source, shape, before, after, target);
    let skipped = usize::from(mirror == Mirror::Reflect);
    for axis in 0..shape.len() {
        let shown = shape[axis].saturating_sub(skipped);
        assert!(before[axis] <= shown && after[axis] <= shown, "padding is no longer than the mirror shows");
    }
    mirror_axes(source, shape, before, after, skipped, target);
}

fn mirror_axes<T: Copy>(
    source: &[T],
    shape: &[usize],
    before: &[usize],
    after: &[usize],
    skipped: usize,
    target: &mut [T],
) {
    if source.len() == target.len() {
        return target.copy_from_slice(source);
    }
    let (extent, first) = (shape[0], before[0]);
    let (part, chunk) = (source.len() / extent, target.len() / (first + extent + after[0]));
    for (index, target) in target.chunks_exact_mut(chunk).enumerate() {
        let position = if index < first {
            first - 1 - index + skipped
        } else if index < first + extent {
            index - first
        } else {
            extent - 1 - skipped - (index - first - extent)
        };
        mirror_axes(&source[position * part..][..part], &shape[1..], &before[1..], &after[1..], skipped, target);
    }
}

/// Concatenates tensors, given as bytes, along an axis. `outer` is the product of the extents before that axis, so each of
/// `parts` consists of `outer` contiguous runs, which alternate in the target.
///
/// # Panics
///
/// Panics if the length of a part is not a multiple of `outer`, or if the target's length is not the sum of the parts'.
pub fn concatenate(engine: Engine, parts: &[&[u8]], outer: usize, target: &mut [u8]) {
    // Each part with the length of its runs.
    let parts: Vec<(&[u8], usize)> = parts.iter().map(|part| (*part, part.len() / outer.max(1))).collect();
    assert!(parts.iter().all(|(part, length)| part.len() == length * outer), "whole runs");
    let row: usize = parts.iter().map(|(_, length)| length).sum();
    assert_eq!(target.len(), row * outer, "the target holds every part");
    if row == 0 {
        return;
    }
    let tasks = engine.tasks(target.len() as f64 / SPEED, target.len());
    engine.for_each_part(target, 1, tasks, |first, mut target| {
        // A task may begin within a row.
        let (mut index, mut skipped) = (first / row, first % row);
        while !target.is_empty() {
            for &(part, length) in &parts {
                let run = &part[index * length + skipped.min(length)..(index + 1) * length];
                skipped = skipped.saturating_sub(length);
                let (head, rest) = target.split_at_mut(run.len().min(target.len()));
                head.copy_from_slice(&run[..head.len()]);
                target = rest;
            }
            index += 1;
        }
    });
}

/// Moves blocks of channels to pixels: a source of shape `[batches, height, width, channels]` becomes
/// `[batches, height × block, width × block, channels / block²]`.
///
/// # Panics
///
/// Panics if the channels are not a multiple of `block × block`, or if the lengths of the slices do not match.
pub fn depth_to_space<T: Pod + Send + Sync>(
    engine: Engine,
    source: &[T],
    shape: [usize; 4],
    block: usize,
    target: &mut [T],
) {
    let [batches, height, width, channels] = shape;
    assert!(block > 0 && channels % (block * block) == 0, "whole blocks");
    let depth = channels / (block * block);
    transpose(engine, source, &[batches * height, width, block, block * depth], &[0, 2, 1, 3], target);
}

/// Moves blocks of pixels to channels: a source of shape `[batches, height, width, channels]` becomes
/// `[batches, height / block, width / block, channels × block²]`.
///
/// # Panics
///
/// Panics if height or width is not a multiple of `block`, or if the lengths of the slices do not match.
pub fn space_to_depth<T: Pod + Send + Sync>(
    engine: Engine,
    source: &[T],
    shape: [usize; 4],
    block: usize,
    target: &mut [T],
) {
    let [batches, height, width, channels] = shape;
    assert!(block > 0 && height % block == 0 && width % block == 0, "whole blocks");
    transpose(
        engine,
        source,
        &[batches * height / block, block, width / block, block * channels],
        &[0, 2, 1, 3],
        target,
    );
}

#[cfg(test)]
mod tests {
    use attache_base::{Pool, Serial};

    use super::*;
    use crate::testing::Random;

    #[test]
    fn strided_copies_match_the_loop() {
        let mut random = Random::new(13);
        let source: Vec<u32> = (0..100_000).collect();
        for round in 0..400 {
            let rank = if round < 300 { random.below(6) } else { 2 };
            let extents: Vec<usize> = (0..rank).map(|_| 1 + random.below(if round < 300 { 7 } else { 40 })).collect();
            let mut strides: Vec<i64> = (0..rank).map(|_| random.below(60) as i64 - 30).collect();
            if round >= 300 {
                strides[0] = 1;
            }
            let mut target = vec![0; extents.iter().product()];
            copy_strided(Engine::new(&Serial), &source, 50_000, &strides, &mut target, &extents);
            for (index, value) in target.iter().enumerate() {
                let (mut rest, mut at) = (index, 50_000);
                for axis in (0..rank).rev() {
                    at += (rest % extents[axis]) as i64 * strides[axis];
                    rest /= extents[axis];
                }
                assert_eq!(i64::from(*value), at, "{extents:?} {strides:?}");
            }
        }
    }

    #[test]
    fn transposes_and_tiles() {
        for rows in [1, 2, 3, 4, 5, 8, 17, 40] {
            for columns in [1, 2, 3, 4, 7, 8, 16, 50, 57] {
                let source: Vec<usize> = (0..rows * columns).collect();
                let mut target = vec![0; source.len()];
                transpose(Engine::new(&Serial), &source, &[rows, columns], &[1, 0], &mut target);
                let expected = |index: usize| index % rows * columns + index / rows;
                assert!((0..source.len()).all(|index| target[index] == expected(index)), "{rows} × {columns}");
            }
        }
        let mut tiled = [0; 12];
        tile(Engine::new(&Serial), &[1, 2, 3], &[1, 3], &[2, 2], &mut tiled);
        assert_eq!(tiled, [1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3]);
    }

    #[test]
    #[should_panic(expected = "every index lies in the source")]
    fn a_stride_out_of_the_source_is_refused() {
        copy_strided(Engine::new(&Serial), &[1, 2, 3], 2, &[-2], &mut [0, 0, 0], &[3]);
    }

    #[test]
    fn padding_of_every_kind() {
        let mut target = [7; 15];
        pad(Engine::new(&Serial), &[1, 2, 3, 4], &[2, 2], &[1, 2], &[0, 1], 0, &mut target);
        assert_eq!(target, [0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 3, 4, 0]);
        let mut line = [0; 7];
        mirror_pad(&[1, 2, 3], &[3], &[2], &[2], Mirror::Reflect, &mut line);
        assert_eq!(line, [3, 2, 1, 2, 3, 2, 1]);
        mirror_pad(&[1, 2, 3], &[3], &[2], &[2], Mirror::Symmetric, &mut line);
        assert_eq!(line, [2, 1, 1, 2, 3, 3, 2]);
    }

    #[test]
    fn blocks_go_there_and_back() {
        let source: Vec<usize> = (0..2 * 2 * 3 * 8).collect();
        let (mut spread, mut back) = (vec![0; source.len()], vec![0; source.len()]);
        depth_to_space(Engine::new(&Serial), &source, [2, 2, 3, 8], 2, &mut spread);
        assert_eq!(spread[..4], [0, 1, 2, 3]); // pixel (0, 0), (0, 1)
        assert_eq!(spread[12..16], [4, 5, 6, 7]); // pixel (1, 0), (1, 1)
        space_to_depth(Engine::new(&Serial), &spread, [2, 4, 6, 2], 2, &mut back);
        assert_eq!(back, source);
    }

    #[test]
    fn parts_lie_behind_each_other() {
        let mut target = [0; 6];
        concatenate(Engine::new(&Serial), &[&[1, 2, 3, 4][..], &[8, 9]], 2, &mut target);
        assert_eq!(target, [1, 2, 8, 3, 4, 9]);
    }

    #[test]
    fn threads_move_what_one_moves() {
        let (pool, mut random) = (Pool::new(3), Random::new(17));
        let source: Vec<u16> = (0..400_000).map(|_| random.below(1 << 16) as u16).collect();
        let moved = |engine: Engine, random: &mut Random| {
            let mut extents = || 1 + random.below(40);
            let shape = [extents(), extents(), extents()];
            let [before, after] = [(); 2].map(|()| [(); 3].map(|()| random.below(3) * random.below(40)));
            let length = |extents: [usize; 3]| extents.iter().product::<usize>();
            let elements = &source[..length(shape)];
            let mut targets = [length(shape), length([0, 1, 2].map(|axis| before[axis] + shape[axis] + after[axis]))]
                .map(|length| vec![9; length]);
            transpose(engine, elements, &shape, &[1, 2, 0], &mut targets[0]);
            pad(engine, elements, &shape, &before, &after, 7, &mut targets[1]);
            let runs = [(); 3].map(|()| random.below(300));
            let (outer, mut joined) = (1 + random.below(300), Vec::new());
            let parts = runs.map(|run| &bytemuck::cast_slice(&source)[run..][..outer * run]);
            joined.resize(runs.iter().sum::<usize>() * outer, 9);
            concatenate(engine, &parts, outer, &mut joined);
            for row in 0..outer {
                let expected = parts.iter().zip(runs).flat_map(|(part, run)| &part[row * run..][..run]);
                assert!(
                    joined.chunks_exact(joined.len() / outer).nth(row).into_iter().flatten().eq(expected),
                    "{runs:?}"
                );
            }
            (targets, shape, before, after)
        };
        for _ in 0..40 {
            let mut again = random.clone();
            let expected = moved(Engine::new(&Serial), &mut random);
            assert!(moved(Engine::new(&pool), &mut again) == expected, "{:?}", (expected.1, expected.2, expected.3));
        }
    }
}

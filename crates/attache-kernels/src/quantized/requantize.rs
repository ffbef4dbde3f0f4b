//! Requantization of sums, by fixed-point factors or in floats, with the vectors of AVX2 and AVX-512.
//!
//! With a mantissa `m` and a right shift of `s` bits in total, [`Rounding::Once`](super::Rounding::Once) is
//! `(x·m + 2^(s−1)) >> s`. [`Rounding::Twice`](super::Rounding::Twice) is the same for s = 31. For s ≥ 32 it takes one
//! shift too: `(x·m + 2^30 + 2^(s−1) − [x < 0]·2^31) >> s`. The first of the two roundings is the term 2^30. The second
//! one breaks ties away from zero: for a negative product, which has been rounded to a whole number of 2^31, it has to
//! round down where the remainder is one half, and a product smaller by one such unit does.
//!
//! The result is taken from the upper half of the 64 bits, shifted by `s − 32` bits more. For s < 32, products are shifted
//! to the left first. Where all factors have an s from 32 to 51, the zero point is added before the shift.
#![allow(unsafe_code)] // Intrinsics on pointers.

use std::arch::x86_64::*;

use super::epilogue::Sums;
use super::float_factors::Floats;
use super::quads::{QuadTarget, Steps};
use super::simd::{Factors, Scales};
use crate::gemm::Target;

/// The 64-bit term `[x < 0]·2^31` is this bit of `x` as an unsigned number.
const SIGN: i64 = 0x8000_0000;
/// Copies the odd words of a vector to the even ones. A shift would do, but the compiler joins it with the sign extension
/// of the product into one that takes several instructions.
const ODD: i32 = 0b11_11_01_01;
/// The lower half of a number of 64 bits.
const LOW: i64 = 0xffff_ffff;

/// Constants of eight adjacent columns for AVX2: those in pairs are of the even and of the odd columns, in 64 bits each.
#[derive(Clone, Copy)]
struct Scale256 {
    mantissas: [__m256i; 2],
    nudges: [__m256i; 2],
    signs: [__m256i; 2],
    doublings: [__m256i; 2],
    shifts: __m256i,
    left: __m256i,
    plus: __m256i,
}

impl Scale256 {
    /// # Safety
    /// The processor must have AVX2, and the factors of eight columns from `column` on, which is even, must be readable.
    #[inline(always)]
    unsafe fn load<const SHRINKS: bool>(factors: &Factors, column: usize) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let load = |source: *const i32| _mm256_loadu_si256(source.add(column).cast());
            let nudges = |source: *const i64| _mm256_loadu_si256(source.add(column / 2).cast());
            let (mantissas, zero) = (load(factors.mantissas), _mm256_setzero_si256());
            let doublings = if SHRINKS { zero } else { load(factors.doublings) };
            let doublings = [_mm256_and_si256(doublings, _mm256_set1_epi64x(LOW)), _mm256_srli_epi64::<32>(doublings)];
            let sign = |doublings| _mm256_andnot_si256(_mm256_cmpgt_epi64(doublings, zero), _mm256_set1_epi64x(SIGN));
            Self {
                mantissas: [mantissas, _mm256_shuffle_epi32::<ODD>(mantissas)],
                nudges: [nudges(factors.nudges[0]), nudges(factors.nudges[1])],
                signs: [sign(doublings[0]), sign(doublings[1])],
                doublings,
                shifts: load(factors.shifts),
                left: if factors.left.is_null() { zero } else { load(factors.left) },
                plus: _mm256_set1_epi32(factors.zero_point),
            }
        }
    }

    /// Returns the products of the lower halves of `sums`, the even ones (0) or the odd ones (1), with what rounds them.
    /// # Safety
    /// The processor must have AVX2.
    #[inline(always)]
    unsafe fn products<const TWICE: bool, const SHRINKS: bool>(&self, sums: __m256i, half: usize) -> __m256i {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let product = _mm256_mul_epi32(sums, self.mantissas[half]);
            let product = if SHRINKS { product } else { _mm256_sllv_epi64(product, self.doublings[half]) };
            let nudges = match TWICE {
                true => _mm256_sub_epi64(self.nudges[half], _mm256_and_si256(sums, self.signs[half])),
                false => self.nudges[half],
            };
            _mm256_add_epi64(product, nudges)
        }
    }

    /// Returns eight sums times their factors, plus the zero point.
    /// # Safety
    /// The processor must have AVX2.
    #[inline(always)]
    unsafe fn apply<const TWICE: bool, const SHRINKS: bool>(&self, sums: __m256i) -> __m256i {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let sums = if TWICE && !SHRINKS { _mm256_sllv_epi32(sums, self.left) } else { sums };
            let even = self.products::<TWICE, SHRINKS>(sums, 0);
            let odd = self.products::<TWICE, SHRINKS>(_mm256_shuffle_epi32::<ODD>(sums), 1);
            let high = _mm256_blend_epi32::<0b1010_1010>(_mm256_shuffle_epi32::<ODD>(even), odd);
            let scaled = _mm256_srav_epi32(high, self.shifts);
            if SHRINKS { scaled } else { _mm256_add_epi32(scaled, self.plus) }
        }
    }
}

/// Requantizes sums with AVX2, sixteen columns at a time.
///
/// # Safety
/// The processor must have AVX2; otherwise as `Integers::requantize`.
#[inline(always)]
pub(super) unsafe fn with_avx2<const TWICE: bool, const SHRINKS: bool>(sums: Sums, factors: Factors, to: Target<u8>) {
    // SAFETY: guaranteed by the caller. A row of sums consists of whole vectors of eight words.
    unsafe {
        let (low, high) = (_mm256_set1_epi16(factors.bounds.0 as i16), _mm256_set1_epi16(factors.bounds.1 as i16));
        for column in (0..sums.columns).step_by(16) {
            let count = sums.columns - column;
            let first = Scale256::load::<SHRINKS>(&factors, column);
            let second = if count > 8 { Scale256::load::<SHRINKS>(&factors, column + 8) } else { first };
            let (mut source, mut target) = (sums.start.add(column), to.start.add(column));
            for _ in 0..sums.rows {
                let a = first.apply::<TWICE, SHRINKS>(_mm256_loadu_si256(source.cast()));
                let b = match count > 8 {
                    true => second.apply::<TWICE, SHRINKS>(_mm256_loadu_si256(source.add(8).cast())),
                    false => a,
                };
                let words = _mm256_min_epi16(_mm256_max_epi16(_mm256_packs_epi32(a, b), low), high);
                store(words, target, count);
                (source, target) = (source.wrapping_add(sums.width), target.wrapping_add(to.stride));
            }
        }
    }
}

/// Requantizes sums in floats with AVX2, sixteen columns at a time.
///
/// # Safety
/// The processor must have AVX2; otherwise as `Integers::requantize_in_floats`.
#[inline(always)]
pub(super) unsafe fn in_floats_with_avx2(sums: Sums, scales: Scales, to: Target<u8>) {
    // SAFETY: guaranteed by the caller. A row of sums consists of whole vectors of eight words.
    unsafe {
        let (low, high) = scales.range();
        let (low, high) = (_mm256_set1_ps(low), _mm256_set1_ps(high));
        let plus = _mm256_set1_epi16(scales.zero_point as i16);
        for column in (0..sums.columns).step_by(16) {
            let count = sums.columns - column;
            let first = _mm256_loadu_ps(scales.scales.add(column));
            let second = if count > 8 { _mm256_loadu_ps(scales.scales.add(column + 8)) } else { first };
            for row in 0..sums.rows {
                let source = sums.start.add(row * sums.width + column);
                let target = to.start.add(row * to.stride + column);
                let a = scale_in_floats(source, first, low, high);
                let b = if count > 8 { scale_in_floats(source.add(8), second, low, high) } else { a };
                store(_mm256_add_epi16(_mm256_packs_epi32(a, b), plus), target, count);
            }
        }
    }
}

/// Returns eight sums times their scales, clamped and rounded to whole numbers.
/// # Safety
/// The processor must have AVX2, and eight words must be readable at `source`.
#[inline(always)]
unsafe fn scale_in_floats(source: *const i32, scale: __m256, low: __m256, high: __m256) -> __m256i {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let product = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_loadu_si256(source.cast())), scale);
        // The conversion rounds ties to even.
        _mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(product, low), high))
    }
}

/// Stores the lowest bytes of the first `count` words of 16 bits, of at most sixteen. The words are those of
/// `_mm256_packs_epi32`, in its order.
/// # Safety
/// The processor must have AVX2, and the bytes must be writable.
#[inline(always)]
unsafe fn store(words: __m256i, target: *mut u8, count: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let words = _mm256_and_si256(words, _mm256_set1_epi16(0xff));
        let columns = _mm256_setr_epi32(0, 4, 1, 5, 0, 4, 1, 5);
        let bytes = _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(_mm256_packus_epi16(words, words), columns));
        match count {
            16.. => _mm_storeu_si128(target.cast(), bytes),
            _ => store_part(bytes, target, count),
        }
    }
}

/// Stores the first `count` bytes, fewer than sixteen.
/// # Safety
/// They must be writable.
#[inline(always)]
unsafe fn store_part(mut bytes: __m128i, mut target: *mut u8, count: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if count & 8 != 0 {
            _mm_storel_epi64(target.cast(), bytes);
            (bytes, target) = (_mm_srli_si128::<8>(bytes), target.add(8));
        }
        if count & 4 != 0 {
            target.cast::<i32>().write_unaligned(_mm_cvtsi128_si32(bytes));
            (bytes, target) = (_mm_srli_si128::<4>(bytes), target.add(4));
        }
        if count & 2 != 0 {
            target.cast::<i16>().write_unaligned(_mm_cvtsi128_si32(bytes) as i16);
            (bytes, target) = (_mm_srli_si128::<2>(bytes), target.add(2));
        }
        if count & 1 != 0 {
            target.write(_mm_cvtsi128_si32(bytes) as u8);
        }
    }
}

/// Constants of sixteen adjacent columns for AVX-512: those in pairs are of the even and of the odd columns, in 64 bits each.
#[derive(Clone, Copy)]
struct Scale512 {
    mantissas: [__m512i; 2],
    nudges: [__m512i; 2],
    signs: [__m512i; 2],
    doublings: [__m512i; 2],
    shifts: __m512i,
    left: __m512i,
    plus: __m512i,
}

impl Scale512 {
    /// # Safety
    /// The processor must have AVX-512 F, and the factors of sixteen columns from `column` on, which is even, must be readable.
    #[inline(always)]
    unsafe fn load<const SHRINKS: bool>(factors: &Factors, column: usize) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let load = |source: *const i32| _mm512_loadu_si512(source.add(column).cast());
            let nudges = |source: *const i64| _mm512_loadu_si512(source.add(column / 2).cast());
            let (mantissas, zero) = (load(factors.mantissas), _mm512_setzero_si512());
            let doublings = if SHRINKS { zero } else { load(factors.doublings) };
            let doublings = [_mm512_and_si512(doublings, _mm512_set1_epi64(LOW)), _mm512_srli_epi64::<32>(doublings)];
            let sign = |doublings| _mm512_maskz_set1_epi64(_mm512_cmpeq_epi64_mask(doublings, zero), SIGN);
            Self {
                mantissas: [mantissas, _mm512_shuffle_epi32::<ODD>(mantissas)],
                nudges: [nudges(factors.nudges[0]), nudges(factors.nudges[1])],
                signs: [sign(doublings[0]), sign(doublings[1])],
                doublings,
                shifts: load(factors.shifts),
                left: if factors.left.is_null() { zero } else { load(factors.left) },
                plus: _mm512_set1_epi32(factors.zero_point),
            }
        }
    }

    /// Returns the products of the lower halves of `sums`, the even ones (0) or the odd ones (1), with what rounds them.
    /// # Safety
    /// The processor must have AVX-512 F.
    #[inline(always)]
    unsafe fn products<const TWICE: bool, const SHRINKS: bool>(&self, sums: __m512i, half: usize) -> __m512i {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let product = _mm512_mul_epi32(sums, self.mantissas[half]);
            let product = if SHRINKS { product } else { _mm512_sllv_epi64(product, self.doublings[half]) };
            let nudges = match TWICE {
                true => _mm512_sub_epi64(self.nudges[half], _mm512_and_si512(sums, self.signs[half])),
                false => self.nudges[half],
            };
            _mm512_add_epi64(product, nudges)
        }
    }

    /// Returns sixteen sums times their factors, plus the zero point.
    /// # Safety
    /// The processor must have AVX-512 F.
    #[inline(always)]
    unsafe fn apply<const TWICE: bool, const SHRINKS: bool>(&self, sums: __m512i) -> __m512i {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let sums = if TWICE && !SHRINKS { _mm512_sllv_epi32(sums, self.left) } else { sums };
            let even = self.products::<TWICE, SHRINKS>(sums, 0);
            let odd = self.products::<TWICE, SHRINKS>(_mm512_shuffle_epi32::<ODD>(sums), 1);
            let high = _mm512_mask_shuffle_epi32::<ODD>(odd, 0x5555, even);
            let scaled = _mm512_srav_epi32(high, self.shifts);
            if SHRINKS { scaled } else { _mm512_add_epi32(scaled, self.plus) }
        }
    }
}

/// Requantizes sums with AVX-512.
///
/// # Safety
/// The processor must have AVX-512 F, VL and BW; otherwise as `Integers::requantize`.
#[inline(always)]
pub(super) unsafe fn with_avx512<const TWICE: bool, const SHRINKS: bool>(sums: Sums, factors: Factors, to: Target<u8>) {
    // SAFETY: guaranteed by the caller. A row of sums consists of whole vectors of sixteen words.
    unsafe {
        let (low, high) = (_mm512_set1_epi32(factors.bounds.0), _mm512_set1_epi32(factors.bounds.1));
        for column in (0..sums.columns).step_by(16) {
            let scale = Scale512::load::<SHRINKS>(&factors, column);
            let count = (sums.columns - column).min(16);
            let mask = ((1u32 << count) - 1) as __mmask16;
            for row in 0..sums.rows {
                let source = sums.start.add(row * sums.width + column);
                let target = to.start.add(row * to.stride + column);
                let words = scale.apply::<TWICE, SHRINKS>(_mm512_loadu_si512(source.cast()));
                let bytes = _mm512_cvtepi32_epi8(_mm512_min_epi32(_mm512_max_epi32(words, low), high));
                match count {
                    16 => _mm_storeu_si128(target.cast(), bytes),
                    _ => _mm_mask_storeu_epi8(target.cast(), mask, bytes),
                }
            }
        }
    }
}

/// Factors of sixteen adjacent columns as floats.
#[derive(Clone, Copy)]
struct Floats512 {
    high: __m512,
    low: __m512,
    nudge: __m512i,
    /// One half and the zero point.
    plus: __m512,
}

/// Rounds downwards.
const DOWN: i32 = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;

impl Floats512 {
    /// # Safety
    /// The processor must have AVX-512 F, and the floats of sixteen columns from `column` on must be readable.
    #[inline(always)]
    unsafe fn load(floats: &Floats, column: usize) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe {
            Self {
                high: _mm512_loadu_ps(floats.high.add(column)),
                low: _mm512_loadu_ps(floats.low.add(column)),
                nudge: _mm512_loadu_si512(floats.nudges.add(column).cast()),
                plus: _mm512_set1_ps(0.5 + floats.zero_point as f32),
            }
        }
    }

    /// Returns sixteen sums times their factors, plus the zero point.
    /// # Safety
    /// The processor must have AVX-512 F.
    #[inline(always)]
    unsafe fn apply(&self, sums: __m512i) -> __m512i {
        /// `a | b & c`.
        const OR_AND: i32 = 0b1111_1000;
        // SAFETY: guaranteed by the caller.
        unsafe {
            let nudge = _mm512_ternarylogic_epi32::<OR_AND>(self.nudge, sums, _mm512_set1_epi32(i32::MIN));
            let sums = _mm512_cvtepi32_ps(sums);
            let low = _mm512_fmadd_round_ps::<DOWN>(sums, self.low, _mm512_castsi512_ps(nudge));
            let scaled = _mm512_fmadd_round_ps::<DOWN>(sums, self.high, low);
            _mm512_cvt_roundps_epi32::<DOWN>(_mm512_add_round_ps::<DOWN>(scaled, self.plus))
        }
    }
}

/// The range of results as bytes, which are signed or not.
#[derive(Clone, Copy)]
struct Range512<const SIGNED: bool> {
    least: __m512i,
    greatest: __m512i,
}

impl<const SIGNED: bool> Range512<SIGNED> {
    /// # Safety
    /// The processor must have AVX-512 F and BW.
    #[inline(always)]
    unsafe fn new(bounds: (i32, i32)) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { Self { least: _mm512_set1_epi8(bounds.0 as i8), greatest: _mm512_set1_epi8(bounds.1 as i8) } }
    }

    /// Returns the bytes of clamped words: in each quarter, those of the same quarter of each vector.
    /// # Safety
    /// The processor must have AVX-512 F and BW.
    #[inline(always)]
    unsafe fn bytes(self, words: [__m512i; 4]) -> __m512i {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let (a, b) = (_mm512_packs_epi32(words[0], words[1]), _mm512_packs_epi32(words[2], words[3]));
            match SIGNED {
                true => _mm512_min_epi8(_mm512_max_epi8(_mm512_packs_epi16(a, b), self.least), self.greatest),
                false => _mm512_min_epu8(_mm512_max_epu8(_mm512_packus_epi16(a, b), self.least), self.greatest),
            }
        }
    }

    /// Returns the bytes of clamped words, first those of the first vector.
    /// # Safety
    /// The processor must have AVX-512 F and BW.
    #[inline(always)]
    unsafe fn bytes_in_order(self, words: [__m512i; 4]) -> __m512i {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
            _mm512_permutexvar_epi32(order, self.bytes(words))
        }
    }
}

/// Requantizes sums with AVX-512 and factors as floats.
///
/// # Safety
/// The processor must have AVX-512 F, VL and BW; otherwise as `Integers::requantize`.
#[inline(always)]
pub(super) unsafe fn rounding_down_with_avx512(sums: Sums, floats: Floats, to: Target<u8>) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        match (sums.columns > 16, floats.are_signed()) {
            (true, true) => round_down_two_vectors::<true>(sums, floats, to),
            (true, false) => round_down_two_vectors::<false>(sums, floats, to),
            (false, true) => round_down_one_vector::<true>(sums, floats, to),
            (false, false) => round_down_one_vector::<false>(sums, floats, to),
        }
    }
}

/// Requantizes rows of 17 to 32 sums, two rows at a time. The last row of an odd number is computed twice.
///
/// # Safety
/// As [`rounding_down_with_avx512`].
#[inline(always)]
unsafe fn round_down_two_vectors<const SIGNED: bool>(sums: Sums, floats: Floats, to: Target<u8>) {
    // SAFETY: guaranteed by the caller. A row of sums consists of whole vectors of sixteen words.
    unsafe {
        let range = Range512::<SIGNED>::new(floats.bounds);
        let (first, second) = (Floats512::load(&floats, 0), Floats512::load(&floats, 16));
        let mask = u32::MAX >> (32 - sums.columns);
        for row in (0..sums.rows).step_by(2) {
            let next = row + usize::from(row + 1 < sums.rows);
            let (a, b) = (sums.start.add(row * sums.width), sums.start.add(next * sums.width));
            let words = [
                first.apply(_mm512_loadu_si512(a.cast())),
                second.apply(_mm512_loadu_si512(a.add(16).cast())),
                first.apply(_mm512_loadu_si512(b.cast())),
                second.apply(_mm512_loadu_si512(b.add(16).cast())),
            ];
            let bytes = range.bytes_in_order(words);
            let (lower, upper) = (_mm512_castsi512_si256(bytes), _mm512_extracti64x4_epi64::<1>(bytes));
            let (a, b) = (to.start.add(row * to.stride), to.start.add(next * to.stride));
            if sums.columns == 32 {
                _mm256_storeu_si256(a.cast(), lower);
                _mm256_storeu_si256(b.cast(), upper);
            } else {
                _mm256_mask_storeu_epi8(a.cast(), mask, lower);
                _mm256_mask_storeu_epi8(b.cast(), mask, upper);
            }
        }
    }
}

/// Requantizes rows of at most 16 sums, four rows at a time. The last row may be computed several times.
///
/// # Safety
/// As [`rounding_down_with_avx512`].
#[inline(always)]
unsafe fn round_down_one_vector<const SIGNED: bool>(sums: Sums, floats: Floats, to: Target<u8>) {
    // SAFETY: guaranteed by the caller. A row of sums consists of a whole vector of sixteen words.
    unsafe {
        let range = Range512::<SIGNED>::new(floats.bounds);
        let scale = Floats512::load(&floats, 0);
        let mask = (u32::MAX >> (32 - sums.columns)) as __mmask16;
        for row in (0..sums.rows).step_by(4) {
            let last = sums.rows - 1;
            let rows = [row, (row + 1).min(last), (row + 2).min(last), (row + 3).min(last)];
            let mut words = [_mm512_setzero_si512(); 4];
            for (words, row) in words.iter_mut().zip(rows) {
                *words = scale.apply(_mm512_loadu_si512(sums.start.add(row * sums.width).cast()));
            }
            let bytes = range.bytes_in_order(words);
            let quarters = [
                _mm512_castsi512_si128(bytes),
                _mm512_extracti32x4_epi32::<1>(bytes),
                _mm512_extracti32x4_epi32::<2>(bytes),
                _mm512_extracti32x4_epi32::<3>(bytes),
            ];
            for (bytes, row) in quarters.into_iter().zip(rows) {
                let target = to.start.add(row * to.stride);
                match sums.columns {
                    16 => _mm_storeu_si128(target.cast(), bytes),
                    _ => _mm_mask_storeu_epi8(target.cast(), mask, bytes),
                }
            }
        }
    }
}

/// Returns words in the order of `Integers::quads`.
///
/// # Safety
/// The processor must have AVX-512 F, and the groups of words must be readable.
#[inline(always)]
pub(super) unsafe fn quads(source: *const i32, steps: Steps) -> [__m512i; 4] {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let mut vectors = [_mm512_setzero_si512(); 4];
        for (v, vector) in vectors.iter_mut().enumerate() {
            let (lower, upper) = (source.add(4 * v), source.add(4 * v + steps.upper));
            let first = _mm512_castsi128_si512(_mm_loadu_si128(lower.cast()));
            let first = _mm512_inserti32x4::<1>(first, _mm_loadu_si128(lower.add(steps.group).cast()));
            let three = _mm512_inserti32x4::<2>(first, _mm_loadu_si128(upper.cast()));
            *vector = _mm512_inserti32x4::<3>(three, _mm_loadu_si128(upper.add(steps.group).cast()));
        }
        vectors
    }
}

/// Requantizes rows of 64 sums as `Integers::requantize_quads`.
///
/// # Safety
/// The processor must have AVX-512 F, VL and BW; otherwise as there.
#[inline(always)]
pub(super) unsafe fn quads_with_avx512<const WHOLE: bool>(
    sums: *const i32,
    rows: usize,
    (floats, steps): (Floats, Steps),
    to: QuadTarget,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        match floats.are_signed() {
            true => round_down_quads::<WHOLE, true>(sums, rows, (floats, steps), to),
            false => round_down_quads::<WHOLE, false>(sums, rows, (floats, steps), to),
        }
    }
}

/// # Safety
/// As [`quads_with_avx512`].
#[inline(always)]
unsafe fn round_down_quads<const WHOLE: bool, const SIGNED: bool>(
    sums: *const i32,
    rows: usize,
    (floats, steps): (Floats, Steps),
    to: QuadTarget,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let range = Range512::<SIGNED>::new(floats.bounds);
        // Not through a closure, which would not be compiled for these features.
        let (high, low) = (quads(floats.high.cast(), steps), quads(floats.low.cast(), steps));
        let nudges = quads(floats.nudges.cast(), steps);
        let mut scales = [Floats512::load(&floats, 0); 4];
        for (v, scale) in scales.iter_mut().enumerate() {
            (scale.high, scale.low) = (_mm512_castsi512_ps(high[v]), _mm512_castsi512_ps(low[v]));
            scale.nudge = nudges[v];
        }
        for row in 0..rows {
            let mut words = nudges;
            for (v, word) in words.iter_mut().enumerate() {
                *word = scales[v].apply(_mm512_loadu_si512(sums.add(64 * row + 16 * v).cast()));
            }
            let bytes = range.bytes(words);
            let (first, second) = (to.start[0].add(row * to.stride), to.start[1].add(row * to.stride));
            match WHOLE {
                true => _mm512_storeu_si512(first.cast(), bytes),
                false => {
                    _mm256_storeu_si256(first.cast(), _mm512_castsi512_si256(bytes));
                    _mm256_storeu_si256(second.cast(), _mm512_extracti64x4_epi64::<1>(bytes));
                }
            }
        }
    }
}

/// Requantizes sums in floats with AVX-512.
///
/// # Safety
/// The processor must have AVX-512 F, VL and BW; otherwise as `Integers::requantize_in_floats`.
#[inline(always)]
pub(super) unsafe fn in_floats_with_avx512(sums: Sums, scales: Scales, to: Target<u8>) {
    // SAFETY: guaranteed by the caller. A row of sums consists of whole vectors of sixteen words.
    unsafe {
        let (low, high) = scales.range();
        let (low, high) = (_mm512_set1_ps(low), _mm512_set1_ps(high));
        let plus = _mm512_set1_epi32(scales.zero_point);
        for column in (0..sums.columns).step_by(16) {
            let scale = _mm512_loadu_ps(scales.scales.add(column));
            let count = (sums.columns - column).min(16);
            let mask = ((1u32 << count) - 1) as __mmask16;
            for row in 0..sums.rows {
                let source = sums.start.add(row * sums.width + column);
                let target = to.start.add(row * to.stride + column);
                let product = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_loadu_si512(source.cast())), scale);
                // The conversion of a float to an integer rounds ties to even.
                let words = _mm512_cvtps_epi32(_mm512_min_ps(_mm512_max_ps(product, low), high));
                let bytes = _mm512_cvtepi32_epi8(_mm512_add_epi32(words, plus));
                match count {
                    16 => _mm_storeu_si128(target.cast(), bytes),
                    _ => _mm_mask_storeu_epi8(target.cast(), mask, bytes),
                }
            }
        }
    }
}

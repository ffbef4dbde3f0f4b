//! Requantization of sums, by fixed-point factors or in floats, with the vectors of AVX2 and AVX-512.
//!
//! With a mantissa `m` and a right shift of `s` bits in total, [`Rounding::Once`](super::Rounding::Once) is
//! `(x·m + 2^(s−1)) >> s`. [`Rounding::Twice`](super::Rounding::Twice) is the same for s = 31. For s ≥ 32 it takes one
//! shift too: `(x·m + 2^30 + 2^(s−1) − [x < 0]·2^31) >> s`. The first of the two roundings is the term 2^30. The second
//! one breaks ties away from zero: for a negative product, which has been rounded to a whole number of 2^31, it has to
//! round down where the remainder is one half, and a product smaller by one such unit does.
#![allow(unsafe_code)] // Intrinsics on pointers.

use std::arch::x86_64::*;

use super::epilogue::Sums;
use super::simd::{Factors, Scales};
use crate::gemm::Target;

/// The 64-bit term `[x < 0]·2^31` is this bit of `x` as an unsigned number.
const SIGN: i64 = 0x8000_0000;
/// Copies the odd words of a vector to the even ones. A shift would do, but the compiler joins it with the sign extension
/// of the product into one that takes several instructions.
const ODD: i32 = 0b11_11_01_01;
/// The lower half of a number of 64 bits.
const LOW: i64 = 0xffff_ffff;

/// Constants of four columns of 64 bits each, the even or the odd ones of a vector, for AVX2.
#[derive(Clone, Copy)]
struct Half256 {
    mantissas: __m256i,
    nudges: __m256i,
    signs: __m256i,
    shifts: __m256i,
}

impl Half256 {
    /// Takes mantissas, and right shifts of the products in bits; these shifts are then reduced by `less`.
    /// # Safety
    /// The processor must have AVX2.
    #[inline(always)]
    unsafe fn new<const TWICE: bool>(mantissas: __m256i, shifts: __m256i, less: i64) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let one = _mm256_set1_epi64x(1);
            let shrinks = _mm256_cmpgt_epi64(shifts, _mm256_set1_epi64x(31));
            let last = _mm256_sllv_epi64(one, _mm256_sub_epi64(shifts, one));
            let first = _mm256_and_si256(shrinks, _mm256_set1_epi64x(1 << 30));
            let both = if TWICE { _mm256_add_epi64(last, first) } else { last };
            Self {
                mantissas,
                // 2^63 makes the number non-negative, because there is no arithmetic shift of 64 bits.
                nudges: _mm256_xor_si256(both, _mm256_set1_epi64x(i64::MIN)),
                signs: _mm256_and_si256(shrinks, _mm256_set1_epi64x(SIGN)),
                shifts: _mm256_sub_epi64(shifts, _mm256_set1_epi64x(less)),
            }
        }
    }

    /// Returns the products of the lower halves of `sums`, shifted.
    /// # Safety
    /// The processor must have AVX2.
    #[inline(always)]
    unsafe fn apply<const TWICE: bool, const SHRINKS: bool>(&self, sums: __m256i) -> __m256i {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let product = _mm256_mul_epi32(sums, self.mantissas);
            let signs = if SHRINKS { _mm256_set1_epi64x(SIGN) } else { self.signs };
            let nudges = match TWICE {
                true => _mm256_sub_epi64(self.nudges, _mm256_and_si256(sums, signs)),
                false => self.nudges,
            };
            _mm256_srlv_epi64(_mm256_add_epi64(product, nudges), self.shifts)
        }
    }
}

/// Constants of eight adjacent columns for AVX2.
#[derive(Clone, Copy)]
struct Scale256 {
    even: Half256,
    odd: Half256,
    left: __m256i,
    plus: __m256i,
}

impl Scale256 {
    /// # Safety
    /// The processor must have AVX2, and the factors of eight columns from `column` on must be readable.
    #[inline(always)]
    unsafe fn load<const TWICE: bool, const SHRINKS: bool>(factors: &Factors, column: usize) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let mantissas = _mm256_loadu_si256(factors.mantissas.add(column).cast());
            let right = _mm256_loadu_si256(factors.right.add(column).cast());
            let shift = if TWICE { _mm256_add_epi32(right, _mm256_set1_epi32(31)) } else { right };
            let (low, high) = (_mm256_and_si256(shift, _mm256_set1_epi64x(LOW)), _mm256_srli_epi64::<32>(shift));
            let less = if SHRINKS { 32 } else { 0 };
            let left = match factors.left.is_null() {
                true => _mm256_setzero_si256(),
                false => _mm256_loadu_si256(factors.left.add(column).cast()),
            };
            // The 32 lower bits of what 2^63 has become after the shift.
            let offset = _mm256_sllv_epi32(_mm256_set1_epi32(1), _mm256_sub_epi32(_mm256_set1_epi32(63), shift));
            Self {
                even: Half256::new::<TWICE>(mantissas, low, 0),
                // Shifted by 32 bits less, the odd results are where they belong.
                odd: Half256::new::<TWICE>(_mm256_shuffle_epi32::<ODD>(mantissas), high, less),
                left,
                plus: _mm256_sub_epi32(_mm256_set1_epi32(factors.zero_point), offset),
            }
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
            let even = self.even.apply::<TWICE, SHRINKS>(sums);
            let odd = self.odd.apply::<TWICE, SHRINKS>(_mm256_shuffle_epi32::<ODD>(sums));
            let odd = if SHRINKS { odd } else { _mm256_slli_epi64::<32>(odd) };
            _mm256_add_epi32(_mm256_blend_epi32::<0b1010_1010>(even, odd), self.plus)
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
            let first = Scale256::load::<TWICE, SHRINKS>(&factors, column);
            let second = if count > 8 { Scale256::load::<TWICE, SHRINKS>(&factors, column + 8) } else { first };
            for row in 0..sums.rows {
                let source = sums.start.add(row * sums.width + column);
                let target = to.start.add(row * to.stride + column);
                let a = first.apply::<TWICE, SHRINKS>(_mm256_loadu_si256(source.cast()));
                let b = match count > 8 {
                    true => second.apply::<TWICE, SHRINKS>(_mm256_loadu_si256(source.add(8).cast())),
                    false => a,
                };
                let words = _mm256_min_epi16(_mm256_max_epi16(_mm256_packs_epi32(a, b), low), high);
                store(words, target, count);
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
        let bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words));
        let bytes = _mm_shuffle_epi32::<0b11_01_10_00>(bytes);
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

/// Constants of eight columns of 64 bits each, the even or the odd ones of a vector, for AVX-512.
#[derive(Clone, Copy)]
struct Half512 {
    mantissas: __m512i,
    nudges: __m512i,
    signs: __m512i,
    shifts: __m512i,
}

impl Half512 {
    /// Takes mantissas, and right shifts of the products in bits; these shifts are then reduced by `less`.
    /// `plus` is added to the results.
    /// # Safety
    /// The processor must have AVX-512 F.
    #[inline(always)]
    unsafe fn new<const TWICE: bool>(mantissas: __m512i, shifts: __m512i, less: i64, plus: i64) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let one = _mm512_set1_epi64(1);
            let shrinks = _mm512_cmpgt_epi64_mask(shifts, _mm512_set1_epi64(31));
            let last = _mm512_sllv_epi64(one, _mm512_sub_epi64(shifts, one));
            let first = _mm512_maskz_set1_epi64(shrinks, 1 << 30);
            let both = if TWICE { _mm512_add_epi64(last, first) } else { last };
            Self {
                mantissas,
                nudges: _mm512_add_epi64(both, _mm512_sllv_epi64(_mm512_set1_epi64(plus), shifts)),
                signs: _mm512_maskz_set1_epi64(shrinks, SIGN),
                shifts: _mm512_sub_epi64(shifts, _mm512_set1_epi64(less)),
            }
        }
    }

    /// Returns the products of the lower halves of `sums`, shifted.
    /// # Safety
    /// The processor must have AVX-512 F.
    #[inline(always)]
    unsafe fn apply<const TWICE: bool, const SHRINKS: bool>(&self, sums: __m512i) -> __m512i {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let product = _mm512_mul_epi32(sums, self.mantissas);
            let signs = if SHRINKS { _mm512_set1_epi64(SIGN) } else { self.signs };
            let nudges = match TWICE {
                true => _mm512_sub_epi64(self.nudges, _mm512_and_si512(sums, signs)),
                false => self.nudges,
            };
            _mm512_srav_epi64(_mm512_add_epi64(product, nudges), self.shifts)
        }
    }
}

/// Constants of sixteen adjacent columns for AVX-512.
#[derive(Clone, Copy)]
struct Scale512 {
    even: Half512,
    odd: Half512,
    left: __m512i,
    plus: __m512i,
}

impl Scale512 {
    /// # Safety
    /// The processor must have AVX-512 F, and the factors of sixteen columns from `column` on must be readable.
    #[inline(always)]
    unsafe fn load<const TWICE: bool, const SHRINKS: bool>(factors: &Factors, column: usize) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let mantissas = _mm512_loadu_si512(factors.mantissas.add(column).cast());
            let right = _mm512_loadu_si512(factors.right.add(column).cast());
            let shift = if TWICE { _mm512_add_epi32(right, _mm512_set1_epi32(31)) } else { right };
            let (low, high) = (_mm512_and_si512(shift, _mm512_set1_epi64(LOW)), _mm512_srli_epi64::<32>(shift));
            let less = if SHRINKS { 32 } else { 0 };
            let left = match factors.left.is_null() {
                true => _mm512_setzero_si512(),
                false => _mm512_loadu_si512(factors.left.add(column).cast()),
            };
            // With so small shifts the zero point can be added before them.
            let plus = if SHRINKS { i64::from(factors.zero_point) } else { 0 };
            Self {
                even: Half512::new::<TWICE>(mantissas, low, 0, plus),
                // Shifted by 32 bits less, the odd results are where they belong.
                odd: Half512::new::<TWICE>(_mm512_shuffle_epi32::<ODD>(mantissas), high, less, plus),
                left,
                plus: _mm512_set1_epi32(factors.zero_point),
            }
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
            let even = self.even.apply::<TWICE, SHRINKS>(sums);
            let odd = self.odd.apply::<TWICE, SHRINKS>(_mm512_shuffle_epi32::<ODD>(sums));
            let odd = if SHRINKS { odd } else { _mm512_slli_epi64::<32>(odd) };
            let scaled = _mm512_mask_blend_epi32(0xaaaa, even, odd);
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
            let scale = Scale512::load::<TWICE, SHRINKS>(&factors, column);
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

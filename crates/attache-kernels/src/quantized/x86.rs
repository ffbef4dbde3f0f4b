//! 256-bit vectors of pairs of 16-bit numbers (AVX2), and vectors of groups of four bytes, of 256 bits (AVX-VNNI) and of
//! 512 bits (AVX-512 VNNI).
#![allow(unsafe_code)] // Intrinsics, calls into functions compiled for features that were detected, and empty assembly.

use std::arch::x86_64::*;

use super::epilogue::Sums;
use super::float_factors::Floats;
use super::quads::{QuadTarget, Steps};
use super::requantize;
use super::simd::{Factors, IntegerMultiversioned, Integers, MOST_LANES, Scales};
use crate::Isa;
use crate::gemm::Target;
use crate::simd::Kind;

/// Token whose existence proves that the processor supports AVX2, FMA and F16C.
#[derive(Clone, Copy)]
pub struct Avx2(());

impl Avx2 {
    /// # Safety
    /// The processor must have AVX2, FMA and F16C.
    pub(super) unsafe fn new() -> Self {
        Self(())
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline(never)]
fn run_avx2<K: IntegerMultiversioned>(simd: Avx2, kernel: K) -> K::Output {
    kernel.run(simd)
}

impl Integers for Avx2 {
    type Vector = __m256i;
    const LANES: usize = 8;
    const ROWS: usize = 6;

    #[inline(always)]
    fn vectorize<K: IntegerMultiversioned>(self, kernel: K) -> K::Output {
        // SAFETY: the token proves the features.
        unsafe { run_avx2(self, kernel) }
    }
    #[inline(always)]
    fn splat(self, word: i32) -> __m256i {
        // SAFETY: the token proves the features, here and below.
        unsafe { _mm256_set1_epi32(word) }
    }
    #[inline(always)]
    unsafe fn load(self, source: *const i32) -> __m256i {
        // SAFETY: the caller guarantees the words.
        unsafe { _mm256_loadu_si256(source.cast()) }
    }
    #[inline(always)]
    fn words(self, vector: __m256i) -> [i32; MOST_LANES] {
        let mut words = [0; MOST_LANES];
        // SAFETY: half of the array is written.
        unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), vector) };
        words
    }
    #[inline(always)]
    fn dot(self, sum: __m256i, x: __m256i, w: __m256i) -> __m256i {
        self.dot_pairs(sum, x, w)
    }
    #[inline(always)]
    fn dot_pairs(self, sum: __m256i, x: __m256i, w: __m256i) -> __m256i {
        // SAFETY: the token proves the features.
        unsafe { in_order(_mm256_add_epi32(sum, _mm256_madd_epi16(x, w))) }
    }
    #[inline(always)]
    unsafe fn requantize<const TWICE: bool, const SHRINKS: bool>(self, sums: Sums, by: Factors, to: Target<u8>) {
        // SAFETY: the token proves the features; the rest is guaranteed by the caller.
        unsafe { requantize::with_avx2::<TWICE, SHRINKS>(sums, by, to) }
    }
    #[inline(always)]
    unsafe fn requantize_in_floats(self, sums: Sums, by: Scales, to: Target<u8>) {
        // SAFETY: the token proves the features; the rest is guaranteed by the caller.
        unsafe { requantize::in_floats_with_avx2(sums, by, to) }
    }
    #[inline(always)]
    fn subtract_scaled(self, sum: __m256i, x: __m256i, factor: i32) -> __m256i {
        // SAFETY: the token proves the features.
        unsafe { _mm256_sub_epi32(sum, _mm256_mullo_epi32(x, _mm256_set1_epi32(factor))) }
    }
    #[inline(always)]
    unsafe fn pair_bytes<const SIGNED: bool>(self, a: *const u8, b: *const u8, count: usize) -> __m256i {
        let load = |source: *const u8| {
            let mut bytes = 0u64;
            // SAFETY: the caller guarantees `count` bytes, at most eight.
            unsafe {
                match count {
                    8 => bytes = source.cast::<u64>().read_unaligned(),
                    _ => std::ptr::copy_nonoverlapping(source, (&raw mut bytes).cast(), count),
                }
                let bytes = _mm_cvtsi64_si128(bytes as i64);
                if SIGNED { _mm256_cvtepi8_epi32(bytes) } else { _mm256_cvtepu8_epi32(bytes) }
            }
        };
        let (a, b) = (load(a), load(b));
        // SAFETY: the token proves the features.
        unsafe { _mm256_blend_epi16::<0b1010_1010>(a, _mm256_slli_epi32::<16>(b)) }
    }
    #[inline(always)]
    unsafe fn pair_bytes_twice<const SIGNED: bool>(self, a: *const u8, b: *const u8) -> (__m256i, __m256i) {
        // SAFETY: the token proves the features; the caller guarantees sixteen bytes.
        unsafe {
            // Interleaved first, because to widen takes longer.
            let (a, b) = (_mm_loadu_si128(a.cast()), _mm_loadu_si128(b.cast()));
            let (low, high) = (_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b));
            match SIGNED {
                true => (_mm256_cvtepi8_epi16(low), _mm256_cvtepi8_epi16(high)),
                false => (_mm256_cvtepu8_epi16(low), _mm256_cvtepu8_epi16(high)),
            }
        }
    }
}

/// Token whose existence proves that the processor supports AVX-VNNI, and the features of the AVX2 token.
#[derive(Clone, Copy)]
pub struct AvxVnni(Avx2);

impl AvxVnni {
    /// # Safety
    /// The processor must have AVX-VNNI, AVX2, FMA and F16C.
    pub(super) unsafe fn new() -> Self {
        Self(Avx2(()))
    }
}

#[target_feature(enable = "avxvnni,avx2,fma,f16c")]
#[inline(never)]
fn run_avx_vnni<K: IntegerMultiversioned>(simd: AvxVnni, kernel: K) -> K::Output {
    kernel.run(simd)
}

impl Integers for AvxVnni {
    type Vector = __m256i;
    const LANES: usize = Avx2::LANES;
    const ROWS: usize = Avx2::ROWS;
    const INTERLEAVES: bool = true;

    #[inline(always)]
    fn vectorize<K: IntegerMultiversioned>(self, kernel: K) -> K::Output {
        // SAFETY: the token proves the features.
        unsafe { run_avx_vnni(self, kernel) }
    }
    #[inline(always)]
    fn splat(self, word: i32) -> __m256i {
        self.0.splat(word)
    }
    #[inline(always)]
    unsafe fn load(self, source: *const i32) -> __m256i {
        // SAFETY: guaranteed by the caller.
        unsafe { self.0.load(source) }
    }
    #[inline(always)]
    fn words(self, vector: __m256i) -> [i32; MOST_LANES] {
        self.0.words(vector)
    }
    #[inline(always)]
    fn dot(self, sum: __m256i, x: __m256i, w: __m256i) -> __m256i {
        // SAFETY: the token proves the features, here and below.
        unsafe { _mm256_dpbusd_avx_epi32(sum, x, w) }
    }
    #[inline(always)]
    fn dot_pairs(self, sum: __m256i, x: __m256i, w: __m256i) -> __m256i {
        // SAFETY: the token proves the features.
        unsafe { _mm256_dpwssd_avx_epi32(sum, x, w) }
    }
    #[inline(always)]
    unsafe fn requantize<const TWICE: bool, const SHRINKS: bool>(self, sums: Sums, by: Factors, to: Target<u8>) {
        // SAFETY: guaranteed by the caller.
        unsafe { self.0.requantize::<TWICE, SHRINKS>(sums, by, to) }
    }
    #[inline(always)]
    unsafe fn requantize_in_floats(self, sums: Sums, by: Scales, to: Target<u8>) {
        // SAFETY: guaranteed by the caller.
        unsafe { self.0.requantize_in_floats(sums, by, to) }
    }
    #[inline(always)]
    unsafe fn interleave<const SIGNED: bool>(self, rows: [*const u8; 4], count: usize) -> __m256i {
        // SAFETY: the token proves the features; the caller guarantees `count` bytes, at most eight.
        unsafe {
            // A closure that `map` called would not be compiled for these features.
            let load = |row: *const u8| match count {
                8 => _mm_loadl_epi64(row.cast()),
                _ => {
                    let mut bytes = 0u64;
                    std::ptr::copy_nonoverlapping(row, (&raw mut bytes).cast(), count);
                    _mm_cvtsi64_si128(bytes as i64)
                }
            };
            let (a, b, c, d) = (load(rows[0]), load(rows[1]), load(rows[2]), load(rows[3]));
            let (upper, lower) = (_mm_unpacklo_epi8(a, b), _mm_unpacklo_epi8(c, d));
            let words = _mm256_set_m128i(_mm_unpackhi_epi16(upper, lower), _mm_unpacklo_epi16(upper, lower));
            if SIGNED { _mm256_xor_si256(words, _mm256_set1_epi8(i8::MIN)) } else { words }
        }
    }
    #[inline(always)]
    fn subtract_scaled(self, sum: __m256i, x: __m256i, factor: i32) -> __m256i {
        self.0.subtract_scaled(sum, x, factor)
    }
    #[inline(always)]
    unsafe fn pair_bytes<const SIGNED: bool>(self, a: *const u8, b: *const u8, count: usize) -> __m256i {
        // SAFETY: guaranteed by the caller.
        unsafe { self.0.pair_bytes::<SIGNED>(a, b, count) }
    }
    #[inline(always)]
    unsafe fn pair_bytes_twice<const SIGNED: bool>(self, a: *const u8, b: *const u8) -> (__m256i, __m256i) {
        // SAFETY: guaranteed by the caller.
        unsafe { self.0.pair_bytes_twice::<SIGNED>(a, b) }
    }
}

/// Token whose existence proves that the processor supports AVX-512 F, VL, BW, DQ and VNNI, and the
/// features of the AVX2 token.
#[derive(Clone, Copy)]
pub struct Vnni(());

impl Vnni {
    /// # Safety
    /// The processor must have AVX-512 F, VL, BW, DQ, VNNI, AVX2, FMA and F16C.
    pub(super) unsafe fn new() -> Self {
        Self(())
    }
}

#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx512vnni,avx2,fma,f16c")]
#[inline(never)]
fn run_vnni<K: IntegerMultiversioned>(simd: Vnni, kernel: K) -> K::Output {
    kernel.run(simd)
}

impl Integers for Vnni {
    type Vector = __m512i;
    const LANES: usize = 16;
    const ROWS: usize = 12;
    const INTERLEAVES: bool = true;
    const ROUNDS_DOWN: bool = true;
    const QUADS: bool = !cfg!(attache_small);

    #[inline(always)]
    fn vectorize<K: IntegerMultiversioned>(self, kernel: K) -> K::Output {
        // SAFETY: the token proves the features.
        unsafe { run_vnni(self, kernel) }
    }
    #[inline(always)]
    fn splat(self, word: i32) -> __m512i {
        // SAFETY: the token proves the features, here and below.
        unsafe { _mm512_set1_epi32(word) }
    }
    #[inline(always)]
    unsafe fn load(self, source: *const i32) -> __m512i {
        // SAFETY: the caller guarantees the words.
        unsafe { _mm512_loadu_si512(source.cast()) }
    }
    #[inline(always)]
    fn words(self, vector: __m512i) -> [i32; MOST_LANES] {
        let mut words = [0; MOST_LANES];
        // SAFETY: all words are written.
        unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), vector) };
        words
    }
    #[inline(always)]
    fn dot(self, sum: __m512i, x: __m512i, w: __m512i) -> __m512i {
        // SAFETY: the token proves the features.
        unsafe { _mm512_dpbusd_epi32(sum, x, w) }
    }
    #[inline(always)]
    fn dot_pairs(self, sum: __m512i, x: __m512i, w: __m512i) -> __m512i {
        // SAFETY: the token proves the features.
        unsafe { _mm512_dpwssd_epi32(sum, x, w) }
    }
    #[inline(always)]
    unsafe fn requantize<const TWICE: bool, const SHRINKS: bool>(self, sums: Sums, by: Factors, to: Target<u8>) {
        // SAFETY: the token proves the features; the rest is guaranteed by the caller.
        unsafe { requantize::with_avx512::<TWICE, SHRINKS>(sums, by, to) }
    }
    #[inline(always)]
    unsafe fn requantize_rounding_down(self, sums: Sums, by: Floats, to: Target<u8>) {
        // SAFETY: the token proves the features; the rest is guaranteed by the caller.
        unsafe { requantize::rounding_down_with_avx512(sums, by, to) }
    }
    #[inline(always)]
    unsafe fn requantize_in_floats(self, sums: Sums, by: Scales, to: Target<u8>) {
        // SAFETY: the token proves the features; the rest is guaranteed by the caller.
        unsafe { requantize::in_floats_with_avx512(sums, by, to) }
    }
    #[inline(always)]
    unsafe fn interleave<const SIGNED: bool>(self, rows: [*const u8; 4], count: usize) -> __m512i {
        // SAFETY: the token proves the features; the caller guarantees `count` bytes, at most sixteen; masked ones are not
        // accessed.
        unsafe {
            // A closure that `map` called would not be compiled for these features.
            let load = |row: *const u8| match count {
                16 => _mm_loadu_si128(row.cast()),
                _ => _mm_maskz_loadu_epi8(((1u32 << count) - 1) as __mmask16, row.cast()),
            };
            let (a, b, c, d) = (load(rows[0]), load(rows[1]), load(rows[2]), load(rows[3]));
            let rows = _mm512_inserti32x4::<1>(_mm512_castsi128_si512(a), b);
            let rows = _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(rows, c), d);
            // First the words of four channels of all rows side by side, then the bytes of one channel.
            let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
            let within = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
            let words = _mm512_permutexvar_epi32(order, rows);
            let words = _mm512_shuffle_epi8(words, _mm512_broadcast_i32x4(within));
            if SIGNED { _mm512_xor_si512(words, _mm512_set1_epi8(i8::MIN)) } else { words }
        }
    }
    #[inline(always)]
    unsafe fn quads(self, source: *const i32, steps: Steps) -> [__m512i; 4] {
        // SAFETY: the token proves the features; the caller guarantees the words.
        unsafe { requantize::quads(source, steps) }
    }
    #[inline(always)]
    unsafe fn interleave_quads<const SIGNED: bool, const WHOLE: bool>(self, rows: [[*const u8; 2]; 3]) -> [__m512i; 4] {
        // SAFETY: the token proves the features; the caller guarantees the bytes.
        unsafe {
            let flip = _mm512_set1_epi8(if SIGNED { i8::MIN } else { 0 });
            let mut bytes = [flip; 3];
            for (bytes, [first, second]) in bytes.iter_mut().zip(rows) {
                let row = match WHOLE {
                    true => _mm512_loadu_si512(first.cast()),
                    false => {
                        let lower = _mm512_castsi256_si512(_mm256_loadu_si256(first.cast()));
                        _mm512_inserti64x4::<1>(lower, _mm256_loadu_si256(second.cast()))
                    }
                };
                *bytes = if SIGNED { _mm512_xor_si512(row, flip) } else { row };
            }
            let [a, b, c] = bytes;
            let (low, high) = (_mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b));
            // The fourth byte is multiplied by zero.
            let (third_low, third_high) = (_mm512_unpacklo_epi8(c, c), _mm512_unpackhi_epi8(c, c));
            [
                _mm512_unpacklo_epi16(low, third_low),
                _mm512_unpackhi_epi16(low, third_low),
                _mm512_unpacklo_epi16(high, third_high),
                _mm512_unpackhi_epi16(high, third_high),
            ]
        }
    }
    #[inline(always)]
    unsafe fn requantize_quads<const WHOLE: bool>(
        self,
        sums: *const i32,
        rows: usize,
        (floats, steps): (Floats, Steps),
        to: QuadTarget,
    ) {
        // SAFETY: the token proves the features; the rest is guaranteed by the caller.
        unsafe { requantize::quads_with_avx512::<WHOLE>(sums, rows, (floats, steps), to) }
    }
    #[inline(always)]
    fn subtract_scaled(self, sum: __m512i, x: __m512i, factor: i32) -> __m512i {
        // SAFETY: the token proves the features.
        unsafe { _mm512_sub_epi32(sum, _mm512_mullo_epi32(x, _mm512_set1_epi32(factor))) }
    }
    #[inline(always)]
    unsafe fn pair_bytes<const SIGNED: bool>(self, a: *const u8, b: *const u8, count: usize) -> __m512i {
        // SAFETY: the caller guarantees `count` bytes, at most sixteen; masked ones are not accessed.
        let load = |source: *const u8| unsafe {
            let bytes = match count {
                16 => _mm_loadu_si128(source.cast()),
                _ => _mm_maskz_loadu_epi8(((1u32 << count) - 1) as __mmask16, source.cast()),
            };
            if SIGNED { _mm512_cvtepi8_epi32(bytes) } else { _mm512_cvtepu8_epi32(bytes) }
        };
        let (a, b) = (load(a), load(b));
        // SAFETY: the token proves the features.
        unsafe { _mm512_mask_blend_epi16(0xaaaa_aaaa, a, _mm512_slli_epi32::<16>(b)) }
    }
}

/// Writes the entries of a table for the first bytes of the input, as many as are whole vectors, and returns for how many; 0
/// if the processor cannot look up bytes in four vectors.
pub(super) fn look_up(isa: Isa, table: &[u8; 256], input: &[u8], output: &mut [u8]) -> usize {
    let is_wide = matches!(isa.0, Kind::Avx512 | Kind::Amx) && is_x86_feature_detected!("avx512vbmi");
    // SAFETY: the features were detected.
    if is_wide { unsafe { look_up_with_vbmi(table, input, output) } } else { 0 }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn look_up_with_vbmi(table: &[u8; 256], input: &[u8], output: &mut [u8]) -> usize {
    const BYTES: usize = 64;
    // SAFETY: each array has the bytes of a vector.
    let load = |bytes: &[u8; BYTES]| unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) };
    let [a, b, c, d] = *table.as_chunks().0 else { return 0 };
    let [a, b, c, d] = [load(&a), load(&b), load(&c), load(&d)];
    let (input, output) = (input.as_chunks::<BYTES>().0, output.as_chunks_mut::<BYTES>().0);
    for (from, to) in input.iter().zip(&mut *output) {
        let places = load(from);
        // The seven lowest bits choose a byte of two vectors, the highest one chooses the vectors.
        let [low, high] = [_mm512_permutex2var_epi8(a, places, b), _mm512_permutex2var_epi8(c, places, d)];
        let found = _mm512_mask_blend_epi8(_mm512_movepi8_mask(places), low, high);
        // SAFETY: the array has the bytes of a vector.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), found) };
    }
    input.len().min(output.len()) * BYTES
}

/// Returns `sum`, of which the compiler does not know that it is a sum. It would otherwise add the terms of several turns of
/// a loop in another order, and run out of registers.
#[inline]
#[target_feature(enable = "avx2")]
fn in_order(mut sum: __m256i) -> __m256i {
    // SAFETY: no instruction is executed.
    unsafe { std::arch::asm!("/* {0} */", inout(ymm_reg) sum, options(pure, nomem, nostack, preserves_flags)) }
    sum
}

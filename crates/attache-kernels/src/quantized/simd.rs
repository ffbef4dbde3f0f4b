//! Vectors of 32-bit words for products of 8-bit elements. A word contains four bytes if the processor can multiply
//! those (AVX-512 VNNI, NEON's dot product), else two 16-bit numbers.
//!
//! As with the float vectors, a kernel is a value with a generic `run` method that is compiled once per instruction
//! set, and a token proves that the instructions are supported. All sums wrap, so every instruction set gives
//! bit-identical results.
#![allow(unsafe_code)] // Intrinsics, and calls into functions compiled for features that were detected.

use super::fixed_point::divide_by_power;
#[cfg(target_arch = "aarch64")]
use super::neon::Neon;
use crate::Isa;
use crate::simd::Kind as IsaKind;

/// The integer multiplication instructions that an [`Isa`] uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntegerIsa(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Vnni,
    #[cfg(target_arch = "aarch64")]
    Neon,
}

impl IntegerIsa {
    /// Returns the best integer instruction set that an [`Isa`] supports.
    pub(crate) fn of(isa: Isa) -> Self {
        match isa.0 {
            IsaKind::Portable => Self(Kind::Portable),
            #[cfg(target_arch = "x86_64")]
            IsaKind::Avx512 if is_x86_feature_detected!("avx512vnni") => Self(Kind::Vnni),
            #[cfg(target_arch = "x86_64")]
            IsaKind::Avx512 | IsaKind::Avx2 => Self(Kind::Avx2),
            #[cfg(target_arch = "aarch64")]
            IsaKind::NeonDot => Self(Kind::Neon),
        }
    }

    /// Returns the instruction set's name.
    pub(crate) fn name(self) -> &'static str {
        match self.0 {
            Kind::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "AVX2",
            #[cfg(target_arch = "x86_64")]
            Kind::Vnni => "VNNI",
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => "NEON",
        }
    }

    /// Returns the number of 32-bit words per vector.
    pub(crate) fn lanes(self) -> usize {
        match self.0 {
            Kind::Portable => Portable::LANES,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => x86::Avx2::LANES,
            #[cfg(target_arch = "x86_64")]
            Kind::Vnni => x86::Vnni::LANES,
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => Neon::LANES,
        }
    }

    /// Whether words contain four bytes (adjacent along K) instead of two 16-bit numbers.
    pub(crate) fn packs_k4(self) -> bool {
        match self.0 {
            Kind::Portable => false,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => false,
            #[cfg(target_arch = "x86_64")]
            Kind::Vnni => true,
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => true,
        }
    }

    /// Returns the number of terms, adjacent along K, in a word.
    pub(crate) fn group(self) -> usize {
        if self.packs_k4() { 4 } else { 2 }
    }

    /// Returns [`Integers::FLIP`], by which unsigned activation bytes are XORed before they are multiplied.
    pub(crate) fn flip(self) -> u8 {
        match self.0 {
            Kind::Portable => Portable::FLIP,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => x86::Avx2::FLIP,
            #[cfg(target_arch = "x86_64")]
            Kind::Vnni => x86::Vnni::FLIP,
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => Neon::FLIP,
        }
    }

    /// Runs the version of `kernel` that is compiled for this instruction set, and returns its output.
    pub(crate) fn dispatch<K: IntegerMultiversioned>(self, kernel: K) -> K::Output {
        match self.0 {
            Kind::Portable => Portable(()).vectorize(kernel),
            // SAFETY: an `IntegerIsa` of this kind is created only if its features were detected.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => unsafe { x86::Avx2::new() }.vectorize(kernel),
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Kind::Vnni => unsafe { x86::Vnni::new() }.vectorize(kernel),
            // SAFETY: as above.
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => unsafe { Neon::new() }.vectorize(kernel),
        }
    }
}

/// Number of 32-bit words in the widest vector of all instruction sets.
pub(crate) const MOST_LANES: usize = 16;

/// A kernel whose `run` method is compiled once per integer instruction set. `run` must be
/// `#[inline(always)]` to be compiled with the instruction set's features.
pub trait IntegerMultiversioned {
    /// The type that the kernel returns.
    type Output;
    /// Runs the kernel with the vector operations of `simd`.
    fn run<S: Integers>(self, simd: S) -> Self::Output;
}

/// Vector operations of one integer instruction set. Functions on pointers access `LANES` words, or the stated number
/// of bytes.
pub trait Integers: Copy + Send + Sync {
    /// A vector of `LANES` 32-bit words.
    type Vector: Copy;
    /// Number of 32-bit words per vector.
    const LANES: usize;
    /// Rows of the largest GEMM tile that fits in the registers with two vectors per row.
    const ROWS: usize;
    /// For words of four bytes: the mask by which unsigned activation bytes are XORed before [`Self::dot`]
    /// multiplies them. It is 0x80 if only signed bytes can be multiplied; the multiplied values are then
    /// smaller by 128.
    const FLIP: u8 = 0;

    /// Runs `kernel` in a separate function compiled for this instruction set.
    fn vectorize<K: IntegerMultiversioned>(self, kernel: K) -> K::Output;
    /// Returns a vector whose words are all equal to `word`.
    fn splat(self, word: i32) -> Self::Vector;
    /// Loads `LANES` words from `source`.
    /// # Safety
    /// `LANES` words must be readable at `source`.
    unsafe fn load(self, source: *const i32) -> Self::Vector;
    /// Returns the words of a vector, followed by unspecified ones.
    fn words(self, vector: Self::Vector) -> [i32; MOST_LANES];
    /// Returns, per lane, `sum` plus the dot product of a word of `x` and a word of `w`: of four unsigned
    /// bytes ([`Self::FLIP`] makes them signed) with four signed ones, or of two 16-bit numbers with two.
    fn dot(self, sum: Self::Vector, x: Self::Vector, w: Self::Vector) -> Self::Vector;
    /// Returns, per lane, `sum` plus the dot product of a word of `x` and a word of `w`, which contain two
    /// 16-bit numbers each.
    fn dot_pairs(self, sum: Self::Vector, x: Self::Vector, w: Self::Vector) -> Self::Vector;
    /// Shifts each word left by its own number of bits, read from `bits`.
    /// # Safety
    /// `LANES` words must be readable at `bits`.
    #[inline(always)]
    unsafe fn shift_left(self, vector: Self::Vector, bits: *const i32) -> Self::Vector {
        let mut words = self.words(vector);
        for (lane, word) in words.iter_mut().enumerate().take(Self::LANES) {
            // SAFETY: guaranteed by the caller.
            *word = word.wrapping_shl(unsafe { *bits.add(lane) } as u32);
        }
        // SAFETY: the array has at least `LANES` words.
        unsafe { self.load(words.as_ptr()) }
    }
    /// Multiplies each word by its own factor from 0 to 1, as `Multiplier::apply` does with
    /// [`Rounding::Twice`](super::Rounding::Twice). The pointers refer to the mantissas, the right shifts of
    /// the products beyond the 31 bits of the mantissa, and the masks of the bits that these shifts remove.
    /// # Safety
    /// `LANES` words must be readable at each pointer.
    #[inline(always)]
    unsafe fn scale_twice(
        self,
        sums: Self::Vector,
        mantissas: *const i32,
        right: *const i32,
        _masks: *const i32,
    ) -> Self::Vector {
        let mut words = self.words(sums);
        for (lane, word) in words.iter_mut().enumerate().take(Self::LANES) {
            // SAFETY: guaranteed by the caller.
            let (mantissa, right) = unsafe { (*mantissas.add(lane), *right.add(lane) as u32) };
            let product = i64::from(*word) * i64::from(mantissa);
            *word = divide_by_power(((product + (1 << 30)) >> 31) as i32, right);
        }
        // SAFETY: the array has at least `LANES` words.
        unsafe { self.load(words.as_ptr()) }
    }
    /// Multiplies each word by its own factor, as `Multiplier::apply` does with
    /// [`Rounding::Once`](super::Rounding::Once). The pointers refer to the mantissas and the right shifts of
    /// the 64-bit products, including the 31 bits of the mantissa.
    /// # Safety
    /// `LANES` words must be readable at each pointer.
    #[inline(always)]
    unsafe fn scale_once(self, sums: Self::Vector, mantissas: *const i32, right: *const i32) -> Self::Vector {
        let mut words = self.words(sums);
        for (lane, word) in words.iter_mut().enumerate().take(Self::LANES) {
            // SAFETY: guaranteed by the caller.
            let (mantissa, right) = unsafe { (*mantissas.add(lane), *right.add(lane)) };
            *word = ((i64::from(*word) * i64::from(mantissa) + (1i64 << (right - 1))) >> right) as i32;
        }
        // SAFETY: the array has at least `LANES` words.
        unsafe { self.load(words.as_ptr()) }
    }
    /// Adds `plus` to each word, clamps to `bounds`, and stores the lowest byte of each of the first `count`
    /// words at `target`.
    /// # Safety
    /// `count` bytes must be writable at `target`; `count` is at most `LANES`.
    #[inline(always)]
    unsafe fn store_bytes(self, words: Self::Vector, plus: i32, bounds: (i32, i32), target: *mut u8, count: usize) {
        let words = self.words(words);
        let mut bytes = [0u8; MOST_LANES];
        for (byte, word) in bytes.iter_mut().zip(words).take(Self::LANES) {
            *byte = word.wrapping_add(plus).clamp(bounds.0, bounds.1) as u8;
        }
        // SAFETY: guaranteed by the caller. With a constant count the copy is a single move.
        unsafe {
            match count == Self::LANES {
                true => std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, Self::LANES),
                false => std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, count),
            }
        }
    }
    /// Returns `sum − x × factor` per lane, wrapping.
    fn subtract_scaled(self, sum: Self::Vector, x: Self::Vector, factor: i32) -> Self::Vector;
    /// Returns words of two 16-bit numbers: word `i` contains byte `i` of `a` in its low half and byte `i` of
    /// `b` in its high half, both widened as signed or unsigned bytes. Words from `count` on are unspecified.
    /// # Safety
    /// `count` bytes must be readable at both pointers; `count` is at most `LANES`.
    unsafe fn pair_bytes<const SIGNED: bool>(self, a: *const u8, b: *const u8, count: usize) -> Self::Vector;
}

/// Vectors of four words in plain Rust, which every target's baseline vectorizes.
#[derive(Clone, Copy)]
pub struct Portable(());

/// Returns the dot product of two words that contain two 16-bit numbers each.
#[inline(always)]
fn product_of_pairs(x: i32, w: i32) -> i32 {
    let low = i32::from(x as i16) * i32::from(w as i16);
    low.wrapping_add((x >> 16) * (w >> 16))
}

/// Returns the value of a byte that is signed or unsigned.
#[inline(always)]
pub(crate) fn widen(byte: u8, signed: bool) -> i32 {
    if signed { i32::from(byte as i8) } else { i32::from(byte) }
}

impl Integers for Portable {
    type Vector = [i32; 4];
    const LANES: usize = 4;
    const ROWS: usize = 4;

    #[inline(never)]
    fn vectorize<K: IntegerMultiversioned>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }
    #[inline(always)]
    fn splat(self, word: i32) -> [i32; 4] {
        [word; 4]
    }
    #[inline(always)]
    unsafe fn load(self, source: *const i32) -> [i32; 4] {
        // SAFETY: guaranteed by the caller.
        unsafe { source.cast::<[i32; 4]>().read_unaligned() }
    }
    #[inline(always)]
    fn words(self, vector: [i32; 4]) -> [i32; MOST_LANES] {
        std::array::from_fn(|lane| if lane < 4 { vector[lane] } else { 0 })
    }
    #[inline(always)]
    fn dot(self, sum: [i32; 4], x: [i32; 4], w: [i32; 4]) -> [i32; 4] {
        self.dot_pairs(sum, x, w)
    }
    #[inline(always)]
    fn dot_pairs(self, sum: [i32; 4], x: [i32; 4], w: [i32; 4]) -> [i32; 4] {
        std::array::from_fn(|lane| sum[lane].wrapping_add(product_of_pairs(x[lane], w[lane])))
    }
    #[inline(always)]
    fn subtract_scaled(self, sum: [i32; 4], x: [i32; 4], factor: i32) -> [i32; 4] {
        std::array::from_fn(|lane| sum[lane].wrapping_sub(x[lane].wrapping_mul(factor)))
    }
    #[inline(always)]
    unsafe fn pair_bytes<const SIGNED: bool>(self, a: *const u8, b: *const u8, count: usize) -> [i32; 4] {
        std::array::from_fn(|lane| match lane < count {
            // SAFETY: guaranteed by the caller.
            true => unsafe { widen(*a.add(lane), SIGNED) & 0xffff | widen(*b.add(lane), SIGNED) << 16 },
            false => 0,
        })
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    //! 256-bit vectors of pairs of 16-bit numbers (AVX2) and 512-bit vectors of groups of four bytes (AVX-512
    //! VNNI).
    use std::arch::x86_64::*;

    use super::{IntegerMultiversioned, Integers, MOST_LANES};

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
            unsafe { _mm256_add_epi32(sum, _mm256_madd_epi16(x, w)) }
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
        unsafe fn shift_left(self, vector: __m512i, bits: *const i32) -> __m512i {
            // SAFETY: the token proves the features; the caller guarantees the words.
            unsafe { _mm512_sllv_epi32(vector, self.load(bits)) }
        }
        #[inline(always)]
        unsafe fn scale_twice(
            self,
            sums: __m512i,
            mantissas: *const i32,
            right: *const i32,
            masks: *const i32,
        ) -> __m512i {
            // SAFETY: the token proves the features; the caller guarantees the words.
            unsafe {
                let (mantissas, right, mask) = (self.load(mantissas), self.load(right), self.load(masks));
                // Products of the even and of the odd words: bits 31 to 62 of each product plus one half.
                let half = _mm512_set1_epi64(1 << 30);
                let even = _mm512_mul_epi32(sums, mantissas);
                let odd = _mm512_mul_epi32(_mm512_srli_epi64::<32>(sums), _mm512_srli_epi64::<32>(mantissas));
                let even = _mm512_srli_epi64::<31>(_mm512_add_epi64(even, half));
                let odd = _mm512_slli_epi64::<1>(_mm512_add_epi64(odd, half));
                let high = _mm512_mask_blend_epi32(0xaaaa, even, odd);
                // As in `divide_by_power`.
                let threshold = _mm512_sub_epi32(_mm512_srli_epi32::<1>(mask), _mm512_srai_epi32::<31>(high));
                let up = _mm512_cmpgt_epi32_mask(_mm512_and_si512(high, mask), threshold);
                let shifted = _mm512_srav_epi32(high, right);
                _mm512_mask_add_epi32(shifted, up, shifted, _mm512_set1_epi32(1))
            }
        }
        #[inline(always)]
        unsafe fn scale_once(self, sums: __m512i, mantissas: *const i32, right: *const i32) -> __m512i {
            // SAFETY: the token proves the features; the caller guarantees the words.
            unsafe {
                let (mantissas, right) = (self.load(mantissas), self.load(right));
                let scale = |sums: __m512i, mantissas: __m512i, right: __m512i| {
                    let half = _mm512_sllv_epi64(_mm512_set1_epi64(1), _mm512_sub_epi64(right, _mm512_set1_epi64(1)));
                    _mm512_srav_epi64(_mm512_add_epi64(_mm512_mul_epi32(sums, mantissas), half), right)
                };
                let odd = |vector: __m512i| _mm512_srli_epi64::<32>(vector);
                let low = _mm512_and_si512(right, _mm512_set1_epi64(0xffff_ffff));
                let (even, odd) = (scale(sums, mantissas, low), scale(odd(sums), odd(mantissas), odd(right)));
                _mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64::<32>(odd))
            }
        }
        #[inline(always)]
        unsafe fn store_bytes(self, words: __m512i, plus: i32, bounds: (i32, i32), target: *mut u8, count: usize) {
            // SAFETY: the token proves the features; the caller guarantees `count` bytes.
            unsafe {
                let words = _mm512_add_epi32(words, _mm512_set1_epi32(plus));
                let words = _mm512_max_epi32(words, _mm512_set1_epi32(bounds.0));
                let bytes = _mm512_cvtepi32_epi8(_mm512_min_epi32(words, _mm512_set1_epi32(bounds.1)));
                match count {
                    16 => _mm_storeu_si128(target.cast(), bytes),
                    _ => _mm_mask_storeu_epi8(target.cast(), ((1u32 << count) - 1) as __mmask16, bytes),
                }
            }
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
}

//! Detection of the processor's instruction sets, and `f32` vectors as an abstraction over all of them.
//!
//! A kernel is a value with a generic `run` method. [`Isa::dispatch`] calls it inside a function compiled for the
//! instruction set, so both the vectors defined here and plain loops use its instructions. A token of type `Simd`
//! exists only inside such a call, so having one proves that the processor supports the instructions.
#![allow(unsafe_code)] // Intrinsics, and calls into functions compiled for features that were detected.

use std::sync::OnceLock;

/// An instruction set that this processor supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Isa(pub(crate) Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// AVX-512 with tile registers for products of bytes (AMX).
    #[cfg(target_arch = "x86_64")]
    Amx,
    /// NEON with its dot product of bytes. f32 kernels run as with `Portable`, because NEON itself is part of
    /// the target's baseline.
    #[cfg(target_arch = "aarch64")]
    NeonDot,
}

/// The environment variable that names the newest instruction set that kernels may use.
pub(crate) const LIMIT: &str = "ATTACHE_MAX_ISA";

/// What the variable may name, from the least on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Portable,
    Avx2,
    AvxVnni,
    Avx512,
    Amx,
    Neon,
}

const LEVELS: &[(&str, Level)] = if cfg!(target_arch = "x86_64") {
    &[
        ("portable", Level::Portable),
        ("avx2", Level::Avx2),
        ("avx-vnni", Level::AvxVnni),
        ("avx512", Level::Avx512),
        ("amx", Level::Amx),
    ]
} else {
    &[("portable", Level::Portable), ("neon", Level::Neon)]
};

impl Level {
    /// Whether the environment variable lets kernels use instructions of this level.
    pub(crate) fn is_allowed(self) -> bool {
        static MOST: OnceLock<Level> = OnceLock::new();
        self <= *MOST.get_or_init(|| Self::named().ok().flatten().unwrap_or(Self::Neon))
    }

    /// Returns the level that the environment variable names; `None` if it is not set.
    fn named() -> Result<Option<Self>, String> {
        if cfg!(attache_small) {
            return Ok(None);
        }
        let Some(name) = std::env::var_os(LIMIT).filter(|name| !name.is_empty()) else { return Ok(None) };
        let level = LEVELS.iter().find(|(known, _)| *known == name);
        let known = || LEVELS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        level.map(|(_, level)| Some(*level)).ok_or_else(|| {
            format!("{LIMIT}={} names no instruction set; it may be {}", name.to_string_lossy(), known())
        })
    }
}

impl Isa {
    /// Checks the environment variable `ATTACHE_MAX_ISA`. Without this check a wrong name has no effect.
    ///
    /// # Errors
    ///
    /// If it names no instruction set. The error lists the names.
    pub fn check_limit() -> Result<(), String> {
        Level::named().map(drop)
    }

    /// Returns the best instruction set that this processor supports and the environment variable `ATTACHE_MAX_ISA` allows.
    pub fn detect() -> Self {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(Self::best)
    }

    fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = Level::Avx2.is_allowed()
                && is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c");
            // The smallest programs use AVX2 and nothing newer.
            let avx512 = !cfg!(attache_small)
                && Level::Avx512.is_allowed()
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq");
            match (avx2, avx512) {
                (true, true) if Level::Amx.is_allowed() && crate::quantized::has_tiles() => return Self(Kind::Amx),
                (true, true) => return Self(Kind::Avx512),
                (true, false) => return Self(Kind::Avx2),
                (false, _) => {}
            }
        }
        #[cfg(target_arch = "aarch64")]
        if Level::Neon.is_allowed()
            && std::arch::is_aarch64_feature_detected!("neon")
            && std::arch::is_aarch64_feature_detected!("dotprod")
        {
            return Self(Kind::NeonDot);
        }
        Self::portable()
    }

    /// Returns the portable instruction set, which every processor supports.
    pub fn portable() -> Self {
        Self(Kind::Portable)
    }

    /// Returns every instruction set that this processor supports, starting with the portable one, for tests
    /// and comparisons.
    pub fn available() -> Vec<Self> {
        match Self::detect().0 {
            Kind::Portable => vec![Self::portable()],
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => vec![Self::portable(), Self(Kind::Avx2)],
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => vec![Self::portable(), Self(Kind::Avx2), Self(Kind::Avx512)],
            #[cfg(target_arch = "x86_64")]
            Kind::Amx => vec![Self::portable(), Self(Kind::Avx2), Self(Kind::Avx512), Self(Kind::Amx)],
            #[cfg(target_arch = "aarch64")]
            Kind::NeonDot => vec![Self::portable(), Self(Kind::NeonDot)],
        }
    }

    /// Returns the instruction set's name.
    pub fn name(self) -> &'static str {
        match self.0 {
            Kind::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "AVX2",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => "AVX-512",
            #[cfg(target_arch = "x86_64")]
            Kind::Amx => "AMX",
            #[cfg(target_arch = "aarch64")]
            Kind::NeonDot => "NEON dot",
        }
    }

    /// Returns the names of the forms in which weights are packed for this instruction set: floats and integers.
    pub fn formats(self) -> String {
        format!("{} and {}", self.name(), crate::quantized::integers_of(self))
    }

    /// Returns the number of `f32` elements per vector.
    pub fn lanes(self) -> usize {
        match self.0 {
            Kind::Portable => Portable::LANES,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => x86::Avx2::LANES,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 | Kind::Amx => x86::Avx512::LANES,
            #[cfg(target_arch = "aarch64")]
            Kind::NeonDot => Portable::LANES,
        }
    }

    /// Whether products of signed bytes take place in tile registers (AMX).
    pub fn has_tiles(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return matches!(self.0, Kind::Amx);
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// Runs the version of `kernel` that is compiled for this instruction set, and returns its output.
    pub(crate) fn dispatch<K: Multiversioned>(self, kernel: K) -> K::Output {
        match self.0 {
            Kind::Portable => Portable(()).vectorize(kernel),
            // SAFETY: an `Isa` of this kind is created only if its features were detected, and those of AVX-512 include
            // those of AVX2.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 | Kind::Amx if !K::WIDE => unsafe { x86::Avx2::new() }.vectorize(kernel),
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => unsafe { x86::Avx2::new() }.vectorize(kernel),
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 | Kind::Amx => unsafe { x86::Avx512::new() }.vectorize(kernel),
            #[cfg(target_arch = "aarch64")]
            Kind::NeonDot => Portable(()).vectorize(kernel),
        }
    }
}

/// Runs the portable version of `kernel`, and compiles no other: for kernels that spend their time in functions of the
/// standard library, and for those that are hardly ever used.
pub(crate) fn run_portable<K: Multiversioned>(kernel: K) -> K::Output {
    Portable(()).vectorize(kernel)
}

/// A kernel whose `run` method is compiled once per instruction set. `run` must be `#[inline(always)]` to be
/// compiled with the instruction set's features.
pub(crate) trait Multiversioned {
    type Output;
    /// Whether the kernel is compiled for 512-bit vectors. Not for kernels that wait for memory, to keep programs small, and
    /// not in the smallest ones.
    const WIDE: bool = !cfg!(attache_small);
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// Vector operations of one instruction set.
pub(crate) trait Simd: Copy + Send + Sync {
    type Vector: Copy;
    const LANES: usize;
    /// Rows of the largest GEMM tile that fits in the registers with two vectors per row.
    const ROWS: usize;
    /// Whether kernels for common shapes are compiled besides the general ones: not for the portable vectors on x86-64,
    /// where few processors need them, to keep programs small.
    const SPECIALIZED: bool = true;
    /// Whether [`Simd::multiply_add`] rounds once.
    const FUSED: bool = true;
    /// Rows and columns of the blocks that [`Simd::transpose`] takes.
    const BLOCK: usize;

    /// Runs `kernel` in a separate function compiled for this instruction set.
    fn vectorize<K: Multiversioned>(self, kernel: K) -> K::Output;
    fn splat(self, value: f32) -> Self::Vector;
    /// Loads `LANES` elements from `source`.
    /// # Safety
    /// `LANES` elements must be readable at `source`.
    unsafe fn load(self, source: *const f32) -> Self::Vector;
    /// Stores `LANES` elements at `target`.
    /// # Safety
    /// `LANES` elements must be writable at `target`.
    unsafe fn store(self, target: *mut f32, vector: Self::Vector);
    /// Loads `count` elements from `source` and sets the remaining lanes to zero.
    /// # Safety
    /// `count` elements must be readable at `source`; `count` is at most `LANES`.
    unsafe fn load_partial(self, source: *const f32, count: usize) -> Self::Vector;
    /// Stores the first `count` elements at `target`.
    /// # Safety
    /// `count` elements must be writable at `target`; `count` is at most `LANES`.
    unsafe fn store_partial(self, target: *mut f32, vector: Self::Vector, count: usize);
    /// Returns `a × b + c` per lane, with one rounding (fused) or two, depending on the instruction set.
    fn multiply_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Returns the sum of all lanes, added in pairs.
    fn sum(self, vector: Self::Vector) -> f32;
    /// Returns `a` in lanes where `a > b`, else `b`.
    fn maximum(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Returns the greatest of all lanes; any of them if one is NaN.
    fn greatest(self, vector: Self::Vector) -> f32;
    /// Loads the first elements of `values`, at most `LANES`, and sets the remaining lanes to zero.
    #[inline(always)]
    fn load_slice(self, values: &[f32]) -> Self::Vector {
        // SAFETY: the slice has as many elements as are loaded.
        unsafe {
            match values.len() {
                count if count < Self::LANES => self.load_partial(values.as_ptr(), count),
                _ => self.load(values.as_ptr()),
            }
        }
    }
    /// Stores as many elements as fit into the slice, at most `LANES`.
    #[inline(always)]
    fn store_slice(self, values: &mut [f32], vector: Self::Vector) {
        // SAFETY: the slice has as many elements as are stored.
        unsafe {
            match values.len() {
                count if count < Self::LANES => self.store_partial(values.as_mut_ptr(), vector, count),
                _ => self.store(values.as_mut_ptr(), vector),
            }
        }
    }
    /// Copies element `[row, column]` of a block, at `source + row + column × step`, to `target + row × width + column`. The
    /// elements are any words.
    /// # Safety
    /// All of them must be readable and writable there.
    unsafe fn transpose(self, source: *const f32, step: usize, target: *mut f32, width: usize);
    /// Copies the block at the beginning of `source` as [`Self::transpose`] does, to lines of [`Self::BLOCK`] elements.
    #[inline(always)]
    fn transpose_slice(self, source: &[f32], step: usize, target: &mut [f32]) {
        assert!(source.len() >= (Self::BLOCK - 1) * step + Self::BLOCK && target.len() >= Self::BLOCK * Self::BLOCK);
        // SAFETY: the slices have the whole block.
        unsafe { self.transpose(source.as_ptr(), step, target.as_mut_ptr(), Self::BLOCK) }
    }
    /// Returns `min(max(x, lower), upper)` per lane; NaN where `x` is NaN.
    fn clamp(self, x: Self::Vector, lower: Self::Vector, upper: Self::Vector) -> Self::Vector;
}

/// Rows of the largest GEMM tile of portable vectors. The smallest programs have one height of tiles for the few processors
/// without AVX2.
pub(crate) const PORTABLE_ROWS: usize = if cfg!(all(attache_small, target_arch = "x86_64")) { 1 } else { 4 };

/// Vectors of four elements in plain Rust, which every target's baseline vectorizes.
#[derive(Clone, Copy)]
pub(crate) struct Portable(());

impl Simd for Portable {
    type Vector = [f32; 4];
    const LANES: usize = 4;
    const ROWS: usize = PORTABLE_ROWS;
    const SPECIALIZED: bool = cfg!(not(target_arch = "x86_64"));
    // `mul_add` is a library call on targets without such an instruction.
    const FUSED: bool = cfg!(any(target_feature = "fma", target_arch = "aarch64"));
    const BLOCK: usize = 4;

    #[inline(never)]
    fn vectorize<K: Multiversioned>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }
    #[inline(always)]
    fn splat(self, value: f32) -> [f32; 4] {
        [value; 4]
    }
    #[inline(always)]
    unsafe fn load(self, source: *const f32) -> [f32; 4] {
        // SAFETY: guaranteed by the caller.
        unsafe { source.cast::<[f32; 4]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(self, target: *mut f32, vector: [f32; 4]) {
        // SAFETY: guaranteed by the caller.
        unsafe { target.cast::<[f32; 4]>().write_unaligned(vector) }
    }
    #[inline(always)]
    unsafe fn load_partial(self, source: *const f32, count: usize) -> [f32; 4] {
        // SAFETY: guaranteed by the caller.
        std::array::from_fn(|lane| if lane < count { unsafe { *source.add(lane) } } else { 0.0 })
    }
    #[inline(always)]
    unsafe fn store_partial(self, target: *mut f32, vector: [f32; 4], count: usize) {
        for (lane, value) in vector.into_iter().enumerate().take(count) {
            // SAFETY: guaranteed by the caller.
            unsafe { *target.add(lane) = value }
        }
    }
    #[inline(always)]
    fn multiply_add(self, a: [f32; 4], b: [f32; 4], c: [f32; 4]) -> [f32; 4] {
        let lane = |i: usize| if Self::FUSED { a[i].mul_add(b[i], c[i]) } else { a[i] * b[i] + c[i] };
        [lane(0), lane(1), lane(2), lane(3)]
    }
    #[inline(always)]
    fn add(self, a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        [a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]]
    }
    #[inline(always)]
    fn sum(self, [a, b, c, d]: [f32; 4]) -> f32 {
        (a + c) + (b + d)
    }
    #[inline(always)]
    fn greatest(self, [a, b, c, d]: [f32; 4]) -> f32 {
        let greater = |a: f32, b: f32| if a > b { a } else { b };
        greater(greater(a, c), greater(b, d))
    }
    #[inline(always)]
    fn maximum(self, a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        let lane = |i: usize| if a[i] > b[i] { a[i] } else { b[i] };
        [lane(0), lane(1), lane(2), lane(3)]
    }
    #[inline(always)]
    unsafe fn transpose(self, source: *const f32, step: usize, target: *mut f32, width: usize) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let lines = [0, 1, 2, 3].map(|column| self.load(source.add(column * step)));
            (0..4).for_each(|row| self.store(target.add(row * width), lines.map(|line| line[row])));
        }
    }
    #[inline(always)]
    fn clamp(self, x: [f32; 4], lower: [f32; 4], upper: [f32; 4]) -> [f32; 4] {
        let lane = |i: usize| crate::math::clamp(x[i], lower[i], upper[i]);
        [lane(0), lane(1), lane(2), lane(3)]
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    //! 256-bit (AVX2) and 512-bit (AVX-512) vectors of f32.
    use std::arch::x86_64::*;

    use super::{Multiversioned, Simd};

    /// Token whose existence proves that the processor supports AVX2, FMA and F16C.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx2(());

    impl Avx2 {
        /// # Safety
        /// The processor must have AVX2, FMA and F16C.
        pub(super) unsafe fn new() -> Self {
            Self(())
        }
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    #[inline(never)]
    fn run_avx2<K: Multiversioned>(simd: Avx2, kernel: K) -> K::Output {
        kernel.run(simd)
    }

    impl Avx2 {
        #[inline(always)]
        fn mask(self, count: usize) -> __m256i {
            // SAFETY: the token proves AVX2.
            unsafe {
                let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
                _mm256_cmpgt_epi32(_mm256_set1_epi32(count as i32), lanes)
            }
        }
    }

    /// Transposes eight lines of eight words. Lines whose distance is four are read into the halves of one vector, in which pairs
    /// of lines and then pairs of pairs are interleaved.
    /// # Safety
    /// As for [`Simd::transpose`], and the processor must have AVX.
    #[inline(always)]
    unsafe fn transpose_block(source: *const f32, step: usize, target: *mut f32, width: usize) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            for first in [0, 4] {
                let half = |column: usize| _mm_loadu_ps(source.add(column * step + first));
                let line = |column: usize| _mm256_set_m128(half(column + 4), half(column));
                let (a, b, c, d) = (line(0), line(1), line(2), line(3));
                let (low, high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
                let (next_low, next_high) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
                let rows = [
                    _mm256_shuffle_ps::<0x44>(low, next_low),
                    _mm256_shuffle_ps::<0xee>(low, next_low),
                    _mm256_shuffle_ps::<0x44>(high, next_high),
                    _mm256_shuffle_ps::<0xee>(high, next_high),
                ];
                for (row, values) in rows.into_iter().enumerate() {
                    _mm256_storeu_ps(target.add((first + row) * width), values);
                }
            }
        }
    }

    impl Simd for Avx2 {
        type Vector = __m256;
        const LANES: usize = 8;
        const ROWS: usize = 6;
        const BLOCK: usize = 8;

        #[inline(always)]
        fn vectorize<K: Multiversioned>(self, kernel: K) -> K::Output {
            // SAFETY: the token proves the features.
            unsafe { run_avx2(self, kernel) }
        }
        #[inline(always)]
        fn splat(self, value: f32) -> __m256 {
            // SAFETY: the token proves the features, here and below.
            unsafe { _mm256_set1_ps(value) }
        }
        #[inline(always)]
        unsafe fn load(self, source: *const f32) -> __m256 {
            // SAFETY: the caller guarantees the elements.
            unsafe { _mm256_loadu_ps(source) }
        }
        #[inline(always)]
        unsafe fn store(self, target: *mut f32, vector: __m256) {
            // SAFETY: the caller guarantees the elements.
            unsafe { _mm256_storeu_ps(target, vector) }
        }
        #[inline(always)]
        unsafe fn load_partial(self, source: *const f32, count: usize) -> __m256 {
            // SAFETY: masked elements are not accessed; the caller guarantees the others.
            unsafe { _mm256_maskload_ps(source, self.mask(count)) }
        }
        #[inline(always)]
        unsafe fn store_partial(self, target: *mut f32, vector: __m256, count: usize) {
            // SAFETY: masked elements are not accessed; the caller guarantees the others.
            unsafe { _mm256_maskstore_ps(target, self.mask(count), vector) }
        }
        #[inline(always)]
        fn multiply_add(self, a: __m256, b: __m256, c: __m256) -> __m256 {
            // SAFETY: the token proves the features.
            unsafe { _mm256_fmadd_ps(a, b, c) }
        }
        #[inline(always)]
        fn add(self, a: __m256, b: __m256) -> __m256 {
            // SAFETY: the token proves the features.
            unsafe { _mm256_add_ps(a, b) }
        }
        #[inline(always)]
        fn sum(self, vector: __m256) -> f32 {
            // SAFETY: the token proves the features.
            unsafe {
                let half = _mm_add_ps(_mm256_castps256_ps128(vector), _mm256_extractf128_ps::<1>(vector));
                let pair = _mm_add_ps(half, _mm_movehl_ps(half, half));
                _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)))
            }
        }
        #[inline(always)]
        fn greatest(self, vector: __m256) -> f32 {
            // SAFETY: the token proves the features.
            unsafe {
                let half = _mm_max_ps(_mm256_castps256_ps128(vector), _mm256_extractf128_ps::<1>(vector));
                let pair = _mm_max_ps(half, _mm_movehl_ps(half, half));
                _mm_cvtss_f32(_mm_max_ss(pair, _mm_movehdup_ps(pair)))
            }
        }
        #[inline(always)]
        fn maximum(self, a: __m256, b: __m256) -> __m256 {
            // SAFETY: the token proves the features.
            unsafe { _mm256_max_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn transpose(self, source: *const f32, step: usize, target: *mut f32, width: usize) {
            // SAFETY: guaranteed by the caller; the token proves the features.
            unsafe { transpose_block(source, step, target, width) }
        }
        #[inline(always)]
        fn clamp(self, x: __m256, lower: __m256, upper: __m256) -> __m256 {
            // SAFETY: the token proves the features. If an operand is NaN, the result is the second operand, so NaN
            // stays NaN.
            unsafe { _mm256_min_ps(upper, _mm256_max_ps(lower, x)) }
        }
    }

    /// Token whose existence proves that the processor supports AVX-512 F, VL, BW and DQ, and the features of
    /// the AVX2 token.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx512(());

    impl Avx512 {
        /// # Safety
        /// The processor must have AVX-512 F, VL, BW, DQ, AVX2, FMA and F16C.
        pub(super) unsafe fn new() -> Self {
            Self(())
        }
    }

    #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,f16c")]
    #[inline(never)]
    fn run_avx512<K: Multiversioned>(simd: Avx512, kernel: K) -> K::Output {
        kernel.run(simd)
    }

    impl Simd for Avx512 {
        type Vector = __m512;
        const LANES: usize = 16;
        const ROWS: usize = 12;
        const BLOCK: usize = 8;

        #[inline(always)]
        fn vectorize<K: Multiversioned>(self, kernel: K) -> K::Output {
            // SAFETY: the token proves the features.
            unsafe { run_avx512(self, kernel) }
        }
        #[inline(always)]
        fn splat(self, value: f32) -> __m512 {
            // SAFETY: the token proves the features, here and below.
            unsafe { _mm512_set1_ps(value) }
        }
        #[inline(always)]
        unsafe fn load(self, source: *const f32) -> __m512 {
            // SAFETY: the caller guarantees the elements.
            unsafe { _mm512_loadu_ps(source) }
        }
        #[inline(always)]
        unsafe fn store(self, target: *mut f32, vector: __m512) {
            // SAFETY: the caller guarantees the elements.
            unsafe { _mm512_storeu_ps(target, vector) }
        }
        #[inline(always)]
        unsafe fn load_partial(self, source: *const f32, count: usize) -> __m512 {
            // SAFETY: masked elements are not accessed; the caller guarantees the others.
            unsafe { _mm512_maskz_loadu_ps(mask(count), source) }
        }
        #[inline(always)]
        unsafe fn store_partial(self, target: *mut f32, vector: __m512, count: usize) {
            // SAFETY: masked elements are not accessed; the caller guarantees the others.
            unsafe { _mm512_mask_storeu_ps(target, mask(count), vector) }
        }
        #[inline(always)]
        fn multiply_add(self, a: __m512, b: __m512, c: __m512) -> __m512 {
            // SAFETY: the token proves the features.
            unsafe { _mm512_fmadd_ps(a, b, c) }
        }
        #[inline(always)]
        fn add(self, a: __m512, b: __m512) -> __m512 {
            // SAFETY: the token proves the features.
            unsafe { _mm512_add_ps(a, b) }
        }
        #[inline(always)]
        fn sum(self, vector: __m512) -> f32 {
            // SAFETY: the token proves the features.
            unsafe { _mm512_reduce_add_ps(vector) }
        }
        #[inline(always)]
        fn greatest(self, vector: __m512) -> f32 {
            // SAFETY: the token proves the features.
            unsafe { _mm512_reduce_max_ps(vector) }
        }
        #[inline(always)]
        fn maximum(self, a: __m512, b: __m512) -> __m512 {
            // SAFETY: the token proves the features.
            unsafe { _mm512_max_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn transpose(self, source: *const f32, step: usize, target: *mut f32, width: usize) {
            // SAFETY: guaranteed by the caller; the token proves the features.
            unsafe { transpose_block(source, step, target, width) }
        }
        #[inline(always)]
        fn clamp(self, x: __m512, lower: __m512, upper: __m512) -> __m512 {
            // SAFETY: the token proves the features. If an operand is NaN, the result is the second operand, so NaN
            // stays NaN.
            unsafe { _mm512_min_ps(upper, _mm512_max_ps(lower, x)) }
        }
    }

    #[inline(always)]
    fn mask(count: usize) -> __mmask16 {
        ((1u32 << count) - 1) as __mmask16
    }
}

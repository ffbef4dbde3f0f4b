//! Vectors of 32-bit words for products of 8-bit elements. A word contains four bytes if the processor can multiply
//! those (AVX-512 VNNI, AVX-VNNI, NEON's dot product), else two 16-bit numbers.
//!
//! As with the float vectors, a kernel is a value with a generic `run` method that is compiled once per instruction
//! set, and a token proves that the instructions are supported. All sums wrap, so every instruction set gives
//! bit-identical results.
#![allow(unsafe_code)] // Intrinsics, and calls into functions compiled for features that were detected.

use super::epilogue::Sums;
use super::fixed_point::divide_by_power;
use super::float_factors::Floats;
#[cfg(target_arch = "aarch64")]
use super::neon::Neon;
use super::quads::{QuadTarget, Steps};
#[cfg(target_arch = "x86_64")]
use super::x86;
use crate::Isa;
use crate::gemm::Target;
#[cfg(target_arch = "x86_64")]
use crate::simd::Level;
use crate::simd::{Kind as IsaKind, PORTABLE_ROWS};

/// The integer multiplication instructions that an [`Isa`] uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntegerIsa(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    AvxVnni,
    #[cfg(target_arch = "x86_64")]
    Vnni,
    /// The vectors of `Vnni`, and tile registers.
    #[cfg(target_arch = "x86_64")]
    Amx,
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
            IsaKind::Amx => Self(Kind::Amx),
            #[cfg(target_arch = "x86_64")]
            IsaKind::Avx512 | IsaKind::Avx2
                if !cfg!(attache_small) && Level::AvxVnni.is_allowed() && is_x86_feature_detected!("avxvnni") =>
            {
                Self(Kind::AvxVnni)
            }
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
            Kind::AvxVnni => "AVX-VNNI",
            #[cfg(target_arch = "x86_64")]
            Kind::Vnni => "VNNI",
            #[cfg(target_arch = "x86_64")]
            Kind::Amx => "AMX",
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
            Kind::AvxVnni => x86::AvxVnni::LANES,
            #[cfg(target_arch = "x86_64")]
            Kind::Vnni | Kind::Amx => x86::Vnni::LANES,
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
            Kind::AvxVnni => true,
            #[cfg(target_arch = "x86_64")]
            Kind::Vnni | Kind::Amx => true,
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => true,
        }
    }

    /// Whether products use tile registers.
    pub(crate) fn has_tiles(self) -> bool {
        match self.0 {
            Kind::Portable => false,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 | Kind::AvxVnni | Kind::Vnni => false,
            #[cfg(target_arch = "x86_64")]
            Kind::Amx => true,
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => false,
        }
    }

    /// Whether there is [`Integers::interleave`].
    pub(crate) fn interleaves(self) -> bool {
        match self.0 {
            Kind::Portable => false,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => false,
            #[cfg(target_arch = "x86_64")]
            Kind::AvxVnni | Kind::Vnni | Kind::Amx => true,
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => false,
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
            Kind::AvxVnni => x86::AvxVnni::FLIP,
            #[cfg(target_arch = "x86_64")]
            Kind::Vnni | Kind::Amx => x86::Vnni::FLIP,
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
            #[cfg(target_arch = "x86_64")]
            Kind::AvxVnni | Kind::Vnni | Kind::Amx if cfg!(attache_small) => {
                unreachable!("the smallest programs use AVX2 and nothing newer")
            }
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Kind::AvxVnni => unsafe { x86::AvxVnni::new() }.vectorize(kernel),
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Kind::Vnni | Kind::Amx => unsafe { x86::Vnni::new() }.vectorize(kernel),
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

/// Fixed-point factors of adjacent columns, from the first one on, followed by spare ones up to a whole vector; and the
/// zero point and the range of the results.
#[derive(Clone, Copy)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // what only kernels of x86 take
pub struct Factors {
    pub(crate) mantissas: *const i32,
    /// Left shifts of the sums before the multiplication, in bits; null if none is needed.
    pub(crate) left: *const i32,
    /// Right shifts of the products, in bits, as [`Integers::scale_twice`] or [`Integers::scale_once`] takes them.
    pub(crate) right: *const i32,
    /// Masks of the bits that `right` shifts out, for [`Integers::scale_twice`].
    pub(crate) masks: *const i32,
    /// What is added to the products of the even and of the odd columns before they are shifted, for kernels that take the
    /// upper halves of products. These kernels use `doublings` and `shifts` instead of `right`.
    pub(crate) nudges: [*const i64; 2],
    /// Left shifts of the products, in bits.
    pub(crate) doublings: *const i32,
    /// Right shifts of the upper halves of the products, in bits.
    pub(crate) shifts: *const i32,
    pub(crate) zero_point: i32,
    /// The least and the greatest result, both signed or both unsigned numbers of 8 bits.
    pub(crate) bounds: (i32, i32),
}

/// Scales of adjacent columns, from the first one on, followed by spare ones up to a whole vector; and the zero point and
/// the range of the results.
#[derive(Clone, Copy)]
pub struct Scales {
    pub(crate) scales: *const f32,
    pub(crate) zero_point: i32,
    /// The least and the greatest result, both signed or both unsigned numbers of 8 bits.
    pub(crate) bounds: (i32, i32),
}

impl Scales {
    /// Returns the range of the products to which the zero point is added.
    #[inline(always)]
    pub(crate) fn range(&self) -> (f32, f32) {
        ((self.bounds.0 - self.zero_point) as f32, (self.bounds.1 - self.zero_point) as f32)
    }
}

/// Returns `sum × scale` in single precision, clamped to a range of whole numbers of at most 2²² in magnitude and then
/// rounded to a whole number, ties to even.
#[inline(always)]
pub(crate) fn scale_in_floats(sum: i32, scale: f32, range: (f32, f32)) -> i32 {
    // Floats from 2²³ to 2²⁴ are whole numbers, so the sum with one of them is rounded, and its last bits are the result.
    const WHOLE: f32 = 12_582_912.0;
    let product = crate::math::clamp(sum as f32 * scale, range.0, range.1);
    (product + WHOLE).to_bits().wrapping_sub(WHOLE.to_bits()) as i32
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
    /// Multiplies sums by the factors of their columns, with [`Rounding::Twice`](super::Rounding::Twice) or
    /// [`Rounding::Once`](super::Rounding::Once), adds the zero point, clamps, and stores the lowest byte of each. The bits
    /// are those of [`Multiplier::apply`](super::Multiplier::apply). `SHRINKS` states that all factors are below ½ and
    /// at least 2⁻²¹.
    /// # Safety
    /// The sums and the factors of their columns must be readable, in whole vectors; the columns of as many rows of
    /// `target` must be writable.
    #[inline(always)]
    unsafe fn requantize<const TWICE: bool, const SHRINKS: bool>(
        self,
        sums: Sums,
        factors: Factors,
        target: Target<u8>,
    ) {
        for index in 0..sums.rows * sums.columns.div_ceil(Self::LANES) {
            let (row, column) = (index % sums.rows, index / sums.rows * Self::LANES);
            // SAFETY: guaranteed by the caller.
            unsafe {
                let words = self.load(sums.start.add(row * sums.width + column));
                let at = |values: *const i32| values.add(column);
                let words = match (TWICE, factors.left.is_null()) {
                    (true, true) => words,
                    (true, false) => self.shift_left(words, at(factors.left)),
                    (false, _) => self.scale_once(words, at(factors.mantissas), at(factors.right)),
                };
                let words = match TWICE {
                    true => self.scale_twice(words, at(factors.mantissas), at(factors.right), at(factors.masks)),
                    false => words,
                };
                let (output, count) = (target.start.add(row * target.stride + column), sums.columns - column);
                self.store_bytes(words, factors.zero_point, factors.bounds, output, count.min(Self::LANES));
            }
        }
    }
    /// Multiplies sums by the scales of their columns in single precision, rounds once, ties to even, adds the zero point,
    /// clamps, and stores the lowest byte of each. The bits are those of [`scale_in_floats`].
    /// # Safety
    /// As [`Self::requantize`], with scales in place of factors.
    #[inline(always)]
    unsafe fn requantize_in_floats(self, sums: Sums, scales: Scales, target: Target<u8>) {
        let range = scales.range();
        for index in 0..sums.rows * sums.columns.div_ceil(Self::LANES) {
            let (row, column) = (index % sums.rows, index / sums.rows * Self::LANES);
            // SAFETY: guaranteed by the caller.
            unsafe {
                let mut words = self.words(self.load(sums.start.add(row * sums.width + column)));
                for (lane, word) in words.iter_mut().enumerate().take(Self::LANES) {
                    *word = scale_in_floats(*word, *scales.scales.add(column + lane), range);
                }
                let (output, count) = (target.start.add(row * target.stride + column), sums.columns - column);
                let words = self.load(words.as_ptr());
                self.store_bytes(words, scales.zero_point, scales.bounds, output, count.min(Self::LANES));
            }
        }
    }
    /// Whether there is [`Self::requantize_rounding_down`].
    const ROUNDS_DOWN: bool = false;
    /// Does as [`Self::requantize`], with factors as floats.
    /// # Safety
    /// As there.
    #[inline(always)]
    unsafe fn requantize_rounding_down(self, _: Sums, _: Floats, _: Target<u8>) {
        unreachable!("called only where ROUNDS_DOWN is set")
    }
    /// Whether there is [`Self::interleave`], for words of four bytes.
    const INTERLEAVES: bool = false;
    /// Returns words of four unsigned bytes: word `i` contains byte `i` of each of four rows. Signed bytes are XORed with
    /// 0x80. Words from `count` on are unspecified.
    /// # Safety
    /// `count` bytes must be readable at each of the four pointers; `count` is at most `LANES`.
    unsafe fn interleave<const SIGNED: bool>(self, _: [*const u8; 4], _: usize) -> Self::Vector {
        unreachable!("called only where INTERLEAVES is set")
    }
    /// Whether there are [`Self::quads`], [`Self::interleave_quads`] and [`Self::requantize_quads`].
    const QUADS: bool = false;
    /// Returns the words of four groups of 16 as four vectors, of which vector `v` has in its quarter `q` the four words from
    /// `4·v` on of group `q`.
    /// # Safety
    /// The groups of words must be readable.
    unsafe fn quads(self, _: *const i32, _: Steps) -> [Self::Vector; 4] {
        unreachable!("called only where QUADS is set")
    }
    /// Returns 64 words of three bytes, in the order of [`Self::quads`]. Word `i` contains byte `i` of each of three rows, and
    /// an unspecified fourth byte. Signed bytes are XORed with 0x80. A row is the 64 bytes at its first pointer if `WHOLE`, else
    /// 32 bytes at each.
    /// # Safety
    /// These bytes must be readable.
    unsafe fn interleave_quads<const SIGNED: bool, const WHOLE: bool>(
        self,
        _: [[*const u8; 2]; 3],
    ) -> [Self::Vector; 4] {
        unreachable!("called only where QUADS is set")
    }
    /// Multiplies so many rows of 64 sums in the order of [`Self::quads`] by factors in memory as there, adds the zero point,
    /// clamps, and stores a byte for each in the order of the channels: 64 bytes at the first pointer if `WHOLE`, else 32 bytes
    /// at each.
    /// # Safety
    /// The sums and the factors must be readable; the bytes must be writable.
    unsafe fn requantize_quads<const WHOLE: bool>(self, _: *const i32, _: usize, _: (Floats, Steps), _: QuadTarget) {
        unreachable!("called only where QUADS is set")
    }
    /// Stores `LANES` words at `target`.
    /// # Safety
    /// `LANES` words must be writable at `target`.
    #[inline(always)]
    unsafe fn store(self, target: *mut i32, words: Self::Vector) {
        // SAFETY: guaranteed by the caller.
        unsafe { target.cast::<Self::Vector>().write_unaligned(words) }
    }
    /// Returns `sum − x × factor` per lane, wrapping.
    fn subtract_scaled(self, sum: Self::Vector, x: Self::Vector, factor: i32) -> Self::Vector;
    /// Returns words of two 16-bit numbers: word `i` contains byte `i` of `a` in its low half and byte `i` of
    /// `b` in its high half, both widened as signed or unsigned bytes. Words from `count` on are unspecified.
    /// # Safety
    /// `count` bytes must be readable at both pointers; `count` is at most `LANES`.
    unsafe fn pair_bytes<const SIGNED: bool>(self, a: *const u8, b: *const u8, count: usize) -> Self::Vector;
    /// Returns what [`Self::pair_bytes`] returns for the first `LANES` bytes and for the `LANES` after them.
    /// # Safety
    /// Twice `LANES` bytes must be readable at both pointers.
    #[inline(always)]
    unsafe fn pair_bytes_twice<const SIGNED: bool>(self, a: *const u8, b: *const u8) -> (Self::Vector, Self::Vector) {
        let more = Self::LANES;
        // SAFETY: guaranteed by the caller.
        unsafe { (self.pair_bytes::<SIGNED>(a, b, more), self.pair_bytes::<SIGNED>(a.add(more), b.add(more), more)) }
    }
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
    const ROWS: usize = PORTABLE_ROWS;

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

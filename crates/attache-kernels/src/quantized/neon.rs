//! Vectors of four words for 64-bit ARM processors that support the dot product of bytes.
//!
//! `SDOT` multiplies signed bytes only, so activations are offset by half of their range ([`Integers::FLIP`]).
//! Processors without the instruction use the portable vectors.
#![allow(unsafe_code)] // Intrinsics, one instruction without an intrinsic, and calls into functions compiled for it.

use std::arch::aarch64::*;
use std::arch::asm;

use super::epilogue::Sums;
use super::simd::{IntegerMultiversioned, Integers, MOST_LANES, Scales};
use crate::gemm::Target;

/// Token whose existence proves that the processor supports NEON and its dot product.
#[derive(Clone, Copy)]
pub struct Neon(());

impl Neon {
    /// # Safety
    /// The processor must have NEON and its dot product.
    pub(super) unsafe fn new() -> Self {
        Self(())
    }
}

#[target_feature(enable = "neon,dotprod")]
#[inline(never)]
fn run_neon<K: IntegerMultiversioned>(simd: Neon, kernel: K) -> K::Output {
    kernel.run(simd)
}

/// Returns, per word, `sum` plus the dot product of the four signed bytes of `x` and `w`. Replaces the
/// intrinsic `vdotq_s32`, which is not stable.
#[target_feature(enable = "neon,dotprod")]
#[inline]
fn dot_bytes(mut sum: int32x4_t, x: int32x4_t, w: int32x4_t) -> int32x4_t {
    // SAFETY: the instruction reads and writes only these registers, and the function is compiled for it.
    unsafe {
        asm!(
            "sdot {sum:v}.4s, {x:v}.16b, {w:v}.16b",
            sum = inout(vreg) sum,
            x = in(vreg) x,
            w = in(vreg) w,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}

impl Integers for Neon {
    type Vector = int32x4_t;
    const LANES: usize = 4;
    const ROWS: usize = 12;
    const FLIP: u8 = 0x80;

    #[inline(always)]
    fn vectorize<K: IntegerMultiversioned>(self, kernel: K) -> K::Output {
        // SAFETY: the token proves the features.
        unsafe { run_neon(self, kernel) }
    }
    #[inline(always)]
    fn splat(self, word: i32) -> int32x4_t {
        // SAFETY: the token proves the features, here and below.
        unsafe { vdupq_n_s32(word) }
    }
    #[inline(always)]
    unsafe fn load(self, source: *const i32) -> int32x4_t {
        // SAFETY: the caller guarantees the words.
        unsafe { vld1q_s32(source) }
    }
    #[inline(always)]
    fn words(self, vector: int32x4_t) -> [i32; MOST_LANES] {
        let mut words = [0; MOST_LANES];
        // SAFETY: a quarter of the array is written.
        unsafe { vst1q_s32(words.as_mut_ptr(), vector) };
        words
    }
    #[inline(always)]
    fn dot(self, sum: int32x4_t, x: int32x4_t, w: int32x4_t) -> int32x4_t {
        // SAFETY: the token proves the features.
        unsafe { dot_bytes(sum, x, w) }
    }
    #[inline(always)]
    fn dot_pairs(self, sum: int32x4_t, x: int32x4_t, w: int32x4_t) -> int32x4_t {
        // SAFETY: the token proves the features.
        unsafe {
            let (x, w) = (vreinterpretq_s16_s32(x), vreinterpretq_s16_s32(w));
            let (low, high) = (vmull_s16(vget_low_s16(x), vget_low_s16(w)), vmull_high_s16(x, w));
            vaddq_s32(sum, vpaddq_s32(low, high))
        }
    }
    #[inline(always)]
    unsafe fn shift_left(self, vector: int32x4_t, bits: *const i32) -> int32x4_t {
        // SAFETY: the token proves the features; the caller guarantees the words.
        unsafe { vshlq_s32(vector, self.load(bits)) }
    }
    #[inline(always)]
    unsafe fn scale_twice(
        self,
        sums: int32x4_t,
        mantissas: *const i32,
        right: *const i32,
        masks: *const i32,
    ) -> int32x4_t {
        // SAFETY: the token proves the features; the caller guarantees the words.
        unsafe {
            let (mantissas, right, mask) = (self.load(mantissas), self.load(right), self.load(masks));
            // Bits 31 to 62 of the product plus one half. Mantissas are not negative, so nothing saturates.
            let high = vqrdmulhq_s32(sums, mantissas);
            // As in `divide_by_power`. Left shifts by negative amounts shift right, and a true comparison yields −1.
            let threshold = vsubq_s32(vshrq_n_s32::<1>(mask), vshrq_n_s32::<31>(high));
            let up = vreinterpretq_s32_u32(vcgtq_s32(vandq_s32(high, mask), threshold));
            vsubq_s32(vshlq_s32(high, vnegq_s32(right)), up)
        }
    }
    #[inline(always)]
    unsafe fn scale_once(self, sums: int32x4_t, mantissas: *const i32, right: *const i32) -> int32x4_t {
        // SAFETY: the token proves the features; the caller guarantees the words.
        unsafe {
            let (mantissas, left) = (self.load(mantissas), vnegq_s32(self.load(right)));
            let low = vmull_s32(vget_low_s32(sums), vget_low_s32(mantissas));
            let high = vmull_high_s32(sums, mantissas);
            // Rounding shifts add half of the last bit that is shifted out.
            let low = vrshlq_s64(low, vmovl_s32(vget_low_s32(left)));
            let high = vrshlq_s64(high, vmovl_high_s32(left));
            vmovn_high_s64(vmovn_s64(low), high)
        }
    }
    #[inline(always)]
    unsafe fn requantize_in_floats(self, sums: Sums, scales: Scales, target: Target<u8>) {
        // SAFETY: the token proves the features; the caller guarantees sums, scales and targets.
        unsafe {
            let (low, high) = scales.range();
            let (low, high) = (vdupq_n_f32(low), vdupq_n_f32(high));
            for column in (0..sums.columns).step_by(4) {
                let (scale, count) = (vld1q_f32(scales.scales.add(column)), (sums.columns - column).min(4));
                for row in 0..sums.rows {
                    let words = self.load(sums.start.add(row * sums.width + column));
                    let product = vmulq_f32(vcvtq_f32_s32(words), scale);
                    // The conversion rounds ties to even.
                    let words = vcvtnq_s32_f32(vminq_f32(vmaxq_f32(product, low), high));
                    let output = target.start.add(row * target.stride + column);
                    self.store_bytes(words, scales.zero_point, scales.bounds, output, count);
                }
            }
        }
    }
    #[inline(always)]
    unsafe fn store_bytes(self, words: int32x4_t, plus: i32, bounds: (i32, i32), target: *mut u8, count: usize) {
        // SAFETY: the token proves the features; the caller guarantees `count` bytes, at most four.
        unsafe {
            let words = vaddq_s32(words, vdupq_n_s32(plus));
            let words = vminq_s32(vmaxq_s32(words, vdupq_n_s32(bounds.0)), vdupq_n_s32(bounds.1));
            let halves = vmovn_s32(words);
            let bytes = vmovn_s16(vcombine_s16(halves, halves));
            let word = vget_lane_s32::<0>(vreinterpret_s32_s8(bytes));
            match count {
                4 => target.cast::<i32>().write_unaligned(word),
                _ => std::ptr::copy_nonoverlapping((&raw const word).cast(), target, count),
            }
        }
    }
    #[inline(always)]
    fn subtract_scaled(self, sum: int32x4_t, x: int32x4_t, factor: i32) -> int32x4_t {
        // SAFETY: the token proves the features.
        unsafe { vmlsq_n_s32(sum, x, factor) }
    }
    #[inline(always)]
    unsafe fn pair_bytes<const SIGNED: bool>(self, a: *const u8, b: *const u8, count: usize) -> int32x4_t {
        let load = |source: *const u8| {
            let mut bytes = 0u32;
            // SAFETY: the caller guarantees `count` bytes, at most four.
            unsafe {
                match count {
                    4 => bytes = source.cast::<u32>().read_unaligned(),
                    _ => std::ptr::copy_nonoverlapping(source, (&raw mut bytes).cast(), count),
                }
                vreinterpret_u8_u32(vdup_n_u32(bytes))
            }
        };
        let (a, b) = (load(a), load(b));
        // SAFETY: the token proves the features.
        unsafe {
            let pairs = vzip1_u8(a, b);
            match SIGNED {
                true => vreinterpretq_s32_s16(vmovl_s8(vreinterpret_s8_u8(pairs))),
                false => vreinterpretq_s32_u16(vmovl_u8(pairs)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use attache_base::Serial;

    use super::*;
    use crate::quantized::simd::{IntegerIsa, widen};
    use crate::quantized::{
        Multiplier, Operand, PackedIntegerDepthwise, PackedIntegers, Requantize, Rounding, Zero, depthwise, gemm,
    };
    use crate::testing::{Random, three_by_three};
    use crate::{Engine, Isa};

    /// The bytes at the ends and in the middle of the signed and the unsigned range.
    const EXTREMES: [u8; 4] = [0x00, 0x7f, 0x80, 0xff];

    /// Whether the operating system reports the dot product among the processor's capabilities.
    #[cfg(target_os = "linux")]
    fn system_knows_dot_products() -> bool {
        const CAPABILITIES: u64 = 16;
        const DOT_PRODUCT: u64 = 1 << 20;
        let entries = std::fs::read("/proc/self/auxv").unwrap();
        let words: Vec<u64> =
            entries.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
        words.chunks_exact(2).any(|entry| entry[0] == CAPABILITIES && entry[1] & DOT_PRODUCT != 0)
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_isa_is_taken_exactly_where_the_system_knows_the_instruction() {
        let (isa, known) = (Isa::detect(), system_knows_dot_products());
        assert_eq!(isa.name(), if known { "NEON dot" } else { "portable" });
        assert_eq!(IntegerIsa::of(isa).packs_k4(), known, "bytes are multiplied four at a time");
        assert_eq!(Isa::available().len(), if known { 2 } else { 1 });
    }

    /// Kernel that returns the results of every vector operation except the byte product, for three vectors
    /// and two numbers, the first of them non-negative.
    struct Words<'a>(&'a [[i32; MOST_LANES]; 3], [i32; 2]);

    impl IntegerMultiversioned for Words<'_> {
        type Output = Vec<[i32; 4]>;

        #[inline(always)]
        fn run<S: Integers>(self, simd: S) -> Vec<[i32; 4]> {
            let Self([sums, x, w], [plus, factor]) = self;
            let (mut bytes, bits) = ([77u8; 4], x.map(|word| word & 31));
            let (right, mantissas) = (bits.map(|bits| 1 + bits * 2 - bits / 31), w.map(|word| word & i32::MAX));
            let masks = bits.map(|bits| ((1i64 << bits) - 1) as i32);
            // SAFETY: there are as many words as the widest vector has, and four bytes where four are accessed.
            let vectors = unsafe {
                let [sum, a, b] = [sums, x, w].map(|words| simd.load(words.as_ptr()));
                let (a_bytes, b_bytes) = (x.as_ptr().cast(), w.as_ptr().cast());
                simd.store_bytes(sum, plus, (-128, 127), bytes.as_mut_ptr(), plus as usize % 5);
                [
                    simd.dot_pairs(sum, a, b),
                    simd.subtract_scaled(sum, a, factor),
                    simd.shift_left(sum, bits.as_ptr()),
                    simd.scale_twice(sum, mantissas.as_ptr(), bits.as_ptr(), masks.as_ptr()),
                    simd.scale_once(sum, mantissas.as_ptr(), right.as_ptr()),
                    simd.pair_bytes::<true>(a_bytes, b_bytes, 4),
                    simd.pair_bytes::<false>(a_bytes, b_bytes, 4),
                    simd.splat(factor),
                ]
            };
            let first = |words: [i32; MOST_LANES]| [words[0], words[1], words[2], words[3]];
            vectors.into_iter().map(|vector| first(simd.words(vector))).chain([bytes.map(i32::from)]).collect()
        }
    }

    struct Dot<'a>(&'a [[i32; MOST_LANES]; 3]);

    impl IntegerMultiversioned for Dot<'_> {
        type Output = [i32; MOST_LANES];

        #[inline(always)]
        fn run<S: Integers>(self, simd: S) -> [i32; MOST_LANES] {
            // SAFETY: there are as many words as the widest vector has.
            let [sum, x, w] = self.0.each_ref().map(|words| unsafe { simd.load(words.as_ptr()) });
            simd.words(simd.dot(sum, x, w))
        }
    }

    #[test]
    fn every_function_gives_the_bits_of_the_portable_one() {
        let mut random = Random::new(61);
        for round in 0..50_000 {
            let mut word = || match random.below(3) {
                0 => i32::from_le_bytes([(); 4].map(|()| EXTREMES[random.below(4)])),
                1 => [i32::MIN, i32::MAX, 0, -1, 1, 1 << 30][random.below(6)],
                _ => i32::from_le_bytes([(); 4].map(|()| random.below(256) as u8)),
            };
            let words = [(); 3].map(|()| [(); MOST_LANES].map(|()| word()));
            let numbers = [round % 255, word()];
            let expected = IntegerIsa::of(Isa::portable()).dispatch(Words(&words, numbers));
            for isa in Isa::available() {
                let integer_isa = IntegerIsa::of(isa);
                assert_eq!(
                    integer_isa.dispatch(Words(&words, numbers)),
                    expected,
                    "{} {words:?} {numbers:?}",
                    isa.name()
                );
                if integer_isa.packs_k4() {
                    let sums = integer_isa.dispatch(Dot(&words));
                    for lane in 0..integer_isa.lanes() {
                        let [sum, x, w] = [0, 1, 2].map(|index| words[index][lane]);
                        let products = x.to_le_bytes().into_iter().zip(w.to_le_bytes());
                        let products = products.map(|(x, w)| widen(x, true) * widen(w, true));
                        assert_eq!(sums[lane], sum.wrapping_add(products.sum()), "{words:?} at {lane}");
                    }
                }
            }
        }
    }

    /// Returns random bytes: all equal to one extreme, a mix of extremes, or arbitrary.
    fn bytes(random: &mut Random, count: usize) -> Vec<u8> {
        let extreme = EXTREMES[random.below(4)];
        match random.below(3) {
            0 => vec![extreme; count],
            1 => (0..count).map(|_| EXTREMES[random.below(4)]).collect(),
            _ => random.bytes(count),
        }
    }

    /// Returns a zero point at an end or in the middle of its range, or anywhere.
    fn zero(random: &mut Random) -> Zero {
        let signed = random.below(2) == 1;
        let byte = [EXTREMES[random.below(4)], random.below(256) as u8][random.below(2)];
        Zero { signed, point: widen(byte, signed) }
    }

    /// Returns an epilogue that preserves many bits of the sums, with the bounds of the output type.
    fn epilogue(random: &mut Random, outputs: usize) -> Requantize {
        let factors: Vec<_> = (0..outputs).map(|_| Multiplier::new(0.3f64.powi(random.below(20) as i32))).collect();
        Requantize::new(&factors, outputs, [Rounding::Once, Rounding::Twice][random.below(2)], 0, (-128, 127))
    }

    #[test]
    fn products_of_extremes_are_the_portable_ones() {
        let mut random = Random::new(62);
        for round in 0..400 {
            let [rows, mut depth, outputs] = [1 + random.below(15), random.below(70), 1 + random.below(30)];
            if round % 50 == 0 {
                // Sums of this many extremes exceed 32 bits.
                depth = 70_001;
            }
            let (a, weights) = (bytes(&mut random, rows * depth), bytes(&mut random, outputs * depth));
            let (input, filter) = (zero(&mut random), zero(&mut random));
            let bias: Vec<i32> = (0..outputs).map(|_| [i32::MIN, 0, i32::MAX][random.below(3)]).collect();
            let epilogue = epilogue(&mut random, outputs);
            let made = |isa: Isa| {
                let operand = Operand { bytes: &weights, zero: filter };
                let (shape, segment) = ([outputs, depth], depth.max(1));
                let matrix = PackedIntegers::pack(isa, shape, operand, [depth, 1], segment, Some(&bias), input);
                let mut c = vec![0; rows * outputs];
                gemm(Engine { isa, parallel: &Serial }, &a, input.signed, &[input.point], &matrix, &epilogue, &mut c);
                c
            };
            let expected = made(Isa::portable());
            for isa in Isa::available() {
                assert_eq!(made(isa), expected, "{} {rows}x{depth}x{outputs} {input:?} {filter:?}", isa.name());
            }
        }
    }

    #[test]
    fn depthwise_convolutions_of_extremes_are_the_portable_ones() {
        let mut random = Random::new(63);
        for _ in 0..200 {
            let (channels, extent) = (1 + random.below(19), 1 + random.below(6));
            let convolution = three_by_three([extent, extent, channels], channels);
            let (input, weights) = (bytes(&mut random, extent * extent * channels), bytes(&mut random, 9 * channels));
            let (input_zero, filter_zero) = (zero(&mut random), zero(&mut random));
            let epilogue = epilogue(&mut random, channels);
            let made = |isa: Isa| {
                let filter = Operand { bytes: &weights, zero: filter_zero };
                let packed = PackedIntegerDepthwise::pack(isa, &convolution, filter, None, input_zero);
                let mut output = vec![0; input.len()];
                let operand = Operand { bytes: &input, zero: input_zero };
                depthwise(Engine { isa, parallel: &Serial }, &convolution, operand, &packed, &epilogue, &mut output);
                output
            };
            let expected = made(Isa::portable());
            for isa in Isa::available() {
                assert_eq!(made(isa), expected, "{} {extent} {channels}", isa.name());
            }
        }
    }
}

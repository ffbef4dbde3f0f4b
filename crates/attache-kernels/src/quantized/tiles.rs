//! Tile registers for products of 8-bit elements (AMX): eight registers of up to 16 rows of 64 bytes, and an instruction
//! that adds the product of two of them to a third.
//!
//! The packed weights are those of AVX-512 VNNI: a line of the panel, one word per column, is a row of the tile of
//! weights, so 16 lines are a whole tile. A tile of activations has up to 16 rows of 16 words. Registers 0 and 1 have the
//! sums of as many rows and two vectors of columns, 4 and 6 whole tiles of activations and weights, 5 and 7 those of what
//! remains of a segment.
//!
//! The compiler has no intrinsics for these instructions in the versions that this crate supports. Linux grants the registers
//! to processes that ask for them.
#![allow(unsafe_code)] // Instructions without intrinsics, on the rows of a matrix product.

use std::arch::asm;
use std::arch::x86_64::{__cpuid_count, __get_cpuid_max};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

use super::epilogue::{GemmEpilogue, Sums};
use super::gemm::{Element, Finish, Pass};
use super::simd::{IntegerMultiversioned, Integers};
use super::x86::Vnni;
use crate::gemm::Target;

/// The most rows of a tile.
const ROWS: usize = 16;
/// Words of a row of a whole tile.
const WORDS: usize = 16;
/// The least rows of a product for which tiles are configured.
const LEAST_ROWS: usize = 6;

/// Whether the processor has the registers and the system lets this process use them.
pub(crate) fn are_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| is_supported() && is_granted())
}

/// Whether the processor has AMX for 8-bit integers, besides AVX-512 VNNI.
fn is_supported() -> bool {
    const TILES: u32 = 1 << 24;
    const INTEGERS: u32 = 1 << 25;
    let has_leaf = __get_cpuid_max(0).0 >= 7;
    let features = if has_leaf { __cpuid_count(7, 0).edx } else { 0 };
    features & (TILES | INTEGERS) == TILES | INTEGERS && is_x86_feature_detected!("avx512vnni")
}

/// Asks Linux for the registers. It grants them if it saves them when it switches threads, and if the signal stacks of all
/// threads have room for them.
fn is_granted() -> bool {
    const ARCH_PRCTL: isize = 158;
    const REQUEST_PERMISSION: usize = 0x1023;
    const TILE_DATA: usize = 18;
    let mut result = ARCH_PRCTL;
    // SAFETY: the system call reads and writes no memory of the process.
    unsafe {
        asm!(
            "syscall",
            inout("rax") result,
            in("rdi") REQUEST_PERMISSION,
            in("rsi") TILE_DATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result == 0
}

/// The shapes of the registers, as the processor reads them.
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    /// Bytes per row of each register.
    bytes: [u16; 16],
    /// Rows of each register.
    rows: [u8; 16],
}

/// The registers of this thread, with their shapes, as long as it lives.
pub(super) struct Tiles {
    rows: usize,
    /// Whole tiles of words per segment.
    whole: usize,
    /// Words of a segment after these.
    rest: usize,
    /// Registers are those of one thread.
    thread: PhantomData<*const ()>,
}

/// The sums of a tile: rows of one or two vectors.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Stored([MaybeUninit<i32>; ROWS * 2 * WORDS]);

impl Tiles {
    /// Gives the registers shapes for a product of `rows` rows with segments of `words` words. Returns none if it has too few
    /// rows.
    ///
    /// # Safety
    /// The registers must be available, and no other value of this type may live on this thread.
    pub(super) unsafe fn new(rows: usize, words: usize) -> Option<Self> {
        if rows < LEAST_ROWS {
            return None;
        }
        // Tiles have about as many rows each: the last one begins where it has all of its rows, and computes some again.
        let rows = rows.div_ceil(rows.div_ceil(ROWS));
        let (whole, rest) = (words / WORDS, words % WORDS);
        let mut configuration =
            Configuration { palette: 1, start_row: 0, reserved: [0; 14], bytes: [0; 16], rows: [0; 16] };
        // A register that is never used has the shape of another one.
        let tail = if rest == 0 { WORDS } else { rest };
        let shapes = [
            (0, rows, WORDS),
            (1, rows, WORDS),
            (4, rows, WORDS),
            (5, rows, tail),
            (6, WORDS, WORDS),
            (7, tail, WORDS),
        ];
        for (register, rows, words) in shapes {
            (configuration.rows[register], configuration.bytes[register]) = (rows as u8, 4 * words as u16);
        }
        // SAFETY: the registers are available and the configuration is valid.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const configuration, options(nostack, readonly)) };
        Some(Self { rows, whole, rest, thread: PhantomData })
    }

    /// Multiplies the rows of A by one panel, in tiles.
    ///
    /// # Safety
    /// As for [`Matrix::multiply`](crate::gemm::Matrix::multiply). The tiles must have been made for these rows and for
    /// segments of these words, and elements must have one byte.
    pub(super) unsafe fn run<T: Element, F: GemmEpilogue>(&self, pass: &Pass<'_, T, F>) {
        // SAFETY: processors with tiles have the features.
        let simd = unsafe { Vnni::new() };
        simd.vectorize(Tiled { tiles: self, pass });
    }

    /// Computes the sums of one tile, from row `row` on.
    ///
    /// # Safety
    /// As for [`Self::run`].
    #[inline(always)]
    unsafe fn sum<T: Element, F: GemmEpilogue>(&self, pass: &Pass<'_, T, F>, row: usize, sums: &mut Stored) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let a = pass.a.start.add(row * pass.a.stride).cast::<u8>();
            match width(pass) {
                WORDS => self.multiply::<1>(a, pass.a.segments, pass.a.stride, pass.panel, sums),
                _ => self.multiply::<2>(a, pass.a.segments, pass.a.stride, pass.panel, sums),
            }
        }
    }

    /// Computes the sums of one tile, whose rows of A begin `stride` bytes apart at `a`, for a panel of `VECTORS` vectors of
    /// columns.
    ///
    /// # Safety
    /// As many rows of A as the tile has must be readable: the words of each segment, which begin at `a` plus the bytes in
    /// `segments`. The panel must have a line of bias and one line for each word of these segments.
    // Long because it is one block of assembly: the compiler knows nothing of tiles between two blocks.
    #[inline(always)]
    unsafe fn multiply<const VECTORS: usize>(
        &self,
        a: *const u8,
        segments: &[usize],
        stride: usize,
        panel: &[i32],
        sums: &mut Stored,
    ) {
        let line = VECTORS * WORDS * 4;
        let (sums, rest) = (sums.0.as_mut_ptr(), self.rest * line);
        macro_rules! product {
            ($second:literal) => {
                asm!(
                    // A distance of 0 between rows gives each of them the bias.
                    "tileloadd tmm0, [{b} + {chunk}*1]",
                    concat!($second, "tileloadd tmm1, [{b} + {chunk}*1 + 64]"),
                    "add {b}, {line}",
                    "test {count}, {count}",
                    "jz 6f",
                    "2:",
                    "mov {at}, [{segments}]",
                    "add {at}, {a}",
                    "add {segments}, 8",
                    "mov {chunk}, {whole}",
                    "test {chunk}, {chunk}",
                    "jz 4f",
                    "3:",
                    "tileloadd tmm6, [{b} + {line}*1]",
                    "tileloadd tmm4, [{at} + {stride}*1]",
                    "tdpbusd tmm0, tmm4, tmm6",
                    concat!($second, "tileloadd tmm6, [{b} + {line}*1 + 64]"),
                    concat!($second, "tdpbusd tmm1, tmm4, tmm6"),
                    "add {at}, 64",
                    "add {b}, {step}",
                    "dec {chunk}",
                    "jnz 3b",
                    "4:",
                    "test {rest}, {rest}",
                    "jz 5f",
                    "tileloadd tmm7, [{b} + {line}*1]",
                    "tileloadd tmm5, [{at} + {stride}*1]",
                    "tdpbusd tmm0, tmm5, tmm7",
                    concat!($second, "tileloadd tmm7, [{b} + {line}*1 + 64]"),
                    concat!($second, "tdpbusd tmm1, tmm5, tmm7"),
                    "add {b}, {rest}",
                    "5:",
                    "dec {count}",
                    "jnz 2b",
                    "6:",
                    "tilestored [{sums} + {line}*1], tmm0",
                    concat!($second, "tilestored [{sums} + {line}*1 + 64], tmm1"),
                    b = inout(reg) panel.as_ptr() => _,
                    a = in(reg) a,
                    segments = inout(reg) segments.as_ptr() => _,
                    count = inout(reg) segments.len() => _,
                    at = out(reg) _,
                    chunk = inout(reg) 0usize => _,
                    whole = in(reg) self.whole,
                    stride = in(reg) stride,
                    line = in(reg) line,
                    rest = in(reg) rest,
                    step = const VECTORS * WORDS * WORDS * 4,
                    sums = in(reg) sums,
                    out("tmm0") _,
                    out("tmm1") _,
                    out("tmm4") _,
                    out("tmm5") _,
                    out("tmm6") _,
                    out("tmm7") _,
                    options(nostack),
                )
            };
        }
        // SAFETY: guaranteed by the caller; the sums have room for all rows of a tile.
        unsafe {
            match VECTORS {
                1 => product!("#"),
                _ => product!(""),
            }
        }
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: a value of this type exists only if the registers are available.
        unsafe { asm!("tilerelease", options(nostack, nomem)) };
    }
}

/// Returns the words of a line of the panel: one or two vectors.
fn width<T, F: GemmEpilogue>(pass: &Pass<'_, T, F>) -> usize {
    pass.columns.next_multiple_of(WORDS)
}

/// Kernel that multiplies rows of A by one panel, in tiles.
struct Tiled<'t, 'a, T, F: GemmEpilogue> {
    tiles: &'t Tiles,
    pass: &'t Pass<'a, T, F>,
}

impl<T: Element, F: GemmEpilogue> IntegerMultiversioned for Tiled<'_, '_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Integers>(self, simd: S) {
        let Self { tiles, pass } = self;
        let height = tiles.rows;
        let count = pass.rows.div_ceil(height);
        // The last tile begins where it has all of its rows.
        let first = |index: usize| (index * height).min(pass.rows - height);
        // The epilogue converts the sums of a tile while the registers compute those of the next one.
        let mut sums = [Stored([MaybeUninit::uninit(); ROWS * 2 * WORDS]); 2];
        for index in 0..=count {
            // SAFETY: guaranteed by the caller of `Tiles::run`.
            unsafe {
                if index < count {
                    tiles.sum(pass, first(index), &mut sums[index % 2]);
                }
                if index > 0 {
                    let row = first(index - 1);
                    let position = [pass.position[0] + row, pass.position[1]];
                    let (start, width) = (sums[(index - 1) % 2].0.as_ptr().cast(), width(pass));
                    let sums = Sums { start, rows: height, columns: pass.columns, width, position };
                    let target = Target { start: pass.c.start.add(row * pass.c.stride), ..pass.c };
                    simd.vectorize(Finish { epilogue: pass.epilogue, sums, weights: pass.sums, target });
                }
            }
        }
    }
}

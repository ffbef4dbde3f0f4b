//! Panels of packed weights of 2 bits. Memory holds four lines of a panel in the bytes of one; a panel is unpacked when it is
//! multiplied, to memory that stays in the cache.

use super::{PANEL_VECTORS, PackedIntegers};
use crate::quantized::simd::{IntegerMultiversioned, Integers};
use crate::{AlignedFloats, scratch};

/// Lines that are packed as one.
pub(super) const LINES: usize = 4;

impl PackedIntegers {
    /// Returns the matrix with its weights, signed bytes from -2 to 1, in 2 bits each. Nothing changes for an instruction set
    /// that multiplies groups of two, and in the smallest libraries.
    #[must_use]
    pub fn quartered(self) -> Self {
        if cfg!(attache_small) || !self.integer_isa.packs_k4() || self.is_quartered {
            return self;
        }
        let mut narrow =
            Self { is_quartered: true, values: AlignedFloats::default().into(), sums: self.sums.clone(), ..self };
        let columns = self.outputs.next_multiple_of(self.integer_isa.lanes());
        let lines = narrow.lines();
        narrow.values = AlignedFloats::zeros(columns * (lines + 1)).into();
        for panel in 0..self.outputs.div_ceil(PANEL_VECTORS * self.integer_isa.lanes()) {
            let (width, start) = (self.width(panel), narrow.offset(panel));
            let (bias, weights) = self.panel(panel).split_at(width);
            let values: &mut [i32] = bytemuck::cast_slice_mut(narrow.values.to_mut());
            let (line, packed) = values[start..][..width * (lines + 1)].split_at_mut(width);
            line.copy_from_slice(bias);
            pack(bytemuck::cast_slice(weights), width * 4, bytemuck::cast_slice_mut(packed));
        }
        narrow
    }

    /// Calls `body` with a panel whose weights are bytes.
    pub(super) fn with_panel<R>(&self, panel: usize, body: impl FnOnce(&[i32]) -> R) -> R {
        let (stored, width) = (self.panel(panel), self.width(panel));
        if cfg!(attache_small) || !self.is_quartered {
            return body(stored);
        }
        scratch::with(width * (self.words + 1), |buffer: &mut [i32]| {
            let ((bias, packed), (line, words)) = (stored.split_at(width), buffer.split_at_mut(width));
            line.copy_from_slice(bias);
            let (packed, bytes) = (bytemuck::cast_slice(packed), bytemuck::cast_slice_mut(words));
            self.integer_isa.dispatch(Unpack { packed, width: width * 4, bytes });
            body(buffer)
        })
    }
}

/// Packs the bytes of lines of `width` bytes, of which only the lowest 2 bits count. Of each four lines, the first is in the
/// lowest bits.
fn pack(bytes: &[u8], width: usize, packed: &mut [u8]) {
    packed.fill(0);
    for (lines, packed) in bytes.chunks(width * LINES).zip(packed.chunks_exact_mut(width)) {
        for (place, line) in lines.chunks_exact(width).enumerate() {
            packed.iter_mut().zip(line).for_each(|(packed, byte)| *packed |= (byte & 3) << (place * 2));
        }
    }
}

/// Kernel that unpacks lines of `width` bytes, which are signed.
struct Unpack<'a> {
    packed: &'a [u8],
    width: usize,
    bytes: &'a mut [u8],
}

impl IntegerMultiversioned for Unpack<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Integers>(self, _: S) {
        let lines = self.bytes.chunks_mut(self.width * LINES);
        for (lines, packed) in lines.zip(self.packed.chunks_exact(self.width)) {
            for (place, line) in lines.chunks_exact_mut(self.width).enumerate() {
                match place {
                    0 => unpack::<6>(packed, line),
                    1 => unpack::<4>(packed, line),
                    2 => unpack::<2>(packed, line),
                    _ => unpack::<0>(packed, line),
                }
            }
        }
    }
}

/// Unpacks one of the lines in the bytes of one, above whose bits are `ABOVE` others.
#[inline(always)]
fn unpack<const ABOVE: usize>(packed: &[u8], line: &mut [u8]) {
    let unpacked = |packed: u8| ((packed << ABOVE) as i8 >> 6) as u8;
    // Lines have but few vectors. Loops of constant length become vectors without a remainder.
    let ((packed, last_packed), (line, last)) = (packed.as_chunks::<64>(), line.as_chunks_mut::<64>());
    line.iter_mut().zip(packed).for_each(|(bytes, packed)| *bytes = packed.map(unpacked));
    last.iter_mut().zip(last_packed).for_each(|(byte, packed)| *byte = unpacked(*packed));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;
    use crate::quantized::{Operand, Zero};

    #[test]
    fn four_lines_take_the_memory_of_one_and_come_back() {
        let weights: Vec<u8> = (0..40 * 100).map(|index| (index % 4 - 2) as i8 as u8).collect();
        let zero = Zero { signed: true, point: 0 };
        for isa in Isa::available() {
            let operand = Operand { bytes: &weights, zero };
            let whole = PackedIntegers::pack(isa, [40, 100], operand, [100, 1], 100, None, Zero::UNKNOWN);
            let quartered = whole.clone().quartered();
            assert_eq!(quartered.is_quartered, whole.integer_isa.packs_k4());
            if quartered.is_quartered {
                // A line of bias, and those of 25 words.
                assert_eq!(quartered.values.len() * 26, whole.values.len() * (1 + 7));
            }
            let panels = 40_usize.div_ceil(PANEL_VECTORS * whole.integer_isa.lanes());
            (0..panels).for_each(|number| quartered.with_panel(number, |panel| assert_eq!(panel, whole.panel(number))));
        }
    }
}

//! The elements that activations are multiplied as ([`Element`]).

use bytemuck::Pod;

use super::Zero;
use crate::quantized::simd::{IntegerIsa, IntegerMultiversioned, Integers};

/// The type of an activation in the words that dot products read: `u8` for words of four bytes, `i16` for
/// words of two 16-bit numbers.
pub(in crate::quantized) trait Element: Pod + Send + Sync {
    /// Whether a word contains four elements instead of two.
    const PACKS_K4: bool;
    /// Returns the element that represents zero.
    fn zero(integer_isa: IntegerIsa, zero: Zero) -> Self;
    /// Converts bytes to this format; `flip` is the instruction set's [`Integers::FLIP`].
    fn convert(flip: u8, bytes: &[u8], zero: Zero, target: &mut [Self]);
}

/// Converts bytes to elements of type `T`, in code compiled for the instruction set.
pub(in crate::quantized) fn convert<T: Element>(integer_isa: IntegerIsa, bytes: &[u8], zero: Zero, target: &mut [T]) {
    struct Convert<'a, T>(&'a [u8], Zero, &'a mut [T]);

    impl<T: Element> IntegerMultiversioned for Convert<'_, T> {
        type Output = ();

        #[inline(always)]
        fn run<S: Integers>(self, _: S) {
            T::convert(S::FLIP, self.0, self.1, self.2);
        }
    }

    integer_isa.dispatch(Convert(bytes, zero, target));
}

impl Element for u8 {
    const PACKS_K4: bool = true;

    fn zero(integer_isa: IntegerIsa, zero: Zero) -> u8 {
        zero.unsigned_point() as u8 ^ integer_isa.flip()
    }

    #[inline(always)]
    fn convert(flip: u8, bytes: &[u8], zero: Zero, target: &mut [u8]) {
        let flip = if zero.signed { flip ^ 0x80 } else { flip };
        target.iter_mut().zip(bytes).for_each(|(target, byte)| *target = byte ^ flip);
    }
}

impl Element for i16 {
    const PACKS_K4: bool = false;

    fn zero(_: IntegerIsa, _: Zero) -> i16 {
        0
    }

    #[inline(always)]
    fn convert(_: u8, bytes: &[u8], zero: Zero, target: &mut [i16]) {
        let point = zero.point as i16;
        match zero.signed {
            true => target.iter_mut().zip(bytes).for_each(|(to, byte)| *to = i16::from(*byte as i8) - point),
            false => target.iter_mut().zip(bytes).for_each(|(to, byte)| *to = i16::from(*byte) - point),
        }
    }
}

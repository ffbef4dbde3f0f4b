//! Conversion between f16 and f32.

use half::f16;
use half::slice::HalfFloatSliceExt;

/// Converts every element of `source` to f32, which is exact. Uses the processor's conversion instructions if
/// available.
///
/// # Panics
///
/// Panics if the lengths differ.
pub fn f16_to_f32(source: &[f16], target: &mut [f32]) {
    source.convert_to_f32_slice(target);
}

/// Rounds every element of `source` to the nearest f16, ties to even.
///
/// # Panics
///
/// Panics if the lengths differ.
pub fn f32_to_f16(source: &[f32], target: &mut [f16]) {
    target.convert_from_f32_slice(source);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_float16_makes_the_round_trip() {
        let all: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).filter(|value| !value.is_nan()).collect();
        let (mut wide, mut back) = (vec![0.0; all.len()], vec![f16::ZERO; all.len()]);
        f16_to_f32(&all, &mut wide);
        f32_to_f16(&wide, &mut back);
        assert_eq!(all, back);
        assert!(all.iter().zip(&wide).all(|(narrow, wide)| narrow.to_f32() == *wide));
    }
}

//! Dynamic quantization of floats to signed bytes at run time, with one scale (and zero point) per row.
//!
//! Source: TensorFlow Lite's `SymmetricQuantizeFloats` and `AsymmetricQuantizeFloats`.

/// Quantizes `values` to signed bytes (−127 to 127) with zero point 0, writes them to `target`, and returns
/// the scale. Elements that only one of the slices has are ignored.
pub fn quantize_symmetrically(values: &[f32], target: &mut [u8]) -> f32 {
    let (least, most) = extremes(values);
    let range = least.abs().max(most.abs());
    if range == 0.0 {
        target.fill(0);
        return 1.0;
    }
    let inverse = 127.0 / range;
    for (target, value) in target.iter_mut().zip(values) {
        *target = ((value * inverse).round() as i32).clamp(-127, 127) as i8 as u8;
    }
    range / 127.0
}

/// Quantizes `values` to signed bytes (−128 to 127), writes them to `target`, and returns the scale and the
/// zero point. Elements that only one of the slices has are ignored.
pub fn quantize_asymmetrically(values: &[f32], target: &mut [u8]) -> (f32, i32) {
    let (least, most) = extremes(values);
    let (least, most) = (least.min(0.0), most.max(0.0));
    if least == most {
        target.fill(0);
        return (1.0, 0);
    }
    // Computed in f32, because products close to a tie round differently in f64.
    let single = (most - least) / 255.0;
    let inverse = 1.0 / single;
    let (least, most, scale) = (f64::from(least), f64::from(most), f64::from(single));
    let (from_low, from_high) = (-128.0 - least / scale, 127.0 - most / scale);
    let low_is_nearer = 128.0 + (least / scale).abs() < 127.0 + (most / scale).abs();
    let point = if low_is_nearer { from_low } else { from_high };
    let point = point.clamp(-128.0, 127.0).round() as i32;
    for (target, value) in target.iter_mut().zip(values) {
        *target = ((value * inverse).round() as i32).saturating_add(point).clamp(-128, 127) as i8 as u8;
    }
    (single, point)
}

/// Returns the smallest and the largest value, ignoring NaN; zeros if there are no values.
fn extremes(values: &[f32]) -> (f32, f32) {
    let start = values.first().copied().unwrap_or(0.0);
    values.iter().fold((start, start), |(least, most), value| (least.min(*value), most.max(*value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed(bytes: &[u8]) -> Vec<i8> {
        bytes.iter().map(|byte| *byte as i8).collect()
    }

    #[test]
    fn the_largest_magnitude_is_127() {
        let mut bytes = [9; 4];
        assert_eq!(quantize_symmetrically(&[0.0, -2.54, 1.0, 0.01], &mut bytes), 2.54f32 / 127.0);
        assert_eq!(signed(&bytes), [0, -127, 50, 1]);
        assert_eq!((quantize_symmetrically(&[0.0; 4], &mut bytes), bytes), (1.0, [0; 4]));
    }

    #[test]
    fn the_range_is_used_up() {
        let mut bytes = [9; 4];
        let (scale, point) = quantize_asymmetrically(&[0.0, -1.0, 1.55, 0.2], &mut bytes);
        assert!((scale - 0.01).abs() < 1e-7 && point == -28, "{scale} {point}");
        assert_eq!(signed(&bytes), [-28, -128, 127, -8]);
        assert_eq!(quantize_asymmetrically(&[0.0; 4], &mut bytes), (1.0, 0));
        // Just below ties, unless the range is rounded before the scale is.
        let (least, most) = (-1.999_978_4, 1.999_992_6);
        assert_eq!(quantize_asymmetrically(&[least, most, 0.509_800_2, -1.874_496_1], &mut bytes).1, -1);
        assert_eq!(signed(&bytes), [-128, 127, 32, -121]);
        quantize_asymmetrically(&[f32::NAN, f32::INFINITY, -1.0, 0.0], &mut bytes);
        assert_eq!(quantize_asymmetrically(&[2.55, 1.0], &mut bytes[..2]).1, -128);
    }
}

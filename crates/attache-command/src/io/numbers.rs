//! Converts elements of any numeric type to `f64`, dequantizes them and summarizes them.

use attache::Quantization;
use serde::Serialize;

pub(crate) use attache::diff::{is_float, numbers};

/// Dequantizes elements in place, as `scale × (stored − zero_point)`, if the tensor has one scale. Otherwise
/// the elements are unchanged.
pub(crate) fn dequantize(values: &mut [f64], quantization: Option<&Quantization>) {
    let Some(Quantization { scale, zero_point, .. }) = quantization else { return };
    if let (&[scale], &[zero_point]) = (scale.as_slice(), zero_point.as_slice()) {
        values.iter_mut().for_each(|value| *value = scale as f64 * (*value - zero_point as f64));
    }
}

/// Summary of the elements of an output. `min`, `max` and `mean` are over finite elements; `None` if there
/// are none.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Summary {
    pub(crate) min: Option<f64>,
    pub(crate) max: Option<f64>,
    pub(crate) mean: Option<f64>,
    /// Number of elements that are NaN or infinite.
    pub(crate) nonfinite: usize,
}

impl Summary {
    pub(crate) fn of(values: &[f64]) -> Self {
        let finite = || values.iter().copied().filter(|value| value.is_finite());
        let count = finite().count();
        Self {
            min: finite().reduce(f64::min),
            max: finite().reduce(f64::max),
            mean: (count > 0).then(|| finite().sum::<f64>() / count as f64),
            nonfinite: values.len() - count,
        }
    }
}

/// Returns the indices of the `count` largest values, largest first, equal ones in order of index; NaN counts
/// as −∞, and −0 equals 0.
pub(crate) fn largest(values: &[f64], count: usize) -> Vec<usize> {
    let key = |index: usize| if values[index].is_nan() { f64::NEG_INFINITY } else { values[index] + 0.0 };
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&left, &right| key(right).total_cmp(&key(left)).then(left.cmp(&right)));
    order.truncate(count);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_counts_finite_values() {
        let summary = Summary::of(&[1.0, f64::NAN, 3.0, f64::INFINITY]);
        assert_eq!(summary, Summary { min: Some(1.0), max: Some(3.0), mean: Some(2.0), nonfinite: 2 });
        assert_eq!(Summary::of(&[]), Summary { min: None, max: None, mean: None, nonfinite: 0 });
    }

    #[test]
    fn the_largest_come_first() {
        assert_eq!(largest(&[0.1, f64::NAN, 0.7, 0.7, 0.2], 3), [2, 3, 4]);
        assert_eq!(largest(&[1.0], 5), [0]);
        assert_eq!(largest(&[-0.0, 0.0, -0.0], 3), [0, 1, 2]);
    }

    #[test]
    fn one_scale_dequantizes() {
        let mut values = [0.0, 130.0];
        dequantize(&mut values, Some(&Quantization { scale: vec![0.5], zero_point: vec![128], axis: 0 }));
        assert_eq!(values, [-64.0, 1.0]);
    }
}

//! Compares an output with the golden one, which has the expected values.
//!
//! The error of floats is the largest difference relative to `max(|golden|max, scale)`; complex numbers are pairs of
//! floats. A value that is
//! finite on one side only is a mismatch; if neither side is finite, only infinities of opposite sign are a
//! mismatch. 8- and 16-bit integers may differ by a number of quantization steps if the tolerance allows it;
//! other integers and booleans must be equal.

use attache::DataType;
use attache::diff::{Difference as Apart, Tolerance, is_stepped};

use crate::io::array::Array;
use crate::io::numbers::{is_float, numbers};

/// A difference between an output and the golden one that exceeds the tolerance.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Difference {
    /// Type or shape differ, or values of a type that has no numeric form; described in words.
    Form(String),
    /// Type and shape agree, but values differ by more than the limit.
    Values {
        /// The largest error, relative for floats and absolute for integers; infinite if a value is finite on
        /// one side only or infinities have opposite signs.
        error: f64,
        /// The coordinates of the element with the largest error, outermost axis first.
        at: Vec<usize>,
        /// The golden value of the element with the largest error.
        expected: f64,
        /// The output's value of the element with the largest error.
        found: f64,
        /// Number of values that exceed the limit.
        count: usize,
        /// Numbers of values that are not finite: in the golden output, and in the compared output.
        nonfinite: (usize, usize),
    },
}

/// Returns the error of one value, `|golden − found| / scale`. If neither value is finite, the error is 0,
/// but infinite for infinities of opposite sign.
fn error(golden: f64, found: f64, scale: f64) -> f64 {
    match (golden.is_finite(), found.is_finite()) {
        (true, true) => (golden - found).abs() / scale,
        (false, false) if golden == -found => f64::INFINITY,
        (false, false) => 0.0,
        _ => f64::INFINITY,
    }
}

/// Returns the coordinates of the element at a linear index, outermost axis first.
fn coordinates(mut index: usize, extents: &[usize]) -> Vec<usize> {
    let mut coordinates: Vec<usize> = extents
        .iter()
        .rev()
        .map(|&extent| {
            let coordinate = index % extent;
            index /= extent;
            coordinate
        })
        .collect();
    coordinates.reverse();
    coordinates
}

/// Returns the real and imaginary parts of complex numbers, along one more axis; `None` for other types.
fn parts(array: &Array) -> Option<Array> {
    let data_type = match array.data_type {
        DataType::Complex64 => DataType::Float32,
        DataType::Complex128 => DataType::Float64,
        _ => return None,
    };
    let shape = array.shape.iter().copied().chain([2]).collect();
    Some(Array { data_type, shape, bytes: array.bytes.clone() })
}

/// Compares `found` with `golden`. Returns the difference if it exceeds the tolerance; `None` if the arrays
/// agree. Errors of floats are relative to the largest golden magnitude, or to `scale` if that is larger.
pub(crate) fn compare(golden: &Array, found: &Array, scale: f64, tolerance: &Tolerance) -> Option<Difference> {
    if (golden.data_type, &golden.shape) != (found.data_type, &found.shape) {
        let form = |array: &Array| format!("{} of shape {}", array.data_type, array.shape);
        return Some(Difference::Form(format!("{} instead of {}", form(found), form(golden))));
    }
    if let (Some(golden), Some(found)) = (parts(golden), parts(found)) {
        return compare(&golden, &found, scale, tolerance);
    }
    let exact = !is_float(golden.data_type);
    if exact && golden.bytes == found.bytes {
        return None;
    }
    let apart =
        is_stepped(golden.data_type).then(|| Apart::of(golden.data_type, &golden.bytes, &found.bytes)).flatten();
    if apart.is_some_and(|apart| apart.is_within(tolerance)) {
        return None;
    }
    let values = |array: &Array| numbers(array.data_type, &array.bytes);
    let (Some(expected), Some(actual)) = (values(golden), values(found)) else {
        return Some(Difference::Form(format!("values of type {} differ", golden.data_type)));
    };
    let largest =
        expected.iter().filter(|value| value.is_finite()).fold(scale, |largest, value| largest.max(value.abs()));
    // Errors of integers and of all-zero outputs are absolute.
    let scale = if exact || largest == 0.0 { 1.0 } else { largest };
    let limit = limit(golden.data_type, tolerance);
    let errors: Vec<f64> = expected.iter().zip(&actual).map(|(&golden, &found)| error(golden, found, scale)).collect();
    let beyond = |error: f64| error > limit || error.is_nan();
    let count = errors.iter().filter(|error| beyond(**error)).count();
    // The difference of two large integers may be lost in f64, and quantized elements may each be within the limit
    // while too many of them differ. Both count as at least one value.
    let count = if exact { count.max(1) } else { count };
    let worst = errors.iter().enumerate().reduce(|worst, next| if next.1 > worst.1 { next } else { worst });
    let (index, &error) = worst.filter(|_| count > 0)?;
    let nonfinite = |values: &[f64]| values.iter().filter(|value| !value.is_finite()).count();
    Some(Difference::Values {
        error,
        at: coordinates(index, &golden.shape),
        expected: expected[index],
        found: actual[index],
        count,
        nonfinite: (nonfinite(&expected), nonfinite(&actual)),
    })
}

/// Returns the largest error that an element of this type may have: relative for floats, else absolute.
pub(crate) fn limit(data_type: DataType, tolerance: &Tolerance) -> f64 {
    let is_complex = matches!(data_type, DataType::Complex64 | DataType::Complex128);
    match (is_float(data_type) || is_complex, is_stepped(data_type)) {
        (true, _) => tolerance.relative,
        (_, true) => tolerance.steps.most as f64,
        _ => 0.0,
    }
}

impl Difference {
    /// Returns the largest error; `None` if no values were compared.
    pub(crate) fn error(&self) -> Option<f64> {
        match self {
            Self::Form(_) => None,
            Self::Values { error, .. } => Some(*error),
        }
    }

    /// Describes the difference in words. `limit` is the largest error that was allowed.
    pub(crate) fn describe(&self, limit: f64) -> String {
        match self {
            Self::Form(text) => text.clone(),
            Self::Values { error, at, expected, found, count, nonfinite } => {
                let values = if *count == 1 { "1 value".to_owned() } else { format!("{count} values") };
                let mut text = format!(
                    "{values} beyond {limit:e}, worst at {at:?}: {found} instead of {expected}, error {error:.3e}"
                );
                if nonfinite.0 != nonfinite.1 {
                    text += &format!("; {} values are not finite instead of {}", nonfinite.1, nonfinite.0);
                }
                text
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use attache::Shape;

    use super::*;

    fn floats(values: &[f32]) -> Array {
        let bytes = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        Array { data_type: DataType::Float32, shape: Shape::from([values.len() / 2, 2]), bytes }
    }

    fn worst(golden: &[f32], found: &[f32], scale: f64) -> Option<(f64, Vec<usize>)> {
        match compare(&floats(golden), &floats(found), scale, &Tolerance::relative(1e-5))? {
            Difference::Values { error, at, .. } => Some((error, at)),
            Difference::Form(text) => panic!("{text}"),
        }
    }

    #[test]
    fn errors_are_relative_to_the_largest_value_or_the_scale() {
        assert_eq!(worst(&[0.0, 4.0], &[0.00003, 4.0], 0.0), None);
        let (error, at) = worst(&[0.0, 4.0, 1.0, 1.0], &[0.0, 4.0, 1.0, 2.0], 0.0).unwrap();
        assert_eq!((error, at), (0.25, vec![1, 1]));
        assert_eq!(worst(&[0.0, 4.0, 1.0, 1.0], &[0.0, 4.0, 1.0, 2.0], 8.0).unwrap().0, 0.125);
        assert_eq!(worst(&[0.0, 0.0], &[0.5, 0.0], 0.0).unwrap().0, 0.5);
    }

    #[test]
    fn complex_numbers_are_pairs() {
        let complex = |values: &[f32]| Array {
            data_type: DataType::Complex64,
            shape: Shape::from([1, values.len() / 2]),
            ..floats(values)
        };
        let [golden, near, far] = [[1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.00001], [1.0, 2.5, 3.0, 4.0]];
        let tolerance = Tolerance::relative(1e-5);
        assert_eq!(compare(&complex(&golden), &complex(&near), 0.0, &tolerance), None);
        let worst = compare(&complex(&golden), &complex(&far), 0.0, &tolerance).unwrap();
        assert_eq!(worst.describe(1e-5), "1 value beyond 1e-5, worst at [0, 0, 1]: 2.5 instead of 2, error 1.250e-1");
    }

    #[test]
    fn values_finite_on_one_side_only_disagree() {
        let (nan, infinity) = (f32::NAN, f32::INFINITY);
        assert_eq!(worst(&[nan, 1.0], &[nan, 1.0], 1.0), None);
        assert_eq!(worst(&[infinity, 1.0], &[infinity, 1.0], 1.0), None);
        assert_eq!(worst(&[1.0, 1.0], &[1.0, nan], 1.0), Some((f64::INFINITY, vec![0, 1])));
        assert_eq!(worst(&[nan, 1.0], &[0.0, 1.0], 1.0), Some((f64::INFINITY, vec![0, 0])));
        assert_eq!(worst(&[infinity, 1.0], &[-infinity, 1.0], 1.0), Some((f64::INFINITY, vec![0, 0])));
    }

    #[test]
    fn integers_are_exact() {
        let integers = |values: &[i64]| Array {
            data_type: DataType::Int64,
            shape: Shape::from([values.len()]),
            bytes: values.iter().flat_map(|value| value.to_ne_bytes()).collect(),
        };
        let loose = Tolerance::relative(1.0);
        assert_eq!(compare(&integers(&[1, 2]), &integers(&[1, 2]), 1.0, &loose), None);
        let difference = compare(&integers(&[1, 2]), &integers(&[1, 5]), 100.0, &loose).unwrap();
        assert_eq!(difference.error(), Some(3.0));
        // These two are the same number in f64.
        assert!(compare(&integers(&[i64::MAX]), &integers(&[i64::MAX - 1]), 1.0, &loose).is_some());
    }

    #[test]
    fn quantized_numbers_may_be_some_steps_apart() {
        let bytes = |values: &[u8]| Array {
            data_type: DataType::UInt8,
            shape: Shape::from([values.len()]),
            bytes: values.to_vec(),
        };
        let steps = |text: &str| Tolerance { relative: 0.0, steps: text.parse().unwrap() };
        let compare = |found: &[u8], text| compare(&bytes(&[7, 8, 9, 10]), &bytes(found), 1.0, &steps(text));
        assert_eq!(compare(&[7, 8, 9, 12], "2:75:1"), None);
        assert_eq!(compare(&[7, 8, 9, 12], "1").unwrap().error(), Some(2.0));
        assert!(compare(&[7, 8, 7, 12], "2:75:1").is_some());
    }

    #[test]
    fn forms_must_agree() {
        let (left, mut right) = (floats(&[1.0, 2.0]), floats(&[1.0, 2.0]));
        right.shape = Shape::from([2]);
        let text = compare(&left, &right, 0.0, &Tolerance::relative(1.0)).unwrap().describe(1.0);
        assert_eq!(text, "FLOAT32 of shape [2] instead of FLOAT32 of shape [1, 2]");
    }

    #[test]
    fn empty_outputs_agree() {
        assert_eq!(compare(&floats(&[]), &floats(&[]), 0.0, &Tolerance::relative(1e-5)), None);
    }
}

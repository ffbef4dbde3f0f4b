//! Compares runs of a model on the CPU and on delegates element by element: how much they differ, and from
//! which operator on.
//!
//! A [`Difference`] compares two tensors. A [`Trace`] is a run on the CPU that keeps every tensor; single
//! operators and whole graphs on delegates are compared with it. The comparison does not tell which of the
//! two sides is right.

mod case;
mod numbers;
mod rounded;
mod tolerance;
mod trace;

use attache_base::DataType;
use tolerance::STEPS;

pub use case::{Array, Case};
pub use numbers::{is_float, is_stepped, numbers};
pub use tolerance::{QuantizationSteps, Tolerance};
pub use trace::{FirstDivergence, OperatorComparison, Trace, TraceInput};

/// How much a tensor (the test) differs from its reference. Elements are compared only if both are finite.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Difference {
    /// Mean of |test − reference| over the compared elements; 0 if there are none.
    pub average: f64,
    /// Maximum of |test − reference| over the compared elements; 0 if there are none.
    pub largest: f64,
    /// The divisor for [`Difference::relative`]: for floats, the largest finite |reference|; 1 for integers and if the
    /// reference is zero everywhere.
    pub scale: f64,
    /// Whether the elements are floats, for which differences due to rounding are expected.
    pub is_float: bool,
    /// Number of elements of the reference that are NaN or infinite.
    pub nonfinite_reference: usize,
    /// Number of elements of the test that are NaN or infinite.
    pub nonfinite_test: usize,
    /// Number of elements that are finite on one side only, or infinite with opposite signs.
    pub contradictions: usize,
    /// For 8-bit and 16-bit integers, element `n` is the number of tensor elements that differ by `n`
    /// quantization steps; the last one also counts all larger differences. `None` for other types.
    pub steps: Option<[usize; STEPS]>,
}

impl Difference {
    /// Compares two tensors of type `data_type`, given as bytes. `None` if the type is not numeric or the
    /// numbers of elements differ.
    #[must_use]
    pub fn of(data_type: DataType, reference: &[u8], test: &[u8]) -> Option<Self> {
        let (reference, test) = (numbers(data_type, reference)?, numbers(data_type, test)?);
        let mut difference =
            (reference.len() == test.len()).then(|| Self::between(is_float(data_type), &reference, &test))?;
        difference.steps = is_stepped(data_type).then(|| {
            let mut steps = [0; STEPS];
            let apart = reference.iter().zip(&test).map(|(reference, test)| (reference - test).abs() as usize);
            apart.for_each(|apart| steps[apart.min(STEPS - 1)] += 1);
            steps
        });
        Some(difference)
    }

    fn between(is_float: bool, reference: &[f64], test: &[f64]) -> Self {
        let mut difference = Self { is_float, ..Self::default() };
        let (mut sum, mut compared, mut magnitude) = (0.0, 0usize, 0.0f64);
        for (&reference, &test) in reference.iter().zip(test) {
            difference.nonfinite_reference += usize::from(!reference.is_finite());
            difference.nonfinite_test += usize::from(!test.is_finite());
            match (reference.is_finite(), test.is_finite()) {
                (true, true) => {
                    let apart = (test - reference).abs();
                    (sum, compared) = (sum + apart, compared + 1);
                    difference.largest = difference.largest.max(apart);
                }
                (false, false) => difference.contradictions += usize::from(reference == -test),
                _ => difference.contradictions += 1,
            }
            if reference.is_finite() {
                magnitude = magnitude.max(reference.abs());
            }
        }
        difference.average = if compared > 0 { sum / compared as f64 } else { 0.0 };
        difference.scale = if is_float && magnitude > 0.0 { magnitude } else { 1.0 };
        difference
    }

    /// Returns the largest difference divided by [`Difference::scale`].
    #[must_use]
    pub fn relative(&self) -> f64 {
        self.largest / self.scale
    }

    /// Whether the difference is within the tolerance and there are no contradictions.
    #[must_use]
    pub fn is_within(&self, tolerance: &Tolerance) -> bool {
        let near = match &self.steps {
            Some(steps) => tolerance.steps.allow(steps, self.largest),
            None if self.is_float => self.relative() <= tolerance.relative,
            None => self.largest == 0.0,
        };
        near && self.contradictions == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(reference: &[f32], test: &[f32]) -> Difference {
        let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<_>>();
        Difference::of(DataType::Float32, &bytes(reference), &bytes(test)).unwrap()
    }

    #[test]
    fn differences_are_relative_to_the_largest_reference() {
        let difference = floats(&[1.0, -4.0, 0.0, 2.0], &[1.0, -4.0, 0.5, 2.25]);
        assert_eq!((difference.average, difference.largest, difference.scale), (0.1875, 0.5, 4.0));
        let within = |relative| difference.is_within(&Tolerance::relative(relative));
        assert!(within(0.125) && !within(0.12));
        assert_eq!(floats(&[0.0], &[0.5]).relative(), 0.5, "of nothing the difference is absolute");
    }

    #[test]
    fn nothing_is_compared_through_what_is_not_finite() {
        let (nan, infinity) = (f32::NAN, f32::INFINITY);
        let same = floats(&[nan, infinity, nan, 1.0], &[nan, infinity, -infinity, 1.0]);
        assert_eq!((same.largest, same.average, same.contradictions), (0.0, 0.0, 0));
        assert_eq!((same.nonfinite_reference, same.nonfinite_test), (3, 3));
        assert!(same.is_within(&Tolerance::relative(0.0)));
        for (reference, test) in [(nan, 1.0), (1.0, infinity), (infinity, -infinity)] {
            let difference = floats(&[reference, 2.0], &[test, 2.0]);
            assert_eq!((difference.contradictions, difference.largest), (1, 0.0));
            assert!(!difference.is_within(&Tolerance::relative(1.0)), "{reference} is not {test}");
        }
    }

    #[test]
    fn integers_must_be_equal() {
        let difference = Difference::of(DataType::UInt8, &[200, 7], &[200, 8]).unwrap();
        assert_eq!((difference.relative(), difference.average), (1.0, 0.5));
        let steps = |most| Tolerance { relative: 9.0, steps: QuantizationSteps { most, usual: None } };
        assert!(difference.is_within(&steps(1)) && !difference.is_within(&steps(0)));
        let counts = Difference::of(DataType::Int32, &[200, 7, 0, 0], &[200, 8, 0, 0]).unwrap();
        assert!(!counts.is_within(&steps(9000)), "only quantized numbers have steps");
        assert!(Difference::of(DataType::UInt8, &[1], &[1, 2]).is_none());
        assert!(Difference::of(DataType::String, &[1], &[1]).is_none());
    }
}

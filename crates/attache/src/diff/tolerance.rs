//! The tolerance of a comparison: how much a tensor may differ from its reference.

use std::fmt;
use std::str::FromStr;

/// Length of the counts in [`Difference::steps`](super::Difference::steps). The last count includes all
/// larger differences.
pub(super) const STEPS: usize = 16;

/// How much a tensor may differ from its reference: floats relative to the largest reference, 8-bit and
/// 16-bit integers in quantization steps. Other integers and booleans must be equal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// For floats: the maximum of [`Difference::relative`](super::Difference::relative).
    pub relative: f64,
    /// For 8-bit and 16-bit integers: the allowed differences in quantization steps.
    pub steps: QuantizationSteps,
}

impl Tolerance {
    /// Creates a tolerance with the given maximum relative difference of floats. Integers must be equal.
    #[must_use]
    pub fn relative(relative: f64) -> Self {
        Self { relative, steps: QuantizationSteps::default() }
    }
}

/// How many quantization steps elements may differ by: a maximum for all elements, and optionally a smaller one for a
/// percentage of them. By default no difference is allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QuantizationSteps {
    /// Maximum number of steps for every element.
    pub most: usize,
    /// A percentage of the elements (0 to 100), and the maximum number of steps for at least that many of
    /// them.
    pub usual: Option<(f64, usize)>,
}

impl QuantizationSteps {
    /// Whether the differences are allowed. `counts[n]` is the number of elements that differ by `n`
    /// quantization steps; the last count includes all larger differences. `largest` is the largest
    /// difference in steps.
    pub(super) fn allow(&self, counts: &[usize; STEPS], largest: f64) -> bool {
        let all: usize = counts.iter().sum();
        let within = |steps: usize| counts.iter().take(steps.saturating_add(1)).sum::<usize>() as f64;
        largest <= self.most as f64
            && self.usual.is_none_or(|(share, steps)| within(steps) >= share / 100.0 * all as f64)
    }
}

impl FromStr for QuantizationSteps {
    type Err = String;

    /// Parses `N` or `N:P:M`: at most N steps for all elements, and at most M steps for P percent of them.
    ///
    /// # Errors
    ///
    /// A message if `text` has another form, P is not between 0 and 100, or M is not below 15.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is neither N nor N:P:M, as 2 or 2:99.5:1, with M below {}", STEPS - 1);
        let parts: Vec<&str> = text.split(':').collect();
        let most = parts[0].parse().map_err(|_| wrong())?;
        let usual = match parts[1..] {
            [] => None,
            [share, steps] => {
                let share = share.parse().ok().filter(|share| (0.0..=100.0).contains(share));
                let steps = steps.parse().ok().filter(|steps| *steps < STEPS - 1);
                Some((share.ok_or_else(wrong)?, steps.ok_or_else(wrong)?))
            }
            _ => return Err(wrong()),
        };
        Ok(Self { most, usual })
    }
}

impl fmt::Display for QuantizationSteps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.most)?;
        self.usual.map_or(Ok(()), |(share, steps)| write!(f, ":{share}:{steps}"))
    }
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:e}", self.relative)?;
        if self.steps == QuantizationSteps::default() { Ok(()) } else { write!(f, ", {} steps", self.steps) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read() {
        assert_eq!("2".parse(), Ok(QuantizationSteps { most: 2, usual: None }));
        assert_eq!("2:99.5:1".parse(), Ok(QuantizationSteps { most: 2, usual: Some((99.5, 1)) }));
        assert_eq!("2:99.5:1".parse::<QuantizationSteps>().unwrap().to_string(), "2:99.5:1");
        for text in ["", "-1", "2:", "2:101:1", "2:99.5", "2:NaN:1", "2:99.5:15", "1:2:3:4", "x"] {
            assert!(text.parse::<QuantizationSteps>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_share_of_the_elements_counts() {
        let mut counts = [0; STEPS];
        (counts[0], counts[1], counts[2]) = (990, 6, 4);
        let allows = |text: &str, largest| text.parse::<QuantizationSteps>().unwrap().allow(&counts, largest);
        assert!(allows("2:99.5:1", 2.0) && allows("2", 2.0));
        assert!(!allows("2:99.7:1", 2.0) && !allows("1", 2.0) && !allows("0", 2.0) && !allows("2:99.5:0", 2.0));
    }
}

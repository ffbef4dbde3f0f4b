//! The lines that TensorFlow Lite's tools print, which scripts parse.

use std::io;

use crate::commands::written;
use crate::console::Console;
use crate::failure::Failure;
use crate::measure::timing::{Statistics, upper_median};

/// Prints lines of a tool while it runs.
pub(super) struct Lines<'a>(pub(super) &'a Console);

impl Lines<'_> {
    pub(super) fn say(&self, text: impl AsRef<str>) -> Result<(), Failure> {
        let said: io::Result<()> = self.0.say(text.as_ref());
        written(said)
    }

    pub(super) fn say_all(&self, lines: &[String]) -> Result<(), Failure> {
        lines.iter().try_for_each(|line| self.say(line))
    }
}

/// Formats a number with six significant digits, or all digits of its whole part, and never with an exponent if it is
/// 0.0001 or more.
pub(super) fn six(number: f64) -> String {
    let magnitude = number.abs();
    if magnitude == 0.0 || !magnitude.is_finite() {
        return number.to_string();
    }
    let digits = magnitude.log10().floor() as i32;
    if digits < -4 {
        let text = format!("{number:.5e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        return format!("{}e-{:02}", trimmed(digits), exponent.abs());
    }
    trimmed(&format!("{number:.*}", usize::try_from(5 - digits).unwrap_or(0))).to_owned()
}

/// Returns a number without the zeros at the end of its fraction.
fn trimmed(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// Converts milliseconds to whole microseconds.
pub(super) fn microseconds(milliseconds: &[f64]) -> Vec<f64> {
    milliseconds.iter().map(|time| (time * 1e3).round()).collect()
}

/// Formats the statistics of whole numbers, such as microseconds.
pub(super) fn statistics(numbers: &[f64]) -> String {
    let (Some(first), Some(last), Some(all)) = (numbers.first(), numbers.last(), Statistics::of(numbers)) else {
        return "count=0".to_owned();
    };
    let count = all.count;
    if all.min == all.max {
        return format!("count={count} curr={last}{}", if count > 1 { "(all same)" } else { "" });
    }
    let Statistics { p5, p95, min, max, mean, std, .. } = all;
    let median = upper_median(numbers);
    let (mean, std) = (six(mean), std.trunc());
    format!(
        "count={count} first={first} curr={last} min={min} max={max} avg={mean} std={std} p5={p5} median={median} p95={p95}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_six_digits() {
        let cases = [
            (0.0, "0"),
            (1.5, "1.5"),
            (1234.5678, "1234.57"),
            (1_041_764.6, "1041765"),
            (25_231.349, "25231.3"),
            (0.000_123_456_78, "0.000123457"),
            (1.962_774e-5, "1.96277e-05"),
            (2e-12, "2e-12"),
        ];
        for (number, text) in cases {
            assert_eq!(six(number), text);
        }
    }

    #[test]
    fn statistics_are_one_line() {
        assert_eq!(statistics(&[]), "count=0");
        assert_eq!(statistics(&[7.0]), "count=1 curr=7");
        assert_eq!(statistics(&[7.0, 7.0]), "count=2 curr=7(all same)");
        let line = statistics(&[3.0, 1.0, 2.0, 10.0]);
        assert_eq!(line, "count=4 first=3 curr=10 min=1 max=10 avg=4 std=3 p5=1 median=3 p95=10");
    }
}

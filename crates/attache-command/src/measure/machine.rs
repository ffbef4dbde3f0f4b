//! What a measurement says of the machine and of the time at which it was made.

use std::time::{SystemTime, UNIX_EPOCH};

const SECONDS_OF_DAY: u64 = 86_400;

/// Returns the name of the processor; `None` if the system does not say.
pub(crate) fn cpu_name() -> Option<String> {
    named(&std::fs::read_to_string("/proc/cpuinfo").ok()?)
}

/// Finds the name in the text of Linux's `/proc/cpuinfo`.
fn named(text: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'))?;
    let name = line.1.split_whitespace().collect::<Vec<_>>().join(" ");
    (!name.is_empty()).then_some(name)
}

/// Returns date and time in UTC, as `2026-01-31 09:05 UTC`.
pub(crate) fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (mut days, rest) = (seconds / SECONDS_OF_DAY, seconds % SECONDS_OF_DAY);
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    let (hour, minute) = (rest / 3600, rest % 3600 / 60);
    format!("{year}-{:02}-{:02} {hour:02}:{minute:02} UTC", month + 1, days + 1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let dates = [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399, "2000-02-28 23:59 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
            (1_798_761_599, "2026-12-31 23:59 UTC"),
        ];
        for (seconds, text) in dates {
            assert_eq!(utc(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn the_processor_is_named() {
        assert_eq!(named("processor\t: 0\nmodel name\t: Some  CPU\n").as_deref(), Some("Some CPU"));
        assert_eq!((named("model name\t:\n"), named("")), (None, None));
    }
}

//! Measures the memory use of this process.

/// Returns the peak resident memory of this process in bytes; `None` if the system does not report it.
pub(crate) fn peak_resident_bytes() -> Option<u64> {
    parse(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// Parses the line `VmHWM: … kB` of Linux's `/proc/self/status` and returns the number in bytes.
fn parse(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_read() {
        assert_eq!(parse("Name:\tx\nVmHWM:\t    2048 kB\nThreads:\t1\n"), Some(2 << 20));
        assert_eq!(parse("Name:\tx\n"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_a_peak() {
        assert!(peak_resident_bytes().unwrap() > 1 << 16);
    }
}

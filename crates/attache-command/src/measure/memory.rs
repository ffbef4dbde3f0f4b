//! Measures the memory use of this process.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Returns the peak resident memory of this process in bytes; `None` if the system does not report it.
pub(crate) fn peak_resident_bytes() -> Option<u64> {
    parse(&std::fs::read_to_string("/proc/self/status").ok()?, "VmHWM:")
}

/// Returns the resident memory of this process in bytes; `None` if the system does not report it.
pub(crate) fn resident_bytes() -> Option<u64> {
    parse(&std::fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")
}

/// Watches the resident memory of this process on a thread of its own.
pub(crate) struct Watch {
    /// Dropping it ends the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<u64>>,
}

impl Watch {
    /// Starts to look at the memory, at this interval.
    pub(crate) fn start(interval: Duration) -> Self {
        let (stop, stopped) = mpsc::channel();
        let watch = move || {
            let mut most = resident_bytes().unwrap_or(0);
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                most = most.max(resident_bytes().unwrap_or(0));
            }
            most.max(resident_bytes().unwrap_or(0))
        };
        Self { stop: Some(stop), thread: thread::Builder::new().name("attache memory".into()).spawn(watch).ok() }
    }

    /// Ends the watch and returns the largest number of bytes that was seen.
    pub(crate) fn finish(mut self) -> u64 {
        self.stop = None;
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or(0)
    }
}

/// Parses a line such as `VmHWM: … kB` of Linux's `/proc/self/status` and returns the number in bytes.
fn parse(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_read() {
        assert_eq!(parse("Name:\tx\nVmHWM:\t    2048 kB\nThreads:\t1\n", "VmHWM:"), Some(2 << 20));
        assert_eq!(parse("Name:\tx\n", "VmHWM:"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_a_peak() {
        assert!(peak_resident_bytes().unwrap() > 1 << 16);
        let watch = Watch::start(Duration::from_millis(1));
        let block = vec![1u8; 64 << 20];
        thread::sleep(Duration::from_millis(30));
        let most = watch.finish();
        assert!(most >= block.len() as u64, "{most}");
    }
}

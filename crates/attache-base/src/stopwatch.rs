//! Elapsed-time measurement for reports and traces.

#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
mod clock {
    pub(super) type Start = std::time::Instant;

    pub(super) fn now() -> Start {
        Start::now()
    }

    pub(super) fn milliseconds(start: Start) -> f64 {
        start.elapsed().as_secs_f64() * 1e3
    }
}

#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
mod clock {
    pub(super) type Start = ();

    pub(super) fn now() -> Start {}

    pub(super) fn milliseconds(_: Start) -> f64 {
        0.0
    }
}

/// Measures the time since [`Stopwatch::start`]. On `wasm32-unknown-unknown`, where the standard library's
/// clock panics, the measured time is always 0.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(clock::Start);

impl Stopwatch {
    /// Starts a measurement.
    #[allow(clippy::unit_arg)] // `clock::Start` is `()` on targets without a clock
    #[must_use]
    pub fn start() -> Self {
        Self(clock::now())
    }

    /// Returns the milliseconds since the start; always 0 on `wasm32-unknown-unknown`.
    #[allow(clippy::unit_arg)] // as above
    #[must_use]
    pub fn milliseconds(self) -> f64 {
        clock::milliseconds(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes() {
        let watch = Stopwatch::start();
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(watch.milliseconds() >= 2.0);
    }
}

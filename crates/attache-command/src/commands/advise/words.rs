//! Says in words what a study found.

use super::options::Snippet;
use super::study::{Exhaustive, Measured, Study};
use crate::commands::diff::hybrid::EXPECTED;
use crate::console::{Console, counted, visible};

/// Configurations less than this many times as fast as the default count as equally fast.
const FASTER: f64 = 1.05;

/// Returns the milliseconds with as many digits as tell configurations apart.
pub(in crate::commands) fn time(ms: f64) -> String {
    match ms {
        ms if ms >= 10_000.0 => format!("{:.1} s", ms / 1e3),
        ms if ms >= 100.0 => format!("{ms:.0} ms"),
        ms if ms >= 10.0 => format!("{ms:.1} ms"),
        ms if ms >= 1.0 => format!("{ms:.2} ms"),
        ms if ms >= 0.01 => format!("{:.0} µs", ms * 1e3),
        ms => format!("{:.1} µs", ms * 1e3),
    }
}

/// Returns bytes as megabytes, or few as kilobytes.
pub(in crate::commands) fn megabytes(bytes: u64) -> String {
    match bytes {
        0 => "0 MB".to_owned(),
        1..100_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

impl Measured {
    /// Returns the milliseconds from opening the device to the end of the first run.
    pub(in crate::commands) fn start_ms(&self) -> f64 {
        self.device_ms + self.init_ms + self.first_ms
    }

    /// Returns the state of caches at the start.
    pub(in crate::commands) fn start_state(&self) -> &'static str {
        if self.is_warm { "warm" } else { "cold" }
    }

    /// Says how far outputs are from the CPU's.
    pub(in crate::commands) fn accuracy_text(&self) -> String {
        self.accuracy.as_ref().map_or("not compared".to_owned(), |accuracy| accuracy.text())
    }

    /// Says why this configuration is not advised; `None` if it may be.
    pub(in crate::commands) fn objection(&self) -> Option<String> {
        let failed = self.failed.as_ref().map(|reason| format!("failed: {reason}"));
        failed.or_else(|| self.refused.as_ref().map(|reason| format!("not accurate enough: {reason}")))
    }
}

impl Study {
    /// Returns the configuration that is advised.
    pub(in crate::commands) fn chosen(&self) -> &Measured {
        &self.configurations[self.choice]
    }

    /// Returns the CPU with its default number of threads, in words.
    pub(in crate::commands) fn default_text(&self) -> String {
        let threads = usize::from(self.configurations[self.default].configuration.threads);
        format!("the CPU with its default of {}", counted(threads, "thread", "threads"))
    }

    /// Returns how many times as fast as the CPU with its default number of threads a configuration is.
    pub(in crate::commands) fn speedup(&self, other: &Measured) -> Option<f64> {
        let (usual, own) = (self.configurations[self.default].run_ms?, other.run_ms?);
        (own > 0.0).then(|| usual / own)
    }

    /// Says in one sentence which configuration to use.
    pub(in crate::commands) fn headline(&self) -> String {
        let chosen = self.chosen();
        let run = |measured: &Measured| measured.run_ms.map_or("-".to_owned(), time);
        let (own, name) = (run(chosen), &chosen.name);
        let than = format!("{} ({})", self.default_text(), run(&self.configurations[self.default]));
        match self.speedup(chosen) {
            _ if self.choice == self.default => format!("use {}: {own} a run", self.default_text()),
            Some(speedup) if speedup < FASTER => format!("use {name}: {own} a run, as fast as {than}"),
            Some(speedup) => format!("use {name}: {own} a run, {speedup:.1} times as fast as {than}"),
            None => format!("use {name}: {own} a run"),
        }
    }

    /// Returns further sentences: faster configurations that are not advised, what was skipped, and why there is no GPU.
    pub(in crate::commands) fn remarks(&self) -> Vec<String> {
        let mut remarks: Vec<String> = self.configurations.iter().filter_map(|other| self.refusal(other)).collect();
        let on_gpu = |measured: &Measured| measured.configuration.gpu.is_some();
        if self.hybrid_operators > 0 && self.configurations.iter().any(on_gpu) {
            let operators = counted(self.hybrid_operators, "operator has", "operators have");
            remarks.push(format!(
                "{operators} dynamic range quantization: the CPU rounds their inputs to 8 bits at run time, the GPU computes \
                 with the floats and is the more precise one. Differences of up to {:.0} % of an output's largest value are \
                 expected and, unless --tolerance says otherwise, allowed",
                100.0 * EXPECTED
            ));
        }
        remarks.extend(self.skipped.iter().map(|skipped| format!("skipped: {}: {}", skipped.name, skipped.reason)));
        remarks.extend(self.no_gpu.clone());
        remarks.extend(self.exhaustive.iter().flat_map(Exhaustive::texts));
        remarks
    }

    /// Says why a configuration is not advised, if it failed or is faster than the one that is.
    fn refusal(&self, other: &Measured) -> Option<String> {
        let name = &other.name;
        if let Some(reason) = &other.failed {
            return Some(format!("{name} failed while it ran: {reason}"));
        }
        let reason = other.refused.as_ref()?;
        let own = other.run_ms.filter(|own| self.chosen().run_ms.is_some_and(|chosen| *own < chosen))?;
        let remedy = if other.accuracy.is_some() { "; --tolerance and --quantization-steps allow more" } else { "" };
        Some(format!("{name} is faster ({}) but not advised: {reason}{remedy}", time(own)))
    }

    /// Formats the study as text.
    pub(super) fn text(&self, console: &Console, snippets: &[Snippet]) -> String {
        let chosen = self.chosen();
        let mut parts = vec![format!("{}: {}", console.bold(&visible(&self.model)), self.kind)];
        parts.push(console.green(&self.headline()));
        let outputs = if self.choice == self.default {
            "those that others are compared with".to_owned()
        } else {
            chosen.accuracy_text()
        };
        parts.push(format!(
            "start-up {}, {} (device {}, model {}, first run {}); tensors {}, weights on the GPU {}; outputs: {outputs}",
            time(chosen.start_ms()),
            chosen.start_state(),
            time(chosen.device_ms),
            time(chosen.init_ms),
            time(chosen.first_ms),
            megabytes(chosen.arena_bytes),
            megabytes(chosen.weights_bytes),
        ));
        let rows: Vec<_> = self.configurations.iter().map(|measured| self.row(measured)).collect();
        let heading = [
            "configuration",
            "ms",
            "p5",
            "p95",
            "runs",
            "speedup",
            "start ms",
            "delegated",
            "outputs beside the CPU's",
        ];
        parts.push(console.table(&heading, &rows));
        parts.extend(self.remarks());
        for Snippet { language, text } in snippets {
            let lines = text.replace('\n', "\n  ");
            parts.push(format!("{}:\n  {lines}", console.bold(language)));
        }
        parts.join("\n")
    }

    fn row(&self, measured: &Measured) -> Vec<String> {
        let number = |ms: Option<f64>| ms.map_or("-".to_owned(), |ms| format!("{ms:.3}"));
        let spread = measured.e2e_ms.map(|times| [times.p5, times.p95]);
        let mut row = vec![measured.name.clone(), number(measured.run_ms)];
        row.extend([0, 1].map(|end| number(spread.map(|spread| spread[end]))));
        row.push(measured.e2e_ms.map_or("-".to_owned(), |times| times.count.to_string()));
        row.push(self.speedup(measured).map_or("-".to_owned(), |speedup| format!("{speedup:.2}×")));
        row.push(format!("{:.1} {}", measured.start_ms(), measured.start_state()));
        row.push(format!("{} of {}", measured.nodes_delegated, measured.nodes));
        row.push(match measured.objection() {
            Some(objection) => objection,
            None if measured.name == self.configurations[self.default].name => "the reference".to_owned(),
            None => measured.accuracy_text(),
        });
        row
    }
}

impl Exhaustive {
    /// Says what the check found.
    fn texts(&self) -> Vec<String> {
        let Self { timed, refused, best, .. } = self;
        let combinations = counted(*timed, "combination", "combinations");
        let (best_ms, own) = (time(self.best_ms), time(self.choice_ms));
        let verdict = match (self.agrees, self.unmeasured.is_empty()) {
            (true, _) => "within 5 % or 10 µs of it",
            (false, true) => "beyond 5 % and 10 µs of it",
            (false, false) => "and not all could be measured",
        };
        let mut texts = vec![format!(
            "all combinations measured anew: {combinations} timed, {refused} not accurate enough, {} not measured; the best \
             is {best} with {best_ms}, the choice takes {own}, {verdict}",
            self.unmeasured.len()
        )];
        let unmeasured = self.unmeasured.iter();
        texts.extend(unmeasured.map(|skipped| format!("not measured: {}: {}", skipped.name, skipped.reason)));
        texts
    }
}

#[cfg(test)]
mod tests {
    use super::super::study::tests::{on_cpu, on_gpu, study};
    use super::super::study::{Skipped, Study};
    use super::*;
    use crate::arguments::PrecisionName;

    #[test]
    fn the_default_of_the_cpu_is_called_so() {
        let alone = study(vec![on_cpu(4, Some(10.0)), on_cpu(1, Some(20.0))]);
        assert_eq!(alone.headline(), "use the CPU with its default of 4 threads: 10.0 ms a run");
        let faster = study(vec![on_cpu(4, Some(10.0)), on_gpu(PrecisionName::F32, Some(5.0))]);
        let end = "2.0 times as fast as the CPU with its default of 4 threads (10.0 ms)";
        assert!(faster.headline().ends_with(end), "{}", faster.headline());
        let one = study(vec![on_cpu(1, Some(10.0))]);
        assert!(one.headline().contains("default of 1 thread:"), "{}", one.headline());
    }

    #[test]
    fn only_what_was_timed_is_called_faster() {
        let gpu = |run_ms| on_gpu(PrecisionName::F32, run_ms);
        let remarks = |gpu: Measured| study(vec![on_cpu(4, Some(10.0)), gpu]).remarks();
        let refused = |run_ms| Measured { refused: Some("it differs".to_owned()), ..gpu(run_ms) };
        assert!(remarks(refused(Some(5.0)))[0].contains("is faster (5.00 ms) but not advised: it differs"));
        assert!(remarks(refused(Some(11.0))).is_empty());
        assert!(remarks(refused(None)).is_empty(), "{:?}", remarks(refused(None)));
        let failed = remarks(Measured { failed: Some("device lost".to_owned()), ..gpu(None) });
        assert!(failed[0].ends_with("failed while it ran: device lost"), "{failed:?}");
    }

    #[test]
    fn remarks_tell_what_was_skipped_and_expected() {
        let skipped = vec![Skipped { name: "CPU, 1 thread".to_owned(), reason: "time budget exhausted".to_owned() }];
        let base = || study(vec![on_cpu(4, Some(10.0)), on_gpu(PrecisionName::F32, Some(5.0))]);
        let all = Study { skipped, no_gpu: Some("no GPU".to_owned()), hybrid_operators: 1, ..base() }.remarks();
        assert!(all[0].starts_with("1 operator has dynamic range") && all[0].contains("5 %"), "{all:?}");
        assert_eq!(all[1..], ["skipped: CPU, 1 thread: time budget exhausted", "no GPU"]);
        assert!(base().remarks().is_empty());
    }

    #[test]
    fn durations_have_the_digits_that_matter() {
        let texts = [0.004, 0.25, 1.5, 25.0, 250.0, 25_000.0].map(time);
        assert_eq!(texts, ["4.0 µs", "250 µs", "1.50 ms", "25.0 ms", "250 ms", "25.0 s"]);
        assert_eq!([0, 2_500, 2_500_000].map(megabytes), ["0 MB", "2.5 kB", "2.5 MB"]);
    }
}

//! Says in words what a study found.

use super::options::snippets;
use super::study::{Measured, Study};
use crate::console::Console;

/// Returns the milliseconds with as many digits as tell ways apart.
pub(in crate::commands) fn time(ms: f64) -> String {
    match ms {
        ms if ms >= 100.0 => format!("{ms:.0} ms"),
        ms if ms >= 10.0 => format!("{ms:.1} ms"),
        ms if ms >= 1.0 => format!("{ms:.2} ms"),
        ms => format!("{:.0} µs", ms * 1e3),
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
    /// Returns the milliseconds from nothing to the end of the first run.
    pub(in crate::commands) fn start_ms(&self) -> f64 {
        self.device_ms + self.init_ms + self.first_ms
    }

    /// Says how far outputs are from the CPU's in f32.
    pub(in crate::commands) fn accuracy_text(&self) -> String {
        match self.accuracy {
            None => "-".to_owned(),
            Some(accuracy) if accuracy.nonfinite.0 != accuracy.nonfinite.1 => {
                let (cpu, here) = accuracy.nonfinite;
                format!("{here} values are not finite, on the CPU {cpu}")
            }
            Some(accuracy) if accuracy.largest == 0.0 => "the CPU's bits".to_owned(),
            Some(accuracy) => match accuracy.steps {
                Some(steps) if steps > 0 => format!("up to {steps} steps, {:.3} on average", accuracy.mean),
                _ => format!(
                    "up to {:.1e} ({:.1e} of the largest value), {:.1e} on average",
                    accuracy.largest, accuracy.relative, accuracy.mean
                ),
            },
        }
    }
}

impl Study {
    /// Returns the way that is advised.
    pub(in crate::commands) fn chosen(&self) -> &Measured {
        &self.ways[self.choice]
    }

    /// Returns how many times as fast as the usual way on the CPU a way is.
    pub(in crate::commands) fn gain(&self, way: &Measured) -> Option<f64> {
        let (usual, own) = (self.ways[self.usual].run_ms?, way.run_ms?);
        (own > 0.0).then(|| usual / own)
    }

    /// Whether several adapters were measured, so that the advice has to name one.
    pub(in crate::commands) fn names_adapter(&self) -> bool {
        let adapter = |way: &Measured| way.way.gpu.as_ref().map(|gpu| gpu.adapter.clone());
        let own = adapter(self.chosen());
        self.ways.iter().filter_map(adapter).any(|other| own.as_ref().is_some_and(|own| *own != other))
    }

    /// Says in one sentence which way to take.
    pub(in crate::commands) fn headline(&self) -> String {
        let chosen = self.chosen();
        let run = time(chosen.run_ms.unwrap_or(0.0));
        let usual = &self.ways[self.usual];
        let than = format!("{} ({})", usual.name, time(usual.run_ms.unwrap_or(0.0)));
        match self.gain(chosen) {
            _ if self.choice == self.usual => format!("use {}, the default: {run} a run", chosen.name),
            Some(gain) if gain < 1.05 => format!("use {}: {run} a run, as fast as the default, {than}", chosen.name),
            Some(gain) => format!("use {}: {run} a run, {gain:.1} times as fast as the default, {than}", chosen.name),
            None => format!("use {}: {run} a run", chosen.name),
        }
    }

    /// Returns further sentences: faster ways that are refused, what was left out, and why there is no GPU.
    pub(in crate::commands) fn remarks(&self) -> Vec<String> {
        let chosen = self.chosen();
        let faster = |way: &&Measured| way.refused.is_some() && way.run_ms < chosen.run_ms;
        let refused = self.ways.iter().filter(faster).map(|way| {
            let (name, run) = (&way.name, time(way.run_ms.unwrap_or(0.0)));
            let steps = way.accuracy.is_some_and(|accuracy| accuracy.steps.is_some_and(|steps| steps > 0));
            let option = if steps { "--quantization-steps" } else { "--tolerance" };
            let remedy = way.accuracy.map_or(String::new(), |_| format!("; {option} admits more"));
            format!("{name} is faster ({run}) but not advised: {}{remedy}", way.refused.as_deref().unwrap_or_default())
        });
        let mut remarks: Vec<String> = refused.filter(|text| !text.contains(": -;")).collect();
        remarks.extend(self.left_out.iter().map(|text| format!("not measured: {text}")));
        if self.ways.iter().all(|way| way.way.gpu.is_none()) && self.left_out.is_empty() {
            remarks.push("there is no hardware GPU; --software measures what stands in for one".to_owned());
        }
        if let Some(checked) = &self.exhaustive {
            let (ways, best) = (checked.ways, &checked.best);
            let (best_ms, own) = (time(checked.best_ms), time(checked.choice_ms));
            let verdict = if checked.agrees { "within" } else { "beyond" };
            remarks.push(format!(
                "all {ways} ways measured equally long: the best is {best} with {best_ms}, the choice takes {own}, {verdict} \
                 5 % or 10 µs of it"
            ));
        }
        remarks
    }

    /// Formats the study as text.
    pub(super) fn text(&self, console: &Console) -> String {
        let chosen = self.chosen();
        let mut parts = vec![format!("{}: {}", console.bold(&self.model), self.kind)];
        parts.push(console.green(&self.headline()));
        parts.push(format!(
            "start-up {} (device {}, model {}, first run {}); tensors {}, weights on the GPU {}; outputs: {}",
            time(chosen.start_ms()),
            time(chosen.device_ms),
            time(chosen.init_ms),
            time(chosen.first_ms),
            megabytes(chosen.arena_bytes),
            megabytes(chosen.weights_bytes),
            chosen.accuracy.map_or("those of the CPU in f32".to_owned(), |_| chosen.accuracy_text()),
        ));
        let row = |way: &Measured| {
            let number = |ms: Option<f64>| ms.map_or("-".to_owned(), |ms| format!("{ms:.3}"));
            let gain = self.gain(way).map_or("-".to_owned(), |gain| format!("{gain:.2}×"));
            let spread = way.e2e_ms.map(|times| [times.p5, times.p95]);
            let mut row = vec![way.name.clone(), number(way.run_ms)];
            row.extend([0, 1].map(|end| number(spread.map(|spread| spread[end]))));
            row.extend([gain, format!("{:.1}", way.start_ms())]);
            row.push(format!("{} of {}", way.nodes_delegated, way.nodes));
            row.push(if way.refused.is_some() {
                format!("refused: {}", way.accuracy_text())
            } else {
                way.accuracy_text()
            });
            row
        };
        let rows: Vec<_> = self.ways.iter().map(row).collect();
        let heading = ["way", "ms", "p5", "p95", "speed", "start ms", "delegated", "outputs differ from the CPU's"];
        parts.push(console.table(&heading, &rows));
        parts.extend(self.remarks());
        for snippet in snippets(&self.model, &chosen.way, self.names_adapter()) {
            let lines = snippet.text.replace('\n', "\n  ");
            parts.push(format!("{}:\n  {lines}", console.bold(&snippet.language)));
        }
        parts.join("\n")
    }
}

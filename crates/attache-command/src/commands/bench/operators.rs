//! Measures where a model's time goes on the CPU: for each operator its time and its share. Times are medians
//! of several runs.

use attache::ProfiledOperator;
use serde::{Deserialize, Serialize};

use super::operator::{Operator, label, median, names, percent};
use crate::console::{Console, counted};

/// A step of a run on the CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Step {
    /// The operators that are computed; several if the preparation merged them.
    pub(super) operators: Vec<Operator>,
    pub(super) us: f64,
    /// The step's share of the CPU time of a run, in percent.
    pub(super) time_percent: f64,
}

/// The sums over all steps whose operators have the same names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Total {
    operators: String,
    count: usize,
    us: f64,
    time_percent: f64,
}

/// Where the time of a run goes on the CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct CpuProfile {
    runs: usize,
    /// Microseconds spent in operators on the CPU.
    cpu_us: f64,
    /// Sums by the names of operators, the longest time first.
    totals: Vec<Total>,
    /// All steps of a run, in order of execution.
    pub(super) operators: Vec<Step>,
}

impl CpuProfile {
    /// Summarizes several runs; `None` if no operator runs on the CPU.
    pub(super) fn of(runs: &[attache::Profile]) -> Option<Self> {
        let count = runs.iter().map(|run| run.operators.len()).min().filter(|count| *count > 0)?;
        let us = |index: usize| {
            let times: Vec<f64> = runs.iter().map(|run| run.operators[index].milliseconds * 1e3).collect();
            median(&times)
        };
        let times: Vec<f64> = (0..count).map(us).collect();
        Some(Self::of_times(runs.len(), &runs[0].operators, &times))
    }

    fn of_times(runs: usize, operators: &[ProfiledOperator], times: &[f64]) -> Self {
        let cpu_us = times.iter().sum();
        let operator = |(index, name): &(usize, String)| Operator { index: *index, name: name.clone() };
        let step = |(made, us): (&ProfiledOperator, &f64)| Step {
            operators: made.operators.iter().map(operator).collect(),
            us: *us,
            time_percent: percent(*us, cpu_us),
        };
        let operators: Vec<Step> = operators.iter().zip(times).map(step).collect();
        Self { runs, cpu_us, totals: totals(&operators, cpu_us), operators }
    }

    /// Returns an iterator over the steps, each with its start in microseconds, as if they directly followed
    /// each other.
    pub(super) fn begins(&self) -> impl Iterator<Item = (f64, &Step)> {
        self.operators.iter().scan(0.0, |clock, step| {
            let begin = *clock;
            *clock += step.us;
            Some((begin, step))
        })
    }

    /// Returns the sums over operators of a name, as [`Profiles::shares`](super::profile::Profiles::shares) does.
    pub(super) fn shares(&self) -> impl Iterator<Item = (String, usize, f64, bool)> {
        self.totals.iter().map(|total| (total.operators.clone(), total.count, total.us, false))
    }

    /// Summarizes the profile in one line.
    pub(super) fn summary(&self) -> String {
        let Self { runs, cpu_us, operators, .. } = self;
        let operators = counted(operators.len(), "operator", "operators");
        let runs = if *runs == 1 { "of 1 run".to_owned() } else { format!("medians of {runs} runs") };
        format!("CPU {cpu_us:.1} µs in {operators}; {runs}")
    }

    /// Formats the tables of operators and of sums as text, followed by the summary.
    pub(super) fn text(&self, console: &Console) -> String {
        let one = |number: f64| format!("{number:.1}");
        let row = |step: &Step| vec![step.label(), one(step.us), one(step.time_percent)];
        let rows: Vec<Vec<String>> = self.operators.iter().map(row).collect();
        let total = |total: &Total| {
            vec![total.operators.clone(), total.count.to_string(), one(total.us), one(total.time_percent)]
        };
        let totals: Vec<Vec<String>> = self.totals.iter().map(total).collect();
        let tables = [
            console.table(&["operators on the CPU", "µs", "% time"], &rows),
            console.table(&["operators on the CPU", "count", "µs", "% time"], &totals),
        ];
        [tables.join("\n"), self.summary()].join("\n")
    }
}

impl Step {
    pub(super) fn label(&self) -> String {
        label(&self.operators)
    }
}

fn totals(steps: &[Step], cpu_us: f64) -> Vec<Total> {
    let mut totals: Vec<Total> = Vec::new();
    for step in steps {
        let operators = names(&step.operators);
        let at = totals.iter().position(|total| total.operators == operators).unwrap_or_else(|| {
            totals.push(Total { operators, count: 0, us: 0.0, time_percent: 0.0 });
            totals.len() - 1
        });
        totals[at].count += 1;
        totals[at].us += step.us;
        totals[at].time_percent = percent(totals[at].us, cpu_us);
    }
    totals.sort_by(|a, b| b.us.total_cmp(&a.us));
    totals
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns a profile of two convolutions of 1 and 3 µs and of an addition of 4 µs.
    pub(crate) fn cpu_profile() -> CpuProfile {
        let step = |index, name: &str, us| Step {
            operators: vec![Operator { index, name: name.to_owned() }],
            us,
            time_percent: percent(us, 8.0),
        };
        let operators = vec![step(0, "CONV_2D", 1.0), step(1, "ADD", 4.0), step(2, "CONV_2D", 3.0)];
        CpuProfile { runs: 1, cpu_us: 8.0, totals: totals(&operators, 8.0), operators }
    }

    #[test]
    fn operators_of_a_name_are_summed() {
        let profile = cpu_profile();
        let totals: Vec<_> =
            profile.totals.iter().map(|it| (it.operators.as_str(), it.count, it.time_percent)).collect();
        assert_eq!(totals, [("CONV_2D", 2, 50.0), ("ADD", 1, 50.0)]);
        let begins: Vec<f64> = profile.begins().map(|(begin, _)| begin).collect();
        assert_eq!(begins, [0.0, 1.0, 5.0]);
        let text = profile.text(&Console::plain());
        assert!(text.contains("1 ADD") && text.ends_with("CPU 8.0 µs in 3 operators; of 1 run"), "{text}");
    }

    #[test]
    fn without_operators_there_is_no_profile() {
        assert_eq!(CpuProfile::of(&[attache::Profile::default()]), None);
        assert_eq!(CpuProfile::of(&[]), None);
    }
}

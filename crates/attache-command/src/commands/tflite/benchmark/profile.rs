//! The operator profile of `benchmark_model`: three tables, their form as CSV, and the message that holds them.

use attache::Profile;
use attache::model::Subgraph;

use super::super::lines::statistics;
use crate::io::message::Message;
use crate::measure::timing::Statistics;

/// Most rows of the table of what takes longest.
const MOST_TOP: usize = 10;
/// Least width of the column of node types, in characters.
const LEAST_TYPE: usize = 24;

/// A step of a run: an operator on the CPU, or a dispatch of a delegate.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    /// The operators that the step computes.
    pub(super) kind: String,
    /// The name of what it makes, with the index of the operator.
    pub(super) name: String,
    /// Microseconds in each run.
    pub(super) times: Vec<f64>,
    /// Whether a delegate executes the step.
    pub(super) is_delegated: bool,
}

impl Step {
    fn mean(&self) -> f64 {
        self.times.iter().sum::<f64>() / self.times.len().max(1) as f64
    }
}

/// The steps of a run in their order, timed in several runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Steps(pub(super) Vec<Step>);

impl Steps {
    /// Collects the steps of several runs. Those of a delegate and of the CPU are in the order of their operators.
    pub(super) fn of(runs: &[Profile], subgraph: &Subgraph) -> Self {
        let mut steps: Vec<(usize, Step)> = Vec::new();
        let mut add = |operators: &[(usize, String)], times: Vec<f64>, is_delegated: bool| {
            let first = operators.first().map_or(0, |operator| operator.0);
            let mut kinds: Vec<&str> = operators.iter().map(|(_, name)| name.as_str()).collect();
            kinds.dedup();
            let last = operators.last().map_or(0, |operator| operator.0);
            let made = subgraph.operators.get(last).and_then(|operator| operator.outputs.first());
            let made = made.map_or("", |tensor| subgraph.tensors[*tensor].name.as_str());
            let name = format!("[{made}]:{last}");
            steps.push((first, Step { kind: kinds.join("+"), name, times, is_delegated }));
        };
        let dispatches = runs.iter().map(|run| run.dispatches.len()).min().unwrap_or(0);
        for index in 0..dispatches {
            let spans = runs.iter().map(|run| &run.dispatches[index].dispatch);
            let times = spans.map(|span| ((span.end_ns - span.begin_ns).max(0.0) / 1e3).round()).collect();
            add(&runs[0].dispatches[index].operators, times, true);
        }
        let operators = runs.iter().map(|run| run.operators.len()).min().unwrap_or(0);
        for index in 0..operators {
            let times = runs.iter().map(|run| (run.operators[index].milliseconds * 1e3).round()).collect();
            add(&runs[0].operators[index].operators, times, false);
        }
        steps.sort_by_key(|(first, _)| *first);
        Self(steps.into_iter().map(|(_, step)| step).collect())
    }

    /// Returns the microseconds of each run, summed over its steps.
    fn totals(&self) -> Vec<f64> {
        let runs = self.0.iter().map(|step| step.times.len()).max().unwrap_or(0);
        (0..runs).map(|run| self.0.iter().filter_map(|step| step.times.get(run)).sum()).collect()
    }

    /// Returns the rows in run order, each with the microseconds before it.
    fn rows(&self) -> Vec<(f64, &Step)> {
        let clock = self.0.iter().scan(0.0, |clock, step| {
            let begin = *clock;
            *clock += step.mean();
            Some((begin, step))
        });
        clock.collect()
    }

    /// Formats all tables, for people or as CSV.
    pub(super) fn text(&self, is_csv: bool) -> String {
        let form = Form::new(&self.0, is_csv);
        let total: f64 = self.0.iter().map(Step::mean).sum();
        let rows = self.rows();
        let mut top = rows.clone();
        top.sort_by(|one, other| other.1.mean().total_cmp(&one.1.mean()));
        top.truncate(MOST_TOP);
        let parts = [
            form.title("Run Order"),
            form.steps(&rows, total),
            form.title("Top by Computation Time"),
            form.steps(&top, total),
            format!("Number of nodes executed: {}\n", self.0.len()),
            form.title("Summary by node type"),
            form.kinds(&self.kinds(), total),
            format!("Timings (microseconds): {}\n", statistics(&self.totals())),
            format!("Memory (bytes): count=0\n{} nodes observed\n", self.0.len()),
        ];
        parts.concat()
    }

    /// Returns each node type with the number of its steps and their microseconds, the longest first.
    fn kinds(&self) -> Vec<(&str, usize, f64)> {
        let mut kinds: Vec<(&str, usize, f64)> = Vec::new();
        for step in &self.0 {
            let place = kinds.iter().position(|kind| kind.0 == step.kind).unwrap_or_else(|| {
                kinds.push((&step.kind, 0, 0.0));
                kinds.len() - 1
            });
            kinds[place].1 += 1;
            kinds[place].2 += step.mean();
        }
        kinds.sort_by(|one, other| other.2.total_cmp(&one.2));
        kinds
    }

    /// Returns the message `ModelProfilingData`.
    pub(super) fn message(&self, subgraph: (&str, usize)) -> Message {
        let operators = |is_delegated: bool| {
            let steps = self.0.iter().enumerate().filter(move |(_, step)| step.is_delegated == is_delegated);
            steps.map(|(order, step)| step.message(order)).collect::<Vec<_>>()
        };
        let (own, delegated) = (operators(false), operators(true));
        let profile = Message::default()
            .with(1, "subgraph_name", subgraph.0)
            .with(2, "subgraph_index", subgraph.1)
            .with_all(3, "per_op_profiles", own);
        let delegate = (!delegated.is_empty()).then(|| {
            Message::default().with(1, "delegate_name", "TfLiteGpuDelegateV2").with_all(2, "per_op_profiles", delegated)
        });
        Message::default().with(1, "subgraph_profiles", profile).with_some(2, "delegate_profiles", delegate)
    }
}

impl Step {
    /// Returns the message `OpProfileData`.
    fn message(&self, order: usize) -> Message {
        let whole = |number: f64| number.round() as i64;
        let time = Statistics::of(&self.times).map(|all| {
            Message::default()
                .with(1, "first", whole(self.times[0]))
                .with(2, "last", whole(self.times[self.times.len() - 1]))
                .with(3, "avg", whole(all.mean))
                .with(4, "stddev", all.std as f32)
                .with(5, "variance", (all.std * all.std) as f32)
                .with(6, "min", whole(all.min))
                .with(7, "max", whole(all.max))
                .with(8, "sum", whole(self.times.iter().sum()))
                .with(9, "count", self.times.len())
        });
        Message::default()
            .with(1, "node_type", self.kind.as_str())
            .with_some(2, "inference_microseconds", time)
            .with(4, "times_called", self.times.len())
            .with(5, "name", self.name.as_str())
            .with(6, "run_order", order)
    }
}

/// How tables are written.
struct Form {
    is_csv: bool,
    /// Width of the column of node types.
    width: usize,
}

impl Form {
    fn new(steps: &[Step], is_csv: bool) -> Self {
        let longest = steps.iter().map(|step| step.kind.chars().count()).max().unwrap_or(0);
        Self { is_csv, width: longest.max(LEAST_TYPE) }
    }

    fn title(&self, text: &str) -> String {
        let bar = "=".repeat(30);
        format!("{bar} {text} {bar}\n")
    }

    fn steps(&self, rows: &[(f64, &Step)], total: f64) -> String {
        let mut text = match self.is_csv {
            true => "node type, start, first, avg_ms, %, cdf%, mem KB, times called, name\n".to_owned(),
            false => {
                let width = self.width;
                format!(
                    "\t{:>width$}\t{:>9}\t{:>9}\t{:>9}\t{:>8}\t{:>8}\t{:>10}\t{:>9}\t[Name]\n",
                    "[node type]", "[start]", "[first]", "[avg ms]", "[%]", "[cdf%]", "[mem KB]", "[times called]"
                )
            }
        };
        let mut sum = 0.0;
        for (begin, step) in rows {
            let mean = step.mean();
            sum += mean;
            let first = step.times.first().copied().unwrap_or(0.0);
            let numbers = [begin / 1e3, first / 1e3, mean / 1e3, percent(mean, total), percent(sum, total)];
            text += &self.step(step, numbers);
        }
        text + "\n"
    }

    fn step(&self, step: &Step, [start, first, mean, percent, cumulative]: [f64; 5]) -> String {
        let width = self.width;
        let kind = &step.kind;
        match self.is_csv {
            // Commas separate columns.
            true => format!(
                "{}, {start:.3}, {first:.3}, {mean:.3}, {percent:.3}%, {cumulative:.3}%, 0.000, 1, {}\n",
                kind.replace(',', ";"),
                step.name.replace(',', ";")
            ),
            false => format!(
                "\t{kind:>width$}\t{start:>9.3}\t{first:>9.3}\t{mean:>9.3}\t{percent:>7.3}%\t{cumulative:>7.3}%\t{:>10.3}\t{:>9}\t{}\n",
                0.0, 1, step.name
            ),
        }
    }

    fn kinds(&self, kinds: &[(&str, usize, f64)], total: f64) -> String {
        let width = self.width;
        let mut text = match self.is_csv {
            true => "node type, count, avg_ms, avg %, cdf %, mem KB, times called\n".to_owned(),
            false => format!(
                "\t{:>width$}\t{:>9}\t{:>10}\t{:>11}\t{:>11}\t{:>10}\t{:>10}\n",
                "[Node type]", "[count]", "[avg ms]", "[avg %]", "[cdf %]", "[mem KB]", "[times called]"
            ),
        };
        let mut sum = 0.0;
        for (kind, count, time) in kinds {
            sum += time;
            let (mean, share, cumulative) = (time / 1e3, percent(*time, total), percent(sum, total));
            text += &match self.is_csv {
                true => format!(
                    "{}, {count}, {mean:.3}, {share:.3}%, {cumulative:.3}%, 0.000, {count}\n",
                    kind.replace(',', ";")
                ),
                false => format!(
                    "\t{kind:>width$}\t{count:>9}\t{mean:>10.3}\t{share:>10.3}%\t{cumulative:>10.3}%\t{:>10.3}\t{count:>10}\n",
                    0.0
                ),
            };
        }
        text + "\n"
    }
}

fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part * 100.0 / whole } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps() -> Steps {
        let step = |kind: &str, name: &str, times: [f64; 2]| Step {
            kind: kind.into(),
            name: name.into(),
            times: times.to_vec(),
            is_delegated: false,
        };
        Steps(vec![
            step("CONV_2D", "[a,b]:0", [1000.0, 3000.0]),
            step("ADD", "[c]:1", [500.0, 500.0]),
            step("CONV_2D", "[d]:2", [5000.0, 6000.0]),
        ])
    }

    #[test]
    fn tables_have_their_columns() {
        let text = steps().text(false);
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').skip(1).map(str::trim).collect()).collect();
        let heading = ["[node type]", "[start]", "[first]", "[avg ms]", "[%]", "[cdf%]", "[mem KB]", "[times called]"];
        assert_eq!(rows[1][..8], heading);
        assert_eq!(rows[2], ["CONV_2D", "0.000", "1.000", "2.000", "25.000%", "25.000%", "0.000", "1", "[a,b]:0"]);
        assert_eq!(rows[4], ["CONV_2D", "2.500", "5.000", "5.500", "68.750%", "100.000%", "0.000", "1", "[d]:2"]);
        assert_eq!(rows[8][8], "[d]:2", "the longest is at the top");
        assert!(text.contains("Number of nodes executed: 3\n"), "{text}");
        let kinds = rows.iter().find(|row| row.first() == Some(&"CONV_2D") && row.get(1) == Some(&"2")).unwrap();
        assert_eq!(kinds[2..5], ["7.500", "93.750%", "93.750%"]);
        assert!(text.contains("Timings (microseconds): count=2 first=6500 curr=9500 min=6500 max=9500 avg=8000"));
    }

    #[test]
    fn csv_has_as_many_columns_as_its_heading() {
        let text = steps().text(true);
        let rows: Vec<&str> = text.lines().skip(1).take(4).collect();
        assert!(rows.iter().all(|row| row.split(", ").count() == 9), "{text}");
        assert_eq!(rows[1], "CONV_2D, 0.000, 1.000, 2.000, 25.000%, 25.000%, 0.000, 1, [a;b]:0");
    }
}

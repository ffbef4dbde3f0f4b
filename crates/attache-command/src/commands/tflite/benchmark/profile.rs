//! The operator profile of `benchmark_model`: three tables, their form as CSV, and the message that holds them.

use attache::Profile;
use attache::model::Subgraph;

use super::super::lines::statistics;
use crate::io::message::Message;

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
    /// Microseconds of its runs.
    pub(super) times: Times,
    /// Whether a delegate executes the step.
    pub(super) is_delegated: bool,
}

/// What is kept of the microseconds of many runs: of long measurements, all would not fit in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Times {
    count: usize,
    first: f64,
    last: f64,
    min: f64,
    max: f64,
    sum: f64,
    mean: f64,
    /// The sum of the squared distances from the mean.
    squares: f64,
}

impl Times {
    /// Adds the microseconds of a run.
    pub(super) fn add(&mut self, time: f64) {
        if self.count == 0 {
            *self = Self { first: time, min: time, max: time, ..Self::default() };
        }
        self.count += 1;
        self.last = time;
        self.min = self.min.min(time);
        self.max = self.max.max(time);
        self.sum += time;
        // Sums of squares would lose the small differences of long times (Welford 1962).
        let distance = time - self.mean;
        self.mean += distance / self.count as f64;
        self.squares += distance * (time - self.mean);
    }

    fn variance(&self) -> f64 {
        self.squares / self.count.max(1) as f64
    }

    /// Returns the mean; 0 without runs.
    pub(super) fn average(&self) -> f64 {
        self.sum / self.count.max(1) as f64
    }
}

impl FromIterator<f64> for Times {
    fn from_iter<I: IntoIterator<Item = f64>>(times: I) -> Self {
        let mut all = Self::default();
        times.into_iter().for_each(|time| all.add(time));
        all
    }
}

/// The steps of a run in their order, timed in several runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Steps {
    pub(super) steps: Vec<Step>,
    /// Microseconds of each run, summed over its steps.
    pub(super) totals: Vec<f64>,
}

/// The profiles of all runs so far, one added to the other.
#[derive(Clone, Debug)]
pub(super) struct Profiles<'a> {
    subgraph: &'a Subgraph,
    /// The steps of delegates and of the CPU, each with its first operator.
    dispatches: Vec<(usize, Step)>,
    operators: Vec<(usize, Step)>,
    totals: Vec<f64>,
}

impl<'a> Profiles<'a> {
    pub(super) fn new(subgraph: &'a Subgraph) -> Self {
        Self { subgraph, dispatches: Vec::new(), operators: Vec::new(), totals: Vec::new() }
    }

    /// Adds the profile of a run. Steps that not all runs have are left out.
    pub(super) fn add(&mut self, run: &Profile) {
        if self.totals.is_empty() {
            let subgraph = self.subgraph;
            let step = |operators: &[(usize, String)], is_delegated| step(operators, subgraph, is_delegated);
            self.dispatches = run.dispatches.iter().map(|own| step(&own.operators, true)).collect();
            self.operators = run.operators.iter().map(|own| step(&own.operators, false)).collect();
        }
        let spans = run.dispatches.iter().map(|own| (own.dispatch.end_ns - own.dispatch.begin_ns).max(0.0) / 1e3);
        let times = run.operators.iter().map(|own| own.milliseconds * 1e3);
        let total = fold(&mut self.dispatches, spans) + fold(&mut self.operators, times);
        self.totals.push(total);
    }

    /// Returns the steps of delegates and of the CPU in the order of their operators.
    pub(super) fn finish(self) -> Steps {
        let mut steps = [self.dispatches, self.operators].concat();
        steps.sort_by_key(|(first, _)| *first);
        Steps { steps: steps.into_iter().map(|(_, step)| step).collect(), totals: self.totals }
    }
}

/// Returns a step without times, and its first operator.
fn step(operators: &[(usize, String)], subgraph: &Subgraph, is_delegated: bool) -> (usize, Step) {
    let first = operators.first().map_or(0, |operator| operator.0);
    let mut kinds: Vec<&str> = operators.iter().map(|(_, name)| name.as_str()).collect();
    kinds.dedup();
    let last = operators.last().map_or(0, |operator| operator.0);
    let made = subgraph.operators.get(last).and_then(|operator| operator.outputs.first());
    let made = made.map_or("", |tensor| subgraph.tensors[*tensor].name.as_str());
    let name = format!("[{made}]:{last}");
    (first, Step { kind: kinds.join("+"), name, times: Times::default(), is_delegated })
}

/// Adds the microseconds of a run to its steps, rounded. Returns their sum.
fn fold(steps: &mut Vec<(usize, Step)>, times: impl ExactSizeIterator<Item = f64>) -> f64 {
    steps.truncate(times.len());
    let mut total = 0.0;
    for ((_, step), time) in steps.iter_mut().zip(times) {
        step.times.add(time.round());
        total += time.round();
    }
    total
}

impl Steps {
    /// Returns the rows in run order, each with the microseconds before it.
    fn rows(&self) -> Vec<(f64, &Step)> {
        let clock = self.steps.iter().scan(0.0, |clock, step| {
            let begin = *clock;
            *clock += step.times.average();
            Some((begin, step))
        });
        clock.collect()
    }

    /// Formats all tables, for people or as CSV.
    pub(super) fn text(&self, is_csv: bool) -> String {
        let form = Form::new(&self.steps, is_csv);
        let total: f64 = self.steps.iter().map(|step| step.times.average()).sum();
        let rows = self.rows();
        let mut top = rows.clone();
        top.sort_by(|one, other| other.1.times.average().total_cmp(&one.1.times.average()));
        top.truncate(MOST_TOP);
        let parts = [
            form.title("Run Order"),
            form.steps(&rows, total),
            form.title("Top by Computation Time"),
            form.steps(&top, total),
            format!("Number of nodes executed: {}\n", self.steps.len()),
            form.title("Summary by node type"),
            form.kinds(&self.kinds(), total),
            format!("Timings (microseconds): {}\n", statistics(&self.totals)),
            format!("Memory (bytes): count=0\n{} nodes observed\n", self.steps.len()),
        ];
        parts.concat()
    }

    /// Returns each node type with the number of its steps and their microseconds, the longest first.
    fn kinds(&self) -> Vec<(&str, usize, f64)> {
        let mut kinds: Vec<(&str, usize, f64)> = Vec::new();
        for step in &self.steps {
            let place = kinds.iter().position(|kind| kind.0 == step.kind).unwrap_or_else(|| {
                kinds.push((&step.kind, 0, 0.0));
                kinds.len() - 1
            });
            kinds[place].1 += 1;
            kinds[place].2 += step.times.average();
        }
        kinds.sort_by(|one, other| other.2.total_cmp(&one.2));
        kinds
    }

    /// Returns the message `ModelProfilingData`.
    pub(super) fn message(&self, subgraph: (&str, usize)) -> Message {
        let operators = |is_delegated: bool| {
            let steps = self.steps.iter().enumerate().filter(move |(_, step)| step.is_delegated == is_delegated);
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
        let all = &self.times;
        let time = (all.count > 0).then(|| {
            Message::default()
                .with(1, "first", whole(all.first))
                .with(2, "last", whole(all.last))
                .with(3, "avg", whole(all.average()))
                .with(4, "stddev", all.variance().sqrt() as f32)
                .with(5, "variance", all.variance() as f32)
                .with(6, "min", whole(all.min))
                .with(7, "max", whole(all.max))
                .with(8, "sum", whole(all.sum))
                .with(9, "count", all.count)
        });
        Message::default()
            .with(1, "node_type", self.kind.as_str())
            .with_some(2, "inference_microseconds", time)
            .with(4, "times_called", self.times.count)
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
            let mean = step.times.average();
            sum += mean;
            let numbers = [begin / 1e3, step.times.first / 1e3, mean / 1e3, percent(mean, total), percent(sum, total)];
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
    use attache::model::schema::BuiltinOperator;
    use attache::{DataType, Model, ModelBuilder, OperatorBuilder, ProfiledOperator, TensorBuilder};

    use super::*;

    fn steps() -> Steps {
        let step = |kind: &str, name: &str, times: [f64; 2]| Step {
            kind: kind.into(),
            name: name.into(),
            times: times.into_iter().collect(),
            is_delegated: false,
        };
        let steps = vec![
            step("CONV_2D", "[a,b]:0", [1000.0, 3000.0]),
            step("ADD", "[c]:1", [500.0, 500.0]),
            step("CONV_2D", "[d]:2", [5000.0, 6000.0]),
        ];
        Steps { steps, totals: vec![6500.0, 9500.0] }
    }

    #[test]
    fn runs_are_folded_into_their_statistics() {
        let mut state = 5u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            1e6 + (state >> 50) as f64
        };
        let times: Vec<f64> = (0..1000).map(|_| random()).collect();
        let folded: Times = times.iter().copied().collect();
        let all = crate::measure::timing::Statistics::of(&times).unwrap();
        assert_eq!((folded.count, folded.first, folded.last), (1000, times[0], times[999]));
        assert_eq!((folded.min, folded.max, folded.sum), (all.min, all.max, times.iter().sum::<f64>()));
        assert!((folded.average() - all.mean).abs() < 1e-6 && (folded.variance().sqrt() - all.std).abs() < 1e-6);
        assert_eq!((Times::default().average(), Times::default().variance()), (0.0, 0.0));
    }

    #[test]
    fn profiles_of_runs_are_added_up() {
        let mut builder = ModelBuilder::new("relu");
        let main = builder.subgraph("main");
        let [x, y] = ["x", "y"].map(|name| builder.tensor(main, TensorBuilder::new(name, DataType::Float32, [2])));
        builder.operator(main, OperatorBuilder::new(BuiltinOperator::RELU, [x], [y]));
        builder.inputs(main, &[x]).outputs(main, &[y]);
        let model = Model::from_bytes(builder.finish()).unwrap();
        let subgraph = &model.subgraphs()[0];
        let run = |milliseconds: &[f64]| {
            let mut profile = Profile::default();
            for (index, time) in milliseconds.iter().enumerate() {
                let mut own = ProfiledOperator::default();
                own.operators = vec![(index, "RELU".to_owned())];
                own.milliseconds = *time;
                profile.operators.push(own);
            }
            profile
        };
        let mut profiles = Profiles::new(subgraph);
        profiles.add(&run(&[1.0, 5.0]));
        profiles.add(&run(&[2.0]));
        profiles.add(&run(&[3.0, 7.0]));
        let steps = profiles.finish();
        assert_eq!((steps.steps.len(), steps.totals.clone()), (1, vec![6000.0, 2000.0, 3000.0]));
        assert_eq!(steps.steps[0].times, [1000.0, 2000.0, 3000.0].into_iter().collect());
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

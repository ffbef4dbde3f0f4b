//! Collects the differences of the whole model's outputs from the CPU's over all runs.

use attache::diff::{Difference, Tolerance};
use attache::{Interpreter, TensorInfo};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::incomparable;
use crate::console::Console;
use crate::failure::Failure;

/// The differences of each output in each run (indexed by output, then by run), and the number of runs that
/// exceed the tolerance.
pub(in crate::commands) struct Outputs {
    infos: Vec<TensorInfo>,
    differences: Vec<Vec<Difference>>,
    failed: usize,
}

impl Outputs {
    pub(in crate::commands) fn new(interpreter: &Interpreter) -> Self {
        let infos = interpreter.outputs().to_vec();
        Self { differences: vec![Vec::new(); infos.len()], infos, failed: 0 }
    }

    /// Compares the outputs of a run and adds the differences. Returns whether all of them are within the
    /// tolerance.
    pub(in crate::commands) fn add(
        &mut self,
        reference: &Interpreter,
        test: &Interpreter,
        limit: &Tolerance,
    ) -> Result<bool, Failure> {
        let mut passes = true;
        for (index, info) in self.infos.iter().enumerate() {
            let difference = Difference::of(info.data_type, reference.read_bytes(index)?, test.read_bytes(index)?);
            let difference = difference.ok_or_else(|| incomparable(index, info))?;
            passes &= difference.is_within(limit);
            self.differences[index].push(difference);
        }
        self.failed += usize::from(!passes);
        Ok(passes)
    }

    /// Returns the number of runs in which an output exceeds the tolerance.
    pub(in crate::commands) fn failed(&self) -> usize {
        self.failed
    }

    pub(in crate::commands) fn runs(&self) -> usize {
        self.differences.first().map_or(0, Vec::len)
    }

    /// Sums up the differences of all outputs.
    pub(in crate::commands) fn summary(&self, limit: &Tolerance) -> Summary {
        let lines: Vec<Line> = self.lines(limit).collect();
        let most = |number: fn(&Line) -> f64| lines.iter().map(number).fold(0.0, f64::max);
        let stepped = self.differences.iter().flatten().filter(|difference| difference.steps.is_some());
        Summary {
            largest: most(|line| line.largest),
            mean: most(|line| line.average),
            relative: most(|line| line.relative),
            steps: stepped.map(|difference| difference.largest as u64).max(),
            nonfinite: (
                lines.iter().map(|line| line.nonfinite.0).sum(),
                lines.iter().map(|line| line.nonfinite.1).sum(),
            ),
            passes: lines.iter().all(|line| line.passes),
        }
    }

    fn lines<'a>(&'a self, limit: &'a Tolerance) -> impl Iterator<Item = Line> + 'a {
        self.infos.iter().zip(&self.differences).map(move |(info, runs)| Line::new(&info.name, runs, limit))
    }

    pub(in crate::commands) fn text(&self, console: &Console, limit: &Tolerance) -> String {
        let heading = ["output", "average", "deviation", "largest", "relative", "nonfinite cpu", "delegate", "passes"];
        let row = |line: Line| {
            let mut row = vec![console.name(&line.name)];
            let numbers = [line.average, line.deviation, line.largest, line.relative];
            row.extend(numbers.map(|number| format!("{number:.3e}")));
            row.extend([line.nonfinite.0.to_string(), line.nonfinite.1.to_string()]);
            row.push(if line.passes { "yes" } else { "no" }.to_owned());
            row
        };
        let table = console.table(&heading, &self.lines(limit).map(row).collect::<Vec<_>>());
        format!("{table}\n{} of {} runs within {limit}", self.runs() - self.failed, self.runs())
    }

    pub(in crate::commands) fn json(&self, limit: &Tolerance) -> Vec<Value> {
        let object = |line: Line| {
            json!({
                "name": line.name,
                "average": line.average,
                "standard_deviation": line.deviation,
                "largest": line.largest,
                "relative": line.relative,
                "nonfinite_reference": line.nonfinite.0,
                "nonfinite_test": line.nonfinite.1,
                "passes": line.passes,
            })
        };
        self.lines(limit).map(object).collect()
    }
}

/// The largest of the differences of all outputs in all runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::commands) struct Summary {
    /// Largest absolute difference.
    pub(in crate::commands) largest: f64,
    /// Mean absolute difference of the output where it is largest.
    pub(in crate::commands) mean: f64,
    /// Largest difference relative to the largest value of its output.
    pub(in crate::commands) relative: f64,
    /// Most quantization steps between two elements; `None` if no output is quantized.
    pub(in crate::commands) steps: Option<u64>,
    /// Numbers of values that are not finite on the CPU and on the delegate.
    pub(in crate::commands) nonfinite: (usize, usize),
    /// Whether all outputs are within the tolerance in all runs.
    pub(in crate::commands) passes: bool,
}

/// The summary of one output's differences over all runs.
struct Line {
    name: String,
    /// Mean of the runs' average absolute differences.
    average: f64,
    /// Standard deviation of the runs' average absolute differences.
    deviation: f64,
    /// Largest absolute difference in any run.
    largest: f64,
    /// Largest relative difference in any run. Differences of floats are relative to the largest value of the
    /// output in that run.
    relative: f64,
    /// Numbers of values that are not finite on the CPU and on the delegate, each summed over the runs.
    nonfinite: (usize, usize),
    passes: bool,
}

impl Line {
    fn new(name: &str, runs: &[Difference], limit: &Tolerance) -> Self {
        let averages: Vec<f64> = runs.iter().map(|run| run.average).collect();
        let (average, deviation) = mean_and_deviation(&averages);
        Self {
            name: name.to_owned(),
            average,
            deviation,
            largest: runs.iter().map(|run| run.largest).fold(0.0, f64::max),
            relative: runs.iter().map(Difference::relative).fold(0.0, f64::max),
            nonfinite: (
                runs.iter().map(|run| run.nonfinite_reference).sum(),
                runs.iter().map(|run| run.nonfinite_test).sum(),
            ),
            passes: runs.iter().all(|run| run.is_within(limit)),
        }
    }
}

/// Returns the mean and the standard deviation; both are 0 if there are no numbers.
fn mean_and_deviation(numbers: &[f64]) -> (f64, f64) {
    let mean_of = |sum: f64| sum / numbers.len().max(1) as f64;
    let mean = mean_of(numbers.iter().sum());
    (mean, mean_of(numbers.iter().map(|number| (number - mean).powi(2)).sum()).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_sums_up_the_runs() {
        let run = |average, largest, nonfinite| {
            let mut difference = Difference::default();
            (difference.average, difference.largest, difference.scale) = (average, largest, 2.0);
            (difference.is_float, difference.nonfinite_test) = (true, nonfinite);
            difference
        };
        let line = Line::new("y", &[run(1.0, 4.0, 2), run(3.0, 3.0, 1)], &Tolerance::relative(2.0));
        assert_eq!((line.average, line.deviation, line.largest, line.relative), (2.0, 1.0, 4.0, 2.0));
        assert_eq!((line.nonfinite, line.passes), ((0, 3), true));
        assert!(!Line::new("y", &[run(1.0, 4.0, 2)], &Tolerance::relative(1.9)).passes);
    }
}

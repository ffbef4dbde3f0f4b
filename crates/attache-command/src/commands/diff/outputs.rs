//! Collects the differences of the whole model's outputs from the CPU's over all runs.

use attache::diff::{Difference, Tolerance};
use attache::{Interpreter, TensorInfo};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::incomparable;
use crate::console::{Console, counted};
use crate::failure::Failure;

/// The differences of each output in each run (indexed by output, then by run), and the number of runs that
/// exceed the tolerance.
pub(in crate::commands) struct Outputs {
    infos: Vec<TensorInfo>,
    differences: Vec<Vec<Difference>>,
    failed: usize,
    /// Whether all bits were equal in all runs.
    is_identical: bool,
}

impl Outputs {
    pub(in crate::commands) fn new(interpreter: &Interpreter) -> Self {
        let infos = interpreter.outputs().to_vec();
        Self { differences: vec![Vec::new(); infos.len()], infos, failed: 0, is_identical: true }
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
            let (expected, found) = (reference.read_bytes(index)?, test.read_bytes(index)?);
            self.is_identical &= expected == found;
            let difference = Difference::of(info.data_type, expected, found);
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
        let kinds = [Numbers::Float, Numbers::Quantized, Numbers::Integer];
        let worst = |kind: Numbers| {
            let own = lines.iter().filter(|line| line.numbers == kind && line.largest > 0.0);
            own.max_by(|one, other| one.relative.total_cmp(&other.relative)).map(Line::worst)
        };
        let mut failed: Vec<&Line> = lines.iter().filter(|line| !line.passes).collect();
        failed.sort_by(|one, other| {
            other.contradictions.cmp(&one.contradictions).then(other.relative.total_cmp(&one.relative))
        });
        let rest = failed.len().saturating_sub(1);
        let others = if rest > 0 {
            format!("; so do {}", counted(rest, "other output", "other outputs"))
        } else {
            String::new()
        };
        Summary {
            outputs: lines.len(),
            runs: self.runs(),
            is_identical: self.is_identical,
            worst: kinds.into_iter().filter_map(worst).collect(),
            nonfinite: (
                lines.iter().map(|line| line.nonfinite.0).sum(),
                lines.iter().map(|line| line.nonfinite.1).sum(),
            ),
            contradictions: lines.iter().map(|line| line.contradictions).sum(),
            failure: failed.first().map(|line| line.failure(limit) + &others),
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

/// How far the outputs are from the reference's in all runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::commands) struct Summary {
    /// Number of outputs.
    pub(in crate::commands) outputs: usize,
    /// Number of runs that were compared.
    pub(in crate::commands) runs: usize,
    /// Whether all bits are equal.
    pub(in crate::commands) is_identical: bool,
    /// For each kind of numbers that differ, the output that differs most.
    pub(in crate::commands) worst: Vec<Worst>,
    /// Numbers of values that are not finite on the CPU and on the delegate.
    pub(in crate::commands) nonfinite: (usize, usize),
    /// Number of values that are finite on one side only, or infinite with opposite signs.
    pub(in crate::commands) contradictions: usize,
    /// What exceeds the tolerance; `None` if nothing does.
    pub(in crate::commands) failure: Option<String>,
}

/// The output that differs most.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::commands) struct Worst {
    pub(in crate::commands) output: String,
    pub(in crate::commands) numbers: Numbers,
    /// Largest absolute difference, in quantization steps if the output is quantized.
    pub(in crate::commands) largest: f64,
    /// Mean absolute difference.
    pub(in crate::commands) average: f64,
    /// Largest difference of floats relative to the largest value of the output.
    pub(in crate::commands) relative: f64,
}

/// What an output consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::commands) enum Numbers {
    Float,
    /// 8-bit and 16-bit integers, which are compared in quantization steps.
    Quantized,
    /// Other integers and booleans, which have to be equal.
    Integer,
}

impl Numbers {
    fn of(difference: &Difference) -> Self {
        match (difference.is_float, difference.steps) {
            (true, _) => Self::Float,
            (false, Some(_)) => Self::Quantized,
            (false, None) => Self::Integer,
        }
    }
}

impl Summary {
    /// Describes the differences.
    pub(in crate::commands) fn text(&self) -> String {
        let mut parts: Vec<String> = self.worst.iter().map(|worst| worst.text(self.outputs > 1)).collect();
        if self.nonfinite.0 != self.nonfinite.1 || self.contradictions > 0 {
            let (cpu, here) = self.nonfinite;
            let values = counted(here, "value is", "values are");
            let apart = if self.contradictions > 0 {
                format!(", {} of them on one side only", self.contradictions)
            } else {
                String::new()
            };
            parts.push(format!("{values} not finite, on the CPU {cpu}{apart}"));
        }
        match parts.is_empty() {
            true if self.is_identical => "bit-identical to the CPU".to_owned(),
            true => "equal to the CPU".to_owned(),
            false => parts.join("; "),
        }
    }
}

impl Worst {
    fn text(&self, names_output: bool) -> String {
        let Self { largest, average, relative, .. } = self;
        let place = if names_output { format!(" in {}", shown(&self.output)) } else { String::new() };
        match self.numbers {
            Numbers::Float => {
                format!(
                    "floats up to {largest:.1e}{place} ({relative:.1e} of its largest value), {average:.1e} on average"
                )
            }
            Numbers::Quantized => {
                let steps = counted(*largest as usize, "quantization step", "quantization steps");
                format!("up to {steps}{place}, {average:.3} on average")
            }
            Numbers::Integer => format!("integers up to {largest}{place}"),
        }
    }
}

fn shown(name: &str) -> String {
    format!("\"{}\"", Console::plain().name(name))
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
    /// Number of values that are finite on one side only, or infinite with opposite signs.
    contradictions: usize,
    numbers: Numbers,
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
            contradictions: runs.iter().map(|run| run.contradictions).sum(),
            numbers: runs.first().map_or(Numbers::Float, Numbers::of),
            passes: runs.iter().all(|run| run.is_within(limit)),
        }
    }

    fn worst(&self) -> Worst {
        let Self { largest, average, relative, .. } = *self;
        Worst { output: self.name.clone(), numbers: self.numbers, largest, average, relative }
    }

    /// Says how the output exceeds the tolerance.
    fn failure(&self, limit: &Tolerance) -> String {
        let name = shown(&self.name);
        if self.contradictions > 0 {
            let (cpu, here) = self.nonfinite;
            let values = counted(here, "value that is", "values that are");
            return format!("output {name} has {values} not finite, and on the CPU {cpu}");
        }
        let (far, allowed) = match self.numbers {
            Numbers::Float => {
                (format!("{:.1e} of its largest value", self.relative), format!("{:e} is allowed", limit.relative))
            }
            Numbers::Quantized => {
                let steps = counted(self.largest as usize, "quantization step", "quantization steps");
                (steps, format!("{} is allowed", limit.steps))
            }
            Numbers::Integer => (self.largest.to_string(), "integers have to be equal".to_owned()),
        };
        format!("output {name} differs from the CPU by up to {far}, and {allowed}")
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
    use attache::{DataType, Shape};

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
    #[test]
    fn a_summary_names_the_worst_output_of_each_kind() {
        let info = |name: &str, data_type| TensorInfo::new(name, data_type, Shape::from(&[2][..]));
        let infos = [info("a", DataType::Float32), info("b", DataType::Float32), info("c", DataType::Int8)];
        let floats = |values: [f32; 2]| values.map(f32::to_ne_bytes).concat();
        let run = |tests: [Vec<u8>; 3]| {
            let expected = [floats([1.0, 2.0]), floats([100.0, 1.0]), vec![3, 4]];
            let of = |index: usize| Difference::of(infos[index].data_type, &expected[index], &tests[index]).unwrap();
            let differences = (0..3).map(|index| vec![of(index)]).collect();
            Outputs { infos: infos.to_vec(), differences, failed: 0, is_identical: expected == tests }
        };
        let limit = Tolerance::relative(1e-3);
        let same = run([floats([1.0, 2.0]), floats([100.0, 1.0]), vec![3, 4]]).summary(&limit);
        assert_eq!((same.text().as_str(), same.failure), ("bit-identical to the CPU", None));
        // The float that is off most in absolute terms is off least relative to its output.
        let far = run([floats([1.0, 2.5]), floats([101.0, 1.0]), vec![3, 5]]).summary(&limit);
        let text = far.text();
        assert!(text.starts_with("floats up to 5.0e-1 in \"a\" (2.5e-1 of its largest value)"), "{text}");
        assert!(text.ends_with("up to 1 quantization step in \"c\", 0.500 on average"), "{text}");
        let failure = far.failure.unwrap();
        assert!(failure.contains("output \"c\" differs") && failure.ends_with("so do 2 other outputs"), "{failure}");
        let nan = run([floats([1.0, f32::NAN]), floats([100.0, 1.0]), vec![3, 4]]).summary(&limit);
        assert_eq!(nan.text(), "1 value is not finite, on the CPU 0, 1 of them on one side only");
        assert!(nan.failure.unwrap().starts_with("output \"a\" has 1 value that is not finite"));
    }
}

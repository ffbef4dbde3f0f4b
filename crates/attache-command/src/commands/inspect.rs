//! `attache inspect`: prints what a file contains, and which operators the GPU would run.

use attache::{Cost, Model, model::Subgraph};
use clap::Args;
use serde_json::{Value, json};

use super::Command;
use crate::arguments::entry::Entry;
use crate::arguments::{EntryArguments, ModelArgument, QuantizedName};
use crate::console::{Console, Report, counted};
use crate::failure::Failure;
use crate::inspect::advice::advice;
use crate::inspect::kind::{self, Kind, Kinds};
use crate::inspect::survey::{Answer, Gap, Survey, survey};
use crate::io::source::Source;

#[derive(Args, Debug)]
pub(super) struct Inspect {
    #[command(flatten)]
    model: ModelArgument,
    #[command(flatten)]
    entry: EntryArguments,
    /// How the GPU would compute on quantized tensors
    #[arg(long, default_value = "auto")]
    quantized: QuantizedName,
}

impl Command for Inspect {
    fn run(self, console: &Console) -> Result<Report, Failure> {
        let source = Source::find(&self.model.model)?;
        let model = source.open()?;
        let entry = Entry::new(&model, &source.name, &self.entry)?;
        let survey = survey(&entry, self.quantized)?;
        let text = text(console, &source.name, &model, &survey);
        let advice = advice(&survey.graph, str::to_owned);
        Ok(Report::new(text, answer(&source.name, &entry, &survey, &advice)))
    }
}

/// Returns an input or output of a subgraph as a JSON object.
fn tensor(subgraph: &Subgraph, index: usize) -> Value {
    let tensor = &subgraph.tensors[index];
    json!({
        "name": tensor.name,
        "shape": tensor.shape.extents(),
        "shape_signature": tensor.shape_signature,
        "dtype": tensor.data_type.name().to_lowercase(),
        "quantization": tensor.quantization.as_ref().map(|quantization| json!({
            "scale": quantization.scale, "zero_point": quantization.zero_point, "axis": quantization.axis,
        })),
    })
}

fn answer(name: &str, entry: &Entry<'_>, survey: &Survey, advice: &[String]) -> Value {
    let model = entry.model;
    let subgraph = |subgraph: &Subgraph| {
        let tensors = |indices: &[usize]| indices.iter().map(|index| tensor(subgraph, *index)).collect::<Vec<_>>();
        json!({
            "name": subgraph.name,
            "tensors": subgraph.tensors.len(),
            "operators": subgraph.operators.len(),
            "inputs": tensors(&subgraph.inputs),
            "outputs": tensors(&subgraph.outputs),
        })
    };
    let signature = |signature: &attache::Signature| {
        let names = |side: &[(String, usize)]| side.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        let (inputs, outputs) = (names(&signature.inputs), names(&signature.outputs));
        json!({ "key": signature.key, "subgraph": signature.subgraph, "inputs": inputs, "outputs": outputs })
    };
    let node = |answer: &Answer| {
        let Answer { index, operator, version, delegated, reason, .. } = answer;
        let main = entry.subgraph();
        let kind = kind::of_operator(main, &main.operators[*index]);
        let (operations, bytes, intensity) = numbers(answer.cost);
        json!({
            "index": index,
            "operator": operator,
            "version": version,
            "kind": kind.map(Kind::word),
            "delegated": delegated,
            "reason": reason,
            "operations": operations,
            "bytes": bytes,
            "intensity": intensity,
        })
    };
    let gap = |gap: &Gap| {
        let Gap { subgraph, index, operator, version, reason } = gap;
        json!({ "subgraph": subgraph, "index": index, "operator": operator, "version": version, "reason": reason })
    };
    json!({
        "model": name,
        "bytes": model.bytes().len(),
        "constant_bytes": constant_bytes(model),
        "description": model.description(),
        "kind": Kinds::of(model).json(model),
        "subgraphs": model.subgraphs().iter().map(subgraph).collect::<Vec<_>>(),
        "signatures": model.signatures().iter().map(signature).collect::<Vec<_>>(),
        "metadata": model.metadata().iter().map(|entry| &entry.name).collect::<Vec<_>>(),
        "files": model.associated_files(),
        "cost": Total::of(&survey.answers).json(),
        "nodes": survey.answers.iter().map(node).collect::<Vec<_>>(),
        "gaps": survey.gaps.iter().map(gap).collect::<Vec<_>>(),
        "advice": advice,
    })
}

fn constant_bytes(model: &Model) -> usize {
    let tensors = model.subgraphs().iter().flat_map(|subgraph| &subgraph.tensors);
    tensors.filter_map(|tensor| tensor.constant.as_ref()).map(|constant| constant.bytes.len()).sum()
}

fn text(console: &Console, name: &str, model: &Model, survey: &Survey) -> String {
    let megabytes = |bytes: usize| format!("{:.2} MB", bytes as f64 / 1e6);
    let (size, weights) = (megabytes(model.bytes().len()), megabytes(constant_bytes(model)));
    let mut parts = vec![format!("{}: {size}, {weights} of it weights", console.bold(name))];
    let kinds = Kinds::of(model);
    let facts = [
        ("description", console.excerpt(model.description())),
        ("kind", kinds.text()),
        ("metadata", join(model.metadata().iter().map(|entry| console.name(&entry.name)))),
        ("files", join(model.associated_files().iter().map(|name| console.name(name)))),
        ("signatures", join(model.signatures().iter().map(|signature| console.name(&signature.key)))),
    ];
    parts.extend(facts.iter().filter(|fact| !fact.1.is_empty()).map(|(what, value)| format!("{what}: {value}")));
    parts.extend(model.subgraphs().iter().enumerate().map(|(index, subgraph)| describe(console, index, subgraph)));
    parts.extend(kinds.table(console, model));
    let row = |answer: &Answer| {
        let gpu = if answer.delegated { console.green("yes") } else { console.red("no") };
        let reason = answer.reason.clone().unwrap_or_default();
        let [operations, bytes, intensity] = cells(answer.cost);
        let (index, version) = (answer.index.to_string(), answer.version.to_string());
        vec![index, console.name(&answer.operator), version, operations, bytes, intensity, gpu, reason]
    };
    let rows: Vec<_> = survey.answers.iter().map(row).collect();
    parts.push(console.table(&["node", "operator", "version", "operations", "bytes", "per byte", "GPU?", ""], &rows));
    parts.push(Total::of(&survey.answers).text());
    parts.push(operations(&survey.answers));
    if !survey.gaps.is_empty() {
        parts.push(console.red(&format!("{} operators are not implemented:", survey.gaps.len())));
        parts.extend(survey.gaps.iter().map(|gap| {
            let Gap { subgraph, index, version, reason, .. } = gap;
            let operator = console.name(&gap.operator);
            format!("  subgraph {subgraph}, operator {index}, {operator} version {version}: {reason}")
        }));
    }
    let advice = advice(&survey.graph, |name| console.name(name));
    parts.extend(advice.iter().map(|line| format!("advice: {line}")));
    parts.join("\n")
}

fn join(names: impl IntoIterator<Item = String>) -> String {
    names.into_iter().collect::<Vec<_>>().join(", ")
}

fn describe(console: &Console, index: usize, subgraph: &Subgraph) -> String {
    let tensors = |indices: &[usize]| {
        join(indices.iter().map(|index| {
            let tensor = &subgraph.tensors[*index];
            format!("{} {}{}", console.name(&tensor.name), tensor.data_type.name().to_lowercase(), tensor.shape)
        }))
    };
    let (inputs, outputs) = (tensors(&subgraph.inputs), tensors(&subgraph.outputs));
    let (count, of) = (subgraph.operators.len(), subgraph.tensors.len());
    let (count, of) = (counted(count, "operator", "operators"), counted(of, "tensor", "tensors"));
    format!("subgraph {index}: {count}, {of}\n  inputs: {inputs}\n  outputs: {outputs}")
}

/// Returns the operations, the bytes and the operations per byte of a cost, as far as they are known. An
/// operator that was removed or merged into another one costs nothing.
fn numbers(cost: Option<Cost>) -> (Option<u64>, Option<u64>, Option<f64>) {
    match cost {
        Some(cost) => (cost.operations, cost.bytes, cost.intensity()),
        None => (Some(0), Some(0), None),
    }
}

/// Formats the operations, the bytes and the operations per byte of a cost: `?` for numbers known only at run
/// time, empty for an operator that was removed or merged into another one.
fn cells(cost: Option<Cost>) -> [String; 3] {
    let Some(cost) = cost else { return Default::default() };
    let count = |number: Option<u64>| number.map_or("?".to_owned(), |number| number.to_string());
    let intensity = match cost.intensity() {
        Some(intensity) => format!("{intensity:.2}"),
        None if cost.bytes == Some(0) => "-".to_owned(),
        None => "?".to_owned(),
    };
    [count(cost.operations), count(cost.bytes), intensity]
}

/// The total cost of all operators.
#[derive(Debug, PartialEq)]
struct Total {
    /// The sums of the known operations and of the known bytes.
    cost: Cost,
    /// Number of operators with unknown costs.
    unknown: usize,
}

fn cost(operations: Option<u64>, bytes: Option<u64>) -> Cost {
    let mut cost = Cost::default();
    (cost.operations, cost.bytes) = (operations, bytes);
    cost
}

impl Total {
    fn of(answers: &[Answer]) -> Self {
        let sum = |number: fn(&Cost) -> Option<u64>| {
            let known = answers.iter().filter_map(|answer| number(answer.cost.as_ref()?));
            Some(known.fold(0, u64::saturating_add))
        };
        let cost = cost(sum(|cost| cost.operations), sum(|cost| cost.bytes));
        let is_unknown = |cost: &Cost| cost.operations.is_none() || cost.bytes.is_none();
        let unknown = answers.iter().filter(|answer| answer.cost.as_ref().is_some_and(is_unknown)).count();
        Self { cost, unknown }
    }

    /// Returns the total operations per byte; `None` if the sums are incomplete, because their ratio would be
    /// meaningless.
    fn intensity(&self) -> Option<f64> {
        self.cost.intensity().filter(|_| self.unknown == 0)
    }

    fn json(&self) -> Value {
        let Cost { operations, bytes, .. } = self.cost;
        json!({ "operations": operations, "bytes": bytes, "intensity": self.intensity(), "unknown": self.unknown })
    }

    fn text(&self) -> String {
        let millions = |number: Option<u64>| format!("{:.3}", number.unwrap_or(0) as f64 / 1e6);
        let (operations, bytes) = (millions(self.cost.operations), millions(self.cost.bytes));
        let least = if self.unknown > 0 { "at least " } else { "" };
        let rest = match (self.intensity(), self.unknown) {
            (Some(intensity), _) => format!(", {intensity:.2} operations per byte"),
            (None, 0) => String::new(),
            (None, unknown) => format!("; of {unknown} operators only a run can tell"),
        };
        format!("cost: {least}{operations} million operations, {bytes} MB{rest}")
    }
}

/// States in words how many operators a GPU would run. The text does not state that a GPU is present, because
/// the number does not depend on that.
fn operations(answers: &[Answer]) -> String {
    let (taken, all) = (answers.iter().filter(|answer| answer.delegated).count(), answers.len());
    format!(
        "A GPU would take {taken} of {all} operators, and the CPU the rest; `attache devices` lists the GPUs of this machine, and \
        without one the CPU takes all."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(delegated: bool, cost: Option<Cost>) -> Answer {
        Answer { index: 0, operator: "ADD".into(), version: 1, delegated, reason: None, cost }
    }

    #[test]
    fn what_only_a_run_tells_is_not_nought() {
        let known = cost(Some(3_000_000), Some(1_500_000));
        let unknown = cost(None, Some(500_000));
        assert_eq!(cells(Some(known)), ["3000000", "1500000", "2.00"]);
        assert_eq!(cells(Some(unknown)), ["?", "500000", "?"]);
        assert_eq!(cells(None), ["", "", ""]);
        let whole = Total::of(&[answer(true, Some(known)), answer(true, None)]);
        assert_eq!(whole.text(), "cost: 3.000 million operations, 1.500 MB, 2.00 operations per byte");
        let part = Total::of(&[answer(true, Some(known)), answer(true, Some(unknown))]);
        assert_eq!((part.intensity(), part.unknown), (None, 1));
        let expected = "cost: at least 3.000 million operations, 2.000 MB; of 1 operators only a run can tell";
        assert_eq!(part.text(), expected);
    }

    #[test]
    fn the_sum_promises_no_gpu() {
        let answer = |delegated| answer(delegated, None);
        assert!(operations(&[answer(false)]).starts_with("A GPU would take 0 of 1 operators"));
        assert!(operations(&[answer(true), answer(false)]).starts_with("A GPU would take 1 of 2 operators"));
    }
}

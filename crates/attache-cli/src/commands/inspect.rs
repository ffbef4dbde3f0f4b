//! `attache inspect`: what a file holds, and what the GPU makes of it.

use attache::{Model, model::Subgraph};
use clap::Args;
use serde_json::{Value, json};

use super::Command;
use crate::advice::advice;
use crate::arguments::ModelArgument;
use crate::console::{Console, Report};
use crate::failure::Failure;
use crate::source::Source;
use crate::survey::{Answer, Gap, Survey, survey};

#[derive(Args, Debug)]
pub(super) struct Inspect {
    #[command(flatten)]
    model: ModelArgument,
}

impl Command for Inspect {
    fn run(self, console: &Console) -> Result<Report, Failure> {
        let source = Source::find(&self.model.model)?;
        let model = source.open()?;
        let survey = survey(&model)?;
        let advice = advice(&survey.graph);
        let text = text(console, &source.name, &model, &survey, &advice);
        Ok(Report::new(text, answer(&source.name, &model, &survey, &advice)))
    }
}

/// An input or output as an object of JSON.
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

fn answer(name: &str, model: &Model, survey: &Survey, advice: &[String]) -> Value {
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
        let Answer { index, operator, version, delegated, reason } = answer;
        json!({ "index": index, "operator": operator, "version": version, "delegated": delegated, "reason": reason })
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
        "subgraphs": model.subgraphs().iter().map(subgraph).collect::<Vec<_>>(),
        "signatures": model.signatures().iter().map(signature).collect::<Vec<_>>(),
        "metadata": model.metadata().iter().map(|entry| &entry.name).collect::<Vec<_>>(),
        "files": model.associated_files(),
        "nodes": survey.answers.iter().map(node).collect::<Vec<_>>(),
        "gaps": survey.gaps.iter().map(gap).collect::<Vec<_>>(),
        "advice": advice,
    })
}

fn constant_bytes(model: &Model) -> usize {
    let tensors = model.subgraphs().iter().flat_map(|subgraph| &subgraph.tensors);
    tensors.filter_map(|tensor| tensor.constant.as_ref()).map(|constant| constant.bytes.len()).sum()
}

fn text(console: &Console, name: &str, model: &Model, survey: &Survey, advice: &[String]) -> String {
    let megabytes = |bytes: usize| format!("{:.2} MB", bytes as f64 / 1e6);
    let (size, weights) = (megabytes(model.bytes().len()), megabytes(constant_bytes(model)));
    let mut parts = vec![format!("{}: {size}, {weights} of it weights", console.bold(name))];
    let facts = [
        ("description", model.description().to_owned()),
        ("metadata", join(model.metadata().iter().map(|entry| entry.name.clone()))),
        ("files", join(model.associated_files())),
        ("signatures", join(model.signatures().iter().map(|signature| signature.key.clone()))),
    ];
    parts.extend(facts.iter().filter(|fact| !fact.1.is_empty()).map(|(what, value)| format!("{what}: {value}")));
    parts.extend(model.subgraphs().iter().enumerate().map(|(index, subgraph)| describe(index, subgraph)));
    let row = |answer: &Answer| {
        let gpu = if answer.delegated { console.green("yes") } else { console.red("no") };
        let reason = answer.reason.clone().unwrap_or_default();
        vec![answer.index.to_string(), answer.operator.clone(), answer.version.to_string(), gpu, reason]
    };
    let rows: Vec<_> = survey.answers.iter().map(row).collect();
    parts.push(console.table(&["node", "operator", "version", "GPU", ""], &rows));
    parts.push(operations(&survey.answers));
    if !survey.gaps.is_empty() {
        parts.push(console.red(&format!("{} operators are not implemented:", survey.gaps.len())));
        parts.extend(survey.gaps.iter().map(|gap| {
            let Gap { subgraph, index, operator, version, reason } = gap;
            format!("  subgraph {subgraph}, operator {index}, {operator} version {version}: {reason}")
        }));
    }
    parts.extend(advice.iter().map(|line| format!("advice: {line}")));
    parts.join("\n")
}

fn join(names: impl IntoIterator<Item = String>) -> String {
    names.into_iter().collect::<Vec<_>>().join(", ")
}

fn describe(index: usize, subgraph: &Subgraph) -> String {
    let tensors = |indices: &[usize]| {
        join(indices.iter().map(|index| {
            let tensor = &subgraph.tensors[*index];
            format!("{} {}{}", tensor.name, tensor.data_type.name().to_lowercase(), tensor.shape)
        }))
    };
    let (inputs, outputs) = (tensors(&subgraph.inputs), tensors(&subgraph.outputs));
    let (count, of) = (subgraph.operators.len(), subgraph.tensors.len());
    format!("subgraph {index}: {count} operators, {of} tensors\n  inputs: {inputs}\n  outputs: {outputs}")
}

/// The sum in TensorFlow Lite's words.
fn operations(answers: &[Answer]) -> String {
    let taken = answers.iter().filter(|answer| answer.delegated).count();
    match (taken, answers.len() - taken) {
        (0, left) => format!("No operations will run on the GPU, and all {left} operations will run on the CPU."),
        (taken, left) => {
            format!("{taken} operations will run on the GPU, and the remaining {left} operations will run on the CPU.")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_in_tensorflow_lites_words() {
        let answer = |delegated| Answer { index: 0, operator: "ADD".into(), version: 1, delegated, reason: None };
        let none = "No operations will run on the GPU, and all 1 operations will run on the CPU.";
        assert_eq!(operations(&[answer(false)]), none);
        let some = "1 operations will run on the GPU, and the remaining 1 operations will run on the CPU.";
        assert_eq!(operations(&[answer(true), answer(false)]), some);
    }
}

//! `attache survey`: says of every model below a folder whether it opens, which operators it uses, what of it would not run
//! here or on a GPU, and what to implement next.

mod found;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use attache::Model;
use clap::Args;
use serde_json::{Value, json};

use super::Command;
use crate::arguments::QuantizedName;
use crate::arguments::entry::Entry;
use crate::console::{Console, Report, counted, visible};
use crate::failure::Failure;
use crate::inspect::survey::{Gap, Survey, survey};
use crate::io::files;
use found::models;

#[derive(Args, Debug)]
pub(super) struct SurveyCommand {
    /// The folder with models, in it or in folders below it
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// How the GPU would compute on quantized tensors
    #[arg(long, default_value = "auto")]
    quantized: QuantizedName,
}

impl Command for SurveyCommand {
    fn run(self, console: &Console) -> Result<Report, Failure> {
        let (paths, unreadable) = models(&self.folder)?;
        unreadable.iter().for_each(|folder| console.warn(folder));
        let progress = console.progress(paths.len());
        let file = |path: &PathBuf| {
            let name = path.strip_prefix(&self.folder).unwrap_or(path).display().to_string();
            progress.inc(1);
            Surveyed { name, result: look(path, self.quantized).map_err(|failure| reason(path, failure)) }
        };
        let files: Vec<Surveyed> = paths.iter().map(file).collect();
        progress.finish_and_clear();
        let totals = Totals::of(&files);
        Ok(Report::new(text(console, &files, &totals), answer(&self.folder, &files, &unreadable, &totals)))
    }
}

/// A file, and what was found in it or why it cannot be opened.
struct Surveyed {
    name: String,
    result: Result<Content, String>,
}

/// What a model has.
#[derive(Debug, Default)]
struct Content {
    bytes: usize,
    constant_bytes: usize,
    /// The number of uses of each operator, by name and version, in all subgraphs.
    operators: BTreeMap<(String, i32), usize>,
    gaps: Vec<Gap>,
    /// The number of operators of the first subgraph, and of those that a GPU would run.
    taken: (usize, usize),
    /// The operators of the first subgraph that a GPU would not run: their names and reasons, with the number of uses.
    left: BTreeMap<(String, String), usize>,
}

/// Returns why a file does not open, without its path, which stands before it.
fn reason(path: &Path, failure: Failure) -> String {
    let reason = failure.message.strip_prefix(&format!("{}: ", path.display())).map(str::to_owned);
    reason.unwrap_or(failure.message)
}

/// Opens a model and looks at all of its operators.
fn look(path: &Path, quantized: QuantizedName) -> Result<Content, Failure> {
    files::check(path)?;
    let model = Model::from_path(path)?;
    let name = path.display().to_string();
    let Survey { answers, gaps, .. } = survey(&Entry::first(&model, &name, Vec::new()), quantized)?;
    let mut content = Content { bytes: model.bytes().len(), gaps, ..Content::default() };
    for subgraph in model.subgraphs() {
        for operator in &subgraph.operators {
            *content.operators.entry((operator.code.name(), operator.code.version)).or_default() += 1;
        }
        let constants = subgraph.tensors.iter().filter_map(|tensor| tensor.constant.as_ref());
        content.constant_bytes += constants.map(|constant| constant.bytes.len()).sum::<usize>();
    }
    content.taken = (answers.len(), answers.iter().filter(|answer| answer.delegated).count());
    for answer in answers.into_iter().filter(|answer| !answer.delegated) {
        let reason = answer.reason.unwrap_or_default();
        *content.left.entry((answer.operator, reason)).or_default() += 1;
    }
    Ok(content)
}

/// How many files and operators share something.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Uses {
    files: usize,
    operators: usize,
}

impl Uses {
    fn add(&mut self, operators: usize) {
        *self = Self { files: self.files + 1, operators: self.operators + operators };
    }
}

/// A name with a reason, and the uses of the operators that share both.
type Reasons = BTreeMap<(String, String), Uses>;

/// What all files have together.
#[derive(Default)]
struct Totals {
    /// The versions and uses of each operator.
    operators: BTreeMap<String, (BTreeSet<i32>, Uses)>,
    /// What is not implemented.
    gaps: Reasons,
    /// What a GPU would not run.
    left: Reasons,
}

impl Totals {
    fn of(files: &[Surveyed]) -> Self {
        let mut totals = Self::default();
        for content in files.iter().filter_map(|file| file.result.as_ref().ok()) {
            let mut names: BTreeMap<&str, usize> = BTreeMap::new();
            for ((name, version), uses) in &content.operators {
                totals.operators.entry(name.clone()).or_default().0.insert(*version);
                *names.entry(name).or_default() += uses;
            }
            for (name, uses) in names {
                totals.operators.entry(name.to_owned()).or_default().1.add(uses);
            }
            let mut gaps: BTreeMap<(String, String), usize> = BTreeMap::new();
            for Gap { operator, reason, .. } in &content.gaps {
                *gaps.entry((operator.clone(), reason.clone())).or_default() += 1;
            }
            gaps.into_iter().for_each(|(gap, uses)| totals.gaps.entry(gap).or_default().add(uses));
            content.left.iter().for_each(|(left, uses)| totals.left.entry(left.clone()).or_default().add(*uses));
        }
        totals
    }
}

/// Returns names with reasons, those first that most files need.
fn ranked(reasons: &Reasons) -> Vec<(&(String, String), Uses)> {
    let mut ranked: Vec<_> = reasons.iter().map(|(reason, uses)| (reason, *uses)).collect();
    ranked.sort_by_key(|(_, uses)| std::cmp::Reverse((uses.files, uses.operators)));
    ranked
}

fn answer(folder: &Path, files: &[Surveyed], unreadable: &[String], totals: &Totals) -> Value {
    let reasons = |reasons: &Reasons| {
        let row = |((operator, reason), uses): (&(String, String), Uses)| json!({ "operator": operator, "reason": reason, "files": uses.files, "operators": uses.operators });
        ranked(reasons).into_iter().map(row).collect::<Vec<_>>()
    };
    let operators = totals.operators.iter().map(|(name, (versions, uses))| {
        json!({ "operator": name, "versions": versions, "files": uses.files, "operators": uses.operators })
    });
    json!({
        "folder": files::json(folder),
        "files": files.iter().map(Surveyed::json).collect::<Vec<_>>(),
        "unreadable": unreadable,
        "operators": operators.collect::<Vec<_>>(),
        "next": reasons(&totals.gaps),
        "gpu_next": reasons(&totals.left),
    })
}

impl Surveyed {
    fn json(&self) -> Value {
        let content = match &self.result {
            Ok(content) => content,
            Err(error) => return json!({ "file": self.name, "opens": false, "error": error }),
        };
        let operators = content
            .operators
            .iter()
            .map(|((name, version), uses)| json!({ "operator": name, "version": version, "operators": uses }));
        let gaps = content.gaps.iter().map(|Gap { subgraph, index, operator, version, reason }| {
            json!({ "subgraph": subgraph, "index": index, "operator": operator, "version": version, "reason": reason })
        });
        let left = content
            .left
            .iter()
            .map(|((operator, reason), uses)| json!({ "operator": operator, "reason": reason, "operators": uses }));
        json!({
            "file": self.name,
            "opens": true,
            "error": null,
            "bytes": content.bytes,
            "constant_bytes": content.constant_bytes,
            "operators": operators.collect::<Vec<_>>(),
            "gaps": gaps.collect::<Vec<_>>(),
            "gpu": {
                "operators": content.taken.0, "delegated": content.taken.1, "left": left.collect::<Vec<_>>(),
            },
        })
    }

    fn row(&self, console: &Console) -> Vec<String> {
        let name = console.name(&self.name);
        let content = match &self.result {
            Ok(content) => content,
            Err(_) => return vec![name, console.red("no")],
        };
        let megabytes = |bytes: usize| format!("{:.2}", bytes as f64 / 1e6);
        let gaps = match content.gaps.len() {
            0 => console.green("0"),
            gaps => console.red(&gaps.to_string()),
        };
        let (all, taken) = content.taken;
        let operators = content.operators.values().sum::<usize>().to_string();
        let (bytes, weights) = (megabytes(content.bytes), megabytes(content.constant_bytes));
        vec![name, console.green("yes"), bytes, weights, operators, gaps, format!("{taken} of {all}")]
    }
}

fn text(console: &Console, files: &[Surveyed], totals: &Totals) -> String {
    let opened = files.iter().filter(|file| file.result.is_ok()).count();
    let whole = files.iter().filter(|file| file.result.as_ref().is_ok_and(|content| content.gaps.is_empty())).count();
    let rows: Vec<_> = files.iter().map(|file| file.row(console)).collect();
    let heading = ["file", "opens", "MB", "weights MB", "operators", "gaps", "a GPU takes"];
    let mut parts = vec![console.table(&heading, &rows)];
    let closed = |file: &Surveyed| Some(visible(&format!("{}: {}", file.name, file.result.as_ref().err()?)));
    let closed: Vec<String> = files.iter().filter_map(closed).collect();
    if !closed.is_empty() {
        parts.push(format!("What cannot be opened:\n{}", closed.join("\n")));
    }
    let rows = totals.operators.iter().map(|(name, (versions, uses))| {
        let versions = versions.iter().map(i32::to_string).collect::<Vec<_>>().join(", ");
        vec![console.name(name), versions, uses.files.to_string(), uses.operators.to_string()]
    });
    parts.push(console.table(&["operator", "versions", "files", "uses"], &rows.collect::<Vec<_>>()));
    let reasons = |reasons: &Reasons| {
        let row = |((operator, reason), uses): (&(String, String), Uses)| {
            vec![console.name(operator), uses.files.to_string(), uses.operators.to_string(), visible(reason)]
        };
        let rows: Vec<_> = ranked(reasons).into_iter().map(row).collect();
        console.table(&["operator", "files", "uses", ""], &rows)
    };
    if !totals.left.is_empty() {
        parts.push(format!("What a GPU would leave to the CPU:\n{}", reasons(&totals.left)));
    }
    if !totals.gaps.is_empty() {
        parts.push(format!("What to implement next:\n{}", reasons(&totals.gaps)));
    }
    let count = counted(files.len(), "model", "models");
    parts.push(format!("{count}: {opened} can be opened, {whole} of them without gaps."));
    parts.join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(gaps: &[(&str, &str)], operators: &[(&str, i32, usize)]) -> Surveyed {
        let gap = |(operator, reason): &(&str, &str)| Gap {
            subgraph: 0,
            index: 0,
            operator: (*operator).to_owned(),
            version: 1,
            reason: (*reason).to_owned(),
        };
        let operators = operators.iter().map(|(name, version, uses)| (((*name).to_owned(), *version), *uses));
        let gaps = gaps.iter().map(gap).collect();
        let content = Content { gaps, operators: operators.collect(), ..Content::default() };
        Surveyed { name: "m.tflite".to_owned(), result: Ok(content) }
    }

    #[test]
    fn what_most_files_need_comes_first() {
        let files = [
            content(&[("A", "missing"), ("A", "missing"), ("A", "missing")], &[("A", 1, 3)]),
            content(&[("B", "missing")], &[("B", 1, 2), ("B", 2, 1)]),
            content(&[("B", "missing"), ("C", "missing")], &[("B", 2, 1)]),
            Surveyed { name: "broken.tflite".to_owned(), result: Err("it is cut off".to_owned()) },
        ];
        let totals = Totals::of(&files);
        let names: Vec<_> = ranked(&totals.gaps).into_iter().map(|((name, _), uses)| (name.as_str(), uses)).collect();
        let uses = |files, operators| Uses { files, operators };
        assert_eq!(names, [("B", uses(2, 2)), ("A", uses(1, 3)), ("C", uses(1, 1))]);
        assert_eq!(totals.operators["B"], (BTreeSet::from([1, 2]), uses(2, 4)));
        let text = text(&Console::plain(), &files, &totals);
        assert!(text.contains("What cannot be opened:\nbroken.tflite: it is cut off\n"), "{text}");
        assert!(text.ends_with("4 models: 3 can be opened, 0 of them without gaps."), "{text}");
        let json = answer(Path::new("models"), &files, &[], &totals);
        assert_eq!((&json["files"][3]["opens"], &json["next"][0]["operator"]), (&json!(false), &json!("B")));
    }
}

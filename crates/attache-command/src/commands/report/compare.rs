//! Compares two reports: how much faster each model runs in each configuration in the later one.

use std::path::{Path, PathBuf};

use maud::{Markup, html};
use serde::Serialize;
use serde_json::json;

use super::chart::{Bar, CPU, GPU};
use super::data::{Data, Machine, ModelData};
use super::page::{capital, charted, embedded, key, whole};
use crate::commands::advise::study::Measured;
use crate::commands::bench::compare::speedup;
use crate::console::{Console, Report};
use crate::failure::Failure;
use crate::io::files;

/// The name of the page in its folder.
const PAGE: &str = "comparison.html";

/// A configuration of a model, with its times in the reports that have it.
#[derive(Debug, PartialEq, Serialize)]
struct Line {
    model: String,
    configuration: String,
    before_ms: Option<f64>,
    after_ms: Option<f64>,
    /// The earlier time divided by the later one.
    speedup: Option<f64>,
}

/// What two reports have in common, and in what they differ.
#[derive(Debug, Default, PartialEq, Serialize)]
struct Comparison {
    lines: Vec<Line>,
    /// Models that one report alone has.
    only_before: Vec<String>,
    only_after: Vec<String>,
    /// Differences of the machines, the versions and the models, because of which times say less.
    notes: Vec<String>,
}

/// Compares the reports at two paths: folders, pages or files of JSON. Writes a page into the folder `out`, if there is
/// one.
pub(super) fn compare(console: &Console, before: &Path, after: &Path, out: Option<&Path>) -> Result<Report, Failure> {
    let reports = [read(before)?, read(after)?];
    out.map_or(Ok(()), |folder| super::prepare(folder, &[PAGE]))?;
    let comparison = Comparison::of(&reports[0], &reports[1]);
    let json = json!({
        "before": reports[0].made, "after": reports[1].made, "machines": reports.each_ref().map(|report| &report.machine),
        "versions": reports.each_ref().map(|report| &report.version), "configurations": comparison.lines,
        "only_before": comparison.only_before, "only_after": comparison.only_after, "notes": comparison.notes,
    });
    let mut parts = vec![text(console, [before, after], &comparison.lines)];
    parts.extend(comparison.remarks());
    let mut written = Ok(());
    if let Some(folder) = out {
        let page = whole("Two reports compared – Attaché", &body(&reports, &comparison), &json.to_string());
        let path = folder.join(PAGE);
        written = files::write_all_in(Some(folder), &[(&path, page.as_bytes())]);
        if written.is_ok() {
            parts.push(format!("written: {}", path.display()));
        }
    }
    Ok(Report::new(parts.join("\n"), json).with_failure(written.err()))
}

/// Reads a report: a folder with one, a page or JSON.
fn read(path: &Path) -> Result<Data, Failure> {
    let file = if path.is_dir() { path.join(super::JSON) } else { PathBuf::from(path) };
    let text = files::read_text(&file)?;
    let json = if text.trim_start().starts_with('{') { Some(text.as_str()) } else { embedded(&text) };
    let missing =
        || Failure::usage("this is no report: there is no data in it; name the folder, page or JSON of a report");
    json.ok_or_else(missing).and_then(Data::read).map_err(|failure| failure.at(file.display()))
}

impl Comparison {
    fn of(before: &Data, after: &Data) -> Self {
        let mut comparison = Self { notes: machines(before, after), ..Self::default() };
        let pairs = pairs(&before.models, &after.models);
        for (index, later) in after.models.iter().enumerate() {
            let title = numbered(&after.models, index);
            let Some(earlier) = pairs[index].map(|index| &before.models[index]) else {
                comparison.only_after.push(title);
                continue;
            };
            if earlier.hash != later.hash {
                let lengths = (earlier.bytes, later.bytes);
                let text = format!(
                    "{title}: the files differ ({} and {} bytes), so that times say nothing of versions",
                    lengths.0, lengths.1
                );
                comparison.notes.push(text);
            }
            comparison.lines.extend(lines(&title, earlier, later));
        }
        let alone = (0..before.models.len()).filter(|index| !pairs.contains(&Some(*index)));
        comparison.only_before = alone.map(|index| numbered(&before.models, index)).collect();
        comparison
    }

    /// Returns what there is to say beside times.
    fn remarks(&self) -> Vec<String> {
        let alone = |which: &str, models: &[String]| {
            models.iter().map(|model| format!("only in the {which} report: {model}")).collect::<Vec<_>>()
        };
        [alone("earlier", &self.only_before), alone("later", &self.only_after), self.notes.clone()].concat()
    }
}

/// Returns for each later model the index of the earlier one with the same title and content, or else the first with the
/// same title that is left.
fn pairs(before: &[ModelData], after: &[ModelData]) -> Vec<Option<usize>> {
    let mut pairs: Vec<Option<usize>> = vec![None; after.len()];
    for needs_content in [true, false] {
        for (index, later) in after.iter().enumerate() {
            let fits =
                |earlier: &ModelData| earlier.title == later.title && (!needs_content || earlier.hash == later.hash);
            let free = (0..before.len()).find(|own| fits(&before[*own]) && !pairs.contains(&Some(*own)));
            pairs[index] = pairs[index].or(free);
        }
    }
    pairs
}

/// Returns the title of a model, with a number if others of the report have the same.
fn numbered(models: &[ModelData], index: usize) -> String {
    let title = &models[index].title;
    match models[..index].iter().filter(|other| other.title == *title).count() {
        0 => title.clone(),
        before => format!("{title} ({})", before + 1),
    }
}

/// Returns the configurations of both models: those of the later, then those that the earlier alone has.
fn lines(title: &str, earlier: &ModelData, later: &ModelData) -> Vec<Line> {
    let find = |model: &ModelData, name: &str| -> Option<Measured> {
        model.study.configurations.iter().find(|measured| measured.name == name).cloned()
    };
    let line = |name: &str| {
        let [before_ms, after_ms] = [earlier, later].map(|model| find(model, name).and_then(|it| it.run_ms));
        let speedup = before_ms.zip(after_ms).and_then(|(before, after)| speedup(before, after));
        Line { model: title.to_owned(), configuration: name.to_owned(), before_ms, after_ms, speedup }
    };
    let names = later.study.configurations.iter().map(|measured| measured.name.as_str());
    let alone = earlier.study.configurations.iter().map(|measured| measured.name.as_str());
    names.chain(alone.filter(|name| find(later, name).is_none())).map(line).collect()
}

/// Returns in what the machines, the measured adapters and the versions of two reports differ.
fn machines(before: &Data, after: &Data) -> Vec<String> {
    let texts = |Machine { system, cpu, threads, .. }: &Machine| {
        [("system", system.clone()), ("CPU", cpu.clone()), ("CPU threads", threads.to_string())]
    };
    let others = |data: &Data| {
        let adapters = &data.machine.adapters;
        let adapters = if adapters.is_empty() { "none".to_owned() } else { adapters.join(", ") };
        [("measured adapters", adapters), ("version of Attaché", data.version.clone())]
    };
    let differ = |((what, before), (_, after)): ((&str, String), (&str, String))| {
        (before != after).then(|| format!("{what}: {before} before, {after} after"))
    };
    let mut notes: Vec<String> =
        texts(&before.machine).into_iter().zip(texts(&after.machine)).filter_map(differ).collect();
    if !notes.is_empty() {
        notes.insert(0, "the machines differ, so that times say little of versions".to_owned());
    }
    notes.extend(others(before).into_iter().zip(others(after)).filter_map(differ));
    notes
}

fn milliseconds(ms: Option<f64>) -> String {
    ms.map_or("-".to_owned(), |ms| format!("{ms:.3}"))
}

fn ratio(line: &Line) -> String {
    line.speedup.map_or("-".to_owned(), |speedup| format!("{speedup:.2}×"))
}

fn text(console: &Console, files: [&Path; 2], lines: &[Line]) -> String {
    let row = |line: &Line| {
        let [before, after] = [line.before_ms, line.after_ms].map(milliseconds);
        vec![console.name(&line.model), line.configuration.clone(), before, after, ratio(line)]
    };
    let rows: Vec<_> = lines.iter().map(row).collect();
    let table = console.table(&["model", "configuration", "ms before", "ms after", "speedup"], &rows);
    let [before, after] = files.map(|file| file.display().to_string());
    match rows.is_empty() {
        true => format!("{before} and {after} have no model in common"),
        false => format!("{before}, then {after}\n{table}"),
    }
}

/// Returns the bars of a configuration: before and after.
fn bars_of(line: &Line) -> Vec<Bar> {
    let bar = |when: &str, ms: Option<f64>, color, note: String| {
        ms.map(|ms| Bar {
            label: format!("{}, {when}", line.configuration),
            parts: vec![(ms, color)],
            spread: None,
            note,
            is_strong: when == "after",
        })
    };
    let after = format!("{} ms {}", milliseconds(line.after_ms), ratio(line));
    let before = format!("{} ms", milliseconds(line.before_ms));
    [bar("before", line.before_ms, CPU, before), bar("after", line.after_ms, GPU, after)]
        .into_iter()
        .flatten()
        .collect()
}

fn body(reports: &[Data; 2], comparison: &Comparison) -> Markup {
    let mut models: Vec<&str> = comparison.lines.iter().map(|line| line.model.as_str()).collect();
    models.dedup();
    let own = |model: &str| comparison.lines.iter().filter(|line| line.model == model).collect::<Vec<_>>();
    let remarks = comparison.remarks();
    html! {
        header {
            h1 { "Two reports compared" }
            @for (which, report) in ["Before", "After"].iter().zip(reports) {
                p.quiet { (which) ": " (report.made) " · Attaché " (report.version) " · " (report.machine.cpu) }
            }
        }
        main {
            @if !remarks.is_empty() {
                section { h2 { "What differs" } ul { @for remark in &remarks { li { (capital(remark)) "." } } } }
            }
            @for model in models {
                section {
                    h2 { (model) }
                    @let bars: Vec<Bar> = own(model).into_iter().flat_map(bars_of).collect();
                    (charted(&bars, "ms", &format!("Milliseconds a run of {model}, before and after")))
                    p.quiet { (key("cpu", "before")) (key("gpu", "after")) "× is the earlier time divided by the later one." }
                    @for line in own(model) {
                        @if line.before_ms.is_none() || line.after_ms.is_none() {
                            @let which = if line.before_ms.is_some() { "earlier" } else { "later" };
                            p.quiet { "Timed in the " (which) " report alone: " (line.configuration) "." }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::data::tests::data;
    use super::*;

    fn speedups(comparison: &Comparison) -> Vec<(&str, f64)> {
        let first = comparison.lines.iter().filter(|line| line.configuration.starts_with("CPU, 4"));
        first.map(|line| (line.model.as_str(), line.speedup.unwrap())).collect()
    }

    #[test]
    fn models_of_one_name_are_paired_by_their_content() {
        let before = data(&[("m", "a", 10.0), ("m", "b", 40.0), ("x", "c", 1.0)]);
        let after = data(&[("m", "b", 20.0), ("m", "a", 10.0), ("y", "d", 1.0)]);
        let comparison = Comparison::of(&before, &after);
        assert_eq!(speedups(&comparison), [("m", 2.0), ("m (2)", 1.0)]);
        assert_eq!(
            (comparison.only_before.as_slice(), comparison.only_after.as_slice()),
            (&["x".to_owned()][..], &["y".to_owned()][..])
        );
        assert!(comparison.notes.is_empty(), "{:?}", comparison.notes);
    }

    #[test]
    fn another_file_of_the_same_name_is_said() {
        let comparison = Comparison::of(&data(&[("m", "a", 10.0)]), &data(&[("m", "b", 5.0)]));
        assert_eq!(speedups(&comparison), [("m", 2.0)]);
        assert!(comparison.notes[0].starts_with("m: the files differ"), "{:?}", comparison.notes);
    }

    #[test]
    fn what_one_report_alone_has_is_shown() {
        let (before, mut after) = (data(&[("m", "a", 10.0)]), data(&[("m", "a", 5.0)]));
        after.models[0].study.configurations[1].name = "CPU, 8 threads".to_owned();
        let comparison = Comparison::of(&before, &after);
        let found: Vec<(&str, bool, bool)> = comparison
            .lines
            .iter()
            .map(|line| (line.configuration.as_str(), line.before_ms.is_some(), line.after_ms.is_some()))
            .collect();
        let expected =
            [("CPU, 4 threads", true, true), ("CPU, 8 threads", false, true), ("CPU, 1 thread", true, false)];
        assert_eq!(found, expected);
        let page = body(&[before, after], &comparison).into_string();
        assert!(page.contains("Timed in the earlier report alone: CPU, 1 thread."), "{page}");
    }

    #[test]
    fn differences_of_machines_reach_the_page() {
        let (before, mut after) = (data(&[("m", "a", 10.0)]), data(&[("m", "a", 5.0)]));
        after.machine.threads = 8;
        after.machine.adapters.push("Fast 1".to_owned());
        after.version = "2".to_owned();
        let comparison = Comparison::of(&before, &after);
        let page = body(&[before, after], &comparison).into_string();
        for part in [
            "he machines differ, so",
            "CPU threads: 4 before, 8 after",
            "none before, Fast 1 after",
            "Attaché: 1 before",
        ] {
            assert!(comparison.notes.iter().any(|note| note.contains(part)) && page.contains(part), "{part}: {page}");
        }
        let alone = Comparison::of(
            &data(&[]),
            &Data { machine: Machine { adapters: vec!["A".to_owned()], ..data(&[]).machine }, ..data(&[]) },
        );
        assert_eq!(alone.notes, ["measured adapters: none before, A after"], "the machine is the same");
    }
}

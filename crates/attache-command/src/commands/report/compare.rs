//! Compares two reports: how much faster each model runs in each way in the later one.

use std::path::{Path, PathBuf};

use maud::{Markup, html};
use serde::Serialize;
use serde_json::json;

use super::chart::{Bar, CPU, GPU, WIDTHS, bars};
use super::data::{Data, ModelData};
use super::page::{data_of, whole};
use crate::commands::bench::compare::speedup;
use crate::console::{Console, Report};
use crate::failure::Failure;
use crate::io::files;

/// A way of a model in both reports.
#[derive(Debug, PartialEq, Serialize)]
struct Line {
    model: String,
    way: String,
    before_ms: f64,
    after_ms: f64,
    /// The earlier time divided by the later one.
    speedup: Option<f64>,
}

/// Compares the reports at two paths: folders, pages or files of JSON. Writes a page into the folder `out`, if there is
/// one.
pub(super) fn compare(console: &Console, before: &Path, after: &Path, out: Option<&Path>) -> Result<Report, Failure> {
    let reports = [read(before)?, read(after)?];
    let lines = lines(&reports[0], &reports[1]);
    let alone = [alone(&reports[0], &reports[1]), alone(&reports[1], &reports[0])];
    let json = json!({
        "before": reports[0].made, "after": reports[1].made, "machines": reports.each_ref().map(|report| &report.machine),
        "ways": lines, "only_before": alone[0], "only_after": alone[1],
    });
    let mut parts = vec![text(console, [before, after], &lines)];
    for (which, models) in ["earlier", "later"].into_iter().zip(&alone) {
        parts.extend(models.iter().map(|model| format!("only in the {which} one: {}", console.name(model))));
    }
    if reports[0].machine.cpu != reports[1].machine.cpu {
        parts.push("the machines differ, so that times say little of versions".to_owned());
    }
    if let Some(folder) = out {
        let page = whole("Attaché: two reports compared", &body(&reports, &lines), &json.to_string());
        let path = folder.join("comparison.html");
        files::write_all_in(Some(folder), &[(&path, page.as_bytes())])?;
        parts.push(format!("written: {}", path.display()));
    }
    Ok(Report::new(parts.join("\n"), json))
}

/// Reads a report: a folder with one, a page or JSON.
fn read(path: &Path) -> Result<Data, Failure> {
    let file = if path.is_dir() { path.join(super::JSON) } else { PathBuf::from(path) };
    data_of(&files::read_text(&file)?).map_err(|failure| failure.at(file.display()))
}

fn lines(before: &Data, after: &Data) -> Vec<Line> {
    let pair = |later: &ModelData| {
        let earlier = before.models.iter().find(|earlier| earlier.title == later.title)?;
        let line = |way: &crate::commands::advise::study::Measured| {
            let before_ms = earlier.study.ways.iter().find(|other| other.name == way.name)?.run_ms?;
            let after_ms = way.run_ms?;
            let (model, way) = (later.title.clone(), way.name.clone());
            Some(Line { model, way, before_ms, after_ms, speedup: speedup(before_ms, after_ms) })
        };
        Some(later.study.ways.iter().filter_map(line).collect::<Vec<_>>())
    };
    after.models.iter().filter_map(pair).flatten().collect()
}

/// Returns the models of one report that the other does not have.
fn alone(one: &Data, other: &Data) -> Vec<String> {
    let known = |title: &String| other.models.iter().any(|model| model.title == *title);
    one.models.iter().map(|model| model.title.clone()).filter(|title| !known(title)).collect()
}

fn ratio(line: &Line) -> String {
    line.speedup.map_or("-".to_owned(), |speedup| format!("{speedup:.2}×"))
}

fn text(console: &Console, files: [&Path; 2], lines: &[Line]) -> String {
    let row = |line: &Line| {
        let [before, after] = [line.before_ms, line.after_ms].map(|ms| format!("{ms:.3}"));
        vec![console.name(&line.model), line.way.clone(), before, after, ratio(line)]
    };
    let rows: Vec<_> = lines.iter().map(row).collect();
    let table = console.table(&["model", "way", "ms before", "ms after", "speed"], &rows);
    let [before, after] = files.map(|file| file.display().to_string());
    if rows.is_empty() {
        format!("{before} and {after} have no model and way in common")
    } else {
        format!("{before}, then {after}\n{table}")
    }
}

fn body(reports: &[Data; 2], lines: &[Line]) -> Markup {
    let mut models: Vec<&str> = lines.iter().map(|line| line.model.as_str()).collect();
    models.dedup();
    let bars_of = |model: &str| {
        let own = lines.iter().filter(|line| line.model == model);
        own.flat_map(|line| {
            let bar = |when: &str, ms: f64, color, is_strong, note: String| Bar {
                label: format!("{}, {when}", line.way),
                parts: vec![(ms, color)],
                spread: None,
                note,
                is_strong,
            };
            let after = format!("{:.3} ms {}", line.after_ms, ratio(line));
            [
                bar("before", line.before_ms, CPU, false, format!("{:.3} ms", line.before_ms)),
                bar("after", line.after_ms, GPU, true, after),
            ]
        })
        .collect::<Vec<_>>()
    };
    html! {
        header {
            h1 { "Two reports compared" }
            @for (which, report) in ["Before", "After"].iter().zip(reports) {
                p.quiet { (which) ": " (report.made) " · Attaché " (report.version) " · " (report.machine.cpu) }
            }
        }
        main { @for model in models {
            section {
                h2 { (model) }
                @let bars_of = bars_of(model);
                @let [narrow, wide] = WIDTHS.map(|width| maud::PreEscaped(bars(&bars_of, "ms", width)));
                div.wide { (wide) } div.narrow { (narrow) }
            }
        } }
    }
}

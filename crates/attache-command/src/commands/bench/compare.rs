//! Compares two measurements: the speedup of the later one, as a whole and by operator.
//!
//! Versions may fuse kernels differently, so times are compared by groups: operators that share a dispatch in
//! either measurement belong to one group.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::operator::{Operator, label};
use super::profile::{Dispatch, Profile};
use crate::console::{Console, Report};
use crate::failure::Failure;
use crate::io::files;
use crate::measure::timing::Statistics;

/// The parts of `bench --json` that are compared.
#[derive(Deserialize)]
struct Answer {
    model: String,
    init_ms: f64,
    first_ms: f64,
    e2e_ms: Statistics,
    pipelined_ms: Statistics,
    profile: Option<Profile>,
}

/// One of the measured times, in both measurements.
#[derive(Debug, PartialEq, Serialize)]
struct Time {
    name: &'static str,
    before_ms: f64,
    after_ms: f64,
    /// The earlier measurement's time divided by the later one's; `None` if the later one is 0.
    speedup: Option<f64>,
}

/// A group of operators that share dispatches, with their dispatches and GPU times per run in both
/// measurements.
#[derive(Debug, PartialEq, Serialize)]
struct Group {
    operators: Vec<Operator>,
    before_dispatches: usize,
    after_dispatches: usize,
    before_us: f64,
    after_us: f64,
    speedup: Option<f64>,
}

/// Compares the measurements in two files, which `bench` wrote with `--out` or printed with `--json`.
pub(super) fn compare(console: &Console, before: &Path, after: &Path) -> Result<Report, Failure> {
    let answers = [read(before)?, read(after)?];
    let times = times(&answers);
    let same = answers[0].model == answers[1].model;
    let groups = match answers.each_ref().map(|answer| answer.profile.as_ref()) {
        [Some(before), Some(after)] if same => groups(&before.dispatches, &after.dispatches),
        _ => Vec::new(),
    };
    let names = answers.each_ref().map(|answer| &answer.model);
    let json = json!({ "models": names, "times": times, "operators": groups });
    Ok(Report::new(text(console, [before, after], &answers, &times, &groups), json))
}

/// Reads the measurement in a file.
fn read(path: &Path) -> Result<Answer, Failure> {
    serde_json::from_str(&files::read_text(path)?).map_err(|error| {
        let reason = format!("this is no answer of bench, as --out and --json give it: {error}");
        let remedy = "`attache bench MODEL --out FILE` makes one";
        Failure::usage(format!("{reason}; {remedy}")).at(path.display())
    })
}

pub(in crate::commands) fn speedup(before: f64, after: f64) -> Option<f64> {
    (after > 0.0).then(|| before / after)
}

fn times([before, after]: &[Answer; 2]) -> Vec<Time> {
    let gpu = |answer: &Answer| answer.profile.as_ref().map(|profile| profile.gpu_us / 1e3);
    let pairs = [
        ("init", Some((before.init_ms, after.init_ms))),
        ("first run", Some((before.first_ms, after.first_ms))),
        ("end to end", Some((before.e2e_ms.median, after.e2e_ms.median))),
        ("pipelined", Some((before.pipelined_ms.median, after.pipelined_ms.median))),
        ("GPU, profiled", gpu(before).zip(gpu(after))),
    ];
    let time = |(name, pair): (&'static str, Option<(f64, f64)>)| {
        let (before_ms, after_ms) = pair?;
        Some(Time { name, before_ms, after_ms, speedup: speedup(before_ms, after_ms) })
    };
    pairs.into_iter().filter_map(time).collect()
}

/// Divides the operators of both measurements into groups and returns those first whose time changed most.
fn groups(before: &[Dispatch], after: &[Dispatch]) -> Vec<Group> {
    let mut families = Families::default();
    before.iter().chain(after).for_each(|dispatch| families.join(&dispatch.operators));
    let mut groups: BTreeMap<Option<usize>, Group> = BTreeMap::new();
    for (side, dispatch) in before.iter().map(|dispatch| (0, dispatch)).chain(after.iter().map(|it| (1, it))) {
        let family = dispatch.operators.first().map(|operator| families.head(operator.index));
        let group = groups.entry(family).or_insert_with(|| Group {
            operators: Vec::new(),
            before_dispatches: 0,
            after_dispatches: 0,
            before_us: 0.0,
            after_us: 0.0,
            speedup: None,
        });
        let (count, us) = match side {
            0 => (&mut group.before_dispatches, &mut group.before_us),
            _ => (&mut group.after_dispatches, &mut group.after_us),
        };
        *count += 1;
        *us += dispatch.us;
        group.operators.extend_from_slice(&dispatch.operators);
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    for group in &mut groups {
        group.operators.sort_by_key(|operator| operator.index);
        group.operators.dedup_by_key(|operator| operator.index);
        group.speedup = speedup(group.before_us, group.after_us);
    }
    let change = |group: &Group| (group.after_us - group.before_us).abs();
    groups.sort_by(|a, b| change(b).total_cmp(&change(a)));
    groups
}

/// Disjoint sets of operators (union-find), by operator index: each operator is mapped to another one of its
/// set, up to the head of the set, which is mapped to itself or not at all.
#[derive(Default)]
struct Families(BTreeMap<usize, usize>);

impl Families {
    fn head(&mut self, of: usize) -> usize {
        let next = |families: &BTreeMap<usize, usize>, of: usize| families.get(&of).copied().unwrap_or(of);
        let (mut head, mut at) = (of, of);
        while next(&self.0, head) != head {
            head = next(&self.0, head);
        }
        // Path compression: later lookups find the head at once.
        while at != head {
            at = self.0.insert(at, head).unwrap_or(head);
        }
        head
    }

    /// Joins the sets of all operators of a dispatch into one set.
    fn join(&mut self, operators: &[Operator]) {
        let Some(first) = operators.first() else { return };
        for operator in operators {
            let (head, other) = (self.head(first.index), self.head(operator.index));
            self.0.insert(head.max(other), head.min(other));
        }
    }
}

fn text(console: &Console, files: [&Path; 2], answers: &[Answer; 2], times: &[Time], groups: &[Group]) -> String {
    let [before, after] = files.map(|file| file.display().to_string());
    let ratio = |speedup: Option<f64>| speedup.map_or("-".to_owned(), |speedup| format!("{speedup:.2}×"));
    let row = |time: &Time| {
        let [before, after] = [time.before_ms, time.after_ms].map(|ms| format!("{ms:.3}"));
        vec![time.name.to_owned(), before, after, ratio(time.speedup)]
    };
    let rows: Vec<Vec<String>> = times.iter().map(row).collect();
    let names = answers.each_ref().map(|answer| console.bold(&answer.model));
    let mut parts = vec![format!("{}: {before}, then {after}", names[0])];
    parts.push(console.table(&["ms", "before", "after", "speed"], &rows));
    if names[0] != names[1] {
        parts.push(format!("the later one is of another model, {}: operators are not compared", names[1]));
    } else if groups.is_empty() {
        parts.push("operators are compared where both were measured with --profile".to_owned());
    } else {
        let row = |group: &Group| {
            let [before, after] = [group.before_us, group.after_us].map(|us| format!("{us:.1}"));
            let dispatches = format!("{} → {}", group.before_dispatches, group.after_dispatches);
            vec![label(&group.operators), dispatches, before, after, ratio(group.speedup)]
        };
        let rows: Vec<Vec<String>> = groups.iter().map(row).collect();
        parts.push(console.table(&["operators", "dispatches", "µs before", "µs after", "speed"], &rows));
    }
    parts.join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::profile::tests::profile;
    use super::*;

    fn answer(profile: Profile) -> serde_json::Value {
        let times = json!({ "median": 2.0, "p5": 1.0, "p95": 3.0, "min": 1.0, "mean": 2.0 });
        json!({ "model": "m", "init_ms": 5.0, "first_ms": 3.0, "e2e_ms": times, "pipelined_ms": times, "profile": profile })
    }

    #[test]
    fn the_same_is_as_fast() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        std::fs::write(&path, answer(profile()).to_string()).unwrap();
        let report = compare(&Console::new(false), &path, &path).unwrap();
        assert_eq!(report.text.matches("1.00×").count(), 5 + 2, "{}", report.text);
        assert_eq!(report.json["operators"][0]["speedup"], 1.0);
    }

    #[test]
    fn operators_of_other_models_are_not_compared() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = ["a.json", "b.json"].map(|name| folder.path().join(name));
        let mut json = answer(profile());
        std::fs::write(&one, json.to_string()).unwrap();
        json["model"] = json!("n");
        std::fs::write(&other, json.to_string()).unwrap();
        let report = compare(&Console::new(false), &one, &other).unwrap();
        assert!(report.text.contains("another model, n"), "{}", report.text);
        assert_eq!((report.text.matches("1.00×").count(), &report.json["operators"]), (5, &json!([])));
    }

    #[test]
    fn operators_that_share_a_dispatch_belong_together() {
        let dispatch = |operators: &[usize], us: f64| {
            let operators = operators.iter().map(|index| Operator { index: *index, name: "ADD".to_owned() }).collect();
            Dispatch { operators, us, ..profile().dispatches[0].clone() }
        };
        let before = [dispatch(&[0], 4.0), dispatch(&[1], 4.0), dispatch(&[2], 1.0), dispatch(&[], 1.0)];
        let after = [dispatch(&[0, 1], 2.0), dispatch(&[2], 2.0), dispatch(&[], 1.0)];
        let groups = groups(&before, &after);
        let found: Vec<_> = groups.iter().map(|group| (label(&group.operators), group.speedup.unwrap())).collect();
        assert_eq!(found, [("0 ADD, 1 ADD".to_owned(), 4.0), ("2 ADD".to_owned(), 0.5), ("-".to_owned(), 1.0)]);
        assert_eq!((groups[0].before_dispatches, groups[0].after_dispatches), (2, 1));
    }

    #[test]
    fn other_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        assert!(read(&path).err().unwrap().message.contains("a.json"), "there is none");
        for text in ["", "no JSON", "[]", "{\"model\": \"m\"}", "\u{0}"] {
            std::fs::write(&path, text).unwrap();
            let failure = read(&path).err().unwrap();
            assert!(failure.message.contains("no answer of bench"), "{}", failure.message);
        }
        assert_eq!(speedup(1.0, 0.0), None);
    }
}

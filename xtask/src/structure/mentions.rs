//! Checks that an operator is mentioned in at most two lines outside the file that defines it.
//!
//! A mention is a line of hand-written source, except tests and comments, with the operator's module path,
//! `BuiltinOperator::X`, or TensorFlow Lite's name of the operator in a string. Two are allowed: the `mod` line and the
//! row of the table in `attache-ops/src/operators/mod.rs`.

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};

use crate::source::{Source, sources, words};

/// Maximum number of lines that mention an operator outside its own file.
const MOST: usize = 2;

/// The folder of the files that define the operators.
const OPERATORS: &str = "crates/attache-ops/src/operators/";

/// Beginnings of paths of files whose mentions are not counted, each with the reason.
static EXCEPTIONS: &[(&str, &str)] = &[
    ("crates/attache-abi/src/options/", "translates the options of operators to and from structs of C"),
    ("crates/attache/src/zoo/", "built-in models are lists of operators"),
];

/// Returns the operators with too many mentions, each with the places of its mentions.
pub(super) fn find() -> Result<Vec<String>> {
    let sources = sources()?;
    let mut found = Vec::new();
    for (name, own) in own_files(&sources)? {
        let places = mentions(name, own, &sources);
        if places.len() > MOST {
            found.push(format!("{name}: {}", places.join(", ")));
        }
    }
    Ok(found)
}

/// Returns each operator's name with the file that defines it.
fn own_files(sources: &[Source]) -> Result<BTreeMap<&str, &Source>> {
    let mut found = BTreeMap::<&str, &Source>::new();
    for source in sources.iter().filter(|source| source.path.starts_with(OPERATORS)) {
        for name in defined(&source.code) {
            if let Some(other) = found.insert(name, source) {
                bail!("both {} and {} define {name}", source.path, other.path);
            }
        }
    }
    ensure!(!found.is_empty(), "{OPERATORS} defines no operator");
    Ok(found)
}

/// Returns an iterator over the names of the operators that a file defines.
fn defined(code: &str) -> impl Iterator<Item = &str> {
    let named = |start: &'static str, end: &'static str| {
        code.split(start).skip(1).filter_map(move |rest| rest.split_once(end)).map(|(name, _)| name)
    };
    let names = named("Code::Builtin(BuiltinOperator::", ")").chain(named("Code::Custom(\"", "\")"));
    names.filter(|name| name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_'))
}

/// Returns the lines that mention an operator outside its own file, as file and line number.
fn mentions(name: &str, own: &Source, sources: &[Source]) -> Vec<String> {
    let is_exempt = |path: &str| EXCEPTIONS.iter().any(|(prefix, _)| path.starts_with(prefix));
    // An operator that is too large for one file has a folder of the same stem.
    let own_folder = format!("{OPERATORS}{}/", own.stem());
    let is_own = |path: &str| path == own.path || path.starts_with(&own_folder);
    let others = sources.iter().filter(|source| !is_own(&source.path) && !is_exempt(&source.path));
    let builtin = format!("BuiltinOperator::{name}");
    others
        .flat_map(|source| {
            let lines = source.code.lines().zip(source.bare.lines()).enumerate();
            let found = lines.filter(|(_, (code, bare))| {
                let in_string = words(code, name).count() > words(bare, name).count();
                let in_path = source.path.starts_with(OPERATORS) && names_module(bare, own.stem());
                words(bare, &builtin).count() > 0 || in_string || in_path
            });
            found.map(|(index, _)| format!("{}:{}", source.path, index + 1)).collect::<Vec<_>>()
        })
        .collect()
}

/// Whether a line declares the module `stem` or contains a path through the module `stem` of the same crate.
fn names_module(bare: &str, stem: &str) -> bool {
    let declared = words(bare, &format!("mod {stem}")).any(|start| bare[start + 4 + stem.len()..].starts_with(';'));
    let through = words(bare, stem).any(|start| {
        let before = &bare[..start];
        let foreign = before.ends_with("::") && !["crate::", "self::", "super::"].iter().any(|it| before.ends_with(it));
        bare[start + stem.len()..].starts_with("::") && !foreign
    });
    declared || through
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mentions_are_lines_of_code_outside_the_own_file() {
        let own = Source::new("crates/attache-ops/src/operators/pad.rs", "BuiltinOperator::PAD \"PAD\"");
        let elsewhere = "mod pad;\n// \"PAD\"\n\"MIRROR_PAD\"\npad::DEFINITIONS,\nother::pad::x();\nx == \"a PAD of\";\nfn PAD() {}";
        let lib = Source::new("crates/attache-ops/src/operators/mod.rs", elsewhere);
        let gpu =
            Source::new("crates/attache-gpu/src/a.rs", "use pad::x;\nBuiltinOperator::PADV2\nBuiltinOperator::PAD");
        let zoo = Source::new("crates/attache/src/zoo/a.rs", "BuiltinOperator::PAD");
        let sources = [own, lib, gpu, zoo];
        let places = mentions("PAD", &sources[0], &sources);
        let lib = "crates/attache-ops/src/operators/mod.rs";
        assert_eq!(
            places,
            [format!("{lib}:1"), format!("{lib}:4"), format!("{lib}:6"), "crates/attache-gpu/src/a.rs:3".into()]
        );
    }

    #[test]
    fn every_operator_has_one_own_file() {
        let sources = sources().unwrap();
        let files = own_files(&sources).unwrap();
        let stem = |name: &str| files[name].stem();
        assert_eq!(
            [stem("PAD"), stem("ADD"), stem("TFLite_Detection_PostProcess")],
            ["pad", "binary", "detection_post_process"]
        );
        let twice = [
            Source::new("crates/attache-ops/src/operators/a.rs", "Code::Builtin(BuiltinOperator::PAD)"),
            Source::new("crates/attache-ops/src/operators/b.rs", "Code::Builtin(BuiltinOperator::PAD)"),
        ];
        assert!(own_files(&twice).is_err());
    }
}

//! One operator, one file: where else an operator is mentioned.
//!
//! A mention is a line of hand-written source, tests and comments apart, that holds the operator's module path,
//! `BuiltinOperator::X` or TensorFlow Lite's name for it in a string. Two are allowed: the `mod` line and the row of the
//! table in `attache-ops/src/lib.rs`.

use anyhow::{Result, bail};
use attache_ops::{Code, Definition};

use crate::source::{Source, sources, words};

/// Mentions allowed outside an operator's own file.
const MOST: usize = 2;

/// Where operators live.
const OPERATORS: &str = "crates/attache-ops/src/";

/// What may name operators at will, and why.
static EXCEPTIONS: &[(&str, &str)] = &[("crates/attache/src/zoo/", "built-in models are lists of operators")];

/// Operators with too many mentions, each with its places.
pub(super) fn find() -> Result<Vec<String>> {
    let sources = sources()?;
    let mut found = Vec::new();
    for definition in attache_ops::definitions() {
        let own = own_file(definition, &sources)?;
        let places = mentions(definition.name(), own, &sources);
        if places.len() > MOST {
            found.push(format!("{}: {}", definition.name(), places.join(", ")));
        }
    }
    Ok(found)
}

/// The file that holds an operator's definition.
fn own_file<'a>(definition: &Definition, sources: &'a [Source]) -> Result<&'a Source> {
    let name = definition.name();
    let code = match definition.code {
        Code::Builtin(_) => format!("Code::Builtin(BuiltinOperator::{name})"),
        Code::Custom(_) => format!("Code::Custom(\"{name}\")"),
    };
    let mut holders = sources.iter().filter(|source| source.path.starts_with(OPERATORS) && source.code.contains(&code));
    match (holders.next(), holders.next()) {
        (Some(own), None) => Ok(own),
        (None, _) => bail!("no file of {OPERATORS} holds `{code}`"),
        (Some(one), Some(other)) => bail!("both {} and {} hold `{code}`", one.path, other.path),
    }
}

/// The lines outside its own file that mention an operator.
fn mentions(name: &str, own: &Source, sources: &[Source]) -> Vec<String> {
    let is_exempt = |path: &str| EXCEPTIONS.iter().any(|(prefix, _)| path.starts_with(prefix));
    // An operator that has outgrown one file is a folder of the same stem.
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

/// Whether a line declares a module or goes through it, as one of this crate.
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
        let own = Source::new("crates/attache-ops/src/pad.rs", "BuiltinOperator::PAD \"PAD\"");
        let elsewhere = "mod pad;\n// \"PAD\"\n\"MIRROR_PAD\"\npad::DEFINITIONS,\nother::pad::x();\nx == \"a PAD of\";\nfn PAD() {}";
        let lib = Source::new("crates/attache-ops/src/lib.rs", elsewhere);
        let gpu =
            Source::new("crates/attache-gpu/src/a.rs", "use pad::x;\nBuiltinOperator::PADV2\nBuiltinOperator::PAD");
        let zoo = Source::new("crates/attache/src/zoo/a.rs", "BuiltinOperator::PAD");
        let sources = [own, lib, gpu, zoo];
        let places = mentions("PAD", &sources[0], &sources);
        let lib = "crates/attache-ops/src/lib.rs";
        assert_eq!(
            places,
            [format!("{lib}:1"), format!("{lib}:4"), format!("{lib}:6"), "crates/attache-gpu/src/a.rs:3".into()]
        );
    }

    #[test]
    fn every_operator_has_one_own_file() {
        let sources = sources().unwrap();
        for definition in attache_ops::definitions() {
            own_file(definition, &sources).unwrap();
        }
    }
}

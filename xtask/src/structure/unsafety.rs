//! Checks that `unsafe` occurs only in the files that `docs/security.md` lists, each with a reason, and that
//! each block has a `// SAFETY:` comment.
//!
//! The list is read from the document, which is therefore always up to date. The check includes tests, and
//! crates in the repository that are not part of the workspace. It does not expand macros of other crates;
//! the lint `unsafe_code` covers those.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};

use crate::source::{bare, read, tracked, words};

/// The document that lists the files with `unsafe`, relative to the root of the workspace.
const DOCUMENT: &str = "docs/security.md";
/// The heading above the table of files in the document.
const HEADING: &str = "## Where `unsafe` stands";
/// The beginning of the comment that gives the reason for an unsafe block.
const REASON: &str = "// SAFETY:";
/// The folder of code that `flatc` generates, in which blocks need no reason.
const GENERATED: &str = "/generated/";

/// Returns the differences between the files with `unsafe` and the document's list, and the blocks without a
/// reason.
pub(super) fn find() -> Result<Vec<String>> {
    let listed = listed(&read(DOCUMENT)?)?;
    let paths = tracked()?.into_iter().filter(|path| path.ends_with(".rs") || path.ends_with("Cargo.toml"));
    let files: Vec<(String, String)> = paths.map(|path| Ok((path.clone(), read(&path)?))).collect::<Result<_>>()?;
    Ok(broken(&listed, &files))
}

/// Returns the files in the document's table, each with its reason. Folders end with `/`.
fn listed(document: &str) -> Result<BTreeMap<String, String>> {
    let section = document.lines().skip_while(|line| *line != HEADING).skip(1);
    let rows = section.take_while(|line| !line.starts_with("## ")).filter_map(row);
    let listed: BTreeMap<String, String> = rows.collect();
    ensure!(!listed.is_empty(), "{DOCUMENT} has no table of files under \"{HEADING}\"");
    Ok(listed)
}

/// Returns the cells of a line such as ``| `crates/x/src/y.rs` | its reason |``; `None` for other lines. The
/// heading of the table has no backquotes.
fn row(line: &str) -> Option<(String, String)> {
    let (file, reason) = line.strip_prefix("| `")?.trim_end().strip_suffix('|')?.split_once("` |")?;
    Some((file.to_owned(), reason.trim().to_owned()))
}

fn broken(listed: &BTreeMap<String, String>, files: &[(String, String)]) -> Vec<String> {
    let is_of = |path: &str, row: &str| path == row || (row.ends_with('/') && path.starts_with(row));
    let holders: Vec<(&str, Vec<usize>)> =
        files.iter().map(|(path, text)| (path.as_str(), places(path, text))).filter(|it| !it.1.is_empty()).collect();
    let unlisted = holders.iter().filter(|(path, _)| !listed.keys().any(|row| is_of(path, row)));
    let unlisted = unlisted
        .map(|(path, lines)| format!("{path}:{}: there is `unsafe`, but {DOCUMENT} does not list the file", lines[0]));
    let idle = listed.keys().filter(|row| !holders.iter().any(|(path, _)| is_of(path, row)));
    let idle = idle.map(|row| format!("{row}: {DOCUMENT} lists it, but there is no `unsafe`"));
    let bare = listed.iter().filter(|(_, reason)| reason.is_empty());
    let bare = bare.map(|(row, _)| format!("{row}: {DOCUMENT} gives no reason"));
    let silent = files.iter().filter(|(path, _)| !path.contains(GENERATED)).flat_map(|(path, text)| {
        let lines = unexplained(path, text).into_iter();
        lines.map(move |line| format!("{path}:{line}: no `{REASON}` comment above the block"))
    });
    unlisted.chain(idle).chain(bare).chain(silent).collect()
}

/// Returns the numbers of the lines that contain the word `unsafe` in code, or that relax the lint
/// `unsafe_code`.
fn places(path: &str, text: &str) -> Vec<usize> {
    if path.ends_with(".toml") {
        let lifts = |line: &str| line.trim_start().starts_with("unsafe_code") && !line.contains("\"deny\"");
        return numbered(text).filter(|(_, line)| lifts(line)).map(|(number, _)| number).collect();
    }
    let bare = bare(text);
    let keywords = words(&bare, "unsafe");
    let lints = words(&bare, "unsafe_code").filter(|place| lifts_lint(&bare[..*place]));
    let mut lines: Vec<usize> = keywords.chain(lints).map(|place| line_of(&bare, place)).collect();
    lines.sort_unstable();
    lines.dedup();
    lines
}

/// Whether the text after `before` is inside the brackets of `allow`, `expect` or `warn`.
fn lifts_lint(before: &str) -> bool {
    let attribute = before.rfind('(').map(|bracket| before[..bracket].trim_end());
    attribute.is_some_and(|text| ["allow", "expect", "warn"].iter().any(|level| text.ends_with(level)))
}

fn line_of(text: &str, place: usize) -> usize {
    text[..place].matches('\n').count() + 1
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

/// Returns the numbers of the lines with unsafe blocks, implementations and foreign functions that have no
/// comment with the reason. Unsafe functions need none, since their documentation states the caller's
/// obligations.
fn unexplained(path: &str, text: &str) -> Vec<usize> {
    if !path.ends_with(".rs") {
        return Vec::new();
    }
    let bare = bare(text);
    let blocks = words(&bare, "unsafe").filter(|place| {
        let after = bare[place + "unsafe".len()..].trim_start();
        // What follows `extern "C"` is a block of foreign functions, or a function (also as a type), which needs none.
        let foreign = after.strip_prefix("extern").and_then(|after| after.split_once('{'));
        let foreign = foreign.is_some_and(|(interface, _)| words(interface, "fn").next().is_none());
        foreign || ["{", "impl"].iter().any(|start| after.starts_with(start))
    });
    let (lines, bare_lines): (Vec<&str>, Vec<&str>) = (text.lines().collect(), bare.lines().collect());
    let mut found: Vec<usize> = blocks.map(|place| line_of(&bare, place)).collect();
    found.dedup();
    found.retain(|number| !is_explained(&lines, &bare_lines, number - 1));
    found
}

/// Whether there is a comment with the reason on the line, or directly above the statement that contains the line.
fn is_explained(lines: &[&str], bare: &[&str], index: usize) -> bool {
    let is_comment = |index: &usize| lines[*index].trim_start().starts_with("//");
    let gives_reason = |index: usize| lines[index].contains(REASON);
    if gives_reason(index) {
        return true;
    }
    let ends_statement = |line: &str| line.is_empty() || line.ends_with([';', '{', '}', ',']);
    let is_attribute = |line: &str| line.starts_with("#[");
    let within = |index: &usize| {
        let line = bare[*index].trim();
        is_attribute(line) || (!is_comment(index) && !ends_statement(line))
    };
    let above = (0..index).rev().skip_while(within);
    above.take_while(is_comment).any(gives_reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT_TEXT: &str = "# S\n\n| `a.rs` | not of this table |\n\n## Where `unsafe` stands\n\nText.\n\n\
        | File | Why |\n|---|---|\n| `crates/x/src/simd.rs` | Intrinsics. |\n| `crates/x/src/generated/` | Made. |\n\n## Next\n";

    fn check(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> = files.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect();
        broken(&listed(DOCUMENT_TEXT).unwrap(), &files)
    }

    const GOOD: [(&str, &str); 2] = [
        ("crates/x/src/simd.rs", "#![allow(unsafe_code)]\n// SAFETY: it is so.\nfn f() { unsafe { g() } }\n"),
        ("crates/x/src/generated/a.rs", "fn f() { unsafe { g() } }"),
    ];

    fn with(path: &str, text: &str) -> Vec<String> {
        check(&[&GOOD[..], &[(path, text)]].concat())
    }

    #[test]
    fn the_table_is_read() {
        let listed = listed(DOCUMENT_TEXT).unwrap();
        assert_eq!(listed.keys().collect::<Vec<_>>(), ["crates/x/src/generated/", "crates/x/src/simd.rs"]);
        assert!(super::listed("# S\n").is_err());
    }

    #[test]
    fn unsafe_in_another_file_is_found_in_every_form() {
        assert_eq!(check(&GOOD), [] as [String; 0]);
        let forms = [
            "// SAFETY: so.\nlet x = unsafe { f() };",
            "\npub unsafe fn f() {}",
            "// SAFETY: so.\nunsafe impl Send for X {}",
            "// SAFETY: so.\nunsafe extern \"C\" { fn f(); }",
            "\nunsafe trait X {}",
            "\n#[unsafe(no_mangle)]\nfn f() {}",
            "\n#![allow(dead_code, unsafe_code)]",
            "\n#[expect(unsafe_code)]",
            "\n#[cfg_attr(x, allow(unsafe_code))]",
            "\n#[cfg(test)] mod tests { unsafe fn f() {} }",
        ];
        for form in forms {
            let found = with("crates/x/src/other.rs", form);
            assert_eq!(found.len(), 1, "{form}: {found:?}");
            assert!(found[0].starts_with("crates/x/src/other.rs:2: ") && found[0].contains(DOCUMENT), "{found:?}");
        }
        let lifted = with("crates/x/Cargo.toml", "[lints.rust]\nunsafe_code = \"allow\"\n");
        assert!(lifted.len() == 1 && lifted[0].starts_with("crates/x/Cargo.toml:2: "), "{lifted:?}");
    }

    #[test]
    fn what_only_speaks_of_it_is_not_found() {
        for text in [
            "// unsafe { f() }\n/* unsafe fn */",
            "let x = \"unsafe { f() }\";",
            "let unsafe_thing = is_unsafe();",
            "#![deny(unsafe_code)]\n#![forbid(unsafe_code)]",
        ] {
            assert_eq!(with("crates/x/src/other.rs", text), [] as [String; 0], "{text}");
        }
        assert_eq!(with("Cargo.toml", "unsafe_code = \"deny\"\n"), [] as [String; 0]);
    }

    #[test]
    fn listed_files_without_any_are_found() {
        let found = check(&GOOD[1..]);
        assert!(found.len() == 1 && found[0].starts_with("crates/x/src/simd.rs: "), "{found:?}");
        let found = check(&GOOD[..1]);
        assert!(found.len() == 1 && found[0].starts_with("crates/x/src/generated/: "), "{found:?}");
        let document = DOCUMENT_TEXT.replace(" Intrinsics. ", "  ");
        let files: Vec<_> = GOOD.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect();
        let found = broken(&listed(&document).unwrap(), &files);
        assert!(found.len() == 1 && found[0].ends_with("gives no reason"), "{found:?}");
    }

    #[test]
    fn blocks_without_a_reason_are_found() {
        let of = |text: &str| unexplained("x.rs", text);
        let explained = [
            "// SAFETY: so,\n// and so.\nunsafe { f() }",
            "let x = unsafe { f() }; // SAFETY: so.",
            "// SAFETY: so.\nlet (a, c) =\n    unsafe { f() };",
            "match x {\n    // SAFETY: so.\n    #[cfg(x)]\n    1 => unsafe { f() },\n}",
            "/// # Safety\n/// Promise it.\nunsafe fn f();",
        ];
        explained.iter().for_each(|text| assert_eq!(of(text), [] as [usize; 0], "{text}"));
        let silent = [
            ("// SAFETY: so.\nunsafe { f() };\nunsafe { g() }", 3),
            ("// Because.\nunsafe { f() }", 2),
            ("// SAFETY: so.\n\nunsafe { f() }", 3),
            ("// SAFETY: so.\nif x {\n    unsafe { f() }\n}", 3),
            ("unsafe impl Send for X {}", 1),
        ];
        silent.iter().for_each(|(text, line)| assert_eq!(of(text), [*line], "{text}"));
    }
}

//! Reads the workspace's Rust source for the structure rules, with comments, strings and tests masked by
//! spaces.
//!
//! This is a scanner, not a parser. It recognises only comments, strings, characters and brackets.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::root;

/// A hand-written source file of a crate.
#[derive(Debug)]
pub(crate) struct Source {
    /// The path relative to the root of the workspace, with `/`.
    pub(crate) path: String,
    /// The text of the file with comments and tests replaced by spaces, so that line numbers are unchanged.
    pub(crate) code: String,
    /// The text of the file with comments, tests and strings replaced by spaces.
    pub(crate) bare: String,
}

impl Source {
    pub(crate) fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        let (code, bare) = mask(&text.into());
        let tests = test_ranges(&bare);
        let [code, bare] = [code, bare].map(|masked| without(masked, &tests));
        Self { path: path.into(), code, bare }
    }

    /// Returns the name of the file without its extension; for `mod.rs`, the name of the folder.
    pub(crate) fn stem(&self) -> &str {
        let path = self.path.trim_end_matches("/mod.rs").trim_end_matches(".rs");
        path.rsplit('/').next().unwrap_or(path)
    }
}

/// Reads all hand-written source files in the crates' `src` folders, without generated code and without files
/// of tests.
pub(crate) fn sources() -> Result<Vec<Source>> {
    let paths = tracked()?.into_iter().filter(|path| {
        let is_source = path.ends_with(".rs") && path.starts_with("crates/") && path.contains("/src/");
        is_source && !path.contains("/generated/") && !path.ends_with("/tests.rs") && !path.ends_with("/testing.rs")
    });
    paths.map(|path| Ok(Source::new(path.clone(), read(&path)?))).collect()
}

/// Reads a text file of the workspace, given by its path relative to the root.
pub(crate) fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(root().join(path)).with_context(|| path.to_owned())
}

/// Returns the sorted paths of all files of the workspace except build outputs, relative to the root, with
/// `/`. Lists the folders rather than asking git, so that git is not required.
pub(crate) fn tracked() -> Result<Vec<String>> {
    let mut found = Vec::new();
    walk(&root(), &mut found)?;
    let root = root();
    let relative = |path: PathBuf| Some(path.strip_prefix(&root).ok()?.to_string_lossy().replace('\\', "/"));
    let mut paths: Vec<String> = found.into_iter().filter_map(relative).collect();
    paths.sort();
    Ok(paths)
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name();
        // `.git` is a folder, or a file in a further working tree of the repository.
        if name == ".git" {
            continue;
        }
        if entry.file_type()?.is_dir() {
            let ignored = ["target", "__pycache__"].iter().any(|ignored| name == *ignored);
            if !ignored {
                walk(&entry.path(), found)?;
            }
        } else {
            found.push(entry.path());
        }
    }
    Ok(())
}

/// Returns the text of a file, including tests, with comments and strings replaced by spaces.
pub(crate) fn bare(text: &str) -> String {
    mask(text).1
}

/// Returns an iterator over the byte positions at which `text` occurs in `line` as whole words.
pub(crate) fn words<'a>(line: &'a str, text: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    line.match_indices(text).map(|(start, _)| start).filter(move |start| {
        let (before, after) = (&line[..*start], &line[start + text.len()..]);
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

/// Returns the text with comments replaced by spaces, and the text with comments and strings replaced by
/// spaces. Both have the length and the lines of the original.
fn mask(text: &str) -> (String, String) {
    let bytes = text.as_bytes();
    let (mut code, mut bare) = (bytes.to_vec(), bytes.to_vec());
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let (length, in_comment) = if rest.starts_with(b"//") {
            (rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()), true)
        } else if rest.starts_with(b"/*") {
            (block_comment(rest), true)
        } else if let Some(length) = literal(bytes, at) {
            (length, false)
        } else {
            at += 1;
            continue;
        };
        blank(&mut bare[at..at + length]);
        if in_comment {
            blank(&mut code[at..at + length]);
        }
        at += length;
    }
    let text = |bytes| String::from_utf8(bytes).expect("only whole literals and comments are blanked");
    (text(code), text(bare))
}

/// Returns the length in bytes of the block comment at the start of the text, including nested ones.
fn block_comment(text: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        match &text[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// Returns the length in bytes of the string or character literal at a position; `None` if no literal begins
/// there.
fn literal(text: &[u8], at: usize) -> Option<usize> {
    let rest = &text[at..];
    let follows_word = at > 0 && (text[at - 1].is_ascii_alphanumeric() || text[at - 1] == b'_');
    match rest[0] {
        b'"' => Some(quoted(rest, b'"')),
        b'r' if !follows_word || text[at - 1] == b'b' => {
            let hashes = rest[1..].iter().take_while(|byte| **byte == b'#').count();
            let closing = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
            let body = rest.get(1 + hashes..).filter(|body| body.first() == Some(&b'"'))?;
            let end = body[1..].windows(closing.len()).position(|window| window == closing)?;
            Some(1 + hashes + 1 + end + closing.len())
        }
        // A character literal. Without a closing quote after one character, it is a lifetime.
        b'\'' if rest.get(1) == Some(&b'\\') => Some(quoted(rest, b'\'')),
        b'\'' => {
            let width = std::str::from_utf8(&rest[1..rest.len().min(5)]);
            let valid = width.or_else(|error| std::str::from_utf8(&rest[1..1 + error.valid_up_to()])).ok()?;
            let width = valid.chars().next()?.len_utf8();
            (rest.get(1 + width) == Some(&b'\'')).then_some(width + 2)
        }
        _ => None,
    }
}

/// Returns the length in bytes of the literal with backslash escapes at the start of the text, including its
/// quotes.
fn quoted(text: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < text.len() && text[at] != quote {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(text.len())
}

/// Returns the byte ranges of items marked `#[cfg(test)]`.
fn test_ranges(bare: &str) -> Vec<(usize, usize)> {
    const MARK: &str = "#[cfg(test)]";
    let mut ranges = Vec::new();
    let mut at = 0;
    while let Some(found) = bare[at..].find(MARK) {
        let start = at + found;
        let mut depth = 0;
        let mut end = bare.len();
        for (offset, byte) in bare.bytes().enumerate().skip(start + MARK.len()) {
            match byte {
                b'{' => depth += 1,
                b'}' => depth -= 1,
                _ => {}
            }
            if depth == 0 && matches!(byte, b'}' | b';') {
                end = offset + 1;
                break;
            }
        }
        ranges.push((start, end));
        at = end;
    }
    ranges
}

fn without(text: String, ranges: &[(usize, usize)]) -> String {
    let mut bytes = text.into_bytes();
    ranges.iter().for_each(|(start, end)| blank(&mut bytes[*start..*end]));
    String::from_utf8(bytes).expect("only whole items are blanked")
}

fn blank(bytes: &mut [u8]) {
    bytes.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_told_apart() {
        let text = "a /* \" /* b */ */ \"c // d\" 'e' '\\'' &'f g // \"h\"\nr#\"i\"j\"# 'ö' k";
        let (code, bare) = mask(text);
        assert_eq!(code.len(), text.len());
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&code), ["a", "\"c", "//", "d\"", "'e'", "'\\''", "&'f", "g", "r#\"i\"j\"#", "'ö'", "k"]);
        assert_eq!(words(&bare), ["a", "&'f", "g", "k"]);
    }

    #[test]
    fn tests_are_no_source() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() { \"}\" }\n}\nfn c() {}\n#[cfg(test)]\nmod d;\nfn e() {}\n";
        let source = Source::new("crates/x/src/y/mod.rs", text);
        let code: Vec<&str> = source.code.split_whitespace().collect();
        assert_eq!(code, ["fn", "a()", "{}", "fn", "c()", "{}", "fn", "e()", "{}"]);
        assert_eq!((source.stem(), source.code.lines().count()), ("y", 9));
    }

    #[test]
    fn the_workspace_is_walked() {
        let paths = tracked().unwrap();
        assert!(paths.iter().any(|path| path == "xtask/src/source.rs"));
        assert!(!paths.iter().any(|path| path.starts_with("target/")));
        assert!(sources().unwrap().iter().all(|source| !source.path.contains("/generated/")));
    }
}

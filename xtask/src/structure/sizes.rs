//! Checks the lengths of hand-written files and of functions, in lines.

use anyhow::Result;

use crate::source::{bare, read, tracked, words};

/// Maximum number of lines of a hand-written source file.
const MAX_FILE: usize = 800;

/// Maximum number of lines of a function without a comment that gives a reason.
const MAX_FUNCTION: usize = 80;

/// The beginning of the comment directly above a longer function that gives the reason for its length.
const REASON: &str = "// Long because";

/// Returns the files that have more than [`MAX_FILE`] lines, each with its length.
pub(super) fn files() -> Result<Vec<String>> {
    let long = |(path, text): (String, String)| {
        let lines = text.lines().count();
        (lines > MAX_FILE).then(|| format!("{path} has {lines}"))
    };
    Ok(hand_written()?.into_iter().filter_map(long).collect())
}

/// Returns the functions that have more than [`MAX_FUNCTION`] lines and no comment that gives a reason.
pub(super) fn functions() -> Result<Vec<String>> {
    let mut found = Vec::new();
    for (path, text) in hand_written()? {
        for (line, name, lines) in long_functions(&text) {
            found.push(format!("{path}:{line}: `{name}` has {lines}; split it, or say why above it: `{REASON} …`"));
        }
    }
    Ok(found)
}

fn hand_written() -> Result<Vec<(String, String)>> {
    let paths = tracked()?.into_iter().filter(|path| path.ends_with(".rs") && !path.contains("/generated/"));
    paths.map(|path| Ok((path.clone(), read(&path)?))).collect()
}

/// Returns the line, name and length in lines of each function that is too long without a reason.
fn long_functions(text: &str) -> Vec<(usize, String, usize)> {
    let bare = bare(text);
    let lines: Vec<&str> = text.lines().collect();
    let line_of = |place: usize| bare[..place].matches('\n').count();
    let long = |place: usize| {
        let (start, end) = (line_of(place), line_of(body_end(&bare, place)?));
        let above = lines[..start].iter().rev().take_while(|line| line.trim_start().starts_with(['/', '#']));
        let has_reason = above.into_iter().any(|line| line.trim_start().starts_with(REASON));
        let name = bare[place + 2..].trim_start().split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
        (end - start >= MAX_FUNCTION && !has_reason).then(|| (start + 1, name.to_owned(), end - start + 1))
    };
    words(&bare, "fn").filter_map(long).collect()
}

/// Returns the position of the closing brace of the function that is declared at `place`. `None` for a
/// function type, which has no name, and for a declaration without a body.
fn body_end(bare: &str, place: usize) -> Option<usize> {
    if bare[place + 2..].trim_start().starts_with('(') {
        return None;
    }
    let (mut brackets, mut braces) = (0, 0);
    for (offset, byte) in bare[place..].bytes().enumerate() {
        match byte {
            b'(' | b'[' => brackets += 1,
            b')' | b']' => brackets -= 1,
            b';' if brackets == 0 && braces == 0 => return None,
            b'{' => braces += 1,
            b'}' if braces == 1 => return Some(place + offset),
            b'}' => braces -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_functions_are_found() {
        let function = |lines: usize| format!("fn f(g: fn(u8) -> u8) -> [u8; 2] {{\n{}}}\n", "x;\n".repeat(lines - 2));
        let of = |text: &str| long_functions(text).into_iter().map(|(line, name, _)| (line, name)).collect::<Vec<_>>();
        assert_eq!(of(&function(80)), []);
        assert_eq!(of(&format!("fn g();\ntype H = fn(u8);\n{}", function(81))), [(3, "f".to_owned())]);
        assert_eq!(of(&format!("// Long because it is a table.\n#[inline]\n{}", function(81))), []);
    }
}

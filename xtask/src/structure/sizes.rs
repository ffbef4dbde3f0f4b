//! How long files may be.

use anyhow::Result;

use crate::source::{read, tracked};

/// Lines at which a file stops being one thing.
const MOST: usize = 800;

/// Files that are too long.
pub(super) fn find() -> Result<Vec<String>> {
    let hand_written = |path: &String| path.ends_with(".rs") && !path.contains("/generated/");
    let mut found = Vec::new();
    for path in tracked()?.into_iter().filter(hand_written) {
        let lines = read(&path)?.lines().count();
        if lines > MOST {
            found.push(format!("{path} has {lines}"));
        }
    }
    Ok(found)
}

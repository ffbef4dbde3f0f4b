//! Finds absolute paths that exist only on one machine.

use anyhow::Result;

use crate::root;
use crate::source::tracked;

/// Folders at the root of a file system that contain users' files.
const FOLDERS: [&str; 4] = ["home", "root", "work", "Users"];

/// Returns the lines of all text files that contain a path below one of the folders, as file and line number.
pub(super) fn find() -> Result<Vec<String>> {
    let mut found = Vec::new();
    for path in tracked()? {
        // Binary files are not checked.
        let Ok(text) = String::from_utf8(std::fs::read(root().join(&path))?) else { continue };
        let lines = text.lines().enumerate().filter(|(_, line)| names_machine(line));
        found.extend(lines.map(|(index, _)| format!("{path}, line {}", index + 1)));
    }
    Ok(found)
}

/// Whether a line contains an absolute path below one of the folders.
fn names_machine(line: &str) -> bool {
    FOLDERS.iter().any(|folder| {
        let inside = ['/', '\\'].map(|separator| format!("{separator}{folder}{separator}"));
        let starts = inside.iter().flat_map(|folder| line.match_indices(folder).map(|(start, _)| start));
        starts.map(|start| line[..start].chars().next_back()).any(|before| match before {
            // Either a drive letter's colon, or a character that is not part of a longer path.
            Some(before) => !(before.is_alphanumeric() || matches!(before, '.' | '_' | '-' | '}' | ')' | '~')),
            None => true,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_paths_below_a_home_are_found() {
        for folder in FOLDERS {
            assert!(names_machine(&format!("let path = \"/{folder}/somebody/model\";")));
            assert!(names_machine(&format!("C:\\{folder}\\somebody")));
            assert!(!names_machine(&format!("https://host.example/{folder}/page")));
            assert!(!names_machine(&format!("../{folder}/x and /{folder}.txt")));
        }
    }
}

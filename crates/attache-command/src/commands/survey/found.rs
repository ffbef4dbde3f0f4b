//! Finds the model files below a folder.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The bytes that identify a TensorFlow Lite model, and where they lie.
const IDENTIFIER: (usize, &[u8]) = (4, b"TFL3");

/// Returns the paths of all models below a folder, sorted: files with the extension `tflite` or `lite`, and others that
/// begin as models do. Links to folders are not followed. Folders that cannot be read are named with the error.
pub(super) fn models(folder: &Path) -> Result<(Vec<PathBuf>, Vec<String>), Failure> {
    if !folder.is_dir() {
        return Err(Failure::usage("this is no folder; name one that has models").at(folder.display()));
    }
    let (mut folders, mut files, mut unreadable) = (vec![folder.to_owned()], Vec::new(), Vec::new());
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) => {
                unreadable.push(format!("{}: {error}", folder.display()));
                continue;
            }
        };
        for entry in entries.flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            let path = entry.path();
            if kind.is_dir() {
                folders.push(path);
            } else if path.is_file() && is_model(&path) {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok((files, unreadable))
}

fn is_model(path: &Path) -> bool {
    let is_named = path.extension().is_some_and(|extension| extension == "tflite" || extension == "lite");
    let mut start = Vec::new();
    let (place, identifier) = IDENTIFIER;
    let mut read = || File::open(path)?.take((place + identifier.len()) as u64).read_to_end(&mut start);
    is_named || read().is_ok() && start.get(place..) == Some(identifier)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_found_by_name_or_by_content() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("deep/deeper");
        fs::create_dir_all(&below).unwrap();
        fs::write(below.join("b.tflite"), b"no model").unwrap();
        fs::write(below.join("weights.bin"), b"\0\0\0\0TFL3 and more").unwrap();
        fs::write(folder.path().join("a.txt"), b"\0\0\0\0TFL4").unwrap();
        let (files, unreadable) = models(folder.path()).unwrap();
        assert_eq!(files, [below.join("b.tflite"), below.join("weights.bin")]);
        assert!(unreadable.is_empty() && models(&below.join("b.tflite")).is_err());
    }
}

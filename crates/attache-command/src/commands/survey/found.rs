//! Finds the model files below a folder.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::io::files;
use crate::io::walk::Walk;

/// The bytes that identify a TensorFlow Lite model, and where they lie.
const IDENTIFIER: (usize, &[u8]) = (4, b"TFL3");

/// Returns the paths of all models below a folder, sorted: files with the extension `tflite` or `lite`, and others that
/// begin as models do. Links to folders are followed. What has such a name and is no file, such as a link that leads
/// nowhere, counts as a model, which does not open. Folders that cannot be read are named with the error. It is an error if
/// there is no model.
pub(super) fn models(folder: &Path) -> Result<(Vec<PathBuf>, Vec<String>), Failure> {
    let wrong = |error| files::unreadable(folder, &error);
    if !fs::metadata(folder).map_err(wrong)?.is_dir() {
        return Err(Failure::usage("this is no folder; name one that has models").at(folder.display()));
    }
    let Walk { entries, unreadable, .. } = Walk::below(folder);
    let files: Vec<PathBuf> = entries.into_iter().filter(|path| is_model(path)).collect();
    let mut unreadable = unreadable.iter().map(|(folder, error)| files::unreadable(folder, error));
    if files.is_empty() {
        let none = || Failure::usage("there is no model in this folder or below it").at(folder.display());
        return Err(unreadable.next().unwrap_or_else(none));
    }
    Ok((files, unreadable.map(|failure| failure.message).collect()))
}

fn is_model(path: &Path) -> bool {
    let is_named = path.extension().is_some_and(|extension| extension == "tflite" || extension == "lite");
    is_named || path.is_file() && begins_as_model(path)
}

fn begins_as_model(path: &Path) -> bool {
    let mut start = Vec::new();
    let (place, identifier) = IDENTIFIER;
    let mut read = || File::open(path)?.take((place + identifier.len()) as u64).read_to_end(&mut start);
    read().is_ok() && start.get(place..) == Some(identifier)
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

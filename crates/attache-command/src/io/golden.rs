//! Golden cases: folders with a model, its inputs and the outputs that another runtime computed from them.
//!
//! A case has `model.tflite`, `in_K.npy` and `out_K.npy` for K from 0, and optionally `case.json` with `op` (the
//! operator under test) and `scale` (errors are relative to at least this value).

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::failure::Failure;
use crate::io::array::Array;
use crate::io::files;
use crate::io::npy;
use crate::io::walk::Walk;

/// The contents of `case.json`; other keys are ignored.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Notes {
    /// The operator under test.
    pub(crate) op: Option<String>,
    /// Errors of floats are relative to the largest golden magnitude, or to this value if it is larger.
    #[serde(default)]
    pub(crate) scale: f64,
}

/// A golden case that was read from its folder.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) notes: Notes,
    pub(crate) inputs: Vec<Array>,
    pub(crate) outputs: Vec<Array>,
}

/// Returns the path of the model file of a case, given the folder of the case.
pub(crate) fn model_file(folder: &Path) -> PathBuf {
    folder.join("model.tflite")
}

/// Returns the paths of the files that a case has in a folder, as far as there are any.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let is_array = |name: &str| name.ends_with(".npy") && (name.starts_with("in_") || name.starts_with("out_"));
    let is_of_case = |name: &str| ["model.tflite", "case.json"].contains(&name) || is_array(name);
    let paths = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    paths.filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_of_case)).collect()
}

/// Returns the folders of all cases at or below `folder`, sorted. If `has_outputs`, a folder with a model is
/// a case only if it has outputs too. Links to folders are followed.
pub(crate) fn find(folder: &Path, has_outputs: bool) -> Result<Vec<PathBuf>, Failure> {
    if !folder.is_dir() {
        files::check(folder)?;
        return Err(Failure::usage("this is a file; name the folder of a case, or one above it").at(folder.display()));
    }
    let Walk { mut folders, unreadable, .. } = Walk::below(folder);
    if let Some((folder, error)) = unreadable.first() {
        return Err(files::unreadable(folder, error));
    }
    folders.retain(|folder| model_file(folder).is_file() && (!has_outputs || folder.join("out_0.npy").is_file()));
    folders.sort();
    Ok(folders)
}

impl Case {
    pub(crate) fn read(folder: &Path) -> Result<Self, Failure> {
        Ok(Self { notes: notes(folder)?, inputs: arrays(folder, "in")?, outputs: arrays(folder, "out")? })
    }
}

fn notes(folder: &Path) -> Result<Notes, Failure> {
    let path = folder.join("case.json");
    if !path.exists() {
        return Ok(Notes::default());
    }
    let text = files::read_text(&path)?;
    serde_json::from_str(&text).map_err(|error| {
        let remedy = "write an object with the text \"op\" and the number \"scale\", or remove the file";
        Failure::usage(format!("this does not describe a case: {error}; {remedy}")).at(path.display())
    })
}

/// Reads `STEM_0.npy`, `STEM_1.npy` and so on, up to the first that does not exist.
fn arrays(folder: &Path, stem: &str) -> Result<Vec<Array>, Failure> {
    let files = (0..).map(|index| folder.join(format!("{stem}_{index}.npy"))).take_while(|path| path.exists());
    files.map(|path| npy::read(&path)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use attache::{DataType, Shape};

    use super::*;

    #[test]
    fn cases_are_found_at_any_depth() {
        let root = tempfile::tempdir().unwrap();
        let array = Array { data_type: DataType::Bool, shape: Shape::from([1]), bytes: vec![1] };
        let write = |path: &Path| fs::write(path, npy::encode(path, &array).unwrap()).unwrap();
        for name in ["b", "a/deep", "no_output"] {
            let folder = root.path().join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(model_file(&folder), b"").unwrap();
            write(&folder.join("in_0.npy"));
            if name != "no_output" {
                write(&folder.join("out_0.npy"));
            }
        }
        assert_eq!(find(root.path(), true).unwrap(), [root.path().join("a/deep"), root.path().join("b")]);
        assert_eq!(find(&root.path().join("b"), true).unwrap().len(), 1);
        assert_eq!(find(root.path(), false).unwrap().len(), 3);
        assert!(find(&root.path().join("c"), true).is_err());

        let case = Case::read(&root.path().join("b")).unwrap();
        assert_eq!((case.inputs.len(), case.outputs.len(), case.notes.scale), (1, 1, 0.0));
        fs::write(root.path().join("b/case.json"), r#"{"op": "ADD", "scale": 2.5, "seed_op": true}"#).unwrap();
        let notes = Case::read(&root.path().join("b")).unwrap().notes;
        assert_eq!((notes.op.as_deref(), notes.scale), (Some("ADD"), 2.5));
        fs::write(root.path().join("b/case.json"), "{").unwrap();
        assert!(Case::read(&root.path().join("b")).is_err());
    }
}

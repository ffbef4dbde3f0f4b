//! Finds the model that the command line names: a file, or a built-in model.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use attache::{Model, zoo};

use crate::failure::Failure;
use crate::io::files;

/// Maximum number of directory entries that are searched for a model.
const MOST_ENTRIES: usize = 1000;

/// A model that was found by its path or name, but not opened yet.
pub(crate) struct Source {
    /// The path or name that the user gave.
    pub(crate) name: String,
    origin: Origin,
}

enum Origin {
    File(PathBuf),
    BuiltIn(&'static str),
}

impl Source {
    /// Finds the file at the path `model` if there is one, else the built-in model of that name.
    pub(crate) fn find(model: &Path) -> Result<Self, Failure> {
        let name = model.display().to_string();
        if model.is_file() {
            files::check(model)?;
            return Ok(Self { name, origin: Origin::File(model.to_owned()) });
        }
        if let Some(known) = zoo::names().find(|known| model.as_os_str() == *known) {
            return Ok(Self { name, origin: Origin::BuiltIn(known) });
        }
        Err(no_model(model))
    }

    /// Whether this is a built-in model.
    pub(crate) fn is_built_in(&self) -> bool {
        matches!(self.origin, Origin::BuiltIn(_))
    }

    /// Opens the model. A file is mapped into memory, not read; a built-in model is built.
    pub(crate) fn open(&self) -> Result<Model, Failure> {
        match &self.origin {
            Origin::BuiltIn(name) => Ok(zoo::model(name)?),
            Origin::File(path) => Ok(Model::from_path(path)?),
        }
    }

    /// Returns all bytes of the model; a file is read into memory, a built-in model is built.
    pub(crate) fn read(self) -> Result<Arc<[u8]>, Failure> {
        match self.origin {
            Origin::BuiltIn(name) => Ok(zoo::build(name).unwrap_or_default().into()),
            Origin::File(path) => Ok(files::read(&path)?.into()),
        }
    }
}

/// Returns the error for a path at which there is no model: what the path is, and a remedy.
fn no_model(model: &Path) -> Failure {
    if model.is_dir() {
        return Failure::usage(format!("this is a directory; {}", within(model))).at(model.display());
    }
    match fs::symlink_metadata(model) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let known: Vec<_> = zoo::names().collect();
            let text = format!("there is no such file, nor such a built-in model (there are: {})", known.join(", "));
            Failure::usage(text).at(model.display())
        }
        _ => files::check(model).err().unwrap_or_else(|| Failure::usage("this is no file").at(model.display())),
    }
}

/// Returns the remedy for a path that is a directory: what to name instead.
fn within(folder: &Path) -> String {
    if folder.join("saved_model.pb").is_file() {
        return "it holds a SavedModel: convert it with TensorFlow Lite's converter, and name the .tflite file"
            .to_owned();
    }
    let paths = fs::read_dir(folder).into_iter().flatten().take(MOST_ENTRIES).flatten().map(|entry| entry.path());
    let models = paths.filter(|path| path.extension().is_some_and(|extension| extension == "tflite"));
    match models.min() {
        Some(model) => format!("name a file in it, as {}", model.display()),
        None => "name a .tflite file".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &Path) -> String {
        Source::find(path).err().expect("no model").message
    }

    #[test]
    fn a_directory_says_what_to_name_instead() {
        let folder = tempfile::tempdir().unwrap();
        assert!(text(folder.path()).ends_with("this is a directory; name a .tflite file"));
        fs::write(folder.path().join("b.tflite"), b"").unwrap();
        fs::write(folder.path().join("a.tflite"), b"").unwrap();
        assert!(text(folder.path()).ends_with("a.tflite"), "{}", text(folder.path()));
        fs::write(folder.path().join("saved_model.pb"), b"").unwrap();
        assert!(text(folder.path()).contains("SavedModel"));
    }

    #[test]
    fn a_built_in_model_needs_no_file() {
        assert!(Source::find(Path::new("lstm_128")).is_ok_and(|source| source.is_built_in() && source.open().is_ok()));
        assert!(text(Path::new("lstm_129")).contains("lstm_128"));
    }
}

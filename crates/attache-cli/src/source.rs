//! The model that the command line names: a file, or one of the built-in ones.

use std::path::Path;
use std::sync::Arc;

use attache::Model;

use crate::failure::Failure;

/// A model's bytes, where they come from made no difference.
pub(crate) struct Source {
    /// What the user called it.
    pub(crate) name: String,
    bytes: Option<Arc<[u8]>>,
}

impl Source {
    /// A path where there is such a file, else the name of a built-in model.
    pub(crate) fn find(model: &Path) -> Result<Self, Failure> {
        let name = model.display().to_string();
        if model.exists() {
            return Ok(Self { name, bytes: None });
        }
        match model.to_str().and_then(attache::zoo::build) {
            Some(bytes) => Ok(Self { name, bytes: Some(bytes.into()) }),
            None => {
                let known: Vec<_> = attache::zoo::names().collect();
                let known = known.join(", ");
                Err(Failure::usage(format!(
                    "{name}: there is no such file, nor such a built-in model (there are: {known})"
                )))
            }
        }
    }

    /// The model; a file is mapped into memory, not read.
    pub(crate) fn open(&self) -> Result<Model, Failure> {
        match &self.bytes {
            Some(bytes) => Ok(Model::from_shared(bytes.clone())?),
            None => Ok(Model::from_path(&self.name)?),
        }
    }

    /// All bytes in memory.
    pub(crate) fn read(self) -> Result<Arc<[u8]>, Failure> {
        match self.bytes {
            Some(bytes) => Ok(bytes),
            None => match std::fs::read(&self.name) {
                Ok(bytes) => Ok(bytes.into()),
                Err(error) => Err(Failure::usage(error.to_string()).at(&self.name)),
            },
        }
    }
}

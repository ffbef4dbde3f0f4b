//! What an entry was made from, which is stored in its first section.

use attache_model::Model;
use serde::{Deserialize, Serialize};

use super::Entry;
use super::model::{content_hash, structure_hash};

/// The model that an entry was made from.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ModelOrigin {
    /// The hash of the model's content.
    content: [u8; 32],
    /// The hash of the model without the contents of its large constants.
    structure: [u8; 32],
    /// The token that stood for the contents of the constants in the entry's key, if there was one.
    token: Option<String>,
}

impl ModelOrigin {
    pub(super) fn new(model: &Model, token: Option<&str>) -> Self {
        let structure = *structure_hash(model).as_bytes();
        Self { content: content_hash(model), structure, token: token.map(str::to_owned) }
    }

    /// Reads the origin of an entry; `None` if its first section is none.
    pub(super) fn of(entry: &Entry) -> Option<Self> {
        let section = entry.section(0)?;
        let (origin, rest) = postcard::take_from_bytes(&section).ok()?;
        rest.is_empty().then_some(origin)
    }

    /// Returns the first section of an entry of this origin.
    pub(super) fn section(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("plain data becomes bytes")
    }

    /// Returns the token of the entry if it was given for other weights in a model of the structure of this one, which
    /// would be taken for the entry's model under that token.
    pub(super) fn token_of_other_weights(self, model: &Self) -> Option<String> {
        self.token.filter(|_| self.structure == model.structure && self.content != model.content)
    }
}

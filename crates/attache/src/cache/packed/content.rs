//! The content of an entry with packed weights.
//!
//! | Section | Content |
//! |---|---|
//! | 0 | the model that the weights are of |
//! | 1 | index: for each value its identity (16 bytes), the number of its blocks, the size of its fields (8 bytes each), and its fields |
//! | from 2 | blocks, in the order of the index |

use std::collections::HashMap;

use attache_base::Bytes;
use attache_base::storable::{Parts, StoredParts};

use super::super::Entry;
use super::super::entry::MOST_SECTIONS;
use super::identity::Identity;

/// The values in an entry.
pub(super) type Values = HashMap<Identity, Value>;

/// A stored value.
pub(super) struct Value {
    fields: Bytes,
    blocks: Vec<Bytes>,
}

impl Value {
    pub(super) fn parts(&self) -> StoredParts<'_> {
        StoredParts::new(&self.fields, &self.blocks)
    }

    /// Whether the value has the fields of another, and blocks of equal sizes.
    pub(super) fn is_like(&self, parts: &Parts<'_>) -> bool {
        let sizes = self.blocks.iter().map(|block| block.len());
        self.fields[..] == *parts.fields() && sizes.eq(parts.blocks().iter().map(|block| block.len()))
    }
}

/// Returns the values in an entry; `None` if its index is not one.
pub(super) fn values(entry: &Entry) -> Option<Values> {
    let index = entry.section(1)?;
    let number = |at: usize| -> Option<usize> {
        let bytes = index.get(at..at.checked_add(8)?)?.first_chunk()?;
        usize::try_from(u64::from_le_bytes(*bytes)).ok()
    };
    let (mut values, mut at, mut block) = (HashMap::new(), 0, 2usize);
    while at < index.len() {
        let identity: &Identity = index.get(at..)?.first_chunk()?;
        let (blocks, fields) = (number(at + 16)?, number(at + 24)?);
        let end = (at + 32).checked_add(fields)?;
        let fields = index.slice(at + 32..end)?;
        let blocks = (block..block.checked_add(blocks)?).map(|section| entry.section(section));
        let blocks: Vec<Bytes> = blocks.collect::<Option<_>>()?;
        (at, block) = (end, block + blocks.len());
        values.insert(*identity, Value { fields, blocks });
    }
    Some(values)
}

/// The sections of an entry that is being made.
pub(super) struct Sections<'a> {
    model: &'a [u8],
    index: Vec<u8>,
    blocks: Vec<&'a [u8]>,
}

impl<'a> Sections<'a> {
    /// Creates an entry without values, whose first section names the model.
    pub(super) fn new(model: &'a [u8]) -> Self {
        Self { model, index: Vec::new(), blocks: Vec::new() }
    }

    /// Adds a value that was made.
    pub(super) fn add_made(&mut self, identity: &Identity, parts: &Parts<'a>) {
        self.add(identity, parts.fields(), parts.blocks().iter().copied());
    }

    /// Adds a value of another entry.
    pub(super) fn add_stored(&mut self, identity: &Identity, value: &'a Value) {
        self.add(identity, &value.fields, value.blocks.iter().map(|block| &block[..]));
    }

    /// Adds a value, unless an entry cannot have that many blocks.
    fn add(&mut self, identity: &Identity, fields: &[u8], blocks: impl ExactSizeIterator<Item = &'a [u8]>) {
        // The description, the model and the index are sections too.
        if self.blocks.len() + blocks.len() + 3 > MOST_SECTIONS {
            return;
        }
        self.index.extend(identity);
        self.index.extend((blocks.len() as u64).to_le_bytes());
        self.index.extend((fields.len() as u64).to_le_bytes());
        self.index.extend(fields);
        self.blocks.extend(blocks);
    }

    /// Returns the sections after the description.
    pub(super) fn list(&self) -> Vec<&[u8]> {
        [&[self.model, &self.index], &self.blocks[..]].concat()
    }
}

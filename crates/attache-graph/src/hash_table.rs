//! Hash tables ([`HashTable`]): resources that map keys to values, filled once and read by operators.

use std::collections::HashMap;

/// A hash table of an interpreter.
#[derive(Debug)]
pub enum HashTable {
    /// Strings by integers.
    Strings(HashMap<i64, Vec<u8>>),
    /// Integers by strings.
    Integers(HashMap<Vec<u8>, i64>),
}

impl HashTable {
    /// Returns the number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Strings(entries) => entries.len(),
            Self::Integers(entries) => entries.len(),
        }
    }

    /// Whether there are no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

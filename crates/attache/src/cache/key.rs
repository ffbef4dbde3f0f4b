//! The key of an entry: a hash of everything that its content depends on.

use std::fmt::Write;

/// The version of Attaché, and a hash of the sources that make plans (`build.rs`).
const ENGINE: &str = concat!(env!("CARGO_PKG_VERSION"), " ", env!("ATTACHE_SOURCES"));

/// The key of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(super) hash: [u8; 32],
    /// The kind of the entry's content, such as `gpu`, which its file's name ends with.
    kind: &'static str,
}

/// Hashes what an entry depends on, part by part.
#[derive(Clone)]
pub(crate) struct KeyBuilder {
    hasher: blake3::Hasher,
    kind: &'static str,
}

impl KeyBuilder {
    /// Starts the key of an entry of this kind, with the version of Attaché.
    pub(crate) fn new(kind: &'static str) -> Self {
        let mut builder = Self { hasher: blake3::Hasher::new(), kind };
        builder.add(kind.as_bytes()).add(ENGINE.as_bytes());
        builder
    }

    /// Adds a part. The same bytes split differently make another key.
    pub(crate) fn add(&mut self, part: &[u8]) -> &mut Self {
        self.hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        self
    }

    /// Adds a value as its text.
    pub(crate) fn add_debug(&mut self, part: &impl std::fmt::Debug) -> &mut Self {
        self.add(format!("{part:?}").as_bytes())
    }

    pub(crate) fn finish(&self) -> Key {
        Key { hash: *self.hasher.finalize().as_bytes(), kind: self.kind }
    }
}

impl Key {
    /// Returns the name of the entry's file.
    pub(super) fn file(&self) -> String {
        let mut name = String::new();
        for byte in &self.hash[..16] {
            let _ = write!(name, "{byte:02x}");
        }
        format!("{name}.{}", self.kind)
    }
}

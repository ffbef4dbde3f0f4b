//! The error of a cache.

use std::io;

/// A cache folder or an entry that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The folder cannot be created, read or written.
    #[error("the cache folder {folder} cannot be used: {source}; name another")]
    Io {
        /// The path of the folder.
        folder: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The folder belongs to another user, or others may write to it.
    #[error(
        "the cache folder {folder} is not used: {reason}; name one of your own that nobody else may write to (mode 700)"
    )]
    NotPrivate {
        /// The path of the folder.
        folder: String,
        /// Who may write to it.
        reason: String,
    },
    /// An entry was stored under a token that stands for other weights.
    #[error(
        "{file}: it has other weights than the model, under the token {token:?}; give each file a token of its own"
    )]
    OtherWeights {
        /// The name of the entry's file.
        file: String,
        /// The token.
        token: String,
    },
    /// An entry would not be used.
    #[error("{file}: {reason}")]
    Unusable {
        /// The name of the entry's file.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
}

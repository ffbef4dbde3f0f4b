//! Reads TensorFlow Lite model files into a [`Model`] and writes them with a [`ModelBuilder`].
//!
//! Reading verifies the file as a flatbuffer and then checks it: every index, shape, offset and size in the
//! resulting descriptors is valid. A bad file gives a [`ModelError`] that lists all problems with their
//! locations. The crate does not interpret operator options, and does not check that each operator exists in
//! its version or that the operators form a valid graph.

// The generated code refers to `alloc` by this path.
extern crate alloc;

mod archive;
mod error;
mod flexbuffer;
mod generated;
mod metadata;
mod model;
mod read;
#[cfg(not(attache_small))]
mod sparsity;
mod verify;
mod write;

pub use error::{ModelError, ModelErrorKind, ModelLocation, Problem};
pub use flexbuffer::{FlexMap, FlexScalar};
pub use generated::schema;
pub use metadata::Normalization;
pub use model::{Metadata, Model, Operator, OperatorCode, QuantizationDetails, Signature, Subgraph, Tensor, map};
#[cfg(not(attache_small))]
pub use sparsity::{SparseAxis, Sparsity};
pub(crate) use verify::{Long, Longs, verify_fields, verify_fields_at};
pub use write::{ModelBuilder, OperatorBuilder, TensorBuilder};

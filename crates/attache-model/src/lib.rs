//! TensorFlow Lite model files: bytes to [`Model`] and, through [`ModelBuilder`], back to bytes.
//!
//! A model is verified as a flatbuffer and then checked: every index, shape, offset and size in its descriptors is good
//! to use, and a bad file is a [`ModelError`] that lists all problems with their places. What the options of an operator
//! mean, which operators and versions exist, and whether the operators make a graph is for others to say.

// Generated code names it by this path.
extern crate alloc;

mod archive;
mod error;
mod flexbuffer;
mod generated;
mod metadata;
mod model;
mod read;
mod write;

pub use error::{ModelError, ModelErrorKind, Place, Problem};
pub use flexbuffer::{FlexMap, FlexScalar};
pub use generated::schema;
pub use metadata::Normalization;
pub use model::{Metadata, Model, Operator, OperatorCode, QuantizationDetails, Signature, Subgraph, Tensor};
pub use write::{ModelBuilder, OperatorBuilder, TensorBuilder};

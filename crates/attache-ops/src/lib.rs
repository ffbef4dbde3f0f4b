//! The operators, one file each, and the import of a model as graphs.
//!
//! An operator's file contains its [`Definition`] (code, versions, parser of its options) and its `Op`: shape
//! inference, CPU form and GPU form. Everything that needs a list of operators (import, reports, the manual, tests)
//! uses [`definitions`]. The crate is independent of devices and of the interpreter.

mod definition;
mod import;
mod operators;
mod shared;
mod subgraphs;

pub use definition::{Code, Declaration, Definition};
pub use import::{ImportError, import, import_first};
pub use operators::definitions;

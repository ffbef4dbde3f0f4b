//! The operators, one file each with all their facets, and the import of a model as graphs.
//!
//! An operator's file holds its [`Definition`] (code, versions, how options are parsed) and its `Op`: shapes, CPU form,
//! GPU form. Whatever needs a list of operators (import, reports, the manual, tests) reads [`definitions`]. Knows nothing
//! of devices or of the interpreter.

mod definition;
mod import;
mod operators;
mod shared;
mod subgraphs;

pub use definition::{Code, Declaration, Definition};
pub use import::{ImportError, import, import_first};
pub use operators::definitions;

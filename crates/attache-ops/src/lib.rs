//! The operators, one file each with all their facets, and the import of a model as graphs.
//!
//! An operator's file holds its [`Definition`] (code, versions, how options are parsed) and its `Op`: shapes, CPU form,
//! GPU form. Whatever needs a list of operators (import, reports, the manual, tests) reads [`definitions`]. Knows nothing
//! of devices or of the interpreter.

mod definition;
mod import;
mod support;

mod reshape;

pub use definition::{Code, Declaration, Definition};
pub use import::{ImportError, import};

/// Every operator, sorted by file.
static TABLE: &[&[Definition]] = &[
    reshape::DEFINITIONS,
];

/// Every operator that is implemented.
pub fn definitions() -> impl Iterator<Item = &'static Definition> {
    TABLE.iter().flat_map(|definitions| definitions.iter())
}

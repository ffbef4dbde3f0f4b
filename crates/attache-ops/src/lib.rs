//! The operators, one file each, and the import of a model as graphs.
//!
//! An operator's file contains its [`Definition`] and its implementation: shape inference, CPU form and GPU form. The
//! definition has the operator's code and versions, declares its inputs, and parses its options:
//!
//! ```text
//! pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
//!     code: Code::Builtin(BuiltinOperator::GATHER),
//!     versions: 1..=8,
//!     inputs: &[input("params").movable(), input("indices").integral()],
//!     parse,
//! }];
//! ```
//!
//! Number, presence and types of inputs are checked against that declaration in one place, before the operator sees
//! them. Everything that needs a list of operators (import, reports, the manual, tests) uses [`definitions`]. The crate
//! is independent of devices and of the interpreter.

mod definition;
mod import;
mod operators;
mod shared;
mod subgraphs;

pub use definition::{Code, Declaration, Definition, Input, Types, input};
pub use import::{ImportError, import, import_first};
pub use operators::definitions;

pub(crate) use definition::{Facts, Operator, Parsed};

//! The operators of TensorFlow Lite, one file each, and the import of a model's subgraphs as graphs. The
//! crate depends neither on devices nor on the interpreter.
//!
//! An operator's file contains its [`Definition`] and its implementation: shape inference, evaluation on the
//! CPU and lowering to GPU primitives. The definition states the operator's code and versions, declares its
//! inputs, and parses its options:
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
//! The number, presence and types of a node's inputs are checked against that declaration in one place,
//! before the operator's code runs. Everything that needs a list of operators (import, reports, the manual,
//! tests) uses [`definitions`].

// Without GPU forms, what they alone use is left out by the compiler.
#![cfg_attr(not(feature = "lowering"), allow(dead_code))]

mod definition;
mod import;
mod operators;
mod packed;
mod resolver;
mod shared;
mod subgraphs;

pub use definition::{Code, Declaration, Definition, Input, Types, input};
pub use import::{ImportError, NOT_IMPLEMENTED, import, import_first};
pub use operators::definitions;
pub use packed::PackedKind;
pub use resolver::OpResolver;

pub(crate) use definition::{Combination, Facts, Operator, Parsed};

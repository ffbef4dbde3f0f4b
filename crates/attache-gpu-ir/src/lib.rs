//! The closed set of device primitives, as plain data.
//!
//! An operator is lowered to a [`Program`] of these primitives only, and a back end generates code for them.
//! [`interpret`] defines the meaning of each primitive. It is a slow CPU implementation and the specification that
//! kernels are tested against. This crate does not depend on operators, files or devices.

mod expression;
mod index;
mod interpret;
mod primitive;
mod program;
mod rows;
mod whole;

pub use expression::{Binary, Expression, Unary};
pub use index::{Index, IndexMap};
pub use interpret::{Tensor, interpret};
pub use primitive::{Contraction, Gather, Primitive, Reduction, Resample, Sampling, Window, WindowKind};
pub use program::{Bytes, InvalidProgram, Program, Scalar, Source, Step, Value, ValueId};
pub use rows::{RowStep, Rows};
pub use whole::{Whole, WholeBinary, WholeRounding};

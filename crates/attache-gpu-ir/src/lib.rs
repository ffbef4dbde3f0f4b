//! The intermediate representation between operators and GPU kernels: programs of a closed set of device
//! primitives, as plain data.
//!
//! An operator is lowered to a [`Program`] of these primitives only, and a back end generates code for them.
//! [`interpret`] defines the meaning of each primitive. It is a slow CPU implementation and the specification that
//! kernels are tested against. This crate does not depend on operators, files or devices.

mod expression;
mod index;
mod int_expression;
mod interpret;
mod primitive;
mod program;
mod rows;

pub use expression::{BinaryOp, Expression, UnaryOp};
pub use index::{Index, IndexMap};
pub use int_expression::{IntBinaryOp, IntExpression, IntRounding};
pub use interpret::{HostTensor, interpret};
pub use primitive::{
    ConvolutionGeometry, Gather, Primitive, ReduceOp, Resample, Sampling, Suppression, Window, WindowKind,
};
pub use program::{ByteType, InvalidProgram, Program, Scalar, Source, Step, Value, ValueId};
pub use rows::{RowStep, Rows};

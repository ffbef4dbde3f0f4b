//! The closed set of device primitives, as pure data.
//!
//! An operator's GPU form is a [`Program`] over these primitives and nothing else; a back end is a writer over them.
//! [`interpret`] gives each primitive its meaning, on the CPU and without haste: it is the specification that kernels
//! are held to. Knows nothing of operators, files or devices.

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

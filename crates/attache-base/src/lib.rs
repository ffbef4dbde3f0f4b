//! Types shared by all other crates: element types, shapes, quantization parameters, constants, TensorFlow Lite's
//! window arithmetic, the arena planner, the [`Parallel`] interface between kernels and threads, a thread pool, and
//! multithreaded copies.
//!
//! This crate depends on neither model files, nor operators, nor devices.

pub mod arena;
mod buffer;
mod constant;
mod copy;
mod data_type;
mod division;
mod integer_rounding;
mod order;
pub mod parallel;
mod placement;
mod pool;
mod pools;
mod process;
mod quantization;
mod shape;
mod shared_buffer;
pub mod small_integers;
mod stopwatch;
pub mod storable;
pub mod strings;
mod window;

pub use buffer::AlignedBuffer;
pub use constant::{Bytes, Constant};
pub use copy::{copy, copy_to_all};
pub use data_type::{DataType, Element};
pub use division::{Division, portion};
pub use integer_rounding::IntegerRounding;
pub use order::{OrderAsNeeded, order_as_needed, order_by};
pub use parallel::{Parallel, Serial};
pub use pool::{Idle, Pool};
pub use pools::{LentPool, Pools};
pub use process::process_id;
pub use quantization::Quantization;
pub use shape::{Shape, broadcast_strides, strides};
pub use shared_buffer::SharedBuffer;
pub use stopwatch::Stopwatch;
pub use strings::Strings;
pub use window::{Activation, Padding, WindowExtent};

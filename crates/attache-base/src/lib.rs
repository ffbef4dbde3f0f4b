//! The words that every other crate speaks: element types, shapes, quantization, constants, the window arithmetic of
//! TensorFlow Lite, the arena planner, and threads: the seam between kernels and them, a pool, and copies on several.
//!
//! Knows nothing of files, operators or devices.

pub mod arena;
mod buffer;
mod constant;
mod copy;
mod data_type;
pub mod parallel;
mod pool;
mod quantization;
mod shape;
mod stopwatch;
mod window;

pub use buffer::Buffer;
pub use constant::{Bytes, Constant};
pub use copy::{copy, copy_to_all};
pub use data_type::{DataType, Element};
pub use parallel::{Parallel, Serial};
pub use pool::Pool;
pub use quantization::Quantization;
pub use shape::{Shape, broadcast_strides, strides};
pub use stopwatch::Stopwatch;
pub use window::{Activation, Padding, WindowExtent};

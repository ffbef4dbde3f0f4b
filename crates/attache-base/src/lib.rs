//! The words that every other crate speaks: element types, shapes, quantization, constants, the window arithmetic of
//! TensorFlow Lite, the arena planner and the seam between kernels and threads.
//!
//! Knows nothing of files, operators or devices.

pub mod arena;
mod buffer;
mod constant;
mod data_type;
pub mod parallel;
mod quantization;
mod shape;
mod window;

pub use buffer::Buffer;
pub use constant::{Bytes, Constant};
pub use data_type::{DataType, Element};
pub use parallel::{Parallel, Serial};
pub use quantization::Quantization;
pub use shape::{Shape, broadcast_strides, strides};
pub use window::{Activation, Padding, WindowExtent};

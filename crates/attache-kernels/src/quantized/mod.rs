//! Kernels over 8- and 16-bit numbers that stand for real ones, in integer arithmetic: the same bits as TensorFlow Lite's
//! reference kernels on every machine and at every instruction set.

pub mod fixed_point;

pub use fixed_point::{Multiplier, Rounding};

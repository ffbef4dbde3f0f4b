//! Delegates and operators in C, compiled by the tests from declarations of their own, run by Attaché.

mod delegates;
mod faults;
mod opaque;
mod operators;
mod support;

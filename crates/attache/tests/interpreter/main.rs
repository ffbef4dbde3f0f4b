//! Tests of the interpreter on the CPU and with test delegates.

#![cfg(not(feature = "_poison"))]

#[path = "../common/mod.rs"]
mod common;

mod bands;
mod bindings;
mod by_reference;
mod cancellation;
mod compiled;
mod delegate_panics;
mod diff;
mod flow;
mod graphs;
mod inlining;
mod language;
mod limits;
mod outputs;
mod strings;
mod third_party_delegate;

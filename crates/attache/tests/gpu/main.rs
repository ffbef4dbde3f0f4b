//! The interpreter with the GPU delegate, on software Vulkan.

#![cfg(not(feature = "_poison"))]

#[path = "../common/mod.rs"]
mod common;
#[allow(dead_code)] // These tests use only a part of it.
#[path = "../goldens/mod.rs"]
mod goldens;
#[path = "../../../attache-gpu/tests/shaders/mod.rs"]
mod shaders;
#[path = "../../../attache-gpu/tests/validation/mod.rs"]
mod validation;

mod async_runs;
mod bound;
mod carried;
mod carried_attention;
mod carried_forms;
mod compiled;
mod device;
mod extreme_integers;
mod faults;
mod flow;
mod masked;
mod opening;
mod partitions;
mod poses;
mod profile;
mod quantized_forms;
mod replayed;
mod states;
mod stored_plans;
mod writers;

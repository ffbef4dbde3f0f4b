//! Tests of sessions and their recordings on the first Vulkan device, which may be a software one.

#[path = "../validation/mod.rs"]
mod validation;

mod functions;
mod interfaces;
mod literals;
mod recordings;
mod refusals;
mod times;

//! Sessions and their recordings on the first Vulkan device, software included.

#[path = "../validation/mod.rs"]
mod validation;

mod functions;
mod literals;
mod recordings;
mod refusals;
mod times;

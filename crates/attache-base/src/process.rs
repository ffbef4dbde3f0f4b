//! The process that this code runs in.

/// Returns the number of this process, which differs in a fork of it; 0 on systems without processes.
#[must_use]
pub fn process_id() -> u32 {
    // WebAssembly's standard library panics instead.
    if cfg!(target_family = "wasm") { 0 } else { std::process::id() }
}

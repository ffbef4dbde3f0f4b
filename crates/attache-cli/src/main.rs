//! `attache`: runs, checks, measures and explains TensorFlow Lite models from the command line.
//!
//! The crate `attache_command` has the commands. This crate starts the process: it is apart because the crate that is
//! linked decides how the linker optimizes (the profile `dist` in the workspace's `Cargo.toml`).

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    prepare_environment();
    attache_command::run(std::env::args_os().collect())
}

/// On Linux, sets `XDG_RUNTIME_DIR` to the folder for temporary files if the variable is not set. The Vulkan
/// loader and drivers report a missing one on standard error, although they work without it.
fn prepare_environment() {
    const VARIABLE: &str = "XDG_RUNTIME_DIR";
    let is_set = std::env::var_os(VARIABLE).is_some_and(|folder| !folder.is_empty());
    if cfg!(target_os = "linux") && !is_set {
        set(VARIABLE, &std::env::temp_dir());
    }
}

#[allow(unsafe_code)]
fn set(variable: &str, value: &Path) {
    // SAFETY: `main` comes here first, when there is no other thread that could read the environment.
    unsafe { std::env::set_var(variable, value) }
}

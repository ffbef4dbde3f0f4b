//! What the process needs around it before anything else happens.

/// Gives the process a runtime folder where it has none: the Vulkan loader and drivers complain about its absence on
/// standard error, although they do without.
pub(crate) fn prepare() {
    const VARIABLE: &str = "XDG_RUNTIME_DIR";
    if cfg!(target_os = "linux") && std::env::var_os(VARIABLE).is_none() {
        set(VARIABLE, &std::env::temp_dir());
    }
}

#[allow(unsafe_code)]
fn set(variable: &str, value: &std::path::Path) {
    // SAFETY: `main` calls this first of all, when there is no other thread that could read the environment.
    unsafe { std::env::set_var(variable, value) }
}

//! What the process needs around it before anything else happens.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// Gives the process a runtime folder where it has none: the Vulkan loader and drivers complain about its absence on
/// standard error, although they do without.
pub(crate) fn prepare() {
    const VARIABLE: &str = "XDG_RUNTIME_DIR";
    let is_set = std::env::var_os(VARIABLE).is_some_and(|folder| !folder.is_empty());
    if cfg!(target_os = "linux") && !is_set {
        set(VARIABLE, &std::env::temp_dir());
    }
}

/// Sends warnings to standard error, and whatever else `RUST_LOG` asks for.
pub(crate) fn log() {
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::WARN.into()).from_env_lossy();
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).without_time();
    // Colours would need a feature of the crate, without which asking for them panics.
    subscriber.with_ansi(false).init();
}

#[allow(unsafe_code)]
fn set(variable: &str, value: &std::path::Path) {
    // SAFETY: `main` calls this first of all, when there is no other thread that could read the environment.
    unsafe { std::env::set_var(variable, value) }
}

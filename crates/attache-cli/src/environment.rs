//! Sets up the process environment and logging, before anything else runs.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// On Linux, sets `XDG_RUNTIME_DIR` to the folder for temporary files if the variable is not set. The Vulkan
/// loader and drivers report a missing one on standard error, although they work without it.
pub(crate) fn prepare() {
    const VARIABLE: &str = "XDG_RUNTIME_DIR";
    let is_set = std::env::var_os(VARIABLE).is_some_and(|folder| !folder.is_empty());
    if cfg!(target_os = "linux") && !is_set {
        set(VARIABLE, &std::env::temp_dir());
    }
}

/// Installs the logger, which writes messages of this level, and whatever `RUST_LOG` selects, to standard
/// error.
pub(crate) fn log(level: LevelFilter) {
    let filter = EnvFilter::builder().with_default_directive(level.into()).from_env_lossy();
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).without_time();
    // Colours need a feature of the crate that is not enabled; requesting them without that feature panics.
    subscriber.with_ansi(false).init();
}

#[allow(unsafe_code)]
fn set(variable: &str, value: &std::path::Path) {
    // SAFETY: `main` calls `prepare` first, when there is no other thread that could read the environment.
    unsafe { std::env::set_var(variable, value) }
}

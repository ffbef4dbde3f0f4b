//! Sets up the process environment and logging, before anything else runs.

use std::io::Write;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::prelude::*;

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
    let directives = std::env::var("RUST_LOG").unwrap_or_default();
    let directives: Vec<&str> = directives.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
    let targets = if directives.is_empty() { Ok(Targets::new()) } else { directives.join(",").parse::<Targets>() };
    if let Err(error) = &targets {
        // Without standard error there is nobody to tell.
        let _ = writeln!(
            std::io::stderr(),
            "warning: RUST_LOG is ignored: {error}; directives look like `debug` or `attache=trace,wgpu=warn`"
        );
    }
    let targets = targets.unwrap_or_default();
    let level = targets.default_level().unwrap_or(level);
    // Colours need a feature of the crate that is not enabled; requesting them without that feature panics.
    let lines = fmt::layer().with_writer(std::io::stderr).without_time().with_ansi(false);
    tracing_subscriber::registry().with(lines).with(targets.with_default(level)).init();
}

#[allow(unsafe_code)]
fn set(variable: &str, value: &std::path::Path) {
    // SAFETY: `main` calls `prepare` first, when there is no other thread that could read the environment.
    unsafe { std::env::set_var(variable, value) }
}

//! Sets up logging.

use std::io::Write;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::prelude::*;

/// Installs the logger, which writes messages of this level, and whatever `RUST_LOG` selects, to standard
/// error.
pub(crate) fn start(level: LevelFilter) {
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

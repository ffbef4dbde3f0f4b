//! The project's own tasks: `cargo xtask TASK`.
//!
//! Whatever a contributor or a machine has to run is here, so that both run the same. Nothing of it is part of the
//! library.

mod check;
mod generate;
mod manual;
mod setup;
mod source;
mod structure;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Result;

/// A task.
struct Task {
    name: &'static str,
    about: &'static str,
    run: fn() -> Result<()>,
}

/// Every task, sorted by name.
static TASKS: &[Task] = &[
    Task {
        name: "check",
        about: "the gate: format, lints, documentation, structure, generated files, tests",
        run: check::run,
    },
    Task { name: "generate", about: "regenerate what is checked in: schema code, operator manual", run: generate::run },
    Task { name: "operators", about: "print the operator manual", run: manual::print },
    Task { name: "setup", about: "install what the gate needs, through apt-get and rustup", run: setup::run },
    Task { name: "structure", about: "check the rules of structure alone", run: structure::run },
    Task { name: "test", about: "setup, then check", run: test },
];

fn test() -> Result<()> {
    setup::run()?;
    check::run()
}

fn main() -> ExitCode {
    let name = std::env::args().nth(1);
    let Some(task) = TASKS.iter().find(|task| Some(task.name) == name.as_deref()) else {
        eprintln!("usage: cargo xtask TASK");
        TASKS.iter().for_each(|task| eprintln!("  {:10} {}", task.name, task.about));
        return ExitCode::from(2);
    };
    match (task.run)() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The folder of the workspace.
fn root() -> PathBuf {
    // Told by cargo at the run: checkouts that share a build folder share this program too.
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&package).parent().expect("this crate lies in the workspace").to_owned()
}

/// Cargo, the one that runs this, in the workspace.
fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

#[cfg(test)]
mod tests {
    #[test]
    fn tasks_are_sorted() {
        assert!(super::TASKS.is_sorted_by_key(|task| task.name));
    }
}

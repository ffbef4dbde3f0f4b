//! The tasks of the project, which `cargo xtask TASK` runs: checks, generated files and setup.
//!
//! Contributors and continuous integration run the same tasks. None of them is part of the library.

mod check;
mod compact;
mod generate;
mod install;
mod java;
mod plugin;
mod setup;
mod small;
mod source;
mod speed_chart;
mod structure;
mod wheel;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};

/// A task of `cargo xtask`: its name, a line of help, and the function that runs it with the arguments after
/// its name.
struct Task {
    name: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Result<()>,
}

/// All tasks, sorted by name.
static TASKS: &[Task] = &[
    Task {
        name: "check",
        about: "the gate: format, lints, documentation, structure, generated files, tests; with --deep what takes longer too",
        run: check::run,
    },
    Task {
        name: "generate",
        about: "regenerate what is checked in: schema code, operator manual, chart of speed",
        run: |arguments| plain(arguments, generate::run),
    },
    Task {
        name: "install",
        about: "build the library for C and C++, and install it with its headers: --prefix FOLDER",
        run: install::run,
    },
    Task {
        name: "jar",
        about: "make the jar for Java, with the native library in it: --profile NAME; with --test run its tests",
        run: java::run,
    },
    Task {
        name: "setup",
        about: "install what the gate needs, through apt-get and rustup",
        run: |arguments| plain(arguments, setup::run),
    },
    Task {
        name: "small",
        about: "build the smallest libraries: for C without the GPU, and the delegate for LiteRT",
        run: |arguments| plain(arguments, small::run),
    },
    Task {
        name: "structure",
        about: "check the rules of structure alone",
        run: |arguments| plain(arguments, structure::run),
    },
    Task { name: "test", about: "setup, then check", run: test },
    Task {
        name: "wheel",
        about: "build the wheel of the package for Python: [--profile NAME] [--test]",
        run: wheel::run,
    },
];

/// The options of cargo for the crates that have tests in Rust, so that all that is built for tests has the same features.
/// The library for Python is loaded by Python, whose functions it calls: no program can be linked with it.
const TESTED: [&str; 3] = ["--workspace", "--exclude", "attache-python"];

fn test(arguments: &[String]) -> Result<()> {
    setup::run()?;
    check::run(arguments)
}

/// Runs a task that takes no arguments.
fn plain(arguments: &[String], run: fn() -> Result<()>) -> Result<()> {
    ensure!(arguments.is_empty(), "this task takes no arguments: {}", arguments.join(" "));
    run()
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let task = arguments.first().and_then(|name| TASKS.iter().find(|task| task.name == name));
    let Some(task) = task else {
        eprintln!("usage: cargo xtask TASK");
        TASKS.iter().for_each(|task| eprintln!("  {:10} {}", task.name, task.about));
        return ExitCode::from(2);
    };
    match (task.run)(&arguments[1..]) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the folder of the workspace.
fn root() -> PathBuf {
    // Cargo sets the variable at run time. Checkouts that share a build folder also share this program, so the path at
    // compile time may be that of another checkout.
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&package).parent().expect("this crate lies in the workspace").to_owned()
}

/// Returns the folder in which cargo builds.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Returns the folder with the libraries that the tests of the workspace build. They have the features of tests: to build
/// them otherwise, cargo would compile most dependencies once more.
fn tested_libraries() -> PathBuf {
    target().join("debug/deps")
}

/// Runs a program and returns what it prints. Fails with all that it printed if it fails.
fn must(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let (printed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{command:?}: {}\n{printed}\n{errors}", output.status);
    Ok(printed.into_owned())
}

/// Returns a command for the cargo that runs this program, with the workspace as its working directory.
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

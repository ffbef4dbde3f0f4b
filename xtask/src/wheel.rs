//! Builds the wheel of the package for Python, and tests it where there is no Rust.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::{root, setup, target};

/// The Python that makes virtual environments, unless the variable `ATTACHE_PYTHON` names one.
const PYTHON: &str = "python3";

/// What builds wheels.
const MATURIN: &str = "maturin>=1.9,<2";

/// What the tests need besides the wheel.
const TEST_PACKAGES: [&str; 4] = ["flatbuffers", "mypy", "numpy", "pytest"];

/// The oracle of the tests. Where it cannot be installed, they say what they leave out.
const ORACLE: &str = "ai-edge-litert";

struct Options {
    profile: String,
    is_tested: bool,
}

/// Builds the wheel, and installs and tests it in a fresh virtual environment if asked to.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let options = parse(arguments)?;
    let wheel = build(&options.profile)?;
    println!("{}", wheel.display());
    if options.is_tested { test(&wheel) } else { Ok(()) }
}

/// Builds the wheel without optimization across crates, and tests it.
pub(crate) fn check() -> Result<()> {
    test(&build("dev")?)
}

fn parse(arguments: &[String]) -> Result<Options> {
    let mut options = Options { profile: "dist".to_owned(), is_tested: false };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--profile" => options.profile = words.next().context("--profile needs a value")?.clone(),
            "--test" => options.is_tested = true,
            _ => bail!("usage: cargo xtask wheel [--profile NAME] [--test]"),
        }
    }
    Ok(options)
}

/// Builds the wheel with maturin, from a virtual environment of its own, and returns its path.
fn build(profile: &str) -> Result<PathBuf> {
    let folder = target().join("python");
    let tools = folder.join("tools");
    if !program(&tools, "maturin").exists() {
        make_environment(&tools)?;
        install(&tools, &[MATURIN])?;
    }
    let wheels = folder.join("wheels");
    if wheels.exists() {
        fs::remove_dir_all(&wheels)?;
    }
    let mut command = Command::new(program(&tools, "maturin"));
    command.current_dir(root().join("python")).args(["build", "--quiet", "--profile", profile]);
    finish(command.arg("--out").arg(&wheels).arg("--interpreter").arg(program(&tools, "python")))?;
    let mut built = fs::read_dir(&wheels)?.filter_map(|entry| Some(entry.ok()?.path()));
    let wheel = built.find(|path| path.extension().is_some_and(|extension| extension == "whl"));
    wheel.with_context(|| format!("there is no wheel in {}", wheels.display()))
}

/// Installs the wheel in a fresh virtual environment, without Rust on the path, and runs the tests of the package there.
fn test(wheel: &Path) -> Result<()> {
    let environment = target().join("python/test");
    if environment.exists() {
        fs::remove_dir_all(&environment)?;
    }
    make_environment(&environment)?;
    install(&environment, &TEST_PACKAGES)?;
    if let Err(error) = install(&environment, &[ORACLE]) {
        println!("LEFT OUT, as {ORACLE} cannot be installed ({error:#}): the comparison with LiteRT");
    }
    finish(
        without_rust(Command::new(program(&environment, "python")))
            .args(["-m", "pip", "install", "--quiet"])
            .arg(wheel),
    )?;
    let tests = root().join("python");
    // Not in the folder of the package's sources, which Python would find there instead of the wheel.
    let mut command = Command::new(program(&environment, "python"));
    command.current_dir(&environment).args(["-m", "pytest", "--quiet"]).arg(tests.join("tests"));
    finish(without_rust(command).envs(setup::environment()?))?;
    let checked = |arguments: &[&str], folder: &Path| {
        let mut command = Command::new(program(&environment, "python"));
        finish(command.current_dir(folder).args(arguments))
    };
    checked(&["-m", "mypy", "--strict", "attache", "tests/typed.py"], &tests)?;
    // The types of the native part are those that it has. It is looked for where it is installed.
    checked(&["-m", "mypy.stubtest", "attache._attache"], &environment)
}

fn make_environment(folder: &Path) -> Result<()> {
    let python = std::env::var_os("ATTACHE_PYTHON").unwrap_or_else(|| PYTHON.into());
    finish(Command::new(python).args(["-m", "venv"]).arg(folder))
}

fn install(environment: &Path, packages: &[&str]) -> Result<()> {
    let mut command = Command::new(program(environment, "python"));
    finish(command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages))
}

/// Takes the folders with cargo off the path of a command.
fn without_rust(mut command: Command) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let others = std::env::split_paths(&path).filter(|folder| !folder.join("cargo").exists());
    command.env("PATH", std::env::join_paths(others).unwrap_or_else(|_| OsString::new()));
    command
}

/// Returns a program of a virtual environment.
fn program(environment: &Path, name: &str) -> PathBuf {
    if cfg!(windows) {
        environment.join("Scripts").join(name).with_extension("exe")
    } else {
        environment.join("bin").join(name)
    }
}

fn finish(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licenses_are_those_of_the_project() {
        for name in ["LICENSE-APACHE", "LICENSE-MIT"] {
            let read = |folder: PathBuf| fs::read(folder.join(name)).unwrap();
            assert_eq!(read(root().join("python")), read(root()), "{name}");
        }
    }

    #[test]
    fn arguments_are_read() {
        let parsed = |words: &[&str]| parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        let options = parsed(&["--profile", "release", "--test"]).unwrap();
        assert_eq!((options.profile.as_str(), options.is_tested), ("release", true));
        assert_eq!(parsed(&[]).unwrap().profile, "dist");
        assert!(parsed(&["--profile"]).is_err() && parsed(&["--fast"]).is_err());
    }
}

//! The gate: runs all checks that a commit must pass. A failed check does not stop the others.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::{TESTED, cargo, generate, install, java, plugin, root, setup, structure, wheel};

/// One check of the gate.
struct Step {
    name: &'static str,
    /// Whether the check runs only with `--deep`.
    is_deep: bool,
    run: fn() -> Result<()>,
}

/// All checks in the order in which they run, the quick ones first.
static STEPS: &[Step] = &[
    Step { name: "format", is_deep: false, run: || run_cargo(&["fmt", "--all", "--check"]) },
    Step { name: "structure", is_deep: false, run: structure::run },
    Step { name: "generated files", is_deep: false, run: generate::check },
    Step { name: "lints", is_deep: false, run: || clippy(&["--workspace", "--all-targets"]) },
    Step {
        name: "lints without the GPU",
        is_deep: true,
        run: || clippy(&["--package", "attache", "--all-targets", "--no-default-features"]),
    },
    Step { name: "combinations of features", is_deep: true, run: check_features },
    Step { name: "fuzz targets", is_deep: true, run: || clippy(&["--manifest-path", "fuzz/Cargo.toml"]) },
    Step { name: "packages", is_deep: true, run: package },
    Step { name: "documentation", is_deep: false, run: document },
    Step { name: "tests", is_deep: false, run: test },
    Step { name: "installed library for C", is_deep: false, run: install::check },
    Step { name: "classes for Java", is_deep: false, run: java::check },
    Step { name: "tests in the documentation", is_deep: false, run: || run_tests(&["--doc"]) },
    Step { name: "deep tests", is_deep: true, run: test_deep },
    Step { name: "plug-in in LiteRT", is_deep: true, run: plugin::check },
    Step { name: "wheel for Python", is_deep: true, run: wheel::check },
    Step { name: "tests with a poisoned CPU", is_deep: true, run: test_poisoned },
    Step { name: "tests through OpenGL ES", is_deep: true, run: test_gl },
    Step { name: "tests with a planted fault", is_deep: true, run: test_fault },
];

/// Names of the integration tests that take minutes. They run only with `--deep`.
const DEEP: [&str; 3] = ["gpu_stored", "gpu_ways", "shared_endurance"];

/// Names of the integration tests that run in every check, on more cases with `--deep`.
const DRAWN: [&str; 4] = ["gpu_goldens", "primitives", "programs", "stored_weights"];

/// The environment variable that makes the tests in [`DRAWN`] generate and compare all of their cases.
const DEEP_VARIABLE: &str = "ATTACHE_DEEP";

/// Runs the checks and prints a summary; returns an error if any of them failed. With `--deep`, includes the
/// deep checks.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let is_deep = match arguments {
        [] => false,
        [flag] if flag == "--deep" => true,
        _ => bail!("usage: cargo xtask check [--deep]"),
    };
    let (mut failed, mut lines) = (Vec::new(), Vec::new());
    for step in STEPS.iter().filter(|step| is_deep || !step.is_deep) {
        println!("== {}", step.name);
        let start = Instant::now();
        let result = (step.run)();
        let word = if result.is_ok() { "passed" } else { "FAILED" };
        lines.push(format!("{word} {:>5.0} s  {}", start.elapsed().as_secs_f64(), step.name));
        if let Err(error) = result {
            eprintln!("{}: {error:#}", step.name);
            failed.push(step.name);
        }
    }
    println!("== summary\n{}", lines.join("\n"));
    structure::RULES.iter().for_each(|rule| println!("rule: {}", rule.about));
    if !is_deep {
        let deep: Vec<&str> = STEPS.iter().filter(|step| step.is_deep).map(|step| step.name).collect();
        println!("left to `cargo xtask check --deep`: {}", deep.join(", "));
    }
    if shared().is_none() {
        let left_out = test_targets()?.into_iter().filter(|name| needs_shared(name)).collect::<Vec<_>>().join(", ");
        println!("LEFT OUT, as ATTACHE_SHARED names no folder and ../shared is none: {left_out}");
    }
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

fn clippy(selection: &[&str]) -> Result<()> {
    run_cargo(&[&["clippy", "--quiet"], selection, &["--", "--deny", "warnings"]].concat())
}

/// Checks the library with each of its features alone, with none and with all, and the command without the GPU.
/// Metal and DX12 exist on other systems only; here, these features build a GPU delegate without devices.
fn check_features() -> Result<()> {
    for features in [String::new()].into_iter().chain(features("attache")?) {
        println!("features: {}", if features.is_empty() { "none" } else { &features });
        clippy(&["--package", "attache", "--no-default-features", "--features", &features])?;
    }
    clippy(&["--package", "attache", "--all-features"])?;
    clippy(&["--package", "attache-gpu", "--no-default-features"])?;
    clippy(&["--package", "attache-cli", "--no-default-features"])
}

/// Returns the features of a package, without those that are for the project only.
fn features(package: &str) -> Result<Vec<String>> {
    let packages = packages()?;
    let features =
        packages.iter().find(|other| other["name"] == package).and_then(|found| found["features"].as_object());
    let names = features.with_context(|| format!("{package} has no features"))?.keys();
    Ok(names.filter(|name| !name.starts_with('_')).cloned().collect())
}

/// Packages the crates as for publishing: their files must be there, and their dependencies need versions. Does not
/// build the packages.
fn package() -> Result<()> {
    run_cargo(&["publish", "--quiet", "--workspace", "--dry-run", "--no-verify", "--allow-dirty"])
}

fn document() -> Result<()> {
    let arguments = ["doc", "--quiet", "--workspace", "--lib", "--no-deps"];
    finish(command(&arguments).env("RUSTDOCFLAGS", "--deny warnings"))
}

/// Runs all tests except the deep ones and the documentation's. Names each test target, so that those that
/// need the shared models can be omitted if the models are missing. The summary at the end lists the omitted
/// ones.
fn test() -> Result<()> {
    let targets =
        test_targets()?.into_iter().filter(|name| !is_deep(name) && (shared().is_some() || !needs_shared(name)));
    run_side_by_side(&["--lib", "--bins"], &targets.collect::<Vec<_>>(), None)
}

/// Runs the tests that take minutes, and with all of their cases the tests that do more with `--deep`.
fn test_deep() -> Result<()> {
    let targets = test_targets()?.into_iter().filter(|name| is_deep(name) || DRAWN.contains(&name.as_str()));
    let targets = targets.filter(|name| shared().is_some() || !needs_shared(name));
    run_side_by_side(&[], &targets.collect::<Vec<_>>(), Some(DEEP_VARIABLE))
}

/// Builds tests, then runs them in two concurrent processes, since a GPU test occupies one core with the
/// driver's shader compiler. `kinds` are options of cargo that select further tests, `targets` are names of
/// integration tests. Sets the environment variable `variable`, if any, to 1. The output of the second
/// process follows that of the first.
fn run_side_by_side(kinds: &[&str], targets: &[String], variable: Option<&str>) -> Result<()> {
    let (first, second): (Vec<String>, Vec<String>) = targets.iter().cloned().partition(|name| is_first(name));
    let command = |more: &[&str], targets: &[String]| -> Result<Command> {
        let mut command = tests(&[more, selection(targets).as_slice()].concat())?;
        command.envs(variable.map(|name| (name, "1")));
        Ok(command)
    };
    let mut build = command(kinds, targets)?;
    finish(build.arg("--no-run"))?;
    // Without the name of a test target, cargo would run all of them.
    if first.is_empty() || (kinds.is_empty() && second.is_empty()) {
        return finish(&mut command(kinds, targets)?);
    }
    let (mut here, mut beside) = (command(&[], &first)?, command(kinds, &second)?);
    let beside = std::thread::spawn(move || beside.output().map(|output| (output, format!("{beside:?}"))));
    let done = finish(&mut here);
    let (output, name) = beside.join().map_err(|_| anyhow!("a thread panicked"))??;
    print!("{}", String::from_utf8_lossy(&output.stdout));
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{name}: {}", output.status);
    done
}

/// Whether a test target runs in the first of the two processes. These targets take about half of the total time.
fn is_first(target: &str) -> bool {
    matches!(target, "gpu_goldens" | "gpu_ways" | "shared_models" | "shared_endurance")
}

/// Returns the arguments of cargo that select these integration tests.
fn selection(targets: &[String]) -> Vec<&str> {
    targets.iter().flat_map(|name| ["--test", name.as_str()]).collect()
}

/// Whether an integration test runs only with `--deep`.
fn is_deep(target: &str) -> bool {
    DEEP.contains(&target)
}

/// Runs the golden cases with a feature that overwrites everything that the CPU computes during a run. They
/// pass on the GPU, which shows that the GPU did the work. They fail on the CPU, which shows that the
/// overwriting works; `cpu_goldens` then asserts that they fail. Selects the whole workspace, as [`test`]
/// does, so that no dependency is rebuilt with other features.
fn test_poisoned() -> Result<()> {
    run_tests(&["--features", "attache/_poison", "--test", "cpu_goldens", "--test", "gpu_goldens"])
}

/// Runs the tests that inject faults: wrong results of an operator, and failures of the device.
fn test_fault() -> Result<()> {
    run_tests(&["--features", "attache-cli/_fault", "--test", "fault"])
}

/// Runs the golden cases through OpenGL ES 3.1 of Mesa's software driver.
fn test_gl() -> Result<()> {
    let versions = [("MESA_GL_VERSION_OVERRIDE", "3.0"), ("MESA_GLES_VERSION_OVERRIDE", "3.1")];
    let mut command = tests(&["--test", "gpu_goldens"])?;
    finish(command.envs(versions).env("ATTACHE_TEST_BACKEND", "gl").env(DEEP_VARIABLE, "1"))
}

fn run_tests(selection: &[&str]) -> Result<()> {
    finish(&mut tests(selection)?)
}

/// Returns the command that runs the selected tests of the whole workspace, in the environment that they
/// need.
fn tests(selection: &[&str]) -> Result<Command> {
    setup::verify()?;
    let mut command = command(&[&["test", "--no-fail-fast"], &TESTED[..], selection].concat());
    command.envs(setup::environment()?);
    Ok(command)
}

/// Returns the names of the integration tests that run with the default features.
fn test_targets() -> Result<Vec<String>> {
    let packages = packages()?;
    let targets = packages.iter().flat_map(|package| package["targets"].as_array().into_iter().flatten());
    // Tests that require a feature that is off by default have their own checks.
    let default = |feature: &serde_json::Value| ["gpu", "vulkan", "diff", "zoo"].iter().any(|name| feature == name);
    let usual = |target: &&serde_json::Value| {
        target["required-features"].as_array().is_none_or(|features| features.iter().all(default))
    };
    let tests = targets.filter(|target| target["kind"][0] == "test").filter(usual);
    Ok(tests.filter_map(|target| target["name"].as_str().map(str::to_owned)).collect())
}

/// Whether an integration test needs the shared models, which the prefix of its name says.
fn needs_shared(target: &str) -> bool {
    target.starts_with("shared_")
}

/// Returns the folder of the shared models; `None` if it does not exist.
fn shared() -> Option<PathBuf> {
    let folder = std::env::var_os("ATTACHE_SHARED").map_or_else(|| root().join("../shared"), PathBuf::from);
    folder.is_dir().then_some(folder)
}

/// Returns the packages of the workspace, as `cargo metadata` describes them.
pub(crate) fn packages() -> Result<Vec<serde_json::Value>> {
    let output = command(&["metadata", "--no-deps", "--format-version", "1"]).output()?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let mut metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    match metadata["packages"].take() {
        serde_json::Value::Array(packages) => Ok(packages),
        _ => bail!("cargo metadata lists no packages"),
    }
}

fn run_cargo(arguments: &[&str]) -> Result<()> {
    finish(&mut command(arguments))
}

fn command(arguments: &[&str]) -> Command {
    let mut command = cargo();
    command.args(arguments);
    command
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
    fn integration_tests_are_found() {
        let targets = test_targets().unwrap();
        assert!(targets.iter().any(|name| name == "goldens"), "{targets:?}");
        assert!(targets.iter().any(|name| needs_shared(name)), "{targets:?}");
        assert!(targets.iter().any(|name| name == "interpreter"), "features that are on by default: {targets:?}");
        assert!(features("attache").unwrap().contains(&"vulkan".to_owned()), "features of the library");
        assert!(DEEP.iter().chain(&DRAWN).all(|name| targets.iter().any(|target| target == name)), "{targets:?}");
    }
}

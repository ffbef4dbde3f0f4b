//! Installs and verifies what the gate requires: components of the toolchain, a software Vulkan driver, the
//! validation layer, and environment variables.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::cargo;

/// Debian packages that the tests need. `libgl1-mesa-dri` contains the software driver for EGL, which the other
/// packages only recommend. The tests of the library for C need two compilers, CMake and pkg-config, those of the classes
/// for Java a JDK and JUnit.
const PACKAGES: [&str; 12] = [
    "clang",
    "cmake",
    "default-jdk-headless",
    "g++",
    "junit4",
    "libegl1",
    "libgl1-mesa-dri",
    "libgles2",
    "libvulkan1",
    "mesa-vulkan-drivers",
    "pkg-config",
    "vulkan-validationlayers",
];

/// Components of the Rust toolchain that the gate needs, each with the cargo command that it provides.
const COMPONENTS: [(&str, &str); 2] = [("clippy", "clippy"), ("rustfmt", "fmt")];

/// Folders in which the Vulkan loader looks for the manifests of drivers and layers.
const MANIFESTS: [&str; 3] = ["/etc/vulkan", "/usr/local/share/vulkan", "/usr/share/vulkan"];

/// Installs the required components and packages that are missing. Packages are installed only where there is
/// dpkg; systems other than Linux include the drivers that their tests need.
pub(crate) fn run() -> Result<()> {
    add_components()?;
    if cfg!(target_os = "linux") && is_there("dpkg-query") {
        install_packages()?;
    }
    verify()
}

fn add_components() -> Result<()> {
    let is_missing = |command: &str| !succeeds(cargo().args([command, "--version"]));
    let missing: Vec<&str> =
        COMPONENTS.into_iter().filter(|(_, command)| is_missing(command)).map(|(component, _)| component).collect();
    if missing.is_empty() {
        return Ok(());
    }
    println!("adding {}", missing.join(" "));
    let mut rustup = Command::new("rustup");
    rustup.args(["component", "add"]).args(&missing);
    let status = rustup.status().with_context(|| format!("the toolchain lacks {}, and rustup", missing.join(", ")))?;
    ensure!(status.success(), "{rustup:?}: {status}");
    Ok(())
}

fn install_packages() -> Result<()> {
    let missing: Vec<&str> = PACKAGES.into_iter().filter(|package| !is_installed(package)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    println!("installing {}", missing.join(" "));
    apt_get(&["update"])?;
    apt_get(&[&["install", "--yes", "--no-install-recommends"], missing.as_slice()].concat())
}

/// Checks that the software Vulkan driver and the validation layer are installed. Without them, the GPU tests
/// prove nothing.
pub(crate) fn verify() -> Result<()> {
    if !cfg!(target_os = "linux") {
        return Ok(());
    }
    let remedy = "run `cargo xtask setup`, or install it as this system does";
    ensure!(has_manifest("icd.d", "lvp_icd"), "there is no software Vulkan driver (Mesa's lavapipe); {remedy}");
    let layer = has_manifest("explicit_layer.d", "VkLayer_khronos_validation");
    ensure!(layer, "there is no Vulkan validation layer (VK_LAYER_KHRONOS_validation); {remedy}");
    Ok(())
}

/// Returns the environment variables with which tests run. If needed, creates the runtime folder that one of
/// them names.
pub(crate) fn environment() -> Result<Vec<(&'static str, String)>> {
    let mut variables = vec![
        // Disables the threads of Mesa's software driver, which are slower for small work and clutter profiles.
        ("LP_NUM_THREADS", "0".to_owned()),
        // Without optimisations, the driver compiles shaders a third faster. Tests run most shaders once or twice.
        ("GALLIVM_PERF", "nopt".to_owned()),
    ];
    if cfg!(target_os = "linux") && std::env::var_os("XDG_RUNTIME_DIR").is_none() {
        // The loader and the drivers write warnings to standard error if it is missing.
        let folder = std::env::temp_dir().join(format!("attache-runtime-{}", std::process::id()));
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        restrict(&folder)?;
        variables.push(("XDG_RUNTIME_DIR", folder.display().to_string()));
    }
    Ok(variables)
}

/// Makes a folder accessible to the user only, which is required of a runtime folder.
#[cfg(unix)]
fn restrict(folder: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    Ok(std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))?)
}

#[cfg(not(unix))]
fn restrict(_: &Path) -> Result<()> {
    Ok(())
}

fn has_manifest(folder: &str, stem: &str) -> bool {
    let entries = MANIFESTS.iter().filter_map(|parent| std::fs::read_dir(Path::new(parent).join(folder)).ok());
    entries.flatten().flatten().any(|entry| entry.file_name().to_string_lossy().starts_with(stem))
}

fn is_installed(package: &str) -> bool {
    let query = Command::new("dpkg-query").args(["--show", "--showformat=${db:Status-Status}", package]).output();
    query.is_ok_and(|output| output.status.success() && output.stdout == b"installed")
}

fn is_there(program: &str) -> bool {
    succeeds(Command::new(program).arg("--version"))
}

fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn apt_get(arguments: &[&str]) -> Result<()> {
    let is_root = Command::new("id").arg("--user").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0");
    let mut command = if is_root {
        Command::new("apt-get")
    } else if is_there("sudo") {
        let mut command = Command::new("sudo");
        command.arg("apt-get");
        command
    } else {
        bail!("packages are missing, and neither is this root nor is there sudo; install: {}", PACKAGES.join(" "));
    };
    let status = command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").status().context("apt-get")?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_run_without_the_drivers_threads() {
        assert!(environment().unwrap().contains(&("LP_NUM_THREADS", "0".to_owned())));
    }

    #[test]
    fn what_is_missing_is_not_found() {
        assert!(!has_manifest("icd.d", "no such driver"));
        assert!(!is_there("no-such-program"));
    }
}

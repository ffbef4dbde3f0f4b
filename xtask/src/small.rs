//! Builds the smallest libraries: the one for C without the GPU, and the delegate.

use std::ffi::OsString;
use std::fs;
use std::process::Command;

use anyhow::Result;

use crate::{cargo, must, target};

/// The profile of the smallest libraries.
pub(crate) const PROFILE: &str = "small";

/// Options of the compiler with which functions need less. With frame pointers the tables that unwinding reads are a third
/// smaller; `attache_small` leaves out what is but faster: forms of CPU kernels for AVX-512, VNNI and AMX, and groups of nodes
/// that run together.
const CODE: [&str; 3] = ["-Cforce-frame-pointers=yes", "--cfg", "attache_small"];

/// Options of the linker: functions of the same code are one, and the addresses that it relocates are a map of bits, which
/// needs the GNU C library 2.36 or later.
const LINKED: [&str; 3] =
    ["-Clink-arg=-Wl,--icf=all", "-Clink-arg=-Wl,-z,pack-relative-relocs", "-Clink-arg=-Wl,--strip-all"];

/// Builds both, and prints their sizes.
pub(crate) fn run() -> Result<()> {
    let folder = target().join(PROFILE);
    for (package, file, has_default) in
        [("attache-c", "libattache_c.so", false), ("attache-delegate", "libattache_delegate.so", true)]
    {
        let mut command = library(package, PROFILE, "cdylib");
        command.args((!has_default).then_some("--no-default-features"));
        must(link_small(&mut command, PROFILE))?;
        let built = folder.join(file);
        println!("{:.2} MB  {}", fs::metadata(&built)?.len() as f64 / 1e6, built.display());
    }
    Ok(())
}

/// Returns the command that builds the library of a package. Without the form for Rust programs, cargo optimizes it as a
/// whole.
pub(crate) fn library(package: &str, profile: &str, types: &str) -> Command {
    let mut command = cargo();
    command.args(["rustc", "--package", package, "--lib", "--profile", profile, "--crate-type", types]);
    if profile == PROFILE {
        let mut flags = std::env::var_os("RUSTFLAGS").unwrap_or_default();
        flags.push(OsString::from(format!(" {}", CODE.join(" "))));
        command.env("RUSTFLAGS", flags);
    }
    command
}

/// Adds the options of the linker that the profile has, after all others.
pub(crate) fn link_small<'a>(command: &'a mut Command, profile: &str) -> &'a mut Command {
    if profile == PROFILE {
        command.arg("--").args(LINKED);
    }
    command
}

//! The commands of `attache`: running, checking, measuring and explaining TensorFlow Lite models.
//!
//! The crate `attache` implements the runtime. This crate adds the command line, text output, JSON keys and
//! exit statuses, on which users and scripts rely. It is one function, [`run()`], so that other programs can offer the
//! commands too.

// To learn whether a type is `Send`, rustdoc follows the types of wgpu, which are nested deeper than the default.
#![recursion_limit = "256"]

mod arguments;
mod commands;
mod console;
mod device;
mod draw;
mod failure;
mod inputs;
mod inspect;
mod io;
mod logging;
mod measure;

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the command that the arguments name (the first is the program's own name), prints its result to standard
/// output and its errors to standard error, and returns the exit status. To be called once a process, since it installs
/// the process's logger.
#[must_use]
pub fn run(arguments: Vec<OsString>) -> ExitCode {
    ExitCode::from(run_for_status(arguments))
}

/// Does as [`run()`], and returns the exit status as a number, for programs that end their process otherwise than by
/// returning from `main`.
#[must_use]
pub fn run_for_status(arguments: Vec<OsString>) -> u8 {
    commands::run(arguments) as u8
}

//! `attache`: runs, checks, measures and explains TensorFlow Lite models from the command line.
//!
//! The crate `attache` implements the runtime. This crate adds the command line, text output, JSON keys and
//! exit statuses, on which users and scripts rely.

mod arguments;
mod commands;
mod console;
mod device;
mod draw;
mod environment;
mod failure;
mod inputs;
mod inspect;
mod io;
mod measure;

use std::process::ExitCode;

fn main() -> ExitCode {
    environment::prepare();
    commands::run(std::env::args_os().collect()).into()
}

//! `attache`: runs, checks, measures and explains TensorFlow Lite models from the command line.
//!
//! A thin shell around the crate `attache`: words, keys and exit statuses are what it adds, and they are a contract.

mod arguments;
mod commands;
mod console;
mod device;
mod environment;
mod failure;
mod inputs;
mod inspect;
mod io;
mod measure;

use std::process::ExitCode;

fn main() -> ExitCode {
    environment::prepare();
    environment::log();
    commands::run(std::env::args_os().collect()).into()
}

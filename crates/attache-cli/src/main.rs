//! `attache`: runs, checks, measures and explains TensorFlow Lite models from the command line.
//!
//! A thin shell around the crate `attache`: words, keys and exit statuses are what it adds, and they are a contract.

mod advice;
mod arguments;
mod commands;
mod compare;
mod console;
mod detections;
mod device;
mod environment;
mod failure;
mod files;
mod golden;
mod inputs;
mod kind;
mod labels;
mod memory;
mod npy;
mod numbers;
mod picture;
mod random;
mod shapes;
mod source;
mod survey;
mod timing;

use std::process::ExitCode;

fn main() -> ExitCode {
    environment::prepare();
    environment::log();
    commands::run(std::env::args_os().collect()).into()
}

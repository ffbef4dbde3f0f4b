//! The native part of Attaché's package for Python: TensorFlow Lite's interpreter as Python sees it, compiled models, and the
//! command. The package `attache` beside it gives it the names that programs know.
//!
//! Everything here may be called from any thread. A model runs without Python's interpreter lock.

// To learn whether a type is `Send`, the compiler follows the types of wgpu, which are nested deeper than the default.
#![recursion_limit = "256"]

mod access;
mod arrays;
mod compiled;
mod details;
mod external;
mod face;
mod fault;
mod gpu;
mod index;
mod interpreter;
mod state;
mod texts;

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs the command `attache` with its arguments, the first of which is the program's name, and returns the exit status.
/// Python's interpreter lock is released meanwhile.
#[pyfunction]
fn run_command(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| attache_command::run_for_status(arguments))
}

/// Returns the names of the models that are built in.
#[pyfunction]
fn zoo_names() -> Vec<&'static str> {
    attache::zoo::names().collect()
}

/// Returns the version as Python writes it, which is that of the wheel: `1.0.0rc1` for Cargo's `1.0.0-rc.1`.
fn version() -> String {
    let stages = [("-alpha.", "a"), ("-beta.", "b"), ("-rc.", "rc")];
    stages.iter().fold(env!("CARGO_PKG_VERSION").to_owned(), |version, (cargo, python)| version.replace(cargo, python))
}

#[pymodule]
fn _attache(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", version())?;
    module.add_class::<interpreter::NativeInterpreter>()?;
    module.add_class::<interpreter::View>()?;
    module.add_class::<compiled::NativeModel>()?;
    module.add_class::<compiled::NativeCompiled>()?;
    module.add_class::<gpu::NativeGpuDelegate>()?;
    module.add_function(wrap_pyfunction!(run_command, module)?)?;
    module.add_function(wrap_pyfunction!(zoo_names, module)?)?;
    module.add_function(wrap_pyfunction!(gpu::adapters, module)?)?;
    Ok(())
}

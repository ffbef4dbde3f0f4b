#![allow(unsafe_code)]
//! Attaché's own functions, for what TensorFlow Lite's C API lacks. Texts that they return belong to the program, which
//! frees them with `attache_text_free`.

use std::ffi::{CString, c_char};
use std::fmt::Write;
use std::path::PathBuf;

use attache::{CompiledModel, Profile};
use attache_abi::TfLiteStatus;
use attache_abi::report::{text_from_c, text_of_c};

use crate::fault::{Fault, Reporter};
use crate::guard::{exports, guarded};
use crate::interpreter::{self, TfLiteInterpreter};
use crate::live::{self, Kind, Object};
use crate::model::TfLiteModel;
use crate::options::{Configuration, TfLiteInterpreterOptions, change, copy_of};
use crate::state::State;

/// A compiled model, of which interpreters are made that share its weights.
pub(crate) struct AttacheCompiledModel {
    compiled: CompiledModel,
    reporter: Reporter,
    configuration: Configuration,
}

impl Object for AttacheCompiledModel {
    const KIND: Kind = Kind::CompiledModel;
    const NAME: &'static str = "AttacheCompiledModel";
}

fn text(text: &str) -> *mut c_char {
    text_of_c(text).into_raw()
}

fn compile(
    model: *const TfLiteModel,
    options: *const TfLiteInterpreterOptions,
) -> Result<*mut AttacheCompiledModel, Fault> {
    let options = copy_of(options)?;
    let (reporter, configuration) = (options.reporter, options.configuration);
    let compiled = configuration.builder(&live::get(model)?.0)?.compile()?;
    Ok(live::give(Box::new(AttacheCompiledModel { compiled, reporter, configuration })))
}

fn interpreter_of(compiled: *const AttacheCompiledModel) -> Result<*mut TfLiteInterpreter, Fault> {
    let compiled = live::get(compiled)?;
    let built = compiled.compiled.interpreter()?;
    let configuration = compiled.configuration.clone();
    TfLiteInterpreter::give(compiled.reporter, |address| Ok(State::of(built, configuration, address)))
}

/// Returns a line for each operator on the CPU and each dispatch on a device: milliseconds, and names.
fn lines(profile: &Profile) -> String {
    let mut text = String::new();
    let names = |operators: &[(usize, String)]| {
        let names: Vec<_> = operators.iter().map(|(index, name)| format!("{index} {name}")).collect();
        names.join(", ")
    };
    for operator in &profile.operators {
        let _ = writeln!(text, "{:.4} ms CPU: {}", operator.milliseconds, names(&operator.operators));
    }
    for dispatch in &profile.dispatches {
        let milliseconds = (dispatch.dispatch.end_ns - dispatch.dispatch.begin_ns) / 1e6;
        let name = dispatch.dispatch.name;
        let _ = writeln!(
            text,
            "{milliseconds:.4} ms partition {} {name}: {}",
            dispatch.partition,
            names(&dispatch.operators)
        );
    }
    text
}

#[cfg(feature = "gpu")]
fn devices() -> String {
    let mut text = String::new();
    for adapter in attache::gpu::adapters() {
        let kind = if adapter.is_software { "software" } else { adapter.kind };
        let _ = write!(text, "{}, {}, {kind}", adapter.name, adapter.backend.name());
        if let Some(reason) = &adapter.unusable {
            let _ = write!(text, ", unusable: {reason}");
        }
        text.push('\n');
    }
    text
}

#[cfg(not(feature = "gpu"))]
fn devices() -> String {
    String::new()
}

exports! {
    /// Returns the version of Attaché. The text is not freed.
    fn attache_version() -> *const c_char {
        concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
    } else std::ptr::null();

    /// Frees a text. Does nothing for null.
    fn attache_text_free(text: *mut c_char) {
        if !text.is_null() {
            // SAFETY: the caller of the C function passes a text that a function of this file returned, once.
            drop(unsafe { CString::from_raw(text) });
        }
    } else ();

    /// Returns the adapters of all graphics APIs, one a line: name, API, kind, and the reason if it cannot be used.
    fn attache_devices() -> *mut c_char {
        text(&devices())
    } else std::ptr::null_mut();

    /// Sets whether an interpreter is an error if operators are left to the CPU.
    fn attache_interpreter_options_set_require_delegation(options: *mut TfLiteInterpreterOptions, required: bool) -> TfLiteStatus {
        change(options, |options| {
            options.configuration.requires_delegation = required;
            Ok(())
        })
    } else TfLiteStatus::ERROR;

    /// Sets whether intermediate tensors of the main subgraph keep the values of the last run, for debugging.
    fn attache_interpreter_options_set_preserve_all_tensors(
        options: *mut TfLiteInterpreterOptions,
        preserved: bool,
    ) -> TfLiteStatus {
        change(options, |options| {
            options.configuration.preserves = preserved;
            Ok(())
        })
    } else TfLiteStatus::ERROR;

    /// Sets whether runs record how long each operator on the CPU takes.
    fn attache_interpreter_options_set_profile(options: *mut TfLiteInterpreterOptions, profile: bool) -> TfLiteStatus {
        change(options, |options| {
            options.configuration.profiles = profile;
            Ok(())
        })
    } else TfLiteStatus::ERROR;

    /// Sets a folder for the weights that the CPU packs, and a text that stands for the model's content, or null.
    fn attache_interpreter_options_set_cache(
        options: *mut TfLiteInterpreterOptions,
        folder: *const c_char,
        model_token: *const c_char,
    ) -> TfLiteStatus {
        change(options, |options| {
            // SAFETY: the caller of the C function passes null or texts that zero bytes end.
            let (folder, token) = unsafe { (text_from_c(folder), text_from_c(model_token)) };
            let folder = folder.ok_or_else(|| Fault::new("null, or bytes that are not UTF-8, where a folder is expected"))?;
            options.configuration.cache = Some((PathBuf::from(folder), token.map(str::to_owned)));
            Ok(())
        })
    } else TfLiteStatus::ERROR;

    /// Compiles a model. Options may be null. Returns null if the model cannot be run.
    fn attache_compiled_model_create(
        model: *const TfLiteModel,
        options: *const TfLiteInterpreterOptions,
    ) -> *mut AttacheCompiledModel {
        let reporter = copy_of(options).map_or(Reporter::default(), |options| options.reporter);
        reporter.settle(guarded(|| compile(model, options)), std::ptr::null_mut())
    } else std::ptr::null_mut();

    /// Makes an interpreter of a compiled model, from any thread. Interpreters share the weights.
    fn attache_compiled_model_create_interpreter(compiled: *const AttacheCompiledModel) -> *mut TfLiteInterpreter {
        let reporter = live::get(compiled).map_or(Reporter::default(), |compiled| compiled.reporter);
        reporter.settle(guarded(|| interpreter_of(compiled)), std::ptr::null_mut())
    } else std::ptr::null_mut();

    /// Deletes a compiled model. Its interpreters stay valid. Does nothing for null.
    fn attache_compiled_model_delete(compiled: *mut AttacheCompiledModel) {
        Reporter::default().settle(live::take(compiled).map(drop), ());
    } else ();

    /// Returns where each operator runs, and why, one a line.
    fn attache_interpreter_placement(interpreter: *const TfLiteInterpreter) -> *mut c_char {
        interpreter::with(interpreter, std::ptr::null_mut(), |state| {
            Ok(text(&state.prepared()?.placement().to_string()))
        })
    } else std::ptr::null_mut();

    /// Returns the number of operators that delegates run; -1 on an error.
    fn attache_interpreter_delegated_count(interpreter: *const TfLiteInterpreter) -> i32 {
        interpreter::with(interpreter, -1, |state| {
            Ok(i32::try_from(state.prepared()?.placement().delegated()).unwrap_or(i32::MAX))
        })
    } else -1;

    /// Returns the number of operators that are left to the CPU; -1 on an error.
    fn attache_interpreter_cpu_count(interpreter: *const TfLiteInterpreter) -> i32 {
        interpreter::with(interpreter, -1, |state| {
            Ok(i32::try_from(state.prepared()?.placement().left_behind().count()).unwrap_or(i32::MAX))
        })
    } else -1;

    /// Returns how long the parts of the last run took, one a line.
    fn attache_interpreter_profile(interpreter: *mut TfLiteInterpreter) -> *mut c_char {
        interpreter::with(interpreter, std::ptr::null_mut(), |state| {
            Ok(text(&lines(&state.prepared()?.profile()?)))
        })
    } else std::ptr::null_mut();
}

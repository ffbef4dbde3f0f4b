//! `TfLiteInterpreterOptions`. An interpreter copies what it needs, so options may be deleted at once.

use std::ffi::c_void;
use std::path::PathBuf;
use std::sync::Arc;

use attache::{Delegate, Interpreter, InterpreterBuilder, Model, OpResolver};
use attache_abi::report::ErrorReporter;
use attache_abi::{TfLiteDelegate, TfLiteStatus};
use attache_external::ExternalDelegate;

use crate::bound::Device;
use crate::delegates::{Found, delegate_at};
use crate::fault::{Fault, Reporter};
use crate::guard::{exports, guarded};
use crate::live::{self, Kind, Object};
use crate::operators::{Added, Resolver, unresolved};
use crate::profiler::AnyProfiler;
#[cfg(not(attache_small))]
use crate::running::Asked;

/// Options of interpreters.
#[derive(Clone, Default)]
pub(crate) struct TfLiteInterpreterOptions {
    pub(crate) reporter: Reporter,
    pub(crate) configuration: Configuration,
}

/// What an interpreter is built with.
#[derive(Clone, Default)]
pub(crate) struct Configuration {
    /// `None` for the library's choice.
    pub(crate) threads: Option<usize>,
    pub(crate) delegates: Vec<Arc<dyn Delegate>>,
    /// The devices of those of the delegates that are Attaché's.
    pub(crate) devices: Vec<Device>,
    /// Those of the delegates that are in C, whose failures keep an interpreter from being made.
    pub(crate) external: Vec<Arc<ExternalDelegate>>,
    pub(crate) operators: OpResolver,
    /// What `operators` stand for.
    pub(crate) added: Vec<Added>,
    /// Functions that find operators; what they find takes precedence over `operators`.
    pub(crate) resolver: Option<Resolver>,
    pub(crate) falls_back: bool,
    pub(crate) is_cancellable: bool,
    /// What runs ask whether they are to end.
    #[cfg(not(attache_small))]
    pub(crate) asked: Option<Arc<Asked>>,
    /// Who is told about the parts of runs.
    pub(crate) profiler: AnyProfiler,
    pub(crate) requires_delegation: bool,
    pub(crate) profiles: bool,
    /// Whether intermediate tensors keep the values of the last run.
    pub(crate) preserves: bool,
    /// The folder for packed weights, and the name that stands for the model.
    pub(crate) cache: Option<(PathBuf, Option<String>)>,
}

impl Object for TfLiteInterpreterOptions {
    const KIND: Kind = Kind::Options;
    const NAME: &'static str = "TfLiteInterpreterOptions";
}

impl Configuration {
    /// Returns a builder for the first subgraph of a model.
    pub(crate) fn builder(&self, model: &Model) -> Result<InterpreterBuilder, Fault> {
        let mut operators = self.operators.clone();
        if let Some(resolver) = &self.resolver {
            resolver.resolve(model, &mut operators)?;
        }
        let mut builder = Interpreter::builder(model)
            .operators(&operators)
            .cpu_fallback(self.falls_back)
            .fixed_addresses(true)
            .require_delegation(self.requires_delegation)
            .preserve_all_tensors(self.preserves)
            .profile(self.profiles);
        if let Some(threads) = self.threads {
            builder = builder.threads(threads);
        }
        if let Some((folder, token)) = &self.cache {
            builder = builder.cache(folder);
            if let Some(token) = token {
                builder = builder.model_token(token);
            }
        }
        Ok(self.delegates.iter().fold(builder, |builder, delegate| builder.delegate(delegate.clone())))
    }

    /// Adds a delegate of C code.
    pub(crate) fn add(&mut self, delegate: *mut TfLiteDelegate) -> Result<(), Fault> {
        match delegate_at(delegate)? {
            Found::Cpu => {}
            Found::Own(delegate, device) => {
                self.delegates.push(delegate);
                self.devices.push(device);
            }
            Found::External(delegate) => {
                self.delegates.push(delegate.clone());
                self.external.push(delegate);
            }
        }
        Ok(())
    }

    /// Builds an interpreter. The failure of a delegate in C is an error, as is a custom operator that is not registered.
    pub(crate) fn build(&self, model: &Model, builder: InterpreterBuilder) -> Result<Interpreter, Fault> {
        self.external.iter().for_each(|delegate| drop(delegate.take_failure()));
        let mut built = builder.build();
        if let Some(failure) = self.external.iter().find_map(|delegate| delegate.take_failure()) {
            return Err(Fault::with_status(TfLiteStatus::DELEGATE_ERROR, failure));
        }
        #[cfg(not(attache_small))]
        if let (Ok(interpreter), Some(asked)) = (&built, &self.asked) {
            asked.watch(interpreter);
        }
        if let (Ok(interpreter), Some(profiler)) = (&mut built, &self.profiler) {
            profiler.watch(interpreter);
        }
        built.map_err(|error| {
            let fault = Fault::from(error);
            let mut operators = model.subgraphs().iter().flat_map(|subgraph| &subgraph.operators);
            let has_others = operators.any(|operator| operator.code.custom.is_some())
                || !self.added.is_empty()
                || self.resolver.is_some();
            let names = unresolved(self, model);
            // Others of these may be Attaché's own.
            let name = names.iter().find(|name| fault.text.contains(*name)).or(names.first());
            match (fault.is_unsupported && has_others, name) {
                // The program may still add a delegate that takes the operator. The words are those that programs know.
                (true, Some(name)) => {
                    let text = format!("Encountered unresolved custom op: {name}. {}", fault.text);
                    Fault::with_status(TfLiteStatus::UNRESOLVED_OPS, text)
                }
                (true, None) => Fault::new(fault.text),
                (false, _) => fault,
            }
        })
    }
}

/// Changes options. An error is reported to their reporter.
pub(crate) fn change(
    options: *mut TfLiteInterpreterOptions,
    change: impl FnOnce(&mut TfLiteInterpreterOptions) -> Result<(), Fault>,
) -> TfLiteStatus {
    let reporter = live::get(options).map_or(Reporter::default(), |options| options.reporter);
    reporter.status(guarded(|| change(live::get_mut(options)?)))
}

/// Returns a copy of options; the defaults for null.
pub(crate) fn copy_of(options: *const TfLiteInterpreterOptions) -> Result<TfLiteInterpreterOptions, Fault> {
    if options.is_null() { Ok(TfLiteInterpreterOptions::default()) } else { live::get(options).cloned() }
}

exports! {
    /// Makes options with the defaults.
    fn TfLiteInterpreterOptionsCreate() -> *mut TfLiteInterpreterOptions {
        live::give(Box::default())
    } else std::ptr::null_mut();

    /// Copies options. Returns null for null.
    fn TfLiteInterpreterOptionsCopy(options: *const TfLiteInterpreterOptions) -> *mut TfLiteInterpreterOptions {
        let copy = live::get(options).map(|options| live::give(Box::new(options.clone())));
        Reporter::default().settle(copy, std::ptr::null_mut())
    } else std::ptr::null_mut();

    /// Deletes options. Does nothing for null.
    fn TfLiteInterpreterOptionsDelete(options: *mut TfLiteInterpreterOptions) {
        Reporter::default().settle(live::take(options).map(drop), ());
    } else ();

    /// Sets the number of threads on the CPU; -1 for the library's choice.
    fn TfLiteInterpreterOptionsSetNumThreads(options: *mut TfLiteInterpreterOptions, threads: i32) {
        change(options, |options| {
            options.configuration.threads = usize::try_from(threads).ok();
            Ok(())
        });
    } else ();

    /// Adds a delegate, which is asked after those that were added before.
    fn TfLiteInterpreterOptionsAddDelegate(options: *mut TfLiteInterpreterOptions, delegate: *mut TfLiteDelegate) {
        change(options, |options| options.configuration.add(delegate));
    } else ();

    /// Sets the function that takes errors of interpreters; null for the standard error output.
    fn TfLiteInterpreterOptionsSetErrorReporter(
        options: *mut TfLiteInterpreterOptions,
        reporter: Option<ErrorReporter>,
        user_data: *mut c_void,
    ) {
        change(options, |options| {
            options.reporter = Reporter::new(reporter, user_data);
            Ok(())
        });
    } else ();

    /// Sets whether runs can be cancelled with `TfLiteInterpreterCancel`.
    fn TfLiteInterpreterOptionsEnableCancellation(
        options: *mut TfLiteInterpreterOptions,
        enable: bool,
    ) -> TfLiteStatus {
        change(options, |options| {
            options.configuration.is_cancellable = enable;
            Ok(())
        })
    } else TfLiteStatus::ERROR;

    /// Sets whether the CPU takes over if a delegate fails.
    fn TfLiteInterpreterOptionsSetEnableDelegateFallback(options: *mut TfLiteInterpreterOptions, enable: bool) {
        change(options, |options| {
            options.configuration.falls_back = enable;
            Ok(())
        });
    } else ();

    /// NNAPI is part of Android. Asking for it is an error elsewhere, and the CPU is used.
    fn TfLiteInterpreterOptionsSetUseNNAPI(options: *mut TfLiteInterpreterOptions, enable: bool) {
        change(options, |_| match enable {
            true => Err(Fault::new("NNAPI is not available here; the CPU is used instead")),
            false => Ok(()),
        });
    } else ();

    /// Accepts a profiler of TensorFlow Lite's own telemetry, which is never called.
    fn TfLiteInterpreterOptionsSetTelemetryProfiler(
        options: *mut TfLiteInterpreterOptions,
        _profiler: *mut c_void,
    ) {
        change(options, |_| Ok(()));
    } else ();
}

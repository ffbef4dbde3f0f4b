//! [`Device`], on which models run: opens the GPU or chooses the CPU as the command line says, and builds
//! interpreters.
//!
//! By default a hardware GPU is used if there is one, else the CPU. A software adapter is used only if `--delegate
//! gpu`, `--backend` or `--adapter` asks for it.

#[cfg(feature = "gpu")]
mod gpu;
#[cfg(not(feature = "gpu"))]
#[path = "no_gpu.rs"]
mod gpu;

#[cfg(feature = "external")]
mod external;
#[cfg(not(feature = "external"))]
#[path = "no_external.rs"]
mod external;

pub(crate) mod start;

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use attache::graph::Graph;
use attache::{CompiledModel, Delegate, IntegerRounding, Interpreter, InterpreterBuilder, Limits, Model, stages};
use serde::{Deserialize, Serialize};

use crate::arguments::Stage;
use crate::arguments::entry::Entry;
use crate::arguments::{
    BackendName, CacheArgument, DelegateName, Delegation, DeviceArguments, IoName, PrecisionName, PreferenceName,
    QuantizedName, SubmissionName,
};
use crate::failure::{Failure, Kind};
use crate::measure::timing::milliseconds;

pub(crate) use gpu::{Claims, adapters};

/// Maximum number of CPU threads without `--threads`; machines with fewer threads use as many as they have.
pub(crate) const DEFAULT_THREADS: usize = 4;

/// A hardware or software GPU, reached through one graphics interface.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Adapter {
    pub(crate) name: String,
    pub(crate) backend: String,
    pub(crate) driver: String,
    pub(crate) device_type: String,
    pub(crate) is_software: bool,
    /// Names of the supported features, of those that the GPU delegate may use.
    pub(crate) features: Vec<String>,
    /// The adapter's limits, by name.
    pub(crate) limits: serde_json::Map<String, serde_json::Value>,
    /// Why the adapter cannot be used; `None` if it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unusable: Option<String>,
}

/// Measured peak rates of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DevicePeaks {
    /// Bytes read plus bytes written per second by a copy.
    pub(crate) bytes_per_second: f64,
    /// f32 operations per second, two for each multiply-add.
    pub(crate) operations_per_second: f64,
    /// Operations per second on f16 matrices with matrix units, two for each multiply-add; `None` if the
    /// device has no such units.
    pub(crate) matrix_operations_per_second: Option<f64>,
}

/// What opening a GPU took, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenTimes {
    /// Creating the instances of the graphics interfaces that were asked.
    pub(crate) instance: f64,
    /// Listing their adapters and choosing one.
    pub(crate) search: f64,
    /// Opening that one.
    pub(crate) device: f64,
}

/// An opened GPU: its delegate and the description of its adapter.
#[derive(Clone)]
pub(crate) struct Gpu {
    delegate: Arc<gpu::Delegate>,
    adapter: Adapter,
}

/// The GPU that the command line requests, and how it has to compute.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wish {
    pub(crate) backend: Option<BackendName>,
    pub(crate) adapter: Option<String>,
    pub(crate) precision: PrecisionName,
    /// Whether shaders must not use the type f16 even if the device supports it.
    pub(crate) no_shader_f16: bool,
    /// Whether a software device uses the kernels for hardware.
    pub(crate) as_hardware: bool,
    /// Whether loops emulate cooperative matrices where the device has none.
    pub(crate) emulate_matrices: bool,
    pub(crate) quantized: QuantizedName,
    pub(crate) submission: Option<SubmissionName>,
    pub(crate) preference: PreferenceName,
    pub(crate) variant: Option<String>,
    /// Whether a software adapter may be chosen.
    pub(crate) software: bool,
    /// The folder for stored plans; `None` if none are stored.
    pub(crate) cache: Option<PathBuf>,
    pub(crate) delegation: Delegation,
}

/// Where models run: on a GPU with the CPU for the rest, or on the CPU alone.
#[derive(Clone)]
pub(crate) struct Device {
    /// The delegate of a library, which is asked before the GPU; `None` if the command line names none.
    external: Option<Arc<dyn Delegate>>,
    gpu: Option<Gpu>,
    pub(crate) precision: PrecisionName,
    pub(crate) quantized: QuantizedName,
    pub(crate) threads: usize,
    /// How the CPU rounds results of quantized operators.
    rounding: IntegerRounding,
    /// Upper bounds on what a model may need, e.g. bytes of memory. A model that exceeds them is rejected.
    pub(crate) limits: Limits,
    require_delegation: bool,
    cpu_fallback: bool,
    /// Whether interpreters record the time of each operator on the CPU.
    is_profiled: bool,
    /// The folder for packed weights of the CPU; `None` if none are stored.
    cache: Option<PathBuf>,
    delegation: Delegation,
    /// Whether a GPU was looked for.
    is_searched: bool,
    /// Milliseconds spent on choosing and opening the device.
    pub(crate) milliseconds: f64,
}

/// Returns the GPU that the options request; `None` for `--delegate cpu`. Contradictory options are an error.
fn wish(arguments: &DeviceArguments) -> Result<Option<Wish>, Failure> {
    let DeviceArguments {
        delegate,
        backend,
        adapter,
        precision,
        no_shader_f16,
        as_hardware,
        emulate_matrices,
        quantized,
        submission,
        variant,
        require_delegation,
        external,
        ..
    } = arguments;
    let explicit = backend.is_some() || adapter.is_some();
    let has_external = external.external_delegate.is_some();
    if has_external && delegate.is_none() && !explicit {
        if *precision != PrecisionName::F32 || arguments.of_gpus_alone().is_some() {
            let text = "--precision and other options are for a GPU, and --external-delegate uses none";
            return Err(Failure::usage(format!("{text} without --delegate gpu")));
        }
        return Ok(None);
    }
    if *delegate == Some(DelegateName::Cpu) {
        if *precision != PrecisionName::F32 {
            let text = format!("--precision {} is for a GPU, and the CPU computes in f32", precision.word());
            return Err(Failure::unsupported(format!("{text}; leave it or --delegate cpu out")));
        }
        if let Some(option) = arguments.of_gpus_alone() {
            return Err(Failure::usage(format!("{option} is for a GPU; leave it or --delegate cpu out")));
        }
        return match (explicit, *require_delegation && !has_external) {
            (true, _) => Err(Failure::usage("--backend and --adapter choose a GPU; leave out --delegate cpu")),
            (_, true) => Err(Failure::usage("--require-delegation needs a GPU; leave out --delegate cpu")),
            _ => Ok(None),
        };
    }
    let software = explicit || *delegate == Some(DelegateName::Gpu);
    Ok(Some(Wish {
        backend: *backend,
        adapter: adapter.clone(),
        precision: *precision,
        no_shader_f16: *no_shader_f16,
        as_hardware: *as_hardware,
        emulate_matrices: *emulate_matrices,
        quantized: *quantized,
        submission: *submission,
        preference: arguments.inference_preference.unwrap_or(arguments.usual_preference),
        variant: variant.clone(),
        software,
        cache: arguments.cache.as_ref().and_then(CacheArgument::folder),
        delegation: arguments.delegation.clone(),
    }))
}

/// The remedy where there is no hardware GPU.
pub(crate) const SOFTWARE: &str = "--delegate gpu takes a software adapter as well";

/// Returns an error if an option needs a GPU, for when there is none to choose.
fn check_without_gpu(arguments: &DeviceArguments) -> Result<(), Failure> {
    let precision = (arguments.precision != PrecisionName::F32).then_some("--precision");
    let variant = arguments.variant.as_ref().map(|_| "--variant");
    if let Some(option) = arguments.of_gpus_alone().or(precision).or(variant) {
        let reason = match arguments.delegate {
            Some(DelegateName::Cpu) => "the CPU was asked for",
            _ => "there is no hardware GPU",
        };
        return Err(Failure::unsupported(format!("{option} is for a GPU, and {reason}; {SOFTWARE}")));
    }
    match arguments.require_delegation {
        true => {
            let text = format!("--require-delegation: there is no hardware GPU to delegate to; {SOFTWARE}");
            Err(Failure::new(Kind::NotDelegated, text))
        }
        false => Ok(()),
    }
}

impl Device {
    /// Starts to open the device that the command line requests, on a thread of its own.
    pub(crate) fn open_beside(arguments: &DeviceArguments) -> DeviceOpening {
        let clone = arguments.clone();
        let thread = thread::Builder::new().name("attache open".into()).spawn(move || Self::open(&clone));
        DeviceOpening { thread: thread.ok(), arguments: arguments.clone() }
    }

    /// Chooses and opens the device that the command line requests.
    pub(crate) fn open(arguments: &DeviceArguments) -> Result<Self, Failure> {
        let start = Instant::now();
        let wish = wish(arguments)?;
        let is_searched = wish.is_some();
        let external = external::load(&arguments.external)?;
        let gpu = wish.map_or(Ok(None), |wish| gpu::open(&wish))?;
        if gpu.is_none() && external.is_none() {
            check_without_gpu(arguments)?;
        }
        let available = std::thread::available_parallelism().map_or(1, usize::from);
        let device = Self {
            external,
            gpu,
            precision: arguments.precision,
            quantized: arguments.quantized,
            threads: arguments.threads.map_or(available.min(DEFAULT_THREADS), usize::from),
            rounding: arguments.rounding.rounding(),
            limits: arguments.limits.limits(),
            require_delegation: arguments.require_delegation,
            cpu_fallback: arguments.cpu_fallback,
            is_profiled: false,
            cache: arguments.cache.as_ref().and_then(CacheArgument::folder),
            delegation: arguments.delegation.clone(),
            is_searched,
            milliseconds: milliseconds(start),
        };
        Ok(device)
    }

    /// Returns `gpu` if a GPU is used, else `external` for the delegate of a library, else `cpu`.
    pub(crate) fn delegate(&self) -> &'static str {
        match (&self.gpu, &self.external) {
            (Some(_), _) => "gpu",
            (None, Some(_)) => "external",
            (None, None) => "cpu",
        }
    }

    /// Whether there is a delegate, so that operators may run elsewhere than on the CPU.
    pub(crate) fn has_delegate(&self) -> bool {
        self.gpu.is_some() || self.external.is_some()
    }

    /// Returns the adapter of the GPU; `None` if only the CPU is used.
    pub(crate) fn adapter(&self) -> Option<&Adapter> {
        self.gpu.as_ref().map(|gpu| &gpu.adapter)
    }

    /// Describes the device in one line: adapter, precision, CPU threads, and their rounding unless it is usual.
    pub(crate) fn describe(&self) -> String {
        let threads = if self.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", self.threads) };
        let rounding = if self.rounding == IntegerRounding::XnnPack { ", XNNPACK's rounding" } else { "" };
        let threads = threads + rounding;
        let external = self.external.as_ref();
        let external = external.map_or(String::new(), |delegate| format!("external delegate {}; ", delegate.name()));
        let rest = match self.adapter() {
            None => format!("CPU, {threads}"),
            Some(Adapter { name, backend, driver, .. }) => {
                let quantized = match self.quantized {
                    QuantizedName::Auto | QuantizedName::View => "",
                    QuantizedName::Exact => ", quantized tensors exact",
                };
                format!("GPU {name} ({backend}, {driver}), {}{quantized}; CPU {threads}", self.precision.word())
            }
        };
        external + &rest
    }

    /// Returns what opening the GPU took; `None` if only the CPU is used.
    pub(crate) fn open_times(&self) -> Option<OpenTimes> {
        self.gpu.as_ref().map(Gpu::open_times)
    }

    /// Returns a line that says how long the search for a GPU took; `None` if there was none.
    pub(crate) fn search(&self) -> Option<String> {
        let took = format!("{:.1} ms", self.milliseconds);
        match (self.open_times(), self.is_searched) {
            (Some(OpenTimes { instance, search, device }), _) => Some(format!(
                "the GPU was found and opened in {took} (instance {instance:.1}, search {search:.1}, device \
                 {device:.1}), which is not part of init"
            )),
            (None, true) => Some(format!("no hardware GPU was found in {took}; --delegate cpu saves the search")),
            (None, false) => None,
        }
    }

    /// Builds an interpreter that uses this device.
    pub(crate) fn interpreter(&self, entry: &Entry<'_>) -> Result<Interpreter, Failure> {
        self.compiled(entry)?.interpreter().map_err(|error| entry.failure(error))
    }

    /// Compiles the subgraph for this device, for one or several interpreters.
    pub(crate) fn compiled(&self, entry: &Entry<'_>) -> Result<CompiledModel, Failure> {
        let mut builder = self.builder(entry.model).profile(self.is_profiled);
        for delegate in self.delegates() {
            builder = builder.delegate(delegate);
        }
        if self.has_delegate() {
            builder = builder.require_delegation(self.require_delegation).cpu_fallback(self.cpu_fallback);
        }
        compile(builder, entry)
    }

    /// Builds an interpreter that runs on the CPU alone.
    pub(crate) fn reference(&self, entry: &Entry<'_>) -> Result<Interpreter, Failure> {
        compile(self.builder(entry.model), entry)?.interpreter().map_err(|error| entry.failure(error))
    }

    /// Returns the error of a run on the CPU with inputs filled by `fill`; `None` if there is no error. If
    /// all shapes are known beforehand, the model is only prepared and does not run.
    pub(crate) fn cpu_error(
        &self,
        entry: &Entry<'_>,
        fill: impl FnOnce(&mut Interpreter) -> Result<(), Failure>,
    ) -> Option<Failure> {
        let run = || {
            let mut interpreter = self.reference(entry)?;
            if !shapes_are_known(entry) {
                fill(&mut interpreter)?;
                interpreter.invoke()?;
            }
            Ok(())
        };
        run().err()
    }

    /// Returns a builder of an interpreter with this device's threads and limits, but without its GPU.
    fn builder(&self, model: &Model) -> InterpreterBuilder {
        let mut builder = Interpreter::builder(model).threads(self.threads).limits(self.limits.clone());
        builder = builder.rounding(self.rounding);
        if let Some(token) = &self.delegation.model_token {
            builder = builder.model_token(token);
        }
        self.cache.iter().fold(builder, InterpreterBuilder::cache)
    }

    /// Returns the same device in a form whose interpreters time each dispatch on the GPU and each operator
    /// on the CPU.
    pub(crate) fn profiled(&self) -> Result<Self, Failure> {
        let gpu = self.gpu.as_ref().map(gpu::profiled).transpose()?;
        Ok(Self { gpu, is_profiled: true, ..self.clone() })
    }

    /// Binds all inputs and outputs of an interpreter to memory of the GPU's or to memory of the caller's that the GPU uses,
    /// and writes the inputs. Without a GPU this is an error.
    pub(crate) fn bind(&self, interpreter: &mut Interpreter, inputs: &[Vec<u8>], io: IoName) -> Result<(), Failure> {
        match &self.gpu {
            Some(gpu) => gpu::bind(gpu, interpreter, inputs, io),
            None => Err(Failure::unsupported(format!("--io {} is for a GPU; {SOFTWARE}", io.word()))),
        }
    }

    /// Returns the measured peak rates of the GPU. Without a GPU this is an error.
    pub(crate) fn peaks(&self) -> Result<DevicePeaks, Failure> {
        gpu::peaks(self.timed_gpu()?)
    }

    fn timed_gpu(&self) -> Result<&Gpu, Failure> {
        self.gpu.as_ref().ok_or_else(|| Failure::unsupported(format!("the CPU has no measured peaks; {SOFTWARE}")))
    }

    /// Returns the same device with the kernel variant `name` wherever it applies.
    pub(crate) fn with_variant(&self, name: &'static str) -> Self {
        Self { gpu: self.gpu.as_ref().map(|gpu| gpu.with_variant(name)), ..self.clone() }
    }

    /// Returns all variants of the GPU's kernels, each with what this device lacks to use it, if anything;
    /// none for the CPU.
    pub(crate) fn variants(&self) -> Vec<(&'static str, Option<&'static str>)> {
        self.gpu.as_ref().map_or(Vec::new(), Gpu::variants)
    }

    /// Returns the delegates in the order in which they are asked: that of a library and that of a GPU, where there are.
    pub(crate) fn delegates(&self) -> Vec<Arc<dyn Delegate>> {
        let gpu = self.gpu.iter().map(|gpu| gpu.delegate.clone() as Arc<dyn Delegate>);
        let external = self.external.iter().cloned();
        if self.delegation.gpu_first { gpu.chain(external).collect() } else { external.chain(gpu).collect() }
    }

    /// Returns a text that says which operator of the subgraph runs where, and why.
    pub(crate) fn partition(&self, entry: &Entry<'_>) -> Result<String, Failure> {
        let text = stages::partition(entry.model, entry.index, &entry.shapes, &self.delegates(), &self.limits);
        text.map_err(|error| entry.failure(error))
    }

    /// Returns the text of a stage of the subgraph's preparation that only the GPU has. Without a GPU this is
    /// an error.
    pub(crate) fn stage(&self, entry: &Entry<'_>, stage: Stage) -> Result<String, Failure> {
        match &self.gpu {
            Some(gpu) => gpu::stage(gpu, entry, stage, &self.limits),
            None => Err(Failure::unsupported(format!("the stage {} is the GPU's; {SOFTWARE}", stage.word()))),
        }
    }
}

/// The opening of a device, which goes on while the caller reads the model. Dropping it waits for its end, since drivers
/// do not expect the process to end while they work.
pub(crate) struct DeviceOpening {
    /// The thread that opens the device; `None` if there is none any more, or none could be started.
    thread: Option<JoinHandle<Result<Device, Failure>>>,
    arguments: DeviceArguments,
}

impl DeviceOpening {
    /// Waits for the device.
    pub(crate) fn wait(mut self) -> Result<Device, Failure> {
        match self.thread.take() {
            Some(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            None => Device::open(&self.arguments),
        }
    }
}

impl Drop for DeviceOpening {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Whether all shapes of the subgraph are known before it runs.
pub(crate) fn shapes_are_known(entry: &Entry<'_>) -> bool {
    let is_known = |graph: &Graph| {
        let made = graph.nodes.iter().flat_map(|node| &node.outputs);
        made.chain(&graph.outputs).all(|id| graph.fact(*id).shape.is_some())
    };
    stages::graph(entry.model, entry.index, &[]).is_ok_and(|(graph, _)| is_known(&graph))
}

/// Compiles the subgraph, with its shapes.
fn compile(mut builder: InterpreterBuilder, entry: &Entry<'_>) -> Result<CompiledModel, Failure> {
    if let Some(key) = entry.signature {
        builder = builder.signature(key);
    }
    for (input, shape) in &entry.shapes {
        builder = builder.input_shape(*input, shape);
    }
    builder.compile().map_err(|error| entry.failure(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::RoundingName;

    fn arguments() -> DeviceArguments {
        DeviceArguments::default()
    }

    #[test]
    fn software_must_be_asked_for() {
        let software = |arguments| wish(&arguments).unwrap().map(|wish| wish.software);
        assert_eq!(software(arguments()), Some(false));
        assert_eq!(software(DeviceArguments { delegate: Some(DelegateName::Gpu), ..arguments() }), Some(true));
        assert_eq!(software(DeviceArguments { backend: Some(BackendName::Gl), ..arguments() }), Some(true));
        assert_eq!(software(DeviceArguments { adapter: Some("x".into()), ..arguments() }), Some(true));
        assert_eq!(software(DeviceArguments { delegate: Some(DelegateName::Cpu), ..arguments() }), None);
    }

    #[test]
    fn contradictions_are_usage_errors() {
        let cpu = DeviceArguments { delegate: Some(DelegateName::Cpu), ..arguments() };
        let contradictions = [
            DeviceArguments { adapter: Some("x".into()), ..cpu.clone() },
            DeviceArguments { require_delegation: true, ..cpu.clone() },
            DeviceArguments { submission: Some(SubmissionName::Encoder), ..cpu.clone() },
            DeviceArguments { inference_preference: Some(PreferenceName::Balanced), ..cpu.clone() },
            DeviceArguments { no_shader_f16: true, ..cpu.clone() },
            DeviceArguments { as_hardware: true, ..cpu.clone() },
            DeviceArguments { emulate_matrices: true, ..cpu.clone() },
        ];
        for arguments in contradictions {
            assert_eq!(wish(&arguments).unwrap_err().kind, Kind::Usage);
        }
        let f16 = DeviceArguments { precision: PrecisionName::F16, ..cpu };
        assert_eq!(wish(&f16).unwrap_err().kind, Kind::Unsupported);
    }

    #[test]
    fn the_cpu_needs_no_gpu() {
        let device =
            Device::open(&DeviceArguments { delegate: Some(DelegateName::Cpu), threads: Some(1), ..arguments() })
                .unwrap();
        assert_eq!((device.delegate(), device.describe().as_str()), ("cpu", "CPU, 1 thread"));
        let arguments = DeviceArguments {
            delegate: Some(DelegateName::Cpu),
            threads: Some(2),
            rounding: RoundingName::XnnPack,
            ..arguments()
        };
        assert_eq!(Device::open(&arguments).unwrap().describe(), "CPU, 2 threads, XNNPACK's rounding");
    }
}

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

use std::sync::Arc;
use std::time::Instant;

use attache::graph::Graph;
use attache::{Delegate, Error, ErrorKind, Interpreter, InterpreterBuilder, Limits, Model, stages};
use serde::{Deserialize, Serialize};

use crate::arguments::Stage;
use crate::arguments::shapes::{Shapes, input_shapes};
use crate::arguments::{
    BackendName, DelegateName, DeviceArguments, PrecisionName, QuantizedName, ShapeArguments, SubmissionName,
};
use crate::failure::{Failure, Kind};
use crate::measure::timing::milliseconds;

pub(crate) use gpu::{Claims, adapters};

/// Maximum number of CPU threads without `--threads`; machines with fewer threads use as many as they have.
const DEFAULT_THREADS: usize = 4;

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
    pub(crate) variant: Option<String>,
    /// Whether a software adapter may be chosen.
    pub(crate) software: bool,
}

/// Where models run: on a GPU with the CPU for the rest, or on the CPU alone.
#[derive(Clone)]
pub(crate) struct Device {
    gpu: Option<Gpu>,
    pub(crate) precision: PrecisionName,
    pub(crate) quantized: QuantizedName,
    pub(crate) threads: usize,
    /// Upper bounds on what a model may need, e.g. bytes of memory. A model that exceeds them is rejected.
    pub(crate) limits: Limits,
    require_delegation: bool,
    cpu_fallback: bool,
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
        ..
    } = arguments;
    let explicit = backend.is_some() || adapter.is_some();
    if *delegate == Some(DelegateName::Cpu) {
        if *precision != PrecisionName::F32 {
            let text = format!("the CPU computes in f32; --precision {} is for the GPU", precision.word());
            return Err(Failure::unsupported(text));
        }
        if let Some(option) = arguments.of_gpus_alone() {
            return Err(Failure::usage(format!("{option} is for a GPU; leave it or --delegate cpu out")));
        }
        return match (explicit, require_delegation) {
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
        variant: variant.clone(),
        software,
    }))
}

impl Device {
    /// Chooses and opens the device that the command line requests.
    pub(crate) fn open(arguments: &DeviceArguments) -> Result<Self, Failure> {
        let start = Instant::now();
        let gpu = match wish(arguments)? {
            None => None,
            Some(wish) => gpu::open(&wish)?,
        };
        if gpu.is_none() && arguments.precision != PrecisionName::F32 {
            let text = "there is no hardware GPU, and the CPU computes in f32; --delegate gpu takes a software adapter as well";
            return Err(Failure::unsupported(text));
        }
        if gpu.is_none() && arguments.variant.is_some() {
            return Err(Failure::unsupported(
                "variants are the GPU's; --delegate gpu takes a software adapter as well",
            ));
        }
        if let (None, Some(option)) = (&gpu, arguments.of_gpus_alone()) {
            let text = format!(
                "there is no hardware GPU, and {option} is for one; --delegate gpu takes a software adapter as well"
            );
            return Err(Failure::unsupported(text));
        }
        if gpu.is_none() && arguments.require_delegation {
            let text = "there is no hardware GPU to delegate to; --delegate gpu takes a software adapter as well";
            return Err(Failure::new(Kind::NotDelegated, text));
        }
        let available = std::thread::available_parallelism().map_or(1, usize::from);
        let device = Self {
            gpu,
            precision: arguments.precision,
            quantized: arguments.quantized,
            threads: arguments.threads.map_or(available.min(DEFAULT_THREADS), usize::from),
            limits: arguments.limits.limits(),
            require_delegation: arguments.require_delegation,
            cpu_fallback: arguments.cpu_fallback,
            milliseconds: milliseconds(start),
        };
        Ok(device)
    }

    /// Returns `gpu` if a GPU is used, else `cpu`.
    pub(crate) fn delegate(&self) -> &'static str {
        if self.gpu.is_some() { "gpu" } else { "cpu" }
    }

    /// Returns the adapter of the GPU; `None` if only the CPU is used.
    pub(crate) fn adapter(&self) -> Option<&Adapter> {
        self.gpu.as_ref().map(|gpu| &gpu.adapter)
    }

    /// Describes the device in one line: adapter, precision and CPU threads.
    pub(crate) fn describe(&self) -> String {
        let threads = if self.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", self.threads) };
        match self.adapter() {
            None => format!("CPU, {threads}"),
            Some(Adapter { name, backend, driver, .. }) => {
                let quantized = match self.quantized {
                    QuantizedName::View => "",
                    QuantizedName::Exact => ", quantized tensors exact",
                };
                format!("GPU {name} ({backend}, {driver}), {}{quantized}; CPU {threads}", self.precision.word())
            }
        }
    }

    /// Builds an interpreter of the model that uses this device, with the shapes that `--shape` gives to
    /// inputs.
    pub(crate) fn interpreter(&self, model: &Model, shapes: &ShapeArguments) -> Result<Interpreter, Failure> {
        let shapes = input_shapes(model, shapes)?;
        self.interpreter_of_shapes(model, &shapes)
    }

    /// Builds an interpreter of the model that runs on the CPU alone, with the shapes that `--shape` gives to
    /// inputs.
    pub(crate) fn reference(&self, model: &Model, shapes: &ShapeArguments) -> Result<Interpreter, Failure> {
        build(self.builder(model), model, &input_shapes(model, shapes)?)
    }

    /// Builds an interpreter of the model that uses this device, with other shapes for some inputs.
    pub(crate) fn interpreter_of_shapes(
        &self,
        model: &Model,
        shapes: &[(usize, Vec<usize>)],
    ) -> Result<Interpreter, Failure> {
        let mut builder = self.builder(model);
        if let Some(gpu) = &self.gpu {
            builder = builder.delegate(gpu.delegate.clone());
            builder = builder.require_delegation(self.require_delegation).cpu_fallback(self.cpu_fallback);
        }
        build(builder, model, shapes)
    }

    /// Returns the error of a run on the CPU with inputs of these shapes, filled by `fill`; `None` if there
    /// is no error. If all shapes are known beforehand, the model is only prepared and does not run.
    pub(crate) fn cpu_error(
        &self,
        model: &Model,
        shapes: &Shapes,
        fill: impl FnOnce(&mut Interpreter) -> Result<(), Failure>,
    ) -> Option<Failure> {
        let run = || {
            let mut interpreter = build(self.builder(model), model, shapes)?;
            if !shapes_are_known(model) {
                fill(&mut interpreter)?;
                interpreter.invoke()?;
            }
            Ok(())
        };
        run().err()
    }

    /// Returns a builder of an interpreter with this device's threads and limits, but without its GPU.
    fn builder(&self, model: &Model) -> InterpreterBuilder {
        Interpreter::builder(model).threads(self.threads).limits(self.limits.clone())
    }

    /// Returns the same device in a form whose interpreters time each dispatch. Without a GPU this is an
    /// error.
    pub(crate) fn profiled(&self) -> Result<Self, Failure> {
        let gpu = Some(gpu::profiled(self.timed_gpu()?)?);
        Ok(Self { gpu, ..self.clone() })
    }

    /// Returns the measured peak rates of the GPU. Without a GPU this is an error.
    pub(crate) fn peaks(&self) -> Result<DevicePeaks, Failure> {
        gpu::peaks(self.timed_gpu()?)
    }

    fn timed_gpu(&self) -> Result<&Gpu, Failure> {
        let text = "a profile is of the GPU's dispatches; --delegate gpu takes a software adapter as well";
        self.gpu.as_ref().ok_or_else(|| Failure::unsupported(text))
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

    /// Returns the delegates: one for a GPU, none for the CPU.
    pub(crate) fn delegates(&self) -> Vec<Arc<dyn Delegate>> {
        self.gpu.iter().map(|gpu| gpu.delegate.clone() as Arc<dyn Delegate>).collect()
    }

    /// Returns a text that says which operator of the model runs where, and why.
    pub(crate) fn partition(&self, model: &Model) -> Result<String, Failure> {
        Ok(stages::partition(model, 0, &self.delegates(), &self.limits)?)
    }

    /// Returns the text of a stage of the model's preparation that only the GPU has. Without a GPU this is an
    /// error.
    pub(crate) fn stage(&self, model: &Model, stage: Stage) -> Result<String, Failure> {
        match &self.gpu {
            Some(gpu) => gpu::stage(gpu, model, stage, &self.limits),
            None => {
                Err(Failure::unsupported("this stage is the GPU's; --delegate gpu takes a software adapter as well"))
            }
        }
    }
}

/// Whether all shapes of the first subgraph are known before it runs.
pub(crate) fn shapes_are_known(model: &Model) -> bool {
    let is_known = |graph: &Graph| {
        let made = graph.nodes.iter().flat_map(|node| &node.outputs);
        made.chain(&graph.outputs).all(|id| graph.fact(*id).shape.is_some())
    };
    stages::graph(model, 0).is_ok_and(|(graph, _)| is_known(&graph))
}

/// Builds the interpreter with other shapes for some inputs, given as pairs of input index and extents.
fn build(
    mut builder: InterpreterBuilder,
    model: &Model,
    shapes: &[(usize, Vec<usize>)],
) -> Result<Interpreter, Failure> {
    for (input, shape) in shapes {
        builder = builder.input_shape(*input, shape);
    }
    // A model that is valid with its own shapes is not bad because it rejects others.
    let blame = |error: Error| match error.kind() {
        ErrorKind::Model if !shapes.is_empty() && stages::import(model, 0).is_ok() => {
            Failure::usage(format!("the model does not take these input shapes: {error}"))
        }
        _ => error.into(),
    };
    builder.build().map_err(blame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::LimitArguments;

    fn arguments() -> DeviceArguments {
        DeviceArguments {
            delegate: None,
            backend: None,
            adapter: None,
            precision: PrecisionName::F32,
            no_shader_f16: false,
            as_hardware: false,
            emulate_matrices: false,
            quantized: QuantizedName::View,
            submission: None,
            variant: None,
            require_delegation: false,
            cpu_fallback: false,
            threads: None,
            limits: LimitArguments::default(),
        }
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
    }
}

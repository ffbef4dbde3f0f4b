//! The GPU delegate: opens a device, claims nodes and prepares partitions. A claim carries the lowered
//! program of its node until the partition is prepared.

use std::fmt;

use attache_base::Bytes;
use attache_gpu::{
    Adapter, Device, DeviceOptions, DevicePeaks, Executable, GpuError, GpuErrorKind, Matrices, OpenTimes, Precision,
    Runs, Submission, VariantChoice, VariantRequirement, Wait, interface, wgpu,
};
use attache_gpu_ir::Program;
use attache_graph::{Graph, Lowered, Lowering, NodeId, Quantized, Unsupported};

use super::failure::failure;
use super::kernel::{GpuPartition, PartitionInfo};
use super::options::GpuDelegateOptions;
use super::program::{GpuClaim, Stitched, stitch};
use super::stored::{Parts, PlanFunctions};
use crate::delegate::guard::guarded;
use crate::{
    CacheFolder, Claim, Delegate, DelegateCache, DelegateError, Error, ErrorKind, NodeContext, Partition, Partitioning,
    PreparedPartition,
};

/// Size in bytes of a buffer binding that every device supports.
const COMMON_BINDING_BYTES: u64 = 128 << 20;

/// Runs partitions on a GPU. Clones are cheap and share the device. Interpreters on several threads can share a
/// delegate.
#[derive(Clone, Debug)]
pub struct GpuDelegate {
    device: Device,
    precision: Precision,
    quantized: Option<Quantized>,
    slots: usize,
    wait: Wait,
    submission: Option<Submission>,
    partitioning: Partitioning,
    profiled: bool,
    stored: Option<StoredPlans>,
}

/// Where the delegate's plans are stored.
#[derive(Clone)]
struct StoredPlans {
    cache: CacheFolder,
    functions: PlanFunctions,
    model_token: Option<String>,
}

impl fmt::Debug for StoredPlans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cache.fmt(f)
    }
}

impl GpuDelegate {
    /// Opens a device and creates the delegate.
    ///
    /// Delegates of this process share an open device, with its pipelines and constants, if the options that select or
    /// configure it are equal; the inference preference may be another, unless it asks for more queues than the device has. It is closed when the last delegate and the last interpreter on it are dropped. A
    /// device that was lost is not shared any more: a new delegate opens it again.
    ///
    /// # Errors
    ///
    /// Of kind [`ErrorKind::Usage`] if the inference priorities are contradictory, of kind [`ErrorKind::Unsupported`]
    /// if replay is requested but not possible or the device lacks a required feature, and of kind
    /// [`ErrorKind::Device`] if there is no matching device or it cannot be opened.
    pub fn new(options: GpuDelegateOptions) -> Result<Self, Error> {
        options.resolved_precision()?;
        let device = Device::shared(&DeviceOptions {
            backend: options.backend,
            adapter: options.adapter.clone(),
            hardware_only: !options.allows_software(),
            concurrent_runs: options.inference_preference.concurrent_runs(),
            validation: options.validation,
            as_hardware: options.as_hardware,
            own_memory: options.own_memory,
            frugal: false,
            unchecked_buffers: false,
            no_subgroups: options.no_subgroups,
            no_shader_f16: options.no_shader_f16,
            emulate_matrices: options.emulate_matrices,
            fault: options.fault.or_else(super::fault::of_device),
        });
        Self::on(device.map_err(failed)?, options)
    }

    /// Creates the delegate on a device that the caller opened. Options that select or configure the device are
    /// ignored.
    ///
    /// # Errors
    ///
    /// Of kind [`ErrorKind::Usage`] if the inference priorities are contradictory, of kind [`ErrorKind::Unsupported`]
    /// if replay is requested, and of kind [`ErrorKind::Device`] if the device allows a shader fewer than four storage
    /// buffers.
    pub fn with_device(device: wgpu::Device, queue: wgpu::Queue, options: GpuDelegateOptions) -> Result<Self, Error> {
        let device = Device::from_wgpu(device, queue);
        if device.adapter().max_storage_buffers < 4 {
            return Err(Error::new(
                ErrorKind::Device,
                "the device allows a shader fewer than four storage buffers; open one that allows more",
            ));
        }
        Self::on(device, options)
    }

    /// Creates the delegate on an open device.
    fn on(device: Device, options: GpuDelegateOptions) -> Result<Self, Error> {
        if options.submission == Some(Submission::Replay) && !device.replays() {
            let message = "the submission replay needs a device that the delegate opens itself, through Vulkan; leave the \
                submission to the delegate";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let precision = options.resolved_precision()?;
        let folder = options.plan_folder().filter(|_| !device.has_fault() && !super::fault::is_planted());
        let stored = folder.and_then(|folder| {
            let (functions, model_token) = (folder.functions, options.model_token.clone());
            Some(StoredPlans { cache: folder.open()?, functions, model_token })
        });
        let GpuDelegateOptions { quantized, submission, partitioning, variants, wait, .. } = options;
        let slots = options.inference_preference.slots();
        let device = device.with_variants(variants);
        Ok(Self { device, precision, quantized, slots, wait, submission, partitioning, profiled: false, stored })
    }

    /// Returns this delegate on the same device with another choice of kernel variants.
    #[must_use]
    pub fn with_variants(&self, variants: VariantChoice) -> Self {
        Self { device: self.device.with_variants(variants), ..self.clone() }
    }

    /// Returns what this delegate lacks, as text, to use kernel variants with the requirement `needs`; `None`
    /// if it lacks nothing.
    #[must_use]
    pub fn lacks(&self, needs: VariantRequirement) -> Option<&'static str> {
        match needs {
            VariantRequirement::Nothing => None,
            VariantRequirement::F32Storage => (self.precision != Precision::F32).then_some("a precision of 32 bits"),
            VariantRequirement::Matrices if self.device.limits().matrices == Matrices::Absent => {
                Some("a device with cooperative matrices, or with these emulated")
            }
            VariantRequirement::Matrices => (self.precision == Precision::F32).then_some("a precision of 16 bits"),
            VariantRequirement::Bytes => {
                (self.quantized != Some(Quantized::Exact)).then_some("integers, multiplied as they are stored")
            }
        }
    }

    /// Returns this delegate on the same device with timestamps at the beginning and end of each dispatch,
    /// for [`Interpreter::profile`](crate::Interpreter::profile). Runs take longer with timestamps.
    ///
    /// # Errors
    ///
    /// Of kind [`ErrorKind::Unsupported`] if the device has no timestamps.
    pub fn profiled(&self) -> Result<Self, Error> {
        if !self.device.has_timestamps(self.usual_submission()) {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "the device has no timestamps to time dispatches by; run without a profile",
            ));
        }
        Ok(Self { profiled: true, ..self.clone() })
    }

    /// Measures the device's peak rates of memory traffic and arithmetic, which takes some milliseconds.
    ///
    /// # Errors
    ///
    /// Of kind [`ErrorKind::Unsupported`] if the device has no timestamps, and of kind [`ErrorKind::Device`]
    /// if it fails.
    pub fn peaks(&self) -> Result<DevicePeaks, Error> {
        DevicePeaks::measure(&self.device, self.usual_submission()).map_err(failed)
    }

    /// Returns the requested submission method, or else the default: replay if the device supports it,
    /// otherwise the encoder. By default, partitions that cannot be prepared for replay, for example because
    /// their buffers are too large, use the encoder.
    pub(super) fn usual_submission(&self) -> Submission {
        let possible = if self.device.replays() { Submission::Replay } else { Submission::Encoder };
        self.submission.unwrap_or(possible)
    }

    /// Returns the device, on which [`DeviceMemory`](super::DeviceMemory) is allocated.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the properties of the device.
    #[must_use]
    pub fn adapter(&self) -> &Adapter {
        self.device.adapter()
    }

    /// Returns the precision in which tensors are stored and computed.
    #[must_use]
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Returns the milliseconds that opening the device took, for the first of the delegates that share it; 0 if the
    /// caller opened it.
    #[must_use]
    pub fn device_ms(&self) -> f64 {
        self.open_times().total_ms()
    }

    /// Returns the parts of [`GpuDelegate::device_ms`].
    #[must_use]
    pub fn open_times(&self) -> OpenTimes {
        self.device.open_times()
    }

    /// Whether this delegate and another one use the same open device.
    #[must_use]
    pub fn shares_device_with(&self, other: &Self) -> bool {
        self.device.is_same(&other.device)
    }

    /// Checks that the GPU delegate can run a node, without opening a device. `quantized` is how quantized tensors are
    /// computed; `None` leaves that to the delegate. Buffer bindings are assumed to be limited to 128 MiB, which every
    /// device supports.
    ///
    /// # Errors
    ///
    /// The reason why the delegate does not support the node.
    pub fn supports(graph: &Graph, node: NodeId, quantized: Option<Quantized>) -> Result<(), Unsupported> {
        let lowered = |quantized| lower(graph, node, quantized, COMMON_BINDING_BYTES).map(drop);
        let answer = guarded("GPU", "claim", || match quantized {
            Some(quantized) => lowered(quantized),
            None => lowered(Quantized::View).or_else(|reason| lowered(Quantized::Exact).map_err(|_| reason)),
        });
        answer.unwrap_or_else(|panic| Err(Unsupported::new(panic.to_string())))
    }

    /// Returns how partitions are run.
    pub(super) fn runs(&self) -> Runs {
        Runs { slots: self.slots, timed: self.profiled, wait: self.wait }
    }

    /// Plans and loads a program. Also returns what is stored of it, if plans are stored.
    fn load(
        &self,
        program: Program,
        submission: Submission,
        info: &PartitionInfo,
    ) -> Result<(Executable, Option<Parts>), GpuError> {
        let (interface, first) = (interface(&self.device, submission)?, Some(info.runs(self.runs())));
        let Some(StoredPlans { functions, .. }) = &self.stored else {
            return Ok((Executable::on(&*interface, program, self.precision, first)?, None));
        };
        let (executable, mut parts) = (functions.make)(&*interface, program, self.precision, first)?;
        parts.insert(0, (functions.head)(submission, info.forms));
        Ok((executable, Some(parts)))
    }
}

/// Whether an input or output of a node is quantized.
fn is_quantized(node: &NodeContext<'_>) -> bool {
    let ids = node.node().inputs.iter().flatten().chain(&node.node().outputs);
    ids.into_iter().any(|id| node.graph.fact(*id).quantization.is_some())
}

/// Converts a device error that occurred while a device was opened or measured.
fn failed(error: GpuError) -> Error {
    match error.kind() {
        GpuErrorKind::Unsupported => Error::new(ErrorKind::Unsupported, error.to_string()),
        _ => Error::new(ErrorKind::Device, error.to_string()),
    }
}

/// Lowers a node to a program and checks that each value of the program, at 4 bytes per element, fits into
/// one binding of `max_binding_bytes` bytes.
fn lower(graph: &Graph, node: NodeId, quantized: Quantized, max_binding_bytes: u64) -> Result<Lowered, Unsupported> {
    let lowered = Lowering::lower(graph, graph.node(node), quantized)?;
    for value in &lowered.program.values {
        let bytes = value.shape.checked_elements().and_then(|elements| elements.checked_mul(4));
        if bytes.is_none_or(|bytes| bytes as u64 > max_binding_bytes.min(i32::MAX as u64)) {
            let limit = max_binding_bytes >> 20;
            return Err(Unsupported::new(format!(
                "a tensor of shape {} is over the device's {limit} MiB",
                value.shape
            )));
        }
    }
    Ok(lowered)
}

impl Delegate for GpuDelegate {
    fn name(&self) -> &str {
        "GPU"
    }

    fn partitioning(&self) -> Partitioning {
        self.partitioning.clone()
    }

    fn claim(&self, node: NodeContext<'_>) -> Result<Claim, Unsupported> {
        let limit = self.device.adapter().max_binding_bytes;
        let lowered = |quantized| {
            let lowered = lower(node.graph, node.id, quantized, limit);
            lowered.map(|lowered| super::fault::plant(node.node(), lowered))
        };
        if self.quantized.is_some() || !is_quantized(&node) {
            return Ok(Claim::new(GpuClaim::Settled(lowered(self.quantized.unwrap_or(Quantized::View))?)));
        }
        let floats = match lowered(Quantized::View) {
            Ok(floats) => floats,
            Err(reason) => {
                // The reason why there are no floats is what the user can do something about.
                let integers = lowered(Quantized::Exact).map_err(|_| reason)?;
                return Ok(Claim::new(GpuClaim::Integers(integers)));
            }
        };
        // A node without an integer form makes all others of its partition that have floats compute with these.
        let integers = if self.device.multiplies_bytes() { lowered(Quantized::Exact).ok() } else { None };
        Ok(Claim::new(match integers {
            Some(integers) => GpuClaim::Both(Box::new([floats, integers])),
            None => GpuClaim::Floats(floats),
        }))
    }

    fn prepare(&self, partition: Partition<'_>) -> Result<Box<dyn PreparedPartition>, DelegateError> {
        let Stitched { program, info } = stitch(partition, self.quantized)?;
        let loaded = |program, submission| self.load(program, submission, &info);
        let made = match self.submission {
            Some(submission) => loaded(program, submission),
            // A program that is too large for the few buffers of a replay may fit into the more numerous
            // buffers of the encoder.
            None if self.device.replays() => match loaded(program.clone(), Submission::Replay) {
                Err(error) if matches!(error.kind(), GpuErrorKind::OutOfMemory | GpuErrorKind::Unsupported) => {
                    loaded(program, Submission::Encoder)
                }
                replayed => replayed,
            },
            None => loaded(program, Submission::Encoder),
        };
        let failed = |error: GpuError| failure("Prepare", &error);
        let (executable, parts) = made.map_err(failed)?;
        let partition = GpuPartition::new(executable, info, self.runs()).map_err(failed)?;
        Ok(Box::new(partition.with_parts(parts)))
    }

    fn cache(&self) -> Option<DelegateCache<'_>> {
        let stored = self.stored.as_ref()?;
        let Self { device, precision, quantized, submission, partitioning, .. } = self;
        let key = (device.identity(), device.limits(), precision, quantized, submission, partitioning);
        let description = format!("{} ({}), {precision:?}", device.adapter().name, device.adapter().backend);
        let cache = DelegateCache::new(&stored.cache, format!("{key:?}").into_bytes(), description);
        Some(cache.model_token(stored.model_token.as_deref()))
    }

    fn restore(&self, partition: Partition<'_>, parts: &[Bytes]) -> Result<Box<dyn PreparedPartition>, DelegateError> {
        match &self.stored {
            Some(stored) => (stored.functions.restore)(&self.device, self.runs(), partition, parts),
            None => Err(DelegateError::new("no plans are stored")),
        }
    }
}

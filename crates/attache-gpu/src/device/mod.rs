//! Devices: lists the adapters of the system, opens one of them as a device, and shares the open device and
//! its pipelines between recordings.

mod code;
pub(crate) mod constants;
mod fault;
mod fence;
mod handle;
#[cfg(all(feature = "vulkan", any(target_os = "linux", target_os = "android", target_os = "freebsd", windows)))]
mod memory;
mod pipeline_cache;
mod pipelines;
mod render;
mod run_signal;
mod search;
mod shared;
mod submission;
mod usable;
#[cfg(all(feature = "vulkan", any(target_os = "linux", target_os = "android", target_os = "freebsd", windows)))]
pub(crate) mod vulkan;
#[cfg(not(all(feature = "vulkan", any(target_os = "linux", target_os = "android", target_os = "freebsd", windows))))]
#[path = "no_vulkan.rs"]
pub(crate) mod vulkan;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use attache_base::Stopwatch;

use self::constants::ConstantStore;
use self::pipelines::{COMPILING, Pipelines};
use self::search::{Found, choose};
use self::usable::Abilities;
use self::vulkan::{ComputeQueues, Vulkan, experiments, open};
use crate::kernel::{DeviceLimits, GpuError, GpuErrorKind, Matrices, Params, VariantChoice};

pub use code::{DeviceCode, ShaderCode};
pub(crate) use fault::Planted;
pub use fault::{Fault, FaultPoint};
pub use fence::Fence;
pub(crate) use handle::HostMemory;
pub use handle::{DeviceId, MemoryHandle};
pub(crate) use run_signal::RunSignal;
pub use search::{adapters, validated_adapter};
pub use submission::Submission;

/// A graphics API through which devices are accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum Backend {
    Vulkan,
    Metal,
    Dx12,
    Gl,
}

impl Backend {
    /// All graphics APIs.
    pub const ALL: [Backend; 4] = [Backend::Vulkan, Backend::Metal, Backend::Dx12, Backend::Gl];

    /// Returns the name of the graphics API in command-line flags.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Backend::Vulkan => "vulkan",
            Backend::Metal => "metal",
            Backend::Dx12 => "dx12",
            Backend::Gl => "gl",
        }
    }

    fn mask(self) -> wgpu::Backends {
        match self {
            Backend::Vulkan => wgpu::Backends::VULKAN,
            Backend::Metal => wgpu::Backends::METAL,
            Backend::Dx12 => wgpu::Backends::DX12,
            Backend::Gl => wgpu::Backends::GL,
        }
    }

    fn of(backend: wgpu::Backend) -> Option<Self> {
        Backend::ALL.into_iter().find(|b| b.mask() == wgpu::Backends::from(backend))
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A device as one graphics API reports it. It can be opened unless `unusable` gives a reason.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Adapter {
    /// The vendor's name of the device.
    pub name: String,
    /// The graphics API through which it is accessed.
    pub backend: Backend,
    /// The driver's name and version.
    pub driver: String,
    /// Whether the device is a software implementation on the CPU.
    pub is_software: bool,
    /// The kind of device, such as `discrete GPU`.
    pub kind: &'static str,
    /// Whether shaders support f16.
    pub shader_f16: bool,
    /// Whether shaders support subgroups.
    pub subgroups: bool,
    /// Number of invocations of every subgroup; `None` if subgroups are not supported, or not all have as many.
    pub subgroup_size: Option<u32>,
    /// Whether a subgroup, of 32 invocations, can multiply 16×16 f16 matrices with f32 accumulation.
    pub cooperative_matrices: bool,
    /// Maximum bytes of a storage buffer that one binding covers.
    pub max_binding_bytes: u64,
    /// Maximum number of storage buffers that one shader can bind.
    pub max_storage_buffers: u32,
    /// Maximum bytes of work-group memory that one work group can use.
    pub work_group_bytes: u32,
    /// The reason why shaders cannot run on the device, so that it cannot be opened; `None` if it can be
    /// opened.
    pub unusable: Option<String>,
}

/// Which device to open, and how. The default is the hardware device, preferably a discrete one, of the first
/// graphics API that has one; otherwise a software device. Vulkan is asked first, on Apple's systems Metal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceOptions {
    /// The graphics API through which the device must be accessed; `None` for any.
    pub backend: Option<Backend>,
    /// A text that the adapter's name must contain, ignoring case; `None` for any name.
    pub adapter: Option<String>,
    /// Whether the device must be hardware, so that software devices are never opened.
    pub hardware_only: bool,
    /// How many runs of a recording the device has to be able to execute concurrently, where it can; `None` for as many as
    /// help. On Vulkan each of them takes a queue of a compute-only family, if the device has one, and opening the device
    /// takes longer for each queue.
    pub concurrent_runs: Option<usize>,
    /// Whether to enable the graphics API's validation layer, which writes to the log. For tests.
    pub validation: bool,
    /// Whether to treat a software device like hardware: its shaders contain their parameters as literals and
    /// may use split-K, and its runs may execute concurrently. For tests.
    pub as_hardware: bool,
    /// Whether to treat the memory of a software device as apart from the host's. For tests.
    pub own_memory: bool,
    /// Whether to limit shaders to four storage buffers, which every device supports, and to disable the
    /// device's cooperative matrices and subgroups. Everything else is as for hardware. For tests on software devices.
    pub frugal: bool,
    /// Whether shaders exchange no values within subgroups, even if the device supports it. For tests.
    pub no_subgroups: bool,
    /// Whether to disable f16 in shaders, and with it cooperative matrices, even if the device supports them.
    /// 16-bit precisions then work as on devices without f16. For tests.
    pub no_shader_f16: bool,
    /// Whether to emulate cooperative matrices by loops if the device has none, provided that its shaders
    /// support f16. For tests.
    pub emulate_matrices: bool,
    /// Whether to disable, in replay, the bounds checks that the device applies to buffer accesses, if the
    /// device allows that. Shaders of this crate never access buffers out of bounds. For measurements.
    pub unchecked_buffers: bool,
    /// The fault to inject into the device; `None` for none. For tests.
    pub fault: Option<Fault>,
}

/// Maximum number of runs of one recording that may execute concurrently. Concurrent runs raise the throughput, since most
/// dispatches are too small for a large device.
const MAX_STREAMS: usize = 4;

impl DeviceOptions {
    /// Returns how many runs of a recording have to be able to execute concurrently.
    fn streams(&self) -> usize {
        self.concurrent_runs.map_or(MAX_STREAMS, |runs| runs.clamp(1, MAX_STREAMS))
    }
}

/// What opening a device took, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct OpenTimes {
    /// Creating the instances of the graphics APIs that were asked, which loads their drivers.
    pub instance_ms: f64,
    /// Listing the adapters and choosing one.
    pub search_ms: f64,
    /// Opening that adapter as a device.
    pub device_ms: f64,
}

impl OpenTimes {
    /// Returns the sum of the parts.
    #[must_use]
    pub fn total_ms(&self) -> f64 {
        self.instance_ms + self.search_ms + self.device_ms
    }
}

/// An open device and its limits. Clones are cheap and share the device and its pipelines.
#[derive(Clone)]
pub struct Device(Arc<Inner>, DeviceLimits);

/// The first error that wgpu reported outside of an error scope, or the loss of the device. Shared with the
/// callbacks that wgpu calls. While it is `Some`, outputs of the device may be wrong.
type Failure = Arc<Mutex<Option<GpuError>>>;

struct Inner {
    /// The Vulkan objects of the device if this crate opened it through Vulkan; otherwise `None`. Declared
    /// before `device`, so that they are dropped first.
    vulkan: Option<Vulkan>,
    device: wgpu::Device,
    queue: wgpu::Queue,
    adapter: Adapter,
    pipelines: Pipelines<wgpu::ComputePipeline>,
    render_pipelines: Pipelines<wgpu::RenderPipeline>,
    constants: ConstantStore<wgpu::Buffer>,
    /// On OpenGL, locked while a pipeline is created.
    turn: Mutex<()>,
    failure: Failure,
    fault: Option<Planted>,
    /// Whether the caller opened the device.
    is_callers: bool,
    /// The number of concurrent runs for which it need not be opened again.
    streams: usize,
    times: OpenTimes,
    /// The limits of handles that leave the choice between kernel variants to their priorities.
    limits: DeviceLimits,
    /// The text of [`Device::identity`].
    identity: String,
}

/// How this crate opened a device, in contrast to a device that the caller opened. Only this crate submits
/// commands to the queue of such a device.
struct Opened {
    own: ComputeQueues,
    streams: usize,
    validation: bool,
    as_hardware: bool,
    own_memory: bool,
    emulate_matrices: bool,
    fault: Option<Fault>,
    /// What was measured before the device was opened.
    times: OpenTimes,
    /// The beginning of its opening.
    start: Stopwatch,
}

/// Sizes in bytes of the blocks in which wgpu allocates memory of the device: the first one, and the largest. Those of
/// the host's memory are half as large. wgpu needs some kilobytes of both when it opens a device, and the driver
/// takes milliseconds to pin and map a large block. What replay uses does not come from these blocks.
const MEMORY_BLOCKS: std::ops::Range<u64> = 8 << 20..256 << 20;

impl Device {
    /// Opens the preferred one of the usable adapters that match the options.
    ///
    /// # Errors
    ///
    /// If no usable adapter matches the options, or if the device cannot be opened.
    pub fn open(options: &DeviceOptions) -> Result<Self, GpuError> {
        let Found { adapter, instance_ms, search_ms } = choose(options)?;
        let start = Stopwatch::start();
        let mut described = describe(&adapter);
        described.shader_f16 &= !options.no_shader_f16;
        described.cooperative_matrices &= !options.no_shader_f16 && !options.frugal;
        described.subgroup_size = described.subgroup_size.filter(|_| !options.no_subgroups && !options.frugal);
        let mut wanted = wgpu::Features::TIMESTAMP_QUERY | wgpu::Features::PIPELINE_CACHE;
        wanted.set(wgpu::Features::SHADER_F16, described.shader_f16);
        wanted.set(wgpu::Features::SUBGROUP, described.subgroup_size.is_some());
        wanted.set(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX, described.cooperative_matrices);
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("attache"),
            required_features: wanted & adapter.features(),
            required_limits: adapter.limits(),
            experimental_features: experiments(),
            memory_hints: wgpu::MemoryHints::Manual { suballocated_device_memory_block_size: MEMORY_BLOCKS },
            ..Default::default()
        };
        let (device, queue, own) = open(&adapter, &descriptor, (options.streams(), options.unchecked_buffers))
            .map_err(|error| GpuError::new(GpuErrorKind::NoDevice, format!("the device cannot be opened: {error}")))?;
        let failure = Arc::new(Mutex::new(None));
        let seen = failure.clone();
        device.on_uncaptured_error(Arc::new(move |error| {
            tracing::error!(%error, "device");
            seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get_or_insert_with(|| error.into());
        }));
        let seen = failure.clone();
        device.set_device_lost_callback(move |reason, message| {
            if reason == wgpu::DeviceLostReason::Unknown {
                *seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(GpuError::lost(message));
            }
        });
        if options.frugal {
            described = Adapter { max_storage_buffers: 4, ..described };
        }
        let DeviceOptions { validation, emulate_matrices, fault, .. } = *options;
        let as_hardware = options.as_hardware || options.frugal;
        let times = OpenTimes { instance_ms, search_ms, device_ms: 0.0 };
        let streams = if own.has_more() { options.streams() } else { MAX_STREAMS };
        let own_memory = options.own_memory;
        let opened =
            Opened { own, streams, validation, as_hardware, own_memory, emulate_matrices, fault, times, start };
        Ok(Self::new(device, queue, described, failure, Some(opened)))
    }

    /// Wraps a wgpu device that the caller opened. [`Submission::Replay`] and cooperative matrices are not
    /// available on it. Errors that wgpu reports outside of an error scope go to the caller's handlers.
    #[must_use]
    pub fn from_wgpu(device: wgpu::Device, queue: wgpu::Queue) -> Self {
        let limits = device.limits();
        let info = device.adapter_info();
        let adapter =
            Adapter { shader_f16: device.features().contains(wgpu::Features::SHADER_F16), ..facts(&info, &limits) };
        Self::new(device, queue, adapter, Arc::default(), None)
    }

    fn new(
        device: wgpu::Device,
        queue: wgpu::Queue,
        adapter: Adapter,
        failure: Failure,
        opened: Option<Opened>,
    ) -> Self {
        let max_binding_bytes = usize::try_from(adapter.max_binding_bytes).unwrap_or(usize::MAX);
        let storage_buffers = adapter.max_storage_buffers as usize;
        let as_hardware = opened.as_ref().is_some_and(|opened| opened.as_hardware);
        let as_software = adapter.is_software && storage_buffers > 4 && !as_hardware;
        let (max_bindings, params) = match as_software {
            true => (storage_buffers - 1, Params::Storage),
            false => (storage_buffers, Params::Text),
        };
        let emulates = adapter.shader_f16 && opened.as_ref().is_some_and(|opened| opened.emulate_matrices);
        let matrices = match adapter.cooperative_matrices {
            true => Matrices::Cooperative,
            false if emulates => Matrices::Emulated,
            false => Matrices::Absent,
        };
        let allowed = device.limits();
        let most_invocations = allowed.max_compute_invocations_per_workgroup.min(allowed.max_compute_workgroup_size_x);
        let limits = DeviceLimits {
            max_bindings,
            params,
            max_binding_bytes,
            work_group_bytes: adapter.work_group_bytes as usize,
            max_invocations: most_invocations as usize,
            // Vectors of four words need an alignment of 16 bytes.
            alignment: (allowed.min_storage_buffer_offset_alignment as usize).max(16),
            shader_f16: adapter.shader_f16,
            matrices,
            subgroup: adapter.subgroup_size.filter(|_| !as_software).map(|size| size as usize),
            splits_k: !as_software,
            variants: VariantChoice::ByPriority,
        };
        let vulkan = opened.as_ref().and_then(|opened| {
            Vulkan::of(&device, &limits, opened.own, (opened.validation, opened.as_hardware, opened.own_memory))
        });
        if vulkan.as_ref().is_some_and(Vulkan::is_unchecked) {
            tracing::info!("replayed pipelines do without the device's checks of buffers");
        }
        let fault = opened.as_ref().and_then(|opened| opened.fault);
        let is_callers = opened.is_none();
        let streams = opened.as_ref().map_or(1, |opened| opened.streams);
        let times = opened.map(|opened| OpenTimes { device_ms: opened.start.milliseconds(), ..opened.times });
        let info = device.adapter_info();
        let driver = (info.backend, info.vendor, info.device, &info.driver, &info.driver_info);
        let own = vulkan.as_ref().map_or_else(String::new, Vulkan::identity);
        let identity = format!("{driver:?} {adapter:?} {:?} {own}", device.features());
        let inner = Inner {
            vulkan,
            device,
            queue,
            adapter,
            pipelines: Pipelines::default(),
            render_pipelines: Pipelines::default(),
            constants: ConstantStore::default(),
            turn: Mutex::default(),
            failure,
            fault: fault.map(Planted::new),
            is_callers,
            streams,
            times: times.unwrap_or_default(),
            limits: limits.clone(),
            identity,
        };
        Self(Arc::new(inner), limits)
    }

    /// Returns the properties of the adapter, as restricted by the options with which the device was opened.
    #[must_use]
    pub fn adapter(&self) -> &Adapter {
        &self.0.adapter
    }

    /// Returns a text that differs for devices, drivers and ways to open them for which shaders or pipelines may differ.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.0.identity
    }

    /// Returns the limits for shaders, and the choices between kernel variants.
    #[must_use]
    pub fn limits(&self) -> &DeviceLimits {
        &self.1
    }

    /// Returns a handle to the same device with another choice between the variants of kernels. Sessions that
    /// are made with the returned handle use that choice.
    #[must_use]
    pub fn with_variants(&self, variants: VariantChoice) -> Self {
        Self(self.0.clone(), DeviceLimits { variants, ..self.1.clone() })
    }

    /// Returns what opening the device took; 0 if the caller opened it.
    #[must_use]
    pub fn open_times(&self) -> OpenTimes {
        self.0.times
    }

    /// Whether both handles are of the same open device.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether the caller opened the device, and so can make memory and commands of it.
    pub(crate) fn is_callers(&self) -> bool {
        self.0.is_callers
    }

    /// Whether the device supports [`Submission::Replay`].
    #[must_use]
    pub fn replays(&self) -> bool {
        self.0.vulkan.is_some()
    }

    /// Whether recordings with this submission method can record timestamps around each dispatch.
    pub fn has_timestamps(&self, submission: Submission) -> bool {
        match submission {
            Submission::Replay => self.0.vulkan.as_ref().is_some_and(Vulkan::has_timestamps),
            Submission::Encoder => self.0.device.features().contains(wgpu::Features::TIMESTAMP_QUERY),
        }
    }

    /// Whether the device is known to multiply packed bytes in one instruction, so that 8-bit integers cost no more
    /// than floats.
    pub fn multiplies_bytes(&self) -> bool {
        self.vulkan().is_some_and(Vulkan::multiplies_bytes)
    }

    /// Returns what identifies the device and its driver for other processes; `None` if it is not one of Vulkan that this
    /// crate opened.
    #[must_use]
    pub fn id(&self) -> Option<DeviceId> {
        self.vulkan().map(Vulkan::id)
    }

    /// Whether the device's memory is the host's, as of integrated GPUs and software devices; false where that is not known.
    #[must_use]
    pub fn has_unified_memory(&self) -> bool {
        self.vulkan().is_some_and(Vulkan::is_unified)
    }

    /// Returns the alignment in bytes that address and size of host memory need for
    /// [`DeviceMemory::of_host`](crate::DeviceMemory::of_host); `None` if the device imports no host memory.
    #[must_use]
    pub fn host_alignment(&self) -> Option<usize> {
        self.vulkan().and_then(Vulkan::host_alignment)
    }

    pub(crate) fn vulkan(&self) -> Option<&Vulkan> {
        self.0.vulkan.as_ref()
    }

    pub(crate) fn wgpu(&self) -> &wgpu::Device {
        &self.0.device
    }

    /// Returns the constants in buffers of wgpu.
    pub(crate) fn constants(&self) -> &ConstantStore<wgpu::Buffer> {
        &self.0.constants
    }

    pub(crate) fn queue(&self) -> &wgpu::Queue {
        &self.0.queue
    }

    /// Fails if the device is lost, or if wgpu has reported an error outside of an error scope. The error is
    /// the first one that was reported, or the loss.
    pub(crate) fn check(&self) -> Result<(), GpuError> {
        let failure = self.0.failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        failure.as_ref().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Returns `result` unchanged. If it is the error of a lost device, also stores the error, so that
    /// [`Device::check`] fails from then on.
    pub(crate) fn noted<T>(&self, result: Result<T, GpuError>) -> Result<T, GpuError> {
        result.inspect_err(|error| {
            if error.kind() == GpuErrorKind::DeviceLost {
                let mut failure = self.0.failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                failure.get_or_insert_with(|| error.clone());
            }
        })
    }

    /// Whether a test injected a fault.
    #[must_use]
    pub fn has_fault(&self) -> bool {
        self.0.fault.is_some()
    }

    /// Returns the fault that a test injected when it opened the device; `None` without one.
    pub(crate) fn fault(&self) -> Option<&Planted> {
        self.0.fault.as_ref()
    }

    /// Runs `work` and returns what it returns, or the error that wgpu reports on this thread in the
    /// meantime.
    pub(crate) fn scoped<T>(&self, work: impl FnOnce() -> T) -> Result<T, GpuError> {
        let filters = [wgpu::ErrorFilter::Validation, wgpu::ErrorFilter::OutOfMemory, wgpu::ErrorFilter::Internal];
        let scopes = filters.map(|filter| self.0.device.push_error_scope(filter));
        let result = work();
        let errors = scopes.into_iter().rev().map(|scope| pollster::block_on(scope.pop()));
        let errors: Vec<wgpu::Error> = errors.collect::<Vec<_>>().into_iter().flatten().collect();
        errors.into_iter().next().map_or(Ok(result), |error| Err(error.into()))
    }

    /// Returns the pipeline of each shader source, from the cache if possible, and the driver's cache if it is kept.
    /// Each source is paired with the number of buffers that its shader binds after its parameters.
    pub(crate) fn pipelines(
        &self,
        sources: &[(&str, usize)],
        code: ShaderCode<'_>,
    ) -> Result<(Vec<Arc<wgpu::ComputePipeline>>, Option<wgpu::PipelineCache>), GpuError> {
        let cache = match code {
            ShaderCode::Compile => None,
            ShaderCode::CompileAndKeep => pipeline_cache::new(&self.0.device, None),
            ShaderCode::Stored(code) => pipeline_cache::new(&self.0.device, Some(&code.pipelines)),
        };
        let make = |source: &str, _| self.scoped(|| self.compile(source, cache.as_ref()));
        Ok((self.0.pipelines.of(sources, COMPILING, make)?, cache))
    }

    /// Returns the lock of a thread that creates pipelines, where threads have to do that in turns.
    fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        // GL has a single context, which threads use in turns. wgpu panics if a thread waits for some seconds; this
        // lock has no timeout.
        let is_gl = self.0.adapter.backend == Backend::Gl;
        is_gl.then(|| self.0.turn.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    fn compile(&self, source: &str, cache: Option<&wgpu::PipelineCache>) -> wgpu::ComputePipeline {
        let _turn = self.turn();
        let module = self.0.device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: None,
            source: wgpu::ShaderSource::Wgsl(source.into()),
        });
        self.0.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions {
                zero_initialize_workgroup_memory: false,
                ..Default::default()
            },
            cache,
        })
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({}, {})", self.0.adapter.name, self.0.adapter.backend)
    }
}

fn describe(adapter: &wgpu::Adapter) -> Adapter {
    let features = adapter.features();
    Adapter {
        shader_f16: features.contains(wgpu::Features::SHADER_F16),
        subgroups: features.contains(wgpu::Features::SUBGROUP),
        subgroup_size: subgroup_size(features, &adapter.get_info()),
        cooperative_matrices: multiplies_matrices(adapter),
        unusable: unusable(adapter),
        ..facts(&adapter.get_info(), &adapter.limits())
    }
}

/// Returns the number of invocations of every subgroup, where shaders can exchange values within one: on Vulkan, whose
/// drivers make subgroups of consecutive invocations.
fn subgroup_size(features: wgpu::Features, info: &wgpu::AdapterInfo) -> Option<u32> {
    let is_there = features.contains(wgpu::Features::SUBGROUP) && Backend::of(info.backend) == Some(Backend::Vulkan);
    (is_there && info.subgroup_min_size == info.subgroup_max_size).then_some(info.subgroup_max_size)
}

/// Whether the adapter supports the cooperative matrices that the kernel variants use: 16×16 matrices of f16
/// with f32 accumulation, in subgroups of 32 invocations, on Vulkan.
fn multiplies_matrices(adapter: &wgpu::Adapter) -> bool {
    use wgpu::CooperativeScalarType::{F16, F32};
    let (info, features) = (adapter.get_info(), adapter.features());
    let is_known = |matrices: &wgpu::CooperativeMatrixProperties| {
        let wgpu::CooperativeMatrixProperties { m_size, n_size, k_size, ab_type, cr_type, .. } = *matrices;
        [m_size, n_size, k_size] == [16; 3] && (ab_type, cr_type) == (F16, F32)
    };
    Backend::of(info.backend) == Some(Backend::Vulkan)
        && features.contains(wgpu::Features::SHADER_F16 | wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX)
        && [info.subgroup_min_size, info.subgroup_max_size] == [32; 2]
        && adapter.cooperative_matrix_properties().iter().any(is_known)
}

fn facts(info: &wgpu::AdapterInfo, limits: &wgpu::Limits) -> Adapter {
    Adapter {
        name: info.name.clone(),
        backend: Backend::of(info.backend).unwrap_or(Backend::Gl),
        driver: format!("{} {}", info.driver, info.driver_info).trim().to_owned(),
        is_software: info.device_type == wgpu::DeviceType::Cpu,
        kind: match info.device_type {
            wgpu::DeviceType::DiscreteGpu => "discrete GPU",
            wgpu::DeviceType::IntegratedGpu => "integrated GPU",
            wgpu::DeviceType::VirtualGpu => "virtual GPU",
            wgpu::DeviceType::Cpu => "software",
            wgpu::DeviceType::Other => "other",
        },
        shader_f16: false,
        subgroups: false,
        subgroup_size: None,
        cooperative_matrices: false,
        max_binding_bytes: limits.max_storage_buffer_binding_size,
        max_storage_buffers: limits.max_storage_buffers_per_shader_stage,
        work_group_bytes: limits.max_compute_workgroup_storage_size,
        unusable: None,
    }
}

/// Returns the reason why shaders cannot run on the adapter; `None` if they can.
fn unusable(adapter: &wgpu::Adapter) -> Option<String> {
    let (info, limits) = (adapter.get_info(), adapter.limits());
    let abilities = Abilities {
        computes: adapter.get_downlevel_capabilities().flags.contains(wgpu::DownlevelFlags::COMPUTE_SHADERS),
        open_gl: (info.backend == wgpu::Backend::Gl).then_some(&info.driver_info),
        storage_buffers: limits.max_storage_buffers_per_shader_stage,
        invocations: limits.max_compute_invocations_per_workgroup.min(limits.max_compute_workgroup_size_x),
        work_group_bytes: limits.max_compute_workgroup_storage_size,
    };
    abilities.lack()
}

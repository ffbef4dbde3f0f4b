//! Devices: which adapters there are, and one of them opened and shared.

mod fault;
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd", windows))]
mod memory;
mod pipelines;
mod submission;
mod usable;
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd", windows))]
pub(crate) mod vulkan;
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd", windows)))]
#[path = "no_vulkan.rs"]
pub(crate) mod vulkan;

use std::fmt;
use std::sync::{Arc, Mutex};

use attache_base::Stopwatch;

use self::pipelines::Pipelines;
use self::usable::Abilities;
use self::vulkan::{Own, Vulkan, experiments, open, validated};
use crate::kernel::{GpuError, GpuErrorKind, Limits, Matrices, Params, Variants};

pub(crate) use fault::Planted;
pub use fault::{Fault, FaultMoment};
pub use submission::Submission;

/// A graphics interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Backend {
    Vulkan,
    Metal,
    Dx12,
    Gl,
}

impl Backend {
    /// Every one.
    pub const ALL: [Backend; 4] = [Backend::Vulkan, Backend::Metal, Backend::Dx12, Backend::Gl];

    /// The name that flags use.
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

/// A device that could be opened.
#[derive(Clone, Debug)]
pub struct Adapter {
    /// The vendor's name for it.
    pub name: String,
    /// Through which interface.
    pub backend: Backend,
    /// The driver's name and version.
    pub driver: String,
    /// Whether it computes on the CPU.
    pub is_software: bool,
    /// What kind of device it is, as `discrete GPU`.
    pub kind: &'static str,
    /// Whether shaders can use binary16.
    pub shader_f16: bool,
    /// Whether shaders can use subgroups.
    pub subgroups: bool,
    /// Whether the invocations of a subgroup, 32 of them, can multiply matrices of 16×16 numbers together: of binary16, with
    /// sums in binary32.
    pub cooperative_matrices: bool,
    /// Bytes that one binding can reach.
    pub max_binding_bytes: u64,
    /// Storage buffers of one shader.
    pub max_storage_buffers: u32,
    /// Bytes of memory of a work group.
    pub work_group_bytes: u32,
    /// Why no shader runs there, so that it can't be opened; `None` where they do.
    pub unusable: Option<String>,
}

/// Which device to open. By default the first hardware device, by preference discrete, else a software one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceOptions {
    /// Only through this interface.
    pub backend: Option<Backend>,
    /// Only an adapter whose name holds this text, whatever its case.
    pub adapter: Option<String>,
    /// Only a hardware device.
    pub hardware_only: bool,
    /// With the graphics interface's own validation layer, whose messages go to the log. For tests.
    pub validation: bool,
    /// Treated as hardware is, though it be software. For tests.
    pub as_hardware: bool,
    /// With no more than every device has: four storage buffers to a shader, and all else as hardware likes it. For tests
    /// on software.
    pub frugal: bool,
    /// Without binary16 as a type of shaders, on a device that has it as well: 16-bit precisions then do as on one that
    /// does not. For tests.
    pub no_shader_f16: bool,
    /// With loops in place of the matrices that it lacks, if its shaders have binary16. For tests.
    pub emulate_matrices: bool,
    /// Replayed without the device's own checks of what shaders reach in buffers, where it can do without: those are for what
    /// none of our shaders does. For measurements.
    pub unchecked_buffers: bool,
    /// With a failure to come. For tests.
    pub fault: Option<Fault>,
}

/// An open device, and what it allows. Cheap to clone; clones share it and its pipelines.
#[derive(Clone)]
pub struct Device(Arc<Inner>, Limits);

/// The first failure that nobody was waiting for: after it, nothing that the device gives can be trusted.
type Failure = Arc<Mutex<Option<GpuError>>>;

struct Inner {
    /// Vulkan's side of a device that was opened here. It goes before the device does.
    vulkan: Option<Vulkan>,
    device: wgpu::Device,
    queue: wgpu::Queue,
    adapter: Adapter,
    pipelines: Pipelines<wgpu::ComputePipeline>,
    /// Whose turn it is to compile, where threads take turns.
    turn: Mutex<()>,
    failure: Failure,
    fault: Option<Planted>,
    open_ms: f64,
}

/// How a device was opened here: nobody else then hands anything to its queue.
#[derive(Default)]
struct Opened {
    own: Own,
    validation: bool,
    as_hardware: bool,
    emulate_matrices: bool,
    fault: Option<Fault>,
    open_ms: f64,
}

impl Device {
    /// Opens a device.
    pub fn open(options: &DeviceOptions) -> Result<Self, GpuError> {
        let start = Stopwatch::start();
        let adapter = choose(options)?;
        let mut described = describe(&adapter);
        described.shader_f16 &= !options.no_shader_f16;
        described.cooperative_matrices &= !options.no_shader_f16 && !options.frugal;
        let mut wanted = wgpu::Features::TIMESTAMP_QUERY;
        wanted.set(wgpu::Features::SHADER_F16, described.shader_f16);
        wanted.set(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX, described.cooperative_matrices);
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("attache"),
            required_features: wanted & adapter.features(),
            required_limits: adapter.limits(),
            experimental_features: experiments(),
            memory_hints: wgpu::MemoryHints::Performance,
            ..Default::default()
        };
        let (device, queue, own) = open(&adapter, &descriptor, options.unchecked_buffers)
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
        let open_ms = start.milliseconds();
        if options.frugal {
            described = Adapter { max_storage_buffers: 4, ..described };
        }
        let DeviceOptions { validation, emulate_matrices, fault, .. } = *options;
        let as_hardware = options.as_hardware || options.frugal;
        let opened = Opened { own, validation, as_hardware, emulate_matrices, fault, open_ms };
        Ok(Self::new(device, queue, described, failure, Some(opened)))
    }

    /// A device that the caller opened. Its errors go where the caller sends them.
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
        let limits = Limits {
            max_bindings,
            params,
            max_binding_bytes,
            work_group_bytes: adapter.work_group_bytes as usize,
            max_invocations: most_invocations as usize,
            // Vectors of four words ask for 16 bytes themselves.
            alignment: (allowed.min_storage_buffer_offset_alignment as usize).max(16),
            shader_f16: adapter.shader_f16,
            matrices,
            shares_sums: !as_software,
            variants: Variants::Cheapest,
        };
        let vulkan = opened
            .as_ref()
            .and_then(|opened| Vulkan::of(&device, &limits, opened.own, (opened.validation, opened.as_hardware)));
        if vulkan.as_ref().is_some_and(Vulkan::is_unchecked) {
            tracing::info!("replayed pipelines do without the device's checks of buffers");
        }
        let Opened { fault, open_ms, .. } = opened.unwrap_or_default();
        let (pipelines, turn, fault) = (Pipelines::default(), Mutex::default(), fault.map(Planted::new));
        Self(Arc::new(Inner { vulkan, device, queue, adapter, pipelines, turn, failure, fault, open_ms }), limits)
    }

    /// What is known about it.
    pub fn adapter(&self) -> &Adapter {
        &self.0.adapter
    }

    /// What it allows shaders.
    pub fn limits(&self) -> &Limits {
        &self.1
    }

    /// The same device, with another choice among the variants of kernels.
    pub fn with_variants(&self, variants: Variants) -> Self {
        Self(self.0.clone(), Limits { variants, ..self.1.clone() })
    }

    /// Milliseconds that opening it took; 0 where the caller opened it.
    pub fn open_ms(&self) -> f64 {
        self.0.open_ms
    }

    /// Whether command buffers can be recorded once for it and replayed.
    pub fn replays(&self) -> bool {
        self.0.vulkan.is_some()
    }

    /// Whether dispatches that get to it this way can be timed.
    pub fn has_timestamps(&self, submission: Submission) -> bool {
        match submission {
            Submission::Replay => self.0.vulkan.as_ref().is_some_and(Vulkan::has_timestamps),
            Submission::Encoder => self.0.device.features().contains(wgpu::Features::TIMESTAMP_QUERY),
        }
    }

    pub(crate) fn vulkan(&self) -> Option<&Vulkan> {
        self.0.vulkan.as_ref()
    }

    pub(crate) fn wgpu(&self) -> &wgpu::Device {
        &self.0.device
    }

    pub(crate) fn queue(&self) -> &wgpu::Queue {
        &self.0.queue
    }

    /// An error if the device ever failed where nobody was waiting for it.
    pub(crate) fn check(&self) -> Result<(), GpuError> {
        let failure = self.0.failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        failure.as_ref().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// The result, remembered where it is the loss of the device: from then on nothing else comes of it.
    pub(crate) fn noted<T>(&self, result: Result<T, GpuError>) -> Result<T, GpuError> {
        result.inspect_err(|error| {
            if error.kind() == GpuErrorKind::DeviceLost {
                let mut failure = self.0.failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                failure.get_or_insert_with(|| error.clone());
            }
        })
    }

    /// The failure to come, where a test asked for one.
    pub(crate) fn fault(&self) -> Option<&Planted> {
        self.0.fault.as_ref()
    }

    /// Does `work`, and takes what the device reports meanwhile on this thread for its failure.
    pub(crate) fn scoped<T>(&self, work: impl FnOnce() -> T) -> Result<T, GpuError> {
        let filters = [wgpu::ErrorFilter::Validation, wgpu::ErrorFilter::OutOfMemory, wgpu::ErrorFilter::Internal];
        let scopes = filters.map(|filter| self.0.device.push_error_scope(filter));
        let result = work();
        let errors = scopes.into_iter().rev().map(|scope| pollster::block_on(scope.pop()));
        let errors: Vec<wgpu::Error> = errors.collect::<Vec<_>>().into_iter().flatten().collect();
        errors.into_iter().next().map_or(Ok(result), |error| Err(error.into()))
    }

    /// The pipeline of each source, which binds so many buffers after its parameters.
    pub(crate) fn pipelines(&self, sources: &[(&str, usize)]) -> Result<Vec<Arc<wgpu::ComputePipeline>>, GpuError> {
        self.0.pipelines.of(sources, |source, _| self.scoped(|| self.compile(source)))
    }

    fn compile(&self, source: &str) -> wgpu::ComputePipeline {
        // GL has one context, for which threads take turns: wgpu panics where one waits for some seconds, here it may.
        let is_gl = self.0.adapter.backend == Backend::Gl;
        let _turn = is_gl.then(|| self.0.turn.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
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
            cache: None,
        })
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({}, {})", self.0.adapter.name, self.0.adapter.backend)
    }
}

/// Every adapter of every interface, those that can't be used with the reason.
pub fn adapters() -> Vec<Adapter> {
    enumerate(wgpu::Backends::all(), false).iter().map(describe).collect()
}

fn enumerate(backends: wgpu::Backends, validation: bool) -> Vec<wgpu::Adapter> {
    let is_vulkan = backends == wgpu::Backends::VULKAN;
    let instance = if validation && is_vulkan { validated() } else { None };
    let instance = instance.unwrap_or_else(|| {
        let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
        descriptor.backends = backends;
        // Never the debug flag, which unoptimised builds have by default.
        descriptor.flags = if validation { wgpu::InstanceFlags::VALIDATION } else { wgpu::InstanceFlags::empty() };
        wgpu::Instance::new(descriptor)
    });
    let adapters = pollster::block_on(instance.enumerate_adapters(backends));
    adapters.into_iter().filter(|adapter| Backend::of(adapter.get_info().backend).is_some()).collect()
}

fn choose(options: &DeviceOptions) -> Result<wgpu::Adapter, GpuError> {
    let backends = options.backend.map_or(wgpu::Backends::all(), Backend::mask);
    let named = |adapter: &wgpu::Adapter| match &options.adapter {
        Some(text) => adapter.get_info().name.to_lowercase().contains(&text.to_lowercase()),
        None => true,
    };
    let allowed = |adapter: &wgpu::Adapter| {
        let software = adapter.get_info().device_type == wgpu::DeviceType::Cpu;
        named(adapter) && !(options.hardware_only && software)
    };
    let rank = |adapter: &wgpu::Adapter| {
        let info = adapter.get_info();
        let kind = match info.device_type {
            wgpu::DeviceType::DiscreteGpu => 0,
            wgpu::DeviceType::IntegratedGpu => 1,
            wgpu::DeviceType::VirtualGpu => 2,
            wgpu::DeviceType::Other => 3,
            wgpu::DeviceType::Cpu => 4,
        };
        (kind, info.backend == wgpu::Backend::Gl)
    };
    let mut refused = Vec::new();
    let usable = |adapter: &wgpu::Adapter| match unusable(adapter) {
        Some(reason) => {
            refused.push((adapter.get_info(), reason));
            false
        }
        None => true,
    };
    let found = enumerate(backends, options.validation).into_iter().filter(allowed).filter(usable).min_by_key(rank);
    found.ok_or_else(|| {
        if let Some((info, reason)) = refused.first() {
            let interface = Backend::of(info.backend).map_or("?", Backend::name);
            let message = format!("\"{}\" can't be used through {interface}: {reason}", info.name);
            return GpuError::new(GpuErrorKind::NoDevice, message);
        }
        let backend = options.backend.map_or("any interface".to_owned(), |backend| backend.to_string());
        let adapter = options.adapter.as_ref().map_or(String::new(), |text| format!(" whose name holds \"{text}\""));
        let remedy = "install a Vulkan driver (on Debian, mesa-vulkan-drivers has a software one)";
        GpuError::new(GpuErrorKind::NoDevice, format!("there is no GPU through {backend}{adapter}; {remedy}"))
    })
}

fn describe(adapter: &wgpu::Adapter) -> Adapter {
    let features = adapter.features();
    Adapter {
        shader_f16: features.contains(wgpu::Features::SHADER_F16),
        subgroups: features.contains(wgpu::Features::SUBGROUP),
        cooperative_matrices: multiplies_matrices(adapter),
        unusable: unusable(adapter),
        ..facts(&adapter.get_info(), &adapter.limits())
    }
}

/// Whether the adapter has the matrices that variants are written for.
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
        cooperative_matrices: false,
        max_binding_bytes: limits.max_storage_buffer_binding_size,
        max_storage_buffers: limits.max_storage_buffers_per_shader_stage,
        work_group_bytes: limits.max_compute_workgroup_storage_size,
        unusable: None,
    }
}

/// Why no shader runs on the adapter; `None` where they do.
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

//! The Vulkan objects of an open device, with which replay records and submits command buffers outside of
//! wgpu.
//!
//! wgpu owns the device. The objects created here are destroyed before it. If the device has a compute-only
//! queue family, replay uses the queues of that family, on which dependent dispatches wait for less time.
//! Otherwise it shares wgpu's queue, and every submission has to take the lock of [`Vulkan::queue`].
#![allow(unsafe_code)]

mod device_buffer;
#[cfg(unix)]
mod handles;
mod pipelines;
mod semaphores;
mod sharing;
mod transfer;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use ash::vk;
use wgpu::naga::back::spv;
use wgpu::naga::proc;

pub(crate) use self::device_buffer::DeviceBuffer;
pub(crate) use self::pipelines::Pipeline;
pub(crate) use self::semaphores::Semaphore;
use self::sharing::Sharing;
pub(crate) use self::transfer::{Ownership, STAGES, USES, WRITES};
use crate::device::MAX_STREAMS;
use crate::device::constants::ConstantStore;
pub(crate) use crate::device::memory::Use;
use crate::device::memory::{Kind, atoms};
use crate::device::pipelines::Pipelines;
use crate::kernel::{DeviceLimits, GpuError, GpuErrorKind, Matrices, Params};

/// The Vulkan objects of an open device: its queues, and the layouts, pipelines and fences created on it.
pub(crate) struct Vulkan {
    pub(crate) raw: Arc<ash::Device>,
    pub(crate) family: u32,
    /// The timestamp counter of the queue family; `None` if the family has no timestamps.
    pub(crate) ticks: Option<Ticks>,
    memory: vk::PhysicalDeviceMemoryProperties,
    /// In memory that is not coherent, the host invalidates ranges of multiples of this many bytes.
    atom: u64,
    /// The queues to which runs are submitted. One-time copies are submitted to the first one.
    queues: Vec<Mutex<vk::Queue>>,
    /// Maximum number of runs of one recording that may execute concurrently.
    streams: usize,
    params: vk::DescriptorType,
    spirv: spv::Options<'static>,
    validation: bool,
    /// Whether pipelines are created without bounds checks of buffer accesses.
    is_unchecked: bool,
    /// Whether the device has fast instructions for dot products of packed bytes.
    multiplies_bytes: bool,
    /// The version of Vulkan and of the driver, and what the driver's caches of pipelines are for.
    versions: (u32, u32, [u8; vk::UUID_SIZE]),
    /// The layouts created so far, by the number of buffers that a shader binds after its parameters.
    layouts: Mutex<HashMap<usize, Layout>>,
    pipelines: Pipelines<Pipeline>,
    pub(crate) constants: ConstantStore<DeviceBuffer>,
    /// Unsignalled fences for later submissions. A driver may need a third of a millisecond to create one.
    fences: Mutex<Vec<vk::Fence>>,
    sharing: Sharing,
    /// Whether memory of the device is memory of the host.
    is_unified: bool,
}

/// The timestamp counter of a queue family.
#[derive(Clone, Copy)]
pub(crate) struct Ticks {
    /// Number of valid bits of the counter, which then wraps around.
    pub(crate) bits: u32,
    /// Nanoseconds per tick.
    pub(crate) nanoseconds: f64,
}

/// The descriptor set layout and the pipeline layout of the shaders that bind a certain number of buffers.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) set: vk::DescriptorSetLayout,
    pub(crate) pipeline: vk::PipelineLayout,
}

/// A memory allocation and a buffer that spans it.
pub(crate) struct Buffer {
    pub(crate) raw: vk::Buffer,
    memory: vk::DeviceMemory,
    /// The address in host memory of the whole allocation; null if the memory is not mapped.
    mapped: *mut u8,
    size: usize,
    allocated: u64,
    is_coherent: bool,
}

// SAFETY: the mapping belongs to this buffer only, and is accessed only through a borrow of it.
unsafe impl Send for Buffer {}

/// Creates a Vulkan instance whose validation layer writes to the log; `None` if Vulkan is not available.
/// wgpu itself enables these messages only together with source language information in shaders, which the
/// validation layers of older distributions do not support.
pub(crate) fn validated() -> Option<wgpu::Instance> {
    use wgpu::hal;
    let descriptor = hal::InstanceDescriptor {
        name: "attache",
        flags: wgpu::InstanceFlags::VALIDATION,
        memory_budget_thresholds: wgpu::MemoryBudgetThresholds::default(),
        backend_options: wgpu::BackendOptions::default(),
        telemetry: None,
        display: None,
    };
    let speaking: Box<hal::vulkan::CreateInstanceCallback<'_>> =
        Box::new(|instance| instance.extensions.push(ash::ext::debug_utils::NAME));
    // SAFETY: no extension is removed, and if the added one is missing, no instance is created.
    let instance = unsafe { hal::vulkan::Instance::init_with_callback(&descriptor, Some(speaking)) }.ok()?;
    // SAFETY: the instance is new, and there is no other owner.
    Some(unsafe { wgpu::Instance::from_hal::<hal::api::Vulkan>(instance) })
}

/// Returns a closure that converts a Vulkan error code to an error. `what` names the object or operation that
/// failed.
pub(crate) fn failed(what: &str) -> impl Fn(vk::Result) -> GpuError + '_ {
    move |result| {
        let kind = match result {
            vk::Result::ERROR_DEVICE_LOST => return GpuError::lost(what),
            vk::Result::ERROR_OUT_OF_DEVICE_MEMORY | vk::Result::ERROR_OUT_OF_HOST_MEMORY => GpuErrorKind::OutOfMemory,
            _ => GpuErrorKind::Failed,
        };
        GpuError::new(kind, format!("{what}: {result}"))
    }
}

/// The queues and features with which a device was opened in addition to those that wgpu requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ComputeQueues {
    queues: Option<Queues>,
    /// Whether the device was opened so that replayed pipelines can do without bounds checks of buffer
    /// accesses.
    is_unchecked: bool,
}

/// The index of a compute-only queue family, and the number of its queues that replay uses.
#[derive(Clone, Copy, Debug)]
struct Queues {
    family: u32,
    count: u32,
    /// Whether the family has further queues.
    has_more: bool,
}

impl ComputeQueues {
    /// Whether the device could have been opened with more queues.
    pub(crate) fn has_more(&self) -> bool {
        self.queues.is_some_and(|queues| queues.has_more)
    }
}

/// The priorities of the queues of a compute-only family.
const PRIORITIES: [f32; MAX_STREAMS] = [1.0; MAX_STREAMS];

/// Opens a device. On Vulkan, adds at most `streams` queues of a compute-only family, if there is one, to the queue that
/// wgpu requests. If `unchecked` is set and the device supports it, replayed pipelines are created without
/// bounds checks of buffer accesses.
pub(crate) fn open(
    adapter: &wgpu::Adapter,
    descriptor: &wgpu::DeviceDescriptor<'_>,
    (streams, unchecked): (usize, bool),
) -> Result<(wgpu::Device, wgpu::Queue, ComputeQueues), String> {
    let Some((opened, own)) = with_own(adapter, descriptor, (streams, unchecked))? else {
        let opened = pollster::block_on(adapter.request_device(descriptor));
        let (device, queue) = opened.map_err(|error| error.to_string())?;
        return Ok((device, queue, ComputeQueues::default()));
    };
    // SAFETY: the device was just opened from this adapter with the descriptor's features and limits.
    let made = unsafe { adapter.create_device_from_hal::<wgpu::hal::api::Vulkan>(opened, descriptor) };
    let (device, queue) = made.map_err(|error| error.to_string())?;
    Ok((device, queue, own))
}

type OpenDevice = wgpu::hal::OpenDevice<wgpu::hal::api::Vulkan>;

fn with_own(
    adapter: &wgpu::Adapter,
    descriptor: &wgpu::DeviceDescriptor<'_>,
    (streams, unchecked): (usize, bool),
) -> Result<Option<(OpenDevice, ComputeQueues)>, String> {
    // SAFETY: no object obtained through the guard is destroyed here.
    let Some(hal) = (unsafe { adapter.as_hal::<wgpu::hal::api::Vulkan>() }) else { return Ok(None) };
    let own = ComputeQueues { queues: queues(&hal, streams), is_unchecked: unchecked && may_be_unchecked(&hal) };
    let shares = sharing::extensions(&hal);
    if own.queues.is_none() && !own.is_unchecked && shares.is_empty() {
        return Ok(None);
    }
    let mut robustness = vk::PhysicalDevicePipelineRobustnessFeaturesEXT::default().pipeline_robustness(true);
    let asked = &mut robustness;
    let more: Box<wgpu::hal::vulkan::CreateDeviceCallback<'_>> = Box::new(move |arguments| {
        if let Some(Queues { family, count, .. }) = own.queues {
            let queues = vk::DeviceQueueCreateInfo::default().queue_family_index(family);
            arguments.queue_create_infos.push(queues.queue_priorities(&PRIORITIES[..count as usize]));
        }
        for name in shares {
            if !arguments.extensions.contains(&name) {
                arguments.extensions.push(name);
            }
        }
        if own.is_unchecked {
            arguments.extensions.push(ash::ext::pipeline_robustness::NAME);
            *arguments.create_info = arguments.create_info.push_next(asked);
        }
    });
    let (features, limits, hints) =
        (descriptor.required_features, &descriptor.required_limits, &descriptor.memory_hints);
    // SAFETY: nothing is removed, the family has this many queues, and the device has the extension and its feature.
    let opened = unsafe { hal.open_with_callback(features, limits, hints, Some(more)) };
    Ok(Some((opened.map_err(|error| error.to_string())?, own)))
}

/// Returns the index of the first compute-only family after family 0, and the number of its queues, at most `streams`;
/// `None` if there is no such family.
fn queues(hal: &wgpu::hal::vulkan::Adapter, streams: usize) -> Option<Queues> {
    let (instance, physical) = (hal.shared_instance().raw_instance(), hal.raw_physical_device());
    // SAFETY: the physical device belongs to the instance.
    let families = unsafe { instance.get_physical_device_queue_family_properties(physical) };
    let only_computes = |family: &vk::QueueFamilyProperties| {
        let flags = family.queue_flags;
        flags.contains(vk::QueueFlags::COMPUTE) && !flags.contains(vk::QueueFlags::GRAPHICS) && family.queue_count > 0
    };
    // wgpu's own queue belongs to family 0.
    let (family, properties) = families.iter().enumerate().skip(1).find(|(_, family)| only_computes(family))?;
    let count = properties.queue_count.min(streams as u32);
    Some(Queues { family: family as u32, count, has_more: count < properties.queue_count.min(MAX_STREAMS as u32) })
}

/// Whether the device supports pipelines without bounds checks of buffer accesses
/// (`VK_EXT_pipeline_robustness`).
fn may_be_unchecked(hal: &wgpu::hal::vulkan::Adapter) -> bool {
    let (instance, physical) = (hal.shared_instance(), hal.raw_physical_device());
    let is_listed = hal.physical_device_capabilities().supports_extension(ash::ext::pipeline_robustness::NAME);
    // SAFETY: the physical device belongs to the instance.
    let properties = unsafe { instance.raw_instance().get_physical_device_properties(physical) };
    if !is_listed || properties.api_version.min(instance.instance_api_version()) < vk::API_VERSION_1_1 {
        return false;
    }
    let mut robustness = vk::PhysicalDevicePipelineRobustnessFeaturesEXT::default();
    let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut robustness);
    // SAFETY: the extension of the chained structure is supported.
    unsafe { instance.raw_instance().get_physical_device_features2(physical, &mut features) };
    robustness.pipeline_robustness == vk::TRUE
}

/// Whether devices of this type use memory of the host.
fn is_unified(device: vk::PhysicalDeviceType) -> bool {
    matches!(device, vk::PhysicalDeviceType::INTEGRATED_GPU | vk::PhysicalDeviceType::CPU)
}

/// Returns wgpu's token that enables experimental features, which cooperative matrices require.
pub(crate) fn experiments() -> wgpu::ExperimentalFeatures {
    // SAFETY: no other experimental feature is requested. Shaders use only matrix sizes and types that the adapter
    // lists, and access matrices within their bindings.
    unsafe { wgpu::ExperimentalFeatures::enabled() }
}

impl Vulkan {
    /// Returns the Vulkan objects of a device that [`open`] opened, which also returned `own`; `None` if the
    /// device uses another graphics API. `validation` tells whether a validation layer is active.
    /// `as_hardware` allows concurrent runs even if there is a single queue, and `own_memory` treats the device's memory as
    /// apart from the host's.
    pub(crate) fn of(
        device: &wgpu::Device,
        limits: &DeviceLimits,
        own: ComputeQueues,
        (validation, as_hardware, own_memory): (bool, bool, bool),
    ) -> Option<Self> {
        // SAFETY: no object obtained through the guard is destroyed here, and all of them are used only while the
        // device exists: `Vulkan` is stored next to the device and dropped before it.
        let hal = unsafe { device.as_hal::<wgpu::hal::api::Vulkan>() }?;
        let instance = hal.shared_instance();
        let (raw, physical) = (hal.raw_device().clone(), hal.raw_physical_device());
        // SAFETY: the physical device belongs to the instance.
        let memory = unsafe { instance.raw_instance().get_physical_device_memory_properties(physical) };
        // SAFETY: as above.
        let properties = unsafe { instance.raw_instance().get_physical_device_properties(physical) };
        let version = properties.api_version.min(instance.instance_api_version());
        let dot_is_there = version >= vk::API_VERSION_1_3
            || hal.enabled_device_extensions().contains(&ash::khr::shader_integer_dot_product::NAME);
        let mut dot = vk::PhysicalDeviceShaderIntegerDotProductFeatures::default();
        if dot_is_there && version >= vk::API_VERSION_1_1 {
            let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut dot);
            // SAFETY: this version or the extension supports the chained structure.
            unsafe { instance.raw_instance().get_physical_device_features2(physical, &mut features) };
        }
        let has_dot = dot.shader_integer_dot_product == vk::TRUE;
        let mut speed = vk::PhysicalDeviceShaderIntegerDotProductProperties::default();
        if has_dot {
            let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut speed);
            // SAFETY: as above.
            unsafe { instance.raw_instance().get_physical_device_properties2(physical, &mut properties) };
        }
        let is_accelerated = speed.integer_dot_product4x8_bit_packed_signed_accelerated == vk::TRUE;
        let family = own.queues.map_or(hal.queue_family_index(), |own| own.family);
        // SAFETY: as above.
        let families = unsafe { instance.raw_instance().get_physical_device_queue_family_properties(physical) };
        let bits = families.get(family as usize).map_or(0, |family| family.timestamp_valid_bits);
        let nanoseconds = properties.limits.timestamp_period.into();
        let queues = match own.queues {
            // SAFETY: the device was opened with this many queues of that family.
            Some(own) => (0..own.count).map(|number| unsafe { raw.get_device_queue(own.family, number) }).collect(),
            None => vec![hal.raw_queue()],
        };
        Some(Self {
            family,
            ticks: (bits > 0).then_some(Ticks { bits, nanoseconds }),
            memory,
            atom: properties.limits.non_coherent_atom_size,
            streams: if as_hardware { MAX_STREAMS } else { queues.len() },
            queues: queues.into_iter().map(Mutex::new).collect(),
            params: match limits.params {
                Params::Text | Params::Uniform => vk::DescriptorType::UNIFORM_BUFFER,
                Params::Storage => vk::DescriptorType::STORAGE_BUFFER,
            },
            spirv: options(version, limits, has_dot),
            validation,
            is_unchecked: own.is_unchecked,
            multiplies_bytes: as_hardware || has_dot && is_accelerated,
            versions: (version, properties.driver_version, properties.pipeline_cache_uuid),
            layouts: Mutex::default(),
            pipelines: Pipelines::default(),
            constants: ConstantStore::default(),
            fences: Mutex::default(),
            sharing: Sharing::of(&hal, version),
            is_unified: !own_memory && is_unified(properties.device_type),
            raw: Arc::new(raw),
        })
    }

    /// Locks the queue with the index `number`, modulo the number of queues. The queue must stay locked while
    /// something is submitted to it.
    pub(crate) fn queue(&self, number: usize) -> MutexGuard<'_, vk::Queue> {
        self.queues[number % self.queues.len()].lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Whether pipelines are created without bounds checks of buffer accesses.
    pub(crate) fn is_unchecked(&self) -> bool {
        self.is_unchecked
    }

    /// Whether memory of the device is memory of the host, as of integrated GPUs and software devices.
    pub(crate) fn is_unified(&self) -> bool {
        self.is_unified
    }

    /// Returns the maximum number of runs of one recording that may execute concurrently.
    pub(crate) fn streams(&self) -> usize {
        self.streams
    }

    /// Returns a text that differs where pipelines or their SPIR-V may differ.
    pub(crate) fn identity(&self) -> String {
        let Self { versions, validation, is_unchecked, multiplies_bytes, params, .. } = self;
        format!("{versions:?} {validation} {is_unchecked} {multiplies_bytes} {params:?}")
    }

    /// Whether the device has fast instructions for dot products of packed bytes.
    pub(crate) fn multiplies_bytes(&self) -> bool {
        self.multiplies_bytes
    }

    /// Whether the queue supports timestamps.
    pub(crate) fn has_timestamps(&self) -> bool {
        self.ticks.is_some()
    }

    /// Returns the type of the descriptor for a shader's parameters: a uniform or a storage buffer.
    pub(crate) fn params(&self) -> vk::DescriptorType {
        self.params
    }

    /// Returns the layouts for shaders that bind this many storage buffers after their parameters. Creates
    /// them at the first request.
    pub(crate) fn layout(&self, buffers: usize) -> Result<Layout, GpuError> {
        let mut layouts = self.layouts.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(layout) = layouts.get(&buffers) {
            return Ok(*layout);
        }
        let bindings: Vec<_> = (0..=buffers as u32)
            .map(|binding| {
                vk::DescriptorSetLayoutBinding::default()
                    .binding(binding)
                    .descriptor_type(if binding == 0 { self.params } else { vk::DescriptorType::STORAGE_BUFFER })
                    .descriptor_count(1)
                    .stage_flags(vk::ShaderStageFlags::COMPUTE)
            })
            .collect();
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        // SAFETY: the device exists, and the structure is complete.
        let set = unsafe { self.raw.create_descriptor_set_layout(&info, None) }.map_err(failed("a set's layout"))?;
        let sets = [set];
        let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets);
        // SAFETY: the set layout was just created.
        let pipeline = match unsafe { self.raw.create_pipeline_layout(&info, None) } {
            Ok(pipeline) => pipeline,
            Err(error) => {
                // SAFETY: the layout is not used anywhere else.
                unsafe { self.raw.destroy_descriptor_set_layout(set, None) };
                return Err(failed("a pipeline's layout")(error));
            }
        };
        Ok(*layouts.entry(buffers).or_insert(Layout { set, pipeline }))
    }

    /// Creates a buffer of `size` bytes with all usages that recordings need, in memory of its own that suits
    /// `purpose`. The memory is mapped unless only the device uses it.
    pub(crate) fn buffer(&self, size: usize, purpose: Use) -> Result<Buffer, GpuError> {
        let info = vk::BufferCreateInfo::default().size(size.max(4) as u64).usage(sharing::usages());
        // SAFETY: the device exists, and the structure is complete.
        let raw = unsafe { self.raw.create_buffer(&info, None) }.map_err(failed("a buffer"))?;
        let (memory, mapped) = (vk::DeviceMemory::null(), std::ptr::null_mut());
        let mut buffer = Buffer { raw, memory, mapped, size, allocated: 0, is_coherent: true };
        match self.back(&mut buffer, purpose) {
            Ok(()) => Ok(buffer),
            Err(error) => {
                // SAFETY: the buffer was never used.
                unsafe { self.free(buffer) };
                Err(error)
            }
        }
    }

    /// Allocates and binds the memory of a buffer, in the preferred memory type that has room, and maps it
    /// unless only the device uses it.
    fn back(&self, buffer: &mut Buffer, purpose: Use) -> Result<(), GpuError> {
        // SAFETY: the buffer exists.
        let needs = unsafe { self.raw.get_buffer_memory_requirements(buffer.raw) };
        let types = &self.memory.memory_types[..self.memory.memory_type_count as usize];
        let mut refusal = vk::Result::ERROR_OUT_OF_DEVICE_MEMORY;
        for Kind { index, is_coherent } in purpose.kinds(types, needs.memory_type_bits) {
            let info = vk::MemoryAllocateInfo::default().allocation_size(needs.size).memory_type_index(index);
            // SAFETY: the index is one of the device's memory types.
            match unsafe { self.raw.allocate_memory(&info, None) } {
                Ok(memory) => {
                    // With a validation layer, memory counts as not coherent, so that the layer checks the invalidation
                    // of ranges.
                    buffer.is_coherent = is_coherent && !self.validation;
                    (buffer.memory, buffer.allocated) = (memory, needs.size);
                    // SAFETY: buffer and memory are new, and match in size and type.
                    unsafe { self.raw.bind_buffer_memory(buffer.raw, memory, 0) }.map_err(failed("memory"))?;
                    if purpose != Use::Device {
                        let whole = vk::WHOLE_SIZE;
                        // SAFETY: the memory is visible to the host and mapped only once.
                        let mapped = unsafe { self.raw.map_memory(memory, 0, whole, vk::MemoryMapFlags::empty()) };
                        buffer.mapped = mapped.map_err(failed("memory"))?.cast();
                    }
                    return Ok(());
                }
                Err(result) => refusal = result,
            }
        }
        Err(failed("memory")(refusal))
    }

    /// Makes the device's writes to a range of a buffer, in bytes, visible to the host. Does nothing for
    /// coherent memory.
    pub(crate) fn invalidate(&self, buffer: &Buffer, range: Range<usize>) -> Result<(), GpuError> {
        if buffer.is_coherent || buffer.mapped.is_null() || range.is_empty() {
            return Ok(());
        }
        let (offset, size) = atoms(range, self.atom, buffer.allocated);
        let range = vk::MappedMemoryRange::default().memory(buffer.memory).offset(offset).size(size);
        // SAFETY: the whole memory is mapped, and the range consists of whole atoms. The host writes nothing there that
        // could be lost.
        unsafe { self.raw.invalidate_mapped_memory_ranges(&[range]) }.map_err(failed("memory"))
    }

    /// Frees a buffer and its memory.
    ///
    /// # Safety
    ///
    /// No pending work of the device uses the buffer.
    pub(crate) unsafe fn free(&self, buffer: Buffer) {
        // SAFETY: the caller's guarantee. Freeing a null handle does nothing.
        unsafe {
            self.raw.destroy_buffer(buffer.raw, None);
            self.raw.free_memory(buffer.memory, None);
        }
    }

    /// Submits a complete command buffer to the first queue and waits until it has executed. After an error,
    /// all queues are idle.
    pub(crate) fn run(&self, commands: vk::CommandBuffer) -> Result<(), GpuError> {
        let fence = self.fence()?;
        let (fences, buffers) = ([fence], [commands]);
        let submit = vk::SubmitInfo::default().command_buffers(&buffers);
        // SAFETY: the queue is locked during the submission, and nothing else signals the fence.
        let submitted = unsafe { self.raw.queue_submit(*self.queue(0), &[submit], fence) };
        // SAFETY: the fence was just submitted.
        let waited = submitted.and_then(|()| unsafe { self.raw.wait_for_fences(&fences, true, u64::MAX) });
        if waited.is_err() {
            self.settle();
        }
        // SAFETY: no pending work signals the fence.
        let kept = unsafe { self.keep(fence) };
        waited.map_err(failed("the queue")).and(kept)
    }

    /// Returns an unsignalled fence for a submission, either one that [`Vulkan::keep`] has kept or a new one.
    pub(crate) fn fence(&self) -> Result<vk::Fence, GpuError> {
        if let Some(fence) = self.fences.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).pop() {
            return Ok(fence);
        }
        // SAFETY: the device exists.
        unsafe { self.raw.create_fence(&vk::FenceCreateInfo::default(), None) }.map_err(failed("a fence"))
    }

    /// Resets a fence and keeps it for later submissions.
    ///
    /// # Safety
    ///
    /// The fence was created by [`Vulkan::fence`], it is not used any more, and no pending work signals it.
    pub(crate) unsafe fn keep(&self, fence: vk::Fence) -> Result<(), GpuError> {
        // SAFETY: the caller's guarantee.
        let reset = unsafe { self.raw.reset_fences(&[fence]) };
        match reset {
            Ok(()) => self.fences.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(fence),
            // SAFETY: the caller's guarantee.
            Err(_) => unsafe { self.raw.destroy_fence(fence, None) },
        }
        reset.map_err(failed("a fence"))
    }

    /// Waits until all queues are idle. Called after an error, before resources that pending work may use are freed.
    pub(crate) fn settle(&self) {
        for number in 0..self.queues.len() {
            let queue = self.queue(number);
            // SAFETY: the queue is locked meanwhile.
            if let Err(error) = unsafe { self.raw.queue_wait_idle(*queue) } {
                tracing::error!(%error, "device");
            }
        }
    }
}

impl Buffer {
    /// Returns a range, in bytes, of the buffer's mapped memory. Empty if the memory is not mapped or the
    /// range is out of bounds.
    ///
    /// # Safety
    ///
    /// The device does not write to the range while it is borrowed.
    pub(crate) unsafe fn bytes(&self, range: Range<usize>) -> &[u8] {
        if self.mapped.is_null() || range.start > range.end || range.end > self.size {
            return &[];
        }
        // SAFETY: the mapping has this many bytes and exists as long as the buffer.
        unsafe { std::slice::from_raw_parts(self.mapped.add(range.start), range.len()) }
    }

    /// Returns a mutable range, in bytes, of the buffer's mapped memory. Empty if the memory is not mapped or
    /// the range is out of bounds.
    ///
    /// # Safety
    ///
    /// The device does not use the range while it is borrowed.
    pub(crate) unsafe fn bytes_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        if self.mapped.is_null() || range.start > range.end || range.end > self.size {
            return &mut [];
        }
        // SAFETY: as for `bytes`; the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.mapped.add(range.start), range.len()) }
    }
}

impl Drop for Vulkan {
    fn drop(&mut self) {
        let layouts = self.layouts.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        let fences = self.fences.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        // SAFETY: recordings own the device and therefore this object, so no recording that uses a layout and no
        // submission is left.
        unsafe {
            fences.iter().for_each(|fence| self.raw.destroy_fence(*fence, None));
            for layout in layouts.values() {
                self.raw.destroy_pipeline_layout(layout.pipeline, None);
                self.raw.destroy_descriptor_set_layout(layout.set, None);
            }
        }
    }
}

/// Returns the options of the SPIR-V writer for a device of this Vulkan version. `dot` tells whether the
/// device supports integer dot products. Bounds checks are not generated, since no shader accesses memory out
/// of bounds.
fn options(version: u32, limits: &DeviceLimits, dot: bool) -> spv::Options<'static> {
    use spv::Capability as C;
    let mut capabilities = vec![C::Shader, C::Matrix];
    if limits.shader_f16 {
        capabilities.push(C::Float16);
    }
    if limits.matrices == Matrices::Cooperative {
        capabilities.extend([C::CooperativeMatrixKHR, C::VulkanMemoryModel]);
    }
    if limits.subgroup.is_some() {
        capabilities.extend([C::GroupNonUniform, C::GroupNonUniformShuffle]);
    }
    if dot {
        capabilities.extend([
            C::DotProductInputAllKHR,
            C::DotProductInput4x8BitKHR,
            C::DotProductInput4x8BitPackedKHR,
            C::DotProductKHR,
        ]);
    }
    spv::Options {
        lang_version: match version {
            vk::API_VERSION_1_3.. => (1, 6),
            vk::API_VERSION_1_2.. => (1, 5),
            vk::API_VERSION_1_1.. => (1, 3),
            _ => (1, 0),
        },
        flags: spv::WriterFlags::empty(),
        capabilities: Some(capabilities.into_iter().collect()),
        bounds_check_policies: proc::BoundsCheckPolicies::default(),
        zero_initialize_workgroup_memory: spv::ZeroInitializeWorkgroupMemoryMode::None,
        force_loop_bounding: false,
        use_storage_input_output_16: false,
        emit_int_div_checks: true,
        ..spv::Options::default()
    }
}

//! An open device in Vulkan's own terms, for command buffers that wgpu knows nothing of.
//!
//! wgpu keeps owning the device; what is made here lies beside its own objects and is gone before the device is. The queue
//! is one that only computes, where the device has such: what waits for another dispatch waits less long there. Else it is
//! shared with wgpu: whoever hands it anything holds [`Vulkan::queue`]'s lock.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use ash::vk;
use wgpu::naga::back::spv;
use wgpu::naga::{front, proc, valid};

pub(crate) use crate::device::memory::Use;
use crate::device::memory::{Kind, atoms};
use crate::device::pipelines::Pipelines;
use crate::kernel::{GpuError, GpuErrorKind, Limits, Matrices, Params};
use crate::wgsl::traceable::traceable;

/// Vulkan's side of an open device.
pub(crate) struct Vulkan {
    pub(crate) raw: Arc<ash::Device>,
    pub(crate) family: u32,
    /// How the queue counts time; `None` where it doesn't.
    pub(crate) ticks: Option<Ticks>,
    memory: vk::PhysicalDeviceMemoryProperties,
    /// Bytes in which the host asks for memory that isn't coherent.
    atom: u64,
    /// The queues; the first also does what is done once.
    queues: Vec<Mutex<vk::Queue>>,
    /// How many runs may go on beside each other.
    lanes: usize,
    params: vk::DescriptorType,
    spirv: spv::Options<'static>,
    validation: bool,
    /// Whether pipelines do without the device's checks of what they reach in buffers.
    is_unchecked: bool,
    /// By how many buffers a shader binds after its parameters.
    layouts: Mutex<HashMap<usize, Layout>>,
    pipelines: Pipelines<Pipeline>,
    /// Fences that nothing signals, for submissions to come: a driver may take a third of a millisecond to make one.
    fences: Mutex<Vec<vk::Fence>>,
}

/// A counter of time.
#[derive(Clone, Copy)]
pub(crate) struct Ticks {
    /// Bits after which it starts again.
    pub(crate) bits: u32,
    pub(crate) nanoseconds: f64,
}

/// How a shader's bindings lie.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) set: vk::DescriptorSetLayout,
    pub(crate) pipeline: vk::PipelineLayout,
}

/// A shader's pipeline.
pub(crate) struct Pipeline {
    pub(crate) raw: vk::Pipeline,
    device: Arc<ash::Device>,
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        // SAFETY: recordings hold the pipelines that their runs use until those have ended, and the device for longer; the
        // others are kept by `Vulkan`, which goes before the device.
        unsafe { self.device.destroy_pipeline(self.raw, None) };
    }
}

/// Memory with a buffer over all of it.
pub(crate) struct Buffer {
    pub(crate) raw: vk::Buffer,
    memory: vk::DeviceMemory,
    /// Where the host sees it; null where it doesn't.
    mapped: *mut u8,
    size: usize,
    allocated: u64,
    is_coherent: bool,
}

// SAFETY: the mapping belongs to the buffer alone, and is only reached through a borrow of it.
unsafe impl Send for Buffer {}

/// An instance whose validation layer speaks to the log; `None` where there is no Vulkan. wgpu lets it speak only together
/// with making shaders name their source language, which the layers of older distributions don't know.
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
    // SAFETY: nothing is taken away, and where the extension is missing there is no instance.
    let instance = unsafe { hal::vulkan::Instance::init_with_callback(&descriptor, Some(speaking)) }.ok()?;
    // SAFETY: the instance is new, and nobody else has it.
    Some(unsafe { wgpu::Instance::from_hal::<hal::api::Vulkan>(instance) })
}

/// The error that Vulkan's result stands for.
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

/// What a device was opened with beside what wgpu asks for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Own {
    queues: Option<Queues>,
    /// Whether pipelines may do without the device's checks of what they reach in buffers.
    is_unchecked: bool,
}

/// Queues of a family that computes and draws nothing, for replay alone.
#[derive(Clone, Copy, Debug)]
struct Queues {
    family: u32,
    count: u32,
}

/// Runs that go on beside each other, at most. Most dispatches leave much of a large device idle.
const MAX_LANES: usize = 4;

/// The priorities of as many queues.
const PRIORITIES: [f32; MAX_LANES] = [1.0; MAX_LANES];

/// Opens a device, through Vulkan with a queue of our own beside wgpu's where there is a family for it. Where it is to be
/// `unchecked` and can be, replayed pipelines do without checks of what they reach in buffers.
pub(crate) fn open(
    adapter: &wgpu::Adapter,
    descriptor: &wgpu::DeviceDescriptor<'_>,
    unchecked: bool,
) -> Result<(wgpu::Device, wgpu::Queue, Own), String> {
    let Some((opened, own)) = with_own(adapter, descriptor, unchecked)? else {
        let opened = pollster::block_on(adapter.request_device(descriptor));
        let (device, queue) = opened.map_err(|error| error.to_string())?;
        return Ok((device, queue, Own::default()));
    };
    // SAFETY: the device was just opened with the descriptor's features and limits, from this adapter.
    let made = unsafe { adapter.create_device_from_hal::<wgpu::hal::api::Vulkan>(opened, descriptor) };
    let (device, queue) = made.map_err(|error| error.to_string())?;
    Ok((device, queue, own))
}

type OpenDevice = wgpu::hal::OpenDevice<wgpu::hal::api::Vulkan>;

fn with_own(
    adapter: &wgpu::Adapter,
    descriptor: &wgpu::DeviceDescriptor<'_>,
    unchecked: bool,
) -> Result<Option<(OpenDevice, Own)>, String> {
    // SAFETY: nothing that the guard gives is destroyed here.
    let Some(hal) = (unsafe { adapter.as_hal::<wgpu::hal::api::Vulkan>() }) else { return Ok(None) };
    let own = Own { queues: queues(&hal), is_unchecked: unchecked && may_be_unchecked(&hal) };
    if own.queues.is_none() && !own.is_unchecked {
        return Ok(None);
    }
    let mut robustness = vk::PhysicalDevicePipelineRobustnessFeaturesEXT::default().pipeline_robustness(true);
    let asked = &mut robustness;
    let more: Box<wgpu::hal::vulkan::CreateDeviceCallback<'_>> = Box::new(move |arguments| {
        if let Some(Queues { family, count }) = own.queues {
            let queues = vk::DeviceQueueCreateInfo::default().queue_family_index(family);
            arguments.queue_create_infos.push(queues.queue_priorities(&PRIORITIES[..count as usize]));
        }
        if own.is_unchecked {
            arguments.extensions.push(ash::ext::pipeline_robustness::NAME);
            *arguments.create_info = arguments.create_info.push_next(asked);
        }
    });
    let (features, limits, hints) =
        (descriptor.required_features, &descriptor.required_limits, &descriptor.memory_hints);
    // SAFETY: nothing is taken away, the family has as many queues, and the device has the extension and its feature.
    let opened = unsafe { hal.open_with_callback(features, limits, hints, Some(more)) };
    Ok(Some((opened.map_err(|error| error.to_string())?, own)))
}

/// The queues of the first family that only computes, where the device has such.
fn queues(hal: &wgpu::hal::vulkan::Adapter) -> Option<Queues> {
    let (instance, physical) = (hal.shared_instance().raw_instance(), hal.raw_physical_device());
    // SAFETY: the physical device is the instance's own.
    let families = unsafe { instance.get_physical_device_queue_family_properties(physical) };
    let only_computes = |family: &vk::QueueFamilyProperties| {
        let flags = family.queue_flags;
        flags.contains(vk::QueueFlags::COMPUTE) && !flags.contains(vk::QueueFlags::GRAPHICS) && family.queue_count > 0
    };
    // wgpu's own queue is of the first family.
    let (family, properties) = families.iter().enumerate().skip(1).find(|(_, family)| only_computes(family))?;
    Some(Queues { family: family as u32, count: properties.queue_count.min(MAX_LANES as u32) })
}

/// Whether pipelines of the device can be told to do without checks of what they reach in buffers.
fn may_be_unchecked(hal: &wgpu::hal::vulkan::Adapter) -> bool {
    let (instance, physical) = (hal.shared_instance(), hal.raw_physical_device());
    let is_listed = hal.physical_device_capabilities().supports_extension(ash::ext::pipeline_robustness::NAME);
    // SAFETY: the physical device is the instance's own.
    let properties = unsafe { instance.raw_instance().get_physical_device_properties(physical) };
    if !is_listed || properties.api_version.min(instance.instance_api_version()) < vk::API_VERSION_1_1 {
        return false;
    }
    let mut robustness = vk::PhysicalDevicePipelineRobustnessFeaturesEXT::default();
    let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut robustness);
    // SAFETY: the structure is one that the extension knows.
    unsafe { instance.raw_instance().get_physical_device_features2(physical, &mut features) };
    robustness.pipeline_robustness == vk::TRUE
}

/// The leave that wgpu asks for before shaders may use cooperative matrices.
pub(crate) fn experiments() -> wgpu::ExperimentalFeatures {
    // SAFETY: no other experiment is asked for; shaders use matrices only of the sizes and types that the adapter lists, and
    // read and write them within their bindings.
    unsafe { wgpu::ExperimentalFeatures::enabled() }
}

impl Vulkan {
    /// That of a device that wgpu opened through Vulkan, with a queue of our own or without; `None` for one of another
    /// interface. `validation` says whether a validation layer looks on, `as_hardware` whether runs go on beside each other
    /// though there be one queue.
    pub(crate) fn of(
        device: &wgpu::Device,
        limits: &Limits,
        own: Own,
        (validation, as_hardware): (bool, bool),
    ) -> Option<Self> {
        // SAFETY: nothing that the guard gives is destroyed here, and all of it is used while the device lives: `Vulkan`
        // lies beside the device and is dropped before it.
        let hal = unsafe { device.as_hal::<wgpu::hal::api::Vulkan>() }?;
        let instance = hal.shared_instance();
        let (raw, physical) = (hal.raw_device().clone(), hal.raw_physical_device());
        // SAFETY: the physical device is the instance's own.
        let memory = unsafe { instance.raw_instance().get_physical_device_memory_properties(physical) };
        // SAFETY: as above.
        let properties = unsafe { instance.raw_instance().get_physical_device_properties(physical) };
        let version = properties.api_version.min(instance.instance_api_version());
        let dot_is_there = version >= vk::API_VERSION_1_3
            || hal.enabled_device_extensions().contains(&ash::khr::shader_integer_dot_product::NAME);
        let mut dot = vk::PhysicalDeviceShaderIntegerDotProductFeatures::default();
        if dot_is_there && version >= vk::API_VERSION_1_1 {
            let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut dot);
            // SAFETY: the structure is one that this version, or the extension, knows.
            unsafe { instance.raw_instance().get_physical_device_features2(physical, &mut features) };
        }
        let family = own.queues.map_or(hal.queue_family_index(), |own| own.family);
        // SAFETY: as above.
        let families = unsafe { instance.raw_instance().get_physical_device_queue_family_properties(physical) };
        let bits = families.get(family as usize).map_or(0, |family| family.timestamp_valid_bits);
        let nanoseconds = properties.limits.timestamp_period.into();
        let queues = match own.queues {
            // SAFETY: the device was opened with as many queues of that family.
            Some(own) => (0..own.count).map(|number| unsafe { raw.get_device_queue(own.family, number) }).collect(),
            None => vec![hal.raw_queue()],
        };
        Some(Self {
            family,
            ticks: (bits > 0).then_some(Ticks { bits, nanoseconds }),
            memory,
            atom: properties.limits.non_coherent_atom_size,
            lanes: if as_hardware { MAX_LANES } else { queues.len() },
            queues: queues.into_iter().map(Mutex::new).collect(),
            params: match limits.params {
                Params::Text | Params::Uniform => vk::DescriptorType::UNIFORM_BUFFER,
                Params::Storage => vk::DescriptorType::STORAGE_BUFFER,
            },
            spirv: options(version, limits, dot.shader_integer_dot_product == vk::TRUE),
            validation,
            is_unchecked: own.is_unchecked,
            layouts: Mutex::default(),
            pipelines: Pipelines::default(),
            fences: Mutex::default(),
            raw: Arc::new(raw),
        })
    }

    /// The queue of that number, counted around, for as long as nobody else may use it.
    pub(crate) fn queue(&self, number: usize) -> MutexGuard<'_, vk::Queue> {
        self.queues[number % self.queues.len()].lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Whether pipelines do without the device's checks of what they reach in buffers.
    pub(crate) fn is_unchecked(&self) -> bool {
        self.is_unchecked
    }

    /// How many runs may go on beside each other.
    pub(crate) fn lanes(&self) -> usize {
        self.lanes
    }

    /// Whether the queue counts time.
    pub(crate) fn has_timestamps(&self) -> bool {
        self.ticks.is_some()
    }

    /// The type of the parameters' descriptor.
    pub(crate) fn params(&self) -> vk::DescriptorType {
        self.params
    }

    /// The layout of shaders that bind so many buffers after their parameters.
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
        // SAFETY: the device lives, and the structure is whole.
        let set = unsafe { self.raw.create_descriptor_set_layout(&info, None) }.map_err(failed("a set's layout"))?;
        let sets = [set];
        let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets);
        // SAFETY: the set's layout was just made.
        let pipeline = match unsafe { self.raw.create_pipeline_layout(&info, None) } {
            Ok(pipeline) => pipeline,
            Err(error) => {
                // SAFETY: nobody else has seen the layout.
                unsafe { self.raw.destroy_descriptor_set_layout(set, None) };
                return Err(failed("a pipeline's layout")(error));
            }
        };
        Ok(*layouts.entry(buffers).or_insert(Layout { set, pipeline }))
    }

    /// The pipeline of each shader's text, which binds so many buffers after its parameters.
    pub(crate) fn pipelines(&self, sources: &[(&str, usize)]) -> Result<Vec<Arc<Pipeline>>, GpuError> {
        self.pipelines.of(sources, |source, buffers| self.compile(source, buffers))
    }

    fn compile(&self, source: &str, buffers: usize) -> Result<Pipeline, GpuError> {
        let layout = self.layout(buffers)?;
        let words = self.words(source).map_err(|error| GpuError::new(GpuErrorKind::Failed, error))?;
        let info = vk::ShaderModuleCreateInfo::default().code(&words);
        // SAFETY: the words are a module that naga validated.
        let module = unsafe { self.raw.create_shader_module(&info, None) }.map_err(failed("a shader"))?;
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main");
        let none = vk::PipelineRobustnessBufferBehaviorEXT::DISABLED;
        let mut unchecked = vk::PipelineRobustnessCreateInfoEXT::default().storage_buffers(none).uniform_buffers(none);
        let info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout.pipeline);
        let info = if self.is_unchecked { info.push_next(&mut unchecked) } else { info };
        // SAFETY: module and layout live; the layout has every binding that shaders of this many buffers name.
        let made = unsafe { self.raw.create_compute_pipelines(vk::PipelineCache::null(), &[info], None) };
        // SAFETY: pipelines don't need their modules any more.
        unsafe { self.raw.destroy_shader_module(module, None) };
        let pipelines = made.map_err(|(_, result)| failed("a pipeline")(result))?;
        Ok(Pipeline { raw: pipelines[0], device: self.raw.clone() })
    }

    /// SPIR-V of a shader's text.
    fn words(&self, source: &str) -> Result<Vec<u32>, String> {
        let traceable = if self.validation { Some(traceable(source)) } else { None };
        let source = traceable.as_deref().unwrap_or(source);
        let module = front::wgsl::parse_str(source).map_err(|error| error.emit_to_string(source))?;
        let mut validator = valid::Validator::new(valid::ValidationFlags::all(), valid::Capabilities::all());
        let info = validator.validate(&module).map_err(|error| error.emit_to_string(source))?;
        spv::write_vec(&module, &info, &self.spirv, None).map_err(|error| error.to_string())
    }

    /// A buffer of so many bytes, for everything that recordings do with buffers.
    pub(crate) fn buffer(&self, size: usize, purpose: Use) -> Result<Buffer, GpuError> {
        use vk::BufferUsageFlags as Flags;
        let all = Flags::STORAGE_BUFFER | Flags::UNIFORM_BUFFER | Flags::TRANSFER_SRC | Flags::TRANSFER_DST;
        let info = vk::BufferCreateInfo::default().size(size.max(4) as u64).usage(all);
        // SAFETY: the device lives, and the structure is whole.
        let raw = unsafe { self.raw.create_buffer(&info, None) }.map_err(failed("a buffer"))?;
        let (memory, mapped) = (vk::DeviceMemory::null(), std::ptr::null_mut());
        let mut buffer = Buffer { raw, memory, mapped, size, allocated: 0, is_coherent: true };
        match self.back(&mut buffer, purpose) {
            Ok(()) => Ok(buffer),
            Err(error) => {
                // SAFETY: nobody has seen the buffer.
                unsafe { self.free(buffer) };
                Err(error)
            }
        }
    }

    /// Gives a buffer its memory, of the best kind that has room.
    fn back(&self, buffer: &mut Buffer, purpose: Use) -> Result<(), GpuError> {
        // SAFETY: the buffer lives.
        let needs = unsafe { self.raw.get_buffer_memory_requirements(buffer.raw) };
        let types = &self.memory.memory_types[..self.memory.memory_type_count as usize];
        let mut refusal = vk::Result::ERROR_OUT_OF_DEVICE_MEMORY;
        for Kind { index, is_coherent } in purpose.kinds(types, needs.memory_type_bits) {
            let info = vk::MemoryAllocateInfo::default().allocation_size(needs.size).memory_type_index(index);
            // SAFETY: the index is one of the device's.
            match unsafe { self.raw.allocate_memory(&info, None) } {
                Ok(memory) => {
                    // The validation layer, where it is there, is shown how memory that isn't coherent is read.
                    buffer.is_coherent = is_coherent && !self.validation;
                    (buffer.memory, buffer.allocated) = (memory, needs.size);
                    // SAFETY: buffer and memory are new, and fit each other.
                    unsafe { self.raw.bind_buffer_memory(buffer.raw, memory, 0) }.map_err(failed("memory"))?;
                    if purpose != Use::Device {
                        let whole = vk::WHOLE_SIZE;
                        // SAFETY: the memory is visible to the host and mapped once.
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

    /// Lets the host see what the device wrote to a range of a buffer, where it doesn't by itself.
    pub(crate) fn invalidate(&self, buffer: &Buffer, range: Range<usize>) -> Result<(), GpuError> {
        if buffer.is_coherent || buffer.mapped.is_null() || range.is_empty() {
            return Ok(());
        }
        let (offset, size) = atoms(range, self.atom, buffer.allocated);
        let range = vk::MappedMemoryRange::default().memory(buffer.memory).offset(offset).size(size);
        // SAFETY: the memory is mapped as a whole, and the range is of whole atoms of it. The host writes nothing there that
        // could be lost.
        unsafe { self.raw.invalidate_mapped_memory_ranges(&[range]) }.map_err(failed("memory"))
    }

    /// Frees a buffer.
    ///
    /// # Safety
    ///
    /// Nothing that the device still does uses the buffer.
    pub(crate) unsafe fn free(&self, buffer: Buffer) {
        // SAFETY: the caller's promise; freeing what is null does nothing.
        unsafe {
            self.raw.destroy_buffer(buffer.raw, None);
            self.raw.free_memory(buffer.memory, None);
        }
    }

    /// Runs a whole command buffer once and waits for it. After an error the device does nothing any more.
    pub(crate) fn run(&self, commands: vk::CommandBuffer) -> Result<(), GpuError> {
        let fence = self.fence()?;
        let (fences, buffers) = ([fence], [commands]);
        let submit = vk::SubmitInfo::default().command_buffers(&buffers);
        // SAFETY: the queue is nobody else's for as long as its lock is held; nothing else signals the fence.
        let submitted = unsafe { self.raw.queue_submit(*self.queue(0), &[submit], fence) };
        // SAFETY: the fence was just handed over.
        let waited = submitted.and_then(|()| unsafe { self.raw.wait_for_fences(&fences, true, u64::MAX) });
        if waited.is_err() {
            self.settle();
        }
        // SAFETY: nothing under way signals the fence any more.
        let kept = unsafe { self.keep(fence) };
        waited.map_err(failed("the queue")).and(kept)
    }

    /// A fence for a submission.
    pub(crate) fn fence(&self) -> Result<vk::Fence, GpuError> {
        if let Some(fence) = self.fences.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).pop() {
            return Ok(fence);
        }
        // SAFETY: the device lives.
        unsafe { self.raw.create_fence(&vk::FenceCreateInfo::default(), None) }.map_err(failed("a fence"))
    }

    /// Keeps a fence for other submissions.
    ///
    /// # Safety
    ///
    /// It is one of [`Vulkan::fence`]'s, nobody uses it any more, and nothing under way signals it.
    pub(crate) unsafe fn keep(&self, fence: vk::Fence) -> Result<(), GpuError> {
        // SAFETY: the caller's promise.
        let reset = unsafe { self.raw.reset_fences(&[fence]) };
        match reset {
            Ok(()) => self.fences.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(fence),
            // SAFETY: the caller's promise.
            Err(_) => unsafe { self.raw.destroy_fence(fence, None) },
        }
        reset.map_err(failed("a fence"))
    }

    /// Waits until the queues have nothing to do: after an error, before what they may use is freed.
    pub(crate) fn settle(&self) {
        for number in 0..self.queues.len() {
            let queue = self.queue(number);
            // SAFETY: the queue is nobody else's meanwhile.
            if let Err(error) = unsafe { self.raw.queue_wait_idle(*queue) } {
                tracing::error!(%error, "device");
            }
        }
    }
}

impl Buffer {
    /// A range of the bytes as the host sees them; none where it doesn't.
    ///
    /// # Safety
    ///
    /// The device writes none of them meanwhile.
    pub(crate) unsafe fn bytes(&self, range: Range<usize>) -> &[u8] {
        if self.mapped.is_null() || range.start > range.end || range.end > self.size {
            return &[];
        }
        // SAFETY: the mapping has that many bytes and lives as long as the buffer.
        unsafe { std::slice::from_raw_parts(self.mapped.add(range.start), range.len()) }
    }

    /// A range of the bytes, to write.
    ///
    /// # Safety
    ///
    /// The device uses none of them meanwhile.
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
        // SAFETY: recordings hold the device, and so this: none is left that would use a layout, nor a submission.
        unsafe {
            fences.iter().for_each(|fence| self.raw.destroy_fence(*fence, None));
            for layout in layouts.values() {
                self.raw.destroy_pipeline_layout(layout.pipeline, None);
                self.raw.destroy_descriptor_set_layout(layout.set, None);
            }
        }
    }
}

/// How SPIR-V is written: without checks of bounds, which every shader keeps by itself.
fn options(version: u32, limits: &Limits, dot: bool) -> spv::Options<'static> {
    use spv::Capability as C;
    let mut capabilities = vec![C::Shader, C::Matrix];
    if limits.shader_f16 {
        capabilities.push(C::Float16);
    }
    if limits.matrices == Matrices::Cooperative {
        capabilities.extend([C::CooperativeMatrixKHR, C::VulkanMemoryModel]);
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

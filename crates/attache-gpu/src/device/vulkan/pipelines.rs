//! Pipelines of raw Vulkan: shaders become SPIR-V, and the driver makes pipelines of them, from its cache if it has made
//! them before.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ash::vk;
use wgpu::naga::back::spv;
use wgpu::naga::{front, valid};

use super::{Vulkan, failed};
use crate::device::pipelines::COMPILING;
use crate::device::{DeviceCode, ShaderCode};
use crate::kernel::{GpuError, GpuErrorKind};
use crate::plan::Plan;
use crate::wgsl::traceable::traceable;

/// Maximum threads that create pipelines from what is stored of them. The driver does most of that in one thread at a time.
const RESTORING: usize = 4;

/// The compute pipeline of a shader. Dropping it destroys the Vulkan object.
pub(crate) struct Pipeline {
    pub(crate) raw: vk::Pipeline,
    device: Arc<ash::Device>,
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        // SAFETY: recordings own the pipelines of their runs until those have ended, and the device for longer. All
        // other pipelines are owned by `Vulkan`, which is dropped before the device.
        unsafe { self.device.destroy_pipeline(self.raw, None) };
    }
}

/// A cache of the driver, from which it makes pipelines that it has made before.
struct PipelineCache<'a> {
    device: &'a ash::Device,
    raw: vk::PipelineCache,
}

impl<'a> PipelineCache<'a> {
    /// Creates a cache with the data of another one, or an empty one. Drivers ignore data of other drivers.
    fn new(device: &'a ash::Device, data: &[u8]) -> Result<Self, GpuError> {
        let info = vk::PipelineCacheCreateInfo::default().initial_data(data);
        // SAFETY: the device exists, and the data is empty or what a driver returned.
        let raw = unsafe { device.create_pipeline_cache(&info, None) };
        Ok(Self { device, raw: raw.map_err(failed("a cache of pipelines"))? })
    }

    /// Returns the content of the cache.
    fn data(&self) -> Result<Vec<u8>, GpuError> {
        // SAFETY: the cache belongs to the device.
        unsafe { self.device.get_pipeline_cache_data(self.raw) }.map_err(failed("a cache of pipelines"))
    }
}

impl Drop for PipelineCache<'_> {
    fn drop(&mut self) {
        // SAFETY: no pipeline is being made through the cache any more.
        unsafe { self.device.destroy_pipeline_cache(self.raw, None) };
    }
}

impl Vulkan {
    /// Returns the pipeline of each of [`Plan::all_dispatches`], from those that exist if possible, and what is kept of the code.
    pub(crate) fn pipelines(
        &self,
        plan: &Plan,
        code: ShaderCode<'_>,
    ) -> Result<(Vec<Arc<Pipeline>>, DeviceCode), GpuError> {
        let sources = plan.sources();
        match code {
            ShaderCode::Compile => {
                let null = vk::PipelineCache::null();
                let make = |source: &str, buffers| self.pipeline(&self.words(source)?, buffers, null);
                Ok((self.pipelines.of(&sources, COMPILING, make)?, DeviceCode::default()))
            }
            ShaderCode::CompileAndKeep => self.kept_pipelines(plan, &sources),
            ShaderCode::Stored(stored) => {
                let cache = PipelineCache::new(&self.raw, &stored.pipelines)?;
                let texts = plan.shaders.iter().map(String::as_str);
                let words: HashMap<&str, &Vec<u32>> = texts.zip(&stored.shaders).collect();
                let make = |source: &str, buffers| match words.get(source) {
                    Some(words) if bindings(words).is_none_or(|last| last as usize > buffers) => Err(GpuError::new(
                        GpuErrorKind::Failed,
                        "a stored shader binds other buffers than its dispatch",
                    )),
                    Some(words) => self.pipeline(words, buffers, cache.raw),
                    None => self.pipeline(&self.words(source)?, buffers, cache.raw),
                };
                Ok((self.pipelines.of(&sources, RESTORING, make)?, DeviceCode::default()))
            }
        }
    }

    /// Returns the pipeline of each dispatch of a plan, and the code of all of its shaders.
    fn kept_pipelines(
        &self,
        plan: &Plan,
        sources: &[(&str, usize)],
    ) -> Result<(Vec<Arc<Pipeline>>, DeviceCode), GpuError> {
        let cache = PipelineCache::new(&self.raw, &[])?;
        let kept: Mutex<HashMap<String, Vec<u32>>> = Mutex::default();
        let make = |source: &str, buffers: usize| {
            let words = self.words(source)?;
            let pipeline = self.pipeline(&words, buffers, cache.raw)?;
            kept.lock().unwrap_or_else(PoisonError::into_inner).insert(source.to_owned(), words);
            Ok(pipeline)
        };
        let pipelines = self.pipelines.of(sources, COMPILING, make)?;
        // The driver's cache lacks the pipelines that another plan made, so they are made once more.
        for (source, buffers) in sources {
            let is_kept = kept.lock().unwrap_or_else(PoisonError::into_inner).contains_key(*source);
            if !is_kept {
                make(source, *buffers)?;
            }
        }
        let mut kept = kept.into_inner().unwrap_or_else(PoisonError::into_inner);
        let shaders = plan.shaders.iter().map(|source| kept.remove(source).unwrap_or_default()).collect();
        Ok((pipelines, DeviceCode { shaders, pipelines: cache.data()? }))
    }

    /// Creates the pipeline of a shader, given as SPIR-V words, through a cache of the driver.
    fn pipeline(&self, words: &[u32], buffers: usize, cache: vk::PipelineCache) -> Result<Pipeline, GpuError> {
        let layout = self.layout(buffers)?;
        let info = vk::ShaderModuleCreateInfo::default().code(words);
        // SAFETY: the words are a module that naga validated, here or before they were stored.
        let module = unsafe { self.raw.create_shader_module(&info, None) }.map_err(failed("a shader"))?;
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main");
        let none = vk::PipelineRobustnessBufferBehaviorEXT::DISABLED;
        let mut unchecked = vk::PipelineRobustnessCreateInfoEXT::default().storage_buffers(none).uniform_buffers(none);
        let info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout.pipeline);
        let info = if self.is_unchecked { info.push_next(&mut unchecked) } else { info };
        // SAFETY: module and layout exist, and the layout has every binding of shaders with this many buffers.
        let made = unsafe { self.raw.create_compute_pipelines(cache, &[info], None) };
        // SAFETY: pipelines do not need their modules after creation.
        unsafe { self.raw.destroy_shader_module(module, None) };
        let pipelines = made.map_err(|(_, result)| failed("a pipeline")(result))?;
        Ok(Pipeline { raw: pipelines[0], device: self.raw.clone() })
    }

    /// Compiles a shader from WGSL to SPIR-V words.
    fn words(&self, source: &str) -> Result<Vec<u32>, GpuError> {
        let failed = |error: String| GpuError::new(GpuErrorKind::Failed, error);
        let traceable = if self.validation { Some(traceable(source)) } else { None };
        let source = traceable.as_deref().unwrap_or(source);
        let module = front::wgsl::parse_str(source).map_err(|error| failed(error.emit_to_string(source)))?;
        let mut validator = valid::Validator::new(valid::ValidationFlags::all(), valid::Capabilities::all());
        let info = validator.validate(&module).map_err(|error| failed(error.emit_to_string(source)))?;
        spv::write_vec(&module, &info, &self.spirv, None).map_err(|error| failed(error.to_string()))
    }
}

/// Returns the highest binding of a SPIR-V module; `None` if the words are not a module with bindings.
fn bindings(words: &[u32]) -> Option<u32> {
    /// The words of a module before its instructions.
    const HEADER: usize = 5;
    const DECORATE: u32 = 71;
    const BINDING: u32 = 33;
    let mut rest = words.get(HEADER..)?;
    let mut last = None;
    while let Some(first) = rest.first() {
        let (length, operation) = ((first >> 16) as usize, first & 0xffff);
        let (instruction, following) = rest.split_at_checked(length.max(1))?;
        if let [_, _, BINDING, binding] = instruction
            && operation == DECORATE
        {
            last = last.max(Some(*binding));
        }
        rest = following;
    }
    last
}

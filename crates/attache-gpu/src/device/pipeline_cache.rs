//! The driver's cache of pipelines, through wgpu.
#![allow(unsafe_code)]

/// Creates a cache with the data of another one, or an empty one; `None` if the device has no such caches.
pub(super) fn new(device: &wgpu::Device, data: Option<&[u8]>) -> Option<wgpu::PipelineCache> {
    if !device.features().contains(wgpu::Features::PIPELINE_CACHE) {
        return None;
    }
    let data = data.filter(|data| !data.is_empty());
    let descriptor = wgpu::PipelineCacheDescriptor { label: Some("attache"), data, fallback: true };
    // SAFETY: the data is what a cache of wgpu returned: it comes from an entry whose checksum was compared, in a folder to
    // which only this user may write. wgpu checks that it is of this device and driver.
    Some(unsafe { device.create_pipeline_cache(&descriptor) })
}

//! Pipelines that render, for textures of the caller's that shaders can write in no other way.

use std::sync::Arc;

use super::Device;
use crate::kernel::GpuError;

impl Device {
    /// Returns the pipeline that draws triangles to a texture of a format, from the cache if possible. The shader has the
    /// entry points `corner` and `main`.
    pub(crate) fn render_pipeline(
        &self,
        source: &str,
        format: wgpu::TextureFormat,
    ) -> Result<Arc<wgpu::RenderPipeline>, GpuError> {
        // The format is a part of the key.
        let source = format!("// {format:?}\n{source}");
        let made = |source: &str, _| self.scoped(|| self.compile_render(source, format));
        Ok(self.0.render_pipelines.of(&[(&source, 0)], 1, made)?.remove(0))
    }

    fn compile_render(&self, source: &str, format: wgpu::TextureFormat) -> wgpu::RenderPipeline {
        let _turn = self.turn();
        let device = &self.0.device;
        let source = wgpu::ShaderSource::Wgsl(source.into());
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor { label: None, source });
        let compilation_options = wgpu::PipelineCompilationOptions::default();
        device.create_render_pipeline(&wgpu::RenderPipelineDescriptor {
            label: None,
            layout: None,
            vertex: wgpu::VertexState {
                module: &module,
                entry_point: Some("corner"),
                compilation_options: compilation_options.clone(),
                buffers: &[],
            },
            primitive: wgpu::PrimitiveState::default(),
            depth_stencil: None,
            multisample: wgpu::MultisampleState::default(),
            fragment: Some(wgpu::FragmentState {
                module: &module,
                entry_point: Some("main"),
                compilation_options,
                targets: &[Some(format.into())],
            }),
            multiview_mask: None,
            cache: None,
        })
    }
}

//! Transfers between memory of the caller's and memory of a recording, on the device.

use std::sync::Arc;

use crate::device::Device;

/// A range of a wgpu buffer, in bytes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Slice {
    pub(crate) buffer: wgpu::Buffer,
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

impl Slice {
    /// Returns the range as a binding of a bind group.
    pub(crate) fn resource(&self) -> wgpu::BindingResource<'_> {
        wgpu::BindingResource::Buffer(wgpu::BufferBinding {
            buffer: &self.buffer,
            offset: self.offset,
            size: wgpu::BufferSize::new(self.size),
        })
    }

    /// Whether two ranges have bytes in common.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let end = |slice: &Self| slice.offset + slice.size;
        self.buffer == other.buffer && self.offset < end(other) && other.offset < end(self)
    }
}

/// Creates the bind group 0 of a pipeline.
pub(crate) fn bind_group<'a>(
    device: &Device,
    layout: &wgpu::BindGroupLayout,
    resources: impl IntoIterator<Item = (u32, wgpu::BindingResource<'a>)>,
) -> wgpu::BindGroup {
    let entry = |(binding, resource)| wgpu::BindGroupEntry { binding, resource };
    let entries: Vec<wgpu::BindGroupEntry<'_>> = resources.into_iter().map(entry).collect();
    device.wgpu().create_bind_group(&wgpu::BindGroupDescriptor { label: None, layout, entries: &entries })
}

/// Commands that bring an input from memory of the caller's to that of the recording, or an output from there to memory
/// of the caller's.
pub(crate) enum Transfer {
    /// A copy between buffers.
    Copy {
        /// The range that is read.
        from: Slice,
        /// The range that is written, of the same size.
        to: Slice,
    },
    /// A dispatch that converts.
    Dispatch { pipeline: Arc<wgpu::ComputePipeline>, bindings: wgpu::BindGroup, groups: [u32; 3] },
    /// A draw call that converts, for textures that shaders can only render to.
    Draw {
        pipeline: Arc<wgpu::RenderPipeline>,
        bindings: wgpu::BindGroup,
        view: wgpu::TextureView,
        /// Left, top, width and height of the rectangle that is drawn, in pixels.
        region: [u32; 4],
    },
}

impl Transfer {
    /// Adds the transfer to a compute pass, if it is a dispatch.
    pub(crate) fn dispatch(&self, pass: &mut wgpu::ComputePass<'_>) {
        if let Transfer::Dispatch { pipeline, bindings, groups: [x, y, z] } = self {
            pass.set_pipeline(pipeline);
            pass.set_bind_group(0, bindings, &[]);
            pass.dispatch_workgroups(*x, *y, *z);
        }
    }

    /// Adds the transfer to an encoder, outside of a compute pass, if it is no dispatch.
    pub(crate) fn encode(&self, encoder: &mut wgpu::CommandEncoder) {
        match self {
            Transfer::Copy { from, to } => {
                encoder.copy_buffer_to_buffer(&from.buffer, from.offset, &to.buffer, to.offset, from.size);
            }
            Transfer::Dispatch { .. } => {}
            Transfer::Draw { pipeline, bindings, view, region } => draw(encoder, (pipeline, bindings), view, *region),
        }
    }
}

/// Draws one triangle that covers a rectangle of a texture and leaves the rest as it is.
fn draw(
    encoder: &mut wgpu::CommandEncoder,
    (pipeline, bindings): (&wgpu::RenderPipeline, &wgpu::BindGroup),
    view: &wgpu::TextureView,
    [left, top, width, height]: [u32; 4],
) {
    let ops = wgpu::Operations { load: wgpu::LoadOp::Load, store: wgpu::StoreOp::Store };
    let attachment = wgpu::RenderPassColorAttachment { view, depth_slice: None, resolve_target: None, ops };
    let mut pass = encoder.begin_render_pass(&wgpu::RenderPassDescriptor {
        color_attachments: &[Some(attachment)],
        ..Default::default()
    });
    pass.set_pipeline(pipeline);
    pass.set_bind_group(0, bindings, &[]);
    pass.set_viewport(left as f32, top as f32, width as f32, height as f32, 0.0, 1.0);
    pass.set_scissor_rect(left, top, width, height);
    pass.draw(0..3, 0..1);
}

//! Timestamps around each dispatch of a timed recording that runs through wgpu. Each dispatch has its own
//! compute pass, since not every device supports timestamps inside a pass.

use super::{Command, poll};
use crate::device::{Device, Submission};
use crate::execute::{Span, no_timestamps};
use crate::kernel::{GpuError, GpuErrorKind};

/// The query set with two timestamps for each dispatch, at its beginning and its end, and the buffers through
/// which the host reads them.
pub(super) struct Clock {
    queries: wgpu::QuerySet,
    count: u32,
    resolved: wgpu::Buffer,
    staging: wgpu::Buffer,
}

impl Clock {
    /// Creates the query set and the buffers for this many dispatches.
    pub(super) fn new(device: &Device, dispatches: usize) -> Result<Self, GpuError> {
        use wgpu::BufferUsages as Usages;
        if !device.has_timestamps(Submission::Encoder) {
            return Err(no_timestamps());
        }
        let count = 2 * dispatches;
        if count > wgpu::QUERY_SET_MAX_QUERIES as usize {
            let most = wgpu::QUERY_SET_MAX_QUERIES / 2;
            let message = format!("{dispatches} dispatches are more than the {most} that can be timed by the encoder");
            return Err(GpuError::new(GpuErrorKind::Unsupported, message));
        }
        let count = count as u32;
        let descriptor = wgpu::QuerySetDescriptor { label: None, ty: wgpu::QueryType::Timestamp, count: count.max(1) };
        let queries = device.wgpu().create_query_set(&descriptor);
        let size = u64::from(count.max(1) * wgpu::QUERY_SIZE);
        let buffer = |usage| {
            let descriptor = wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
            device.wgpu().create_buffer(&descriptor)
        };
        let resolved = buffer(Usages::QUERY_RESOLVE | Usages::COPY_SRC);
        Ok(Self { queries, count, resolved, staging: buffer(Usages::MAP_READ | Usages::COPY_DST) })
    }

    /// Encodes the dispatches of a run of the slot, each with its timestamps, and the copy of the timestamps
    /// to the host.
    pub(super) fn encode(&self, encoder: &mut wgpu::CommandEncoder, commands: &[Command], slot: usize) {
        for (command, at) in commands.iter().zip((0..).step_by(2)) {
            let timestamp_writes = Some(wgpu::ComputePassTimestampWrites {
                query_set: &self.queries,
                beginning_of_pass_write_index: Some(at),
                end_of_pass_write_index: Some(at + 1),
            });
            let descriptor = wgpu::ComputePassDescriptor { label: None, timestamp_writes };
            command.encode(&mut encoder.begin_compute_pass(&descriptor), slot);
        }
        if self.count > 0 {
            encoder.resolve_query_set(&self.queries, 0..self.count, &self.resolved, 0);
            encoder.copy_buffer_to_buffer(&self.resolved, 0, &self.staging, 0, self.staging.size());
        }
    }

    /// Waits with `until` for the end of the last run, reads its timestamps, and returns the time of each
    /// dispatch.
    pub(super) fn read(&self, device: &Device, until: wgpu::PollType) -> Result<Vec<Span>, GpuError> {
        let failed = |error: &dyn std::fmt::Display| {
            GpuError::new(GpuErrorKind::Failed, format!("the timestamps cannot be read: {error}"))
        };
        let (sender, receiver) = std::sync::mpsc::channel();
        self.staging.map_async(wgpu::MapMode::Read, .., move |result| drop(sender.send(result)));
        poll(device, until)?;
        receiver.recv().map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
        let mut ticks: Vec<u64> = {
            let mapped = self.staging.get_mapped_range(..).map_err(|error| failed(&error))?;
            bytemuck::pod_collect_to_vec(&mapped)
        };
        ticks.truncate(self.count as usize);
        self.staging.unmap();
        device.check()?;
        Ok(Span::of_ticks(&ticks, u64::BITS, device.queue().get_timestamp_period().into()))
    }
}

//! The commands of runs with memory of the caller's: recorded in pieces, of which those that use the memory are recorded
//! again when other memory is bound. Command buffers and descriptor sets of runs that have ended are used again.
#![allow(unsafe_code)]

use ash::vk;

use super::bindings::Bindings;
use super::pieces::{Piece, pieces};
use super::resources::ReplayResources;
use super::stream::{CommandList, Recorder, Stream};
use super::submissions::Submissions;
use super::{ARENA, Slice};
use crate::bind::{Access, MemoryBinding};
use crate::device::Device;
use crate::device::vulkan::{Ownership, STAGES, USES, WRITES, failed};
use crate::kernel::GpuError;
use crate::plan::{Plan, PlanBuffer, padded};

/// What is bound, and the commands that use it, of the first stream.
pub(super) struct BoundRuns {
    device: Device,
    pub(super) bindings: Bindings,
    pieces: Vec<Piece>,
    /// The commands of each slot; `None` until it runs.
    slots: Vec<Option<SlotCommands>>,
    /// The pool of all command buffers; null until there are any.
    pool: vk::CommandPool,
    /// What was bound before, each with the number of the last submission that may use it.
    replaced: Vec<(usize, MemoryBinding)>,
}

/// The commands of a slot.
struct SlotCommands {
    /// For each piece, its commands; those of a piece that does not vary are recorded once.
    pieces: Vec<PieceCommands>,
    /// For each part of the outputs that are not bound, the command buffer that copies it for the host; empty if all
    /// outputs are bound.
    copies: Vec<vk::CommandBuffer>,
}

/// The commands of a piece.
#[derive(Default)]
struct PieceCommands {
    recorded: Vec<Commands>,
    /// The index of those that runs submit; `None` if they have to be recorded.
    current: Option<usize>,
}

/// A command buffer of a piece, with the descriptor sets of its dispatches.
struct Commands {
    raw: vk::CommandBuffer,
    /// Null if the piece does not vary, and uses the sets of the stream.
    descriptors: vk::DescriptorPool,
    sets: Vec<vk::DescriptorSet>,
    /// The number of the last submission.
    last: usize,
}

/// What recording a slot's commands needs.
struct Context<'a> {
    plan: &'a Plan,
    recorder: Recorder<'a>,
    submissions: &'a Submissions,
    stream_sets: &'a [vk::DescriptorSet],
    slot: usize,
}

impl BoundRuns {
    pub(super) fn new(device: &Device, plan: &Plan, slots: usize) -> Self {
        let bindings = Bindings::new(plan.inputs.len(), plan.outputs.len());
        let slots = (0..slots).map(|_| None).collect();
        let (pieces, replaced) = (Vec::new(), Vec::new());
        Self { device: device.clone(), bindings, pieces, slots, pool: vk::CommandPool::null(), replaced }
    }

    /// Takes over other bindings. Runs are divided into other pieces if the bindings have another shape, and then no run is
    /// pending. `last` is the number of the last submission of the stream.
    pub(super) fn rebind(&mut self, plan: &Plan, bindings: Bindings, last: usize) {
        let before = std::mem::replace(&mut self.bindings, bindings);
        self.replaced.extend(before.all().map(|bound| (last, bound.binding.clone())));
        if before.shape() != self.bindings.shape() {
            self.clear();
            let dispatches = plan.dispatches.len();
            let uses: Vec<bool> = (0..dispatches).map(|dispatch| self.bindings.uses(plan, dispatch)).collect();
            let (has_before, has_after) = (self.bindings.has_before(), self.bindings.has_after());
            self.pieces = pieces(dispatches, |step| match step {
                0 => has_before,
                step if step <= dispatches => uses[step - 1],
                _ => has_after,
            });
            return;
        }
        let changed = self.bindings.changed(plan, &before);
        let (has_before, end) = (self.bindings.has_before(), plan.dispatches.len() + 1);
        for slot in self.slots.iter_mut().flatten() {
            for (piece, commands) in self.pieces.iter().zip(&mut slot.pieces) {
                let ends = piece.steps.contains(&0) && has_before || piece.steps.contains(&end);
                if ends || changed.iter().any(|dispatch| piece.steps.contains(&(dispatch + 1))) {
                    commands.current = None;
                }
            }
        }
    }

    /// Returns the command buffers of a run of a slot, and those that copy its outputs for the host. Records those that are
    /// missing.
    pub(super) fn commands(
        &mut self,
        plan: &Plan,
        (command_list, resources): (&CommandList, &mut ReplayResources),
        stream: &Stream,
        slot: usize,
    ) -> Result<(Vec<vk::CommandBuffer>, Vec<vk::CommandBuffer>), GpuError> {
        let recorder = Recorder { command_list, resources, arena: ARENA };
        let stream_sets = &stream.slots[slot].sets[..];
        let context = Context { plan, recorder, submissions: &stream.submissions, stream_sets, slot };
        if self.slots[slot].is_none() {
            let copies = self.copies(&context)?;
            let pieces = self.pieces.iter().map(|_| PieceCommands::default()).collect();
            self.slots[slot] = Some(SlotCommands { pieces, copies });
        }
        let mut commands = self.slots[slot].take().unwrap_or(SlotCommands { pieces: Vec::new(), copies: Vec::new() });
        let pieces = self.pieces.clone();
        let mut updated = Ok(());
        for (piece, commands) in pieces.iter().zip(&mut commands.pieces) {
            if commands.current.is_none() && updated.is_ok() {
                updated = self.record(&context, piece, commands);
            }
        }
        let current = |piece: &PieceCommands| piece.current.map(|index| piece.recorded[index].raw);
        let run = commands.pieces.iter().filter_map(current).collect();
        let copies = commands.copies.clone();
        self.slots[slot] = Some(commands);
        updated.map(|()| (run, copies))
    }

    /// Records that the commands of a slot were submitted with this number.
    pub(super) fn submitted(&mut self, slot: usize, number: usize) {
        for piece in self.slots[slot].iter_mut().flat_map(|slot| &mut slot.pieces) {
            if let Some(current) = piece.current {
                piece.recorded[current].last = number;
            }
        }
        self.bindings.count_run();
    }

    /// Frees memory that was bound and that no pending run uses any more.
    pub(super) fn release(&mut self, submissions: &Submissions) {
        self.replaced.retain(|(last, _)| !submissions.is_over(*last).unwrap_or(false));
    }

    /// Records a piece: into commands that no pending run uses, or else into new ones.
    fn record(&mut self, context: &Context<'_>, piece: &Piece, commands: &mut PieceCommands) -> Result<(), GpuError> {
        let is_free = |commands: &Commands| context.submissions.is_over(commands.last).unwrap_or(false);
        let index = match commands.recorded.iter().position(is_free) {
            Some(index) => index,
            None => {
                commands.recorded.push(self.new_commands(context, piece)?);
                commands.recorded.len() - 1
            }
        };
        let Commands { raw, sets, .. } = &commands.recorded[index];
        if piece.is_variable {
            let dispatches = self.dispatches(context.plan, piece).zip(sets);
            dispatches.for_each(|(dispatch, set)| self.write_set(context, dispatch, *set));
        }
        self.begin(*raw)?;
        self.record_steps(context, piece, (*raw, sets));
        context.recorder.resources.end(*raw)?;
        commands.current = Some(index);
        Ok(())
    }

    /// Allocates a command buffer for a piece, and descriptor sets if it varies.
    fn new_commands(&mut self, context: &Context<'_>, piece: &Piece) -> Result<Commands, GpuError> {
        let raw = self.command_buffer(context)?;
        let own: Vec<usize> = self.dispatches(context.plan, piece).map(|(_, form)| form).collect();
        let (descriptors, sets) = match piece.is_variable && !own.is_empty() {
            true => context.recorder.new_sets(&own)?,
            false => (vk::DescriptorPool::null(), own.iter().map(|index| context.stream_sets[*index]).collect()),
        };
        Ok(Commands { raw, descriptors, sets, last: 0 })
    }

    /// Returns the dispatches among the steps of a piece, each with the form in which it runs, without those left out.
    fn dispatches(&self, plan: &Plan, piece: &Piece) -> impl Iterator<Item = (usize, usize)> {
        dispatches(plan, piece).filter_map(|dispatch| Some((dispatch, self.bindings.form(dispatch)?)))
    }

    fn write_set(&self, context: &Context<'_>, (dispatch, form): (usize, usize), set: vk::DescriptorSet) {
        let Context { plan, recorder, slot, .. } = context;
        let bindings = self.bindings.bound(plan, dispatch);
        let slices = &recorder.command_list.slots[*slot].dispatches[form];
        let params = recorder.described(&slices[0]);
        let ranges = bindings.iter().map(|bound| &bound.range);
        let buffers = ranges.zip(&slices[1..]).map(|(range, slice)| {
            let bound = self.bindings.in_place(plan, dispatch, range);
            bound.map_or_else(|| recorder.described(slice), |bound| bound.info())
        });
        let infos: Vec<vk::DescriptorBufferInfo> = [params].into_iter().chain(buffers).collect();
        recorder.write_set(set, &infos);
    }

    fn record_steps(
        &self,
        context: &Context<'_>,
        piece: &Piece,
        (raw, sets): (vk::CommandBuffer, &[vk::DescriptorSet]),
    ) {
        let end = context.plan.dispatches.len() + 1;
        if piece.steps.start == 0 {
            self.before(context, raw);
        }
        let mut sets = sets.iter();
        for dispatch in dispatches(context.plan, piece) {
            match self.bindings.form(dispatch).and_then(|form| Some((form, sets.next()?))) {
                Some((form, set)) => {
                    let needs_barrier = self.bindings.needs_barrier(context.plan, dispatch);
                    context.recorder.dispatch(raw, ([dispatch, form], needs_barrier), *set);
                }
                None => context.recorder.stamps(raw, dispatch),
            }
        }
        if piece.steps.contains(&end) {
            self.after(context, raw);
        }
    }

    /// Records what comes before the dispatches: taking over shared memory, and copies of inputs.
    fn before(&self, context: &Context<'_>, commands: vk::CommandBuffer) {
        let Context { recorder, slot, .. } = context;
        self.own(context, commands, Ownership::Acquire);
        recorder.begin(commands);
        let copied = self.bindings.inputs.iter().enumerate();
        let copied = copied.filter_map(|(index, bound)| Some((index, bound.as_ref()?)));
        let copied: Vec<_> = copied.filter(|(_, bound)| bound.access == Access::Copy).collect();
        for (input, bound) in &copied {
            let to = &recorder.command_list.slots[*slot].inputs[*input];
            let from = (bound.raw(), bound.range.start);
            self.copy(context, commands, from, (recorder.resources.raw(to.buffer), to.range.start), bound.range.len());
        }
        if !copied.is_empty() {
            recorder.resources.barrier(commands, (STAGES, WRITES), (STAGES, USES | vk::AccessFlags::UNIFORM_READ));
        }
    }

    /// Records what comes after the dispatches: copies of outputs, and leaving shared memory to others and to the host.
    fn after(&self, context: &Context<'_>, commands: vk::CommandBuffer) {
        let Context { plan, recorder, slot, .. } = context;
        recorder.resources.barrier(commands, (STAGES, WRITES), (STAGES, USES));
        for (output, bound) in self.bindings.outputs.iter().enumerate() {
            let Some(bound) = bound.as_ref().filter(|bound| bound.access == Access::Copy) else { continue };
            let range = &plan.outputs[output];
            let source = match range.buffer {
                PlanBuffer::Input(input) => self.bindings.inputs[input].as_ref(),
                PlanBuffer::Bank(_) | PlanBuffer::Weights => None,
            };
            let from = match source.filter(|source| source.access == Access::InPlace) {
                Some(source) => (source.raw(), source.range.start + range.offset),
                None => {
                    let Slice { buffer, range } = recorder.own(&recorder.command_list.slots[*slot].outputs[output][0]);
                    (recorder.resources.raw(buffer), range.start)
                }
            };
            let bytes = bound.range.len().min(padded(range.size));
            self.copy(context, commands, from, (bound.raw(), bound.range.start), bytes);
        }
        let host = vk::PipelineStageFlags::HOST;
        let read = vk::AccessFlags::HOST_READ;
        recorder.resources.barrier(commands, (STAGES, WRITES), (STAGES | host, USES | read));
        self.own(context, commands, Ownership::Release);
    }

    /// Records the transfer of the ownership of all memory that has other users, each memory once.
    fn own(&self, context: &Context<'_>, commands: vk::CommandBuffer, what: Ownership) {
        let vulkan = context.recorder.resources.vulkan();
        let mut seen = Vec::new();
        for bound in self.bindings.all() {
            let others = bound.memory().buffer().other_users().filter(|_| !seen.contains(&bound.raw()));
            if let Some(others) = others {
                seen.push(bound.raw());
                vulkan.own(commands, bound.raw(), others, what);
            }
        }
    }

    fn copy(
        &self,
        context: &Context<'_>,
        commands: vk::CommandBuffer,
        from: (vk::Buffer, usize),
        to: (vk::Buffer, usize),
        bytes: usize,
    ) {
        let region = vk::BufferCopy { src_offset: from.1 as u64, dst_offset: to.1 as u64, size: bytes as u64 };
        let raw = &context.recorder.resources.vulkan().raw;
        // SAFETY: the command buffer is recording, both ranges are inside their buffers, and they do not overlap.
        unsafe { raw.cmd_copy_buffer(commands, from.0, to.0, &[region]) };
    }

    /// Records the copies of the outputs that are not bound; none if all are.
    fn copies(&mut self, context: &Context<'_>) -> Result<Vec<vk::CommandBuffer>, GpuError> {
        let parts = context.recorder.command_list.parts[context.slot].len();
        let bound: Vec<bool> = self.bindings.outputs.iter().map(Option::is_some).collect();
        let mut all = Vec::new();
        for part in 0..if bound.contains(&false) { parts } else { 0 } {
            let commands = self.command_buffer(context)?;
            self.begin(commands)?;
            context.recorder.copy_part(commands, (context.slot, part), |output| !bound[output]);
            context.recorder.resources.end(commands)?;
            all.push(commands);
        }
        Ok(all)
    }

    fn command_buffer(&mut self, context: &Context<'_>) -> Result<vk::CommandBuffer, GpuError> {
        let vulkan = context.recorder.resources.vulkan();
        if self.pool == vk::CommandPool::null() {
            let info = vk::CommandPoolCreateInfo::default()
                .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER)
                .queue_family_index(vulkan.family);
            // SAFETY: the family is that of the queue.
            self.pool = unsafe { vulkan.raw.create_command_pool(&info, None) }.map_err(failed("a command pool"))?;
        }
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(self.pool)
            .level(vk::CommandBufferLevel::PRIMARY)
            .command_buffer_count(1);
        // SAFETY: the pool exists.
        Ok(unsafe { vulkan.raw.allocate_command_buffers(&info) }.map_err(failed("a command buffer"))?[0])
    }

    /// Begins to record a command buffer, again if it was recorded before.
    fn begin(&self, commands: vk::CommandBuffer) -> Result<(), GpuError> {
        let Some(vulkan) = self.device.vulkan() else { return Ok(()) };
        // Several runs of the command buffer may be pending at once.
        let info = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::SIMULTANEOUS_USE);
        // SAFETY: the command buffer is not pending, and its pool lets it be recorded again.
        unsafe { vulkan.raw.begin_command_buffer(commands, &info) }.map_err(failed("recording"))
    }

    /// Destroys all commands. No run with them is pending.
    fn clear(&mut self) {
        let Some(vulkan) = self.device.vulkan() else { return };
        for slot in self.slots.iter_mut().filter_map(Option::take) {
            let recorded = slot.pieces.into_iter().flat_map(|piece| piece.recorded);
            // SAFETY: no pending run uses the sets.
            recorded.for_each(|commands| unsafe { vulkan.raw.destroy_descriptor_pool(commands.descriptors, None) });
        }
        // SAFETY: no command buffer of the pool is pending.
        unsafe { vulkan.raw.destroy_command_pool(self.pool, None) };
        self.pool = vk::CommandPool::null();
    }
}

impl Drop for BoundRuns {
    fn drop(&mut self) {
        // The recording drops its streams, which wait, before this.
        self.clear();
    }
}

/// Returns the dispatches among the steps of a piece.
fn dispatches(plan: &Plan, piece: &Piece) -> impl Iterator<Item = usize> + use<> {
    let last = plan.dispatches.len();
    piece.steps.start.max(1) - 1..piece.steps.end.saturating_sub(1).min(last)
}

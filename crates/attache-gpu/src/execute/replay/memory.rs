//! The memory of a recording: its buffers, and where the values of its plan lie in them.

use std::sync::Arc;

use super::resources::ReplayResources;
use super::{BufferId, Constants, Slice};
use crate::device::Device;
use crate::device::vulkan::{DeviceBuffer, Use};
use crate::execute::Runs;
use crate::kernel::GpuError;
use crate::layout::ALIGNMENT;
use crate::plan::{Plan, padded};

/// The index of the first stream's arena among the buffers of the recording. The arenas of further streams
/// follow after the other buffers.
pub(super) const ARENA: BufferId = BufferId::Own(0);
/// The index of the buffer of all slots' inputs.
pub(super) const INPUTS: usize = 1;
/// The index of the buffer to which all slots' outputs are copied for the host.
pub(super) const OUTPUTS: usize = 2;

/// The locations of the plan's buffers and of each dispatch's parameters in the buffers of the recording.
pub(super) struct Map {
    pub(super) arena_bytes: usize,
    pub(super) banks: Vec<usize>,
    /// For each weight, its location. The weights and the parameters are in buffers of constants.
    pub(super) weights: Vec<(BufferId, usize)>,
    pub(super) params: Vec<Slice>,
    /// For each slot, the location of each input.
    pub(super) inputs: Vec<Vec<Slice>>,
    /// For each slot, the location of each output in memory that the host reads.
    pub(super) outputs: Vec<Vec<Slice>>,
}

/// The buffers of a recording that is not recorded yet.
pub(super) struct Memory {
    pub(super) resources: ReplayResources,
    pub(super) map: Map,
    /// The number of slots.
    pub(super) slots: usize,
}

impl Memory {
    /// Allocates the buffers of a recording.
    pub(super) fn allocate(device: &Device, plan: &Plan, constants: &Constants, runs: Runs) -> Result<Self, GpuError> {
        let mut resources = ReplayResources::new(device);
        let mut end = 0;
        let mut banks = Vec::with_capacity(plan.banks.len());
        for bytes in &plan.banks {
            banks.push(end);
            end = (end + bytes).next_multiple_of(ALIGNMENT);
        }
        let arena_bytes = end;
        resources.add(arena_bytes, Use::Device)?;
        let (inputs, end) = in_order(INPUTS, runs.slots, &plan.inputs);
        resources.add(end, Use::Write)?;
        let sizes: Vec<usize> = plan.outputs.iter().map(|output| output.size).collect();
        let (outputs, end) = in_order(OUTPUTS, runs.slots, &sizes);
        resources.add(end, Use::Read)?;
        resources.constants = constants.buffers();
        let constant = |buffer: &Arc<DeviceBuffer>| {
            let index = resources.constants.iter().position(|other| Arc::ptr_eq(other, buffer));
            BufferId::Constant(index.expect("all buffers of constants were added"))
        };
        let weights = constants.weights.iter().map(|weight| (constant(&weight.buffer), weight.offset)).collect();
        let params = constants.ranges.iter();
        let params = params.map(|range| Slice { buffer: constant(&constants.params), range: range.clone() });
        let params = params.collect();
        let map = Map { arena_bytes, banks, weights, params, inputs, outputs };
        Ok(Self { resources, map, slots: runs.slots })
    }
}

/// Places ranges of these sizes, in bytes, at consecutive aligned offsets of a buffer, once for each slot.
/// Returns the ranges of each slot, and the end of the last range.
pub(super) fn in_order(buffer: usize, slots: usize, sizes: &[usize]) -> (Vec<Vec<Slice>>, usize) {
    let mut end = 0;
    let mut slice = |size: &usize| {
        let start = usize::next_multiple_of(end, ALIGNMENT);
        end = start + padded(*size);
        Slice { buffer: BufferId::Own(buffer), range: start..end }
    };
    let slices = (0..slots).map(|_| sizes.iter().map(&mut slice).collect()).collect();
    (slices, end)
}

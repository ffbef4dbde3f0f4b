//! The memory that the dispatches of a recording bind: its own, or the caller's in place of an input's or an output's.

use std::sync::Arc;

use super::{EncoderPlan, buffer};
use crate::bind::{Slice, bind_group};
use crate::device::Device;
use crate::kernel::GpuError;
use crate::plan::{BufferRange, PlanBuffer, padded};

/// The memory that dispatches bind.
pub(super) struct Memory {
    pub(super) loaded: Arc<EncoderPlan>,
    banks: Vec<wgpu::Buffer>,
    /// For each slot, the memory of each input that the host writes.
    pub(super) inputs: Vec<Vec<Slice>>,
    pub(super) in_place: InPlace,
}

/// The inputs and outputs that dispatches use in other memory than when nothing is bound; `None` for those
/// that they do not.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct InPlace {
    pub(super) inputs: Vec<Option<Slice>>,
    /// Each with the first dispatch that uses it.
    pub(super) outputs: Vec<Option<(usize, Slice)>>,
}

impl Memory {
    /// Allocates the banks, and a buffer for each input of each slot.
    pub(super) fn new(loaded: &Arc<EncoderPlan>, slots: usize) -> Result<Self, GpuError> {
        use wgpu::BufferUsages as Usages;
        let EncoderPlan { device, plan, .. } = &**loaded;
        let bank = |bytes: &usize| buffer(device, *bytes as u64, Usages::STORAGE | Usages::COPY_SRC);
        let banks = plan.banks.iter().map(bank).collect::<Result<_, _>>()?;
        let input = |bytes: &usize| input_of(device, *bytes);
        let inputs = (0..slots).map(|_| plan.inputs.iter().map(input).collect()).collect::<Result<_, GpuError>>()?;
        let in_place = InPlace { inputs: vec![None; plan.inputs.len()], outputs: vec![None; plan.outputs.len()] };
        Ok(Self { loaded: loaded.clone(), banks, inputs, in_place })
    }

    /// Allocates memory for an input that transfers write.
    pub(super) fn another_input(&self, input: usize) -> Result<Slice, GpuError> {
        let EncoderPlan { device, plan, .. } = &*self.loaded;
        device.scoped(|| input_of(device, plan.inputs[input]))?
    }

    /// Returns where a dispatch of a slot finds a range of the plan. The number of dispatches stands for the time after
    /// the last one.
    fn place(&self, slot: usize, dispatch: usize, range: &BufferRange) -> Slice {
        let EncoderPlan { plan, weights, .. } = &*self.loaded;
        let size = padded(range.size) as u64;
        match range.buffer {
            PlanBuffer::Input(index) => {
                let slice = self.in_place.inputs[index].as_ref().unwrap_or(&self.inputs[slot][index]);
                Slice { size, ..slice.clone() }
            }
            PlanBuffer::Bank(bank) => {
                let mut outputs = plan.outputs.iter().zip(&self.in_place.outputs);
                let bound = outputs.find_map(|(output, bound)| bound.as_ref().filter(|_| output == range));
                match bound.filter(|(first, _)| dispatch >= *first) {
                    Some((_, slice)) => slice.clone(),
                    None => Slice { buffer: self.banks[bank].clone(), offset: range.offset as u64, size },
                }
            }
            PlanBuffer::Weights => Slice::of(&weights[plan.weight_at(range.offset)], padded(range.size)),
        }
    }

    /// Returns where an output is after the last dispatch of a slot.
    pub(super) fn output(&self, slot: usize, output: usize) -> Slice {
        let plan = &self.loaded.plan;
        self.place(slot, plan.dispatches.len(), &plan.outputs[output])
    }

    /// Creates the bind group of a dispatch of a slot.
    pub(super) fn bind(&self, slot: usize, dispatch: usize) -> wgpu::BindGroup {
        let EncoderPlan { device, plan, pipelines, params, .. } = &*self.loaded;
        let bound = &plan.dispatches[dispatch];
        let slices: Vec<Slice> = bound.bindings.iter().map(|bound| self.place(slot, dispatch, &bound.range)).collect();
        let params = Some((0, params[dispatch].resource())).filter(|_| !bound.params.is_empty());
        let slices = (1..).zip(slices.iter().map(Slice::resource));
        bind_group(device, &pipelines[dispatch].get_bind_group_layout(0), params.into_iter().chain(slices))
    }
}

/// Allocates a buffer for an input of `bytes` bytes.
fn input_of(device: &Device, bytes: usize) -> Result<Slice, GpuError> {
    use wgpu::BufferUsages as Usages;
    let size = padded(bytes) as u64;
    let usage = Usages::STORAGE | Usages::COPY_SRC | Usages::COPY_DST;
    Ok(Slice { buffer: buffer(device, size, usage)?, offset: 0, size })
}

//! What the caller has bound to the inputs and outputs of a recording, and how its runs reach it: dispatches use it in
//! place, or transfers before and after them move it.

use super::memory::{InPlace, Memory};
use crate::bind::{
    Access, BoundTensor, InputBinding, OutputBinding, Slice, TextureSource, TextureTarget, Transfer, from_device,
    input_access, output_access, to_device, usage,
};
use crate::device::Device;
use crate::kernel::GpuError;

/// What is bound to the inputs and outputs of a recording. Everything has been checked.
#[derive(Clone, Default)]
pub(super) struct Bindings {
    inputs: Vec<Option<(BoundInput, BoundTensor)>>,
    outputs: Vec<Option<(BoundOutput, BoundTensor)>>,
}

#[derive(Clone)]
enum BoundInput {
    Buffer(Slice, Access),
    Texture(TextureSource),
}

#[derive(Clone)]
enum BoundOutput {
    /// The access is set when all bindings are known.
    Buffer(Slice, Access),
    Texture(TextureTarget),
}

impl Bindings {
    pub(super) fn new(inputs: usize, outputs: usize) -> Self {
        Self { inputs: vec![None; inputs], outputs: vec![None; outputs] }
    }

    /// Returns the bindings with another one for an input, or none.
    pub(super) fn with_input(
        &self,
        device: &Device,
        input: usize,
        bound: Option<(InputBinding, BoundTensor)>,
    ) -> Result<Self, GpuError> {
        let checked = |(binding, tensor): (InputBinding, BoundTensor)| -> Result<_, GpuError> {
            let bound = match binding {
                InputBinding::Buffer(binding) => {
                    let slice = binding.slice(device, &tensor)?;
                    let access = input_access(device, &tensor, &slice)?;
                    BoundInput::Buffer(slice, access)
                }
                InputBinding::Texture(source) => BoundInput::Texture(source),
                InputBinding::Memory(_) => return Err(replayed()),
            };
            Ok((bound, tensor))
        };
        let mut other = self.clone();
        other.inputs[input] = bound.map(checked).transpose()?;
        Ok(other)
    }

    /// Returns the bindings with another one for an output, or none.
    pub(super) fn with_output(
        &self,
        device: &Device,
        output: usize,
        bound: Option<(OutputBinding, BoundTensor)>,
    ) -> Result<Self, GpuError> {
        let checked = |(binding, tensor): (OutputBinding, BoundTensor)| -> Result<_, GpuError> {
            let bound = match binding {
                OutputBinding::Buffer(binding) => BoundOutput::Buffer(binding.slice(device, &tensor)?, Access::Copy),
                OutputBinding::Texture(target) => BoundOutput::Texture(target),
                OutputBinding::Memory(_) => return Err(replayed()),
            };
            Ok((bound, tensor))
        };
        let mut other = self.clone();
        other.outputs[output] = bound.map(checked).transpose()?;
        Ok(other)
    }

    /// Whether nothing is bound.
    pub(super) fn is_empty(&self) -> bool {
        self.inputs.iter().all(Option::is_none) && self.outputs.iter().all(Option::is_none)
    }

    /// Whether an output is bound.
    pub(super) fn has_output(&self, output: usize) -> bool {
        self.outputs[output].is_some()
    }

    /// Decides which outputs dispatches write in place, and returns what they use in place. Fails if outputs have bytes
    /// in common, or if a buffer lacks the usage for a copy.
    ///
    /// wgpu lets no dispatch read a buffer that it writes, and a later dispatch may read an input that overlaps an
    /// output. So an output is written in place only if its buffer has no other binding.
    pub(super) fn settle(&mut self, memory: &Memory) -> Result<InPlace, GpuError> {
        let (device, plan) = (&memory.loaded.device, &memory.loaded.plan);
        let inputs: Vec<Slice> = self.inputs.iter().filter_map(|bound| BoundInput::slice(bound.as_ref()?)).collect();
        let outputs: Vec<Option<Slice>> =
            self.outputs.iter().map(|bound| BoundOutput::slice(bound.as_ref()?)).collect();
        let mut in_place = InPlace { inputs: Vec::new(), outputs: vec![None; outputs.len()] };
        for (index, bound) in self.outputs.iter_mut().enumerate() {
            let Some((BoundOutput::Buffer(slice, access), tensor)) = bound else { continue };
            let others =
                || outputs.iter().enumerate().filter(|(other, _)| *other != index).filter_map(|(_, o)| o.as_ref());
            if others().any(|other| other.overlaps(slice)) {
                return Err(usage("two outputs are bound to ranges of a buffer that overlap"));
            }
            let is_alone = inputs.iter().chain(others()).all(|other| other.buffer != slice.buffer);
            let first = plan.first_use(index).filter(|_| is_alone);
            *access = output_access(device, tensor, slice, first.is_some())?;
            in_place.outputs[index] = first.filter(|_| *access == Access::InPlace).map(|first| (first, slice.clone()));
        }
        let used = |bound: &Option<(BoundInput, BoundTensor)>| match bound {
            Some((BoundInput::Buffer(slice, Access::InPlace), _)) => Some(slice.clone()),
            _ => None,
        };
        in_place.inputs = self.inputs.iter().map(used).collect();
        Ok(in_place)
    }

    /// Returns the transfer of an input before the dispatches of a slot; `None` if it has none.
    pub(super) fn before(&self, memory: &Memory, slot: usize, input: usize) -> Result<Option<Transfer>, GpuError> {
        let (device, to) = (&memory.loaded.device, memory.inputs[slot][input].clone());
        Ok(Some(match &self.inputs[input] {
            None | Some((BoundInput::Buffer(_, Access::InPlace), _)) => return Ok(None),
            Some((BoundInput::Buffer(from, Access::Copy), _)) => Transfer::Copy { from: from.clone(), to },
            Some((BoundInput::Buffer(from, Access::Convert), tensor)) => to_device(device, tensor, from, &to)?,
            Some((BoundInput::Texture(source), tensor)) => source.transfer(device, tensor, &to)?,
        }))
    }

    /// Returns the transfer of an output after the dispatches of a slot; `None` if it has none.
    pub(super) fn after(&self, memory: &Memory, slot: usize, output: usize) -> Result<Option<Transfer>, GpuError> {
        let (device, from) = (&memory.loaded.device, memory.output(slot, output));
        Ok(Some(match &self.outputs[output] {
            None | Some((BoundOutput::Buffer(_, Access::InPlace), _)) => return Ok(None),
            Some((BoundOutput::Buffer(to, Access::Copy), _)) => copy(from, to.clone())?,
            Some((BoundOutput::Buffer(to, Access::Convert), tensor)) => from_device(device, tensor, &from, to)?,
            Some((BoundOutput::Texture(target), tensor)) => target.transfer(device, tensor, &from)?,
        }))
    }
}

impl BoundInput {
    fn slice((bound, _): &(Self, BoundTensor)) -> Option<Slice> {
        match bound {
            Self::Buffer(slice, _) => Some(slice.clone()),
            Self::Texture(_) => None,
        }
    }
}

impl BoundOutput {
    fn slice((bound, _): &(Self, BoundTensor)) -> Option<Slice> {
        match bound {
            Self::Buffer(slice, _) => Some(slice.clone()),
            Self::Texture(_) => None,
        }
    }
}

fn replayed() -> GpuError {
    usage(
        "DeviceMemory is bound where the delegate opens the device and replays recorded commands, and not with the encoder; \
         bind a wgpu buffer of the device",
    )
}

/// Returns the copy of an output. Fails if the output is an input that is bound to a buffer that cannot be copied from.
fn copy(from: Slice, to: Slice) -> Result<Transfer, GpuError> {
    if from.buffer == to.buffer || !from.buffer.usage().contains(wgpu::BufferUsages::COPY_SRC) {
        return Err(usage(
            "the output has the elements of an input, whose buffer they are copied from; bind the input to another buffer \
             than the output, with the usage COPY_SRC",
        ));
    }
    Ok(Transfer::Copy { from, to })
}

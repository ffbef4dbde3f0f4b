//! Keeps the bind groups and transfers of a recording up to date with what the caller has bound: those that a binding
//! concerns are made again, for the first slot at once and for others when they run next.

use std::collections::BTreeSet;

use super::bound::Bindings;
use super::memory::InPlace;
use super::{Encoded, Slot};
use crate::bind::Transfer;
use crate::kernel::GpuError;
use crate::plan::{BufferRange, PlanBuffer};

/// What has to be made again.
#[derive(Clone, Default)]
pub(super) struct Stale {
    /// The dispatches whose bind groups do.
    dispatches: BTreeSet<usize>,
    /// The inputs whose transfers do.
    inputs: BTreeSet<usize>,
    /// The outputs whose transfers do.
    outputs: BTreeSet<usize>,
}

/// The transfers of a run: those of inputs before the dispatches, and those of outputs after them. `None` for what is not
/// bound, and for what dispatches use in place.
#[derive(Default)]
pub(super) struct Transfers {
    pub(super) before: Vec<Option<Transfer>>,
    pub(super) after: Vec<Option<Transfer>>,
}

/// What was made again for a slot, each with its index.
struct Made {
    groups: Vec<(usize, wgpu::BindGroup)>,
    before: Vec<(usize, Option<Transfer>)>,
    after: Vec<(usize, Option<Transfer>)>,
}

impl Stale {
    pub(super) fn input(input: usize) -> Self {
        Self { inputs: BTreeSet::from([input]), ..Self::default() }
    }

    pub(super) fn output(output: usize) -> Self {
        Self { outputs: BTreeSet::from([output]), ..Self::default() }
    }

    fn is_empty(&self) -> bool {
        self.dispatches.is_empty() && self.inputs.is_empty() && self.outputs.is_empty()
    }

    fn add(&mut self, other: &Self) {
        self.dispatches.extend(&other.dispatches);
        self.inputs.extend(&other.inputs);
        self.outputs.extend(&other.outputs);
    }
}

impl Transfers {
    pub(super) fn new(inputs: usize, outputs: usize) -> Self {
        let none = |count| std::iter::repeat_with(|| None).take(count).collect();
        Self { before: none(inputs), after: none(outputs) }
    }
}

impl Encoded {
    /// Takes over other bindings, of which those in `stale` differ. If that fails, nothing changes.
    pub(super) fn rebind(&mut self, mut bindings: Bindings, mut stale: Stale) -> Result<(), GpuError> {
        let next = bindings.settle(&self.memory)?;
        let before = std::mem::replace(&mut self.memory.in_place, next);
        if before != self.memory.in_place {
            stale.dispatches = self.changed_since(&before);
            // Outputs may move between the recording's own memory and the caller's.
            stale.outputs.extend(0..self.memory.in_place.outputs.len());
        }
        match self.make(&bindings, &stale, 0) {
            Ok(made) => self.take_over(made, 0),
            Err(error) => {
                self.memory.in_place = before;
                return Err(error);
            }
        }
        self.bindings = bindings;
        (1..self.slots.len()).for_each(|slot| self.discard(&stale, slot));
        Ok(())
    }

    /// Drops what is stale of a slot, and with it the memory that was bound. It is made again when the slot
    /// runs next.
    fn discard(&mut self, stale: &Stale, slot: usize) {
        stale.dispatches.iter().for_each(|index| self.commands[*index].bindings[slot] = None);
        let Slot { transfers, stale: all, .. } = &mut self.slots[slot];
        stale.inputs.iter().for_each(|input| transfers.before[*input] = None);
        stale.outputs.iter().for_each(|output| transfers.after[*output] = None);
        all.add(stale);
    }

    /// Returns the dispatches that bind other memory than when `before` was used in place.
    fn changed_since(&self, before: &InPlace) -> BTreeSet<usize> {
        let (plan, now) = (&self.memory.loaded.plan, &self.memory.in_place);
        let mut changed = BTreeSet::new();
        for (index, _) in before.inputs.iter().zip(&now.inputs).enumerate().filter(|(_, (before, now))| before != now) {
            let range = BufferRange { buffer: PlanBuffer::Input(index), offset: 0, size: plan.inputs[index] };
            changed.extend(plan.uses(&range, 0));
        }
        let outputs = before.outputs.iter().zip(&now.outputs).enumerate();
        for (index, (before, now)) in outputs.filter(|(_, (before, now))| before != now) {
            let first = before.as_ref().or(now.as_ref()).map_or(0, |(first, _)| *first);
            changed.extend(plan.uses(&plan.outputs[index], first));
        }
        changed
    }

    /// Brings the bind groups and transfers of a slot up to date.
    pub(super) fn refresh(&mut self, slot: usize) -> Result<(), GpuError> {
        if !self.slots[slot].stale.is_empty() {
            let made = self.make(&self.bindings, &self.slots[slot].stale, slot)?;
            self.take_over(made, slot);
            self.slots[slot].stale = Stale::default();
        }
        Ok(())
    }

    /// Makes what is stale of a slot again.
    fn make(&self, bindings: &Bindings, stale: &Stale, slot: usize) -> Result<Made, GpuError> {
        let memory = &self.memory;
        let made = self.device.scoped(|| {
            let before = stale.inputs.iter().map(|input| Ok((*input, bindings.before(memory, *input)?)));
            let after = stale.outputs.iter().map(|output| Ok((*output, bindings.after(memory, slot, *output)?)));
            Ok(Made {
                groups: stale.dispatches.iter().map(|index| (*index, memory.bind(slot, *index))).collect(),
                before: before.collect::<Result<_, GpuError>>()?,
                after: after.collect::<Result<_, GpuError>>()?,
            })
        });
        made.and_then(|made| made)
    }

    fn take_over(&mut self, made: Made, slot: usize) {
        for (index, group) in made.groups {
            self.commands[index].bindings[slot] = Some(group);
        }
        let transfers = &mut self.slots[slot].transfers;
        made.before.into_iter().for_each(|(input, transfer)| transfers.before[input] = transfer);
        made.after.into_iter().for_each(|(output, transfer)| transfers.after[output] = transfer);
    }
}

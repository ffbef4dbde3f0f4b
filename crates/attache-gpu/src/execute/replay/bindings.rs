//! What the caller has bound to the inputs and outputs of a recording, and how its runs reach it: dispatches use it where
//! it is, or copies on the device before and after them move it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::Ordering;

use ash::vk;

use crate::bind::{
    Access, BoundTensor, DeviceMemory, DeviceSemaphore, InputBinding, MemoryBinding, OutputBinding, Submitting, usage,
};
use crate::device::Device;
use crate::kernel::GpuError;
use crate::plan::{BoundRange, BufferRange, Dispatch, InPlace, Plan, PlanBuffer};

/// Memory that an input or output is bound to. Everything has been checked.
pub(super) struct Bound {
    pub(super) binding: MemoryBinding,
    /// The bytes of the memory that runs use.
    pub(super) range: Range<usize>,
    /// How runs reach it. Set when all bindings are known.
    pub(super) access: Access,
}

/// What is bound to each input and output of a recording.
#[derive(Clone, Default)]
pub(super) struct Bindings {
    pub(super) inputs: Vec<Option<Bound>>,
    pub(super) outputs: Vec<Option<Bound>>,
    /// For each output, the first dispatch that uses the memory it is bound to; `None` if none does.
    first: Vec<Option<usize>>,
    /// The dispatches that run in another form, as indices into [`Plan::in_place`].
    forms: Vec<usize>,
    /// How each dispatch runs; empty if all run as they are.
    steps: Vec<Step>,
}

/// How a dispatch runs, see [`Bindings::form`] and [`Bindings::needs_barrier`].
#[derive(Clone, Copy)]
struct Step {
    form: Option<usize>,
    needs_barrier: bool,
}

/// Returns how each dispatch runs if those of `forms` run in another form.
fn steps(plan: &Plan, forms: &[usize]) -> Vec<Step> {
    let step =
        |(index, dispatch): (usize, &Dispatch)| Step { form: Some(index), needs_barrier: dispatch.needs_barrier };
    let mut steps: Vec<Step> = plan.dispatches.iter().enumerate().map(step).collect();
    for form in forms {
        let in_place = &plan.in_place[*form];
        steps[in_place.dispatch].form = None;
        steps[in_place.place()].form = Some(plan.dispatches.len() + form);
    }
    let mut is_due = false;
    for step in &mut steps {
        step.needs_barrier |= is_due;
        is_due = step.form.is_none() && step.needs_barrier;
    }
    steps
}

/// What the division of a run into pieces depends on: for each input and output, how runs reach the memory, and whether it
/// is shared with other users and is memory of the host; and which dispatches run in another form.
pub(super) type Shape = (Vec<Option<(Access, bool, bool)>>, Vec<usize>);

/// The values that a run waits for, or those that it sets. Their order is that in which semaphores are locked.
pub(super) type Values = BTreeMap<vk::Semaphore, (DeviceSemaphore, u64)>;

impl Clone for Bound {
    fn clone(&self) -> Self {
        Self { binding: self.binding.same(), range: self.range.clone(), access: self.access }
    }
}

impl Bound {
    pub(super) fn memory(&self) -> &DeviceMemory {
        &self.binding.memory
    }

    pub(super) fn raw(&self) -> vk::Buffer {
        self.memory().buffer().raw()
    }

    pub(super) fn info(&self) -> vk::DescriptorBufferInfo {
        let Range { start, end } = self.range;
        vk::DescriptorBufferInfo { buffer: self.raw(), offset: start as u64, range: (end - start) as u64 }
    }

    /// Whether both are the same range of the same memory.
    fn is_same(&self, other: &Self) -> bool {
        self.memory().is_same(other.memory()) && self.range == other.range
    }

    fn overlaps(&self, other: &Self) -> bool {
        let is_apart = self.range.end <= other.range.start || other.range.end <= self.range.start;
        self.memory().is_same(other.memory()) && !is_apart
    }

    /// Returns how runs reach the memory if no other binding stands in the way. Devices that have memory of their own
    /// copy memory of the host, which kernels may read many times.
    fn usual_access(&self, device: &Device) -> Access {
        let is_unified = device.vulkan().is_some_and(|vulkan| vulkan.is_unified());
        let is_near = is_unified || !self.memory().buffer().is_host();
        let is_aligned = self.range.start.is_multiple_of(device.limits().alignment);
        if is_near && is_aligned { Access::InPlace } else { Access::Copy }
    }
}

fn check(device: &Device, (binding, tensor): (MemoryBinding, BoundTensor)) -> Result<Bound, GpuError> {
    let range = binding.range(device, &tensor)?;
    Ok(Bound { binding, range, access: Access::Copy })
}

/// Returns the error for memory of a device of the caller's.
fn not_replayed(what: &str) -> GpuError {
    usage(format!(
        "a {what} is bound on a device of the caller's, for a delegate that is made with GpuDelegate::with_device; on a device \
         that the delegate opens, bind DeviceMemory"
    ))
}

impl Bindings {
    pub(super) fn new(inputs: usize, outputs: usize) -> Self {
        let (inputs, first) = (vec![None; inputs], vec![None; outputs]);
        Self { inputs, outputs: vec![None; outputs], first, forms: Vec::new(), steps: Vec::new() }
    }

    /// Whether nothing is bound.
    pub(super) fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }

    /// Returns an iterator over everything that is bound.
    pub(super) fn all(&self) -> impl Iterator<Item = &Bound> {
        self.inputs.iter().chain(&self.outputs).flatten()
    }

    /// Returns the bindings with another one for an input, or none.
    pub(super) fn with_input(
        &self,
        device: &Device,
        plan: &Plan,
        (input, bound): (usize, Option<(InputBinding, BoundTensor)>),
    ) -> Result<Self, GpuError> {
        let bound = bound.map(|(binding, tensor)| match binding {
            InputBinding::Memory(binding) => check(device, (binding, tensor)),
            InputBinding::Buffer(_) => Err(not_replayed("wgpu buffer")),
            InputBinding::Texture(_) => Err(not_replayed("texture")),
        });
        let mut other = self.clone();
        other.inputs[input] = bound.transpose()?;
        other.settle(device, plan)?;
        Ok(other)
    }

    /// Returns the bindings with another one for an output, or none.
    pub(super) fn with_output(
        &self,
        device: &Device,
        plan: &Plan,
        (output, bound): (usize, Option<(OutputBinding, BoundTensor)>),
    ) -> Result<Self, GpuError> {
        let bound = bound.map(|(binding, tensor)| match binding {
            OutputBinding::Memory(binding) => check(device, (binding, tensor)),
            OutputBinding::Buffer(_) => Err(not_replayed("wgpu buffer")),
            OutputBinding::Texture(_) => Err(not_replayed("texture")),
        });
        let mut other = self.clone();
        other.outputs[output] = bound.transpose()?;
        other.settle(device, plan)?;
        Ok(other)
    }

    /// Decides how runs reach everything that is bound. Fails if outputs have bytes in common, or if an output is a copy of
    /// an input that has bytes of its memory.
    fn settle(&mut self, device: &Device, plan: &Plan) -> Result<(), GpuError> {
        for (index, bound) in self.inputs.iter_mut().enumerate() {
            let Some(bound) = bound else { continue };
            // An output that has the elements of an input is copied to the host from the recording's own memory.
            let outputs = plan.outputs.iter().zip(&self.outputs);
            let mut to_host = outputs.filter(|(_, output)| output.is_none()).map(|(range, _)| range.buffer);
            let is_read = to_host.any(|buffer| buffer == PlanBuffer::Input(index));
            // Another output that is copied to the memory after the run may come before it.
            let is_own = |range: &BufferRange| range.buffer == PlanBuffer::Input(index);
            let mut others = plan.outputs.iter().zip(&self.outputs).filter(|(range, _)| !is_own(range));
            let is_overwritten = plan.outputs.iter().any(is_own)
                && others.any(|(_, output)| output.as_ref().is_some_and(|output| output.overlaps(bound)));
            bound.access = if is_read || is_overwritten { Access::Copy } else { bound.usual_access(device) };
        }
        self.forms = (0..plan.in_place.len()).filter(|form| self.is_in_place(plan, *form)).collect();
        self.steps = if self.forms.is_empty() { Vec::new() } else { steps(plan, &self.forms) };
        for index in 0..self.outputs.len() {
            let Some(bound) = &self.outputs[index] else { continue };
            let mut others = self.outputs.iter().enumerate().filter(|(other, _)| *other != index);
            if others.any(|(_, other)| other.as_ref().is_some_and(|other| other.overlaps(bound))) {
                return Err(usage("two outputs are bound to ranges of memory that overlap"));
            }
            let is_of = |form: &InPlace, input| [form.input, form.output] == [input, index];
            let is_updated = |input| self.forms.iter().any(|form| is_of(&plan.in_place[*form], input));
            let mut inputs = self.inputs.iter().enumerate().filter_map(|(input, bound)| Some((input, bound.as_ref()?)));
            let is_read = inputs.any(|(input, other)| other.overlaps(bound) && !is_updated(input));
            let is_near = bound.usual_access(device) == Access::InPlace;
            let first = plan.first_use(index).filter(|_| is_near && !is_read);
            let source = match plan.outputs[index].buffer {
                PlanBuffer::Input(input) => self.inputs[input].as_ref(),
                PlanBuffer::Bank(_) | PlanBuffer::Weights => None,
            };
            if source.is_some_and(|source| source.access == Access::InPlace && source.overlaps(bound)) {
                return Err(usage("the output has the elements of an input that is bound to bytes of the same memory"));
            }
            self.first[index] = first;
            let access = if first.is_some() { Access::InPlace } else { Access::Copy };
            self.outputs[index].iter_mut().for_each(|bound| bound.access = access);
        }
        Ok(())
    }

    /// Whether a dispatch can run in its other form: the input and the output are bound to the same memory, which is used
    /// where it is and by no other input.
    fn is_in_place(&self, plan: &Plan, form: usize) -> bool {
        let form = &plan.in_place[form];
        let (Some(from), Some(to)) = (&self.inputs[form.input], &self.outputs[form.output]) else { return false };
        let mut others = self.inputs.iter().enumerate().filter(|(index, _)| *index != form.input);
        let is_sole = !others.any(|(_, other)| other.as_ref().is_some_and(|other| other.overlaps(to)));
        let is_there = from.access == Access::InPlace && plan.first_use(form.output) == Some(form.dispatch);
        from.is_same(to) && is_sole && is_there
    }

    /// Returns in which form a dispatch runs: its index, or that of another form, among [`Plan::all_dispatches`]. `None` if it
    /// is left out.
    pub(super) fn form(&self, dispatch: usize) -> Option<usize> {
        self.steps.get(dispatch).map_or(Some(dispatch), |step| step.form)
    }

    /// Whether a barrier is needed before a dispatch: its own, or that of the dispatches before it that are left out.
    pub(super) fn needs_barrier(&self, plan: &Plan, dispatch: usize) -> bool {
        self.steps.get(dispatch).map_or(plan.dispatches[dispatch].needs_barrier, |step| step.needs_barrier)
    }

    /// Returns what a dispatch binds in the form in which it runs.
    pub(super) fn bound<'a>(&self, plan: &'a Plan, dispatch: usize) -> &'a [BoundRange] {
        let Some(form) = self.form(dispatch) else { return &[] };
        let other = form.checked_sub(plan.dispatches.len());
        other.map_or(&plan.dispatches[dispatch], |form| &plan.in_place[form].form).bindings.as_slice()
    }

    pub(super) fn shape(&self) -> Shape {
        let shape = |bound: &Bound| {
            let buffer = bound.memory().buffer();
            (bound.access, buffer.other_users().is_some(), buffer.is_host())
        };
        (self.inputs.iter().chain(&self.outputs).map(|bound| bound.as_ref().map(shape)).collect(), self.forms.clone())
    }

    /// Whether something is done before the dispatches of a run: copies of inputs, or taking over shared memory.
    pub(super) fn has_before(&self) -> bool {
        let is_copied = self.inputs.iter().flatten().any(|bound| bound.access == Access::Copy);
        is_copied || self.all().any(|bound| bound.memory().buffer().other_users().is_some())
    }

    /// Whether something is done after the dispatches of a run: copies of outputs, leaving shared memory to others, or
    /// making memory visible to the host.
    pub(super) fn has_after(&self) -> bool {
        let is_copied = self.outputs.iter().flatten().any(|bound| bound.access == Access::Copy);
        let is_seen = |bound: &Bound| bound.memory().buffer().is_host();
        let is_shared = self.all().any(|bound| bound.memory().buffer().other_users().is_some());
        is_copied || is_shared || self.outputs.iter().flatten().any(is_seen)
    }

    /// Returns the memory in place of which a dispatch uses a range of the plan; `None` if it uses the range.
    pub(super) fn in_place(&self, plan: &Plan, dispatch: usize, range: &BufferRange) -> Option<&Bound> {
        let bound = match range.buffer {
            PlanBuffer::Input(input) => self.inputs[input].as_ref(),
            PlanBuffer::Bank(_) => {
                let mut outputs = plan.outputs.iter().zip(&self.outputs).zip(&self.first);
                let found = outputs.find(|((output, bound), first)| {
                    *output == range && bound.is_some() && first.is_some_and(|first| dispatch >= first)
                });
                found.and_then(|((_, bound), _)| bound.as_ref())
            }
            PlanBuffer::Weights => None,
        };
        bound.filter(|bound| bound.access == Access::InPlace)
    }

    /// Whether a dispatch uses memory that is bound.
    pub(super) fn uses(&self, plan: &Plan, dispatch: usize) -> bool {
        self.bound(plan, dispatch).iter().any(|bound| self.in_place(plan, dispatch, &bound.range).is_some())
    }

    /// Returns the dispatches that use other memory than with `before`, which has the same shape.
    pub(super) fn changed(&self, plan: &Plan, before: &Self) -> Vec<usize> {
        let is_other = |dispatch: usize, range: &BufferRange| match (
            self.in_place(plan, dispatch, range),
            before.in_place(plan, dispatch, range),
        ) {
            (Some(now), Some(before)) => !now.is_same(before),
            (now, before) => now.is_some() != before.is_some(),
        };
        let changed =
            |dispatch: &usize| self.bound(plan, *dispatch).iter().any(|bound| is_other(*dispatch, &bound.range));
        (0..plan.dispatches.len()).filter(changed).collect()
    }

    /// Returns the values that the next run waits for, and those that it sets.
    pub(super) fn semaphores(&self) -> Result<(Values, Values), GpuError> {
        let (mut waits, mut signals) = (Values::new(), Values::new());
        for Bound { binding, .. } in self.all() {
            let runs = binding.runs.load(Ordering::Relaxed);
            let next =
                |value: u64| value.checked_add(runs).ok_or_else(|| usage("the values of a semaphore are used up"));
            let add = |all: &mut Values, (semaphore, value): &(DeviceSemaphore, u64)| -> Result<(), GpuError> {
                let (_, most) = all.entry(semaphore.raw().for_run()).or_insert((semaphore.clone(), 0));
                *most = next(*value)?.max(*most);
                Ok(())
            };
            binding.wait.iter().try_for_each(|wait| add(&mut waits, wait))?;
            binding.signal.iter().try_for_each(|signal| add(&mut signals, signal))?;
        }
        Ok((waits, signals))
    }

    /// Returns the permissions to submit a run, of all memory that needs one.
    pub(super) fn submitting(&self) -> Result<Vec<Submitting<'_>>, GpuError> {
        // All recordings ask in the same order, so that none waits for another one.
        let memory: BTreeMap<usize, &DeviceMemory> =
            self.all().map(|bound| (bound.memory().address(), bound.memory())).collect();
        memory.into_values().filter_map(|memory| memory.submitting().transpose()).collect()
    }

    /// Returns the bytes that each run copies between memory of the host and of the device.
    pub(super) fn copied_bytes(&self) -> u64 {
        let is_copied = |bound: &&Bound| bound.access == Access::Copy && bound.memory().buffer().is_host();
        self.all().filter(is_copied).map(|bound| bound.range.len() as u64).sum()
    }

    /// Counts a run.
    pub(super) fn count_run(&self) {
        for bound in self.all() {
            bound.binding.runs.fetch_add(1, Ordering::Relaxed);
        }
    }
}

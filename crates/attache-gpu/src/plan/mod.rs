//! The plan of a program: everything that a run executes, as plain data. A plan can be stored, and an
//! interface records it as commands of a device.
//!
//! [`Plan`] contains shader sources, sizes and ranges of named buffers. It contains no program, no device and no
//! objects of a graphics API. Details for reports are separate, in [`PlanReport`], and so are the bytes of the weights:
//! the plan contains the range of each weight in one block, and a [`WeightSource`] supplies the block.

mod cost;
mod hazards;
mod in_place;
mod report;
mod summary;
mod weights;

use std::ops::Range;

use serde::{Deserialize, Serialize};

pub use cost::DispatchCost;
pub use in_place::InPlace;
pub use report::{PlanReport, PlannedDispatch, PlannedInPlace};
pub use summary::{DispatchSummary, PlanSummary, ValueFormat};
pub use weights::{Weight, WeightSource};

use crate::kernel::{DeviceLimits, GpuError, GpuErrorKind};
use crate::layout::ALIGNMENT;
pub(crate) use weights::padded;

/// Maximum number of work groups along an axis, which every device supports.
const MAX_GROUPS: u32 = 65535;

/// Everything that a run executes, as plain data: shaders, dispatches, and the sizes and uses of buffers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The WGSL source of each shader, without duplicates.
    pub shaders: Vec<String>,
    /// The dispatches, in the order in which they execute.
    pub dispatches: Vec<Dispatch>,
    /// Other forms of dispatches, for runs in which inputs and outputs share memory; ascending by dispatch.
    pub in_place: Vec<InPlace>,
    /// The size of each input in bytes.
    pub inputs: Vec<usize>,
    /// The location of each output after a run.
    pub outputs: Vec<BufferRange>,
    /// The size of each bank of intermediate values in bytes.
    pub banks: Vec<usize>,
    /// The constants and packed weights in the block of weights, ascending by offset.
    pub weights: Vec<Weight>,
}

/// One dispatch of a compute shader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dispatch {
    /// The shader, as an index into [`Plan::shaders`].
    pub shader: usize,
    /// Number of work groups along x, y and z.
    pub groups: [u32; 3],
    /// The 32-bit words of the parameters, bound at binding 0. Empty if the parameters are literals in the
    /// shader's source.
    pub params: Vec<u32>,
    /// The buffer ranges of the bindings from 1 on, in order.
    pub bindings: Vec<BoundRange>,
    /// Whether a barrier is placed before the dispatch. It is if, since the last barrier, a dispatch wrote
    /// memory that this one uses or read memory that this one writes, or if more ranges were used than hazard
    /// tracking compares.
    pub needs_barrier: bool,
}

/// A range of a buffer that a dispatch binds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundRange {
    /// The range that is bound.
    pub range: BufferRange,
    /// Whether the dispatch writes the range. If not, it only reads it.
    pub writes: bool,
}

/// A range of one of a plan's buffers, in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferRange {
    /// The buffer that contains the range.
    pub buffer: PlanBuffer,
    /// The offset of the range in the buffer, in bytes.
    pub offset: usize,
    /// The size of the range in bytes, without padding. Devices bind the size rounded up to a multiple of
    /// four bytes.
    pub size: usize,
}

/// One of the buffers that a plan uses. A recording allocates them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlanBuffer {
    /// The buffer of the program's n-th input, counted from 0.
    Input(usize),
    /// The n-th bank of intermediate values, counted from 0.
    Bank(usize),
    /// The buffer with the block of weights.
    Weights,
}

impl BufferRange {
    /// Whether two ranges overlap, each padded to the size that devices bind.
    fn overlaps(&self, other: &Self) -> bool {
        let end = |range: &Self| range.offset + padded(range.size);
        self.buffer == other.buffer && self.offset < end(other) && other.offset < end(self)
    }
}

impl Plan {
    /// Serializes the plan to bytes. [`Plan::from_bytes`] is the inverse.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("plain data becomes bytes")
    }

    /// Deserializes a plan from the bytes that [`Plan::to_bytes`] returned, and checks it.
    ///
    /// # Errors
    ///
    /// If the bytes are not a plan, or if the plan accesses memory outside of its own buffers.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, GpuError> {
        let wrong = |what: String| GpuError::new(GpuErrorKind::Failed, format!("a stored plan is damaged: {what}"));
        let (plan, rest): (Self, _) = postcard::take_from_bytes(bytes).map_err(|error| wrong(error.to_string()))?;
        if !rest.is_empty() {
            return Err(wrong(format!("{} bytes follow it", rest.len())));
        }
        plan.check().map_err(wrong)?;
        Ok(plan)
    }

    /// Returns an error if weights overlap, if a dispatch, another form of one or an output refers to a shader or a range that
    /// the plan does not have, or if a form is of no dispatch, or of an input and an output of different sizes.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut end = 0;
        for weight in &self.weights {
            let next = checked_end(weight.offset, weight.size);
            end = next.filter(|_| weight.offset >= end).ok_or_else(|| format!("{} overlaps others", weight.name))?;
        }
        let inside = |range: &BufferRange| {
            let size = match range.buffer {
                PlanBuffer::Input(index) => self.inputs.get(index).copied(),
                PlanBuffer::Bank(index) => self.banks.get(index).copied(),
                // Recordings look up the weight that starts at the offset.
                PlanBuffer::Weights => {
                    let found = self.weights.binary_search_by_key(&range.offset, |weight| weight.offset);
                    found.ok().map(|index| range.offset + self.weights[index].size)
                }
            };
            let (end, size) = (checked_end(range.offset, range.size), size.and_then(|size| checked_end(0, size)));
            end.zip(size).is_some_and(|(end, size)| end <= size)
        };
        for (index, dispatch) in self.all_dispatches().enumerate() {
            if dispatch.shader >= self.shaders.len() || !dispatch.bindings.iter().all(|bound| inside(&bound.range)) {
                return Err(format!("dispatch {index} uses what isn't there"));
            }
        }
        let mut places: Vec<usize> =
            self.in_place.iter().flat_map(|form| [Some(form.dispatch), form.reader]).flatten().collect();
        places.sort_unstable();
        let are_apart = places.windows(2).all(|pair| pair[0] != pair[1]);
        if !are_apart || !self.in_place.iter().all(|form| form.fits(self)) {
            return Err(
                "an input and an output that do not fit each other share memory, or dispatches that do not".to_owned()
            );
        }
        match self.outputs.iter().position(|output| !inside(output)) {
            Some(output) => Err(format!("output {output} lies outside of its buffer")),
            None => Ok(()),
        }
    }

    /// Returns an error if a dispatch or a buffer is larger than a device of these limits or the plan itself allows.
    pub(crate) fn check_limits(&self, limits: &DeviceLimits) -> Result<(), String> {
        let fits = |bound: &BoundRange| {
            let is_weight = bound.range.buffer == PlanBuffer::Weights;
            padded(bound.range.size) <= limits.max_binding_bytes
                && (is_weight || bound.range.offset.is_multiple_of(limits.alignment))
        };
        for (index, dispatch) in self.all_dispatches().enumerate() {
            if !dispatch.bindings.iter().all(fits) {
                return Err(format!("dispatch {index} binds more than the device allows"));
            }
            // Each work group reads or writes at least one byte. Selections write fewer than they read.
            let groups = dispatch.groups.iter().map(|groups| *groups as usize).try_fold(1usize, usize::checked_mul);
            let bound = dispatch.bindings.iter().map(|bound| padded(bound.range.size));
            let is_countable = dispatch.groups.iter().all(|groups| *groups <= MAX_GROUPS);
            if !is_countable || groups.is_none_or(|groups| groups > bound.sum()) {
                return Err(format!("dispatch {index} has more work groups than work"));
            }
        }
        let bound = self.all_dispatches().flat_map(|dispatch| &dispatch.bindings).map(|bound| &bound.range);
        let mut used = vec![0; self.banks.len()];
        for range in bound.chain(&self.outputs) {
            if let PlanBuffer::Bank(bank) = range.buffer {
                used[bank] = used[bank].max(range.offset + padded(range.size));
            }
        }
        let most = |used: usize| used.next_multiple_of(limits.alignment.max(ALIGNMENT));
        match self.banks.iter().zip(used).position(|(bytes, used)| *bytes > most(used)) {
            Some(bank) => Err(format!("bank {bank} is larger than what is used of it")),
            None => Ok(()),
        }
    }

    /// Returns an error if a dispatch reads a buffer that it writes, which some interfaces do not allow.
    pub(crate) fn check_apart(&self) -> Result<(), String> {
        for (index, dispatch) in self.all_dispatches().enumerate() {
            let (written, read): (Vec<_>, Vec<_>) = dispatch.bindings.iter().partition(|bound| bound.writes);
            if read.iter().any(|read| written.iter().any(|written| written.range.buffer == read.range.buffer)) {
                return Err(format!("dispatch {index} reads a buffer that it writes"));
            }
        }
        Ok(())
    }

    /// Returns the size of the block of weights in bytes, including padding.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        self.weights.last().map_or(0, |weight| weight.offset + padded(weight.size))
    }

    /// Returns the range of each weight in the block of weights, including padding.
    pub(crate) fn weight_ranges(&self) -> Vec<Range<usize>> {
        self.weights.iter().map(|weight| weight.offset..weight.offset + padded(weight.size)).collect()
    }

    /// Returns the index of the weight at an offset of the block of weights. Ranges of bindings and outputs start
    /// where a weight starts.
    pub(crate) fn weight_at(&self, offset: usize) -> usize {
        self.weights.partition_point(|weight| weight.offset < offset)
    }

    /// Returns an iterator over the dispatches, and over their other forms after them.
    pub(crate) fn all_dispatches(&self) -> impl Iterator<Item = &Dispatch> {
        self.numbered_dispatches().map(|(_, dispatch)| dispatch)
    }

    /// Returns an iterator like [`Plan::all_dispatches`], with the index of the dispatch in whose place each one is.
    pub(crate) fn numbered_dispatches(&self) -> impl Iterator<Item = (usize, &Dispatch)> {
        let forms = self.in_place.iter().map(|in_place| (in_place.place(), &in_place.form));
        self.dispatches.iter().enumerate().chain(forms)
    }

    /// Returns, for each of [`Plan::all_dispatches`], the source of its shader and the number of buffers that it binds after
    /// its parameters.
    pub(crate) fn sources(&self) -> Vec<(&str, usize)> {
        let source = |dispatch: &Dispatch| (self.shaders[dispatch.shader].as_str(), dispatch.bindings.len());
        self.all_dispatches().map(source).collect()
    }
}

/// Returns the end of a range that starts at `offset` and whose `size` in bytes is padded to the size that
/// devices bind; `None` on overflow.
fn checked_end(offset: usize, size: usize) -> Option<usize> {
    size.max(4).checked_next_multiple_of(4)?.checked_add(offset)
}

#[cfg(test)]
mod tests {
    use attache_base::Constant;
    use attache_gpu_ir::{Expression, Primitive, Program, Scalar};

    use super::*;
    use crate::kernel::Precision;

    /// Returns the plan of `x * c + x`, where `c` is a constant of the shape of `x`.
    fn plan() -> Plan {
        let mut program = Program::default();
        let x = program.input(Scalar::F32, [2, 4].into());
        let constant = program.constant(Scalar::F32, Constant::from_values([2, 4], &[2.0f32; 8]));
        let expression = Expression::Input(0).multiply(Expression::Input(1)).add(Expression::Input(0));
        let map = Primitive::Map { expression, shape: [2, 4].into(), scalar: Scalar::F32 };
        program.outputs = program.step(map, &[x, constant], 0).unwrap();
        PlanReport::new(program, Precision::F32, &DeviceLimits::default(), true).unwrap().plan().unwrap()
    }

    #[test]
    fn plans_survive_as_bytes() {
        let plan = plan();
        assert_eq!((plan.dispatches.len(), plan.inputs.as_slice(), plan.weights.len()), (1, &[32][..], 1));
        assert_eq!(Plan::from_bytes(&plan.to_bytes()).unwrap(), plan);
    }

    #[test]
    fn damaged_plans_are_rejected() {
        let plan = plan();
        let bytes = plan.to_bytes();
        for length in 0..bytes.len() {
            assert!(Plan::from_bytes(&bytes[..length]).is_err(), "{length} of {} bytes", bytes.len());
        }
        let rejected = |change: fn(&mut Plan)| {
            let mut other = plan.clone();
            change(&mut other);
            Plan::from_bytes(&other.to_bytes()).unwrap_err().to_string()
        };
        assert!(rejected(|plan| plan.dispatches[0].shader = 1).contains("dispatch 0"));
        assert!(rejected(|plan| plan.dispatches[0].bindings[0].range.offset = usize::MAX).contains("dispatch 0"));
        assert!(rejected(|plan| plan.outputs[0].size += 1).contains("output 0"));
        assert!(rejected(|plan| plan.weights[0].size = usize::MAX).contains("overlaps"));
        let within_a_weight = rejected(|plan| {
            let weight = |bound: &&mut BoundRange| bound.range.buffer == PlanBuffer::Weights;
            let bound = plan.dispatches[0].bindings.iter_mut().find(weight).unwrap();
            (bound.range.offset, bound.range.size) = (4, 4);
        });
        assert!(within_a_weight.contains("dispatch 0"), "{within_a_weight}");
        assert!(rejected(|plan| plan.weights.push(plan.weights[0].clone())).contains("overlaps"));
    }
}

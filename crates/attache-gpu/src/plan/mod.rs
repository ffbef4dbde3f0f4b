//! The plan: everything that happens at a run, as plain data. It can be stored, and a recorder turns it into commands.
//!
//! [`Plan`] holds texts, numbers and ranges of named buffers; no program, no device and nothing of a graphics interface. What
//! people want to know of it is apart, in [`PlanReport`], and so are the bytes of its weights: the plan says where in a block
//! each of them lies, and a [`WeightSource`] gives the block.

mod cost;
mod hazards;
mod report;
mod weights;

use serde::{Deserialize, Serialize};

pub use cost::Work;
pub use report::{PlanReport, PlannedDispatch};
pub use weights::{Weight, WeightSource};

use crate::kernel::{GpuError, GpuErrorKind};
pub(crate) use weights::padded;

/// Everything that happens at a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// WGSL of the shaders, each text once.
    pub shaders: Vec<String>,
    /// The dispatches, in order.
    pub dispatches: Vec<Dispatch>,
    /// Bytes of each input.
    pub inputs: Vec<usize>,
    /// Where each output lies after a run.
    pub outputs: Vec<BufferRange>,
    /// Bytes of each bank of intermediate values.
    pub banks: Vec<usize>,
    /// What lies in the block of weights, in order.
    pub weights: Vec<Weight>,
}

/// One dispatch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dispatch {
    /// The shader, by its place in [`Plan::shaders`].
    pub shader: usize,
    /// Work groups along each axis.
    pub groups: [u32; 3],
    /// The parameters, where the text doesn't hold them; they are bound at 0.
    pub params: Vec<u32>,
    /// What is bound from 1 on.
    pub bindings: Vec<BoundRange>,
    /// Whether a barrier must come before it: since the last one, a dispatch wrote what this one uses, or read what this one
    /// writes.
    pub needs_barrier: bool,
}

/// A range of a buffer that a dispatch binds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundRange {
    /// The range.
    pub range: BufferRange,
    /// Whether the dispatch writes it.
    pub writes: bool,
}

/// A range of a buffer, in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferRange {
    /// The buffer.
    pub buffer: Buffer,
    /// Where it begins.
    pub offset: usize,
    /// Its bytes. What a device binds is a multiple of four.
    pub size: usize,
}

/// A buffer by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Buffer {
    /// The n-th input.
    Input(usize),
    /// The n-th bank of intermediate values.
    Bank(usize),
    /// The block of weights.
    Weights,
}

impl BufferRange {
    /// Whether two ranges share a byte, as devices bind them.
    fn overlaps(&self, other: &Self) -> bool {
        let end = |range: &Self| range.offset + padded(range.size);
        self.buffer == other.buffer && self.offset < end(other) && other.offset < end(self)
    }
}

impl Plan {
    /// The plan as bytes, which [`Plan::from_bytes`] reads.
    pub fn to_bytes(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("plain data becomes bytes")
    }

    /// The plan that these bytes hold.
    ///
    /// # Errors
    ///
    /// Where they aren't a plan, or one that reaches outside of its own buffers.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, GpuError> {
        let wrong = |what: String| GpuError::new(GpuErrorKind::Failed, format!("a stored plan is damaged: {what}"));
        let (plan, rest): (Self, _) = postcard::take_from_bytes(bytes).map_err(|error| wrong(error.to_string()))?;
        if !rest.is_empty() {
            return Err(wrong(format!("{} bytes follow it", rest.len())));
        }
        plan.check().map_err(wrong)?;
        Ok(plan)
    }

    /// What reaches outside of the plan, if anything.
    fn check(&self) -> Result<(), String> {
        let mut end = 0;
        for weight in &self.weights {
            let next = checked_end(weight.offset, weight.size);
            end = next.filter(|_| weight.offset >= end).ok_or_else(|| format!("{} overlaps others", weight.name))?;
        }
        let inside = |range: &BufferRange| {
            let size = match range.buffer {
                Buffer::Input(index) => self.inputs.get(index).copied(),
                Buffer::Bank(index) => self.banks.get(index).copied(),
                // Recordings look for the weight that begins there.
                Buffer::Weights => {
                    let found = self.weights.binary_search_by_key(&range.offset, |weight| weight.offset);
                    found.ok().map(|index| range.offset + self.weights[index].size)
                }
            };
            let (end, size) = (checked_end(range.offset, range.size), size.and_then(|size| checked_end(0, size)));
            end.zip(size).is_some_and(|(end, size)| end <= size)
        };
        for (index, dispatch) in self.dispatches.iter().enumerate() {
            if dispatch.shader >= self.shaders.len() || !dispatch.bindings.iter().all(|bound| inside(&bound.range)) {
                return Err(format!("dispatch {index} uses what isn't there"));
            }
        }
        match self.outputs.iter().position(|output| !inside(output)) {
            Some(output) => Err(format!("output {output} lies outside of its buffer")),
            None => Ok(()),
        }
    }

    /// Bytes of the block of weights.
    pub fn weight_bytes(&self) -> usize {
        self.weights.last().map_or(0, |weight| weight.offset + padded(weight.size))
    }

    /// The text of each dispatch's shader, and how many buffers that binds after its parameters.
    pub(crate) fn sources(&self) -> Vec<(&str, usize)> {
        let source = |dispatch: &Dispatch| (self.shaders[dispatch.shader].as_str(), dispatch.bindings.len());
        self.dispatches.iter().map(source).collect()
    }
}

/// Where so many bytes end, as devices bind them; `None` where nothing can count that far.
fn checked_end(offset: usize, size: usize) -> Option<usize> {
    size.max(4).checked_next_multiple_of(4)?.checked_add(offset)
}

#[cfg(test)]
mod tests {
    use attache_base::Constant;
    use attache_gpu_ir::{Expression, Primitive, Program, Scalar};

    use super::*;
    use crate::kernel::{Limits, Precision};

    /// `x * c + x`, with a constant as large as x.
    fn plan() -> Plan {
        let mut program = Program::default();
        let x = program.input(Scalar::F32, [2, 4].into());
        let constant = program.constant(Scalar::F32, Constant::from_values([2, 4], &[2.0f32; 8]));
        let expression = Expression::Input(0).multiply(Expression::Input(1)).add(Expression::Input(0));
        let map = Primitive::Map { expression, shape: [2, 4].into(), scalar: Scalar::F32 };
        program.outputs = program.step(map, &[x, constant], 0).unwrap();
        PlanReport::new(program, Precision::F32, &Limits::default(), true).unwrap().plan().unwrap()
    }

    #[test]
    fn plans_survive_as_bytes() {
        let plan = plan();
        assert_eq!((plan.dispatches.len(), plan.inputs.as_slice(), plan.weights.len()), (1, &[32][..], 1));
        assert_eq!(Plan::from_bytes(&plan.to_bytes()).unwrap(), plan);
    }

    #[test]
    fn damaged_plans_are_refused() {
        let plan = plan();
        let bytes = plan.to_bytes();
        for length in 0..bytes.len() {
            assert!(Plan::from_bytes(&bytes[..length]).is_err(), "{length} of {} bytes", bytes.len());
        }
        let refused = |change: fn(&mut Plan)| {
            let mut other = plan.clone();
            change(&mut other);
            Plan::from_bytes(&other.to_bytes()).unwrap_err().to_string()
        };
        assert!(refused(|plan| plan.dispatches[0].shader = 1).contains("dispatch 0"));
        assert!(refused(|plan| plan.dispatches[0].bindings[0].range.offset = usize::MAX).contains("dispatch 0"));
        assert!(refused(|plan| plan.outputs[0].size += 1).contains("output 0"));
        assert!(refused(|plan| plan.weights[0].size = usize::MAX).contains("overlaps"));
        let within_a_weight = refused(|plan| {
            let weight = |bound: &&mut BoundRange| bound.range.buffer == Buffer::Weights;
            let bound = plan.dispatches[0].bindings.iter_mut().find(weight).unwrap();
            (bound.range.offset, bound.range.size) = (4, 4);
        });
        assert!(within_a_weight.contains("dispatch 0"), "{within_a_weight}");
        assert!(refused(|plan| plan.weights.push(plan.weights[0].clone())).contains("overlaps"));
    }
}

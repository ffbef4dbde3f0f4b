//! Weights: a plan's constants and what kernels packed of them, in one block of bytes as the device stores them.

use std::borrow::Cow;

use attache_gpu_ir::{Scalar, Source, ValueId};
use serde::{Deserialize, Serialize};

use super::{Buffer, BufferRange, PlanReport};
use crate::kernel::{GpuError, GpuErrorKind, Storage};
use crate::layout::ALIGNMENT;
use crate::wgsl::Binding;

/// Rounded up to what copies ask for.
pub(crate) fn padded(bytes: usize) -> usize {
    bytes.max(4).next_multiple_of(4)
}

/// One piece of the block of weights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weight {
    /// Of which values it was made, and in which packing, as `%3 f16` or `%3 %4 contract_blocked`.
    pub name: String,
    /// Where in the block it begins.
    pub offset: usize,
    /// Its bytes.
    pub size: usize,
}

impl Weight {
    pub(super) fn range(&self) -> BufferRange {
        BufferRange { buffer: Buffer::Weights, offset: self.offset, size: self.size }
    }
}

/// Gives the block of a plan's weights when a recording asks for it.
pub trait WeightSource: Sync {
    /// As many bytes as [`Plan::weight_bytes`](super::Plan::weight_bytes).
    ///
    /// # Errors
    ///
    /// Where a constant can't be stored on a device.
    fn block(&self) -> Result<Cow<'_, [u8]>, GpuError>;
}

impl WeightSource for Vec<u8> {
    fn block(&self) -> Result<Cow<'_, [u8]>, GpuError> {
        Ok(Cow::Borrowed(self))
    }
}

/// The pieces: constants that shaders read as they are, in the order of the layout, then what kernels packed for themselves,
/// in the order of the dispatches.
pub(super) fn weights(report: &PlanReport) -> Vec<Weight> {
    let mut weights: Vec<Weight> = Vec::new();
    let mut add = |name: String, size: usize| {
        let end = weights.last().map_or(0, |weight| weight.offset + padded(weight.size));
        weights.push(Weight { name, offset: end.next_multiple_of(ALIGNMENT), size });
    };
    for id in &report.layout.constants {
        add(format!("%{} {:?}", id.0, report.storages.of(*id)), report.bytes(*id));
    }
    for dispatch in &report.dispatches {
        let kernel = &report.kernels[dispatch.kernel];
        let first = kernel.prologue.iter().flat_map(|first| &first.inputs);
        let is_constant = |id: &&ValueId| matches!(report.program.value(**id).source, Source::Constant(_));
        let of: Vec<String> =
            kernel.inputs.iter().chain(first).filter(is_constant).map(|id| format!("%{}", id.0)).collect();
        let name = || format!("{} {}", of.join(" "), dispatch.shader.variant);
        for binding in &dispatch.shader.bindings {
            match binding {
                Binding::Packed(numbers) => add(name(), numbers.count() * report.storages.packed().bytes()),
                Binding::Words(words) => add(name(), words.count() * size_of::<u32>()),
                Binding::Read(_) | Binding::Write(..) => {}
            }
        }
    }
    weights
}

impl WeightSource for PlanReport {
    /// Packs them; good until the report's constants are released.
    fn block(&self) -> Result<Cow<'_, [u8]>, GpuError> {
        let weights = weights(self);
        let mut block = Vec::with_capacity(weights.last().map_or(0, |weight| weight.offset + padded(weight.size)));
        let mut offsets = weights.iter().map(|weight| weight.offset);
        let mut push = |bytes: &[u8]| {
            block.resize(offsets.next().unwrap_or(block.len()), 0);
            block.extend_from_slice(bytes);
            block.resize(block.len() - bytes.len() + padded(bytes.len()), 0);
        };
        for id in &self.layout.constants {
            push(&self.constant(*id)?);
        }
        for binding in self.dispatches.iter().flat_map(|dispatch| &dispatch.shader.bindings) {
            match binding {
                Binding::Packed(numbers) => push(&stored(self.storages.packed(), numbers.numbers())),
                Binding::Words(words) => push(bytemuck::cast_slice(words.numbers())),
                Binding::Read(_) | Binding::Write(..) => {}
            }
        }
        Ok(block.into())
    }
}

impl PlanReport {
    /// A constant's bytes as the device stores them.
    fn constant(&self, id: ValueId) -> Result<Cow<'_, [u8]>, GpuError> {
        let (value, storage) = (self.program.value(id), self.storages.of(id));
        let Source::Constant(constant) = &value.source else { unreachable!("the layout lists constants") };
        let unreadable = || GpuError::new(GpuErrorKind::Unsupported, "a constant holds no numbers");
        match value.scalar {
            Scalar::F32 => Ok(stored(storage, &constant.floats().ok_or_else(unreadable)?).into()),
            Scalar::I32 if matches!(storage, Storage::Bytes(_)) => {
                Ok(constant.aligned_bytes().ok_or_else(unreadable)?.to_vec().into())
            }
            Scalar::I32 => {
                let clamped = |integer: i64| integer.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
                let integers = constant.integers().ok_or_else(unreadable)?;
                Ok(integers.into_iter().flat_map(|integer| clamped(integer).to_ne_bytes()).collect::<Vec<_>>().into())
            }
        }
    }
}

/// Real numbers as the device stores them.
fn stored(storage: Storage, numbers: &[f32]) -> Vec<u8> {
    match storage {
        Storage::F32 | Storage::I32 | Storage::Bytes(_) => bytemuck::cast_slice(numbers).to_vec(),
        Storage::Half | Storage::HalfPairs => {
            numbers.iter().flat_map(|number| half::f16::from_f32(*number).to_le_bytes()).collect()
        }
    }
}

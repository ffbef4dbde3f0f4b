//! Packs the weights of a planned program, its constants and packed weights, into one block of bytes in the
//! device's format.

use std::borrow::Cow;

use attache_gpu_ir::{Scalar, Source, ValueId};
use half::slice::HalfFloatSliceExt;

use super::PlanReport;
use crate::kernel::{GpuError, GpuErrorKind, StorageFormat, is_beyond, to_half};
use crate::layout::ALIGNMENT;
use crate::plan::weights::{Weight, WeightSource, padded};
use crate::wgsl::Binding;

/// Returns the name, offset and size of each weight in the block: first the constants that shaders read as
/// they are, in the order of the layout, then the packed weights, in the order of the dispatches.
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
                Binding::Packed(floats) => add(name(), floats.count() * report.storages.packed().bytes()),
                Binding::Words(words) => add(name(), words.count() * size_of::<u32>()),
                Binding::Read(_) | Binding::Write(..) => {}
            }
        }
    }
    weights
}

impl WeightSource for PlanReport {
    /// Packs the weights into a block.
    fn block(&self) -> Result<Cow<'_, [u8]>, GpuError> {
        let weights = weights(self);
        let mut block = Vec::with_capacity(weights.last().map_or(0, |weight| weight.offset + padded(weight.size)));
        let mut pieces = weights.iter();
        // The block is padded to the offset of a weight before the weight is written, and to its padded size
        // afterwards.
        let mut start = |block: &mut Vec<u8>| {
            let offset = pieces.next().map_or(block.len(), |weight| weight.offset);
            block.resize(offset, 0);
            offset
        };
        let end = |block: &mut Vec<u8>, offset: usize| block.resize(offset + padded(block.len() - offset), 0);
        for id in &self.layout.constants {
            let offset = start(&mut block);
            self.store_constant(*id, &mut block)?;
            end(&mut block, offset);
        }
        for binding in self.dispatches.iter().flat_map(|dispatch| &dispatch.shader.bindings) {
            match binding {
                Binding::Packed(floats) => {
                    let offset = start(&mut block);
                    store(self.storages.packed(), floats.elements(), &mut block);
                    end(&mut block, offset);
                }
                Binding::Words(words) => {
                    let offset = start(&mut block);
                    block.extend_from_slice(bytemuck::cast_slice(words.elements()));
                    end(&mut block, offset);
                }
                Binding::Read(_) | Binding::Write(..) => {}
            }
        }
        Ok(block.into())
    }
}

impl PlanReport {
    /// Appends the elements of a constant to the block, in the constant's storage format.
    fn store_constant(&self, id: ValueId, block: &mut Vec<u8>) -> Result<(), GpuError> {
        let (value, storage) = (self.program.value(id), self.storages.of(id));
        let unreadable = || GpuError::new(GpuErrorKind::Unsupported, "a constant has no elements of its type");
        let Source::Constant(constant) = &value.source else { return Err(unreadable()) };
        match value.scalar {
            Scalar::F32 => store(storage, &value.floats().ok_or_else(unreadable)?, block),
            Scalar::I32 if matches!(storage, StorageFormat::Bytes(_)) => {
                block.extend_from_slice(&constant.aligned_bytes().ok_or_else(unreadable)?);
            }
            Scalar::I32 => {
                let clamped = |integer: i64| integer.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
                let integers = constant.integers().ok_or_else(unreadable)?;
                block.extend(integers.into_iter().flat_map(|integer| clamped(integer).to_ne_bytes()));
            }
        }
        Ok(())
    }
}

/// Appends floats to the block in a storage format. With a format of integers they are stored as f32. In 16 bits, finite
/// floats beyond the range become the largest finite ones.
fn store(storage: StorageFormat, floats: &[f32], block: &mut Vec<u8>) {
    match storage {
        StorageFormat::F32 | StorageFormat::I32 | StorageFormat::Bytes(_) => {
            block.extend_from_slice(bytemuck::cast_slice(floats))
        }
        StorageFormat::Half | StorageFormat::HalfPairs => {
            let mut halves = [half::f16::ZERO; 1024];
            for floats in floats.chunks(halves.len()) {
                halves[..floats.len()].convert_from_f32_slice(floats);
                if floats.iter().fold(false, |any, float| any | is_beyond(*float)) {
                    halves.iter_mut().zip(floats).for_each(|(half, float)| *half = to_half(*float));
                }
                block.extend_from_slice(bytemuck::cast_slice(&halves[..floats.len()]));
            }
        }
    }
}

//! What a plan's constants, packed filters and parameters are on the device, piece by piece.

use attache_gpu_ir::{Scalar, Source};

use super::Plan;
use crate::kernel::{GpuError, GpuErrorKind, Storage};
use crate::layout::ALIGNMENT;
use crate::wgsl::Binding;

/// Rounded up to what copies ask for.
pub(crate) fn padded(bytes: usize) -> usize {
    bytes.max(4).next_multiple_of(4)
}

/// Pieces that go to the device together, each at its own aligned offset.
#[derive(Default)]
pub(crate) struct Pieces {
    pub(crate) bytes: Vec<u8>,
    /// Offset and size of each.
    pub(crate) ranges: Vec<(usize, usize)>,
}

impl Pieces {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
        self.ranges.push((self.bytes.len(), padded(bytes.len())));
        self.bytes.extend_from_slice(bytes);
        self.bytes.resize(self.bytes.len().next_multiple_of(4).max(4), 0);
    }

    /// The sizes of all together.
    pub(crate) fn total(&self) -> usize {
        self.ranges.iter().map(|(_, size)| size).sum()
    }

    /// The constants that shaders read as they are, in the order of the layout.
    pub(crate) fn constants(plan: &Plan) -> Result<Self, GpuError> {
        let mut pieces = Self::default();
        for id in &plan.layout.constants {
            let value = plan.program.value(*id);
            let Source::Constant(constant) = &value.source else { unreachable!("the layout lists constants") };
            let unreadable = || GpuError::new(GpuErrorKind::Unsupported, "a constant holds no numbers");
            let storage = plan.storages.of(*id);
            match value.scalar {
                Scalar::F32 => pieces.push(&stored(storage, &constant.floats().ok_or_else(unreadable)?)),
                Scalar::I32 if matches!(storage, Storage::Bytes(_)) => {
                    pieces.push(&constant.aligned_bytes().ok_or_else(unreadable)?);
                }
                Scalar::I32 => {
                    let clamped = |integer: i64| integer.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
                    let integers: Vec<i32> =
                        constant.integers().ok_or_else(unreadable)?.into_iter().map(clamped).collect();
                    pieces.push(bytemuck::cast_slice(&integers));
                }
            }
        }
        Ok(pieces)
    }

    /// What kernels packed for themselves, in the order of the dispatches.
    pub(crate) fn packed(plan: &Plan) -> Self {
        let mut pieces = Self::default();
        for binding in plan.dispatches.iter().flat_map(|dispatch| &dispatch.shader.bindings) {
            match binding {
                Binding::Packed(numbers) => pieces.push(&stored(plan.storages.packed(), numbers.numbers())),
                Binding::Words(words) => pieces.push(bytemuck::cast_slice(words.numbers())),
                Binding::Read(_) | Binding::Write(..) => {}
            }
        }
        pieces
    }

    /// The parameters of each dispatch.
    pub(crate) fn params(plan: &Plan) -> Self {
        let mut pieces = Self::default();
        for dispatch in &plan.dispatches {
            let mut params = dispatch.shader.params.clone();
            params.resize(params.len().next_multiple_of(4).max(4), 0);
            pieces.push(bytemuck::cast_slice(&params));
        }
        pieces
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

//! Storage formats: how elements are stored in device memory, and the format of each value of a program.
//!
//! The formats are decided only here. Shader generation, memory layout and host transfers query this module.
//!
//! In the 16-bit precisions, floats are stored as f16. Inputs and outputs stay f32, so that the host converts nothing
//! and no precision is lost in transfers. If the device's shaders do not support f16, two f16 elements share a 32-bit
//! word: [`StorageFormat::HalfPairs`]. Two invocations must not write to the same word, so a value that its kernel
//! writes one element at a time is stored as f32 in this case. Constants are written by the host and are always stored
//! in pairs.
//!
//! Integers that are known to fit 8 bits are stored four to a word. A kernel writes them four at a time, or collects
//! consecutive elements into words. If it can do neither, each takes 32 bits.

use attache_gpu_ir::{ByteType, Program, Scalar, ValueId};
use serde::{Deserialize, Serialize};

use super::roots;
use super::saturation::saturating;

/// Returns the zero point of byte data as a signed byte. Zero points of unsigned bytes are shifted by -128.
/// `None` if the shifted zero point is not in the range of `i8`.
pub(crate) fn signed_point(bytes: ByteType, point: i32) -> Option<i8> {
    let shift = if bytes == ByteType::Signed { 0 } else { 128 };
    i8::try_from(i64::from(point) - shift).ok()
}

/// How the elements of a value are stored in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StorageFormat {
    /// f32, 4 bytes for each element.
    F32,
    /// 32-bit signed integers.
    I32,
    /// f16, 2 bytes for each element, accessed as WGSL's type `f16`.
    Half,
    /// f16, two to a 32-bit word, the first in the lower half. The last word of an odd number of elements is padded.
    HalfPairs,
    /// 8-bit integers, four to a 32-bit word, the first in the lowest byte. The last word is padded.
    Bytes(ByteType),
}

impl StorageFormat {
    /// Returns the size of one element in bytes.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            StorageFormat::F32 | StorageFormat::I32 => 4,
            StorageFormat::Half | StorageFormat::HalfPairs => 2,
            StorageFormat::Bytes(_) => 1,
        }
    }
}

/// The storage format of each value of a program.
#[derive(Clone, Debug)]
pub struct StorageFormats {
    /// The default format of floats.
    floats: StorageFormat,
    /// The format of each value that has memory of its own, indexed by the root of a value, see [`roots`].
    by_root: Vec<StorageFormat>,
    /// For each value, the value whose memory it uses, see [`roots`].
    roots: Vec<ValueId>,
    /// For each value, whether it saturates; empty if floats are stored in 32 bits.
    saturating: Vec<bool>,
}

impl StorageFormats {
    /// Chooses the storage format of each value as far as it is known before shaders are generated. `floats`
    /// is the default format of floats.
    #[must_use]
    pub fn new(program: &Program, floats: StorageFormat) -> Self {
        let mut storages = Self { floats, by_root: Vec::new(), roots: Vec::new(), saturating: Vec::new() };
        storages.extend(program);
        storages
    }

    /// Chooses formats for the values that were added to the program since the last call.
    pub(crate) fn extend(&mut self, program: &Program) {
        let values = program.values[self.by_root.len()..].iter().map(|value| match value.scalar {
            Scalar::F32 if value.is_inner => StorageFormat::F32,
            Scalar::F32 => self.floats,
            Scalar::I32 => value.bytes.map_or(StorageFormat::I32, StorageFormat::Bytes),
        });
        self.by_root.extend(values);
        self.roots = roots(program);
        if matches!(self.floats, StorageFormat::Half | StorageFormat::HalfPairs) {
            self.saturating = saturating(program);
        }
        for id in program.inputs.iter().chain(&program.outputs).filter(|id| program.value(**id).scalar == Scalar::F32) {
            self.settle(*id, StorageFormat::F32);
        }
    }

    /// Returns the storage format of a value. For a value that a kernel computes, it is final once the
    /// kernel's shaders are generated.
    ///
    /// # Panics
    ///
    /// If the value is not one of the program's.
    #[must_use]
    pub fn of(&self, id: ValueId) -> StorageFormat {
        self.by_root[self.roots[id.index()].index()]
    }

    /// Returns the storage format of float weights that are packed for a shader.
    #[must_use]
    pub fn packed(&self) -> StorageFormat {
        self.floats
    }

    /// Returns the size of a value's elements on the device in bytes, without the padding of the last word.
    ///
    /// # Panics
    ///
    /// If the value is not one of the program's.
    #[must_use]
    pub fn bytes(&self, program: &Program, id: ValueId) -> usize {
        program.shape(id).elements() * self.of(id).bytes()
    }

    /// Returns the format in which a kernel that writes `vector_width` elements at a time stores the value.
    /// It differs from [`StorageFormats::of`] if single elements cannot be packed into words.
    pub(crate) fn written(&self, id: ValueId, vector_width: usize) -> StorageFormat {
        match self.of(id) {
            StorageFormat::HalfPairs if vector_width == 1 => StorageFormat::F32,
            StorageFormat::Bytes(_) if vector_width == 1 => StorageFormat::I32,
            storage => storage,
        }
    }

    /// Whether finite elements of a value that are beyond the range of f16 are stored as the largest f16, and not as
    /// infinities.
    pub(crate) fn saturates(&self, id: ValueId) -> bool {
        self.saturating.get(id.index()).is_some_and(|saturates| *saturates)
    }

    /// Sets the final storage format of a value and of all values that share its memory.
    pub(crate) fn settle(&mut self, id: ValueId, storage: StorageFormat) {
        let root = self.roots[id.index()];
        self.by_root[root.index()] = storage;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use attache_base::Constant;
    use attache_gpu_ir::Primitive;

    #[test]
    fn only_values_written_in_vectors_are_stored_in_pairs() {
        let mut program = Program::default();
        let input = program.input(Scalar::F32, [2, 4].into());
        let whole = program.input(Scalar::I32, [2, 4].into());
        let sums = scan(&mut program, input);
        let flat = program.step(Primitive::Reshape([8].into()), &[sums], 0).unwrap()[0];
        let mut storages = StorageFormats::new(&program, StorageFormat::HalfPairs);
        assert_eq!((storages.of(flat), storages.of(whole)), (StorageFormat::HalfPairs, StorageFormat::I32));
        assert_eq!(storages.written(sums, 4), StorageFormat::HalfPairs);
        let alone = storages.written(sums, 1);
        storages.settle(sums, alone);
        assert_eq!((storages.of(sums), storages.of(flat)), (StorageFormat::F32, StorageFormat::F32));
        assert_eq!(StorageFormats::new(&program, StorageFormat::Half).written(sums, 1), StorageFormat::Half);
    }

    fn scan(program: &mut Program, value: ValueId) -> ValueId {
        program.step(Primitive::Scan { axis: 1, exclusive: false, reverse: false }, &[value], 0).unwrap()[0]
    }

    #[test]
    fn inputs_and_outputs_stay_f32() {
        let mut program = Program::default();
        let input = program.input(Scalar::F32, [2, 4].into());
        let inner = scan(&mut program, input);
        let last = scan(&mut program, inner);
        let [moved, flat] =
            [input, last].map(|value| program.step(Primitive::Reshape([8].into()), &[value], 0).unwrap()[0]);
        let constant = program.constant(Scalar::F32, Constant::from_values([1], &[2.0f32]));
        program.outputs = vec![moved, flat, constant];
        for floats in [StorageFormat::Half, StorageFormat::HalfPairs] {
            let storages = StorageFormats::new(&program, floats);
            assert_eq!([input, moved, last, flat, constant].map(|id| storages.of(id)), [StorageFormat::F32; 5]);
            assert_eq!((storages.of(inner), storages.packed()), (floats, floats));
            assert_eq!((storages.bytes(&program, flat), storages.bytes(&program, inner)), (32, 16));
        }
    }
}

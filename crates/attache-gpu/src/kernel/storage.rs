//! Storage formats in device memory, and the format of each value.
//!
//! The formats are decided only here. Shader generation, memory layout and host transfers query this module.
//!
//! In the 16-bit precisions, floats are stored as f16. Inputs and outputs stay f32, so that the host converts nothing
//! and no precision is lost in transfers. If the device's shaders do not support f16, two f16 elements share a 32-bit
//! word: [`Storage::HalfPairs`]. Two invocations must not write to the same word, so a value that its kernel writes one
//! element at a time is stored as f32 in this case. Constants are written by the host and are always stored in pairs.
//!
//! Integers that are known to fit 8 bits are stored four to a word. A kernel writes them four at a time, or collects
//! consecutive elements into words. If it can do neither, each takes 32 bits.

use attache_gpu_ir::{Bytes, Program, Scalar, ValueId};

use super::roots;

/// The zero point as a signed byte. Zero points of unsigned bytes are shifted by -128. `None` if the result is not in
/// the range of `i8`.
pub(crate) fn signed_point(bytes: Bytes, point: i32) -> Option<i8> {
    let shift = if bytes == Bytes::Signed { 0 } else { 128 };
    i8::try_from(i64::from(point) - shift).ok()
}

/// How the elements of a value are stored in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// f32.
    F32,
    /// 32-bit integers.
    I32,
    /// f16, as the shader's own type.
    Half,
    /// f16, two to a 32-bit word, the first in the lower half. The last word of an odd number of elements is padded.
    HalfPairs,
    /// 8-bit integers, four to a 32-bit word, the first in the lowest byte. The last word is padded.
    Bytes(Bytes),
}

impl Storage {
    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        match self {
            Storage::F32 | Storage::I32 => 4,
            Storage::Half | Storage::HalfPairs => 2,
            Storage::Bytes(_) => 1,
        }
    }
}

/// The storage of each value of a program.
#[derive(Clone, Debug)]
pub struct Storages {
    reals: Storage,
    /// Indexed by the root of a value, see [`roots`].
    by_root: Vec<Storage>,
    roots: Vec<ValueId>,
}

impl Storages {
    /// The formats as far as they are known before shaders are generated. `reals` is the default format of floats.
    pub fn new(program: &Program, reals: Storage) -> Self {
        let mut storages = Self { reals, by_root: Vec::new(), roots: Vec::new() };
        storages.extend(program);
        storages
    }

    /// Adds the values that were added to the program since the last call.
    pub(crate) fn extend(&mut self, program: &Program) {
        let values = program.values[self.by_root.len()..].iter().map(|value| match value.scalar {
            Scalar::F32 if value.is_inner => Storage::F32,
            Scalar::F32 => self.reals,
            Scalar::I32 => value.bytes.map_or(Storage::I32, Storage::Bytes),
        });
        self.by_root.extend(values);
        self.roots = roots(program);
        for id in program.inputs.iter().chain(&program.outputs).filter(|id| program.value(**id).scalar == Scalar::F32) {
            self.settle(*id, Storage::F32);
        }
    }

    /// The storage format of a value. For a value that a kernel computes it is final once the kernel's shaders are
    /// generated.
    ///
    /// # Panics
    ///
    /// If the value is not one of the program's.
    pub fn of(&self, id: ValueId) -> Storage {
        self.by_root[self.roots[id.index()].index()]
    }

    /// The storage format of packed weights.
    pub fn packed(&self) -> Storage {
        self.reals
    }

    /// Bytes of a value on the device.
    ///
    /// # Panics
    ///
    /// If the value is not one of the program's.
    pub fn bytes(&self, program: &Program, id: ValueId) -> usize {
        program.shape(id).elements() * self.of(id).bytes()
    }

    /// The format of a value whose kernel writes `lanes` elements at a time.
    pub(crate) fn written(&self, id: ValueId, lanes: usize) -> Storage {
        match self.of(id) {
            Storage::HalfPairs if lanes == 1 => Storage::F32,
            Storage::Bytes(_) if lanes == 1 => Storage::I32,
            storage => storage,
        }
    }

    /// Sets the final storage format of a value and of all values that share its memory.
    pub(crate) fn settle(&mut self, id: ValueId, storage: Storage) {
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
    fn pairs_are_for_what_is_written_in_vectors() {
        let mut program = Program::default();
        let input = program.input(Scalar::F32, [2, 4].into());
        let whole = program.input(Scalar::I32, [2, 4].into());
        let sums = scan(&mut program, input);
        let flat = program.step(Primitive::Reshape([8].into()), &[sums], 0).unwrap()[0];
        let mut storages = Storages::new(&program, Storage::HalfPairs);
        assert_eq!((storages.of(flat), storages.of(whole)), (Storage::HalfPairs, Storage::I32));
        assert_eq!(storages.written(sums, 4), Storage::HalfPairs);
        let alone = storages.written(sums, 1);
        storages.settle(sums, alone);
        assert_eq!((storages.of(sums), storages.of(flat)), (Storage::F32, Storage::F32));
        assert_eq!(Storages::new(&program, Storage::Half).written(sums, 1), Storage::Half);
    }

    fn scan(program: &mut Program, value: ValueId) -> ValueId {
        program.step(Primitive::Scan { axis: 1, exclusive: false, reverse: false }, &[value], 0).unwrap()[0]
    }

    #[test]
    fn reals_cross_the_bus_as_binary32() {
        let mut program = Program::default();
        let input = program.input(Scalar::F32, [2, 4].into());
        let inner = scan(&mut program, input);
        let last = scan(&mut program, inner);
        let [moved, flat] =
            [input, last].map(|value| program.step(Primitive::Reshape([8].into()), &[value], 0).unwrap()[0]);
        let numbers = program.constant(Scalar::F32, Constant::from_values([1], &[2.0f32]));
        program.outputs = vec![moved, flat, numbers];
        for reals in [Storage::Half, Storage::HalfPairs] {
            let storages = Storages::new(&program, reals);
            assert_eq!([input, moved, last, flat, numbers].map(|id| storages.of(id)), [Storage::F32; 5]);
            assert_eq!((storages.of(inner), storages.packed()), (reals, reals));
            assert_eq!((storages.bytes(&program, flat), storages.bytes(&program, inner)), (32, 16));
        }
    }
}

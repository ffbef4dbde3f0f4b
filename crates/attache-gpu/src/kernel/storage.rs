//! How numbers lie in a device's memory, and which value lies how. Decided here alone: whoever writes shaders, lays out
//! memory or talks to the host asks.
//!
//! In the 16-bit precisions reals are stored as binary16, but for inputs and outputs: those cross the bus as binary32, so
//! that the host converts nothing and neither end loses digits. Where a device's shaders have no such type, two halves share
//! a word: [`Storage::HalfPairs`]. Two invocations must not write to one word, so there a value that its kernel writes
//! one element at a time is stored as binary32. Constants, which the host writes, always lie in pairs.
//!
//! Integers that are known to fit bytes lie four to a word. A kernel writes them four at a time too, or collects what it
//! makes one after the other into words; where it can do neither, they take 32 bits each.

use attache_gpu_ir::{Bytes, Program, Scalar, ValueId};

use super::roots;

/// A zero point of bytes of that kind among signed ones, for which others are taken less 128; `None` where it is none of them.
pub(crate) fn signed_point(bytes: Bytes, point: i32) -> Option<i8> {
    let shift = if bytes == Bytes::Signed { 0 } else { 128 };
    i8::try_from(i64::from(point) - shift).ok()
}

/// How the elements of a value lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// Binary32.
    F32,
    /// 32-bit integers.
    I32,
    /// Binary16, a type of the shader's.
    Half,
    /// Binary16, two to a word of 32 bits, the first in the lower half. The last word of an odd number is filled up.
    HalfPairs,
    /// Integers of 8 bits, four to a word of 32 bits, the first in the lowest quarter. The last word is filled up.
    Bytes(Bytes),
}

impl Storage {
    /// Bytes of an element.
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
    /// By the value in whose place a value lies.
    by_root: Vec<Storage>,
    roots: Vec<ValueId>,
}

impl Storages {
    /// As far as it is known before shaders are written; `reals` is how reals are stored where nothing stands against it.
    pub fn new(program: &Program, reals: Storage) -> Self {
        let mut storages = Self { reals, by_root: Vec::new(), roots: Vec::new() };
        storages.extend(program);
        storages
    }

    /// With values that the program got since.
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

    /// The storage of a value. That of one that a kernel makes is known once the kernel's shaders are written.
    pub fn of(&self, id: ValueId) -> Storage {
        self.by_root[self.roots[id.index()].index()]
    }

    /// The storage of constants that a kernel packed for itself.
    pub fn packed(&self) -> Storage {
        self.reals
    }

    /// Bytes that a value takes on the device.
    pub fn bytes(&self, program: &Program, id: ValueId) -> usize {
        program.shape(id).elements() * self.of(id).bytes()
    }

    /// How a kernel that writes `lanes` elements of the value at a time has to store it.
    pub(crate) fn written(&self, id: ValueId, lanes: usize) -> Storage {
        match self.of(id) {
            Storage::HalfPairs if lanes == 1 => Storage::F32,
            Storage::Bytes(_) if lanes == 1 => Storage::I32,
            storage => storage,
        }
    }

    /// Settles how a value that a kernel makes is stored.
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

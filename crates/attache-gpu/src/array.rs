//! An array as a shader's text reads and writes it: numbers, whatever their storage.

use crate::storage::Storage;
use crate::text::vector;

/// A bound array, read or written in units of so many neighbouring elements.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    name: String,
    storage: Storage,
    lanes: usize,
}

impl Array {
    pub(crate) fn new(name: String, storage: Storage, lanes: usize) -> Self {
        Self { name, storage, lanes }
    }

    /// WGSL for unit `at`, of type `u32` or `i32`, as reals.
    pub(crate) fn reals(&self, at: &str) -> String {
        let name = &self.name;
        match self.storage {
            Storage::F32 | Storage::I32 | Storage::Half => format!("{}({name}[{at}])", vector("f32", self.lanes)),
            Storage::HalfPairs => format!("read_{name}(u32({at}))"),
        }
    }

    /// WGSL for unit `at` as integers, of an array of such.
    pub(crate) fn integers(&self, at: &str) -> String {
        debug_assert_eq!(self.storage, Storage::I32, "reals are not read as integers");
        format!("{}[{at}]", self.name)
    }

    /// WGSL for unit `at` as integers where the array holds such, else as reals.
    pub(crate) fn numbers(&self, at: &str) -> String {
        if self.storage == Storage::I32 { self.integers(at) } else { self.reals(at) }
    }

    /// WGSL of the statement that writes unit `at`.
    pub(crate) fn write(&self, at: &str, value: &str) -> String {
        let name = &self.name;
        match self.storage {
            Storage::F32 | Storage::I32 | Storage::Half => {
                format!("{name}[{at}] = {}({value});", self.storage.place(self.lanes))
            }
            Storage::HalfPairs => format!("write_{name}(u32({at}), {value});"),
        }
    }

    /// The function that [`Array::reals`] calls, if it calls one.
    pub(crate) fn reader(&self) -> String {
        let name = &self.name;
        match (self.storage, self.lanes) {
            (Storage::HalfPairs, 1) => format!(
                "fn read_{name}(at: u32) -> f32 {{\n    return unpack2x16float({name}[at / 2u] >> (at % 2u * 16u)).x;\n}}\n"
            ),
            (Storage::HalfPairs, _) => format!(
                "fn read_{name}(at: u32) -> vec4<f32> {{
    let pairs = {name}[at];
    return vec4<f32>(unpack2x16float(pairs.x), unpack2x16float(pairs.y));\n}}\n"
            ),
            _ => String::new(),
        }
    }

    /// The function that [`Array::write`] calls, if it calls one.
    pub(crate) fn writer(&self) -> String {
        let name = &self.name;
        match self.storage {
            Storage::HalfPairs => format!(
                "fn write_{name}(at: u32, value: vec4<f32>) {{
    {name}[at] = vec2<u32>(pack2x16float(value.xy), pack2x16float(value.zw));\n}}\n"
            ),
            Storage::F32 | Storage::I32 | Storage::Half => String::new(),
        }
    }
}

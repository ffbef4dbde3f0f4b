//! WGSL for loads from and stores to bound arrays, independent of how the elements are stored.

use attache_gpu_ir::Bytes;

use crate::kernel::Storage;
use crate::wgsl::expression::vector;

impl Storage {
    /// The WGSL element type of a bound array that is accessed `lanes` elements at a time. Parts of a word are not
    /// addressable: at vector width 1, an element of a packed array is a whole 32-bit word.
    pub(crate) fn place(self, lanes: usize) -> String {
        match self {
            Storage::F32 => vector("f32", lanes),
            Storage::I32 => vector("i32", lanes),
            Storage::Half => vector("f16", lanes),
            Storage::HalfPairs => vector("u32", lanes.div_ceil(2)),
            Storage::Bytes(_) => "u32".to_owned(),
        }
    }
}

/// A bound array, accessed in units of `lanes` adjacent elements.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    name: String,
    storage: Storage,
    lanes: usize,
    /// The function that loads a unit, if units are not consecutive in memory.
    fetch: Option<String>,
}

impl Array {
    pub(crate) fn new(name: String, storage: Storage, lanes: usize) -> Self {
        Self { name, storage, lanes, fetch: None }
    }

    /// The same array, accessed through a function that loads units of `lanes` elements.
    pub(crate) fn fetched(self, function: String, lanes: usize) -> Self {
        Self { lanes, fetch: Some(function), ..self }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// WGSL that loads unit `at`, an index of type `u32` or `i32`, as floats.
    pub(crate) fn reals(&self, at: &str) -> String {
        let name = &self.name;
        if let Some(fetch) = &self.fetch {
            return format!("{}({fetch}(u32({at})))", vector("f32", self.lanes));
        }
        match self.storage {
            Storage::F32 | Storage::I32 | Storage::Half => format!("{}({name}[{at}])", vector("f32", self.lanes)),
            Storage::HalfPairs => format!("read_{name}(u32({at}))"),
            Storage::Bytes(_) => format!("{}(read_{name}(u32({at})))", vector("f32", self.lanes)),
        }
    }

    /// WGSL that loads unit `at` as integers. The array must hold integers.
    pub(crate) fn integers(&self, at: &str) -> String {
        if let Some(fetch) = &self.fetch {
            return format!("{fetch}(u32({at}))");
        }
        match self.storage {
            Storage::Bytes(_) => format!("read_{}(u32({at}))", self.name),
            storage => {
                debug_assert_eq!(storage, Storage::I32, "reals are not read as integers");
                format!("{}[{at}]", self.name)
            }
        }
    }

    /// WGSL that indexes the bound array itself, without unpacking or converting the element at `at`.
    pub(crate) fn word(&self, at: &str) -> String {
        format!("{}[{at}]", self.name)
    }

    /// Whether the array holds integers.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.storage, Storage::I32 | Storage::Bytes(_))
    }

    /// WGSL that loads unit `at`: as integers if the array holds integers, else as floats.
    pub(crate) fn numbers(&self, at: &str) -> String {
        if self.is_whole() { self.integers(at) } else { self.reals(at) }
    }

    /// WGSL of the statement that stores `value` to unit `at`.
    pub(crate) fn write(&self, at: &str, value: &str) -> String {
        let name = &self.name;
        match self.storage {
            Storage::F32 | Storage::I32 | Storage::Half => {
                format!("{name}[{at}] = {}({value});", self.storage.place(self.lanes))
            }
            Storage::HalfPairs | Storage::Bytes(_) => format!("write_{name}(u32({at}), {value});"),
        }
    }

    /// The definition of the function that [`Array::reals`] and [`Array::integers`] call for packed storage; else
    /// empty.
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
            (Storage::Bytes(bytes), 1) => {
                let word = match bytes {
                    Bytes::Signed => "i32",
                    Bytes::Unsigned => "u32",
                };
                format!(
                    "fn read_{name}(at: u32) -> i32 {{
    return i32(extractBits({word}({name}[at / 4u]), at % 4u * 8u, 8u));\n}}\n"
                )
            }
            (Storage::Bytes(bytes), _) => {
                let unpack = match bytes {
                    Bytes::Signed => "unpack4xI8",
                    Bytes::Unsigned => "unpack4xU8",
                };
                format!("fn read_{name}(at: u32) -> vec4<i32> {{\n    return vec4<i32>({unpack}({name}[at]));\n}}\n")
            }
            _ => String::new(),
        }
    }

    /// The definition of the function that [`Array::write`] calls for packed storage; else empty.
    pub(crate) fn writer(&self) -> String {
        let name = &self.name;
        match self.storage {
            Storage::HalfPairs => format!(
                "fn write_{name}(at: u32, value: vec4<f32>) {{
    {name}[at] = vec2<u32>(pack2x16float(value.xy), pack2x16float(value.zw));\n}}\n"
            ),
            // Single bytes are collected in a private word first, because no two invocations may write to one word.
            Storage::Bytes(_) if self.lanes == 1 => format!(
                "var<private> word: u32;
fn write_{name}(at: u32, value: i32) {{
    word |= (u32(value) & 255u) << (at % 4u * 8u);\n}}\n"
            ),
            Storage::Bytes(_) => format!(
                "fn write_{name}(at: u32, value: vec4<i32>) {{
    let bytes = (vec4<u32>(value) & vec4<u32>(255u)) << vec4<u32>(0u, 8u, 16u, 24u);
    {name}[at] = bytes.x | bytes.y | bytes.z | bytes.w;\n}}\n"
            ),
            Storage::F32 | Storage::I32 | Storage::Half => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_holds_whole_words_of_pairs() {
        assert_eq!([1, 4].map(|lanes| Storage::HalfPairs.place(lanes)), ["u32", "vec2<u32>"]);
        assert_eq!([1, 4].map(|lanes| Storage::Bytes(Bytes::Signed).place(lanes)), ["u32", "u32"]);
        assert_eq!([1, 4].map(|lanes| Storage::Half.place(lanes)), ["f16", "vec4<f16>"]);
    }
}

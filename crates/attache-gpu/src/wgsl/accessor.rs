//! An array as a shader's text reads and writes it: numbers, whatever their storage.

use attache_gpu_ir::Bytes;

use crate::kernel::Storage;
use crate::wgsl::expression::vector;

impl Storage {
    /// WGSL's type for what an array holds at each place, where it is read or written `lanes` elements at a time. Parts of
    /// words cannot be addressed: with one lane a place holds a whole word.
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

/// A bound array, read or written in units of so many neighbouring elements.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    name: String,
    storage: Storage,
    lanes: usize,
    /// The function that fetches a unit, where units don't lie one after the other.
    fetch: Option<String>,
}

impl Array {
    pub(crate) fn new(name: String, storage: Storage, lanes: usize) -> Self {
        Self { name, storage, lanes, fetch: None }
    }

    /// The units, of so many elements, that a function fetches from this array.
    pub(crate) fn fetched(self, function: String, lanes: usize) -> Self {
        Self { lanes, fetch: Some(function), ..self }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// WGSL for unit `at`, of type `u32` or `i32`, as reals.
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

    /// WGSL for unit `at` as integers, of an array of such.
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

    /// WGSL for the word at place `at`, of an array whose elements share words.
    pub(crate) fn word(&self, at: &str) -> String {
        format!("{}[{at}]", self.name)
    }

    /// Whether it holds integers.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.storage, Storage::I32 | Storage::Bytes(_))
    }

    /// WGSL for unit `at` as integers where the array holds such, else as reals.
    pub(crate) fn numbers(&self, at: &str) -> String {
        if self.is_whole() { self.integers(at) } else { self.reals(at) }
    }

    /// WGSL of the statement that writes unit `at`.
    pub(crate) fn write(&self, at: &str, value: &str) -> String {
        let name = &self.name;
        match self.storage {
            Storage::F32 | Storage::I32 | Storage::Half => {
                format!("{name}[{at}] = {}({value});", self.storage.place(self.lanes))
            }
            Storage::HalfPairs | Storage::Bytes(_) => format!("write_{name}(u32({at}), {value});"),
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

    /// The function that [`Array::write`] calls, if it calls one.
    pub(crate) fn writer(&self) -> String {
        let name = &self.name;
        match self.storage {
            Storage::HalfPairs => format!(
                "fn write_{name}(at: u32, value: vec4<f32>) {{
    {name}[at] = vec2<u32>(pack2x16float(value.xy), pack2x16float(value.zw));\n}}\n"
            ),
            // One at a time they are collected: several invocations must not write to one word.
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

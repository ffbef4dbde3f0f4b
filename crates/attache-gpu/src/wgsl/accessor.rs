//! WGSL for loads from and stores to bound arrays, independent of how the elements are stored.

use attache_gpu_ir::ByteType;

use crate::kernel::StorageFormat;
use crate::wgsl::expression::vector;

impl StorageFormat {
    /// Returns the WGSL element type of a bound array that is accessed `vector_width` elements at a time.
    /// Parts of a word are not addressable: at vector width 1, an element of a packed array is a whole 32-bit
    /// word.
    pub(crate) fn element_type(self, vector_width: usize) -> String {
        match self {
            StorageFormat::F32 => vector("f32", vector_width),
            StorageFormat::I32 => vector("i32", vector_width),
            StorageFormat::Half => vector("f16", vector_width),
            StorageFormat::HalfPairs => vector("u32", vector_width.div_ceil(2)),
            StorageFormat::Bytes(_) => "u32".to_owned(),
        }
    }
}

/// An array in a bound storage buffer, accessed in units of `vector_width` adjacent elements.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    name: String,
    storage: StorageFormat,
    vector_width: usize,
    /// The name of the WGSL function that loads a unit, if units are not consecutive in memory.
    fetch: Option<String>,
    /// Whether finite elements beyond the range of f16 are stored as the largest f16.
    saturates: bool,
}

impl Array {
    pub(crate) fn new(name: String, storage: StorageFormat, vector_width: usize) -> Self {
        Self { name, storage, vector_width, fetch: None, saturates: false }
    }

    /// Returns the array whose writes call [`saturated`](crate::wgsl::expression::saturated), which the shader must define.
    pub(crate) fn saturating(self) -> Self {
        Self { saturates: true, ..self }
    }

    /// Returns the array accessed through a WGSL function that loads units of `vector_width` elements.
    pub(crate) fn fetched(self, function: String, vector_width: usize) -> Self {
        Self { vector_width, fetch: Some(function), ..self }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns WGSL that loads unit `at`, an index of type `u32` or `i32`, as floats.
    pub(crate) fn floats(&self, at: &str) -> String {
        let name = &self.name;
        if let Some(fetch) = &self.fetch {
            return format!("{}({fetch}(u32({at})))", vector("f32", self.vector_width));
        }
        match self.storage {
            StorageFormat::F32 | StorageFormat::I32 | StorageFormat::Half => {
                format!("{}({name}[{at}])", vector("f32", self.vector_width))
            }
            StorageFormat::HalfPairs => format!("read_{name}(u32({at}))"),
            StorageFormat::Bytes(_) => format!("{}(read_{name}(u32({at})))", vector("f32", self.vector_width)),
        }
    }

    /// Returns WGSL that loads unit `at` as integers. The array must hold integers.
    pub(crate) fn integers(&self, at: &str) -> String {
        if let Some(fetch) = &self.fetch {
            return format!("{fetch}(u32({at}))");
        }
        match self.storage {
            StorageFormat::Bytes(_) => format!("read_{}(u32({at}))", self.name),
            storage => {
                debug_assert_eq!(storage, StorageFormat::I32, "floats are not loaded as integers");
                format!("{}[{at}]", self.name)
            }
        }
    }

    /// Returns WGSL that indexes the bound array itself, without unpacking or converting the element at `at`.
    pub(crate) fn word(&self, at: &str) -> String {
        format!("{}[{at}]", self.name)
    }

    /// Whether the array holds integers.
    pub(crate) fn is_integer(&self) -> bool {
        matches!(self.storage, StorageFormat::I32 | StorageFormat::Bytes(_))
    }

    /// Returns WGSL that loads unit `at`: as integers if the array holds integers, else as floats.
    pub(crate) fn elements(&self, at: &str) -> String {
        if self.is_integer() { self.integers(at) } else { self.floats(at) }
    }

    /// Returns the WGSL statement that stores `value` to unit `at`.
    pub(crate) fn write(&self, at: &str, value: &str) -> String {
        let name = &self.name;
        let value = match self.saturates {
            true => &format!("saturated{}({value})", self.vector_width),
            false => value,
        };
        match self.storage {
            StorageFormat::F32 | StorageFormat::I32 | StorageFormat::Half => {
                format!("{name}[{at}] = {}({value});", self.storage.element_type(self.vector_width))
            }
            StorageFormat::HalfPairs | StorageFormat::Bytes(_) => format!("write_{name}(u32({at}), {value});"),
        }
    }

    /// Returns the definition of the WGSL function that [`Array::floats`] and [`Array::integers`] call for
    /// packed storage, else an empty string.
    pub(crate) fn reader(&self) -> String {
        let name = &self.name;
        match (self.storage, self.vector_width) {
            (StorageFormat::HalfPairs, 1) => format!(
                "fn read_{name}(at: u32) -> f32 {{\n    return unpack2x16float({name}[at / 2u] >> (at % 2u * 16u)).x;\n}}\n"
            ),
            (StorageFormat::HalfPairs, _) => format!(
                "fn read_{name}(at: u32) -> vec4<f32> {{
    let pairs = {name}[at];
    return vec4<f32>(unpack2x16float(pairs.x), unpack2x16float(pairs.y));\n}}\n"
            ),
            (StorageFormat::Bytes(bytes), 1) => {
                let word = match bytes {
                    ByteType::Signed => "i32",
                    ByteType::Unsigned => "u32",
                };
                format!(
                    "fn read_{name}(at: u32) -> i32 {{
    return i32(extractBits({word}({name}[at / 4u]), at % 4u * 8u, 8u));\n}}\n"
                )
            }
            (StorageFormat::Bytes(bytes), _) => {
                let unpack = match bytes {
                    ByteType::Signed => "unpack4xI8",
                    ByteType::Unsigned => "unpack4xU8",
                };
                format!("fn read_{name}(at: u32) -> vec4<i32> {{\n    return vec4<i32>({unpack}({name}[at]));\n}}\n")
            }
            _ => String::new(),
        }
    }

    /// Returns the definition of the WGSL function that [`Array::write`] calls for packed storage, else an
    /// empty string.
    pub(crate) fn writer(&self) -> String {
        let name = &self.name;
        match self.storage {
            StorageFormat::HalfPairs => format!(
                "fn write_{name}(at: u32, value: vec4<f32>) {{
    {name}[at] = vec2<u32>(pack2x16float(value.xy), pack2x16float(value.zw));\n}}\n"
            ),
            // Single bytes are collected in a private word first, because no two invocations may write to one word.
            StorageFormat::Bytes(_) if self.vector_width == 1 => format!(
                "var<private> word: u32;
fn write_{name}(at: u32, value: i32) {{
    word |= (u32(value) & 255u) << (at % 4u * 8u);\n}}\n"
            ),
            StorageFormat::Bytes(_) => format!(
                "fn write_{name}(at: u32, value: vec4<i32>) {{
    let bytes = (vec4<u32>(value) & vec4<u32>(255u)) << vec4<u32>(0u, 8u, 16u, 24u);
    {name}[at] = bytes.x | bytes.y | bytes.z | bytes.w;\n}}\n"
            ),
            StorageFormat::F32 | StorageFormat::I32 | StorageFormat::Half => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_packed_arrays_are_whole_words() {
        assert_eq!(
            [1, 4].map(|vector_width| StorageFormat::HalfPairs.element_type(vector_width)),
            ["u32", "vec2<u32>"]
        );
        assert_eq!(
            [1, 4].map(|vector_width| StorageFormat::Bytes(ByteType::Signed).element_type(vector_width)),
            ["u32", "u32"]
        );
        assert_eq!([1, 4].map(|vector_width| StorageFormat::Half.element_type(vector_width)), ["f16", "vec4<f16>"]);
    }
}

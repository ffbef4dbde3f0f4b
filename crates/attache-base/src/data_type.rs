//! Element types of tensors ([`DataType`]), with the names and codes of the TensorFlow Lite schema, and the
//! Rust types that represent them ([`Element`]).

use std::fmt;

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
#[repr(u8)]
pub enum DataType {
    Float32 = 0,
    Float16 = 1,
    Int32 = 2,
    UInt8 = 3,
    Int64 = 4,
    String = 5,
    Bool = 6,
    Int16 = 7,
    Complex64 = 8,
    Int8 = 9,
    Float64 = 10,
    Complex128 = 11,
    UInt64 = 12,
    Resource = 13,
    Variant = 14,
    UInt32 = 15,
    UInt16 = 16,
    Int4 = 17,
    BFloat16 = 18,
    Int2 = 19,
    UInt4 = 20,
    Float8E4M3Fn = 21,
    Float8E5M2 = 22,
}

use DataType::*;

/// One row per type, in the order of the codes: the type, its name, and the size of an element in bits (0 if
/// elements have no fixed size).
const TABLE: [(DataType, &str, usize); 23] = [
    (Float32, "FLOAT32", 32),
    (Float16, "FLOAT16", 16),
    (Int32, "INT32", 32),
    (UInt8, "UINT8", 8),
    (Int64, "INT64", 64),
    (String, "STRING", 0),
    (Bool, "BOOL", 8),
    (Int16, "INT16", 16),
    (Complex64, "COMPLEX64", 64),
    (Int8, "INT8", 8),
    (Float64, "FLOAT64", 64),
    (Complex128, "COMPLEX128", 128),
    (UInt64, "UINT64", 64),
    (Resource, "RESOURCE", 0),
    (Variant, "VARIANT", 0),
    (UInt32, "UINT32", 32),
    (UInt16, "UINT16", 16),
    (Int4, "INT4", 4),
    (BFloat16, "BFLOAT16", 16),
    (Int2, "INT2", 2),
    (UInt4, "UINT4", 4),
    (Float8E4M3Fn, "FLOAT8_E4M3FN", 8),
    (Float8E5M2, "FLOAT8_E5M2", 8),
];

impl DataType {
    /// Returns the type with this code of the schema's enum `TensorType`; `None` for a code that the schema
    /// does not have.
    #[must_use]
    pub fn from_code(code: i8) -> Option<Self> {
        TABLE.get(usize::try_from(code).ok()?).map(|row| row.0)
    }

    /// Returns the type's code in the schema's enum `TensorType`.
    #[must_use]
    pub fn code(self) -> i8 {
        self as i8
    }

    /// Returns the type's name in the schema, e.g. `FLOAT32`.
    #[must_use]
    pub fn name(self) -> &'static str {
        TABLE[self as usize].1
    }

    /// Returns the size of one element in bits; `None` if elements have no fixed size (strings, resources,
    /// variants).
    #[must_use]
    pub fn bits(self) -> Option<usize> {
        Some(TABLE[self as usize].2).filter(|bits| *bits > 0)
    }

    /// Returns the size of `elements` elements in bytes, rounded up to a whole byte for elements of less than
    /// 8 bits; `None` if elements have no fixed size or the product overflows.
    #[must_use]
    pub fn byte_size(self, elements: usize) -> Option<usize> {
        Some(elements.checked_mul(self.bits()?)?.div_ceil(8))
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A Rust type with the same memory representation as the elements of a [`DataType`].
pub trait Element: bytemuck::Pod + Default + PartialEq + Send + Sync {
    /// The type of tensor elements that the Rust type represents.
    const DATA_TYPE: DataType;
}

macro_rules! elements {
    ($($rust:ty => $data_type:ident),*) => {$(
        impl Element for $rust {
            const DATA_TYPE: DataType = DataType::$data_type;
        }
    )*};
}

elements!(f32 => Float32, half::f16 => Float16, i32 => Int32, u8 => UInt8, i64 => Int64, i16 => Int16, i8 => Int8,
    f64 => Float64, u64 => UInt64, u32 => UInt32, u16 => UInt16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_rows() {
        for (code, row) in TABLE.iter().enumerate() {
            assert_eq!(row.0.code() as usize, code);
            assert_eq!(DataType::from_code(code as i8), Some(row.0));
        }
        assert_eq!(DataType::from_code(23), None);
        assert_eq!(DataType::from_code(-1), None);
    }

    #[test]
    fn packed_types_round_up() {
        assert_eq!(Int4.byte_size(3), Some(2));
        assert_eq!(Float32.byte_size(usize::MAX), None);
        assert_eq!(String.byte_size(1), None);
    }
}

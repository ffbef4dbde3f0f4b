//! The enums of the interface, as integers with named constants.

use std::ffi::c_int;

use attache::DataType;

/// Declares a transparent integer with constants.
macro_rules! integers {
    ($($(#[$about:meta])* $name:ident($integer:ty) { $($constant:ident = $value:expr),* $(,)? })*) => {$(
        $(#[$about])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub $integer);

        #[allow(missing_docs)]
        impl $name {
            $(pub const $constant: Self = Self($value);)*
        }
    )*};
}

integers! {
    /// What a function returns that can fail.
    TfLiteStatus(c_int) {
        OK = 0,
        ERROR = 1,
        DELEGATE_ERROR = 2,
        APPLICATION_ERROR = 3,
        DELEGATE_DATA_NOT_FOUND = 4,
        DELEGATE_DATA_WRITE_ERROR = 5,
        DELEGATE_DATA_READ_ERROR = 6,
        UNRESOLVED_OPS = 7,
        CANCELLED = 8,
        OUTPUT_SHAPE_NOT_KNOWN = 9,
    }

    /// The type of a tensor's elements.
    TfLiteType(c_int) {
        NO_TYPE = 0,
        FLOAT32 = 1,
        INT32 = 2,
        UINT8 = 3,
        INT64 = 4,
        STRING = 5,
        BOOL = 6,
        INT16 = 7,
        COMPLEX64 = 8,
        INT8 = 9,
        FLOAT16 = 10,
        FLOAT64 = 11,
        COMPLEX128 = 12,
        UINT64 = 13,
        RESOURCE = 14,
        VARIANT = 15,
        UINT32 = 16,
        UINT16 = 17,
        INT4 = 18,
        BFLOAT16 = 19,
        INT2 = 20,
        UINT4 = 21,
        FLOAT8_E4M3FN = 22,
        FLOAT8_E5M2 = 23,
    }

    /// Where a tensor's bytes are, and who frees them.
    TfLiteAllocationType(c_int) {
        MEM_NONE = 0,
        MMAP_RO = 1,
        ARENA_RW = 2,
        ARENA_RW_PERSISTENT = 3,
        DYNAMIC = 4,
        PERSISTENT_RO = 5,
        CUSTOM = 6,
        VARIANT_OBJECT = 7,
        NON_CPU = 8,
    }

    /// Which struct `TfLiteQuantization::params` points to.
    TfLiteQuantizationType(c_int) {
        NONE = 0,
        AFFINE = 1,
        BLOCKWISE = 2,
        MULTI_AXIS = 3,
    }

    /// Contexts that kernels share through `TfLiteContext::GetExternalContext`.
    TfLiteExternalContextType(c_int) {
        EIGEN_CONTEXT = 0,
        GEMMLOWP_CONTEXT = 1,
        EDGE_TPU_CONTEXT = 2,
        CPU_BACKEND_CONTEXT = 3,
        LITE_RT_BUFFER_CONTEXT = 4,
        MAX = 5,
    }

    /// How a dimension of a sparse tensor is stored.
    TfLiteDimensionType(c_int) {
        DENSE = 0,
        SPARSE_CSR = 1,
    }

    /// Flags of a delegate, a set of bits.
    TfLiteDelegateFlags(i64) {
        NONE = 0,
        ALLOW_DYNAMIC_TENSORS = 1,
        REQUIRE_PROPAGATED_SHAPES = 2,
        PER_OPERATOR_PROFILING = 4,
        HINT_FULLY_DELEGATED_TO_SINGLE_DELEGATE = 8,
    }

    /// The code of an operator, as in the file's enum `BuiltinOperator`.
    TfLiteBuiltinOperator(c_int) {
        CUSTOM = 32,
        DELEGATE = 51,
        PLACEHOLDER_FOR_GREATER_OP_CODES = 127,
    }

    /// How windows reach over the edge of an image. The file's enum is lower by one.
    TfLitePadding(c_int) {
        UNKNOWN = 0,
        SAME = 1,
        VALID = 2,
    }

    /// The activation that follows an operator, with the numbers of the file up to `SIGN_BIT`.
    TfLiteFusedActivation(c_int) {
        NONE = 0,
        RELU = 1,
        RELU_N1_TO_1 = 2,
        RELU6 = 3,
        TANH = 4,
        SIGN_BIT = 5,
        SIGMOID = 6,
    }

    /// How `MIRROR_PAD` reflects. The file's enum is lower by one.
    TfLiteMirrorPaddingMode(c_int) {
        UNKNOWN = 0,
        REFLECT = 1,
        SYMMETRIC = 2,
    }

    /// How the weights of `FULLY_CONNECTED` are stored.
    TfLiteFullyConnectedWeightsFormat(c_int) {
        DEFAULT = 0,
        SHUFFLED_4X16_INT8 = 1,
    }

    /// Which form of `LSTM` a node is.
    TfLiteLSTMKernelType(c_int) {
        FULL = 0,
        BASIC = 1,
    }

    /// How `EMBEDDING_LOOKUP_SPARSE` combines rows.
    TfLiteCombinerType(c_int) {
        SUM = 0,
        MEAN = 1,
        SQRTN = 2,
    }

    /// Which result `LSH_PROJECTION` has.
    TfLiteLSHProjectionType(c_int) {
        UNKNOWN = 0,
        SPARSE = 1,
        DENSE = 2,
    }

    /// How `REDUCE_WINDOW` combines elements.
    TfLiteReduceWindowFunction(c_int) {
        UNSUPPORTED = 0,
        ADD = 1,
        MUL = 2,
        MIN = 3,
        MAX = 4,
        ALL = 5,
        ANY = 6,
    }

    /// The generator of `STABLEHLO_RNG_BIT_GENERATOR`. The file's enum is lower by one.
    TfLiteRngAlgorithm(c_int) {
        UNKNOWN = 0,
        DEFAULT = 1,
        PHILOX = 2,
        THREEFRY = 3,
    }
}

impl TfLiteStatus {
    /// Returns whether this is `OK`.
    #[must_use]
    pub fn is_ok(self) -> bool {
        self == Self::OK
    }
}

/// Each type of C with the type of the file, and its name in text.
static TYPES: [(TfLiteType, DataType, &std::ffi::CStr); 23] = [
    (TfLiteType::FLOAT32, DataType::Float32, c"FLOAT32"),
    (TfLiteType::INT32, DataType::Int32, c"INT32"),
    (TfLiteType::UINT8, DataType::UInt8, c"UINT8"),
    (TfLiteType::INT64, DataType::Int64, c"INT64"),
    (TfLiteType::STRING, DataType::String, c"STRING"),
    (TfLiteType::BOOL, DataType::Bool, c"BOOL"),
    (TfLiteType::INT16, DataType::Int16, c"INT16"),
    (TfLiteType::COMPLEX64, DataType::Complex64, c"COMPLEX64"),
    (TfLiteType::INT8, DataType::Int8, c"INT8"),
    (TfLiteType::FLOAT16, DataType::Float16, c"FLOAT16"),
    (TfLiteType::FLOAT64, DataType::Float64, c"FLOAT64"),
    (TfLiteType::COMPLEX128, DataType::Complex128, c"COMPLEX128"),
    (TfLiteType::UINT64, DataType::UInt64, c"UINT64"),
    (TfLiteType::RESOURCE, DataType::Resource, c"RESOURCE"),
    (TfLiteType::VARIANT, DataType::Variant, c"VARIANT"),
    (TfLiteType::UINT32, DataType::UInt32, c"UINT32"),
    (TfLiteType::UINT16, DataType::UInt16, c"UINT16"),
    (TfLiteType::INT4, DataType::Int4, c"INT4"),
    (TfLiteType::BFLOAT16, DataType::BFloat16, c"BFLOAT16"),
    (TfLiteType::INT2, DataType::Int2, c"INT2"),
    (TfLiteType::UINT4, DataType::UInt4, c"UINT4"),
    (TfLiteType::FLOAT8_E4M3FN, DataType::Float8E4M3Fn, c"FLOAT8E4M3FN"),
    (TfLiteType::FLOAT8_E5M2, DataType::Float8E5M2, c"FLOAT8E5M2"),
];

impl TfLiteType {
    /// Returns the same type as models have it; `None` for `NO_TYPE` and for numbers that are no type.
    #[must_use]
    pub fn data_type(self) -> Option<DataType> {
        let row = usize::try_from(self.0).ok()?.checked_sub(1)?;
        TYPES.get(row).map(|row| row.1)
    }

    /// Returns the name of the type, `NOTYPE` or, for numbers that are no type, `Unknown type`.
    #[must_use]
    pub fn name(self) -> &'static std::ffi::CStr {
        let row = TYPES.iter().find(|row| row.0 == self);
        row.map_or(if self == Self::NO_TYPE { c"NOTYPE" } else { c"Unknown type" }, |row| row.2)
    }
}

impl From<DataType> for TfLiteType {
    fn from(data_type: DataType) -> Self {
        TYPES.iter().find(|row| row.1 == data_type).map_or(Self::NO_TYPE, |row| row.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_translated_both_ways() {
        for code in 0..=22 {
            let data_type = DataType::from_code(code).unwrap();
            let c = TfLiteType::from(data_type);
            assert_eq!(c.data_type(), Some(data_type), "{data_type}");
            assert_ne!(c, TfLiteType::NO_TYPE, "{data_type}");
        }
        assert_eq!([0, -1, 24].map(|code| TfLiteType(code).data_type()), [None; 3]);
        assert_eq!(TfLiteType::INT8.name(), c"INT8");
    }
}

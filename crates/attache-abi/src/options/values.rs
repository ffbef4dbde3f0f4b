//! Single values, translated between the types of the file and those of C.

use std::ffi::c_int;

use attache::model::schema::{
    ActivationFunctionType, CombinerType, FullyConnectedOptionsWeightsFormat, LSHProjectionType, LSTMKernelType,
    MirrorPadMode, Padding, ReduceWindowFunction, RngAlgorithm, TensorType,
};

use crate::TfLiteType;
use crate::params::*;

/// A value that the file and C store in different types.
pub(super) trait Value<File>: Sized {
    /// Returns the value of the file; `None` if the file has none for it.
    fn to_file(self) -> Option<File>;
    /// Returns the value of C.
    fn from_file(value: File) -> Self;
}

/// States that the file and C store values of this type alike.
macro_rules! same {
    ($($type:ty),*) => {$(
        impl Value<$type> for $type {
            fn to_file(self) -> Option<$type> {
                Some(self)
            }

            fn from_file(value: $type) -> Self {
                value
            }
        }
    )*};
}

same!(bool, i32, i64, f32);

/// States for an enum of C how much greater its numbers are than those of the file, and the greatest of the file.
macro_rules! numbers {
    ($($c:ident, $file:ident: $more:literal, $last:literal;)*) => {$(
        impl Value<$file> for $c {
            fn to_file(self) -> Option<$file> {
                let number = self.0.checked_sub($more).filter(|number| (0..=$last).contains(number))?;
                Some($file(number as _))
            }

            fn from_file(value: $file) -> Self {
                Self(c_int::from(value.0) + $more)
            }
        }
    )*};
}

numbers! {
    TfLiteCombinerType, CombinerType: 0, 2;
    TfLiteFullyConnectedWeightsFormat, FullyConnectedOptionsWeightsFormat: 0, 1;
    TfLiteFusedActivation, ActivationFunctionType: 0, 5;
    TfLiteLSHProjectionType, LSHProjectionType: 0, 2;
    TfLiteLSTMKernelType, LSTMKernelType: 0, 1;
    TfLiteMirrorPaddingMode, MirrorPadMode: 1, 1;
    TfLitePadding, Padding: 1, 1;
    TfLiteReduceWindowFunction, ReduceWindowFunction: 0, 6;
    TfLiteRngAlgorithm, RngAlgorithm: 1, 2;
}

impl Value<TensorType> for TfLiteType {
    /// A type that is not stated is FLOAT32, the default of the schema.
    fn to_file(self) -> Option<TensorType> {
        match self.data_type() {
            Some(data_type) => Some(TensorType(data_type.code())),
            None => (self == Self::NO_TYPE).then_some(TensorType::FLOAT32),
        }
    }

    fn from_file(value: TensorType) -> Self {
        attache::DataType::from_code(value.0).map_or(Self::NO_TYPE, Self::from)
    }
}

/// Runtimes take the lower 32 bits, with their sign.
impl Value<i64> for c_int {
    fn to_file(self) -> Option<i64> {
        Some(i64::from(self))
    }

    fn from_file(value: i64) -> Self {
        value as Self
    }
}

//! TensorFlow Lite's binary interface for C, as Rust types: what programs, delegates and operators that were built apart
//! from each other agree on.
//!
//! Names of structs and fields are those of TensorFlow Lite. An enum of C is a transparent integer with named constants,
//! because the other side may pass any number. Layouts are checked at compile time on 64-bit machines (`layout.rs`).
//!
//! Nothing here runs a model. The crate `attache-c` implements the interface, `attache-external` calls what others
//! implemented, `attache-delegate` is a delegate for other runtimes.

mod array;
mod context;
mod delegate;
mod enums;
#[cfg(feature = "gpu")]
mod gpu_options;
mod layout;
mod options;
pub mod params;
mod quantization;
pub mod report;
#[cfg(not(attache_small))]
mod sparsity;
mod tensor;

pub use array::{TfLiteFloatArray, TfLiteIntArray};
pub use context::{TfLiteAsyncKernel, TfLiteRegistrationV2, TfLiteRegistrationV3};
pub use context::{TfLiteContext, TfLiteNode, TfLiteOperator, TfLiteRegistration, TfLiteRegistrationV1};
pub use delegate::{
    CreateDelegate, DestroyDelegate, TfLiteDelegate, TfLiteDelegateParams, TfLiteExternalDelegateOptions,
    TfLiteGpuDelegateOptionsV2, TfLiteOpaqueDelegateBuilder, TfLiteOpaqueDelegateParams, TfLiteOpaqueDelegatePlugin,
    TfLiteStableDelegate,
};
pub use enums::{
    TfLiteAllocationType, TfLiteBuiltinOperator, TfLiteDelegateFlags, TfLiteDimensionType, TfLiteExternalContextType,
    TfLiteQuantizationType, TfLiteStatus, TfLiteType,
};
pub use options::{BuiltinData, HAVE_BODIES, Options, options_of, params_of};
pub use tensor::{
    TfLiteAffineQuantization, TfLiteBlockwiseQuantization, TfLiteDimensionMetadata, TfLiteMultiAxisQuantization,
    TfLiteQuantization, TfLiteQuantizationParams, TfLiteSparsity, TfLiteTensor,
};

/// The handle of a tensor that is in no buffer of a delegate.
pub const NULL_BUFFER_HANDLE: TfLiteBufferHandle = -1;

/// The index of an optional tensor that is left out.
pub const OPTIONAL_TENSOR: std::ffi::c_int = -1;

/// The handle of a buffer that belongs to a delegate.
pub type TfLiteBufferHandle = std::ffi::c_int;

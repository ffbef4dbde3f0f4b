//! Delegates: the classic struct, the opaque one, the stable one, the entry points of plug-ins, and options.

use std::ffi::{c_char, c_int, c_void};

use crate::{TfLiteBufferHandle, TfLiteContext, TfLiteIntArray, TfLiteStatus, TfLiteTensor};

/// A delegate: functions that the runtime calls, and data of the delegate's own.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, non_snake_case)]
pub struct TfLiteDelegate {
    pub data_: *mut c_void,
    pub Prepare: Option<unsafe extern "C" fn(*mut TfLiteContext, *mut Self) -> TfLiteStatus>,
    pub CopyFromBufferHandle: Option<
        unsafe extern "C" fn(*mut TfLiteContext, *mut Self, TfLiteBufferHandle, *mut TfLiteTensor) -> TfLiteStatus,
    >,
    pub CopyToBufferHandle: Option<
        unsafe extern "C" fn(*mut TfLiteContext, *mut Self, TfLiteBufferHandle, *mut TfLiteTensor) -> TfLiteStatus,
    >,
    pub FreeBufferHandle: Option<unsafe extern "C" fn(*mut TfLiteContext, *mut Self, *mut TfLiteBufferHandle)>,
    /// A set of bits of [`TfLiteDelegateFlags`](crate::TfLiteDelegateFlags).
    pub flags: i64,
    /// If this is not null, the delegate is an opaque one, and the builder's functions are used.
    pub opaque_delegate_builder: *mut TfLiteOpaqueDelegateBuilder,
}

impl TfLiteDelegate {
    /// Returns a delegate without functions and data.
    #[must_use]
    pub const fn empty() -> Self {
        Self {
            data_: std::ptr::null_mut(),
            Prepare: None,
            CopyFromBufferHandle: None,
            CopyToBufferHandle: None,
            FreeBufferHandle: None,
            flags: 0,
            opaque_delegate_builder: std::ptr::null_mut(),
        }
    }
}

/// The functions of an opaque delegate. Contexts, delegates and tensors are passed as opaque pointers to the structs of
/// the runtime.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, non_snake_case)]
pub struct TfLiteOpaqueDelegateBuilder {
    pub data: *mut c_void,
    pub Prepare: Option<unsafe extern "C" fn(*mut TfLiteContext, *mut TfLiteDelegate, *mut c_void) -> TfLiteStatus>,
    pub CopyFromBufferHandle: CopyBuffer,
    pub CopyToBufferHandle: CopyBuffer,
    pub FreeBufferHandle:
        Option<unsafe extern "C" fn(*mut TfLiteContext, *mut TfLiteDelegate, *mut c_void, *mut TfLiteBufferHandle)>,
    pub flags: i64,
}

/// Copies between a tensor and a buffer of an opaque delegate.
pub(crate) type CopyBuffer = Option<
    unsafe extern "C" fn(
        *mut TfLiteContext,
        *mut TfLiteDelegate,
        *mut c_void,
        TfLiteBufferHandle,
        *mut TfLiteTensor,
    ) -> TfLiteStatus,
>;

/// A partition, as the `init` of its kernel gets it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct TfLiteDelegateParams {
    pub delegate: *mut TfLiteDelegate,
    pub nodes_to_replace: *mut TfLiteIntArray,
    pub input_tensors: *mut TfLiteIntArray,
    pub output_tensors: *mut TfLiteIntArray,
}

/// A partition, as the `init` of an opaque delegate's kernel gets it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct TfLiteOpaqueDelegateParams {
    pub delegate: *mut TfLiteDelegate,
    pub delegate_data: *mut c_void,
    pub nodes_to_replace: *mut TfLiteIntArray,
    pub input_tensors: *mut TfLiteIntArray,
    pub output_tensors: *mut TfLiteIntArray,
}

/// `tflite_plugin_create_delegate`: keys, values, their number, and a function that takes the text of an error.
pub type CreateDelegate = unsafe extern "C" fn(
    *const *const c_char,
    *const *const c_char,
    usize,
    Option<unsafe extern "C" fn(*const c_char)>,
) -> *mut TfLiteDelegate;

/// `tflite_plugin_destroy_delegate`.
pub type DestroyDelegate = unsafe extern "C" fn(*mut TfLiteDelegate);

/// What the symbol `TFL_TheStableDelegate` of a stable delegate's library is.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct TfLiteStableDelegate {
    pub delegate_abi_version: *const c_char,
    pub delegate_name: *const c_char,
    pub delegate_version: *const c_char,
    pub delegate_plugin: *const TfLiteOpaqueDelegatePlugin,
}

/// The functions that make a stable delegate.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct TfLiteOpaqueDelegatePlugin {
    /// The argument is a flatbuffer `TFLiteSettings`.
    pub create: Option<unsafe extern "C" fn(*const c_void) -> *mut TfLiteDelegate>,
    pub destroy: Option<unsafe extern "C" fn(*mut TfLiteDelegate)>,
    pub get_delegate_errno: Option<unsafe extern "C" fn(*mut TfLiteDelegate) -> c_int>,
}

/// Options of TensorFlow Lite's GPU delegate.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct TfLiteGpuDelegateOptionsV2 {
    pub is_precision_loss_allowed: i32,
    pub inference_preference: i32,
    pub inference_priority1: i32,
    pub inference_priority2: i32,
    pub inference_priority3: i32,
    pub experimental_flags: i64,
    pub max_delegated_partitions: i32,
    pub serialization_dir: *const c_char,
    pub model_token: *const c_char,
}

impl TfLiteGpuDelegateOptionsV2 {
    /// `inference_priority…`: an order that the delegate completes.
    pub const PRIORITY_AUTO: i32 = 0;
    /// `inference_priority…`: the result is as exact as it can be.
    pub const PRIORITY_MAX_PRECISION: i32 = 1;
    /// `inference_priority…`: a run takes as little time as it can.
    pub const PRIORITY_MIN_LATENCY: i32 = 2;
    /// `inference_priority…`: a run takes as little memory as it can.
    pub const PRIORITY_MIN_MEMORY_USAGE: i32 = 3;
    /// `experimental_flags`: quantized models run as well.
    pub const ENABLE_QUANT: i64 = 1;
    /// `experimental_flags`: OpenCL only.
    pub const CL_ONLY: i64 = 2;
    /// `experimental_flags`: OpenGL only.
    pub const GL_ONLY: i64 = 4;
    /// `experimental_flags`: what was prepared is kept in `serialization_dir`.
    pub const ENABLE_SERIALIZATION: i64 = 8;
}

impl Default for TfLiteGpuDelegateOptionsV2 {
    fn default() -> Self {
        Self {
            is_precision_loss_allowed: -1,
            inference_preference: 0,
            inference_priority1: Self::PRIORITY_MAX_PRECISION,
            inference_priority2: Self::PRIORITY_AUTO,
            inference_priority3: Self::PRIORITY_AUTO,
            experimental_flags: Self::ENABLE_QUANT,
            max_delegated_partitions: 1,
            serialization_dir: std::ptr::null(),
            model_token: std::ptr::null(),
        }
    }
}

/// Options of TensorFlow Lite's loader for delegates in libraries.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct TfLiteExternalDelegateOptions {
    pub lib_path: *const c_char,
    pub count: c_int,
    pub keys: [*const c_char; 256],
    pub values: [*const c_char; 256],
    pub insert: Option<unsafe extern "C" fn(*mut Self, *const c_char, *const c_char) -> TfLiteStatus>,
}

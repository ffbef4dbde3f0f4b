//! `TfLiteContext`, nodes and registrations. The opaque context, node, tensor and delegate of the C API are the same
//! structs, behind pointers of other types.

use std::ffi::{c_char, c_int, c_void};

use crate::{
    TfLiteDelegate, TfLiteDelegateParams, TfLiteExternalContextType, TfLiteIntArray, TfLiteStatus, TfLiteTensor,
};

/// A node of the graph, as delegates and operators see it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct TfLiteNode {
    pub inputs: *mut TfLiteIntArray,
    pub outputs: *mut TfLiteIntArray,
    pub intermediates: *mut TfLiteIntArray,
    pub temporaries: *mut TfLiteIntArray,
    pub user_data: *mut c_void,
    pub builtin_data: *mut c_void,
    pub custom_initial_data: *const c_void,
    pub custom_initial_data_size: c_int,
    pub delegate: *mut TfLiteDelegate,
    pub might_have_side_effect: bool,
}

impl TfLiteNode {
    /// Returns a node without tensors and data.
    #[must_use]
    pub const fn empty() -> Self {
        Self {
            inputs: std::ptr::null_mut(),
            outputs: std::ptr::null_mut(),
            intermediates: std::ptr::null_mut(),
            temporaries: std::ptr::null_mut(),
            user_data: std::ptr::null_mut(),
            builtin_data: std::ptr::null_mut(),
            custom_initial_data: std::ptr::null(),
            custom_initial_data_size: 0,
            delegate: std::ptr::null_mut(),
            might_have_side_effect: false,
        }
    }
}

/// An operator made with `TfLiteOperatorCreate`. Its layout belongs to the library that made it.
#[repr(C)]
#[derive(Debug)]
pub struct TfLiteOperator {
    nothing: [u8; 0],
}

/// The asynchronous kernel of an operator. Attaché never calls one.
#[repr(C)]
#[derive(Debug)]
pub struct TfLiteAsyncKernel {
    nothing: [u8; 0],
}

/// Declares a registration with the functions that all versions of the struct begin with, and fields that follow them.
macro_rules! registration {
    ($(#[$about:meta])* $name:ident { $($field:ident: $type:ty = $value:expr),* $(,)? }) => {
        $(#[$about])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        #[allow(missing_docs)]
        pub struct $name {
            pub init: Option<unsafe extern "C" fn(*mut TfLiteContext, *const c_char, usize) -> *mut c_void>,
            pub free: Option<unsafe extern "C" fn(*mut TfLiteContext, *mut c_void)>,
            pub prepare: Option<unsafe extern "C" fn(*mut TfLiteContext, *mut TfLiteNode) -> TfLiteStatus>,
            pub invoke: Option<unsafe extern "C" fn(*mut TfLiteContext, *mut TfLiteNode) -> TfLiteStatus>,
            pub profiling_string:
                Option<unsafe extern "C" fn(*const TfLiteContext, *const TfLiteNode) -> *const c_char>,
            pub builtin_code: i32,
            pub custom_name: *const c_char,
            pub version: c_int,
            $(pub $field: $type,)*
        }

        impl $name {
            /// Returns a registration without functions, of builtin code 0 and version 0.
            #[must_use]
            pub const fn empty() -> Self {
                Self {
                    init: None,
                    free: None,
                    prepare: None,
                    invoke: None,
                    profiling_string: None,
                    builtin_code: 0,
                    custom_name: std::ptr::null(),
                    version: 0,
                    $($field: $value,)*
                }
            }
        }
    };
}

/// Returns the asynchronous kernel of a node.
pub(crate) type AsyncKernel =
    Option<unsafe extern "C" fn(*mut TfLiteContext, *mut TfLiteNode) -> *mut TfLiteAsyncKernel>;

registration! {
    /// The functions of an operator, or of the kernel that stands for a partition of a delegate.
    TfLiteRegistration {
        registration_external: *mut TfLiteOperator = std::ptr::null_mut(),
        async_kernel: AsyncKernel = None,
        inplace_operator: u64 = 0,
    }
}

registration! {
    /// An older form of [`TfLiteRegistration`].
    TfLiteRegistrationV3 {
        registration_external: *mut TfLiteOperator = std::ptr::null_mut(),
        async_kernel: AsyncKernel = None,
    }
}

registration! {
    /// An older form of [`TfLiteRegistration`].
    TfLiteRegistrationV2 {
        registration_external: *mut TfLiteOperator = std::ptr::null_mut(),
    }
}

registration! {
    /// The oldest form of [`TfLiteRegistration`].
    TfLiteRegistrationV1 {}
}

/// What a runtime offers to delegates and operators: its tensors, and functions that get the context as first argument.
/// Functions that only the runtime for microcontrollers has are null.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, non_snake_case)]
pub struct TfLiteContext {
    pub tensors_size: usize,
    pub GetExecutionPlan: Option<unsafe extern "C" fn(*mut Self, *mut *mut TfLiteIntArray) -> TfLiteStatus>,
    pub tensors: *mut TfLiteTensor,
    pub impl_: *mut c_void,
    /// Takes over the array, also where it fails.
    pub ResizeTensor: Option<unsafe extern "C" fn(*mut Self, *mut TfLiteTensor, *mut TfLiteIntArray) -> TfLiteStatus>,
    pub ReportError: Option<unsafe extern "C" fn(*mut Self, *const c_char, ...)>,
    pub AddTensors: Option<unsafe extern "C" fn(*mut Self, c_int, *mut c_int) -> TfLiteStatus>,
    pub GetNodeAndRegistration: Option<
        unsafe extern "C" fn(*mut Self, c_int, *mut *mut TfLiteNode, *mut *mut TfLiteRegistration) -> TfLiteStatus,
    >,
    pub ReplaceNodeSubsetsWithDelegateKernels: Option<
        unsafe extern "C" fn(*mut Self, TfLiteRegistration, *const TfLiteIntArray, *mut TfLiteDelegate) -> TfLiteStatus,
    >,
    pub recommended_num_threads: c_int,
    pub GetExternalContext: Option<unsafe extern "C" fn(*mut Self, TfLiteExternalContextType) -> *mut c_void>,
    pub SetExternalContext: Option<unsafe extern "C" fn(*mut Self, TfLiteExternalContextType, *mut c_void)>,
    pub allow_fp32_relax_to_fp16: bool,
    pub profiler: *mut c_void,
    pub AllocatePersistentBuffer: Option<unsafe extern "C" fn(*mut Self, usize) -> *mut c_void>,
    pub AllocateBufferForEval: Option<unsafe extern "C" fn(*mut Self, usize, *mut *mut c_void) -> TfLiteStatus>,
    pub RequestScratchBufferInArena: Option<unsafe extern "C" fn(*mut Self, usize, *mut c_int) -> TfLiteStatus>,
    pub GetScratchBuffer: Option<unsafe extern "C" fn(*mut Self, c_int) -> *mut c_void>,
    pub ResizeTensorExplicit:
        Option<unsafe extern "C" fn(*mut Self, *mut TfLiteTensor, c_int, *const c_int) -> TfLiteStatus>,
    pub PreviewDelegatePartitioning: Option<
        unsafe extern "C" fn(
            *mut Self,
            *const TfLiteIntArray,
            *mut *mut TfLiteDelegateParams,
            *mut c_int,
        ) -> TfLiteStatus,
    >,
    pub GetTensor: Option<unsafe extern "C" fn(*const Self, c_int) -> *mut TfLiteTensor>,
    pub GetEvalTensor: Option<unsafe extern "C" fn(*const Self, c_int) -> *mut c_void>,
    pub GetModelMetadata:
        Option<unsafe extern "C" fn(*const Self, *const c_char, *mut *const c_char, *mut usize) -> TfLiteStatus>,
    pub AcquireSubgraphContext: Option<unsafe extern "C" fn(*mut Self, c_int, *mut *mut Self) -> TfLiteStatus>,
    pub ReleaseSubgraphContext: Option<unsafe extern "C" fn(*mut Self, c_int) -> TfLiteStatus>,
}

impl TfLiteContext {
    /// Returns a context without tensors and functions.
    #[must_use]
    pub const fn empty() -> Self {
        Self {
            tensors_size: 0,
            GetExecutionPlan: None,
            tensors: std::ptr::null_mut(),
            impl_: std::ptr::null_mut(),
            ResizeTensor: None,
            ReportError: None,
            AddTensors: None,
            GetNodeAndRegistration: None,
            ReplaceNodeSubsetsWithDelegateKernels: None,
            recommended_num_threads: 1,
            GetExternalContext: None,
            SetExternalContext: None,
            allow_fp32_relax_to_fp16: false,
            profiler: std::ptr::null_mut(),
            AllocatePersistentBuffer: None,
            AllocateBufferForEval: None,
            RequestScratchBufferInArena: None,
            GetScratchBuffer: None,
            ResizeTensorExplicit: None,
            PreviewDelegatePartitioning: None,
            GetTensor: None,
            GetEvalTensor: None,
            GetModelMetadata: None,
            AcquireSubgraphContext: None,
            ReleaseSubgraphContext: None,
        }
    }
}

#![allow(unsafe_code)]
//! `TfLiteXNNPackDelegate…`: accepted as what the CPU does in any case. NNAPI, which only Android has, is refused.

use std::ffi::{c_char, c_int, c_void};

use attache_abi::{TfLiteContext, TfLiteDelegate, TfLiteStatus};

use crate::fault::{Fault, Reporter};
use crate::guard::exports;
use crate::live::{self, Kind, Object};

/// Options of the CPU. Only the number of threads has an effect.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct TfLiteXNNPackDelegateOptions {
    num_threads: i32,
    flags: u32,
    weights_cache: *mut WeightsCache,
    handle_variable_ops: bool,
    weight_cache_file_path: *const c_char,
}

/// The flags that TensorFlow Lite sets by default: signed and unsigned integers of 8 bits.
const DEFAULT_FLAGS: u32 = 3;

impl Default for TfLiteXNNPackDelegateOptions {
    fn default() -> Self {
        Self {
            num_threads: 0,
            flags: DEFAULT_FLAGS,
            weights_cache: std::ptr::null_mut(),
            handle_variable_ops: false,
            weight_cache_file_path: std::ptr::null(),
        }
    }
}

/// Options of NNAPI.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct TfLiteNnapiDelegateOptions {
    execution_preference: c_int,
    accelerator_name: *const c_char,
    cache_dir: *const c_char,
    model_token: *const c_char,
    disallow_nnapi_cpu: c_int,
    allow_fp16: c_int,
    max_number_delegated_partitions: c_int,
    nnapi_support_library_handle: *mut c_void,
}

/// A delegate that stands for the CPU. It begins with the struct that programs hold a pointer to.
#[repr(C)]
pub(crate) struct CpuDelegate {
    delegate: TfLiteDelegate,
    options: TfLiteXNNPackDelegateOptions,
}

impl Object for CpuDelegate {
    const KIND: Kind = Kind::CpuDelegate;
    const NAME: &'static str = "TfLiteDelegate for the CPU";
}

/// A cache of weights, which nothing is in: interpreters of one model share their weights without it.
pub(crate) struct WeightsCache;

impl Object for WeightsCache {
    const KIND: Kind = Kind::WeightsCache;
    const NAME: &'static str = "TfLiteXNNPackDelegateWeightsCache";
}

/// Claims nothing, where another library calls it.
unsafe extern "C" fn prepare(_context: *mut TfLiteContext, _delegate: *mut TfLiteDelegate) -> TfLiteStatus {
    TfLiteStatus::OK
}

/// Whether a delegate is one that stands for the CPU.
pub(crate) fn is_cpu(delegate: *const TfLiteDelegate) -> bool {
    live::is(delegate.cast::<CpuDelegate>())
}

fn create(options: *const TfLiteXNNPackDelegateOptions) -> *mut TfLiteDelegate {
    // SAFETY: the caller of the C function passes null or valid options.
    let options = unsafe { options.as_ref() }.copied().unwrap_or_default();
    let delegate = TfLiteDelegate { Prepare: Some(prepare), ..TfLiteDelegate::empty() };
    let made = live::give(Box::new(CpuDelegate { delegate, options }));
    // SAFETY: the object was just made, and nobody else has it.
    unsafe { (*made).delegate.data_ = made.cast() };
    made.cast()
}

fn read<T>(delegate: *mut TfLiteDelegate, failed: T, read: impl FnOnce(&CpuDelegate) -> T) -> T {
    Reporter::default().settle(live::get(delegate.cast_const().cast::<CpuDelegate>()).map(read), failed)
}

exports! {
    /// Returns the default options.
    fn TfLiteXNNPackDelegateOptionsDefault() -> TfLiteXNNPackDelegateOptions {
        TfLiteXNNPackDelegateOptions::default()
    } else TfLiteXNNPackDelegateOptions::default();

    /// Makes a delegate that stands for the CPU. Options may be null.
    fn TfLiteXNNPackDelegateCreate(options: *const TfLiteXNNPackDelegateOptions) -> *mut TfLiteDelegate {
        create(options)
    } else std::ptr::null_mut();

    /// As `TfLiteXNNPackDelegateCreate`. The threads are those of the interpreter.
    fn TfLiteXNNPackDelegateCreateWithThreadpool(
        options: *const TfLiteXNNPackDelegateOptions,
        _context: *mut TfLiteContext,
    ) -> *mut TfLiteDelegate {
        create(options)
    } else std::ptr::null_mut();

    /// Deletes a delegate that stands for the CPU. Does nothing for null.
    fn TfLiteXNNPackDelegateDelete(delegate: *mut TfLiteDelegate) {
        Reporter::default().settle(live::take(delegate.cast::<CpuDelegate>()).map(drop), ());
    } else ();

    /// Returns the options of a delegate; null if it is none for the CPU.
    fn TfLiteXNNPackDelegateGetOptions(delegate: *mut TfLiteDelegate) -> *const TfLiteXNNPackDelegateOptions {
        read(delegate, std::ptr::null(), |delegate| &raw const delegate.options)
    } else std::ptr::null();

    /// Returns the flags of a delegate's options.
    fn TfLiteXNNPackDelegateGetFlags(delegate: *mut TfLiteDelegate) -> c_int {
        read(delegate, 0, |delegate| delegate.options.flags as c_int)
    } else 0;

    /// Returns null: there is no thread pool of XNNPACK.
    fn TfLiteXNNPackDelegateGetThreadPool(_delegate: *mut TfLiteDelegate) -> *mut c_void {
        std::ptr::null_mut()
    } else std::ptr::null_mut();

    /// Makes a cache of weights, which has no effect.
    fn TfLiteXNNPackDelegateWeightsCacheCreate() -> *mut WeightsCache {
        live::give(Box::new(WeightsCache))
    } else std::ptr::null_mut();

    /// Makes a cache of weights, which has no effect.
    fn TfLiteXNNPackDelegateWeightsCacheCreateWithSize(_size: usize) -> *mut WeightsCache {
        live::give(Box::new(WeightsCache))
    } else std::ptr::null_mut();

    /// Returns whether there is such a cache.
    fn TfLiteXNNPackDelegateWeightsCacheFinalizeHard(cache: *mut WeightsCache) -> bool {
        live::is(cache)
    } else false;

    /// Returns whether there is such a cache.
    fn TfLiteXNNPackDelegateWeightsCacheFinalizeSoft(cache: *mut WeightsCache) -> bool {
        live::is(cache)
    } else false;

    /// Deletes a cache of weights. Does nothing for null.
    fn TfLiteXNNPackDelegateWeightsCacheDelete(cache: *mut WeightsCache) {
        Reporter::default().settle(live::take(cache).map(drop), ());
    } else ();

    /// Returns the default options of NNAPI.
    fn TfLiteNnapiDelegateOptionsDefault() -> TfLiteNnapiDelegateOptions {
        nnapi_defaults()
    } else nnapi_defaults();

    /// Returns null, with an error: NNAPI is part of Android.
    fn TfLiteNnapiDelegateCreate(_options: *const TfLiteNnapiDelegateOptions) -> *mut TfLiteDelegate {
        let absent = Err(Fault::new("NNAPI is part of Android, and not available here"));
        Reporter::default().settle(absent, std::ptr::null_mut())
    } else std::ptr::null_mut();

    /// Does nothing, since there is no delegate of NNAPI.
    fn TfLiteNnapiDelegateDelete(_delegate: *mut TfLiteDelegate) {} else ();
}

fn nnapi_defaults() -> TfLiteNnapiDelegateOptions {
    TfLiteNnapiDelegateOptions {
        execution_preference: -1,
        accelerator_name: std::ptr::null(),
        cache_dir: std::ptr::null(),
        model_token: std::ptr::null(),
        disallow_nnapi_cpu: 1,
        allow_fp16: 0,
        max_number_delegated_partitions: 3,
        nnapi_support_library_handle: std::ptr::null_mut(),
    }
}

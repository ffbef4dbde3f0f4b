#![allow(unsafe_code)]
//! The functions that the library exports.

use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};

use attache_abi::report::{text_from_c, text_of_c};
use attache_abi::{TfLiteDelegate, TfLiteGpuDelegateOptionsV2};

use crate::delegate::{GpuPlugin, panicked};
use crate::log::Log;
use crate::options::Options;

/// Takes the text of an error.
type ReportError = Option<unsafe extern "C" fn(*const c_char)>;

/// Makes a delegate of options; `None` after an error or a panic, whose text is passed to `report`.
fn create(report: impl Fn(&str), options: impl FnOnce() -> Result<Options, String>) -> *mut TfLiteDelegate {
    let made = catch_unwind(AssertUnwindSafe(|| GpuPlugin::new(options()?).map_err(|error| error.to_string())));
    match made.unwrap_or_else(|panic| Err(panicked(&*panic))) {
        Ok(plugin) => Box::into_raw(plugin).cast(),
        Err(text) => {
            report(&format!("Attaché: {text}"));
            std::ptr::null_mut()
        }
    }
}

/// Deletes a delegate; does nothing for null.
///
/// # Safety
///
/// The pointer is null or what [`create`] returned, and is not used afterwards.
unsafe fn delete(delegate: *mut TfLiteDelegate) {
    if delegate.is_null() {
        return;
    }
    // SAFETY: the caller states that the pointer came from `create`, and passes it once.
    let delegate = unsafe { Box::from_raw(delegate.cast::<GpuPlugin>()) };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(delegate))) {
        Log::Error.write(Log::Error, &panicked(&*panic));
    }
}

/// Returns the options that a loader of plug-ins passes.
///
/// # Safety
///
/// There are `count` keys and values, each null or a text that ends with a zero byte.
unsafe fn options_of(
    keys: *const *const c_char,
    values: *const *const c_char,
    count: usize,
) -> Result<Options, String> {
    if count > 0 && (keys.is_null() || values.is_null()) {
        return Err("there are options without keys or values".into());
    }
    // SAFETY: the caller states that there are as many texts.
    let pair = |index| unsafe { Some((text_from_c(*keys.add(index))?, text_from_c(*values.add(index))?)) };
    let pairs: Option<Vec<(&str, &str)>> = (0..count).map(pair).collect();
    Options::of(pairs.ok_or("an option is no text in UTF-8")?.into_iter())
}

/// Creates a delegate for a loader of plug-ins. Returns null after an error, whose text is passed to `report_error`, or
/// written if that is null.
///
/// # Safety
///
/// There are `count` keys and values, each null or a text that ends with a zero byte.
#[unsafe(no_mangle)]
unsafe extern "C" fn tflite_plugin_create_delegate(
    keys: *const *const c_char,
    values: *const *const c_char,
    count: usize,
    report_error: ReportError,
) -> *mut TfLiteDelegate {
    let report = |text: &str| match report_error {
        // SAFETY: the loader's function takes a text that a zero byte ends.
        Some(report) => unsafe { report(text_of_c(text).as_ptr()) },
        None => Log::Error.write(Log::Error, text),
    };
    // SAFETY: the caller states that the texts are there.
    create(report, || unsafe { options_of(keys, values, count) })
}

/// Deletes a delegate of [`tflite_plugin_create_delegate`]. Interpreters that use it keep what they need.
///
/// # Safety
///
/// The pointer is null or such a delegate, and is not used afterwards.
#[unsafe(no_mangle)]
unsafe extern "C" fn tflite_plugin_destroy_delegate(delegate: *mut TfLiteDelegate) {
    // SAFETY: the caller states where the pointer comes from.
    unsafe { delete(delegate) };
}

/// Returns the default options of TensorFlow Lite's GPU delegate.
#[unsafe(no_mangle)]
extern "C" fn TfLiteGpuDelegateOptionsV2Default() -> TfLiteGpuDelegateOptionsV2 {
    TfLiteGpuDelegateOptionsV2::default()
}

/// Creates a delegate with options of TensorFlow Lite, or with the defaults if they are null. Returns null after an
/// error, which is written.
///
/// # Safety
///
/// The pointer is null or leads to valid options.
#[unsafe(no_mangle)]
unsafe extern "C" fn TfLiteGpuDelegateV2Create(options: *const TfLiteGpuDelegateOptionsV2) -> *mut TfLiteDelegate {
    create(
        |text| Log::Error.write(Log::Error, text),
        || {
            // SAFETY: the caller states that the pointer is null or leads to valid options.
            let options = unsafe { options.as_ref() }.copied().unwrap_or_default();
            // SAFETY: as above.
            Ok(Options::tensorflow_lite(unsafe { options.gpu_delegate_options() }?, options.max_delegated_partitions))
        },
    )
}

/// Deletes a delegate of [`TfLiteGpuDelegateV2Create`]. Interpreters that use it keep what they need.
///
/// # Safety
///
/// The pointer is null or such a delegate, and is not used afterwards.
#[unsafe(no_mangle)]
unsafe extern "C" fn TfLiteGpuDelegateV2Delete(delegate: *mut TfLiteDelegate) {
    // SAFETY: the caller states where the pointer comes from.
    unsafe { delete(delegate) };
}

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

/// Makes a delegate of options; null after an error or a panic, whose text is passed to `report`.
fn create(report: impl Fn(&str), options: impl FnOnce() -> Result<Options, String>) -> *mut TfLiteDelegate {
    let made = catch_unwind(AssertUnwindSafe(|| GpuPlugin::new(options()?).map_err(|error| error.to_string())));
    let settle = || match made.unwrap_or_else(|panic| Err(panicked(&*panic))) {
        Ok(plugin) => Box::into_raw(plugin).cast(),
        Err(text) => {
            report(&format!("Attaché: {text}"));
            std::ptr::null_mut()
        }
    };
    catch_unwind(AssertUnwindSafe(settle)).unwrap_or(std::ptr::null_mut())
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
        let report = || Log::Error.write(Log::Error, &panicked(&*panic));
        // The delegate is gone, whether the report can be written or not.
        let _ = catch_unwind(AssertUnwindSafe(report));
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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    thread_local! {
        static REPORTED: RefCell<String> = const { RefCell::new(String::new()) };
    }

    unsafe extern "C" fn report(text: *const c_char) {
        // SAFETY: the library passes a text.
        let text = unsafe { text_from_c(text) }.unwrap_or_default().to_owned();
        REPORTED.with_borrow_mut(|reported| *reported = text);
    }

    /// Creates a delegate with one option, which fails, and returns the text of the error.
    fn failed(key: *const c_char, value: *const c_char) -> String {
        // SAFETY: there are one key and one value.
        let delegate = unsafe { tflite_plugin_create_delegate(&key, &value, 1, Some(report)) };
        assert!(delegate.is_null());
        REPORTED.take()
    }

    #[test]
    fn what_cannot_be_created_is_null_and_reported() {
        let error = failed(c"speed".as_ptr(), c"high".as_ptr());
        assert!(error.contains("there is no option \"speed\""), "{error}");
        let error = failed(c"adapter".as_ptr(), c"no such adapter".as_ptr());
        assert!(error.contains("no such adapter"), "{error}");
        let error = failed(c"adapter".as_ptr(), std::ptr::null());
        assert!(error.contains("an option is no text"), "{error}");
        // SAFETY: null pointers are among what the function takes.
        unsafe {
            let delegate = tflite_plugin_create_delegate(std::ptr::null(), std::ptr::null(), 1, Some(report));
            assert!(delegate.is_null() && REPORTED.take().contains("without keys or values"));
            tflite_plugin_destroy_delegate(std::ptr::null_mut());
            TfLiteGpuDelegateV2Delete(std::ptr::null_mut());
        }
    }

    #[test]
    fn options_that_contradict_each_other_make_no_delegate() {
        let options = TfLiteGpuDelegateOptionsV2 { inference_priority1: 0, ..TfLiteGpuDelegateOptionsV2Default() };
        // SAFETY: the options are valid memory.
        assert!(unsafe { TfLiteGpuDelegateV2Create(&options) }.is_null());
        let options = TfLiteGpuDelegateOptionsV2 { inference_preference: 9, ..TfLiteGpuDelegateOptionsV2Default() };
        // SAFETY: as above.
        assert!(unsafe { TfLiteGpuDelegateV2Create(&options) }.is_null());
    }
}

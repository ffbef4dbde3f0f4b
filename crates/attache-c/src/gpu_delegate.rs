#![allow(unsafe_code)]
//! TensorFlow Lite's GPU delegate: `TfLiteGpuDelegateV2…`, and the names of the first version.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use attache::{GpuDelegate, GpuDelegateOptions};
use attache_abi::report::ErrorReporter;
use attache_abi::{TfLiteContext, TfLiteDelegate, TfLiteDelegateFlags, TfLiteGpuDelegateOptionsV2, TfLiteStatus};

use crate::fault::{Fault, Reporter};
use crate::guard::{exports, guarded};
use crate::live::{self, Kind, Object};

/// The GPU delegate. It begins with the struct that programs hold a pointer to.
#[repr(C)]
pub(crate) struct CGpuDelegate {
    delegate: TfLiteDelegate,
    gpu: Arc<GpuDelegate>,
}

impl Object for CGpuDelegate {
    const KIND: Kind = Kind::GpuDelegate;
    const NAME: &'static str = "TfLiteDelegate for the GPU";
}

/// Options of the delegate's first version.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct TfLiteGpuDelegateOptions {
    metadata: *const c_char,
    precision_loss_allowed: i32,
    preferred_gl_object_type: i32,
    dynamic_batch_enabled: i32,
    inline_parameters: i32,
}

/// An interpreter of this library never calls it; one of another library does.
unsafe extern "C" fn prepare(_context: *mut TfLiteContext, _delegate: *mut TfLiteDelegate) -> TfLiteStatus {
    let text = "this GPU delegate belongs to interpreters of Attaché; others load the library attache_delegate";
    Reporter::default().status(Err(Fault::with_status(TfLiteStatus::DELEGATE_ERROR, text)))
}

/// Returns the GPU delegate at a pointer of C code; `None` if it is another delegate.
pub(crate) fn delegate_at(delegate: *mut TfLiteDelegate) -> Option<Arc<GpuDelegate>> {
    let delegate = delegate.cast_const().cast::<CGpuDelegate>();
    live::get(delegate).ok().map(|delegate| delegate.gpu.clone())
}

fn create(options: GpuDelegateOptions) -> Result<*mut TfLiteDelegate, Fault> {
    let gpu = Arc::new(GpuDelegate::new(options)?);
    let flags = TfLiteDelegateFlags::ALLOW_DYNAMIC_TENSORS.0;
    let delegate = TfLiteDelegate { Prepare: Some(prepare), flags, ..TfLiteDelegate::empty() };
    let made = live::give(Box::new(CGpuDelegate { delegate, gpu }));
    // SAFETY: the object was just made, and nobody else has it.
    unsafe { (*made).delegate.data_ = made.cast() };
    Ok(made.cast())
}

/// Translates the options of C. What has no effect is reported.
fn options_of(options: &TfLiteGpuDelegateOptionsV2, reporter: Reporter) -> Result<GpuDelegateOptions, Fault> {
    let only = TfLiteGpuDelegateOptionsV2::CL_ONLY | TfLiteGpuDelegateOptionsV2::GL_ONLY;
    if options.experimental_flags & only != 0 {
        reporter.report("CL_ONLY and GL_ONLY have no effect: the device is opened through any API there is");
    }
    // SAFETY: the caller of the C function passes null or texts that zero bytes end.
    unsafe { options.gpu_delegate_options() }.map_err(Fault::new)
}

/// Makes a delegate; null, with an error, if it cannot be made.
fn create_reporting(options: *const TfLiteGpuDelegateOptionsV2, reporter: Reporter) -> *mut TfLiteDelegate {
    let made = guarded(|| {
        // SAFETY: the caller of the C function passes null or valid options.
        let options = unsafe { options.as_ref() }.copied().unwrap_or_default();
        create(options_of(&options, reporter)?)
    });
    reporter.settle(made, std::ptr::null_mut())
}

fn create_first_version(options: *const TfLiteGpuDelegateOptions) -> *mut TfLiteDelegate {
    let made = guarded(|| {
        // SAFETY: the caller of the C function passes null or valid options.
        let allowed = unsafe { options.as_ref() }.is_none_or(|options| options.precision_loss_allowed != 0);
        create(GpuDelegateOptions::tensorflow_lite().is_precision_loss_allowed(allowed))
    });
    Reporter::default().settle(made, std::ptr::null_mut())
}

exports! {
    /// Returns the default options.
    fn TfLiteGpuDelegateOptionsV2Default() -> TfLiteGpuDelegateOptionsV2 {
        TfLiteGpuDelegateOptionsV2::default()
    } else TfLiteGpuDelegateOptionsV2::default();

    /// Opens a GPU and makes a delegate for it. Options may be null. Returns null, with an error, if there is no GPU or
    /// the options contradict each other.
    fn TfLiteGpuDelegateV2Create(options: *const TfLiteGpuDelegateOptionsV2) -> *mut TfLiteDelegate {
        create_reporting(options, Reporter::default())
    } else std::ptr::null_mut();

    /// As `TfLiteGpuDelegateV2Create`, with a function that takes the error.
    fn attache_gpu_delegate_create(
        options: *const TfLiteGpuDelegateOptionsV2,
        reporter: Option<ErrorReporter>,
        user_data: *mut c_void,
    ) -> *mut TfLiteDelegate {
        create_reporting(options, Reporter::new(reporter, user_data))
    } else std::ptr::null_mut();

    /// Deletes a GPU delegate. Interpreters that use it keep what they need. Does nothing for null.
    fn TfLiteGpuDelegateV2Delete(delegate: *mut TfLiteDelegate) {
        Reporter::default().settle(live::take(delegate.cast::<CGpuDelegate>()).map(drop), ());
    } else ();

    /// Makes a GPU delegate by the options of the delegate's first version, which may be null.
    fn TfLiteGpuDelegateCreate(options: *const TfLiteGpuDelegateOptions) -> *mut TfLiteDelegate {
        create_first_version(options)
    } else std::ptr::null_mut();

    /// Deletes a GPU delegate. Does nothing for null.
    fn TfLiteGpuDelegateDelete(delegate: *mut TfLiteDelegate) {
        Reporter::default().settle(live::take(delegate.cast::<CGpuDelegate>()).map(drop), ());
    } else ();

    /// `TfLiteGpuDelegateCreate` under the name of the post that presented the delegate.
    fn NewGpuDelegate(options: *const TfLiteGpuDelegateOptions) -> *mut TfLiteDelegate {
        create_first_version(options)
    } else std::ptr::null_mut();

    /// `TfLiteGpuDelegateDelete` under the name of the post that presented the delegate.
    fn DeleteGpuDelegate(delegate: *mut TfLiteDelegate) {
        Reporter::default().settle(live::take(delegate.cast::<CGpuDelegate>()).map(drop), ());
    } else ();
}

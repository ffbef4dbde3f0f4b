#![allow(unsafe_code)]
//! `TfLiteExternalDelegate…`: delegates in libraries, given by the path of the library.

use std::ffi::{CStr, c_char};
use std::sync::Arc;

use attache_abi::report::text_from_c;
use attache_abi::{TfLiteContext, TfLiteDelegate, TfLiteStatus};
use attache_external::ExternalDelegate;

use crate::fault::{Fault, Reporter};
use crate::guard::{exports, guarded};
use crate::live::{self, Kind, Object};

/// The number of options that there is room for.
const MOST_OPTIONS: usize = 256;

/// The library of a delegate, and its options.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct TfLiteExternalDelegateOptions {
    lib_path: *const c_char,
    count: i32,
    keys: [*const c_char; MOST_OPTIONS],
    values: [*const c_char; MOST_OPTIONS],
    insert: Option<unsafe extern "C" fn(*mut Self, *const c_char, *const c_char) -> TfLiteStatus>,
}

/// A delegate of a library. It begins with the struct that programs hold a pointer to.
#[repr(C)]
pub(crate) struct CExternalDelegate {
    delegate: TfLiteDelegate,
    external: Arc<ExternalDelegate>,
}

impl Object for CExternalDelegate {
    const KIND: Kind = Kind::ExternalDelegate;
    const NAME: &'static str = "TfLiteDelegate of a library";
}

/// An interpreter of this library never calls it; one of another library does.
unsafe extern "C" fn prepare(_context: *mut TfLiteContext, _delegate: *mut TfLiteDelegate) -> TfLiteStatus {
    let text = "this delegate was loaded for interpreters of Attaché; others load the library themselves";
    Reporter::default().status(Err(Fault::with_status(TfLiteStatus::DELEGATE_ERROR, text)))
}

/// Returns the delegate at a pointer of C code; `None` if it is another one.
pub(crate) fn delegate_at(delegate: *mut TfLiteDelegate) -> Option<Arc<ExternalDelegate>> {
    let delegate = delegate.cast_const().cast::<CExternalDelegate>();
    if live::is(delegate) { live::get(delegate).ok().map(|delegate| delegate.external.clone()) } else { None }
}

fn defaults(lib_path: *const c_char) -> TfLiteExternalDelegateOptions {
    let none = [std::ptr::null(); MOST_OPTIONS];
    let insert = Some(TfLiteExternalDelegateOptionsInsert as _);
    TfLiteExternalDelegateOptions { lib_path, count: 0, keys: none, values: none, insert }
}

fn insert(options: *mut TfLiteExternalDelegateOptions, key: *const c_char, value: *const c_char) -> Result<(), Fault> {
    // SAFETY: the caller of the C function passes null or valid options.
    let options = unsafe { options.as_mut() }.ok_or_else(|| Fault::new("null where options are expected"))?;
    let place = usize::try_from(options.count).ok().filter(|place| *place < MOST_OPTIONS);
    let place = place.ok_or_else(|| Fault::new(format!("there is room for {MOST_OPTIONS} options")))?;
    if key.is_null() || value.is_null() {
        return Err(Fault::new("null where the key or the value of an option is expected"));
    }
    (options.keys[place], options.values[place]) = (key, value);
    options.count += 1;
    Ok(())
}

fn create(options: *const TfLiteExternalDelegateOptions) -> Result<*mut TfLiteDelegate, Fault> {
    // SAFETY: the caller of the C function passes null, or valid options whose texts end with zero bytes.
    let (path, pairs) = unsafe {
        let options = options.as_ref().ok_or_else(|| Fault::new("null where options are expected"))?;
        if options.lib_path.is_null() {
            return Err(Fault::new("the options name no library"));
        }
        let count = usize::try_from(options.count).unwrap_or(0).min(MOST_OPTIONS);
        let pairs = options.keys[..count].iter().zip(&options.values[..count]);
        let pairs = pairs.map(|(key, value)| Some((text_from_c(*key)?, text_from_c(*value)?)));
        let pairs: Option<Vec<(&str, &str)>> = pairs.collect();
        (CStr::from_ptr(options.lib_path), pairs)
    };
    let pairs = pairs.ok_or_else(|| Fault::new("an option is null, or bytes that are not UTF-8"))?;
    let path = path.to_str().map_err(|_| Fault::new("the path of the library is not UTF-8"))?;
    let external = ExternalDelegate::load(path, &pairs).map_err(|error| Fault::new(error.to_string()))?;
    let delegate = TfLiteDelegate { Prepare: Some(prepare), ..TfLiteDelegate::empty() };
    let made = live::give(Box::new(CExternalDelegate { delegate, external: Arc::new(external) }));
    // SAFETY: the object was just made, and nobody else has it.
    unsafe { (*made).delegate.data_ = made.cast() };
    Ok(made.cast())
}

exports! {
    /// Returns options without keys, for the library at a path.
    fn TfLiteExternalDelegateOptionsDefault(path: *const c_char) -> TfLiteExternalDelegateOptions {
        defaults(path)
    } else defaults(std::ptr::null());

    /// Adds an option. The texts are not copied.
    fn TfLiteExternalDelegateOptionsInsert(
        options: *mut TfLiteExternalDelegateOptions,
        key: *const c_char,
        value: *const c_char,
    ) -> TfLiteStatus {
        Reporter::default().status(insert(options, key, value))
    } else TfLiteStatus::ERROR;

    /// Loads a library and has it make a delegate. Returns null, with an error, if that fails.
    fn TfLiteExternalDelegateCreate(options: *const TfLiteExternalDelegateOptions) -> *mut TfLiteDelegate {
        Reporter::default().settle(guarded(|| create(options)), std::ptr::null_mut())
    } else std::ptr::null_mut();

    /// Deletes a delegate of a library. Interpreters that use it keep it. Does nothing for null.
    fn TfLiteExternalDelegateDelete(delegate: *mut TfLiteDelegate) {
        Reporter::default().settle(live::take(delegate.cast::<CExternalDelegate>()).map(drop), ());
    } else ();
}

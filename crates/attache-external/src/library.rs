#![allow(unsafe_code)]
//! Loads a delegate from a library: a plug-in of TensorFlow Lite's external delegates, or a stable delegate.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_void};
use std::path::Path;
use std::ptr::NonNull;

use attache::DelegateError;
use attache_abi::report::text_from_c;
use attache_abi::{CreateDelegate, DestroyDelegate, TfLiteDelegate, TfLiteStableDelegate};

use crate::guard::guard;

/// The only option of stable delegates: the path of a file with a flatbuffer `TFLiteSettings`.
const SETTINGS: &str = "settings";

/// A flatbuffer that is a table without fields, which every field's default follows from: the place of the table, the
/// table of its fields, which is empty, and the table.
static NO_SETTINGS: [u32; 3] = [8, 0x0004_0004, 4];

/// A delegate that a library made, and the function that ends it.
pub(crate) struct Loaded {
    pub(crate) delegate: NonNull<TfLiteDelegate>,
    pub(crate) destroy: Option<DestroyDelegate>,
    /// The delegate's own name, if it has one.
    pub(crate) name: Option<String>,
}

thread_local! {
    /// Errors that a library reported while it made a delegate on this thread.
    static REPORTED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Takes the text of an error that a library reports.
unsafe extern "C" fn take_report(text: *const c_char) {
    guard((), || {
        // SAFETY: the library passes a text that ends with a zero byte, or null.
        let text = unsafe { text_from_c(text) }.unwrap_or("an error whose text is not UTF-8");
        REPORTED.with_borrow_mut(|reported| reported.push(text.to_owned()));
    });
}

/// Loads a library and has it make a delegate. The library stays loaded until the process ends, since threads of its own
/// may still run.
pub(crate) fn load(path: &Path, options: &[(&str, &str)]) -> Result<Loaded, DelegateError> {
    let library = open(path).map_err(|error| {
        // The text of some systems names the file, that of others does not.
        DelegateError::new(format!("the library {} cannot be loaded: {error}", path.display())).with_source(error)
    })?;
    // SAFETY: symbols of these names have these types, by the definition of TensorFlow Lite's plug-ins. They are used while
    // the library is loaded, which is for ever.
    unsafe {
        let create = library.get::<CreateDelegate>(b"tflite_plugin_create_delegate\0").map(|symbol| *symbol);
        let destroy = library.get::<DestroyDelegate>(b"tflite_plugin_destroy_delegate\0").map(|symbol| *symbol);
        let stable = library.get::<*const TfLiteStableDelegate>(b"TFL_TheStableDelegate\0").map(|symbol| *symbol);
        std::mem::forget(library);
        match (create, stable) {
            (Ok(create), _) => plug_in(create, destroy.ok(), options),
            (_, Ok(stable)) => stable_delegate(stable, options),
            _ => Err(DelegateError::new(format!(
                "the library {} is no delegate: it has neither the function tflite_plugin_create_delegate nor \
                 TFL_TheStableDelegate",
                path.display()
            ))),
        }
    }
}

/// Opens a library. All symbols that it needs have to be there at once, because one that is missing later ends the process.
#[cfg(unix)]
fn open(path: &Path) -> Result<libloading::Library, libloading::Error> {
    use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
    crate::opaque::keep_exported();
    // SAFETY: loading a library runs its initializers. The user names it in order to run its code.
    unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map(Into::into)
}

/// Opens a library.
#[cfg(not(unix))]
fn open(path: &Path) -> Result<libloading::Library, libloading::Error> {
    crate::opaque::keep_exported();
    // SAFETY: loading a library runs its initializers. The user names it in order to run its code.
    unsafe { libloading::Library::new(path) }
}

/// Has a plug-in make its delegate.
///
/// # Safety
///
/// The functions are those of a plug-in.
unsafe fn plug_in(
    create: CreateDelegate,
    destroy: Option<DestroyDelegate>,
    options: &[(&str, &str)],
) -> Result<Loaded, DelegateError> {
    let text = |text: &str| {
        CString::new(text).map_err(|_| DelegateError::new(format!("the option {text:?} has a zero byte in it")))
    };
    let keys = options.iter().map(|(key, _)| text(key)).collect::<Result<Vec<_>, _>>()?;
    let values = options.iter().map(|(_, value)| text(value)).collect::<Result<Vec<_>, _>>()?;
    let pointers = |texts: &[CString]| texts.iter().map(|text| text.as_ptr()).collect::<Vec<_>>();
    let (keys_of_c, values_of_c) = (pointers(&keys), pointers(&values));
    REPORTED.with_borrow_mut(Vec::clear);
    // SAFETY: the caller states what the function is; the arrays have as many texts as is said, and live until it returns.
    let delegate = unsafe { create(keys_of_c.as_ptr(), values_of_c.as_ptr(), options.len(), Some(take_report)) };
    let delegate = NonNull::new(delegate).ok_or_else(|| {
        let reported = REPORTED.with_borrow_mut(std::mem::take);
        let why = if reported.is_empty() { "it does not say why".to_owned() } else { reported.join("; ") };
        DelegateError::new(format!("the library makes no delegate: {why}"))
    })?;
    Ok(Loaded { delegate, destroy, name: None })
}

/// Has a stable delegate made.
///
/// # Safety
///
/// `stable` is the symbol of a stable delegate.
unsafe fn stable_delegate(
    stable: *const TfLiteStableDelegate,
    options: &[(&str, &str)],
) -> Result<Loaded, DelegateError> {
    let wrong = |text: String| Err(DelegateError::new(text));
    // SAFETY: the caller states what the symbol is, so its texts and its plug-in are valid or null.
    unsafe {
        let Some(stable) = stable.as_ref() else { return wrong("TFL_TheStableDelegate is null".into()) };
        let version = text_from_c(stable.delegate_abi_version).unwrap_or_default();
        if version.split('.').next() != Some("1") {
            return wrong(format!("the stable delegate has version {version} of the interface; 1 is supported"));
        }
        let settings = settings(options)?;
        let bytes = settings.as_ref().map_or(NO_SETTINGS.as_ptr().cast::<c_void>(), |words| words.as_ptr().cast());
        let plug_in = stable.delegate_plugin.as_ref();
        let create = plug_in.and_then(|plug_in| plug_in.create);
        let delegate = create.map_or(std::ptr::null_mut(), |create| create(bytes));
        let Some(delegate) = NonNull::new(delegate) else {
            return wrong("the stable delegate is not made; it does not say why".into());
        };
        let name = text_from_c(stable.delegate_name).filter(|name| !name.is_empty()).map(str::to_owned);
        Ok(Loaded { delegate, destroy: plug_in.and_then(|plug_in| plug_in.destroy), name })
    }
}

/// Reads the settings of a stable delegate, as words so that they are aligned; `None` if no file is named.
fn settings(options: &[(&str, &str)]) -> Result<Option<Vec<u64>>, DelegateError> {
    let Some((key, path)) = options.last() else { return Ok(None) };
    if options.iter().any(|(key, _)| *key != SETTINGS) {
        return Err(DelegateError::new(format!(
            "a stable delegate has no option \"{key}\"; \"{SETTINGS}\" names a file with a flatbuffer TFLiteSettings"
        )));
    }
    let bytes = std::fs::read(path)
        .map_err(|error| DelegateError::new(format!("the settings {path} cannot be read: {error}")))?;
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_ne_bytes(word)
    };
    let root = bytes.first_chunk().map_or(0, |root: &[u8; 4]| u32::from_le_bytes(*root) as usize);
    if root < 4 || root + 4 > bytes.len() {
        return Err(DelegateError::new(format!("the settings {path} are no flatbuffer TFLiteSettings")));
    }
    Ok(Some(bytes.chunks(8).map(word).collect()))
}

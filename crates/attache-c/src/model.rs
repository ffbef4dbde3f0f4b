#![allow(unsafe_code)]
//! `TfLiteModel`: a model file that was opened and checked.

use std::ffi::{c_char, c_void};
use std::slice;

use attache::{Model, ModelError, ModelErrorKind};
use attache_abi::report::{ErrorReporter, text_from_c};

use crate::fault::{Fault, Reporter};
use crate::guard::{exports, guarded};
use crate::live::{self, Kind, Object};

/// A model.
pub(crate) struct TfLiteModel(pub(crate) Model);

impl Object for TfLiteModel {
    const KIND: Kind = Kind::Model;
    const NAME: &'static str = "TfLiteModel";
}

/// Opens a model in memory of the program's, which stays there until the model and its interpreters are deleted.
fn from_memory(data: *const c_void, size: usize) -> Result<Model, Fault> {
    if data.is_null() {
        return Err(Fault::new("null where the bytes of a model are expected"));
    }
    // SAFETY: the contract of the C API: the program keeps `size` bytes unchanged until the model and all interpreters
    // made of it are deleted. Nothing refers to them later.
    let bytes = unsafe { slice::from_raw_parts::<'static, u8>(data.cast(), size) };
    Model::from_static(bytes).map_err(|error| refused(&error))
}

/// What TensorFlow Lite says of bytes that are no model.
const NO_MODEL: &str = "The model is not a valid Flatbuffer buffer";

/// Returns the fault for a model that cannot be read, in the words of TensorFlow Lite where it has some.
fn refused(error: &ModelError) -> Fault {
    match error.kind() {
        ModelErrorKind::NotTflite => Fault::new(NO_MODEL),
        ModelErrorKind::Corrupt => Fault::new(format!("{NO_MODEL}: {error}")),
        _ => Fault::new(error.to_string()),
    }
}

fn from_file(path: *const c_char) -> Result<Model, Fault> {
    // SAFETY: the caller of the C function passes null or a text that a zero byte ends.
    let path = unsafe { text_from_c(path) };
    let path =
        path.ok_or_else(|| Fault::new("null, or bytes that are not UTF-8, where the path of a model is expected"))?;
    Model::from_path(path).map_err(|error| match error.kind() {
        ModelErrorKind::Io => Fault::new(format!("Could not open '{path}'. {error}")),
        // What a file is instead of a model helps; bytes in memory have no name to look for.
        ModelErrorKind::NotTflite => Fault::new(format!("{NO_MODEL}: {error}")),
        _ => refused(&error),
    })
}

fn give(open: impl FnOnce() -> Result<Model, Fault>, reporter: Reporter) -> *mut TfLiteModel {
    let opened = guarded(|| Ok(live::give(Box::new(TfLiteModel(open()?)))));
    reporter.settle(opened, std::ptr::null_mut())
}

exports! {
    /// Opens the model in `size` bytes at `data`, which are not copied. Returns null if they are no valid model.
    fn TfLiteModelCreate(data: *const c_void, size: usize) -> *mut TfLiteModel {
        give(|| from_memory(data, size), Reporter::default())
    } else std::ptr::null_mut();

    /// As `TfLiteModelCreate`, with a function that takes errors.
    fn TfLiteModelCreateWithErrorReporter(
        data: *const c_void,
        size: usize,
        reporter: Option<ErrorReporter>,
        user_data: *mut c_void,
    ) -> *mut TfLiteModel {
        give(|| from_memory(data, size), Reporter::new(reporter, user_data))
    } else std::ptr::null_mut();

    /// Opens a model file, which is mapped into memory. Returns null if it cannot be read or is no valid model.
    fn TfLiteModelCreateFromFile(path: *const c_char) -> *mut TfLiteModel {
        give(|| from_file(path), Reporter::default())
    } else std::ptr::null_mut();

    /// As `TfLiteModelCreateFromFile`, with a function that takes errors.
    fn TfLiteModelCreateFromFileWithErrorReporter(
        path: *const c_char,
        reporter: Option<ErrorReporter>,
        user_data: *mut c_void,
    ) -> *mut TfLiteModel {
        give(|| from_file(path), Reporter::new(reporter, user_data))
    } else std::ptr::null_mut();

    /// Deletes a model. Interpreters made of it stay valid. Does nothing for null.
    fn TfLiteModelDelete(model: *mut TfLiteModel) {
        Reporter::default().settle(live::take(model).map(drop), ());
    } else ();
}

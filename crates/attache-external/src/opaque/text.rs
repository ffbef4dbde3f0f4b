#![allow(unsafe_code)]
//! Strings in tensors. A tensor of strings holds the number of strings, the offset of each and of the end, all as `i32`,
//! and then the characters. Offsets are from the start of the tensor.

use std::ffi::{c_char, c_int};
use std::slice;

use attache::strings;
use attache_abi::{TfLiteAllocationType, TfLiteStatus, TfLiteTensor, TfLiteType};

use crate::guard::guard;
use crate::memory::Integers;
use crate::session::{reallocate, resize};

/// Returns the bytes of a tensor of strings; `None` for other tensors, and for those without memory.
///
/// # Safety
///
/// The tensor is null or valid, and its memory is not changed while the result is in use.
unsafe fn bytes<'a>(tensor: *const TfLiteTensor) -> Option<&'a [u8]> {
    // SAFETY: the caller states it.
    unsafe {
        let tensor = tensor.as_ref()?;
        let is_text = tensor.kind == TfLiteType::STRING && !tensor.data.is_null();
        is_text.then(|| slice::from_raw_parts(tensor.data.cast(), tensor.bytes))
    }
}

/// Returns a number at a place of a list of `i32` at the start of the bytes.
fn number(bytes: &[u8], place: usize) -> Option<usize> {
    let bytes = bytes.get(4 * place..)?.first_chunk()?;
    usize::try_from(i32::from_ne_bytes(*bytes)).ok()
}

/// Returns a string of a tensor; `None` if there is none.
fn text(bytes: &[u8], place: usize) -> Option<&[u8]> {
    if place >= number(bytes, 0)? {
        return None;
    }
    bytes.get(number(bytes, place + 1)?..number(bytes, place + 2)?)
}

/// Writes strings to a tensor, which becomes a dynamic one of their size.
///
/// # Safety
///
/// The tensor is null or valid, and nothing refers to its memory.
unsafe fn write(tensor: *mut TfLiteTensor, texts: &[&[u8]], extents: Option<&[c_int]>) -> TfLiteStatus {
    // SAFETY: the caller states it.
    let Some(tensor) = (unsafe { tensor.as_mut() }) else { return TfLiteStatus::ERROR };
    let Some(content) = strings::encoded(texts.iter().copied()) else { return TfLiteStatus::ERROR };
    if tensor.kind != TfLiteType::STRING || tensor.allocation_type == TfLiteAllocationType::MMAP_RO {
        return TfLiteStatus::ERROR;
    }
    if tensor.allocation_type != TfLiteAllocationType::DYNAMIC {
        (tensor.allocation_type, tensor.data) = (TfLiteAllocationType::DYNAMIC, std::ptr::null_mut());
    }
    let is_made = reallocate(tensor, content.len()).is_ok()
        && extents.is_none_or(|extents| resize(tensor, Integers::new(extents)).is_ok());
    if !is_made {
        return TfLiteStatus::ERROR;
    }
    // SAFETY: the memory was just allocated with this size.
    unsafe { std::ptr::copy_nonoverlapping(content.as_ptr(), tensor.data.cast(), content.len()) };
    TfLiteStatus::OK
}

/// Returns the characters that C code passes; none for null.
///
/// # Safety
///
/// The pointer is null or leads to as many characters.
unsafe fn given<'a>(text: *const c_char, length: c_int) -> Option<&'a [u8]> {
    let length = usize::try_from(length).ok()?;
    if text.is_null() {
        return (length == 0).then_some(&[][..]);
    }
    // SAFETY: the caller states it.
    Some(unsafe { slice::from_raw_parts(text.cast(), length) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueTensorGetStringCount(tensor: *const TfLiteTensor) -> c_int {
    // SAFETY: C code passes null, or what the runtime gave it, and memory of its own.
    guard(-1, || unsafe { bytes(tensor).and_then(|bytes| number(bytes, 0)).map_or(-1, |count| count as c_int) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueTensorGetString(
    tensor: *const TfLiteTensor,
    place: c_int,
    start: *mut *const c_char,
    length: *mut c_int,
) -> TfLiteStatus {
    // SAFETY: C code passes null, or what the runtime gave it, and memory of its own.
    guard(TfLiteStatus::ERROR, || unsafe {
        let text = usize::try_from(place).ok().and_then(|place| text(bytes(tensor)?, place));
        match text {
            Some(text) if !start.is_null() && !length.is_null() => {
                start.write(text.as_ptr().cast());
                length.write(text.len() as c_int);
                TfLiteStatus::OK
            }
            _ => TfLiteStatus::ERROR,
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueTensorWriteStrings(
    tensor: *mut TfLiteTensor,
    texts: *const *const c_char,
    count: c_int,
    lengths: *const c_int,
) -> TfLiteStatus {
    // SAFETY: C code passes null, or what the runtime gave it, and memory of its own.
    guard(TfLiteStatus::ERROR, || unsafe {
        let Ok(number) = usize::try_from(count) else { return TfLiteStatus::ERROR };
        if number > 0 && (texts.is_null() || lengths.is_null()) {
            return TfLiteStatus::ERROR;
        }
        let text = |place: usize| given(texts.add(place).read(), lengths.add(place).read());
        let Some(texts) = (0..number).map(text).collect::<Option<Vec<_>>>() else { return TfLiteStatus::ERROR };
        write(tensor, &texts, Some(&[count]))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueTensorWriteString(
    tensor: *mut TfLiteTensor,
    text: *const c_char,
    length: c_int,
) -> TfLiteStatus {
    // SAFETY: C code passes null, or what the runtime gave it, and memory of its own.
    guard(TfLiteStatus::ERROR, || unsafe {
        match given(text, length) {
            Some(text) => write(tensor, &[text], None),
            None => TfLiteStatus::ERROR,
        }
    })
}

pub(super) static TABLE: super::Table = super::Table(&[
    TfLiteOpaqueTensorGetStringCount as *const (),
    TfLiteOpaqueTensorGetString as *const (),
    TfLiteOpaqueTensorWriteStrings as *const (),
    TfLiteOpaqueTensorWriteString as *const (),
]);

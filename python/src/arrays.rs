#![allow(unsafe_code)]
//! Arrays of NumPy, and their bytes.

use std::ffi::c_int;
use std::ptr::null_mut;
use std::slice;

use attache::DataType;
use numpy::npyffi::{
    NPY_ARRAY_ALIGNED, NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_NOTSWAPPED, NPY_ARRAY_WRITEABLE, NpyTypes, PY_ARRAY_API,
    PyArrayObject, get_type_object, npy_intp,
};
use numpy::{Complex32, Complex64, PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods, dtype};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// Returns NumPy's type of elements; `None` where NumPy has none of that type and LiteRT gives none either.
///
/// Elements of less than a byte have a byte each.
pub(crate) fn dtype_of(py: Python<'_>, data_type: DataType) -> Option<Bound<'_, PyArrayDescr>> {
    Some(match data_type {
        DataType::Float32 => dtype::<f32>(py),
        DataType::Float16 => PyArrayDescr::new(py, "float16").ok()?,
        DataType::Float64 => dtype::<f64>(py),
        DataType::Int8 | DataType::Int4 | DataType::Int2 => dtype::<i8>(py),
        DataType::UInt8 | DataType::UInt4 => dtype::<u8>(py),
        DataType::Int16 => dtype::<i16>(py),
        DataType::UInt16 => dtype::<u16>(py),
        DataType::Int32 => dtype::<i32>(py),
        DataType::UInt32 => dtype::<u32>(py),
        DataType::Int64 => dtype::<i64>(py),
        DataType::UInt64 => dtype::<u64>(py),
        DataType::Bool => dtype::<bool>(py),
        DataType::Complex64 => dtype::<Complex32>(py),
        DataType::Complex128 => dtype::<Complex64>(py),
        DataType::String | DataType::Resource | DataType::Variant => return None,
        DataType::BFloat16 | DataType::Float8E4M3Fn | DataType::Float8E5M2 => return None,
    })
}

/// Returns the class of a tensor's elements, as details have it.
pub(crate) fn class_of(py: Python<'_>, data_type: DataType) -> PyResult<Option<Bound<'_, PyType>>> {
    let class = |name: &str| Ok(Some(py.import("numpy")?.getattr(name)?.cast_into::<PyType>()?));
    match data_type {
        DataType::String => class("bytes_"),
        DataType::Resource | DataType::Variant => class("object_"),
        other => Ok(dtype_of(py, other).map(|descriptor| descriptor.typeobj())),
    }
}

/// Whether two types of elements are stored alike. Systems have several integers of 64 bits.
pub(crate) fn same_type(left: &Bound<'_, PyArrayDescr>, right: &Bound<'_, PyArrayDescr>) -> bool {
    left.kind() == right.kind() && left.itemsize() == right.itemsize()
}

/// Returns the name in TensorFlow Lite of NumPy's type of elements.
pub(crate) fn name_of(descriptor: &Bound<'_, PyArrayDescr>) -> String {
    let bits = descriptor.itemsize() * 8;
    match descriptor.kind() {
        b'f' => format!("FLOAT{bits}"),
        b'i' => format!("INT{bits}"),
        b'u' => format!("UINT{bits}"),
        b'c' => format!("COMPLEX{bits}"),
        b'b' => "BOOL".to_owned(),
        b'S' | b'U' | b'O' => "STRING".to_owned(),
        other => format!("NumPy's kind '{}'", char::from(other)),
    }
}

/// Returns `value` as an array whose elements lie one after the other, in the byte order of the machine. Nothing is copied if
/// it is one.
pub(crate) fn contiguous<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyUntypedArray>> {
    let flags = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED | NPY_ARRAY_NOTSWAPPED;
    let py = value.py();
    // SAFETY: `value` is an object, and a null type and context stand for any. The function returns null with an exception,
    // or a reference that is ours.
    let array = unsafe {
        let array = PY_ARRAY_API.PyArray_CheckFromAny(py, value.as_ptr(), null_mut(), 0, 0, flags, null_mut());
        Bound::from_owned_ptr_or_err(py, array)
    };
    let array = array.map_err(|error| {
        let unreadable = PyValueError::new_err(format!("NumPy cannot make an array of the value: {error}"));
        unreadable.set_cause(py, Some(error));
        unreadable
    })?;
    Ok(array.cast_into::<PyUntypedArray>()?)
}

/// Returns the bytes of an array that [`contiguous`] returned.
pub(crate) fn bytes_of<'a>(array: &'a Bound<'_, PyUntypedArray>) -> &'a [u8] {
    let size = array.len() * array.dtype().itemsize();
    if size == 0 {
        return &[];
    }
    // SAFETY: the elements of a contiguous array are `size` bytes from `data` on, and the array lives as long as the slice.
    // Another thread may write them meanwhile, as in all of NumPy; the bytes are then any.
    unsafe { slice::from_raw_parts((*array.as_array_ptr()).fields.data.cast::<u8>(), size) }
}

/// Makes an array whose elements may have any value, and returns it with its bytes, for the caller to write.
pub(crate) fn empty<'py, 'a>(
    py: Python<'py>,
    descriptor: Bound<'py, PyArrayDescr>,
    shape: &[usize],
) -> PyResult<(Bound<'py, PyUntypedArray>, &'a mut [u8])> {
    let size = shape.iter().product::<usize>() * descriptor.itemsize();
    let array = array(py, descriptor, shape, null_mut(), 0)?;
    if size == 0 {
        return Ok((array, &mut []));
    }
    // SAFETY: the new array has `size` bytes from `data` on. The caller writes them before anybody else sees the array.
    let bytes = unsafe { slice::from_raw_parts_mut((*array.as_array_ptr()).fields.data.cast::<u8>(), size) };
    Ok((array, bytes))
}

/// Makes an array of memory that stays where it is as long as `owner`, which the array keeps.
///
/// # Safety
///
/// There are as many bytes at `data` as the array takes, for as long as `owner` exists, and nothing but the array and the
/// owner of the interpreter's memory, in a thread that holds Python's interpreter lock, writes them.
pub(crate) unsafe fn view<'py>(
    descriptor: Bound<'py, PyArrayDescr>,
    shape: &[usize],
    data: *mut u8,
    is_writable: bool,
    owner: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = owner.py();
    let is_aligned = data.addr().is_multiple_of(descriptor.alignment().max(1));
    let flags = NPY_ARRAY_C_CONTIGUOUS
        | if is_aligned { NPY_ARRAY_ALIGNED } else { 0 }
        | if is_writable { NPY_ARRAY_WRITEABLE } else { 0 };
    let array = array(py, descriptor, shape, data, flags)?;
    // SAFETY: the array is new and has no base; the function takes over the reference.
    let status =
        unsafe { PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast::<PyArrayObject>(), owner.into_ptr()) };
    if status == 0 { Ok(array) } else { Err(PyErr::fetch(py)) }
}

/// Makes an array of `data`, or of new memory if that is null.
fn array<'py>(
    py: Python<'py>,
    descriptor: Bound<'py, PyArrayDescr>,
    shape: &[usize],
    data: *mut u8,
    flags: c_int,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let too_large = |_| PyValueError::new_err(format!("an array cannot have the shape {shape:?}"));
    let rank = c_int::try_from(shape.len()).map_err(too_large)?;
    let extents = shape.iter().map(|extent| npy_intp::try_from(*extent));
    let mut extents: Vec<npy_intp> = extents.collect::<Result<_, _>>().map_err(too_large)?;
    // SAFETY: the extents are as many as the rank, the reference to the type is given away, and strides of null stand for
    // elements one after the other. The function returns null with an exception, or a reference that is ours.
    let array = unsafe {
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            get_type_object(py, NpyTypes::PyArray_Type),
            descriptor.into_dtype_ptr(),
            rank,
            extents.as_mut_ptr(),
            null_mut(),
            data.cast(),
            flags,
            null_mut(),
        );
        Bound::from_owned_ptr_or_err(py, array)
    };
    Ok(array?.cast_into::<PyUntypedArray>()?)
}

/// Returns the number of bits of an element that has less than a byte.
pub(crate) fn packed_bits(data_type: DataType) -> Option<usize> {
    data_type.bits().filter(|bits| *bits < 8 && *bits > 0)
}

/// Gives each element of a packed tensor a byte, with its sign.
pub(crate) fn unpack(data_type: DataType, packed: &[u8], into: &mut [u8]) {
    let Some(bits) = packed_bits(data_type) else { return };
    let (in_a_byte, shift) = (8 / bits, 8 - bits);
    for (index, element) in into.iter_mut().enumerate() {
        let byte = packed.get(index / in_a_byte).copied().unwrap_or(0);
        let upper = byte << (shift - index % in_a_byte * bits);
        *element = match data_type {
            DataType::UInt4 => upper >> shift,
            _ => ((upper as i8) >> shift) as u8,
        };
    }
}

/// Packs elements of a byte each.
pub(crate) fn pack(data_type: DataType, elements: &[u8]) -> Vec<u8> {
    let bits = packed_bits(data_type).unwrap_or(8);
    let in_a_byte = 8 / bits;
    let mask = u8::MAX >> (8 - bits);
    let byte = |elements: &[u8]| {
        elements.iter().enumerate().fold(0, |byte, (index, element)| byte | (element & mask) << (index * bits))
    };
    elements.chunks(in_a_byte).map(byte).collect()
}

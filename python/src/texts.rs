//! Tensors of strings as arrays of NumPy: read as arrays of `bytes` objects, written from those, from `str`, which becomes
//! UTF-8, and from NumPy's own strings, as in LiteRT.

use attache::{Strings, strings};
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::arrays;
use crate::fault::Fault;

/// An array for a tensor of strings.
pub(crate) struct Texts {
    pub(crate) shape: Vec<usize>,
    /// The content of the tensor, as [`Strings`] has it; or what the array has instead of strings.
    pub(crate) content: Result<Vec<u8>, Fault>,
}

/// Reads a value that stands for the strings of a tensor, which messages name `of`.
pub(crate) fn from_python(value: &Bound<'_, PyAny>, of: &str) -> PyResult<Texts> {
    let numpy = value.py().import("numpy")?;
    // Without a type, NumPy would drop zero bytes at the end of strings.
    let array = match value.is_instance(&numpy.getattr("ndarray")?)? {
        true => value.clone(),
        false => numpy.call_method1("array", (value, "O"))?,
    };
    let array = array.cast_into::<PyUntypedArray>()?;
    let (shape, kind) = (array.shape().to_vec(), array.dtype().kind());
    if !b"SUOT".contains(&kind) {
        let given = arrays::name_of(&array.dtype());
        let text = format!("Cannot set tensor: Got value of type {given} but expected type STRING for {of}");
        return Ok(Texts { shape, content: Err(Fault::new(text)) });
    }
    if (kind, &shape[..]) == (b'S', &[]) {
        // All bytes of the one string, also zeros at its end, as in LiteRT.
        let text = array.call_method0("tobytes")?.cast_into::<PyBytes>()?;
        return Ok(Texts { shape, content: encoded(&[text.as_bytes().to_vec()]) });
    }
    let elements = array.call_method1("astype", ("O",))?.call_method0("ravel")?.call_method0("tolist")?;
    let elements = elements.cast_into::<PyList>()?;
    let content = elements.iter().map(|element| bytes_of(&element)).collect::<Result<Vec<_>, _>>();
    Ok(Texts { shape, content: content.and_then(|texts| encoded(&texts)) })
}

fn encoded(texts: &[Vec<u8>]) -> Result<Vec<u8>, Fault> {
    let encoded = strings::encoded(texts.iter().map(Vec::as_slice));
    encoded.ok_or_else(|| Fault::new("the strings exceed 2 GiB or the memory; pass fewer or shorter ones"))
}

fn bytes_of(element: &Bound<'_, PyAny>) -> Result<Vec<u8>, Fault> {
    if let Ok(bytes) = element.cast::<PyBytes>() {
        return Ok(bytes.as_bytes().to_vec());
    }
    let Ok(text) = element.cast::<PyString>() else {
        return Err(Fault::new(format!("a tensor of type STRING takes bytes and str, not {}", element.get_type())));
    };
    let text = text.to_cow().map_err(|error| Fault::new(format!("a str that has no UTF-8: {error}")))?;
    Ok(text.as_bytes().to_vec())
}

/// Returns the array of a tensor with this content and shape.
pub(crate) fn to_python<'py>(py: Python<'py>, content: &[u8], shape: &[usize]) -> PyResult<Bound<'py, PyAny>> {
    let texts = Strings::new(content, shape.iter().product());
    let texts = texts.map_err(|error| Fault::new(error.to_string()).value())?;
    let numpy = py.import("numpy")?;
    let flat = numpy.call_method1("empty", (texts.len(), "O"))?;
    for (index, text) in texts.iter().enumerate() {
        flat.set_item(index, PyBytes::new(py, text))?;
    }
    flat.call_method1("reshape", (shape.to_vec(),))
}

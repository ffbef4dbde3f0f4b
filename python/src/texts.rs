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

/// Reads a value that stands for strings.
pub(crate) fn from_python(value: &Bound<'_, PyAny>) -> PyResult<Texts> {
    let numpy = value.py().import("numpy")?;
    // Without a type, NumPy would drop zero bytes at the end of strings.
    let array = match value.is_instance(&numpy.getattr("ndarray")?)? {
        true => value.clone(),
        false => numpy.call_method1("array", (value, "O"))?,
    };
    let array = array.cast_into::<PyUntypedArray>()?;
    let (shape, kind) = (array.shape().to_vec(), array.dtype().kind());
    if !b"SUOT".contains(&kind) {
        let text =
            format!("a tensor of type STRING takes strings; the value is of type {}", arrays::name_of(&array.dtype()));
        return Ok(Texts { shape, content: Err(Fault::new(text)) });
    }
    let elements = array.call_method1("astype", ("O",))?.call_method0("ravel")?.call_method0("tolist")?;
    let elements = elements.cast_into::<PyList>()?;
    let content = elements.iter().map(|element| bytes_of(&element)).collect::<Result<Vec<_>, _>>();
    let content = content.and_then(|texts| {
        let encoded = strings::encoded(texts.iter().map(Vec::as_slice));
        encoded.ok_or_else(|| Fault::new("the strings exceed 2 GiB; pass fewer or shorter ones"))
    });
    Ok(Texts { shape, content })
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

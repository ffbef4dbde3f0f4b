//! Indices that programs name.

use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyFloat;

/// Returns the index of a tensor, a subgraph or a node, which need not exist: a whole number of 32 bits.
///
/// Scalars of NumPy are indices if they are whole, whatever their type. Other objects, and larger numbers, are a `TypeError`.
pub(crate) fn index(object: &Bound<'_, PyAny>) -> PyResult<i64> {
    let refused = |_| PyTypeError::new_err(format!("{object:?} is no index, which is a whole number of 32 bits"));
    match object.extract::<i32>() {
        Ok(index) => Ok(index.into()),
        Err(error) if error.is_instance_of::<PyOverflowError>(object.py()) || object.is_instance_of::<PyFloat>() => {
            Err(refused(error))
        }
        Err(error) => {
            let whole = object.call_method0("__int__").map_err(refused)?;
            if whole.eq(object)? { whole.extract::<i32>().map(i64::from).map_err(refused) } else { Err(refused(error)) }
        }
    }
}

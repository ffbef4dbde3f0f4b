//! The dense array that files, pictures and random numbers are read into.

use attache::{DataType, Shape};

/// A dense array in C order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Array {
    /// Type of the elements.
    pub(crate) data_type: DataType,
    /// Extents, outermost first; none for a scalar.
    pub(crate) shape: Shape,
    /// The elements in this machine's byte order; strings in the form of tensors.
    pub(crate) bytes: Vec<u8>,
}

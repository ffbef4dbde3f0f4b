//! Reader for NumPy's `.npy` files: version 1.0, little-endian, row-major. The module that includes this one
//! defines `Value`, the type that arrays are read into.

use std::path::Path;

use attache_base::{DataType, Shape, strings};

use super::Value;

/// The element types that can be read, by their code in the `descr` field of a file's header.
const TYPES: [(&str, DataType); 14] = [
    ("<f4", DataType::Float32),
    ("<f2", DataType::Float16),
    ("<f8", DataType::Float64),
    ("<c8", DataType::Complex64),
    ("<c16", DataType::Complex128),
    ("<i4", DataType::Int32),
    ("<i8", DataType::Int64),
    ("<i2", DataType::Int16),
    ("|i1", DataType::Int8),
    ("<u4", DataType::UInt32),
    ("<u8", DataType::UInt64),
    ("<u2", DataType::UInt16),
    ("|u1", DataType::UInt8),
    ("|b1", DataType::Bool),
];

/// Reads the array in a file.
pub(crate) fn read(path: &Path) -> Result<Value, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    parse(&bytes).ok_or_else(|| format!("{}: not an array that this reader knows", path.display()))
}

fn parse(bytes: &[u8]) -> Option<Value> {
    let rest = bytes.strip_prefix(b"\x93NUMPY\x01\x00")?;
    let length = usize::from(u16::from_le_bytes([*rest.first()?, *rest.get(1)?]));
    let (header, elements) = rest.get(2..)?.split_at_checked(length)?;
    let header = std::str::from_utf8(header).ok()?;
    let extents = header.split_once("'shape': (")?.1.split_once(')')?.0;
    let extents = extents.split(',').map(str::trim).filter(|extent| !extent.is_empty());
    let shape: Shape = extents.map(|extent| extent.parse().ok()).collect::<Option<Vec<usize>>>()?.into();
    let is_row_major = header.contains("'fortran_order': False");
    if let Some((_, rest)) = header.split_once("'descr': '|S") {
        return text(shape, rest.split_once('\'')?.0.parse().ok()?, elements).filter(|_| is_row_major);
    }
    let data_type = TYPES.iter().find(|(name, _)| header.contains(&format!("'descr': '{name}'")))?.1;
    (is_row_major && data_type.byte_size(shape.elements())? == elements.len())
        .then(|| Value::new(data_type, shape, elements))
}

/// Returns an array of strings, each of which has `width` bytes in the file, padded with zeros.
fn text(shape: Shape, width: usize, elements: &[u8]) -> Option<Value> {
    let end = |text: &[u8]| text.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let texts: Vec<&[u8]> =
        (0..shape.elements()).map(|index| elements.get(index * width..(index + 1) * width)).collect::<Option<_>>()?;
    let bytes = strings::encoded(texts.into_iter().map(|text| &text[..end(text)]))?;
    Some(Value::new(DataType::String, shape, &bytes))
}

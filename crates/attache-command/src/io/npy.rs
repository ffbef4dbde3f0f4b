//! Reads and writes arrays in numpy's `.npy` format (1.0 to 3.0).
//!
//! All numeric types, booleans and strings in C order are supported, in either byte order; the elements of an array in
//! memory have this machine's byte order, and strings the form of tensors. Files are not trusted. Fortran order, objects and
//! structures are not supported.

use std::path::Path;

use attache::{DataType, Shape};

use crate::failure::Failure;
use crate::io::array::Array;
use crate::io::{files, texts};

const MAGIC: &[u8] = b"\x93NUMPY";
/// What to do about a damaged file.
const AGAIN: &str = "save it again with numpy.save";
/// Alignment of the elements in a written file, in bytes; the header is padded to reach it.
const ALIGNMENT: usize = 64;

/// One row per type: numpy's code without its byte order, the type, and the size in bytes of the units that a
/// change of byte order reverses.
const TYPES: [(&str, DataType, usize); 14] = [
    ("b1", DataType::Bool, 1),
    ("i1", DataType::Int8, 1),
    ("u1", DataType::UInt8, 1),
    ("i2", DataType::Int16, 2),
    ("u2", DataType::UInt16, 2),
    ("f2", DataType::Float16, 2),
    ("i4", DataType::Int32, 4),
    ("u4", DataType::UInt32, 4),
    ("f4", DataType::Float32, 4),
    ("i8", DataType::Int64, 8),
    ("u8", DataType::UInt64, 8),
    ("f8", DataType::Float64, 8),
    ("c8", DataType::Complex64, 4),
    ("c16", DataType::Complex128, 8),
];

/// Reads a `.npy` file.
pub(crate) fn read(path: &Path) -> Result<Array, Failure> {
    decode(&files::read(path)?).map_err(|failure| failure.at(path.display()))
}

/// Whether the bytes begin like those of a `.npy` file.
pub(crate) fn is_array(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Decodes the bytes of a `.npy` file.
pub(crate) fn decode(bytes: &[u8]) -> Result<Array, Failure> {
    parse(bytes).map_err(Failure::usage)
}

/// Returns the bytes of an array as a `.npy` file, which is to be written to `path`.
pub(crate) fn encode(path: &Path, array: &Array) -> Result<Vec<u8>, Failure> {
    emit(array).map_err(|reason| Failure::unsupported(reason).at(path.display()))
}

fn parse(file: &[u8]) -> Result<Array, String> {
    let cut = || format!("the file is cut off within its header; {AGAIN}");
    let rest = file.strip_prefix(MAGIC).ok_or("this is not a .npy file; save the array with numpy.save")?;
    let (&version, rest) = rest.split_first().ok_or_else(cut)?;
    let rest = rest.get(1..).ok_or_else(cut)?;
    let digits = match version {
        1 => 2,
        2 | 3 => 4,
        _ => return Err(format!("format {version} of .npy files is not known; {AGAIN}")),
    };
    let (length, rest) = rest.split_at_checked(digits).ok_or_else(cut)?;
    let length = length.iter().rev().fold(0usize, |sum, digit| sum << 8 | *digit as usize);
    let (header, elements) = rest.split_at_checked(length).ok_or_else(cut)?;
    let header = std::str::from_utf8(header).map_err(|_| format!("the header is not text; {AGAIN}"))?;

    let code = field(header, "descr")?.trim_matches(['\'', '"']);
    let text = parse_text_type(code);
    let (data_type, unit, swapped) =
        text.map_or_else(|| parse_type(code), |text| Ok((DataType::String, 4, text.swapped)))?;
    if field(header, "fortran_order")? != "False" {
        return Err("the array is in Fortran order; save numpy.ascontiguousarray(array)".to_owned());
    }
    let shape = parse_shape(field(header, "shape")?)?;
    let size = shape.checked_elements().and_then(|count| match text {
        Some(text) => count.checked_mul(text.size()?),
        None => data_type.byte_size(count),
    });
    let size = size.ok_or_else(|| format!("the shape {shape} is too large; save a smaller array"))?;
    if elements.len() != size {
        return Err(format!(
            "{data_type} of shape {shape} takes {size} bytes, the file holds {}; {AGAIN}",
            elements.len()
        ));
    }
    let mut bytes = elements.to_vec();
    if swapped {
        bytes.chunks_exact_mut(unit).for_each(<[u8]>::reverse);
    }
    let Some(text) = text else { return Ok(Array { data_type, shape, bytes }) };
    let texts = texts::of_numpy(text.is_bytes, &bytes, text.width, shape.elements())?;
    texts::array(shape, &texts)
}

/// NumPy's strings of one width.
#[derive(Clone, Copy)]
struct TextType {
    /// Whether they are of bytes, or else of code points of 32 bits.
    is_bytes: bool,
    width: usize,
    /// Whether the byte order of code points differs from this machine's.
    swapped: bool,
}

impl TextType {
    /// Returns the size of a string in bytes; `None` if it overflows.
    fn size(self) -> Option<usize> {
        self.width.checked_mul(if self.is_bytes { 1 } else { 4 })
    }
}

/// Parses numpy's code of strings; `None` for other types.
fn parse_text_type(code: &str) -> Option<TextType> {
    let (order, name) = code.split_at_checked(1)?;
    let (kind, width) = name.split_at_checked(1)?;
    let is_bytes = match kind {
        "S" => true,
        "U" => false,
        _ => return None,
    };
    let other = if cfg!(target_endian = "little") { ">" } else { "<" };
    Some(TextType { is_bytes, width: width.parse().ok()?, swapped: !is_bytes && order == other })
}

/// Returns the text of the value of `key` in the header, which is a Python dictionary with three entries.
fn field<'a>(header: &'a str, key: &str) -> Result<&'a str, String> {
    let missing = || format!("the header has no '{key}'; {AGAIN}");
    let names = [format!("'{key}'"), format!("\"{key}\"")];
    let start = names.iter().find_map(|name| Some(header.find(name)? + name.len())).ok_or_else(missing)?;
    let value = header[start..].trim_start().strip_prefix(':').ok_or_else(missing)?.trim_start();
    let end = if value.starts_with('(') { value.find(')').map(|end| end + 1) } else { value.find([',', '}']) };
    Ok(value[..end.ok_or_else(missing)?].trim())
}

/// Parses numpy's code of a type. Returns the type, the size in bytes of its byte-order units, and whether
/// their byte order differs from this machine's.
fn parse_type(code: &str) -> Result<(DataType, usize, bool), String> {
    let unknown = || format!("elements of type '{code}' are not supported; use one of numpy's numeric types");
    let (order, name) = code.split_at_checked(1).ok_or_else(unknown)?;
    let row = TYPES.iter().find(|row| row.0 == name).ok_or_else(unknown)?;
    let swapped = match order {
        "|" | "=" => false,
        "<" => cfg!(target_endian = "big"),
        ">" => cfg!(target_endian = "little"),
        _ => return Err(unknown()),
    };
    Ok((row.1, row.2, swapped))
}

fn parse_shape(text: &str) -> Result<Shape, String> {
    let wrong = || format!("{text} is not a shape; {AGAIN}");
    let inner = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).ok_or_else(wrong)?;
    let extents = inner.split(',').map(str::trim).filter(|extent| !extent.is_empty());
    // Python 2 wrote integers as `2L`.
    extents.map(|extent| extent.trim_end_matches('L').parse::<usize>().map_err(|_| wrong())).collect()
}

fn emit(array: &Array) -> Result<Vec<u8>, String> {
    if array.data_type == DataType::String {
        let (width, elements) = texts::to_numpy(&array.bytes, array.shape.elements())?;
        return written(&format!("S{width}"), 1, &array.shape, &elements);
    }
    let row = TYPES.iter().find(|row| row.1 == array.data_type);
    let (name, _, unit) = row.ok_or_else(|| format!("numpy has no type for {}; leave out --out", array.data_type))?;
    written(name, *unit, &array.shape, &array.bytes)
}

/// Returns a file of elements of a type, whose byte order concerns units of this size.
fn written(name: &str, unit: usize, shape: &Shape, elements: &[u8]) -> Result<Vec<u8>, String> {
    let order = match (unit, cfg!(target_endian = "little")) {
        (1, _) => '|',
        (_, true) => '<',
        (_, false) => '>',
    };
    let extents: String = shape.iter().map(|extent| format!("{extent}, ")).collect();
    let extents = if shape.rank() == 1 { extents.trim_end() } else { extents.trim_end_matches(", ") };
    let mut header = format!("{{'descr': '{order}{name}', 'fortran_order': False, 'shape': ({extents}), }}");
    let start = MAGIC.len() + 4;
    let padded = (start + header.len() + 1).next_multiple_of(ALIGNMENT) - start;
    header.push_str(&" ".repeat(padded - header.len() - 1));
    header.push('\n');
    let length =
        u16::try_from(header.len()).map_err(|_| "the shape has too many axes for a .npy file; leave out --out")?;
    let parts = [MAGIC, &[1, 0], &length.to_le_bytes(), header.as_bytes(), elements];
    let (size, mut file) = (parts.iter().map(|part| part.len()).sum(), Vec::new());
    file.try_reserve_exact(size).map_err(|_| format!("there is no memory for a file of {size} bytes"))?;
    parts.iter().for_each(|part| file.extend_from_slice(part));
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, elements: &[u8]) -> Vec<u8> {
        [MAGIC, &[1, 0], &(header.len() as u16).to_le_bytes(), header.as_bytes(), elements].concat()
    }

    #[test]
    fn every_type_survives_a_round_trip() {
        for (_, data_type, _) in TYPES {
            for shape in [Shape::from([]), Shape::from([3]), Shape::from([2, 0, 5]), Shape::from([2, 3])] {
                let size = data_type.byte_size(shape.elements()).unwrap();
                let array = Array { data_type, shape, bytes: (0..size).map(|byte| byte as u8).collect() };
                let bytes = emit(&array).unwrap();
                assert_eq!((bytes.len() - size) % ALIGNMENT, 0);
                assert_eq!(parse(&bytes).unwrap(), array);
            }
        }
    }

    #[test]
    fn strings_are_read_and_written() {
        let shape = Shape::from([2, 2]);
        let array = texts::array(shape, &["a", "", "\u{e4}", "three"]).unwrap();
        let bytes = emit(&array).unwrap();
        assert!(String::from_utf8_lossy(&bytes).contains("'descr': '|S5'"));
        assert_eq!(parse(&bytes).unwrap(), array);
        let points = |order: fn(u32) -> [u8; 4]| {
            "a\0\0\0\0\0\0\0\0\0\u{e4}\0\0\0\0three".chars().flat_map(|point| order(point.into())).collect::<Vec<_>>()
        };
        let header = |order| format!("{{'descr': '{order}U5', 'fortran_order': False, 'shape': (2, 2), }}\n");
        assert_eq!(parse(&file(&header('<'), &points(u32::to_le_bytes))).unwrap(), array);
        assert_eq!(parse(&file(&header('>'), &points(u32::to_be_bytes))).unwrap(), array);
        let invalid = file("{'descr': '<U1', 'fortran_order': False, 'shape': (1,), }\n", &0xd800_u32.to_le_bytes());
        assert_eq!(parse(&invalid).unwrap_err(), "string 0 is not Unicode");
        let far = format!("{{'descr': '|S{}', 'fortran_order': False, 'shape': (9,), }}\n", usize::MAX);
        assert!(parse(&file(&far, &[])).unwrap_err().contains("too large"));
        let empty = file("{'descr': '|S0', 'fortran_order': False, 'shape': (3,), }\n", &[]);
        assert_eq!(parse(&empty).unwrap(), texts::array(Shape::from([3]), &["", "", ""]).unwrap());
    }

    #[test]
    fn headers_are_numpys_own() {
        let array = Array { data_type: DataType::Float32, shape: Shape::from([1]), bytes: vec![0; 4] };
        let text = String::from_utf8_lossy(&emit(&array).unwrap()).into_owned();
        assert!(text.contains("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }  "), "{text}");
    }

    #[test]
    fn big_endian_numbers_are_turned_round() {
        let bytes = file("{'descr': '>i2', 'fortran_order': False, 'shape': (2,), }\n", &[1, 2, 3, 4]);
        assert_eq!(parse(&bytes).unwrap().bytes, [2, 1, 4, 3]);
    }

    #[test]
    fn longer_headers_have_four_digits() {
        let header = "{'descr': '|b1', 'fortran_order': False, 'shape': (), }\n";
        let bytes = [MAGIC, &[2, 0], &(header.len() as u32).to_le_bytes(), header.as_bytes(), &[1]].concat();
        assert_eq!(parse(&bytes).unwrap().data_type, DataType::Bool);
    }

    #[test]
    fn bad_files_are_errors() {
        let cases = [
            (b"PNG".to_vec(), "not a .npy file"),
            (MAGIC.to_vec(), "cut off"),
            ([MAGIC, &[9, 0, 0, 0]].concat(), "format 9"),
            ([MAGIC, &[1, 0, 255, 255]].concat(), "cut off"),
            (file("{}", &[]), "no 'descr'"),
            (file("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }", &[0; 16]), "ascontiguousarray"),
            (file("{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", &[]), "'|O'"),
            (file("{'descr': '', 'fortran_order': False, 'shape': (2,), }", &[]), "''"),
            (file("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", &[0; 7]), "takes 8 bytes"),
            (file("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", &[]), "not a shape"),
            (file("{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", &[]), "too large"),
        ];
        for (bytes, expected) in cases {
            let error = parse(&bytes).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}

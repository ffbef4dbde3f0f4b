//! Reads and writes FlexBuffers, restricted to what custom operators use for their options: one map from
//! names to numbers and booleans.
//!
//! Any bytes may be read: malformed ones give `None`, and the memory used is proportional to the number of
//! bytes. Values of other types (strings, vectors, nested maps) are skipped. This is not a general
//! FlexBuffers reader.
//!
//! Source: "FlexBuffers" in FlatBuffers' documentation of its internals. A map is a vector of values, each of
//! the map's width in bytes, followed by one type byte per value. The offset of the keys, the width of each
//! key's offset and the number of values are stored before the map, in this order. All offsets are distances
//! in bytes back from the position where they are stored. A buffer ends with the type byte and the width of
//! its root.

/// Maximum length of a name in bytes; no operator uses longer ones.
const MOST_NAME: usize = 255;

const INT: u8 = 1;
const UINT: u8 = 2;
const FLOAT: u8 = 3;
const INDIRECT_INT: u8 = 6;
const INDIRECT_UINT: u8 = 7;
const INDIRECT_FLOAT: u8 = 8;
const MAP: u8 = 9;
const BOOL: u8 = 26;

/// A scalar value of a [`FlexMap`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum FlexScalar {
    /// A signed or unsigned integer, stored in 1 to 8 bytes.
    Int(i64),
    /// A float, stored in 4 or 8 bytes.
    Float(f64),
    /// A boolean; any stored value other than 0 is true.
    Bool(bool),
}

/// The scalar entries of a FlexBuffers map: pairs of name and value.
#[derive(Clone, Debug, PartialEq)]
pub struct FlexMap<'a>(Vec<(&'a str, FlexScalar)>);

impl<'a> FlexMap<'a> {
    /// Reads the map at the root of a FlexBuffer and keeps its scalar entries; returns `None` if the root is
    /// not a map or the bytes are malformed.
    #[must_use]
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let buffer = Buffer(bytes);
        let [.., root_type, root_width] = *bytes else { return None };
        let root = bytes.len().checked_sub(2 + usize::from(root_width))?;
        if root_type >> 2 != MAP {
            return None;
        }
        let (map, width) = (buffer.back(root, root_width.into())?, 1 << (root_type & 3));
        let length = usize::try_from(buffer.unsigned(map.checked_sub(width)?, width)?).ok()?;
        let key_width = usize::try_from(buffer.unsigned(map.checked_sub(2 * width)?, width)?).ok()?;
        let keys = buffer.back(map.checked_sub(3 * width)?, width)?;
        let types = map.checked_add(length.checked_mul(width)?)?;
        let types = bytes.get(types..types.checked_add(length)?)?;
        let mut entries = Vec::new();
        for (index, packed) in types.iter().enumerate() {
            let key = keys.checked_add(index.checked_mul(key_width)?)?;
            let name = buffer.name(buffer.back(key, key_width)?)?;
            entries.extend(buffer.scalar(map + index * width, width, *packed)?.map(|scalar| (name, scalar)));
        }
        Some(Self(entries))
    }

    /// Returns the scalar with this name, or `None` if the map has none.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<FlexScalar> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, scalar)| *scalar)
    }

    /// Returns the bytes of a FlexBuffer whose root is a map with these entries. Every value is written with
    /// 32 bits.
    ///
    /// # Panics
    ///
    /// Panics if an integer does not fit 32 bits.
    #[must_use]
    pub fn write(entries: &[(&str, FlexScalar)]) -> Vec<u8> {
        let mut entries = entries.to_vec();
        entries.sort_by_key(|(name, _)| *name);
        let (mut bytes, mut names) = (Vec::new(), Vec::new());
        for (name, _) in &entries {
            names.push(bytes.len());
            bytes.extend(name.bytes().chain([0]));
        }
        align(&mut bytes);
        put(&mut bytes, entries.len());
        let keys = bytes.len();
        names.iter().for_each(|name| put_distance(&mut bytes, *name));
        put_distance(&mut bytes, keys);
        put(&mut bytes, 4);
        put(&mut bytes, entries.len());
        let map = bytes.len();
        entries.iter().for_each(|(_, scalar)| bytes.extend(scalar.word()));
        bytes.extend(entries.iter().map(|(_, scalar)| scalar.packed_type()));
        align(&mut bytes);
        put_distance(&mut bytes, map);
        bytes.extend([packed(MAP), 4]);
        bytes
    }
}

impl FlexScalar {
    fn word(self) -> [u8; 4] {
        match self {
            Self::Int(value) => i32::try_from(value).expect("an option of 32 bits").to_le_bytes(),
            Self::Float(value) => (value as f32).to_le_bytes(),
            Self::Bool(value) => u32::from(value).to_le_bytes(),
        }
    }

    fn packed_type(self) -> u8 {
        packed(match self {
            Self::Int(_) => INT,
            Self::Float(_) => FLOAT,
            Self::Bool(_) => BOOL,
        })
    }
}

/// Returns the type byte of a value of this type that is 4 bytes wide.
fn packed(kind: u8) -> u8 {
    kind << 2 | 2
}

fn align(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

fn put(bytes: &mut Vec<u8>, number: usize) {
    bytes.extend((number as u32).to_le_bytes());
}

fn put_distance(bytes: &mut Vec<u8>, position: usize) {
    put(bytes, bytes.len() - position);
}

/// The bytes of a FlexBuffer, with bounds-checked reads at arbitrary offsets.
#[derive(Clone, Copy)]
struct Buffer<'a>(&'a [u8]);

impl<'a> Buffer<'a> {
    /// Returns the bytes of the little-endian word of 1, 2, 4 or 8 bytes at `position`; `None` for another
    /// width or out of bounds.
    fn word(self, position: usize, width: usize) -> Option<&'a [u8]> {
        [1, 2, 4, 8].contains(&width).then(|| self.0.get(position..position.checked_add(width)?))?
    }

    fn unsigned(self, position: usize, width: usize) -> Option<u64> {
        Some(self.word(position, width)?.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn signed(self, position: usize, width: usize) -> Option<i64> {
        let unused = 64 - 8 * width as u32;
        Some((self.unsigned(position, width)? << unused) as i64 >> unused)
    }

    fn float(self, position: usize, width: usize) -> Option<f64> {
        match *self.word(position, width)? {
            [a, b, c, d] => Some(f32::from_le_bytes([a, b, c, d]).into()),
            [a, b, c, d, e, f, g, h] => Some(f64::from_le_bytes([a, b, c, d, e, f, g, h])),
            _ => None,
        }
    }

    /// Returns the position that the backward offset stored at `position` refers to. The offset is `width`
    /// bytes wide.
    fn back(self, position: usize, width: usize) -> Option<usize> {
        position.checked_sub(usize::try_from(self.unsigned(position, width)?).ok()?)
    }

    fn name(self, position: usize) -> Option<&'a str> {
        let text = self.0.get(position..)?;
        let end = text.iter().take(MOST_NAME + 1).position(|byte| *byte == 0)?;
        std::str::from_utf8(&text[..end]).ok()
    }

    /// Reads the value whose type byte is `packed`, which is stored at `position` or referenced from there.
    /// Returns `Some(None)` if the type is not a scalar, `None` if the value is malformed.
    fn scalar(self, position: usize, width: usize, packed: u8) -> Option<Option<FlexScalar>> {
        let (kind, inner) = (packed >> 2, 1 << (packed & 3));
        let (position, width) = match kind {
            INDIRECT_INT | INDIRECT_UINT | INDIRECT_FLOAT => (self.back(position, width)?, inner),
            _ => (position, width),
        };
        Some(match kind {
            INT | INDIRECT_INT => Some(FlexScalar::Int(self.signed(position, width)?)),
            UINT | INDIRECT_UINT => Some(FlexScalar::Int(i64::try_from(self.unsigned(position, width)?).ok()?)),
            FLOAT | INDIRECT_FLOAT => Some(FlexScalar::Float(self.float(position, width)?)),
            BOOL => Some(FlexScalar::Bool(self.unsigned(position, width)? != 0)),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRIES: [(&str, FlexScalar); 4] = [
        ("scale", FlexScalar::Float(0.5)),
        ("count", FlexScalar::Int(-7)),
        ("regular", FlexScalar::Bool(true)),
        ("most", FlexScalar::Int(1 << 20)),
    ];

    /// The bytes that FlatBuffers' own writer produces for `{"a": 300, "b": 1.5, "c": true, "s": "x"}`: all
    /// inline values are 4 bytes wide.
    const FOREIGN: &[u8] = b"a\0b\0c\0s\0\x01x\0\x04\x0c\x0b\x0a\x09\x04\0\0\0\x01\0\0\0\x04\0\0\0\x2c\x01\0\0\
        \0\0\xc0\x3f\x01\0\0\0\x1f\0\0\0\x06\x0e\x6a\x14\x14\x26\x01";

    #[test]
    fn what_is_written_is_read() {
        let bytes = FlexMap::write(&ENTRIES);
        let map = FlexMap::read(&bytes).unwrap();
        for (name, scalar) in ENTRIES {
            assert_eq!(map.get(name), Some(scalar));
        }
        assert_eq!(map.get("coun"), None);
        assert_eq!(FlexMap::read(&FlexMap::write(&[])), Some(FlexMap(Vec::new())));
    }

    #[test]
    fn other_writers_choose_other_widths() {
        let map = FlexMap::read(FOREIGN).unwrap();
        assert_eq!(map.get("a"), Some(FlexScalar::Int(300)));
        assert_eq!(map.get("b"), Some(FlexScalar::Float(1.5)));
        assert_eq!(map.get("c"), Some(FlexScalar::Bool(true)));
        assert_eq!(map.get("s"), None);
    }

    #[test]
    fn damage_is_no_map() {
        assert_eq!(FlexMap::read(&[]), None);
        assert_eq!(FlexMap::read(&[5, packed(INT), 1]), None);
        let whole = FlexMap::write(&ENTRIES);
        assert!((0..whole.len()).all(|end| FlexMap::read(&whole[..end]).is_none()));
        for position in 0..whole.len() {
            for byte in 0..=255 {
                let mut bytes = whole.clone();
                bytes[position] = byte;
                // Any result is accepted; the read must only return.
                let entries = FlexMap::read(&bytes).map_or(0, |map| map.0.len());
                assert!(entries <= bytes.len());
            }
        }
    }

    #[test]
    fn names_end() {
        let endless = vec![b'a'; 1000];
        assert_eq!(Buffer(&endless).name(0), None);
        assert_eq!(Buffer(b"abc\0").name(1), Some("bc"));
        assert_eq!(Buffer(b"\xff\0").name(0), None);
    }
}

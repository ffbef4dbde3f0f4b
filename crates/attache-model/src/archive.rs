//! Reads associated files, e.g. labels and vocabularies, from the zip archive that TFLite Metadata appends to
//! a model.
//!
//! Entries may be stored or deflated. Sizes are bounded by the archive and by [`MOST_UNPACKED`]. Entry names
//! are never used as file system paths.

use miniz_oxide::inflate::decompress_to_vec_with_limit;

use crate::error::{ModelError, ModelErrorKind, quoted};
use ModelErrorKind::{Corrupt, NotFound, Unsupported};

/// Maximum size of an unpacked entry in bytes.
const MOST_UNPACKED: usize = 256 << 20;

const END_SIGNATURE: &[u8] = b"PK\x05\x06";
const END_SIZE: usize = 22;
const ENTRY_SIGNATURE: &[u8] = b"PK\x01\x02";
const ENTRY_SIZE: usize = 46;
const LOCAL_SIGNATURE: &[u8] = b"PK\x03\x04";
const LOCAL_SIZE: usize = 30;

/// An entry of the archive's central directory, which describes one file; sizes are in bytes.
pub(crate) struct Entry<'a> {
    pub(crate) name: String,
    encrypted: bool,
    method: u16,
    checksum: u32,
    size: usize,
    /// The bytes of the model file from the entry's local header to the start of the central directory.
    bytes: &'a [u8],
    packed_size: usize,
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn usize_at(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u32_at(bytes, at)?).ok()
}

/// Returns the offset in bytes of the end-of-central-directory record. Only a comment of at most 65,535 bytes
/// may follow the record.
fn end_record(file: &[u8]) -> Option<usize> {
    let earliest = file.len().saturating_sub(END_SIZE + usize::from(u16::MAX));
    (earliest..=file.len().checked_sub(END_SIZE)?).rev().find(|&at| {
        let comment = file.len() - at - END_SIZE;
        file[at..].starts_with(END_SIGNATURE) && u16_at(file, at + 20).map(usize::from) == Some(comment)
    })
}

/// Lists the files in the archive appended to a model; none if there is no archive. Entries that point
/// outside of the archive are omitted.
pub(crate) fn entries(file: &[u8]) -> Vec<Entry<'_>> {
    directory(file).unwrap_or_default()
}

fn directory(file: &[u8]) -> Option<Vec<Entry<'_>>> {
    let end = end_record(file)?;
    let (size, offset) = (usize_at(file, end + 12)?, usize_at(file, end + 16)?);
    let start = end.checked_sub(size)?;
    // Offsets count from the start of the archive. Some writers count from the start of the model file
    // instead.
    let base = start.checked_sub(offset)?;
    let mut rows = &file[start..end];
    let mut entries = Vec::new();
    while rows.starts_with(ENTRY_SIGNATURE) && rows.len() >= ENTRY_SIZE {
        let lengths = [28, 30, 32].map(|at| u16_at(rows, at).map_or(0, usize::from));
        let Some(name) = rows.get(ENTRY_SIZE..ENTRY_SIZE + lengths[0]) else { break };
        let local = base.checked_add(usize_at(rows, 42)?);
        if let Some(bytes) = local.and_then(|local| file.get(local..start)) {
            entries.push(Entry {
                name: String::from_utf8_lossy(name).into_owned(),
                encrypted: u16_at(rows, 8)? & 1 == 1,
                method: u16_at(rows, 10)?,
                checksum: u32_at(rows, 16)?,
                packed_size: usize_at(rows, 20)?,
                size: usize_at(rows, 24)?,
                bytes,
            });
        }
        let Some(rest) = rows.get(ENTRY_SIZE + lengths.iter().sum::<usize>()..) else { break };
        rows = rest;
    }
    Some(entries)
}

/// Returns the unpacked content of the associated file with this name.
pub(crate) fn unpack(file: &[u8], name: &str) -> Result<Vec<u8>, ModelError> {
    let entry = entries(file).into_iter().find(|entry| entry.name == name);
    let missing = || ModelError::new(NotFound, format!("the model has no associated file {:?}", quoted(name)));
    entry.ok_or_else(missing)?.unpack()
}

impl Entry<'_> {
    fn packed(&self) -> Option<&[u8]> {
        let header = self.bytes.get(..LOCAL_SIZE).filter(|header| header.starts_with(LOCAL_SIGNATURE))?;
        let start = LOCAL_SIZE + usize::from(u16_at(header, 26)?) + usize::from(u16_at(header, 28)?);
        self.bytes.get(start..start.checked_add(self.packed_size)?)
    }

    fn unpack(&self) -> Result<Vec<u8>, ModelError> {
        let error =
            |kind, text: &str| ModelError::new(kind, format!("associated file {:?} {text}", quoted(&self.name)));
        if self.encrypted {
            return Err(error(Unsupported, "is encrypted"));
        }
        if self.size > MOST_UNPACKED {
            return Err(error(Unsupported, &format!("takes {} bytes; the limit is {MOST_UNPACKED}", self.size)));
        }
        let damaged = || error(Corrupt, "is damaged");
        let packed = self.packed().ok_or_else(damaged)?;
        let content = match self.method {
            0 => packed.to_vec(),
            8 => decompress_to_vec_with_limit(packed, self.size).map_err(|_| damaged())?,
            method => return Err(error(Unsupported, &format!("is packed by method {method}; use deflate"))),
        };
        if content.len() != self.size || crc32(&content) != self.checksum { Err(damaged()) } else { Ok(content) }
    }
}

/// Computes the CRC-32 of zip archives (reflected polynomial 0xEDB88320, IEEE 802.3), bit by bit because the
/// files are small.
fn crc32(bytes: &[u8]) -> u32 {
    let shift = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc: u32, byte| (0..8).fold(crc ^ u32::from(*byte), shift))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns `prefix` with an archive of one file appended. Offsets in the archive count from the start of
    /// `prefix` if `from_start`, else from the start of the archive.
    pub(crate) fn append(prefix: &[u8], name: &str, content: &[u8], deflate: bool, from_start: bool) -> Vec<u8> {
        let packed = if deflate { miniz_oxide::deflate::compress_to_vec(content, 6) } else { content.to_vec() };
        let mut common = vec![20, 0, 0, 0, if deflate { 8 } else { 0 }, 0, 0, 0, 0, 0];
        for number in [crc32(content), packed.len() as u32, content.len() as u32] {
            common.extend(number.to_le_bytes());
        }
        common.extend((name.len() as u16).to_le_bytes());
        common.extend([0, 0]);
        let mut file = prefix.to_vec();
        let base = if from_start { 0 } else { prefix.len() };
        let local = (file.len() - base) as u32;
        file.extend([LOCAL_SIGNATURE, &common, name.as_bytes(), &packed].concat());
        let directory = file.len();
        file.extend([ENTRY_SIGNATURE, &[20, 0], &common, &[0; 10], &local.to_le_bytes(), name.as_bytes()].concat());
        let size = (file.len() - directory) as u32;
        file.extend([END_SIGNATURE, &[0, 0, 0, 0, 1, 0, 1, 0], &size.to_le_bytes()].concat());
        file.extend([&((directory - base) as u32).to_le_bytes()[..], &[0, 0]].concat());
        file
    }

    #[test]
    fn the_checksum_is_that_of_zip() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn files_are_unpacked() {
        let content = b"cat\ndog\n".repeat(50);
        for deflate in [false, true] {
            for from_start in [false, true] {
                let file = append(b"the model", "labels.txt", &content, deflate, from_start);
                let names: Vec<String> = entries(&file).into_iter().map(|entry| entry.name).collect();
                assert_eq!(names, ["labels.txt"]);
                assert_eq!(unpack(&file, "labels.txt").unwrap(), content);
                assert_eq!(unpack(&file, "other").unwrap_err().kind(), NotFound);
            }
        }
        assert!(entries(b"").is_empty() && entries(&[7; 100]).is_empty());
    }

    #[test]
    fn damage_is_an_error_never_a_panic() {
        let file = append(b"the model", "labels.txt", &b"cat\ndog\n".repeat(50), true, true);
        for position in 9..file.len() {
            for bit in 0..8 {
                let mut mutant = file.clone();
                mutant[position] ^= 1 << bit;
                if let Ok(content) = unpack(&mutant, "labels.txt") {
                    assert_eq!(content, b"cat\ndog\n".repeat(50));
                }
            }
            entries(&file[..position]);
        }
    }

    #[test]
    fn a_bomb_is_stopped_at_its_declared_size() {
        let mut file = append(b"", "bomb", &vec![0; 1 << 20], true, true);
        let directory = file.windows(4).rposition(|window| window == ENTRY_SIGNATURE).unwrap();
        file[directory + 24..directory + 28].copy_from_slice(&100u32.to_le_bytes());
        assert_eq!(unpack(&file, "bomb").unwrap_err().kind(), Corrupt);
        file[directory + 24..directory + 28].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(unpack(&file, "bomb").unwrap_err().kind(), Unsupported);
    }
}

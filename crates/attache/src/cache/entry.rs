//! The format of an entry's file.
//!
//! | Bytes | Content |
//! |---|---|
//! | 0–7 | `attache` and a zero |
//! | 8–23 | checksum of the bytes from 24 to the end of the table |
//! | 24–27 | version of this format |
//! | 28–31 | number of sections |
//! | 32–63 | key |
//! | from 64 | table: offset, size and checksum of each section, of 8, 8 and 16 bytes |
//! | at multiples of 64 | sections, with zeros between them; the first one is the description, as UTF-8 |
//!
//! Numbers are little-endian. The file ends with its last section. The checksums, XXH3 of 128 bits, find accidents.
//! Against harm, the owner and the mode of the folder guard.

use std::io::{self, Write};
use std::sync::Mutex;
use std::sync::PoisonError;

use attache_base::Bytes;
use attache_base::parallel::each;
use twox_hash::XxHash3_128;

use super::Key;

const MAGIC: &[u8; 8] = b"attache\0";

/// The version of the format. Entries of another version are made again.
const VERSION: u32 = 1;

/// The end of the checksum of the table, from which on the checksum counts.
const CHECKED: usize = 24;

/// The beginning of the table of sections.
const TABLE: usize = 64;

/// The bytes of a row of the table.
const ROW: usize = 32;

/// The multiple of bytes at which sections start.
const ALIGNMENT: usize = 64;

/// Maximum number of sections.
pub(super) const MOST_SECTIONS: usize = 1 << 16;

/// The bytes that a thread hashes at once. The checksum of a larger section is that of the checksums of its blocks.
const BLOCK: usize = 1 << 20;

/// Maximum number of threads that compute a checksum.
const THREADS: usize = 4;

/// A checked entry, mapped into memory.
#[derive(Debug)]
pub(crate) struct Entry {
    key: [u8; 32],
    description: String,
    /// The sections after the description.
    sections: Vec<Bytes>,
}

impl Entry {
    /// Checks the bytes of a file. Fails with the reason why they are not an entry.
    pub(super) fn of(bytes: Bytes) -> Result<Self, String> {
        if bytes.get(..8) != Some(MAGIC) || bytes.len() < TABLE {
            return Err("it is not an entry, or its beginning is missing".to_owned());
        }
        let damaged = || "it is damaged".to_owned();
        let count = usize::try_from(number::<4>(&bytes, 28)).ok().filter(|count| (1..=MOST_SECTIONS).contains(count));
        let end = TABLE + ROW * count.ok_or_else(damaged)?;
        let head = bytes.get(CHECKED..end).ok_or_else(damaged)?;
        if checksum(head).to_le_bytes() != bytes[8..CHECKED] {
            return Err(damaged());
        }
        let version = number::<4>(&bytes, CHECKED);
        if version != u64::from(VERSION) {
            return Err(format!("its format has version {version}, not {VERSION}"));
        }
        let mut sections = Vec::with_capacity((end - TABLE) / ROW);
        let mut last = end;
        for row in (TABLE..end).step_by(ROW) {
            let section = section(&bytes, row, last).ok_or_else(damaged)?;
            last = last.next_multiple_of(ALIGNMENT) + section.len();
            sections.push(section);
        }
        if last != bytes.len() {
            return Err(damaged());
        }
        let description = String::from_utf8(sections.remove(0).to_vec()).map_err(|_| damaged())?;
        let mut key = [0; 32];
        key.copy_from_slice(&bytes[32..TABLE]);
        Ok(Self { key, description, sections })
    }

    /// Checks the bytes of a file, and returns its key as well.
    #[cfg(test)]
    pub(crate) fn with_key(bytes: Bytes) -> Result<([u8; 32], Self), String> {
        Self::of(bytes).map(|entry| (entry.key, entry))
    }

    /// Whether the entry has this key.
    pub(super) fn has(&self, key: &Key) -> bool {
        self.key == key.hash
    }

    /// Returns what the entry is for.
    pub(crate) fn description(&self) -> &str {
        &self.description
    }

    /// Returns a section; `None` if there is none with this index.
    pub(crate) fn section(&self, index: usize) -> Option<Bytes> {
        self.sections.get(index).cloned()
    }
}

/// Returns the section of a row of the table, which must follow `last`, the end of the one before. `None` if it is not
/// there or has another checksum.
fn section(bytes: &Bytes, row: usize, last: usize) -> Option<Bytes> {
    let [start, size] = [row, row + 8].map(|at| usize::try_from(number::<8>(bytes, at)).ok());
    let (start, size) = (start?, size?);
    let between = bytes.get(last..start)?;
    if start != last.next_multiple_of(ALIGNMENT) || between.iter().any(|byte| *byte != 0) {
        return None;
    }
    let section = bytes.slice(start..start.checked_add(size)?)?;
    (checksum(&section).to_le_bytes() == bytes[row + 16..row + ROW]).then_some(section)
}

/// Returns the number of `N` bytes, at most 8, at an offset.
fn number<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number[..N].copy_from_slice(&bytes[at..at + N]);
    u64::from_le_bytes(number)
}

/// Returns the checksum of bytes. Several threads hash large ones.
pub(super) fn checksum(bytes: &[u8]) -> u128 {
    if bytes.len() <= BLOCK {
        return XxHash3_128::oneshot(bytes);
    }
    let blocks: Vec<(usize, &[u8])> = bytes.chunks(BLOCK).enumerate().collect();
    let sums = Mutex::new(vec![0u8; 16 * blocks.len()]);
    each(&blocks, THREADS, |(index, block)| {
        let sum = XxHash3_128::oneshot(block).to_le_bytes();
        let mut sums = sums.lock().unwrap_or_else(PoisonError::into_inner);
        sums[16 * index..16 * (index + 1)].copy_from_slice(&sum);
    });
    XxHash3_128::oneshot(&sums.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// What is stored in an entry.
pub(crate) struct Contents<'a> {
    description: &'a str,
    sections: Vec<&'a [u8]>,
}

impl<'a> Contents<'a> {
    /// Creates an entry with a description for people, and sections.
    pub(crate) fn new(description: &'a str, sections: &[&'a [u8]]) -> Self {
        Self { description, sections: [&[description.as_bytes()], sections].concat() }
    }

    /// Returns what the entry is for.
    pub(super) fn description(&self) -> &str {
        self.description
    }

    /// Returns the size of the file in bytes.
    pub(super) fn size(&self) -> usize {
        let table = TABLE + ROW * self.sections.len();
        self.sections.iter().fold(table, |end, section| end.next_multiple_of(ALIGNMENT) + section.len())
    }

    /// Writes the file.
    pub(super) fn write(&self, key: &Key, out: &mut impl Write) -> io::Result<()> {
        self.write_as(key.hash, out)
    }

    /// Writes the file with the hash of a key.
    pub(crate) fn write_as(&self, key: [u8; 32], out: &mut impl Write) -> io::Result<()> {
        let mut head = Vec::with_capacity(TABLE + ROW * self.sections.len());
        head.extend(VERSION.to_le_bytes());
        head.extend((self.sections.len() as u32).to_le_bytes());
        head.extend(key);
        let mut end = TABLE + ROW * self.sections.len();
        for section in &self.sections {
            let start = end.next_multiple_of(ALIGNMENT);
            end = start + section.len();
            head.extend((start as u64).to_le_bytes());
            head.extend((section.len() as u64).to_le_bytes());
            head.extend(checksum(section).to_le_bytes());
        }
        out.write_all(MAGIC)?;
        out.write_all(&checksum(&head).to_le_bytes())?;
        out.write_all(&head)?;
        let mut end = CHECKED + head.len();
        for section in &self.sections {
            let start = end.next_multiple_of(ALIGNMENT);
            out.write_all(&[0; ALIGNMENT][..start - end])?;
            out.write_all(section)?;
            end = start + section.len();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every bit of the table is changed, and its checksum made right: a section is never outside of the file or another
    /// one than was written.
    #[test]
    fn tables_with_right_checksums_are_not_trusted() {
        let sections: [&[u8]; 3] = [b"one", b"", &[7; 1000]];
        let mut whole = Vec::new();
        Contents::new("a test", &sections).write_as([5; 32], &mut whole).unwrap();
        let end = TABLE + ROW * (1 + sections.len());
        for bit in 8 * CHECKED..8 * end {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let count = usize::try_from(number::<4>(&bytes, 28)).unwrap();
            let counted = bytes.len().min(TABLE.saturating_add(ROW.saturating_mul(count)));
            let sum = checksum(&bytes[CHECKED..counted]).to_le_bytes();
            bytes[8..CHECKED].copy_from_slice(&sum);
            let read = Entry::with_key(Bytes::from_vec(bytes));
            let is_key = (32..TABLE).contains(&(bit / 8));
            assert_eq!(read.is_ok(), is_key, "bit {bit}");
            if let Ok((key, entry)) = read {
                assert_ne!(key, [5; 32]);
                assert!(
                    (0..).map_while(|index| entry.section(index)).zip(sections).all(|(read, wrote)| read[..] == *wrote)
                );
            }
        }
    }
}

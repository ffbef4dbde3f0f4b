//! A reader and writer of entries' files, as the library's documentation of the format describes them.

use std::ops::Range;
use std::path::{Path, PathBuf};

use twox_hash::XxHash3_128;

/// The sections of an entry with packed weights: description, hash of the model, index; then blocks.
pub(crate) const INDEX: usize = 2;
pub(crate) const FIRST_BLOCK: usize = 3;

/// The bytes of an entry's file.
#[derive(Clone)]
pub(crate) struct EntryFile(pub(crate) Vec<u8>);

impl EntryFile {
    pub(crate) fn read(path: &Path) -> Self {
        Self(std::fs::read(path).unwrap())
    }

    /// Writes the file in place of another one.
    pub(crate) fn write(&self, path: &Path) {
        std::fs::remove_file(path).ok();
        let mut options = std::fs::File::options();
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.write(true).create_new(true).open(path).unwrap();
        std::io::Write::write_all(&mut file, &self.0).unwrap();
    }

    fn number(&self, at: usize) -> usize {
        u64::from_le_bytes(self.0[at..at + 8].try_into().unwrap()) as usize
    }

    /// Returns the range of each section.
    pub(crate) fn sections(&self) -> Vec<Range<usize>> {
        let count = u32::from_le_bytes(self.0[28..32].try_into().unwrap()) as usize;
        let start = |section: usize| self.number(64 + 32 * section);
        (0..count).map(|section| start(section)..start(section) + self.number(72 + 32 * section)).collect()
    }

    /// Makes all checksums right. Sections are of at most 1 MiB.
    pub(crate) fn seal(&mut self) {
        let sections = self.sections();
        for (section, range) in sections.iter().enumerate() {
            assert!(range.len() <= 1 << 20, "checksums of larger sections are made of blocks");
            let sum = XxHash3_128::oneshot(&self.0[range.clone()]).to_le_bytes();
            self.0[80 + 32 * section..][..16].copy_from_slice(&sum);
        }
        let sum = XxHash3_128::oneshot(&self.0[24..64 + 32 * sections.len()]).to_le_bytes();
        self.0[8..24].copy_from_slice(&sum);
    }

    /// Returns the number of values in the index.
    pub(crate) fn values(&self) -> usize {
        let index = self.sections()[INDEX].clone();
        let (mut at, mut values) = (index.start, 0);
        while at < index.end {
            at += 32 + self.number(at + 24);
            values += 1;
        }
        values
    }
}

/// Returns the only entry of a folder.
pub(crate) fn only_entry(folder: &Path) -> PathBuf {
    let files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}

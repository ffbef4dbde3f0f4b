//! The constants on a device, which plans share: equal constants are uploaded once, whichever plans use them. A
//! second recording, another input shape or another model with the same weights takes no further memory for
//! them.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::layout::ALIGNMENT;

/// Minimum number of bytes that a thread of [`hashes`] hashes.
const HASHED_AT_ONCE: usize = 1 << 20;

/// Maximum number of threads that hash a block of constants.
const HASH_THREADS: usize = 4;

/// The constants on a device in buffers of type `B`, by a hash of their bytes. The store does not keep buffers
/// alive.
pub(crate) struct ConstantStore<B>(Mutex<HashMap<[u8; 32], Stored<B>>>);

struct Stored<B> {
    buffer: Weak<B>,
    /// The offset of the constant in the buffer, in bytes.
    offset: usize,
}

/// A constant on a device. It exists as long as this handle.
pub(crate) struct DeviceConstant<B> {
    pub(crate) buffer: Arc<B>,
    /// The offset of the constant in the buffer, in bytes.
    pub(crate) offset: usize,
}

impl<B> Clone for DeviceConstant<B> {
    fn clone(&self) -> Self {
        Self { buffer: self.buffer.clone(), offset: self.offset }
    }
}

impl<B> Default for ConstantStore<B> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<B> ConstantStore<B> {
    /// Returns the constants that are these ranges of `block`, in order. Those that are not on the device yet are
    /// passed to `upload`, each once, which returns where it put them, in order. Other threads that load
    /// constants wait meanwhile. `known` are the hashes of the ranges, if they are known.
    pub(crate) fn load<E>(
        &self,
        block: &[u8],
        ranges: &[Range<usize>],
        known: Option<&[[u8; 32]]>,
        upload: impl FnOnce(&[Range<usize>]) -> Result<Vec<DeviceConstant<B>>, E>,
    ) -> Result<Vec<DeviceConstant<B>>, E> {
        let hashes = known.map_or_else(|| hashes(block, ranges), <[_]>::to_vec);
        let mut stored = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stored.retain(|_, stored| stored.buffer.strong_count() > 0);
        let mut known: HashMap<[u8; 32], DeviceConstant<B>> = HashMap::new();
        let (mut new, mut missing) = (Vec::new(), Vec::new());
        for (hash, range) in hashes.iter().zip(ranges) {
            if known.contains_key(hash) || new.contains(hash) {
                continue;
            }
            let found = stored.get(hash).and_then(|at| Some((at.buffer.upgrade()?, at.offset)));
            match found {
                Some((buffer, offset)) => drop(known.insert(*hash, DeviceConstant { buffer, offset })),
                None => {
                    new.push(*hash);
                    missing.push(range.clone());
                }
            }
        }
        let uploaded = if missing.is_empty() { Vec::new() } else { upload(&missing)? };
        for (hash, constant) in new.into_iter().zip(uploaded) {
            stored.insert(hash, Stored { buffer: Arc::downgrade(&constant.buffer), offset: constant.offset });
            known.insert(hash, constant);
        }
        Ok(hashes.iter().filter_map(|hash| known.get(hash).cloned()).collect())
    }
}

/// Returns an aligned offset for each of the first ranges that fit into one buffer of at most `limit` bytes, at least
/// for one, and the size of that buffer in bytes.
pub(crate) fn together(ranges: &[Range<usize>], limit: u64) -> (Vec<usize>, usize) {
    let (mut offsets, mut end) = (Vec::new(), 0usize);
    for range in ranges {
        let offset = end.next_multiple_of(ALIGNMENT);
        if !offsets.is_empty() && (offset + range.len()) as u64 > limit {
            break;
        }
        offsets.push(offset);
        end = offset + range.len();
    }
    (offsets, end)
}

/// Returns a hash of the bytes of each of these ranges of `block`. Large blocks are hashed by several threads.
pub(crate) fn hashes(block: &[u8], ranges: &[Range<usize>]) -> Vec<[u8; 32]> {
    let hash = |range: &Range<usize>| *blake3::hash(&block[range.clone()]).as_bytes();
    let threads = (block.len() / HASHED_AT_ONCE).clamp(1, HASH_THREADS);
    if threads == 1 {
        return ranges.iter().map(hash).collect();
    }
    // Contiguous groups of ranges, each of about the same number of bytes.
    let share = block.len().div_ceil(threads);
    let mut groups: Vec<Vec<Range<usize>>> = vec![Vec::new(); threads];
    ranges.iter().for_each(|range| groups[(range.start / share).min(threads - 1)].push(range.clone()));
    std::thread::scope(|scope| {
        let started: Vec<_> =
            groups[1..].iter().map(|group| scope.spawn(move || group.iter().map(hash).collect::<Vec<_>>())).collect();
        let mut all: Vec<[u8; 32]> = groups[0].iter().map(hash).collect();
        for thread in started {
            all.extend(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uploads ranges as the buffer `name`, and records them in `uploads`.
    fn upload<'a>(
        name: &'static str,
        uploads: &'a mut Vec<Range<usize>>,
    ) -> impl FnOnce(&[Range<usize>]) -> Result<Vec<DeviceConstant<&'static str>>, ()> + 'a {
        move |ranges| {
            uploads.extend(ranges.iter().cloned());
            let buffer = Arc::new(name);
            Ok(ranges.iter().map(|range| DeviceConstant { buffer: buffer.clone(), offset: range.start }).collect())
        }
    }

    #[test]
    fn equal_constants_are_uploaded_once() {
        let (store, mut uploads) = (ConstantStore::default(), Vec::new());
        let block = [1, 1, 2, 2, 1, 1];
        let first = store.load(&block, &[0..2, 2..4, 4..6], None, upload("a", &mut uploads)).unwrap();
        assert_eq!(first.iter().map(|constant| constant.offset).collect::<Vec<_>>(), [0, 2, 0]);
        let second = store.load(&[2, 2, 3, 3], &[0..2, 2..4], None, upload("b", &mut uploads)).unwrap();
        assert_eq!(
            second.iter().map(|constant| (*constant.buffer, constant.offset)).collect::<Vec<_>>(),
            [("a", 2), ("b", 2)]
        );
        assert_eq!(uploads, [0..2, 2..4, 2..4]);
    }

    #[test]
    fn constants_without_users_are_uploaded_again() {
        let (store, mut uploads) = (ConstantStore::default(), Vec::new());
        let whole = 0..2;
        let ranges = std::slice::from_ref(&whole);
        drop(store.load(&[1, 1], ranges, None, upload("a", &mut uploads)));
        let again = store.load(&[1, 1], ranges, None, upload("b", &mut uploads)).unwrap();
        assert_eq!((*again[0].buffer, uploads.len()), ("b", 2));
    }

    #[test]
    fn large_blocks_are_hashed_in_order() {
        let block: Vec<u8> = (0..5 * HASHED_AT_ONCE).map(|index| (index / 1000) as u8).collect();
        let ranges: Vec<Range<usize>> =
            (0..50).map(|part| part * block.len() / 50..(part + 1) * block.len() / 50).collect();
        let expected: Vec<[u8; 32]> =
            ranges.iter().map(|range| *blake3::hash(&block[range.clone()]).as_bytes()).collect();
        assert_eq!(hashes(&block, &ranges), expected);
    }
}

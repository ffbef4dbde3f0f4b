//! Multithreaded copies of large buffers, in memory and to or from mapped device memory, where a single
//! thread does not reach the full bandwidth.
//!
//! All copies of the process share one thread pool. It starts at the first large copy, has half as many
//! threads as the machine has cores, so that the callers can use the other cores, and sleeps between copies.

use std::sync::{LazyLock, Mutex, PoisonError};

use crate::{Idle, Parallel, Pool};

/// Maximum number of threads that copy, including the caller; more do not raise memory throughput.
const THREADS: usize = 8;

/// Bytes that a thread copies per task.
const BLOCK: usize = 64 << 10;

/// Minimum number of bytes that are copied on several threads; for fewer, waking the threads takes longer
/// than it saves.
const LARGE: usize = 512 << 10;

static THREADED: LazyLock<Pool> = LazyLock::new(|| {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Pool::with_idle((cores / 2).clamp(1, THREADS), Idle::Asleep)
});

/// Copies `from` to `to`, on several threads if there are at least 512 KiB.
///
/// # Panics
///
/// Panics if the lengths differ.
pub fn copy(to: &mut [u8], from: &[u8]) {
    copy_to_all([to], from);
}

/// Copies `from` to each of `targets`. If there are at least 512 KiB, the copies are made in blocks on
/// several threads, so that `from` is read from memory only once.
///
/// # Panics
///
/// Panics if the length of a target differs from that of `from`.
pub fn copy_to_all<const N: usize>(targets: [&mut [u8]; N], from: &[u8]) {
    match from.len() {
        ..LARGE => targets.into_iter().for_each(|target| target.copy_from_slice(from)),
        LARGE.. => copy_in_blocks(&*THREADED, targets, from),
    }
}

fn copy_in_blocks<const N: usize>(parallel: &dyn Parallel, targets: [&mut [u8]; N], from: &[u8]) {
    assert!(targets.iter().all(|target| target.len() == from.len()), "a copy is as long as what is copied");
    let mut targets = targets.map(|target| target.chunks_mut(BLOCK));
    let blocks = from.chunks(BLOCK).map(|from| {
        let targets = targets.each_mut().map(|target| target.next().expect("targets are as long"));
        Mutex::new((targets, from))
    });
    let blocks: Vec<_> = blocks.collect();
    parallel.run(blocks.len(), &|block| {
        let (targets, from) = &mut *blocks[block].lock().unwrap_or_else(PoisonError::into_inner);
        targets.iter_mut().for_each(|target| target.copy_from_slice(from));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(count: usize) -> Vec<u8> {
        (0..count).map(|index| (index % 251) as u8).collect()
    }

    #[test]
    fn copies_are_whole() {
        for count in [0, 5, BLOCK, LARGE - 1, LARGE, 3 * LARGE + 7] {
            let from = bytes(count);
            let (mut one, mut other) = (vec![0; count], vec![0; count]);
            copy_to_all([&mut one, &mut other], &from);
            assert!(one == from && other == from, "{count} bytes");
        }
    }

    #[test]
    fn blocks_are_shared_out() {
        let pool = Pool::new(3);
        for count in [0, 1, BLOCK, 20 * BLOCK + 3] {
            let from = bytes(count);
            let (mut one, mut other) = (vec![0; count], vec![0; count]);
            copy_in_blocks(&pool, [&mut one, &mut other], &from);
            assert!(one == from && other == from, "{count} bytes");
        }
    }
}

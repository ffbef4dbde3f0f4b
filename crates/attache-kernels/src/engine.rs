//! Where kernels run: an instruction set and threads; and the two ways in which a kernel splits its work.
#![allow(unsafe_code)] // Disjoint parts of one slice are handed to several threads.

use std::sync::atomic::{AtomicUsize, Ordering};

use attache_base::Parallel;

use crate::Level;

/// What a kernel runs on.
#[derive(Clone, Copy)]
pub struct Engine<'a> {
    /// The instruction set.
    pub level: Level,
    /// The threads.
    pub parallel: &'a dyn Parallel,
}

impl<'a> Engine<'a> {
    /// The best instruction set of this processor on these threads.
    pub fn new(parallel: &'a dyn Parallel) -> Self {
        Self { level: Level::detect(), parallel }
    }

    /// Into how many tasks to split work of about so many nanoseconds, at most `limit`: one where threads would cost
    /// more than they save, else a few per thread so that a slow one holds nobody up.
    pub(crate) fn tasks(&self, nanoseconds: f64, limit: usize) -> usize {
        let threads = self.parallel.threads();
        if threads <= 1 || nanoseconds < 20e3 {
            return 1;
        }
        ((nanoseconds / 8e3) as usize).clamp(2, threads * 4).min(limit).max(1)
    }

    /// Calls `task` once with every index below `tasks`.
    pub(crate) fn for_each(&self, tasks: usize, task: impl Fn(usize) + Sync) {
        if tasks <= 1 || self.parallel.threads() <= 1 {
            return (0..tasks).for_each(task);
        }
        // Indices are counted here, so that no implementation of `Parallel` can make two tasks out of one.
        let next = AtomicUsize::new(0);
        self.parallel.run(tasks, &|_| {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index < tasks {
                task(index);
            }
        });
        assert!(next.into_inner() >= tasks, "every task was run");
    }

    /// Calls `task` with each chunk of `chunk` elements (the last one may be shorter) and its index.
    pub(crate) fn for_each_chunk<T: Send>(&self, data: &mut [T], chunk: usize, task: impl Fn(usize, &mut [T]) + Sync) {
        let (length, chunk) = (data.len(), chunk.max(1));
        let pointer = Shared(data.as_mut_ptr());
        self.for_each(length.div_ceil(chunk), |index| {
            let start = index * chunk;
            let count = chunk.min(length - start);
            // SAFETY: `for_each` gives every index once, and chunks of different indices are disjoint parts of `data`.
            task(index, unsafe { std::slice::from_raw_parts_mut(pointer.get().add(start), count) });
        });
    }
}

/// A pointer that tasks share; each writes its own part.
#[derive(Clone, Copy)]
pub(crate) struct Shared<T>(pub(crate) *mut T);

impl<T> Shared<T> {
    pub(crate) fn get(&self) -> *mut T {
        self.0
    }
}

// SAFETY: whoever dereferences the pointer answers for the parts being disjoint.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<T> {}

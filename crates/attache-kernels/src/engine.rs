//! The execution resources of kernels (instruction set and threads), and two ways to split work over the threads.
#![allow(unsafe_code)] // Disjoint parts of one slice are handed to several threads.

use std::ops::Range;

use attache_base::Parallel;

use crate::Isa;

/// Duration of a task, in nanoseconds, below which work is not divided further. To hand a task to a thread that is awake
/// takes about half of it; but what one thread computes alone, others have to fetch from its cache.
const LEAST_NANOSECONDS: f64 = 1e3;
/// Duration of a task below which no thread gets more than one.
const SHARE_NANOSECONDS: f64 = 3e3;
/// Least duration of the tasks of a thread that gets more than four.
const LONG_NANOSECONDS: f64 = 3e4;

/// The execution resources that a kernel runs on.
#[derive(Clone, Copy)]
pub struct Engine<'a> {
    /// The instruction set to run kernels with. Kernels with packed weights use the one that the weights were
    /// packed for instead.
    pub isa: Isa,
    /// The threads to split the work over.
    pub parallel: &'a dyn Parallel,
}

impl<'a> Engine<'a> {
    /// Returns an engine with the best instruction set that this processor supports and the given threads.
    pub fn new(parallel: &'a dyn Parallel) -> Self {
        Self { isa: Isa::detect(), parallel }
    }

    /// Returns the number of tasks, from 1 to `limit`, into which to split work that takes one thread about
    /// `nanoseconds`: 1 if to hand tasks over costs more than it saves, otherwise up to one per thread, of long work
    /// up to four, and of very long work up to sixteen, so that a slow thread does not delay the others.
    pub fn tasks(&self, nanoseconds: f64, limit: usize) -> usize {
        let threads = self.parallel.threads();
        if threads <= 1 || nanoseconds < 2.0 * LEAST_NANOSECONDS {
            return 1;
        }
        // Each thread begins with an equal share.
        let fitting = |duration: f64| (nanoseconds / threads as f64 / duration) as usize;
        let each = fitting(SHARE_NANOSECONDS).clamp(1, 4).max(fitting(LONG_NANOSECONDS).min(16));
        let tasks = ((nanoseconds / LEAST_NANOSECONDS) as usize).min(threads * each);
        tasks.min(limit).max(1)
    }

    /// Calls `task` exactly once with each index below `tasks`, on the engine's threads.
    pub(crate) fn for_each(&self, tasks: usize, task: impl Fn(usize) + Sync) {
        if tasks <= 1 || self.parallel.threads() <= 1 {
            return (0..tasks).for_each(task);
        }
        self.parallel.run(tasks, &task);
    }

    /// Divides `data`, which consists of units of `unit` elements, into `parts` parts of whole units, as evenly as
    /// possible, and calls `task` with the first unit and the elements of each, on the engine's threads. Operators that
    /// follow each other and divide images evenly by rows leave each thread what its own cache has.
    pub(crate) fn for_each_part<T: Send>(
        &self,
        data: &mut [T],
        unit: usize,
        parts: usize,
        task: impl Fn(usize, &mut [T]) + Sync,
    ) {
        let (units, pointer) = (data.len() / unit.max(1), Shared(data.as_mut_ptr()));
        self.for_each(parts, |index| {
            let Range { start, end } = portion(units, parts, index);
            // SAFETY: each index is passed exactly once, as `Parallel` promises, and its part is within `data` and overlaps no
            // other one.
            let part = unsafe { std::slice::from_raw_parts_mut(pointer.get().add(start * unit), (end - start) * unit) };
            task(start, part);
        });
    }

    /// Splits `data` into chunks of `chunk` elements (the last one may be shorter), and calls `task` with the
    /// index and the elements of each, on the engine's threads.
    pub(crate) fn for_each_chunk<T: Send>(&self, data: &mut [T], chunk: usize, task: impl Fn(usize, &mut [T]) + Sync) {
        let (length, chunk) = (data.len(), chunk.max(1));
        let pointer = Shared(data.as_mut_ptr());
        self.for_each(length.div_ceil(chunk), |index| {
            let start = index * chunk;
            let count = chunk.min(length - start);
            // SAFETY: each index is passed exactly once, as `Parallel` promises, and chunks of different indices are disjoint parts of `data`.
            task(index, unsafe { std::slice::from_raw_parts_mut(pointer.get().add(start), count) });
        });
    }
}

/// Returns part `index` of `0..total`, which is divided into `parts` ranges as evenly as possible.
pub(crate) fn portion(total: usize, parts: usize, index: usize) -> Range<usize> {
    let start = |index: usize| total / parts * index + total % parts * index / parts;
    start(index)..start(index + 1)
}

/// A raw pointer shared by tasks that each write a disjoint part of the memory it points to.
#[derive(Clone, Copy)]
pub(crate) struct Shared<T>(pub(crate) *mut T);

impl<T> Shared<T> {
    pub(crate) fn get(&self) -> *mut T {
        self.0
    }
}

// SAFETY: code that dereferences the pointer is responsible for writing disjoint parts.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<T> {}

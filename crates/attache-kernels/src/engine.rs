//! The execution resources of kernels (instruction set and threads), and two ways to split work over the threads.
#![allow(unsafe_code)] // Disjoint parts of one slice are handed to several threads.

use std::ops::Range;

use attache_base::{Parallel, portion};

use crate::Isa;

/// Duration of a task, in nanoseconds, below which work is not divided further. To hand a task to a thread that is awake
/// takes about half of it; but what one thread computes alone, others have to fetch from its cache.
const LEAST_NANOSECONDS: f64 = 1e3;
/// Duration of a task below which no thread gets more than one.
const SHARE_NANOSECONDS: f64 = 3e3;
/// Most tasks of a thread where work is not long.
pub(crate) const FEW: usize = 4;
/// Least duration of the tasks of a thread that gets more than [`FEW`].
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
        let each = fitting(SHARE_NANOSECONDS).clamp(1, FEW).max(fitting(LONG_NANOSECONDS).min(16));
        let tasks = ((nanoseconds / LEAST_NANOSECONDS) as usize).min(threads * each);
        tasks.min(limit).max(1)
    }

    /// Whether work for so many tasks, as [`Self::tasks`] returns it, is divided into one range for each thread by the speeds
    /// of the threads ([`Self::divide`]). Shorter work is not for all threads; longer work has so many tasks that fast threads
    /// take more of them.
    pub(crate) fn divides(&self, tasks: usize) -> bool {
        let threads = self.parallel.threads();
        !cfg!(attache_small) && threads > 1 && (threads..=FEW * threads).contains(&tasks)
    }

    /// Divides `0..units` among the engine's threads and calls `task` with disjoint ranges that make up all of it: one for
    /// each thread, or two, of which another thread may take the second, if the work is long enough for twice as many `tasks`.
    #[cfg(not(attache_small))]
    pub(crate) fn divide(&self, units: usize, tasks: usize, task: impl Fn(Range<usize>) + Sync) {
        let division = self.parallel.division(units);
        let division = if tasks < 2 * self.parallel.threads() { division } else { division.in_two() };
        self.parallel.run_division(&division, &|_, range| task(range));
    }

    /// Calls `task` with `0..units`; never needed.
    #[cfg(attache_small)]
    pub(crate) fn divide(&self, units: usize, _: usize, task: impl Fn(Range<usize>) + Sync) {
        task(0..units);
    }

    /// Calls `task` exactly once with each index below `tasks`, on the engine's threads.
    pub(crate) fn for_each(&self, tasks: usize, task: impl Fn(usize) + Sync) {
        if tasks <= 1 || self.parallel.threads() <= 1 {
            return (0..tasks).for_each(task);
        }
        self.parallel.run(tasks, &task);
    }

    /// Divides `data`, which consists of units of `unit` elements, into about `parts` parts of whole units, and calls `task`
    /// with the first unit and the elements of each, on the engine's threads. Operators that follow each other and divide
    /// images by rows leave each thread what its own cache has.
    pub fn for_each_part<T: Send>(
        &self,
        data: &mut [T],
        unit: usize,
        parts: usize,
        task: impl Fn(usize, &mut [T]) + Sync,
    ) {
        let (units, pointer) = (data.len() / unit.max(1), Shared(data.as_mut_ptr()));
        let task = |Range { start, end }: Range<usize>| {
            // SAFETY: the ranges are within `data` and disjoint, and each is passed once, as `Parallel` promises.
            let part = unsafe { std::slice::from_raw_parts_mut(pointer.get().add(start * unit), (end - start) * unit) };
            task(start, part);
        };
        match self.divides(parts) {
            true => self.divide(units, parts, task),
            false => self.for_each(parts, |index| task(portion(units, parts, index))),
        }
    }

    /// Splits `data` into chunks of `chunk` elements (the last one may be shorter), and calls `task` with the
    /// index and the elements of each, on the engine's threads.
    pub fn for_each_chunk<T: Send>(&self, data: &mut [T], chunk: usize, task: impl Fn(usize, &mut [T]) + Sync) {
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

/// Calls `body` with the rows and the columns of the rectangles, at most three, that make up the cells `cells` of a grid.
/// Cells are counted row by row; a row has `columns`.
pub(crate) fn for_each_rectangle(
    cells: Range<usize>,
    columns: usize,
    mut body: impl FnMut(Range<usize>, Range<usize>),
) {
    let Range { mut start, end } = cells;
    while start < end {
        let (row, column) = (start / columns, start % columns);
        let rows = if column == 0 { (end - start) / columns } else { 0 };
        let until = if rows > 0 { columns } else { columns.min(column + end - start) };
        body(row..row + rows.max(1), column..until);
        start += rows.max(1) * (until - column);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rectangles_make_up_the_cells() {
        for columns in 1..5 {
            for (start, end) in (0..20).flat_map(|end| (0..=end).map(move |start| (start, end))) {
                let (mut found, mut count) = (Vec::new(), 0);
                for_each_rectangle(start..end, columns, |rows, across| {
                    count += 1;
                    found.extend(rows.flat_map(|row| across.clone().map(move |column| row * columns + column)));
                });
                assert_eq!(found, (start..end).collect::<Vec<_>>());
                assert!(count <= 3);
            }
        }
    }
}

//! The seam between kernels, which split work, and whoever owns threads.

/// Someone who runs independent tasks, on one thread or several.
pub trait Parallel: Sync {
    /// How many threads work at once, the caller's own included; at least 1.
    fn threads(&self) -> usize;

    /// Calls `task` once with each index below `tasks`, in any order and on any thread, and returns when all are done.
    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync));
}

/// Everything on the caller's thread, in order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Serial;

impl Parallel for Serial {
    fn threads(&self) -> usize {
        1
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        (0..tasks).for_each(task);
    }
}

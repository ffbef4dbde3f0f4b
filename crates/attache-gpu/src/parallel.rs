//! Work on several threads, where the system gives any.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Calls `work` with each item once, on up to so many threads, this one among them.
pub(crate) fn each<T: Sync>(items: &[T], threads: usize, work: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    let take = || {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            work(item);
        }
    };
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 1..threads.min(available).min(items.len()) {
            // Where there is no thread to be had, the others do its part.
            drop(std::thread::Builder::new().spawn_scoped(scope, take));
        }
        take();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_is_taken_once() {
        let taken: Vec<AtomicUsize> = (0..100).map(|_| AtomicUsize::new(0)).collect();
        each(&taken, 4, |count| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        assert!(taken.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    }
}

//! Runs a model on many items at once: each thread has an interpreter of its own, and all share the compiled model.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use attache::{CompiledModel, Interpreter};

use crate::console::Console;
use crate::failure::Failure;

/// Does `work` for each item on so many threads, and returns what came of each, in the order of the items. It is an
/// error if a thread gets no interpreter.
pub(crate) fn for_each<I: Sync, T: Send>(
    console: &Console,
    (compiled, threads): (&CompiledModel, usize),
    items: &[I],
    work: impl Fn(&mut Interpreter, &I) -> Result<T, Failure> + Sync,
) -> Result<Vec<Result<T, Failure>>, Failure> {
    let threads = threads.clamp(1, items.len().max(1));
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Result<T, Failure>)>> = Mutex::new(Vec::with_capacity(items.len()));
    let progress = console.progress(items.len());
    let worker = || {
        let mut interpreter = compiled.interpreter()?;
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return Ok(()) };
            let result = work(&mut interpreter, item);
            done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((index, result));
            progress.inc(1);
        }
    };
    let ends: Vec<Result<(), Failure>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        let join = |worker: thread::ScopedJoinHandle<'_, _>| {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        workers.into_iter().map(join).collect()
    });
    progress.finish_and_clear();
    ends.into_iter().collect::<Result<(), _>>()?;
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

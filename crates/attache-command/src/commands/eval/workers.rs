//! Runs a model on many items at once: each thread has an interpreter of its own, and all share the compiled model.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Builder, ScopedJoinHandle};

use attache::{CompiledModel, Interpreter};

use crate::console::Console;
use crate::failure::Failure;

/// Most workers for each thread of the machine: each has the memory of an interpreter and a picture.
const MOST_OF_EACH: usize = 4;

/// Does `work` for each item on so many threads, or as many as the system gives, and returns what came of each, in the
/// order of the items. It is an error if a thread gets no interpreter.
pub(crate) fn for_each<I: Sync, T: Send>(
    console: &Console,
    (compiled, threads): (&CompiledModel, usize),
    items: &[I],
    work: impl Fn(&mut Interpreter, &I) -> Result<T, Failure> + Sync,
) -> Result<Vec<Result<T, Failure>>, Failure> {
    let most = thread::available_parallelism().map_or(1, usize::from) * MOST_OF_EACH;
    let threads = threads.min(most).clamp(1, items.len().max(1));
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
    let ends: Vec<Result<(), Failure>> = thread::scope(|scope| -> Result<_, Failure> {
        let workers = started(threads, || Builder::new().spawn_scoped(scope, worker))?;
        let join =
            |worker: ScopedJoinHandle<'_, _>| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok(workers.into_iter().map(join).collect())
    })?;
    progress.finish_and_clear();
    ends.into_iter().collect::<Result<(), _>>()?;
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

/// Starts so many threads, or fewer if the system gives no more; an error if it gives none.
fn started<T>(threads: usize, start: impl Fn() -> io::Result<T>) -> Result<Vec<T>, Failure> {
    let mut workers = Vec::new();
    for _ in 0..threads {
        match start() {
            Ok(worker) => workers.push(worker),
            Err(error) if workers.is_empty() => {
                let text = format!("the system starts no thread: {error}; end other programs or raise their limits");
                return Err(Failure::unsupported(text));
            }
            Err(_) => break,
        }
    }
    Ok(workers)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn threads_that_the_system_refuses_are_done_without() {
        let with = |most: usize| {
            let count = Cell::new(0);
            let start = || {
                count.set(count.get() + 1);
                if count.get() <= most { Ok(count.get()) } else { Err(io::Error::other("no more")) }
            };
            started(5, start)
        };
        assert_eq!((with(9).unwrap().len(), with(3).unwrap().len()), (5, 3));
        assert!(with(0).unwrap_err().message.contains("the system starts no thread: no more"));
    }
}

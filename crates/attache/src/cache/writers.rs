//! Threads that write entries, so that a start need not wait for the disk.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// The threads that write entries of a folder, each with the name of its file.
#[derive(Default)]
pub(super) struct Writers(Mutex<Vec<(String, JoinHandle<()>)>>);

impl Writers {
    /// Writes a file on a thread of its own, after earlier ones of that name.
    pub(super) fn spawn(&self, file: String, write: impl FnOnce() + Send + 'static) {
        self.wait_for(&file);
        let thread = std::thread::Builder::new().name("attache-cache".to_owned());
        match thread.spawn(write) {
            Ok(writer) => self.lock().push((file, writer)),
            Err(error) => tracing::warn!("{file} cannot be stored: {error}"),
        }
    }

    /// Waits until a file that is being written is there.
    pub(super) fn wait_for(&self, file: &str) {
        let of_file = |(name, writer): &mut (String, _)| name == file || JoinHandle::is_finished(writer);
        let ended: Vec<_> = self.lock().extract_if(.., of_file).collect();
        join(ended);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(String, JoinHandle<()>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for all of them, so that a program that runs once and ends has stored its plans.
impl Drop for Writers {
    fn drop(&mut self) {
        let all = std::mem::take(&mut *self.lock());
        join(all);
    }
}

fn join(writers: Vec<(String, JoinHandle<()>)>) {
    for (_, writer) in writers {
        // A writer that panicked has stored nothing.
        drop(writer.join());
    }
}

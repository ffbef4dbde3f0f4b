//! What a run does to a timeline semaphore.

/// The value to which a run sets a semaphore, and the value of the same semaphore for which it waits before; 0 for none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunSignal {
    pub(crate) value: u64,
    pub(crate) waits_for: u64,
}

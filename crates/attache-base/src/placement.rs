//! The processors that threads run on, where the system tells.

/// Returns the number of the processor that runs the calling thread. The smallest programs do without.
pub(crate) fn processor() -> Option<usize> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if !cfg!(attache_small) {
        return Some(rustix::thread::sched_getcpu());
    }
    None
}

/// Moves the calling thread from this processor to another one that it may use, if there is one.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn leave(processor: usize) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let Some(all) = sched_getaffinity(None).ok().filter(|_| processor < CpuSet::MAX_CPU) else { return };
    let mut others = all;
    others.unset(processor);
    // The thread moves when its processor is no longer allowed. After that, all are again.
    if others.count() > 0 && sched_setaffinity(None, &others).is_ok() {
        let _ = sched_setaffinity(None, &all);
    }
}

/// Does nothing where the system does not tell which processor runs a thread.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn leave(_: usize) {}

#[cfg(test)]
mod tests {
    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_leaves_its_processor_and_keeps_what_it_may_use() {
        use rustix::thread::sched_getaffinity;
        std::thread::spawn(|| {
            let before = sched_getaffinity(None).unwrap();
            let leaves = || {
                let processor = super::processor().unwrap();
                super::leave(processor);
                super::processor() != Some(processor)
            };
            // Once all are allowed again, the system may move it back.
            assert_eq!((0..1000).any(|_| leaves()), before.count() > 1);
            assert_eq!(sched_getaffinity(None).unwrap(), before);
        })
        .join()
        .unwrap();
    }
}

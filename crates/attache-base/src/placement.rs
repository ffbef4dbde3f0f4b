//! The processors that threads run on, where the system tells.

/// Returns the number of the processor that runs the calling thread.
pub(crate) fn processor() -> Option<usize> {
    #[cfg(all(any(target_os = "linux", target_os = "android"), not(attache_small)))]
    return Some(rustix::thread::sched_getcpu());
    #[cfg(not(all(any(target_os = "linux", target_os = "android"), not(attache_small))))]
    None
}

/// Moves the calling thread from this processor to another one that it may use, if there is one.
#[cfg_attr(not(all(any(target_os = "linux", target_os = "android"), not(attache_small))), allow(unused_variables))]
pub(crate) fn leave(processor: usize) {
    #[cfg(all(any(target_os = "linux", target_os = "android"), not(attache_small)))]
    {
        use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
        let Some(all) = sched_getaffinity(None).ok().filter(|_| processor < CpuSet::MAX_CPU) else { return };
        let mut others = all;
        others.unset(processor);
        // The thread moves when its processor is no longer allowed. After that, all are again.
        if others.count() > 0 && sched_setaffinity(None, &others).is_ok() {
            let _ = sched_setaffinity(None, &all);
        }
    }
}

#[cfg(test)]
mod tests {
    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_leaves_its_processor_and_keeps_what_it_may_use() {
        use rustix::thread::sched_getaffinity;
        std::thread::spawn(|| {
            let (before, processor) = (sched_getaffinity(None).unwrap(), super::processor().unwrap());
            super::leave(processor);
            assert_eq!(sched_getaffinity(None).unwrap(), before);
            // With one processor only, it stays.
            assert!(before.is_set(processor));
        })
        .join()
        .unwrap();
    }
}

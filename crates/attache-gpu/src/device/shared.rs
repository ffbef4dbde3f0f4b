//! The open devices of the process, so that those who ask with equal options share one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::{Device, DeviceOptions, Inner};
use crate::kernel::GpuError;

/// The devices that [`Device::shared`] opened.
static OPEN: Registry<DeviceOptions, Inner> = Registry::new();

impl Device {
    /// Returns a handle to the open device that others in this process got by this function with equal options, or
    /// opens one, as [`Device::open`] does. While a device is being opened, others who ask for it wait. It is closed
    /// when its last handle, and the last session on it, are dropped.
    ///
    /// A device that was opened for more concurrent runs than asked for is returned too, and so is one that was opened for
    /// fewer if it could not have been opened for more.
    /// A device that is lost, or on which wgpu has reported an error outside of an error scope, is not returned again.
    /// A device with an injected fault is never shared.
    ///
    /// # Errors
    ///
    /// As [`Device::open`].
    pub fn shared(options: &DeviceOptions) -> Result<Self, GpuError> {
        if options.fault.is_some() {
            return Self::open(options);
        }
        let is_usable = |inner: &Inner| {
            let has_failed = inner.failure.lock().unwrap_or_else(PoisonError::into_inner).is_some();
            !has_failed && inner.streams >= options.streams()
        };
        let key = DeviceOptions { concurrent_runs: None, ..options.clone() };
        let inner = OPEN.get(&key, is_usable, || Self::open(options).map(|device| device.0))?;
        let limits = inner.limits.clone();
        Ok(Self(inner, limits))
    }
}

/// Objects of type `T` that are in use, by key. The registry keeps none of them alive.
struct Registry<K, T>(Mutex<Vec<(K, Slot<T>)>>);

/// The object of one key. It is locked while an object is made, so that others who ask for the same key wait.
type Slot<T> = Arc<Mutex<Weak<T>>>;

impl<K: Clone + PartialEq, T> Registry<K, T> {
    const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Returns the object of a key if one is in use and `is_usable`, otherwise what `open` makes, which is the object of
    /// this key from then on.
    fn get<E>(
        &self,
        key: &K,
        is_usable: impl Fn(&T) -> bool,
        open: impl FnOnce() -> Result<Arc<T>, E>,
    ) -> Result<Arc<T>, E> {
        let slot = self.slot(key);
        let mut known = lock(&slot);
        if let Some(found) = known.upgrade().filter(|found| is_usable(found)) {
            return Ok(found);
        }
        let opened = open()?;
        *known = Arc::downgrade(&opened);
        Ok(opened)
    }

    /// Returns the slot of a key, and forgets the keys whose objects are gone.
    fn slot(&self, key: &K) -> Slot<T> {
        let mut slots = lock(&self.0);
        slots.retain(|(other, slot)| {
            // Whoever makes an object for a slot has a handle to it.
            other == key || Arc::strong_count(slot) > 1 || lock(slot).strong_count() > 0
        });
        if let Some((_, slot)) = slots.iter().find(|(other, _)| other == key) {
            return slot.clone();
        }
        let slot = Slot::<T>::default();
        slots.push((key.clone(), slot.clone()));
        slot
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;
    use crate::device::{Backend, Fault, FaultPoint};
    use crate::kernel::GpuErrorKind;

    fn ask(registry: &Registry<&'static str, usize>, key: &'static str, made: usize) -> Arc<usize> {
        registry.get(&key, |_| true, || Ok::<_, ()>(Arc::new(made))).unwrap()
    }

    #[test]
    fn equal_keys_share_what_is_in_use() {
        let registry = Registry::new();
        let first = ask(&registry, "a", 1);
        assert_eq!((*ask(&registry, "a", 2), *ask(&registry, "b", 3)), (1, 3));
        drop(first);
        assert_eq!(*ask(&registry, "a", 4), 4, "the registry keeps nothing alive");
        let kept = ask(&registry, "c", 5);
        assert_eq!(lock(&registry.0).iter().map(|(key, _)| *key).collect::<Vec<_>>(), ["c"], "nor the keys");
        let other = registry.get(&"c", |value| *value != 5, || Ok::<_, ()>(Arc::new(6))).unwrap();
        assert_eq!((*kept, *other, *ask(&registry, "c", 7)), (5, 6, 6), "what cannot be used is replaced");
    }

    #[test]
    fn a_failure_is_not_kept() {
        let registry: Registry<&str, usize> = Registry::new();
        assert_eq!(registry.get(&"a", |_| true, || Err("no")), Err("no"));
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            registry.get(&"a", |_| true, || -> Result<_, ()> { panic!("while it was opened") })
        }));
        assert!(panic.is_err());
        assert_eq!(*ask(&registry, "a", 1), 1);
    }

    #[test]
    fn threads_that_ask_at_once_get_the_same() {
        let (registry, made, barrier) = (Registry::new(), AtomicUsize::new(0), Barrier::new(4));
        let open = || {
            barrier.wait();
            registry.get(&"a", |_| true, || Ok::<_, ()>(Arc::new(made.fetch_add(1, Ordering::Relaxed)))).unwrap()
        };
        let all: Vec<Arc<usize>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(all.iter().all(|object| Arc::ptr_eq(object, &all[0])));
    }

    #[test]
    fn different_keys_do_not_wait_for_each_other() {
        let (registry, is_done) = (Registry::new(), AtomicBool::new(false));
        let outer = registry.get(
            &"a",
            |_| true,
            || {
                let inner = std::thread::scope(|scope| scope.spawn(|| ask(&registry, "b", 2)).join().unwrap());
                is_done.store(*inner == 2, Ordering::Relaxed);
                Ok::<_, ()>(Arc::new(1))
            },
        );
        assert_eq!((*outer.unwrap(), is_done.into_inner()), (1, true));
    }

    #[test]
    fn devices_are_shared_until_they_fail() {
        let options = DeviceOptions { backend: Some(Backend::Vulkan), ..DeviceOptions::default() };
        let shared = |options: &DeviceOptions| Device::shared(options).expect("a Vulkan device to test on");
        let first = shared(&options);
        assert!(first.is_same(&shared(&options)) && !first.is_same(&Device::open(&options).unwrap()));
        assert!(!first.is_same(&shared(&DeviceOptions { frugal: true, ..options.clone() })));
        let one_run = DeviceOptions { concurrent_runs: Some(1), ..options.clone() };
        assert!(first.is_same(&shared(&one_run)), "a device for more runs side by side will do");
        let fault = Fault { kind: GpuErrorKind::OutOfMemory, point: FaultPoint::Wait, after: 0 };
        let faulty = DeviceOptions { fault: Some(fault), ..options.clone() };
        assert!(!shared(&faulty).is_same(&shared(&faulty)));
        let _ = first.noted::<()>(Err(GpuError::lost("for this test")));
        let second = shared(&options);
        assert!(!first.is_same(&second) && second.check().is_ok());
        drop(first);
        assert!(second.is_same(&shared(&options)), "the loss of one device does not touch the other");
        let closed = Arc::downgrade(&second.0);
        drop(second);
        assert!(closed.upgrade().is_none(), "a device is closed with its last handle");
        let only = shared(&one_run);
        assert!(only.is_same(&shared(&options)), "one that has all of its queues will do");
    }
}

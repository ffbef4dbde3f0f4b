//! Listens to the Vulkan validation layer, which speaks through wgpu's log: for tests that open devices with it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Messages that the validation layer, or wgpu about it, left in the log.
static MESSAGES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Whether the layer said that it looks for missing barriers too, as it does at the start.
static HEARD: AtomicBool = AtomicBool::new(false);

struct Listener;

impl log::Log for Listener {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.target().starts_with("wgpu_hal::vulkan")
    }

    /// Keeps warnings, and the one message that tells that the layer isn't there.
    fn log(&self, record: &log::Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let text = record.args().to_string();
        if text.contains("Validation Layer Active") && text.contains("SYNCHRONIZATION_VALIDATION") {
            HEARD.store(true, Ordering::Relaxed);
        }
        if record.level() <= log::Level::Warn || text.contains("unable to find layer") {
            MESSAGES.lock().unwrap().push(text);
        }
    }

    fn flush(&self) {}
}

/// Held by whoever tests: the layer (1.3.239) finds devices in a table that one thread may look through while another adds to
/// it, and then calls what isn't there. So one test opens devices at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Waits until no other test holds what this gives.
#[allow(dead_code)] // Of a single test nobody else is there.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts to listen. To be called before a device is opened.
pub(crate) fn listen() {
    let _ = log::set_logger(&Listener).map(|()| log::set_max_level(log::LevelFilter::Debug));
}

/// Panics unless the layer was there, looked for missing barriers too, and had nothing to say.
pub(crate) fn assert_silent() {
    let messages = MESSAGES.lock().unwrap();
    let remedy = "on Debian: vulkan-validationlayers";
    assert!(messages.is_empty(), "the validation layer speaks, or isn't there ({remedy}): {messages:#?}");
    let heard = HEARD.load(Ordering::Relaxed);
    assert!(heard, "no layer said that it looks for missing barriers: was `listen` called before a device opened?");
}

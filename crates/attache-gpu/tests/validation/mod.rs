//! Collects the messages of the Vulkan validation layer, which arrive through wgpu's log. For tests that open devices
//! with the validation layer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The messages that the validation layer has reported, and those of wgpu about the layer.
static MESSAGES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Whether the layer has reported at its start that it also checks for missing barriers.
static HEARD: AtomicBool = AtomicBool::new(false);

/// Part of a message of newer layers (1.4) about functions that ash loads from the device although they belong to the
/// instance. Nothing calls them. wgpu lists the message's objects in a message of its own.
const LOADS_FUNCTION: &str = "WARNING-vkGetDeviceProcAddr-device";

/// Whether the last message was that, so that its objects follow.
static OBJECTS_FOLLOW: AtomicBool = AtomicBool::new(false);

struct Listener;

impl log::Log for Listener {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.target().starts_with("wgpu_hal::vulkan")
    }

    /// Stores the message if it is a warning or an error, or says that the layer is not installed.
    fn log(&self, record: &log::Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let text = record.args().to_string();
        if text.contains("Validation Layer Active") && text.contains("SYNCHRONIZATION_VALIDATION") {
            HEARD.store(true, Ordering::Relaxed);
        }
        let loads_function = text.contains(LOADS_FUNCTION);
        let follows = OBJECTS_FOLLOW.swap(loads_function, Ordering::Relaxed) && text.starts_with("\tobjects:");
        if !loads_function && !follows && (record.level() <= log::Level::Warn || text.contains("unable to find layer"))
        {
            MESSAGES.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        }
    }

    fn flush(&self) {}
}

/// The lock that each test holds while it opens and uses devices, so that only one test does at a time. The
/// layer (1.3.239) looks up devices in a table while another thread may be adding to it, and then calls
/// invalid addresses.
static ALONE: Mutex<()> = Mutex::new(());

/// Waits until no other test uses devices, and keeps others from using them until the guard is dropped.
#[allow(dead_code)] // Unused in test binaries with a single test.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts collecting the messages of the layer. Must be called before a device is opened.
pub(crate) fn listen() {
    let _ = log::set_logger(&Listener).map(|()| log::set_max_level(log::LevelFilter::Debug));
}

/// Asserts that the validation layer is installed, checks for missing barriers, and has reported nothing since this was
/// asserted last.
///
/// # Panics
///
/// Panics if one of these is not the case.
pub(crate) fn assert_silent() {
    let messages = std::mem::take(&mut *MESSAGES.lock().unwrap_or_else(PoisonError::into_inner));
    let remedy = "on Debian: vulkan-validationlayers";
    assert!(messages.is_empty(), "the validation layer reports errors or is missing ({remedy}): {messages:#?}");
    let heard = HEARD.load(Ordering::Relaxed);
    assert!(heard, "the layer does not check for missing barriers, or a device was opened before `listen` was called");
}

//! Tests the command as a user runs it.

#[path = "../support/mod.rs"]
mod support;

mod bad_inputs;
#[cfg(all(target_os = "linux", feature = "gpu"))]
mod devices;
mod diff;
mod drawing;
mod evaluation;
#[cfg(all(target_os = "linux", feature = "external"))]
mod external;
mod inputs;
mod interface;
mod models;
#[cfg(all(unix, not(target_vendor = "apple")))]
mod names;
mod naming;
mod reports;
#[cfg(all(target_os = "linux", feature = "gpu"))]
mod stored;
#[cfg(target_os = "linux")]
mod strings;
mod surveys;
mod texts;
mod tools;
mod words;

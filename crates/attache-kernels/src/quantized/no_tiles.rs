//! The form of `tiles.rs` for systems and processors without tile registers.
#![allow(unsafe_code)] // Functions that are unsafe in the other form.

use super::epilogue::GemmEpilogue;
use super::gemm::{Element, Pass};

/// Whether there are registers that this process can use: never.
#[cfg(target_arch = "x86_64")]
pub(crate) fn are_available() -> bool {
    false
}

/// The registers, which there are none of.
pub(super) enum Tiles {}

impl Tiles {
    /// Returns none.
    ///
    /// # Safety
    /// The registers must be available, which they never are.
    pub(super) unsafe fn new(_: usize, _: usize) -> Option<Self> {
        None
    }

    /// Multiplies rows of A by one panel.
    ///
    /// # Safety
    /// There is no value that it could be called with.
    pub(super) unsafe fn run<T: Element, F: GemmEpilogue>(&self, _: &Pass<'_, T, F>) {
        match *self {}
    }
}

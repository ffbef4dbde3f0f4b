//! The input that every shader generator receives in addition to the kernel.

use std::borrow::Cow;

use attache_gpu_ir::{Program, ValueId};

use crate::kernel::{DeviceLimits, Kernel, StorageFormats, View};

/// What a variant receives besides the kernel: the program, the storage formats of its values, the device's
/// limits, the kernel's views and its maps.
pub(crate) struct Context<'a> {
    pub(crate) program: &'a Program,
    pub(crate) storages: &'a StorageFormats,
    pub(crate) limits: &'a DeviceLimits,
    /// The inputs and operands that the kernel loads through index maps.
    pub(crate) views: &'a [View],
    /// The maps whose elements the kernel computes where it loads them.
    pub(crate) maps: &'a [Kernel],
}

impl<'a> Context<'a> {
    /// Returns the value that stores the elements of an input or operand of the kernel: the source of its view, or itself.
    pub(crate) fn source(&self, id: ValueId) -> ValueId {
        self.views.iter().find(|view| view.value == id).map_or(id, |view| view.source)
    }

    /// Returns the elements of a constant as f32, for variants that pack weights.
    pub(crate) fn floats(&self, id: ValueId) -> Cow<'a, [f32]> {
        self.program.value(id).floats().expect("a variant packs constants only, which hold floats in checked programs")
    }
}

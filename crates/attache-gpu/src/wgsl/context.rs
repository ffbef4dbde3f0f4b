//! What every writer of shaders sees beside the kernel.

use std::borrow::Cow;

use attache_gpu_ir::{Program, Source, ValueId};

use crate::kernel::{Limits, Storages, View};

/// What a variant sees beside the kernel.
pub(crate) struct Context<'a> {
    pub(crate) program: &'a Program,
    pub(crate) storages: &'a Storages,
    pub(crate) limits: &'a Limits,
    /// What the kernel reads through index maps.
    pub(crate) views: &'a [View],
}

impl<'a> Context<'a> {
    /// A constant's elements as binary32, for a variant that packs them.
    pub(crate) fn floats(&self, id: ValueId) -> Cow<'a, [f32]> {
        match &self.program.value(id).source {
            Source::Constant(constant) => constant.floats().expect("constants of checked programs hold reals"),
            _ => unreachable!("a variant packs constants only"),
        }
    }
}

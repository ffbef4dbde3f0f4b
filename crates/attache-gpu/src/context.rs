//! What every writer of shaders sees beside the kernel.

use std::borrow::Cow;

use attache_gpu_ir::{Program, Scalar, Source, ValueId};

use crate::limits::Limits;
use crate::precision::Precision;

/// What a variant sees beside the kernel.
pub(crate) struct Context<'a> {
    pub(crate) program: &'a Program,
    pub(crate) precision: Precision,
    pub(crate) limits: &'a Limits,
}

impl<'a> Context<'a> {
    /// WGSL's type for the stored elements of a value.
    pub(crate) fn element(&self, id: ValueId) -> &'static str {
        let value = self.program.value(id);
        match value.scalar {
            Scalar::F32 if value.is_inner => "f32",
            Scalar::F32 => self.precision.storage(),
            Scalar::I32 => "i32",
        }
    }

    /// A constant's elements as binary32, for a variant that packs them.
    pub(crate) fn floats(&self, id: ValueId) -> Cow<'a, [f32]> {
        match &self.program.value(id).source {
            Source::Constant(constant) => constant.floats().expect("constants of checked programs hold reals"),
            _ => unreachable!("a variant packs constants only"),
        }
    }
}

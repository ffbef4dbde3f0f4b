//! AVERAGE_POOL_2D: the mean of the elements in each window. Padded positions do not count.

use attache_gpu_ir::WindowKind;
use attache_model::schema::BuiltinOperator;

use crate::shared::pool;
use crate::{Code, Definition};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::AVERAGE_POOL_2D),
    versions: 1..=3,
    inputs: pool::INPUTS,
    parse: |declaration| pool::parse(declaration, WindowKind::Average),
}];

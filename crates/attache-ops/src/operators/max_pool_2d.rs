//! MAX_POOL_2D: the maximum of the elements in each window.

use attache_gpu_ir::WindowKind;
use attache_model::schema::BuiltinOperator;

use crate::shared::pool;
use crate::{Code, Definition};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::MAX_POOL_2D),
    versions: 1..=3,
    inputs: pool::INPUTS,
    parse: |declaration| pool::parse(declaration, WindowKind::Maximum),
}];

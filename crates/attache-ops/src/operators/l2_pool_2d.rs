//! L2_POOL_2D: the root of the mean of the squares in each window. Padded positions do not count.

use attache_base::DataType;
use attache_model::schema::BuiltinOperator;

use crate::shared::pool;
use crate::{Code, Definition, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::L2_POOL_2D),
    versions: 1..=1,
    inputs: &[input("input").of(&[DataType::Float32])],
    parse: pool::parse_of_squares,
}];

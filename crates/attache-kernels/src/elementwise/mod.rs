//! Element-wise functions of one operand, and of several operands with broadcasting.

mod binary;
pub(crate) mod broadcast;
mod unary;

pub use binary::{Binary, binary};
pub use broadcast::{broadcast2, broadcast3};
pub use unary::{Unary, unary, unary_in_place};

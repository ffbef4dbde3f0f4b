//! Lists of numbers for the positions along an axis, which programs for devices look up.

use attache_base::{Constant, Shape};
use attache_gpu_ir::ValueId;
use attache_graph::{Lowering, Unsupported};

/// The most positions of which a list is made. A tensor without elements may have any extents, and so would its lists.
const MOST: usize = 1 << 20;

/// Emits a constant list of the number of each position along an axis of `shape`'s elements, with that shape.
///
/// # Errors
///
/// Fails where there are more positions than a list may have.
pub(crate) fn list(
    lowering: &mut Lowering<'_>,
    shape: Shape,
    number: impl Fn(usize) -> i32,
) -> Result<ValueId, Unsupported> {
    let count = shape.elements();
    if count > MOST {
        return Err(Unsupported::new(format!("a list of {count} positions along an axis, more than {MOST}")));
    }
    let numbers: Vec<i32> = (0..count).map(number).collect();
    lowering.constant(Constant::from_values(shape, &numbers))
}

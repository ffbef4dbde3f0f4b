//! What the operators share that select boxes by non-maximum suppression on a device.

use attache_gpu_ir::{Primitive, Suppression, ValueId};
use attache_graph::{Lowering, Unsupported};

/// Maximum number of boxes among which a device selects.
const MAX_BOXES: usize = 1 << 16;

/// Maximum number of overlaps that a device computes in one dispatch, which takes some milliseconds.
const MAX_OVERLAPS: usize = 1 << 26;

/// Emits the selection among `boxes`, `[count, 4]`, for each row of `scores`, `[rows, count]`. Returns the indices of the
/// selected boxes, `[rows, limits.most]`, and their numbers, `[rows]`.
pub(crate) fn suppress(
    lowering: &mut Lowering<'_>,
    boxes: ValueId,
    scores: ValueId,
    limits: Suppression,
) -> Result<[ValueId; 2], Unsupported> {
    let scored = lowering.shape(scores);
    bound(&limits, scored[0], scored[1])?;
    let selected = lowering.emit_all(Primitive::Suppress(limits), &[boxes, scores])?;
    <[ValueId; 2]>::try_from(selected).map_err(|_| Unsupported::new("suppression has two outputs"))
}

/// Checks that suppression of boxes takes bounded time on a device, which does it in one dispatch, and that its limits
/// are those for which the device decides as the CPU does.
fn bound(limits: &Suppression, rows: usize, count: usize) -> Result<(), Unsupported> {
    if count > MAX_BOXES || rows.saturating_mul(count).saturating_mul(limits.most) > MAX_OVERLAPS {
        let text = format!("{rows} selections of {} of {count} boxes take too long in one dispatch", limits.most);
        return Err(Unsupported::new(text));
    }
    let is_positive = limits.dropped_from().is_normal() && limits.dropped_from() > 0.0;
    if !is_positive || limits.score.is_nan() {
        return Err(Unsupported::new(format!("thresholds are {} and {}", limits.overlap, limits.score)));
    }
    Ok(())
}

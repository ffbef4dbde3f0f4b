//! Scattered updates on a device: rows combined with those of an operand at places that are constant or computed.
//!
//! The primitive takes updates in the ascending order of their places. Constant places are sorted here. Computed ones are
//! sorted at the run, by counting for each the places that come before it. Both orders are stable, so that updates of one
//! place are combined in their own order.

use attache_base::{Constant, DataType, Shape, strides};
use attache_gpu_ir::{Expression, Gather, IntBinaryOp, IntExpression, Primitive, ReduceOp, ValueId};
use attache_graph::{Lowering, Unsupported};

use crate::Combination;
use crate::shared::integers::{moves_as_integer, ordered, wrapped};

/// The most places that are computed at the run. Each is compared with each other one to sort them: 2³² comparisons.
const MOST_COMPUTED: usize = 1 << 16;

/// The most places that are listed where a file need not have as many numbers.
const MOST_LISTED: usize = 1 << 20;

/// The most updates of one place, which one invocation combines one after the other.
const MOST_OF_ONE: usize = 1 << 16;

/// Returns the number of places of updates of this shape, to be listed.
///
/// # Errors
///
/// Fails where there are too many: the extents of a tensor without elements, for instance, may be any.
pub(crate) fn listed(updates: &Shape) -> Result<usize, Unsupported> {
    match updates.elements() {
        count @ ..=MOST_LISTED => Ok(count),
        count => Err(Unsupported::new(format!("{count} places of updates, more than {MOST_LISTED}"))),
    }
}

/// Checks that there are not too many places to be computed at the run.
pub(crate) fn few(count: usize) -> Result<(), Unsupported> {
    match count {
        ..=MOST_COMPUTED => Ok(()),
        _ => Err(Unsupported::new(format!("{count} computed places of updates, more than {MOST_COMPUTED}"))),
    }
}

/// The places of updates: each the index of a row of the output. Updates whose place is not the index of a row are left out.
pub(crate) enum Places {
    Known(Vec<i32>),
    /// A list of integers that is computed at the run.
    Computed(ValueId),
}

/// Emits the rows `operand`, which broadcasts to `[rows, N]`, combined with the rows `updates`, of shape `[K, N]`, at K
/// `places`, and returns the result. Elements are of the type `data_type`; without a combination, updates replace what is
/// there.
///
/// # Errors
///
/// Fails where a device does not combine elements of the type, where there are too many places to sort at the run, or too
/// many updates of one place.
pub(crate) fn scatter(
    lowering: &mut Lowering<'_>,
    (combination, data_type): (Option<Combination>, DataType),
    [operand, updates]: [ValueId; 2],
    (places, rows): (Places, usize),
) -> Result<ValueId, Unsupported> {
    i32::try_from(rows).map_err(|_| Unsupported::new("a tensor of 2³¹ rows or more"))?;
    let (places, updates) = sorted(lowering, places, updates)?;
    let is_integer = moves_as_integer(data_type);
    let can_be_combined = data_type == DataType::Float32 || (data_type == DataType::Float16 && combination.is_none());
    if !is_integer && !can_be_combined {
        return Err(Unsupported::new(format!("elements of type {data_type} are not combined on a device")));
    }
    let (combination, orders) = match combination {
        None => (None, false),
        Some(combination) => {
            let (reduction, orders) = reduction(combination, data_type)?;
            (Some(reduction), orders)
        }
    };
    let scatter = Primitive::Scatter { combination, rows };
    if !is_integer {
        return lowering.emit(scatter, &[operand, places, updates]);
    }
    let key = if orders { ordered(IntExpression::Input(0), data_type) } else { IntExpression::Input(0) };
    let [operand, updates] = [operand, updates].map(|value| {
        let shape = lowering.shape(value).clone();
        lowering.int_map(key.clone(), &shape, &[value])
    });
    let made = lowering.emit(scatter, &[operand?, places, updates?])?;
    let shape = lowering.shape(made).clone();
    let after = if orders { key } else { wrapped(IntExpression::Input(0), data_type) };
    lowering.int_map(after, &shape, &[made])
}

/// Returns the reduction that combines elements of the type `data_type`, and whether it compares them. Truth values are 0
/// and 1.
fn reduction(combination: Combination, data_type: DataType) -> Result<(ReduceOp, bool), Unsupported> {
    let is_truth = data_type == DataType::Bool;
    match combination {
        Combination::Sum if !is_truth => Ok((ReduceOp::Sum, false)),
        Combination::Product if !is_truth => Ok((ReduceOp::Product, false)),
        Combination::All | Combination::Any if !is_truth => Err(Unsupported::new("truth values of numbers")),
        Combination::Sum | Combination::Maximum | Combination::Any => Ok((ReduceOp::Maximum, true)),
        Combination::Product | Combination::Minimum | Combination::All => Ok((ReduceOp::Minimum, true)),
    }
}

/// Emits places in ascending order, and the rows of updates in the same order.
fn sorted(lowering: &mut Lowering<'_>, places: Places, updates: ValueId) -> Result<(ValueId, ValueId), Unsupported> {
    let count = lowering.shape(updates)[0];
    let (places, order) = match places {
        Places::Computed(places) if count == 1 => return Ok((places, updates)),
        Places::Computed(places) => sorted_at_run(lowering, places, count)?,
        Places::Known(places) => {
            let mut order: Vec<i32> = (0..count as i32).collect();
            order.sort_by_key(|at| places[*at as usize]);
            let sorted: Vec<i32> = order.iter().map(|at| places[*at as usize]).collect();
            if sorted.chunk_by(i32::eq).any(|alike| alike[0] >= 0 && alike.len() > MOST_OF_ONE) {
                return Err(Unsupported::new(format!("more than {MOST_OF_ONE} updates of one place")));
            }
            let values = lowering.constant(Constant::from_values([count], &sorted))?;
            if order.is_sorted() {
                return Ok((values, updates));
            }
            (values, lowering.constant(Constant::from_values([count], &order))?)
        }
    };
    let order = lowering.reshape(order, &[count, 1].into())?;
    Ok((places, lowering.emit(Primitive::Gather(Gather { batch: 0, axis: 0 }), &[updates, order])?))
}

/// Emits computed places in ascending order, and the index of each among those given.
fn sorted_at_run(
    lowering: &mut Lowering<'_>,
    places: ValueId,
    count: usize,
) -> Result<(ValueId, ValueId), Unsupported> {
    few(count)?;
    // The primitive sorts in descending order, and the bits of a number inverted are that of the opposite order.
    let inverted = IntExpression::Input(0).binary(IntBinaryOp::ExclusiveOr, IntExpression::Constant(-1));
    let shape = Shape::from([count]);
    let keys = lowering.int_map(inverted.clone(), &shape, &[places])?;
    let found = lowering.emit_all(Primitive::TopK { count }, &[keys])?;
    Ok((lowering.int_map(inverted, &shape, &[found[0]])?, found[1]))
}

/// Emits the row of a tensor with the leading axes `extents` that each row of indices, `[K, axes]`, names: `[K]`. It is
/// negative where an index is out of range.
pub(crate) fn computed_places(
    lowering: &mut Lowering<'_>,
    indices: ValueId,
    extents: &[usize],
) -> Result<Places, Unsupported> {
    let shape = lowering.shape(indices).clone();
    let (count, axes) = (Shape::from([shape[0]]), extents.len());
    if axes == 1 {
        // An index out of range is already the place of no row.
        return Ok(Places::Computed(lowering.reshape(indices, &count)?));
    }
    let outside = outside(extents)?;
    let numbers = |of: &[usize]| -> Vec<i32> { of.iter().map(|number| *number as i32).collect() };
    let most = lowering.constant(Constant::from_values([axes], &numbers(extents)))?;
    let steps = lowering.constant(Constant::from_values([axes], &numbers(&strides(extents))))?;
    let [index, extent, step] = [0, 1, 2].map(IntExpression::Input);
    let place = inside(index.clone(), extent).select(index.multiply(step), IntExpression::Constant(outside));
    let places = lowering.int_map(place, &shape, &[indices, most, steps])?;
    let places = lowering.emit(Primitive::Reduce { reduction: ReduceOp::Sum, axes: vec![1] }, &[places])?;
    Ok(Places::Computed(lowering.reshape(places, &count)?))
}

/// Returns the expression that is 1 if an index lies in an axis of the extent `extent`, else 0.
pub(crate) fn inside(index: IntExpression, extent: IntExpression) -> IntExpression {
    let is_negative = index.clone().less(IntExpression::Constant(0));
    is_negative.select(IntExpression::Constant(0), index.less(extent))
}

/// Returns what an index out of range adds to a place: a number with which the sum over the axes `extents` is negative.
///
/// # Errors
///
/// Fails where the sum may not fit 32 bits.
pub(crate) fn outside(extents: &[usize]) -> Result<i32, Unsupported> {
    let rows = extents.iter().try_fold(1usize, |rows, extent| rows.checked_mul(*extent));
    let least = rows.and_then(|rows| rows.checked_mul(extents.len().max(1)));
    let fits = least.is_some_and(|least| i32::try_from(least).is_ok());
    match rows {
        Some(rows) if fits => Ok(-(rows as i32)),
        _ => Err(Unsupported::new(format!("places in a tensor of shape {extents:?}, too large for 32 bits"))),
    }
}

/// Emits a single element, the value `input`, in the shape `shape`.
pub(crate) fn repeated(
    lowering: &mut Lowering<'_>,
    data_type: DataType,
    input: ValueId,
    shape: &Shape,
) -> Result<ValueId, Unsupported> {
    let one = lowering.reshape(input, &Shape::default())?;
    match moves_as_integer(data_type) {
        true => lowering.int_map(IntExpression::Input(0), shape, &[one]),
        false => lowering.map(Expression::Input(0), shape, &[one]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_out_of_range_are_negative() {
        assert_eq!(outside(&[2, 3]).unwrap(), -6);
        assert!(outside(&[1 << 20, 1 << 12]).is_err() && outside(&[1 << 15, 1 << 15, 1]).is_err());
        assert!(outside(&[usize::MAX, 2]).is_err());
        let inside = inside(IntExpression::Input(0), IntExpression::Constant(3));
        assert_eq!([-1, 0, 2, 3, i32::MIN].map(|index| inside.evaluate(&[index])), [0, 1, 1, 0, 0]);
    }
}

//! Spreads the elements of a tensor over a larger one: STABLEHLO_PAD and DILATE.

use attache_base::{Shape, strides};
use attache_gpu_ir::{Index, IndexMap};
use attache_graph::Unsupported;

/// The place of the first element along an axis of the larger tensor, negative where elements are cut, and the distance of
/// neighbours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Along {
    pub(crate) first: i64,
    pub(crate) step: i64,
}

/// Fills `output` with `fill`, an element, and copies the elements of `input` to their places in it. Elements whose place lies
/// outside are left out. Each axis has an entry in `axes`, whose places do not overflow.
pub(crate) fn spread((input, from): (&[u8], &Shape), axes: &[Along], fill: &[u8], (output, to): (&mut [u8], &Shape)) {
    let size = fill.len();
    output.chunks_exact_mut(size).for_each(|element| element.copy_from_slice(fill));
    let steps = strides(to);
    for (index, element) in input.chunks_exact(size).enumerate() {
        let (mut rest, mut target) = (index, Some(0));
        for (axis, along) in axes.iter().enumerate().rev() {
            let place = along.first + (rest % from[axis]) as i64 * along.step;
            let inside = usize::try_from(place).ok().filter(|place| *place < to[axis]);
            target = target.zip(inside).map(|(sum, place)| sum + place * steps[axis]);
            rest /= from[axis];
        }
        if let Some(target) = target {
            output[target * size..][..size].copy_from_slice(element);
        }
    }
}

/// Returns the index map, without a fill value, that takes the elements of a tensor of shape `from` to their places in one of
/// shape `to`. Refuses distances that do not fit a device's integers.
pub(crate) fn map(from: &Shape, axes: &[Along], to: &Shape) -> Result<IndexMap, Unsupported> {
    const MOST: u64 = 1 << 28;
    let is_far = |along: &Along| along.first.unsigned_abs() > MOST || along.step.unsigned_abs() > MOST;
    if let Some(along) = axes.iter().find(|along| is_far(along)) {
        let (first, step) = (along.first, along.step);
        return Err(Unsupported::new(format!("elements from {first} on, {step} apart: too far for a device")));
    }
    let coordinate = |(axis, along): (usize, &Along)| {
        // A single element has no neighbours.
        let along = if from[axis] > 1 { *along } else { Along { step: 1, ..*along } };
        if along.step == 1 {
            return Index::Axis(axis).plus(-along.first);
        }
        // Division needs a distance from the first element that is not negative, so whole steps are added before and
        // subtracted after. Between the elements, the rest moves the coordinate behind the last one.
        let steps = along.first.max(0).div_euclid(along.step) + 1;
        let distance = Index::Axis(axis).plus(steps * along.step - along.first);
        let behind = distance.clone().modulo(along.step).times(from[axis] as i64 + steps);
        distance.divided_by(along.step).plus(-steps).sum(behind)
    };
    let coordinates = axes.iter().enumerate().map(coordinate).collect();
    Ok(IndexMap { output: to.to_vec(), coordinates, fill: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_takes_elements_to_their_places() {
        for (first, step) in [(0, 1), (2, 1), (-1, 1), (0, 3), (4, 3), (-2, 3), (-4, 2), (7, 2)] {
            let (axes, from, to) = ([Along { first, step }], Shape::from([5]), Shape::from([14]));
            let mut output = [0; 14];
            spread((&[1, 2, 3, 4, 5], &from), &axes, &[0], (&mut output, &to));
            let coordinates = &map(&from, &axes, &to).unwrap().coordinates[0];
            let found = (0..14).map(|at| match coordinates.evaluate(&[at]) {
                at @ 0..5 => at as u8 + 1,
                _ => 0,
            });
            assert_eq!(found.collect::<Vec<u8>>(), output, "{first} {step}");
        }
    }

    #[test]
    fn what_is_too_far_for_a_device_is_refused() {
        let place = |first, step, extent: usize| map(&[extent].into(), &[Along { first, step }], &[9].into());
        for (first, step) in [(1 << 40, 1), (i64::MIN, 1), (0, 1 << 31), (0, i64::MAX)] {
            assert!(place(first, step, 2).is_err(), "{first} {step}");
        }
        assert_eq!(place(3, 7, 1).unwrap(), place(3, 1, 1).unwrap());
    }

    #[test]
    fn elements_are_apart() {
        let (axes, mut output) = ([Along { first: -1, step: 1 }, Along { first: 1, step: 2 }], [0; 6]);
        spread((&[1, 2, 3, 4], &[2, 2].into()), &axes, &[9], (&mut output, &[1, 6].into()));
        assert_eq!(output, [9, 3, 9, 4, 9, 9]);
    }
}

//! Spreads the elements of a tensor over a larger one: STABLEHLO_PAD and DILATE.

use attache_base::{Shape, strides};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_apart() {
        let (axes, mut output) = ([Along { first: -1, step: 1 }, Along { first: 1, step: 2 }], [0; 6]);
        spread((&[1, 2, 3, 4], &[2, 2].into()), &axes, &[9], (&mut output, &[1, 6].into()));
        assert_eq!(output, [9, 3, 9, 4, 9, 9]);
    }
}

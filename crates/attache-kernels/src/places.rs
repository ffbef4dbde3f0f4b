//! Places of extrema: the index of the first largest or smallest element along an axis.

use crate::Engine;

/// Writes the index of the extremum along the middle axis of `[outer, extent, inner]` for each of `outer × inner` columns:
/// of the first one of equals. Any number is better than NaN.
///
/// # Panics
///
/// Panics if the lengths of the slices do not match, or if `extent` is 0.
pub fn of_extrema<T: Copy + PartialOrd + Sync, P: Copy + Send>(
    engine: Engine,
    input: &[T],
    [extent, inner]: [usize; 2],
    largest: bool,
    output: &mut [P],
    place: fn(usize) -> P,
) {
    assert!(extent > 0 && input.len() == output.len() * extent, "an output for each column");
    if output.is_empty() {
        return;
    }
    let parts = engine.tasks(input.len() as f64, output.len() / inner);
    engine.for_each_part(output, inner, parts, |first, output| {
        let blocks = input[first * extent * inner..].chunks_exact(extent * inner);
        for (block, places) in blocks.zip(output.chunks_exact_mut(inner)) {
            for (column, found) in places.iter_mut().enumerate() {
                *found = place(extremum(&block[column..], inner, largest));
            }
        }
    });
}

/// Returns the place of the first extremum of the elements that are `step` apart.
fn extremum<T: Copy + PartialOrd>(elements: &[T], step: usize, largest: bool) -> usize {
    let (mut best, mut value) = (0, elements[0]);
    for (place, other) in elements.iter().step_by(step).enumerate() {
        let is_better = if largest { *other > value } else { *other < value };
        if is_better || (is_unordered(value) && !is_unordered(*other)) {
            (best, value) = (place, *other);
        }
    }
    best
}

fn is_unordered<T: PartialOrd>(value: T) -> bool {
    value.partial_cmp(&value).is_none()
}

#[cfg(test)]
mod tests {
    use attache_base::{Pool, Serial};

    use super::*;

    fn places<T: Copy + PartialOrd + Sync>(input: &[T], extents: [usize; 2], largest: bool) -> Vec<usize> {
        let mut output = vec![99; input.len() / extents[0]];
        of_extrema(Engine::new(&Serial), input, extents, largest, &mut output, |place| place);
        output
    }

    #[test]
    fn the_first_of_equals_counts() {
        let input = [1, 9, 3, 9, 3, 0, 5, 5, 5, 4, 6, 4];
        assert_eq!(places(&input, [3, 2], true), [1, 0, 2, 0]);
        assert_eq!(places(&input, [3, 2], false), [0, 2, 0, 1]);
        assert_eq!(places(&input, [4, 1], true), [1, 2, 2]);
    }

    #[test]
    fn numbers_are_better_than_what_is_none() {
        assert_eq!(places(&[f32::NAN, 1.0, f32::NAN, 2.0], [4, 1], true), [3]);
        assert_eq!(places(&[1.0, f32::NAN, 2.0, 1.0], [4, 1], false), [0]);
        assert_eq!(places(&[f32::NAN, f32::NAN], [2, 1], true), [0]);
        assert_eq!(places(&[-0.0f32, 0.0], [2, 1], true), [0]);
    }

    #[test]
    fn threads_share_columns() {
        let input: Vec<u8> = (0..210_000u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for extents in [[21, 1], [7, 10]] {
            let (pool, mut output) = (Pool::new(3), vec![99; input.len() / extents[0]]);
            of_extrema(Engine::new(&pool), &input, extents, true, &mut output, |place| place);
            assert_eq!(output, places(&input, extents, true));
        }
    }
}

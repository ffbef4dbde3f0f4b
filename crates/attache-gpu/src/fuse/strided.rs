//! [`Strided`]: where the elements of a value lie within another value, of which they are a reshaped, permuted or sliced
//! form.

use attache_base::strides;
use attache_gpu_ir::{Index, IndexMap};

/// Elements at even distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// The number of elements.
    pub(super) extent: usize,
    /// The distance between neighbours, in elements of the other value.
    pub(super) stride: usize,
}

/// The places of a value's elements, in row-major order, within another value. Nested runs, outermost first, generate
/// them. No run has extent 1, and no two neighbours could be one run, so that equal places have equal runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Strided {
    offset: usize,
    runs: Vec<Run>,
}

impl Strided {
    /// Returns the places of all elements of a value, in order.
    pub(super) fn dense(elements: usize) -> Self {
        Self::new(0, [Run { extent: elements, stride: 1 }])
    }

    fn new(offset: usize, all: impl IntoIterator<Item = Run>) -> Self {
        let mut runs: Vec<Run> = Vec::new();
        for run in all.into_iter().filter(|run| run.extent != 1) {
            match runs.last_mut() {
                Some(last) if last.stride == run.stride * run.extent => {
                    *last = Run { extent: last.extent * run.extent, stride: run.stride };
                }
                _ => runs.push(run),
            }
        }
        Self { offset, runs }
    }

    pub(super) fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Whether these are all places of a value of `elements` elements, in order.
    pub(super) fn is_dense(&self, elements: usize) -> bool {
        *self == Self::dense(elements)
    }

    /// Whether these are all places of a value of `elements` elements, each once, in any order.
    pub(super) fn is_permutation(&self, elements: usize) -> bool {
        let mut runs = self.runs.clone();
        runs.sort_by_key(|run| std::cmp::Reverse(run.stride));
        Self::new(self.offset, runs).is_dense(elements)
    }

    /// Returns the runs of each axis of a shape that the elements have; `None` if an axis begins or ends within a run at
    /// a place that does not divide it.
    pub(super) fn by_axis(&self, shape: &[usize]) -> Option<Vec<Vec<Run>>> {
        let mut rest = self.runs.clone();
        let mut axes: Vec<Vec<Run>> = Vec::with_capacity(shape.len());
        for extent in shape.iter().rev() {
            let (mut needed, mut runs) = (*extent, Vec::new());
            while needed > 1 {
                let run = rest.last_mut()?;
                if needed.is_multiple_of(run.extent) {
                    needed /= run.extent;
                    runs.insert(0, *run);
                    rest.pop();
                } else if run.extent.is_multiple_of(needed) {
                    runs.insert(0, Run { extent: needed, ..*run });
                    *run = Run { extent: run.extent / needed, stride: run.stride * needed };
                    needed = 1;
                } else {
                    return None;
                }
            }
            axes.insert(0, runs);
        }
        rest.is_empty().then_some(axes)
    }

    /// Returns the places of what an index map without a fill value moves: `shape` is the shape of the elements that it
    /// reads. `None` if the map takes them at other than even distances.
    pub(super) fn moved(&self, shape: &[usize], map: &IndexMap) -> Option<Self> {
        let axes = self.by_axis(shape)?;
        let mut offset = self.offset;
        let mut moved: Vec<Vec<Run>> =
            map.output.iter().map(|extent| vec![Run { extent: *extent, stride: 0 }]).collect();
        let mut is_taken = vec![false; map.output.len()];
        for (runs, index) in axes.iter().zip(&map.coordinates) {
            let (constant, terms) = linear(index)?;
            match (&runs[..], &terms[..]) {
                ([], _) => {}
                ([run], _) => {
                    offset += constant * run.stride;
                    for (axis, factor) in terms {
                        moved[axis].first_mut().filter(|_| !is_taken[axis])?.stride += factor * run.stride;
                    }
                }
                (_, []) => {
                    let place = runs.iter().rev().fold((constant, 0), |(rest, place), run| {
                        (rest / run.extent, place + rest % run.extent * run.stride)
                    });
                    offset += place.1;
                }
                (_, [(axis, 1)]) => {
                    let extent: usize = runs.iter().map(|run| run.extent).product();
                    let is_whole = constant == 0 && map.output[*axis] == extent && moved[*axis][0].stride == 0;
                    if !is_whole || std::mem::replace(&mut is_taken[*axis], true) {
                        return None;
                    }
                    moved[*axis].clone_from(runs);
                }
                _ => return None,
            }
        }
        Some(Self::new(offset, moved.into_iter().flatten()))
    }

    /// Returns the index map whose output has the shape `output` and these elements of a value of shape `base`; `None`
    /// if the axes do not match.
    pub(super) fn index_map(&self, output: &[usize], base: &[usize]) -> Option<IndexMap> {
        let (axes, base_strides) = (self.by_axis(output)?, strides(base));
        let mut rest = self.offset;
        let mut constants = vec![0; base.len()];
        for (constant, stride) in constants.iter_mut().zip(&base_strides) {
            *constant = rest / stride;
            rest %= stride;
        }
        let mut last = constants.clone();
        let mut terms: Vec<Vec<Index>> = vec![Vec::new(); base.len()];
        for (axis, runs) in axes.iter().enumerate() {
            let run = match runs[..] {
                [] => continue,
                [run] if run.stride == 0 => continue,
                [run] => run,
                _ => return None,
            };
            let fits = |of: &usize| base[*of] > 1 && run.stride.is_multiple_of(base_strides[*of]);
            let of = (0..base.len()).find(fits)?;
            let factor = run.stride / base_strides[of];
            last[of] += factor * (run.extent - 1);
            terms[of].push(Index::Axis(axis).times(factor as i64));
        }
        if last.iter().zip(base).any(|(last, extent)| last >= extent) {
            return None;
        }
        let coordinates = terms.into_iter().zip(constants).map(|(terms, constant)| {
            let sum = terms.into_iter().reduce(Index::sum);
            sum.map_or(Index::Constant(constant as i64), |sum| sum.plus(constant as i64))
        });
        Some(IndexMap { output: output.to_vec(), coordinates: coordinates.collect(), fill: None })
    }

    /// Returns a shape of `elements` elements in which each run goes along one axis; `None` if there is none.
    pub(super) fn grid(&self, elements: usize) -> Option<Vec<usize>> {
        let mut all: Vec<usize> = self.runs.iter().map(|run| run.stride).filter(|stride| *stride > 0).collect();
        all.push(1);
        all.sort_unstable_by_key(|stride| std::cmp::Reverse(*stride));
        all.dedup();
        let mut whole = elements;
        let extent = |stride: usize| {
            let outer = std::mem::replace(&mut whole, stride);
            outer.is_multiple_of(stride).then(|| outer / stride)
        };
        all.into_iter().map(extent).collect()
    }
}

/// Returns an index as a constant and the factors of axes; `None` if it has another form, or something negative.
fn linear(index: &Index) -> Option<(usize, Vec<(usize, usize)>)> {
    let (constant, terms) = index.linear()?;
    let terms = terms.into_iter().map(|(axis, factor)| Some((axis, usize::try_from(factor).ok()?)));
    Some((usize::try_from(constant).ok()?, terms.collect::<Option<_>>()?))
}

/// Returns for each axis of the shape `to` the mark of the axes of `from` that it consists of, in row-major order; `None`
/// if these have different marks, or if the axes do not divide each other. Axes of extent 1 have no mark.
pub(super) fn regrouped(from: &[(usize, bool)], to: &[usize]) -> Option<Vec<bool>> {
    let mut rest: Vec<(usize, bool)> = from.iter().copied().filter(|(extent, _)| *extent != 1).collect();
    let mut marks = Vec::with_capacity(to.len());
    for extent in to.iter().rev() {
        let (mut needed, mut known) = (*extent, None);
        while needed > 1 {
            let (extent, mark) = rest.last_mut()?;
            if known.replace(*mark).is_some_and(|known| known != *mark) {
                return None;
            }
            if needed.is_multiple_of(*extent) {
                needed /= *extent;
                rest.pop();
            } else if extent.is_multiple_of(needed) {
                *extent /= needed;
                needed = 1;
            } else {
                return None;
            }
        }
        marks.insert(0, known.unwrap_or(false));
    }
    rest.is_empty().then_some(marks)
}

/// Returns the coarsest extents that divide both `a` and `b`, which have equal products, in row-major order; `None` if
/// there are none.
pub(super) fn refined(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let mut refined: Vec<usize> = Vec::new();
    let mut rest = b.to_vec();
    for extent in a.iter().rev() {
        let mut needed = *extent;
        while needed > 1 {
            let other = rest.last_mut()?;
            if needed.is_multiple_of(*other) {
                needed /= *other;
                refined.insert(0, *other);
                rest.pop();
            } else if other.is_multiple_of(needed) {
                refined.insert(0, needed);
                *other /= needed;
                needed = 1;
            } else {
                return None;
            }
        }
    }
    rest.iter().all(|extent| *extent == 1).then_some(refined)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(output: &[usize], coordinates: Vec<Index>) -> IndexMap {
        IndexMap { output: output.to_vec(), coordinates, fill: None }
    }

    #[test]
    fn heads_of_packed_projections_are_runs() {
        // [2, 5, 3 × 4 × 8]: the second of three projections, its four heads moved in front.
        let whole = Strided::dense(2 * 5 * 96);
        let slice = map(&[2, 5, 32], vec![Index::Axis(0), Index::Axis(1), Index::Axis(2).plus(32)]);
        let slice = whole.moved(&[2, 5, 96], &slice).unwrap();
        let heads = map(&[2, 4, 5, 8], [0, 2, 1, 3].map(Index::Axis).to_vec());
        let heads = slice.moved(&[2, 5, 4, 8], &heads).unwrap();
        let run = |extent, stride| Run { extent, stride };
        assert_eq!(heads, Strided { offset: 32, runs: vec![run(2, 480), run(4, 8), run(5, 96), run(8, 1)] });
        assert_eq!(heads.grid(960), Some(vec![2, 5, 12, 8]));
        let read = heads.index_map(&[2, 4, 5, 8], &[2, 5, 12, 8]).unwrap();
        assert_eq!(read.coordinates, [Index::Axis(0), Index::Axis(2), Index::Axis(1).plus(4), Index::Axis(3)]);
        assert_eq!(heads.index_map(&[8, 5, 8], &[2, 5, 12, 8]), None);
        assert!(!heads.is_permutation(960) && !heads.is_dense(320));
    }

    #[test]
    fn a_permutation_and_its_reverse_are_dense() {
        let swap = map(&[3, 2], vec![Index::Axis(1), Index::Axis(0)]);
        let swapped = Strided::dense(6).moved(&[2, 3], &swap).unwrap();
        assert!(swapped.is_permutation(6) && !swapped.is_dense(6));
        let again = map(&[2, 3], vec![Index::Axis(1), Index::Axis(0)]);
        assert!(swapped.moved(&[3, 2], &again).unwrap().is_dense(6));
        let mirrored = map(&[6], vec![Index::Axis(0).times(-1).plus(5)]);
        assert_eq!(Strided::dense(6).moved(&[6], &mirrored), None);
    }

    #[test]
    fn marks_are_regrouped_where_axes_divide() {
        let rows = [(1, false), (6, false), (8, true)];
        assert_eq!(regrouped(&rows, &[2, 3, 8]), Some(vec![false, false, true]));
        assert_eq!(regrouped(&rows, &[6, 2, 1, 4]), Some(vec![false, true, false, true]));
        assert_eq!(regrouped(&rows, &[48]), None);
        assert_eq!(regrouped(&rows, &[4, 12]), None);
        assert_eq!(refined(&[24], &[2, 3, 4]), Some(vec![2, 3, 4]));
        assert_eq!(refined(&[6, 4], &[2, 12]), Some(vec![2, 3, 4]));
        assert_eq!(refined(&[4, 6], &[3, 8]), None);
    }
}

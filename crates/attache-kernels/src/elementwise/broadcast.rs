//! Element-wise functions of two or three operands of any type with NumPy's broadcasting, and the walk over
//! broadcast operands that all broadcasting kernels use. Axes are merged as far as every operand allows; the
//! remaining ones are iterated row by row.

use attache_base::broadcast_strides;

/// Access pattern of `N` dense operands that are broadcast to a dense output written in order.
pub(crate) struct Walk<const N: usize> {
    /// Extents of the merged axes outside of a row, outermost first.
    extents: Vec<usize>,
    /// Strides of each operand along these axes, in elements; 0 where the operand is broadcast.
    strides: Vec<[usize; N]>,
    /// Elements per row, which is the innermost merged axis.
    pub(crate) row: usize,
    /// Stride of each operand within a row, in elements: 1, or 0 if the operand has one element for the whole
    /// row.
    pub(crate) steps: [usize; N],
}

impl<const N: usize> Walk<N> {
    /// Returns the access pattern for an output of shape `output`, to which each of the shapes `operands`
    /// broadcasts.
    pub(crate) fn new(output: &[usize], operands: [&[usize]; N]) -> Self {
        let is_dense = |operand: &&[usize]| without_ones(operand) == without_ones(output);
        if !cfg!(attache_small) && operands.iter().all(is_dense) {
            return Self { extents: Vec::new(), strides: Vec::new(), row: output.iter().product(), steps: [1; N] };
        }
        for operand in operands {
            assert!(operand.len() <= output.len(), "operands have no more axes than the output");
            let fits = |(from, to): (&usize, &usize)| from == to || *from == 1;
            assert!(operand.iter().rev().zip(output.iter().rev()).all(fits), "operands broadcast to the output");
        }
        let operands = operands.map(|operand| broadcast_strides(operand, output));
        let mut axes: Vec<(usize, [usize; N])> = Vec::new();
        for axis in (0..output.len()).rev().filter(|axis| output[*axis] != 1) {
            let strides = std::array::from_fn(|n| operands[n][axis]);
            match axes.last_mut() {
                Some((extent, inner)) if (0..N).all(|n| inner[n] * *extent == strides[n]) => *extent *= output[axis],
                _ => axes.push((output[axis], strides)),
            }
        }
        if axes.is_empty() {
            axes.push((1, [0; N]));
        }
        let (row, steps) = axes.remove(0);
        axes.reverse();
        Self {
            extents: axes.iter().map(|axis| axis.0).collect(),
            strides: axes.iter().map(|axis| axis.1).collect(),
            row,
            steps,
        }
    }

    /// Returns the number of rows that can be joined into one row of at most `length` elements, if operand
    /// `first` is dense and operand `second` is a single row that is read repeatedly; 1 otherwise.
    pub(crate) fn repeats(&self, first: usize, second: usize, length: usize) -> usize {
        let (Some(&extent), Some(strides)) = (self.extents.last(), self.strides.last()) else { return 1 };
        let again = self.strides.iter().all(|strides| strides[second] == 0);
        if !again || self.steps != [1; N] || strides[first] != self.row {
            return 1;
        }
        (1..=(length / self.row).clamp(1, extent)).rev().find(|count| extent.is_multiple_of(*count)).unwrap_or(1)
    }

    /// Joins each `count` adjacent rows into one, where `count` is a result of `repeats`. The caller has to
    /// repeat the operand that is a single row `count` times.
    pub(crate) fn join(&mut self, count: usize) {
        self.row *= count;
        if let (Some(extent), Some(strides)) = (self.extents.last_mut(), self.strides.last_mut()) {
            *extent /= count;
            strides.iter_mut().for_each(|stride| *stride *= count);
        }
    }

    /// Returns the number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.extents.iter().product()
    }

    /// Calls `visit` with the offset of the row in each operand, in elements, for `count` rows starting at
    /// row `first`. Not generic, so that it is compiled once for all functions.
    pub(crate) fn for_each_row(&self, first: usize, count: usize, visit: &mut dyn FnMut([usize; N])) {
        let rank = self.extents.len();
        let mut index = vec![0; rank];
        let mut offsets = [0; N];
        let mut rest = first;
        for axis in (0..rank).rev() {
            index[axis] = rest % self.extents[axis];
            rest /= self.extents[axis];
            for (offset, stride) in offsets.iter_mut().zip(self.strides[axis]) {
                *offset += index[axis] * stride;
            }
        }
        for _ in 0..count {
            visit(offsets);
            for axis in (0..rank).rev() {
                index[axis] += 1;
                let back = if index[axis] == self.extents[axis] { self.extents[axis] } else { 0 };
                for (offset, stride) in offsets.iter_mut().zip(self.strides[axis]) {
                    *offset = *offset + stride - back * stride;
                }
                if back == 0 {
                    break;
                }
                index[axis] = 0;
            }
        }
    }
}

/// Writes `function(left, right)` of two operands of any element types, broadcast to the output's shape. Each
/// slice is passed with its shape.
///
/// # Panics
///
/// Panics if a slice does not match its shape, or if an operand does not broadcast to the output's shape.
pub fn broadcast2<A: Copy, B: Copy, C>(
    (left, left_shape): (&[A], &[usize]),
    (right, right_shape): (&[B], &[usize]),
    (output, shape): (&mut [C], &[usize]),
    function: impl Fn(A, B) -> C,
) {
    check(left, left_shape);
    check(right, right_shape);
    check(output, shape);
    if output.is_empty() {
        return;
    }
    let walk = Walk::new(shape, [left_shape, right_shape]);
    let mut rows = output.chunks_exact_mut(walk.row);
    walk.for_each_row(0, walk.rows(), &mut |[l, r]| {
        for (index, value) in rows.next().into_iter().flatten().enumerate() {
            *value = function(left[l + index * walk.steps[0]], right[r + index * walk.steps[1]]);
        }
    });
}

/// Writes `function(first, second, third)` of three operands of any element types, broadcast to the output's
/// shape. Each slice is passed with its shape.
///
/// # Panics
///
/// Panics if a slice does not match its shape, or if an operand does not broadcast to the output's shape.
pub fn broadcast3<A: Copy, B: Copy, C: Copy, D>(
    (first, first_shape): (&[A], &[usize]),
    (second, second_shape): (&[B], &[usize]),
    (third, third_shape): (&[C], &[usize]),
    (output, shape): (&mut [D], &[usize]),
    function: impl Fn(A, B, C) -> D,
) {
    check(first, first_shape);
    check(second, second_shape);
    check(third, third_shape);
    check(output, shape);
    if output.is_empty() {
        return;
    }
    let walk = Walk::new(shape, [first_shape, second_shape, third_shape]);
    let mut rows = output.chunks_exact_mut(walk.row);
    walk.for_each_row(0, walk.rows(), &mut |[a, b, c]| {
        for (index, value) in rows.next().into_iter().flatten().enumerate() {
            let [x, y, z] = walk.steps.map(|step| index * step);
            *value = function(first[a + x], second[b + y], third[c + z]);
        }
    });
}

/// Returns the extents from the first one on that is not 1.
fn without_ones(mut extents: &[usize]) -> &[usize] {
    while let [1, rest @ ..] = extents {
        extents = rest;
    }
    extents
}

pub(crate) fn check<T>(values: &[T], shape: &[usize]) {
    assert_eq!(values.len(), shape.iter().product::<usize>(), "an operand has its shape");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_merge_where_they_can() {
        let walk = Walk::new(&[2, 3, 4, 5], [&[2, 3, 4, 5], &[5]]);
        assert_eq!((walk.rows(), walk.row, walk.steps), (24, 5, [1, 1]));
        let walk = Walk::new(&[2, 3, 4], [&[2, 3, 4], &[]]);
        assert_eq!((walk.rows(), walk.row, walk.steps), (1, 24, [1, 0]));
    }

    #[test]
    fn three_operands_broadcast() {
        let mut output = [0; 6];
        let condition = [true, false];
        broadcast3((&condition, &[2, 1]), (&[1, 2, 3], &[3]), (&[9], &[]), (&mut output, &[2, 3]), |c, a, b| {
            if c { a } else { b }
        });
        assert_eq!(output, [1, 2, 3, 9, 9, 9]);
    }
}

//! [`IndexMap`]: for each output element, the coordinates of the input element to copy. They are integer
//! functions of the output coordinates and do not depend on data.

use std::fmt;

/// A coordinate of the input as a function of the output's coordinates.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Index {
    /// The output's coordinate along the axis with this number.
    Axis(usize),
    /// A constant coordinate.
    Constant(i64),
    /// The sum of two indices.
    Add(Box<Index>, Box<Index>),
    /// The product of an index and a constant.
    Multiply(Box<Index>, i64),
    /// The quotient of an index that is not negative and a positive constant, rounded down.
    Divide(Box<Index>, i64),
    /// The remainder of an index that is not negative, divided by a positive constant.
    Modulo(Box<Index>, i64),
    /// An index reflected once into `0..extent` if it is out of range, at the end that it exceeds.
    Mirror {
        /// The index to reflect, at most `extent` out of range.
        of: Box<Index>,
        /// The extent of the axis.
        extent: i64,
        /// Whether the reflection repeats the border element (symmetric padding) or not (reflect padding).
        edge: bool,
    },
}

impl Index {
    /// Returns the index `self + offset`.
    pub fn plus(self, offset: i64) -> Self {
        if offset == 0 { self } else { Index::Add(Box::new(self), Box::new(Index::Constant(offset))) }
    }

    /// Returns the index `self + other`.
    pub fn sum(self, other: Self) -> Self {
        Index::Add(Box::new(self), Box::new(other))
    }

    /// Returns the index `self × factor`.
    pub fn times(self, factor: i64) -> Self {
        if factor == 1 { self } else { Index::Multiply(Box::new(self), factor) }
    }

    /// Returns the index `self / divisor`, for a `self` that is not negative.
    pub fn divided_by(self, divisor: i64) -> Self {
        if divisor == 1 { self } else { Index::Divide(Box::new(self), divisor) }
    }

    /// Returns the index `self mod divisor`, for a `self` that is not negative.
    pub fn modulo(self, divisor: i64) -> Self {
        Index::Modulo(Box::new(self), divisor)
    }

    /// Returns the index with each output coordinate `Axis(k)` replaced by the index `axis(k)`.
    pub fn substitute(&self, axis: &dyn Fn(usize) -> Index) -> Self {
        let of = |index: &Index| Box::new(index.substitute(axis));
        match self {
            Index::Axis(index) => axis(*index),
            Index::Constant(value) => Index::Constant(*value),
            Index::Add(a, b) => Index::Add(of(a), of(b)),
            Index::Multiply(a, factor) => Index::Multiply(of(a), *factor),
            Index::Divide(a, divisor) => Index::Divide(of(a), *divisor),
            Index::Modulo(a, divisor) => Index::Modulo(of(a), *divisor),
            Index::Mirror { of: a, extent, edge } => Index::Mirror { of: of(a), extent: *extent, edge: *edge },
        }
    }

    /// Returns the index as a constant and the factors of axes, whose products it adds; `None` if it has another form.
    /// An axis may occur several times.
    #[must_use]
    pub fn linear(&self) -> Option<(i64, Vec<(usize, i64)>)> {
        match self {
            Index::Axis(axis) => Some((0, vec![(*axis, 1)])),
            Index::Constant(value) => Some((*value, Vec::new())),
            Index::Add(a, b) => {
                let ((a, mut terms), (b, others)) = (a.linear()?, b.linear()?);
                terms.extend(others);
                Some((a + b, terms))
            }
            Index::Multiply(a, factor) => {
                let (constant, terms) = a.linear()?;
                Some((constant * factor, terms.into_iter().map(|(axis, of)| (axis, of * factor)).collect()))
            }
            Index::Divide(..) | Index::Modulo(..) | Index::Mirror { .. } => None,
        }
    }

    /// Returns the number of nodes in the expression tree.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Index::Axis(_) | Index::Constant(_) => 1,
            Index::Add(a, b) => 1 + a.size() + b.size(),
            Index::Multiply(a, _) | Index::Divide(a, _) | Index::Modulo(a, _) => 1 + a.size(),
            Index::Mirror { of, .. } => 1 + of.size(),
        }
    }

    /// Returns the input coordinate for these output coordinates.
    ///
    /// # Panics
    ///
    /// If the index uses an axis that is not in `coordinates`, or divides by 0.
    #[must_use]
    pub fn evaluate(&self, coordinates: &[usize]) -> i64 {
        match self {
            Index::Axis(axis) => coordinates[*axis] as i64,
            Index::Constant(value) => *value,
            Index::Add(a, b) => a.evaluate(coordinates) + b.evaluate(coordinates),
            Index::Multiply(a, factor) => a.evaluate(coordinates) * factor,
            Index::Divide(a, divisor) => a.evaluate(coordinates) / divisor,
            Index::Modulo(a, divisor) => a.evaluate(coordinates) % divisor,
            Index::Mirror { of, extent, edge } => {
                let (value, shift) = (of.evaluate(coordinates), i64::from(!edge));
                if value < 0 {
                    -value - 1 + shift
                } else if value >= *extent {
                    2 * extent - 1 - shift - value
                } else {
                    value
                }
            }
        }
    }
}

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Index::Axis(axis) => write!(f, "o{axis}"),
            Index::Constant(value) => write!(f, "{value}"),
            Index::Add(a, b) => write!(f, "({a} + {b})"),
            Index::Multiply(a, factor) => write!(f, "{a} × {factor}"),
            Index::Divide(a, divisor) => write!(f, "{a} / {divisor}"),
            Index::Modulo(a, divisor) => write!(f, "{a} mod {divisor}"),
            Index::Mirror { of, extent, edge } => {
                write!(f, "{}({of}, {extent})", if *edge { "symmetric" } else { "reflect" })
            }
        }
    }
}

/// A map from output to input coordinates: `out[o] = in[coordinates(o)]`, or `fill` if a coordinate is out of
/// range.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexMap {
    /// The output's extents.
    pub output: Vec<usize>,
    /// The input coordinate along each input axis, as a function of the output coordinates.
    pub coordinates: Vec<Index>,
    /// The value of output elements whose input coordinates are out of range; `None` if none are.
    pub fill: Option<f32>,
}

impl IndexMap {
    /// Returns the composition of this map with `next`, which is applied to this map's output; `None` if
    /// `next` has a fill value.
    ///
    /// # Panics
    ///
    /// If this map's output and the input of `next` have different ranks.
    #[must_use]
    pub fn then(&self, next: &IndexMap) -> Option<IndexMap> {
        let axis = |axis: usize| next.coordinates[axis].clone();
        let coordinates = self.coordinates.iter().map(|index| index.substitute(&axis)).collect();
        next.fill.is_none().then(|| IndexMap { output: next.output.clone(), coordinates, fill: self.fill })
    }

    /// Returns the number of elements inserted before the input along each axis, if the map only shifts
    /// coordinates: positive for padding, negative for a crop. `None` for other maps.
    #[must_use]
    pub fn shifts(&self) -> Option<Vec<i64>> {
        if self.coordinates.len() != self.output.len() {
            return None;
        }
        let shift = |(axis, index): (usize, &Index)| match index {
            Index::Axis(a) if *a == axis => Some(0),
            Index::Add(a, b) => match (&**a, &**b) {
                (Index::Axis(a), Index::Constant(offset)) if *a == axis => Some(-offset),
                _ => None,
            },
            _ => None,
        };
        self.coordinates.iter().enumerate().map(shift).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrors_fold_back_once() {
        let mirror = |edge| Index::Mirror { of: Box::new(Index::Axis(0).plus(-2)), extent: 3, edge };
        let row = |index: Index| (0..7).map(|o| index.evaluate(&[o])).collect::<Vec<_>>();
        assert_eq!(row(mirror(false)), [2, 1, 0, 1, 2, 1, 0]);
        assert_eq!(row(mirror(true)), [1, 0, 0, 1, 2, 2, 1]);
    }

    #[test]
    fn sums_of_multiples_are_linear() {
        let index = Index::Axis(2).times(3).sum(Index::Axis(0).plus(-1)).plus(5);
        assert_eq!(index.linear(), Some((4, vec![(2, 3), (0, 1)])));
        assert_eq!(Index::Axis(0).divided_by(2).linear(), None);
    }

    #[test]
    fn a_padding_is_recognised() {
        let map = |coordinates| IndexMap { output: vec![4, 4], coordinates, fill: Some(0.0) };
        assert_eq!(map(vec![Index::Axis(0), Index::Axis(1).plus(-1)]).shifts(), Some(vec![0, 1]));
        assert_eq!(map(vec![Index::Axis(1), Index::Axis(0)]).shifts(), None);
    }
}

//! Rows: their elements are reduced, and then mapped together with the results of the reductions.

use std::ops::Range;

use attache_base::Shape;

use crate::{Expression, ReduceOp, Scalar};

/// A computation for each row of a tensor. A row consists of the elements whose coordinates differ only along certain
/// axes.
///
/// Inputs are broadcast to `shape`. In expressions, `Input(k)` is the element of the k-th input. Indices from the
/// number of inputs on refer to the results of the steps for the row, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    /// The shape of the tensor that contains the rows.
    pub shape: Shape,
    /// The axes along a row.
    pub axes: Range<usize>,
    /// The steps. Each computes one element for each row, which later steps can use.
    pub steps: Vec<RowStep>,
    /// The final expression.
    pub result: Expression,
    /// Whether the result has one element for each row rather than one for each element of the rows.
    pub is_folded: bool,
    /// Whether rows are parts of longer rows. The order of summation within them does not matter.
    pub is_part: bool,
    /// The type of the output's elements. Integers are the result rounded towards zero.
    pub scalar: Scalar,
}

/// A step that computes one element for each row.
#[derive(Clone, Debug, PartialEq)]
pub enum RowStep {
    /// Evaluates an expression for each element and reduces the values.
    Fold(ReduceOp, Expression),
    /// Evaluates an expression of values that do not vary along the row.
    Map(Expression),
    /// Evaluates such an expression and reduces the values over the axis before the row's axes. Rows that are parts of
    /// a longer row share the result.
    Across(ReduceOp, Expression),
}

impl Rows {
    /// The shape with one element for each row.
    pub fn folded(&self) -> Shape {
        self.shape
            .iter()
            .enumerate()
            .map(|(axis, extent)| if self.axes.contains(&axis) { 1 } else { *extent })
            .collect()
    }

    /// The output's shape.
    pub fn output(&self) -> Shape {
        if self.is_folded { self.folded() } else { self.shape.clone() }
    }

    /// The number of rows that an [`RowStep::Across`] reduces to one value.
    ///
    /// # Panics
    ///
    /// If `axes` exceed the rank of `shape`.
    pub fn parts(&self) -> usize {
        self.axes.start.checked_sub(1).map_or(1, |axis| self.shape[axis])
    }

    /// The number of elements of a row.
    ///
    /// # Panics
    ///
    /// If `axes` exceed the rank of `shape`.
    pub fn extent(&self) -> usize {
        self.shape[self.axes.clone()].iter().product()
    }

    /// Whether an input of this shape varies along a row.
    ///
    /// # Panics
    ///
    /// In builds with overflow checks, if the input has a higher rank than `shape`.
    pub fn varies(&self, input: &[usize]) -> bool {
        let missing = self.shape.rank() - input.len();
        self.axes.clone().any(|axis| axis >= missing && input[axis - missing] != 1)
    }

    /// All expressions, each with whether it is evaluated for every element rather than once for each row.
    pub fn expressions(&self) -> impl Iterator<Item = (&Expression, bool)> {
        let steps = self.steps.iter().map(|step| match step {
            RowStep::Fold(_, expression) => (expression, true),
            RowStep::Map(expression) | RowStep::Across(_, expression) => (expression, false),
        });
        steps.chain([(&self.result, !self.is_folded)])
    }

    /// Returns an error that says why the rows do not fit inputs of these shapes, if they do not.
    pub(crate) fn check(&self, inputs: &[&Shape]) -> Result<(), String> {
        if self.axes.start > self.axes.end || self.axes.end > self.shape.rank() {
            return Err(format!("{} has no axes {:?}", self.shape, self.axes));
        }
        if self.axes.start == 0 && self.steps.iter().any(|step| matches!(step, RowStep::Across(..))) {
            return Err(format!("{} has no axis in front of a row's", self.shape));
        }
        for (made, (expression, is_of_elements)) in self.expressions().enumerate() {
            if expression.arity() > inputs.len() + made {
                return Err(format!("{expression} reads what is not there yet"));
            }
            let read = inputs.iter().enumerate().filter(|(index, _)| expression.reads(*index));
            if let Some((index, shape)) = { read }.find(|(_, shape)| !is_of_elements && self.varies(shape)) {
                return Err(format!("input {index} of shape {shape} differs within a row"));
            }
        }
        Ok(())
    }
}

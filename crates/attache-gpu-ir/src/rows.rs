//! [`Rows`], the primitive that reduces the elements of each row of a tensor and then computes an expression
//! of the elements and the results of the reductions. A softmax or a normalization takes this form.

use std::ops::Range;

use attache_base::Shape;

use crate::{Expression, ReduceOp, Scalar};

/// A computation for each row of a tensor. A row consists of the elements whose coordinates differ only along certain
/// axes.
///
/// Inputs are broadcast to `shape`. In expressions, `Input(k)` is the element of the k-th input. With n
/// inputs, `Input(n + i)` is the result of step i for the row.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    /// The shape of the tensor that contains the rows.
    pub shape: Shape,
    /// The axes of `shape` along which the coordinates of a row's elements differ.
    pub axes: Range<usize>,
    /// The steps, in order. Each computes one element for each row, which later steps and `result` can use.
    pub steps: Vec<RowStep>,
    /// The expression that computes an output element, after all steps.
    pub result: Expression,
    /// Whether the output has one element for each row rather than one for each element of the rows.
    pub is_folded: bool,
    /// Whether each row is only a part of a longer row. If so, kernels may add its elements in any order.
    pub is_part: bool,
    /// The type of the output's elements. If it is `I32`, the value of `result` is rounded towards zero.
    pub scalar: Scalar,
}

/// A step that computes one element for each row.
#[derive(Clone, Debug, PartialEq)]
pub enum RowStep {
    /// Evaluates the expression for each element of the row and reduces the values to one.
    Fold(ReduceOp, Expression),
    /// Evaluates the expression once for each row. It uses only inputs that do not vary along the row, and
    /// results of earlier steps.
    Map(Expression),
    /// Evaluates the expression once for each row, and reduces the values of the rows along the axis before
    /// the row's axes. Rows that are parts of one longer row thus get the same value. The expression uses
    /// only inputs that do not vary along the row, and results of earlier steps.
    Across(ReduceOp, Expression),
}

impl Rows {
    /// Returns `shape` with the row's axes reduced to extent 1, so that it has one element for each row.
    #[must_use]
    pub fn folded(&self) -> Shape {
        self.shape
            .iter()
            .enumerate()
            .map(|(axis, extent)| if self.axes.contains(&axis) { 1 } else { *extent })
            .collect()
    }

    /// Returns the output's shape: one element for each row if `is_folded`, otherwise `shape`.
    #[must_use]
    pub fn output(&self) -> Shape {
        if self.is_folded { self.folded() } else { self.shape.clone() }
    }

    /// Returns the number of rows that a [`RowStep::Across`] reduces to one value: the extent of the axis
    /// before the row's axes, or 1 if there is none.
    ///
    /// # Panics
    ///
    /// If `axes` exceed the rank of `shape`.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.axes.start.checked_sub(1).map_or(1, |axis| self.shape[axis])
    }

    /// Returns the number of elements of a row.
    ///
    /// # Panics
    ///
    /// If `axes` exceed the rank of `shape`.
    #[must_use]
    pub fn extent(&self) -> usize {
        self.shape[self.axes.clone()].iter().product()
    }

    /// Whether an input of this shape varies along a row: it has an extent other than 1 along one of the
    /// row's axes.
    ///
    /// # Panics
    ///
    /// In builds with overflow checks, if the input has a higher rank than `shape`.
    #[must_use]
    pub fn varies(&self, input: &[usize]) -> bool {
        let missing = self.shape.rank() - input.len();
        self.axes.clone().any(|axis| axis >= missing && input[axis - missing] != 1)
    }

    /// Returns an iterator over the expressions of all steps and of the result. Each comes with a flag:
    /// whether it is evaluated for every element rather than once for each row.
    pub fn expressions(&self) -> impl Iterator<Item = (&Expression, bool)> {
        let steps = self.steps.iter().map(|step| match step {
            RowStep::Fold(_, expression) => (expression, true),
            RowStep::Map(expression) | RowStep::Across(_, expression) => (expression, false),
        });
        steps.chain([(&self.result, !self.is_folded)])
    }

    /// Checks that `axes` are axes of `shape`, and that each expression uses only what is available: inputs
    /// of these shapes and earlier steps. The error says what is wrong.
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

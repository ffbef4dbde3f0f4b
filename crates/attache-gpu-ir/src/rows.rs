//! Rows: their elements folded, and then mapped together with what they were folded to.

use std::ops::Range;

use attache_base::Shape;

use crate::{Expression, Reduction, Scalar};

/// What is computed for each row of a tensor. A row is what differs in its coordinates along some axes alone.
///
/// Inputs broadcast to `shape`. `Input(k)` of an expression is the k-th input's element; from the number of inputs on, what
/// the first step made for the row, the second, ….
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    /// The shape that rows make up.
    pub shape: Shape,
    /// The axes along a row.
    pub axes: Range<usize>,
    /// The steps: each makes a number for each row, which those after it may use.
    pub steps: Vec<RowStep>,
    /// What is computed in the end.
    pub result: Expression,
    /// Whether that is one element for each row, or one for each of its elements.
    pub is_folded: bool,
    /// Whether rows are parts of longer ones, whose elements nobody adds in order.
    pub is_part: bool,
    /// What the output's elements mean; integers are the result rounded towards zero.
    pub scalar: Scalar,
}

/// One number for each row.
#[derive(Clone, Debug, PartialEq)]
pub enum RowStep {
    /// An expression of each element, folded.
    Fold(Reduction, Expression),
    /// An expression of what doesn't vary along the row.
    Map(Expression),
    /// The same, folded over the axis in front of those of a row: rows that are parts of a longer one share what it makes.
    Across(Reduction, Expression),
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

    /// Rows that an [`RowStep::Across`] folds together.
    pub fn parts(&self) -> usize {
        self.axes.start.checked_sub(1).map_or(1, |axis| self.shape[axis])
    }

    /// Elements of a row.
    pub fn extent(&self) -> usize {
        self.shape[self.axes.clone()].iter().product()
    }

    /// Whether an input of this shape differs from element to element of a row.
    pub fn varies(&self, input: &[usize]) -> bool {
        let missing = self.shape.rank() - input.len();
        self.axes.clone().any(|axis| axis >= missing && input[axis - missing] != 1)
    }

    /// Every expression, each with whether it is of elements rather than of rows.
    pub fn expressions(&self) -> impl Iterator<Item = (&Expression, bool)> {
        let steps = self.steps.iter().map(|step| match step {
            RowStep::Fold(_, expression) => (expression, true),
            RowStep::Map(expression) | RowStep::Across(_, expression) => (expression, false),
        });
        steps.chain([(&self.result, !self.is_folded)])
    }

    /// What is wrong with it for inputs of these shapes, if anything.
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

//! Shared by SPLIT, SPLIT_V and UNPACK, which split an input into pieces along one axis. The operators differ
//! only in the lengths of the pieces and in the shapes of the outputs.

use attache_base::Shape;
use attache_graph::{Eval, Lowering, OpError, TensorRef, Unsupported};

use crate::Declaration;
use crate::shared::view::View;

/// How an input is split into consecutive pieces along an axis.
#[derive(Debug)]
pub(crate) struct Pieces {
    pub(crate) axis: usize,
    /// Extent of each piece along the axis; their sum is at most the input's extent.
    pub(crate) lengths: Vec<usize>,
}

impl Pieces {
    /// Returns the view of each piece, for an input of this shape.
    pub(crate) fn views(&self, shape: &Shape) -> Vec<View> {
        let mut begin = 0;
        let view = |length: &usize| {
            let view = View::slices(shape, self.axis, begin, *length);
            begin += length;
            view
        };
        self.lengths.iter().map(view).collect()
    }

    /// Copies every piece of `input` to the output of the same index.
    pub(crate) fn copy(&self, input: TensorRef<'_>, eval: &mut Eval<'_>) -> Result<(), OpError> {
        for (view, output) in self.views(input.shape).iter().zip(&mut eval.outputs) {
            view.copy(input, output.bytes)?;
        }
        Ok(())
    }

    /// Emits every piece of input `index` as the output of the piece's index, reshaped to that output's
    /// shape.
    pub(crate) fn lower(&self, lowering: &mut Lowering<'_>, index: usize) -> Result<(), Unsupported> {
        let (input, shape) = (lowering.input(index)?, lowering.input_shape(index)?);
        for (output, view) in self.views(shape).iter().enumerate() {
            let shape = lowering.output_shape(output)?.clone();
            let piece = view.lower(lowering, input)?;
            let piece = lowering.reshape(piece, &shape)?;
            lowering.output(output, piece)?;
        }
        Ok(())
    }
}

/// Returns the number of pieces that the operator's options state. An error unless it equals the number of
/// outputs and is at least one.
pub(crate) fn count(declaration: &Declaration<'_>, stated: i32) -> Result<usize, OpError> {
    let outputs = declaration.operator.outputs.len();
    if outputs == 0 || usize::try_from(stated) != Ok(outputs) {
        return Err(OpError::invalid(format!("{outputs} outputs where its options say {stated}")));
    }
    Ok(outputs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_follow_each_other() {
        let views = Pieces { axis: 1, lengths: vec![1, 0, 3] }.views(&[2, 4].into());
        let begins: Vec<_> = views.iter().map(|view| (view.coordinates[1].begin, view.output[1])).collect();
        assert_eq!(begins, [(0, 1), (1, 0), (1, 3)]);
        assert_eq!(views[2].output, Shape::from([2, 3]));
    }
}

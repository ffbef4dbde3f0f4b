//! Shared by SPLIT, SPLIT_V and UNPACK, which split an input into pieces along one axis. The operators differ
//! only in the lengths of the pieces and in the shapes of the outputs.

use attache_base::Shape;
use attache_graph::{Eval, Lowering, OpError, TensorMut, TensorRef, Unsupported};
use attache_kernels::Engine;
use attache_kernels::movement::StridedCopy;

use crate::Declaration;
use crate::shared::view::{View, copy_elements};

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

/// Copies every piece of input `index` to the output of the piece's index. `pieces` says how that input of this shape is
/// split, which is kept from run to run where all other inputs are constants.
pub(crate) fn copy(
    eval: &mut Eval<'_>,
    index: usize,
    pieces: impl FnOnce(&Eval<'_>, &Shape) -> Result<Pieces, OpError>,
) -> Result<(), OpError> {
    let (engine, input) = (Engine::new(eval.parallel), eval.input(index)?);
    if let Some(kept) = eval.cache.get_for::<Vec<StridedCopy>>(|| input.shape.to_vec()) {
        return copy_all(engine, kept, input, &mut eval.outputs);
    }
    let views = pieces(eval, input.shape)?.views(input.shape);
    let copies: Vec<StridedCopy> = views.iter().map(|view| view.of(input.shape)).collect();
    copy_all(engine, &copies, input, &mut eval.outputs)?;
    let is_constant = |(other, tensor): (usize, &Option<TensorRef<'_>>)| {
        other == index || tensor.is_none_or(|tensor| tensor.is_constant)
    };
    if eval.inputs.iter().enumerate().all(is_constant) {
        eval.cache.get_or_make_for(|| input.shape.to_vec(), || copies);
    }
    Ok(())
}

fn copy_all(
    engine: Engine,
    copies: &[StridedCopy],
    input: TensorRef<'_>,
    outputs: &mut [TensorMut<'_>],
) -> Result<(), OpError> {
    copies.iter().zip(outputs).try_for_each(|(copy, output)| copy_elements(engine, copy, &input, output.bytes))
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

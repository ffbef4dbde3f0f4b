//! BATCH_TO_SPACE_ND: moves batches into blocks of the spatial axes, which are then cropped; the inverse of
//! SPACE_TO_BATCH_ND.
//!
//! `out[n, o…, c…] = in[((o + before) mod b) × N + n, (o + before) / b…, c…]` for blocks `b` and N batches of the
//! output.

use attache_base::Shape;
use attache_gpu_ir::{Index, IndexMap, Primitive};
use attache_graph::{Eval, Fact, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::shared::blocks::{self, Blocks};
use crate::shared::quantized::require_one_stored_scale;
use crate::shared::support::{countable, refuse};
use crate::{Code, Definition, Facts, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::BATCH_TO_SPACE_ND),
    versions: 1..=4,
    inputs: &[input("input").movable(), input("block_shape").integral(), input("crops").like(1)],
    parse: |_| Ok(Box::new(BatchToSpaceNd)),
}];

#[derive(Debug)]
struct BatchToSpaceNd;

fn output(shape: &Shape, blocks: &Blocks) -> Result<Shape, OpError> {
    let wrong = || OpError::invalid(format!("{shape} cannot be laid out in blocks {:?} and cropped", blocks.extents));
    let mut extents = shape.to_vec();
    if !extents[0].is_multiple_of(blocks.count) {
        return Err(wrong());
    }
    extents[0] /= blocks.count;
    for (extent, (block, [before, after])) in extents[1..].iter_mut().zip(blocks.extents.iter().zip(&blocks.margins)) {
        let whole = extent.checked_mul(*block).and_then(|extent| extent.checked_sub(*before));
        *extent = whole.and_then(|extent| extent.checked_sub(*after)).ok_or_else(wrong)?;
    }
    countable(extents.into())
}

/// Builds the index map that reads each element of an output of this shape from the input.
fn map(blocks: &Blocks, output: &Shape) -> IndexMap {
    let batches = output[0] as i64;
    let (mut batch, mut coordinates) = (Index::Axis(0), Vec::new());
    for (axis, step) in blocks.steps().into_iter().enumerate() {
        let (block, before) = (blocks.extents[axis] as i64, blocks.margins[axis][0] as i64);
        let place = || Index::Axis(axis + 1).plus(before);
        batch = batch.sum(place().modulo(block).times(batches * step as i64));
        coordinates.push(place().divided_by(block));
    }
    coordinates.insert(0, batch);
    blocks::map(output, coordinates, None)
}

impl Operator for BatchToSpaceNd {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let blocks = blocks::known(inputs)?;
        let input = inputs.fact(0);
        let (Some(blocks), Some(shape)) = (blocks, &input.shape) else {
            return Ok(vec![Inferred::unknown(input.data_type)]);
        };
        Ok(vec![Inferred::new(input.data_type, output(shape, &blocks)?)])
    }

    fn check_scales(&self, inputs: &[Option<&Fact>], outputs: &[&Fact]) -> Result<(), OpError> {
        require_one_stored_scale(inputs, 0..1, outputs)
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let input = eval.input(0)?;
        let blocks = Blocks::new(input.shape, &eval.input(1)?.integers()?, &eval.input(2)?.integers()?)?;
        let map = map(&blocks, eval.outputs[0].shape);
        blocks::copy(&map, blocks.extents.len() + 1, input, eval.outputs[0].bytes, 0)
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let (extents, margins) = (lowering.integers(1)?, lowering.integers(2)?);
        let blocks = Blocks::new(lowering.input_shape(0)?, &extents, &margins).map_err(refuse)?;
        let map = map(&blocks, lowering.output_shape(0)?);
        let input = lowering.input(0)?;
        let output = lowering.emit(Primitive::IndexMap(map), &[input])?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_fill_blocks() {
        let shape = Shape::from([12, 3, 2, 3]);
        let of = |extents: &[i64], margins: &[i64]| output(&shape, &Blocks::new(&shape, extents, margins)?);
        assert_eq!(of(&[2, 3], &[1, 1, 0, 1]).unwrap(), Shape::from([2, 4, 5, 3]));
        assert!(of(&[5, 1], &[0; 4]).is_err());
        assert!(of(&[2, 3], &[4, 3, 0, 0]).is_err());
    }
}

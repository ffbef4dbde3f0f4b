//! SPACE_TO_BATCH_ND: moves blocks of the padded spatial axes into the batch axis; used to dilate convolutions.
//!
//! `out[i × N + n, o…, c…] = in[n, o × b + i - before…, c…]` for offsets `i` within blocks `b`, and N batches.

use attache_base::Shape;
use attache_gpu_ir::{Index, IndexMap, Primitive};
use attache_graph::{Eval, Fact, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::shared::blocks::{self, Blocks};
use crate::shared::exact::affine;
use crate::shared::quantized::{is_stored, require_one_stored_scale, zero};
use crate::shared::support::{countable, refuse};
use crate::{Code, Definition, Facts, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::SPACE_TO_BATCH_ND),
    versions: 1..=4,
    inputs: &[input("input").movable(), input("block_shape").integral(), input("paddings").like(1)],
    parse: |_| Ok(Box::new(SpaceToBatchNd)),
}];

#[derive(Debug)]
struct SpaceToBatchNd;

fn output(shape: &Shape, blocks: &Blocks) -> Result<Shape, OpError> {
    let wrong =
        || OpError::invalid(format!("{shape} with its paddings does not consist of blocks {:?}", blocks.extents));
    let mut extents = shape.to_vec();
    extents[0] = extents[0].checked_mul(blocks.count).ok_or_else(wrong)?;
    for (extent, (block, [before, after])) in extents[1..].iter_mut().zip(blocks.extents.iter().zip(&blocks.margins)) {
        let padded = extent.checked_add(*before).and_then(|extent| extent.checked_add(*after));
        *extent = padded.filter(|padded| padded.is_multiple_of(*block)).ok_or_else(wrong)? / block;
    }
    countable(extents.into())
}

/// Builds the index map that reads each element of an output of this shape from an input with `batches`
/// batches.
fn map(blocks: &Blocks, batches: usize, output: &Shape) -> IndexMap {
    let batches = batches as i64;
    let mut coordinates = vec![Index::Axis(0).modulo(batches)];
    for (axis, step) in blocks.steps().into_iter().enumerate() {
        let (block, before) = (blocks.extents[axis] as i64, blocks.margins[axis][0] as i64);
        let place = Index::Axis(0).divided_by(batches * step as i64).modulo(block);
        coordinates.push(Index::Axis(axis + 1).times(block).sum(place).plus(-before));
    }
    blocks::map(output, coordinates, Some(0.0))
}

impl Operator for SpaceToBatchNd {
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
        let map = map(&blocks, input.shape[0], eval.outputs[0].shape);
        let fill = zero(&eval.outputs[0])?;
        blocks::copy(&map, blocks.extents.len() + 1, input, eval.outputs[0].bytes, fill)
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let (extents, margins) = (lowering.integers(1)?, lowering.integers(2)?);
        let blocks = Blocks::new(lowering.input_shape(0)?, &extents, &margins).map_err(refuse)?;
        let mut map = map(&blocks, lowering.input_shape(0)?[0], lowering.output_shape(0)?);
        let fact = lowering.output_fact(0)?;
        if is_stored(fact.data_type) && fact.quantization.is_some() {
            map.fill = Some(affine(fact)?.zero_point as f32);
        }
        let input = lowering.input(0)?;
        let output = lowering.emit(Primitive::IndexMap(map), &[input])?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padded_axes_consist_of_blocks() {
        let shape = Shape::from([2, 4, 5, 3]);
        let of = |extents: &[i64], margins: &[i64]| output(&shape, &Blocks::new(&shape, extents, margins)?);
        assert_eq!(of(&[2, 3], &[1, 1, 0, 1]).unwrap(), Shape::from([12, 3, 2, 3]));
        assert_eq!(of(&[4], &[0, 0]).unwrap(), Shape::from([8, 1, 5, 3]));
        assert!(of(&[2, 3], &[0, 0, 0, 0]).is_err());
        assert!(of(&[2, 1], &[i64::MAX, i64::MAX, i64::MAX, 0]).is_err());
    }
}

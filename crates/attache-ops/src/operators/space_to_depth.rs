//! SPACE_TO_DEPTH: moves spatial blocks into channels; the inverse of DEPTH_TO_SPACE.
//!
//! `out[b, y, x, (i × n + j) × C + c] = in[b, y × n + i, x × n + j, c]` for blocks of n × n and C input channels.

use attache_base::Shape;
use attache_gpu_ir::{Index, IndexMap, Primitive};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_kernels::Engine;
use attache_kernels::movement::space_to_depth;
use attache_model::schema::BuiltinOperator;

use crate::definition::positive;
use crate::shared::support::{countable, elements, elements_mut, image, with_element};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::SPACE_TO_DEPTH),
    versions: 1..=2,
    inputs: &[input("input").movable()],
    parse,
}];

#[derive(Debug)]
struct SpaceToDepth {
    /// The extent n of a block: its height and its width in the input.
    block: usize,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_space_to_depth_options();
    let block = options.ok_or_else(|| declaration.no_options())?.block_size();
    Ok(Box::new(SpaceToDepth { block: positive("block_size", block)? }))
}

impl SpaceToDepth {
    fn output(&self, shape: &Shape) -> Result<Shape, OpError> {
        let [batch, height, width, channels] = image(0, shape)?;
        let is_whole = height.is_multiple_of(self.block) && width.is_multiple_of(self.block);
        let channels = self.block.checked_mul(self.block).and_then(|area| area.checked_mul(channels));
        let reason = || OpError::invalid(format!("{shape} does not consist of blocks of {0} × {0}", self.block));
        let channels = channels.filter(|_| is_whole).ok_or_else(reason)?;
        countable([batch, height / self.block, width / self.block, channels].into())
    }
}

impl Operator for SpaceToDepth {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.fact(0);
        let shape = input.shape.as_ref().map(|shape| self.output(shape)).transpose()?;
        Ok(vec![Inferred { data_type: input.data_type, shape }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let input = eval.input(0)?;
        let (shape, output) = (image(0, input.shape)?, &mut *eval.outputs[0].bytes);
        let engine = Engine::new(eval.parallel);
        with_element!(input.data_type, T => {
            space_to_depth::<T>(engine, elements(input.bytes)?, shape, self.block, elements_mut(output)?);
        });
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let (input, shape) = (lowering.input(0)?, lowering.output_shape(0)?);
        let (block, channels) = (self.block as i64, lowering.shape(input)[3] as i64);
        let place = || Index::Axis(3).divided_by(channels);
        let coordinates = vec![
            Index::Axis(0),
            Index::Axis(1).times(block).sum(place().divided_by(block)),
            Index::Axis(2).times(block).sum(place().modulo(block)),
            Index::Axis(3).modulo(channels),
        ];
        let map = IndexMap { output: shape.to_vec(), coordinates, fill: None };
        let output = lowering.emit(Primitive::IndexMap(map), &[input])?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_consist_of_blocks() {
        let op = SpaceToDepth { block: 2 };
        assert_eq!(op.output(&[1, 6, 10, 2].into()).unwrap(), Shape::from([1, 3, 5, 8]));
        assert!(op.output(&[1, 5, 10, 2].into()).is_err());
        assert!(op.output(&[6, 10, 2].into()).is_err());
        assert!(SpaceToDepth { block: 1 << 40 }.output(&[1, 0, 0, 2].into()).is_err());
    }
}

//! DEPTH_TO_SPACE: moves channels into spatial blocks.
//!
//! `out[b, y, x, c] = in[b, y / n, x / n, ((y mod n) × n + x mod n) × C + c]` for blocks of n × n and C output
//! channels.

use attache_base::Shape;
use attache_gpu_ir::{Index, IndexMap, Primitive};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_kernels::Engine;
use attache_kernels::movement::depth_to_space;
use attache_model::schema::BuiltinOperator;

use crate::definition::positive;
use crate::shared::support::{elements, elements_mut, image, with_element};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::DEPTH_TO_SPACE),
    versions: 1..=2,
    inputs: &[input("input").movable()],
    parse,
}];

#[derive(Debug)]
struct DepthToSpace {
    /// The extent n of a block: its height and its width in the output.
    block: usize,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_depth_to_space_options();
    let block = options.ok_or_else(|| declaration.no_options())?.block_size();
    Ok(Box::new(DepthToSpace { block: positive("block_size", block)? }))
}

impl DepthToSpace {
    fn output(&self, shape: &Shape) -> Result<Shape, OpError> {
        let [batch, height, width, channels] = image(0, shape)?;
        let divisible = |area: &usize| channels % area == 0;
        let area = self.block.checked_mul(self.block).filter(divisible);
        let extents = area.and_then(|area| {
            Some([batch, height.checked_mul(self.block)?, width.checked_mul(self.block)?, channels / area])
        });
        let reason = || format!("{channels} channels cannot be laid out as blocks of {0} × {0}", self.block);
        Ok(extents.ok_or_else(|| OpError::invalid(reason()))?.into())
    }
}

impl Operator for DepthToSpace {
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
            depth_to_space::<T>(engine, elements(input.bytes)?, shape, self.block, elements_mut(output)?);
        });
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let (input, shape) = (lowering.input(0)?, lowering.output_shape(0)?);
        let (block, channels) = (self.block as i64, shape[3] as i64);
        let within = |axis| Index::Axis(axis).modulo(block);
        let place = within(1).times(block).sum(within(2)).times(channels);
        let coordinates = vec![
            Index::Axis(0),
            Index::Axis(1).divided_by(block),
            Index::Axis(2).divided_by(block),
            place.sum(Index::Axis(3)),
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
    fn channels_must_fill_blocks() {
        let op = DepthToSpace { block: 2 };
        assert_eq!(op.output(&[1, 3, 5, 8].into()).unwrap(), Shape::from([1, 6, 10, 2]));
        assert!(op.output(&[1, 3, 5, 6].into()).is_err());
        assert!(op.output(&[3, 5, 8].into()).is_err());
        assert!(DepthToSpace { block: usize::MAX }.output(&[1, 3, 5, 8].into()).is_err());
    }
}

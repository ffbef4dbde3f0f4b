//! MIRROR_PAD: padding with the input's own elements, mirrored, along every axis.

use attache_base::Shape;
use attache_gpu_ir::{Index, IndexMap, Primitive};
use attache_graph::{Eval, Fact, Inferred, Lowering, OpError, Unsupported};
use attache_kernels::movement::{Mirror, mirror_pad};
use attache_model::schema::{BuiltinOperator, MirrorPadMode};

use crate::shared::padding::{known_paddings, padded, paddings, split};
use crate::shared::quantized::require_one_stored_scale;
use crate::shared::support::{elements, elements_mut, refuse, with_element};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::MIRROR_PAD),
    versions: 1..=3,
    inputs: &[input("input").movable(), input("paddings").integral()],
    parse,
}];

#[derive(Debug)]
struct MirrorPad {
    /// Whether the border element itself is repeated (SYMMETRIC) or not (REFLECT).
    edge: bool,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_mirror_pad_options();
    match options.ok_or_else(|| declaration.no_options())?.mode() {
        MirrorPadMode::REFLECT => Ok(Box::new(MirrorPad { edge: false })),
        MirrorPadMode::SYMMETRIC => Ok(Box::new(MirrorPad { edge: true })),
        other => Err(OpError::invalid(format!("mode {} is neither REFLECT (0) nor SYMMETRIC (1)", other.0))),
    }
}

impl MirrorPad {
    /// Returns the output's shape; fails where a padding is longer than the elements that it mirrors.
    fn output(&self, shape: &Shape, paddings: &[[usize; 2]]) -> Result<Shape, OpError> {
        for (extent, [before, after]) in shape.iter().zip(paddings) {
            let longest = if self.edge { *extent } else { extent.saturating_sub(1) };
            if *before > longest || *after > longest {
                return Err(OpError::invalid(format!("paddings {paddings:?} reach past the input of shape {shape}")));
            }
        }
        padded(shape, paddings)
    }

    /// Returns, for each axis, the input coordinate as an index expression of the output's coordinates.
    fn coordinates(&self, shape: &Shape, paddings: &[[usize; 2]]) -> Vec<Index> {
        let coordinate = |(axis, [before, after]): (usize, &[usize; 2])| match (before, after) {
            (0, 0) => Index::Axis(axis),
            _ => Index::Mirror {
                of: Box::new(Index::Axis(axis).plus(-(*before as i64))),
                extent: shape[axis] as i64,
                edge: self.edge,
            },
        };
        paddings.iter().enumerate().map(coordinate).collect()
    }
}

impl Operator for MirrorPad {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let paddings = known_paddings(inputs)?;
        let input = inputs.fact(0);
        let (Some(paddings), Some(shape)) = (paddings, &input.shape) else {
            return Ok(vec![Inferred::unknown(input.data_type)]);
        };
        Ok(vec![Inferred::new(input.data_type, self.output(shape, &paddings)?)])
    }

    fn check_scales(&self, inputs: &[Option<&Fact>], outputs: &[&Fact]) -> Result<(), OpError> {
        require_one_stored_scale(inputs, 0..1, outputs)
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let input = eval.input(0)?;
        let (before, after) = split(&paddings(input.shape, &eval.input(1)?.integers()?)?);
        let mirror = if self.edge { Mirror::Symmetric } else { Mirror::Reflect };
        let output = &mut *eval.outputs[0].bytes;
        with_element!(input.data_type, T => {
            mirror_pad::<T>(elements(input.bytes)?, input.shape, &before, &after, mirror, elements_mut(output)?);
        });
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let shape = lowering.input_shape(0)?;
        let paddings = paddings(shape, &lowering.integers(1)?).map_err(refuse)?;
        let (input, output) = (lowering.input(0)?, lowering.output_shape(0)?.to_vec());
        let map = IndexMap { output, coordinates: self.coordinates(shape, &paddings), fill: None };
        let output = lowering.emit(Primitive::IndexMap(map), &[input])?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_padding_is_no_longer_than_what_it_mirrors() {
        let output = |edge, padding| MirrorPad { edge }.output(&[3].into(), &[padding]);
        assert_eq!(output(false, [2, 2]).unwrap(), Shape::from([7]));
        assert!(output(false, [3, 0]).is_err());
        assert_eq!(output(true, [3, 1]).unwrap(), Shape::from([7]));
        assert!(output(true, [0, 4]).is_err());
        assert!(MirrorPad { edge: false }.output(&[0].into(), &[[1, 0]]).is_err());
    }
}

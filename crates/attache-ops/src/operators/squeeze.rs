//! SQUEEZE: removes axes of extent 1.

use attache_base::Shape;
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::SQUEEZE),
    versions: 1..=2,
    inputs: &[input("input").movable_or_strings()],
    parse,
}];

#[derive(Debug)]
struct Squeeze {
    /// The axes to remove, negative ones counted from the end; if empty, all axes of extent 1.
    axes: Vec<i64>,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_squeeze_options();
    let axes = options.and_then(|options| options.squeeze_dims());
    Ok(Box::new(Squeeze { axes: axes.map(|axes| axes.iter().map(i64::from).collect()).unwrap_or_default() }))
}

/// Returns the shape without the given axes, or without all axes of extent 1 where none is given.
fn squeeze(shape: &Shape, axes: &[i64]) -> Result<Shape, OpError> {
    let mut dropped: Vec<bool> = shape.iter().map(|extent| axes.is_empty() && *extent == 1).collect();
    for axis in axes {
        let axis = shape.axis(*axis).filter(|axis| shape[*axis] == 1);
        dropped[axis.ok_or_else(|| OpError::invalid(format!("axes {axes:?} of {shape} cannot be dropped")))?] = true;
    }
    Ok(shape.iter().zip(dropped).filter(|(_, dropped)| !dropped).map(|(extent, _)| *extent).collect())
}

impl Operator for Squeeze {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.fact(0);
        let shape = input.shape.as_ref().map(|shape| squeeze(shape, &self.axes)).transpose()?;
        Ok(vec![Inferred { data_type: input.data_type, shape }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let input = eval.input(0)?;
        eval.outputs[0].bytes.copy_from_slice(input.bytes);
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let (input, shape) = (lowering.input(0)?, lowering.output_shape(0)?.clone());
        let output = lowering.reshape(input, &shape)?;
        lowering.output(0, output)
    }

    fn is_reshape(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_axes_of_extent_1_are_dropped() {
        let shape = Shape::from([1, 2, 1, 3]);
        assert_eq!(squeeze(&shape, &[]).unwrap(), Shape::from([2, 3]));
        assert_eq!(squeeze(&shape, &[-2, 2]).unwrap(), Shape::from([1, 2, 3]));
        assert_eq!(squeeze(&Shape::from([1, 1]), &[]).unwrap(), Shape::from([]));
        assert!(squeeze(&shape, &[1]).is_err());
        assert!(squeeze(&shape, &[4]).is_err());
    }
}

//! STABLEHLO_PAD: the input with a value around it and between its elements. Negative padding at an end cuts elements.

use attache_base::Shape;
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::shared::integers::filled;
use crate::shared::spread::{self, Along, spread};
use crate::shared::support::{countable, refuse};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::STABLEHLO_PAD),
    versions: 1..=1,
    inputs: &[input("operand").movable(), input("padding_value").like(0)],
    parse,
}];

#[derive(Debug)]
struct Pad {
    before: Vec<i64>,
    after: Vec<i64>,
    between: Vec<i64>,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_2_as_stablehlo_pad_options();
    let options = options.ok_or_else(|| declaration.no_options())?;
    Ok(Box::new(Pad {
        before: options.edge_padding_low().map(|list| list.iter().collect()).unwrap_or_default(),
        after: options.edge_padding_high().map(|list| list.iter().collect()).unwrap_or_default(),
        between: options.interior_padding().map(|list| list.iter().collect()).unwrap_or_default(),
    }))
}

impl Pad {
    /// Returns where the elements go.
    fn axes(&self) -> Vec<Along> {
        let along = |(first, between): (&i64, &i64)| Along { first: *first, step: between.saturating_add(1) };
        self.before.iter().zip(&self.between).map(along).collect()
    }

    fn output(&self, shape: &Shape) -> Result<Shape, OpError> {
        if [&self.before, &self.after, &self.between].iter().any(|list| list.len() != shape.rank()) {
            return Err(OpError::invalid(format!("its lists do not have a number for each axis of {shape}")));
        }
        let extent = |axis: usize| {
            let (extent, between) = (i64::try_from(shape[axis]).ok()?, self.between[axis]);
            let inner = (extent - 1).max(0).checked_mul(between).filter(|_| between >= 0)?;
            let padded = extent.checked_add(inner)?.checked_add(self.before[axis])?.checked_add(self.after[axis])?;
            // Elements' places are computed in 64 bits with a sign.
            padded.checked_sub(self.before[axis].checked_abs()?)?;
            Some(padded)
        };
        let extents = (0..shape.rank()).map(extent).collect::<Option<Vec<_>>>();
        let extents = extents.ok_or_else(|| OpError::invalid(format!("{self:?} of {shape} is out of range")))?;
        // Like in TensorFlow Lite, all extents are 0 where one axis has nothing left.
        match extents.iter().any(|extent| *extent <= 0) {
            true => Ok(vec![0; shape.rank()].into()),
            false => countable(extents.into_iter().map(|extent| extent as usize).collect()),
        }
    }
}

impl Operator for Pad {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let [input, value] = inputs.required();
        if value.shape.as_ref().is_some_and(|shape| shape.checked_elements() != Some(1)) {
            return Err(OpError::invalid("input 1 (padding_value) is not one value"));
        }
        let shape = input.shape.as_ref().map(|shape| self.output(shape)).transpose()?;
        Ok(vec![Inferred { data_type: input.data_type, shape }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (input, value) = (eval.input(0)?, eval.input(1)?);
        let output = &mut eval.outputs[0];
        let axes = self.axes();
        spread((input.bytes, input.shape), &axes, value.bytes, (output.bytes, output.shape));
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        lowering.use_stored();
        let (shape, output) = (lowering.input_shape(0)?, lowering.output_shape(0)?.clone());
        self.output(shape).map_err(refuse)?;
        let axes = self.axes();
        let map = spread::map(shape, &axes, &output)?;
        let input = lowering.input(0)?;
        let padded = filled(lowering, map, input, 1)?;
        lowering.output(0, padded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_are_checked() {
        let output = |before: i64, after: i64, between: i64, extent: usize| {
            Pad { before: vec![before], after: vec![after], between: vec![between] }.output(&[extent].into())
        };
        assert_eq!(output(1, 2, 3, 4).unwrap(), Shape::from([16]));
        assert_eq!(output(-1, 0, 1, 3).unwrap(), Shape::from([4]));
        assert_eq!(output(-9, 0, 0, 3).unwrap(), Shape::from([0]));
        for (before, after, between) in [(0, 0, -1), (i64::MAX, 1, 0), (i64::MIN, 0, 0), (0, 0, i64::MAX)] {
            assert!(output(before, after, between, 4).is_err(), "{before} {after} {between}");
        }
        assert!(Pad { before: vec![0], after: vec![0], between: vec![0] }.output(&[2, 2].into()).is_err());
    }
}

//! DILATE: the input with a value between its elements, so that neighbours along an axis are as far apart as a list says.

use attache_base::{DataType, Shape};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::shared::integers::filled;
use crate::shared::spread::{self, Along, spread};
use crate::shared::support::countable;
use crate::{Code, Definition, Facts, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::DILATE),
    versions: 1..=1,
    inputs: &[input("input").movable(), input("dilations").of(&[DataType::Int32]), input("padding_value").like(0)],
    parse: |_| Ok(Box::new(Dilate)),
}];

#[derive(Debug)]
struct Dilate;

fn output(shape: &Shape, dilations: &[i64]) -> Result<Shape, OpError> {
    let wrong = || OpError::invalid(format!("distances {dilations:?} of the elements of {shape}"));
    if dilations.len() != shape.rank() {
        return Err(wrong());
    }
    let extent = |(extent, dilation): (&usize, &i64)| {
        let dilation = usize::try_from(*dilation).ok().filter(|dilation| *dilation > 0)?;
        extent.checked_sub(1).map_or(Some(0), |last| last.checked_mul(dilation)?.checked_add(1))
    };
    let extents = shape.iter().zip(dilations).map(extent).collect::<Option<Vec<_>>>();
    countable(extents.ok_or_else(wrong)?.into())
}

impl Operator for Dilate {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let [input, dilations, value] = inputs.required();
        if dilations.shape.as_ref().is_some_and(|shape| shape.rank() != 1) {
            return Err(OpError::invalid("input 1 (dilations) is not a list"));
        }
        if value.shape.as_ref().is_some_and(|shape| shape.checked_elements() != Some(1)) {
            return Err(OpError::invalid("input 2 (padding_value) is not one value"));
        }
        let shape = match (&input.shape, inputs.integers(1)?) {
            (Some(shape), Some(dilations)) => Some(output(shape, &dilations)?),
            _ => None,
        };
        Ok(vec![Inferred { data_type: input.data_type, shape }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (input, value) = (eval.input(0)?, eval.input(2)?);
        let dilations = eval.input(1)?.integers()?;
        output(input.shape, &dilations)?;
        let axes: Vec<_> = dilations.into_iter().map(|step| Along { first: 0, step }).collect();
        let output = &mut eval.outputs[0];
        spread((input.bytes, input.shape), &axes, value.bytes, (output.bytes, output.shape));
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let axes: Vec<_> = lowering.integers(1)?.into_iter().map(|step| Along { first: 0, step }).collect();
        let map = spread::map(lowering.input_shape(0)?, &axes, lowering.output_shape(0)?)?;
        let input = lowering.input(0)?;
        let output = filled(lowering, map, input, 2)?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_positive() {
        assert_eq!(output(&[2, 0, 3].into(), &[3, 2, 1]).unwrap(), Shape::from([4, 0, 3]));
        for wrong in [&[0, 1][..], &[-1, 1], &[1], &[i64::MAX, i64::MAX]] {
            assert!(output(&[4, 4].into(), wrong).is_err(), "{wrong:?}");
        }
    }
}

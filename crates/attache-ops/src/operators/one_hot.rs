//! ONE_HOT: adds an axis along which the element at the given index is `on_value`, and all others are
//! `off_value`.

use attache_base::{Constant, DataType, Shape};
use attache_gpu_ir::{BinaryOp, Expression::Input, IntExpression};
use attache_graph::{Eval, Fact, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::shared::integers::moves_as_integer;
use crate::shared::support::{countable, elements_mut, only, refuse, single, with_element};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::ONE_HOT),
    versions: 1..=1,
    inputs: &[input("indices").integral(), input("depth").integral(), input("on_value").movable(), input("off_value")],
    parse,
}];

#[derive(Debug)]
struct OneHot {
    /// Position of the new axis in the output; -1 is the last one.
    axis: i64,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_one_hot_options();
    let axis = options.ok_or_else(|| declaration.no_options())?.axis();
    Ok(Box::new(OneHot { axis: i64::from(axis) }))
}

impl OneHot {
    /// Returns the position of the new axis in the output; fails where there is no such position.
    fn axis(&self, indices: &Shape) -> Result<usize, OpError> {
        let axis = if self.axis == -1 { indices.rank() as i64 } else { self.axis };
        let axis = usize::try_from(axis).ok().filter(|axis| *axis <= indices.rank());
        axis.ok_or_else(|| OpError::invalid(format!("indices {indices} cannot be given an axis {}", self.axis)))
    }

    /// Returns the output's shape for indices of this shape.
    fn output(&self, indices: &Shape, depth: i64) -> Result<Shape, OpError> {
        let mut extents = indices.to_vec();
        let depth = usize::try_from(depth).map_err(|_| OpError::invalid(format!("a depth of {depth}")))?;
        extents.insert(self.axis(indices)?, depth);
        countable(extents.into())
    }
}

impl Operator for OneHot {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let [indices, _, on, off] = inputs.required();
        let is_single = |fact: &Fact| fact.shape.as_ref().is_none_or(|shape| shape.elements() == 1);
        if on.data_type != off.data_type || !is_single(on) || !is_single(off) {
            return Err(OpError::invalid("inputs 2 and 3 are not single values of one type"));
        }
        let (Some(shape), Some(depth)) = (&indices.shape, inputs.integers(1)?) else {
            return Ok(vec![Inferred::unknown(on.data_type)]);
        };
        Ok(vec![Inferred::new(on.data_type, self.output(shape, single(&depth)?)?)])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (indices, on, off) = (eval.input(0)?, eval.input(2)?, eval.input(3)?);
        let axis = self.axis(indices.shape)?;
        let inner = indices.shape[axis..].iter().product::<usize>();
        let (depth, output) = (eval.outputs[0].shape[axis], &mut *eval.outputs[0].bytes);
        with_element!(on.data_type, T => {
            let (on, output) = (only::<T>(on)?, elements_mut::<T>(output)?);
            output.fill(only(off)?);
            for (place, index) in indices.integers()?.into_iter().enumerate() {
                if let Some(index) = usize::try_from(index).ok().filter(|index| *index < depth) {
                    output[(place / inner * depth + index) * inner + place % inner] = on;
                }
            }
        });
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let (indices, shape) = (lowering.input_shape(0)?, lowering.output_shape(0)?.clone());
        let (axis, rank) = (self.axis(indices).map_err(refuse)?, shape.rank());
        // A device compares the indices as floats, which represent all integers up to 2²⁴.
        let depth = u32::try_from(shape[axis]).ok().filter(|depth| *depth <= 1 << 24);
        let depth = depth.ok_or_else(|| Unsupported::new("a device cannot tell so many indices apart"))?;
        let mut extents = vec![1; rank];
        extents[axis] = depth as usize;
        // The positions are integers, because f16 does not represent all integers above 2,048.
        let places: Vec<i32> = (0..depth as i32).collect();
        let places = lowering.constant(Constant::from_values(extents, &places))?;
        let mut extents = shape.to_vec();
        extents[axis] = 1;
        let indices = lowering.input(0)?;
        let indices = lowering.reshape(indices, &extents.into())?;
        let (on, off) = (lowering.input(2)?, lowering.input(3)?);
        let scalar = Shape::default();
        let inputs = [indices, places, lowering.reshape(on, &scalar)?, lowering.reshape(off, &scalar)?];
        let output = match lowering.input_fact(2)?.data_type {
            DataType::Float32 => {
                let chosen = Input(0).binary(BinaryOp::Equal, Input(1)).select(Input(2), Input(3));
                lowering.map(chosen, &shape, &inputs)?
            }
            other if moves_as_integer(other) => {
                let [index, place, on, off] = [0, 1, 2, 3].map(IntExpression::Input);
                lowering.int_map(index.equal(place).select(on, off), &shape, &inputs)?
            }
            other => return Err(Unsupported::new(format!("values of type {other} are not supported"))),
        };
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_is_new() {
        let indices = Shape::from([2, 3]);
        assert_eq!(OneHot { axis: -1 }.output(&indices, 5).unwrap(), Shape::from([2, 3, 5]));
        assert_eq!(OneHot { axis: 1 }.output(&indices, 5).unwrap(), Shape::from([2, 5, 3]));
        assert_eq!(OneHot { axis: 0 }.output(&Shape::default(), 0).unwrap(), Shape::from([0]));
        assert!(OneHot { axis: 3 }.output(&indices, 5).is_err());
        assert!(OneHot { axis: -2 }.output(&indices, 5).is_err());
        assert!(OneHot { axis: 0 }.output(&indices, -1).is_err());
        assert!(OneHot { axis: 0 }.output(&indices, i64::MAX).is_err());
    }
}

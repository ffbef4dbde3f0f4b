//! ARG_MAX and ARG_MIN: the index of the first largest or smallest element along an axis, which is removed.

use attache_base::{DataType, Shape};
use attache_gpu_ir::Primitive;
use attache_graph::{Eval, Inferred, Lowering, OpError, TensorMut, Unsupported};
use attache_kernels::Engine;
use attache_kernels::places::of_extrema;
use attache_model::schema::{BuiltinOperator, TensorType};

use crate::shared::support::{axis_of, elements, refuse, single};
use crate::{Code, Declaration, Definition, Facts, Input, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[
    Definition {
        code: Code::Builtin(BuiltinOperator::ARG_MAX),
        versions: 1..=3,
        inputs: INPUTS,
        parse: |declaration| {
            let options = declaration.options.builtin_options_as_arg_max_options();
            row(declaration, true, options.map(|options| options.output_type()))
        },
    },
    Definition {
        code: Code::Builtin(BuiltinOperator::ARG_MIN),
        versions: 1..=3,
        inputs: INPUTS,
        parse: |declaration| {
            let options = declaration.options.builtin_options_as_arg_min_options();
            row(declaration, false, options.map(|options| options.output_type()))
        },
    },
];

const INPUTS: &[Input] = &[
    input("input").of(&[DataType::Float32, DataType::Int32, DataType::Int8, DataType::UInt8, DataType::Bool]),
    input("axis").integral(),
];

#[derive(Debug)]
struct ArgExtremum {
    /// Whether this is ARG_MAX; else it is ARG_MIN.
    largest: bool,
    /// The element type of the output, which holds indices along the axis: INT32 or INT64.
    places: DataType,
}

fn row(declaration: &Declaration<'_>, largest: bool, places: Option<TensorType>) -> Parsed {
    let places = places.ok_or_else(|| declaration.no_options())?;
    match DataType::from_code(places.0) {
        Some(places @ (DataType::Int32 | DataType::Int64)) => Ok(Box::new(ArgExtremum { largest, places })),
        _ => Err(OpError::invalid("places are neither of type INT32 nor of type INT64")),
    }
}

/// Returns the reduced axis from the elements of the axis input. Fails where there is no such axis or its
/// extent is 0.
fn axis(shape: &Shape, axis: &[i64]) -> Result<usize, OpError> {
    let axis = axis_of(shape, single(axis)?)?;
    if shape[axis] == 0 {
        return Err(OpError::invalid(format!("{shape} has no elements along axis {axis}")));
    }
    Ok(axis)
}

fn without(shape: &Shape, axis: usize) -> Shape {
    let mut extents = shape.to_vec();
    extents.remove(axis);
    extents.into()
}

impl ArgExtremum {
    fn write<T: Copy + PartialOrd + Sync>(
        &self,
        engine: Engine,
        input: &[T],
        extents: [usize; 2],
        output: &mut TensorMut<'_>,
    ) -> Result<(), OpError> {
        match self.places {
            DataType::Int64 => {
                of_extrema(engine, input, extents, self.largest, output.values::<i64>()?, |place| place as i64);
            }
            _ => of_extrema(engine, input, extents, self.largest, output.values::<i32>()?, |place| place as i32),
        }
        Ok(())
    }
}

impl Operator for ArgExtremum {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.fact(0);
        let (Some(shape), Some(place)) = (&input.shape, inputs.integers(1)?) else {
            return Ok(vec![Inferred::unknown(self.places)]);
        };
        Ok(vec![Inferred::new(self.places, without(shape, axis(shape, &place)?))])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (input, shape) = (eval.input(0)?, eval.input(0)?.shape);
        let axis = axis(shape, &eval.input(1)?.integers()?)?;
        let extents = [shape[axis], shape[axis + 1..].iter().product()];
        let (engine, output) = (Engine::new(eval.parallel), &mut eval.outputs[0]);
        match input.data_type {
            DataType::Float32 => self.write(engine, input.values::<f32>()?, extents, output),
            DataType::Int32 => self.write(engine, input.values::<i32>()?, extents, output),
            DataType::Int8 => self.write(engine, input.values::<i8>()?, extents, output),
            _ => self.write(engine, elements::<u8>(input.bytes)?, extents, output),
        }
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let axis = axis(lowering.input_shape(0)?, &lowering.integers(1)?).map_err(refuse)?;
        let input = lowering.input(0)?;
        let shape = lowering.output_shape(0)?.clone();
        let places = lowering.emit(Primitive::ArgReduce { largest: self.largest, axis, parts: 1 }, &[input])?;
        let output = lowering.reshape(places, &shape)?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use attache_base::Constant;
    use attache_graph::Fact;

    use super::*;

    #[test]
    fn the_axis_is_dropped() {
        let op = ArgExtremum { largest: true, places: DataType::Int64 };
        let infer = |shape: &[usize], axis: i32| {
            let axis = Fact::constant(Constant::from_values([], &[axis]));
            DEFINITIONS[0].infer(&op, &[Some(&Fact::new(DataType::Float32, shape)), Some(&axis)])
        };
        assert_eq!(infer(&[2, 3, 4], -2).unwrap(), [Inferred::new(DataType::Int64, [2, 4])]);
        assert!(infer(&[2], 1).is_err());
        assert!(infer(&[], 0).is_err());
        assert!(infer(&[2, 0], 1).is_err());
    }
}

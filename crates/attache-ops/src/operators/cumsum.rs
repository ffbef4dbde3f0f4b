//! CUMSUM: cumulative sums along an axis. Integer sums wrap.

use attache_base::{DataType, Element, Shape};
use attache_gpu_ir::Primitive;
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::shared::support::{axis_of, refuse, single};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::CUMSUM),
    versions: 1..=1,
    inputs: &[input("input").of(&[DataType::Float32, DataType::Int32, DataType::Int64]), input("axis").integral()],
    parse,
}];

#[derive(Debug)]
struct Cumsum {
    /// Whether the sum at each position excludes the element at that position.
    exclusive: bool,
    /// Whether sums accumulate from the end of the axis to its start.
    reverse: bool,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_cumsum_options();
    let (exclusive, reverse) = options.map_or((false, false), |options| (options.exclusive(), options.reverse()));
    Ok(Box::new(Cumsum { exclusive, reverse }))
}

impl Cumsum {
    fn sums<T: Element>(&self, input: &[T], shape: &Shape, axis: usize, output: &mut [T], add: impl Fn(T, T) -> T) {
        let (extent, inner) = (shape[axis], shape[axis + 1..].iter().product::<usize>());
        let blocks = input.chunks_exact(extent * inner).zip(output.chunks_exact_mut(extent * inner));
        let mut sums = vec![T::default(); inner];
        for (input, output) in blocks {
            sums.fill(T::default());
            for step in 0..extent {
                let start = if self.reverse { extent - 1 - step } else { step } * inner;
                let (input, output) = (&input[start..start + inner], &mut output[start..start + inner]);
                for (sum, (element, result)) in sums.iter_mut().zip(input.iter().zip(output)) {
                    let next = add(*sum, *element);
                    *result = if self.exclusive { *sum } else { next };
                    *sum = next;
                }
            }
        }
    }
}

impl Operator for Cumsum {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.fact(0);
        if let (Some(shape), Some(axis)) = (&input.shape, inputs.integers(1)?) {
            axis_of(shape, single(&axis)?)?;
        }
        Ok(vec![Inferred { data_type: input.data_type, shape: input.shape.clone() }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (input, shape) = (eval.input(0)?, eval.input(0)?.shape);
        let axis = axis_of(shape, single(&eval.input(1)?.integers()?)?)?;
        let output = &mut eval.outputs[0];
        match input.data_type {
            DataType::Int32 => self.sums(input.values()?, shape, axis, output.values()?, i32::wrapping_add),
            DataType::Int64 => self.sums(input.values()?, shape, axis, output.values()?, i64::wrapping_add),
            _ => self.sums(input.values::<f32>()?, shape, axis, output.values()?, |a, b| a + b),
        }
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let (shape, axis) = (lowering.input_shape(0)?, lowering.integers(1)?);
        let axis = single(&axis).and_then(|axis| axis_of(shape, axis)).map_err(refuse)?;
        let input = lowering.input(0)?;
        let scan = Primitive::Scan { axis, exclusive: self.exclusive, reverse: self.reverse };
        let output = lowering.emit(scan, &[input])?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_run_either_way() {
        let sums = |exclusive, reverse, axis| {
            let mut output = [0; 6];
            let op = Cumsum { exclusive, reverse };
            op.sums(&[1, 2, 3, 4, 5, i32::MAX], &[2, 3].into(), axis, &mut output, i32::wrapping_add);
            output
        };
        assert_eq!(sums(false, false, 0), [1, 2, 3, 5, 7, i32::MIN + 2]);
        assert_eq!(sums(true, false, 1), [0, 1, 3, 0, 4, 9]);
        assert_eq!(sums(true, true, 1), [5, 3, 0, i32::MIN + 4, i32::MAX, 0]);
    }
}

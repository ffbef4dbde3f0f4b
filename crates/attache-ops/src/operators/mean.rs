//! MEAN: the mean over the axes that an input names. Integer means are rounded towards zero.

use attache_base::{DataType, Element, Shape};
use attache_gpu_ir::ReduceOp;
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_kernels::{Engine, reduce};
use attache_model::schema::BuiltinOperator;

use crate::shared::exact::is_exact;
use crate::shared::quantized::is_stored;
use crate::shared::reduction::{self, Folding};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::MEAN),
    versions: 1..=3,
    inputs: &[
        input("input").of(&[
            DataType::Float32,
            DataType::Int32,
            DataType::Int64,
            DataType::Int8,
            DataType::UInt8,
            DataType::Int16,
        ]),
        input("axes").of(&[DataType::Int32]),
    ],
    parse,
}];

#[derive(Debug)]
struct Mean(Folding);

fn parse(declaration: &Declaration<'_>) -> Parsed {
    Ok(Box::new(Mean(Folding::parse(declaration)?)))
}

/// Writes the means of integers, rounded towards zero. The 64-bit sums wrap; the mean of no elements is 0.
fn integers<T>(input: &[T], shape: &Shape, folded: &[bool], output: &mut [T])
where
    T: Element + Into<i64> + TryFrom<i64>,
{
    let mut sums = vec![0i64; output.len()];
    reduce::fold(input, shape, folded, &mut sums, 0, |sum, element: T| sum.wrapping_add(element.into()));
    let count = (input.len() / output.len()) as i64;
    for (mean, sum) in output.iter_mut().zip(sums) {
        *mean = sum.checked_div(count).and_then(|mean| T::try_from(mean).ok()).unwrap_or_default();
    }
}

impl Operator for Mean {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        self.0.infer(inputs)
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (input, engine, folded) = (eval.input(0)?, Engine::new(eval.parallel), self.0.axes(eval)?);
        if is_stored(input.data_type) {
            return reduction::rescaled_sum(eval, &folded, true);
        }
        let (shape, output) = (input.shape, &mut eval.outputs[0]);
        match input.data_type {
            DataType::Int32 => integers::<i32>(input.values()?, shape, &folded, output.values()?),
            DataType::Int64 => integers::<i64>(input.values()?, shape, &folded, output.values()?),
            _ => {
                let (elements, output) = (input.values()?, output.values()?);
                reduce::reduce(engine, reduce::Reduction::Mean, elements, shape, &folded, output);
            }
        }
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        if is_exact(lowering, 0) {
            return self.0.lower_sum(lowering, true);
        }
        if lowering.input_fact(0)?.data_type == DataType::Int32 {
            return self.0.lower_integer_mean(lowering);
        }
        let input = lowering.float_input(0)?;
        self.0.lower(lowering, ReduceOp::Mean, input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_divided_towards_zero() {
        let mut output = [0; 2];
        integers(&[-1, -2, -2, 5, 6, 6], &Shape::from([2, 3]), &[false, true], &mut output);
        assert_eq!(output, [-1, 5]);
        let mut nothing = [7i64; 2];
        integers(&[], &Shape::from([2, 0]), &[false, true], &mut nothing);
        assert_eq!(nothing, [0, 0]);
    }
}

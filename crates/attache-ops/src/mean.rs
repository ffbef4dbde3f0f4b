//! MEAN: the mean over axes that an input names. Integers are summed and divided towards zero.

use std::sync::Arc;

use attache_base::{DataType, Element, Shape};
use attache_gpu_ir::{Primitive, Reduction};
use attache_graph::{Eval, Fact, Inferred, Lowering, Op, OpError, Refusal};
use attache_kernels::{Engine, reduce};
use attache_model::schema::BuiltinOperator;

use crate::support::{arity, countable, is_empty, known_integers, one_of, refuse, required};
use crate::{Code, Declaration, Definition};

pub(crate) static DEFINITIONS: &[Definition] =
    &[Definition { code: Code::Builtin(BuiltinOperator::MEAN), versions: 1..=3, parse }];

/// Inputs: elements and axes.
#[derive(Debug)]
struct Mean {
    /// Whether an axis stays, with extent 1.
    keep_dims: bool,
}

fn parse(declaration: &Declaration<'_>) -> Result<Arc<dyn Op>, OpError> {
    let options = declaration.options.builtin_options_as_reducer_options();
    let options = options.ok_or_else(|| declaration.no_options())?;
    Ok(Arc::new(Mean { keep_dims: options.keep_dims() }))
}

/// Which axes of the shape are folded; one that is named twice counts once.
fn folded(shape: &Shape, axes: &[i64]) -> Result<Vec<bool>, OpError> {
    let mut folded = vec![false; shape.rank()];
    for axis in axes {
        let place = shape.axis(*axis).ok_or_else(|| OpError::invalid(format!("{shape} has no axis {axis}")))?;
        folded[place] = true;
    }
    Ok(folded)
}

/// The mean of integers, towards zero. Sums wrap; over no elements it is 0.
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

impl Mean {
    fn output(&self, shape: &Shape, folded: &[bool]) -> Shape {
        let axes = shape.iter().zip(folded).filter(|(_, folded)| self.keep_dims || !**folded);
        axes.map(|(extent, folded)| if *folded { 1 } else { *extent }).collect()
    }
}

impl Op for Mean {
    fn name(&self) -> &str {
        DEFINITIONS[0].name()
    }

    fn infer(&self, inputs: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError> {
        arity(inputs, 2..=2)?;
        let (input, axes) = (required(inputs, 0)?, required(inputs, 1)?);
        one_of(0, input, &[DataType::Float32, DataType::Int32, DataType::Int64])?;
        one_of(1, axes, &[DataType::Int32])?;
        let (Some(shape), Some(axes)) = (&input.shape, known_integers(1, axes)?) else {
            return Ok(vec![Inferred::unknown(input.data_type)]);
        };
        let output = countable(self.output(shape, &folded(shape, &axes)?))?;
        Ok(vec![Inferred::new(input.data_type, output)])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        if is_empty(eval) {
            return Ok(());
        }
        let (input, engine) = (eval.input(0)?, Engine::new(eval.parallel));
        let (shape, folded) = (input.shape, folded(input.shape, &eval.input(1)?.integers()?)?);
        let output = &mut eval.outputs[0];
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

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Refusal> {
        let folded = folded(lowering.input_shape(0)?, &lowering.integers(1)?).map_err(refuse)?;
        let axes: Vec<usize> = (0..folded.len()).filter(|axis| folded[*axis]).collect();
        let (input, shape) = (lowering.float_input(0)?, lowering.output_shape(0)?.clone());
        let mean = match axes.is_empty() {
            true => input,
            false => lowering.emit(Primitive::Reduce { reduction: Reduction::Mean, axes }, &[input])?,
        };
        let output = lowering.reshape(mean, &shape)?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use attache_base::Constant;

    use super::*;

    fn output(keep_dims: bool, axes: &[i32]) -> Result<Shape, OpError> {
        let axes = Fact::constant(Constant::from_values([axes.len()], axes));
        let input = Fact::new(DataType::Float32, [2, 3, 4]);
        Ok(Mean { keep_dims }.infer(&[Some(&input), Some(&axes)])?.remove(0).shape.unwrap())
    }

    #[test]
    fn axes_count_from_both_ends_and_once() {
        assert_eq!(output(false, &[-1, 0, 2]).unwrap(), Shape::from([3]));
        assert_eq!(output(true, &[-1]).unwrap(), Shape::from([2, 3, 1]));
        assert_eq!(output(false, &[]).unwrap(), Shape::from([2, 3, 4]));
        assert!(matches!(output(false, &[3]), Err(OpError::Invalid(_))));
        assert!(matches!(output(false, &[-4]), Err(OpError::Invalid(_))));
    }

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

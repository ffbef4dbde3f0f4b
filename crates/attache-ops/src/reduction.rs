//! What operators that fold axes share: which axes an input names, the shape that is left, and the GPU form. Knows no
//! operator.

use attache_base::{DataType, Shape};
use attache_gpu_ir::{Primitive, Reduction, ValueId};
use attache_graph::{Eval, Fact, Inferred, Lowering, OpError, Refusal};

use crate::Declaration;
use crate::support::{arity, axis_of, countable, known_integers, one_of, refuse, required};

/// How axes that an input names are folded. Inputs: elements and axes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Folding {
    /// Whether an axis stays, with extent 1.
    pub(crate) keep_dims: bool,
}

/// Which axes of the shape are folded; one that is named twice counts once.
fn folded(shape: &Shape, axes: &[i64]) -> Result<Vec<bool>, OpError> {
    let mut folded = vec![false; shape.rank()];
    for axis in axes {
        folded[axis_of(shape, *axis)?] = true;
    }
    Ok(folded)
}

impl Folding {
    /// The folding of a file's options.
    pub(crate) fn parse(declaration: &Declaration<'_>) -> Result<Self, OpError> {
        let options = declaration.options.builtin_options_as_reducer_options();
        let options = options.ok_or_else(|| declaration.no_options())?;
        Ok(Self { keep_dims: options.keep_dims() })
    }

    fn output(self, shape: &Shape, folded: &[bool]) -> Shape {
        let axes = shape.iter().zip(folded).filter(|(_, folded)| self.keep_dims || !**folded);
        axes.map(|(extent, folded)| if *folded { 1 } else { *extent }).collect()
    }

    /// The output, of the elements' type, which must be one of `types`.
    pub(crate) fn infer(self, inputs: &[Option<&Fact>], types: &[DataType]) -> Result<Vec<Inferred>, OpError> {
        arity(inputs, 2..=2)?;
        let (input, axes) = (required(inputs, 0)?, required(inputs, 1)?);
        one_of(0, input, types)?;
        one_of(1, axes, &[DataType::Int32])?;
        let (Some(shape), Some(axes)) = (&input.shape, known_integers(1, axes)?) else {
            return Ok(vec![Inferred::unknown(input.data_type)]);
        };
        let output = countable(self.output(shape, &folded(shape, &axes)?))?;
        Ok(vec![Inferred::new(input.data_type, output)])
    }

    /// Which axes of the elements are folded.
    pub(crate) fn axes(self, eval: &Eval<'_>) -> Result<Vec<bool>, OpError> {
        folded(eval.input(0)?.shape, &eval.input(1)?.integers()?)
    }

    /// Emits the folding of `input`, which holds the elements, as the only output.
    pub(crate) fn lower(
        self,
        lowering: &mut Lowering<'_>,
        reduction: Reduction,
        input: ValueId,
    ) -> Result<(), Refusal> {
        let folded = folded(lowering.input_shape(0)?, &lowering.integers(1)?).map_err(refuse)?;
        let axes: Vec<usize> = (0..folded.len()).filter(|axis| folded[*axis]).collect();
        let shape = lowering.output_shape(0)?.clone();
        let result = match axes.is_empty() {
            true => input,
            false => lowering.emit(Primitive::Reduce { reduction, axes }, &[input])?,
        };
        let output = lowering.reshape(result, &shape)?;
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
        let inferred = Folding { keep_dims }.infer(&[Some(&input), Some(&axes)], &[DataType::Float32]);
        Ok(inferred?.remove(0).shape.unwrap())
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
    fn axes_that_a_run_tells_leave_the_shape_open() {
        let (input, axes) = (Fact::new(DataType::Float32, [2, 3]), Fact::new(DataType::Int32, [1]));
        let inferred = Folding { keep_dims: false }.infer(&[Some(&input), Some(&axes)], &[DataType::Float32]);
        assert_eq!(inferred.unwrap(), [Inferred::unknown(DataType::Float32)]);
    }
}

//! RESHAPE: the same elements in another shape.

use attache_base::{DataType, Shape};
use attache_graph::{Eval, Fact, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::shared::support::countable;
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::RESHAPE),
    versions: 1..=1,
    inputs: &[input("input").movable_or_strings(), input("shape").optional()],
    parse,
}];

#[derive(Debug)]
struct Reshape {
    /// The shape in the options, used where there is no shape input.
    new_shape: Option<Vec<i64>>,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_reshape_options();
    let new_shape = options.and_then(|options| options.new_shape());
    Ok(Box::new(Reshape { new_shape: new_shape.map(|shape| shape.iter().map(i64::from).collect()) }))
}

/// Resolves the requested shape for an input of this shape, from which one extent of -1 is inferred. Without elements, it is
/// inferred from the extents that are not zero, as in TensorFlow Lite.
fn resolve(wanted: &[i64], input: &Shape) -> Result<Shape, OpError> {
    let elements = input.elements();
    let wrong = || OpError::invalid(format!("{elements} elements cannot take the shape {wanted:?}"));
    if wanted.iter().any(|extent| *extent < -1) || wanted.iter().filter(|extent| **extent == -1).count() > 1 {
        return Err(wrong());
    }
    let known: Shape = wanted.iter().filter(|extent| **extent >= 0).map(|extent| *extent as usize).collect();
    let rest = match known.checked_elements().ok_or_else(wrong)? {
        0 => above_zero(input)?.checked_div(above_zero(&known)?).unwrap_or(0),
        known => elements / known,
    };
    let shape: Shape = wanted.iter().map(|extent| if *extent == -1 { rest } else { *extent as usize }).collect();
    if shape.checked_elements() == Some(elements) { countable(shape) } else { Err(wrong()) }
}

/// Returns the product of the extents that are not zero.
fn above_zero(shape: &Shape) -> Result<usize, OpError> {
    let extents: Shape = shape.iter().copied().filter(|extent| *extent > 0).collect();
    Ok(countable(extents)?.elements())
}

impl Reshape {
    /// Resolves the shape in the options for an input of this shape; none are those of a scalar. Old files encode a scalar's
    /// shape as `[0]`.
    fn of_options(&self, input: &Shape) -> Result<Shape, OpError> {
        let wanted = self.new_shape.as_deref().unwrap_or_default();
        let is_scalar = input.elements() == 1 && *wanted == [0];
        if is_scalar { Ok(Shape::default()) } else { resolve(wanted, input) }
    }
}

impl Operator for Reshape {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.fact(0);
        let unknown = Ok(vec![Inferred::unknown(input.data_type)]);
        let Some(extents) = &input.shape else { return unknown };
        // As in TensorFlow Lite, a shape input that is no list of int32 is ignored.
        let is_list = |fact: &&Fact| {
            fact.data_type == DataType::Int32 && fact.shape.as_ref().is_none_or(|shape| shape.rank() == 1)
        };
        let shape = match inputs.optional(1).filter(is_list) {
            Some(_) => match inputs.integers(1)? {
                Some(wanted) => resolve(&wanted, extents)?,
                None => return unknown,
            },
            None => self.of_options(extents)?,
        };
        Ok(vec![Inferred::new(input.data_type, shape)])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let input = eval.input(0)?;
        eval.outputs[0].bytes.copy_from_slice(input.bytes);
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let input = lowering.input(0)?;
        let shape = lowering.output_shape(0)?.clone();
        let output = lowering.reshape(input, &shape)?;
        lowering.output(0, output)
    }

    fn is_reshape(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use attache_base::Constant;

    use super::*;

    #[test]
    fn one_extent_takes_what_is_left() {
        let resolve = |wanted: &[i64], input: &[usize]| resolve(wanted, &Shape::from(input));
        assert_eq!(resolve(&[2, -1, 3], &[24]).unwrap(), Shape::from([2, 4, 3]));
        assert_eq!(resolve(&[], &[1]).unwrap(), Shape::from([]));
        assert_eq!(resolve(&[5, -1], &[0, 3]).unwrap(), Shape::from([5, 0]));
        assert_eq!(resolve(&[-1, 0], &[0, 4]).unwrap(), Shape::from([4, 0]));
        assert!(resolve(&[0, -1], &[6]).is_err());
        assert!(resolve(&[-1, 5], &[24]).is_err());
        assert!(resolve(&[-1, -1], &[24]).is_err());
        assert!(resolve(&[i64::MAX, 4], &[24]).is_err());
    }

    #[test]
    fn a_list_of_32_bit_integers_wins_over_the_options() {
        let reshape = Reshape { new_shape: Some(vec![3, 2]) };
        let input = Fact::new(DataType::Float32, [6]);
        let shape = |new_shape: Fact| {
            DEFINITIONS[0].infer(&reshape, &[Some(&input), Some(&new_shape)]).map(|made| made[0].shape.clone())
        };
        let constant = |constant| Fact::constant(constant);
        assert_eq!(shape(constant(Constant::from_values([2], &[2i32, 3]))).unwrap(), Some([2, 3].into()));
        assert_eq!(shape(constant(Constant::from_values([2], &[2i64, 3]))).unwrap(), Some([3, 2].into()));
        assert_eq!(shape(Fact::new(DataType::Int32, [2])).unwrap(), None);
        assert_eq!(shape(constant(Constant::from_values([], &[6i32]))).unwrap(), Some([3, 2].into()));
        assert_eq!(shape(constant(Constant::from_values([1, 2], &[2i32, 3]))).unwrap(), Some([3, 2].into()));
    }

    #[test]
    fn old_files_write_a_scalar_as_0() {
        let reshape = Reshape { new_shape: Some(vec![0]) };
        assert_eq!(reshape.of_options(&[].into()).unwrap(), Shape::default());
        assert_eq!(reshape.of_options(&[0].into()).unwrap(), Shape::from([0]));
        assert!(reshape.of_options(&[2].into()).is_err());
        let none = Reshape { new_shape: None };
        assert_eq!(none.of_options(&[1, 1].into()).unwrap(), Shape::default());
        assert!(none.of_options(&[2].into()).is_err());
    }
}

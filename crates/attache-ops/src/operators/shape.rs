//! SHAPE: the extents of the input, as a vector.

use attache_base::{Constant, DataType, Shape};
use attache_graph::{Eval, Inferred, OpError};
use attache_model::schema::BuiltinOperator;

use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] =
    &[Definition { code: Code::Builtin(BuiltinOperator::SHAPE), versions: 1..=1, inputs: &[input("input")], parse }];

/// SHAPE with its attribute. The input may be of any type.
#[derive(Debug)]
struct Extents {
    /// The element type of the output, INT32 or INT64.
    data_type: DataType,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_shape_options().ok_or_else(|| declaration.no_options())?;
    match DataType::from_code(options.out_type().0) {
        Some(data_type @ (DataType::Int32 | DataType::Int64)) => Ok(Box::new(Extents { data_type })),
        _ => Err(OpError::invalid("extents are neither of type INT32 nor of type INT64")),
    }
}

impl Extents {
    /// Returns the extents of `shape` as a constant vector; fails where one does not fit the element type.
    fn list(&self, shape: &Shape) -> Result<Constant, OpError> {
        fn list<T: attache_base::Element + TryFrom<usize>>(shape: &Shape) -> Option<Constant> {
            let extents = shape.iter().map(|extent| T::try_from(*extent).ok()).collect::<Option<Vec<_>>>()?;
            Some(Constant::from_values([shape.rank()], &extents))
        }
        let list = match self.data_type {
            DataType::Int64 => list::<i64>(shape),
            _ => list::<i32>(shape),
        };
        list.ok_or_else(|| OpError::unsupported(format!("extents of {shape} do not fit {}", self.data_type)))
    }
}

impl Operator for Extents {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let shape = inputs.fact(0).shape.as_ref();
        Ok(vec![Inferred { data_type: self.data_type, shape: shape.map(|shape| [shape.rank()].into()) }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let list = self.list(eval.input(0)?.shape)?;
        eval.outputs[0].bytes.copy_from_slice(&list.bytes);
        Ok(())
    }

    fn value_of_shapes(&self, inputs: Facts<'_>) -> Option<Constant> {
        self.list(inputs.fact(0).shape.as_ref()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use attache_graph::Fact;

    use super::*;

    #[test]
    fn extents_are_known_before_values() {
        let value = |data_type, shape: Shape| {
            let input = Fact::new(DataType::Float32, shape);
            Extents { data_type }.value_of_shapes(Facts::checked(DEFINITIONS[0].inputs, &[Some(&input)]).ok()?)
        };
        assert_eq!(value(DataType::Int32, [2, 0, 3].into()).unwrap().integers(), Some(vec![2, 0, 3]));
        assert_eq!(value(DataType::Int64, [7].into()).unwrap().values::<i64>().unwrap()[..], [7]);
        assert_eq!(value(DataType::Int32, Shape::default()).unwrap().shape, Shape::from([0]));
        assert!(value(DataType::Int32, [1 << 40].into()).is_none());
        assert!(value(DataType::Int64, [1 << 40].into()).is_some());
    }
}

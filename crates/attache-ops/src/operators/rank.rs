//! RANK: the number of axes of the input, as a scalar.

use attache_base::{Constant, DataType, Shape};
use attache_graph::{Eval, Inferred, OpError};
use attache_model::schema::BuiltinOperator;

use crate::{Code, Definition, Facts, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::RANK),
    versions: 1..=1,
    inputs: &[input("input")],
    parse: |_| Ok(Box::new(Rank)),
}];

#[derive(Debug)]
struct Rank;

impl Operator for Rank {
    fn infer(&self, _: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        Ok(vec![Inferred::new(DataType::Int32, Shape::default())])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let rank = eval.input(0)?.shape.rank() as i32;
        eval.outputs[0].values::<i32>()?.fill(rank);
        Ok(())
    }

    fn value_of_shapes(&self, inputs: Facts<'_>) -> Option<Constant> {
        let rank = inputs.fact(0).shape.as_ref()?.rank() as i32;
        Some(Constant::from_values([], &[rank]))
    }
}

#[cfg(test)]
mod tests {
    use attache_graph::Fact;

    use super::*;

    #[test]
    fn the_rank_is_known_with_the_shape() {
        let value = |fact: &Fact| {
            Rank.value_of_shapes(Facts::checked(DEFINITIONS[0].inputs, &[Some(fact)]).unwrap())
                .and_then(|value| value.integers())
        };
        assert_eq!(value(&Fact::new(DataType::Bool, [2, 0, 3])), Some(vec![3]));
        assert_eq!(value(&Fact { shape: None, ..Fact::new(DataType::Bool, [2]) }), None);
    }
}

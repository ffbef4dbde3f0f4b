//! ADD_N: the sum of two or more tensors of one shape, added from the first to the last. Integer sums wrap.

use attache_base::{DataType, Element};
use attache_gpu_ir::{Expression, IntExpression};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::{Code, Definition, Facts, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::ADD_N),
    versions: 1..=1,
    inputs: &[
        input("x").of(&[DataType::Float32, DataType::Int32]),
        input("y").like(0),
        input("more").like(0).repeated(),
    ],
    parse: |_| Ok(Box::new(AddN)),
}];

#[derive(Debug)]
struct AddN;

fn add_up<T: Element>(eval: &mut Eval<'_>, add: impl Fn(T, T) -> T) -> Result<(), OpError> {
    let sums = eval.outputs[0].values::<T>()?;
    for (index, input) in eval.inputs.iter().flatten().enumerate() {
        let values = input.values::<T>()?;
        match index {
            0 => sums.copy_from_slice(values),
            _ => sums.iter_mut().zip(values).for_each(|(sum, value)| *sum = add(*sum, *value)),
        }
    }
    Ok(())
}

impl Operator for AddN {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let shapes: Vec<_> = inputs.from(0).iter().flatten().map(|input| input.shape.as_ref()).collect();
        let data_type = inputs.fact(0).data_type;
        let mut known = shapes.iter().flatten();
        let Some(first) = known.next() else { return Ok(vec![Inferred::unknown(data_type)]) };
        if let Some(other) = known.find(|shape| *shape != first) {
            return Err(OpError::invalid(format!("it adds tensors of the shapes {first} and {other}")));
        }
        let shape = shapes.iter().all(Option::is_some).then(|| (*first).clone());
        Ok(vec![Inferred { data_type, shape }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        match eval.input(0)?.data_type {
            DataType::Int32 => add_up(eval, i32::wrapping_add),
            _ => add_up(eval, |a: f32, b| a + b),
        }
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let shape = lowering.output_shape(0)?.clone();
        let is_integer = lowering.input_fact(0)?.data_type == DataType::Int32;
        let mut sum = lowering.input(0)?;
        for index in 1..lowering.input_count() {
            let next = lowering.input(index)?;
            sum = match is_integer {
                true => {
                    let expression = IntExpression::Input(0).add(IntExpression::Input(1));
                    lowering.int_map(expression, &shape, &[sum, next])?
                }
                false => lowering.map(Expression::Input(0).add(Expression::Input(1)), &shape, &[sum, next])?,
            };
        }
        lowering.output(0, sum)
    }
}

#[cfg(test)]
mod tests {
    use attache_graph::Fact;

    use super::*;

    #[test]
    fn all_have_one_shape() {
        let infer = |shapes: &[&[usize]]| {
            let facts: Vec<_> = shapes.iter().map(|shape| Fact::new(DataType::Float32, *shape)).collect();
            DEFINITIONS[0].infer(&AddN, &facts.iter().map(Some).collect::<Vec<_>>())
        };
        assert_eq!(infer(&[&[2], &[2], &[2]]).unwrap(), [Inferred::new(DataType::Float32, [2])]);
        assert!(infer(&[&[2], &[2], &[1]]).is_err());
        assert!(infer(&[&[2]]).is_err());
    }
}

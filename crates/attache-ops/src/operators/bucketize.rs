//! BUCKETIZE: for each element, the number of boundaries that are not greater. Boundaries are sorted.

use attache_base::{DataType, Element};
use attache_gpu_ir::{BinaryOp, Expression};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::BUCKETIZE),
    versions: 1..=1,
    inputs: &[input("input").of(&[DataType::Float32, DataType::Float64, DataType::Int32, DataType::Int64])],
    parse,
}];

/// Maximum number of boundaries on a device, which compares each element with all of them in one expression.
const MOST_ON_DEVICE: usize = 256;

#[derive(Debug)]
struct Bucketize {
    /// The boundaries between buckets, in ascending order.
    boundaries: Vec<f32>,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_bucketize_options();
    let boundaries = options.ok_or_else(|| declaration.no_options())?.boundaries();
    let boundaries = boundaries.ok_or_else(|| OpError::invalid("the file gives it no boundaries"))?;
    let boundaries: Vec<f32> = boundaries.iter().collect();
    // A comparison with NaN is false, so NaN among several boundaries is not sorted.
    if !boundaries.is_sorted() {
        return Err(OpError::invalid("its boundaries are not in ascending order"));
    }
    Ok(Box::new(Bucketize { boundaries }))
}

impl Bucketize {
    /// Returns the bucket of a value; `is_less` compares it with a boundary.
    fn bucket(&self, is_less: impl Fn(f32) -> bool) -> i32 {
        self.boundaries.partition_point(|boundary| !is_less(*boundary)) as i32
    }

    fn buckets<T: Element>(&self, eval: &mut Eval<'_>, is_less: impl Fn(T, f32) -> bool) -> Result<(), OpError> {
        let input = eval.input(0)?.values::<T>()?;
        for (bucket, value) in eval.outputs[0].values::<i32>()?.iter_mut().zip(input) {
            *bucket = self.bucket(|boundary| is_less(*value, boundary));
        }
        Ok(())
    }
}

impl Operator for Bucketize {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        Ok(vec![Inferred { data_type: DataType::Int32, shape: inputs.fact(0).shape.clone() }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        match eval.input(0)?.data_type {
            // Integers are compared as floats of 32 bits, as C converts them.
            DataType::Int32 => self.buckets(eval, |value: i32, boundary| (value as f32) < boundary),
            DataType::Int64 => self.buckets(eval, |value: i64, boundary| (value as f32) < boundary),
            DataType::Float64 => self.buckets(eval, |value: f64, boundary| value < f64::from(boundary)),
            _ => self.buckets(eval, |value: f32, boundary| value < boundary),
        }
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        if self.boundaries.len() > MOST_ON_DEVICE {
            return Err(Unsupported::new(format!("more than {MOST_ON_DEVICE} boundaries on a device")));
        }
        let (value, shape) = (lowering.real_input(0)?, lowering.output_shape(0)?.clone());
        let below = |boundary: &f32| Expression::Input(0).binary(BinaryOp::Less, Expression::Constant(*boundary));
        // The number of boundaries less those that are above the value, in a balanced tree. NaN is below none.
        let mut parts: Vec<Expression> = self.boundaries.iter().map(below).collect();
        while parts.len() > 1 {
            let pairs = parts.chunks(2).map(|pair| match pair {
                [left, right] => left.clone().add(right.clone()),
                rest => rest[0].clone(),
            });
            parts = pairs.collect();
        }
        let count = Expression::Constant(self.boundaries.len() as f32);
        let bucket = parts.pop().map_or(Expression::Constant(0.0), |above| count.subtract(above));
        let output = lowering.integer_map(bucket, &shape, &[value])?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boundary_belongs_to_the_bucket_above() {
        let buckets = Bucketize { boundaries: vec![0.0, 1.0, 1.0, 5.0] };
        let bucket = |value: f32| buckets.bucket(|boundary| value < boundary);
        assert_eq!([-1.0, 0.0, 1.0, 4.9, 5.0, f32::NAN].map(bucket), [0, 1, 3, 3, 4, 4]);
    }
}

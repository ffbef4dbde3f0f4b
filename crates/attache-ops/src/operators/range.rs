//! RANGE: `start`, `start + delta`, `start + 2 × delta` and so on, up to but excluding `limit`.

use std::ops::Sub;

use attache_base::{DataType, Element};
use attache_graph::{Eval, Fact, Inferred, OpError};
use attache_model::schema::BuiltinOperator;

use crate::shared::support::{countable, only, same_type};
use crate::{Code, Definition, Facts, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::RANGE),
    versions: 1..=2,
    inputs: &[input("start").of(&TYPES), input("limit").of(&TYPES), input("delta").of(&TYPES)],
    parse: |_| Ok(Box::new(Range)),
}];

const TYPES: [DataType; 3] = [DataType::Int32, DataType::Int64, DataType::Float32];

/// RANGE, which has no attributes. Inputs: start, limit and delta, all scalars of one type.
#[derive(Debug)]
struct Range;

fn wrong(bounds: [&dyn std::fmt::Display; 3]) -> OpError {
    OpError::invalid(format!("from {} to {} there are no steps of {}", bounds[0], bounds[1], bounds[2]))
}

/// Returns the number of elements of a range of integers, `⌈|limit − start| ÷ |delta|⌉`. Fails where steps of
/// `delta` do not lead from `start` to `limit`.
fn count_integers(start: i64, limit: i64, delta: i64) -> Result<usize, OpError> {
    let way = i128::from(limit).sub(i128::from(start));
    if delta == 0 || (way != 0 && (way > 0) != (delta > 0)) {
        return Err(wrong([&start, &limit, &delta]));
    }
    let count = way.unsigned_abs().div_ceil(i128::from(delta).unsigned_abs());
    usize::try_from(count).map_err(|_| wrong([&start, &limit, &delta]))
}

/// Returns the number of elements of a range of floats: the formula of [`count_integers`], in float32.
fn count_reals(start: f32, limit: f32, delta: f32) -> Result<usize, OpError> {
    let is_right = delta > 0.0 && start <= limit || delta < 0.0 && start >= limit;
    let count = ((limit - start) / delta).abs().ceil();
    // A larger count could not be allocated; the comparison is also false for NaN.
    if is_right && count < (isize::MAX / 64) as f32 { Ok(count as usize) } else { Err(wrong([&start, &limit, &delta])) }
}

/// Returns the constant values of inputs whose elements are of type `T`; `None` where one is known only at
/// run time.
fn known<T: Element>(inputs: [&Fact; 3]) -> Option<[T; 3]> {
    let value = |input: &Fact| input.constant.as_ref()?.values::<T>()?.first().copied();
    let [start, limit, delta] = inputs.map(value);
    Some([start?, limit?, delta?])
}

/// Returns the number of elements of the output; `None` where the value of an input is known only at run
/// time.
fn count(inputs: [&Fact; 3]) -> Result<Option<usize>, OpError> {
    let counted = match inputs[0].data_type {
        DataType::Float32 => known(inputs).map(|[start, limit, delta]| count_reals(start, limit, delta)),
        DataType::Int64 => known(inputs).map(|[start, limit, delta]| count_integers(start, limit, delta)),
        _ => known::<i32>(inputs).map(|bounds| {
            let [start, limit, delta] = bounds.map(i64::from);
            count_integers(start, limit, delta)
        }),
    };
    counted.transpose()
}

/// Writes the elements of the output, which `element` computes from `start`, `delta` and the index.
fn write<T: Element>(eval: &mut Eval<'_>, element: impl Fn(T, T, usize) -> T) -> Result<(), OpError> {
    let (start, delta) = (only(eval.input(0)?)?, only(eval.input(2)?)?);
    let output = eval.outputs[0].values::<T>()?.iter_mut().enumerate();
    output.for_each(|(place, value)| *value = element(start, delta, place));
    Ok(())
}

impl Operator for Range {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let inputs = inputs.required::<3>();
        for (index, input) in inputs.into_iter().enumerate() {
            same_type(inputs[0], input)?;
            if let Some(shape) = input.shape.as_ref().filter(|shape| shape.rank() != 0) {
                return Err(OpError::invalid(format!("input {index} of shape {shape} is not a scalar")));
            }
        }
        let shape = count(inputs)?.map(|count| countable([count].into())).transpose()?;
        Ok(vec![Inferred { data_type: inputs[0].data_type, shape }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        match eval.input(0)?.data_type {
            DataType::Float32 => {
                // The elements are a running sum, like in TensorFlow Lite, so that they round equally often.
                let (start, delta) = (only::<f32>(eval.input(0)?)?, only::<f32>(eval.input(2)?)?);
                let output = eval.outputs[0].values::<f32>()?.iter_mut();
                output.fold(start, |sum, value| {
                    *value = sum;
                    sum + delta
                });
                Ok(())
            }
            DataType::Int64 => {
                write::<i64>(eval, |start, delta, place| start.wrapping_add(delta.wrapping_mul(place as i64)))
            }
            _ => write::<i32>(eval, |start, delta, place| start.wrapping_add(delta.wrapping_mul(place as i32))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_left_out() {
        assert_eq!(count_integers(2, 9, 3).unwrap(), 3);
        assert_eq!(count_integers(2, 8, 3).unwrap(), 2);
        assert_eq!(count_integers(5, -5, -4).unwrap(), 3);
        assert_eq!(count_integers(5, 5, -4).unwrap(), 0);
        assert_eq!(count_reals(0.0, 1.0, 0.25).unwrap(), 4);
        assert_eq!(count_reals(1.0, -0.5, -0.5).unwrap(), 3);
    }

    #[test]
    fn steps_must_lead_there() {
        for [start, limit, delta] in [[0, 5, 0], [0, 5, -1], [5, 0, 1]] {
            assert!(count_integers(start, limit, delta).is_err());
            assert!(count_reals(start as f32, limit as f32, delta as f32).is_err());
        }
        assert!(count_reals(0.0, f32::INFINITY, 1.0).is_err());
        assert!(count_reals(0.0, 1.0, f32::NAN).is_err());
        assert!(count_reals(f32::NAN, 1.0, 1.0).is_err());
        assert!(count_reals(0.0, 1.0, 1e-44).is_err());
        assert_eq!(count_integers(i64::MIN, i64::MAX, i64::MAX).unwrap(), 3);
    }
}

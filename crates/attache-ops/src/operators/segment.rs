//! SEGMENT_SUM, UNSORTED_SEGMENT_SUM, UNSORTED_SEGMENT_PROD, UNSORTED_SEGMENT_MAX and UNSORTED_SEGMENT_MIN: slices combined
//! to segments. Each slice has the number of its segment; the sums and products of integers wrap.
//!
//! The numbers of SEGMENT_SUM start at 0 and never fall nor skip one. Those of the others come in any order, and slices
//! with a negative number are left out. A segment without slices has the value that changes nothing: 0, 1, or the least or
//! greatest number of the type.

use attache_base::{Constant, DataType, Element, Shape};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::shared::scatter::{Places, scatter};
use crate::shared::support::{countable, refuse, single};
use crate::{Code, Definition, Facts, Input, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[
    Definition {
        code: Code::Builtin(BuiltinOperator::SEGMENT_SUM),
        versions: 1..=1,
        inputs: SORTED,
        parse: |_| Ok(Box::new(Segments { combination: Combination::Sum, is_sorted: true })),
    },
    unsorted(BuiltinOperator::UNSORTED_SEGMENT_MAX, |_| {
        Ok(Box::new(Segments { combination: Combination::Maximum, is_sorted: false }))
    }),
    unsorted(BuiltinOperator::UNSORTED_SEGMENT_MIN, |_| {
        Ok(Box::new(Segments { combination: Combination::Minimum, is_sorted: false }))
    }),
    unsorted(BuiltinOperator::UNSORTED_SEGMENT_PROD, |_| {
        Ok(Box::new(Segments { combination: Combination::Product, is_sorted: false }))
    }),
    unsorted(BuiltinOperator::UNSORTED_SEGMENT_SUM, |_| {
        Ok(Box::new(Segments { combination: Combination::Sum, is_sorted: false }))
    }),
];

const fn unsorted(code: BuiltinOperator, parse: fn(&crate::Declaration<'_>) -> crate::Parsed) -> Definition {
    Definition { code: Code::Builtin(code), versions: 1..=1, inputs: UNSORTED, parse }
}

const DATA: Input = input("data").of(&[DataType::Float32, DataType::Int32]);
const IDS: Input = input("segment_ids").of(&[DataType::Int32]);
const SORTED: &[Input] = &[DATA, IDS];
const UNSORTED: &[Input] = &[DATA, IDS, input("num_segments").of(&[DataType::Int32])];

/// How the slices of a segment become one.
#[derive(Clone, Copy, Debug)]
enum Combination {
    Sum,
    Product,
    Maximum,
    Minimum,
}

impl Combination {
    /// Returns the combination as other operators have it, and the integer and the float that it changes nothing with.
    fn start(self) -> (crate::Combination, i32, f32) {
        match self {
            Combination::Sum => (crate::Combination::Sum, 0, 0.0),
            Combination::Product => (crate::Combination::Product, 1, 1.0),
            Combination::Maximum => (crate::Combination::Maximum, i32::MIN, f32::MIN),
            Combination::Minimum => (crate::Combination::Minimum, i32::MAX, f32::MAX),
        }
    }
}

#[derive(Debug)]
struct Segments {
    combination: Combination,
    /// Whether this is SEGMENT_SUM, whose numbers ascend.
    is_sorted: bool,
}

/// Returns the number of segments of ascending numbers; fails unless they start at 0 and rise by at most 1.
fn count_sorted(ids: &[i64]) -> Result<usize, OpError> {
    let mut next = 0;
    for id in ids {
        let is_first = next == 0;
        if !(*id == next || !is_first && *id == next - 1) {
            let reason = format!("segment {id} follows {} slices of earlier segments up to {}", next, next - 1);
            return Err(OpError::invalid(format!("{reason}; numbers start at 0 and rise by at most 1")));
        }
        next = id + 1;
    }
    Ok(next as usize)
}

/// Returns the segment of each slice, `None` for those that are left out; fails where a number is too large.
fn segments(ids: &[i64], count: usize) -> Result<Vec<Option<usize>>, OpError> {
    let segment = |id: &i64| match usize::try_from(*id) {
        Ok(id) if id >= count => Err(OpError::invalid(format!("segment {id} of {count} segments"))),
        id => Ok(id.ok()),
    };
    ids.iter().map(segment).collect()
}

fn combine<T: Element>(
    eval: &mut Eval<'_>,
    segments: &[Option<usize>],
    start: T,
    function: impl Fn(T, T) -> T,
) -> Result<(), OpError> {
    let data = eval.input(0)?.values::<T>()?;
    let output = eval.outputs[0].values::<T>()?;
    output.fill(start);
    let length = (data.len() / segments.len().max(1)).max(1);
    for (slice, segment) in data.chunks_exact(length).zip(segments) {
        let Some(segment) = segment else { continue };
        let target = &mut output[segment * length..][..length];
        target.iter_mut().zip(slice).for_each(|(target, value)| *target = function(*target, *value));
    }
    Ok(())
}

impl Segments {
    /// Checks that there is a number for each slice. SEGMENT_SUM takes a list of numbers, the others take one for each
    /// index of any number of leading axes.
    fn check(&self, data: &Shape, ids: &Shape) -> Result<(), OpError> {
        let is_list = ids.rank() == 1 || !self.is_sorted;
        if is_list && data.get(..ids.rank()) == Some(ids.extents()) {
            return Ok(());
        }
        Err(OpError::invalid(format!("segments of shape {ids} for data of shape {data}")))
    }

    /// Returns the number of segments, given the values of the second and third input.
    fn count(&self, ids: Option<Vec<i64>>, count: Option<Vec<i64>>) -> Result<Option<usize>, OpError> {
        if self.is_sorted {
            return ids.map(|ids| count_sorted(&ids)).transpose();
        }
        let Some(count) = count else { return Ok(None) };
        let count = single(&count)?;
        usize::try_from(count).map(Some).map_err(|_| OpError::invalid(format!("{count} segments")))
    }
}

impl Operator for Segments {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let (data, ids) = (inputs.fact(0), inputs.fact(1));
        let count = self.count(inputs.integers(1)?, if self.is_sorted { None } else { inputs.integers(2)? })?;
        let (Some(data_shape), Some(ids)) = (&data.shape, &ids.shape) else {
            return Ok(vec![Inferred::unknown(data.data_type)]);
        };
        self.check(data_shape, ids)?;
        let shape = count.map(|count| countable([&[count], &data_shape[ids.rank()..]].concat().into())).transpose()?;
        Ok(vec![Inferred { data_type: data.data_type, shape }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let segments = segments(&eval.input(1)?.integers()?, eval.outputs[0].shape[0])?;
        let is_integer = eval.input(0)?.data_type == DataType::Int32;
        match (self.combination, is_integer) {
            (Combination::Sum, true) => combine(eval, &segments, 0, i32::wrapping_add),
            (Combination::Product, true) => combine(eval, &segments, 1, i32::wrapping_mul),
            (Combination::Maximum, true) => combine(eval, &segments, i32::MIN, i32::max),
            (Combination::Minimum, true) => combine(eval, &segments, i32::MAX, i32::min),
            (Combination::Sum, false) => combine(eval, &segments, 0.0, |a: f32, b| a + b),
            (Combination::Product, false) => combine(eval, &segments, 1.0, |a: f32, b| a * b),
            (Combination::Maximum, false) => combine(eval, &segments, f32::MIN, f32::max),
            (Combination::Minimum, false) => combine(eval, &segments, f32::MAX, f32::min),
        }
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let (data, output) = (lowering.input_shape(0)?, lowering.output_shape(0)?.clone());
        let ids = lowering.input_fact(1)?.shape.clone().unwrap_or_default();
        self.check(data, &ids).map_err(refuse)?;
        let (count, length) = (ids.elements(), data[ids.rank()..].iter().product::<usize>());
        let places = match lowering.integers(1) {
            // Constant numbers that are too large are refused: a device would leave the slices out, but the CPU reports the
            // error.
            Ok(ids) => {
                let segments = segments(&ids, output[0]).map_err(refuse)?;
                Places::Known(segments.iter().map(|segment| segment.map_or(-1, |segment| segment as i32)).collect())
            }
            Err(_) => {
                let ids = lowering.input(1)?;
                Places::Computed(lowering.reshape(ids, &[count].into())?)
            }
        };
        let (combination, integer, float) = self.combination.start();
        let data_type = lowering.input_fact(0)?.data_type;
        let start = match data_type {
            DataType::Float32 => lowering.precise_constant(Constant::from_values([], &[float]))?,
            _ => lowering.constant(Constant::from_values([], &[integer]))?,
        };
        let slices = lowering.input(0)?;
        let slices = lowering.reshape(slices, &[count, length].into())?;
        let made = scatter(lowering, (Some(combination), data_type), [start, slices], (places, output[0]))?;
        let made = lowering.reshape(made, &output)?;
        lowering.output(0, made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorted_numbers_skip_none() {
        assert_eq!(count_sorted(&[0, 0, 1, 2, 2]).unwrap(), 3);
        assert_eq!(count_sorted(&[]).unwrap(), 0);
        for ids in [&[1, 1][..], &[0, 2], &[0, 1, 0], &[-1, 0], &[0, i64::MAX]] {
            assert!(count_sorted(ids).is_err(), "{ids:?}");
        }
    }

    #[test]
    fn negative_numbers_are_left_out() {
        assert_eq!(segments(&[2, -1, 0], 3).unwrap(), [Some(2), None, Some(0)]);
        assert!(segments(&[3], 3).is_err());
    }

    #[test]
    fn each_slice_has_a_number() {
        let check = |is_sorted, data: &[usize], ids: &[usize]| {
            Segments { combination: Combination::Sum, is_sorted }.check(&data.into(), &ids.into())
        };
        assert!(check(true, &[3, 2], &[3]).is_ok() && check(false, &[3, 2], &[3, 2]).is_ok());
        assert!(check(false, &[], &[]).is_ok());
        assert!(check(true, &[3, 2], &[3, 2]).is_err());
        assert!(check(false, &[3, 2], &[2]).is_err());
        assert!(check(true, &[], &[1]).is_err());
    }
}

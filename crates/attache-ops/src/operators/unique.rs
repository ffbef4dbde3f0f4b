//! UNIQUE: the distinct elements of a list in the order in which they first occur, and for each element of the list the
//! place of its equal among them.

use std::collections::BTreeMap;

use attache_base::{DataType, Element};
use attache_graph::{Eval, Inferred, OpError, TensorRef};
use attache_model::schema::BuiltinOperator;

use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::UNIQUE),
    versions: 1..=1,
    inputs: &[input("input").of(&TYPES)],
    parse,
}];

/// Supported element types.
const TYPES: [DataType; 6] =
    [DataType::Float32, DataType::Int8, DataType::UInt8, DataType::Int16, DataType::Int32, DataType::Int64];

#[derive(Debug)]
struct Unique {
    /// The type of the places, INT32 or INT64.
    places: DataType,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_unique_options();
    let options = options.ok_or_else(|| declaration.no_options())?;
    match DataType::from_code(options.idx_out_type().0) {
        Some(places @ (DataType::Int32 | DataType::Int64)) => Ok(Box::new(Unique { places })),
        _ => Err(OpError::invalid("its places (idx_out_type) are neither of type INT32 nor of type INT64")),
    }
}

/// The places of the distinct elements in the list, in ascending order, and for each element of the list the index of its
/// equal among them.
type Distinct = (Vec<usize>, Vec<usize>);

/// Finds the distinct elements. `key` returns an element's place in an order; `None` for NaN, which no order has.
///
/// NaN counts as equal to the smallest element so far, and where it is the first element, all are equal to it. This is what
/// LiteRT's ordered map makes of comparisons that are always false.
fn distinct(keys: impl Iterator<Item = Option<i64>>) -> Distinct {
    let (mut known, mut firsts, mut indices) = (BTreeMap::new(), Vec::new(), Vec::new());
    let mut starts_with_nan = false;
    for (place, key) in keys.enumerate() {
        let smallest = known.first_key_value().map(|(_, index)| *index);
        let found = match key {
            _ if starts_with_nan => Some(0),
            Some(key) => known.get(&key).copied(),
            None => smallest,
        };
        indices.push(found.unwrap_or(firsts.len()));
        if found.is_none() {
            starts_with_nan = key.is_none();
            known.extend(key.map(|key| (key, firsts.len())));
            firsts.push(place);
        }
    }
    (firsts, indices)
}

/// Returns the order of a float; `None` for NaN. Zeros of both signs are equal.
fn float_key(value: f32) -> Option<i64> {
    let bits = (value + 0.0).to_bits() as i32;
    (!value.is_nan()).then_some(i64::from(if bits < 0 { bits ^ i32::MAX } else { bits }))
}

fn find(input: TensorRef<'_>) -> Result<Distinct, OpError> {
    fn integers<T: Element + Into<i64>>(input: TensorRef<'_>) -> Result<Distinct, OpError> {
        Ok(distinct(input.values::<T>()?.iter().map(|value| Some((*value).into()))))
    }
    match input.data_type {
        DataType::Int8 => integers::<i8>(input),
        DataType::UInt8 => integers::<u8>(input),
        DataType::Int16 => integers::<i16>(input),
        DataType::Int32 => integers::<i32>(input),
        DataType::Int64 => integers::<i64>(input),
        _ => Ok(distinct(input.values::<f32>()?.iter().map(|value| float_key(*value)))),
    }
}

impl Operator for Unique {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.fact(0);
        if let Some(shape) = input.shape.as_ref().filter(|shape| shape.rank() != 1) {
            return Err(OpError::invalid(format!("its input of shape {shape} is not a list")));
        }
        let places = Inferred { data_type: self.places, shape: input.shape.clone() };
        let (Some(shape), Some(constant)) = (&input.shape, &input.constant) else {
            return Ok(vec![Inferred::unknown(input.data_type), places]);
        };
        let bytes = constant.aligned_bytes().ok_or_else(|| OpError::invalid("input 0 has too few bytes"))?;
        let (data_type, bytes) = (input.data_type, &bytes[..]);
        let (firsts, _) = find(TensorRef { data_type, shape, bytes, quantization: None, is_constant: true })?;
        Ok(vec![Inferred::new(data_type, [firsts.len()]), places])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let input = eval.input(0)?;
        let (firsts, indices) = find(input)?;
        let [values, places] = &mut eval.outputs[..] else { return Err(OpError::invalid("it has two outputs")) };
        let size = input.data_type.bits().unwrap_or(8) / 8;
        for (target, first) in values.bytes.chunks_exact_mut(size).zip(firsts) {
            target.copy_from_slice(&input.bytes[first * size..][..size]);
        }
        match self.places {
            DataType::Int64 => {
                places.values::<i64>()?.iter_mut().zip(indices).for_each(|(to, index)| *to = index as i64);
            }
            _ => places.values::<i32>()?.iter_mut().zip(indices).for_each(|(to, index)| *to = index as i32),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use attache_base::Constant;
    use attache_graph::Fact;

    use super::*;

    #[test]
    fn equals_have_one_place() {
        let floats = |values: &[f32]| distinct(values.iter().map(|value| float_key(*value)));
        assert_eq!(floats(&[3.0, -1.0, 3.0, 0.0, -0.0]), (vec![0, 1, 3], vec![0, 1, 0, 2, 2]));
        assert_eq!(floats(&[3.0, 1.0, f32::NAN, -f32::NAN]), (vec![0, 1], vec![0, 1, 1, 1]));
        assert_eq!(floats(&[f32::NAN, 1.0, f32::NAN]), (vec![0], vec![0, 0, 0]));
    }

    #[test]
    fn the_value_tells_the_shape() {
        let unique = Unique { places: DataType::Int32 };
        let infer = |fact: Fact| DEFINITIONS[0].infer(&unique, &[Some(&fact)]);
        let constant = Fact::constant(Constant::from_values([4], &[5i64, 5, 7, 5]));
        let places = Inferred::new(DataType::Int32, [4]);
        assert_eq!(infer(constant).unwrap(), [Inferred::new(DataType::Int64, [2]), places.clone()]);
        let unknown = Inferred::unknown(DataType::Int8);
        assert_eq!(infer(Fact::new(DataType::Int8, [4])).unwrap(), [unknown, places]);
        assert!(infer(Fact::new(DataType::Int8, [4, 1])).is_err());
    }
}

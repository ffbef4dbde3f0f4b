//! HASHTABLE_LOOKUP: the rows of a table whose keys are looked for among sorted keys, and which of them were found. Rows
//! that are not found are zeros or empty strings.

use attache_base::{DataType, Shape};
use attache_graph::{Eval, Inferred, OpError, TensorMut};
use attache_model::schema::BuiltinOperator;

use crate::{Code, Definition, Facts, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::HASHTABLE_LOOKUP),
    versions: 1..=1,
    inputs: &[input("lookup").of(INT32), input("key").of(INT32), input("value")],
    parse: |_| Ok(Box::new(HashtableLookup)),
}];

const INT32: &[DataType] = &[DataType::Int32];

#[derive(Debug)]
struct HashtableLookup;

/// Returns the place of `wanted` among sorted keys. Where keys are not sorted or equal, the one that the halving of C's
/// `bsearch` meets.
fn place(keys: &[i32], wanted: i32) -> Option<usize> {
    let (mut low, mut high) = (0, keys.len());
    while low < high {
        let middle = (low + high) / 2;
        match wanted.cmp(&keys[middle]) {
            std::cmp::Ordering::Equal => return Some(middle),
            std::cmp::Ordering::Less => high = middle,
            std::cmp::Ordering::Greater => low = middle + 1,
        }
    }
    None
}

impl Operator for HashtableLookup {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let [lookup, key, value] = inputs.required();
        let movable = matches!(value.data_type.bits(), Some(8 | 16 | 32 | 64 | 128));
        if !movable && value.data_type != DataType::String {
            let data_type = value.data_type;
            return Err(OpError::unsupported(format!("input 2 (value) of type {data_type} is not implemented")));
        }
        for (name, fact) in [("lookup", lookup), ("key", key)] {
            if let Some(shape) = fact.shape.as_ref().filter(|shape| shape.rank() != 1) {
                return Err(OpError::invalid(format!("its input {name} of shape {shape} is not a list")));
            }
        }
        let (Some(lookup), Some(key), Some(shape)) = (&lookup.shape, &key.shape, &value.shape) else {
            return Ok(vec![Inferred::unknown(value.data_type), Inferred::unknown(DataType::UInt8)]);
        };
        if shape.first() != key.first() {
            return Err(OpError::invalid(format!("keys of shape {key} and values of shape {shape}")));
        }
        if value.data_type == DataType::String && shape.rank() != 1 {
            return Err(OpError::unsupported(format!("strings of shape {shape}; a list of strings is implemented")));
        }
        let rows: Shape = [&lookup[..], &shape[1..]].concat().into();
        Ok(vec![Inferred::new(value.data_type, rows), Inferred::new(DataType::UInt8, lookup.clone())])
    }

    /// True, because rows may be empty where the list of what was found is not.
    fn runs_when_empty(&self) -> bool {
        true
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (lookup, keys, value) = (eval.input(0)?, eval.input(1)?, eval.input(2)?);
        let (lookup, keys) = (lookup.values::<i32>()?, keys.values::<i32>()?);
        let [rows, hits] = &mut eval.outputs[..] else { return Err(OpError::invalid("it has two outputs")) };
        // Keys are looked for again where they are needed, since there is no room for a list of any number of places.
        let found = || lookup.iter().map(|wanted| place(keys, *wanted));
        hits.bytes.iter_mut().zip(found()).for_each(|(hit, found)| *hit = found.is_some().into());
        if value.data_type == DataType::String {
            let strings = value.strings()?;
            return eval.set_strings(0, found().map(|found| found.map_or(&[][..], |place| strings.get(place))));
        }
        copy_rows(value.bytes, found(), rows);
        Ok(())
    }
}

/// Copies the rows that were found, and zeros for the others.
fn copy_rows(values: &[u8], found: impl ExactSizeIterator<Item = Option<usize>>, rows: &mut TensorMut<'_>) {
    if rows.bytes.is_empty() {
        return;
    }
    let size = rows.bytes.len() / found.len();
    for (row, found) in rows.bytes.chunks_exact_mut(size).zip(found) {
        match found {
            Some(place) => row.copy_from_slice(&values[place * size..][..size]),
            None => row.fill(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use attache_graph::Fact;

    use super::*;

    #[test]
    fn keys_are_halved() {
        let keys = [1, 3, 5, 7, 9];
        assert_eq!(
            [1, 9, 5, 4, 10, 0].map(|wanted| place(&keys, wanted)),
            [Some(0), Some(4), Some(2), None, None, None]
        );
        assert_eq!(place(&[2, 2, 2, 2], 2), Some(2));
        assert_eq!(place(&[], 2), None);
    }

    #[test]
    fn rows_have_the_shape_of_the_values() {
        let infer = |lookup: &[usize], key: &[usize], data_type, value: &[usize]| {
            let integers = |shape: &[usize]| Fact::new(DataType::Int32, shape);
            let (lookup, key, value) = (integers(lookup), integers(key), Fact::new(data_type, value));
            DEFINITIONS[0].infer(&HashtableLookup, &[Some(&lookup), Some(&key), Some(&value)])
        };
        let rows = [Inferred::new(DataType::Int16, [2, 4]), Inferred::new(DataType::UInt8, [2])];
        assert_eq!(infer(&[2], &[3], DataType::Int16, &[3, 4]).unwrap(), rows);
        assert!(infer(&[2], &[3], DataType::Int16, &[4, 3]).is_err());
        assert!(infer(&[2, 1], &[3], DataType::Int16, &[3]).is_err());
        assert!(infer(&[2], &[3], DataType::String, &[3, 1]).is_err());
        assert!(infer(&[2], &[3], DataType::Int16, &[]).is_err());
    }
}

//! LSH_PROJECTION: bits that are alike for inputs that are alike (locality-sensitive hashing).
//!
//! A bit of a seed is whether the weighted sum, over the rows of the input, of the fingerprints of the seed's bytes and
//! the row's bytes is positive. Rows are parts of equal size of the tensor's memory, also of strings with their offsets. Dense projections return the bits of all seeds; sparse ones join the bits of each hash
//! function to an integer, which lies in a range of its own for each function.
//!
//! Source of the fingerprint: `Fingerprint64` of Google's FarmHash, which stands for good.

use attache_base::{DataType, Shape};
use attache_graph::{Eval, Inferred, OpError, TensorRef};
use attache_model::schema::{BuiltinOperator, LSHProjectionType};

use crate::shared::fingerprint::fingerprint;
use crate::shared::support::{countable, product};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::LSH_PROJECTION),
    versions: 1..=1,
    inputs: &[input("hash").float(), input("input"), input("weight").float().optional()],
    parse,
}];

/// The largest number of bits of a hash function.
const MOST_BITS: usize = 32;

#[derive(Debug)]
struct LshProjection {
    /// Whether the bits of a hash function are joined.
    is_sparse: bool,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_lshprojection_options();
    match options.ok_or_else(|| declaration.no_options())?.type_() {
        LSHProjectionType::SPARSE => Ok(Box::new(LshProjection { is_sparse: true })),
        LSHProjectionType::DENSE => Ok(Box::new(LshProjection { is_sparse: false })),
        other => Err(OpError::invalid(format!("type {} is neither SPARSE (1) nor DENSE (2)", other.0))),
    }
}

/// Returns the number of rows, and the number of bytes of each.
fn extents(rows: &TensorRef<'_>) -> [usize; 2] {
    let count = rows.shape.first().copied().unwrap_or(0);
    [count, rows.bytes.len().checked_div(count).unwrap_or(0)]
}

/// Returns the bit of a seed: whether the sum of the fingerprints of all rows, times their weights, is positive. `key` has
/// room for the seed and a row.
fn bit(seed: f32, rows: TensorRef<'_>, weights: Option<&[f32]>, key: &mut Vec<u8>) -> bool {
    let [count, size] = extents(&rows);
    key.clear();
    key.extend(seed.to_le_bytes());
    let mut sum = 0.0;
    // Any number of rows without bytes, all alike, takes no memory.
    let count = if size == 0 && weights.is_none() { count.min(1) } else { count };
    for row in 0..count {
        key.truncate(size_of::<f32>());
        key.extend_from_slice(&rows.bytes[row * size..][..size]);
        // The fingerprint counts as a signed number.
        let value = fingerprint(key) as i64 as f64;
        sum += weights.map_or(1.0, |weights| f64::from(weights[row])) * value;
    }
    sum > 0.0
}

/// Returns the number of hash functions and of the bits of each.
fn functions(hash: &Shape) -> Result<[usize; 2], OpError> {
    match *hash.extents() {
        [functions, bits] if bits <= MOST_BITS => Ok([functions, bits]),
        _ => Err(OpError::invalid(format!("seeds of shape {hash}; they must be a table of at most 32 columns"))),
    }
}

impl Operator for LshProjection {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let ([hash, input], weight) = (inputs.required(), inputs.optional(2));
        if input.data_type.bits().is_none() && input.data_type != DataType::String {
            return Err(OpError::unsupported(format!(
                "input 1 (input) of type {} is not implemented",
                input.data_type
            )));
        }
        let Some(rows) = &input.shape else { return Ok(vec![Inferred::unknown(DataType::Int32)]) };
        let Some(first) = rows.first() else {
            return Err(OpError::invalid("its input is a scalar; it must have rows"));
        };
        if let Some(weight) = weight.and_then(|weight| weight.shape.as_ref())
            && weight.extents() != [*first]
        {
            return Err(OpError::invalid(format!("weights of shape {weight} for {first} rows")));
        }
        let Some(hash) = &hash.shape else { return Ok(vec![Inferred::unknown(DataType::Int32)]) };
        let [functions, bits] = functions(hash)?;
        let length = if self.is_sparse { functions } else { functions.saturating_mul(bits) };
        Ok(vec![Inferred::new(DataType::Int32, countable([length].into())?)])
    }

    fn multiply_adds(&self, inputs: &[Option<&Shape>], _: &[&Shape]) -> Option<u64> {
        let (hash, rows) = (inputs.first().copied()??, inputs.get(1).copied()??);
        Some(product(hash).saturating_mul(product(rows).max(rows.first().copied()? as u64)))
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (hash, rows, weight) = (eval.input(0)?, eval.input(1)?, eval.optional(2));
        let [_, bits] = functions(hash.shape)?;
        let seeds = hash.values::<f32>()?;
        let weights = weight.map(|weight| weight.values::<f32>()).transpose()?;
        let output = eval.outputs[0].values::<i32>()?;
        let (mut key, [_, size]) = (Vec::new(), extents(&rows));
        let no_memory = |_| OpError::out_of_memory(format!("no memory for a copy of a row of {size} bytes"));
        key.try_reserve_exact(size.saturating_add(size_of::<f32>())).map_err(no_memory)?;
        let mut bit = |seed: &f32| i32::from(bit(*seed, rows, weights, &mut key));
        if !self.is_sparse {
            let made = seeds.iter().map(bit);
            output.iter_mut().zip(made).for_each(|(to, bit)| *to = bit);
            return Ok(());
        }
        for (index, to) in output.iter_mut().enumerate() {
            let seeds = &seeds[index * bits..][..bits];
            let join = |joined: i32, seed: &f32| joined.wrapping_shl(1) | bit(seed);
            let range = 1i32.wrapping_shl(bits as u32);
            *to = seeds.iter().fold(0, join).wrapping_add((index as i32).wrapping_mul(range));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use attache_graph::Fact;

    use super::*;

    #[test]
    fn sparse_projections_have_a_number_for_each_function() {
        let infer = |is_sparse, hash: &[usize], rows: &[usize], weights: usize| {
            let fact = |shape: &[usize]| Fact::new(DataType::Float32, shape);
            let (hash, rows, weights) = (fact(hash), Fact::new(DataType::Int32, rows), fact(&[weights]));
            DEFINITIONS[0].infer(&LshProjection { is_sparse }, &[Some(&hash), Some(&rows), Some(&weights)])
        };
        assert_eq!(infer(true, &[3, 2], &[5], 5).unwrap(), [Inferred::new(DataType::Int32, [3])]);
        assert_eq!(infer(false, &[3, 2], &[5, 7], 5).unwrap(), [Inferred::new(DataType::Int32, [6])]);
        assert!(infer(true, &[3, 33], &[5], 5).is_err() && infer(true, &[3], &[5], 5).is_err());
        assert!(infer(true, &[3, 2], &[5], 4).is_err() && infer(true, &[3, 2], &[], 4).is_err());
    }
}

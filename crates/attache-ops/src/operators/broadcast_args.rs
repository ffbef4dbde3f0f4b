//! BROADCAST_ARGS: the shape that two shapes broadcast to by NumPy's rules. All three are vectors of extents.

use attache_base::DataType;
use attache_graph::{Eval, Inferred, OpError};
use attache_model::schema::BuiltinOperator;

use crate::{Code, Definition, Facts, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::BROADCAST_ARGS),
    versions: 1..=1,
    inputs: &[input("s0").integral(), input("s1").like(0)],
    parse: |_| Ok(Box::new(BroadcastArgs)),
}];

#[derive(Debug)]
struct BroadcastArgs;

/// Returns the extents that `left` and `right` broadcast to.
fn broadcast(left: &[i64], right: &[i64]) -> Result<Vec<i64>, OpError> {
    let rank = left.len().max(right.len());
    let extent =
        |extents: &[i64], axis: usize| (axis + extents.len()).checked_sub(rank).map_or(1, |axis| extents[axis]);
    let both = (0..rank).map(|axis| match (extent(left, axis), extent(right, axis)) {
        (1, other) | (other, 1) => Ok(other),
        (a, b) if a == b => Ok(a),
        _ => Err(OpError::invalid(format!("the shapes {left:?} and {right:?} do not broadcast"))),
    });
    both.collect()
}

impl Operator for BroadcastArgs {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let (mut longest, data_type) = (Some(0), inputs.fact(0).data_type);
        for index in 0..2 {
            let length = match inputs.fact(index).shape.as_deref() {
                Some([length]) => Some(*length),
                Some(shape) => return Err(OpError::invalid(format!("input {index} of shape {shape:?} is not a list"))),
                None => None,
            };
            longest = longest.zip(length).map(|(a, b)| a.max(b));
        }
        if let (Some(left), Some(right)) = (inputs.integers(0)?, inputs.integers(1)?) {
            broadcast(&left, &right)?;
        }
        Ok(vec![Inferred { data_type, shape: longest.map(|longest| [longest].into()) }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let extents = broadcast(&eval.input(0)?.integers()?, &eval.input(1)?.integers()?)?;
        let output = &mut eval.outputs[0];
        match output.data_type {
            DataType::Int64 => output.values::<i64>()?.copy_from_slice(&extents),
            // The extents are those of inputs of 32 bits.
            _ => output.values::<i32>()?.iter_mut().zip(extents).for_each(|(to, extent)| *to = extent as i32),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ones_give_way() {
        assert_eq!(broadcast(&[1, 3], &[5, 2, 1]).unwrap(), [5, 2, 3]);
        assert_eq!(broadcast(&[], &[0]).unwrap(), [0]);
        assert_eq!(broadcast(&[0], &[5, 1]).unwrap(), [5, 0]);
        assert!(broadcast(&[2], &[3]).is_err());
    }
}

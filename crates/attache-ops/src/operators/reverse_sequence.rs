//! REVERSE_SEQUENCE: for each index of the batch axis, the first elements along another axis in reverse, as many as a list
//! says.

use attache_base::{DataType, Shape};
use attache_graph::{Eval, Inferred, OpError};
use attache_model::schema::BuiltinOperator;

use crate::shared::support::{elements, elements_mut, with_element};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::REVERSE_SEQUENCE),
    versions: 1..=1,
    inputs: &[input("input").of(&TYPES), input("seq_lengths").integral()],
    parse,
}];

/// Supported element types.
const TYPES: [DataType; 5] = [DataType::Float32, DataType::UInt8, DataType::Int16, DataType::Int32, DataType::Int64];

#[derive(Debug)]
struct ReverseSequence {
    /// The axis along which elements are reversed.
    sequence: i32,
    /// The axis whose indices have a length each.
    batch: i32,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_reverse_sequence_options();
    let options = options.ok_or_else(|| declaration.no_options())?;
    Ok(Box::new(ReverseSequence { sequence: options.seq_dim(), batch: options.batch_dim() }))
}

impl ReverseSequence {
    /// Returns the two axes. Fails unless they are two axes of the shape, and there is a length for each index of the
    /// batch axis.
    fn axes(&self, shape: &Shape, lengths: &Shape) -> Result<[usize; 2], OpError> {
        let axis = |axis: i32| usize::try_from(axis).ok().filter(|axis| *axis < shape.rank());
        let (Some(sequence), Some(batch)) = (axis(self.sequence), axis(self.batch)) else {
            let reason = format!("{shape} has no axes {} (seq_dim) and {} (batch_dim)", self.sequence, self.batch);
            return Err(OpError::invalid(reason));
        };
        if sequence == batch {
            return Err(OpError::invalid(format!("seq_dim and batch_dim are both axis {batch}")));
        }
        if lengths.extents() != [shape[batch]] {
            return Err(OpError::invalid(format!("lengths of shape {lengths} for {} sequences", shape[batch])));
        }
        Ok([sequence, batch])
    }
}

impl Operator for ReverseSequence {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let [input, lengths] = inputs.required();
        if let (Some(shape), Some(lengths)) = (&input.shape, &lengths.shape) {
            self.axes(shape, lengths)?;
        }
        Ok(vec![Inferred { data_type: input.data_type, shape: input.shape.clone() }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (input, lengths) = (eval.input(0)?, eval.input(1)?);
        let [sequence, batch] = self.axes(input.shape, lengths.shape)?;
        let extent = input.shape[sequence];
        let fits = |length: i64| match usize::try_from(length.max(0)) {
            Ok(length) if length <= extent => Ok(length),
            _ => Err(OpError::invalid(format!("a sequence of {length} elements on an axis of {extent}"))),
        };
        let lengths = lengths.integers()?.into_iter().map(fits).collect::<Result<Vec<_>, _>>()?;
        let inner = input.shape[sequence + 1..].iter().product::<usize>();
        // The index of the batch axis repeats with the elements after that axis.
        let after = input.shape[batch + 1..].iter().product::<usize>();
        let output = &mut *eval.outputs[0].bytes;
        with_element!(input.data_type, T => {
            let (input, output) = (elements::<T>(input.bytes)?, elements_mut::<T>(output)?);
            for (place, target) in output.iter_mut().enumerate() {
                let (length, at) = (lengths[place / after % lengths.len()], place / inner % extent);
                let from = if at < length { place - at * inner + (length - 1 - at) * inner } else { place };
                *target = input[from];
            }
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_axes_and_a_length_each() {
        let axes = |sequence, batch, lengths: usize| {
            ReverseSequence { sequence, batch }.axes(&[2, 3, 4].into(), &[lengths].into())
        };
        assert_eq!(axes(2, 1, 3).unwrap(), [2, 1]);
        for (sequence, batch, lengths) in [(2, 2, 4), (3, 0, 2), (-1, 0, 2), (1, -3, 2), (1, 0, 3)] {
            assert!(axes(sequence, batch, lengths).is_err(), "{sequence} {batch} {lengths}");
        }
    }
}

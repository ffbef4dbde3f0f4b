//! REVERSE_SEQUENCE: for each index of the batch axis, the first elements along another axis in reverse, as many as a list
//! says.

use attache_base::{DataType, Shape};
use attache_gpu_ir::{Gather, IntExpression, Primitive};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::shared::positions;
use crate::shared::support::{elements, elements_mut, refuse, with_element};
use crate::shared::view::{Along, View};
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

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let shape = lowering.input_shape(0)?.clone();
        let [sequence, batch] = self.axes(&shape, lowering.input_shape(1)?).map_err(refuse)?;
        let (sequences, extent) = (shape[batch], shape[sequence]);
        // The places of the elements that come to each place of each sequence. Lengths that are not those of a sequence,
        // which are an error on the CPU, are clamped.
        let lengths = lowering.input(1)?;
        let lengths = lowering.reshape(lengths, &[sequences, 1].into())?;
        let numbers = positions::list(lowering, [extent].into(), |place| place as i32)?;
        let (length, place) = (IntExpression::Input(0).clamp((0, extent as i32)), IntExpression::Input(1));
        let back = length.clone().plus(-1).subtract(place.clone());
        let places = place.clone().less(length).select(back, place);
        let places = lowering.int_map(places, &[sequences, extent].into(), &[lengths, numbers])?;
        let places = lowering.reshape(places, &[sequences, extent, 1].into())?;
        // A gather takes the two axes first.
        let others = (0..shape.rank()).filter(|axis| ![sequence, batch].contains(axis));
        let order: Vec<usize> = [batch, sequence].into_iter().chain(others).collect();
        let position = |axis: usize| order.iter().position(|other| *other == axis).unwrap_or(axis);
        let turned = |axes: &[usize], shape: &Shape| View {
            output: axes.iter().map(|axis| shape[*axis]).collect(),
            coordinates: (0..axes.len())
                .map(|axis| Along::whole(axes.iter().position(|other| *other == axis).unwrap_or(axis)))
                .collect(),
        };
        let input = lowering.input(0)?;
        let first = turned(&order, &shape).lower(lowering, input)?;
        let reversed = lowering.emit(Primitive::Gather(Gather { batch: 1, axis: 1 }), &[first, places])?;
        let back: Vec<usize> = (0..shape.rank()).map(position).collect();
        let output = turned(&back, &lowering.shape(reversed).clone()).lower(lowering, reversed)?;
        lowering.output(0, output)
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

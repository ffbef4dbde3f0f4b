//! Evaluation of operators that only move elements on tensors of strings: the operator moves the strings' places.

use attache_base::{AlignedBuffer, DataType, Shape};
use attache_graph::{Eval, OpError, TensorMut, TensorRef};

use super::inputs::{Input, Types, at};

/// Whether the evaluation reads strings that the operator, with these declared inputs, moves without looking at them.
pub(super) fn moves_strings(declared: &[Input], eval: &Eval<'_>) -> bool {
    let moves = |index: usize| match at(declared, index).map(|input| input.types) {
        Some(Types::MovableOrStrings) => true,
        Some(Types::Like(other)) => declared.get(other).is_some_and(|i| matches!(i.types, Types::MovableOrStrings)),
        _ => false,
    };
    let is_text = |input: &Option<TensorRef<'_>>| input.is_some_and(|input| input.data_type == DataType::String);
    eval.inputs.iter().enumerate().any(|(index, input)| is_text(input) && moves(index))
}

/// Evaluates an operator on 32-bit numbers that stand for the strings of all inputs, and sets each string of an output to
/// the one whose number the operator moved there.
pub(super) fn move_strings(
    evaluate: impl FnOnce(&mut Eval<'_>) -> Result<(), OpError>,
    eval: &mut Eval<'_>,
) -> Result<(), OpError> {
    let mut strings: Vec<&[u8]> = Vec::new();
    let mut places: Vec<Option<Vec<i32>>> = Vec::with_capacity(eval.inputs.len());
    for input in &eval.inputs {
        let Some(input) = input.filter(|input| input.data_type == DataType::String) else {
            places.push(None);
            continue;
        };
        let first = strings.len();
        strings.extend(input.strings()?.iter());
        let too_many = || OpError::limit_exceeded("more strings than 31 bits can count");
        let (first, end) = (i32::try_from(first), i32::try_from(strings.len()));
        places.push(Some((first.map_err(|_| too_many())?..end.map_err(|_| too_many())?).collect()));
    }
    let inputs = eval.inputs.iter().zip(&places).map(|(input, places)| match places {
        Some(places) => input.map(|input| TensorRef {
            data_type: DataType::Int32,
            bytes: bytemuck::cast_slice(places),
            is_constant: false,
            ..input
        }),
        None => *input,
    });
    let inputs = inputs.collect();
    let is_text = |output: &TensorMut<'_>| output.data_type == DataType::String;
    let made = |output: &TensorMut<'_>| {
        let elements = if is_text(output) { output.shape.elements() } else { 0 };
        let size = elements.saturating_mul(size_of::<i32>());
        AlignedBuffer::zeroed(size).map_err(|error| OpError::out_of_memory(error.to_string()))
    };
    let mut made: Vec<AlignedBuffer> = eval.outputs.iter().map(made).collect::<Result<_, _>>()?;
    let shapes: Vec<Shape> = eval.outputs.iter().map(|output| output.shape.clone()).collect();
    let outputs =
        eval.outputs.iter_mut().zip(&mut made).zip(&shapes).map(|((output, made), shape)| match output.data_type {
            DataType::String => TensorMut { data_type: DataType::Int32, shape, bytes: made, quantization: None },
            data_type => TensorMut { data_type, shape, bytes: &mut *output.bytes, quantization: output.quantization },
        });
    let outputs = outputs.collect();
    let (cache, parallel) = (&mut *eval.cache, eval.parallel);
    evaluate(&mut Eval { inputs, outputs, cache, parallel, host: &mut *eval.host })?;
    for (index, made) in made.iter().enumerate() {
        if !is_text(&eval.outputs[index]) {
            continue;
        }
        let places: &[i32] = bytemuck::cast_slice(made);
        if places.iter().any(|place| usize::try_from(*place).map_or(true, |place| place >= strings.len())) {
            return Err(OpError::invalid("it moves a string that no input has"));
        }
        eval.set_strings(index, places.iter().map(|place| strings[*place as usize]))?;
    }
    Ok(())
}

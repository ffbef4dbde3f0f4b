//! Evaluation of operators that only move elements on tensors of strings: the operator moves the strings' places.

use attache_base::{AlignedBuffer, DataType, Strings};
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

/// The strings of all inputs of an evaluation, numbered from the first input's on. They are not listed, since there may be
/// far more of them than a list has room for.
struct Numbered<'a>(Vec<Strings<'a>>);

impl<'a> Numbered<'a> {
    /// Returns the string with this number.
    fn get(&self, number: i32) -> Option<&'a [u8]> {
        let mut index = usize::try_from(number).ok()?;
        for strings in &self.0 {
            match index.checked_sub(strings.len()) {
                Some(rest) => index = rest,
                None => return Some(strings.get(index)),
            }
        }
        None
    }
}

/// Returns memory for the numbers of this many strings.
fn numbers(elements: usize) -> Result<AlignedBuffer, OpError> {
    AlignedBuffer::zeroed(elements.saturating_mul(size_of::<i32>()))
        .map_err(|error| OpError::out_of_memory(format!("the places of {elements} strings: {error}")))
}

/// Evaluates an operator on 32-bit numbers that stand for the strings of all inputs, and sets each string of an output to
/// the one whose number the operator moved there.
pub(super) fn move_strings(
    evaluate: impl FnOnce(&mut Eval<'_>) -> Result<(), OpError>,
    eval: &mut Eval<'_>,
) -> Result<(), OpError> {
    let (mut strings, mut end) = (Numbered(Vec::new()), 0);
    let mut places: Vec<Option<AlignedBuffer>> = Vec::with_capacity(eval.inputs.len());
    for input in &eval.inputs {
        let Some(input) = input.filter(|input| input.data_type == DataType::String) else {
            places.push(None);
            continue;
        };
        let of_input = input.strings()?;
        let mut numbered = numbers(of_input.len())?;
        for number in bytemuck::cast_slice_mut::<u8, i32>(&mut numbered) {
            *number = end;
            end = i32::checked_add(end, 1).ok_or_else(|| OpError::limit_exceeded("more strings than 31 bits count"))?;
        }
        strings.0.push(of_input);
        places.push(Some(numbered));
    }
    let inputs = eval.inputs.iter().zip(&places).map(|(input, places)| match places {
        Some(bytes) => input.map(|input| TensorRef { data_type: DataType::Int32, bytes, is_constant: false, ..input }),
        None => *input,
    });
    let inputs = inputs.collect();
    let is_text = |output: &TensorMut<'_>| output.data_type == DataType::String;
    let made = |output: &TensorMut<'_>| numbers(if is_text(output) { output.shape.elements() } else { 0 });
    let mut made: Vec<AlignedBuffer> = eval.outputs.iter().map(made).collect::<Result<_, _>>()?;
    let outputs = eval.outputs.iter_mut().zip(&mut made).map(|(output, made)| match is_text(output) {
        true => TensorMut { data_type: DataType::Int32, shape: output.shape, bytes: made, quantization: None },
        false => TensorMut { bytes: &mut *output.bytes, ..*output },
    });
    let outputs = outputs.collect();
    let (cache, parallel) = (&mut *eval.cache, eval.parallel);
    evaluate(&mut Eval { inputs, outputs, cache, parallel, host: &mut *eval.host })?;
    drop(places);
    for (index, made) in made.iter().enumerate() {
        if !is_text(&eval.outputs[index]) {
            continue;
        }
        let moved = bytemuck::cast_slice::<u8, i32>(made).iter().map(|number| strings.get(*number));
        if moved.clone().any(|string| string.is_none()) {
            return Err(OpError::invalid("it moves a string that no input has"));
        }
        eval.set_strings(index, moved.map(Option::unwrap_or_default))?;
    }
    Ok(())
}

//! Evaluation of operators on floats of 16 bits: the operator computes with float32, and each result is rounded once, as in
//! TensorFlow Lite's kernels for these types.

use attache_base::{AlignedBuffer, DataType, Shape};
use attache_graph::{Eval, Fact, Inferred, OpError, TensorMut, TensorRef};
use half::{bf16, f16};

use super::inputs::{Input, at};

/// The type of the inputs' floats of 16 bits, where the operator, with these declared inputs, computes them as float32.
pub(super) fn narrow(declared: &[Input], types: impl Iterator<Item = Option<DataType>>) -> Option<DataType> {
    if cfg!(attache_small) {
        return None;
    }
    let is_narrow = |is: &DataType| matches!(is, DataType::Float16 | DataType::BFloat16);
    let takes = |index: usize| at(declared, index).is_some_and(|input| input.is_narrow_too);
    types.enumerate().find_map(|(index, is)| is.filter(|is| is_narrow(is) && takes(index)))
}

/// Returns the facts that an operator gets which computes floats of type `narrow` as float32.
pub(super) fn widened(narrow: DataType, inputs: &[Option<&Fact>]) -> Result<Vec<Option<Fact>>, OpError> {
    if inputs.iter().flatten().any(|fact| fact.data_type == DataType::Float32) {
        return Err(OpError::invalid(format!("one input is of type {narrow}, another of type FLOAT32")));
    }
    let widened = |fact: &Fact| match fact.data_type == narrow {
        true => Fact { constant: None, data_type: DataType::Float32, ..fact.clone() },
        false => fact.clone(),
    };
    Ok(inputs.iter().map(|fact| fact.map(widened)).collect())
}

/// Gives the outputs that an operator infers as float32 the type of its inputs.
pub(super) fn narrowed(narrow: DataType, mut outputs: Vec<Inferred>) -> Vec<Inferred> {
    let floats = outputs.iter_mut().filter(|output| output.data_type == DataType::Float32);
    floats.for_each(|output| output.data_type = narrow);
    outputs
}

/// Returns the bytes of scratch memory of [`compute`], for inputs and outputs of these shapes.
pub(super) fn scratch<'a>(shapes: impl Iterator<Item = &'a Shape>) -> u64 {
    shapes.fold(0, |sum, shape| sum.saturating_add((shape.elements() as u64).saturating_mul(4)))
}

/// Evaluates an operator on floats of type `narrow`.
pub(super) fn compute(
    narrow: DataType,
    evaluate: &dyn Fn(&mut Eval<'_>) -> Result<(), OpError>,
    eval: &mut Eval<'_>,
) -> Result<(), OpError> {
    let mut wide = Vec::with_capacity(eval.inputs.len());
    for input in &eval.inputs {
        let input = input.filter(|input| input.data_type == narrow);
        wide.push(input.map(|input| widen(&input)).transpose()?);
    }
    let inputs = eval.inputs.iter().zip(&wide).map(|(input, wide)| match wide {
        Some(bytes) => {
            input.map(|input| TensorRef { data_type: DataType::Float32, bytes, is_constant: false, ..input })
        }
        None => *input,
    });
    let inputs = inputs.collect();
    let is_narrow = |output: &TensorMut<'_>| output.data_type == narrow;
    let made = |output: &TensorMut<'_>| memory(if is_narrow(output) { output.shape.elements() } else { 0 });
    let mut made: Vec<AlignedBuffer> = eval.outputs.iter().map(made).collect::<Result<_, _>>()?;
    let outputs = eval.outputs.iter_mut().zip(&mut made).map(|(output, made)| match is_narrow(output) {
        true => TensorMut { data_type: DataType::Float32, shape: output.shape, bytes: made, quantization: None },
        false => TensorMut { bytes: &mut *output.bytes, ..*output },
    });
    let outputs = outputs.collect();
    let (cache, parallel) = (&mut *eval.cache, eval.parallel);
    evaluate(&mut Eval { inputs, outputs, cache, parallel, host: &mut *eval.host })?;
    for (output, made) in eval.outputs.iter_mut().zip(&made).filter(|(output, _)| is_narrow(output)) {
        let places: &mut [u16] = bytemuck::cast_slice_mut(output.bytes);
        let round = if narrow == DataType::Float16 { to_f16 } else { to_bf16 };
        places.iter_mut().zip(bytemuck::cast_slice(made)).for_each(|(place, value)| *place = round(*value));
    }
    Ok(())
}

fn memory(elements: usize) -> Result<AlignedBuffer, OpError> {
    AlignedBuffer::zeroed(elements.saturating_mul(size_of::<f32>()))
        .map_err(|error| OpError::out_of_memory(error.to_string()))
}

/// Returns the elements of a tensor of floats of 16 bits as float32, which is exact.
fn widen(input: &TensorRef<'_>) -> Result<AlignedBuffer, OpError> {
    let mut wide = memory(input.shape.elements())?;
    let values: &mut [f32] = bytemuck::cast_slice_mut(&mut wide);
    let from = if input.data_type == DataType::Float16 { from_f16 } else { from_bf16 };
    values.iter_mut().zip(bytemuck::cast_slice(input.bytes)).for_each(|(value, bits)| *value = from(*bits));
    Ok(wide)
}

/// Rounds a result. What is finite stays so, as TensorFlow Lite clamps sums and products to the finite values of the type.
fn to_f16(value: f32) -> u16 {
    let most = f16::MAX.to_f32();
    f16::from_f32(if value.is_finite() { value.clamp(-most, most) } else { value }).to_bits()
}

fn to_bf16(value: f32) -> u16 {
    bf16::from_f32(value).to_bits()
}

fn from_f16(bits: u16) -> f32 {
    f16::from_bits(bits).to_f32()
}

fn from_bf16(bits: u16) -> f32 {
    bf16::from_bits(bits).to_f32()
}

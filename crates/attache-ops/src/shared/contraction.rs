//! Shared by the quantized convolutions and matrix products: which combinations of element types are valid,
//! the requantization of sums, and evaluation and lowering of convolutions of any kind of window.
//!
//! There are three quantized arithmetics: 8-bit activations times weights of 8, 4 or 2 bits; 16-bit
//! activations times such weights, with 64-bit sums; and float activations that are quantized at run time
//! ("dynamic range"). Source: TensorFlow Lite's reference kernels.

mod exact;
mod int16x8_exact;
mod primitive;
mod view;

use std::any::Any;
use std::borrow::Cow;

use attache_base::{Activation, DataType, Quantization, small_integers};
use attache_gpu_ir::ValueId;
use attache_graph::{Cache, Eval, Lowering, OpError, TensorMut, TensorRef, Unsupported};
use attache_kernels::convolution::Convolution;
use attache_kernels::quantized::{
    ColumnScales, GemmEpilogue, Int16x8Epilogue, Int16x8Rounding, Multiplier, Operand, PackedIntegerDepthwise,
    PackedIntegerFilter, PackedIntegerTransposeFilter, Requantize, Rescale, Rounding, Zero, convolve, depthwise,
    quantize, transpose_convolve,
};
use attache_kernels::{Engine, Isa, scratch};

use crate::Facts;
use crate::definition::one_of;
use crate::shared::fused;
use crate::shared::quantized::{QuantizationParameters, activation_range};
use crate::shared::xnn_pack;

use exact::lower_bytes;
use int16x8_exact::lower_int16x8;

pub(crate) use exact::{OperandLayout, bias_of};
pub(crate) use int16x8_exact::{finish_int16x8, int16x8_parameters, int16x8_sums};
#[cfg(test)]
pub(crate) use primitive::check_reach;
pub(crate) use primitive::contract;
pub(crate) use view::round_twice;

/// The arithmetic of a convolution or matrix product, selected by the types of activations and weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    /// Float activations and float weights.
    Float,
    /// 8-bit activations with weights of 8, 4 or 2 bits, and 32-bit sums.
    Bytes,
    /// 16-bit activations with weights of 8, 4 or 2 bits, and 64-bit sums.
    Wide,
    /// Float activations, which are quantized to 8 bits at run time, with weights of 8, 4 or 2 bits.
    Dynamic,
}

impl Arithmetic {
    /// Returns the arithmetic for activations and weights of these types; an error for an unsupported
    /// combination.
    pub(crate) fn of(activations: DataType, weights: DataType) -> Result<Self, OpError> {
        match (activations, weights) {
            (DataType::Float32, DataType::Float32) => Ok(Self::Float),
            (DataType::Int8, DataType::Int8 | DataType::Int4 | DataType::Int2) | (DataType::UInt8, DataType::UInt8) => {
                Ok(Self::Bytes)
            }
            (DataType::Int16, DataType::Int8 | DataType::Int4 | DataType::Int2) => Ok(Self::Wide),
            (DataType::Float32, DataType::Int8 | DataType::Int4 | DataType::Int2) => Ok(Self::Dynamic),
            _ => Err(OpError::unsupported(format!("weights of type {weights} with activations of type {activations}"))),
        }
    }

    /// Returns the arithmetic of an operator's inputs, and the type of the activations. `operands` are the
    /// input indices of activations, weights and bias. An error where types or scales do not match. Weights
    /// with several scales must have them along `axis`.
    pub(crate) fn check(inputs: Facts<'_>, operands: [usize; 3], axis: usize) -> Result<(Self, DataType), OpError> {
        let [activations, weights] = [0, 1].map(|index| inputs.fact(operands[index]));
        let arithmetic = Self::of(activations.data_type, weights.data_type)?;
        arithmetic.check_types(inputs, operands, axis)?;
        Ok((arithmetic, activations.data_type))
    }

    /// Checks the bias and the scales of an operator's inputs as [`check`](Self::check) does.
    pub(crate) fn check_types(self, inputs: Facts<'_>, operands: [usize; 3], axis: usize) -> Result<(), OpError> {
        let (arithmetic, [activations, weights]) = (self, [0, 1].map(|index| inputs.fact(operands[index])));
        self.check_bias(inputs, operands[2])?;
        if let Self::Bytes | Self::Wide = arithmetic {
            QuantizationParameters::of_input(activations.data_type, activations.quantization.as_ref())?;
        }
        if arithmetic != Self::Float {
            let outputs = weights.shape.as_ref().and_then(|shape| shape.get(axis).copied());
            WeightScales::new(weights.data_type, weights.quantization.as_ref(), axis, outputs)?;
        }
        Ok(())
    }

    /// Checks the type of the bias, the optional input with this index.
    pub(crate) fn check_bias(self, inputs: Facts<'_>, index: usize) -> Result<(), OpError> {
        let Some(bias) = inputs.optional(index) else { return Ok(()) };
        let allowed: &[DataType] = match self {
            Self::Float | Self::Dynamic => &[DataType::Float32],
            Self::Bytes => &[DataType::Int32],
            Self::Wide => &[DataType::Int64, DataType::Int32],
        };
        one_of(format_args!("input {index}"), bias.data_type, allowed)
    }
}

/// The scales of weights (one, or one for each output channel), and their single zero point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct WeightScales<'a> {
    /// One scale, or one for each output channel.
    pub(crate) scales: &'a [f32],
    pub(crate) zero_point: i32,
}

impl<'a> WeightScales<'a> {
    /// Returns the scales of weights; an error unless there is one, or one for each output channel along
    /// `axis`. `outputs` is the number of output channels, where it is known.
    pub(crate) fn new(
        data_type: DataType,
        quantization: Option<&'a Quantization>,
        axis: usize,
        outputs: Option<usize>,
    ) -> Result<Self, OpError> {
        let quantization = quantization.ok_or_else(no_scale)?;
        let Quantization { scale: scales, zero_point, axis: stated } = quantization;
        if scales.len() == 1 {
            let affine = QuantizationParameters::new(data_type, Some(quantization))?;
            return Ok(Self { scales, zero_point: affine.zero_point });
        }
        let wrong = |reason: String| Err(OpError::invalid(format!("the weights' scales: {reason}")));
        if scales.is_empty() || outputs.is_some_and(|outputs| outputs != scales.len()) || *stated != axis {
            return wrong(format!("{} along axis {stated}; outputs are counted along axis {axis}", scales.len()));
        }
        match scales.iter().find(|scale| !scale.is_finite() || **scale <= 0.0) {
            Some(scale) => wrong(format!("{scale} is none")),
            None if zero_point.iter().any(|point| *point != 0) => wrong("their zero points are not 0".to_owned()),
            None => Ok(Self { scales, zero_point: 0 }),
        }
    }

    /// Returns the scales of a tensor of weights whose output channels are along `axis`.
    pub(crate) fn of(weights: &TensorRef<'a>, axis: usize) -> Result<Self, OpError> {
        Self::new(weights.data_type, weights.quantization, axis, weights.shape.get(axis).copied())
    }

    /// Returns the scales of weights for which [`Self::of`] has returned some before.
    pub(crate) fn checked(weights: &TensorRef<'a>) -> Result<Self, OpError> {
        let quantization = weights.quantization.ok_or_else(no_scale)?;
        let zero_point = quantization.zero_point.first().map_or(0, |point| *point as i32);
        Ok(Self { scales: &quantization.scale, zero_point })
    }

    /// Returns these scales with the zero point 0 for weights with a sign: TensorFlow Lite's convolutions multiply these as
    /// they are stored.
    pub(crate) fn as_stored(self, data_type: DataType) -> Self {
        Self { zero_point: if data_type == DataType::UInt8 { self.zero_point } else { 0 }, ..self }
    }

    /// Returns these scales; an error for signed weights with a zero point other than 0, which the kernels do
    /// not implement.
    pub(crate) fn symmetric(self, data_type: DataType) -> Result<Self, OpError> {
        match data_type {
            DataType::UInt8 => Ok(self),
            _ if self.zero_point == 0 => Ok(self),
            _ => Err(OpError::unsupported("weights with a sign whose zero point is not 0")),
        }
    }
}

fn no_scale() -> OpError {
    OpError::invalid("weights of integers without a scale")
}

/// Returns weights as one byte each. Weights of less than 8 bits are unpacked.
pub(crate) fn weight_bytes<'a>(weights: &TensorRef<'a>) -> Cow<'a, [u8]> {
    match small_integers::unpack(weights.data_type, weights.bytes, weights.shape.elements()) {
        Some(weights) => weights.into_iter().map(|weight| weight as u8).collect(),
        None => Cow::Borrowed(weights.bytes),
    }
}

/// Returns the description of a zero point for kernels: whether the elements are signed, and the zero point.
fn zero(data_type: DataType, point: i32) -> Zero {
    Zero { signed: data_type != DataType::UInt8, point }
}

/// Returns the description of the zero point of 8-bit activations, for kernels.
pub(crate) fn zero_of(input: &TensorRef<'_>) -> Result<Zero, OpError> {
    let affine = QuantizationParameters::of_input(input.data_type, input.quantization)?;
    Ok(zero(input.data_type, affine.zero_point))
}

/// The quantization parameters and bounds with which sums of products of quantized elements are requantized
/// to the output.
pub(crate) struct RequantizationParameters<'a> {
    data_type: DataType,
    input: QuantizationParameters,
    weights: WeightScales<'a>,
    output: QuantizationParameters,
    /// The smallest and the largest element of the output, as limited by its type and the fused activation.
    bounds: (i32, i32),
}

/// The floating-point precision in which the scales of activations and weights are multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScalePrecision {
    Single,
    Double,
}

impl ScalePrecision {
    /// Returns the precision for a convolution with activations of this type. TensorFlow Lite's `UINT8`
    /// kernels predate the multiplication in double precision and use single precision.
    pub(crate) fn of(activations: DataType) -> Self {
        if activations == DataType::UInt8 { ScalePrecision::Single } else { ScalePrecision::Double }
    }
}

impl<'a> RequantizationParameters<'a> {
    /// Returns the requantization for these tensors and a fused activation. An error where quantization
    /// parameters are missing or invalid, or where the activation lets no value through.
    pub(crate) fn new(
        input: &TensorRef<'a>,
        weights: WeightScales<'a>,
        output: &TensorMut<'a>,
        activation: Activation,
    ) -> Result<Self, OpError> {
        let (input, output) = ((input.data_type, input.quantization), (output.data_type, output.quantization));
        Self::of_types(input, weights, output, activation)
    }

    fn of_types(
        input: (DataType, Option<&Quantization>),
        weights: WeightScales<'a>,
        output: (DataType, Option<&Quantization>),
        activation: Activation,
    ) -> Result<Self, OpError> {
        let (from, to) =
            (QuantizationParameters::of_input(input.0, input.1)?, QuantizationParameters::new(output.0, output.1)?);
        let bounds = activation_range(activation, output.0, to)?;
        if bounds.0 > bounds.1 {
            return Err(OpError::invalid("its activation lets no number of its output through"));
        }
        Ok(Self { data_type: input.0, input: from, weights, output: to, bounds })
    }

    /// Returns the zero point of the input and whether its elements are signed, as kernels take them.
    pub(crate) fn input(&self) -> Zero {
        zero(self.data_type, self.input.zero_point)
    }

    /// Returns the weights' bytes with their zero point, as kernels take them.
    pub(crate) fn weights<'b>(&self, bytes: &'b [u8]) -> Operand<'b> {
        Operand { bytes, zero: zero(self.data_type, self.weights.zero_point) }
    }

    /// Returns the factors by which sums are multiplied to requantize them: one, or one for each output
    /// channel. `product` is the precision in which scales are multiplied.
    fn factors(&self, product: ScalePrecision) -> Vec<Multiplier> {
        let (input, output) = (self.input.scale, f64::from(self.output.scale));
        let factor = |weight: &f32| match product {
            ScalePrecision::Single => f64::from(input * weight) / output,
            ScalePrecision::Double => f64::from(input) * f64::from(*weight) / output,
        };
        self.weights.scales.iter().map(|weight| Multiplier::new(factor(weight))).collect()
    }

    /// Returns the GEMM epilogue that requantizes 32-bit sums of `outputs` output channels to 8-bit elements.
    pub(crate) fn requantize(&self, outputs: usize, rounding: Rounding, product: ScalePrecision) -> Requantize {
        Requantize::new(&self.factors(product), outputs, rounding, self.output.zero_point, self.bounds)
    }

    /// Returns the GEMM epilogue that requantizes 64-bit sums to 16-bit elements. An error unless the zero
    /// points of input and output are 0.
    pub(crate) fn int16x8(
        &self,
        rounding: Int16x8Rounding,
        product: ScalePrecision,
    ) -> Result<Int16x8Epilogue, OpError> {
        if self.input.zero_point != 0 || self.output.zero_point != 0 {
            return Err(OpError::invalid("a zero point of 16-bit numbers that is not 0"));
        }
        Ok(Int16x8Epilogue { factors: self.factors(product), rounding, zero_point: 0, bounds: self.bounds })
    }

    /// Returns the zero point of the weights.
    pub(crate) fn weight_zero_point(&self) -> i32 {
        self.weights.zero_point
    }
}

/// Emits a convolution of quantized elements, stored as 8-bit or 16-bit integers, and returns its result.
pub(crate) fn lower_stored<'a>(
    lowering: &mut Lowering<'a>,
    convolution: &Convolution,
    layout: &OperandLayout,
    activation: Activation,
) -> Result<ValueId, Unsupported> {
    let lower = match lowering.input_fact(layout.operands[0])?.data_type {
        DataType::Int16 => lower_int16x8,
        _ => lower_bytes,
    };
    lower(lowering, convolution, layout, activation)
}

/// Returns the elements of an optional bias of 32-bit integers; an error where it has another type.
pub(crate) fn narrow_bias(bias: Option<TensorRef<'_>>) -> Result<Option<&[i32]>, OpError> {
    bias.map(|bias| bias.values()).transpose()
}

/// Returns the elements of an optional bias of 32-bit or 64-bit integers; an error where it has another type.
pub(crate) fn int16x8_bias(bias: Option<TensorRef<'_>>) -> Result<Option<Vec<i64>>, OpError> {
    bias.map(|bias| bias.integers()).transpose()
}

/// Returns how sums of convolutions of 16-bit elements are rounded with a bias of this type: as TensorFlow Lite's kernels for
/// 64-bit sums do, or for 32-bit ones if the bias has as many.
fn int16x8_rounding(bias: Option<DataType>) -> Int16x8Rounding {
    if bias == Some(DataType::Int32) { Int16x8Rounding::Twice } else { Int16x8Rounding::Short }
}

/// Whether all of these tensors are constants.
pub(crate) fn is_constant(tensors: &[Option<TensorRef<'_>>]) -> bool {
    tensors.iter().flatten().all(|tensor| tensor.is_constant)
}

/// Calls `work` with the result of `make`, which is cached from run to run where all of `weights` are
/// constant. `make` may also depend on the numbers that `parameters` returns.
pub(crate) fn with_kept<P: Any + Send + Sync>(
    cache: &mut Cache,
    weights: &[Option<TensorRef<'_>>],
    parameters: impl FnOnce() -> Vec<usize>,
    make: impl FnOnce() -> P,
    work: impl FnOnce(&P),
) {
    if is_constant(weights) { work(cache.get_or_make_for(parameters, make)) } else { work(&make()) }
}

/// Packed weights of integer convolutions: ordinary, depthwise or transposed ones.
pub(crate) trait Packed: Any + Send + Sync {
    /// Returns the numbers, besides filter, bias and zero point, on which the packed form depends.
    fn parameters(convolution: &Convolution) -> Vec<usize>;

    /// Packs filter and bias for an instruction set and for inputs with the zero point `input`.
    fn pack(isa: Isa, convolution: &Convolution, filter: Operand<'_>, bias: Option<&[i32]>, input: Zero) -> Self;

    /// Computes the convolution of `input`; `epilogue` converts the sums to elements of the output.
    fn run<F: GemmEpilogue>(
        &self,
        engine: Engine<'_>,
        convolution: &Convolution,
        input: Operand<'_>,
        epilogue: &F,
        output: &mut [F::Output],
    );
}

macro_rules! packed {
    ($($weights:ident by $kernel:ident),*) => {$(
        impl Packed for $weights {
            fn parameters(convolution: &Convolution) -> Vec<usize> {
                $weights::parameters(convolution)
            }

            fn pack(
                isa: Isa,
                convolution: &Convolution,
                filter: Operand<'_>,
                bias: Option<&[i32]>,
                input: Zero,
            ) -> Self {
                $weights::pack(isa, convolution, filter, bias, input)
            }

            fn run<F: GemmEpilogue>(
                &self,
                engine: Engine<'_>,
                convolution: &Convolution,
                input: Operand<'_>,
                epilogue: &F,
                output: &mut [F::Output],
            ) {
                $kernel(engine, convolution, input, self, epilogue, output);
            }
        }
    )*};
}

packed!(PackedIntegerFilter by convolve, PackedIntegerDepthwise by depthwise,
    PackedIntegerTransposeFilter by transpose_convolve);

/// Computes a convolution of 8-bit elements on the CPU, as output 0. `operands` are the input indices of
/// image, filter and bias; `axis` is the filter's axis of output channels, along which it may have several
/// scales. `may_round_once` states that XNNPACK may take the node, where its rounding is asked for.
pub(crate) fn eval_bytes<P: Packed>(
    eval: &mut Eval<'_>,
    convolution: &Convolution,
    operands: [usize; 3],
    axis: usize,
    (activation, may_round_once): (Activation, bool),
) -> Result<(), OpError> {
    let (input, filter, bias) = (eval.input(operands[0])?, eval.input(operands[1])?, eval.optional(operands[2]));
    let weights = [Some(filter), bias];
    // What is kept was checked when it was made.
    if is_constant(&weights)
        && let Some((packed, epilogue)) = eval.cache.get_for::<(P, Requantize)>(|| P::parameters(convolution))
    {
        let operand = Operand { bytes: input.bytes, zero: zero_of(&input)? };
        packed.run(Engine::new(eval.parallel), convolution, operand, epilogue, eval.outputs[0].bytes);
        return Ok(());
    }
    let scales = WeightScales::of(&filter, axis)?.as_stored(filter.data_type);
    let requantization = RequantizationParameters::new(&input, scales, &eval.outputs[0], activation)?;
    let (product, outputs) = (ScalePrecision::of(input.data_type), convolution.output[2]);
    let (engine, integers) = (Engine::new(eval.parallel), narrow_bias(bias)?);
    let is_asked = may_round_once && bias.is_some() && xnn_pack::is_asked(eval);
    let result = (eval.outputs[0].data_type, eval.outputs[0].quantization);
    let once = || xnn_pack::requantize(&input, (&filter, bias), result, (activation, outputs));
    let make = || {
        let bytes = weight_bytes(&filter);
        let packed = P::pack(engine.isa, convolution, requantization.weights(&bytes), integers, requantization.input());
        let once = is_asked.then(once).flatten();
        (packed, once.unwrap_or_else(|| requantization.requantize(outputs, Rounding::Twice, product)))
    };
    let operand = Operand { bytes: input.bytes, zero: requantization.input() };
    let output = &mut *eval.outputs[0].bytes;
    with_kept(
        eval.cache,
        &weights,
        || P::parameters(convolution),
        make,
        |(packed, epilogue)| packed.run(engine, convolution, operand, epilogue, output),
    );
    Ok(())
}

/// Largest image whose elements are quantized in scratch memory, in bytes.
const LARGEST_KEPT: usize = 1 << 20;

/// Computes a convolution of floats with quantized weights on the CPU, as output 0. Each image is quantized
/// to bytes: symmetrically where `is_symmetric` is set and the filter has one scale, else with a zero point.
/// `operands` and `axis` are as in [`eval_bytes`].
pub(crate) fn eval_dynamic<P: Packed>(
    eval: &mut Eval<'_>,
    convolution: &Convolution,
    operands: [usize; 3],
    axis: usize,
    activation: Activation,
    is_symmetric: bool,
) -> Result<(), OpError> {
    let (input, filter, bias) = (eval.input(operands[0])?, eval.input(operands[1])?, eval.optional(operands[2]));
    let scales = WeightScales::of(&filter, axis)?.symmetric(filter.data_type)?;
    let bias = bias.map(|bias| bias.values::<f32>()).transpose()?;
    let (engine, outputs) = (Engine::new(eval.parallel), convolution.output[2]);
    let (values, output) = (input.values::<f32>()?, eval.outputs[0].values::<f32>()?);
    let (one, batches) = (Convolution { batches: 1, ..*convolution }, convolution.batches.max(1));
    let (image, size) = (values.len() / batches, output.len() / batches);
    let make = || {
        let (bytes, bias) = (weight_bytes(&filter), None);
        let weights = Operand { bytes: &bytes, zero: Zero { signed: true, point: 0 } };
        P::pack(engine.isa, convolution, weights, bias, Zero::UNKNOWN)
    };
    let (columns, is_symmetric) =
        (ColumnScales::new(scales.scales, bias, outputs), is_symmetric && scales.scales.len() == 1);
    with_kept(
        eval.cache,
        &[Some(filter)],
        || P::parameters(convolution),
        make,
        |packed| {
            let mut compute = |bytes: &mut [u8]| {
                for (batch, output) in output.chunks_exact_mut(size.max(1)).enumerate() {
                    let (scale, point) = quantize(engine, &values[batch * image..][..image], is_symmetric, bytes);
                    let (scales, points) = ([scale], [point]);
                    let epilogue = Rescale::new(&columns, &scales, &points, fused::clamp(activation));
                    let input = Operand { bytes, zero: Zero { signed: true, point } };
                    packed.run(engine, &one, input, &epilogue, output);
                }
            };
            // Threads keep scratch memory, which shall not be large.
            if image <= LARGEST_KEPT { scratch::with(image, compute) } else { compute(&mut vec![0; image]) }
        },
    );
    fused::finish(engine, activation, output);
    Ok(())
}

/// The epilogue, the filter (one byte per weight) and the bias of a convolution of 16-bit elements.
pub(crate) type Int16x8Parts<'a> = (Int16x8Epilogue, Cow<'a, [u8]>, Option<Vec<i64>>);

/// Returns the epilogue, the filter and the bias of a convolution of 16-bit elements on the CPU. `operands`
/// and `axis` are as in [`eval_bytes`].
pub(crate) fn int16x8_parts<'a>(
    eval: &Eval<'a>,
    operands: [usize; 3],
    axis: usize,
    activation: Activation,
) -> Result<Int16x8Parts<'a>, OpError> {
    let (input, filter, bias) = (eval.input(operands[0])?, eval.input(operands[1])?, eval.optional(operands[2]));
    let scales = WeightScales::of(&filter, axis)?.as_stored(filter.data_type);
    let requantization = RequantizationParameters::new(&input, scales, &eval.outputs[0], activation)?;
    let rounding = int16x8_rounding(bias.map(|bias| bias.data_type));
    Ok((requantization.int16x8(rounding, ScalePrecision::Double)?, weight_bytes(&filter), int16x8_bias(bias)?))
}

/// Computes a convolution or product of 16-bit elements on the CPU, as output 0, by `run`, which is passed input, weights,
/// epilogue and output. `operands` are the input indices of activations, weights and bias. What `make` makes of these is cached
/// from run to run where weights and bias are constant; `parameters` returns the numbers on which it depends besides.
pub(crate) fn eval_int16x8<W: Any + Send + Sync>(
    eval: &mut Eval<'_>,
    operands: [usize; 3],
    parameters: impl Fn() -> Vec<usize>,
    make: impl FnOnce(&Eval<'_>) -> Result<(W, Int16x8Epilogue), OpError>,
    run: impl FnOnce(Engine<'_>, &[i16], &W, &Int16x8Epilogue, &mut [i16]),
) -> Result<(), OpError> {
    let (engine, input) = (Engine::new(eval.parallel), eval.input(operands[0])?.values()?);
    let is_constant = is_constant(&[eval.optional(operands[1]), eval.optional(operands[2])]);
    // What is kept was checked when it was made.
    if is_constant && let Some((weights, epilogue)) = eval.cache.get_for::<(W, Int16x8Epilogue)>(&parameters) {
        run(engine, input, weights, epilogue, eval.outputs[0].values()?);
        return Ok(());
    }
    let made = make(eval)?;
    run(engine, input, &made.0, &made.1, eval.outputs[0].values()?);
    if is_constant {
        eval.cache.get_or_make_for(parameters, || made);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use attache_base::Shape;

    use super::*;

    fn quantization(scale: &[f32], zero_point: &[i64], axis: usize) -> Quantization {
        Quantization { scale: scale.to_vec(), zero_point: zero_point.to_vec(), axis }
    }

    #[test]
    fn types_go_together_or_not() {
        let of = |activations, weights| Arithmetic::of(activations, weights).ok();
        assert_eq!(of(DataType::Int8, DataType::Int4), Some(Arithmetic::Bytes));
        assert_eq!(of(DataType::Int16, DataType::Int8), Some(Arithmetic::Wide));
        assert_eq!(of(DataType::Float32, DataType::Int8), Some(Arithmetic::Dynamic));
        assert_eq!(of(DataType::UInt8, DataType::Int8), None);
        assert_eq!(of(DataType::Int8, DataType::Float32), None);
    }

    #[test]
    fn weights_have_one_scale_or_one_for_each_output() {
        let scales = |scale: &[f32], zero_point: &[i64], axis| {
            let quantization = quantization(scale, zero_point, axis);
            WeightScales::new(DataType::Int8, Some(&quantization), 3, Some(2)).map(|scales| scales.scales.len())
        };
        assert_eq!(scales(&[0.5], &[0], 0).unwrap(), 1);
        assert_eq!(scales(&[0.5, 0.25], &[0, 0], 3).unwrap(), 2);
        for (scale, zero_point, axis) in [
            (&[0.5, 0.25][..], &[0, 0][..], 0),
            (&[0.5, 0.25, 1.0], &[0, 0, 0], 3),
            (&[0.5, f32::NAN], &[0, 0], 3),
            (&[0.5, 0.0], &[0, 0], 3),
            (&[0.5, 0.5], &[0, 1], 3),
            (&[], &[], 3),
            (&[-1.0], &[0], 3),
        ] {
            assert!(scales(scale, zero_point, axis).is_err(), "{scale:?} {zero_point:?} {axis}");
        }
        assert!(WeightScales::new(DataType::Int8, None, 0, None).is_err());
    }

    #[test]
    fn half_bytes_have_signs() {
        let shape = Shape::from([3]);
        let tensor = TensorRef {
            data_type: DataType::Int4,
            shape: &shape,
            bytes: &[0x8f, 0x07],
            quantization: None,
            is_constant: true,
        };
        assert_eq!(&*weight_bytes(&tensor), [-1i8 as u8, -8i8 as u8, 7]);
    }
}

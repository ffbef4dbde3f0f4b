//! Lowering of convolutions of 8-bit elements in the CPU's integer arithmetic: 32-bit sums, requantized with
//! the factors of the CPU's [`RequantizationParameters`].

use attache_base::{Activation, Constant, DataType};
use attache_gpu_ir::{Index, IndexMap, IntExpression, Primitive, ValueId};
use attache_graph::{Fact, Lowering, Unsupported};
use attache_kernels::convolution::Convolution;
use attache_kernels::quantized::Rounding;

use super::primitive::contract;
use super::{Arithmetic, RequantizationParameters, ScalePrecision, WeightScales};
use crate::shared::exact::{int_rounding, integers, known_integers};
use crate::shared::support::refuse;

impl<'a> RequantizationParameters<'a> {
    /// Returns the requantization of a node's inputs, whose indices `operands` are those of activations and
    /// weights, to its output 0. Fails unless both are 8-bit integers (or the weights of 4 or 2 bits).
    pub(crate) fn of(
        lowering: &Lowering<'a>,
        operands: [usize; 2],
        weights: WeightScales<'a>,
        activation: Activation,
    ) -> Result<Self, Unsupported> {
        let [input, filter] = [lowering.input_fact(operands[0])?, lowering.input_fact(operands[1])?];
        if Arithmetic::of(input.data_type, filter.data_type).map_err(refuse)? != Arithmetic::Bytes {
            let types = format!("activations of type {} with weights of type {}", input.data_type, filter.data_type);
            return Err(Unsupported::new(format!("{types} have no form of bytes")));
        }
        let of = |fact: &'a Fact| (fact.data_type, fact.quantization.as_ref());
        Self::of_types(of(input), weights, of(lowering.output_fact(0)?), activation).map_err(refuse)
    }

    /// Returns the zero points of activations and weights.
    pub(crate) fn zero_points(&self) -> [i32; 2] {
        [self.input.zero_point, self.weights.zero_point]
    }

    /// Emits the weights in input `index` in the layout `shape`, `[output, height, width, channel]`, and
    /// returns them. The weights of a depthwise convolution are stored as `[1, height, width, output]`.
    pub(crate) fn filter(
        &self,
        lowering: &mut Lowering<'a>,
        index: usize,
        shape: [usize; 4],
        is_depthwise: bool,
    ) -> Result<ValueId, Unsupported> {
        let taps = shape[1] * shape[2];
        let fact = lowering.input_fact(index)?;
        if let Some(values) = known_integers(fact) {
            let place = |to: usize| if is_depthwise { to % taps * shape[0] + to / taps } else { to };
            let values = (0..values.len()).map(|to| values[place(to)]);
            let constant = match fact.data_type {
                DataType::UInt8 => Constant::from_values(shape, &values.map(|value| value as u8).collect::<Vec<_>>()),
                _ => Constant::from_values(shape, &values.map(|value| value as i8).collect::<Vec<_>>()),
            };
            return lowering.constant(constant);
        }
        let mut filter = lowering.input(index)?;
        if is_depthwise {
            let coordinates = vec![Index::Constant(0), Index::Axis(1), Index::Axis(2), Index::Axis(0)];
            let map = IndexMap { output: shape.to_vec(), coordinates, fill: None };
            filter = lowering.emit(Primitive::IndexMap(map), &[filter])?;
        }
        lowering.reshape(filter, &shape.into())
    }

    /// Emits the requantization of sums to the output's 8-bit elements and returns the result. The last axis
    /// of the sums is that of the output channels. `product` is the precision in which scales are multiplied.
    pub(crate) fn finish(
        &self,
        lowering: &mut Lowering<'a>,
        sums: ValueId,
        rounding: Rounding,
        product: ScalePrecision,
    ) -> Result<ValueId, Unsupported> {
        let factors = self.factors(product);
        let mantissas: Vec<i32> = factors.iter().map(|factor| factor.mantissa).collect();
        let exponents: Vec<i32> = factors.iter().map(|factor| factor.exponent).collect();
        let operands =
            [sums, integers(lowering, [factors.len()], &mantissas)?, integers(lowering, [factors.len()], &exponents)?];
        let scaled =
            IntExpression::Input(0).rescale(int_rounding(rounding), IntExpression::Input(1), IntExpression::Input(2));
        let shape = lowering.shape(sums).clone();
        lowering.int_map(scaled.plus(self.output.zero_point).clamp(self.bounds), &shape, &operands)
    }
}

/// Which inputs of an operator are a convolution's operands, and how its filter is stored.
pub(crate) struct OperandLayout {
    /// Input indices of image, filter and bias.
    pub(crate) operands: [usize; 3],
    /// The filter's axis of output channels, along which it may have several scales.
    pub(crate) axis: usize,
    /// Whether the convolution is transposed.
    pub(crate) transposed: bool,
    /// Whether the convolution is depthwise, with a filter stored as `[1, height, width, output]`.
    pub(crate) is_depthwise: bool,
}

/// Emits a convolution of 8-bit elements, including requantization and activation, and returns its result.
pub(crate) fn lower_bytes<'a>(
    lowering: &mut Lowering<'a>,
    convolution: &Convolution,
    layout: &OperandLayout,
    activation: Activation,
) -> Result<ValueId, Unsupported> {
    let [data, filter, bias] = layout.operands;
    let (image, weights) = (lowering.input_fact(data)?, lowering.input_fact(filter)?);
    let outputs = convolution.output[2];
    let scales = WeightScales::new(weights.data_type, weights.quantization.as_ref(), layout.axis, Some(outputs));
    let scales = scales.map_err(refuse)?.as_stored(weights.data_type);
    let requantization = RequantizationParameters::of(lowering, [data, filter], scales, activation)?;
    let [height, width, channels] = convolution.input;
    let depth = channels / convolution.groups.max(1);
    let shape = [outputs, convolution.kernel[0], convolution.kernel[1], depth];
    let input = lowering.input(data)?;
    let mut operands = vec![
        lowering.reshape(input, &[convolution.batches, height, width, channels].into())?,
        requantization.filter(lowering, filter, shape, layout.is_depthwise)?,
    ];
    operands.extend(bias_of(lowering, bias, outputs)?);
    let sums = contract(lowering, convolution, layout.transposed, &operands, requantization.zero_points())?;
    requantization.finish(lowering, sums, Rounding::Twice, ScalePrecision::of(image.data_type))
}

/// Returns the bias in input `index`, which must be of 32-bit integers, in the shape `[outputs]`; `None`
/// where there is none.
pub(crate) fn bias_of(
    lowering: &mut Lowering<'_>,
    index: usize,
    outputs: usize,
) -> Result<Option<ValueId>, Unsupported> {
    if !lowering.has_input(index) {
        return Ok(None);
    }
    let fact = lowering.input_fact(index)?;
    if fact.data_type != DataType::Int32 {
        return Err(Unsupported::new(format!("a bias of type {}", fact.data_type)));
    }
    if let Some(values) = known_integers(fact) {
        return integers(lowering, [outputs], &values).map(Some);
    }
    let bias = lowering.input(index)?;
    lowering.reshape(bias, &[outputs].into()).map(Some)
}

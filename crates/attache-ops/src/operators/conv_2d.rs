//! CONV_2D: 2-D convolution with one group of channels or several.

use attache_base::{Activation, DataType, Shape};
use attache_gpu_ir::{Index, IndexMap, Primitive};
use attache_graph::{Eval, Inferred, Lowering, OpError, RowUse, Unsupported, WorkingMemory};
use attache_kernels::Engine;
use attache_kernels::convolution::{Convolution, PackedFilter, convolve};
use attache_kernels::quantized::{PackedIntegerFilter, int16x8_convolve, int16x8_groups};
use attache_model::schema::BuiltinOperator;

use crate::definition::{activation, padding, positive};
use crate::shared::contraction::{
    Arithmetic, OperandLayout, WeightScales, eval_bytes, eval_dynamic, eval_int16x8, int16x8_parts, lower_stored,
};
use crate::shared::convolution::{
    ConvolutionParameters, Weights, banded, check_bias, inferred, lower, multiply_adds, row_uses, weights_as,
    working_memory,
};
use crate::shared::exact::is_exact;
use crate::shared::fused;
use crate::shared::support::{image, refuse};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::CONV_2D),
    versions: 1..=8,
    inputs: &[input("input"), input("filter"), input("bias").optional()],
    parse,
}];

/// CONV_2D with its attributes. Inputs: image, filter `[output, height, width, channel of a group]` and an
/// optional bias.
#[derive(Debug)]
struct Conv2d(ConvolutionParameters);

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_conv_2_doptions();
    let options = options.ok_or_else(|| declaration.no_options())?;
    Ok(Box::new(Conv2d(ConvolutionParameters {
        padding: padding(options.padding())?,
        strides: [positive("stride_h", options.stride_h())?, positive("stride_w", options.stride_w())?],
        dilations: [
            positive("dilation_h_factor", options.dilation_h_factor())?,
            positive("dilation_w_factor", options.dilation_w_factor())?,
        ],
        activation: activation(options.fused_activation_function())?,
    })))
}

impl Conv2d {
    fn convolution(&self, input: &Shape, filter: &Shape) -> Result<Convolution, OpError> {
        let input = image(0, input)?;
        let [outputs, height, width, depth] = image(1, filter)?;
        let channels = input[3];
        let groups = channels.checked_div(depth).unwrap_or(0);
        if groups == 0 || groups * depth != channels || outputs % groups != 0 {
            return Err(OpError::invalid(format!("a filter {filter} does not fit an image of {channels} channels")));
        }
        self.0.convolution(input, [height, width], outputs, groups)
    }

    fn eval_floats(&self, eval: &mut Eval<'_>, convolution: &Convolution) -> Result<(), OpError> {
        let (input, filter) = (eval.input(0)?, eval.input(1)?);
        let (engine, weights) = (Engine::new(eval.parallel), Weights::new(filter, eval.optional(2))?);
        let (input, output) = (input.values()?, eval.outputs[0].values()?);
        weights.with_packed(
            eval.cache,
            || PackedFilter::parameters(convolution),
            |weights| PackedFilter::pack(engine.isa, convolution, weights.filter, weights.bias),
            |packed| convolve(engine, convolution, input, packed, output),
        );
        fused::finish(engine, self.0.activation, output);
        Ok(())
    }
}

/// Indices of the inputs image, filter and bias.
const OPERANDS: [usize; 3] = [0, 1, 2];

/// The filter's axis of output channels, along which it may have one scale each.
const AXIS: usize = 0;

/// Computes the convolution of 16-bit activations with 8-bit or 4-bit weights.
fn eval_wide(eval: &mut Eval<'_>, convolution: &Convolution, activation: Activation) -> Result<(), OpError> {
    eval_int16x8(
        eval,
        OPERANDS,
        || PackedFilter::parameters(convolution),
        |eval| {
            let (epilogue, filter, bias) = int16x8_parts(eval, OPERANDS, AXIS, activation)?;
            Ok((int16x8_groups(convolution, bytemuck::cast_slice(&filter), bias.as_deref()), epilogue))
        },
        |engine, input, groups, epilogue, output| {
            int16x8_convolve(engine, convolution, input, groups, epilogue, output)
        },
    )
}

/// Returns the arithmetic of activations and weights of these types. Weights that are declared as UINT8 beside floats are
/// signed nevertheless.
fn arithmetic(activations: DataType, weights: DataType) -> Result<Arithmetic, OpError> {
    match (activations, weights) {
        (DataType::Float32, DataType::UInt8) => Ok(Arithmetic::Dynamic),
        _ => Arithmetic::of(activations, weights),
    }
}

impl Operator for Conv2d {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let (input, filter, bias) = (inputs.fact(0), inputs.fact(1), inputs.optional(2));
        let data_type = input.data_type;
        arithmetic(data_type, filter.data_type)?.check_types(inputs, OPERANDS, AXIS)?;
        if let Some(quantization) = filter.quantization.as_ref().filter(|_| data_type != DataType::Float32) {
            let scales = WeightScales::new(filter.data_type, Some(quantization), AXIS, None)?;
            scales.symmetric(filter.data_type)?;
        }
        let (Some(input), Some(filter)) = (&input.shape, &filter.shape) else {
            return Ok(vec![Inferred::unknown(data_type)]);
        };
        let convolution = self.convolution(input, filter)?;
        check_bias(2, bias, convolution.output[2])?;
        inferred(data_type, &convolution)
    }

    fn multiply_adds(&self, inputs: &[Option<&Shape>], _: &[&Shape]) -> Option<u64> {
        let convolution = self.convolution((*inputs.first()?)?, (*inputs.get(1)?)?).ok()?;
        let [height, width, _] = convolution.output;
        Some(multiply_adds([height, width], &convolution))
    }

    fn working_memory(&self, inputs: Facts<'_>, _: &[&Shape]) -> Option<WorkingMemory> {
        let [image, filter] = inputs.required();
        let convolution = self.convolution(image.shape.as_ref()?, filter.shape.as_ref()?).ok()?;
        Some(working_memory([image, filter], &convolution))
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (input, filter) = (eval.input(0)?, eval.input(1)?);
        let convolution = banded(self.convolution(input.shape, filter.shape)?, eval);
        let activation = self.0.activation;
        match arithmetic(input.data_type, filter.data_type)? {
            Arithmetic::Float => self.eval_floats(eval, &convolution),
            Arithmetic::Bytes => {
                eval_bytes::<PackedIntegerFilter>(eval, &convolution, OPERANDS, AXIS, (activation, true))
            }
            Arithmetic::Wide => eval_wide(eval, &convolution, activation),
            Arithmetic::Dynamic => {
                eval_dynamic::<PackedIntegerFilter>(eval, &convolution, OPERANDS, AXIS, activation, true)
            }
        }
    }

    fn row_uses(&self, inputs: Facts<'_>, _: [usize; 4]) -> Option<Vec<RowUse>> {
        let [image, filter] = inputs.required();
        row_uses(&self.convolution(image.shape.as_ref()?, filter.shape.as_ref()?).ok()?, inputs)
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let convolution = self.convolution(lowering.input_shape(0)?, lowering.input_shape(1)?).map_err(refuse)?;
        let layout = OperandLayout { operands: OPERANDS, axis: AXIS, transposed: false, is_depthwise: false };
        if is_exact(lowering, 0) {
            let output = lower_stored(lowering, &convolution, &layout, self.0.activation)?;
            return lowering.output(0, output);
        }
        let (shape, data) = (lowering.input_shape(1)?.clone(), lowering.float_input(0)?);
        let (convolution, shape, data) = match patches(&convolution) {
            Some((convolution, map)) => {
                let (outputs, depth) = (shape[0], convolution.input[2]);
                (convolution, [outputs, 1, 1, depth].into(), lowering.emit(Primitive::IndexMap(map), &[data])?)
            }
            None => (convolution, shape, data),
        };
        let operands = [data, weights_as(lowering, 1, shape)?];
        let output = lower(lowering, &convolution, &layout, self.0.activation, operands)?;
        lowering.output(0, output)
    }
}

/// Least number of taps of a window for which moving its elements is worth it.
const PATCH: usize = 16;

/// Returns the pointwise convolution whose pixels are the windows of another one, and the map that makes them, if windows lie
/// side by side and a device would load their channels one by one: the first layer of a network that sees patches.
fn patches(convolution: &Convolution) -> Option<(Convolution, IndexMap)> {
    let Convolution { batches, input, output, kernel, strides, before, groups, .. } = *convolution;
    let ([height, width], [.., channels]) = (kernel, input);
    let depth = height * width * channels;
    let is_inside = (0..2).all(|axis| output[axis].saturating_mul(kernel[axis]) <= input[axis]);
    let are_single = !channels.is_multiple_of(4) && depth.is_multiple_of(4) && height * width >= PATCH;
    let is_plain = strides == kernel && convolution.dilations == [1, 1] && before == [0, 0] && groups == 1;
    if !is_inside || !are_single || !is_plain {
        return None;
    }
    let [taps, channel] = [(width * channels) as i64, channels as i64];
    let element = || Index::Axis(3);
    let coordinates = vec![
        Index::Axis(0),
        Index::Axis(1).times(height as i64).sum(element().divided_by(taps)),
        Index::Axis(2).times(width as i64).sum(element().divided_by(channel).modulo(width as i64)),
        element().modulo(channel),
    ];
    let map = IndexMap { output: vec![batches, output[0], output[1], depth], coordinates, fill: None };
    let (input, kernel, strides) = ([output[0], output[1], depth], [1, 1], [1, 1]);
    Some((Convolution { input, kernel, strides, ..*convolution }, map))
}

#[cfg(test)]
mod tests {
    use attache_base::{DataType, Padding};
    use attache_graph::Fact;

    use super::*;

    fn output(input: [usize; 4], filter: [usize; 4]) -> Result<Shape, OpError> {
        let (dilations, activation) = ([1, 1], Activation::None);
        let op = Conv2d(ConvolutionParameters { padding: Padding::Same, strides: [2, 1], dilations, activation });
        let [input, filter] = [input, filter].map(|shape| Fact::new(DataType::Float32, shape));
        Ok(DEFINITIONS[0].infer(&op, &[Some(&input), Some(&filter)])?.remove(0).shape.unwrap())
    }

    #[test]
    fn channels_come_in_whole_groups() {
        assert_eq!(output([2, 5, 7, 6], [4, 3, 3, 3]).unwrap(), Shape::from([2, 3, 7, 4]));
        for filter in [[4, 3, 3, 4], [3, 3, 3, 3], [4, 3, 3, 0], [4, 0, 3, 3], [4, 3, 3, 12]] {
            assert!(matches!(output([2, 5, 7, 6], filter), Err(OpError::Invalid(_))), "{filter:?}");
        }
        assert!(output([usize::MAX / 4, 5, 7, 6], [4, 3, 3, 3]).is_err());
    }
}

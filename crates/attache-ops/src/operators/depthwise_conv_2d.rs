//! DEPTHWISE_CONV_2D: convolution of each input channel with filters of its own. The file's
//! `depth_multiplier` is redundant with the shapes and is ignored, as in TensorFlow Lite, except that XNNPACK takes no node
//! where it differs from them.

use attache_base::{Activation, Constant, DataType, Shape};
use attache_gpu_ir::{Index, IndexMap, Primitive, ValueId};
use attache_graph::{Eval, Inferred, Lowering, OpError, RowUse, Unsupported, WorkingMemory};
use attache_kernels::Engine;
use attache_kernels::convolution::Convolution;
#[cfg(attache_small)]
use attache_kernels::convolution::PackedFilter;
use attache_kernels::depthwise::{PackedDepthwise, depthwise};
use attache_kernels::quantized::PackedIntegerDepthwise;
#[cfg(not(attache_small))]
use attache_kernels::quantized::{Int16x8Depthwise, int16x8_depthwise};
#[cfg(attache_small)]
use attache_kernels::quantized::{int16x8_convolve, int16x8_groups};
use attache_model::schema::BuiltinOperator;

use crate::definition::{activation, padding, positive};
use crate::shared::contraction::{
    Arithmetic, OperandLayout, eval_bytes, eval_dynamic, eval_int16x8, int16x8_parts, lower_stored,
};
use crate::shared::convolution::{
    ConvolutionParameters, Weights, banded, check_bias, inferred, lower, multiply_adds, row_uses,
};
use crate::shared::exact::is_exact;
use crate::shared::fused;
use crate::shared::support::{image, product, refuse};
use crate::shared::working::{converted, of_weights, packed};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::DEPTHWISE_CONV_2D),
    versions: 1..=7,
    inputs: &[input("input"), input("filter"), input("bias").optional()],
    parse,
}];

/// DEPTHWISE_CONV_2D with its attributes. Inputs: image, filter `[1, height, width, output]` and an optional
/// bias. Each input channel produces the same number of consecutive output channels.
#[derive(Debug)]
struct DepthwiseConv2d {
    parameters: ConvolutionParameters,
    /// What the file states; 0 for a negative number.
    depth_multiplier: usize,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_depthwise_conv_2_doptions();
    let options = options.ok_or_else(|| declaration.no_options())?;
    let parameters = ConvolutionParameters {
        padding: padding(options.padding())?,
        strides: [positive("stride_h", options.stride_h())?, positive("stride_w", options.stride_w())?],
        dilations: [
            positive("dilation_h_factor", options.dilation_h_factor())?,
            positive("dilation_w_factor", options.dilation_w_factor())?,
        ],
        activation: activation(options.fused_activation_function())?,
    };
    let depth_multiplier = usize::try_from(options.depth_multiplier()).unwrap_or(0);
    Ok(Box::new(DepthwiseConv2d { parameters, depth_multiplier }))
}

impl DepthwiseConv2d {
    fn convolution(&self, input: &Shape, filter: &Shape) -> Result<Convolution, OpError> {
        let input = image(0, input)?;
        let [one, height, width, outputs] = image(1, filter)?;
        let channels = input[3];
        if one != 1 || channels == 0 || outputs % channels != 0 {
            return Err(OpError::invalid(format!("a filter {filter} does not fit an image of {channels} channels")));
        }
        self.parameters.convolution(input, [height, width], outputs, channels)
    }

    fn eval_floats(&self, eval: &mut Eval<'_>, convolution: &Convolution) -> Result<(), OpError> {
        let (input, filter) = (eval.input(0)?, eval.input(1)?);
        let (engine, weights) = (Engine::new(eval.parallel), Weights::new(filter, eval.optional(2))?);
        let (input, output) = (input.values()?, eval.outputs[0].values()?);
        weights.with_packed(
            eval.cache,
            || PackedDepthwise::parameters(convolution),
            |weights| PackedDepthwise::pack(engine.isa, convolution, weights.filter, weights.bias),
            |packed| depthwise(engine, convolution, input, packed, output),
        );
        fused::finish(engine, self.parameters.activation, output);
        Ok(())
    }
}

/// Indices of the inputs image, filter and bias.
const OPERANDS: [usize; 3] = [0, 1, 2];

/// The filter's axis of output channels, along which it may have one scale each.
const AXIS: usize = 3;

/// Computes the convolution of 16-bit activations with 8-bit or 4-bit weights.
#[cfg(not(attache_small))]
fn eval_wide(eval: &mut Eval<'_>, convolution: &Convolution, activation: Activation) -> Result<(), OpError> {
    eval_int16x8(
        eval,
        OPERANDS,
        || Int16x8Depthwise::parameters(convolution),
        |eval| {
            let (epilogue, filter, bias) = int16x8_parts(eval, OPERANDS, AXIS, activation)?;
            Ok((Int16x8Depthwise::new(convolution, bytemuck::cast_slice(&filter), bias.as_deref()), epilogue))
        },
        |engine, input, weights, epilogue, output| {
            int16x8_depthwise(engine, convolution, input, weights, epilogue, output)
        },
    )
}

/// Does the same as a grouped convolution with one group per input channel.
#[cfg(attache_small)]
fn eval_wide(eval: &mut Eval<'_>, convolution: &Convolution, activation: Activation) -> Result<(), OpError> {
    eval_int16x8(
        eval,
        OPERANDS,
        || PackedFilter::parameters(convolution),
        |eval| {
            let (epilogue, filter, bias) = int16x8_parts(eval, OPERANDS, AXIS, activation)?;
            let filter = turned(bytemuck::cast_slice(&filter), convolution.output[2]);
            Ok((int16x8_groups(convolution, &filter, bias.as_deref()), epilogue))
        },
        |engine, input, groups, epilogue, output| {
            int16x8_convolve(engine, convolution, input, groups, epilogue, output)
        },
    )
}

/// Transposes weights from `[tap, output]` to `[output, tap]`; `outputs` is the number of output channels.
fn turned<T: Copy>(values: &[T], outputs: usize) -> Vec<T> {
    let taps = values.len() / outputs;
    (0..values.len()).map(|to| values[to % taps * outputs + to / taps]).collect()
}

/// Emits the float filter in the layout of the convolution primitive, `[output, height, width, 1]`. A
/// constant filter is transposed immediately.
fn filter(lowering: &mut Lowering<'_>) -> Result<ValueId, Unsupported> {
    let [_, height, width, outputs] = image(1, lowering.input_shape(1)?).map_err(refuse)?;
    let constant = lowering.input_fact(1)?.constant.as_ref();
    if let Some(values) = constant.and_then(|constant| constant.values::<f32>()) {
        return lowering.constant(Constant::from_values([outputs, height, width, 1], &turned(&values, outputs)));
    }
    let filter = lowering.float_input(1)?;
    let coordinates = vec![Index::Constant(0), Index::Axis(1), Index::Axis(2), Index::Axis(0)];
    let map = IndexMap { output: vec![outputs, height, width, 1], coordinates, fill: None };
    lowering.emit(Primitive::IndexMap(map), &[filter])
}

impl Operator for DepthwiseConv2d {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let (input, filter, bias) = (inputs.fact(0), inputs.fact(1), inputs.optional(2));
        let (_, data_type) = Arithmetic::check(inputs, OPERANDS, AXIS)?;
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

    fn working_memory(&self, inputs: Facts<'_>, outputs: &[&Shape]) -> Option<WorkingMemory> {
        let [image, filter] = inputs.required();
        let from = image.shape.as_ref()?;
        let convolution = self.convolution(from, filter.shape.as_ref()?).ok()?;
        let Convolution { kernel, output: [.., channels], .. } = convolution;
        // The packed filter has a row of vectors for each tap, and packing needs a second copy of it.
        let taps = usize::try_from(product(&kernel)).unwrap_or(usize::MAX);
        let memory = of_weights(filter, packed(DataType::Float32, 1, [channels, taps], 1).saturating_mul(2));
        // With a depth multiplier, the kernel repeats each channel of the image as often, unless the copy
        // would take more than about sixteen times the memory of the output.
        let multiplier = channels.checked_div(from[3]).unwrap_or(0);
        let repeated = converted(from).saturating_mul(multiplier as u64);
        let most = outputs.first().map_or(0, |output| converted(output)).saturating_add(1 << 18).saturating_mul(16);
        let scratch = memory.scratch.saturating_add(repeated.min(most));
        Some(WorkingMemory { scratch, ..memory })
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (input, filter) = (eval.input(0)?, eval.input(1)?);
        let convolution = banded(self.convolution(input.shape, filter.shape)?, eval);
        let activation = self.parameters.activation;
        match Arithmetic::of(input.data_type, filter.data_type)? {
            Arithmetic::Float => self.eval_floats(eval, &convolution),
            Arithmetic::Bytes => {
                let is_consistent = self.depth_multiplier.checked_mul(convolution.input[2]);
                let may_round_once = is_consistent == Some(convolution.output[2]);
                eval_bytes::<PackedIntegerDepthwise>(eval, &convolution, OPERANDS, AXIS, (activation, may_round_once))
            }
            Arithmetic::Wide => eval_wide(eval, &convolution, activation),
            Arithmetic::Dynamic => {
                eval_dynamic::<PackedIntegerDepthwise>(eval, &convolution, OPERANDS, AXIS, activation, false)
            }
        }
    }

    fn row_uses(&self, inputs: Facts<'_>, _: [usize; 4]) -> Option<Vec<RowUse>> {
        let [image, filter] = inputs.required();
        let convolution = self.convolution(image.shape.as_ref()?, filter.shape.as_ref()?).ok()?;
        // A multiplier repeats the channels of the whole input.
        let mut uses = row_uses(&convolution, inputs).filter(|_| convolution.input[2] == convolution.output[2])?;
        if let Some(RowUse::Window { in_parts, .. }) = uses.first_mut() {
            *in_parts = true;
        }
        Some(uses)
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let convolution = self.convolution(lowering.input_shape(0)?, lowering.input_shape(1)?).map_err(refuse)?;
        let layout = OperandLayout { operands: OPERANDS, axis: AXIS, transposed: false, is_depthwise: true };
        if is_exact(lowering, 0) {
            let output = lower_stored(lowering, &convolution, &layout, self.parameters.activation)?;
            return lowering.output(0, output);
        }
        let operands = [lowering.float_input(0)?, filter(lowering)?];
        let output = lower(lowering, &convolution, &layout, self.parameters.activation, operands)?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use attache_base::Padding;
    use attache_graph::Fact;

    use super::*;

    fn output(filter: [usize; 4]) -> Result<Shape, OpError> {
        let (dilations, activation) = ([2, 2], Activation::None);
        let op = DepthwiseConv2d {
            parameters: ConvolutionParameters { padding: Padding::Valid, strides: [1, 2], dilations, activation },
            depth_multiplier: 1,
        };
        let [input, filter] = [[1, 5, 7, 3], filter].map(|shape| Fact::new(DataType::Float32, shape));
        Ok(DEFINITIONS[0].infer(&op, &[Some(&input), Some(&filter)])?.remove(0).shape.unwrap())
    }

    #[test]
    fn each_channel_makes_as_many_outputs() {
        assert_eq!(output([1, 2, 3, 6]).unwrap(), Shape::from([1, 3, 2, 6]));
        for filter in [[1, 2, 3, 4], [2, 2, 3, 6], [1, 0, 3, 6]] {
            assert!(matches!(output(filter), Err(OpError::Invalid(_))), "{filter:?}");
        }
    }
}

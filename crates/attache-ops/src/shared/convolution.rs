//! Shared by the convolution operators: attributes, checks of operands, packed weights and working memory on
//! the CPU, and lowering to a device's convolution.

use std::any::Any;

use attache_base::{Activation, Constant, DataType, Padding, Quantization, Shape, WindowExtent};
use attache_gpu_ir::ValueId;
use attache_graph::{
    Band, Cache, Eval, Fact, Inferred, Lowering, OpError, RowUse, TensorRef, Unsupported, WorkingMemory,
};
use attache_kernels::Engine;
use attache_kernels::convolution::Convolution;
use attache_kernels::transpose_convolution::{PackedTransposeFilter, transpose_convolve};

use crate::Facts;
use crate::shared::contraction::{Arithmetic, OperandLayout, contract, round_twice};
use crate::shared::fused;
use crate::shared::support::{countable, product};
use crate::shared::working::{converted, of_weights, packed};

/// Attributes of a convolution operator; pairs are `[vertical, horizontal]`.
#[derive(Debug)]
pub(crate) struct ConvolutionParameters {
    pub(crate) padding: Padding,
    pub(crate) strides: [usize; 2],
    pub(crate) dilations: [usize; 2],
    pub(crate) activation: Activation,
}

impl ConvolutionParameters {
    /// Returns the parameters of the convolution of `[batch, height, width, channel]` with a kernel of height
    /// and width `kernel`, `outputs` output channels and `groups` groups. An error where [`windows`] fails.
    pub(crate) fn convolution(
        &self,
        [batches, height, width, channels]: [usize; 4],
        kernel: [usize; 2],
        outputs: usize,
        groups: usize,
    ) -> Result<Convolution, OpError> {
        let [rows, columns] = windows(self.padding, [height, width], kernel, self.strides, self.dilations)?;
        Ok(Convolution {
            batches,
            input: [height, width, channels],
            output: [rows.output, columns.output, outputs],
            kernel,
            strides: self.strides,
            dilations: self.dilations,
            before: [rows.before, columns.before],
            first: 0,
            groups,
            clamp: fused::clamp(self.activation),
        })
    }
}

/// Returns the rows that a convolution reads of its image and, as a whole, of filter and bias, for some rows of its output.
/// `None` where these are not packed once for all runs, or where an image has one scale that all of its rows decide.
pub(crate) fn row_uses(convolution: &Convolution, inputs: Facts<'_>) -> Option<Vec<RowUse>> {
    let [image, filter] = inputs.required();
    let constant = inputs.from(1).iter().flatten().all(|fact| fact.constant.is_some());
    let arithmetic = Arithmetic::of(image.data_type, filter.data_type).ok()?;
    let is_local = matches!(arithmetic, Arithmetic::Float | Arithmetic::Bytes);
    // Of narrow images, windows are gathered unless there is but one row, and the packed form differs.
    let is_wide = convolution.output[1] >= 4;
    if !constant || !is_local || !is_wide || convolution.kernel.contains(&0) {
        return None;
    }
    let size = (convolution.kernel[0] - 1) * convolution.dilations[0] + 1;
    let (stride, before) = (convolution.strides[0], convolution.before[0]);
    let is_same = (size, stride, before) == (1, 1, 0) && convolution.input[0] == convolution.output[0];
    let image = match is_same {
        true if convolution.is_pointwise() => RowUse::Pixels,
        true => RowUse::Same,
        false => RowUse::Window { size, stride, before, in_parts: false },
    };
    Some([image].into_iter().chain(inputs.from(1).iter().map(|_| RowUse::Whole)).collect())
}

/// Returns the part of a convolution that computes a band of its output's rows, from the rows of the image that they read.
pub(crate) fn banded(convolution: Convolution, eval: &Eval<'_>) -> Convolution {
    // The smallest libraries compute no bands.
    let band = if cfg!(attache_small) { None } else { eval.host.band() };
    let Some(Band { rows, before, first }) = band else { return convolution };
    let Convolution { output: [_, width, channels], before: [_, left], .. } = convolution;
    Convolution { output: [rows, width, channels], before: [before, left], first, ..convolution }
}

/// Attributes of a transposed convolution operator; pairs are `[vertical, horizontal]`.
#[derive(Debug)]
pub(crate) struct TransposeConvolutionParameters {
    pub(crate) padding: Padding,
    pub(crate) strides: [usize; 2],
    pub(crate) activation: Activation,
}

impl TransposeConvolutionParameters {
    /// Returns the parameters of the transposed convolution that turns `data`
    /// (`[batch, height, width, channel]`) into images of height and width `output`, with a filter of extents
    /// `[output channel, height, width, channel]`. An error where the extents do not match.
    pub(crate) fn convolution(
        &self,
        data: [usize; 4],
        filter: [usize; 4],
        output: [usize; 2],
    ) -> Result<Convolution, OpError> {
        let ([batches, height, width, channels], [outputs, rows, columns, depth]) = (data, filter);
        if depth != channels {
            return Err(OpError::invalid(format!("a filter of {depth} channels on an image of {channels}")));
        }
        let (input, kernel) = ([height, width], [rows, columns]);
        let before =
            |axis: usize| transposed_before(self.padding, input[axis], output[axis], kernel[axis], self.strides[axis]);
        Ok(Convolution {
            batches,
            input: [height, width, channels],
            output: [output[0], output[1], outputs],
            kernel,
            strides: self.strides,
            dilations: [1, 1],
            before: [before(0)?, before(1)?],
            first: 0,
            groups: 1,
            clamp: fused::clamp(self.activation),
        })
    }

    /// Computes the transposed convolution of floats on the CPU, as output 0. `operands` are the input
    /// indices of image, filter and bias.
    pub(crate) fn eval(
        &self,
        eval: &mut Eval<'_>,
        convolution: &Convolution,
        operands: [usize; 3],
    ) -> Result<(), OpError> {
        let [data, filter, bias] = operands;
        let (engine, weights) = (Engine::new(eval.parallel), Weights::new(eval.input(filter)?, eval.optional(bias))?);
        let (input, output) = (eval.input(data)?.values()?, eval.outputs[0].values()?);
        weights.with_packed(
            eval.cache,
            || PackedTransposeFilter::parameters(convolution),
            |weights| PackedTransposeFilter::pack(engine.isa, convolution, weights.filter, weights.bias),
            |packed| transpose_convolve(engine, convolution, input, packed, output),
        );
        fused::finish(engine, self.activation, output);
        Ok(())
    }

    /// Emits the transposed convolution of floats, with bias and activation, as output 0.
    pub(crate) fn lower(
        &self,
        lowering: &mut Lowering<'_>,
        convolution: &Convolution,
        layout: &OperandLayout,
    ) -> Result<(), Unsupported> {
        let [data, filter, _] = layout.operands;
        let operands = [lowering.float_input(data)?, lowering.float_input(filter)?];
        let output = lower(lowering, convolution, layout, self.activation, operands)?;
        lowering.output(0, output)
    }
}

/// Returns the number of window positions and the padding along the height and the width of an image. An
/// error where a kernel extent, stride or dilation is 0, or where a product of them overflows.
pub(crate) fn windows(
    padding: Padding,
    image: [usize; 2],
    kernel: [usize; 2],
    strides: [usize; 2],
    dilations: [usize; 2],
) -> Result<[WindowExtent; 2], OpError> {
    let axis = |axis: usize| {
        let window = padding.window(image[axis], kernel[axis], strides[axis], dilations[axis]);
        window.ok_or_else(|| OpError::invalid(format!("a window of {kernel:?} elements on an image of {image:?}")))
    };
    Ok([axis(0)?, axis(1)?])
}

/// Returns the number of elements that a transposed convolution from `input` to `output` elements crops at
/// the start of an axis. It is the transpose of the convolution from `output` to `input` elements with this
/// padding; an error where there is no such convolution. Source: TensorFlow Lite's `TRANSPOSE_CONV`.
pub(crate) fn transposed_before(
    padding: Padding,
    input: usize,
    output: usize,
    kernel: usize,
    stride: usize,
) -> Result<usize, OpError> {
    let fits = |window: &WindowExtent| window.output == input && (input > 0 || output == 0);
    match padding.window(output, kernel, stride, 1).filter(fits) {
        Some(_) if padding == Padding::Valid => Ok(0),
        Some(window) => Ok(window.before),
        None => Err(OpError::invalid(format!(
            "{input} elements cannot become {output} with a window of {kernel} and a stride of {stride}"
        ))),
    }
}

/// Returns the number of multiply-adds of a convolution. `places` are the window positions
/// `[vertical, horizontal]`: the output's height and width, or the input's for a transposed convolution.
pub(crate) fn multiply_adds(places: [usize; 2], convolution: &Convolution) -> u64 {
    let Convolution { batches, input: [.., channels], output: [.., outputs], kernel, groups, .. } = *convolution;
    let depth = channels.checked_div(groups).unwrap_or(0);
    product(&[batches, places[0], places[1], kernel[0], kernel[1], depth, outputs])
}

/// Returns an upper bound of the CPU working memory of a convolution, in bytes: packed weights, and converted rows of the
/// image, of which threads have fewer at once than the whole image unless windows are nearly as high. `facts` are those of
/// image and filter.
pub(crate) fn working_memory(facts: [&Fact; 2], convolution: &Convolution) -> WorkingMemory {
    let [image, filter] = facts;
    let Convolution { input: [.., channels], output: [.., outputs], kernel, groups, .. } = *convolution;
    let (channels, outputs) = (channels.checked_div(groups).unwrap_or(0), outputs.checked_div(groups).unwrap_or(0));
    let depth = usize::try_from(product(&[kernel[0], kernel[1], channels])).unwrap_or(usize::MAX);
    let memory = of_weights(filter, packed(filter.data_type, groups, [outputs, depth], channels));
    let image = image.shape.as_ref().map_or(0, converted);
    WorkingMemory { scratch: memory.scratch.saturating_add(image), ..memory }
}

/// Returns an upper bound of the CPU working memory of a transposed convolution, in bytes: the packed
/// weights, as one matrix for each residue of output positions modulo the strides, each with its part of the
/// filter's taps; converted rows of the image, as for a convolution; and the 32-bit sums of quantized outputs.
pub(crate) fn transposed_memory(facts: [&Fact; 2], convolution: &Convolution) -> WorkingMemory {
    let Convolution { input: [.., channels], output: [.., outputs], kernel, strides, .. } = *convolution;
    let phases = [0, 1].map(|axis| kernel[axis].min(strides[axis]).min(convolution.output[axis]));
    let phases = usize::try_from(product(&phases)).unwrap_or(usize::MAX);
    let taps = usize::try_from(product(&kernel)).unwrap_or(usize::MAX).div_ceil(phases.max(1));
    let depth = usize::try_from(product(&[taps, channels])).unwrap_or(usize::MAX);
    let [image, filter] = facts;
    let memory = of_weights(filter, packed(filter.data_type, phases, [outputs, depth], channels));
    let both = image.shape.as_ref().map_or(0, converted).saturating_add(converted(&shape(convolution)));
    WorkingMemory { scratch: memory.scratch.saturating_add(both), ..memory }
}

/// Returns the convolution's only output as an operator infers it: its type, and its shape
/// `[batch, height, width, channel]`. An error where the shape is too large.
pub(crate) fn inferred(data_type: DataType, convolution: &Convolution) -> Result<Vec<Inferred>, OpError> {
    Ok(vec![Inferred::new(data_type, countable(shape(convolution))?)])
}

fn shape(convolution: &Convolution) -> Shape {
    let [height, width, channels] = convolution.output;
    Shape::from([convolution.batches, height, width, channels])
}

/// Checks that the bias, where present and of known shape, has one element for each output channel. `index`
/// is the bias' input index, for the error.
pub(crate) fn check_bias(index: usize, bias: Option<&Fact>, outputs: usize) -> Result<(), OpError> {
    let Some(bias) = bias else { return Ok(()) };
    match &bias.shape {
        Some(shape) if shape.checked_elements() != Some(outputs) => {
            Err(OpError::invalid(format!("input {index} of shape {shape} is no bias of {outputs} elements")))
        }
        _ => Ok(()),
    }
}

/// Filter and bias of a float kernel on the CPU.
pub(crate) struct Weights<'a> {
    pub(crate) filter: &'a [f32],
    pub(crate) bias: Option<&'a [f32]>,
    /// Whether filter and bias are the same at every run.
    is_constant: bool,
}

impl<'a> Weights<'a> {
    /// Reads the filter and the optional bias; an error where they are not floats.
    pub(crate) fn new(filter: TensorRef<'a>, bias: Option<TensorRef<'a>>) -> Result<Self, OpError> {
        let is_constant = filter.is_constant && bias.is_none_or(|bias| bias.is_constant);
        let bias = bias.map(|bias| bias.values()).transpose()?;
        Ok(Self { filter: filter.values()?, bias, is_constant })
    }

    /// Packs the weights with `pack` and calls `work` with the result, which is cached from run to run where
    /// filter and bias are constant. `pack` may also depend on the numbers that `parameters` returns.
    pub(crate) fn with_packed<P: Any + Send + Sync>(
        &self,
        cache: &mut Cache,
        parameters: impl FnOnce() -> Vec<usize>,
        pack: impl FnOnce(&Self) -> P,
        work: impl FnOnce(&P),
    ) {
        if self.is_constant { work(cache.get_or_make_for(parameters, || pack(self))) } else { work(&pack(self)) }
    }
}

/// Returns a float input reshaped to `shape`, which must have as many elements. A constant is reshaped at
/// once; for other inputs a reshape is emitted.
pub(crate) fn float_as(lowering: &mut Lowering<'_>, index: usize, shape: Shape) -> Result<ValueId, Unsupported> {
    let fact = lowering.input_fact(index)?;
    match &fact.constant {
        Some(constant) if constant.data_type == DataType::Float32 && constant.shape != shape => {
            lowering.constant(Constant { shape, ..constant.clone() })
        }
        _ => {
            let id = lowering.float_input(index)?;
            lowering.reshape(id, &shape)
        }
    }
}

/// Returns weights reshaped to `shape`, like [`float_as`]. Old files declare weights as UINT8 that are signed nevertheless
/// beside float activations, which are input 0.
pub(crate) fn weights_as(lowering: &mut Lowering<'_>, index: usize, shape: Shape) -> Result<ValueId, Unsupported> {
    let (data, stored) = (lowering.stored_input(0)?, lowering.stored_input(index)?);
    let is_seen_as_floats = lowering.input_fact(index)?.data_type == DataType::Float32;
    if (data.data_type, stored.data_type) != (DataType::Float32, DataType::UInt8) || !is_seen_as_floats {
        return float_as(lowering, index, shape);
    }
    let (Some(constant), Some(quantization)) = (&stored.constant, &stored.quantization) else {
        return Err(Unsupported::new("weights of type UINT8 that are not constant beside floats"));
    };
    let constant = Constant { data_type: DataType::Int8, shape, ..constant.clone() };
    let zero_point = vec![0; quantization.scale.len()];
    let reals = Quantization { zero_point, ..quantization.clone() }.dequantized(&constant);
    lowering.constant(reals.ok_or_else(|| Unsupported::new("a constant whose scales do not fit its shape"))?)
}

/// Emits the convolution of `data` with a filter of shape `[output, height, width, channel]`, including an
/// optional bias input, the rounding for quantized tensors that are computed as floats, and the activation.
/// Returns the result.
pub(crate) fn lower(
    lowering: &mut Lowering<'_>,
    convolution: &Convolution,
    layout: &OperandLayout,
    activation: Activation,
    [data, filter]: [ValueId; 2],
) -> Result<ValueId, Unsupported> {
    let sums = sums(lowering, convolution, layout, [data, filter])?;
    let result = round_twice(lowering, sums, layout, convolution.output[2])?;
    fused::lower(lowering, activation, result)
}

/// Like [`lower`], but without the rounding for quantized tensors and without the activation.
pub(crate) fn sums(
    lowering: &mut Lowering<'_>,
    convolution: &Convolution,
    layout: &OperandLayout,
    [data, filter]: [ValueId; 2],
) -> Result<ValueId, Unsupported> {
    let (mut operands, bias) = (vec![data, filter], layout.operands[2]);
    if lowering.has_input(bias) {
        operands.push(float_as(lowering, bias, Shape::from([convolution.output[2]]))?);
    }
    contract(lowering, convolution, layout.transposed, &operands, [0; 2])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::contraction::check_reach;

    #[test]
    fn windows_that_reach_too_far_are_refused() {
        let reach = |padding, dilations| {
            let sliding = ConvolutionParameters { padding, strides: [1, 1], dilations, activation: Activation::None };
            check_reach(&sliding.convolution([1, 4, 4, 1], [6, 1], 1, 1).unwrap())
        };
        assert!(reach(Padding::Same, [1, 1]).is_ok());
        assert!(reach(Padding::Same, [i32::MAX as usize, 1]).is_err());
    }

    #[test]
    fn a_transposed_convolution_cuts_what_its_padding_added() {
        let same = |input, output, kernel| transposed_before(Padding::Same, input, output, kernel, 2);
        assert_eq!((same(3, 5, 3).unwrap(), same(3, 6, 3).unwrap(), same(3, 6, 5).unwrap()), (1, 0, 1));
        assert!(same(3, 7, 3).is_err());
        let valid = |input, output| transposed_before(Padding::Valid, input, output, 3, 2);
        assert_eq!((valid(3, 7).unwrap(), valid(3, 8).unwrap()), (0, 0));
        assert!(valid(3, 9).is_err() && valid(3, 6).is_err() && valid(0, 2).is_err());
    }

    #[test]
    fn a_bias_has_one_element_for_each_output() {
        let bias = |shape: &[usize]| Fact::new(DataType::Float32, Shape::from(shape));
        assert!(check_bias(2, None, 4).is_ok());
        assert!(check_bias(2, Some(&bias(&[1, 4])), 4).is_ok());
        assert!(matches!(check_bias(2, Some(&bias(&[1])), 4), Err(OpError::Invalid(_))));
    }
}

//! TRANSPOSE_CONV: transposed convolution to an image whose shape is given by an input.

use attache_base::{Activation, DataType, Shape};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported, WorkingMemory};
use attache_kernels::Engine;
use attache_kernels::convolution::Convolution;
use attache_kernels::quantized::{PackedIntegerTransposeFilter, int16x8_transpose_convolve};
use attache_model::schema::BuiltinOperator;

use crate::definition::{activation, padding, positive};
use crate::shared::contraction::{Arithmetic, OperandLayout, eval_bytes, eval_dynamic, int16x8_parts, lower_stored};
use crate::shared::convolution::{TransposeConvolutionParameters, check_bias, inferred, transposed_memory};
use crate::shared::exact::is_exact;
use crate::shared::support::{image, product, refuse};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::TRANSPOSE_CONV),
    versions: 1..=5,
    inputs: &[input("output_shape").of(&[DataType::Int32]), input("filter"), input("input"), input("bias").optional()],
    parse,
}];

/// TRANSPOSE_CONV with its attributes. Inputs: the output's shape, filter `[output, height, width, channel]`,
/// image and an optional bias.
#[derive(Debug)]
struct TransposeConv(TransposeConvolutionParameters);

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_transpose_conv_options();
    let options = options.ok_or_else(|| declaration.no_options())?;
    Ok(Box::new(TransposeConv(TransposeConvolutionParameters {
        padding: padding(options.padding())?,
        strides: [positive("stride_h", options.stride_h())?, positive("stride_w", options.stride_w())?],
        activation: activation(options.fused_activation_function())?,
    })))
}

impl TransposeConv {
    /// Returns the convolution to an image of the shape `wanted`, the elements of the first input. Fails
    /// where the shapes do not fit.
    fn convolution(&self, wanted: &[i64], filter: &Shape, data: &Shape) -> Result<Convolution, OpError> {
        let (filter, data) = (image(1, filter)?, image(2, data)?);
        let output = Shape::from_signed(wanted).and_then(|shape| <[usize; 4]>::try_from(shape.extents()).ok());
        match output {
            Some([batches, height, width, channels]) if batches == data[0] && channels == filter[0] => {
                self.0.convolution(data, filter, [height, width])
            }
            _ => Err(OpError::invalid(format!("an image {data:?} and a filter {filter:?} do not make {wanted:?}"))),
        }
    }
}

/// Indices of the inputs image, filter and bias.
const OPERANDS: [usize; 3] = [2, 1, 3];

/// The filter's axis of output channels, along which it may have one scale each.
const AXIS: usize = 0;

/// Computes the convolution of 16-bit activations with 8-bit or 4-bit weights.
fn eval_int16x8(eval: &mut Eval<'_>, convolution: &Convolution, activation: Activation) -> Result<(), OpError> {
    let (epilogue, filter, bias) = int16x8_parts(eval, OPERANDS, AXIS, activation)?;
    let (engine, input) = (Engine::new(eval.parallel), eval.input(OPERANDS[0])?.values()?);
    let (filter, output) = (bytemuck::cast_slice(&filter), eval.outputs[0].values()?);
    int16x8_transpose_convolve(engine, convolution, input, filter, bias.as_deref(), &epilogue, output);
    Ok(())
}

impl Operator for TransposeConv {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let [_, filter, data] = inputs.required();
        let (_, data_type) = Arithmetic::check(inputs, OPERANDS, AXIS)?;
        let (Some(wanted), Some(filter), Some(data)) = (inputs.integers(0)?, &filter.shape, &data.shape) else {
            return Ok(vec![Inferred::unknown(data_type)]);
        };
        let convolution = self.convolution(&wanted, filter, data)?;
        check_bias(3, inputs.optional(3), convolution.output[2])?;
        inferred(data_type, &convolution)
    }

    fn multiply_adds(&self, inputs: &[Option<&Shape>], _: &[&Shape]) -> Option<u64> {
        // The filter is applied at every pixel of the input image.
        let (filter, image) = ((*inputs.get(1)?)?, (*inputs.get(2)?)?);
        let places = image.split_last()?.1;
        Some(product(filter).saturating_mul(product(places)))
    }

    fn working_memory(&self, inputs: Facts<'_>, _: &[&Shape]) -> Option<WorkingMemory> {
        let [_, filter, image] = inputs.required();
        let wanted = inputs.integers(0).ok()??;
        let convolution = self.convolution(&wanted, filter.shape.as_ref()?, image.shape.as_ref()?).ok()?;
        Some(transposed_memory([image, filter], &convolution))
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let wanted = eval.input(0)?.integers()?;
        let convolution = self.convolution(&wanted, eval.input(1)?.shape, eval.input(2)?.shape)?;
        let (data, filter, activation) = (eval.input(2)?, eval.input(1)?, self.0.activation);
        match Arithmetic::of(data.data_type, filter.data_type)? {
            Arithmetic::Float => self.0.eval(eval, &convolution, OPERANDS),
            Arithmetic::Wide => eval_int16x8(eval, &convolution, activation),
            Arithmetic::Bytes => {
                eval_bytes::<PackedIntegerTransposeFilter>(eval, &convolution, OPERANDS, AXIS, (activation, false))
            }
            Arithmetic::Dynamic => {
                eval_dynamic::<PackedIntegerTransposeFilter>(eval, &convolution, OPERANDS, AXIS, activation, false)
            }
        }
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let (wanted, filter, data) = (lowering.integers(0)?, lowering.input_shape(1)?, lowering.input_shape(2)?);
        let convolution = self.convolution(&wanted, filter, data).map_err(refuse)?;
        let layout = OperandLayout { operands: OPERANDS, axis: AXIS, transposed: true, is_depthwise: false };
        if is_exact(lowering, OPERANDS[0]) {
            let output = lower_stored(lowering, &convolution, &layout, self.0.activation)?;
            return lowering.output(0, output);
        }
        self.0.lower(lowering, &convolution, &layout)
    }
}

#[cfg(test)]
mod tests {
    use attache_base::{Constant, Padding};
    use attache_graph::Fact;

    use super::*;

    fn output(wanted: &[i32]) -> Result<Shape, OpError> {
        let op = TransposeConv(TransposeConvolutionParameters {
            padding: Padding::Same,
            strides: [2, 2],
            activation: Activation::None,
        });
        let wanted = Fact::constant(Constant::from_values([wanted.len()], wanted));
        let [filter, data] = [[5, 3, 3, 2], [1, 3, 4, 2]].map(|shape| Fact::new(DataType::Float32, shape));
        Ok(DEFINITIONS[0].infer(&op, &[Some(&wanted), Some(&filter), Some(&data)])?.remove(0).shape.unwrap())
    }

    #[test]
    fn the_wanted_shape_must_fit() {
        assert_eq!(output(&[1, 5, 7, 5]).unwrap(), Shape::from([1, 5, 7, 5]));
        for wanted in [&[1, 6, 8][..], &[1, 7, 9, 5], &[2, 6, 8, 5], &[1, 6, 8, 4], &[1, -6, 8, 5], &[1, 6, 0, 5]] {
            assert!(matches!(output(wanted), Err(OpError::Invalid(_))), "{wanted:?}");
        }
    }

    #[test]
    fn a_shape_that_a_run_tells_is_unknown_before() {
        let op = TransposeConv(TransposeConvolutionParameters {
            padding: Padding::Same,
            strides: [2, 2],
            activation: Activation::None,
        });
        let wanted = Fact::new(DataType::Int32, [4]);
        let [filter, data] = [[5, 3, 3, 2], [1, 3, 4, 2]].map(|shape| Fact::new(DataType::Float32, shape));
        let inferred = DEFINITIONS[0].infer(&op, &[Some(&wanted), Some(&filter), Some(&data)]).unwrap();
        assert_eq!(inferred, [Inferred::unknown(DataType::Float32)]);
    }
}

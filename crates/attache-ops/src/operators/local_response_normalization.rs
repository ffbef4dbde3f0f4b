//! LOCAL_RESPONSE_NORMALIZATION: each element divided by a power of the sum of the squares of its neighbours, along the
//! channels: `x / (bias + alpha × Σ x²)^beta`, where the sum has the channels up to `radius` away.

use attache_base::{Constant, DataType};
use attache_gpu_ir::Expression::{self, Input};
use attache_gpu_ir::{BinaryOp, Primitive};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::shared::support::image;
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::LOCAL_RESPONSE_NORMALIZATION),
    versions: 1..=1,
    inputs: &[input("input").of(&[DataType::Float32])],
    parse,
}];

/// Maximum number of channels for a device, which multiplies by a square matrix of so many.
const MOST_CHANNELS: usize = 2048;

#[derive(Debug)]
struct LocalResponseNormalization {
    /// How far the neighbours in a sum are apart from the element. There are none, not even the element, where it is
    /// negative.
    radius: i32,
    bias: f32,
    alpha: f32,
    beta: f32,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_local_response_normalization_options();
    let options = options.ok_or_else(|| declaration.no_options())?;
    Ok(Box::new(LocalResponseNormalization {
        radius: options.radius(),
        bias: options.bias(),
        alpha: options.alpha(),
        beta: options.beta(),
    }))
}

impl LocalResponseNormalization {
    /// Returns the channels whose squares are summed for the channel `channel` of `count`.
    fn neighbours(&self, channel: usize, count: usize) -> std::ops::Range<usize> {
        let Ok(radius) = usize::try_from(self.radius) else { return 0..0 };
        channel.saturating_sub(radius)..channel.saturating_add(radius).saturating_add(1).min(count)
    }
}

impl Operator for LocalResponseNormalization {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.fact(0);
        input.shape.as_ref().map(|shape| image(0, shape)).transpose()?;
        Ok(vec![Inferred { data_type: input.data_type, shape: input.shape.clone() }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let input = eval.input(0)?;
        let [.., channels] = image(0, input.shape)?;
        let pixels = input.values::<f32>()?.chunks_exact(channels);
        for (pixel, output) in pixels.zip(eval.outputs[0].values::<f32>()?.chunks_exact_mut(channels)) {
            for (channel, (value, output)) in pixel.iter().zip(output).enumerate() {
                let squares = pixel[self.neighbours(channel, channels)].iter().map(|value| value * value);
                *output = value * (self.bias + self.alpha * squares.sum::<f32>()).powf(-self.beta);
            }
        }
        Ok(())
    }

    /// The sums are products of the squares and a matrix of ones around its diagonal.
    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let shape = lowering.output_shape(0)?.clone();
        let channels = shape.last().copied().unwrap_or(0);
        if channels > MOST_CHANNELS {
            return Err(Unsupported::new(format!("sums over neighbours among {channels} channels")));
        }
        let mut ones = vec![0f32; channels * channels];
        for channel in 0..channels {
            self.neighbours(channel, channels).for_each(|neighbour| ones[neighbour * channels + channel] = 1.0);
        }
        let ones = lowering.constant(Constant::from_values([channels, channels], &ones))?;
        let input = lowering.float_input(0)?;
        let squares = lowering.map(Input(0).multiply(Input(0)), &shape, &[input])?;
        let sums = lowering.emit(Primitive::MatMul { transposed: [false; 2], order: Vec::new() }, &[squares, ones])?;
        let base = Input(1).multiply(Expression::Constant(self.alpha)).add(Expression::Constant(self.bias));
        let quotient = Input(0).multiply(base.binary(BinaryOp::Power, Expression::Constant(-self.beta)));
        let output = lowering.map(quotient, &shape, &[input, sums])?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_lie_inside() {
        let with = |radius| LocalResponseNormalization { radius, bias: 1.0, alpha: 1.0, beta: 0.5 };
        assert_eq!(with(1).neighbours(0, 4), 0..2);
        assert_eq!(with(i32::MAX).neighbours(3, 4), 0..4);
        assert!(with(-1).neighbours(2, 4).is_empty());
    }
}

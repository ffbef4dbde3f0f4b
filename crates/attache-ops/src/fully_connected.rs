//! FULLY_CONNECTED: rows of the input times a matrix of weights.

use std::sync::Arc;

use attache_base::{Activation, DataType, Shape};
use attache_graph::{Eval, Fact, Inferred, Lowering, Op, OpError, Refusal};
use attache_kernels::Engine;
use attache_kernels::convolution::Convolution;
use attache_kernels::gemm::{PackedMatrix, gemm};
use attache_model::schema::{BuiltinOperator, FullyConnectedOptionsWeightsFormat as Format};

use crate::convolution::{self, Weights, check_bias, float_as};
use crate::definition::activation;
use crate::support::{arity, countable, is_empty, one_of, product, refuse, required};
use crate::{Code, Declaration, Definition, fused};

pub(crate) static DEFINITIONS: &[Definition] =
    &[Definition { code: Code::Builtin(BuiltinOperator::FULLY_CONNECTED), versions: 1..=14, parse }];

/// Inputs: rows, weights `[output, element of a row]` and, optionally, bias.
#[derive(Debug)]
struct FullyConnected {
    activation: Activation,
    /// Whether only the last axis changes; else the output is of rank 2.
    keep_num_dims: bool,
}

fn parse(declaration: &Declaration<'_>) -> Result<Arc<dyn Op>, OpError> {
    let options = declaration.options.builtin_options_as_fully_connected_options();
    let options = options.ok_or_else(|| declaration.no_options())?;
    if options.weights_format() != Format::DEFAULT {
        return Err(OpError::unsupported("weights in the shuffled format are not implemented"));
    }
    let activation = activation(options.fused_activation_function())?;
    Ok(Arc::new(FullyConnected { activation, keep_num_dims: options.keep_num_dims() }))
}

/// The product of matrices that shapes stand for.
struct Product {
    rows: usize,
    depth: usize,
    outputs: usize,
}

impl Product {
    fn new(input: &Shape, weights: &Shape) -> Result<Self, OpError> {
        let elements = countable(input.clone())?.elements();
        match **weights {
            [outputs, depth] if depth > 0 && elements % depth == 0 => {
                Ok(Self { rows: elements / depth, depth, outputs })
            }
            _ => Err(OpError::invalid(format!("weights {weights} do not fit an input {input}"))),
        }
    }
}

impl FullyConnected {
    fn output(&self, input: &Shape, product: &Product) -> Result<Shape, OpError> {
        if !self.keep_num_dims {
            return countable(Shape::from([product.rows, product.outputs]));
        }
        match input.split_last() {
            Some((last, outer)) if *last == product.depth => {
                countable(outer.iter().copied().chain([product.outputs]).collect())
            }
            _ => Err(OpError::invalid(format!("the last axis of {input} is not of {} elements", product.depth))),
        }
    }
}

impl Op for FullyConnected {
    fn name(&self) -> &str {
        DEFINITIONS[0].name()
    }

    fn infer(&self, inputs: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError> {
        arity(inputs, 2..=3)?;
        let (input, weights, bias) = (required(inputs, 0)?, required(inputs, 1)?, inputs.get(2).copied().flatten());
        one_of(0, input, &[DataType::Float32])?;
        one_of(1, weights, &[DataType::Float32])?;
        let (Some(input), Some(weights)) = (&input.shape, &weights.shape) else {
            return Ok(vec![Inferred::unknown(DataType::Float32)]);
        };
        let product = Product::new(input, weights)?;
        check_bias(2, bias, product.outputs)?;
        Ok(vec![Inferred::new(DataType::Float32, self.output(input, &product)?)])
    }

    fn multiply_adds(&self, inputs: &[Option<&Shape>], _: &[&Shape]) -> Option<u64> {
        let Product { rows, depth, outputs } = Product::new((*inputs.first()?)?, (*inputs.get(1)?)?).ok()?;
        Some(product(&[rows, depth, outputs]))
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (input, weights) = (eval.input(0)?, eval.input(1)?);
        if is_empty(eval) {
            return Ok(());
        }
        let Product { rows, depth, outputs } = Product::new(input.shape, weights.shape)?;
        let (engine, weights) = (Engine::new(eval.parallel), Weights::new(weights, eval.optional(2))?);
        let (input, output) = (input.values()?, eval.outputs[0].values()?);
        let clamp = fused::clamp(self.activation);
        weights.with_packed(
            eval.cache,
            |weights| PackedMatrix::pack(engine.level, outputs, depth, weights.filter, weights.bias),
            |packed| gemm(engine, rows, input, depth, packed, output, outputs, clamp),
        );
        fused::finish(engine, self.activation, output);
        Ok(())
    }

    /// A convolution of images of one pixel each.
    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Refusal> {
        let product = Product::new(lowering.input_shape(0)?, lowering.input_shape(1)?).map_err(refuse)?;
        let Product { rows, depth, outputs } = product;
        let convolution = Convolution {
            batches: rows,
            input: [1, 1, depth],
            output: [1, 1, outputs],
            kernel: [1, 1],
            strides: [1, 1],
            dilations: [1, 1],
            before: [0, 0],
            groups: 1,
            clamp: fused::clamp(self.activation),
        };
        let data = float_as(lowering, 0, Shape::from([rows, 1, 1, depth]))?;
        let weights = float_as(lowering, 1, Shape::from([outputs, 1, 1, depth]))?;
        let result = convolution::lower(lowering, &convolution, false, self.activation, [data, weights], 2)?;
        let shape = lowering.output_shape(0)?.clone();
        let output = lowering.reshape(result, &shape)?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(keep_num_dims: bool, input: &[usize], weights: &[usize]) -> Result<Shape, OpError> {
        let op = FullyConnected { activation: Activation::None, keep_num_dims };
        let [input, weights] = [input, weights].map(|shape| Fact::new(DataType::Float32, shape));
        Ok(op.infer(&[Some(&input), Some(&weights)])?.remove(0).shape.unwrap())
    }

    #[test]
    fn rows_are_counted_or_kept() {
        assert_eq!(output(false, &[2, 4], &[3, 8]).unwrap(), Shape::from([1, 3]));
        assert_eq!(output(true, &[5, 2, 4], &[3, 4]).unwrap(), Shape::from([5, 2, 3]));
        assert_eq!(output(true, &[6], &[3, 6]).unwrap(), Shape::from([3]));
    }

    #[test]
    fn weights_must_fit() {
        for (keep, input, weights) in
            [(false, &[2, 4][..], &[3, 3][..]), (true, &[2, 4], &[3, 8]), (false, &[0], &[3, 0]), (true, &[], &[3, 1])]
        {
            assert!(matches!(output(keep, input, weights), Err(OpError::Invalid(_))), "{input:?} {weights:?}");
        }
    }
}

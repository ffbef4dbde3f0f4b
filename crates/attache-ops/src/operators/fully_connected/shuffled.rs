//! FULLY_CONNECTED with weights in the format SHUFFLED4x16INT8: blocks of 4 rows × 16 elements, one after the other, whose
//! bytes less 128 are the integers. Activations are of type UINT8 with the zero point 128, the output is of type INT16.

use attache_base::{DataType, Shape};
use attache_graph::{Eval, Inferred, OpError};
use attache_kernels::quantized::{Multiplier, Rounding};

use super::{FullyConnected, MatrixSize};
use crate::shared::contraction::narrow_bias;
use crate::shared::convolution::check_bias;
use crate::shared::quantized::{QuantizationParameters, activation_range};
use crate::{Facts, Operator};

/// Rows and elements of a block of weights.
const BLOCK: [usize; 2] = [4, 16];

/// The number of rows of the input that the format shuffles as well.
const SHUFFLED_ROWS: usize = 4;

/// The product with shuffled weights. Its second output is the input as kernels read it, for which TensorFlow Lite needs
/// memory.
#[derive(Debug)]
pub(super) struct ShuffledProduct(pub(super) FullyConnected);

impl Operator for ShuffledProduct {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let (input, weights, bias) = (inputs.fact(0), inputs.fact(1), inputs.optional(2));
        let types = [input.data_type, weights.data_type];
        if types != [DataType::UInt8; 2] || bias.is_some_and(|bias| bias.data_type != DataType::Int32) {
            let [input, weights] = types;
            let text =
                format!("shuffled weights of type {weights}, with activations of type {input}; both have to be UINT8");
            return Err(OpError::invalid(text));
        }
        let (Some(input), Some(weights)) = (&input.shape, &weights.shape) else {
            return Ok(vec![Inferred::unknown(DataType::Int16), Inferred::unknown(DataType::UInt8)]);
        };
        let product = MatrixSize::new(input, weights)?;
        let MatrixSize { depth, outputs, .. } = product;
        if !outputs.is_multiple_of(BLOCK[0]) || !depth.is_multiple_of(BLOCK[1]) {
            return Err(OpError::invalid(format!("shuffled weights {weights} are no blocks of 4 rows of 16 elements")));
        }
        check_bias(2, bias, outputs)?;
        let output = Inferred::new(DataType::Int16, self.0.output(input, &product)?);
        Ok(vec![output, Inferred::new(DataType::UInt8, input.clone())])
    }

    fn multiply_adds(&self, inputs: &[Option<&Shape>], outputs: &[&Shape]) -> Option<u64> {
        self.0.multiply_adds(inputs, outputs)
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (input, weights, bias) = (eval.input(0)?, eval.input(1)?, narrow_bias(eval.optional(2))?);
        let MatrixSize { rows, depth, outputs } = MatrixSize::new(input.shape, weights.shape)?;
        let output = &eval.outputs[0];
        let [from, by, to] = [
            (input.data_type, input.quantization),
            (weights.data_type, weights.quantization),
            (output.data_type, output.quantization),
        ]
        .map(|(data_type, quantization)| QuantizationParameters::new(data_type, quantization));
        let (from, by, to) = (from?, by?, to?);
        let (least, most) = activation_range(self.0.activation, DataType::Int16, to)?;
        // TensorFlow Lite multiplies the scales in single precision.
        let factor = Multiplier::new(f64::from(from.scale * by.scale) / f64::from(to.scale));
        let signed: Vec<u8> = input.bytes.iter().map(|byte| byte ^ 0x80).collect();
        let numbers = eval.outputs[0].values::<i16>()?;
        for (row, results) in signed.chunks_exact(depth).zip(numbers.chunks_exact_mut(outputs.max(1))) {
            let blocks = weights.bytes.chunks_exact(BLOCK[0] * depth).zip(results.chunks_exact_mut(BLOCK[0]));
            for (index, (blocks, results)) in blocks.enumerate() {
                let sums = sums(row, blocks);
                for (place, (result, sum)) in results.iter_mut().zip(sums).enumerate() {
                    let bias = bias.map_or(0, |bias| bias[index * BLOCK[0] + place]);
                    // The zero point of INT16 is 0.
                    let number = factor.apply(sum.wrapping_add(bias), Rounding::Twice);
                    *result = number.clamp(least, most.max(least)) as i16;
                }
            }
        }
        if let Some(workspace) = eval.outputs.get_mut(1) {
            shuffle(&signed, [rows, depth], workspace.bytes);
        }
        Ok(())
    }
}

/// Returns the products of a row with four rows of weights.
fn sums(row: &[u8], blocks: &[u8]) -> [i32; BLOCK[0]] {
    let mut sums = [0i32; BLOCK[0]];
    for (x, block) in row.chunks_exact(BLOCK[1]).zip(blocks.chunks_exact(BLOCK[0] * BLOCK[1])) {
        for (sum, weights) in sums.iter_mut().zip(block.chunks_exact(BLOCK[1])) {
            let products = x.iter().zip(weights).map(|(x, weight)| i32::from(*x as i8) * i32::from(*weight as i8));
            *sum = sum.wrapping_add(products.sum());
        }
    }
    sums
}

/// Writes the input as TensorFlow Lite does: four rows by blocks of 16 elements, other numbers of rows as they are.
fn shuffle(signed: &[u8], [rows, depth]: [usize; 2], workspace: &mut [u8]) {
    if rows != SHUFFLED_ROWS {
        return workspace.copy_from_slice(signed);
    }
    for (index, to) in workspace.chunks_exact_mut(BLOCK[1]).enumerate() {
        let (row, first) = (index % SHUFFLED_ROWS, index / SHUFFLED_ROWS * BLOCK[1]);
        to.copy_from_slice(&signed[row * depth + first..][..BLOCK[1]]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_rows_are_shuffled_by_blocks() {
        let rows: Vec<u8> = (0..4 * 32).collect();
        let mut workspace = [0; 4 * 32];
        shuffle(&rows, [4, 32], &mut workspace);
        assert_eq!((workspace[..17].to_vec(), workspace[64]), ((0..16).chain([32]).collect(), 16));
        shuffle(&rows, [2, 64], &mut workspace);
        assert_eq!(workspace[..], rows);
    }
}

//! Products of rows of signed bytes and weights of 4 bits that have a scale for each block of elements of a row
//! ("blockwise quantization"). The weights stay as they are stored: a row of them is unpacked when it is multiplied.
//!
//! Source: TensorFlow Lite's `EvalBlockwise4Bit`, in whose order the blocks are added.

use crate::Engine;
use crate::simd::{Multiversioned, Simd};

/// Rows of floats that were quantized to signed bytes, each with a scale and a zero point of its own.
#[derive(Clone, Copy, Debug)]
pub struct ByteRows<'a> {
    /// The elements of all rows, as signed bytes.
    pub bytes: &'a [u8],
    /// The scale of each row.
    pub scales: &'a [f32],
    /// The zero point of each row.
    pub zero_points: &'a [i32],
}

/// Weights `[outputs, depth]` with a scale for each block of a row, and zero points of 0.
#[derive(Clone, Copy, Debug)]
pub struct BlockwiseMatrix<'a> {
    /// The elements, two to a byte, the first in the lower half.
    pub nibbles: &'a [u8],
    /// The number of elements of a row, which is even.
    pub depth: usize,
    /// The number of elements of a block, a divisor of `depth`.
    pub block: usize,
    /// The scales of the blocks, row by row.
    pub scales: &'a [f32],
    /// What is added to each output, if there is anything.
    pub bias: Option<&'a [f32]>,
}

/// Multiplies rows by transposed weights: `output` is of shape `[rows, outputs]`, and its elements are clamped.
///
/// # Panics
///
/// Panics if the lengths of the slices do not fit each other, or if `clamp` is not in order.
pub fn blockwise_gemm(engine: Engine, rows: ByteRows, weights: BlockwiseMatrix, clamp: (f32, f32), output: &mut [f32]) {
    if output.is_empty() {
        return;
    }
    let BlockwiseMatrix { nibbles, depth, block, scales, bias } = weights;
    let count = rows.scales.len();
    let outputs = output.len() / count.max(1);
    assert!(depth > 0 && depth.is_multiple_of(2) && block > 0 && depth.is_multiple_of(block), "blocks divide a row");
    assert!(nibbles.len() * 2 >= outputs * depth && scales.len() * block == outputs * depth, "a scale for each block");
    assert!(
        rows.bytes.len() == count * depth && rows.zero_points.len() == count,
        "a scale and a zero point for each row"
    );
    assert!(output.len() == count * outputs && bias.is_none_or(|bias| bias.len() == outputs), "a bias for each output");
    let parts = engine.tasks((outputs * depth) as f64 * (0.1 + 0.05 * count as f64), outputs);
    let work = |first, target: &mut [f32]| engine.isa.dispatch(Columns { rows, weights, clamp, first, target });
    if count == 1 {
        return engine.for_each_part(output, 1, parts, work);
    }
    // Tasks compute columns of the output, which are contiguous in its transpose.
    let mut columns = vec![0.0; output.len()];
    engine.for_each_part(&mut columns, count, parts, work);
    for (row, output) in output.chunks_exact_mut(outputs).enumerate() {
        let values = columns.iter().skip(row).step_by(count);
        output.iter_mut().zip(values).for_each(|(output, value)| *output = *value);
    }
}

/// Some columns of the output, one after the other, from the column `first` on.
struct Columns<'a> {
    rows: ByteRows<'a>,
    weights: BlockwiseMatrix<'a>,
    clamp: (f32, f32),
    first: usize,
    target: &'a mut [f32],
}

impl Multiversioned for Columns<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let (rows, BlockwiseMatrix { nibbles, depth, block, scales, bias }) = (self.rows, self.weights);
        let (count, blocks) = (rows.scales.len(), depth / block);
        let mut line = vec![0; depth];
        for (index, target) in self.target.chunks_exact_mut(count).enumerate() {
            let column = self.first + index;
            unpack(&nibbles[column * depth / 2..][..depth / 2], &mut line);
            let scales = &scales[column * blocks..][..blocks];
            // What a zero point of the row times the scale of the row subtracts from each product.
            let each = line.chunks_exact(block).zip(scales);
            let sum = each.fold(0.0, |sum, (weights, scale)| sum + scale * total(weights) as f32);
            let bias = bias.map(|bias| bias[column]);
            for (row, target) in target.iter_mut().enumerate() {
                let bytes = rows.bytes[row * depth..][..depth].chunks_exact(block);
                let products = bytes.zip(line.chunks_exact(block)).zip(scales);
                let product =
                    products.fold(0.0, |sum, ((bytes, weights), scale)| sum + dot(bytes, weights) as f32 * scale);
                let value = (product - rows.zero_points[row] as f32 * sum) * rows.scales[row];
                *target = bias.map_or(value, |bias| value + bias).clamp(self.clamp.0, self.clamp.1);
            }
        }
    }
}

#[inline(always)]
fn unpack(nibbles: &[u8], line: &mut [i8]) {
    for (pair, byte) in line.chunks_exact_mut(2).zip(nibbles) {
        let byte = *byte as i8;
        (pair[0], pair[1]) = (byte << 4 >> 4, byte >> 4);
    }
}

#[inline(always)]
fn total(weights: &[i8]) -> i32 {
    weights.iter().fold(0i32, |sum, weight| sum.wrapping_add(i32::from(*weight)))
}

#[inline(always)]
fn dot(bytes: &[u8], weights: &[i8]) -> i32 {
    let products = bytes.iter().zip(weights).map(|(byte, weight)| i32::from(*byte as i8) * i32::from(*weight));
    products.fold(0i32, i32::wrapping_add)
}

#[cfg(test)]
mod tests {
    use attache_base::{Parallel, Pool, Serial};

    use super::*;
    use crate::Isa;
    use crate::testing::Random;

    /// An element of the product by its definition, from weights that are unpacked.
    fn defined(row: &[u8], (scale, zero_point): (f32, i32), weights: &[i8], scales: &[f32], block: usize) -> f64 {
        let element = |(place, (byte, weight)): (usize, (&u8, &i8))| {
            let real = f64::from(scale) * f64::from(i32::from(*byte as i8) - zero_point);
            real * f64::from(*weight) * f64::from(scales[place / block])
        };
        row.iter().zip(weights).enumerate().map(element).sum()
    }

    #[test]
    fn every_isa_and_number_of_threads_gives_the_product() {
        let (pool, mut random) = (Pool::new(3), Random::new(83));
        for [count, outputs, blocks, block] in [[1, 1, 1, 2], [1, 40, 3, 32], [5, 9, 4, 6], [3, 700, 8, 64]] {
            let depth = blocks * block;
            let bytes = random.bytes(count * depth);
            let nibbles = random.bytes(outputs * depth / 2);
            let [scales, row_scales] = [outputs * blocks, count].map(|length| random.floats(length));
            let zero_points: Vec<i32> = (0..count).map(|_| random.below(256) as i32 - 128).collect();
            let bias = random.floats(outputs);
            let weights: Vec<i8> =
                nibbles.iter().flat_map(|byte| [(*byte as i8) << 4 >> 4, *byte as i8 >> 4]).collect();
            let rows = ByteRows { bytes: &bytes, scales: &row_scales, zero_points: &zero_points };
            let matrix = BlockwiseMatrix { nibbles: &nibbles, depth, block, scales: &scales, bias: Some(&bias) };
            let mut first: Option<Vec<f32>> = None;
            for isa in Isa::available() {
                for parallel in [&Serial as &dyn Parallel, &pool] {
                    let mut output = vec![f32::NAN; count * outputs];
                    blockwise_gemm(Engine { isa, parallel }, rows, matrix, (-1e4, 1e4), &mut output);
                    let output = first.get_or_insert(output.clone()) == &output;
                    assert!(output, "{}: {count} rows, {outputs} outputs", isa.name());
                }
            }
            for (place, value) in first.unwrap().into_iter().enumerate() {
                let (row, column) = (place / outputs, place % outputs);
                let scales = &scales[column * blocks..][..blocks];
                let (bytes, weights) = (&bytes[row * depth..][..depth], &weights[column * depth..][..depth]);
                let expected = defined(bytes, (row_scales[row], zero_points[row]), weights, scales, block);
                let expected = (expected + f64::from(bias[column])).clamp(-1e4, 1e4);
                assert!((f64::from(value) - expected).abs() < 1e-5 * depth as f64 * 128.0, "{value} {expected}");
            }
        }
    }
}

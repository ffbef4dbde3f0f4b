//! Products of rows of floats, which are quantized to bytes, and 8-bit weights.

use super::PackedIntegers;
#[cfg(not(attache_small))]
use super::{Element, SLACK, convert_rows, for_each_block};
use crate::Engine;
use crate::quantized::dynamic::{QuantizedRows, quantize_rows};
use crate::quantized::epilogue::{ColumnScales, Rescale};
#[cfg(not(attache_small))]
use crate::scratch;

/// Nanoseconds in which an element is quantized.
#[cfg(not(attache_small))]
const QUANTIZED: f64 = 0.1;

/// Multiplies dense rows of floats by weights that were packed for [`Zero::UNKNOWN`](super::Zero::UNKNOWN), and writes dense
/// rows of floats within the bounds `clamp`. Each row is quantized to signed bytes with a scale of its own, and with a zero
/// point unless `is_symmetric`. The matrix must have been packed with a single segment.
///
/// # Panics
///
/// Panics if `a` or `c` does not consist of whole rows, or if there are fewer `columns` than the matrix has.
pub fn dynamic_gemm(
    engine: Engine,
    (a, is_symmetric): (&[f32], bool),
    matrix: &PackedIntegers,
    columns: &ColumnScales<'_>,
    clamp: (f32, f32),
    c: &mut [f32],
) {
    #[cfg(not(attache_small))]
    match matrix.integer_isa.packs_k4() {
        true => dynamic_gemm_as::<u8>(engine, (a, is_symmetric), matrix, columns, clamp, c),
        false => dynamic_gemm_as::<i16>(engine, (a, is_symmetric), matrix, columns, clamp, c),
    }
    #[cfg(attache_small)]
    if !c.is_empty() {
        let rows = c.len() / matrix.outputs;
        let (mut bytes, mut scales, mut zero_points) = (vec![0; a.len()], vec![0.0; rows], vec![0; rows]);
        let target = QuantizedRows { bytes: &mut bytes, scales: &mut scales, zero_points: &mut zero_points };
        quantize_rows(engine.isa, a, matrix.depth, is_symmetric, target);
        let epilogue = Rescale::new(columns, &scales, &zero_points, clamp);
        super::gemm(engine, &bytes, true, &zero_points, matrix, &epilogue, c);
    }
}

#[cfg(not(attache_small))]
fn dynamic_gemm_as<T: Element>(
    engine: Engine,
    (a, is_symmetric): (&[f32], bool),
    matrix: &PackedIntegers,
    columns: &ColumnScales<'_>,
    clamp: (f32, f32),
    c: &mut [f32],
) {
    let depth = matrix.depth;
    for_each_block::<T, Rescale<'_>>(engine, a.len(), a.len() as f64 * QUANTIZED, matrix, c, |block| {
        let (rows, values) = (block.rows.len(), &a[block.rows.start * depth..block.rows.end * depth]);
        scratch::with(values.len() + SLACK, |elements: &mut [T]| {
            scratch::with(2 * rows + values.len().div_ceil(size_of::<f32>()), |buffer: &mut [f32]| {
                let (scales, rest) = buffer.split_at_mut(rows);
                let (zero_points, bytes) = rest.split_at_mut(rows);
                let zero_points: &mut [i32] = bytemuck::cast_slice_mut(zero_points);
                let bytes = &mut bytemuck::cast_slice_mut(bytes)[..values.len()];
                let target = QuantizedRows { bytes, scales, zero_points };
                quantize_rows(engine.isa, values, depth, is_symmetric, target);
                convert_rows(matrix.integer_isa, bytes, depth, true, zero_points, 0, elements);
                block.multiply(elements, &Rescale::new(columns, scales, zero_points, clamp), 0);
            });
        });
    });
}

#[cfg(test)]
mod tests {
    use attache_base::{Parallel, Pool, Serial};

    use super::*;
    use crate::Isa;
    use crate::quantized::{Operand, Zero, quantize};
    use crate::testing::Random;

    #[test]
    fn rows_are_quantized_one_by_one() {
        let (mut random, pool) = (Random::new(35), Pool::new(3));
        for round in 0..60 {
            let [rows, depth, outputs] = [[1, 7, 5], [3, 64, 40], [100, 33, 17], [2, 900, 300]][round % 4];
            let (a, is_symmetric) = (random.floats(rows * depth), round % 3 == 0);
            let (weights, bias) = (random.bytes(outputs * depth), random.floats(outputs));
            let scales: Vec<f32> = random.floats(outputs).iter().map(|scale| scale.abs() + 0.1).collect();
            let isa = Isa::available()[round % Isa::available().len()];
            let serial = Engine { isa, parallel: &Serial };
            let engine = Engine { parallel: [&Serial as &dyn Parallel, &pool][round / 4 % 2], ..serial };
            let operand = Operand { bytes: &weights, zero: Zero { signed: true, point: 0 } };
            let matrix = PackedIntegers::pack(isa, [outputs, depth], operand, [depth, 1], depth, None, Zero::UNKNOWN);
            let columns = ColumnScales::new(&scales, Some(&bias), outputs);
            let mut c = vec![0.0; rows * outputs];
            dynamic_gemm(engine, (&a, is_symmetric), &matrix, &columns, (-40.0, 50.0), &mut c);
            for (row, values) in a.chunks(depth).enumerate() {
                let mut bytes = vec![0; depth];
                let (scale, zero_point) = quantize(serial, values, is_symmetric, &mut bytes);
                for column in 0..outputs {
                    let product = |k: usize| {
                        (i32::from(bytes[k] as i8) - zero_point) * i32::from(weights[column * depth + k] as i8)
                    };
                    let sum: i32 = (0..depth).map(product).sum();
                    let expected = (bias[column] + sum as f32 * (scale * scales[column])).clamp(-40.0, 50.0);
                    assert_eq!(c[row * outputs + column], expected, "{} {rows}x{depth}x{outputs}", isa.name());
                }
            }
        }
    }
}

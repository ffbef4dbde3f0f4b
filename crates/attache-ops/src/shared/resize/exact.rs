//! Lowering of bilinear resizing of quantized elements, in the CPU's arithmetic. Positions and weights are
//! computed by the CPU's code. Nearest-neighbour resizing only moves elements and uses nothing from this
//! module.

use attache_base::{Constant, DataType};
use attache_gpu_ir::{Expression, Gather, IntBinaryOp, IntExpression, Primitive, ValueId};
use attache_graph::{Lowering, Unsupported};
use attache_kernels::quantized::resize as stored;
use attache_kernels::resize::Resize;

use crate::shared::exact::{as_reals, grid, integers};

/// Number of fractional bits of a sum that is weighted along both axes.
const DIGITS: u32 = 2 * stored::DIGITS;

/// Maximum height and width of the output, because a table is built for each.
const MOST_POSITIONS: usize = 1 << 20;

/// Emits the bilinear resizing of quantized input 0, stored as integers, as output 0.
pub(super) fn lower_bilinear(lowering: &mut Lowering<'_>, resize: &Resize) -> Result<(), Unsupported> {
    let (input, data_type) = (lowering.input(0)?, lowering.input_fact(0)?.data_type);
    let output = sampled(lowering, resize, input, data_type)?;
    lowering.output(0, output)
}

/// Emits the bilinear resizing of input 0 as output 0, where the device computes signed quantized elements as
/// floats. They are converted to integers and resized as such, because the kernel's positions, which have ten
/// fractional bits, differ from float positions, and neighbouring pixels may be many quantization steps
/// apart.
pub(super) fn lower_seen_bilinear(lowering: &mut Lowering<'_>, resize: &Resize) -> Result<(), Unsupported> {
    let [from, to] = [lowering.stored_input(0)?, lowering.stored_output(0)?];
    let (reals, shape) = (lowering.float_input(0)?, lowering.input_shape(0)?.clone());
    let stored = lowering.integer_map(grid(from)?.quantize(Expression::Input(0)), &shape, &[reals])?;
    let output = sampled(lowering, resize, stored, from.data_type)?;
    let shape = lowering.shape(output).clone();
    let output = lowering.map(grid(to)?.dequantize(Expression::Input(0)), &shape, &[output])?;
    lowering.output(0, output)
}

/// Emits the bilinear resizing of quantized elements of type `data_type` and returns the result, of the same
/// type.
fn sampled(
    lowering: &mut Lowering<'_>,
    resize: &Resize,
    input: ValueId,
    data_type: DataType,
) -> Result<ValueId, Unsupported> {
    if resize.output.iter().any(|extent| *extent > MOST_POSITIONS) {
        return Err(Unsupported::new(format!(
            "an image of {:?} positions is too large for tables of them",
            resize.output
        )));
    }
    match data_type {
        DataType::UInt8 => in_reals(lowering, resize, input),
        DataType::Int16 => in_halves(lowering, resize, input),
        _ => {
            let sums = weighed(lowering, resize, input)?;
            let is_positive = IntExpression::Constant(0).binary(IntBinaryOp::Less, IntExpression::Input(0));
            let half = 1 << (DIGITS - 1);
            let nudge = is_positive.select(IntExpression::Constant(half), IntExpression::Constant(-half));
            let rounded =
                IntExpression::Input(0).add(nudge).binary(IntBinaryOp::Divide, IntExpression::Constant(1 << DIGITS));
            let shape = lowering.shape(sums).clone();
            lowering.int_map(rounded, &shape, &[sums])
        }
    }
}

/// Emits a gather of the pixels at the indices `places` along an axis of the images: 0 for the height, 1 for
/// the width.
fn taken(lowering: &mut Lowering<'_>, value: ValueId, axis: usize, places: &[usize]) -> Result<ValueId, Unsupported> {
    let places: Vec<i32> = places.iter().map(|place| *place as i32).collect();
    let places = integers(lowering, [places.len(), 1], &places)?;
    lowering.emit(Primitive::Gather(Gather { batch: 0, axis: 1 + axis }), &[value, places])
}

/// Returns the shape with which a vector of `count` elements along an image axis (0: height, 1: width)
/// broadcasts to images.
fn along(axis: usize, count: usize) -> Vec<usize> {
    [count, 1, 1][..3 - axis].to_vec()
}

/// Emits the interpolation of integers of at most 11 bits along the width and then along the height. Returns
/// the weighted sums, with all of their [`DIGITS`] fractional bits.
fn weighed(lowering: &mut Lowering<'_>, resize: &Resize, mut value: ValueId) -> Result<ValueId, Unsupported> {
    for axis in [1, 0] {
        let places: Vec<_> = (0..resize.output[axis]).map(|index| stored::neighbours(resize, axis, index)).collect();
        let lower: Vec<usize> = places.iter().map(|place| place.0).collect();
        let upper: Vec<usize> = places.iter().map(|place| place.1).collect();
        let weights: Vec<i32> = places.iter().map(|place| place.2 as i32).collect();
        let weights = integers(lowering, along(axis, places.len()), &weights)?;
        let (first, second) = (taken(lowering, value, axis, &lower)?, taken(lowering, value, axis, &upper)?);
        let (weight, one) = (IntExpression::Input(2), IntExpression::Constant(1 << stored::DIGITS));
        let first_part = IntExpression::Input(0).multiply(one.subtract(weight.clone()));
        let sum = first_part.add(IntExpression::Input(1).multiply(weight));
        let shape = lowering.shape(first).clone();
        value = lowering.int_map(sum, &shape, &[first, second, weights])?;
    }
    Ok(value)
}

/// Returns the expression `x / 2^bits`, rounded down.
fn floored(x: IntExpression, bits: u32) -> IntExpression {
    let is_negative = x.clone().binary(IntBinaryOp::Less, IntExpression::Constant(0));
    let below = is_negative.multiply(IntExpression::Constant((1 << bits) - 1));
    x.subtract(below).binary(IntBinaryOp::Divide, IntExpression::Constant(1 << bits))
}

/// Emits the resizing of 16-bit elements. Upper and lower bytes are interpolated separately, so that the sums
/// fit 32 bits; the two sums are combined as `2⁸ × upper + lower` and rounded.
fn in_halves(lowering: &mut Lowering<'_>, resize: &Resize, input: ValueId) -> Result<ValueId, Unsupported> {
    let (x, shape) = (IntExpression::Input(0), lowering.shape(input).clone());
    let upper = lowering.int_map(floored(x.clone(), 8), &shape, &[input])?;
    let lower = lowering.int_map(x.clone().subtract(floored(x.clone(), 8).shifted_left(8)), &shape, &[input])?;
    let (upper, lower) = (weighed(lowering, resize, upper)?, weighed(lowering, resize, lower)?);
    let shape = lowering.shape(upper).clone();
    // The integer part of the combined sum, and the remaining fraction.
    let whole = floored(x.clone(), DIGITS - 8);
    let digits =
        x.clone().subtract(whole.clone().shifted_left(DIGITS - 8)).shifted_left(8).add(IntExpression::Input(1));
    let rest = lowering.int_map(digits, &shape, &[upper, lower])?;
    let whole = lowering.int_map(whole.add(floored(IntExpression::Input(1), DIGITS)), &shape, &[upper, rest])?;
    // Round with ties away from zero.
    let fraction = IntExpression::Input(1).subtract(floored(IntExpression::Input(1), DIGITS).shifted_left(DIGITS));
    let is_negative = x.clone().binary(IntBinaryOp::Less, IntExpression::Constant(0));
    let most = is_negative.add(IntExpression::Constant((1 << (DIGITS - 1)) - 1));
    lowering.int_map(x.add(most.binary(IntBinaryOp::Less, fraction)), &shape, &[whole, rest])
}

/// Returns an expression that forces `x` to be rounded to f32 before it is used. Products and sums round the
/// same way on all devices, but a compiler may fuse a product with the sum that reads it, or reorder sums.
/// Clamping to bounds that the compiler cannot prove to be redundant prevents both.
fn rounded(x: Expression) -> Expression {
    x.clamp(-1e30, 1e30)
}

/// Emits the resizing of unsigned elements, interpolated in f32 with the operations in the CPU's order.
fn in_reals(lowering: &mut Lowering<'_>, resize: &Resize, input: ValueId) -> Result<ValueId, Unsupported> {
    use Expression::{Constant as Number, Input};
    let value = as_reals(lowering, input)?;
    let product = |a, b| rounded(Expression::multiply(a, b));
    // The two weights of each corner are multiplied one after the other: first vertical, then horizontal.
    let mut parts = vec![value];
    for axis in [0, 1] {
        let places: Vec<_> = (0..resize.output[axis]).map(|index| resize.neighbours(axis, index)).collect();
        let mut weighed = Vec::new();
        for is_second in [false, true] {
            let at: Vec<usize> = places.iter().map(|place| if is_second { place.1 } else { place.0 }).collect();
            let weight: Vec<f32> = places.iter().map(|place| if is_second { place.2 } else { 1.0 - place.2 }).collect();
            let weight = Constant::from_values(along(axis, weight.len()), &weight);
            let weight = lowering.precise_constant(weight)?;
            for part in &parts {
                let part = taken(lowering, *part, axis, &at)?;
                let shape = lowering.shape(part).clone();
                weighed.push(lowering.map(product(Input(0), Input(1)), &shape, &[part, weight])?);
            }
        }
        parts = weighed;
    }
    let shape = lowering.shape(parts[0]).clone();
    let mut sum = parts[0];
    for part in &parts[1..] {
        sum = lowering.map(rounded(Input(0).add(Input(1))), &shape, &[sum, *part])?;
    }
    lowering.integer_map(Input(0).add(Number(0.5)), &shape, &[sum])
}

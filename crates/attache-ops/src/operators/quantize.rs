//! QUANTIZE: floats to quantized elements, or quantized elements to another type or scale.
//!
//! `stored = round(real / scale) + zero point`, ties away from zero, saturated. Float32 may be quantized with several
//! scales, one for each index of an axis.

use attache_base::DataType::{self, Float32, Int4, Int8, Int16, Int32, UInt4, UInt8};
use attache_base::{Constant, Element, Shape, small_integers};
use attache_gpu_ir::Expression::{self, Constant as Number, Input};
use attache_gpu_ir::{BinaryOp, IntExpression, UnaryOp, ValueId};
use attache_graph::{Conversion, Eval, Fact, Inferred, Lowering, OpError, Unsupported};
use attache_kernels::Engine;
use attache_kernels::quantized::elementwise::Finish;
use attache_kernels::quantized::lookup::Table;
use attache_kernels::quantized::rescale::{quantize, quantized, requantize, requantized};
use attache_kernels::quantized::{Multiplier, Stored};
use attache_model::schema::BuiltinOperator;

use crate::shared::exact::{affine, entries, finished, integers};
use crate::shared::quantized::{Channels, QuantizationParameters, range, with_stored};
use crate::shared::support::refuse;
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] =
    &[Definition { code: Code::Builtin(BuiltinOperator::QUANTIZE), versions: 1..=6, inputs: &[input("input")], parse }];

/// The conversions that TensorFlow Lite's kernels implement: each input type with its output types.
const PAIRS: &[(DataType, &[DataType])] = &[
    (Float32, &[Int8, UInt8, Int16, Int4, UInt4]),
    (Int8, &[Int8, UInt8, Int16]),
    (UInt8, &[Int8, UInt8, Int16]),
    (Int16, &[Int8, Int16, Int32]),
    (Int32, &[Int8, Int16]),
];

#[derive(Debug)]
struct Quantize {
    to: DataType,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let output = declaration.outputs.first().ok_or_else(|| OpError::invalid("it has no output"))?;
    Ok(Box::new(Quantize { to: output.data_type }))
}

/// A change of scale: the input's zero point, the factor between the scales, and the output's zero point.
type Change = (i32, Multiplier, i32);

fn change(eval: &Eval<'_>) -> Result<Change, OpError> {
    let (input, output) = (eval.input(0)?, &eval.outputs[0]);
    let from = QuantizationParameters::new(input.data_type, input.quantization)?;
    Ok(change_of(from, QuantizationParameters::new(output.data_type, output.quantization)?))
}

fn change_of(from: QuantizationParameters, to: QuantizationParameters) -> Change {
    (from.zero_point, Multiplier::new(f64::from(from.scale) / f64::from(to.scale)), to.zero_point)
}

/// Emits the requantization of quantized elements to the output's type, scale and zero point.
fn lower_change(lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
    let (from, to) = (lowering.input_fact(0)?, lowering.output_fact(0)?);
    let bounds = range(to.data_type).map_err(refuse)?;
    let (zero_point, factor, to) = change_of(affine(from)?, affine(to)?);
    let (input, shape) = (lowering.input(0)?, lowering.output_shape(0)?.clone());
    let finish = Finish { factor, zero_point: to, bounds };
    let output = lowering.int_map(
        finished(IntExpression::Input(0).plus(zero_point.wrapping_neg()), finish),
        &shape,
        &[input],
    )?;
    lowering.output(0, output)
}

/// Returns, for each quantized element except the least, in ascending order, the least float that is
/// quantized to it. The floats are found by bisection over their bits, which are ordered like integers. With
/// these thresholds a device can quantize a float without dividing.
fn thresholds(affine: QuantizationParameters, (least, most): (i32, i32)) -> Vec<f32> {
    // Returns the float at a position in ascending order: position 0 is zero, and `end` is infinity.
    let real = |place: i64| match place {
        0.. => f32::from_bits(place as u32),
        _ => -f32::from_bits(-place as u32),
    };
    let end = i64::from(f32::INFINITY.to_bits());
    let reaches = |place: i64, stored: i32| quantized(real(place), affine.pair()).clamp(least, most) >= stored;
    let threshold = |stored: i32| {
        let (mut below, mut above) = (-end, end);
        while below + 1 < above {
            let middle = (below + above).div_euclid(2);
            *(if reaches(middle, stored) { &mut above } else { &mut below }) = middle;
        }
        real(above)
    };
    (least + 1..=most).map(threshold).collect()
}

/// Range of scales for which a device represents the scale, its reciprocal and the thresholds as normal
/// floats.
const SCALES: std::ops::RangeInclusive<f32> = 1e-30..=1e30;

/// Maximum number of entries in the table of thresholds of one tensor: enough for 4,080 scales of 8-bit
/// elements, or for 15 scales of 16-bit elements.
const MOST_THRESHOLDS: usize = 1 << 20;

/// Emits the quantization of floats: first a guess of each element, which may be wrong by one because a
/// device's product rounds differently, then a correction by the thresholds on either side of the guess.
fn cut(lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
    let (fact, shape) = (lowering.output_fact(0)?, lowering.output_shape(0)?.clone());
    if matches!(fact.data_type, Int4 | UInt4) {
        return Err(Unsupported::new("a device stores no numbers of 4 bits"));
    }
    let channels = Channels::new(fact.data_type, fact.quantization.as_ref(), &shape).map_err(refuse)?;
    let (least, most) = range(fact.data_type).map_err(refuse)?;
    let (affines, length) = (channels.each(), (most - least + 2) as usize);
    if affines.len() > MOST_THRESHOLDS / length {
        return Err(Unsupported::new(format!("{} scales have too many thresholds for a table", affines.len())));
    }
    if let Some(affine) = affines.iter().find(|affine| !SCALES.contains(&affine.scale)) {
        return Err(Unsupported::new(format!(
            "a scale of {:e}, which a device may take for 0 or infinity",
            affine.scale
        )));
    }
    let around =
        |affine: &QuantizationParameters| [vec![f32::MIN], thresholds(*affine, (least, most)), vec![f32::MAX]].concat();
    let table: Vec<f32> = affines.iter().flat_map(around).collect();
    let table = lowering.precise_constant(Constant::from_values([table.len()], &table))?;
    let input = lowering.float_input(0)?;
    let guess = guess(lowering, input, fact, affines, (least, most))?;
    let mut place = guess;
    if affines.len() > 1 {
        let starts: Vec<i32> = (0..affines.len()).map(|index| (index * length) as i32).collect();
        let starts = integers(lowering, along(fact, affines.len()), &starts)?;
        place = lowering.int_map(IntExpression::Input(0).add(IntExpression::Input(1)), &shape, &[guess, starts])?;
    }
    let next = lowering.int_map(IntExpression::Input(0).plus(1), &shape, &[place])?;
    let (from, to) = (entries(lowering, table, place)?, entries(lowering, table, next)?);
    // The correction takes two maps, so that neither reads more values than every device can bind.
    let is_below = Input(1).binary(BinaryOp::Less, Input(2));
    let guess = lowering.integer_map(Input(0).subtract(is_below), &shape, &[guess, input, from])?;
    let is_above = Number(1.0).subtract(Input(1).binary(BinaryOp::Less, Input(2)));
    let right = Input(0).add(is_above).clamp(0.0, (most - least) as f32);
    let output = lowering.integer_map(right.add(Number(least as f32)), &shape, &[guess, input, to])?;
    lowering.output(0, output)
}

/// Returns the shape of a vector with `count` elements, one per scale, that broadcasts to the tensor.
fn along(fact: &Fact, count: usize) -> Vec<usize> {
    let (rank, axis) = (fact.shape.as_ref().map_or(0, Shape::rank), fact.quantization.as_ref().map_or(0, |q| q.axis));
    [vec![count], vec![1; rank.saturating_sub(axis + 1)]].concat()
}

/// Emits, for each float, the approximate quantized element minus the least one of the type.
fn guess(
    lowering: &mut Lowering<'_>,
    input: ValueId,
    fact: &Fact,
    affines: &[QuantizationParameters],
    (least, most): (i32, i32),
) -> Result<ValueId, Unsupported> {
    let shape = lowering.shape(input).clone();
    let inverse = |affine: &QuantizationParameters| affine.scale.recip();
    let offset = |affine: &QuantizationParameters| (affine.zero_point - least) as f32;
    let (mut operands, mut parts) = (vec![input], [Input(1), Input(2)]);
    match affines {
        [affine] => parts = [Number(inverse(affine)), Number(offset(affine))],
        _ => {
            let numbers: [Vec<f32>; 2] = [affines.iter().map(inverse).collect(), affines.iter().map(offset).collect()];
            for numbers in numbers {
                let numbers = Constant::from_values(along(fact, affines.len()), &numbers);
                operands.push(lowering.precise_constant(numbers)?);
            }
        }
    }
    let [inverse, offset] = parts;
    let steps = Input(0).multiply(inverse).unary(UnaryOp::Round);
    lowering.integer_map(steps.add(offset).clamp(0.0, (most - least) as f32), &shape, &operands)
}

fn from_reals<T: Stored>(eval: &mut Eval<'_>) -> Result<(), OpError> {
    let (input, engine, output) = (eval.input(0)?, Engine::new(eval.parallel), &mut eval.outputs[0]);
    let channels = Channels::new(output.data_type, output.quantization, output.shape)?;
    let (reals, stored) = (input.values::<f32>()?, output.values::<T>()?);
    for (range, affine) in channels.runs(reals.len()) {
        quantize(engine, &reals[range.clone()], &mut stored[range], affine.pair());
    }
    Ok(())
}

/// Quantizes floats to 4-bit integers, packed two to a byte.
fn to_small_integers(eval: &mut Eval<'_>) -> Result<(), OpError> {
    let (input, engine, output) = (eval.input(0)?, Engine::new(eval.parallel), &mut eval.outputs[0]);
    let affine = QuantizationParameters::new(output.data_type, output.quantization)?;
    let reals = input.values::<f32>()?;
    let mut stored = vec![0i8; reals.len()];
    quantize(engine, reals, &mut stored, affine.pair());
    let (least, most) = small_integers::range(output.data_type).unwrap_or((0, 0));
    small_integers::pack(output.data_type, stored.into_iter().map(|value| value.clamp(least, most)), output.bytes);
    Ok(())
}

/// Converts 8-bit elements through a lookup table.
fn from_bytes<I: Stored, O: Stored>(eval: &mut Eval<'_>) -> Result<(), OpError> {
    let (change, engine, input) = (change(eval)?, Engine::new(eval.parallel), eval.input(0)?);
    let table = eval.cache.get_or_make(|| Table::<O>::new::<I>(|x| requantized(x, change)));
    table.apply(engine, input.values::<I>()?, eval.outputs[0].values()?);
    Ok(())
}

fn from_int16x8<I: Element + Into<i32>, O: Stored>(eval: &mut Eval<'_>) -> Result<(), OpError> {
    let (change, engine, input) = (change(eval)?, Engine::new(eval.parallel), eval.input(0)?);
    requantize(engine, input.values::<I>()?, eval.outputs[0].values::<O>()?, change);
    Ok(())
}

impl Operator for Quantize {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.fact(0);
        let allowed = PAIRS.iter().any(|(from, to)| *from == input.data_type && to.contains(&self.to));
        if !allowed {
            return Err(OpError::unsupported(format!("from {} to {} is not implemented", input.data_type, self.to)));
        }
        if input.data_type != Float32 {
            QuantizationParameters::new(input.data_type, input.quantization.as_ref())?;
        }
        Ok(vec![Inferred { data_type: self.to, shape: input.shape.clone() }])
    }

    /// True, because `eval` also checks the output's scale.
    fn runs_when_empty(&self) -> bool {
        true
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        match (eval.input(0)?.data_type, self.to) {
            (Float32, Int4 | UInt4) => to_small_integers(eval),
            (Float32, to) => with_stored!(to, T => from_reals::<T>(eval)),
            (Int8, to) => with_stored!(to, T => from_bytes::<i8, T>(eval)),
            (UInt8, to) => with_stored!(to, T => from_bytes::<u8, T>(eval)),
            (Int16, Int32) => {
                let (change, input) = (change(eval)?, eval.input(0)?.values::<i16>()?);
                let output = eval.outputs[0].values::<i32>()?;
                output.iter_mut().zip(input).for_each(|(value, x)| *value = requantized((*x).into(), change));
                Ok(())
            }
            (Int16, to) => with_stored!(to, T => from_int16x8::<i16, T>(eval)),
            (_, to) => with_stored!(to, T => from_int16x8::<i32, T>(eval)),
        }
    }

    fn conversion(&self) -> Option<Conversion> {
        Some(Conversion::ToStored)
    }

    /// Emits the conversion. Where quantized tensors are computed as floats (`Quantized::View`), the output
    /// is a copy of the input, which is rounded to the output's scale like every quantized output.
    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        if lowering.output_fact(0)?.data_type != Float32 {
            return if lowering.input_fact(0)?.data_type == Float32 { cut(lowering) } else { lower_change(lowering) };
        }
        let (input, shape) = (lowering.float_input(0)?, lowering.output_shape(0)?.clone());
        let output = lowering.map(Expression::Input(0), &shape, &[input])?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use attache_base::Quantization;

    use super::*;

    #[test]
    fn types_come_in_pairs() {
        let quantization = Quantization { scale: vec![0.5], zero_point: vec![0], axis: 0 };
        let infer = |from, to| {
            let input = Fact { quantization: Some(quantization.clone()), ..Fact::new(from, [2, 3]) };
            DEFINITIONS[0].infer(&Quantize { to }, &[Some(&input)])
        };
        assert_eq!(infer(Float32, Int16).unwrap(), [Inferred::new(Int16, [2, 3])]);
        assert!(infer(Int16, Int32).is_ok());
        for (from, to) in [(Float32, Int32), (Int16, UInt8), (Int32, UInt8), (DataType::Int64, Int8)] {
            assert!(matches!(infer(from, to), Err(OpError::Unsupported(_))), "{from} {to}");
        }
        let unscaled = Fact::new(Int8, [2]);
        assert!(matches!(DEFINITIONS[0].infer(&Quantize { to: Int8 }, &[Some(&unscaled)]), Err(OpError::Invalid(_))));
    }
}

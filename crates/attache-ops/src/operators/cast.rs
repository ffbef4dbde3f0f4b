//! CAST: the same values in another type. Floats are rounded towards zero and saturate, NaN becomes the largest
//! integer. Integers wrap. Everything other than 0 becomes true. Of complex numbers, other types get the real part.
//! Integers of less than 8 bits are cast to and from float32 only.

use attache_base::{DataType, Shape, small_integers};
use attache_gpu_ir::Expression::{Constant, Input};
use attache_gpu_ir::{BinaryOp, Expression, IntBinaryOp, IntExpression, UnaryOp, ValueId};
use attache_graph::{Eval, Inferred, Lowering, OpError, TensorMut, Unsupported};
use attache_model::schema::BuiltinOperator;
use half::{bf16, f16};

use crate::shared::integers::wrapped;
use crate::shared::support::{elements, elements_mut};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::CAST),
    versions: 1..=9,
    inputs: &[input("input").of(&TYPES)],
    parse,
}];

/// The supported element types of input and output. Those of less than 8 bits come last.
const TYPES: [DataType; 16] = [
    DataType::Float32,
    DataType::Float16,
    DataType::Int32,
    DataType::UInt8,
    DataType::Int64,
    DataType::Bool,
    DataType::Int16,
    DataType::Int8,
    DataType::UInt16,
    DataType::UInt32,
    DataType::BFloat16,
    DataType::Float64,
    DataType::Complex64,
    DataType::Int4,
    DataType::UInt4,
    DataType::Int2,
];

/// How many of [`TYPES`], from the first on, a device can have.
const ON_DEVICE: usize = 10;

#[derive(Debug)]
struct Cast {
    to: DataType,
}

/// Parses the operator. The target type is that of the output; like in TensorFlow Lite, the options are
/// ignored.
fn parse(declaration: &Declaration<'_>) -> Parsed {
    let output = declaration.outputs.first().ok_or_else(|| OpError::invalid("it has no output"))?;
    let to = output.data_type;
    if !TYPES.contains(&to) {
        return Err(OpError::unsupported(format!("a cast to {to} is not implemented")));
    }
    Ok(Box::new(Cast { to }))
}

/// Writes `$convert(value)` for every value to an output with elements of type `$element`.
macro_rules! write {
    ($output:expr, $element:ty, $values:expr, $convert:expr) => {{
        let convert = $convert;
        elements_mut::<$element>($output.bytes)?
            .iter_mut()
            .zip($values)
            .for_each(|(place, value)| *place = convert(value));
    }};
}

/// Writes floats as floats, complex numbers or truths; `false` for other types.
fn write_reals(values: impl Iterator<Item = f32>, output: &mut TensorMut<'_>) -> Result<bool, OpError> {
    match output.data_type {
        DataType::Float32 => write!(output, f32, values, |x: f32| x),
        DataType::Float16 => write!(output, f16, values, f16::from_f32),
        DataType::BFloat16 => write!(output, u16, values, |x: f32| bf16::from_f32(x).to_bits()),
        DataType::Complex64 => write!(output, [f32; 2], values, |x: f32| [x, 0.0]),
        DataType::Float64 => write!(output, f64, values, f64::from),
        DataType::Bool => write!(output, u8, values, |x: f32| u8::from(x != 0.0)),
        _ => return Ok(false),
    }
    Ok(true)
}

/// Writes floats, of 32 or 64 bits, as integers.
fn write_rounded(values: impl Iterator<Item = f64>, output: &mut TensorMut<'_>) -> Result<(), OpError> {
    macro_rules! integers {
        ($element:ty) => {
            write!(output, $element, values, |x: f64| if x.is_nan() { <$element>::MAX } else { x as $element })
        };
    }
    match output.data_type {
        DataType::Int8 => integers!(i8),
        DataType::UInt8 => integers!(u8),
        DataType::Int16 => integers!(i16),
        DataType::UInt16 => integers!(u16),
        DataType::Int32 => integers!(i32),
        DataType::UInt32 => integers!(u32),
        DataType::Int64 => integers!(i64),
        small => pack(values, small, output.bytes),
    }
    Ok(())
}

fn from_reals(values: impl Iterator<Item = f32> + Clone, output: &mut TensorMut<'_>) -> Result<(), OpError> {
    if write_reals(values.clone(), output)? {
        return Ok(());
    }
    write_rounded(values.map(f64::from), output)
}

fn from_doubles(values: impl Iterator<Item = f64> + Clone, output: &mut TensorMut<'_>) -> Result<(), OpError> {
    match output.data_type {
        DataType::Float64 => write!(output, f64, values, |x: f64| x),
        DataType::Bool => write!(output, u8, values, |x: f64| u8::from(x != 0.0)),
        _ => {
            if !write_reals(values.clone().map(|value| value as f32), output)? {
                write_rounded(values, output)?;
            }
        }
    }
    Ok(())
}

fn from_integers(values: impl Iterator<Item = i64> + Clone, output: &mut TensorMut<'_>) -> Result<(), OpError> {
    match output.data_type {
        DataType::Float64 => write!(output, f64, values, |x: i64| x as f64),
        DataType::Bool => write!(output, u8, values, |x: i64| u8::from(x != 0)),
        DataType::Int8 => write!(output, i8, values, |x: i64| x as i8),
        DataType::UInt8 => write!(output, u8, values, |x: i64| x as u8),
        DataType::Int16 => write!(output, i16, values, |x: i64| x as i16),
        DataType::UInt16 => write!(output, u16, values, |x: i64| x as u16),
        DataType::Int32 => write!(output, i32, values, |x: i64| x as i32),
        DataType::UInt32 => write!(output, u32, values, |x: i64| x as u32),
        DataType::Int64 => write!(output, i64, values, |x: i64| x),
        _ => drop(write_reals(values.map(|value| value as f32), output)?),
    }
    Ok(())
}

/// Writes floats as integers of less than 8 bits.
fn pack(values: impl Iterator<Item = f64>, data_type: DataType, bytes: &mut [u8]) {
    let Some((low, high)) = small_integers::range(data_type) else { return };
    let saturated =
        |value: f64| if value.is_nan() { high } else { (value as i64).clamp(low.into(), high.into()) as i8 };
    small_integers::pack(data_type, values.map(saturated), bytes);
}

/// Returns integers of less than 8 bits as floats.
fn unpack(data_type: DataType, bytes: &[u8], count: usize) -> Vec<f32> {
    let integers = small_integers::unpack(data_type, bytes, count).unwrap_or_default();
    integers.into_iter().map(f32::from).collect()
}

fn is_real(data_type: DataType) -> bool {
    matches!(data_type, DataType::Float32 | DataType::Float16)
}

/// Returns the least and the largest integer of a type of at most 16 bits as float32, which represents both
/// exactly; `None` for other types.
fn bounds(data_type: DataType) -> Option<(f32, f32)> {
    match data_type {
        DataType::Int8 => Some((i8::MIN.into(), i8::MAX.into())),
        DataType::UInt8 => Some((u8::MIN.into(), u8::MAX.into())),
        DataType::Int16 => Some((i16::MIN.into(), i16::MAX.into())),
        DataType::UInt16 => Some((u16::MIN.into(), u16::MAX.into())),
        _ => None,
    }
}

/// Whether the 32 bits in which a device has an integer of type `from` are those of the result of type `to`.
fn is_kept(from: DataType, to: DataType) -> bool {
    match (from, to) {
        (_, DataType::Int32 | DataType::UInt32 | DataType::Int64) | (DataType::Bool, _) => true,
        (DataType::UInt8 | DataType::Int8, DataType::Int16) | (DataType::UInt8, DataType::UInt16) => true,
        _ => from == to,
    }
}

impl Operator for Cast {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.fact(0);
        let is_small = |data_type: DataType| small_integers::range(data_type).is_some();
        let partner = if is_small(input.data_type) { self.to } else { input.data_type };
        if (is_small(input.data_type) || is_small(self.to)) && partner != DataType::Float32 {
            let text = format!("a cast from {} to {} is not implemented", input.data_type, self.to);
            return Err(OpError::unsupported(text));
        }
        Ok(vec![Inferred { data_type: self.to, shape: input.shape.clone() }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (input, output) = (eval.input(0)?, &mut eval.outputs[0]);
        macro_rules! integers {
            ($element:ty) => {
                from_integers(elements::<$element>(input.bytes)?.iter().map(|value| i64::from(*value)), output)
            };
        }
        match input.data_type {
            DataType::Float32 => from_reals(elements::<f32>(input.bytes)?.iter().copied(), output),
            DataType::Float16 => from_reals(elements::<f16>(input.bytes)?.iter().map(|value| value.to_f32()), output),
            DataType::BFloat16 => {
                let values = elements::<u16>(input.bytes)?.iter().map(|bits| bf16::from_bits(*bits).to_f32());
                from_reals(values, output)
            }
            DataType::Float64 => from_doubles(elements::<f64>(input.bytes)?.iter().copied(), output),
            DataType::Complex64 if self.to == DataType::Complex64 => {
                output.bytes.copy_from_slice(input.bytes);
                Ok(())
            }
            DataType::Complex64 => from_reals(elements::<[f32; 2]>(input.bytes)?.iter().map(|[real, _]| *real), output),
            DataType::Bool => from_integers(input.bytes.iter().map(|truth| i64::from(*truth != 0)), output),
            DataType::Int8 => integers!(i8),
            DataType::UInt8 => integers!(u8),
            DataType::Int16 => integers!(i16),
            DataType::UInt16 => integers!(u16),
            DataType::Int32 => integers!(i32),
            DataType::UInt32 => integers!(u32),
            DataType::Int64 => integers!(i64),
            small => {
                let values = unpack(small, input.bytes, input.shape.elements());
                from_reals(values.into_iter(), output)
            }
        }
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        lowering.use_stored();
        let (from, shape) = (lowering.input_fact(0)?.data_type, lowering.output_shape(0)?.clone());
        if let Some(other) = [from, self.to].into_iter().find(|end| !TYPES[..ON_DEVICE].contains(end)) {
            return Err(Unsupported::new(format!("a device has no elements of type {other}")));
        }
        if from == DataType::UInt32 && self.to == DataType::Int64 {
            return Err(Unsupported::new(format!("{from} as {} on a device, whose integers have signs", self.to)));
        }
        let output = if self.to == DataType::Bool && from == DataType::UInt32 {
            let input = lowering.input(0)?;
            let truth = IntExpression::Input(0).select(IntExpression::Constant(1), IntExpression::Constant(0));
            lowering.int_map(truth, &shape, &[input])?
        } else if self.to == DataType::Bool {
            let input = lowering.real_input(0)?;
            let is_zero = Input(0).binary(BinaryOp::Equal, Constant(0.0));
            lowering.integer_map(is_zero.select(Constant(0.0), Constant(1.0)), &shape, &[input])?
        } else if self.to == DataType::Float16 && from != self.to {
            return Err(Unsupported::new("a device keeps more digits than binary16 has"));
        } else if self.to == DataType::Int64 && is_real(from) {
            return Err(Unsupported::new("a device has no integers of 64 bits"));
        } else if is_real(self.to) && from == DataType::UInt32 {
            real_of_unsigned(lowering, &shape)?
        } else if is_real(from) && self.to == DataType::UInt32 {
            unsigned_of_real(lowering, &shape)?
        } else if is_real(self.to) {
            let input = lowering.real_input(0)?;
            lowering.map(Input(0), &shape, &[input])?
        } else if is_real(from) {
            let input = lowering.input(0)?;
            let saturated: Expression = bounds(self.to).map_or(Input(0), |(low, high)| Input(0).clamp(low, high));
            lowering.integer_map(saturated, &shape, &[input])?
        } else if is_kept(from, self.to) {
            lowering.input(0)?
        } else {
            let input = lowering.input(0)?;
            lowering.int_map(wrapped(IntExpression::Input(0), self.to), &shape, &[input])?
        };
        lowering.output(0, output)
    }
}

/// Emits elements of UINT32 as floats. Integers of a device have signs, so both halves become floats: neither their product
/// nor the float of the lower one is rounded.
fn real_of_unsigned(lowering: &mut Lowering<'_>, shape: &Shape) -> Result<ValueId, Unsupported> {
    let input = lowering.input(0)?;
    let low = |x: IntExpression| x.binary(IntBinaryOp::And, IntExpression::Constant(0xffff));
    let halves = [low(IntExpression::Input(0).shifted_right(16)), low(IntExpression::Input(0))];
    let [high, low] = halves.map(|half| lowering.int_map(half, shape, &[input]));
    let sum = Input(0).multiply(Constant(65536.0)).add(Input(1));
    lowering.map(sum, shape, &[high?, low?])
}

/// Emits floats as elements of UINT32, rounded towards zero, by way of both halves. NaN and what is too large become the
/// largest.
fn unsigned_of_real(lowering: &mut Lowering<'_>, shape: &Shape) -> Result<ValueId, Unsupported> {
    let input = lowering.input(0)?;
    let most = Constant(4_294_967_296.0);
    let real = Input(0).binary(BinaryOp::Less, most.clone()).select(Input(0).clamp(0.0, f32::INFINITY), most);
    let high = real.clone().multiply(Constant(1.0 / 65536.0)).unary(UnaryOp::Floor).clamp(0.0, 65535.0);
    let low = real.subtract(high.clone().multiply(Constant(65536.0))).clamp(0.0, 65535.0);
    let [high, low] = [high, low].map(|half| lowering.integer_map(half, shape, &[input]));
    let joined = IntExpression::Input(0).shifted_left(16).add(IntExpression::Input(1));
    lowering.int_map(joined, shape, &[high?, low?])
}

#[cfg(test)]
mod tests {
    use attache_base::Element;
    use attache_graph::Fact;

    use super::*;

    fn cast<T: Element>(values: impl FnOnce(&mut TensorMut<'_>) -> Result<(), OpError>, count: usize) -> Vec<T> {
        let (mut made, shape) = (vec![T::default(); count], Shape::from([count]));
        let bytes = bytemuck::cast_slice_mut(&mut made);
        values(&mut TensorMut { data_type: T::DATA_TYPE, shape: &shape, bytes, quantization: None }).unwrap();
        made
    }

    #[test]
    fn reals_saturate_and_integers_wrap() {
        let reals = [-1.9, 255.9, 300.0, -3e9, f32::NAN];
        let of_reals = |output: &mut TensorMut<'_>| from_reals(reals.into_iter(), output);
        assert_eq!(cast::<u8>(of_reals, 5), [0, 255, 255, 0, 255]);
        assert_eq!(cast::<i8>(of_reals, 5), [-1, 127, 127, -128, 127]);
        assert_eq!(cast::<i32>(of_reals, 5), [-1, 255, 300, i32::MIN, i32::MAX]);
        let of_integers = |output: &mut TensorMut<'_>| from_integers([300, -129, 1 << 32].into_iter(), output);
        assert_eq!(cast::<u8>(of_integers, 3), [44, 127, 0]);
        assert_eq!(cast::<i32>(of_integers, 3), [300, -129, 0]);
    }

    #[test]
    fn elements_of_less_than_a_byte_are_packed_and_saturate() {
        let reals = [-9.0, 7.9, f64::NAN, -1.5, 0.5];
        for (data_type, kept) in [
            (DataType::Int4, [-8.0, 7.0, 7.0, -1.0, 0.0]),
            (DataType::UInt4, [0.0, 7.0, 15.0, 0.0, 0.0]),
            (DataType::Int2, [-2.0, 1.0, 1.0, -1.0, 0.0]),
        ] {
            let mut bytes = vec![0xff; data_type.byte_size(reals.len()).unwrap()];
            pack(reals.into_iter(), data_type, &mut bytes);
            assert_eq!(unpack(data_type, &bytes, reals.len()), kept, "{data_type}");
        }
        let byte = Fact::new(DataType::Int8, [2]);
        let error = DEFINITIONS[0].infer(&Cast { to: DataType::Int4 }, &[Some(&byte)]).unwrap_err();
        assert!(matches!(error, OpError::Unsupported(_)));
    }

    #[test]
    fn text_has_no_numbers() {
        let input = Fact::new(DataType::String, [2]);
        let error = DEFINITIONS[0].infer(&Cast { to: DataType::Int32 }, &[Some(&input)]).unwrap_err();
        assert!(matches!(error, OpError::Unsupported(_)));
    }
}

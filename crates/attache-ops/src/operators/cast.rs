//! CAST: the same values in another type. Floats are rounded towards zero and saturate, NaN becomes the largest
//! integer. Integers wrap. Everything other than 0 becomes true.

use attache_base::DataType;
use attache_gpu_ir::Expression::{Constant, Input};
use attache_gpu_ir::{Expression, IntExpression};
use attache_graph::{Eval, Inferred, Lowering, OpError, TensorMut, Unsupported};
use attache_model::schema::BuiltinOperator;
use half::f16;

use crate::shared::integers::wrapped;
use crate::shared::support::{elements, elements_mut};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::CAST),
    versions: 1..=9,
    inputs: &[input("input").of(&TYPES)],
    parse,
}];

/// The supported element types of input and output.
const TYPES: [DataType; 8] = [
    DataType::Float32,
    DataType::Float16,
    DataType::Int32,
    DataType::UInt8,
    DataType::Int64,
    DataType::Bool,
    DataType::Int16,
    DataType::Int8,
];

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

fn from_reals(values: impl Iterator<Item = f32>, output: &mut TensorMut<'_>) -> Result<(), OpError> {
    macro_rules! integers {
        ($element:ty) => {
            write!(output, $element, values, |x: f32| if x.is_nan() { <$element>::MAX } else { x as $element })
        };
    }
    match output.data_type {
        DataType::Float32 => write!(output, f32, values, |x: f32| x),
        DataType::Float16 => write!(output, f16, values, f16::from_f32),
        DataType::Bool => write!(output, u8, values, |x: f32| u8::from(x != 0.0)),
        DataType::Int8 => integers!(i8),
        DataType::UInt8 => integers!(u8),
        DataType::Int16 => integers!(i16),
        DataType::Int32 => integers!(i32),
        _ => integers!(i64),
    }
    Ok(())
}

fn from_integers(values: impl Iterator<Item = i64>, output: &mut TensorMut<'_>) -> Result<(), OpError> {
    match output.data_type {
        DataType::Float32 => write!(output, f32, values, |x: i64| x as f32),
        DataType::Float16 => write!(output, f16, values, |x: i64| f16::from_f32(x as f32)),
        DataType::Bool => write!(output, u8, values, |x: i64| u8::from(x != 0)),
        DataType::Int8 => write!(output, i8, values, |x: i64| x as i8),
        DataType::UInt8 => write!(output, u8, values, |x: i64| x as u8),
        DataType::Int16 => write!(output, i16, values, |x: i64| x as i16),
        DataType::Int32 => write!(output, i32, values, |x: i64| x as i32),
        _ => write!(output, i64, values, |x: i64| x),
    }
    Ok(())
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
        _ => None,
    }
}

/// Whether every integer of type `from` is representable in type `to`. INT64 counts as a 32-bit type here,
/// because a device stores its elements in 32 bits.
fn is_kept(from: DataType, to: DataType) -> bool {
    match (from, to) {
        (_, DataType::Int32 | DataType::Int64) | (DataType::Bool, _) => true,
        (DataType::UInt8 | DataType::Int8, DataType::Int16) => true,
        _ => from == to,
    }
}

impl Operator for Cast {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.fact(0);
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
            DataType::Bool => from_integers(input.bytes.iter().map(|truth| i64::from(*truth != 0)), output),
            DataType::Int8 => integers!(i8),
            DataType::UInt8 => integers!(u8),
            DataType::Int16 => integers!(i16),
            DataType::Int32 => integers!(i32),
            _ => integers!(i64),
        }
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let (from, shape) = (lowering.input_fact(0)?.data_type, lowering.output_shape(0)?.clone());
        let output = if self.to == DataType::Bool {
            let input = lowering.real_input(0)?;
            let is_zero = Input(0).binary(attache_gpu_ir::BinaryOp::Equal, Constant(0.0));
            lowering.integer_map(is_zero.select(Constant(0.0), Constant(1.0)), &shape, &[input])?
        } else if self.to == DataType::Float16 && from != self.to {
            return Err(Unsupported::new("a device keeps more digits than binary16 has"));
        } else if self.to == DataType::Int64 && is_real(from) {
            return Err(Unsupported::new("a device has no integers of 64 bits"));
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

#[cfg(test)]
mod tests {
    use attache_base::{Element, Shape};
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
    fn text_has_no_numbers() {
        let input = Fact::new(DataType::String, [2]);
        let error = DEFINITIONS[0].infer(&Cast { to: DataType::Int32 }, &[Some(&input)]).unwrap_err();
        assert!(matches!(error, OpError::Unsupported(_)));
    }
}

//! CONCATENATION: the inputs, concatenated along an axis.

use std::borrow::Cow;

use attache_base::{Activation, DataType, Shape};
use attache_gpu_ir::{Primitive, ValueId};
use attache_graph::{Eval, Fact, Inferred, Lowering, OpError, RowUse, TensorRef, Unsupported};
use attache_kernels::Engine;
use attache_kernels::movement::concatenate;
use attache_kernels::quantized::lookup::Table;
use attache_model::schema::BuiltinOperator;

use crate::definition::activation;
use crate::shared::exact::{affine, look_up};
use crate::shared::quantized::{QuantizationParameters, require_one_scale, require_symmetric};
use crate::shared::support::countable;
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::CONCATENATION),
    versions: 1..=7,
    inputs: &[input("values").movable(), input("values").movable().repeated()],
    parse,
}];

#[derive(Debug)]
struct Concatenation {
    /// The axis along which the inputs are concatenated; negative axes count from the end.
    axis: i64,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_concatenation_options();
    let options = options.ok_or_else(|| declaration.no_options())?;
    // TensorFlow Lite's kernels either reject an activation or ignore it.
    match activation(options.fused_activation_function())? {
        Activation::None => Ok(Box::new(Concatenation { axis: i64::from(options.axis()) })),
        other => Err(OpError::unsupported(format!("the fused activation {other:?} is not implemented"))),
    }
}

impl Concatenation {
    fn axis(&self, shape: &Shape) -> Result<usize, OpError> {
        let missing = || OpError::invalid(format!("an input of shape {shape} has no axis {}", self.axis));
        shape.axis(self.axis).ok_or_else(missing)
    }

    /// Returns the output's shape. The inputs may differ only along the axis.
    fn output(&self, shapes: &[&Shape]) -> Result<Shape, OpError> {
        let first = *shapes.first().ok_or_else(|| OpError::invalid("it has no inputs"))?;
        let axis = self.axis(first)?;
        let mut extents = first.to_vec();
        for shape in &shapes[1..] {
            let fits = shape.rank() == first.rank() && (0..first.rank()).all(|a| a == axis || shape[a] == first[a]);
            let extent = extents[axis].checked_add(if fits { shape[axis] } else { 0 }).filter(|_| fits);
            let reason = || format!("{shape} does not continue {first} along axis {axis}");
            extents[axis] = extent.ok_or_else(|| OpError::invalid(reason()))?;
        }
        countable(extents.into())
    }
}

/// Concatenates UINT8 inputs, each requantized where its scale differs from the output's. The arithmetic, in
/// float32, is that of TensorFlow Lite's `UINT8` kernel, the only one that accepts different scales.
fn rescaled(eval: &mut Eval<'_>, inputs: &[TensorRef<'_>], outer: usize) -> Result<(), OpError> {
    let (engine, output) = (Engine::new(eval.parallel), &mut eval.outputs[0]);
    let to = QuantizationParameters::new(output.data_type, output.quantization)?;
    let mut changed = Vec::with_capacity(inputs.len());
    for input in inputs {
        let from = QuantizationParameters::new(input.data_type, input.quantization)?;
        let stored = input.values::<u8>()?;
        if from == to {
            changed.push(Cow::Borrowed(stored));
            continue;
        }
        let mut values = vec![0; stored.len()];
        Table::<u8>::new::<u8>(change(from, to)).apply(engine, stored, &mut values);
        changed.push(Cow::Owned(values));
    }
    let parts: Vec<&[u8]> = changed.iter().map(|part| &part[..]).collect();
    concatenate(engine, &parts, outer, output.values()?);
    Ok(())
}

/// Returns a closure that requantizes a stored integer from one scale and zero point to another, in float32
/// and without saturation.
fn change(from: QuantizationParameters, to: QuantizationParameters) -> impl Fn(i32) -> i32 {
    let factor = from.scale * (1.0 / to.scale);
    let offset = -(from.zero_point as f32) * factor;
    move |x| ((x as f32 * factor + offset).round() as i32).saturating_add(to.zero_point)
}

/// Emits input `index`, requantized to the output's scale where UINT8 elements have another scale.
fn piece(lowering: &mut Lowering<'_>, index: usize) -> Result<ValueId, Unsupported> {
    let (from, to) = (lowering.input_fact(index)?, lowering.output_fact(0)?);
    let input = lowering.input(index)?;
    if from.data_type != DataType::UInt8 || to.quantization.is_none() {
        return Ok(input);
    }
    let (types, from, to) = ([from.data_type, to.data_type], affine(from)?, affine(to)?);
    if from == to { Ok(input) } else { look_up(lowering, input, types, change(from, to)) }
}

impl Operator for Concatenation {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let first = inputs.fact(0);
        let mut shapes = Vec::with_capacity(inputs.count());
        for index in 0..inputs.count() {
            let input = inputs.fact(index);
            if input.data_type != first.data_type {
                let reason = format!("input {index} is of type {}, the first one {}", input.data_type, first.data_type);
                return Err(OpError::invalid(reason));
            }
            shapes.extend(&input.shape);
        }
        let all_known = shapes.len() == inputs.count();
        let shape = if all_known { Some(self.output(&shapes)?) } else { None };
        Ok(vec![Inferred { data_type: first.data_type, shape }])
    }

    fn check_scales(&self, inputs: &[Option<&Fact>], outputs: &[&Fact]) -> Result<(), OpError> {
        let [output] = outputs else { return Ok(()) };
        let mut all = inputs.iter().flatten().chain(outputs);
        match output.data_type {
            DataType::Int8 => require_one_scale(inputs, 0..inputs.len(), outputs),
            // Elements are copied whatever their scales, like in TensorFlow Lite.
            DataType::Int16 => all.filter(|fact| fact.quantization.is_some()).try_for_each(|fact| {
                require_symmetric(
                    fact.data_type,
                    QuantizationParameters::new(fact.data_type, fact.quantization.as_ref())?,
                )
            }),
            DataType::UInt8 if output.quantization.is_some() => all
                .try_for_each(|fact| QuantizationParameters::new(fact.data_type, fact.quantization.as_ref()).map(drop)),
            _ => Ok(()),
        }
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let first = eval.input(0)?;
        let outer = first.shape[..self.axis(first.shape)?].iter().product();
        let inputs: Vec<_> = (0..eval.inputs.len()).map(|index| eval.input(index)).collect::<Result<_, _>>()?;
        if first.data_type == DataType::UInt8 && eval.outputs[0].quantization.is_some() {
            return rescaled(eval, &inputs, outer);
        }
        let parts: Vec<&[u8]> = inputs.iter().map(|input| input.bytes).collect();
        concatenate(Engine::new(eval.parallel), &parts, outer, eval.outputs[0].bytes);
        Ok(())
    }

    fn row_uses(&self, inputs: Facts<'_>, output: [usize; 4]) -> Option<Vec<RowUse>> {
        let axis = self.axis(&Shape::from(output)).ok()?;
        let usage = if axis == 3 { RowUse::Pixels } else { RowUse::Same };
        (axis >= 2).then(|| vec![usage; inputs.count()])
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let shape = lowering.output_shape(0)?;
        let axis = shape.axis(self.axis).ok_or_else(|| Unsupported::new("the output has no such axis"))?;
        let mut pieces = Vec::with_capacity(lowering.input_count());
        for index in 0..lowering.input_count() {
            let is_empty = lowering.input_fact(index)?.shape.as_ref().is_some_and(|shape| shape.elements() == 0);
            if !is_empty {
                pieces.push(piece(lowering, index)?);
            }
        }
        let output = lowering.emit(Primitive::Concatenate { axis }, &pieces)?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use attache_base::Quantization;

    use super::*;

    #[test]
    fn scales_are_those_that_the_kernels_of_a_type_take() {
        let fact = |data_type, scale: f32, zero_point| {
            let quantization = Quantization { scale: vec![scale], zero_point: vec![zero_point], axis: 0 };
            Fact { quantization: Some(quantization), ..Fact::new(data_type, [2]) }
        };
        let is_taken = |first: &Fact, second: &Fact, output: &Fact| {
            Concatenation { axis: 0 }.check_scales(&[Some(first), Some(second)], &[output]).is_ok()
        };
        for (data_type, mixed, moved) in
            [(DataType::Int8, false, false), (DataType::UInt8, true, true), (DataType::Int16, true, false)]
        {
            let [same, other, zero] = [(0.5, 0), (0.25, 0), (0.5, 2)].map(|(scale, zero)| fact(data_type, scale, zero));
            assert!(is_taken(&same, &same, &same), "{data_type}");
            assert_eq!([is_taken(&same, &other, &same), is_taken(&same, &same, &other)], [mixed; 2], "{data_type}");
            assert_eq!([is_taken(&zero, &same, &same), is_taken(&same, &same, &zero)], [moved; 2], "{data_type}");
        }
        let (bytes, plain) = (fact(DataType::Int8, 0.5, 0), Fact::new(DataType::Int8, [2]));
        assert!(!is_taken(&bytes, &bytes, &plain) && !is_taken(&plain, &plain, &bytes));
        assert!(is_taken(&plain, &plain, &plain));
    }

    #[test]
    fn pieces_differ_along_the_axis_only() {
        let output = |axis, shapes: &[Shape]| Concatenation { axis }.output(&shapes.iter().collect::<Vec<_>>());
        assert_eq!(output(-1, &[[2, 3].into(), [2, 0].into(), [2, 4].into()]).unwrap(), Shape::from([2, 7]));
        assert!(output(0, &[[2, 3].into(), [2, 4].into()]).is_err());
        assert!(output(2, &[[2, 3].into()]).is_err());
        assert!(output(0, &[[2].into(), [2, 1].into()]).is_err());
        assert!(output(0, &[[].into()]).is_err(), "scalars have no axes");
        assert!(output(0, &[[usize::MAX].into(), [1].into()]).is_err());
    }
}

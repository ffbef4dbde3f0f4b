//! FAKE_QUANT: floats rounded to the values that integers of a number of bits stand for. The range of the values is moved so
//! that 0 is one of them.

use attache_base::DataType;
use attache_gpu_ir::Expression::{Constant, Input};
use attache_gpu_ir::UnaryOp;
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::FAKE_QUANT),
    versions: 1..=2,
    inputs: &[input("input").of(&[DataType::Float32])],
    parse,
}];

#[derive(Debug)]
struct FakeQuant {
    /// The least and the greatest value.
    bounds: [f32; 2],
    /// The distance of neighbouring values.
    scale: f32,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_fake_quant_options();
    let options = options.ok_or_else(|| declaration.no_options())?;
    if options.narrow_range() {
        return Err(OpError::unsupported("narrow_range is for weights alone, which are constants"));
    }
    let bits = options.num_bits();
    let count = u32::try_from(bits).ok().filter(|bits| (1..=31).contains(bits)).map(|bits| (1u32 << bits) - 1);
    let count = count.ok_or_else(|| OpError::invalid(format!("integers of {bits} bits; 2 to 16 are defined")))?;
    Ok(Box::new(FakeQuant::new(options.min(), options.max(), count as f32)))
}

impl FakeQuant {
    /// Moves the range so that 0 lies on a value, for `count` steps between both ends. Source: TensorFlow's
    /// `FakeQuantWithMinMaxArgs`.
    fn new(least: f32, most: f32, count: f32) -> Self {
        let scale = (most - least) / count;
        let zero = -least / scale;
        let zero = if zero < 0.0 {
            0.0
        } else if zero > count {
            count
        } else {
            zero.round()
        };
        Self { bounds: [-zero * scale, (count - zero) * scale], scale }
    }

    fn of(&self, value: f32) -> f32 {
        let [least, most] = self.bounds;
        // Unlike `f32::clamp`, this takes bounds that are NaN, where the range is empty.
        let clamped = value.max(least).min(most);
        ((clamped - least) * (1.0 / self.scale)).round() * self.scale + least
    }
}

impl Operator for FakeQuant {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.fact(0);
        Ok(vec![Inferred { data_type: input.data_type, shape: input.shape.clone() }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let input = eval.input(0)?.values::<f32>()?;
        let output = eval.outputs[0].values::<f32>()?;
        output.iter_mut().zip(input).for_each(|(output, value)| *output = self.of(*value));
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let [least, most] = self.bounds;
        if !(self.scale.is_finite() && self.scale > 0.0) {
            return Err(Unsupported::new("its range is empty"));
        }
        let steps = Input(0).clamp(least, most).subtract(Constant(least)).multiply(Constant(1.0 / self.scale));
        // Steps are not negative, so that this rounds ties away from zero.
        let whole = steps.add(Constant(0.5)).unary(UnaryOp::Floor);
        let (input, shape) = (lowering.float_input(0)?, lowering.output_shape(0)?.clone());
        let rounded = whole.multiply(Constant(self.scale)).add(Constant(least));
        let output = lowering.map(rounded, &shape, &[input])?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_one_of_the_values() {
        let fake = FakeQuant::new(-1.0, 1.0, 15.0);
        assert_eq!(fake.of(0.0), 0.0);
        assert!((fake.of(7.0) - 16.0 / 15.0).abs() < 1e-6 && (fake.of(-7.0) + 14.0 / 15.0).abs() < 1e-6);
        assert_eq!(FakeQuant::new(0.1, 1.0, 255.0).bounds[0], 0.0);
        assert!(FakeQuant::new(1.0, 1.0, 255.0).of(1.0).is_nan());
    }
}

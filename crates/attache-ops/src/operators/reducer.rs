//! REDUCE_ALL, REDUCE_MAX, SUM and the other reductions over the axes that an input names, one row of the
//! table each. Float32 sums accumulate in float32, integer sums wrap.

use attache_base::{DataType, Element};
use attache_gpu_ir::ReduceOp;
use attache_graph::{Eval, Fact, Inferred, Lowering, OpError, Unsupported};
use attache_kernels::Engine;
use attache_kernels::quantized::fixed_point::multiply_int16x8;
use attache_kernels::quantized::{Multiplier, Stored};
use attache_kernels::reduce::{self, Reduction as Kernel};
use attache_model::schema::BuiltinOperator;

use crate::definition::one_of;
use crate::shared::exact::is_exact;
use crate::shared::quantized::{QuantizationParameters, is_stored, require_one_stored_scale, with_stored};
use crate::shared::reduction::{self, Folding};
use crate::shared::support::{elements, elements_mut};
use crate::{Code, Declaration, Definition, Facts, Input, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[
    row(Code::Builtin(BuiltinOperator::REDUCE_ALL), 1, TRUTHS, |declaration| {
        truths(declaration, |a, b| a && b, true, ReduceOp::Minimum)
    }),
    row(Code::Builtin(BuiltinOperator::REDUCE_ANY), 1, TRUTHS, |declaration| {
        truths(declaration, |a, b| a || b, false, ReduceOp::Maximum)
    }),
    row(Code::Builtin(BuiltinOperator::REDUCE_MAX), 3, NUMBERS, |declaration| {
        numbers(declaration, Kernel::Maximum, (i64::max, i64::MIN), ReduceOp::Maximum, QuantizedReduction::Same)
    }),
    row(Code::Builtin(BuiltinOperator::REDUCE_MIN), 3, NUMBERS, |declaration| {
        numbers(declaration, Kernel::Minimum, (i64::min, i64::MAX), ReduceOp::Minimum, QuantizedReduction::Same)
    }),
    row(Code::Builtin(BuiltinOperator::REDUCE_PROD), 2, NUMBERS, |declaration| {
        numbers(declaration, Kernel::Product, (i64::wrapping_mul, 1), ReduceOp::Product, QuantizedReduction::Product)
    }),
    row(Code::Builtin(BuiltinOperator::SUM), 2, NUMBERS, |declaration| {
        numbers(declaration, Kernel::Sum, (i64::wrapping_add, 0), ReduceOp::Sum, QuantizedReduction::Sum)
    }),
];

const AXES: Input = input("axes").of(&[DataType::Int32]);
const TRUTHS: &[Input] = &[input("input").of(&[DataType::Bool]), AXES];
const NUMBERS: &[Input] = &[input("input").of(&TYPES), AXES];

/// Element types of the reductions of numbers.
const TYPES: [DataType; 7] = [
    DataType::Float32,
    DataType::Int32,
    DataType::Int64,
    DataType::Int8,
    DataType::Int16,
    DataType::UInt8,
    DataType::Bool,
];

const fn row(code: Code, newest: i32, inputs: &'static [Input], parse: fn(&Declaration<'_>) -> Parsed) -> Definition {
    Definition { code, versions: 1..=newest, inputs, parse }
}

/// How quantized elements are reduced.
#[derive(Clone, Copy, Debug, PartialEq)]
enum QuantizedReduction {
    /// On the stored integers: input and output have the same scale.
    Same,
    /// As a sum that is rescaled to the output's scale.
    Sum,
    /// As a product that is rescaled after each multiplication.
    Product,
}

/// A reduction of numbers, such as SUM or REDUCE_MAX.
#[derive(Debug)]
struct Numbers {
    folding: Folding,
    /// The CPU kernel for float32.
    kernel: Kernel,
    /// The function that combines two integers, computed in 64 bits and wrapped to the type, and its initial
    /// value, which is saturated to the type.
    integer: (fn(i64, i64) -> i64, i64),
    /// The reduction primitive for a device.
    reduction: ReduceOp,
    /// How quantized elements are reduced.
    form: QuantizedReduction,
}

fn numbers(
    declaration: &Declaration<'_>,
    kernel: Kernel,
    integer: (fn(i64, i64) -> i64, i64),
    reduction: ReduceOp,
    form: QuantizedReduction,
) -> Parsed {
    let folding = Folding::parse(declaration)?;
    let is_of_truths = declaration.outputs.first().is_some_and(|output| output.data_type == DataType::Bool);
    match kernel {
        Kernel::Sum | Kernel::Maximum if is_of_truths => truths(declaration, |a, b| a || b, false, ReduceOp::Maximum),
        _ if is_of_truths => truths(declaration, |a, b| a && b, true, ReduceOp::Minimum),
        _ => Ok(Box::new(Numbers { folding, kernel, integer, reduction, form })),
    }
}

impl Numbers {
    fn integers<T: Element + Into<i64>>(
        &self,
        eval: &mut Eval<'_>,
        wrap: fn(i64) -> T,
        start: T,
    ) -> Result<(), OpError> {
        let (input, folded) = (eval.input(0)?, self.folding.axes(eval)?);
        let step = |folded: T, element: T| wrap((self.integer.0)(folded.into(), element.into()));
        reduce::fold(input.values()?, input.shape, &folded, eval.outputs[0].values()?, start, step);
        Ok(())
    }
}

impl Numbers {
    fn stored(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (input, folded) = (eval.input(0)?, self.folding.axes(eval)?);
        match self.form {
            QuantizedReduction::Sum => return reduction::rescaled_sum(eval, &folded, false),
            QuantizedReduction::Product if input.quantization.is_some() => return rescaled_product(eval, &folded),
            QuantizedReduction::Same | QuantizedReduction::Product => {}
        }
        let start = self.integer.1.clamp(-(1 << 20), 1 << 20) as i32;
        with_stored!(input.data_type, T => {
            let wrap = |value: i64| T::truncate(value as i32);
            let step = |total: T, element: T| {
                wrap((self.integer.0)(i64::from(total), i64::from(element)))
            };
            reduce::fold(input.values()?, input.shape, &folded, eval.outputs[0].values()?, T::saturate(start), step);
        });
        Ok(())
    }
}

/// Computes the product of n quantized elements. Each of n steps multiplies by the input's scale divided by
/// the n-th root of the output's, so that after k steps the scale of the product is the output's scale to the
/// power of k / n.
fn rescaled_product(eval: &mut Eval<'_>, folded: &[bool]) -> Result<(), OpError> {
    let (input, output) = (eval.input(0)?, &mut eval.outputs[0]);
    let from = QuantizationParameters::new(input.data_type, input.quantization)?;
    let to = QuantizationParameters::new(output.data_type, output.quantization)?;
    let count = input.shape.elements() / output.shape.elements().max(1);
    let factor = Multiplier::new(f64::from(from.scale) / f64::from(to.scale).powf(1.0 / count.max(1) as f64));
    let mut products = vec![None; output.shape.elements()];
    with_stored!(input.data_type, T => {
        let step = |product: Option<i32>, element: T| {
            let element = i32::from(element) - from.zero_point;
            Some(product.map_or(element, |product| multiply_int16x8(i64::from(product) * i64::from(element), factor)))
        };
        reduce::fold(input.values::<T>()?, input.shape, folded, &mut products, None, step);
        for (value, product) in output.values::<T>()?.iter_mut().zip(products) {
            let product = multiply_int16x8(product.unwrap_or(1).into(), factor);
            *value = T::saturate(product.saturating_add(to.zero_point));
        }
    });
    Ok(())
}

impl Operator for Numbers {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.fact(0);
        match (input.data_type, self.form) {
            (DataType::Bool, _) => return Err(OpError::invalid("truths become numbers")),
            (DataType::UInt8, QuantizedReduction::Product) if input.quantization.is_some() => {
                return Err(OpError::unsupported("products of quantized UINT8 are not implemented"));
            }
            _ => {}
        }
        self.folding.infer(inputs)
    }

    fn check_scales(&self, inputs: &[Option<&Fact>], outputs: &[&Fact]) -> Result<(), OpError> {
        match self.form {
            QuantizedReduction::Same => require_one_stored_scale(inputs, 0..1, outputs),
            QuantizedReduction::Sum | QuantizedReduction::Product => Ok(()),
        }
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (input, start) = (eval.input(0)?, self.integer.1);
        match input.data_type {
            data_type if is_stored(data_type) => return self.stored(eval),
            DataType::Int32 => {
                let narrow = start.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
                return self.integers(eval, |value| value as i32, narrow);
            }
            DataType::Int64 => return self.integers(eval, |value| value, start),
            _ => {}
        }
        let (engine, folded) = (Engine::new(eval.parallel), self.folding.axes(eval)?);
        reduce::reduce(engine, self.kernel, input.values()?, input.shape, &folded, eval.outputs[0].values()?);
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        match self.form {
            QuantizedReduction::Sum if is_exact(lowering, 0) => return self.folding.lower_sum(lowering, false),
            QuantizedReduction::Product if is_exact(lowering, 0) => {
                if lowering.input_fact(0)?.quantization.is_none() {
                    return self.folding.lower_integer_product(lowering);
                }
                return Err(Unsupported::new(
                    "products of stored numbers are rescaled one after the other, in 64 bits",
                ));
            }
            QuantizedReduction::Same if is_exact(lowering, 0) => {
                return self.folding.lower_extremum(lowering, self.reduction);
            }
            _ => {}
        }
        let input = match lowering.input_fact(0)?.data_type {
            DataType::Int32 => lowering.input(0)?,
            _ => lowering.float_input(0)?,
        };
        self.folding.lower(lowering, self.reduction, input)
    }
}

/// A reduction of booleans; any byte other than 0 is true.
#[derive(Debug)]
struct Truths {
    folding: Folding,
    function: fn(bool, bool) -> bool,
    /// The reduction of no elements, with which each reduction starts.
    start: bool,
    /// The equivalent reduction on a device, with 1 for true and 0 for false.
    reduction: ReduceOp,
}

fn truths(declaration: &Declaration<'_>, function: fn(bool, bool) -> bool, start: bool, reduction: ReduceOp) -> Parsed {
    let folding = Folding::parse(declaration)?;
    Ok(Box::new(Truths { folding, function, start, reduction }))
}

impl Operator for Truths {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        one_of("input 0 (input)", inputs.fact(0).data_type, &[DataType::Bool])?;
        self.folding.infer(inputs)
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (input, folded) = (eval.input(0)?, self.folding.axes(eval)?);
        let step = |folded: u8, element: u8| u8::from((self.function)(folded != 0, element != 0));
        let output = elements_mut::<u8>(eval.outputs[0].bytes)?;
        reduce::fold(elements(input.bytes)?, input.shape, &folded, output, u8::from(self.start), step);
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let input = lowering.input(0)?;
        self.folding.lower(lowering, self.reduction, input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_truths_are_folded_apart() {
        let (folding, axes) = (Folding { keep_dims: false }, Fact::new(DataType::Int32, [1]));
        let function: fn(bool, bool) -> bool = |a, b| a && b;
        let all = Truths { folding, function, start: true, reduction: ReduceOp::Minimum };
        let integer: (fn(i64, i64) -> i64, i64) = (i64::wrapping_add, 0);
        let sum =
            Numbers { folding, kernel: Kernel::Sum, integer, reduction: ReduceOp::Sum, form: QuantizedReduction::Sum };
        for (data_type, is_number) in [(DataType::Float32, true), (DataType::Int64, true), (DataType::Bool, false)] {
            let input = Fact::new(data_type, [2, 3]);
            let inputs = [Some(&input), Some(&axes)];
            let [all, sum] = [DEFINITIONS[0].infer(&all, &inputs), DEFINITIONS[5].infer(&sum, &inputs)];
            assert_eq!((sum.is_ok(), all.is_ok()), (is_number, !is_number));
        }
    }
}

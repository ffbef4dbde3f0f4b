//! Operators that fold the elements along axes that an input names: a row each. Float32 sums accumulate in float32,
//! those of integers wrap.

use std::sync::Arc;

use attache_base::{DataType, Element};
use attache_gpu_ir::Reduction;
use attache_graph::{Eval, Fact, Inferred, Lowering, Op, OpError, Refusal};
use attache_kernels::Engine;
use attache_kernels::reduce::{self, Reduction as Kernel};
use attache_model::schema::BuiltinOperator;

use crate::reduction::Folding;
use crate::support::{elements, elements_mut, is_empty};
use crate::{Code, Declaration, Definition};

pub(crate) static DEFINITIONS: &[Definition] = &[
    row(Code::Builtin(BuiltinOperator::REDUCE_ALL), 1, |declaration| {
        truths(declaration, |a, b| a && b, true, Reduction::Minimum)
    }),
    row(Code::Builtin(BuiltinOperator::REDUCE_ANY), 1, |declaration| {
        truths(declaration, |a, b| a || b, false, Reduction::Maximum)
    }),
    row(Code::Builtin(BuiltinOperator::REDUCE_MAX), 3, |declaration| {
        numbers(declaration, Kernel::Maximum, (i64::max, i64::MIN), Reduction::Maximum)
    }),
    row(Code::Builtin(BuiltinOperator::REDUCE_MIN), 3, |declaration| {
        numbers(declaration, Kernel::Minimum, (i64::min, i64::MAX), Reduction::Minimum)
    }),
    row(Code::Builtin(BuiltinOperator::REDUCE_PROD), 2, |declaration| {
        numbers(declaration, Kernel::Product, (i64::wrapping_mul, 1), Reduction::Product)
    }),
    row(Code::Builtin(BuiltinOperator::SUM), 2, |declaration| {
        numbers(declaration, Kernel::Sum, (i64::wrapping_add, 0), Reduction::Sum)
    }),
];

type Parsed = Result<Arc<dyn Op>, OpError>;

const fn row(code: Code, newest: i32, parse: fn(&Declaration<'_>) -> Parsed) -> Definition {
    Definition { code, versions: 1..=newest, parse }
}

/// A fold of numbers.
#[derive(Debug)]
struct Numbers {
    name: &'static str,
    folding: Folding,
    /// The fold of floats on the CPU.
    kernel: Kernel,
    /// The fold of integers, in 64 bits and wrapped, and the number that it starts with, or else the nearest one of the
    /// type.
    integer: (fn(i64, i64) -> i64, i64),
    /// The fold on a device.
    reduction: Reduction,
}

fn numbers(
    declaration: &Declaration<'_>,
    kernel: Kernel,
    integer: (fn(i64, i64) -> i64, i64),
    reduction: Reduction,
) -> Parsed {
    let (name, folding) = (declaration.builtin_name(), Folding::parse(declaration)?);
    Ok(Arc::new(Numbers { name, folding, kernel, integer, reduction }))
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

impl Op for Numbers {
    fn name(&self) -> &str {
        self.name
    }

    fn infer(&self, inputs: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError> {
        self.folding.infer(inputs, &[DataType::Float32, DataType::Int32, DataType::Int64])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        if is_empty(eval) {
            return Ok(());
        }
        let (input, start) = (eval.input(0)?, self.integer.1);
        match input.data_type {
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

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Refusal> {
        let input = lowering.float_input(0)?;
        self.folding.lower(lowering, self.reduction, input)
    }
}

/// A fold of truth values; any byte but 0 is true.
#[derive(Debug)]
struct Truths {
    name: &'static str,
    folding: Folding,
    function: fn(bool, bool) -> bool,
    /// The fold of nothing.
    start: bool,
    /// The same fold of 1 for true and 0 for false, on a device.
    reduction: Reduction,
}

fn truths(
    declaration: &Declaration<'_>,
    function: fn(bool, bool) -> bool,
    start: bool,
    reduction: Reduction,
) -> Parsed {
    let (name, folding) = (declaration.builtin_name(), Folding::parse(declaration)?);
    Ok(Arc::new(Truths { name, folding, function, start, reduction }))
}

impl Op for Truths {
    fn name(&self) -> &str {
        self.name
    }

    fn infer(&self, inputs: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError> {
        self.folding.infer(inputs, &[DataType::Bool])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        if is_empty(eval) {
            return Ok(());
        }
        let (input, folded) = (eval.input(0)?, self.folding.axes(eval)?);
        let step = |folded: u8, element: u8| u8::from((self.function)(folded != 0, element != 0));
        let output = elements_mut::<u8>(eval.outputs[0].bytes)?;
        reduce::fold(elements(input.bytes)?, input.shape, &folded, output, u8::from(self.start), step);
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Refusal> {
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
        let all = Truths { name: "", folding, function, start: true, reduction: Reduction::Minimum };
        let integer: (fn(i64, i64) -> i64, i64) = (i64::wrapping_add, 0);
        let sum = Numbers { name: "", folding, kernel: Kernel::Sum, integer, reduction: Reduction::Sum };
        for (data_type, is_number) in [(DataType::Float32, true), (DataType::Int64, true), (DataType::Bool, false)] {
            let input = Fact::new(data_type, [2, 3]);
            let inputs = [Some(&input), Some(&axes)];
            assert_eq!((sum.infer(&inputs).is_ok(), all.infer(&inputs).is_ok()), (is_number, !is_number));
        }
    }
}

//! [`Combination`] of elements of any numeric type.

use attache_base::DataType;
use attache_gpu_ir::{BinaryOp, Expression, IntBinaryOp, IntExpression, Primitive, ReduceOp, ValueId};
use attache_graph::{Lowering, Unsupported};
use half::f16;

use crate::Combination;
use crate::shared::integers::{moves_as_integer, ordered, wrapped};

/// A type whose elements can be combined. Integers wrap; any element other than 0 is true.
pub(crate) trait Combinable: bytemuck::Pod + Send + Sync {
    /// Returns `a` and `b` combined.
    fn combine(combination: Combination, a: Self, b: Self) -> Self;
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Combinable for $type {
            fn combine(combination: Combination, a: Self, b: Self) -> Self {
                match combination {
                    Combination::Sum => a.wrapping_add(b),
                    Combination::Product => a.wrapping_mul(b),
                    Combination::Maximum => a.max(b),
                    Combination::Minimum => a.min(b),
                    Combination::All => Self::from(a != 0 && b != 0),
                    Combination::Any => Self::from(a != 0 || b != 0),
                }
            }
        }
    )*};
}

macro_rules! floats {
    ($($type:ty),*) => {$(
        impl Combinable for $type {
            fn combine(combination: Combination, a: Self, b: Self) -> Self {
                let truth = |truth: bool| <$type>::from(u8::from(truth));
                match combination {
                    Combination::Sum => a + b,
                    Combination::Product => a * b,
                    // Comparisons as in C++: where one is NaN, the first one is taken.
                    Combination::Maximum => if a < b { b } else { a },
                    Combination::Minimum => if b < a { b } else { a },
                    Combination::All => truth(a != truth(false) && b != truth(false)),
                    Combination::Any => truth(a != truth(false) || b != truth(false)),
                }
            }
        }
    )*};
}

integers!(i8, u8, i16, u16, i32, u32, i64, u64);
floats!(f16, f32, f64);

/// A truth value, in a byte.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub(crate) struct Truth(u8);

impl Combinable for Truth {
    /// The sum is whether any is true, the product whether all are.
    fn combine(combination: Combination, a: Self, b: Self) -> Self {
        let (a, b) = (a.0 != 0, b.0 != 0);
        Self(u8::from(match combination {
            Combination::Sum | Combination::Maximum | Combination::Any => a || b,
            Combination::Product | Combination::Minimum | Combination::All => a && b,
        }))
    }
}

/// Evaluates an expression with `$element` bound to the type whose elements a tensor of type `$data_type` has. Returns an error
/// from the enclosing function for types that are not numeric.
macro_rules! with_combinable {
    ($data_type:expr, $element:ident => $body:expr) => {{
        macro_rules! with {
            ($type:ty) => {{
                type $element = $type;
                $body
            }};
        }
        match $data_type {
            attache_base::DataType::Float32 => with!(f32),
            attache_base::DataType::Float16 => with!(half::f16),
            attache_base::DataType::Float64 => with!(f64),
            attache_base::DataType::Int8 => with!(i8),
            attache_base::DataType::UInt8 => with!(u8),
            attache_base::DataType::Int16 => with!(i16),
            attache_base::DataType::UInt16 => with!(u16),
            attache_base::DataType::Int32 => with!(i32),
            attache_base::DataType::UInt32 => with!(u32),
            attache_base::DataType::Int64 => with!(i64),
            attache_base::DataType::UInt64 => with!(u64),
            attache_base::DataType::Bool => with!(crate::shared::combine::Truth),
            other => return Err(OpError::unsupported(format!("elements of type {other} are not combined"))),
        }
    }};
}
pub(crate) use with_combinable;

/// Returns, for a device, the expression of two floats combined, `Input(0)` and `Input(1)`.
pub(crate) fn combined_floats(combination: Combination) -> Result<Expression, Unsupported> {
    let [left, right] = [0, 1].map(Expression::Input);
    let function = match combination {
        Combination::Sum => BinaryOp::Add,
        Combination::Product => BinaryOp::Multiply,
        Combination::Maximum => BinaryOp::Maximum,
        Combination::Minimum => BinaryOp::Minimum,
        Combination::All | Combination::Any => return Err(Unsupported::new("truth values of floats")),
    };
    Ok(left.binary(function, right))
}

/// Returns, for a device, the expression of two integers or truth values combined, `Input(0)` and `Input(1)`, which are
/// of the type `data_type`.
pub(crate) fn combined_integers(combination: Combination, data_type: DataType) -> IntExpression {
    use IntExpression::{Constant, Input};
    let is_truth = data_type == DataType::Bool;
    let extremum = |function| {
        let [left, right] = [0, 1].map(|index| ordered(Input(index), data_type));
        ordered(left.binary(function, right), data_type)
    };
    let truth = |x: IntExpression| x.select(Constant(1), Constant(0));
    match combination {
        Combination::Sum if is_truth => extremum(IntBinaryOp::Maximum),
        Combination::Sum => wrapped(Input(0).add(Input(1)), data_type),
        Combination::Product if is_truth => extremum(IntBinaryOp::Minimum),
        Combination::Product => wrapped(Input(0).multiply(Input(1)), data_type),
        Combination::Maximum => extremum(IntBinaryOp::Maximum),
        Combination::Minimum => extremum(IntBinaryOp::Minimum),
        Combination::All => truth(Input(0)).multiply(truth(Input(1))),
        Combination::Any => Input(0).select(Constant(1), truth(Input(1))),
    }
}

/// Emits the elements along axes combined to one, for a value of the type `data_type`, and returns the result.
pub(crate) fn combined_along(
    lowering: &mut Lowering<'_>,
    (combination, data_type): (Combination, DataType),
    axes: Vec<usize>,
    value: ValueId,
) -> Result<ValueId, Unsupported> {
    use IntExpression::{Constant, Input};
    let reduction = match combination {
        Combination::Sum if data_type != DataType::Bool => ReduceOp::Sum,
        Combination::Product if data_type != DataType::Bool => ReduceOp::Product,
        Combination::Sum | Combination::Maximum | Combination::Any => ReduceOp::Maximum,
        Combination::Product | Combination::Minimum | Combination::All => ReduceOp::Minimum,
    };
    let reduce = Primitive::Reduce { reduction, axes };
    let is_truth = matches!(combination, Combination::All | Combination::Any);
    if data_type == DataType::Float32 && !is_truth {
        return lowering.emit(reduce, &[value]);
    }
    if !moves_as_integer(data_type) {
        return Err(Unsupported::new(format!("elements of type {data_type} are not combined on a device")));
    }
    let key = match is_truth {
        true => Input(0).select(Constant(1), Constant(0)),
        false if matches!(reduction, ReduceOp::Maximum | ReduceOp::Minimum) => ordered(Input(0), data_type),
        false => Input(0),
    };
    let shape = lowering.shape(value).clone();
    let value = lowering.int_map(key, &shape, &[value])?;
    let combined = lowering.emit(reduce, &[value])?;
    let after = match reduction {
        ReduceOp::Maximum | ReduceOp::Minimum if !is_truth => ordered(Input(0), data_type),
        _ => wrapped(Input(0), data_type),
    };
    let shape = lowering.shape(combined).clone();
    lowering.int_map(after, &shape, &[combined])
}

/// Types that can be combined.
pub(crate) const COMBINABLE: [attache_base::DataType; 12] = {
    use attache_base::DataType::{
        Bool, Float16, Float32, Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64,
    };
    [Float32, Float16, Float64, Int8, UInt8, Int16, UInt16, Int32, UInt32, Int64, UInt64, Bool]
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_combined() {
        let of = |combination| i8::combine(combination, 100, 50);
        assert_eq!([Combination::Sum, Combination::Product, Combination::Maximum].map(of), [-106, -120, 100]);
        assert_eq!([Combination::Minimum, Combination::All, Combination::Any].map(of), [50, 1, 1]);
        assert_eq!(f32::combine(Combination::Any, 0.0, 2.0), 1.0);
        assert_eq!(f16::combine(Combination::All, f16::ONE, f16::ZERO), f16::ZERO);
        assert_eq!(Truth::combine(Combination::Sum, Truth(1), Truth(1)).0, 1);
    }
}

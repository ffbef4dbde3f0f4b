//! [`Combination`] of elements of any numeric type.

use half::f16;

use crate::Combination;

/// A type whose elements can be combined. Integers wrap; any element other than 0 is true.
pub(crate) trait Combinable: bytemuck::Pod {
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

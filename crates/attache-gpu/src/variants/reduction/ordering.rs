//! Shared by the variants that search or sort: WGSL that turns an element into an integer key, so that comparing
//! keys orders elements, NaN included.

use crate::wgsl::Writer;
use crate::wgsl::accessor::Array;

/// WGSL of `order(value)`: integers in the order of floats. Zeros of both signs are equal. NaN is larger than any
/// number, or smaller if its sign bit is set.
const ORDER: &str = "fn order(value: f32) -> i32 {
    let bits = bitcast<i32>(value);
    let magnitude = bits & 0x7fffffff;
    return select(magnitude, -magnitude, bits < 0);
}
";

/// WGSL of `float_worth(value)`: like `order`, but NaN is smaller than any number.
const WORTH: &str = "fn float_worth(value: f32) -> i32 {
    let key = order(value);
    return select(key, -0x7fffffff - 1, abs(key) > 0x7f800000);
}
";

/// WGSL of `smallness(value)`: integers in the opposite order of floats. NaN is smaller than any number.
const SMALLNESS: &str = "fn smallness(value: f32) -> i32 {
    let key = order(value);
    return select(-key, -0x7fffffff - 1, abs(key) > 0x7f800000);
}
";

/// Returns WGSL of type `i32` that is larger for larger elements `at` of the array. `are_integers` states whether the
/// elements are compared as integers.
pub(super) fn key(writer: &mut Writer<'_>, array: &Array, are_integers: bool, at: &str) -> String {
    if are_integers {
        return array.integers(at);
    }
    writer.function(ORDER);
    format!("order({})", array.floats(at))
}

/// Returns WGSL of type `i32` that is larger for the better of two elements: the larger one if `largest`, else the smaller one.
/// NaN is worse than any number. `element` is WGSL of an element, of type `i32` if `is_integer`, else of type `f32`.
pub(super) fn worth(writer: &mut Writer<'_>, is_integer: bool, largest: bool, element: &str) -> String {
    if is_integer {
        return if largest { element.to_owned() } else { format!("~{element}") };
    }
    writer.function(ORDER);
    writer.function(if largest { WORTH } else { SMALLNESS });
    format!("{}({element})", if largest { "float_worth" } else { "smallness" })
}

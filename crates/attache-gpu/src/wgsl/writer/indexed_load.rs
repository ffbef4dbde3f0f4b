//! Generates WGSL that loads through an index map: each element comes from the location that the map gives,
//! or is the fill value.

use std::fmt::Write;

use attache_base::{Shape, strides};
use attache_gpu_ir::{Index, IndexMap};

use super::Writer;
use crate::wgsl::accessor::Array;
use crate::wgsl::expression::{MIRROR, index, vector};

/// Whether vectors of 4 elements along the map's innermost output axis are contiguous and aligned in the
/// input of shape `input`, so that they can be loaded at once.
pub(crate) fn keeps_vectors(map: &IndexMap, input: &[usize]) -> bool {
    let (Some(last), Some(extent)) = (map.output.len().checked_sub(1), input.last()) else { return false };
    let (inner, outer) = map.coordinates.split_last().expect("the input has an axis");
    let whole = extent.is_multiple_of(4) && map.output[last].is_multiple_of(4);
    whole && shift(inner, last).is_some_and(|shift| shift % 4 == 0) && !outer.iter().any(|index| mentions(index, last))
}

/// Returns the offset of an index along an axis, if the index is that axis plus a constant; otherwise `None`.
fn shift(index: &Index, axis: usize) -> Option<i64> {
    match index {
        Index::Axis(a) if *a == axis => Some(0),
        Index::Add(a, b) => match (&**a, &**b) {
            (Index::Axis(a), Index::Constant(offset)) if *a == axis => Some(*offset),
            _ => None,
        },
        _ => None,
    }
}

fn mentions(index: &Index, axis: usize) -> bool {
    match index {
        Index::Axis(a) => *a == axis,
        Index::Constant(_) => false,
        Index::Add(a, b) => mentions(a, axis) || mentions(b, axis),
        Index::Multiply(a, _) | Index::Divide(a, _) | Index::Modulo(a, _) => mentions(a, axis),
        Index::Mirror { of, .. } => mentions(of, axis),
    }
}

/// Returns the WGSL of the function `fetch_NAME(g)`, where NAME is the array's name. The function returns
/// unit `g`, of `vector_width` elements, of the map's output. The array itself is read `width` elements at a
/// time.
pub(crate) fn fetching(
    writer: &mut Writer<'_>,
    array: &Array,
    (map, shape): (&IndexMap, &Shape),
    [width, vector_width]: [usize; 2],
) -> String {
    let element = if array.is_integer() { "i32" } else { "f32" };
    let (name, one, all) = (array.name(), vector(element, width), vector(element, vector_width));
    let last = map.output.len().saturating_sub(1);
    let innermost = shape.rank().saturating_sub(1);
    let units = |axis: usize, innermost: usize, number: usize| if axis == innermost { number / width } else { number };
    let extents: Vec<String> =
        map.output.iter().enumerate().map(|(axis, extent)| writer.param(units(axis, last, *extent))).collect();
    let mut body = coordinates(&extents);
    body += "    var at = 0;\n    var inside = true;\n";
    for (axis, (coordinate, stride)) in map.coordinates.iter().zip(strides(shape)).enumerate() {
        let text = match shift(coordinate, last) {
            Some(shift) if axis == innermost && width > 1 => {
                format!("o{last} + {}", writer.signed_param(shift / width as i64))
            }
            _ => index(coordinate, &mut |number| writer.signed_param(number)),
        };
        let extent = writer.param(units(axis, innermost, shape[axis]));
        let stride = writer.param(if axis == innermost { stride } else { stride / width });
        let _ = writeln!(body, "    let c{axis} = {text};\n    at += c{axis} * i32({stride});");
        if map.fill.is_some() {
            let _ = writeln!(body, "    inside = inside && c{axis} >= 0 && c{axis} < i32({extent});");
        }
    }
    let fill = writer.float_param(map.fill.unwrap_or(0.0));
    let fill = if array.is_integer() { format!("i32({fill})") } else { fill };
    let value = array.elements("at");
    let (mirror, unit) =
        (if body.contains("mirror(") { MIRROR } else { "" }, if width < vector_width { "unit" } else { "fetch" });
    let mut text = writer.once(mirror);
    let _ = write!(
        text,
        "fn {unit}_{name}(g: u32) -> {one} {{
{body}    var value = {one}({fill});
    if (inside) {{ value = {value}; }}
    return value;\n}}\n"
    );
    if width < vector_width {
        let parts: Vec<String> =
            (0..vector_width).map(|component| format!("unit_{name}(g * {vector_width}u + {component}u)")).collect();
        let _ = write!(text, "fn fetch_{name}(g: u32) -> {all} {{\n    return {all}({});\n}}\n", parts.join(", "));
    }
    text
}

/// Returns WGSL that defines the output coordinates of unit `g`: `o0`, `o1`, … of type `i32`. `extents` holds
/// the WGSL of each axis's extent. The innermost extent and coordinate count units of vector width, not
/// elements.
pub(crate) fn coordinates(extents: &[String]) -> String {
    let mut text = "    var rest = i32(g);\n".to_owned();
    for (axis, extent) in extents.iter().enumerate().skip(1).rev() {
        text += &format!("    let o{axis} = rest % i32({extent});\n    rest = rest / i32({extent});\n");
    }
    if !extents.is_empty() {
        text += "    let o0 = rest;\n";
    }
    text
}

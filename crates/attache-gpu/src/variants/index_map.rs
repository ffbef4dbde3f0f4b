//! An index map: each element fetched from where the map says, or filled in.

use attache_base::strides;
use attache_gpu_ir::{Index, IndexMap, Primitive, Scalar};

use super::{Variant, coordinates};
use crate::access::{lanes, store};
use crate::context::Context;
use crate::fuse::Kernel;
use crate::shader::{Shader, Writer};
use crate::text::{MIRROR, index, vector};

pub(super) const VARIANT: Variant = Variant {
    name: "index_map",
    applies: |_, kernel| matches!(kernel.primitive, Primitive::IndexMap(_)),
    cost: 1,
    write,
};

/// Whether the innermost axis is taken over whole, so that vectors of 4 stay together.
fn keeps_vectors(map: &IndexMap, input: &[usize]) -> bool {
    let (Some(last), Some(extent)) = (map.output.len().checked_sub(1), input.last()) else { return false };
    let reads = |index: &Index| mentions(index, last);
    let (inner, outer) = map.coordinates.split_last().expect("the input has an axis");
    extent.is_multiple_of(4) && map.output[last] == *extent && *inner == Index::Axis(last) && !outer.iter().any(reads)
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

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let Primitive::IndexMap(map) = &kernel.primitive else { unreachable!("applies") };
    let input = context.program.value(kernel.inputs[0]);
    let lanes = if keeps_vectors(map, &input.shape) { lanes(context.program, kernel) } else { 1 };
    let mut writer = Writer::new(VARIANT.name, context);
    let array = writer.read(kernel.inputs[0], lanes);
    writer.function(MIRROR);
    store(&mut writer, context, kernel, lanes);
    let last = map.output.len().saturating_sub(1);
    let in_lanes =
        |axis: usize, extent: usize, innermost: usize| if axis == innermost { extent / lanes } else { extent };
    let extents: Vec<String> =
        (map.output.iter().enumerate()).map(|(axis, extent)| writer.param(in_lanes(axis, *extent, last))).collect();
    let real = vector(if input.scalar == Scalar::F32 { "f32" } else { "i32" }, lanes);
    let mut body = coordinates(&extents);
    body += "    var at = 0;\n    var inside = true;\n";
    let innermost = input.shape.rank().saturating_sub(1);
    for (axis, (coordinate, stride)) in map.coordinates.iter().zip(strides(&input.shape)).enumerate() {
        let text = index(coordinate, &mut |number| writer.signed_param(number));
        let extent = writer.param(in_lanes(axis, input.shape[axis], innermost));
        let stride = writer.param(if axis == innermost { stride } else { stride / lanes });
        body += &format!("    let c{axis} = {text};\n    at += c{axis} * i32({stride});\n");
        if map.fill.is_some() {
            body += &format!("    inside = inside && c{axis} >= 0 && c{axis} < i32({extent});\n");
        }
    }
    let fill = writer.float_param(map.fill.unwrap_or(0.0));
    let fill = if input.scalar == Scalar::F32 { fill } else { format!("i32({fill})") };
    body += &format!("    var value = {real}({fill});\n    if (inside) {{ value = {}; }}\n", array.numbers("at"));
    body += "    store(g, value);\n";
    let elements: usize = map.output.iter().product();
    vec![writer.linear(elements / lanes, &body)]
}

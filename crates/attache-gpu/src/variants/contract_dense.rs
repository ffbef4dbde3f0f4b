//! A contraction of one group with a constant filter: 4 channels of several neighbouring positions an invocation, the
//! filter packed so that neighbouring invocations read neighbouring vectors.

use std::fmt::Write;
use std::sync::Arc;

use attache_gpu_ir::{Contraction, Primitive, Scalar, Source, ValueId};

use super::Variant;
use super::contract::source;
use crate::access::{lanes, store_anywhere};
use crate::context::Context;
use crate::fuse::Kernel;
use crate::shader::{GROUP, Shader, Writer};

pub(super) const VARIANT: Variant = Variant { name: "contract_dense", applies, cost: 2, write };

/// Work groups along one axis of a dispatch, at most.
const MAX_GROUPS: usize = 65535;

fn applies(context: &Context<'_>, kernel: &Kernel) -> bool {
    let Primitive::Contract(contraction) = &kernel.primitive else { return false };
    if context.program.value(kernel.inputs[0]).scalar == Scalar::I32 {
        return false;
    }
    let constant = |id: &ValueId| matches!(context.program.value(*id).source, Source::Constant(_));
    let filter = context.program.shape(kernel.inputs[1]);
    let packed = (1 + filter[1..].iter().product::<usize>()) * filter[0].next_multiple_of(4) * 4;
    let fits = packed <= context.limits.max_binding_bytes && filter[0].div_ceil(64) <= MAX_GROUPS;
    contraction.groups == 1 && kernel.inputs[1..].iter().all(constant) && fits
}

/// Bias, then the filter, output channels innermost and padded to a multiple of 4:
/// `[1 + height × width × channels][outputs]`.
fn pack(context: &Context<'_>, kernel: &Kernel) -> Arc<[f32]> {
    let shape = context.program.shape(kernel.inputs[1]);
    let (outputs, depth) = (shape[0], shape[1..].iter().product::<usize>());
    let padded = outputs.next_multiple_of(4);
    let filter = context.floats(kernel.inputs[1]);
    let mut packed = vec![0.0; (1 + depth) * padded];
    if let Some(bias) = kernel.inputs.get(2) {
        packed[..outputs].copy_from_slice(&context.floats(*bias));
    }
    for (output, row) in filter.chunks_exact(depth.max(1)).enumerate() {
        for (place, weight) in row.iter().enumerate() {
            packed[(1 + place) * padded + output] = *weight;
        }
    }
    packed.into()
}

/// Whether each output position reads the one input position of the same number.
fn is_pointwise(contraction: &Contraction, data: &[usize], filter: &[usize]) -> bool {
    filter[1..3] == [1, 1]
        && contraction.strides == [1, 1]
        && contraction.before == [0, 0]
        && data[1..3] == contraction.output
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let Primitive::Contract(contraction) = &kernel.primitive else { unreachable!("applies") };
    let data = context.program.shape(kernel.inputs[0]);
    let filter = context.program.shape(kernel.inputs[1]);
    let output = context.program.shape(kernel.outputs[0]);
    let positions: usize = output[..3].iter().product();
    let quads = filter[0].div_ceil(4);
    let each = if positions >= 4096 {
        4
    } else if positions >= 256 {
        2
    } else {
        1
    };
    let deep = if data[3].is_multiple_of(4) { 4 } else { 1 };
    let out_lanes = if filter[0].is_multiple_of(4) { lanes(context.program, kernel) } else { 1 };

    let mut writer = Writer::new(VARIANT.name, context);
    let input = writer.read(kernel.inputs[0], deep);
    let weights = writer.packed(pack(context, kernel), 4);
    store_anywhere(&mut writer, context, kernel, out_lanes);
    let pointwise = is_pointwise(contraction, data, filter);
    if !pointwise {
        source(&mut writer, contraction);
    }
    let across = quads.next_power_of_two().min(16) as u32;
    let down = GROUP / across;
    let tiles = positions.div_ceil(each).div_ceil(down as usize);
    let rows_of_groups = tiles.div_ceil(MAX_GROUPS);
    let row = writer.param(MAX_GROUPS * down as usize);
    let (total, wide) = (writer.param(positions), writer.param(quads));
    let outputs = writer.param(filter[0]);
    let depth = writer.param(data[3] / deep);
    let mut body = format!(
        "    let quad = id.x;
    let first = (id.y + id.z * {row}) * {each}u;
    if (quad >= {wide} || first >= {total}) {{ return; }}
    let bias = {};\n",
        weights.reals("quad")
    );
    for p in 0..each {
        let _ = writeln!(body, "    var sum{p} = bias;\n    let at{p} = min(first + {p}u, {total} - 1u);");
    }
    let fetch = |p: usize| input.reals(&format!("from{p} + c"));
    let mut inner = String::new();
    let loaded = if deep == 4 { "vec4<f32>" } else { "f32" };
    for p in 0..each {
        let value = if pointwise { fetch(p) } else { format!("select({loaded}(0.0), {}, inside{p})", fetch(p)) };
        let _ = writeln!(inner, "            let v{p} = {value};");
    }
    for k in 0..deep {
        let weight = weights.reals(&format!("tap + (c * {deep}u + {k}u) * {wide}"));
        let _ = writeln!(inner, "            let w{k} = {weight};");
        for p in 0..each {
            let part = if deep == 4 { format!("v{p}.{}", ["x", "y", "z", "w"][k]) } else { format!("v{p}") };
            let _ = writeln!(inner, "            sum{p} = fma(vec4<f32>({part}), w{k}, sum{p});");
        }
    }
    let sweep = format!("        for (var c = 0u; c < {depth}; c++) {{\n{inner}        }}\n");
    if pointwise {
        for p in 0..each {
            let _ = writeln!(body, "    let from{p} = at{p} * {depth};");
        }
        let _ = write!(body, "    let tap = {wide} + quad;\n{sweep}");
    } else {
        let [height, width] = [1, 2].map(|axis| writer.param(data[axis]));
        let [out_height, out_width] = [1, 2].map(|axis| writer.param(output[axis]));
        for p in 0..each {
            let _ = writeln!(
                body,
                "    let x{p} = i32(at{p} % {out_width});
    let y{p} = i32(at{p} / {out_width} % {out_height});
    let b{p}_ = i32(at{p} / {out_width} / {out_height});"
            );
        }
        let (rows, columns) = (filter[1], filter[2]);
        let _ =
            writeln!(body, "    for (var i = 0u; i < {rows}u; i++) {{\n    for (var j = 0u; j < {columns}u; j++) {{");
        for p in 0..each {
            let _ = writeln!(
                body,
                "        let sy{p} = source_y(y{p}, i, i32({height}));
        let sx{p} = source_x(x{p}, j, i32({width}));
        let inside{p} = sy{p} >= 0 && sx{p} >= 0;
        let from{p} = u32(max((b{p}_ * i32({height}) + sy{p}) * i32({width}) + sx{p}, 0)) * {depth};"
            );
        }
        let any = (0..each).map(|p| format!("inside{p}")).collect::<Vec<_>>().join(" || ");
        let step = deep;
        let _ = write!(
            body,
            "        if (!({any})) {{ continue; }}
        let tap = {wide} + (i * {columns}u + j) * {depth} * {step}u * {wide} + quad;\n{sweep}    }}\n    }}\n"
        );
    }
    for p in 0..each {
        let put = if out_lanes == 4 {
            format!("store(at{p} * {wide} + quad, sum{p});")
        } else {
            (0..4)
                .map(|k| {
                    let part = ["x", "y", "z", "w"][k];
                    format!("if (quad * 4u + {k}u < {outputs}) {{ store(at{p} * {outputs} + quad * 4u + {k}u, sum{p}.{part}); }} ")
                })
                .collect()
        };
        let _ = writeln!(body, "    if (first + {p}u < {total}) {{ {put} }}");
    }
    let groups = [quads.div_ceil(across as usize) as u32, tiles.min(MAX_GROUPS) as u32, rows_of_groups as u32];
    vec![writer.finish([across, down, 1], groups, "", &body)]
}

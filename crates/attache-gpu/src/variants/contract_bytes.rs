//! A contraction of bytes of one group with a constant filter: 4 channels of several neighbouring positions an invocation,
//! four products at a time. Where there are few results of many products, several invocations share one's products.
//!
//! With zero points `z` of the data and `w` of the filter, `Σ (x − z)(f − w) = Σ x·f − w Σ x − z Σ (f − w)`, where padding
//! counts as `x = z`: the last sum is known beforehand and joins the bias.

use std::fmt::Write;
use std::sync::Arc;

use attache_gpu_ir::{Bytes, Contraction, Primitive, Source};

use super::Variant;
use super::contract::source;
use crate::access::{lanes, store_anywhere};
use crate::context::Context;
use crate::fuse::Kernel;
use crate::shader::{GROUP, Shader, Writer};
use crate::storage::Storage;

pub(super) const VARIANT: Variant = Variant { name: "contract_bytes", applies, cost: 2, write };

/// Work groups along one axis of a dispatch, at most.
const MAX_GROUPS: usize = 65535;

/// Results, in vectors of 4, up to which several invocations share the products of one.
const FEW_RESULTS: usize = 32768;

/// Products, four at a time, from which on sharing pays.
const MANY_PRODUCTS: usize = 16;

/// A filter's integers as signed bytes, and its zero point among those; `None` where bytes don't hold them.
pub(super) fn signed_filter(context: &Context<'_>, kernel: &Kernel) -> Option<(Vec<i8>, i32)> {
    let Primitive::Contract(contraction) = &kernel.primitive else { return None };
    let Source::Constant(constant) = &context.program.value(kernel.inputs[1]).source else { return None };
    let (integers, point) = (constant.integers()?, contraction.zero_points[1]);
    let shift = if integers.iter().all(|integer| *integer <= 127) { 0 } else { 128 };
    let bytes: Option<Vec<i8>> = integers.iter().map(|integer| i8::try_from(integer - shift).ok()).collect();
    Some((bytes?, point.wrapping_sub(shift as i32)))
}

/// The zero point of the data as a signed byte, and whether its bytes have a sign already; `None` where it isn't stored as
/// bytes.
pub(super) fn signed_data(context: &Context<'_>, kernel: &Kernel) -> Option<(i8, bool)> {
    let Primitive::Contract(contraction) = &kernel.primitive else { return None };
    let point = i64::from(contraction.zero_points[0]);
    match context.storages.of(kernel.inputs[0]) {
        Storage::Bytes(Bytes::Signed) => Some((i8::try_from(point).ok()?, true)),
        Storage::Bytes(Bytes::Unsigned) => Some((i8::try_from(point - 128).ok()?, false)),
        _ => None,
    }
}

/// The bias, or zeros; `None` where it isn't known beforehand.
pub(super) fn bias(context: &Context<'_>, kernel: &Kernel) -> Option<Vec<i32>> {
    let outputs = context.program.shape(kernel.inputs[1])[0];
    let Some(id) = kernel.inputs.get(2) else { return Some(vec![0; outputs]) };
    match &context.program.value(*id).source {
        Source::Constant(constant) => Some(constant.integers()?.into_iter().map(|integer| integer as i32).collect()),
        _ => None,
    }
}

fn applies(context: &Context<'_>, kernel: &Kernel) -> bool {
    let Primitive::Contract(contraction) = &kernel.primitive else { return false };
    let filter = context.program.shape(kernel.inputs[1]);
    let packed = (1 + filter[1] * filter[2] * filter[3].div_ceil(4)) * filter[0].next_multiple_of(4) * 4;
    let fits = packed <= context.limits.max_binding_bytes && filter[0].div_ceil(32) <= MAX_GROUPS;
    contraction.groups == 1
        && fits
        && signed_data(context, kernel).is_some()
        && signed_filter(context, kernel).is_some()
        && bias(context, kernel).is_some()
}

/// Four signed bytes as a word, the first lowest; those left out are 0.
pub(super) fn word(bytes: impl IntoIterator<Item = i8>) -> u32 {
    bytes.into_iter().enumerate().map(|(place, byte)| u32::from(byte as u8) << (8 * place)).sum()
}

/// Bias, then the filter, output channels innermost and padded to a multiple of 4, four input channels to a word:
/// `[1 + height × width × ⌈channels / 4⌉][outputs]`.
fn pack(context: &Context<'_>, kernel: &Kernel, data_zero: i8) -> (Arc<[u32]>, i32) {
    let shape = context.program.shape(kernel.inputs[1]);
    let (outputs, taps, channels) = (shape[0], shape[1] * shape[2], shape[3]);
    let (filter, filter_zero) = signed_filter(context, kernel).expect("applies");
    let bias = bias(context, kernel).expect("applies");
    let (padded, depth) = (outputs.next_multiple_of(4), channels.div_ceil(4));
    let mut packed = vec![0; (1 + taps * depth) * padded];
    for (output, row) in filter.chunks_exact((taps * channels).max(1)).enumerate() {
        let weights = row.iter().fold(0i32, |sum, weight| sum.wrapping_add(i32::from(*weight).wrapping_sub(filter_zero)));
        packed[output] = bias[output].wrapping_sub(weights.wrapping_mul(data_zero.into())) as u32;
        for (tap, weights) in row.chunks_exact(channels).enumerate() {
            for (place, weights) in weights.chunks(4).enumerate() {
                packed[(1 + tap * depth + place) * padded + output] = word(weights.iter().copied());
            }
        }
    }
    (packed.into(), filter_zero)
}

/// WGSL of the function `fetch(position, c, inside)`: four channels of the data from channel `4·c` on as signed bytes; what
/// stands for zero where the position isn't inside. Channels past the last are 0.
fn fetch(writer: &mut Writer<'_>, kernel: &Kernel, channels: usize, zero: i8, signed: bool) {
    let words = writer.read(kernel.inputs[0], 4);
    let flip = if signed { "" } else { " ^ 0x80808080u" };
    let zeros = writer.param(word([zero; 4]) as usize);
    let count = writer.param(channels);
    let (value, mask) = if channels.is_multiple_of(4) {
        (format!("    let value = {};\n", words.word(&format!("position * ({count} / 4u) + c"))), "word".to_owned())
    } else {
        let value = format!(
            "    let first = position * {count} + 4u * c;
    let shift = first % 4u * 8u;
    let low = {};
    let high = {};
    let value = select((low >> shift) | (high << ((32u - shift) & 31u)), low, shift == 0u);\n",
            words.word("first / 4u"),
            words.word("(first + min(3u, COUNT - 4u * c - 1u)) / 4u").replace("COUNT", &count),
        );
        (value, format!("word & (0xffffffffu >> (32u - 8u * min(4u, {count} - 4u * c)))"))
    };
    writer.function(&format!(
        "fn fetch(position: u32, c: u32, inside: bool) -> u32 {{
{value}    let word = select({zeros}, value{flip}, inside);
    return {mask};
}}\n"
    ));
}

/// How results and products are spread over invocations.
struct Spread {
    /// Positions of one invocation.
    each: usize,
    /// Invocations that share the products of one result.
    split: usize,
    /// Vectors of channels, and positions, of a work group.
    across: u32,
    down: u32,
}

impl Spread {
    fn new(positions: usize, quads: usize, products: usize) -> Self {
        let split = if positions * quads <= FEW_RESULTS && products >= MANY_PRODUCTS { 8 } else { 1 };
        let each = match positions {
            _ if split > 1 => 1,
            4096.. => 4,
            256.. => 2,
            _ => 1,
        };
        let across = quads.next_power_of_two().min(if split > 1 { 8 } else { 16 }) as u32;
        Self { each, split, across, down: GROUP / split as u32 / across }
    }
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
    let (positions, quads): (usize, usize) = (output[..3].iter().product(), filter[0].div_ceil(4));
    let products = filter[1] * filter[2] * data[3].div_ceil(4);
    let Spread { each, split, across, down } = Spread::new(positions, quads, products);
    let out_lanes = if filter[0].is_multiple_of(4) { lanes(context.program, kernel) } else { 1 };

    let mut writer = Writer::new(VARIANT.name, context);
    let (zero, signed) = signed_data(context, kernel).expect("applies");
    fetch(&mut writer, kernel, data[3], zero, signed);
    let (packed, filter_zero) = pack(context, kernel, zero);
    let weights = writer.words(packed, 4);
    store_anywhere(&mut writer, context, kernel, out_lanes);
    let pointwise = is_pointwise(contraction, data, filter);
    if !pointwise {
        source(&mut writer, contraction);
    }
    let tiles = positions.div_ceil(each).div_ceil(down as usize);
    let row = writer.param(MAX_GROUPS * down as usize);
    let (total, wide) = (writer.param(positions), writer.param(quads));
    let (outputs, depth) = (writer.param(filter[0]), writer.param(data[3].div_ceil(4)));
    let mut body = format!(
        "    let first = (id.y + id.z / {split}u * {row}) * {each}u;
    let share = id.z % {split}u;
    let is_there = id.x < {wide} && first < {total};
    let quad = min(id.x, {wide} - 1u);\n"
    );
    for p in 0..each {
        let _ = writeln!(body, "    var sum{p} = vec4<i32>(0);\n    var all{p} = 0;\n    let at{p} = min(first + {p}u, {total} - 1u);");
    }
    let mut inner = format!("            let w = {weights}[tap + c * {wide}];\n");
    for p in 0..each {
        let inside = if pointwise { "true".to_owned() } else { format!("inside{p}") };
        let _ = writeln!(inner, "            let v{p} = fetch(from{p}, c, {inside});");
        let parts = ["x", "y", "z", "w"].map(|part| format!("dot4I8Packed(v{p}, w.{part})")).join(", ");
        let _ = writeln!(inner, "            sum{p} += vec4<i32>({parts});");
        if filter_zero != 0 {
            let _ = writeln!(inner, "            all{p} += dot4I8Packed(v{p}, 0x01010101u);");
        }
    }
    let sweep = format!("        for (var c = share; c < {depth}; c += {split}u) {{\n{inner}        }}\n");
    if pointwise {
        for p in 0..each {
            let _ = writeln!(body, "    let from{p} = at{p};");
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
        let from{p} = u32(max((b{p}_ * i32({height}) + sy{p}) * i32({width}) + sx{p}, 0));"
            );
        }
        let _ = write!(
            body,
            "        let tap = {wide} + (i * {columns}u + j) * {depth} * {wide} + quad;\n{sweep}    }}\n    }}\n"
        );
    }
    let filter_zero_text = writer.signed_param(filter_zero.into());
    for p in 0..each {
        if filter_zero != 0 {
            let _ = writeln!(body, "    sum{p} -= vec4<i32>({filter_zero_text} * all{p});");
        }
    }
    let mut declarations = String::new();
    if split > 1 {
        declarations = format!("var<workgroup> parts: array<vec4<i32>, {GROUP}>;\n");
        let _ = write!(
            body,
            "    let place = local.y * {across}u + local.x;
    parts[local.z * {layer}u + place] = sum0;
    workgroupBarrier();
    if (share > 0u) {{ return; }}
    for (var other = 1u; other < {split}u; other++) {{ sum0 += parts[other * {layer}u + place]; }}\n",
            layer = across * down,
        );
    }
    let _ = writeln!(body, "    if (!is_there) {{ return; }}\n    let bias = bitcast<vec4<i32>>({weights}[quad]);");
    for p in 0..each {
        let put = if out_lanes == 4 {
            format!("store(at{p} * {wide} + quad, sum{p} + bias);")
        } else {
            (0..4)
                .map(|k| {
                    let part = ["x", "y", "z", "w"][k];
                    format!(
                        "if (quad * 4u + {k}u < {outputs}) {{ store(at{p} * {outputs} + quad * 4u + {k}u, \
                         sum{p}.{part} + bias.{part}); }} "
                    )
                })
                .collect()
        };
        let _ = writeln!(body, "    if (first + {p}u < {total}) {{ {put} }}");
    }
    let rows_of_groups = tiles.div_ceil(MAX_GROUPS);
    let groups = [quads.div_ceil(across as usize) as u32, tiles.min(MAX_GROUPS) as u32, rows_of_groups as u32];
    vec![writer.finish([across, down, split as u32], groups, &declarations, &body)]
}

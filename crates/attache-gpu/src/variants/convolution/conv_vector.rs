//! Variant `conv_vector`: pointwise convolution of floats with one group, a constant filter and few output pixels, which
//! is a product of a matrix and a few vectors. A work group stages all input channels of all pixels, or computes them, and
//! multiplies them by a few columns of the filter, of which its invocations divide K among them. What a work group reads of
//! the filter is contiguous. A filter of 8-bit or 4-bit integers is read as it is.

use std::fmt::Write;
use std::sync::Arc;

use attache_base::DataType;
use attache_gpu_ir::{Primitive, Source};

use super::left_rows::LeftRows;
use super::tiling::put;
use crate::kernel::{Kernel, rows_group, staged_rows, vector_width};
use crate::variants::reduction::rows_group::levels;
use crate::variants::{Computes, Variant};
use crate::wgsl::accessor::Array;
use crate::wgsl::epilogue::{store_anywhere, store_given};
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant =
    Variant { name: "conv_vector", computes: Computes::Rows, applies, priority, write };

/// Maximum output pixels for which no other variant is faster. These would need a few for each invocation.
const FEW_PIXELS: usize = 3;

/// Numbers of vec4s of output channels of a work group, each with the number of work groups that it has to leave.
const COLUMNS: [(usize, usize); 3] = [(8, 256), (4, 128), (2, 0)];

/// Maximum number of units of the filter that an invocation loads before it multiplies the first. It loads them before the
/// rows are staged, so that both take the time of one.
const AT_ONCE: usize = 8;

fn applies(context: &Context<'_>, kernel: &Kernel) -> bool {
    let is_convolution = matches!(kernel.primitive, Primitive::Convolution(_));
    is_convolution && staged_rows(context.program, kernel, context.limits).is_some()
}

fn priority(context: &Context<'_>, kernel: &Kernel) -> u32 {
    let [rows, _] = staged_rows(context.program, kernel, context.limits).expect("applies");
    if rows <= FEW_PIXELS && context.limits.splits_k { 0 } else { 60 }
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let [rows, depth] = staged_rows(context.program, kernel, context.limits).expect("applies");
    let outputs = context.program.shape(kernel.inputs[1])[0];
    let vec4s = outputs.div_ceil(4);
    let leaves_enough = |(columns, least): &&(usize, usize)| vec4s / columns >= *least;
    let (columns, _) = *COLUMNS.iter().find(leaves_enough).expect("the last leaves enough");
    let invocations = rows_group(context.limits);
    let parts = invocations / columns;
    let mut writer = Writer::new(VARIANT.name, context);
    let [wide, outputs_text] = [vec4s, outputs].map(|extent| writer.param(extent));
    let filter = Filter::new(&mut writer, context, kernel, columns);
    let left = LeftRows::new(&mut writer, context, kernel, ([rows, depth], "0u", invocations));
    let stored = if outputs.is_multiple_of(4) { vector_width(context.program, kernel) } else { 1 };
    let operands = match stored {
        4 => store_given(&mut writer, context, kernel, 4),
        _ => {
            store_anywhere(&mut writer, context, kernel, stored);
            0
        }
    };
    let mut body = format!(
        "    let part = local.x / {columns}u;
    let own = local.x % {columns}u;
    let vector = group.x * {columns}u + own;
    let first = {} + own;\n",
        filter.start
    );
    // What the results need besides the sums is loaded while the rows are staged.
    let _ = writeln!(body, "    let loaded = min(vector, {wide} - 1u);\n    let bias = {};", filter.bias);
    let _ = writeln!(body, "    let scale = {};", filter.scale);
    for (row, index) in (0..rows).flat_map(|row| (1..=operands).map(move |index| (row, index))) {
        let _ = writeln!(body, "    let x{index}_{row} = operand{index}({row}u * {wide} + loaded);");
    }
    body += &products(&filter, &left, rows, &Division::new(&filter, depth, parts));
    body += &add(rows, columns, parts);
    let _ = writeln!(body, "    if (part > 0u || vector >= {wide}) {{ return; }}");
    for row in 0..rows {
        let sum = format!("(sums[{row}u][own] * scale)");
        let given: String = (1..=operands).map(|index| format!(", x{index}_{row}")).collect();
        let _ = match stored {
            4 => writeln!(body, "    store({row}u * {wide} + vector, {sum} + bias{given});"),
            _ => writeln!(body, "    {{ {} }}", put(stored, &format!("{row}u"), &sum, &wide, &outputs_text)),
        };
    }
    let declarations =
        format!("{}var<workgroup> sums: array<array<vec4<f32>, {invocations}>, {rows}>;\n", left.declarations);
    let groups = [vec4s.div_ceil(columns) as u32, 1, 1];
    vec![writer.finish([invocations as u32, 1, 1], groups, &declarations, &body)]
}

/// How invocations divide the units along K of a filter.
struct Division {
    /// Number of units, and of the elements that they have; a part of the last unit may be beyond K.
    units: usize,
    depth: usize,
    /// Number of invocations that divide them.
    parts: usize,
    /// Number of units that an invocation loads before it multiplies the first, and how often it does so.
    at_once: usize,
    rounds: usize,
}

impl Division {
    fn new(filter: &Filter, depth: usize, parts: usize) -> Self {
        let units = depth.div_ceil(filter.unit);
        let each = units.div_ceil(parts);
        let rounds = each.div_ceil(AT_ONCE);
        Self { units, depth, parts, at_once: each.div_ceil(rounds), rounds }
    }

    /// Whether all invocations load as many units.
    fn is_even(&self) -> bool {
        self.units == self.rounds * self.at_once * self.parts
    }

    /// Returns WGSL of the number of a unit that is loaded in the round that starts with unit `start`.
    fn unit(&self, start: &str, ahead: usize) -> String {
        let at = format!("{start} + {}u", ahead * self.parts);
        if self.is_even() { format!("({at})") } else { format!("min({at}, {}u)", self.units - 1) }
    }
}

/// Returns WGSL that stages the left rows, and adds their products with an invocation's part of the filter to `sum0`, `sum1`
/// and so on. The first units are loaded before the rows are staged, and the next ones before the last are multiplied.
fn products(filter: &Filter, left: &LeftRows, rows: usize, division: &Division) -> String {
    let Division { units, parts, at_once, rounds, .. } = *division;
    let load = |start: &str, ahead: usize| filter.load(&division.unit(start, ahead));
    let multiply = |name: &str| -> String {
        (0..at_once).map(|ahead| multiplied(filter, left, rows, (division, &format!("{name}{ahead}"), ahead))).collect()
    };
    let mut text: String =
        (0..at_once).map(|ahead| format!("    var unit{ahead} = {};\n", load("part", ahead))).collect();
    text += &left.body;
    (0..rows).for_each(|row| text += &format!("    var sum{row} = vec4<f32>();\n"));
    if rounds == 1 {
        return text + "    let next = part;\n" + &multiply("unit");
    }
    let step = at_once * parts;
    let _ = writeln!(text, "    for (var next = part; next < {units}u; next += {step}u) {{");
    let _ = writeln!(text, "        let following = min(next + {step}u, {}u);", units - 1);
    for ahead in 0..at_once {
        let unit = format!("min(following + {}u, {}u)", ahead * parts, units - 1);
        let _ = writeln!(text, "        let held{ahead} = unit{ahead};\n        unit{ahead} = {};", filter.load(&unit));
    }
    text + &multiply("held") + "    }\n"
}

/// Returns WGSL that adds the products with a loaded unit, the `ahead`-th of a round.
fn multiplied(
    filter: &Filter,
    left: &LeftRows,
    rows: usize,
    (division, unit, ahead): (&Division, &str, usize),
) -> String {
    let Division { units, depth, parts, .. } = *division;
    let at = format!("(next + {}u)", ahead * parts);
    let mut text = String::new();
    // Elements of the filter are beyond K only where the last unit is not whole. What a row has there may not be finite.
    let is_whole = depth.is_multiple_of(filter.unit);
    for first in (0..filter.unit).step_by(4) {
        let count = (filter.unit - first).min(4);
        for element in first..first + count {
            let _ = writeln!(text, "            let weight{element} = {};", filter.weights(unit, element));
        }
        for row in 0..rows {
            let k = format!("{at} * {}u + {first}u", filter.unit);
            let _ = match (is_whole, count) {
                (true, _) => writeln!(text, "            let x{row}_{first} = {};", left.elements(row, &k, count)),
                (false, _) => (first..first + count).try_for_each(|element| {
                    let k = format!("min({at} * {}u + {element}u, {}u)", filter.unit, depth - 1);
                    writeln!(text, "            let x{row}_{element} = {};", left.elements(row, &k, 1))
                }),
            };
            for element in first..first + count {
                let (x, is_there) = match (is_whole, count) {
                    (true, 1) => (format!("x{row}_{first}"), String::new()),
                    (true, _) => (format!("x{row}_{first}[{}u]", element - first), String::new()),
                    (false, _) => {
                        let is_there = format!("if ({at} * {}u + {element}u < {depth}u) ", filter.unit);
                        (format!("x{row}_{element}"), is_there)
                    }
                };
                let sum = format!("sum{row} = fma(vec4<f32>({x}), weight{element}, sum{row});");
                let _ = writeln!(text, "            {is_there}{{ {sum} }}");
            }
        }
    }
    match division.is_even() {
        true => format!("        {{\n{text}        }}\n"),
        false => format!("        if ({at} < {units}u) {{\n{text}        }}\n"),
    }
}

/// Where the packed filter is: as floats, or as the integers that the file holds. For each unit along K and each vec4 of a
/// work group's output channels there is a vec4, of floats or of words. Those of a work group follow one another. In front of
/// all are the bias and, with integers, the scales.
struct Filter {
    source: FilterSource,
    /// WGSL of the first vec4 of a work group.
    start: String,
    /// Number of vec4s of output channels of a work group.
    columns: usize,
    /// Number of elements along K that are loaded at once for a vec4 of output channels.
    unit: usize,
    /// WGSL of the bias and of the scale of the output channels of `loaded`.
    bias: String,
    scale: String,
}

enum FilterSource {
    Floats(Array),
    /// The name of an array of words, and the bits of an element.
    Integers(String, usize),
}

impl Filter {
    fn new(writer: &mut Writer<'_>, context: &Context<'_>, kernel: &Kernel, columns: usize) -> Self {
        let shape = context.program.shape(kernel.inputs[1]);
        let (wide, depth) = (shape[0].div_ceil(4), shape[3]);
        let mut start = |header: usize, unit: usize| {
            let [header, each] = [header * wide, depth.div_ceil(unit) * columns].map(|extent| writer.param(extent));
            format!("{header} + group.x * {each}")
        };
        let Some((words, bits)) = pack_integers(context, kernel, columns) else {
            let start = start(1, 1);
            let weights = writer.packed(pack_floats(context, kernel, columns), 4);
            let (bias, scale) = (weights.floats("loaded"), "1.0".to_owned());
            return Self { source: FilterSource::Floats(weights), start, columns, unit: 1, bias, scale };
        };
        let start = start(2, 32 / bits);
        let (name, wide) = (writer.words(words, 4), writer.param(wide));
        let [bias, scale] =
            ["loaded".to_owned(), format!("{wide} + loaded")].map(|at| format!("bitcast<vec4<f32>>({name}[{at}])"));
        // A vec4 of words has four elements of each channel, or eight.
        let source = FilterSource::Integers(name, bits);
        Self { source, start, columns, unit: 32 / bits, bias, scale }
    }

    /// Returns WGSL that loads a unit for the channels of `vector`.
    fn load(&self, unit: &str) -> String {
        let at = format!("first + {unit} * {}u", self.columns);
        match &self.source {
            FilterSource::Floats(weights) => weights.floats(&at),
            FilterSource::Integers(name, _) => format!("{name}[{at}]"),
        }
    }

    /// Returns WGSL of the weights of an element of a loaded unit, as floats.
    fn weights(&self, unit: &str, element: usize) -> String {
        match self.source {
            FilterSource::Floats(_) => unit.to_owned(),
            FilterSource::Integers(_, 8) => format!("vec4<f32>(unpack4xI8({unit}[{element}u]))"),
            FilterSource::Integers(..) => {
                // Of two elements, the first is in the low halves of the bytes.
                let shift = if element.is_multiple_of(2) { 4 } else { 0 };
                let halves = format!("({unit}[{}u] << {shift}u) & 0xf0f0f0f0u", element / 2);
                format!("vec4<f32>(unpack4xI8({halves}) >> vec4<u32>(4u))")
            }
        }
    }
}

/// Packs the filter as floats: the bias, with output channels padded to a multiple of 4, and the filter as [`Filter`] says.
fn pack_floats(context: &Context<'_>, kernel: &Kernel, columns: usize) -> Arc<[f32]> {
    let shape = context.program.shape(kernel.inputs[1]);
    let (outputs, depth) = (shape[0], shape[3]);
    let (filter, padded, own) = (context.floats(kernel.inputs[1]), outputs.next_multiple_of(4), 4 * columns);
    let mut packed = vec![0.0; padded + outputs.next_multiple_of(own) * depth];
    if let Some(bias) = kernel.inputs.get(2) {
        packed[..outputs].copy_from_slice(&context.floats(*bias));
    }
    for (group, packed) in packed[padded..].chunks_exact_mut(own * depth).enumerate() {
        for (k, packed) in packed.chunks_exact_mut(own).enumerate() {
            let rows = filter[group * own * depth..].chunks_exact(depth);
            packed.iter_mut().zip(rows).for_each(|(packed, row)| *packed = row[k]);
        }
    }
    packed.into()
}

/// Packs the filter as the integers that its constant holds, and returns the words and the bits of an element; `None` if it
/// holds floats. First come the bias and the scales as the bits of floats, with output channels padded to a multiple of 4,
/// then the filter as [`Filter`] says: a word has the channels of one element of 8 bits, or of two elements of 4 bits, in its
/// bytes.
fn pack_integers(context: &Context<'_>, kernel: &Kernel, columns: usize) -> Option<(Arc<[u32]>, usize)> {
    let value = context.program.value(kernel.inputs[1]);
    let (Some(scales), Source::Constant(constant)) = (value.scales.as_deref(), &value.source) else { return None };
    let bits = match constant.data_type {
        DataType::Int8 => 8,
        DataType::Int4 => 4,
        _ => return None,
    };
    let (outputs, depth) = (value.shape[0], value.shape[3]);
    if scales.len() != 1 && scales.len() != outputs {
        return None;
    }
    let bytes = constant.aligned_bytes()?;
    let (padded, unit) = (outputs.next_multiple_of(4), 32 / bits);
    let mut words = vec![0u32; 2 * padded + outputs.next_multiple_of(4 * columns) * depth.div_ceil(unit)];
    if let Some(bias) = kernel.inputs.get(2) {
        words.iter_mut().zip(context.floats(*bias).iter()).for_each(|(word, bias)| *word = bias.to_bits());
    }
    for output in 0..outputs {
        words[padded + output] = scales[if scales.len() == 1 { 0 } else { output }].to_bits();
    }
    pack_filter(&mut words[2 * padded..], &bytes, [outputs, depth, bits, columns]);
    Some((words.into(), bits))
}

/// Packs the integers of a filter into the words after bias and scales.
fn pack_filter(words: &mut [u32], bytes: &[u8], [outputs, depth, bits, columns]: [usize; 4]) {
    let (own, unit) = (4 * columns, 32 / bits);
    let integer = |output: usize, k: usize| {
        let at = output * depth + k;
        match bits {
            8 => u32::from(bytes[at]),
            _ => u32::from(bytes[at / 2] >> (at % 2 * 4) & 15),
        }
    };
    for (group, words) in words.chunks_exact_mut(own * depth.div_ceil(unit)).enumerate() {
        let first = group * own;
        for (words, k) in words.chunks_exact_mut(own).zip((0..depth).step_by(unit)) {
            for output in first..outputs.min(first + own) {
                let channel = &mut words[(output - first) / 4 * 4..][..4];
                for element in 0..unit.min(depth - k) {
                    let (word, half) = if bits == 8 { (element, 0) } else { (element / 2, element % 2 * 4) };
                    channel[word] |= integer(output, k + element) << (output % 4 * 8 + half);
                }
            }
        }
    }
}

/// Returns WGSL that adds the sums of all parts to those of the first in work-group memory.
pub(super) fn add(rows: usize, columns: usize, parts: usize) -> String {
    let mut text = String::new();
    for row in 0..rows {
        let _ = writeln!(text, "    sums[{row}u][part * {columns}u + own] = sum{row};");
    }
    for [from, to] in levels(parts) {
        let _ = writeln!(text, "    workgroupBarrier();\n    if (part < {to}u) {{");
        for row in 0..rows {
            let others: String = (1..from / to)
                .map(|other| format!(" + sums[{row}u][(part + {}u) * {columns}u + own]", other * to))
                .collect();
            let _ = writeln!(
                text,
                "        sums[{row}u][part * {columns}u + own] = sums[{row}u][part * {columns}u + own]{others};"
            );
        }
        text += "    }\n";
    }
    text
}

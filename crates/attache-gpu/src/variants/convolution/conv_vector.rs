//! Variant `conv_vector`: pointwise convolution of floats with one group, a constant filter and few output pixels, which
//! is a product of a matrix and a few vectors. A work group stages all input channels of all pixels, or computes them, and
//! multiplies them by a few columns of the filter, of which its invocations divide K among them. A filter of 8-bit or 4-bit
//! integers is read as it is.

use std::fmt::Write;
use std::sync::Arc;

use attache_base::DataType;
use attache_gpu_ir::{Primitive, Source};

use super::conv_dense;
use super::left_rows::LeftRows;
use super::tiling::put;
use crate::kernel::{Kernel, rows_group, staged_rows, vector_width};
use crate::variants::{Computes, Variant};
use crate::wgsl::accessor::Array;
use crate::wgsl::epilogue::store_anywhere;
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant =
    Variant { name: "conv_vector", computes: Computes::Rows, applies, priority, write };

/// Maximum output pixels for which no other variant is faster. These would need a few for each invocation.
const FEW_PIXELS: usize = 3;

/// Numbers of vec4s of output channels of a work group: the second one if it leaves enough work groups. Adjacent ones share
/// a memory transaction.
const COLUMNS: [usize; 2] = [4, 8];

/// Number of work groups that fill a large device.
const ENOUGH_GROUPS: usize = 256;

/// Number of rows of the filter that an invocation loads before it multiplies the first.
const AT_ONCE: usize = 4;

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
    let columns = if vec4s / COLUMNS[1] >= ENOUGH_GROUPS { COLUMNS[1] } else { COLUMNS[0] };
    let invocations = rows_group(context.limits);
    let parts = invocations / columns;
    let mut writer = Writer::new(VARIANT.name, context);
    let [wide, outputs_text, deep] = [vec4s, outputs, depth].map(|extent| writer.param(extent));
    let filter = Filter::new(&mut writer, context, kernel, &wide);
    let left = LeftRows::new(&mut writer, context, kernel, ([rows, depth], "0u", invocations));
    let stored = if outputs.is_multiple_of(4) { vector_width(context.program, kernel) } else { 1 };
    store_anywhere(&mut writer, context, kernel, stored);
    let mut body = left.body.clone();
    let _ = write!(
        body,
        "    let part = local.x / {columns}u;
    let own = local.x % {columns}u;
    let vector = group.x * {columns}u + own;
    let column = min(vector, {wide} - 1u);\n"
    );
    (0..rows).for_each(|row| body += &format!("    var sum{row} = vec4<f32>();\n"));
    let units = writer.param(depth.div_ceil(filter.unit));
    let _ = writeln!(body, "    for (var next = part; next < {units}; next += {}u) {{", filter.at_once * parts);
    for ahead in 0..filter.at_once {
        let _ = writeln!(body, "        let at{ahead} = min(next + {}u, {units} - 1u);", ahead * parts);
        let _ = writeln!(body, "        let unit{ahead} = {};", filter.load(&format!("at{ahead}")));
    }
    for (ahead, element) in (0..filter.at_once).flat_map(|ahead| (0..filter.unit).map(move |element| (ahead, element)))
    {
        let _ = write!(
            body,
            "        {{
            let k = (next + {}u) * {unit}u + {element}u;
            let weight = {};\n",
            ahead * parts,
            filter.weights(&format!("unit{ahead}"), element),
            unit = filter.unit,
        );
        for row in 0..rows {
            let value = left.elements(row, &format!("min(k, {deep} - 1u)"), 1);
            let sum = format!("fma(vec4<f32>({value}), weight, sum{row})");
            let _ = writeln!(body, "            sum{row} = select(sum{row}, {sum}, k < {deep});");
        }
        body += "        }\n";
    }
    body += "    }\n";
    body += &add(rows, columns, parts);
    let _ = writeln!(body, "    if (part > 0u || vector >= {wide}) {{ return; }}\n    let bias = {};", filter.bias);
    for row in 0..rows {
        let sum = format!("(sums[{row}u][own] * {})", filter.scale);
        let _ = writeln!(body, "    {{ {} }}", put(stored, &format!("{row}u"), &sum, &wide, &outputs_text));
    }
    let declarations =
        format!("{}var<workgroup> sums: array<array<vec4<f32>, {invocations}>, {rows}>;\n", left.declarations);
    let groups = [vec4s.div_ceil(columns) as u32, 1, 1];
    vec![writer.finish([invocations as u32, 1, 1], groups, &declarations, &body)]
}

/// Where the packed filter is: as floats, or as the integers that the file holds.
struct Filter {
    source: FilterSource,
    /// WGSL of the number of vec4s of output channels.
    wide: String,
    /// Number of elements along K that are loaded at once for a vec4 of output channels.
    unit: usize,
    /// Number of units that an invocation loads before it multiplies the first.
    at_once: usize,
    /// WGSL of the bias and of the scale of the output channels of `vector`.
    bias: String,
    scale: String,
}

enum FilterSource {
    Floats(Array),
    /// The name of an array of words, and the bits of an element.
    Integers(String, usize),
}

impl Filter {
    fn new(writer: &mut Writer<'_>, context: &Context<'_>, kernel: &Kernel, wide: &str) -> Self {
        let wide = wide.to_owned();
        let Some((words, bits)) = pack_integers(context, kernel) else {
            let weights = writer.packed(conv_dense::pack(context, kernel), 4);
            let (bias, scale) = (weights.floats("vector"), "1.0".to_owned());
            return Self { source: FilterSource::Floats(weights), wide, unit: 1, at_once: AT_ONCE, bias, scale };
        };
        let name = writer.words(words, 4);
        let [bias, scale] =
            ["vector".to_owned(), format!("{wide} + vector")].map(|at| format!("bitcast<vec4<f32>>({name}[{at}])"));
        // A vec4 of words has four elements of each channel, or eight.
        let source = FilterSource::Integers(name, bits);
        Self { source, wide, unit: 32 / bits, at_once: AT_ONCE * bits / 32 + 1, bias, scale }
    }

    /// Returns WGSL that loads a unit for the channels of `column`.
    fn load(&self, unit: &str) -> String {
        let wide = &self.wide;
        match &self.source {
            FilterSource::Floats(weights) => weights.floats(&format!("(1u + {unit}) * {wide} + column")),
            FilterSource::Integers(name, _) => format!("{name}[(2u + {unit}) * {wide} + column]"),
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

/// Packs the filter as the integers that its constant holds, and returns the words and the bits of an element; `None` if it
/// holds floats. First come the bias and the scales as the bits of floats, with output channels padded to a multiple of 4,
/// then for each unit along K and each vec4 of channels a vec4 of words: a word has the channels of one element of 8 bits,
/// or of two elements of 4 bits, in its bytes.
fn pack_integers(context: &Context<'_>, kernel: &Kernel) -> Option<(Arc<[u32]>, usize)> {
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
    let mut words = vec![0u32; (2 + depth.div_ceil(unit)) * padded];
    if let Some(bias) = kernel.inputs.get(2) {
        words.iter_mut().zip(context.floats(*bias).iter()).for_each(|(word, bias)| *word = bias.to_bits());
    }
    for output in 0..outputs {
        words[padded + output] = scales[if scales.len() == 1 { 0 } else { output }].to_bits();
    }
    for (output, k) in (0..outputs).flat_map(|output| (0..depth).map(move |k| (output, k))) {
        let (element, word) = (k % unit, (2 + k / unit) * padded + output / 4 * 4);
        let at = output * depth + k;
        let (index, integer) = match bits {
            8 => (element, u32::from(bytes[at])),
            _ => (element / 2, u32::from(bytes[at / 2] >> (at % 2 * 4) & 15) << (element % 2 * 4)),
        };
        words[word + index] |= integer << (output % 4 * 8);
    }
    Some((words.into(), bits))
}

/// Returns WGSL that adds the sums of all parts to those of the first in work-group memory.
pub(super) fn add(rows: usize, columns: usize, parts: usize) -> String {
    let mut text = String::new();
    for row in 0..rows {
        let _ = writeln!(text, "    sums[{row}u][part * {columns}u + own] = sum{row};");
    }
    let mut half = parts / 2;
    while half > 0 {
        let _ = writeln!(text, "    workgroupBarrier();\n    if (part < {half}u) {{");
        for row in 0..rows {
            let [to, from] =
                ["part".to_owned(), format!("(part + {half}u)")].map(|part| format!("{part} * {columns}u + own"));
            let _ = writeln!(text, "        sums[{row}u][{to}] += sums[{row}u][{from}];");
        }
        text += "    }\n";
        half /= 2;
    }
    text
}

//! Variant `conv_vector`: pointwise convolution of floats with one group, a constant filter and few output pixels, which
//! is a product of a matrix and a few vectors. A work group stages all input channels of all pixels, or computes them, and
//! multiplies them by a few columns of the filter, of which its invocations divide K among them. What a work group reads of
//! the filter is contiguous. A filter of integers of 8, 4 or 2 bits is read as it is, whether its scales are for output
//! channels or for blocks of their elements.

use std::fmt::Write;
use std::sync::Arc;

use attache_base::DataType;
use attache_gpu_ir::{Primitive, Source};

use super::left_rows::LeftRows;
use super::tiling::put;
use crate::kernel::{Kernel, MAX_COLUMNS, rows_group, staged_rows, vector_width};
use crate::variants::reduction::partial_results::Parts;
use crate::variants::{Computes, Variant};
use crate::wgsl::accessor::Array;
use crate::wgsl::epilogue::{store_anywhere, store_given};
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant =
    Variant { name: "conv_vector", computes: Computes::Rows, applies, priority, write };

/// Maximum output pixels for which no other variant is faster. These would need a few for each invocation.
const FEW_PIXELS: usize = 3;

/// Numbers of vec4s of output channels of a work group, each with the number of work groups that it has to leave.
const COLUMNS: [(usize, usize); 3] = [(MAX_COLUMNS / 4, 256), (4, 128), (2, 0)];

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
    body += &Parts { columns, parts, are_adjacent: false }.add(rows, context.limits.subgroup);
    let _ = writeln!(body, "    if (part > 0u || vector >= {wide}) {{ return; }}");
    for row in 0..rows {
        let sum = format!("(sum{row} * scale)");
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
    let scale = filter.block_scale(&at);
    // The elements of a unit are in one block, by whose scale their sum is multiplied.
    let sum = if scale.is_some() { "part" } else { "sum" };
    if scale.is_some() {
        (0..rows).for_each(|row| text += &format!("            var part{row} = vec4<f32>();\n"));
    }
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
                let added = format!("{sum}{row} = fma(vec4<f32>({x}), weight{element}, {sum}{row});");
                let _ = writeln!(text, "            {is_there}{{ {added} }}");
            }
        }
    }
    if let Some(scale) = scale {
        let _ = writeln!(text, "            let scale = {scale};");
        (0..rows).for_each(|row| text += &format!("            sum{row} = fma(part{row}, scale, sum{row});\n"));
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
    /// WGSL of the number of vec4s of output channels.
    wide: String,
    /// Number of elements along K that are loaded at once for a vec4 of output channels.
    unit: usize,
    /// WGSL of the bias of the output channels of `loaded`, and of the scale of their sums.
    bias: String,
    scale: String,
}

enum FilterSource {
    Floats(Array),
    /// The name of an array of words, and what they are.
    Integers(String, Integers),
}

/// Integers of a filter.
#[derive(Clone, Copy)]
struct Integers {
    /// Bits of an element.
    bits: usize,
    /// Elements of a row, and elements of a row for each of its scales.
    depth: usize,
    block: usize,
}

impl Integers {
    /// Number of elements along K in a vec4 of words.
    fn unit(self) -> usize {
        32 / self.bits
    }

    /// Number of scales of a row.
    fn scales(self) -> usize {
        self.depth / self.block
    }
}

impl Filter {
    fn new(writer: &mut Writer<'_>, context: &Context<'_>, kernel: &Kernel, columns: usize) -> Self {
        let shape = context.program.shape(kernel.inputs[1]);
        let (wide, depth) = (shape[0].div_ceil(4), shape[3]);
        let mut start = |header: usize, unit: usize| {
            let [header, each] = [header * wide, depth.div_ceil(unit) * columns].map(|extent| writer.param(extent));
            format!("{header} + group.x * {each}")
        };
        let Some((words, integers)) = pack_integers(context, kernel, columns) else {
            let start = start(1, 1);
            let weights = writer.packed(pack_floats(context, kernel, columns), 4);
            let (bias, scale) = (weights.floats("loaded"), "1.0".to_owned());
            let (source, wide) = (FilterSource::Floats(weights), wide.to_string());
            return Self { source, start, columns, wide, unit: 1, bias, scale };
        };
        let start = start(1 + integers.scales(), integers.unit());
        let (name, wide) = (writer.words(words, 4), writer.param(wide));
        let float = |at: &str| format!("bitcast<vec4<f32>>({name}[{at}])");
        let bias = float("loaded");
        let scale = if integers.scales() == 1 { float(&format!("{wide} + loaded")) } else { "1.0".to_owned() };
        Self {
            source: FilterSource::Integers(name, integers),
            start,
            columns,
            wide,
            unit: integers.unit(),
            bias,
            scale,
        }
    }

    /// Returns WGSL that loads a unit for the channels of `vector`.
    fn load(&self, unit: &str) -> String {
        let at = format!("first + {unit} * {}u", self.columns);
        match &self.source {
            FilterSource::Floats(weights) => weights.floats(&at),
            FilterSource::Integers(name, _) => format!("{name}[{at}]"),
        }
    }

    /// Returns WGSL of the scales of the block of a unit for the channels of `loaded`; `None` if a row has one scale.
    fn block_scale(&self, unit: &str) -> Option<String> {
        let FilterSource::Integers(name, integers) = &self.source else { return None };
        let (wide, units) = (&self.wide, integers.block / integers.unit());
        let load = || format!("bitcast<vec4<f32>>({name}[(1u + {unit} / {units}u) * {wide} + loaded])");
        (integers.scales() > 1).then(load)
    }

    /// Returns WGSL of the weights of an element of a loaded unit, as floats.
    fn weights(&self, unit: &str, element: usize) -> String {
        match self.source {
            FilterSource::Floats(_) => unit.to_owned(),
            FilterSource::Integers(_, Integers { bits: 8, .. }) => {
                format!("vec4<f32>(unpack4xI8({unit}[{element}u]))")
            }
            FilterSource::Integers(_, Integers { bits, .. }) => {
                // Of the elements of a byte, the first is in the lowest bits.
                let each = 8 / bits;
                let (above, mask) = (8 - bits, if bits == 4 { "0xf0f0f0f0u" } else { "0xc0c0c0c0u" });
                let top = format!("({unit}[{}u] << {}u) & {mask}", element / each, above - element % each * bits);
                format!("vec4<f32>(unpack4xI8({top}) >> vec4<u32>({above}u))")
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

/// Packs the filter as the integers that its constant holds, and returns the words and what they are; `None` if it holds
/// floats, or if its scales are not those of whole units of a row. First come the bias and the scales of each block as the
/// bits of floats, with output channels padded to a multiple of 4, then the filter as [`Filter`] says. A word has in its bytes
/// the channels of one element of 8 bits, of two of 4 bits, or of four of 2 bits.
fn pack_integers(context: &Context<'_>, kernel: &Kernel, columns: usize) -> Option<(Arc<[u32]>, Integers)> {
    let value = context.program.value(kernel.inputs[1]);
    let (Some(scales), Source::Constant(constant)) = (value.scales.as_deref(), &value.source) else { return None };
    let bits = match constant.data_type {
        DataType::Int8 => 8,
        DataType::Int4 => 4,
        DataType::Int2 => 2,
        _ => return None,
    };
    let (outputs, depth, own) = (value.shape[0], value.shape[3], value.block()?);
    let integers = Integers { bits, depth, block: own.min(depth) };
    let (unit, block) = (integers.unit(), integers.block);
    if !depth.is_multiple_of(block) || !own.is_multiple_of(block) || block < depth && !block.is_multiple_of(unit) {
        return None;
    }
    let bytes = constant.aligned_bytes()?;
    let (padded, before) = (outputs.next_multiple_of(4), 1 + integers.scales());
    let mut words = vec![0u32; before * padded + outputs.next_multiple_of(4 * columns) * depth.div_ceil(unit)];
    if let Some(bias) = kernel.inputs.get(2) {
        words.iter_mut().zip(context.floats(*bias).iter()).for_each(|(word, bias)| *word = bias.to_bits());
    }
    for (index, all) in words[padded..before * padded].chunks_exact_mut(padded).enumerate() {
        for (output, word) in all[..outputs].iter_mut().enumerate() {
            *word = scales[(output * depth + index * block) / own].to_bits();
        }
    }
    pack_filter(&mut words[before * padded..], &bytes, [outputs, depth, bits, columns]);
    Some((words.into(), integers))
}

/// Packs the integers of a filter into the words after bias and scales.
fn pack_filter(words: &mut [u32], bytes: &[u8], [outputs, depth, bits, columns]: [usize; 4]) {
    let (own, unit, each) = (4 * columns, 32 / bits, 8 / bits);
    let mask = u8::MAX >> (8 - bits);
    let integer = |output: usize, k: usize| {
        let at = output * depth + k;
        u32::from(bytes[at / each] >> (at % each * bits) & mask)
    };
    for (group, words) in words.chunks_exact_mut(own * depth.div_ceil(unit)).enumerate() {
        let first = group * own;
        for (words, k) in words.chunks_exact_mut(own).zip((0..depth).step_by(unit)) {
            for output in first..outputs.min(first + own) {
                let channel = &mut words[(output - first) / 4 * 4..][..4];
                for element in 0..unit.min(depth - k) {
                    let place = output % 4 * 8 + element % each * bits;
                    channel[element / each] |= integer(output, k + element) << place;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use attache_base::{Bytes, Constant};
    use attache_gpu_ir::{ConvolutionGeometry, Program, Scalar};

    use super::*;
    use crate::kernel::{DeviceLimits, Precision};
    use crate::plan::PlanReport;

    /// Returns the bytes of weights of a product of a row with 64 × 256 weights, one of whose scales is for `block` elements.
    fn weights(data_type: DataType, block: usize) -> usize {
        let mut program = Program::default();
        let data = program.input(Scalar::F32, [1, 1, 1, 256].into());
        let bytes = Bytes::from_vec(vec![0x5a; data_type.byte_size(64 * 256).unwrap()]);
        let scales = vec![0.5; 64 * 256 / block];
        let filter = Constant { data_type, shape: [64, 1, 1, 256].into(), bytes };
        let filter = program.quantized_constant(filter, scales.into());
        program.outputs =
            program.step(Primitive::Convolution(ConvolutionGeometry::pointwise([1, 1])), &[data, filter], 0).unwrap();
        let limits = DeviceLimits { splits_k: true, ..DeviceLimits::default() };
        let plan = PlanReport::new(program, Precision::F32, &limits, false).unwrap().plan().unwrap();
        assert_eq!(plan.weights.len(), 1);
        plan.weight_bytes()
    }

    #[test]
    fn filters_fit_a_binding() {
        for (outputs, depth) in [(17, 512), (4, 512), (33, 128)] {
            let mut program = Program::default();
            let data = program.input(Scalar::F32, [1, 1, 1, depth].into());
            let filter = Constant::from_values([outputs, 1, 1, depth], &vec![0.5f32; outputs * depth]);
            let filter = program.constant(Scalar::F32, filter);
            program.outputs = program
                .step(Primitive::Convolution(ConvolutionGeometry::pointwise([1, 1])), &[data, filter], 0)
                .unwrap();
            let most = (2 + depth) * outputs.next_multiple_of(4) * 4;
            let limits = DeviceLimits { splits_k: true, max_binding_bytes: most, ..DeviceLimits::default() };
            let plan = PlanReport::new(program, Precision::F32, &limits, false).unwrap().plan().unwrap();
            assert!(plan.weight_bytes() <= most, "{outputs} {depth}: {}", plan.weight_bytes());
        }
    }

    #[test]
    fn weights_take_their_bits_and_their_scales() {
        let (elements, bias) = (64 * 256, 64 * 4);
        for (data_type, block, scales) in [
            (DataType::Int8, 64 * 256, 64),
            (DataType::Int4, 256, 64),
            (DataType::Int4, 32, 64 * 8),
            (DataType::Int2, 64, 64 * 4),
        ] {
            let expected = elements * data_type.bits().unwrap() / 8 + bias + scales * 4;
            assert_eq!(weights(data_type, block), expected, "{data_type} by {block}");
        }
        assert_eq!(weights(DataType::Int4, 4), elements * 4 + bias, "blocks of less than a unit are expanded");
    }
}

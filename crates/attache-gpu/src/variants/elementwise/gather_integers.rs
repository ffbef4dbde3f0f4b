//! Variant `gather_integers`: gathers slices of a constant of integers with scales, and multiplies what it gathers by the
//! scales. Memory holds the integers as the constant does.

use std::sync::Arc;

use attache_base::{Bytes, DataType};
use attache_gpu_ir::{Primitive, Source};

use super::gather::{positions, slice};
use crate::kernel::{Kernel, vector_width};
use crate::variants::{Computes, Variant};
use crate::wgsl::epilogue::store;
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant = Variant {
    name: "gather_integers",
    computes: Computes::Nothing,
    applies: |context, kernel| Table::new(context, kernel).is_some(),
    priority: |_, _| 0,
    write,
};

/// The constant that a kernel gathers from.
struct Table<'a> {
    scales: &'a [f32],
    /// Number of consecutive elements for each scale.
    block: usize,
    /// The integers, of so many bits each.
    bytes: Bytes,
    bits: usize,
    /// The WGSL type of words whose bits are extracted as integers of the table's type.
    word: &'static str,
}

impl<'a> Table<'a> {
    /// Returns the table of a kernel; `None` if it is no gather from integers with scales, or if they don't fit a binding.
    fn new(context: &Context<'a>, kernel: &Kernel) -> Option<Self> {
        let Primitive::Gather(_) = &kernel.primitive else { return None };
        let value = context.program.value(kernel.inputs[0]);
        let (Source::Constant(constant), scales) = (&value.source, value.scales.as_deref()?) else { return None };
        let (bits, word) = match constant.data_type {
            DataType::Int8 => (8, "i32"),
            DataType::Int4 => (4, "i32"),
            DataType::Int2 => (2, "i32"),
            DataType::UInt8 => (8, "u32"),
            _ => return None,
        };
        let (block, bytes) = (value.block()?, constant.aligned_bytes()?);
        let size = scales.len().checked_mul(4)?.checked_add(bytes.len().next_multiple_of(4))?;
        (size <= context.limits.max_binding_bytes).then_some(Self { scales, block, bytes, bits, word })
    }

    /// Returns the scales as the bits of floats, and then the integers, the first in the lowest bits of a word.
    fn words(&self) -> Arc<[u32]> {
        let (whole, rest) = self.bytes.as_chunks::<4>();
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        let last = (!rest.is_empty()).then_some(last);
        let integers = whole.iter().copied().chain(last).map(u32::from_le_bytes);
        self.scales.iter().map(|scale| scale.to_bits()).chain(integers).collect()
    }

    /// Returns WGSL that loads `width` elements in one word and of one block from element `first` on, as floats, in `words`.
    fn load(&self, writer: &mut Writer<'_>, words: &str, width: usize) -> String {
        let (bits, word) = (self.bits, self.word);
        let [before, block] = [self.scales.len(), self.block].map(|count| writer.param(count));
        let each = 32 / bits;
        let element = |index: usize| format!("f32(extractBits(word, place + {}u, {bits}u))", index * bits);
        let elements: Vec<String> = (0..width).map(element).collect();
        let elements = elements.join(", ");
        let floats = if width == 1 { elements } else { format!("vec{width}<f32>({elements})") };
        format!(
            "    let word = {word}({words}[{before} + first / {each}u]);
    let place = first % {each}u * {bits}u;
    let scale = bitcast<f32>({words}[first / {block}]);
    store(g, {floats} * scale);\n"
        )
    }
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let table = Table::new(context, kernel).expect("applies");
    let elements = context.program.shape(kernel.outputs[0]).elements();
    let is_even = slice(context, kernel).is_multiple_of(4) && table.block.is_multiple_of(4);
    let width = if is_even { vector_width(context.program, kernel) } else { 1 };
    let mut writer = Writer::new(VARIANT.name, context);
    let words = writer.words(table.words(), 1);
    let (mut body, each) = positions(&mut writer, context, kernel, width);
    store(&mut writer, context, kernel, width);
    body += &format!("    let first = (at * {each} + g % {each}) * {width}u;\n");
    body += &table.load(&mut writer, &words, width);
    vec![writer.linear(elements / width, &body)]
}

#[cfg(test)]
mod tests {
    use attache_base::Constant;
    use attache_gpu_ir::{Gather, Program, Scalar};

    use super::*;
    use crate::kernel::{DeviceLimits, Precision};
    use crate::plan::PlanReport;

    #[test]
    fn a_table_takes_its_bits_and_its_scales() {
        for (data_type, scales) in
            [(DataType::Int8, 1), (DataType::Int4, 100), (DataType::Int4, 400), (DataType::Int2, 100)]
        {
            let mut program = Program::default();
            let size = data_type.byte_size(100 * 64).unwrap();
            let table = Constant { data_type, shape: [100, 64].into(), bytes: Bytes::from_vec(vec![0x5a; size]) };
            let table = program.quantized_constant(table, vec![0.5; scales].into());
            let indices = program.input(Scalar::I32, [3, 1].into());
            let gather = Primitive::Gather(Gather { batch: 0, axis: 0 });
            program.outputs = program.step(gather, &[table, indices], 0).unwrap();
            let report = PlanReport::new(program, Precision::F32, &DeviceLimits::default(), false).unwrap();
            assert_eq!(report.plan().unwrap().weight_bytes(), size + 4 * scales, "{data_type}");
        }
    }
}

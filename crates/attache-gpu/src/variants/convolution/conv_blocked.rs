//! Variant `conv_blocked`: convolution of floats with one group and a constant filter, as a blocked matrix
//! product. A work group computes a block of output pixels × output channels and stages data and filter in
//! work-group memory, so that each loaded element is used for the whole block. A depthwise convolution or
//! mean that is fused as a prologue is computed while the data is loaded.

use std::fmt::Write;
use std::sync::Arc;

use attache_gpu_ir::{Primitive, Scalar, Source, ValueId};

use super::conv_depthwise;
use super::input_loader::InputLoader;
use super::tiling::put;
use crate::kernel::{Kernel, MAX_GROUPS, MAX_OUTPUTS, vector_width};
use crate::variants::{Computes, Variant};
use crate::wgsl::accessor::Array;
use crate::wgsl::epilogue::store_anywhere;
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant =
    Variant { name: "conv_blocked", computes: Computes::Pixels, applies, priority, write };

pub(super) fn applies(context: &Context<'_>, kernel: &Kernel) -> bool {
    let Primitive::Convolution(convolution) = &kernel.primitive else { return false };
    let constant = |id: &ValueId| matches!(context.program.value(*id).source, Source::Constant(_));
    let is_float = context.program.value(kernel.inputs[0]).scalar == Scalar::F32;
    let is_dense = convolution.groups == 1;
    let has_elements = [kernel.inputs[1], kernel.outputs[0]].iter().all(|id| context.program.shape(*id).elements() > 0);
    is_float && is_dense && has_elements && kernel.inputs[1..].iter().all(constant) && fits(context, kernel)
}

/// Whether the work groups and the buffer that [`pack`] returns fit the device's limits.
pub(super) fn fits(context: &Context<'_>, kernel: &Kernel) -> bool {
    let (data, filter) = (context.program.shape(kernel.inputs[0]), context.program.shape(kernel.inputs[1]));
    let rows = 1 + filter[1] * filter[2] * data[3].next_multiple_of(4);
    let bytes = rows * filter[0].next_multiple_of(4) * 4;
    bytes <= context.limits.max_binding_bytes && filter[0] <= MAX_OUTPUTS
}

/// Returns 2; 50 on software devices, where barriers cost more than staging saves; or 30 for a large
/// transposed convolution with strides, where most taps of the window hit no input element but this variant
/// multiplies them anyway.
fn priority(context: &Context<'_>, kernel: &Kernel) -> u32 {
    let Primitive::Convolution(convolution) = &kernel.primitive else { unreachable!("applies") };
    let misses = convolution.transposed && convolution.strides != [1, 1];
    let positions: usize = context.program.shape(kernel.outputs[0])[..3].iter().product();
    match context.limits.splits_k {
        true if misses && positions > MANY_POSITIONS => 30,
        true => 2,
        false => 50,
    }
}

/// Number of output pixels above which a strided transposed convolution keeps the device busy without
/// split-K, so that other variants are preferred.
const MANY_POSITIONS: usize = 16384;

/// How a block of results is distributed over the invocations of a work group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tiling {
    /// Number of output pixels of the block.
    rows: usize,
    /// Number of vec4s of output channels of the block.
    columns: usize,
    /// Number of output pixels per invocation, which computes one vec4 of output channels for each.
    each: usize,
    /// The split-K factor: the number of invocations that jointly compute one result, each over its part of
    /// K.
    split: usize,
    /// Number of vec4s along K that each split-K part processes between two barriers.
    step: usize,
}

/// Number of work groups that keeps a large device busy.
const ENOUGH_GROUPS: usize = 96;

/// Maximum number of invocations of a work group.
const MAX_INVOCATIONS: usize = 256;

/// Block shapes `[output pixels, vec4s of output channels]` without a prologue, tried in order: the first
/// that yields [`ENOUGH_GROUPS`] work groups and is not much wider than the output is used, else the last.
const BLOCKS: [[usize; 2]; 5] = [[32, 16], [16, 16], [32, 8], [16, 8], [8, 8]];

/// Block shapes with a prologue, used like [`BLOCKS`]. Wider blocks come first, because the prologue is
/// recomputed for each block of output channels.
const BLOCKS_BEHIND_DEPTHWISE: [[usize; 2]; 6] = [[16, 32], [32, 16], [16, 16], [8, 16], [16, 8], [8, 8]];

impl Tiling {
    /// Chooses the tiling for these numbers of output pixels, vec4s of output channels and vec4s along K,
    /// within `bytes` bytes of work-group memory and `invocations` invocations. `is_behind_depthwise` says
    /// whether there is a prologue.
    fn new([positions, vec4s, depth]: [usize; 3], is_behind_depthwise: bool, [bytes, invocations]: [usize; 2]) -> Self {
        let invocations = invocations.min(MAX_INVOCATIONS);
        if positions < 4 {
            let split = depth.next_power_of_two().clamp(1, invocations / 2);
            return Self { rows: 1, columns: 2, each: 1, split, step: 1 }.within(bytes);
        }
        let choices = if is_behind_depthwise { &BLOCKS_BEHIND_DEPTHWISE[..] } else { &BLOCKS[..] };
        let groups = |[rows, columns]: [usize; 2]| positions.div_ceil(rows) * vec4s.div_ceil(columns);
        let is_wide = |[_, columns]: [usize; 2]| columns > 8 && columns >= vec4s * 2;
        let fitting = |choice: &&[usize; 2]| !is_wide(**choice) && groups(**choice) >= ENOUGH_GROUPS;
        let [rows, columns] = *choices.iter().find(fitting).unwrap_or(&choices[choices.len() - 1]);
        let many = groups([rows, columns]) >= 3 * ENOUGH_GROUPS;
        let most = if many { 1 } else { invocations * 4 / (rows * columns) };
        let mut tiling = Self { rows, columns, each: 4, split: 1, step: 4 };
        while tiling.split * 2 <= most && tiling.split * 2 * 2 <= depth {
            tiling.split *= 2;
        }
        let most_steps = if tiling.split <= 2 && !is_behind_depthwise { 8 } else { 4 };
        let chunks = depth.div_ceil(tiling.split * most_steps).max(1);
        tiling.step = depth.div_ceil(tiling.split * chunks).max(1);
        tiling.within(bytes)
    }

    /// Returns this tiling with fewer steps between barriers, then with a smaller split-K factor, as far as
    /// needed to fit `bytes` bytes of work-group memory.
    fn within(mut self, bytes: usize) -> Self {
        while self.bytes() > bytes && self.step > 1 {
            self.step = self.step.div_ceil(2);
        }
        while self.bytes() > bytes && self.split > 1 {
            self.split /= 2;
        }
        self
    }

    /// Returns the number of invocations of a work group.
    fn invocations(&self) -> usize {
        self.rows / self.each * self.columns * self.split
    }

    /// Returns the number of vec4s along K that are staged between two barriers.
    fn chunk(&self) -> usize {
        self.split * self.step
    }

    /// Returns the number of vec4s between the data of two adjacent output pixels in work-group memory. It is
    /// odd, so that adjacent pixels are in different memory banks.
    fn stride(&self) -> usize {
        self.chunk() + 1 - self.chunk() % 2
    }

    /// Returns the number of vec4s of work-group memory for the staged data, without the filter.
    fn data(&self) -> usize {
        self.rows * self.stride()
    }

    /// Returns the number of vec4s of work-group memory: data and filter, later reused for the partial sums.
    fn vectors(&self) -> usize {
        let parts = if self.split > 1 { self.split * self.rows * self.columns } else { 0 };
        parts.max(self.data() + self.chunk() * 4 * self.columns)
    }

    /// Returns the number of bytes of work-group memory.
    fn bytes(&self) -> usize {
        self.vectors() * 16
    }
}

/// Packs the bias, then the filter with output channels innermost, both channel counts padded to multiples of
/// 4: `[1 + height × width × channels][outputs]`. If there is a depthwise prologue, its packed weights
/// follow. Also returns the vec4 at which the prologue's weights start.
pub(super) fn pack(context: &Context<'_>, kernel: &Kernel) -> (Arc<[f32]>, usize) {
    let shape = context.program.shape(kernel.inputs[1]);
    let (outputs, channels) = (shape[0], shape[3]);
    let (width, depth) = (outputs.next_multiple_of(4), channels.next_multiple_of(4));
    let filter = context.floats(kernel.inputs[1]);
    let mut packed = vec![0.0; (1 + shape[1] * shape[2] * depth) * width];
    if let Some(bias) = kernel.inputs.get(2) {
        packed[..outputs].copy_from_slice(&context.floats(*bias));
    }
    for (row, weights) in filter.chunks_exact(channels.max(1)).enumerate() {
        let (output, tap) = (row / (shape[1] * shape[2]), row % (shape[1] * shape[2]));
        for (channel, weight) in weights.iter().enumerate() {
            packed[(1 + tap * depth + channel) * width + output] = *weight;
        }
    }
    let start = packed.len() / 4;
    if let Some(first) = kernel.prologue.as_ref().filter(|first| matches!(first.primitive, Primitive::Convolution(_))) {
        packed.extend_from_slice(&conv_depthwise::pack(context, first));
    }
    (packed.into(), start)
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let [data, filter, output] =
        [kernel.inputs[0], kernel.inputs[1], kernel.outputs[0]].map(|id| context.program.shape(id));
    let (positions, vec4s): (usize, usize) = (output[..3].iter().product(), filter[0].div_ceil(4));
    let sizes = [positions, vec4s, filter[1] * filter[2] * data[3].div_ceil(4)];
    let tiling = Tiling::new(
        sizes,
        kernel.prologue.is_some(),
        [context.limits.work_group_bytes, context.limits.max_invocations],
    );
    let mut writer = Writer::new(VARIANT.name, context);
    let (packed, start) = pack(context, kernel);
    let weights = writer.packed(packed, 4);
    let loader = InputLoader::new(&mut writer, context, kernel, (&weights, start));
    let out_vector_width = if filter[0].is_multiple_of(4) { vector_width(context.program, kernel) } else { 1 };
    store_anywhere(&mut writer, context, kernel, out_vector_width);
    let [total, wide, depth, outputs] = [positions, vec4s, loader.depth, filter[0]].map(|extent| writer.param(extent));
    let Tiling { rows, columns, each, split, .. } = tiling;
    let down = rows / each;
    let mut body = format!(
        "    let column = local.x % {columns}u;
    let row = local.x / {columns}u % {down}u;
    let split_part = local.x / {layer}u;
    let first = (group.y + group.z * {MAX_GROUPS}u) * {rows}u;
    let left = group.x * {columns}u;\n",
        layer = columns * down,
    );
    for p in 0..each {
        let _ = writeln!(body, "    var sum{p} = vec4<f32>();");
    }
    let loops = StagingLoops { tiling, loader: &loader, total: &total, wide: &wide, depth: &depth };
    body += &loops.text(&weights);
    let store = |sum: &str, at: &str| {
        let stored = put(out_vector_width, "at", sum, &wide, &outputs);
        let bias = weights.floats("vector");
        format!("let at = {at};\n        if (at < {total} && vector < {wide}) {{ let bias = {bias}; {stored} }}")
    };
    if split > 1 {
        body += &add_parts(tiling, &store("memory[index]", &format!("first + index / {columns}u")));
    } else {
        let _ = writeln!(body, "    let vector = left + column;");
        for p in 0..each {
            let _ = writeln!(
                body,
                "    {{\n        {}\n    }}",
                store(&format!("sum{p}"), &format!("first + row + {}u", p * down))
            );
        }
    }
    let blocks = positions.div_ceil(rows);
    let groups = [vec4s.div_ceil(columns), blocks.min(MAX_GROUPS), blocks.div_ceil(MAX_GROUPS)];
    let declarations = format!("var<workgroup> memory: array<vec4<f32>, {}>;\n", tiling.vectors());
    let group = [tiling.invocations() as u32, 1, 1];
    vec![writer.finish(group, groups.map(|count| count as u32), &declarations, &body)]
}

/// Returns WGSL that adds the partial sums of the split-K parts by a tree reduction, and stores the results.
fn add_parts(tiling: Tiling, store: &str) -> String {
    let Tiling { rows, columns, each, split, .. } = tiling;
    let (layer, down, invocations) = (rows * columns, rows / each, tiling.invocations());
    let mut text = "    workgroupBarrier();\n".to_owned();
    for p in 0..each {
        let index = format!("split_part * {layer}u + (row + {}u) * {columns}u + column", p * down);
        let _ = writeln!(text, "    memory[{index}] = sum{p};");
    }
    text += &format!(
        "    for (var half = {half}u; half > 0u; half = half / 2u) {{
        workgroupBarrier();
        for (var index = local.x; index < half * {layer}u; index += {invocations}u) {{
            memory[index] += memory[index + half * {layer}u];
        }}
    }}
    workgroupBarrier();
    for (var index = local.x; index < {layer}u; index += {invocations}u) {{
        let vector = left + index % {columns}u;
        {store}
    }}\n",
        half = split / 2,
    );
    text
}

/// Generates the loops that stage data and filter in work-group memory and multiply them there. The next
/// chunk along K is loaded while the current one is multiplied.
struct StagingLoops<'a> {
    tiling: Tiling,
    loader: &'a InputLoader,
    /// WGSL of the number of output pixels.
    total: &'a str,
    /// WGSL of the number of vec4s of output channels.
    wide: &'a str,
    /// WGSL of the number of vec4s along K.
    depth: &'a str,
}

impl StagingLoops<'_> {
    /// Returns the WGSL of the loops.
    fn text(&self, weights: &Array) -> String {
        let (tiling, loader) = (self.tiling, self.loader);
        let (chunk, columns, invocations) = (tiling.chunk(), tiling.columns, tiling.invocations());
        let counts = [tiling.rows * chunk, chunk * 4 * columns];
        let slots = counts.map(|count| count.div_ceil(invocations));
        let mut text = String::new();
        for slot in 0..slots[0] {
            let at = slot * invocations;
            let _ = write!(
                text,
                "    let r{slot} = (local.x + {at}u) / {chunk}u;
    let k{slot} = (local.x + {at}u) % {chunk}u;
    let p{slot} = min(first + r{slot}, {total} - 1u);
{declared}",
                total = self.total,
                declared = loader.declare(slot),
            );
        }
        for slot in 0..slots[1] {
            let at = slot * invocations;
            let _ = write!(
                text,
                "    let n{slot} = min(left + (local.x + {at}u) % {columns}u, {wide} - 1u);
    let f{slot} = (local.x + {at}u) / {columns}u;
    var filter{slot} = vec4<f32>();\n",
                wide = self.wide,
            );
        }
        let fetch = self.fetch(weights, slots);
        let (stage, multiply) = (self.stage(counts, slots), self.multiply());
        let settle: String = (0..slots[0]).map(|slot| loader.settle(slot)).collect();
        let settle_next = if settle.is_empty() {
            String::new()
        } else {
            format!("        if (c < {}) {{\n{settle}        }}\n", self.depth)
        };
        text + &format!(
            "    var c = 0u;
{fetch}{settle}    for (; c < {depth};) {{
        workgroupBarrier();
{stage}        workgroupBarrier();
        c += {chunk}u;
        if (c < {depth}) {{
{fetch}        }}
{multiply}{settle_next}    }}\n",
            depth = self.depth,
        )
    }

    /// Returns WGSL that loads the chunk of data and filter that starts at vec4 `c` along K into registers.
    fn fetch(&self, weights: &Array, slots: [usize; 2]) -> String {
        let mut text = String::new();
        for slot in 0..slots[0] {
            text += &self.loader.fetch(slot, &format!("c + k{slot}"));
        }
        for slot in 0..slots[1] {
            let row = format!("1u + min(c + f{slot} / 4u, {} - 1u) * 4u + f{slot} % 4u", self.depth);
            let _ =
                writeln!(text, "    filter{slot} = {};", weights.floats(&format!("({row}) * {} + n{slot}", self.wide)));
        }
        text
    }

    /// Returns WGSL that writes the loaded chunk to work-group memory: the data, then the filter.
    fn stage(&self, counts: [usize; 2], slots: [usize; 2]) -> String {
        let (invocations, stride, behind) = (self.tiling.invocations(), self.tiling.stride(), self.tiling.data());
        let guard = |slot: usize, count: usize| match (slot + 1) * invocations > count {
            true => format!("if (local.x < {}u) ", count - slot * invocations),
            false => String::new(),
        };
        let mut text = String::new();
        for slot in 0..slots[0] {
            let index = format!("r{slot} * {stride}u + k{slot}");
            let guard = guard(slot, counts[0]);
            let _ = writeln!(text, "        {guard}{{ memory[{index}] = data{slot}; }}");
        }
        for slot in 0..slots[1] {
            let index = format!("{}u + local.x", behind + slot * invocations);
            let _ = writeln!(text, "        {}{{ memory[{index}] = filter{slot}; }}", guard(slot, counts[1]));
        }
        text
    }

    /// Returns WGSL that multiplies the staged chunk and adds the products to the sums.
    fn multiply(&self) -> String {
        let Tiling { rows, columns, each, step, .. } = self.tiling;
        let (stride, behind, down) = (self.tiling.stride(), self.tiling.data(), rows / each);
        let at_once = if step.is_multiple_of(2) { 2 } else { 1 };
        let mut text = format!("        for (var step = 0u; step < {step}u; step += {at_once}u) {{\n");
        for u in 0..at_once {
            let _ = writeln!(text, "            let q{u} = split_part * {step}u + step + {u}u;");
            for p in 0..each {
                let _ = writeln!(text, "            let v{u}_{p} = memory[(row + {}u) * {stride}u + q{u}];", p * down);
            }
            for k in 0..4 {
                let index = format!("{behind}u + (q{u} * 4u + {k}u) * {columns}u + column");
                let _ = writeln!(text, "            let w{u}_{k} = memory[{index}];");
            }
        }
        for (u, (k, part)) in
            (0..at_once).flat_map(|u| ["x", "y", "z", "w"].into_iter().enumerate().map(move |k| (u, k)))
        {
            for p in 0..each {
                let _ = writeln!(text, "            sum{p} = fma(vec4<f32>(v{u}_{p}.{part}), w{u}_{k}, sum{p});");
            }
        }
        text + "        }\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_fill_the_device_and_fit_its_memory() {
        let of = |sizes, behind| Tiling::new(sizes, behind, [32768, 1024]);
        assert_eq!(of([3136, 64, 16], false), Tiling { rows: 32, columns: 16, each: 4, split: 1, step: 8 });
        assert_eq!(of([196, 64, 256], false), Tiling { rows: 16, columns: 8, each: 4, split: 8, step: 4 });
        assert_eq!(of([49, 256, 256], true), Tiling { rows: 8, columns: 16, each: 4, split: 8, step: 2 });
        assert_eq!(of([1, 251, 256], false), Tiling { rows: 1, columns: 2, each: 1, split: 128, step: 1 });
        for (positions, vec4s, depth) in (1..40).flat_map(|p| (1..40).map(move |q| (p * p * 7 - 6, q * 3, p * q))) {
            for (behind, bytes, most) in [(false, 16384, 128), (true, 16384, 256), (true, 32768, 1024)] {
                let tiling = Tiling::new([positions, vec4s, depth], behind, [bytes, most]);
                assert!(tiling.bytes() <= bytes && tiling.invocations() <= most.min(MAX_INVOCATIONS), "{tiling:?}");
            }
        }
    }
}

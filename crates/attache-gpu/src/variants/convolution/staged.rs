//! Shared by the variants that stage all input channels of a block's output pixels in work-group memory: the
//! sizes of a block and the frame of the shader. All invocations first load the data, computing a depthwise
//! prologue as they do. After that only the filter is loaded, and a work group needs at most three barriers
//! in all.

use std::fmt::Write;

use attache_gpu_ir::{Primitive, Scalar};

use super::input_loader::InputLoader;
use super::tiling::put;
use crate::kernel::{Kernel, MAX_GROUPS, vector_width};
use crate::wgsl::epilogue::store_anywhere;
use crate::wgsl::{Context, Shader, Writer};

/// Number of output pixels per invocation, which computes one vec4 of output channels for each.
pub(super) const EACH: usize = 4;

/// Maximum number of output pixels of a block.
const MAX_ROWS: usize = 32;

/// Approximate minimum and exact maximum number of vec4s of output channels of a block.
const COLUMNS: [usize; 2] = [4, 32];

/// Maximum split-K factor. One invocation adds all partial sums of a result, one after the other.
const MAX_SPLIT: usize = 32;

/// Target number of output pixels of which an invocation loads a group of channels at once.
const READ_AT_ONCE: usize = 2;

/// Number of output pixels above which other variants are faster, for convolutions without a prologue.
const MANY_POSITIONS: usize = 4096;

/// Number of work groups that a large device runs at the same time if each has a compute unit to itself.
const UNITS: usize = 128;

/// Maximum number of invocations of a work group: first if each work group has a compute unit to itself, then
/// if several work groups share one.
const MAX_INVOCATIONS: [usize; 2] = [512, 256];

/// The sizes of a convolution that determine its running time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Problem {
    /// M: output pixels.
    pub(super) positions: usize,
    /// N: output channels, in vec4s.
    vec4s: usize,
    /// K: products per result, in groups of four channels.
    depth: usize,
    /// Number of loads per group of four channels: the number of taps of a prologue, else 1.
    taps: usize,
    /// Number of 32-bit words of work-group memory per group of four channels: 4 for floats, 1 for 8-bit
    /// integers.
    words: usize,
}

/// How a block of results is distributed over the invocations of a work group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tiling {
    /// Number of output pixels of the block.
    pub(super) rows: usize,
    /// Number of vec4s of output channels of the block.
    columns: usize,
    /// The split-K factor: the number of invocations that jointly compute one result, each over its part of
    /// K.
    pub(super) split: usize,
    /// K: products per result, in groups of four channels.
    pub(super) depth: usize,
    /// Number of 32-bit words of work-group memory per group of four channels: 4 for floats, 1 for 8-bit
    /// integers.
    words: usize,
}

impl Problem {
    /// Estimated cost of starting and ending a work group, in vec4 loads from work-group memory.
    const START: usize = 4096;

    pub(super) fn of(context: &Context<'_>, kernel: &Kernel) -> Self {
        let shape = |id| context.program.shape(id);
        let [data, filter, output] = [kernel.inputs[0], kernel.inputs[1], kernel.outputs[0]].map(shape);
        let taps = kernel.prologue.as_ref().map_or(1, |first| match &first.primitive {
            Primitive::Window(window) => window.size.iter().product(),
            _ => shape(first.inputs[1])[1..3].iter().product(),
        });
        let depth = filter[1] * filter[2] * data[3].div_ceil(4);
        let words = if context.program.value(kernel.inputs[0]).scalar == Scalar::F32 { 4 } else { 1 };
        Self { positions: output[..3].iter().product(), vec4s: filter[0].div_ceil(4), depth, taps, words }
    }

    /// Returns the number of work groups for blocks of `rows` output pixels × `columns` vec4s of output
    /// channels.
    fn groups(&self, rows: usize, columns: usize) -> usize {
        self.positions.div_ceil(rows) * self.vec4s.div_ceil(columns)
    }

    /// Estimates the time of a tiling on a large device, as the number of vec4 loads from work-group memory
    /// of the busiest compute unit. The start and end of a work group count as [`Problem::START`] loads, and
    /// loading a vec4 of the filter counts as half a load.
    fn time(&self, tiling: &Tiling) -> usize {
        let Tiling { rows, columns, .. } = *tiling;
        let groups = self.groups(rows, columns);
        let group = self.depth * (rows * columns + rows * self.taps + 2 * columns) + Self::START;
        if groups < 4 * UNITS { groups.div_ceil(UNITS) * group } else { groups * group / UNITS }
    }

    /// Returns the tiling with the lowest estimated time, within `bytes` bytes of work-group memory and
    /// `invocations` invocations; `None` if no tiling fits.
    fn tiling(&self, [bytes, invocations]: [usize; 2]) -> Option<Tiling> {
        let [fewest, most] = COLUMNS;
        let parts = self.vec4s.div_ceil(most)..=self.vec4s.div_ceil(fewest);
        let columns = parts.map(|parts| self.vec4s.div_ceil(parts));
        let rows = (1..=MAX_ROWS / EACH).map(|down| down * EACH);
        let shapes = rows.flat_map(|rows| columns.clone().map(move |columns| (rows, columns)));
        let tiling = |(rows, columns): (usize, usize)| {
            let most = MAX_INVOCATIONS[usize::from(self.groups(rows, columns) > UNITS)].min(invocations);
            let split = (most / (rows / EACH * columns)).min(bytes / (16 * rows * columns)).min(MAX_SPLIT);
            Tiling { rows, columns, split: split.clamp(1, self.depth.max(1)), depth: self.depth, words: self.words }
        };
        let fits = |tiling: &Tiling| tiling.memory() * 4 <= bytes && tiling.invocations() <= invocations;
        shapes.map(tiling).filter(fits).min_by_key(|tiling| self.time(tiling))
    }
}

/// Whether the convolution is pointwise, has enough output pixels for one invocation, and not so many that
/// other variants are faster.
pub(super) fn is_small(context: &Context<'_>, kernel: &Kernel) -> bool {
    let Primitive::Convolution(convolution) = &kernel.primitive else { return false };
    let [data, filter] = [0, 1].map(|input| context.program.shape(kernel.inputs[input]));
    let few = EACH..=MANY_POSITIONS;
    few.contains(&Problem::of(context, kernel).positions) && convolution.is_pointwise(data, filter)
}

impl Tiling {
    /// Returns the fastest tiling for a kernel within the device's limits; `None` if no tiling fits.
    pub(super) fn of(context: &Context<'_>, kernel: &Kernel) -> Option<Self> {
        Problem::of(context, kernel).tiling([context.limits.work_group_bytes, context.limits.max_invocations])
    }

    /// Returns the number of invocations of one split-K part.
    fn layer(&self) -> usize {
        self.rows / EACH * self.columns
    }

    fn invocations(&self) -> usize {
        self.layer() * self.split
    }

    /// Returns the number of groups of four channels between the data of two adjacent output pixels in
    /// work-group memory. It is odd, so that adjacent pixels are in different memory banks.
    pub(super) fn stride(&self) -> usize {
        self.depth + 1 - self.depth % 2
    }

    /// Returns the number of vec4s of partial sums, over all split-K parts; 0 without split-K.
    pub(super) fn parts(&self) -> usize {
        if self.split > 1 { self.split * self.rows * self.columns } else { 0 }
    }

    /// Returns the number of 32-bit words of work-group memory: the data, later reused for the partial sums.
    pub(super) fn memory(&self) -> usize {
        (4 * self.parts()).max(self.rows * self.stride() * self.words)
    }

    fn staging(&self) -> Staging {
        let invocations = self.invocations();
        Staging { rows: self.rows, depth: self.depth, stride: self.stride(), invocations, halves: false }
    }
}

/// The data that a work group stages in its memory, and the invocations that load it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Staging {
    /// Number of output pixels.
    pub(super) rows: usize,
    /// Number of groups of four channels of each output pixel.
    pub(super) depth: usize,
    /// Number of groups of four channels between the data of two adjacent output pixels in work-group memory.
    pub(super) stride: usize,
    /// Number of invocations of the work group.
    pub(super) invocations: usize,
    /// Whether floats are converted to f16 when they are staged.
    pub(super) halves: bool,
}

impl Staging {
    /// Returns how the loads are distributed: the number of invocations that load adjacent groups of one
    /// pixel, the number of pixels that are loaded side by side, and the number of pixels that each
    /// invocation loads at once.
    fn reading(&self) -> [usize; 3] {
        let Self { rows, depth, invocations, .. } = *self;
        let across = (READ_AT_ONCE * invocations / rows).clamp(1, depth.clamp(1, invocations));
        let lines = invocations / across;
        [across, lines, rows.div_ceil(lines)]
    }
}

/// The WGSL statements in which the variants differ, for [`shader`]. In them `first` is the block's first
/// output pixel and `left` its first vec4 of output channels. An invocation computes the output pixels `row`,
/// `row + rows / EACH`, … of the block and the vec4 `filter_vec4` of output channels, for the split-K part
/// `split_part`.
pub(super) struct Texts<'a> {
    /// WGSL of the number of vec4s of output channels.
    pub(super) wide: &'a str,
    /// WGSL of K in groups of four channels.
    pub(super) depth: &'a str,
    /// Declaration of the work-group array `memory`, which has [`Tiling::memory`] words.
    pub(super) memory: String,
    /// Statements that declare `sum0`, `sum1`, … and add the products to them.
    pub(super) multiply: String,
    /// Returns the statement that writes a partial sum to work-group memory. Arguments: WGSL of the index and
    /// of the sum.
    pub(super) store_part: &'a dyn Fn(&str, &str) -> String,
    /// Returns the expression that reads a partial sum from work-group memory. Argument: WGSL of the index.
    pub(super) load_part: &'a dyn Fn(&str) -> String,
    /// Expression of the bias of the vec4 of output channels `vector`.
    pub(super) bias: String,
}

/// Adds the WGSL function `store`, with which [`shader`] stores results. Must be called after all inputs are
/// bound.
pub(super) fn store(writer: &mut Writer<'_>, context: &Context<'_>, kernel: &Kernel) {
    store_anywhere(writer, context, kernel, out_vector_width(context, kernel));
}

/// Returns the number of adjacent output channels that are stored at once: 4 or 1.
pub(super) fn out_vector_width(context: &Context<'_>, kernel: &Kernel) -> usize {
    let outputs = context.program.shape(kernel.inputs[1])[0];
    if outputs.is_multiple_of(4) { vector_width(context.program, kernel) } else { 1 }
}

/// Generates the shader: its work groups stage the data, multiply it as `texts` says, add the partial sums
/// and store the results.
pub(super) fn shader(
    mut writer: Writer<'_>,
    (context, kernel): (&Context<'_>, &Kernel),
    tiling: Tiling,
    loader: &InputLoader,
    texts: &Texts<'_>,
) -> Shader {
    let Problem { positions, vec4s, .. } = Problem::of(context, kernel);
    let outputs = context.program.shape(kernel.inputs[1])[0];
    let out_vector_width = out_vector_width(context, kernel);
    let (Texts { wide, depth, .. }, [total, outputs]) =
        (texts, [positions, outputs].map(|extent| writer.param(extent)));
    let Tiling { rows, columns, split, .. } = tiling;
    let mut body = format!(
        "    let first = (group.y + group.z * {MAX_GROUPS}u) * {rows}u;
    let left = group.x * {columns}u;
{}    let column = local.x % {columns}u;
    let row = local.x / {columns}u % {down}u;
    let split_part = local.x / {layer}u;
    let filter_vec4 = min(left + column, {wide} - 1u);
    workgroupBarrier();
{}",
        stage(tiling.staging(), loader, &total, depth),
        texts.multiply,
        down = rows / EACH,
        layer = tiling.layer(),
    );
    let store = |sum: &str, at: &str| {
        let stored = put(out_vector_width, "at", sum, wide, &outputs);
        format!(
            "let at = {at};\n        if (at < {total} && vector < {wide}) {{ let bias = {}; {stored} }}",
            texts.bias
        )
    };
    if split > 1 {
        body += &add_parts(tiling, texts, &store("sum", &format!("first + index / {columns}u")));
    } else {
        body += "    let vector = left + column;\n";
        for p in 0..EACH {
            let at = format!("first + row + {}u", p * rows / EACH);
            let _ = writeln!(body, "    {{\n        {}\n    }}", store(&format!("sum{p}"), &at));
        }
    }
    let blocks = positions.div_ceil(rows);
    let groups = [vec4s.div_ceil(columns), blocks.min(MAX_GROUPS), blocks.div_ceil(MAX_GROUPS)];
    writer.finish([tiling.invocations() as u32, 1, 1], groups.map(|count| count as u32), &texts.memory, &body)
}

/// Returns WGSL that stages all input channels of the block's output pixels, which start at `first`. Adjacent
/// invocations load adjacent groups of four channels. `total` is WGSL of the number of output pixels, `depth`
/// of K in groups of four.
pub(super) fn stage(staging: Staging, loader: &InputLoader, total: &str, depth: &str) -> String {
    let [across, lines, slots] = staging.reading();
    let mut text = String::new();
    for slot in 0..slots {
        let _ = write!(
            text,
            "    let r{slot} = local.x / {across}u + {}u;
    let p{slot} = min(first + r{slot}, {total} - 1u);\n{}",
            slot * lines,
            loader.declare(slot)
        );
    }
    let _ = writeln!(text, "    for (var c = local.x % {across}u; c < {depth}; c += {across}u) {{");
    (0..slots).for_each(|slot| text += &loader.fetch(slot, "c"));
    (0..slots).for_each(|slot| text += &loader.settle(slot));
    // Invocations beyond the last complete line of `across` invocations load nothing.
    let reads =
        if lines * across < staging.invocations { format!("local.x < {}u", lines * across) } else { String::new() };
    for slot in 0..slots {
        let is_there =
            if (slot + 1) * lines > staging.rows { format!("r{slot} < {}u", staging.rows) } else { String::new() };
        let guards: Vec<&str> = [&*reads, &*is_there].into_iter().filter(|guard| !guard.is_empty()).collect();
        let guard = if guards.is_empty() { String::new() } else { format!("if ({}) ", guards.join(" && ")) };
        let data = if staging.halves { format!("vec4<f16>(data{slot})") } else { format!("data{slot}") };
        let _ = writeln!(text, "        {guard}{{ memory[r{slot} * {}u + c] = {data}; }}", staging.stride);
    }
    text + "    }\n"
}

/// Returns WGSL that adds the partial sums of the split-K parts, and stores the results.
fn add_parts(tiling: Tiling, texts: &Texts<'_>, store: &str) -> String {
    let Tiling { rows, columns, split, .. } = tiling;
    let (results, down, invocations) = (rows * columns, rows / EACH, tiling.invocations());
    let mut text = "    workgroupBarrier();\n".to_owned();
    for p in 0..EACH {
        let index = format!("split_part * {results}u + (row + {}u) * {columns}u + column", p * down);
        let _ = writeln!(text, "    {}", (texts.store_part)(&index, &format!("sum{p}")));
    }
    let part = |split_part: usize| (texts.load_part)(&format!("index + {}u", split_part * results));
    let parts: Vec<String> = (0..split).map(part).collect();
    text + &format!(
        "    workgroupBarrier();
    for (var index = local.x; index < {results}u; index += {invocations}u) {{
        let vector = left + index % {columns}u;
        let sum = {};
        {store}
    }}\n",
        parts.join(" + ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_fit_the_device() {
        let most = [49152, 1024];
        let problem = |positions, vec4s, depth, taps| Problem { positions, vec4s, depth, taps, words: 4 };
        let some = |rows, columns, split, depth| Some(Tiling { rows, columns, split, depth, words: 4 });
        assert_eq!(problem(196, 128, 128, 9).tiling(most), some(8, 26, 9, 128));
        assert_eq!(problem(1089, 20, 120, 9).tiling(most), some(12, 20, 8, 120));
        assert_eq!(problem(196, 128, 4096, 9).tiling(most), None, "more than the memory holds");
        for (positions, vec4s, depth) in (1..40).flat_map(|p| (1..40).map(move |q| (p * p * 7 - 3, q * 3, p * q))) {
            for (bytes, invocations) in [(16384, 128), (16384, 256), (32768, 1024), (49152, 1024)] {
                for (taps, words) in [(1, 4), (9, 4), (49, 4), (9, 1)] {
                    let problem = Problem { words, ..problem(positions, vec4s, depth, taps) };
                    let Some(tiling) = problem.tiling([bytes, invocations]) else {
                        assert!(EACH * (depth | 1) * 4 * words > bytes, "{positions} {vec4s} {depth}");
                        continue;
                    };
                    assert!(tiling.memory() * 4 <= bytes && tiling.invocations() <= invocations, "{tiling:?}");
                    let [across, lines, slots] = tiling.staging().reading();
                    assert!(across * lines <= tiling.invocations() && lines * slots >= tiling.rows, "{tiling:?}");
                }
            }
        }
    }
}

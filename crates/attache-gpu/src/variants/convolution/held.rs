//! The common part of convolutions that stage all input channels of their output pixels in work-group memory. All
//! invocations load the data first, and compute a depthwise prologue while they do. After that only the filter is
//! loaded, and a work group needs at most three barriers in all.

use std::fmt::Write;

use attache_gpu_ir::{Primitive, Scalar};

use super::supply::Supply;
use super::tile::put;
use crate::kernel::{Kernel, MAX_GROUPS, lanes};
use crate::wgsl::epilogue::store_anywhere;
use crate::wgsl::{Context, Shader, Writer};

/// Output pixels per invocation, which computes one vec4 of output channels for each.
pub(super) const EACH: usize = 4;

/// Maximum number of output pixels of a block.
const MAX_ROWS: usize = 32;

/// Minimum (if there are as many) and maximum number of vec4s of output channels of a block.
const COLUMNS: [usize; 2] = [4, 32];

/// Maximum split-K factor. The parts are added in sequence.
const MAX_SHARES: usize = 32;

/// Output pixels that an invocation loads at once.
const READ_AT_ONCE: usize = 2;

/// Output pixels above which other variants are faster, for convolutions without a prologue.
const MANY_POSITIONS: usize = 4096;

/// Work groups that a large device runs at the same time, each on its own compute unit.
const UNITS: usize = 128;

/// Maximum number of invocations of a work group: if each work group has a compute unit to itself, and if several share
/// one.
const MAX_INVOCATIONS: [usize; 2] = [512, 256];

/// The size of the computation, as far as it determines the time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub(super) positions: usize,
    /// Vec4s of output channels.
    quads: usize,
    /// K in groups of four channels.
    depth: usize,
    /// Loads per group of four channels: the taps of a prologue, else 1.
    taps: usize,
    /// Words of work-group memory per group of four channels.
    words: usize,
}

/// How the work is distributed over a work group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Output pixels, and vec4s of output channels, of the block.
    pub(super) rows: usize,
    columns: usize,
    /// The split-K factor: invocations that jointly compute one result.
    pub(super) shares: usize,
    /// K in groups of four channels.
    pub(super) depth: usize,
    /// Words of work-group memory per group of four channels.
    words: usize,
}

impl Work {
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
        Self { positions: output[..3].iter().product(), quads: filter[0].div_ceil(4), depth, taps, words }
    }

    fn groups(&self, rows: usize, columns: usize) -> usize {
        self.positions.div_ceil(rows) * self.quads.div_ceil(columns)
    }

    /// Estimated time of a block shape on a large device, in vector loads of the busiest compute unit. The start and
    /// end of a work group count as [`Work::START`]. Loading a vec4 of the filter counts as half a load from work-group
    /// memory.
    fn time(&self, block: &Block) -> usize {
        let Block { rows, columns, .. } = *block;
        let groups = self.groups(rows, columns);
        let group = self.depth * (rows * columns + rows * self.taps + 2 * columns) + Self::START;
        if groups < 4 * UNITS { groups.div_ceil(UNITS) * group } else { groups * group / UNITS }
    }

    /// The fastest block by this estimate, within `bytes` bytes of work-group memory and `invocations` invocations.
    fn block(&self, [bytes, invocations]: [usize; 2]) -> Option<Block> {
        let [fewest, most] = COLUMNS;
        let parts = self.quads.div_ceil(most)..=self.quads.div_ceil(fewest);
        let columns = parts.map(|parts| self.quads.div_ceil(parts));
        let rows = (1..=MAX_ROWS / EACH).map(|down| down * EACH);
        let spreads = rows.flat_map(|rows| columns.clone().map(move |columns| (rows, columns)));
        let block = |(rows, columns): (usize, usize)| {
            let most = MAX_INVOCATIONS[usize::from(self.groups(rows, columns) > UNITS)].min(invocations);
            let shares = (most / (rows / EACH * columns)).min(bytes / (16 * rows * columns)).min(MAX_SHARES);
            Block { rows, columns, shares: shares.clamp(1, self.depth.max(1)), depth: self.depth, words: self.words }
        };
        let fits = |block: &Block| block.memory() * 4 <= bytes && block.invocations() <= invocations;
        spreads.map(block).filter(fits).min_by_key(|block| self.time(block))
    }
}

/// Whether a convolution is pointwise, with enough output pixels for one invocation and not so many that other variants
/// are faster.
pub(super) fn is_small(context: &Context<'_>, kernel: &Kernel) -> bool {
    let Primitive::Contract(contraction) = &kernel.primitive else { return false };
    let [data, filter] = [0, 1].map(|input| context.program.shape(kernel.inputs[input]));
    let few = EACH..=MANY_POSITIONS;
    few.contains(&Work::of(context, kernel).positions) && contraction.is_pointwise(data, filter)
}

impl Block {
    pub(super) fn of(context: &Context<'_>, kernel: &Kernel) -> Option<Self> {
        Work::of(context, kernel).block([context.limits.work_group_bytes, context.limits.max_invocations])
    }

    /// Invocations of one split-K part.
    fn layer(&self) -> usize {
        self.rows / EACH * self.columns
    }

    fn invocations(&self) -> usize {
        self.layer() * self.shares
    }

    /// Groups of four between the data of two output pixels: odd, so that neighbours are in different memory banks.
    pub(super) fn stride(&self) -> usize {
        self.depth + 1 - self.depth % 2
    }

    /// Vec4s of partial sums of all split-K parts; none without split-K.
    pub(super) fn parts(&self) -> usize {
        if self.shares > 1 { self.shares * self.rows * self.columns } else { 0 }
    }

    /// Words of work-group memory: the data, later reused for the partial sums.
    pub(super) fn memory(&self) -> usize {
        (4 * self.parts()).max(self.rows * self.stride() * self.words)
    }

    fn holding(&self) -> Holding {
        let invocations = self.invocations();
        Holding { rows: self.rows, depth: self.depth, stride: self.stride(), invocations, halves: false }
    }
}

/// What a work group stages in its memory, and with how many invocations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holding {
    /// Output pixels, and groups of four channels of each.
    pub(super) rows: usize,
    pub(super) depth: usize,
    /// Groups of four between the data of two output pixels.
    pub(super) stride: usize,
    pub(super) invocations: usize,
    /// Whether floats are staged as f16.
    pub(super) halves: bool,
}

impl Holding {
    /// The invocations that load adjacent groups of one pixel, the pixels that are loaded side by side, and the pixels
    /// that each invocation loads at once.
    fn reading(&self) -> [usize; 3] {
        let Self { rows, depth, invocations, .. } = *self;
        let across = (READ_AT_ONCE * invocations / rows).clamp(1, depth.clamp(1, invocations));
        let lines = invocations / across;
        [across, lines, rows.div_ceil(lines)]
    }
}

/// The WGSL of one variant. In it `first` is the block's first output pixel and `left` its first vec4 of output
/// channels. An invocation computes the output pixels `row`, `row + rows / EACH`, … of the block and the vec4
/// `filter_quad` of output channels, for the split-K part `share`.
pub(super) struct Texts<'a> {
    /// WGSL of the number of vec4s of output channels, and of K in groups of four.
    pub(super) wide: &'a str,
    pub(super) depth: &'a str,
    /// The declaration of `memory`, which has [`Block::memory`] words.
    pub(super) memory: String,
    /// Declares `sum0`, `sum1`, … and adds products to them.
    pub(super) multiply: String,
    /// Writes a partial sum to a place in work-group memory.
    pub(super) keep: &'a dyn Fn(&str, &str) -> String,
    /// Reads the partial sum at a place.
    pub(super) part: &'a dyn Fn(&str) -> String,
    /// The bias of the vec4 of output channels `quad`.
    pub(super) bias: String,
}

/// Adds the function that [`shader`] stores results with. Must be called after all inputs are bound.
pub(super) fn store(writer: &mut Writer<'_>, context: &Context<'_>, kernel: &Kernel) {
    store_anywhere(writer, context, kernel, out_lanes(context, kernel));
}

pub(super) fn out_lanes(context: &Context<'_>, kernel: &Kernel) -> usize {
    let outputs = context.program.shape(kernel.inputs[1])[0];
    if outputs.is_multiple_of(4) { lanes(context.program, kernel) } else { 1 }
}

/// The shader of this variant.
pub(super) fn shader(
    mut writer: Writer<'_>,
    (context, kernel): (&Context<'_>, &Kernel),
    block: Block,
    supply: &Supply,
    texts: &Texts<'_>,
) -> Shader {
    let Work { positions, quads, .. } = Work::of(context, kernel);
    let outputs = context.program.shape(kernel.inputs[1])[0];
    let out_lanes = out_lanes(context, kernel);
    let (Texts { wide, depth, .. }, [total, outputs]) =
        (texts, [positions, outputs].map(|extent| writer.param(extent)));
    let Block { rows, columns, shares, .. } = block;
    let mut body = format!(
        "    let first = (group.y + group.z * {MAX_GROUPS}u) * {rows}u;
    let left = group.x * {columns}u;
{}    let column = local.x % {columns}u;
    let row = local.x / {columns}u % {down}u;
    let share = local.x / {layer}u;
    let filter_quad = min(left + column, {wide} - 1u);
    workgroupBarrier();
{}",
        hold(block.holding(), supply, &total, depth),
        texts.multiply,
        down = rows / EACH,
        layer = block.layer(),
    );
    let store = |sum: &str, at: &str| {
        let stored = put(out_lanes, "at", sum, wide, &outputs);
        format!("let at = {at};\n        if (at < {total} && quad < {wide}) {{ let bias = {}; {stored} }}", texts.bias)
    };
    if shares > 1 {
        body += &gather(block, texts, &store("sum", &format!("first + place / {columns}u")));
    } else {
        body += "    let quad = left + column;\n";
        for p in 0..EACH {
            let at = format!("first + row + {}u", p * rows / EACH);
            let _ = writeln!(body, "    {{\n        {}\n    }}", store(&format!("sum{p}"), &at));
        }
    }
    let blocks = positions.div_ceil(rows);
    let groups = [quads.div_ceil(columns), blocks.min(MAX_GROUPS), blocks.div_ceil(MAX_GROUPS)];
    writer.finish([block.invocations() as u32, 1, 1], groups.map(|count| count as u32), &texts.memory, &body)
}

/// WGSL that stages everything that the output pixels from `first` on need. Adjacent invocations load adjacent groups
/// of four channels.
pub(super) fn hold(holding: Holding, supply: &Supply, total: &str, depth: &str) -> String {
    let [across, lines, slots] = holding.reading();
    let mut text = String::new();
    for slot in 0..slots {
        let _ = write!(
            text,
            "    let r{slot} = local.x / {across}u + {}u;
    let p{slot} = min(first + r{slot}, {total} - 1u);\n{}",
            slot * lines,
            supply.declare(slot)
        );
    }
    let _ = writeln!(text, "    for (var c = local.x % {across}u; c < {depth}; c += {across}u) {{");
    (0..slots).for_each(|slot| text += &supply.fetch(slot, "c"));
    (0..slots).for_each(|slot| text += &supply.settle(slot));
    // Invocations beyond the last complete line of `across` invocations load nothing.
    let reads =
        if lines * across < holding.invocations { format!("local.x < {}u", lines * across) } else { String::new() };
    for slot in 0..slots {
        let is_there =
            if (slot + 1) * lines > holding.rows { format!("r{slot} < {}u", holding.rows) } else { String::new() };
        let guards: Vec<&str> = [&*reads, &*is_there].into_iter().filter(|guard| !guard.is_empty()).collect();
        let guard = if guards.is_empty() { String::new() } else { format!("if ({}) ", guards.join(" && ")) };
        let data = if holding.halves { format!("vec4<f16>(data{slot})") } else { format!("data{slot}") };
        let _ = writeln!(text, "        {guard}{{ memory[r{slot} * {}u + c] = {data}; }}", holding.stride);
    }
    text + "    }\n"
}

/// WGSL that adds the partial sums of the split-K parts, and stores the results.
fn gather(block: Block, texts: &Texts<'_>, store: &str) -> String {
    let Block { rows, columns, shares, .. } = block;
    let (results, down, invocations) = (rows * columns, rows / EACH, block.invocations());
    let mut text = "    workgroupBarrier();\n".to_owned();
    for p in 0..EACH {
        let place = format!("share * {results}u + (row + {}u) * {columns}u + column", p * down);
        let _ = writeln!(text, "    {}", (texts.keep)(&place, &format!("sum{p}")));
    }
    let part = |share: usize| (texts.part)(&format!("place + {}u", share * results));
    let parts: Vec<String> = (0..shares).map(part).collect();
    text + &format!(
        "    workgroupBarrier();
    for (var place = local.x; place < {results}u; place += {invocations}u) {{
        let quad = left + place % {columns}u;
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
        let work = |positions, quads, depth, taps| Work { positions, quads, depth, taps, words: 4 };
        let some = |rows, columns, shares, depth| Some(Block { rows, columns, shares, depth, words: 4 });
        assert_eq!(work(196, 128, 128, 9).block(most), some(8, 26, 9, 128));
        assert_eq!(work(1089, 20, 120, 9).block(most), some(12, 20, 8, 120));
        assert_eq!(work(196, 128, 4096, 9).block(most), None, "more than the memory holds");
        for (positions, quads, depth) in (1..40).flat_map(|p| (1..40).map(move |q| (p * p * 7 - 3, q * 3, p * q))) {
            for (bytes, invocations) in [(16384, 128), (16384, 256), (32768, 1024), (49152, 1024)] {
                for (taps, words) in [(1, 4), (9, 4), (49, 4), (9, 1)] {
                    let work = Work { words, ..work(positions, quads, depth, taps) };
                    let Some(block) = work.block([bytes, invocations]) else {
                        assert!(EACH * (depth | 1) * 4 * words > bytes, "{positions} {quads} {depth}");
                        continue;
                    };
                    assert!(block.memory() * 4 <= bytes && block.invocations() <= invocations, "{block:?}");
                    let [across, lines, slots] = block.holding().reading();
                    assert!(across * lines <= block.invocations() && lines * slots >= block.rows, "{block:?}");
                }
            }
        }
    }
}

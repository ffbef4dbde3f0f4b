//! What contractions share whose work groups hold all that their positions read, in every channel: it is read first, by all
//! invocations at once, and a depthwise contraction in front is computed then. What follows waits for nothing but the
//! filter, and the work group meets three times in all.

use std::fmt::Write;

use attache_gpu_ir::{Primitive, Scalar};

use super::supply::Supply;
use super::tile::put;
use crate::kernel::{Kernel, MAX_GROUPS, lanes};
use crate::wgsl::epilogue::store_anywhere;
use crate::wgsl::{Context, Shader, Writer};

/// Positions of one invocation; it makes one quad of channels of each.
pub(super) const EACH: usize = 4;

/// Positions of a block, at most.
const MAX_ROWS: usize = 32;

/// Quads of channels of a block: at least as many, where there are, and at most.
const COLUMNS: [usize; 2] = [4, 32];

/// Invocations that share the products of one result, at most: their parts are added one after the other.
const MAX_SHARES: usize = 32;

/// Positions that an invocation reads at once.
const READ_AT_ONCE: usize = 2;

/// Positions from which on other variants do better, where nothing comes in front.
const MANY_POSITIONS: usize = 4096;

/// Work groups that a large device computes at the same time, each on a unit of its own.
const UNITS: usize = 128;

/// Invocations of a work group, where it has a unit for itself and where several share one.
const MAX_INVOCATIONS: [usize; 2] = [512, 256];

/// What is computed, as far as it takes time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub(super) positions: usize,
    /// Quads of output channels.
    quads: usize,
    /// Quads that are multiplied for one position.
    depth: usize,
    /// Reads for each of them.
    taps: usize,
    /// Words that each takes in the work group's memory.
    words: usize,
}

/// How the work is spread over a work group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Positions and quads of channels of the block.
    pub(super) rows: usize,
    columns: usize,
    /// Invocations that share the products of one result.
    pub(super) shares: usize,
    /// Quads that are multiplied for one position.
    pub(super) depth: usize,
    /// Words that each takes in the work group's memory.
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

    /// How long a block takes a large device, in reads of vectors by the unit that has most to do. What a work group takes to
    /// begin and to end counts as [`Work::START`]; a quad of the filter is read in half the time of one from its memory.
    fn time(&self, block: &Block) -> usize {
        let Block { rows, columns, .. } = *block;
        let groups = self.groups(rows, columns);
        let group = self.depth * (rows * columns + rows * self.taps + 2 * columns) + Self::START;
        if groups < 4 * UNITS { groups.div_ceil(UNITS) * group } else { groups * group / UNITS }
    }

    /// The block that takes the least time, within so many bytes of memory and invocations.
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

/// Whether a pointwise contraction has positions enough for an invocation, and not so many that other variants do better.
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

    /// Invocations that share no products.
    fn layer(&self) -> usize {
        self.rows / EACH * self.columns
    }

    fn invocations(&self) -> usize {
        self.layer() * self.shares
    }

    /// Quads from one position's data to the next: odd, so that neighbours lie in different banks of the memory.
    pub(super) fn stride(&self) -> usize {
        self.depth + 1 - self.depth % 2
    }

    /// Parts of sums, each of a quad of results.
    pub(super) fn parts(&self) -> usize {
        if self.shares > 1 { self.shares * self.rows * self.columns } else { 0 }
    }

    /// Words of memory: the data, and later the parts of the sums.
    pub(super) fn memory(&self) -> usize {
        (4 * self.parts()).max(self.rows * self.stride() * self.words)
    }

    fn holding(&self) -> Holding {
        let invocations = self.invocations();
        Holding { rows: self.rows, depth: self.depth, stride: self.stride(), invocations, halves: false }
    }
}

/// What a work group brings into its memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holding {
    /// Positions, and quads of each.
    pub(super) rows: usize,
    pub(super) depth: usize,
    /// Quads of memory from one position to the next.
    pub(super) stride: usize,
    pub(super) invocations: usize,
    /// Whether reals are held in 16 bits.
    pub(super) halves: bool,
}

impl Holding {
    /// Invocations that read neighbouring quads; the lines of them; the positions that each reads at once.
    fn reading(&self) -> [usize; 3] {
        let Self { rows, depth, invocations, .. } = *self;
        let across = (READ_AT_ONCE * invocations / rows).clamp(1, depth.clamp(1, invocations));
        let lines = invocations / across;
        [across, lines, rows.div_ceil(lines)]
    }
}

/// The text of one variant. `first` is the block's first position and `left` its first quad of channels; an invocation has the
/// positions `row`, `row + rows / EACH`, … of the block, the quad `filter_quad` of the filter and the share `share` of its rows.
pub(super) struct Texts<'a> {
    /// The quads of output channels, and those that are multiplied for one position.
    pub(super) wide: &'a str,
    pub(super) depth: &'a str,
    /// The declaration of `memory`, which has [`Block::memory`] words.
    pub(super) memory: String,
    /// Adds products to `sum0`, `sum1`, …, which it declares.
    pub(super) multiply: String,
    /// Keeps a sum at a place among the parts.
    pub(super) keep: &'a dyn Fn(&str, &str) -> String,
    /// The part of a sum at a place.
    pub(super) part: &'a dyn Fn(&str) -> String,
    /// The bias of the quad `quad`.
    pub(super) bias: String,
}

/// How results are stored, by [`shader`], which comes after all that is bound to be read.
pub(super) fn store(writer: &mut Writer<'_>, context: &Context<'_>, kernel: &Kernel) {
    store_anywhere(writer, context, kernel, out_lanes(context, kernel));
}

pub(super) fn out_lanes(context: &Context<'_>, kernel: &Kernel) -> usize {
    let outputs = context.program.shape(kernel.inputs[1])[0];
    if outputs.is_multiple_of(4) { lanes(context.program, kernel) } else { 1 }
}

/// The shader of these texts.
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

/// WGSL that reads all that the positions from `first` on need, neighbouring invocations neighbouring quads.
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
    // Invocations behind the last whole line have nothing to do.
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

/// WGSL that adds the shares' parts of the sums and stores them.
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

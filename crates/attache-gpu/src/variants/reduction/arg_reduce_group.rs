//! Variant `arg_reduce_group`: arg-max and arg-min with several invocations per result. A work group searches for a few
//! results whose elements are adjacent in memory.

use std::fmt::Write;

use attache_gpu_ir::Primitive;

use super::arg_reduce::{Search, Sizes};
use crate::kernel::{Kernel, MAX_GROUPS};
use crate::variants::{Computes, Variant};
use crate::wgsl::epilogue::store_anywhere;
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant =
    Variant { name: "arg_reduce_group", computes: Computes::Nothing, applies, priority, write };

/// Maximum number of invocations of a work group, a power of two.
const GROUP: usize = 128;

/// Minimum number of invocations of a work group, a power of two.
const SMALL_GROUP: usize = 32;

/// Number of results per work group if elements of different results are adjacent in memory.
const ADJACENT: usize = 16;

/// Number of elements per result above which several invocations search for it.
const FEW_ELEMENTS: usize = 32;

/// Number of results above which one invocation for each keeps a device busy, if neighbours read adjacent elements.
const MANY_RESULTS: usize = 16384;

/// Number of work groups that keep a large device busy.
const UNITS: usize = 128;

/// Number of loads that an invocation has in flight at once, if there are enough elements.
const LOADS: usize = 8;

/// Maximum number of elements that an invocation loads at once.
const MAX_LOADED: usize = 32;

/// Maximum number of invocations whose findings are compared by one of them, from one barrier to the next.
const COMPARED: usize = 8;

/// How the invocations of a work group are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tiling {
    /// Number of results of the work group.
    results: usize,
    /// Number of invocations that search for a result, a power of two.
    workers: usize,
    /// Whether neighbouring invocations search for neighbouring results rather than for one.
    is_across: bool,
    /// Number of elements that are loaded at once.
    width: usize,
    /// Number of loads of an invocation.
    loads: usize,
}

impl Tiling {
    fn of(sizes: &Sizes) -> Self {
        let width = if sizes.has_vectors() { 4 } else { 1 };
        let units = sizes.searched.div_ceil(width);
        let is_across = sizes.inner >= ADJACENT;
        // Neighbours that search for one result load at least 32 adjacent bytes.
        let least = if is_across { 1 } else { 8 / width };
        let workers = units.div_ceil(LOADS).next_power_of_two().clamp(least, GROUP);
        let most = if is_across { ADJACENT } else { GROUP / workers };
        let fewest = SMALL_GROUP.div_ceil(workers).min(most);
        let results = (sizes.results() / UNITS).next_power_of_two().clamp(fewest, most);
        let workers = workers.min(GROUP / results);
        Self { results, workers, is_across, width, loads: units.div_ceil(workers) }
    }

    fn group(&self) -> usize {
        self.results * self.workers
    }
}

fn applies(context: &Context<'_>, kernel: &Kernel) -> bool {
    let fits = |sizes: Sizes| sizes.results().div_ceil(Tiling::of(&sizes).results) <= MAX_GROUPS * MAX_GROUPS;
    let searches = |sizes: Sizes| sizes.searched > 0 && fits(sizes);
    matches!(kernel.primitive, Primitive::ArgReduce { .. }) && searches(Sizes::of(context, kernel))
}

fn priority(context: &Context<'_>, kernel: &Kernel) -> u32 {
    let sizes = Sizes::of(context, kernel);
    let is_long = sizes.searched > FEW_ELEMENTS && (sizes.inner < ADJACENT || sizes.results() <= MANY_RESULTS);
    if is_long && context.limits.splits_k { 1 } else { 50 }
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let sizes = Sizes::of(context, kernel);
    let tiling = Tiling::of(&sizes);
    let Tiling { results, workers, is_across, .. } = tiling;
    let all = sizes.results();
    let mut writer = Writer::new(VARIANT.name, context);
    let search = Search::new(&mut writer, context, kernel, tiling.width);
    let found = find(&mut writer, tiling, &search);
    store_anywhere(&mut writer, context, kernel, 1);
    let groups = all.div_ceil(results);
    let across = groups.clamp(1, MAX_GROUPS);
    let [last, across_text] = [all.saturating_sub(1), across].map(|number| writer.param(number));
    let (worker, result) = match is_across {
        true => (format!("local.x / {results}u"), format!("local.x % {results}u")),
        false => (format!("local.x % {workers}u"), format!("local.x / {workers}u")),
    };
    let body = format!(
        "    let worker = {worker};
    let result = (group.x + group.y * {across_text}) * {results}u + {result};
    let g = min(result, {last});
{start}{found}{compared}    if (worker == 0u && result <= {last}) {{ store(g, i32(best_place)); }}\n",
        start = search.start,
        compared = compare(tiling),
    );
    let group = tiling.group();
    let declarations = match workers {
        1 => String::new(),
        _ => format!("var<workgroup> found: array<vec2<u32>, {group}>;\n"),
    };
    let groups = [across as u32, groups.div_ceil(across) as u32, 1];
    vec![writer.finish([group as u32, 1, 1], groups, &declarations, &body)]
}

/// Returns WGSL with which an invocation searches its share of the elements. All loads of a step come before the first
/// comparison, so that the device waits for all of them at once; those beyond the end load the last elements again, which
/// changes nothing.
fn find(writer: &mut Writer<'_>, tiling: Tiling, search: &Search) -> String {
    let Tiling { workers, width, loads, .. } = tiling;
    let steps = loads.div_ceil(MAX_LOADED / width);
    let (at_once, step) = (loads.div_ceil(steps), workers * width);
    let at = |load: usize| format!("min(own + {}u, count - {width}u)", load * step);
    let mut text = String::new();
    for load in 0..at_once {
        let place = search.place(&at(load));
        let _ = writeln!(text, "        let place{load} = {place};");
    }
    for load in 0..at_once {
        let _ = writeln!(text, "        let loaded{load} = {};", search.load(&format!("place{load}")));
    }
    for (load, element) in (0..at_once).flat_map(|load| (0..width).map(move |element| (load, element))) {
        let loaded = if width == 1 { format!("loaded{load}") } else { format!("loaded{load}[{element}]") };
        let worth = search.worth(writer, &loaded);
        let place = format!("place{load} + {element}u");
        let _ = writeln!(
            text,
            "        {{
            let worth = {worth};
            if (worth > best) {{ best = worth; best_place = {place}; }}
        }}"
        );
    }
    // Elements that are as bad as can be are not better than the first one.
    let first = search.place(&format!("min(worker * {width}u, count - {width}u)"));
    let start = format!("    var best = -0x7fffffff - 1;\n    var best_place = {first};\n");
    match steps {
        1 => format!("{start}    {{\n        let own = worker * {width}u;\n{text}    }}\n"),
        _ => format!(
            "{start}    for (var own = worker * {width}u; own < count; own += {}u) {{\n{text}    }}\n",
            at_once * step
        ),
    }
}

/// Returns WGSL with which the workers of a result compare what they have found. The first one then has the best.
fn compare(tiling: Tiling) -> String {
    let Tiling { results, workers, is_across, .. } = tiling;
    let hop = if is_across { results } else { 1 };
    let put = "found[local.x] = vec2<u32>(bitcast<u32>(best), best_place);";
    let mut text = if workers == 1 { String::new() } else { format!("    {put}\n") };
    let mut left = workers;
    while left > 1 {
        let next = left / left.min(COMPARED);
        let _ = writeln!(text, "    workgroupBarrier();\n    if (worker < {next}u) {{");
        for other in 1..left / next {
            let _ = writeln!(text, "        let other{other} = found[local.x + {}u];", other * next * hop);
        }
        for other in (1..left / next).map(|number| format!("other{number}")) {
            let _ = writeln!(
                text,
                "        {{
            let worth = bitcast<i32>({other}.x);
            if (worth > best || (worth == best && {other}.y < best_place)) {{ best = worth; best_place = {other}.y; }}
        }}"
            );
        }
        text += &if next == 1 { "    }\n".to_owned() } else { format!("        {put}\n    }}\n") };
        left = next;
    }
    text
}

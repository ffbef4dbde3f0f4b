//! Variant `arg_reduce_group`: arg-max and arg-min with several invocations per result. A work group searches for a few
//! results whose elements are adjacent in memory.

use attache_gpu_ir::Primitive;

use super::arg_reduce::{Sizes, search};
use crate::kernel::{Kernel, MAX_GROUPS};
use crate::variants::{Computes, Variant};
use crate::wgsl::epilogue::store_anywhere;
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant =
    Variant { name: "arg_reduce_group", computes: Computes::Nothing, applies, priority, write };

/// Number of invocations of a work group, a power of two.
const GROUP: usize = 128;

/// Number of results per work group if elements of different results are adjacent in memory.
const ADJACENT: usize = 16;

/// Number of elements per result above which several invocations search for it.
const FEW_ELEMENTS: usize = 32;

/// Number of results above which one invocation for each keeps a device busy, if neighbours read adjacent elements.
const MANY_RESULTS: usize = 16384;

/// How the invocations of a work group are divided.
struct Tiling {
    /// Number of results of the work group.
    results: usize,
    /// Whether neighbouring invocations search for neighbouring results rather than for one.
    is_across: bool,
}

impl Tiling {
    fn of(sizes: &Sizes) -> Self {
        if sizes.inner >= ADJACENT {
            return Self { results: ADJACENT, is_across: true };
        }
        // Each of the workers of a result searches about four elements or more.
        let workers = (sizes.searched / 4).next_power_of_two().clamp(8, GROUP);
        Self { results: GROUP / workers, is_across: false }
    }
}

fn applies(context: &Context<'_>, kernel: &Kernel) -> bool {
    let fits = |sizes: Sizes| sizes.results().div_ceil(Tiling::of(&sizes).results) <= MAX_GROUPS * MAX_GROUPS;
    matches!(kernel.primitive, Primitive::ArgReduce { .. }) && fits(Sizes::of(context, kernel))
}

fn priority(context: &Context<'_>, kernel: &Kernel) -> u32 {
    let sizes = Sizes::of(context, kernel);
    let is_long = sizes.searched > FEW_ELEMENTS && (sizes.inner < ADJACENT || sizes.results() <= MANY_RESULTS);
    if is_long && context.limits.splits_k { 1 } else { 50 }
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let sizes = Sizes::of(context, kernel);
    let Tiling { results, is_across } = Tiling::of(&sizes);
    let (workers, all) = (GROUP / results, sizes.results());
    let mut writer = Writer::new(VARIANT.name, context);
    let [start, place, worth] = search(&mut writer, context, kernel);
    store_anywhere(&mut writer, context, kernel, 1);
    let groups = all.div_ceil(results);
    let across = groups.clamp(1, MAX_GROUPS);
    let [last, across_text] = [all.saturating_sub(1), across].map(|number| writer.param(number));
    let (worker, result, hop) = match is_across {
        true => (format!("local.x / {results}u"), format!("local.x % {results}u"), results),
        false => (format!("local.x % {workers}u"), format!("local.x / {workers}u"), 1),
    };
    let body = format!(
        "    let worker = {worker};
    let result = (group.x + group.y * {across_text}) * {results}u + {result};
    let g = min(result, {last});
{start}    var best = -0x7fffffff - 1;
    var best_place = 0xffffffffu;
    for (var at = worker; at < count; at += {workers}u) {{
        let place = {place};
        let worth = {worth};
        if (best_place == 0xffffffffu || worth > best) {{ best = worth; best_place = place; }}
    }}
    found[local.x] = vec2<u32>(bitcast<u32>(best), best_place);
    for (var half = {half}u; half > 0u; half = half / 2u) {{
        workgroupBarrier();
        if (worker < half) {{
            let other = found[local.x + half * {hop}u];
            let worth = bitcast<i32>(other.x);
            if (worth > best || (worth == best && other.y < best_place)) {{
                best = worth;
                best_place = other.y;
                found[local.x] = other;
            }}
        }}
    }}
    if (worker == 0u && result <= {last}) {{ store(g, i32(best_place)); }}\n",
        half = workers / 2
    );
    let declarations = format!("var<workgroup> found: array<vec2<u32>, {GROUP}>;\n");
    let groups = [across as u32, groups.div_ceil(across) as u32, 1];
    vec![writer.finish([GROUP as u32, 1, 1], groups, &declarations, &body)]
}

//! Generates WGSL that combines the partial results of the invocations of a work group: those of a subgroup by exchanging
//! them, on devices that can, and the others in work-group memory.

use std::fmt::Write;

/// How rows are distributed over a work group. In the shader `local.x % rows_per_group` is the row and
/// `local.x / rows_per_group` is the number of the invocation among those that reduce the row.
#[derive(Clone, Copy)]
pub(in crate::variants) struct Tiling {
    /// Number of rows per work group.
    pub(in crate::variants) rows_per_group: usize,
    /// Number of invocations per row, a power of two.
    pub(in crate::variants) workers: usize,
}

impl Tiling {
    pub(in crate::variants) fn invocations(&self) -> usize {
        self.rows_per_group * self.workers
    }
}

/// Maximum number of partial results that an invocation reduces between two barriers. So many serial steps take less time than
/// the barriers of more levels.
const BETWEEN_BARRIERS: usize = 16;

/// Returns the levels in which `count` partial results, a power of two, are reduced to one: at each level the first number
/// becomes the second.
fn levels(count: usize) -> impl Iterator<Item = [usize; 2]> {
    let next = |count: usize| {
        let steps = count.ilog2();
        let levels = steps.div_ceil(BETWEEN_BARRIERS.ilog2()).max(1);
        count >> steps.div_ceil(levels)
    };
    std::iter::successors(Some([count, next(count)]), move |[_, at]| Some([*at, next(*at)]))
        .take_while(|[from, _]| *from > 1)
}

/// Returns the distances of invocations that exchange partial results one after the other, until all of a subgroup of `size`
/// invocations that are multiples of `stride` apart have the same: at most `count` of them, a power of two.
fn distances(stride: usize, count: usize, size: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(stride), |distance| Some(distance * 2))
        .take_while(move |distance| *distance < size && *distance < stride * count)
}

/// WGSL of a barrier.
pub(in crate::variants) const BARRIER: &str = "    workgroupBarrier();\n";

/// WGSL of a reduction.
pub(in crate::variants) struct Reduced {
    /// Statements that reduce the variable `folded` of all invocations of each row. All invocations have to run them.
    pub(in crate::variants) text: String,
    /// The result of the invocation's row.
    pub(in crate::variants) result: String,
    /// Statements that have to run between the use of the result and the next reduction.
    pub(in crate::variants) end: &'static str,
}

impl Reduced {
    /// Returns the reduction by statements that leave the result of each row in the row's first element of `shared_folded`.
    pub(super) fn in_memory(text: String, tiling: Tiling) -> Self {
        let result = format!("shared_folded[local.x % {}u]", tiling.rows_per_group);
        Self { text, result, end: BARRIER }
    }

    /// Returns the reduction by `fold`, statements that reduce `value` into `folded`. The work-group array `shared_folded` has
    /// as many elements as there are invocations. `subgroup` is the number of invocations of each subgroup, if the device can
    /// exchange values within one.
    pub(super) fn new(fold: &str, tiling: Tiling, subgroup: Option<usize>) -> Self {
        let rows = tiling.rows_per_group;
        let fits = |size: &usize| rows.is_power_of_two() && rows < *size && tiling.invocations().is_multiple_of(*size);
        match subgroup.filter(fits) {
            Some(size) => Self::in_subgroups(fold, tiling, size),
            None => Self::in_memory(tree(fold, tiling), tiling),
        }
    }

    fn in_subgroups(fold: &str, tiling: Tiling, size: usize) -> Self {
        let Tiling { rows_per_group: rows, workers } = tiling;
        let exchange = |distance| format!("    {{ let value = subgroupShuffleXor(folded, {distance}u); {fold} }}\n");
        let mut text: String = distances(rows, workers, size).map(exchange).collect();
        let subgroups = tiling.invocations() / size;
        let result = "folded".to_owned();
        if subgroups == 1 {
            // The order of its operands can decide which NaN or zero is a maximum.
            let _ = writeln!(text, "    folded = subgroupShuffle(folded, local.x % {rows}u);");
            return Self { text, result, end: "" };
        }
        let _ = write!(
            text,
            "    if (local.x % {size}u < {rows}u) {{
        shared_folded[local.x / {size}u * {rows}u + local.x % {rows}u] = folded;
    }}
    workgroupBarrier();
    folded = shared_folded[local.x % {rows}u];
    for (var other = 1u; other < {subgroups}u; other++) {{
        let value = shared_folded[other * {rows}u + local.x % {rows}u];
        {fold}
    }}\n"
        );
        Self { text, result, end: BARRIER }
    }
}

/// Returns WGSL of the reduction of the invocations' partial results in memory.
fn tree(fold: &str, tiling: Tiling) -> String {
    let Tiling { rows_per_group, workers } = tiling;
    let level = |[from, to]: [usize; 2]| {
        format!(
            "    workgroupBarrier();
    if (worker < {to}u) {{
        for (var other = {to}u; other < {from}u; other += {to}u) {{
            let value = shared_folded[local.x + other * {rows_per_group}u];
            {fold}
        }}
        shared_folded[local.x] = folded;
    }}\n"
        )
    };
    let levels: String = levels(workers).map(level).collect();
    format!("    shared_folded[local.x] = folded;\n{levels}    workgroupBarrier();\n")
}

/// How the invocations of a work group divide K: those with the same `own`, of which there are `columns`, have the parts
/// `part` of `parts`.
#[derive(Clone, Copy)]
pub(in crate::variants) struct Parts {
    pub(in crate::variants) columns: usize,
    pub(in crate::variants) parts: usize,
    /// Whether neighbouring invocations have neighbouring parts of a column, and not the same part of neighbouring columns.
    pub(in crate::variants) are_adjacent: bool,
}

impl Parts {
    fn invocations(self) -> usize {
        self.columns * self.parts
    }

    /// Returns WGSL that adds the variables `sum0`, `sum1` and so on of all parts of a column, so that those of the first part
    /// are the results. The work-group array `sums` has one array of as many elements as there are invocations for each of
    /// the `rows` variables. `subgroup` is as for [`Reduced::new`].
    pub(in crate::variants) fn add(self, rows: usize, subgroup: Option<usize>) -> String {
        let stride = if self.are_adjacent { 1 } else { self.columns };
        let fits = |size: &usize| {
            [self.columns, self.parts].iter().all(|count| count.is_power_of_two())
                && stride < *size
                && self.invocations().is_multiple_of(*size)
        };
        match subgroup.filter(fits) {
            Some(size) => self.add_in_subgroups(rows, stride, size),
            None => self.add_in_memory(rows),
        }
    }

    fn add_in_subgroups(self, rows: usize, stride: usize, size: usize) -> String {
        let Self { columns, parts, are_adjacent } = self;
        let mut text = String::new();
        for (distance, row) in distances(stride, parts, size).flat_map(|at| (0..rows).map(move |row| (at, row))) {
            let _ = writeln!(text, "    sum{row} += subgroupShuffleXor(sum{row}, {distance}u);");
        }
        // Parts of a column in a subgroup, and subgroups that have parts of it.
        let each = parts.min(size / stride);
        let others = parts / each;
        if others == 1 {
            return text;
        }
        let place = |part: &str| match are_adjacent {
            true => format!("own * {others}u + {part}"),
            false => format!("{part} * {columns}u + own"),
        };
        let _ = writeln!(text, "    if (part % {each}u == 0u) {{");
        for row in 0..rows {
            let _ = writeln!(text, "        sums[{row}u][{}] = sum{row};", place(&format!("part / {each}u")));
        }
        text += "    }\n    workgroupBarrier();\n    if (part == 0u) {\n";
        for row in 0..rows {
            let added: String =
                (1..others).map(|other| format!(" + sums[{row}u][{}]", place(&format!("{other}u")))).collect();
            let _ = writeln!(text, "        sum{row} = sum{row}{added};");
        }
        text + "    }\n"
    }

    fn add_in_memory(self, rows: usize) -> String {
        let Self { columns, parts, are_adjacent } = self;
        let place = |part: &str| match are_adjacent {
            true => format!("own * {parts}u + {part}"),
            false => format!("{part} * {columns}u + own"),
        };
        let mut text = String::new();
        for [from, to] in levels(parts) {
            let _ = writeln!(text, "    if (part < {from}u) {{");
            for row in 0..rows {
                let _ = writeln!(text, "        sums[{row}u][{}] = sum{row};", place("part"));
            }
            let _ = writeln!(text, "    }}\n    workgroupBarrier();\n    if (part < {to}u) {{");
            for row in 0..rows {
                let others: String = (1..from / to)
                    .map(|other| format!(" + sums[{row}u][{}]", place(&format!("(part + {}u)", other * to))))
                    .collect();
                let _ = writeln!(text, "        sum{row} = sum{row}{others};");
            }
            text += "    }\n";
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invocations_exchange_until_all_of_a_subgroup_have_the_result() {
        let of = |stride, count, size| distances(stride, count, size).collect::<Vec<_>>();
        assert_eq!(of(1, 256, 32), [1, 2, 4, 8, 16]);
        assert_eq!(of(8, 4, 64), [8, 16]);
        assert_eq!(of(4, 64, 32), [4, 8, 16]);
        assert!(of(1, 1, 32).is_empty());
        assert_eq!(levels(128).collect::<Vec<_>>(), [[128, 8], [8, 1]]);
    }

    /// Returns the source of a shader whose invocations store results.
    fn shader(invocations: usize, head: &str, text: &str, result: &str) -> String {
        format!(
            "@group(0) @binding(0) var<storage, read_write> out: array<f32>;
var<workgroup> shared_folded: array<f32, {invocations}>;
var<workgroup> sums: array<array<f32, {invocations}>, 2>;
@compute @workgroup_size({invocations})
fn main(@builtin(local_invocation_id) local: vec3<u32>) {{
{head}{text}    out[local.x] = {result};\n}}\n"
        )
    }

    fn check(source: &str) {
        use wgpu::naga::valid::{Capabilities, ValidationFlags, Validator};
        let module = wgpu::naga::front::wgsl::parse_str(source).unwrap_or_else(|error| panic!("{error}\n{source}"));
        let mut validator = Validator::new(ValidationFlags::all(), Capabilities::SUBGROUP);
        validator.validate(&module).unwrap_or_else(|error| panic!("{error:?}\n{source}"));
    }

    #[test]
    fn shaders_are_valid_with_subgroups_of_all_sizes() {
        for (size, rows) in [4, 8, 16, 32, 64, 128].into_iter().flat_map(|size| [1, 2, 8].map(|rows| (size, rows))) {
            let tiling = Tiling { rows_per_group: rows, workers: 128 / rows };
            let head = format!("    let worker = local.x / {rows}u;\n    var folded = f32(worker);\n");
            let Reduced { text, result, .. } = Reduced::new("folded = max(folded, value);", tiling, Some(size));
            assert_eq!(text.contains("subgroup"), rows < size);
            check(&shader(128, &head, &text, &result));
            for are_adjacent in [false, true] {
                let parts = Parts { columns: rows, parts: 128 / rows, are_adjacent };
                let [part, own] = match are_adjacent {
                    true => [format!("local.x % {}u", parts.parts), format!("local.x / {}u", parts.parts)],
                    false => [format!("local.x / {rows}u"), format!("local.x % {rows}u")],
                };
                let head = format!(
                    "    let part = {part};\n    let own = {own};\n    var sum0 = f32(part);\n    var sum1 = f32(own);\n"
                );
                check(&shader(128, &head, &parts.add(2, Some(size)), "sum0 + sum1"));
            }
        }
    }

    /// Does what the generated exchanges do, on the numbers of the invocations of a work group.
    fn exchanged(parts: Parts, size: usize) -> Vec<Vec<usize>> {
        let stride = if parts.are_adjacent { 1 } else { parts.columns };
        let mut held: Vec<Vec<usize>> = (0..parts.invocations()).map(|local| vec![local]).collect();
        for distance in distances(stride, parts.parts, size) {
            held = (0..held.len()).map(|local| [held[local].as_slice(), &held[local ^ distance]].concat()).collect();
        }
        held
    }

    #[test]
    fn each_part_of_a_column_is_added_once() {
        let sizes = [4, 8, 16, 32, 64].into_iter().flat_map(|size| [1, 2, 4, 8, 32].map(|columns| (size, columns)));
        for (size, columns, are_adjacent) in
            sizes.flat_map(|(size, columns)| [(size, columns, false), (size, columns, true)])
        {
            let parts = Parts { columns, parts: 256 / columns, are_adjacent };
            let stride = if are_adjacent { 1 } else { columns };
            if stride >= size {
                continue;
            }
            let place = |local: usize| match are_adjacent {
                true => [local % parts.parts, local / parts.parts],
                false => [local / columns, local % columns],
            };
            let each = parts.parts.min(size / stride);
            let held = exchanged(parts, size);
            for own in 0..columns {
                let firsts = (0..256).filter(|local| place(*local)[1] == own && place(*local)[0] % each == 0);
                let mut added: Vec<[usize; 2]> =
                    firsts.flat_map(|local| &held[local]).map(|local| place(*local)).collect();
                added.sort_unstable();
                assert_eq!(added, (0..parts.parts).map(|part| [part, own]).collect::<Vec<_>>(), "{size} {columns}");
            }
        }
    }
}

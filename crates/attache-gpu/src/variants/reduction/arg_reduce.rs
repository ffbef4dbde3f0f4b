//! Variant `arg_reduce`: arg-max and arg-min, the index of the first largest or smallest element of each part of an
//! axis, with one invocation per result.

use attache_gpu_ir::Primitive;

use super::ordering::worth;
use crate::kernel::Kernel;
use crate::variants::{Computes, Variant};
use crate::wgsl::epilogue::store;
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant = Variant {
    name: "arg_reduce",
    computes: Computes::Nothing,
    applies: |_, kernel| matches!(kernel.primitive, Primitive::ArgReduce { .. }),
    priority: |_, _| 2,
    write,
};

/// The sizes of an arg-reduction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// Product of the extents outside of the axis.
    pub(super) outer: usize,
    /// Extent of the axis.
    extent: usize,
    /// Product of the extents inside of the axis.
    pub(super) inner: usize,
    /// Number of parts of the axis.
    parts: usize,
    /// Maximum number of elements that are searched for one result.
    pub(super) searched: usize,
}

impl Sizes {
    pub(super) fn of(context: &Context<'_>, kernel: &Kernel) -> Self {
        let Primitive::ArgReduce { axis, parts, .. } = kernel.primitive else { unreachable!("applies") };
        let shape = context.program.shape(kernel.inputs[0]);
        let places = kernel.inputs.get(1).map(|id| context.program.shape(*id)[axis]);
        let product = |extents: &[usize]| extents.iter().product();
        let searched = places.unwrap_or(shape[axis].div_ceil(parts));
        let [outer, inner] = [product(&shape[..axis]), product(&shape[axis + 1..])];
        Self { outer, extent: shape[axis], inner, parts, searched }
    }

    pub(super) fn results(&self) -> usize {
        self.outer * self.parts * self.inner
    }
}

/// Binds the inputs. Returns WGSL of three pieces: the definition of `count`, the number of elements that are searched
/// for result `g`, and of what the other two use; the index along the axis of element `at` of these; and the worth of
/// the element with the index `place`, which is larger for the better of two.
pub(super) fn search(writer: &mut Writer<'_>, context: &Context<'_>, kernel: &Kernel) -> [String; 3] {
    let Primitive::ArgReduce { largest, .. } = kernel.primitive else { unreachable!("applies") };
    let Sizes { extent, inner, parts, searched, .. } = Sizes::of(context, kernel);
    let array = writer.read(kernel.inputs[0], 1);
    let places = kernel.inputs.get(1).map(|id| writer.read(*id, 1));
    let [extent, inner, parts, searched] = [extent, inner, parts, searched].map(|number| writer.param(number));
    let worth = worth(writer, &array, largest, &format!("base + place * {inner}"));
    let mut start = format!(
        "    let outer = g / {inner} / {parts};
    let base = outer * {extent} * {inner} + g % {inner};\n"
    );
    let Some(places) = places else {
        start += &format!(
            "    let first = min(g / {inner} % {parts} * {searched}, {extent} - 1u);
    let count = min({searched}, {extent} - first);\n"
        );
        return [start, "first + at".to_owned(), worth];
    };
    let place = places.integers(&format!("(outer * {searched} + at) * {inner} + g % {inner}"));
    start += &format!("    let count = {searched};\n");
    // An index out of range would be a fault of another kernel. Reading the nearest element does no harm.
    [start, format!("min(u32({place}), {extent} - 1u)"), worth]
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let mut writer = Writer::new(VARIANT.name, context);
    let [start, place, worth] = search(&mut writer, context, kernel);
    store(&mut writer, context, kernel, 1);
    let body = format!(
        "{start}    var best = 0;
    var best_place = 0u;
    for (var at = 0u; at < count; at++) {{
        let place = {place};
        let worth = {worth};
        if (at == 0u || worth > best) {{ best = worth; best_place = place; }}
    }}
    store(g, i32(best_place));\n"
    );
    vec![writer.linear(context.program.shape(kernel.outputs[0]).elements(), &body)]
}

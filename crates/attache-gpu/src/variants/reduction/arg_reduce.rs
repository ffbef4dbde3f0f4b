//! Variant `arg_reduce`: arg-max and arg-min, the index of the first largest or smallest element of each part of an
//! axis, with one invocation per result.

use attache_gpu_ir::Primitive;

use super::ordering::worth;
use crate::kernel::Kernel;
use crate::variants::{Computes, Variant};
use crate::wgsl::accessor::Array;
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
    /// Whether another kernel has found the indices of the elements that are searched.
    is_indirect: bool,
}

impl Sizes {
    pub(super) fn of(context: &Context<'_>, kernel: &Kernel) -> Self {
        let Primitive::ArgReduce { axis, parts, .. } = kernel.primitive else { unreachable!("applies") };
        let shape = context.program.shape(kernel.inputs[0]);
        let places = kernel.inputs.get(1).map(|id| context.program.shape(*id)[axis]);
        let product = |extents: &[usize]| extents.iter().product();
        let searched = places.unwrap_or(shape[axis].div_ceil(parts));
        let [outer, inner] = [product(&shape[..axis]), product(&shape[axis + 1..])];
        Self { outer, extent: shape[axis], inner, parts, searched, is_indirect: places.is_some() }
    }

    /// Whether the elements that are searched for a result are adjacent and aligned in memory, in fours.
    pub(super) fn has_vectors(&self) -> bool {
        let is_aligned = self.extent.is_multiple_of(4) && self.searched.is_multiple_of(4);
        // Otherwise the last parts are empty, and are searched from the last element on.
        let has_elements = (self.parts - 1) * self.searched < self.extent;
        self.inner == 1 && !self.is_indirect && is_aligned && has_elements
    }

    pub(super) fn results(&self) -> usize {
        self.outer * self.parts * self.inner
    }
}

/// WGSL with which an arg-reduction searches for one result.
pub(super) struct Search {
    /// Statements that define `count`, the number of elements that are searched for result `g`, and what the rest uses.
    pub(super) start: String,
    array: Array,
    /// Indices of the elements along the axis, if not all elements of a part are searched.
    places: Option<Array>,
    largest: bool,
    /// The sizes [`Sizes::extent`], [`Sizes::inner`] and [`Sizes::searched`].
    extent: String,
    inner: String,
    searched: String,
    /// Number of elements that are loaded at once: 4 neighbours along the axis, or 1.
    width: usize,
}

impl Search {
    /// Binds the inputs, of which `width` elements are loaded at once.
    pub(super) fn new(writer: &mut Writer<'_>, context: &Context<'_>, kernel: &Kernel, width: usize) -> Self {
        let Primitive::ArgReduce { largest, .. } = kernel.primitive else { unreachable!("applies") };
        let Sizes { extent, inner, parts, searched, .. } = Sizes::of(context, kernel);
        let array = writer.read(kernel.inputs[0], width);
        let places = kernel.inputs.get(1).map(|id| writer.read(*id, 1));
        let [extent, inner, parts, searched] = [extent, inner, parts, searched].map(|number| writer.param(number));
        let mut start = format!(
            "    let outer = g / {inner} / {parts};
    let base = outer * {extent} * {inner} + g % {inner};\n"
        );
        start += &match places {
            Some(_) => format!("    let count = {searched};\n"),
            None => format!(
                "    let first = min(g / {inner} % {parts} * {searched}, {extent} - 1u);
    let count = min({searched}, {extent} - first);\n"
            ),
        };
        Self { start, array, places, largest, extent, inner, searched, width }
    }

    /// Returns WGSL of the index along the axis of element `at` of those that are searched.
    pub(super) fn place(&self, at: &str) -> String {
        let Some(places) = &self.places else { return format!("first + {at}") };
        let (inner, searched) = (&self.inner, &self.searched);
        let place = places.integers(&format!("(outer * {searched} + {at}) * {inner} + g % {inner}"));
        // An index out of range would be a fault of another kernel. Reading the nearest element does no harm.
        format!("min(u32({place}), {} - 1u)", self.extent)
    }

    /// Returns WGSL that loads the elements from index `place` along the axis on: a vector if there are several.
    pub(super) fn load(&self, place: &str) -> String {
        match self.width {
            1 => self.array.elements(&format!("base + {place} * {}", self.inner)),
            _ => self.array.elements(&format!("(base + {place}) / {}u", self.width)),
        }
    }

    /// Returns WGSL of the worth of an element that was loaded, which is larger for the better of two.
    pub(super) fn worth(&self, writer: &mut Writer<'_>, element: &str) -> String {
        worth(writer, self.array.is_integer(), self.largest, element)
    }
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let mut writer = Writer::new(VARIANT.name, context);
    let search = Search::new(&mut writer, context, kernel, 1);
    let (place, worth) = (search.place("at"), search.worth(&mut writer, &search.load("place")));
    store(&mut writer, context, kernel, 1);
    let body = format!(
        "{start}    var best = 0;
    var best_place = 0u;
    for (var at = 0u; at < count; at++) {{
        let place = {place};
        let worth = {worth};
        if (at == 0u || worth > best) {{ best = worth; best_place = place; }}
    }}
    store(g, i32(best_place));\n",
        start = search.start
    );
    vec![writer.linear(context.program.shape(kernel.outputs[0]).elements(), &body)]
}

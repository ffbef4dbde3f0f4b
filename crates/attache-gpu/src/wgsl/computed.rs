//! Generates WGSL of elements that a kernel computes where it would otherwise load them: those of maps, and of
//! concatenations of what maps compute.

use attache_gpu_ir::{Primitive, Scalar, ValueId};

use super::epilogue::{element, finish, mapped};
use crate::kernel::{Kernel, StorageFormat};
use crate::wgsl::accessor::Array;
use crate::wgsl::expression::vector;
use crate::wgsl::{Context, Writer, keeps_vectors};

/// Binds a value for reading like [`Writer::read`], where one of the kernel's maps may compute it, or the source of its
/// view.
pub(crate) fn elements(writer: &mut Writer<'_>, context: &Context<'_>, id: ValueId, vector_width: usize) -> Array {
    elements_of(writer, context, (context.maps, "map"), id, vector_width)
}

/// Like [`elements`], where these maps may compute the value. The names of their functions start with `name`.
pub(crate) fn elements_of(
    writer: &mut Writer<'_>,
    context: &Context<'_>,
    (maps, name): (&[Kernel], &str),
    id: ValueId,
    vector_width: usize,
) -> Array {
    let view = context.views.iter().find(|view| view.value == id);
    let source = view.map_or(id, |view| view.source);
    let Some(index) = maps.iter().position(|map| map.outputs[0] == source) else {
        return writer.read(id, vector_width);
    };
    let shape = context.program.shape(source);
    let width = view.map_or(vector_width, |view| if keeps_vectors(&view.map, shape) { vector_width } else { 1 });
    let array = computed(writer, context, &maps[index], (&format!("{name}{index}"), width));
    match view {
        Some(view) => writer.through(array, (&view.map, shape), [width, vector_width]),
        None => array,
    }
}

/// Adds the WGSL function `name_(g)`, which computes unit `g` of `vector_width` elements of what a map or a concatenation
/// makes. Returns the output of that kernel, which is read through the function.
pub(crate) fn computed(
    writer: &mut Writer<'_>,
    context: &Context<'_>,
    kernel: &Kernel,
    (name, vector_width): (&str, usize),
) -> Array {
    let scalar = context.program.value(kernel.outputs[0]).scalar;
    let function = format!("{name}_");
    let body = match kernel.primitive {
        Primitive::Concatenate { axis } => concatenated(writer, context, (kernel, axis), (&function, vector_width)),
        _ => {
            let [variables, value] = mapped(writer, context, (kernel, &function), vector_width);
            format!("{variables}    return {value};\n")
        }
    };
    let loaded = vector(element(scalar), vector_width);
    writer.function(&format!("fn {function}(g: u32) -> {loaded} {{\n{body}}}\n"));
    let storage = if scalar == Scalar::F32 { StorageFormat::F32 } else { StorageFormat::I32 };
    Array::new(name.to_owned(), storage, vector_width).fetched(function, vector_width)
}

/// Returns WGSL that returns unit `g` of a concatenation of floats: it finds the input that the unit comes from.
fn concatenated(
    writer: &mut Writer<'_>,
    context: &Context<'_>,
    (kernel, axis): (&Kernel, usize),
    (name, vector_width): (&str, usize),
) -> String {
    let run = |id: &ValueId| context.program.shape(*id)[axis..].iter().product::<usize>();
    let width = if kernel.inputs.iter().all(|id| run(id).is_multiple_of(vector_width)) { vector_width } else { 1 };
    let arrays: Vec<Array> =
        kernel.inputs.iter().map(|id| elements_of(writer, context, (&kernel.maps, name), *id, width)).collect();
    finish(writer, context, kernel, (&format!("{name}finish"), vector_width));
    let total = writer.param(kernel.inputs.iter().map(run).sum::<usize>() / width);
    let loaded = vector("f32", width);
    let mut part = format!(
        "fn {name}part(unit: u32) -> {loaded} {{\n    let run = unit / {total};\n    var at = unit % {total};\n"
    );
    for (index, (array, id)) in arrays.iter().zip(&kernel.inputs).enumerate() {
        let length = writer.param(run(id) / width);
        let value = array.floats(&format!("run * {length} + at"));
        part += &match index + 1 == arrays.len() {
            true => format!("    return {value};\n}}\n"),
            false => format!("    if (at < {length}) {{ return {value}; }}\n    at -= {length};\n"),
        };
    }
    writer.function(&part);
    let value = if width == vector_width {
        format!("{name}part(g)")
    } else {
        let units: Vec<String> =
            (0..vector_width).map(|unit| format!("{name}part({vector_width}u * g + {unit}u)")).collect();
        format!("{}({})", vector("f32", vector_width), units.join(", "))
    };
    format!("    return {name}finish(g, {value});\n")
}

//! Variant `window`: pooling, which reduces the elements under a sliding window, with one invocation per
//! vector of results.

use attache_gpu_ir::{Primitive, WindowKind};

use crate::kernel::{Kernel, vector_width};
use crate::variants::{Computes, Variant};
use crate::wgsl::epilogue::store;
use crate::wgsl::expression::vector;
use crate::wgsl::{Context, Shader, Writer, coordinates};

pub(in crate::variants) const VARIANT: Variant = Variant {
    name: "window",
    computes: Computes::Nothing,
    applies: |_, kernel| matches!(kernel.primitive, Primitive::Window(_)),
    priority: |_, _| 1,
    write,
};

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let Primitive::Window(window) = &kernel.primitive else { unreachable!("applies") };
    let shape = context.program.shape(kernel.inputs[0]);
    let vector_width = if shape[3].is_multiple_of(4) { vector_width(context.program, kernel) } else { 1 };
    let (float, integer) = (vector("f32", vector_width), vector("i32", vector_width));
    let mut writer = Writer::new(VARIANT.name, context);
    let array = writer.read(kernel.inputs[0], vector_width);
    store(&mut writer, context, kernel, vector_width);
    let (fold, start, result) = match window.kind {
        WindowKind::Average => ("folded = folded + value; count += 1.0;", "0.0".to_owned(), "folded / count"),
        WindowKind::Maximum => ("folded = max(folded, value);", writer.float_param(f32::NEG_INFINITY), "folded"),
        WindowKind::ArgMaximum => (
            "let larger = value > folded; folded = select(folded, value, larger); best_at = select(best_at, INDEX, larger);",
            writer.float_param(f32::NEG_INFINITY),
            "folded",
        ),
    };
    let [rows, columns] = window.size.map(|extent| writer.param(extent));
    let index = format!("{integer}(i32(j * {rows} + i))");
    let fold = fold.replace("INDEX", &index);
    let output = [shape[0], window.output[0], window.output[1], shape[3] / vector_width];
    let extents = output.map(|extent| writer.param(extent));
    let [height, width] = [writer.param(shape[1]), writer.param(shape[2])];
    let strides = window.strides.map(|stride| writer.param(stride));
    let before = window.before.map(|before| writer.param(before));
    let at = format!("((o0 * i32({height}) + y) * i32({width}) + x) * i32({}) + o3", extents[3]);
    let mut body = coordinates(&extents);
    body += &format!(
        "    var folded = {float}({start});
    var count = 0.0;
    var best_at = {integer}(0);
    let top = o1 * i32({sy}) - i32({by});
    let left = o2 * i32({sx}) - i32({bx});
    for (var j = 0u; j < {columns}; j++) {{
        for (var i = 0u; i < {rows}; i++) {{
            let y = top + i32(i);
            let x = left + i32(j);
            if (y < 0 || x < 0 || y >= i32({height}) || x >= i32({width})) {{ continue; }}
            let value = {value};
            {fold}
        }}
    }}
    store(g, {result});\n",
        sy = strides[0],
        sx = strides[1],
        by = before[0],
        bx = before[1],
        value = array.floats(&at),
    );
    if let Some(indices) = kernel.outputs.get(1) {
        let indices = writer.write(*indices, vector_width);
        body += &format!("    {}\n", indices.write("g", "best_at"));
    }
    vec![writer.linear(output.iter().product(), &body)]
}

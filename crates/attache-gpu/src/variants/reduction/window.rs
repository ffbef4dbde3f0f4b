//! Pooling: reduces the elements under a sliding window, with one invocation per vector of results.

use attache_gpu_ir::{Primitive, WindowKind};

use crate::kernel::{Kernel, lanes};
use crate::variants::Variant;
use crate::wgsl::epilogue::store;
use crate::wgsl::expression::vector;
use crate::wgsl::{Context, Shader, Writer, coordinates};

pub(in crate::variants) const VARIANT: Variant = Variant {
    name: "window",
    takes_prologues: false,
    applies: |_, kernel| matches!(kernel.primitive, Primitive::Window(_)),
    cost: |_, _| 1,
    write,
};

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let Primitive::Window(window) = &kernel.primitive else { unreachable!("applies") };
    let shape = context.program.shape(kernel.inputs[0]);
    let lanes = if shape[3].is_multiple_of(4) { lanes(context.program, kernel) } else { 1 };
    let (real, whole) = (vector("f32", lanes), vector("i32", lanes));
    let mut writer = Writer::new(VARIANT.name, context);
    let array = writer.read(kernel.inputs[0], lanes);
    store(&mut writer, context, kernel, lanes);
    let (fold, start, result) = match window.kind {
        WindowKind::Average => ("folded = folded + value; count += 1.0;", "0.0".to_owned(), "folded / count"),
        WindowKind::Maximum => ("folded = max(folded, value);", writer.float_param(f32::NEG_INFINITY), "folded"),
        WindowKind::ArgMaximum => (
            "let larger = value > folded; folded = select(folded, value, larger); place = select(place, PLACE, larger);",
            writer.float_param(f32::NEG_INFINITY),
            "folded",
        ),
    };
    let [rows, columns] = window.size.map(|extent| writer.param(extent));
    let place = format!("{whole}(i32(j * {rows} + i))");
    let fold = fold.replace("PLACE", &place);
    let output = [shape[0], window.output[0], window.output[1], shape[3] / lanes];
    let extents = output.map(|extent| writer.param(extent));
    let [height, width] = [writer.param(shape[1]), writer.param(shape[2])];
    let strides = window.strides.map(|stride| writer.param(stride));
    let before = window.before.map(|before| writer.param(before));
    let at = format!("((o0 * i32({height}) + y) * i32({width}) + x) * i32({}) + o3", extents[3]);
    let mut body = coordinates(&extents);
    body += &format!(
        "    var folded = {real}({start});
    var count = 0.0;
    var place = {whole}(0);
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
        value = array.reals(&at),
    );
    if let Some(places) = kernel.outputs.get(1) {
        let places = writer.write(*places, lanes);
        body += &format!("    {}\n", places.write("g", "place"));
    }
    vec![writer.linear(output.iter().product(), &body)]
}

//! Variant `resample`: resamples the two middle axes (height and width), bilinearly or to the nearest
//! element. The coordinates are computed as in TensorFlow Lite's resize kernels.

use attache_gpu_ir::{Primitive, Sampling};

use crate::kernel::{Kernel, vector_width};
use crate::variants::{Computes, Variant};
use crate::wgsl::epilogue::store;
use crate::wgsl::expression::vector;
use crate::wgsl::{Context, Shader, Writer, coordinates};

pub(in crate::variants) const VARIANT: Variant = Variant {
    name: "resample",
    computes: Computes::Nothing,
    applies: |_, kernel| matches!(kernel.primitive, Primitive::Resample(_)),
    priority: |_, _| 1,
    write,
};

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let Primitive::Resample(resample) = &kernel.primitive else { unreachable!("applies") };
    let shape = context.program.shape(kernel.inputs[0]);
    let vector_width = if shape[3].is_multiple_of(4) { vector_width(context.program, kernel) } else { 1 };
    let float = vector("f32", vector_width);
    let mut writer = Writer::new(VARIANT.name, context);
    let array = writer.read(kernel.inputs[0], vector_width);
    store(&mut writer, context, kernel, vector_width);
    let output = [shape[0], resample.output[0], resample.output[1], shape[3] / vector_width];
    let extents = output.map(|extent| writer.param(extent));
    let [height, width] = [writer.param(shape[1]), writer.param(shape[2])];
    let [sy, sx] = resample.scales([shape[1], shape[2]]).map(|scale| writer.float_param(scale));
    let half = if resample.half_pixel_centers { "0.5" } else { "0.0" };
    let value = array.floats(&format!("((b * i32({height}) + y) * i32({width}) + x) * i32({}) + c", extents[3]));
    writer.function(&format!(
        "fn element(b: i32, y: i32, x: i32, c: i32) -> {float} {{
    return {value};
}}\n"
    ));
    let mut body = coordinates(&extents);
    body += &match resample.sampling {
        Sampling::Nearest => {
            // Not floor(p + 0.5), because the sum would round 0.49999997 up.
            let round =
                if resample.align_corners { "floor(p) + select(0.0, 1.0, p - floor(p) >= 0.5)" } else { "floor(p)" };
            writer.function(&format!(
                "fn nearest(o: i32, scale: f32, extent: i32) -> i32 {{
    let p = (f32(o) + {half}) * scale;
    return clamp(i32({round}), 0, extent - 1);
}}\n"
            ));
            format!(
                "    let y = nearest(o1, {sy}, i32({height}));
    let x = nearest(o2, {sx}, i32({width}));
    store(g, element(o0, y, x, o3));\n"
            )
        }
        Sampling::Bilinear => {
            // Without half-pixel centers the literal is 0, and adding and subtracting it changes nothing.
            format!(
                "    let py = (f32(o1) + {half}) * {sy} - {half};
    let px = (f32(o2) + {half}) * {sx} - {half};
    let y0 = clamp(i32(floor(py)), 0, i32({height}) - 1);
    let x0 = clamp(i32(floor(px)), 0, i32({width}) - 1);
    let y1 = clamp(i32(ceil(py)), 0, i32({height}) - 1);
    let x1 = clamp(i32(ceil(px)), 0, i32({width}) - 1);
    let fy = py - f32(y0);
    let fx = px - f32(x0);
    let top = element(o0, y0, x0, o3) * (1.0 - fx) + element(o0, y0, x1, o3) * fx;
    let bottom = element(o0, y1, x0, o3) * (1.0 - fx) + element(o0, y1, x1, o3) * fx;
    store(g, top * (1.0 - fy) + bottom * fy);\n"
            )
        }
    };
    vec![writer.linear(output.iter().product(), &body)]
}

//! Variant `conv_dense`: convolution of floats with one group and a constant filter, without staging in
//! work-group memory. The filter is packed such that adjacent invocations read adjacent vec4s.

use std::fmt::Write;
use std::sync::Arc;

use attache_gpu_ir::{Primitive, Scalar, Source, ValueId};

use super::tiling::{Loops, Tiling, fits};
use crate::kernel::Kernel;
use crate::variants::{Computes, Variant};
use crate::wgsl::expression::vector;
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant =
    Variant { name: "conv_dense", computes: Computes::Nothing, applies, priority: |_, _| 3, write };

fn applies(context: &Context<'_>, kernel: &Kernel) -> bool {
    let Primitive::Convolution(convolution) = &kernel.primitive else { return false };
    if context.program.value(kernel.inputs[0]).scalar == Scalar::I32 {
        return false;
    }
    let constant = |id: &ValueId| matches!(context.program.value(*id).source, Source::Constant(_));
    let filter = context.program.shape(kernel.inputs[1]);
    let fits = fits(context, kernel, filter[1..].iter().product());
    convolution.groups == 1 && kernel.inputs[1..].iter().all(constant) && fits
}

/// Packs the bias, then the filter, with output channels innermost and padded to a multiple of 4:
/// `[1 + height × width × channels][outputs]`.
pub(super) fn pack(context: &Context<'_>, kernel: &Kernel) -> Arc<[f32]> {
    let shape = context.program.shape(kernel.inputs[1]);
    let (outputs, depth) = (shape[0], shape[1..].iter().product::<usize>());
    let padded = outputs.next_multiple_of(4);
    let filter = context.floats(kernel.inputs[1]);
    let mut packed = vec![0.0; (1 + depth) * padded];
    if let Some(bias) = kernel.inputs.get(2) {
        packed[..outputs].copy_from_slice(&context.floats(*bias));
    }
    for (output, row) in filter.chunks_exact(depth.max(1)).enumerate() {
        for (index, weight) in row.iter().enumerate() {
            packed[(1 + index) * padded + output] = *weight;
        }
    }
    packed.into()
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let channels = context.program.shape(kernel.inputs[0])[3];
    let deep = if channels.is_multiple_of(4) { 4 } else { 1 };
    let depth = channels / deep;
    let tiling = Tiling::new(context, kernel, depth);
    let mut writer = Writer::new(VARIANT.name, context);
    let input = writer.read(kernel.inputs[0], deep);
    let weights = writer.packed(pack(context, kernel), 4);
    tiling.prepare(&mut writer, context, kernel);
    let loaded = vector("f32", deep);
    let units = writer.param(depth);
    let mut step = String::new();
    for p in 0..tiling.each {
        let value = input.floats(&format!("from{p} * {units} + c"));
        let _ = writeln!(step, "            let v{p} = select({loaded}(0.0), {value}, {});", tiling.inside(p));
    }
    for k in 0..deep {
        let weight = weights.floats(&format!("tap + (c * {deep}u + {k}u) * WIDE"));
        let _ = writeln!(step, "            let w{k} = {weight};");
        for p in 0..tiling.each {
            let part = if deep == 4 { format!("v{p}.{}", ["x", "y", "z", "w"][k]) } else { format!("v{p}") };
            let _ = writeln!(step, "            sum{p} = fma(vec4<f32>({part}), w{k}, sum{p});");
        }
    }
    let (before, after, bias) = (String::new(), String::new(), weights.floats("vector"));
    let loops = Loops { element: "f32", rows: deep, depth, skips_padding: true, before, step, after, bias };
    vec![tiling.shader(writer, context, kernel, &loops)]
}

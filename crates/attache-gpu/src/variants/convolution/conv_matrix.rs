//! Variant `conv_matrix`: convolution with one group and a constant filter on cooperative matrices. A
//! subgroup multiplies 16 pixels × 16 channels of the data by 16 channels × 16 outputs of the weights, in f16
//! with f32 accumulators.
//!
//! A work group copies a tile of the image, with the margin that the window needs, to work-group memory once
//! for several channels and reads every tap from there. The rows of a data matrix are the input pixels that
//! 16 adjacent output pixels read for one tap. A data matrix is used for every output row whose window covers
//! its image row. The pixels of a pointwise convolution are treated as an image 16 pixels wide. If its data are rows that
//! something is multiplied by, the work group multiplies the results by that instead. It may have results of two filters, of
//! which it stores one, combined with the other: those of a gated layer.

mod left;
mod problem;
mod text;

use attache_gpu_ir::{Primitive, Source, ValueId};

use self::problem::{EIGHT, Problem};
use self::text::Text;
use crate::kernel::{Kernel, Matrices, ScaledRows, StorageFormat, scales_rows};
use crate::variants::{Computes, Variant};
use crate::wgsl::cooperative_matrix::SIDE;
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant =
    Variant { name: "conv_matrix", computes: Computes::Rows, applies, priority, write };

/// Maximum number of rows of a window. Each row adds weight matrices that an invocation keeps in registers.
const MAX_ROWS: usize = 5;

fn applies(context: &Context<'_>, kernel: &Kernel) -> bool {
    let Primitive::Convolution(convolution) = &kernel.primitive else { return false };
    let [data, filter, output] =
        [kernel.inputs[0], kernel.inputs[1], kernel.outputs[0]].map(|id| context.program.shape(id));
    let constant = |id: &ValueId| matches!(context.program.value(*id).source, Source::Constant(_));
    let is_view = context.views.iter().any(|view| view.value == kernel.inputs[0]);
    let is_half = kernel.prologue.is_some() || context.storages.of(kernel.inputs[0]) == StorageFormat::Half;
    let scales = |first: &Kernel| scales_rows(context.program, kernel, first, context.limits);
    context.limits.matrices != Matrices::Absent
        && is_half
        && context.storages.packed() == StorageFormat::Half
        && kernel.prologue.as_deref().is_none_or(scales)
        && !is_view
        && convolution.groups == 1
        && !convolution.transposed
        && kernel.inputs[1..].iter().all(constant)
        && data[3].is_multiple_of(EIGHT)
        && filter[0] >= SIDE / 2
        && filter[1] <= MAX_ROWS
        && data.elements() > 0
        && filter.elements() > 0
        && output.elements() > 0
        && Problem::new(context, kernel).is_some()
}

/// Returns 0, or 10 where other variants are better: for a strided convolution with one tap, a tile would
/// stage pixels that no output reads; with fewer than 8 output pixels, most rows of a matrix are empty.
fn priority(context: &Context<'_>, kernel: &Kernel) -> u32 {
    let Primitive::Convolution(convolution) = &kernel.primitive else { unreachable!("applies") };
    let filter = context.program.shape(kernel.inputs[1]);
    let positions: usize = context.program.shape(kernel.outputs[0])[..3].iter().product();
    let skips = filter[1..3] == [1, 1] && convolution.strides != [1, 1];
    if skips || positions < SIDE / 2 { 10 } else { 0 }
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let problem = Problem::new(context, kernel).expect("applies");
    let mut writer = Writer::new(VARIANT.name, context);
    writer.use_matrices(context.limits.matrices);
    let text = Text::new(&mut writer, context, kernel, &problem);
    let body = text.body(&mut writer, context, kernel);
    let (invocations, groups) = (problem.tiling.invocations() as u32, problem.groups().map(|count| count as u32));
    vec![writer.finish([invocations, 1, 1], groups, &text.declarations(), &body)]
}

/// Packs the bias, then the filter as 16×16 matrices, both padded with zeros to `outputs` output channels and
/// `depth` matrices of 16 input channels. The layout of the filter is
/// `[outputs / 16][height × width][depth][16 channels][16 outputs]`.
pub(super) fn pack(context: &Context<'_>, kernel: &Kernel, [outputs, depth]: [usize; 2]) -> Vec<f32> {
    let taps = context.program.shape(kernel.inputs[1])[1..3].iter().product::<usize>();
    let mut packed = vec![0.0; outputs * (1 + taps * depth * SIDE)];
    pack_into(&mut packed, context, kernel, ([outputs, depth], &|output| output));
    packed
}

/// Packs bias and filter as [`pack`] does. `place` returns the number of an output channel among those that are packed.
fn pack_into(
    packed: &mut [f32],
    context: &Context<'_>,
    kernel: &Kernel,
    ([outputs, depth], place): ([usize; 2], &dyn Fn(usize) -> usize),
) {
    let shape = context.program.shape(kernel.inputs[1]);
    let (taps, channels) = (shape[1] * shape[2], shape[3]);
    if let Some(bias) = kernel.inputs.get(2) {
        context.floats(*bias).iter().enumerate().for_each(|(output, bias)| packed[place(output)] = *bias);
    }
    let filter = &mut packed[outputs..];
    let factors = weight_factors(context, kernel, channels);
    for (row, weights) in context.floats(kernel.inputs[1]).chunks_exact(channels.max(1)).enumerate() {
        let (output, tap) = (place(row / taps), row % taps);
        let start = (output / SIDE * taps + tap) * depth;
        for (channel, weight) in weights.iter().enumerate() {
            let matrix = (start + channel / SIDE) * SIDE * SIDE;
            filter[matrix + channel % SIDE * SIDE + output % SIDE] = *weight * factors[channel];
        }
    }
}

/// Returns what the weights of each input channel are multiplied by.
fn weight_factors(context: &Context<'_>, kernel: &Kernel, channels: usize) -> Vec<f32> {
    let first = kernel.prologue.as_deref();
    let scaled = first.and_then(|first| Some((ScaledRows::of(context.program, first)?, first)));
    scaled.map_or_else(|| vec![1.0; channels], |(scaled, first)| scaled.factors(context.program, first, channels))
}

#[cfg(test)]
pub(super) mod tests {
    use attache_base::{Constant, Shape};
    use attache_gpu_ir::{ConvolutionGeometry, Expression, Program, Scalar, UnaryOp};
    use wgpu::naga::{back::spv, front, valid};

    use super::*;
    use crate::kernel::{DeviceLimits, Precision};
    use crate::plan::PlanReport;

    /// Plans a program for a device with cooperative matrices, has naga validate its last shader and
    /// translate it to SPIR-V, and returns the shader. It is not run, because few devices have cooperative
    /// matrices.
    pub(in super::super) fn last_shader(program: Program) -> Shader {
        let limits = DeviceLimits {
            max_invocations: 1024,
            work_group_bytes: 49152,
            shader_f16: true,
            matrices: Matrices::Cooperative,
            ..DeviceLimits::default()
        };
        let plan = PlanReport::new(program, Precision::F16, &limits, false).unwrap();
        let shader = plan.dispatches.last().unwrap().shader.clone();
        let module = front::wgsl::parse_str(&shader.source).map_err(|e| e.emit_to_string(&shader.source));
        let module = module.unwrap_or_else(|error| panic!("{error}"));
        let mut validator = valid::Validator::new(valid::ValidationFlags::all(), valid::Capabilities::all());
        let info = validator.validate(&module).map_err(|error| error.emit_to_string(&shader.source));
        let info = info.unwrap_or_else(|error| panic!("{error}"));
        let options = spv::Options { lang_version: (1, 6), ..spv::Options::default() };
        spv::write_vec(&module, &info, &options, None).unwrap();
        shader
    }

    /// Returns a program with a convolution whose data another kernel computes, so that the data is stored as
    /// f16. `image` is `[batch, height, width, channels]`, `filter` is `[outputs, height, width]`.
    fn program(image: [usize; 4], filter: [usize; 3], stride: usize) -> Program {
        let mut program = Program::default();
        let input = program.input(Scalar::F32, image.into());
        let (expression, shape) = (Expression::Input(0).unary(UnaryOp::Tanh), Shape::from(image));
        let data = program.step(Primitive::Map { expression, shape, scalar: Scalar::F32 }, &[input], 0).unwrap()[0];
        let shape = Shape::from([filter[0], filter[1], filter[2], image[3]]);
        let weights = vec![0.5f32; shape.elements()];
        let weights = program.constant(Scalar::F32, Constant::from_values(shape, &weights));
        let convolution = ConvolutionGeometry {
            strides: [stride; 2],
            dilations: [1; 2],
            before: [filter[1] / 2, filter[2] / 2],
            output: [image[1].div_ceil(stride), image[2].div_ceil(stride)],
            groups: 1,
            transposed: false,
            zero_points: [0; 2],
        };
        program.outputs = program.step(Primitive::Convolution(convolution), &[data, weights], 1).unwrap();
        program
    }

    #[test]
    fn shaders_are_valid() {
        for (image, filter, stride, groups) in [
            ([1, 540, 960, 32], [32, 3, 3], 1, [60, 135, 1]),
            ([1, 540, 960, 32], [12, 3, 3], 1, [60, 135, 1]),
            ([1, 96, 96, 128], [128, 3, 3], 1, [6, 24, 4]),
            ([1, 56, 56, 64], [64, 3, 3], 1, [4, 14, 2]),
            ([2, 7, 7, 512], [512, 3, 3], 2, [1, 4, 32]),
            ([1, 56, 56, 64], [256, 1, 1], 1, [1, 98, 8]),
            ([1, 14, 14, 1024], [256, 1, 1], 1, [1, 13, 8]),
            ([1, 7, 7, 2048], [512, 1, 1], 1, [1, 4, 32]),
            ([3, 9, 9, 24], [10, 1, 5], 1, [1, 15, 1]),
            ([1, 24, 24, 32], [16, 5, 5], 1, [2, 12, 1]),
        ] {
            let shader = last_shader(program(image, filter, stride));
            assert_eq!((shader.variant, shader.groups), (VARIANT.name, groups), "{image:?} {filter:?}");
        }
    }
}

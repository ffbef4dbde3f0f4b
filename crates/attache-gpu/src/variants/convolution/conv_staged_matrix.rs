//! Variant `conv_staged_matrix`: convolution with one tap (a 1×1 window) and a constant filter on cooperative
//! matrices, in f16 with f32 accumulators. All input channels of a block's output pixels are staged in
//! work-group memory. Meant for convolutions with a depthwise prologue, which is computed while the data is
//! loaded, and for strided ones.
//!
//! A subgroup multiplies the staged input channels of its split-K part by the weights of 16 output channels,
//! for every output pixel of the work group. Its weights are loaded before the data is staged, so that the
//! two loads overlap.

use attache_gpu_ir::Primitive;

use super::conv_matrix::pack;
use super::input_loader::InputLoader;
use super::staged::{Staging, out_vector_width, stage, store};
use super::tiling::put;
use super::{conv_blocked, conv_depthwise};
use crate::kernel::{DeviceLimits, Kernel, MAX_GROUPS, Matrices, StorageFormat};
use crate::variants::{Computes, Variant};
use crate::wgsl::accessor::Array;
use crate::wgsl::cooperative_matrix::{Products, Rows, SIDE, SUBGROUP};
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant =
    Variant { name: "conv_staged_matrix", computes: Computes::Pixels, applies, priority, write };

/// Maximum number of weight matrices that a subgroup keeps in registers. Each takes four registers of every
/// invocation.
const MAX_STEPS: usize = 16;

/// Maximum number of subgroups along the output channels.
const MAX_WIDE: usize = 8;

/// Maximum split-K factor: the number of subgroups that share the K sum of a result.
const MAX_SPLIT: usize = 16;

/// Choices for the number of output pixels of a work group. If there are fewer than a matrix has rows, the
/// remaining rows hold arbitrary values and their sums are ignored.
const ROWS: [usize; 4] = [4, 8, 16, 32];

/// Number of weight matrices of the whole filter up to which other variants are as fast.
const FEW_PRODUCTS: usize = 4;

/// Maximum number of invocations of a work group.
const MAX_INVOCATIONS: usize = 512;

/// Number of compute units of a large device, for the estimate of the running time.
const UNITS: usize = 128;
/// Number of invocations that fit one compute unit at the same time, over all its work groups. Each
/// invocation takes about a hundred registers.
const UNIT_INVOCATIONS: usize = 512;
/// Bytes of work-group memory of one compute unit.
const UNIT_BYTES: usize = 49152;

fn applies(context: &Context<'_>, kernel: &Kernel) -> bool {
    let Primitive::Convolution(convolution) = &kernel.primitive else { return false };
    let behind = |first: &Kernel| matches!(first.primitive, Primitive::Convolution(_));
    let filter = context.program.shape(kernel.inputs[1]);
    // The data is staged as f16 only if it would also be stored as f16, so staging loses no digits.
    let halves = [context.storages.of(kernel.inputs[0]), context.storages.packed()] == [StorageFormat::Half; 2];
    context.limits.matrices != Matrices::Absent
        && halves
        && conv_blocked::applies(context, kernel)
        && !convolution.transposed
        && filter[1..3] == [1, 1]
        && kernel.prologue.as_deref().is_none_or(behind)
        && filter[0] >= SIDE / 2
        && filter[3] >= SIDE / 2
        && Problem::of(context, kernel).positions >= SIDE / 2
        && Tiling::of(context, kernel).is_some()
}

/// Returns 0, or 20 for convolutions that other variants compute as fast: those with few weight matrices, and
/// pointwise ones without a prologue, for which `conv_matrix` is used and was measured against the other
/// variants.
fn priority(context: &Context<'_>, kernel: &Kernel) -> u32 {
    let Primitive::Convolution(convolution) = &kernel.primitive else { unreachable!("applies") };
    let [data, filter] = [0, 1].map(|input| context.program.shape(kernel.inputs[input]));
    let is_plain = kernel.prologue.is_none() && convolution.is_pointwise(data, filter);
    let problem = Problem::of(context, kernel);
    if is_plain || problem.depth() * problem.outputs <= FEW_PRODUCTS { 20 } else { 0 }
}

/// The sizes of a convolution that determine its running time.
#[derive(Clone, Copy, Debug)]
struct Problem {
    /// M: output pixels.
    positions: usize,
    /// N: output channels, in matrices of 16.
    outputs: usize,
    /// K: input channels, in vec4s.
    vec4s: usize,
    /// Number of loads per vec4 of input channels: the number of taps of a prologue, else 1.
    taps: usize,
}

/// Estimated time of starting and ending a work group, in nanoseconds. This constant and the following four
/// are for an H200, fitted to the times of about fifty dispatches.
const BEGIN: usize = 1000;
/// Estimated time for which an invocation loads one vec4, in nanoseconds.
const READ: usize = 54;
/// Estimated time for which a subgroup loads and multiplies the matrices of one step, in nanoseconds.
const STEP: usize = 100;
/// Estimated time for which a compute unit multiplies one pair of matrices, in nanoseconds.
const PRODUCT: usize = 6;
/// Estimated time for which a compute unit stores and adds one matrix of sums, in nanoseconds.
const SUM: usize = 36;

impl Problem {
    fn of(context: &Context<'_>, kernel: &Kernel) -> Self {
        let shape = |id| context.program.shape(id);
        let (filter, output) = (shape(kernel.inputs[1]), shape(kernel.outputs[0]));
        let taps = kernel.prologue.as_ref().map_or(1, |first| shape(first.inputs[1])[1..3].iter().product());
        let positions = output[..3].iter().product();
        Self { positions, outputs: filter[0].div_ceil(SIDE), vec4s: filter[3].div_ceil(4), taps }
    }

    /// Returns K in matrices of 16 input channels.
    fn depth(&self) -> usize {
        self.vec4s.div_ceil(SIDE / 4)
    }

    /// Estimates the time of a tiling on a large device, in nanoseconds. Each compute unit runs as many work
    /// groups at once as fit, one batch after the other, but multiplies for only one of them at a time.
    fn time(&self, tiling: &Tiling) -> usize {
        let Tiling { rows, wide, split, depth } = *tiling;
        let reads = (rows * self.vec4s).div_ceil(tiling.invocations()) * (self.taps + 1);
        let matrices = wide * tiling.tall() * (depth * PRODUCT + split * SUM);
        let groups = self.positions.div_ceil(rows) * self.outputs.div_ceil(wide);
        let together = (UNIT_INVOCATIONS / tiling.invocations()).min(UNIT_BYTES / tiling.bytes()).max(1);
        let turn = BEGIN + reads * READ + tiling.steps() * STEP;
        groups.div_ceil(UNITS * together) * turn + groups.div_ceil(UNITS) * matrices
    }

    /// Returns the tiling with the lowest estimated time, within `bytes` bytes of work-group memory and
    /// `invocations` invocations; `None` if no tiling fits.
    fn tiling(&self, [bytes, invocations]: [usize; 2]) -> Option<Tiling> {
        let depth = self.depth();
        let widths = 1..=self.outputs.min(MAX_WIDE);
        let shapes = ROWS.into_iter().flat_map(|rows| widths.clone().map(move |wide| (rows, wide)));
        let tilings = shapes.flat_map(|(rows, wide)| {
            let split = 1..=MAX_SPLIT.min(depth);
            split.map(move |split| Tiling { rows, wide, split, depth: depth.next_multiple_of(split) })
        });
        let most = MAX_INVOCATIONS.min(invocations);
        let fits =
            |tiling: &Tiling| tiling.steps() <= MAX_STEPS && tiling.bytes() <= bytes && tiling.invocations() <= most;
        tilings.filter(fits).min_by_key(|tiling| self.time(tiling))
    }
}

/// How a block of results is distributed over the subgroups of a work group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tiling {
    /// Number of output pixels of the block.
    rows: usize,
    /// Number of subgroups along the output channels, each with 16 channels.
    wide: usize,
    /// The split-K factor: the number of subgroups that jointly compute one result, each over its part of K.
    split: usize,
    /// K in matrices of 16 input channels, padded to a multiple of the split-K factor.
    depth: usize,
}

impl Tiling {
    fn of(context: &Context<'_>, kernel: &Kernel) -> Option<Self> {
        let DeviceLimits { work_group_bytes, max_invocations, max_binding_bytes, .. } = *context.limits;
        let problem = Problem::of(context, kernel);
        let tiling = problem.tiling([work_group_bytes, max_invocations])?;
        let weights = tiling.padded_outputs(&problem).checked_mul(1 + tiling.depth * SIDE)?;
        let before = kernel.prologue.as_ref().map_or(0, |first| {
            let filter = context.program.shape(first.inputs[1]);
            (1 + filter[1] * filter[2]) * filter[0].next_multiple_of(4)
        });
        let fits = weights.checked_add(before)?.checked_mul(2)? <= max_binding_bytes;
        (fits && problem.outputs.div_ceil(tiling.wide) <= MAX_GROUPS).then_some(tiling)
    }

    fn invocations(&self) -> usize {
        SUBGROUP * self.wide * self.split
    }

    /// Returns the number of matrices of 16 output pixels, the last of which may be partly unused.
    fn tall(&self) -> usize {
        self.rows.div_ceil(SIDE)
    }

    /// Returns the number of vec4s of output channels of the block.
    fn columns(&self) -> usize {
        self.wide * SIDE / 4
    }

    /// Returns the number of matrices of 16 input channels that a subgroup multiplies.
    fn steps(&self) -> usize {
        self.depth / self.split
    }

    /// Returns the number of output channels, padded to whole blocks of a work group.
    fn padded_outputs(&self, problem: &Problem) -> usize {
        problem.outputs.next_multiple_of(self.wide) * SIDE
    }

    /// Returns the number of vec4s of f16 between the data of two adjacent output pixels in work-group
    /// memory: two more than the data takes, so that adjacent pixels are in different memory banks.
    fn stride(&self) -> usize {
        self.depth * SIDE / 4 + 2
    }

    /// Returns the number of vec4s of f16 of work-group memory for the data.
    fn staged(&self) -> usize {
        self.tall() * SIDE * self.stride()
    }

    /// Returns the number of vec4s between the sums of two adjacent output pixels in work-group memory: one
    /// more than the sums take.
    fn pitch(&self) -> usize {
        self.columns() + 1
    }

    /// Returns the number of vec4s of work-group memory for the sums of one split-K part.
    fn layer(&self) -> usize {
        self.tall() * SIDE * self.pitch()
    }

    /// Returns the number of bytes of work-group memory for data and sums.
    fn bytes(&self) -> usize {
        self.staged() * 8 + self.split * self.layer() * 16
    }

    fn products<'a>(&self, matrices: Matrices, weights: &'a Array) -> Products<'a> {
        let (data, sums) =
            (Rows { name: "memory", stride: self.stride() }, Rows { name: "sums", stride: self.pitch() });
        let (is_emulated, weights_stride) = (matrices == Matrices::Emulated, SIDE / 4);
        Products { is_emulated, data, weights, weights_stride, sums, transposed: [false; 2] }
    }

    fn staging(&self) -> Staging {
        Staging {
            rows: self.rows,
            depth: self.depth * SIDE / 4,
            stride: self.stride(),
            invocations: self.invocations(),
            halves: true,
        }
    }
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let (tiling, problem) = (Tiling::of(context, kernel).expect("applies"), Problem::of(context, kernel));
    let mut writer = Writer::new(VARIANT.name, context);
    writer.use_matrices(context.limits.matrices);
    let padded = tiling.padded_outputs(&problem);
    let mut packed = pack(context, kernel, [padded, tiling.depth]);
    let start = packed.len() / 4;
    if let Some(first) = &kernel.prologue {
        packed.extend_from_slice(&conv_depthwise::pack(context, first));
    }
    let weights = writer.packed(packed.into(), 4);
    let products = tiling.products(context.limits.matrices, &weights);
    writer.function(&products.functions());
    let loader = InputLoader::new(&mut writer, context, kernel, (&weights, start));
    store(&mut writer, context, kernel);
    let outputs = context.program.shape(kernel.inputs[1])[0];
    let [total, vec4s, outputs, depth, filter] =
        [problem.positions, outputs.div_ceil(4), outputs, tiling.depth * SIDE / 4, padded / 4]
            .map(|extent| writer.param(extent));
    let body = format!(
        "    let first = (group.y + group.z * {MAX_GROUPS}u) * {rows}u;
    let left = group.x * {columns}u;
    let subgroup = local.x / {SUBGROUP}u;
    let across = subgroup % {wide}u;
    let split_part = subgroup / {wide}u;
{load}{stage}    workgroupBarrier();
{multiply}    workgroupBarrier();
    for (var index = local.x; index < {results}u; index += {invocations}u) {{
        let vector = left + index % {columns}u;
        let at = first + index / {columns}u;
        if (at < {total} && vector < {vec4s}) {{
            let start = index / {columns}u * {pitch}u + index % {columns}u;
            let bias = {bias};
            {put}
        }}
    }}\n",
        rows = tiling.rows,
        columns = tiling.columns(),
        wide = tiling.wide,
        load = load(tiling, &products, &filter),
        stage = stage(tiling.staging(), &loader, &total, &depth),
        multiply = multiply(tiling, &products),
        results = tiling.rows * tiling.columns(),
        invocations = tiling.invocations(),
        pitch = tiling.pitch(),
        bias = weights.floats("vector"),
        put = put(out_vector_width(context, kernel), "at", &sum(tiling), &vec4s, &outputs),
    );
    let declarations = format!(
        "var<workgroup> memory: array<vec4<f16>, {}>;\nvar<workgroup> sums: array<vec4<f32>, {}>;\n",
        tiling.staged(),
        tiling.split * tiling.layer()
    );
    let blocks = problem.positions.div_ceil(tiling.rows);
    let groups = [problem.outputs.div_ceil(tiling.wide), blocks.min(MAX_GROUPS), blocks.div_ceil(MAX_GROUPS)];
    let invocations = [tiling.invocations() as u32, 1, 1];
    vec![writer.finish(invocations, groups.map(|count| count as u32), &declarations, &body)]
}

/// Returns WGSL that loads a subgroup's weight matrices into registers. `filter` is WGSL of the vec4 at which
/// the packed filter starts.
fn load(tiling: Tiling, products: &Products<'_>, filter: &str) -> String {
    let Tiling { wide, split, depth, .. } = tiling;
    let load = |step| {
        let (part, matrix) = (step * split, SIDE * SIDE / 4);
        let at = format!("{filter} + ((group.x * {wide}u + across) * {depth}u + split_part + {part}u) * {matrix}u");
        products.load_weights(&format!("w{step}"), &at)
    };
    (0..tiling.steps()).map(load).collect()
}

/// Returns WGSL that multiplies the staged data by the loaded weights, and writes the sums to work-group
/// memory.
fn multiply(tiling: Tiling, products: &Products<'_>) -> String {
    let (stride, split) = (tiling.stride(), tiling.split);
    let mut text = String::new();
    for tall in 0..tiling.tall() {
        let sum = format!("sum{tall}");
        text += &products.zeros(&sum);
        for step in 0..tiling.steps() {
            let data = format!("d{tall}_{step}");
            let at = format!("{}u + (split_part + {}u) * {}u", tall * SIDE * stride, step * split, SIDE / 4);
            text += &products.load_data(&data, &at);
            text += &products.add(&sum, &data, &format!("w{step}"));
        }
        let start = tall * SIDE * tiling.pitch();
        let at = format!("split_part * {}u + {start}u + across * {}u", tiling.layer(), SIDE / 4);
        text += &products.store(&sum, &format!("into{tall}"), &at);
    }
    text
}

/// Returns the WGSL expression that adds the partial sums of all split-K parts at index `start`.
fn sum(tiling: Tiling) -> String {
    let parts = (0..tiling.split).map(|split_part| format!("sums[start + {}u]", split_part * tiling.layer()));
    format!("({})", parts.collect::<Vec<_>>().join(" + "))
}

#[cfg(test)]
mod tests {
    use attache_base::{Constant, Shape};
    use attache_gpu_ir::{ConvolutionGeometry, Expression, Program, Scalar, UnaryOp};

    use super::super::conv_matrix::tests::last_shader;
    use super::*;

    /// Returns a program with a pointwise convolution of this stride or, if `window` is given, with a
    /// depthwise convolution of that window size and this stride in front of a pointwise one.
    fn program(image: [usize; 4], outputs: usize, stride: usize, window: Option<usize>) -> Program {
        let mut program = Program::default();
        let output = [image[1], image[2]].map(|extent| extent.div_ceil(stride));
        let convolution = |size: usize, stride, groups| ConvolutionGeometry {
            strides: [stride; 2],
            dilations: [1; 2],
            before: [size / 2; 2],
            output,
            groups,
            transposed: false,
            zero_points: [0; 2],
        };
        let constant = |program: &mut Program, shape: Shape| {
            let values = vec![0.5f32; shape.elements()];
            program.constant(Scalar::F32, Constant::from_values(shape, &values))
        };
        let input = program.input(Scalar::F32, image.into());
        let (expression, shape) = (Expression::Input(0).unary(UnaryOp::Tanh), Shape::from(image));
        let map = Primitive::Map { expression, shape, scalar: Scalar::F32 };
        let mut data = program.step(map, &[input], 0).unwrap()[0];
        if let Some(size) = window {
            let weights = constant(&mut program, [image[3], size, size, 1].into());
            let depthwise = Primitive::Convolution(convolution(size, stride, image[3]));
            data = program.step(depthwise, &[data, weights], 1).unwrap()[0];
        }
        let weights = constant(&mut program, [outputs, 1, 1, image[3]].into());
        let stride = if window.is_some() { 1 } else { stride };
        program.outputs = program.step(Primitive::Convolution(convolution(1, stride, 1)), &[data, weights], 1).unwrap();
        program
    }

    #[test]
    fn shaders_are_valid() {
        for (image, outputs, stride, window, groups) in [
            ([1, 112, 112, 32], 64, 1, Some(3), [1, 392, 1]),
            ([1, 56, 56, 128], 128, 1, Some(3), [1, 196, 1]),
            ([1, 14, 14, 512], 512, 1, Some(3), [8, 13, 1]),
            ([1, 14, 14, 512], 1024, 2, Some(3), [16, 7, 1]),
            ([1, 7, 7, 1024], 1024, 1, Some(3), [32, 4, 1]),
            ([2, 9, 9, 99], 70, 1, Some(5), [5, 21, 1]),
            ([1, 56, 56, 256], 512, 2, None, [5, 25, 1]),
            ([1, 14, 14, 1024], 2048, 2, None, [64, 4, 1]),
        ] {
            let shader = last_shader(program(image, outputs, stride, window));
            assert_eq!((shader.variant, shader.groups), (VARIANT.name, groups), "{image:?} {outputs} {stride}");
        }
    }

    #[test]
    fn blocks_fit_the_device() {
        for (positions, outputs, vec4s) in
            (1..30).flat_map(|p| (1..30).map(move |o| (p * p * 17 - 9, o * o, (p * 31 + o * 7) % 400 + 1)))
        {
            for (bytes, invocations) in [(16384, 128), (32768, 256), (49152, 1024)] {
                let problem = Problem { positions, outputs, vec4s, taps: 9 };
                let Some(tiling) = problem.tiling([bytes, invocations]) else {
                    let split = problem.depth().div_ceil(MAX_STEPS);
                    let least = Tiling { rows: 4, wide: 1, split, depth: problem.depth().next_multiple_of(split) };
                    let is_large = least.bytes() > bytes || least.invocations() > invocations.min(MAX_INVOCATIONS);
                    assert!(
                        is_large || split > MAX_SPLIT,
                        "{problem:?} of {bytes} bytes and {invocations} invocations"
                    );
                    continue;
                };
                assert!(tiling.bytes() <= bytes && tiling.invocations() <= invocations, "{tiling:?}");
                assert!(tiling.steps() <= MAX_STEPS && tiling.steps() * tiling.split * SIDE >= vec4s * 4, "{tiling:?}");
            }
        }
        let none = Problem { positions: 196, outputs: 8, vec4s: 400, taps: 1 }.tiling([49152, 1024]);
        assert_eq!(none, None, "more than the memory holds");
    }
}

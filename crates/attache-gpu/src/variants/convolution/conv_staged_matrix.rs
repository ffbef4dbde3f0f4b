//! Pointwise convolution (one tap) with a constant filter on cooperative matrices, in f16 with f32 sums. All input
//! channels of the block's output pixels are staged in work-group memory. Meant for convolutions with a depthwise
//! prologue, which is computed while it is loaded, and for strided ones.
//!
//! A subgroup multiplies 16 output channels of every output pixel by its part of the staged channels. Its part of the
//! filter is loaded before the data is staged, so that the two loads overlap.

use attache_gpu_ir::Primitive;

use super::conv_matrix::pack;
use super::input_loader::InputLoader;
use super::staged::{Staging, out_vector_width, stage, store};
use super::tiling::put;
use super::{conv_blocked, conv_depthwise};
use crate::kernel::{DeviceLimits, Kernel, MAX_GROUPS, Matrices, StorageFormat};
use crate::variants::Variant;
use crate::wgsl::accessor::Array;
use crate::wgsl::cooperative_matrix::{Products, Rows, SIDE, SUBGROUP};
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant =
    Variant { name: "conv_staged_matrix", takes_prologues: true, applies, priority, write };

/// Maximum number of weight matrices that a subgroup keeps in registers, four registers of an invocation each.
const MAX_STEPS: usize = 16;

/// Maximum number of subgroups along the output channels.
const MAX_WIDE: usize = 8;

/// Maximum split-K factor, in subgroups.
const MAX_SPLIT: usize = 16;

/// Output pixels of a work group. If they are fewer than a matrix has rows, the remaining rows hold arbitrary values
/// and their sums are ignored.
const ROWS: [usize; 4] = [4, 8, 16, 32];

/// Number of weight matrices up to which other variants are as fast.
const FEW_PRODUCTS: usize = 4;

/// Maximum number of invocations of a work group.
const MAX_INVOCATIONS: usize = 512;

/// Compute units of a large device.
const UNITS: usize = 128;
/// Invocations of work groups that fit one compute unit at the same time. Each takes about a hundred registers.
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

/// Pointwise convolutions without a prologue are left to `conv_matrix`, which was measured against the other
/// variants for them. Convolutions with few products per output pixel do not need matrices.
fn priority(context: &Context<'_>, kernel: &Kernel) -> u32 {
    let Primitive::Convolution(convolution) = &kernel.primitive else { unreachable!("applies") };
    let [data, filter] = [0, 1].map(|input| context.program.shape(kernel.inputs[input]));
    let is_plain = kernel.prologue.is_none() && convolution.is_pointwise(data, filter);
    let problem = Problem::of(context, kernel);
    if is_plain || problem.depth() * problem.outputs <= FEW_PRODUCTS { 20 } else { 0 }
}

/// The size of the computation, as far as it determines the time.
#[derive(Clone, Copy, Debug)]
struct Problem {
    /// M: output pixels.
    positions: usize,
    /// N in matrices of 16 output channels.
    outputs: usize,
    /// K in vec4s of input channels.
    vec4s: usize,
    /// Loads for each of them: the taps of a prologue, else 1.
    taps: usize,
}

/// Start and end of a work group. This and the following four are nanoseconds on an H200, fitted to the times of about
/// fifty dispatches.
const BEGIN: usize = 1000;
/// An invocation loads one vector.
const READ: usize = 54;
/// A subgroup loads and multiplies the matrices of one step.
const STEP: usize = 100;
/// A compute unit multiplies one matrix.
const PRODUCT: usize = 6;
/// A compute unit stores and adds one matrix of sums.
const SUM: usize = 36;

impl Problem {
    fn of(context: &Context<'_>, kernel: &Kernel) -> Self {
        let shape = |id| context.program.shape(id);
        let (filter, output) = (shape(kernel.inputs[1]), shape(kernel.outputs[0]));
        let taps = kernel.prologue.as_ref().map_or(1, |first| shape(first.inputs[1])[1..3].iter().product());
        let positions = output[..3].iter().product();
        Self { positions, outputs: filter[0].div_ceil(SIDE), vec4s: filter[3].div_ceil(4), taps }
    }

    /// K in matrices of 16 input channels.
    fn depth(&self) -> usize {
        self.vec4s.div_ceil(SIDE / 4)
    }

    /// Estimated time of a tiling on a large device. Each compute unit runs as many work groups at once as fit,
    /// one batch after the other, but multiplies for only one of them at a time.
    fn time(&self, tiling: &Tiling) -> usize {
        let Tiling { rows, wide, split, depth } = *tiling;
        let reads = (rows * self.vec4s).div_ceil(tiling.invocations()) * (self.taps + 1);
        let matrices = wide * tiling.tall() * (depth * PRODUCT + split * SUM);
        let groups = self.positions.div_ceil(rows) * self.outputs.div_ceil(wide);
        let together = (UNIT_INVOCATIONS / tiling.invocations()).min(UNIT_BYTES / tiling.bytes()).max(1);
        let turn = BEGIN + reads * READ + tiling.steps() * STEP;
        groups.div_ceil(UNITS * together) * turn + groups.div_ceil(UNITS) * matrices
    }

    /// The fastest tiling by this estimate, within `bytes` bytes of work-group memory and `invocations` invocations.
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

/// How the work is distributed over a work group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tiling {
    /// Output pixels.
    rows: usize,
    /// Subgroups along the output channels, each with 16 of them.
    wide: usize,
    /// The split-K factor: subgroups that jointly compute one result.
    split: usize,
    /// Matrices of 16 input channels, padded to a multiple of the split-K factor.
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

    /// Matrices of 16 output pixels.
    fn tall(&self) -> usize {
        self.rows.div_ceil(SIDE)
    }

    /// Vec4s of output channels.
    fn columns(&self) -> usize {
        self.wide * SIDE / 4
    }

    /// Matrices of input channels that a subgroup multiplies.
    fn steps(&self) -> usize {
        self.depth / self.split
    }

    fn padded_outputs(&self, problem: &Problem) -> usize {
        problem.outputs.next_multiple_of(self.wide) * SIDE
    }

    /// Vec4s between the data of two output pixels: two more than the data takes, so that neighbours are in different
    /// memory banks.
    fn stride(&self) -> usize {
        self.depth * SIDE / 4 + 2
    }

    /// Vec4s of work-group memory for the data.
    fn staged(&self) -> usize {
        self.tall() * SIDE * self.stride()
    }

    /// Vec4s between the sums of two output pixels.
    fn pitch(&self) -> usize {
        self.columns() + 1
    }

    /// Vec4s of sums of one split-K part.
    fn layer(&self) -> usize {
        self.tall() * SIDE * self.pitch()
    }

    fn bytes(&self) -> usize {
        self.staged() * 8 + self.split * self.layer() * 16
    }

    fn products<'a>(&self, matrices: Matrices, weights: &'a Array) -> Products<'a> {
        let (data, sums) =
            (Rows { name: "memory", stride: self.stride() }, Rows { name: "sums", stride: self.pitch() });
        Products { is_emulated: matrices == Matrices::Emulated, data, weights, sums }
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

/// WGSL that loads a subgroup's weights. The packed filter starts at vec4 `filter`.
fn load(tiling: Tiling, products: &Products<'_>, filter: &str) -> String {
    let Tiling { wide, split, depth, .. } = tiling;
    let load = |step| {
        let (part, matrix) = (step * split, SIDE * SIDE / 4);
        let at = format!("{filter} + ((group.x * {wide}u + across) * {depth}u + split_part + {part}u) * {matrix}u");
        products.load_weights(&format!("w{step}"), &at)
    };
    (0..tiling.steps()).map(load).collect()
}

/// WGSL that multiplies the staged data by the weights, and writes the sums to work-group memory.
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

/// WGSL of the sum of all split-K parts at `start`.
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

    /// A pointwise convolution with this stride, or one behind a depthwise convolution with this stride.
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

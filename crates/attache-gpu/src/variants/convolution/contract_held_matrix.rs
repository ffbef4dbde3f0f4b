//! Pointwise convolution (one tap) with a constant filter on cooperative matrices, in f16 with f32 sums. All input
//! channels of the block's output pixels are staged in work-group memory. Meant for convolutions with a depthwise
//! prologue, which is computed while it is loaded, and for strided ones.
//!
//! A subgroup multiplies 16 output channels of every output pixel by its part of the staged channels. Its part of the
//! filter is loaded before the data is staged, so that the two loads overlap.

use attache_gpu_ir::Primitive;

use super::contract_matrix::pack;
use super::held::{Holding, hold, out_lanes, store};
use super::supply::Supply;
use super::tile::put;
use super::{contract_blocked, contract_depthwise};
use crate::kernel::{Kernel, Limits, MAX_GROUPS, Matrices, Storage};
use crate::variants::Variant;
use crate::wgsl::accessor::Array;
use crate::wgsl::cooperative_matrix::{Products, Rows, SIDE, SUBGROUP};
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant =
    Variant { name: "contract_held_matrix", takes_prologues: true, applies, cost, write };

/// Maximum number of weight matrices that a subgroup keeps in registers, four registers of an invocation each.
const MAX_STEPS: usize = 16;

/// Maximum number of subgroups along the output channels.
const MAX_WIDE: usize = 8;

/// Maximum split-K factor, in subgroups.
const MAX_SHARES: usize = 16;

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
    let Primitive::Contract(contraction) = &kernel.primitive else { return false };
    let behind = |first: &Kernel| matches!(first.primitive, Primitive::Contract(_));
    let filter = context.program.shape(kernel.inputs[1]);
    // The data is staged as f16 only if it would also be stored as f16, so staging loses no digits.
    let halves = [context.storages.of(kernel.inputs[0]), context.storages.packed()] == [Storage::Half; 2];
    context.limits.matrices != Matrices::Absent
        && halves
        && contract_blocked::applies(context, kernel)
        && !contraction.transposed
        && filter[1..3] == [1, 1]
        && kernel.prologue.as_deref().is_none_or(behind)
        && filter[0] >= SIDE / 2
        && filter[3] >= SIDE / 2
        && Work::of(context, kernel).positions >= SIDE / 2
        && Block::of(context, kernel).is_some()
}

/// Pointwise convolutions without a prologue are left to `contract_matrix`, which was measured against the other
/// variants for them. Convolutions with few products per output pixel do not need matrices.
fn cost(context: &Context<'_>, kernel: &Kernel) -> u32 {
    let Primitive::Contract(contraction) = &kernel.primitive else { unreachable!("applies") };
    let [data, filter] = [0, 1].map(|input| context.program.shape(kernel.inputs[input]));
    let is_plain = kernel.prologue.is_none() && contraction.is_pointwise(data, filter);
    let work = Work::of(context, kernel);
    if is_plain || work.depth() * work.outputs <= FEW_PRODUCTS { 20 } else { 0 }
}

/// The size of the computation, as far as it determines the time.
#[derive(Clone, Copy, Debug)]
struct Work {
    positions: usize,
    /// Matrices of 16 output channels.
    outputs: usize,
    /// Vec4s of input channels.
    quads: usize,
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

impl Work {
    fn of(context: &Context<'_>, kernel: &Kernel) -> Self {
        let shape = |id| context.program.shape(id);
        let (filter, output) = (shape(kernel.inputs[1]), shape(kernel.outputs[0]));
        let taps = kernel.prologue.as_ref().map_or(1, |first| shape(first.inputs[1])[1..3].iter().product());
        let positions = output[..3].iter().product();
        Self { positions, outputs: filter[0].div_ceil(SIDE), quads: filter[3].div_ceil(4), taps }
    }

    /// Matrices of 16 input channels.
    fn depth(&self) -> usize {
        self.quads.div_ceil(SIDE / 4)
    }

    /// Estimated time of a block shape on a large device. Each compute unit runs as many work groups at once as fit,
    /// one batch after the other, but multiplies for only one of them at a time.
    fn time(&self, block: &Block) -> usize {
        let Block { rows, wide, shares, depth } = *block;
        let reads = (rows * self.quads).div_ceil(block.invocations()) * (self.taps + 1);
        let matrices = wide * block.tall() * (depth * PRODUCT + shares * SUM);
        let groups = self.positions.div_ceil(rows) * self.outputs.div_ceil(wide);
        let together = (UNIT_INVOCATIONS / block.invocations()).min(UNIT_BYTES / block.bytes()).max(1);
        let turn = BEGIN + reads * READ + block.steps() * STEP;
        groups.div_ceil(UNITS * together) * turn + groups.div_ceil(UNITS) * matrices
    }

    /// The fastest block by this estimate, within `bytes` bytes of work-group memory and `invocations` invocations.
    fn block(&self, [bytes, invocations]: [usize; 2]) -> Option<Block> {
        let depth = self.depth();
        let widths = 1..=self.outputs.min(MAX_WIDE);
        let shapes = ROWS.into_iter().flat_map(|rows| widths.clone().map(move |wide| (rows, wide)));
        let blocks = shapes.flat_map(|(rows, wide)| {
            let shares = 1..=MAX_SHARES.min(depth);
            shares.map(move |shares| Block { rows, wide, shares, depth: depth.next_multiple_of(shares) })
        });
        let most = MAX_INVOCATIONS.min(invocations);
        let fits = |block: &Block| block.steps() <= MAX_STEPS && block.bytes() <= bytes && block.invocations() <= most;
        blocks.filter(fits).min_by_key(|block| self.time(block))
    }
}

/// How the work is distributed over a work group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    /// Output pixels.
    rows: usize,
    /// Subgroups along the output channels, each with 16 of them.
    wide: usize,
    /// The split-K factor: subgroups that jointly compute one result.
    shares: usize,
    /// Matrices of 16 input channels, padded to a multiple of the split-K factor.
    depth: usize,
}

impl Block {
    fn of(context: &Context<'_>, kernel: &Kernel) -> Option<Self> {
        let Limits { work_group_bytes, max_invocations, max_binding_bytes, .. } = *context.limits;
        let work = Work::of(context, kernel);
        let block = work.block([work_group_bytes, max_invocations])?;
        let numbers = block.padded_outputs(&work).checked_mul(1 + block.depth * SIDE)?;
        let before = kernel.prologue.as_ref().map_or(0, |first| {
            let filter = context.program.shape(first.inputs[1]);
            (1 + filter[1] * filter[2]) * filter[0].next_multiple_of(4)
        });
        let fits = numbers.checked_add(before)?.checked_mul(2)? <= max_binding_bytes;
        (fits && work.outputs.div_ceil(block.wide) <= MAX_GROUPS).then_some(block)
    }

    fn invocations(&self) -> usize {
        SUBGROUP * self.wide * self.shares
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
        self.depth / self.shares
    }

    fn padded_outputs(&self, work: &Work) -> usize {
        work.outputs.next_multiple_of(self.wide) * SIDE
    }

    /// Vec4s between the data of two output pixels: two more than the data takes, so that neighbours are in different
    /// memory banks.
    fn stride(&self) -> usize {
        self.depth * SIDE / 4 + 2
    }

    /// Vec4s of work-group memory for the data.
    fn held(&self) -> usize {
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
        self.held() * 8 + self.shares * self.layer() * 16
    }

    fn products<'a>(&self, matrices: Matrices, weights: &'a Array) -> Products<'a> {
        let (data, sums) =
            (Rows { name: "memory", stride: self.stride() }, Rows { name: "sums", stride: self.pitch() });
        Products { is_emulated: matrices == Matrices::Emulated, data, weights, sums }
    }

    fn holding(&self) -> Holding {
        Holding {
            rows: self.rows,
            depth: self.depth * SIDE / 4,
            stride: self.stride(),
            invocations: self.invocations(),
            halves: true,
        }
    }
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let (block, work) = (Block::of(context, kernel).expect("applies"), Work::of(context, kernel));
    let mut writer = Writer::new(VARIANT.name, context);
    writer.use_matrices(context.limits.matrices);
    let padded = block.padded_outputs(&work);
    let mut packed = pack(context, kernel, [padded, block.depth]);
    let start = packed.len() / 4;
    if let Some(first) = &kernel.prologue {
        packed.extend_from_slice(&contract_depthwise::pack(context, first));
    }
    let weights = writer.packed(packed.into(), 4);
    let products = block.products(context.limits.matrices, &weights);
    writer.function(&products.functions());
    let supply = Supply::new(&mut writer, context, kernel, (&weights, start));
    store(&mut writer, context, kernel);
    let outputs = context.program.shape(kernel.inputs[1])[0];
    let [total, quads, outputs, depth, filter] =
        [work.positions, outputs.div_ceil(4), outputs, block.depth * SIDE / 4, padded / 4]
            .map(|number| writer.param(number));
    let body = format!(
        "    let first = (group.y + group.z * {MAX_GROUPS}u) * {rows}u;
    let left = group.x * {columns}u;
    let subgroup = local.x / {SUBGROUP}u;
    let across = subgroup % {wide}u;
    let share = subgroup / {wide}u;
{load}{hold}    workgroupBarrier();
{multiply}    workgroupBarrier();
    for (var place = local.x; place < {results}u; place += {invocations}u) {{
        let quad = left + place % {columns}u;
        let at = first + place / {columns}u;
        if (at < {total} && quad < {quads}) {{
            let start = place / {columns}u * {pitch}u + place % {columns}u;
            let bias = {bias};
            {put}
        }}
    }}\n",
        rows = block.rows,
        columns = block.columns(),
        wide = block.wide,
        load = load(block, &products, &filter),
        hold = hold(block.holding(), &supply, &total, &depth),
        multiply = multiply(block, &products),
        results = block.rows * block.columns(),
        invocations = block.invocations(),
        pitch = block.pitch(),
        bias = weights.reals("quad"),
        put = put(out_lanes(context, kernel), "at", &sum(block), &quads, &outputs),
    );
    let declarations = format!(
        "var<workgroup> memory: array<vec4<f16>, {}>;\nvar<workgroup> sums: array<vec4<f32>, {}>;\n",
        block.held(),
        block.shares * block.layer()
    );
    let blocks = work.positions.div_ceil(block.rows);
    let groups = [work.outputs.div_ceil(block.wide), blocks.min(MAX_GROUPS), blocks.div_ceil(MAX_GROUPS)];
    let invocations = [block.invocations() as u32, 1, 1];
    vec![writer.finish(invocations, groups.map(|count| count as u32), &declarations, &body)]
}

/// WGSL that loads a subgroup's weights. The packed filter starts at vec4 `filter`.
fn load(block: Block, products: &Products<'_>, filter: &str) -> String {
    let Block { wide, shares, depth, .. } = block;
    let load = |step| {
        let (part, matrix) = (step * shares, SIDE * SIDE / 4);
        let at = format!("{filter} + ((group.x * {wide}u + across) * {depth}u + share + {part}u) * {matrix}u");
        products.load_weights(&format!("w{step}"), &at)
    };
    (0..block.steps()).map(load).collect()
}

/// WGSL that multiplies the staged data by the weights, and writes the sums to work-group memory.
fn multiply(block: Block, products: &Products<'_>) -> String {
    let (stride, shares) = (block.stride(), block.shares);
    let mut text = String::new();
    for tall in 0..block.tall() {
        let sum = format!("sum{tall}");
        text += &products.zeros(&sum);
        for step in 0..block.steps() {
            let data = format!("d{tall}_{step}");
            let at = format!("{}u + (share + {}u) * {}u", tall * SIDE * stride, step * shares, SIDE / 4);
            text += &products.load_data(&data, &at);
            text += &products.add(&sum, &data, &format!("w{step}"));
        }
        let start = tall * SIDE * block.pitch();
        let at = format!("share * {}u + {start}u + across * {}u", block.layer(), SIDE / 4);
        text += &products.store(&sum, &format!("into{tall}"), &at);
    }
    text
}

/// WGSL of the sum of all split-K parts at `start`.
fn sum(block: Block) -> String {
    let parts = (0..block.shares).map(|share| format!("sums[start + {}u]", share * block.layer()));
    format!("({})", parts.collect::<Vec<_>>().join(" + "))
}

#[cfg(test)]
mod tests {
    use attache_base::{Constant, Shape};
    use attache_gpu_ir::{Contraction, Expression, Program, Scalar, Unary};

    use super::super::contract_matrix::tests::last_shader;
    use super::*;

    /// A pointwise convolution with this stride, or one behind a depthwise convolution with this stride.
    fn program(image: [usize; 4], outputs: usize, stride: usize, window: Option<usize>) -> Program {
        let mut program = Program::default();
        let output = [image[1], image[2]].map(|extent| extent.div_ceil(stride));
        let contraction = |size: usize, stride, groups| Contraction {
            strides: [stride; 2],
            dilations: [1; 2],
            before: [size / 2; 2],
            output,
            groups,
            transposed: false,
            zero_points: [0; 2],
        };
        let constant = |program: &mut Program, shape: Shape| {
            let numbers = vec![0.5f32; shape.elements()];
            program.constant(Scalar::F32, Constant::from_values(shape, &numbers))
        };
        let input = program.input(Scalar::F32, image.into());
        let (expression, shape) = (Expression::Input(0).unary(Unary::Tanh), Shape::from(image));
        let map = Primitive::Map { expression, shape, scalar: Scalar::F32 };
        let mut data = program.step(map, &[input], 0).unwrap()[0];
        if let Some(size) = window {
            let weights = constant(&mut program, [image[3], size, size, 1].into());
            let depthwise = Primitive::Contract(contraction(size, stride, image[3]));
            data = program.step(depthwise, &[data, weights], 1).unwrap()[0];
        }
        let weights = constant(&mut program, [outputs, 1, 1, image[3]].into());
        let stride = if window.is_some() { 1 } else { stride };
        program.outputs = program.step(Primitive::Contract(contraction(1, stride, 1)), &[data, weights], 1).unwrap();
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
        for (positions, outputs, quads) in
            (1..30).flat_map(|p| (1..30).map(move |o| (p * p * 17 - 9, o * o, (p * 31 + o * 7) % 400 + 1)))
        {
            for (bytes, invocations) in [(16384, 128), (32768, 256), (49152, 1024)] {
                let work = Work { positions, outputs, quads, taps: 9 };
                let Some(block) = work.block([bytes, invocations]) else {
                    let shares = work.depth().div_ceil(MAX_STEPS);
                    let least = Block { rows: 4, wide: 1, shares, depth: work.depth().next_multiple_of(shares) };
                    let is_large = least.bytes() > bytes || least.invocations() > invocations.min(MAX_INVOCATIONS);
                    assert!(is_large || shares > MAX_SHARES, "{work:?} of {bytes} bytes and {invocations} invocations");
                    continue;
                };
                assert!(block.bytes() <= bytes && block.invocations() <= invocations, "{block:?}");
                assert!(block.steps() <= MAX_STEPS && block.steps() * block.shares * SIDE >= quads * 4, "{block:?}");
            }
        }
        let none = Work { positions: 196, outputs: 8, quads: 400, taps: 1 }.block([49152, 1024]);
        assert_eq!(none, None, "more than the memory holds");
    }
}

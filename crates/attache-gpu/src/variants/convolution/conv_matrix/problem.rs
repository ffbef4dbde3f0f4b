//! Sizes of variant `conv_matrix`: how a convolution is distributed over work groups, subgroups and loop
//! iterations. No WGSL is generated here.
//!
//! If there are many subgroups, each keeps few weights in registers, so that more of them can run on one
//! compute unit at the same time. If there are few output pixels, several subgroups split the K sum of each
//! result instead.

use attache_gpu_ir::{ConvolutionGeometry, Primitive};

use crate::kernel::{DeviceLimits, Kernel, MAX_GROUPS};
use crate::wgsl::Context;
use crate::wgsl::cooperative_matrix::{SIDE, SUBGROUP};

/// Number of adjacent input channels that an invocation loads at once, as two vec4s of f16.
pub(super) const EIGHT: usize = 8;

/// Maximum number of weight matrices that a subgroup keeps in registers. Each takes four registers of every
/// invocation.
const MAX_STAGED: usize = 25;

/// Maximum number of weight matrices that a subgroup keeps in registers, instead of [`MAX_STAGED`], if there
/// are at least [`ENOUGH_SUBGROUPS`] subgroups: fewer registers and less memory per subgroup give higher
/// occupancy.
const MAX_STAGED_IF_BUSY: usize = 9;

/// Maximum number of loads of eight channels that an invocation has in flight. Each takes four registers.
const MAX_FETCHES: usize = 14;

/// Number of work groups that give every compute unit of a large device at least one.
const ENOUGH_GROUPS: usize = 90;

/// Number of subgroups that keep a large device busy without split-K.
const ENOUGH_SUBGROUPS: usize = 1024;

/// Maximum split-K factor: the number of subgroups that share the K sum of a result.
const MAX_SPLIT: usize = 8;

/// Tile shapes of convolutions that are not pointwise, in the order in which they are tried: rows of output
/// pixels, blocks of 16 output channels per subgroup, and subgroups along the output channels. The first
/// shape that yields [`ENOUGH_GROUPS`] work groups is used, else the last.
const WINDOWS: &[[usize; 3]] = &[[4, 1, 2], [2, 1, 2], [2, 1, 1]];

/// Tile shapes of pointwise convolutions, with the same components and order of trial as [`WINDOWS`].
const POINTS: &[[usize; 3]] = &[[2, 1, 2], [1, 2, 2], [1, 2, 1], [1, 1, 1]];

/// Tile shapes of pointwise convolutions that scale rows, with the same components and order of trial. Each work group
/// reduces its rows anew, so it has more output channels.
const SCALED_ROWS: &[[usize; 3]] = &[[2, 1, 8], [2, 1, 4], [1, 1, 4], [1, 1, 2], [1, 1, 1]];

/// What a work group computes: `rows` rows of 16 output pixels, with `blocks × wide` blocks of 16 output
/// channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tiling {
    /// Number of rows of output pixels.
    pub(super) rows: usize,
    /// Number of blocks of 16 output channels per subgroup.
    pub(super) blocks: usize,
    /// Number of subgroups along the output channels.
    pub(super) wide: usize,
    /// The split-K factor: the number of subgroups that jointly compute one result, each over its part of K.
    pub(super) split: usize,
    /// Number of matrices of 16 input channels that are staged at once, a multiple of the split-K factor.
    pub(super) chunk: usize,
    /// Number of filters, 2 with a twin ([`Kernel::twin`]). A work group has as many blocks of each.
    pub(super) filters: usize,
}

impl Tiling {
    /// Returns the number of invocations of a work group.
    pub(super) fn invocations(&self) -> usize {
        SUBGROUP * self.wide * self.split
    }

    /// Returns the number of blocks of 16 output channels, of all filters, that a work group computes.
    pub(super) fn outputs(&self) -> usize {
        self.blocks * self.wide
    }

    /// Returns the number of vec4s of results of a pixel.
    pub(super) fn results(&self) -> usize {
        self.outputs() / self.filters * SIDE / 4
    }

    /// Returns the number of vec4s between the sums of two adjacent output pixels in work-group memory: one
    /// more than the sums take, so that adjacent pixels are in different memory banks.
    pub(super) fn pitch(&self) -> usize {
        self.outputs() * SIDE / 4 + 1
    }

    /// Returns the number of vec4s of results in one row of a work group, and the maximum number of them that
    /// an invocation stores.
    pub(super) fn row(&self) -> (usize, usize) {
        let vectors = SIDE * self.results();
        (vectors, vectors.div_ceil(self.invocations()))
    }

    /// Returns the number of vec4s of work-group memory for the sums of one row, over all split-K parts.
    pub(super) fn sums(&self) -> usize {
        self.split * SIDE * self.pitch()
    }
}

/// The geometry of the window; pairs are `[vertical, horizontal]`. Within a tile, output pixel `p` reads
/// input pixel `p × stride + tap × dilation`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// Height and width of the window, in taps.
    pub(super) taps: [usize; 2],
    /// Input pixels between the windows of adjacent output pixels.
    pub(super) strides: [usize; 2],
    /// Input pixels between adjacent taps.
    pub(super) dilations: [usize; 2],
    /// Padding pixels above and to the left of an image.
    pub(super) before: [usize; 2],
    /// Whether output pixel `p` reads only input pixel `p`.
    pub(super) pointwise: bool,
}

impl Window {
    fn new(convolution: &ConvolutionGeometry, data: &[usize], filter: &[usize]) -> Self {
        let ConvolutionGeometry { strides, dilations, before, .. } = *convolution;
        let pointwise = convolution.is_pointwise(data, filter);
        Self { taps: [filter[1], filter[2]], strides, dilations, before, pointwise }
    }

    /// Returns the number of input pixels along an axis that the windows of `results` adjacent output pixels
    /// cover.
    fn span(&self, axis: usize, results: usize) -> usize {
        let moves = (results - 1).saturating_mul(self.strides[axis]);
        let reaches = self.taps[axis].saturating_sub(1).saturating_mul(self.dilations[axis]);
        moves.saturating_add(reaches).saturating_add(1)
    }
}

/// The sizes of a convolution, and the tiling chosen for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Problem {
    pub(super) tiling: Tiling,
    pub(super) window: Window,
    /// Number of images; 1 for a pointwise convolution, whose pixels form one image 16 pixels wide.
    images: usize,
    /// Number of output rows and columns of each image.
    output: [usize; 2],
    /// K in matrices of 16 input channels, padded to whole chunks.
    pub(super) depth: usize,
    /// N in matrices of 16 output channels, over all filters.
    outputs: usize,
    /// Whether the sums are scaled by what whole rows of the data are reduced to.
    has_rows: bool,
}

impl Problem {
    /// Returns the sizes of a convolution and the best tiling for it; `None` if no tiling fits the device.
    pub(super) fn new(context: &Context<'_>, kernel: &Kernel) -> Option<Self> {
        let Primitive::Convolution(convolution) = &kernel.primitive else { unreachable!("a convolution has a window") };
        let [data, filter, output] =
            [kernel.inputs[0], kernel.inputs[1], kernel.outputs[0]].map(|id| context.program.shape(id));
        let window = Window::new(convolution, data, filter);
        let (images, output) = match window.pointwise {
            true => (1, [output[..3].iter().product::<usize>().div_ceil(SIDE), SIDE]),
            false => (output[0], [output[1], output[2]]),
        };
        let filters = 1 + usize::from(kernel.twin().is_some());
        let (depth, outputs) = (data[3].div_ceil(SIDE), filters * filter[0].div_ceil(SIDE));
        let has_rows = kernel.prologue.is_some();
        let choices = match window.pointwise {
            true if has_rows => SCALED_ROWS,
            true => POINTS,
            false => WINDOWS,
        };
        let problems = choices.iter().map(|[rows, blocks, wide]| {
            let blocks = outputs.min(*blocks);
            let wide = outputs.div_ceil(blocks).min(*wide);
            let tiling = Tiling { rows: *rows, blocks, wide, split: 1, chunk: depth, filters };
            Self { tiling, window, images, output, depth, outputs, has_rows }
        });
        let problems = problems.filter(|problem| problem.tiling.outputs().is_multiple_of(filters));
        let fitting: Vec<Self> = problems.filter_map(|problem| problem.with_split(context)).collect();
        let last = fitting.len().checked_sub(1)?;
        let best = fitting.iter().position(|problem| problem.count() >= ENOUGH_GROUPS).unwrap_or(last);
        fitting.into_iter().nth(best)
    }

    /// Returns this problem with the largest split-K factor that is needed to keep the device busy, and with
    /// as many channels staged at once as fit the device. If nothing fits with that factor, tries smaller
    /// ones.
    fn with_split(self, context: &Context<'_>) -> Option<Self> {
        let subgroups = self.count().saturating_mul(self.tiling.wide);
        let allowed = context.limits.max_invocations / self.tiling.invocations();
        let most = (ENOUGH_SUBGROUPS / subgroups.max(1)).min(MAX_SPLIT).min(allowed).min(self.depth).max(1);
        // Rows are staged as a whole, for which more invocations may be needed.
        let more = if self.has_rows { MAX_SPLIT.min(allowed).max(most) } else { most };
        let split = (0..=most.ilog2()).rev().chain(most.ilog2() + 1..=more.ilog2()).map(|power| 1 << power);
        let most_parts = if self.has_rows { 1 } else { self.depth };
        let choices = split.flat_map(|split| (1..=most_parts).map(move |parts| (split, parts)));
        let problems = choices.map(|(split, parts)| {
            let chunk = self.depth.div_ceil(parts).next_multiple_of(split);
            Self { tiling: Tiling { split, chunk, ..self.tiling }, depth: self.depth.next_multiple_of(chunk), ..self }
        });
        let fitting = |staged| problems.clone().find(|problem| problem.staged() <= staged && problem.fits(context));
        let few = if subgroups >= ENOUGH_SUBGROUPS { fitting(MAX_STAGED_IF_BUSY) } else { None };
        few.or_else(|| fitting(MAX_STAGED))
    }

    /// Whether the tiling fits the device's limits, and an invocation's loads in flight fit its registers.
    fn fits(&self, context: &Context<'_>) -> bool {
        let DeviceLimits { work_group_bytes, max_invocations, max_binding_bytes, .. } = *context.limits;
        self.bytes() <= work_group_bytes
            && self.tiling.invocations() <= max_invocations
            && self.fetches() <= MAX_FETCHES
            && self.weights() * 2 <= max_binding_bytes
            && self.groups().iter().all(|count| *count <= MAX_GROUPS)
    }

    /// Returns the number of work groups along the columns, along the rows of all images, and along the
    /// output channels.
    pub(super) fn groups(&self) -> [usize; 3] {
        [self.output[1].div_ceil(SIDE), self.down() * self.images, self.outputs.div_ceil(self.tiling.outputs())]
    }

    /// Returns the total number of work groups.
    fn count(&self) -> usize {
        self.groups().iter().product()
    }

    /// Returns the number of tiles along the height of an image.
    pub(super) fn down(&self) -> usize {
        self.output[0].div_ceil(self.tiling.rows)
    }

    /// Returns the number of rows and columns of input pixels that a tile of outputs reads.
    pub(super) fn under(&self) -> [usize; 2] {
        [self.window.span(0, self.tiling.rows), self.window.span(1, SIDE)]
    }

    /// Returns the number of steps of a subgroup per chunk. Each step covers one column of taps and 16 input
    /// channels.
    pub(super) fn steps(&self) -> usize {
        (self.tiling.chunk / self.tiling.split).saturating_mul(self.window.taps[1])
    }

    /// Returns the number of weight matrices that a subgroup loads per chunk.
    fn staged(&self) -> usize {
        self.steps().saturating_mul(self.window.taps[0] * self.tiling.blocks)
    }

    /// Returns the number of groups of eight input channels that a work group stages per chunk, over all
    /// input pixels of a tile.
    pub(super) fn eights(&self) -> usize {
        self.under().iter().fold(self.tiling.chunk * SIDE / EIGHT, |product, extent| product.saturating_mul(*extent))
    }

    /// Returns the number of groups of eight input channels that an invocation loads per chunk.
    pub(super) fn fetches(&self) -> usize {
        self.eights().div_ceil(self.tiling.invocations())
    }

    /// Returns the number of vec4s of f16 between the data of two adjacent input pixels in work-group memory:
    /// two more than the data takes, so that adjacent pixels are in different memory banks.
    pub(super) fn stride(&self) -> usize {
        self.tiling.chunk * SIDE / 4 + 2
    }

    /// Returns the number of output pixels of a tile.
    pub(super) fn pixels(&self) -> usize {
        self.tiling.rows * SIDE
    }

    /// Returns the number of invocations that reduce the row of a pixel.
    pub(super) fn workers(&self) -> usize {
        (self.tiling.invocations() / self.pixels()).max(1)
    }

    /// Returns the number of vec4s of f16 of work-group memory for the staged data.
    pub(super) fn vectors(&self) -> usize {
        self.under().iter().fold(self.stride(), |product, extent| product.saturating_mul(*extent))
    }

    /// Returns the number of bytes of work-group memory for data, sums and reductions of rows.
    fn bytes(&self) -> usize {
        let folded = if self.has_rows { (self.tiling.invocations() + self.pixels()) * 4 } else { 0 };
        self.vectors().saturating_mul(8).saturating_add(self.tiling.sums() * 16 + folded)
    }

    /// Returns the number of output channels, padded to whole blocks of a work group.
    pub(super) fn padded_outputs(&self) -> usize {
        self.groups()[2] * self.tiling.outputs() * SIDE
    }

    /// Returns the number of elements of the packed bias and filter.
    pub(super) fn weights(&self) -> usize {
        let [rows, columns] = self.window.taps;
        self.padded_outputs() * (1 + rows * columns * self.depth * SIDE)
    }

    /// Returns the packed bias and filter, in the layout of `conv_matrix::pack`. With a twin, the blocks of both filters that a
    /// work group has follow one another.
    pub(super) fn pack(&self, context: &Context<'_>, kernel: &Kernel) -> Vec<f32> {
        let Some(twin) = kernel.twin() else {
            return super::pack(context, kernel, [self.padded_outputs(), self.depth]);
        };
        let own = self.tiling.outputs() / self.tiling.filters * SIDE;
        let of = |filter: usize| move |output: usize| output / own * 2 * own + filter * own + output % own;
        let mut packed = vec![0.0; self.weights()];
        super::pack_into(&mut packed, context, kernel, ([self.padded_outputs(), self.depth], &of(0)));
        super::pack_into(&mut packed, context, twin, ([self.padded_outputs(), self.depth], &of(1)));
        packed
    }
}

//! How a convolution is distributed over work groups, subgroups and time. Only sizes are computed here; no WGSL is
//! generated.
//!
//! If a device has little work per output pixel, small work groups are best, because many of them can run on one
//! compute unit at the same time. If there are few output pixels, subgroups split the K sum of one result instead.

use attache_gpu_ir::{ConvolutionGeometry, Primitive};

use crate::kernel::{DeviceLimits, Kernel, MAX_GROUPS};
use crate::wgsl::Context;
use crate::wgsl::cooperative_matrix::{SIDE, SUBGROUP};

/// Input channels that an invocation loads at once, in two vectors.
pub(super) const EIGHT: usize = 8;

/// Maximum number of weight matrices that a subgroup keeps in registers, four registers of an invocation each.
const MAX_STAGED: usize = 25;

/// [`MAX_STAGED`] if there are many subgroups: fewer registers and less memory per subgroup give higher occupancy.
const MAX_STAGED_IF_BUSY: usize = 9;

/// Maximum number of loads that an invocation has in flight, four registers each.
const MAX_FETCHES: usize = 14;

/// Work groups from which on every compute unit of a large device has one.
const ENOUGH_GROUPS: usize = 90;

/// Subgroups that keep a large device busy.
const ENOUGH_SUBGROUPS: usize = 1024;

/// Maximum split-K factor, in subgroups.
const MAX_SPLIT: usize = 8;

/// Tile shapes in the order in which they are tried: rows, blocks, and subgroups along the output channels. The first
/// that yields enough work groups is used, else the last.
const WINDOWS: &[[usize; 3]] = &[[4, 1, 2], [2, 1, 2], [2, 1, 1]];

/// The tile shapes of pointwise convolutions.
const POINTS: &[[usize; 3]] = &[[2, 2, 2], [1, 2, 2], [1, 2, 1], [1, 1, 1]];

/// What a work group computes: `rows` rows of 16 output pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tiling {
    pub(super) rows: usize,
    /// Matrices of 16 output channels per subgroup.
    pub(super) blocks: usize,
    /// Subgroups along the output channels.
    pub(super) wide: usize,
    /// The split-K factor: subgroups that jointly compute one result.
    pub(super) split: usize,
    /// Matrices of 16 input channels that are staged at once, a multiple of the split-K factor.
    pub(super) chunk: usize,
}

impl Tiling {
    pub(super) fn invocations(&self) -> usize {
        SUBGROUP * self.wide * self.split
    }

    /// Matrices of output channels.
    pub(super) fn outputs(&self) -> usize {
        self.blocks * self.wide
    }

    /// Vec4s between the sums of two output pixels: one more than the sums take, so that neighbours are in different
    /// memory banks.
    pub(super) fn pitch(&self) -> usize {
        self.outputs() * SIDE / 4 + 1
    }

    /// Vec4s of results of one row, and how many of them an invocation stores.
    pub(super) fn row(&self) -> (usize, usize) {
        let vectors = SIDE * self.outputs() * SIDE / 4;
        (vectors, vectors.div_ceil(self.invocations()))
    }

    /// Vec4s of work-group memory for the sums of one row, of all split-K parts.
    pub(super) fn sums(&self) -> usize {
        self.split * SIDE * self.pitch()
    }
}

/// The window. A tap reads at `result × stride + tap × dilation`; rows come before columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) taps: [usize; 2],
    pub(super) strides: [usize; 2],
    pub(super) dilations: [usize; 2],
    pub(super) before: [usize; 2],
    /// Whether output pixel `p` reads input pixel `p` only.
    pub(super) pointwise: bool,
}

impl Window {
    fn new(convolution: &ConvolutionGeometry, data: &[usize], filter: &[usize]) -> Self {
        let ConvolutionGeometry { strides, dilations, before, .. } = *convolution;
        let pointwise = convolution.is_pointwise(data, filter);
        Self { taps: [filter[1], filter[2]], strides, dilations, before, pointwise }
    }

    /// Input pixels along an axis that `results` adjacent output pixels cover.
    fn span(&self, axis: usize, results: usize) -> usize {
        let moves = (results - 1).saturating_mul(self.strides[axis]);
        let reaches = self.taps[axis].saturating_sub(1).saturating_mul(self.dilations[axis]);
        moves.saturating_add(reaches).saturating_add(1)
    }
}

/// The size of the computation, and its tiling.
#[derive(Clone, Copy, Debug)]
pub(super) struct Problem {
    pub(super) tiling: Tiling,
    pub(super) window: Window,
    /// The number of images, and output rows and columns of each.
    images: usize,
    output: [usize; 2],
    /// K in matrices of 16 input channels, padded to whole chunks, and N in matrices of 16 output channels.
    pub(super) depth: usize,
    outputs: usize,
}

impl Problem {
    /// The problem with its tiling; `None` if no tiling fits the device.
    pub(super) fn new(context: &Context<'_>, kernel: &Kernel) -> Option<Self> {
        let Primitive::Convolution(convolution) = &kernel.primitive else { unreachable!("a convolution has a window") };
        let [data, filter, output] =
            [kernel.inputs[0], kernel.inputs[1], kernel.outputs[0]].map(|id| context.program.shape(id));
        let window = Window::new(convolution, data, filter);
        let (images, output) = match window.pointwise {
            true => (1, [output[..3].iter().product::<usize>().div_ceil(SIDE), SIDE]),
            false => (output[0], [output[1], output[2]]),
        };
        let (depth, outputs) = (data[3].div_ceil(SIDE), filter[0].div_ceil(SIDE));
        let choices = if window.pointwise { POINTS } else { WINDOWS };
        let problems = choices.iter().map(|[rows, blocks, wide]| {
            let blocks = outputs.min(*blocks);
            let wide = outputs.div_ceil(blocks).min(*wide);
            let tiling = Tiling { rows: *rows, blocks, wide, split: 1, chunk: depth };
            Self { tiling, window, images, output, depth, outputs }
        });
        let fitting: Vec<Self> = problems.filter_map(|problem| problem.with_split(context)).collect();
        let last = fitting.len().checked_sub(1)?;
        let best = fitting.iter().position(|problem| problem.count() >= ENOUGH_GROUPS).unwrap_or(last);
        fitting.into_iter().nth(best)
    }

    /// The same tiling with the largest split-K factor that the device needs to be busy, and with as many channels
    /// staged at once as fit. If nothing fits, smaller factors are tried.
    fn with_split(self, context: &Context<'_>) -> Option<Self> {
        let subgroups = self.count().saturating_mul(self.tiling.wide);
        let allowed = context.limits.max_invocations / self.tiling.invocations();
        let most = (ENOUGH_SUBGROUPS / subgroups.max(1)).min(MAX_SPLIT).min(allowed).min(self.depth).max(1);
        let split = (0..=most.ilog2()).rev().map(|power| 1 << power);
        let choices = split.flat_map(|split| (1..=self.depth).map(move |parts| (split, parts)));
        let problems = choices.map(|(split, parts)| {
            let chunk = self.depth.div_ceil(parts).next_multiple_of(split);
            Self { tiling: Tiling { split, chunk, ..self.tiling }, depth: self.depth.next_multiple_of(chunk), ..self }
        });
        let fitting = |staged| problems.clone().find(|problem| problem.staged() <= staged && problem.fits(context));
        let few = if subgroups >= ENOUGH_SUBGROUPS { fitting(MAX_STAGED_IF_BUSY) } else { None };
        few.or_else(|| fitting(MAX_STAGED))
    }

    /// Whether the device's limits suffice, and the data in flight fits an invocation's registers.
    fn fits(&self, context: &Context<'_>) -> bool {
        let DeviceLimits { work_group_bytes, max_invocations, max_binding_bytes, .. } = *context.limits;
        self.bytes() <= work_group_bytes
            && self.tiling.invocations() <= max_invocations
            && self.fetches() <= MAX_FETCHES
            && self.weights() * 2 <= max_binding_bytes
            && self.groups().iter().all(|count| *count <= MAX_GROUPS)
    }

    /// Work groups along the columns, the rows of all images, and the output channels.
    pub(super) fn groups(&self) -> [usize; 3] {
        [self.output[1].div_ceil(SIDE), self.down() * self.images, self.outputs.div_ceil(self.tiling.outputs())]
    }

    /// The total number of work groups.
    fn count(&self) -> usize {
        self.groups().iter().product()
    }

    /// Tiles along the height of an image.
    pub(super) fn down(&self) -> usize {
        self.output[0].div_ceil(self.tiling.rows)
    }

    /// Rows and columns of the input under a tile.
    pub(super) fn under(&self) -> [usize; 2] {
        [self.window.span(0, self.tiling.rows), self.window.span(1, SIDE)]
    }

    /// Steps of a subgroup per chunk: each covers one column of taps and 16 channels.
    pub(super) fn steps(&self) -> usize {
        (self.tiling.chunk / self.tiling.split).saturating_mul(self.window.taps[1])
    }

    /// Weight matrices of a subgroup per chunk.
    fn staged(&self) -> usize {
        self.steps().saturating_mul(self.window.taps[0] * self.tiling.blocks)
    }

    /// Groups of eight channels of the input under a tile, for one chunk.
    pub(super) fn eights(&self) -> usize {
        self.under().iter().fold(self.tiling.chunk * SIDE / EIGHT, |product, extent| product.saturating_mul(*extent))
    }

    /// Groups of eight that an invocation loads per chunk.
    pub(super) fn fetches(&self) -> usize {
        self.eights().div_ceil(self.tiling.invocations())
    }

    /// Vec4s of f16 between the data of two input pixels: two more than the data takes, so that neighbours are in
    /// different memory banks.
    pub(super) fn stride(&self) -> usize {
        self.tiling.chunk * SIDE / 4 + 2
    }

    /// Vec4s of work-group memory for the data.
    pub(super) fn vectors(&self) -> usize {
        self.under().iter().fold(self.stride(), |product, extent| product.saturating_mul(*extent))
    }

    fn bytes(&self) -> usize {
        self.vectors().saturating_mul(8).saturating_add(self.tiling.sums() * 16)
    }

    /// Output channels, padded to whole blocks of a work group.
    pub(super) fn padded_outputs(&self) -> usize {
        self.groups()[2] * self.tiling.outputs() * SIDE
    }

    /// Elements of the packed bias and filter.
    pub(super) fn weights(&self) -> usize {
        let [rows, columns] = self.window.taps;
        self.padded_outputs() * (1 + rows * columns * self.depth * SIDE)
    }

    /// The packed bias and filter.
    pub(super) fn pack(&self, context: &Context<'_>, kernel: &Kernel) -> Vec<f32> {
        super::pack(context, kernel, [self.padded_outputs(), self.depth])
    }
}

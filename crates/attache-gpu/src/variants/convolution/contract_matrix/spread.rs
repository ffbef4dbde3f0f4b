//! How a contraction is spread over work groups, their subgroups and time: counted, not written.
//!
//! A device that has little to do for each position is best served by small work groups, many of which take turns on one
//! processor; where there are few positions, subgroups share the products of one result instead.

use attache_gpu_ir::{Contraction, Primitive};

use crate::kernel::{Kernel, Limits, MAX_GROUPS};
use crate::wgsl::Context;
use crate::wgsl::cooperative_matrix::{SIDE, SUBGROUP};

/// Channels of the data that an invocation fetches at once, in two vectors.
pub(super) const EIGHT: usize = 8;

/// Matrices of weights that an invocation has a part of at once: four registers each.
const MAX_HELD: usize = 25;

/// The same where subgroups are many: the fewer registers and the less memory each takes, the more take turns.
const HELD_OF_MANY: usize = 9;

/// Fetches of an invocation that are under way at once: four registers each.
const MAX_FETCHES: usize = 14;

/// Work groups from which on every processor of a large device has one.
const ENOUGH_GROUPS: usize = 90;

/// Subgroups that keep a large device busy.
const ENOUGH_SUBGROUPS: usize = 1024;

/// Subgroups that may share the products of one result.
const MAX_SHARES: usize = 8;

/// Tiles in the order in which they are tried, as rows, blocks and subgroups along the output channels: the first that makes
/// enough work groups, else the last.
const WINDOWS: &[[usize; 3]] = &[[4, 1, 2], [2, 1, 2], [2, 1, 1]];

/// The same where each result reads one position.
const POINTS: &[[usize; 3]] = &[[2, 2, 2], [1, 2, 2], [1, 2, 1], [1, 1, 1]];

/// What a work group computes: `rows` of 16 positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tile {
    pub(super) rows: usize,
    /// Matrices of 16 output channels of a subgroup.
    pub(super) blocks: usize,
    /// Subgroups along the output channels.
    pub(super) wide: usize,
    /// Subgroups that share the products of one result.
    pub(super) shares: usize,
    /// Matrices of 16 channels of the data that are in memory at once, a multiple of the shares.
    pub(super) chunk: usize,
}

impl Tile {
    pub(super) fn invocations(&self) -> usize {
        SUBGROUP * self.wide * self.shares
    }

    /// Matrices of output channels.
    pub(super) fn outputs(&self) -> usize {
        self.blocks * self.wide
    }

    /// Vectors of 4 sums from one position to the next: one more than there are, so that neighbours lie in different banks.
    pub(super) fn pitch(&self) -> usize {
        self.outputs() * SIDE / 4 + 1
    }

    /// Vectors of results of one row, and how many of them an invocation stores.
    pub(super) fn row(&self) -> (usize, usize) {
        let vectors = SIDE * self.outputs() * SIDE / 4;
        (vectors, vectors.div_ceil(self.invocations()))
    }

    /// Vectors of memory for the sums of one row, of all shares.
    pub(super) fn sums(&self) -> usize {
        self.shares * SIDE * self.pitch()
    }
}

/// The taps, each at `result × stride + tap × dilation`, rows before columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) taps: [usize; 2],
    pub(super) strides: [usize; 2],
    pub(super) dilations: [usize; 2],
    pub(super) before: [usize; 2],
    /// Whether result `p` reads position `p`, and no other.
    pub(super) pointwise: bool,
}

impl Window {
    fn new(contraction: &Contraction, data: &[usize], filter: &[usize]) -> Self {
        let Contraction { strides, dilations, before, .. } = *contraction;
        let pointwise = contraction.is_pointwise(data, filter);
        Self { taps: [filter[1], filter[2]], strides, dilations, before, pointwise }
    }

    /// Positions that so many results in a row cover along an axis.
    fn span(&self, axis: usize, results: usize) -> usize {
        let moves = (results - 1).saturating_mul(self.strides[axis]);
        let reaches = self.taps[axis].saturating_sub(1).saturating_mul(self.dilations[axis]);
        moves.saturating_add(reaches).saturating_add(1)
    }
}

/// What there is to compute, and in which tiles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread {
    pub(super) tile: Tile,
    pub(super) window: Window,
    /// Images, and their rows and columns of results.
    images: usize,
    output: [usize; 2],
    /// Matrices of 16 channels of the data, filled up to whole chunks, and of the output.
    pub(super) depth: usize,
    outputs: usize,
}

impl Spread {
    /// The spread of a contraction; `None` where no tile fits the device.
    pub(super) fn new(context: &Context<'_>, kernel: &Kernel) -> Option<Self> {
        let Primitive::Contract(contraction) = &kernel.primitive else { unreachable!("a contraction has a window") };
        let [data, filter, output] =
            [kernel.inputs[0], kernel.inputs[1], kernel.outputs[0]].map(|id| context.program.shape(id));
        let window = Window::new(contraction, data, filter);
        let (images, output) = match window.pointwise {
            true => (1, [output[..3].iter().product::<usize>().div_ceil(SIDE), SIDE]),
            false => (output[0], [output[1], output[2]]),
        };
        let (depth, outputs) = (data[3].div_ceil(SIDE), filter[0].div_ceil(SIDE));
        let choices = if window.pointwise { POINTS } else { WINDOWS };
        let spreads = choices.iter().map(|[rows, blocks, wide]| {
            let blocks = outputs.min(*blocks);
            let wide = outputs.div_ceil(blocks).min(*wide);
            let tile = Tile { rows: *rows, blocks, wide, shares: 1, chunk: depth };
            Self { tile, window, images, output, depth, outputs }
        });
        let fitting: Vec<Self> = spreads.filter_map(|spread| spread.shared(context)).collect();
        let last = fitting.len().checked_sub(1)?;
        let best = fitting.iter().position(|spread| spread.count() >= ENOUGH_GROUPS).unwrap_or(last);
        fitting.into_iter().nth(best)
    }

    /// With the products of a result shared by as many subgroups as keep the device busy, and as many channels in memory at
    /// once as fit; by fewer where they don't.
    fn shared(self, context: &Context<'_>) -> Option<Self> {
        let subgroups = self.count().saturating_mul(self.tile.wide);
        let allowed = context.limits.max_invocations / self.tile.invocations();
        let most = (ENOUGH_SUBGROUPS / subgroups.max(1)).min(MAX_SHARES).min(allowed).min(self.depth).max(1);
        let shares = (0..=most.ilog2()).rev().map(|power| 1 << power);
        let choices = shares.flat_map(|shares| (1..=self.depth).map(move |parts| (shares, parts)));
        let spreads = choices.map(|(shares, parts)| {
            let chunk = self.depth.div_ceil(parts).next_multiple_of(shares);
            Self { tile: Tile { shares, chunk, ..self.tile }, depth: self.depth.next_multiple_of(chunk), ..self }
        });
        let fitting = |held| spreads.clone().find(|spread| spread.held() <= held && spread.fits(context));
        let few = if subgroups >= ENOUGH_SUBGROUPS { fitting(HELD_OF_MANY) } else { None };
        few.or_else(|| fitting(MAX_HELD))
    }

    /// Whether the device has the memory, and an invocation the registers for the data.
    fn fits(&self, context: &Context<'_>) -> bool {
        let Limits { work_group_bytes, max_invocations, max_binding_bytes, .. } = *context.limits;
        self.bytes() <= work_group_bytes
            && self.tile.invocations() <= max_invocations
            && self.fetches() <= MAX_FETCHES
            && self.weights() * 2 <= max_binding_bytes
            && self.groups().iter().all(|count| *count <= MAX_GROUPS)
    }

    /// Work groups along columns, rows of all images, and output channels.
    pub(super) fn groups(&self) -> [usize; 3] {
        [self.output[1].div_ceil(SIDE), self.down() * self.images, self.outputs.div_ceil(self.tile.outputs())]
    }

    /// Work groups.
    fn count(&self) -> usize {
        self.groups().iter().product()
    }

    /// Tiles down an image.
    pub(super) fn down(&self) -> usize {
        self.output[0].div_ceil(self.tile.rows)
    }

    /// Rows and columns of the data under a tile.
    pub(super) fn under(&self) -> [usize; 2] {
        [self.window.span(0, self.tile.rows), self.window.span(1, SIDE)]
    }

    /// Steps through a chunk of a subgroup: a column of taps of 16 channels each.
    pub(super) fn steps(&self) -> usize {
        (self.tile.chunk / self.tile.shares).saturating_mul(self.window.taps[1])
    }

    /// Matrices of weights for a chunk.
    fn held(&self) -> usize {
        self.steps().saturating_mul(self.window.taps[0] * self.tile.blocks)
    }

    /// Eights of channels of a chunk of the data under a tile.
    pub(super) fn eights(&self) -> usize {
        self.under().iter().fold(self.tile.chunk * SIDE / EIGHT, |product, extent| product.saturating_mul(*extent))
    }

    /// How many of them an invocation fetches.
    pub(super) fn fetches(&self) -> usize {
        self.eights().div_ceil(self.tile.invocations())
    }

    /// Vectors of 4 numbers of binary16 from one position of the data to the next: two more than there are, so that
    /// neighbours lie in different banks.
    pub(super) fn stride(&self) -> usize {
        self.tile.chunk * SIDE / 4 + 2
    }

    /// Vectors of memory for the data.
    pub(super) fn vectors(&self) -> usize {
        self.under().iter().fold(self.stride(), |product, extent| product.saturating_mul(*extent))
    }

    fn bytes(&self) -> usize {
        self.vectors().saturating_mul(8).saturating_add(self.tile.sums() * 16)
    }

    /// Output channels, padded to whole blocks of a work group.
    pub(super) fn padded_outputs(&self) -> usize {
        self.groups()[2] * self.tile.outputs() * SIDE
    }

    /// Numbers of the packed bias and filter.
    pub(super) fn weights(&self) -> usize {
        let [rows, columns] = self.window.taps;
        self.padded_outputs() * (1 + rows * columns * self.depth * SIDE)
    }

    /// The packed bias and filter.
    pub(super) fn pack(&self, context: &Context<'_>, kernel: &Kernel) -> Vec<f32> {
        super::pack(context, kernel, [self.padded_outputs(), self.depth])
    }
}

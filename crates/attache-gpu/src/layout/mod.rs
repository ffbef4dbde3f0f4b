//! Memory layout: the location of each value of a program.
//!
//! Intermediate values are stored in banks. A bank is a buffer in which values with disjoint lifetimes share
//! memory, as in an arena. If the submission method forbids reading and writing the same buffer in one
//! dispatch, no kernel reads the bank that it writes. Otherwise one bank contains all intermediate values. A
//! reshape's output shares the location of its input.

use attache_base::arena::{self, Lifetime};
use attache_gpu_ir::{Program, ValueId};

use crate::kernel::{Kernel, StorageFormats, roots};

/// The strictest alignment, in bytes, that any device requires of binding offsets.
pub(crate) const ALIGNMENT: usize = 256;

/// Sizes of buffers are multiples of this many bytes.
const WORD: usize = 4;

/// The location of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// The buffer of the program's n-th input, counted from 0.
    Input(usize),
    /// The n-th of [`Layout::constants`], counted from 0.
    Constant(usize),
    /// A range of a bank of intermediate values.
    Bank {
        /// The index of the bank in [`Layout::banks`].
        bank: usize,
        /// The offset in the bank in bytes.
        offset: usize,
    },
    /// No memory: no kernel writes or reads the value.
    Unallocated,
}

/// The location of every value of a program, and the sizes of banks.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// The location of each value, indexed by [`ValueId`].
    pub locations: Vec<Location>,
    /// Size of each bank in bytes.
    pub banks: Vec<usize>,
    /// The constants that kernels read as they are, without packing, without duplicates.
    pub constants: Vec<ValueId>,
    /// The largest total size in bytes of the intermediate values that are live at one kernel. The banks cannot be
    /// smaller in total.
    pub lower_bound: usize,
    /// Bytes of the banks beyond the lower bound, by cause.
    pub excess: ArenaOverhead,
}

/// Bytes of banks beyond the lower bound, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArenaOverhead {
    /// Bytes that a single bank would save.
    pub banks: usize,
    /// Of the remaining bytes, those that packing values without alignment would save.
    pub alignment: usize,
    /// The remaining bytes: the planner found no better offsets.
    pub planner: usize,
}

impl Layout {
    /// Lays out the values that `kernels` write and read. `constants` are the constants that kernels read as
    /// they are, without packing.
    ///
    /// # Panics
    ///
    /// If `kernels` use values that are not in `program` or `storages`.
    #[must_use]
    pub fn new(
        program: &Program,
        kernels: &[Kernel],
        constants: Vec<ValueId>,
        storages: &StorageFormats,
        LayoutConstraints { alignment, apart, readers }: LayoutConstraints<'_>,
    ) -> Self {
        let roots = roots(program);
        let root = |id: ValueId| roots[id.index()];
        let mut lives: Vec<Option<Lifetime>> = vec![None; program.values.len()];
        for (step, kernel) in kernels.iter().enumerate() {
            for id in &kernel.outputs {
                let size = storages.bytes(program, *id);
                lives[id.index()] = Some(Lifetime { size, first: step, last: step });
            }
            for id in kernel.reads() {
                if let Some(life) = &mut lives[root(id).index()] {
                    life.last = step;
                }
            }
        }
        for [kernel, reader] in readers {
            for id in kernels[*kernel].reads() {
                if let Some(life) = &mut lives[root(id).index()] {
                    life.last = life.last.max(*reader);
                }
            }
        }
        for id in &program.outputs {
            if let Some(life) = &mut lives[root(*id).index()] {
                life.last = kernels.len();
            }
        }
        let stored: Vec<(usize, Lifetime)> =
            lives.iter().enumerate().filter_map(|(id, life)| Some((id, (*life)?))).collect();
        let banks = if apart { colour(program, kernels, &roots) } else { one_bank(kernels, program.values.len()) };
        let mut layout = Layout { locations: vec![Location::Unallocated; program.values.len()], ..Layout::default() };
        let all: Vec<Lifetime> = stored.iter().map(|(_, life)| *life).collect();
        layout.lower_bound = arena::lower_bound(&all);
        for bank in 0..banks.iter().flatten().max().map_or(0, |most| most + 1) {
            let members: Vec<&(usize, Lifetime)> = stored.iter().filter(|(id, _)| banks[*id] == Some(bank)).collect();
            let plan = arena::plan(&members.iter().map(|(_, life)| *life).collect::<Vec<_>>(), alignment);
            for ((id, _), offset) in members.iter().zip(&plan.offsets) {
                layout.locations[*id] = Location::Bank { bank, offset: *offset };
            }
            layout.banks.push(plan.size.next_multiple_of(WORD));
        }
        layout.excess = ArenaOverhead::new(&all, alignment, layout.banks.iter().sum(), layout.lower_bound);
        for (index, id) in program.inputs.iter().enumerate() {
            layout.locations[id.index()] = Location::Input(index);
        }
        for (index, id) in constants.iter().enumerate() {
            layout.locations[id.index()] = Location::Constant(index);
        }
        for (id, root) in roots.iter().enumerate() {
            layout.locations[id] = layout.locations[root.index()];
        }
        layout.constants = constants;
        layout
    }
}

/// The constraints that a device and a submission method impose on the locations of values.
#[derive(Clone, Copy, Debug)]
pub struct LayoutConstraints<'a> {
    /// Alignment in bytes of the offset of every value.
    pub alignment: usize,
    /// Whether no kernel may read the bank that it writes.
    pub apart: bool,
    /// Pairs of kernels, as indices, of which the second one, a later one, may read what the first one reads.
    pub readers: &'a [[usize; 2]],
}

impl ArenaOverhead {
    fn new(lives: &[Lifetime], alignment: usize, total: usize, lower_bound: usize) -> Self {
        let [aligned, dense] = [alignment, 1].map(|alignment| arena::plan(lives, alignment).size);
        // The planner is greedy, so a plan with more constraints can be smaller by chance.
        let aligned = aligned.next_multiple_of(WORD).min(total);
        let dense = dense.min(aligned);
        Self { banks: total - aligned, alignment: aligned - dense, planner: dense - lower_bound }
    }
}

/// Assigns every value that a kernel writes to bank 0. `values` is the number of values of the program; those
/// that no kernel writes get `None`.
fn one_bank(kernels: &[Kernel], values: usize) -> Vec<Option<usize>> {
    let mut banks = vec![None; values];
    kernels.iter().flat_map(|kernel| &kernel.outputs).for_each(|id| banks[id.index()] = Some(0));
    banks
}

/// Assigns a bank to each value that a kernel writes, by greedy graph colouring, so that the inputs and
/// outputs of a kernel are in different banks. Other values get `None`.
fn colour(program: &Program, kernels: &[Kernel], roots: &[ValueId]) -> Vec<Option<usize>> {
    let mut made = vec![false; program.values.len()];
    kernels.iter().flat_map(|kernel| &kernel.outputs).for_each(|id| made[id.index()] = true);
    let mut neighbours: Vec<Vec<usize>> = vec![Vec::new(); program.values.len()];
    for kernel in kernels {
        for read in kernel.reads().map(|id| roots[id.index()].index()).filter(|id| made[*id]) {
            for output in kernel.outputs.iter().map(|id| id.index()) {
                neighbours[output].push(read);
                neighbours[read].push(output);
            }
        }
    }
    let mut banks = vec![None; program.values.len()];
    for output in kernels.iter().flat_map(|kernel| &kernel.outputs).map(|id| id.index()) {
        let taken: Vec<usize> = neighbours[output].iter().filter_map(|other| banks[*other]).collect();
        banks[output] = (0..).find(|bank| !taken.contains(bank));
    }
    banks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuse::fuse;
    use crate::kernel::{DeviceLimits, StorageFormat};
    use attache_gpu_ir::{Primitive, ReduceOp, Scalar};

    #[test]
    fn no_kernel_reads_the_bank_that_it_writes() {
        let mut program = Program::default();
        let input = program.input(Scalar::F32, [4, 4].into());
        let reduce = |axes: Vec<usize>| Primitive::Reduce { reduction: ReduceOp::Sum, axes };
        let a = program.step(reduce(vec![0]), &[input], 0).unwrap()[0];
        let b = program.step(reduce(vec![1]), &[a], 0).unwrap()[0];
        let reshaped = program.step(Primitive::Reshape([1].into()), &[b], 0).unwrap()[0];
        let c = program.step(reduce(vec![0]), &[reshaped], 0).unwrap()[0];
        program.outputs = vec![c, reshaped, input];
        let kernels = fuse(&program, &DeviceLimits::default());
        let storages = StorageFormats::new(&program, StorageFormat::F32);
        let rules = |apart| LayoutConstraints { alignment: 256, apart, readers: &[] };
        let lay_out = |apart| Layout::new(&program, &kernels, Vec::new(), &storages, rules(apart));
        let layout = lay_out(true);
        assert_eq!(layout.locations[reshaped.index()], layout.locations[b.index()]);
        assert_eq!(layout.locations[input.index()], Location::Input(0));
        let bank = |id: ValueId| match layout.locations[id.index()] {
            Location::Bank { bank, .. } => bank,
            other => panic!("{other:?}"),
        };
        assert!(bank(a) != bank(b) && bank(b) != bank(c));
        assert_eq!(layout.lower_bound, 16 + 4);
        let one = lay_out(false);
        assert_eq!((one.banks.len(), one.lower_bound), (1, 16 + 4));
        let ArenaOverhead { banks, alignment, planner } = one.excess;
        assert_eq!((banks, planner, alignment), (0, 0, one.banks[0] - 20));
    }
}

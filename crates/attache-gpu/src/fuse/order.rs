//! Kernels in the order in which they run, while later steps still join some of them: each is found by what it makes, and
//! taken out, in constant time.

use std::collections::HashMap;

use attache_gpu_ir::ValueId;

use crate::kernel::Kernel;

/// A kernel's place in the order; it stays the same while others are taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position(usize);

/// Kernels in order.
#[derive(Default)]
pub(super) struct Order {
    kernels: Vec<Option<Kernel>>,
    /// Where the kernel is that makes a value and nothing else.
    makers: HashMap<ValueId, Position>,
}

impl Order {
    /// Adds a kernel behind all others.
    pub(super) fn push(&mut self, kernel: Kernel) {
        if let [only] = kernel.outputs.as_slice() {
            self.makers.insert(*only, Position(self.kernels.len()));
        }
        self.kernels.push(Some(kernel));
    }

    /// The kernel that makes this value and nothing else.
    pub(super) fn maker(&self, id: ValueId) -> Option<(Position, &Kernel)> {
        let position = *self.makers.get(&id)?;
        Some((position, self.kernels[position.0].as_ref()?))
    }

    /// Takes a kernel out.
    pub(super) fn take(&mut self, position: Position) -> Option<Kernel> {
        let kernel = self.kernels[position.0].take()?;
        for id in &kernel.outputs {
            self.makers.remove(id);
        }
        Some(kernel)
    }

    /// Those that are left.
    pub(super) fn into_kernels(self) -> Vec<Kernel> {
        self.kernels.into_iter().flatten().collect()
    }
}

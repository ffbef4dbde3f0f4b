//! [`Order`] holds the kernels in execution order during fusion. It finds a kernel by the value that the
//! kernel computes, and removes a kernel, in constant time.

use std::collections::HashMap;

use attache_gpu_ir::ValueId;

use crate::kernel::Kernel;

/// A kernel's position in an [`Order`]. It stays valid while other kernels are added and removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position(usize);

/// Kernels in execution order, from which kernels can be removed.
#[derive(Default)]
pub(super) struct Order {
    kernels: Vec<Option<Kernel>>,
    /// For each value that is the only output of a kernel, the position of that kernel.
    makers: HashMap<ValueId, Position>,
}

impl Order {
    /// Appends a kernel, which runs after all others.
    pub(super) fn push(&mut self, kernel: Kernel) {
        if let [only] = kernel.outputs.as_slice() {
            self.makers.insert(*only, Position(self.kernels.len()));
        }
        self.kernels.push(Some(kernel));
    }

    /// Returns the position of the kernel that computes this value as its only output, and the kernel; `None`
    /// if there is none.
    pub(super) fn maker(&self, id: ValueId) -> Option<(Position, &Kernel)> {
        let position = *self.makers.get(&id)?;
        Some((position, self.kernels[position.0].as_ref()?))
    }

    /// Removes and returns the kernel at a position; `None` if it was removed before.
    pub(super) fn take(&mut self, position: Position) -> Option<Kernel> {
        let kernel = self.kernels[position.0].take()?;
        for id in &kernel.outputs {
            self.makers.remove(id);
        }
        Some(kernel)
    }

    /// Returns the remaining kernels in execution order.
    pub(super) fn into_kernels(self) -> Vec<Kernel> {
        self.kernels.into_iter().flatten().collect()
    }
}

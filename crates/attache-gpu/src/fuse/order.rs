//! Kernels in execution order during fusion. A kernel is found by the value that it computes, and removed, in constant
//! time.

use std::collections::HashMap;

use attache_gpu_ir::ValueId;

use crate::kernel::Kernel;

/// A kernel's position in the order. It stays valid while other kernels are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position(usize);

/// Kernels in execution order.
#[derive(Default)]
pub(super) struct Order {
    kernels: Vec<Option<Kernel>>,
    /// The position of the kernel that computes a value as its only output.
    makers: HashMap<ValueId, Position>,
}

impl Order {
    /// Appends a kernel.
    pub(super) fn push(&mut self, kernel: Kernel) {
        if let [only] = kernel.outputs.as_slice() {
            self.makers.insert(*only, Position(self.kernels.len()));
        }
        self.kernels.push(Some(kernel));
    }

    /// The kernel that computes this value as its only output.
    pub(super) fn maker(&self, id: ValueId) -> Option<(Position, &Kernel)> {
        let position = *self.makers.get(&id)?;
        Some((position, self.kernels[position.0].as_ref()?))
    }

    /// Removes a kernel.
    pub(super) fn take(&mut self, position: Position) -> Option<Kernel> {
        let kernel = self.kernels[position.0].take()?;
        for id in &kernel.outputs {
            self.makers.remove(id);
        }
        Some(kernel)
    }

    /// The remaining kernels, in order.
    pub(super) fn into_kernels(self) -> Vec<Kernel> {
        self.kernels.into_iter().flatten().collect()
    }
}

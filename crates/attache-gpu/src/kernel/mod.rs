//! Kernels: the output of fusion and the input of all later stages.
//!
//! This module contains plain data and functions on it: memory aliasing, storage formats, vector widths and device
//! limits. It does not depend on WGSL or on devices.

mod alias;
mod error;
mod limits;
mod precision;
mod storage;
mod validate;
mod vectors;

use attache_gpu_ir::{Expression, IndexMap, IntExpression, Primitive, ValueId};

pub(crate) use alias::roots;
pub use error::{GpuError, GpuErrorKind};
pub use limits::{DeviceLimits, Matrices, Params, VariantChoice};
pub(crate) use limits::{MAX_GROUPS, MAX_OUTPUTS};
pub use precision::Precision;
pub(crate) use storage::signed_point;
pub use storage::{StorageFormat, StorageFormats};
pub(crate) use validate::{broken, validate};
pub(crate) use vectors::{axes, computed_scalar, vector_width};

/// An expression applied to each element that a kernel's primitive computes, before the element is stored. `Input(0)`
/// is that element, and `Input(k)` is the element of the k-th operand.
#[derive(Clone, Debug, PartialEq)]
pub enum Epilogue {
    /// An expression of floats. The identity is also used for primitives that compute integers.
    Float(Expression),
    /// An expression of integers.
    Int(IntExpression),
}

impl Epilogue {
    /// Whether elements are stored unchanged.
    pub fn is_identity(&self) -> bool {
        match self {
            Epilogue::Float(expression) => expression.is_identity(),
            Epilogue::Int(expression) => expression.is_identity(),
        }
    }

    /// The WGSL type of the operands.
    pub(crate) fn element(&self) -> &'static str {
        match self {
            Epilogue::Float(_) => "f32",
            Epilogue::Int(_) => "i32",
        }
    }
}

/// The computation of one dispatch, or of several if a binding limit requires it: a primitive, followed by an
/// expression of its result and further operands.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The operation. Never a reshape.
    pub primitive: Primitive,
    /// The values that the primitive reads. If there is a prologue, it computes the first of them, which is not stored.
    pub inputs: Vec<ValueId>,
    /// A kernel that computes the first input while it is loaded.
    pub prologue: Option<Box<Kernel>>,
    /// The expression applied to each element before it is stored. The identity for a map, whose own expression
    /// contains everything.
    pub epilogue: Epilogue,
    /// Further operands of the epilogue, broadcast to the output's shape.
    pub operands: Vec<ValueId>,
    /// The inputs and operands that are not stored, but read from their source through an index map.
    pub views: Vec<View>,
    /// The values that the kernel computes.
    pub outputs: Vec<ValueId>,
    /// The origins of the steps that the kernel implements, ascending. See [`attache_gpu_ir::Step::origin`].
    pub origins: Vec<usize>,
}

impl Kernel {
    /// All values that the kernel reads from memory. A view is replaced by its source.
    pub fn reads(&self) -> Box<dyn Iterator<Item = ValueId> + '_> {
        let made = usize::from(self.prologue.is_some());
        let own = self.inputs[made..].iter().chain(&self.operands).map(|id| self.source(*id));
        Box::new(own.chain(self.prologue.iter().flat_map(|first| first.reads())))
    }

    /// The value that stores the elements of an input or operand.
    pub fn source(&self, id: ValueId) -> ValueId {
        self.views.iter().find(|view| view.value == id).map_or(id, |view| view.source)
    }
}

/// A value that is not stored, but read from its source through an index map.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// The value.
    pub value: ValueId,
    /// The value that stores its elements.
    pub source: ValueId,
    /// Maps the value's coordinates to those of the source.
    pub map: IndexMap,
}

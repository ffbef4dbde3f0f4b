//! Kernels: what fusion makes of a program, and what every later room knows of them.
//!
//! Plain data and functions of it: which values share memory, how elements are stored, how wide invocations may read, what
//! a device allows. Knows nothing of WGSL and of devices.

mod alias;
mod error;
mod limits;
mod precision;
mod storage;
mod validate;
mod vectors;

use attache_gpu_ir::{Expression, IndexMap, Primitive, ValueId, Whole};

pub(crate) use alias::roots;
pub use error::{GpuError, GpuErrorKind};
pub use limits::{Limits, Matrices, Params, Variants};
pub(crate) use limits::{MAX_GROUPS, MAX_OUTPUTS};
pub use precision::Precision;
pub(crate) use storage::signed_point;
pub use storage::{Storage, Storages};
pub(crate) use validate::{broken, validate};
pub(crate) use vectors::{axes, lanes, made_scalar};

/// What becomes of each element that a kernel's primitive makes before it is stored: `Input(0)` is that element,
/// `Input(k)` the k-th operand's.
#[derive(Clone, Debug, PartialEq)]
pub enum Epilogue {
    /// Of reals, or of whatever the primitive makes where it is the identity.
    Real(Expression),
    /// Of integers.
    Whole(Whole),
}

impl Epilogue {
    /// Whether elements are stored as they are made.
    pub fn is_identity(&self) -> bool {
        match self {
            Epilogue::Real(expression) => expression.is_identity(),
            Epilogue::Whole(expression) => expression.is_identity(),
        }
    }

    /// WGSL's type of the operands.
    pub(crate) fn element(&self) -> &'static str {
        match self {
            Epilogue::Real(_) => "f32",
            Epilogue::Whole(_) => "i32",
        }
    }
}

/// What one dispatch (or a few, where a binding limit asks for it) computes: a primitive, then an expression of its
/// result and further operands.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// What is done. Never a reshape.
    pub primitive: Primitive,
    /// What it reads. With a prologue, the first is made by that and lies nowhere.
    pub inputs: Vec<ValueId>,
    /// A kernel that makes the first input as it is read.
    pub prologue: Option<Box<Kernel>>,
    /// What becomes of each element before it is stored. The identity for a map, whose expression already holds all.
    pub epilogue: Epilogue,
    /// Further operands of the epilogue, broadcast to the output.
    pub operands: Vec<ValueId>,
    /// Those of its inputs and operands that lie nowhere, but are read where they come from.
    pub views: Vec<View>,
    /// What it makes.
    pub outputs: Vec<ValueId>,
    /// Whose work it is, ascending.
    pub origins: Vec<usize>,
}

impl Kernel {
    /// Everything that it reads, where it lies.
    pub fn reads(&self) -> Box<dyn Iterator<Item = ValueId> + '_> {
        let made = usize::from(self.prologue.is_some());
        let own = self.inputs[made..].iter().chain(&self.operands).map(|id| self.source(*id));
        Box::new(own.chain(self.prologue.iter().flat_map(|first| first.reads())))
    }

    /// What holds the elements of an input or operand.
    pub fn source(&self, id: ValueId) -> ValueId {
        self.views.iter().find(|view| view.value == id).map_or(id, |view| view.source)
    }
}

/// A value that is read where its elements come from.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// The value.
    pub value: ValueId,
    /// What holds its elements.
    pub source: ValueId,
    /// Where there each of them is.
    pub map: IndexMap,
}

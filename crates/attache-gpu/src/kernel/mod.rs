//! Kernels: the output of fusion and the input of all later stages.
//!
//! This module contains plain data and functions on it: memory aliasing, storage formats, vector widths and device
//! limits. It does not depend on WGSL or on devices.

mod alias;
mod error;
mod limits;
mod precision;
mod saturation;
mod scaled_rows;
mod staged_rows;
mod storage;
mod validate;
mod vectors;

use attache_gpu_ir::{Expression, IndexMap, IntExpression, Primitive, ValueId};

pub(crate) use alias::roots;
pub use error::{GpuError, GpuErrorKind};
pub use limits::{DeviceLimits, Matrices, Params, VariantChoice};
pub(crate) use limits::{MAX_GROUPS, MAX_OUTPUTS};
pub use precision::Precision;
pub(crate) use saturation::{is_beyond, to_half};
pub(crate) use scaled_rows::{ScaledRows, scales_rows, takes_twin};
pub(crate) use staged_rows::{MAX_COLUMNS, STAGED_ROWS, rows_group, staged_rows};
pub(crate) use storage::signed_point;
pub use storage::{StorageFormat, StorageFormats};
pub(crate) use validate::{broken, validate};
pub(crate) use vectors::{axes, computed_scalar, vector_width};

/// An expression applied to each element that a kernel's primitive computes, before the element is stored. `Input(0)`
/// is that element, and `Input(k)` is the element of the k-th operand.
#[derive(Clone, Debug, PartialEq)]
pub enum Epilogue {
    /// A float expression. The identity `Input(0)` is also used for primitives that compute integers.
    Float(Expression),
    /// An integer expression.
    Int(IntExpression),
}

impl Epilogue {
    /// Whether the expression is the identity, so that the computed elements are stored unchanged.
    #[must_use]
    pub fn is_identity(&self) -> bool {
        match self {
            Epilogue::Float(expression) => expression.is_identity(),
            Epilogue::Int(expression) => expression.is_identity(),
        }
    }

    /// Returns the WGSL type of the epilogue's operands: `f32` or `i32`.
    pub(crate) fn element(&self) -> &'static str {
        match self {
            Epilogue::Float(_) => "f32",
            Epilogue::Int(_) => "i32",
        }
    }
}

/// A unit of GPU computation: a primitive, followed by an expression of each computed element and further
/// operands. A kernel runs as one dispatch, or as several if a binding limit requires it.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The operation that the kernel performs. Never a reshape.
    pub primitive: Primitive,
    /// The values that the primitive reads. If there is a prologue, the prologue computes the first of them,
    /// which is not stored.
    pub inputs: Vec<ValueId>,
    /// The kernel that computes the elements of the first input where this kernel would otherwise load them;
    /// `None` if all inputs are loaded. Its views are among this kernel's.
    pub prologue: Option<Box<Kernel>>,
    /// Maps and concatenations of maps whose elements this kernel computes where it would otherwise load them, so that
    /// they are not stored. Each computes an input or the source of a view. Their views are among this kernel's. A convolution
    /// may instead have another one of the same data and by another filter of the same shape, whose results are an operand of
    /// the epilogue.
    pub maps: Vec<Kernel>,
    /// The expression applied to each element before it is stored. The identity for a map, whose own expression
    /// contains everything.
    pub epilogue: Epilogue,
    /// Further operands of the epilogue, broadcast to the output's shape. Operand 0 is `Input(1)`.
    pub operands: Vec<ValueId>,
    /// The inputs and operands that are not stored, but read from their source through an index map.
    pub views: Vec<View>,
    /// The values that the kernel computes.
    pub outputs: Vec<ValueId>,
    /// The origins of the steps that the kernel implements, ascending. See [`attache_gpu_ir::Step::origin`].
    pub origins: Vec<usize>,
}

impl Kernel {
    /// Returns the kernel that performs the primitive alone.
    #[must_use]
    pub fn of(primitive: Primitive, inputs: Vec<ValueId>, outputs: Vec<ValueId>, origins: Vec<usize>) -> Self {
        let epilogue = Epilogue::Float(Expression::Input(0));
        let (prologue, maps, operands, views) = (None, Vec::new(), Vec::new(), Vec::new());
        Self { primitive, inputs, prologue, maps, epilogue, operands, views, outputs, origins }
    }

    /// Returns a boxed iterator over the values that the kernel and those within it read from memory. For a view, this is
    /// its source.
    #[must_use]
    pub fn reads(&self) -> Box<dyn Iterator<Item = ValueId> + '_> {
        let made = usize::from(self.prologue.is_some());
        let own = self.inputs[made..].iter().chain(&self.operands).map(|id| self.source(*id));
        let stored = own.filter(|id| self.computed(*id).is_none());
        Box::new(stored.chain(self.within().flat_map(Kernel::reads)))
    }

    /// Returns the kernels whose elements this kernel computes where it would otherwise load them.
    pub(crate) fn within(&self) -> impl Iterator<Item = &Kernel> {
        self.maps.iter().chain(self.prologue.as_deref())
    }

    /// Whether the prologue is computed by work groups that keep whole rows, see [`staged_rows`] and [`scales_rows`], and not
    /// for each pixel of an image.
    pub(crate) fn has_rows(&self) -> bool {
        let makes_rows = |first: &Kernel| !matches!(first.primitive, Primitive::Convolution(_) | Primitive::Window(_));
        self.prologue.as_deref().is_some_and(makes_rows)
    }

    /// Returns the convolution of the same data, by another filter of the same shape, whose results are an operand of this
    /// kernel, a convolution: the products of a gated layer.
    pub(crate) fn twin(&self) -> Option<&Kernel> {
        self.maps.iter().find(|map| matches!(map.primitive, Primitive::Convolution(_)))
    }

    /// Makes another kernel, whose output nothing else reads, the prologue of this one.
    pub(crate) fn take_prologue(&mut self, first: Kernel) {
        self.take_over(&first);
        self.prologue = Some(Box::new(first));
    }

    /// Makes another kernel, whose output nothing else reads, one of this kernel's maps.
    pub(crate) fn take_map(&mut self, map: Kernel) {
        self.take_over(&map);
        self.maps.push(map);
    }

    /// Adds the views and the origins of a kernel that becomes a part of this one.
    fn take_over(&mut self, part: &Kernel) {
        let views: Vec<View> = part.views.iter().filter(|view| !self.views.contains(view)).cloned().collect();
        self.views.extend(views);
        self.origins.extend(&part.origins);
        self.origins.sort_unstable();
        self.origins.dedup();
    }

    /// Returns the number of buffers that the kernel reads. A value that is read as two different operands is bound twice
    /// and counts twice. With a prologue for each pixel, the filters and biases of both kernels are packed into one buffer.
    pub(crate) fn bindings(&self) -> usize {
        match self.prologue.as_deref().filter(|_| !self.has_rows()) {
            None => self.reads().count(),
            Some(first) => 2 + self.operands.len() + first.operands.len(),
        }
    }

    /// Returns the index of the map that computes a value where this kernel loads it; `None` if the value is stored.
    pub(crate) fn computed(&self, id: ValueId) -> Option<usize> {
        self.maps.iter().position(|map| map.outputs[0] == id)
    }

    /// Returns the value that stores the elements of an input or operand: the source of its view, or the
    /// value itself if it has no view.
    #[must_use]
    pub fn source(&self, id: ValueId) -> ValueId {
        self.views.iter().find(|view| view.value == id).map_or(id, |view| view.source)
    }
}

/// A value that is not stored, but read from its source through an index map.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// The value that is not stored.
    pub value: ValueId,
    /// The stored value from which the elements are read.
    pub source: ValueId,
    /// Maps the value's coordinates to those of the source.
    pub map: IndexMap,
}

impl View {
    /// Returns the source's element of the value's first element and the strides in the source along the value's axes,
    /// if the elements are at even distances; `None` otherwise. `source` is the source's shape.
    pub(crate) fn strides(&self, source: &[usize]) -> Option<(usize, Vec<usize>)> {
        if self.map.fill.is_some() {
            return None;
        }
        let (mut offset, mut strides) = (0, vec![0; self.map.output.len()]);
        for (index, stride) in self.map.coordinates.iter().zip(attache_base::strides(source)) {
            let (constant, terms) = index.linear()?;
            offset += constant * stride as i64;
            terms.iter().for_each(|(axis, factor)| strides[*axis] += factor * stride as i64);
        }
        let strides = strides.into_iter().map(|stride| usize::try_from(stride).ok()).collect::<Option<_>>()?;
        Some((usize::try_from(offset).ok()?, strides))
    }
}

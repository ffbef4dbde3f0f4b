//! The types of packed weights that can be stored in a file: those that operators keep in their caches and that are
//! large. Nothing but this list knows all of them.

use std::any::{Any, TypeId};
use std::fmt;
use std::sync::Arc;

use attache_base::storable::{Parts, Storable, StoredParts};
use attache_graph::CachedValue;
use attache_kernels::convolution::PackedFilter;
use attache_kernels::depthwise::PackedDepthwise;
use attache_kernels::gemm::PackedMatrix;
#[cfg(not(attache_small))]
use attache_kernels::quantized::{Int16x8Depthwise, Int16x8Epilogue};
use attache_kernels::quantized::{
    Int16x8Matrix, PackedIntegerDepthwise, PackedIntegerFilter, PackedIntegerTransposeFilter, PackedIntegers,
    Requantize,
};
use attache_kernels::transpose_convolution::PackedTransposeFilter;

use crate::shared::sequence::SequenceWeights;

/// A type of packed weights that can be stored.
pub struct PackedKind {
    /// The name, which no other type has.
    pub name: &'static str,
    type_id: fn() -> TypeId,
    store: for<'a> fn(&'a dyn Any, &mut Parts<'a>),
    load: fn(&mut StoredParts<'_>, &[usize]) -> Option<CachedValue>,
}

static KINDS: &[PackedKind] = &[
    kind::<PackedMatrix>("matrix"),
    kind::<Vec<PackedMatrix>>("matrices"),
    kind::<PackedFilter>("filter"),
    kind::<PackedDepthwise>("depthwise"),
    kind::<PackedTransposeFilter>("transpose"),
    kind::<PackedIntegers>("integers"),
    kind::<(PackedIntegers, Requantize)>("integers, requantized"),
    kind::<Vec<PackedIntegers>>("matrices of integers"),
    kind::<PackedIntegerFilter>("integer filter"),
    kind::<(PackedIntegerFilter, Requantize)>("integer filter, requantized"),
    kind::<PackedIntegerDepthwise>("integer depthwise"),
    kind::<(PackedIntegerDepthwise, Requantize)>("integer depthwise, requantized"),
    kind::<(PackedIntegerTransposeFilter, Requantize)>("integer transpose, requantized"),
    kind::<Vec<Int16x8Matrix>>("16-bit matrices"),
    // The smallest libraries make them at each start.
    #[cfg(not(attache_small))]
    kind::<(Int16x8Matrix, Int16x8Epilogue)>("16-bit matrix, requantized"),
    #[cfg(not(attache_small))]
    kind::<(Vec<Int16x8Matrix>, Int16x8Epilogue)>("16-bit matrices, requantized"),
    #[cfg(not(attache_small))]
    kind::<(Int16x8Depthwise, Int16x8Epilogue)>("16-bit depthwise, requantized"),
    kind::<Arc<SequenceWeights>>("sequence"),
];

const fn kind<T: Storable + Send + Sync + 'static>(name: &'static str) -> PackedKind {
    fn store<'a, T: Storable + 'static>(value: &'a dyn Any, parts: &mut Parts<'a>) {
        if let Some(value) = value.downcast_ref::<T>() {
            value.store(parts);
        }
    }
    fn load<T: Storable + Send + Sync + 'static>(
        parts: &mut StoredParts<'_>,
        parameters: &[usize],
    ) -> Option<CachedValue> {
        let value = T::load(parts, parameters).filter(|_| parts.is_empty())?;
        Some(Arc::new(value))
    }
    PackedKind { name, type_id: TypeId::of::<T>, store: store::<T>, load: load::<T> }
}

impl PackedKind {
    /// Returns all kinds.
    #[must_use]
    pub fn all() -> &'static [Self] {
        KINDS
    }

    /// Returns the kind of values of this type; `None` for a type that is not stored.
    #[must_use]
    pub fn of(type_id: TypeId) -> Option<&'static Self> {
        KINDS.iter().find(|kind| (kind.type_id)() == type_id)
    }

    /// Returns what to store of a value, which must be of this kind.
    #[must_use]
    pub fn store<'a>(&self, value: &'a CachedValue) -> Parts<'a> {
        let mut parts = Parts::default();
        (self.store)(&**value, &mut parts);
        parts
    }

    /// Reads a value that was made for these parameters. `None` if the parts are not one.
    #[must_use]
    pub fn load(&self, mut parts: StoredParts<'_>, parameters: &[usize]) -> Option<CachedValue> {
        (self.load)(&mut parts, parameters)
    }
}

impl fmt::Debug for PackedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PackedKind").field(&self.name).finish()
    }
}

#![allow(unsafe_code)]
//! Which objects of the library there are, by their addresses, so that null, deleted and foreign pointers are errors
//! instead of crashes, and so that a tensor finds its interpreter.

use std::collections::BTreeMap;
use std::mem::size_of;
use std::sync::{PoisonError, RwLock};

use attache_abi::TfLiteTensor;

use crate::fault::Fault;

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Model,
    Options,
    Interpreter,
    SignatureRunner,
    CpuDelegate,
    ExternalDelegate,
    #[cfg(feature = "gpu")]
    GpuDelegate,
    WeightsCache,
    BackendBuffer,
    Synchronization,
    CompiledModel,
    /// The tensors of a subgraph of an interpreter.
    Tensors,
}

/// A type of which C code holds pointers.
pub(crate) trait Object {
    const KIND: Kind;
    /// Its name in C.
    const NAME: &'static str;
}

#[derive(Clone, Copy)]
struct Entry {
    end: usize,
    kind: Kind,
    owner: Owner,
}

/// Whose tensors an entry has: the address of the interpreter, and the index of the subgraph.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Owner {
    pub(crate) interpreter: usize,
    pub(crate) subgraph: usize,
}

/// The objects by the address of their first byte.
static LIVE: RwLock<BTreeMap<usize, Entry>> = RwLock::new(BTreeMap::new());

fn insert(start: usize, bytes: usize, kind: Kind, owner: Owner) {
    let entry = Entry { end: start + bytes.max(1), kind, owner };
    LIVE.write().unwrap_or_else(PoisonError::into_inner).insert(start, entry);
}

fn remove(start: usize, kind: Kind) -> bool {
    let mut live = LIVE.write().unwrap_or_else(PoisonError::into_inner);
    let is = live.get(&start).is_some_and(|entry| entry.kind == kind);
    is && live.remove(&start).is_some()
}

fn is_live(start: usize, kind: Kind) -> bool {
    let live = LIVE.read().unwrap_or_else(PoisonError::into_inner);
    live.get(&start).is_some_and(|entry| entry.kind == kind)
}

/// Hands an object to C code.
pub(crate) fn give<T: Object>(object: Box<T>) -> *mut T {
    let pointer = Box::into_raw(object);
    insert(pointer.addr(), size_of::<T>(), T::KIND, Owner::default());
    pointer
}

/// Returns the object at a pointer that C code passes.
pub(crate) fn get<'a, T: Object>(pointer: *const T) -> Result<&'a T, Fault> {
    check::<T>(pointer)?;
    // SAFETY: an object of this type is at the address, and the caller of the C function does not delete it meanwhile.
    Ok(unsafe { &*pointer })
}

/// Returns the object at a pointer that C code passes, to be changed.
pub(crate) fn get_mut<'a, T: Object>(pointer: *mut T) -> Result<&'a mut T, Fault> {
    check::<T>(pointer)?;
    // SAFETY: an object of this type is at the address, and objects that change in place are used by one thread at a time.
    Ok(unsafe { &mut *pointer })
}

/// Takes an object back from C code, to delete it. Null is no object and no error.
pub(crate) fn take<T: Object>(pointer: *mut T) -> Result<Option<Box<T>>, Fault> {
    if pointer.is_null() {
        return Ok(None);
    }
    if !remove(pointer.addr(), T::KIND) {
        return Err(dead::<T>());
    }
    // SAFETY: `give` made the pointer from a box of this type, and the entry was there, so it was not taken before.
    Ok(Some(unsafe { Box::from_raw(pointer) }))
}

/// Whether C code holds an object of this kind at an address.
pub(crate) fn is<T: Object>(pointer: *const T) -> bool {
    is_live(pointer.addr(), T::KIND)
}

fn check<T: Object>(pointer: *const T) -> Result<(), Fault> {
    if pointer.is_null() {
        return Err(Fault::new(format!("null where a {} is expected", T::NAME)));
    }
    if is(pointer) { Ok(()) } else { Err(dead::<T>()) }
}

fn dead<T: Object>() -> Fault {
    Fault::new(format!("a pointer that is no {}, or one that was deleted", T::NAME))
}

/// Notes the tensors of a subgraph.
pub(crate) fn note_tensors(tensors: *const TfLiteTensor, count: usize, owner: Owner) {
    insert(tensors.addr(), count * size_of::<TfLiteTensor>(), Kind::Tensors, owner);
}

/// Forgets the tensors that [`note_tensors`] noted.
pub(crate) fn forget_tensors(tensors: *const TfLiteTensor) {
    remove(tensors.addr(), Kind::Tensors);
}

/// Returns the interpreter and the subgraph of a tensor, and its index in the subgraph; `None` if the tensor is of no
/// interpreter, as those that a program makes itself or that operators and delegates get.
pub(crate) fn owner_of(tensor: *const TfLiteTensor) -> Option<(Owner, usize)> {
    let live = LIVE.read().unwrap_or_else(PoisonError::into_inner);
    let (start, entry) = live.range(..=tensor.addr()).next_back()?;
    let is = entry.kind == Kind::Tensors && tensor.addr() < entry.end;
    is.then(|| (entry.owner, (tensor.addr() - start) / size_of::<TfLiteTensor>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Thing(u64);

    impl Object for Thing {
        const KIND: Kind = Kind::BackendBuffer;
        const NAME: &'static str = "Thing";
    }

    #[test]
    fn objects_that_are_not_there_are_errors() {
        assert!(get::<Thing>(std::ptr::null()).is_err());
        let thing = give(Box::new(Thing(7)));
        assert_eq!(get(thing).unwrap().0, 7);
        assert_eq!(take(thing).unwrap().unwrap().0, 7);
        assert!(get(thing).is_err() && take(thing).is_err());
        assert!(take::<Thing>(std::ptr::null_mut()).unwrap().is_none());
    }

    #[test]
    fn a_tensor_finds_its_interpreter() {
        let tensors = [TfLiteTensor::empty(), TfLiteTensor::empty()];
        note_tensors(tensors.as_ptr(), 2, Owner { interpreter: 9, subgraph: 3 });
        let (owner, index) = owner_of(&tensors[1]).unwrap();
        assert_eq!((owner.interpreter, owner.subgraph, index), (9, 3, 1));
        forget_tensors(tensors.as_ptr());
        assert!(owner_of(&tensors[1]).is_none());
    }
}

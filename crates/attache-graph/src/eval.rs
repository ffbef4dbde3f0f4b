//! Evaluation: the interface through which an operator runs on the CPU. [`Eval`] provides inputs and outputs
//! as slices, threads, a cache for packed weights, and access to the interpreter.

use std::any::{Any, TypeId};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use attache_base::{
    Constant, DataType, Element, IntegerRounding, Parallel, Quantization, Shape, SharedBuffer, Strings, strings,
};

use crate::{Band, HashTable, OpError};

/// An input tensor of an evaluation. Its bytes are aligned for the element type.
#[derive(Clone, Copy, Debug)]
pub struct TensorRef<'a> {
    /// Type of the elements.
    pub data_type: DataType,
    /// Extents per axis, outermost first.
    pub shape: &'a Shape,
    /// The elements in row-major order, in exactly as many bytes as the shape needs. Of a tensor of strings, all bytes
    /// ([`Strings`]).
    pub bytes: &'a [u8],
    /// Quantization parameters; `None` for a tensor that is not quantized.
    pub quantization: Option<&'a Quantization>,
    /// Whether the tensor is a constant of the model, so that its value is the same in every run.
    pub is_constant: bool,
}

/// The elements of a tensor of signed integers of 8 to 64 bits.
#[derive(Clone, Copy, Debug)]
pub struct SignedIntegers<'a> {
    bytes: &'a [u8],
    /// The size of an integer in bytes.
    size: usize,
}

impl SignedIntegers<'_> {
    /// Returns the number of integers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() / self.size
    }

    /// Whether there are no integers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns an integer, widened to 64 bits.
    ///
    /// # Panics
    ///
    /// Panics where there is none with this index.
    #[must_use]
    pub fn get(&self, index: usize) -> i64 {
        let bytes = &self.bytes[index * self.size..][..self.size];
        match *bytes {
            [a] => i64::from(a as i8),
            [a, b] => i64::from(i16::from_ne_bytes([a, b])),
            [a, b, c, d] => i64::from(i32::from_ne_bytes([a, b, c, d])),
            [a, b, c, d, e, f, g, h] => i64::from_ne_bytes([a, b, c, d, e, f, g, h]),
            _ => unreachable!("integers have 1 to 8 bytes"),
        }
    }
}

impl<'a> From<&'a [i64]> for SignedIntegers<'a> {
    fn from(integers: &'a [i64]) -> Self {
        Self { bytes: bytemuck::cast_slice(integers), size: size_of::<i64>() }
    }
}

/// An output tensor of an evaluation. Its bytes are aligned for the element type, and their initial content
/// is arbitrary. A tensor of strings has no bytes yet: [`Eval::set_strings`] gives it some.
#[derive(Debug)]
pub struct TensorMut<'a> {
    /// Type of the elements.
    pub data_type: DataType,
    /// Extents per axis, outermost first.
    pub shape: &'a Shape,
    /// Memory for the elements in row-major order, exactly as many bytes as the shape needs.
    pub bytes: &'a mut [u8],
    /// Quantization parameters; `None` for a tensor that is not quantized.
    pub quantization: Option<&'a Quantization>,
}

/// A tensor that is passed by reference: to and from subgraphs, and to and from variables. Clones share the elements.
#[derive(Clone, Debug)]
pub struct PassedTensor {
    /// Type of the elements.
    pub data_type: DataType,
    /// Extents per axis, outermost first.
    pub shape: Shape,
    /// The elements in row-major order, in exactly as many bytes as the shape needs. Of a tensor of strings, all bytes
    /// ([`Strings`]).
    pub bytes: SharedBuffer,
}

impl PassedTensor {
    /// Returns a constant as a tensor that shares its memory. `None` if it has too few bytes, or if memory to align them
    /// cannot be allocated.
    #[must_use]
    pub fn from_constant(constant: &Constant) -> Option<Self> {
        let bytes = SharedBuffer::constant(constant.aligned_bytes()?);
        Some(Self { data_type: constant.data_type, shape: constant.shape.clone(), bytes })
    }

    /// Returns the tensor as a constant that shares its memory.
    #[must_use]
    pub fn to_constant(&self) -> Constant {
        Constant { data_type: self.data_type, shape: self.shape.clone(), bytes: self.bytes.to_bytes() }
    }
}

impl<'a> TensorRef<'a> {
    /// Returns the elements in row-major order.
    ///
    /// # Errors
    ///
    /// Fails if `T` does not represent the element type.
    pub fn values<T: Element>(&self) -> Result<&'a [T], OpError> {
        typed(self.data_type, T::DATA_TYPE)?;
        bytemuck::try_cast_slice(self.bytes).map_err(|error| OpError::invalid(format!("the tensor's bytes: {error}")))
    }

    /// Returns the elements of a tensor of signed integers of 8 to 64 bits, widened to 64 bits.
    ///
    /// # Errors
    ///
    /// Fails where the elements are of another type, or where there is no memory for them.
    pub fn integers(&self) -> Result<Vec<i64>, OpError> {
        let (integers, mut widened) = (self.signed_integers()?, Vec::new());
        let no_memory = |_| OpError::out_of_memory(format!("no memory for {} integers of 64 bits", integers.len()));
        widened.try_reserve_exact(integers.len()).map_err(no_memory)?;
        widened.extend((0..integers.len()).map(|index| integers.get(index)));
        Ok(widened)
    }

    /// Returns the elements of a tensor of signed integers of 8 to 64 bits, to be read one by one.
    ///
    /// # Errors
    ///
    /// Fails where the elements are of another type.
    pub fn signed_integers(&self) -> Result<SignedIntegers<'a>, OpError> {
        if !matches!(self.data_type, DataType::Int64 | DataType::Int16 | DataType::Int8) {
            typed(self.data_type, DataType::Int32)?;
        }
        Ok(SignedIntegers { bytes: self.bytes, size: self.data_type.bits().unwrap_or(8) / 8 })
    }

    /// Returns the elements of a `STRING` tensor.
    ///
    /// # Errors
    ///
    /// Fails where the elements are of another type, or their bytes are damaged.
    pub fn strings(&self) -> Result<Strings<'a>, OpError> {
        typed(self.data_type, DataType::String)?;
        let elements = self.shape.elements();
        Strings::new(self.bytes, elements).map_err(|error| OpError::invalid(format!("a tensor of strings: {error}")))
    }
}

impl TensorMut<'_> {
    /// Returns the elements for writing, in row-major order.
    ///
    /// # Errors
    ///
    /// Fails if `T` does not represent the element type.
    pub fn values<T: Element>(&mut self) -> Result<&mut [T], OpError> {
        typed(self.data_type, T::DATA_TYPE)?;
        bytemuck::try_cast_slice_mut(self.bytes)
            .map_err(|error| OpError::invalid(format!("the tensor's bytes: {error}")))
    }
}

fn typed(is: DataType, expected: DataType) -> Result<(), OpError> {
    if is == expected {
        return Ok(());
    }
    Err(OpError::unsupported(format!("a tensor of type {is} where {expected} is implemented")))
}

/// Services of the interpreter that an operator can use during its evaluation: other subgraphs, outputs of
/// unknown shape, and variables.
pub trait Host {
    /// Runs another subgraph of the model on these inputs and returns its outputs.
    ///
    /// # Errors
    ///
    /// Fails where the subgraph fails, or where there is no interpreter.
    fn run_subgraph(&mut self, subgraph: usize, inputs: Vec<PassedTensor>) -> Result<Vec<PassedTensor>, OpError>;

    /// Returns how results of quantized operators are rounded.
    fn rounding(&self) -> IntegerRounding {
        IntegerRounding::default()
    }

    /// Returns the rows of the output that are computed, where an operator that has [row uses](crate::Op::row_uses) computes
    /// some alone; `None` if it computes all.
    fn band(&self) -> Option<Band> {
        None
    }

    /// Allocates `size` bytes for the output with index `output`, whose shape or size `infer` can't tell even from the
    /// input values, and returns them for the operator to write. The output has this shape.
    ///
    /// # Errors
    ///
    /// Fails if there is no such output, if it exceeds a limit, if the memory cannot be allocated, or if there is no
    /// interpreter.
    fn make_output(&mut self, output: usize, shape: Shape, size: usize) -> Result<&mut [u8], OpError> {
        let _ = (output, shape, size);
        Err(OpError::unsupported(NO_HOST))
    }

    /// Sets the shape and the bytes of an output as [`make_output`](Host::make_output) does.
    ///
    /// # Errors
    ///
    /// As [`make_output`](Host::make_output).
    fn set_output(&mut self, output: usize, shape: Shape, bytes: &[u8]) -> Result<(), OpError> {
        self.make_output(output, shape, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    /// Sets the new value of the variable tensor that is the input with index `input`. The interpreter copies
    /// `bytes`, which have the size of the variable, into the variable after the evaluation.
    ///
    /// # Errors
    ///
    /// Fails where there is no interpreter.
    fn set_state(&mut self, input: usize, bytes: &[u8]) -> Result<(), OpError> {
        let _ = (input, bytes);
        Err(OpError::unsupported(NO_HOST))
    }

    /// Runs a subgraph without inputs and outputs, unless an earlier call has run it already.
    ///
    /// # Errors
    ///
    /// Fails where the subgraph fails, or where there is no interpreter.
    fn run_subgraph_once(&mut self, subgraph: usize) -> Result<(), OpError> {
        let _ = subgraph;
        Err(OpError::unsupported(NO_HOST))
    }

    /// Returns the handle of the resource variable with this name in this container. Calls with the same
    /// names return the same handle.
    ///
    /// # Errors
    ///
    /// Fails where there is no interpreter.
    fn variable_handle(&mut self, container: &str, name: &str) -> Result<Handle, OpError> {
        let _ = (container, name);
        Err(OpError::unsupported(NO_HOST))
    }

    /// Returns the value of a resource variable; `None` before its first assignment.
    ///
    /// # Errors
    ///
    /// Fails if no variable has this handle, or if there is no interpreter.
    fn variable(&self, handle: Handle) -> Result<Option<&PassedTensor>, OpError> {
        let _ = handle;
        Err(OpError::unsupported(NO_HOST))
    }

    /// Assigns a value of any type and shape to a resource variable.
    ///
    /// # Errors
    ///
    /// Fails if no variable has this handle, or if there is no interpreter.
    fn set_variable(&mut self, handle: Handle, value: PassedTensor) -> Result<(), OpError> {
        let _ = (handle, value);
        Err(OpError::unsupported(NO_HOST))
    }

    /// Assigns a copy of a tensor to a resource variable, to the memory of its value if that is of the same type and shape.
    ///
    /// # Errors
    ///
    /// Fails if no variable has this handle, if memory for the copy cannot be allocated, or if there is no interpreter.
    fn copy_to_variable(&mut self, handle: Handle, value: &TensorRef<'_>) -> Result<(), OpError> {
        let _ = (handle, value);
        Err(OpError::unsupported(NO_HOST))
    }

    /// Returns the handle of the hash table with this number. Calls with the same number return the same handle.
    ///
    /// # Errors
    ///
    /// Fails where there is no interpreter.
    fn table_handle(&mut self, table: i32) -> Result<Handle, OpError> {
        let _ = table;
        Err(OpError::unsupported(NO_HOST))
    }

    /// Returns a hash table; `None` before it is filled.
    ///
    /// # Errors
    ///
    /// Fails if no table has this handle, or if there is no interpreter.
    fn table(&self, handle: Handle) -> Result<Option<Arc<HashTable>>, OpError> {
        let _ = handle;
        Err(OpError::unsupported(NO_HOST))
    }

    /// Fills a hash table.
    ///
    /// # Errors
    ///
    /// Fails if no table has this handle, or if there is no interpreter.
    fn set_table(&mut self, handle: Handle, table: Arc<HashTable>) -> Result<(), OpError> {
        let _ = (handle, table);
        Err(OpError::unsupported(NO_HOST))
    }
}

/// Error text of the default methods of [`Host`], for hosts without an interpreter.
const NO_HOST: &str = "it runs only within an interpreter";

/// Identifies a resource variable or a hash table of an interpreter. An element of a tensor of type `RESOURCE` is a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(pub u64);

impl Handle {
    /// Size of an encoded handle in bytes.
    pub const SIZE: usize = 8;

    /// Decodes the bytes of a `RESOURCE` tensor with one element.
    ///
    /// # Errors
    ///
    /// Fails if `bytes` are not exactly one handle.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, OpError> {
        let bytes =
            bytes.try_into().map_err(|_| OpError::invalid("a tensor of resources that does not hold just one"))?;
        Ok(Self(u64::from_le_bytes(bytes)))
    }

    /// Encodes the handle as the bytes of one element of a `RESOURCE` tensor.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::SIZE] {
        self.0.to_le_bytes()
    }
}

/// Storage of a node for a value that its operator computes in one run and uses again in later runs: packed
/// weights and tables. The value follows from the node's constants and attributes alone, so that all nodes with
/// the same [`SharedCache`] use one copy of it.
#[derive(Default)]
pub struct Cache {
    kept: Option<CachedValue>,
    shared: Option<Arc<SharedCache>>,
}

/// A value in a cache.
pub type CachedValue = Arc<dyn Any + Send + Sync>;

/// Values that the caches of a node have in common: in all interpreters of a compiled model, and for all shapes
/// of its inputs.
#[derive(Default)]
pub struct SharedCache {
    variants: Mutex<Vec<Variant>>,
    stored: Option<Box<dyn StoredValues>>,
}

/// The values of a node that an earlier process has stored.
pub trait StoredValues: Send + Sync {
    /// Returns the stored value of this type for these parameters; `None` if there is none.
    fn find(&self, type_id: TypeId, parameters: &[usize]) -> Option<CachedValue>;

    /// Takes note of a value that was made for these parameters because it was not found, so that it can be stored.
    fn made(&self, type_id: TypeId, parameters: &[usize], value: &CachedValue);
}

/// How many values a shared cache keeps for one node. Where shapes change from run to run without end, later values are kept
/// only by the caches that made them.
const MOST_VARIANTS: usize = 64;

fn keep(variants: &mut Vec<Variant>, variant: Variant) {
    if variants.len() < MOST_VARIANTS {
        variants.push(variant);
    }
}

/// One value of a [`SharedCache`].
struct Variant {
    /// The parameters besides the node's constants and attributes that the value was made for.
    parameters: Vec<usize>,
    value: CachedValue,
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").finish_non_exhaustive()
    }
}

impl fmt::Debug for SharedCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedCache").finish_non_exhaustive()
    }
}

impl SharedCache {
    /// Creates a cache that looks for values that it lacks among stored ones.
    #[must_use]
    pub fn new(stored: Option<Box<dyn StoredValues>>) -> Self {
        Self { variants: Mutex::default(), stored }
    }

    /// Whether nothing is cached yet.
    pub fn is_empty(&self) -> bool {
        self.variants().is_empty()
    }

    /// Returns the value of this type for these parameters. If there is none, makes it, while other threads that
    /// need a value of this cache wait.
    fn get_or_make(
        &self,
        type_id: TypeId,
        parameters: Vec<usize>,
        make: &mut dyn FnMut() -> CachedValue,
    ) -> CachedValue {
        let mut variants = self.variants();
        if let Some(value) = self.find(&mut variants, type_id, &parameters) {
            return value;
        }
        let value = make();
        if let Some(stored) = &self.stored {
            stored.made(type_id, &parameters, &value);
        }
        keep(&mut variants, Variant { parameters, value: value.clone() });
        value
    }

    /// Returns the value of this type for these parameters, which may be a stored one; `None` if there is none.
    fn find(&self, variants: &mut Vec<Variant>, type_id: TypeId, parameters: &[usize]) -> Option<CachedValue> {
        let fits = |variant: &&Variant| variant.parameters == parameters && (*variant.value).type_id() == type_id;
        if let Some(variant) = variants.iter().find(fits) {
            return Some(variant.value.clone());
        }
        let stored = self.stored.as_ref()?.find(type_id, parameters);
        let value = stored.filter(|value| (**value).type_id() == type_id)?;
        keep(variants, Variant { parameters: parameters.to_vec(), value: value.clone() });
        Some(value)
    }

    fn variants(&self) -> MutexGuard<'_, Vec<Variant>> {
        // A panic while a value was made has added nothing.
        self.variants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cache {
    /// Creates a cache that has its values in common with all others on `shared`.
    pub fn new(shared: Arc<SharedCache>) -> Self {
        Self { kept: None, shared: Some(shared) }
    }

    /// Forgets the value that this cache returned last, because shapes of the node's inputs or outputs have
    /// changed. Values in the shared cache stay there.
    pub fn clear(&mut self) {
        self.kept = None;
    }

    /// Returns the value of type `T` that [`Cache::keep_own`] kept; `None` if there is none.
    #[must_use]
    pub fn own<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.kept.as_ref()?.downcast_ref()
    }

    /// Keeps a value for the runs of this interpreter alone, in place of what this cache returned last.
    pub fn keep_own<T: Any + Send + Sync>(&mut self, value: T) {
        self.kept = Some(Arc::new(value));
    }

    /// Returns the value of type `T` that this cache returned last, or the one for these parameters that is in the
    /// shared cache; `None` if there is none.
    pub fn get_for<T: Any + Send + Sync>(&mut self, parameters: impl FnOnce() -> Vec<usize>) -> Option<&T> {
        if !self.keeps(TypeId::of::<T>()) {
            let shared = self.shared.as_ref()?;
            self.kept = shared.find(&mut shared.variants(), TypeId::of::<T>(), &parameters());
        }
        self.kept.as_ref()?.downcast_ref()
    }

    /// Returns the cached value of type `T`. If there is none, computes it with `make`, which must depend on
    /// nothing but constant inputs and attributes of the node.
    pub fn get_or_make<T: Any + Send + Sync>(&mut self, make: impl FnOnce() -> T) -> &T {
        self.get_or_make_for(Vec::new, make)
    }

    /// Returns the cached value of type `T` like [`Cache::get_or_make`]. `make` may also depend on the numbers
    /// that `parameters` returns, which follow from the shapes of inputs and outputs.
    pub fn get_or_make_for<T: Any + Send + Sync>(
        &mut self,
        parameters: impl FnOnce() -> Vec<usize>,
        make: impl FnOnce() -> T,
    ) -> &T {
        if !self.keeps(TypeId::of::<T>()) {
            let mut make = Some(make);
            let mut make = || Arc::new(make.take().expect("it is called once")()) as CachedValue;
            self.keep(TypeId::of::<T>(), parameters(), &mut make);
        }
        self.kept.as_ref().and_then(|kept| kept.downcast_ref()).expect("just made with this type")
    }

    /// Whether the value that was returned last is of this type.
    fn keeps(&self, type_id: TypeId) -> bool {
        self.kept.as_ref().is_some_and(|kept| (**kept).type_id() == type_id)
    }

    /// Keeps the value of this type for these parameters, which `make` makes if there is none. Compiled once for all types.
    fn keep(&mut self, type_id: TypeId, parameters: Vec<usize>, make: &mut dyn FnMut() -> CachedValue) {
        self.kept = Some(match &self.shared {
            Some(shared) => shared.get_or_make(type_id, parameters, make),
            None => make(),
        });
    }
}

/// Everything that one evaluation of an operator on the CPU reads, writes and uses.
pub struct Eval<'a> {
    /// The inputs in the model file's order; `None` for an optional input that is left out, and for the one that
    /// [`Op::updates`](crate::Op::updates) names where the output has its elements already.
    pub inputs: Vec<Option<TensorRef<'a>>>,
    /// The outputs in the model file's order. Empty if their shapes can't be inferred, in which case the
    /// operator calls [`Host::set_output`]. Strings are set by [`Eval::set_strings`].
    pub outputs: Vec<TensorMut<'a>>,
    /// The node's cache, kept from run to run, and cleared ([`Cache::clear`]) when a shape of an input or output
    /// changes.
    pub cache: &'a mut Cache,
    /// The threads on which kernels run their tasks.
    pub parallel: &'a dyn Parallel,
    /// The services of the interpreter that runs the operator.
    pub host: &'a mut dyn Host,
}

impl fmt::Debug for Eval<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Eval").field("inputs", &self.inputs).field("outputs", &self.outputs).finish_non_exhaustive()
    }
}

impl<'a> Eval<'a> {
    /// Returns the input with this index, which the operator requires.
    ///
    /// # Errors
    ///
    /// Fails if the input is left out or does not exist.
    pub fn input(&self, index: usize) -> Result<TensorRef<'a>, OpError> {
        self.optional(index).ok_or_else(|| OpError::invalid(format!("input {index} is missing")))
    }

    /// Sets the elements of the output with index `output`, a tensor of strings. Their number must be that of the
    /// output's shape.
    ///
    /// # Errors
    ///
    /// Fails if the output is no tensor of strings, if their number differs, or if they exceed 31 bits of offsets or a
    /// limit.
    pub fn set_strings<'s>(
        &mut self,
        output: usize,
        texts: impl ExactSizeIterator<Item = &'s [u8]> + Clone,
    ) -> Result<(), OpError> {
        let made = self.outputs.get(output).filter(|made| made.data_type == DataType::String);
        let shape = made.ok_or_else(|| OpError::invalid(format!("output {output} is no tensor of strings")))?.shape;
        if shape.elements() != texts.len() {
            return Err(OpError::invalid(format!("{} strings for an output of shape {shape}", texts.len())));
        }
        let size = strings::encoded_size(texts.clone());
        let size = size.ok_or_else(|| OpError::limit_exceeded("strings of more than 2 GiB cannot be addressed"))?;
        strings::encode(texts, self.host.make_output(output, shape.clone(), size)?);
        Ok(())
    }

    /// Returns the input with this index; `None` if it is left out or does not exist.
    #[must_use]
    pub fn optional(&self, index: usize) -> Option<TensorRef<'a>> {
        self.inputs.get(index).copied().flatten()
    }
}

//! A model as plain descriptors over the bytes of its file.
//!
//! Guarantees: every index in a descriptor is in range, the element counts and byte sizes of shapes do not overflow,
//! and a constant has at least the bytes that its shape requires (except sparse constants and types without a fixed
//! size). Weights stay in the file. The descriptors do not interpret operators.

use std::fmt;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use attache_base::{Bytes, Constant, DataType, Quantization, Shape};

use crate::error::ModelError;
use crate::read;
use crate::schema::{self, BuiltinOperator};

/// A model file, verified and checked. Cheap to clone.
#[derive(Clone)]
pub struct Model(Arc<Inner>);

struct Inner {
    bytes: Bytes,
    contents: Contents,
}

/// The contents of a file.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) description: String,
    pub(crate) subgraphs: Vec<Subgraph>,
    pub(crate) signatures: Vec<Signature>,
    pub(crate) metadata: Vec<Metadata>,
}

/// A graph of a model: its tensors, and its operators in execution order.
#[derive(Clone, Debug, Default)]
pub struct Subgraph {
    /// The name, often empty.
    pub name: String,
    /// All tensors; tensor indices elsewhere refer to this list.
    pub tensors: Vec<Tensor>,
    /// Tensors that the caller writes.
    pub inputs: Vec<usize>,
    /// Tensors that the caller reads.
    pub outputs: Vec<usize>,
    /// Operators in execution order.
    pub operators: Vec<Operator>,
}

/// A tensor of a subgraph.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// The name, not necessarily unique.
    pub name: String,
    /// Type of the elements.
    pub data_type: DataType,
    /// Extents, outermost first; 1 for extents that the signature leaves open.
    pub shape: Shape,
    /// As many extents as `shape`, -1 for those that the caller decides; `None` if the file has no signature.
    pub shape_signature: Option<Vec<i32>>,
    /// Whether the file marks the rank as known. Converters almost never set this flag; only an empty shape with the
    /// flag unset may mean that the rank is unknown.
    pub has_rank: bool,
    /// The value, if the file contains one. It has at least as many bytes as the shape requires, except for sparse
    /// tensors and for strings, resources and variants, whose bytes are passed on as stored.
    pub constant: Option<Constant>,
    /// Affine quantization: one scale, or one per index along an axis.
    pub quantization: Option<Quantization>,
    /// Quantization other than affine.
    pub quantization_details: QuantizationDetails,
    /// Whether the value persists from one run to the next.
    pub is_variable: bool,
    /// Whether the constant is stored in sparse form (described in [`Model::tensor_view`]).
    pub is_sparse: bool,
}

/// Quantization that is not described by scale and zero point alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuantizationDetails {
    /// No further quantization.
    #[default]
    None,
    /// Opaque bytes, defined by their producer.
    Custom,
    /// One scale per block of elements along an axis.
    Blockwise {
        /// The tensor with the scales.
        scales: usize,
        /// The tensor with the zero points, if any.
        zero_points: Option<usize>,
        /// Elements per block.
        block_size: usize,
        /// The axis that is split into blocks.
        axis: usize,
    },
    /// One scale per block along several axes.
    MultiAxis {
        /// The tensor with the scales.
        scales: usize,
        /// The tensor with the zero points, if any.
        zero_points: Option<usize>,
        /// Elements per block; 0 for no blocks.
        block_size: usize,
        /// The quantized axes.
        axes: Vec<usize>,
    },
    /// A kind that the schema does not have.
    Unknown(u8),
}

impl QuantizationDetails {
    /// A name for the kind, e.g. `blockwise`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::None => "affine",
            Self::Custom => "custom",
            Self::Blockwise { .. } => "blockwise",
            Self::MultiAxis { .. } => "multi-axis",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// An operator and its version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OperatorCode {
    /// The builtin operator, [`BuiltinOperator::CUSTOM`] for custom ones. Codes that the schema does not have are kept.
    pub builtin: BuiltinOperator,
    /// The custom operator's name; present if and only if `builtin` is [`BuiltinOperator::CUSTOM`].
    pub custom: Option<String>,
    /// Version of the operator's definition, starting at 1.
    pub version: i32,
}

impl OperatorCode {
    /// TensorFlow Lite's name, e.g. `CONV_2D`; the name of a custom operator; `BUILTIN_210` for a code without a name.
    pub fn name(&self) -> String {
        match (&self.custom, self.builtin.variant_name()) {
            (Some(custom), _) => custom.clone(),
            (None, Some(name)) => name.to_owned(),
            (None, None) => format!("BUILTIN_{}", self.builtin.0),
        }
    }
}

impl fmt::Display for OperatorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} version {}", self.name(), self.version)
    }
}

/// An operator of a subgraph. Its options are read through [`Model::operator_view`].
#[derive(Clone, Debug)]
pub struct Operator {
    /// The kind of operator, shared by all operators with the same code.
    pub code: Arc<OperatorCode>,
    /// Tensors that the operator reads; `None` for an omitted optional input.
    pub inputs: Vec<Option<usize>>,
    /// Tensors that the operator writes.
    pub outputs: Vec<usize>,
    /// Tensors that only carry quantization parameters of intermediate results.
    pub intermediates: Vec<usize>,
    /// Options of a custom operator, as stored in the file.
    pub custom_options: Option<Bytes>,
}

/// A named entry point: names for the inputs and outputs of a subgraph.
#[derive(Clone, Debug)]
pub struct Signature {
    /// The name, e.g. `serving_default`.
    pub key: String,
    /// Index of the subgraph that the signature runs.
    pub subgraph: usize,
    /// Names and tensor indices of the inputs.
    pub inputs: Vec<(String, usize)>,
    /// Names and tensor indices of the outputs.
    pub outputs: Vec<(String, usize)>,
}

/// A named blob.
#[derive(Clone, Debug)]
pub struct Metadata {
    /// The name, e.g. `min_runtime_version`.
    pub name: String,
    /// The bytes.
    pub bytes: Bytes,
}

/// Returns an error for paths that are not regular files. Opening a pipe would wait for a writer, and a device may have
/// no end.
fn check_regular(path: &Path) -> std::io::Result<()> {
    let kind = std::fs::metadata(path)?.file_type();
    let wrong = |text: &str| Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, text));
    match () {
        () if kind.is_file() => Ok(()),
        () if kind.is_dir() => wrong("this is a directory, not a file; name the .tflite file within"),
        () => wrong("this is a pipe or a device, not a file; copy the model to a file and name that"),
    }
}

/// Maps a file into memory.
#[allow(unsafe_code)]
fn map(path: &Path) -> std::io::Result<memmap2::Mmap> {
    check_regular(path)?;
    let file = File::open(path)?;
    // SAFETY: the map is read-only and private to this process. As with every mapped file, another process that
    // modifies or truncates the file while it is mapped violates the assumption that the bytes do not change. There is
    // no portable way to prevent that, and the map is what avoids copying the weights of large models.
    unsafe { memmap2::Mmap::map(&file) }
}

impl Model {
    /// Opens a file. It stays memory-mapped as long as a clone of the model or one of its constants exists, and must
    /// not be modified in that time (replace it by renaming a new file over it).
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read, is not a TensorFlow Lite model, is damaged or inconsistent, or uses
    /// unsupported features.
    pub fn from_path(path: impl AsRef<Path>) -> Result<Self, ModelError> {
        let path = path.as_ref();
        let open = || Self::open(Bytes::new(Arc::new(map(path).map_err(ModelError::io)?)));
        open().map_err(|error| error.at_path(path))
    }

    /// Reads a model from bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not a TensorFlow Lite model, are damaged or inconsistent, or use unsupported
    /// features.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Result<Self, ModelError> {
        Self::open(Bytes::from_vec(bytes.into()))
    }

    /// Reads a model from static bytes, e.g. those of `include_bytes!`, without a copy.
    ///
    /// # Errors
    ///
    /// As [`Model::from_bytes`].
    pub fn from_static(bytes: &'static [u8]) -> Result<Self, ModelError> {
        Self::open(Bytes::new(Arc::new(bytes)))
    }

    /// Reads a model from shared bytes without a copy.
    ///
    /// # Errors
    ///
    /// As [`Model::from_bytes`].
    pub fn from_shared(bytes: Arc<[u8]>) -> Result<Self, ModelError> {
        Self::open(Bytes::new(Arc::new(bytes)))
    }

    /// The owner of `bytes` must return the same bytes at every call (see `root`); all callers above pass plain memory.
    fn open(bytes: Bytes) -> Result<Self, ModelError> {
        let contents = read::read(&bytes)?;
        Ok(Self(Arc::new(Inner { bytes, contents })))
    }

    /// The bytes of the whole file.
    pub fn bytes(&self) -> &Bytes {
        &self.0.bytes
    }

    /// The producer's description of the model, often only the producer's name.
    pub fn description(&self) -> &str {
        &self.0.contents.description
    }

    /// The subgraphs, at least one. The first one runs unless a signature selects another.
    pub fn subgraphs(&self) -> &[Subgraph] {
        &self.0.contents.subgraphs
    }

    /// The named entry points.
    pub fn signatures(&self) -> &[Signature] {
        &self.0.contents.signatures
    }

    /// The named blobs.
    pub fn metadata(&self) -> &[Metadata] {
        &self.0.contents.metadata
    }

    /// The bytes of the first blob with this name.
    pub fn metadata_named(&self, name: &str) -> Option<&Bytes> {
        self.metadata().iter().find(|entry| entry.name == name).map(|entry| &entry.bytes)
    }

    /// Version of the schema; always 3, the only supported one.
    pub fn version(&self) -> u32 {
        read::SCHEMA_VERSION
    }

    #[allow(unsafe_code)]
    pub(crate) fn root(&self) -> schema::Model<'_> {
        // SAFETY: `open` verified these bytes, and their owner (a vector, a shared or static slice, a map) neither
        // moves nor changes them.
        unsafe { schema::root_as_model_unchecked(&self.0.bytes) }
    }

    fn subgraph_view(&self, subgraph: usize) -> schema::SubGraph<'_> {
        self.root().subgraphs().expect("an opened model has subgraphs").get(subgraph)
    }

    /// The flatbuffer view of an operator, for its options. It is verified as a flatbuffer, but the values in it are
    /// unchecked.
    ///
    /// # Panics
    ///
    /// Panics if there is no such operator.
    pub fn operator_view(&self, subgraph: usize, operator: usize) -> schema::Operator<'_> {
        self.subgraph_view(subgraph).operators().expect("the subgraph has operators").get(operator)
    }

    /// The flatbuffer view of a tensor, for fields that [`Tensor`] omits (sparsity, ranges). It is verified as a
    /// flatbuffer, but the values in it are unchecked.
    ///
    /// # Panics
    ///
    /// Panics if there is no such tensor.
    pub fn tensor_view(&self, subgraph: usize, tensor: usize) -> schema::Tensor<'_> {
        self.subgraph_view(subgraph).tensors().expect("the subgraph has tensors").get(tensor)
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operators: usize = self.subgraphs().iter().map(|subgraph| subgraph.operators.len()).sum();
        write!(f, "Model({:?}, {} subgraphs, {operators} operators)", self.bytes(), self.subgraphs().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_can_be_shared_between_threads() {
        fn check<T: Clone + Send + Sync + 'static>() {}
        check::<Model>();
    }

    #[test]
    fn operators_are_called_by_tensorflow_lites_names() {
        let code = |builtin, custom: Option<&str>| OperatorCode {
            builtin: BuiltinOperator(builtin),
            custom: custom.map(Into::into),
            version: 1,
        };
        assert_eq!(code(3, None).name(), "CONV_2D");
        assert_eq!(code(32, Some("Mine")).name(), "Mine");
        assert_eq!(code(210, None).to_string(), "BUILTIN_210 version 1");
    }
}

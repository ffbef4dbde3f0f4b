//! [`Model`], a checked model file, and the plain structs that describe its subgraphs, tensors, operators,
//! signatures and metadata.
//!
//! Guarantees: every index in a descriptor is in range, the element counts and byte sizes of shapes do not
//! overflow, and a constant has at least the bytes that its shape requires (except sparse constants and types
//! without a fixed size). Weights are not copied, apart from sparse ones: a constant refers to the bytes of the
//! file. Operator options are not interpreted.

use std::fmt;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use attache_base::{Bytes, Constant, DataType, Quantization, Shape};

use crate::error::ModelError;
use crate::read;
use crate::schema::{self, BuiltinOperator};

/// A model file that was verified and checked when it was opened. Clones are cheap: they share the file's
/// bytes and the descriptors.
#[derive(Clone)]
pub struct Model(Arc<Inner>);

struct Inner {
    bytes: Bytes,
    contents: Contents,
}

/// The descriptors read from a model file.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) description: String,
    pub(crate) subgraphs: Vec<Subgraph>,
    pub(crate) signatures: Vec<Signature>,
    pub(crate) metadata: Vec<Metadata>,
}

/// A graph of a model: its tensors, and its operators in execution order.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Subgraph {
    /// The name, often empty.
    pub name: String,
    /// All tensors; tensor indices elsewhere refer to this list.
    pub tensors: Vec<Tensor>,
    /// Indices of the tensors that the caller writes before a run.
    pub inputs: Vec<usize>,
    /// Indices of the tensors that the caller reads after a run.
    pub outputs: Vec<usize>,
    /// Operators in execution order.
    pub operators: Vec<Operator>,
}

/// A tensor of a subgraph.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Tensor {
    /// The name, not necessarily unique.
    pub name: String,
    /// Type of the elements.
    pub data_type: DataType,
    /// Extents as stored in the file, outermost first. Converters store 1 where `shape_signature` has -1.
    pub shape: Shape,
    /// The shape with -1 for each extent that the caller decides; it has as many extents as `shape`. `None`
    /// if the file stores no shape signature.
    pub shape_signature: Option<Vec<i32>>,
    /// Whether the file marks the rank as known. Converters almost never set this flag; only an empty shape with the
    /// flag unset may mean that the rank is unknown.
    pub has_rank: bool,
    /// The tensor's data, if the file contains it; that of a sparse tensor is expanded. It has at least as many bytes as
    /// the shape requires, except for sparse tensors that are not expanded and for strings, resources and variants, whose bytes are passed on as
    /// stored.
    pub constant: Option<Constant>,
    /// Parameters of affine quantization: one scale and zero point for the tensor, or one of each per index
    /// along an axis; `None` if the file stores no scales.
    pub quantization: Option<Quantization>,
    /// Quantization parameters other than scales and zero points, e.g. those of blockwise quantization.
    pub quantization_details: QuantizationDetails,
    /// Whether the value persists from one run to the next.
    pub is_variable: bool,
    /// Whether the constant is in sparse form (described in [`Model::tensor_view`]), because it is not expanded: its elements
    /// have less than a byte.
    pub is_sparse: bool,
    /// The data of a sparse tensor as the file stores it, where `constant` has it expanded.
    #[cfg(not(attache_small))]
    pub stored: Option<Bytes>,
}

/// Quantization that is not described by scale and zero point alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuantizationDetails {
    /// No parameters other than those of [`Tensor::quantization`].
    #[default]
    None,
    /// Custom quantization: bytes whose format the producer of the file defines. They are not kept here.
    Custom,
    /// Blockwise quantization: one scale per block of elements along one axis.
    Blockwise {
        /// Index of the tensor that holds the scales.
        scales: usize,
        /// Index of the tensor that holds the zero points, if there is one.
        zero_points: Option<usize>,
        /// Elements per block.
        block_size: usize,
        /// The axis that is split into blocks.
        axis: usize,
    },
    /// Quantization along several axes, with one scale per block of elements.
    MultiAxis {
        /// Index of the tensor that holds the scales.
        scales: usize,
        /// Index of the tensor that holds the zero points, if there is one.
        zero_points: Option<usize>,
        /// Elements per block; 0 for no blocks.
        block_size: usize,
        /// The quantized axes.
        axes: Vec<usize>,
    },
    /// A kind of quantization that the schema does not define, as its type code in the file.
    Unknown(u8),
}

impl QuantizationDetails {
    /// Returns the name of the kind of quantization, e.g. `blockwise`; `affine` for [`Self::None`].
    #[must_use]
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

/// The kind of an operator, builtin or custom, and its version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct OperatorCode {
    /// The builtin operator, [`BuiltinOperator::CUSTOM`] for custom ones. Codes that the schema does not have are kept.
    pub builtin: BuiltinOperator,
    /// The custom operator's name; present if and only if `builtin` is [`BuiltinOperator::CUSTOM`].
    pub custom: Option<String>,
    /// Version of the operator's definition, starting at 1.
    pub version: i32,
}

impl OperatorCode {
    /// Returns TensorFlow Lite's name of the operator, e.g. `CONV_2D`; the name of a custom operator;
    /// `BUILTIN_210` for code 210 if the schema has no name for it.
    #[must_use]
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
#[non_exhaustive]
pub struct Operator {
    /// The kind and version of the operator, shared by all operators with the same operator code.
    pub code: Arc<OperatorCode>,
    /// Indices of the tensors that the operator reads; `None` for an omitted optional input.
    pub inputs: Vec<Option<usize>>,
    /// Indices of the tensors that the operator writes.
    pub outputs: Vec<usize>,
    /// Indices of the tensors that only carry quantization parameters of intermediate results.
    pub intermediates: Vec<usize>,
    /// Options of a custom operator, as stored in the file.
    pub custom_options: Option<Bytes>,
}

/// A named entry point: names for the inputs and outputs of a subgraph.
#[derive(Clone, Debug)]
#[non_exhaustive]
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

/// A metadata entry of a model file: a name and bytes that are not interpreted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Metadata {
    /// The name, e.g. `min_runtime_version`.
    pub name: String,
    /// The entry's bytes, as stored in the file.
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

/// Maps a file into memory, read-only. The bytes stay mapped as long as a clone of them exists. The file must not be
/// modified in that time; renaming another file over it is no modification.
///
/// # Errors
///
/// If the file cannot be mapped.
#[allow(unsafe_code)]
pub fn map(file: &File) -> std::io::Result<Bytes> {
    // SAFETY: the map is read-only and private to this process. As with every mapped file, another process that
    // modifies or truncates the file while it is mapped violates the assumption that the bytes do not change. There is
    // no portable way to prevent that, and the map is what avoids copying the weights of large models.
    let map = unsafe { memmap2::Mmap::map(file) }?;
    Ok(Bytes::new(Arc::new(map)))
}

/// Opens a regular file and maps it into memory.
fn open_mapped(path: &Path) -> std::io::Result<Bytes> {
    check_regular(path)?;
    map(&File::open(path)?)
}

impl Model {
    /// Opens and checks a model file. The file stays memory-mapped as long as a clone of the model or one of
    /// its constants exists, and must not be modified in that time (replace it by renaming a new file over
    /// it).
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read, is not a TensorFlow Lite model, is damaged or inconsistent, or uses
    /// unsupported features.
    pub fn from_path(path: impl AsRef<Path>) -> Result<Self, ModelError> {
        let path = path.as_ref();
        let open = || Self::open(open_mapped(path).map_err(ModelError::io)?);
        open().map_err(|error| error.at_path(path))
    }

    /// Opens and checks a model given as the bytes of a model file. A vector is taken over without a copy.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not a TensorFlow Lite model, are damaged or inconsistent, or use unsupported
    /// features.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Result<Self, ModelError> {
        Self::open(Bytes::from_vec(bytes.into()))
    }

    /// Opens and checks a model given as static bytes, e.g. those of `include_bytes!`, without a copy.
    ///
    /// # Errors
    ///
    /// As [`Model::from_bytes`].
    pub fn from_static(bytes: &'static [u8]) -> Result<Self, ModelError> {
        Self::open(Bytes::new(Arc::new(bytes)))
    }

    /// Opens and checks a model given as shared bytes, without a copy.
    ///
    /// # Errors
    ///
    /// As [`Model::from_bytes`].
    pub fn from_shared(bytes: Arc<[u8]>) -> Result<Self, ModelError> {
        Self::open(Bytes::new(Arc::new(bytes)))
    }

    /// Checks the bytes of a model file. The owner of `bytes` must return the same bytes at every call (see
    /// `root`); all callers above pass plain memory.
    fn open(bytes: Bytes) -> Result<Self, ModelError> {
        Self::with_data(bytes, &[])
    }

    /// Checks the bytes of a model file of which the data of some buffers, given by their index, is elsewhere.
    pub(crate) fn with_data(bytes: Bytes, data: &[Option<Bytes>]) -> Result<Self, ModelError> {
        let contents = read::read(&bytes, data)?;
        Ok(Self(Arc::new(Inner { bytes, contents })))
    }

    /// Returns the bytes of the whole model file.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.0.bytes
    }

    /// Returns the producer's description of the model, often only the producer's name.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.0.contents.description
    }

    /// Returns the subgraphs, of which there is at least one. The first one runs unless a signature selects
    /// another.
    #[must_use]
    pub fn subgraphs(&self) -> &[Subgraph] {
        &self.0.contents.subgraphs
    }

    /// Returns the signatures, which are named entry points with names for their inputs and outputs.
    #[must_use]
    pub fn signatures(&self) -> &[Signature] {
        &self.0.contents.signatures
    }

    /// Returns the metadata entries of the file.
    #[must_use]
    pub fn metadata(&self) -> &[Metadata] {
        &self.0.contents.metadata
    }

    /// Returns the bytes of the first metadata entry with this name, or `None` if there is no such entry.
    #[must_use]
    pub fn metadata_named(&self, name: &str) -> Option<&Bytes> {
        self.metadata().iter().find(|entry| entry.name == name).map(|entry| &entry.bytes)
    }

    /// Returns the version of the file's schema: always 3, the only supported one.
    #[must_use]
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

    /// Returns the flatbuffer view of an operator, given by the indices of its subgraph and of the operator
    /// in it, for access to its options. The view is verified as a flatbuffer, but the values in it are
    /// unchecked.
    ///
    /// # Panics
    ///
    /// Panics if there is no such operator.
    #[must_use]
    pub fn operator_view(&self, subgraph: usize, operator: usize) -> schema::Operator<'_> {
        self.subgraph_view(subgraph).operators().expect("the subgraph has operators").get(operator)
    }

    /// Returns the flatbuffer view of a tensor, given by the indices of its subgraph and of the tensor in it,
    /// for fields that [`Tensor`] omits (sparsity, ranges). The view is verified as a flatbuffer, but the
    /// values in it are unchecked.
    ///
    /// # Panics
    ///
    /// Panics if there is no such tensor.
    #[must_use]
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

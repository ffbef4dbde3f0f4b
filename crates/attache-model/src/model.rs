//! A model as plain descriptors over the bytes of its file.
//!
//! Contract: every index in a descriptor is in range, element counts and byte sizes of shapes don't overflow, and a
//! constant has the bytes that its shape takes (sparse ones and types without a fixed size excepted). Weights stay in the
//! file. Nothing here says what an operator means.

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

/// What a file says.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) description: String,
    pub(crate) subgraphs: Vec<Subgraph>,
    pub(crate) signatures: Vec<Signature>,
    pub(crate) metadata: Vec<Metadata>,
}

/// One graph of a model: tensors, and operators in the order in which they run.
#[derive(Clone, Debug, Default)]
pub struct Subgraph {
    /// Its name, often empty.
    pub name: String,
    /// All tensors; the indices elsewhere count in this list.
    pub tensors: Vec<Tensor>,
    /// Tensors that the caller fills.
    pub inputs: Vec<usize>,
    /// Tensors that the caller reads.
    pub outputs: Vec<usize>,
    /// Operators in execution order.
    pub operators: Vec<Operator>,
}

/// A tensor of a subgraph.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Its name, not necessarily unique.
    pub name: String,
    /// Type of the elements.
    pub data_type: DataType,
    /// Extents, outermost first; 1 where the signature leaves an extent open.
    pub shape: Shape,
    /// As many extents as `shape`, -1 where the caller decides; `None` where the file doesn't say.
    pub shape_signature: Option<Vec<i32>>,
    /// Whether the file says that the rank is known. Converters leave it false nearly always: only an empty shape with a
    /// false flag may stand for an unknown rank.
    pub has_rank: bool,
    /// The value, where the file holds one: at least as many bytes as the shape takes, except for sparse tensors and for
    /// strings, resources and variants, whose bytes are as they lie in the file.
    pub constant: Option<Constant>,
    /// Affine quantization, one scale or one per index of an axis.
    pub quantization: Option<Quantization>,
    /// Quantization beyond the affine one.
    pub quantization_details: QuantizationDetails,
    /// Whether the value lives on from one run to the next.
    pub is_variable: bool,
    /// Whether the constant is stored sparsely (see [`Model::tensor_view`] for how).
    pub is_sparse: bool,
}

/// Quantization that scale and zero point alone don't describe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuantizationDetails {
    /// None.
    #[default]
    None,
    /// Bytes that only their producer understands.
    Custom,
    /// A scale per block of elements along an axis.
    Blockwise {
        /// The tensor that holds the scales.
        scales: usize,
        /// The tensor that holds the zero points, if any.
        zero_points: Option<usize>,
        /// Elements of a block.
        block_size: usize,
        /// The axis that is cut into blocks.
        axis: usize,
    },
    /// A scale per block along several axes.
    MultiAxis {
        /// The tensor that holds the scales.
        scales: usize,
        /// The tensor that holds the zero points, if any.
        zero_points: Option<usize>,
        /// Elements of a block; 0: none.
        block_size: usize,
        /// The axes.
        axes: Vec<usize>,
    },
    /// A kind that the schema doesn't have.
    Unknown(u8),
}

impl QuantizationDetails {
    /// The kind in words, as `blockwise`.
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

/// Which operator, in which version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OperatorCode {
    /// The builtin operator, [`BuiltinOperator::CUSTOM`] for custom ones. Numbers that the schema doesn't have are kept.
    pub builtin: BuiltinOperator,
    /// The custom operator's name: there is one exactly where `builtin` is [`BuiltinOperator::CUSTOM`].
    pub custom: Option<String>,
    /// Version of its definition, counted from 1.
    pub version: i32,
}

impl OperatorCode {
    /// TensorFlow Lite's name, as `CONV_2D`; a custom operator's own; `BUILTIN_210` for a number without a name.
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
    /// What it does; operators of one code share it.
    pub code: Arc<OperatorCode>,
    /// Tensors that it reads; `None` for an optional input that is left out.
    pub inputs: Vec<Option<usize>>,
    /// Tensors that it writes.
    pub outputs: Vec<usize>,
    /// Tensors that only carry quantization parameters of inner results.
    pub intermediates: Vec<usize>,
    /// A custom operator's options, as they lie in the file.
    pub custom_options: Option<Bytes>,
}

/// A named entry point: names for the inputs and outputs of a subgraph.
#[derive(Clone, Debug)]
pub struct Signature {
    /// Its name, as `serving_default`.
    pub key: String,
    /// The subgraph that it runs.
    pub subgraph: usize,
    /// Names and tensors of the inputs.
    pub inputs: Vec<(String, usize)>,
    /// Names and tensors of the outputs.
    pub outputs: Vec<(String, usize)>,
}

/// A named blob.
#[derive(Clone, Debug)]
pub struct Metadata {
    /// Its name, as `min_runtime_version`.
    pub name: String,
    /// Its bytes.
    pub bytes: Bytes,
}

/// An error for what is there but holds no bytes of its own: opening a pipe would wait for a writer, and a device may never
/// end.
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
    // SAFETY: the map is read-only and private to this process. As with every mapped file, another process that changes
    // or cuts the file while it is mapped breaks the promise that the bytes stay the same; there is no portable way to
    // forbid that, and reading the weights of large models without a copy is what the map is for.
    unsafe { memmap2::Mmap::map(&file) }
}

impl Model {
    /// Opens a file, which stays memory-mapped while a clone of the model or one of its constants lives. The file must
    /// not be changed in that time (replace it by renaming a new one over it).
    pub fn from_path(path: impl AsRef<Path>) -> Result<Self, ModelError> {
        let path = path.as_ref();
        let open = || Self::open(Bytes::new(Arc::new(map(path).map_err(ModelError::io)?)));
        open().map_err(|error| error.at_path(path))
    }

    /// Reads a model from bytes.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Result<Self, ModelError> {
        Self::open(Bytes::from_vec(bytes.into()))
    }

    /// Reads a model from bytes that live as long as the program, as those of `include_bytes!`, without a copy.
    pub fn from_static(bytes: &'static [u8]) -> Result<Self, ModelError> {
        Self::open(Bytes::new(Arc::new(bytes)))
    }

    /// Reads a model from shared bytes without a copy.
    pub fn from_shared(bytes: Arc<[u8]>) -> Result<Self, ModelError> {
        Self::open(Bytes::new(Arc::new(bytes)))
    }

    /// The owner of `bytes` must hand out the same bytes each time (see `root`); all callers above pass plain memory.
    fn open(bytes: Bytes) -> Result<Self, ModelError> {
        let contents = read::read(&bytes)?;
        Ok(Self(Arc::new(Inner { bytes, contents })))
    }

    /// The whole file.
    pub fn bytes(&self) -> &Bytes {
        &self.0.bytes
    }

    /// What the producer says of the model, often only its own name.
    pub fn description(&self) -> &str {
        &self.0.contents.description
    }

    /// The subgraphs, at least one; the first is what runs unless a signature says otherwise.
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

    /// The first blob of this name.
    pub fn metadata_named(&self, name: &str) -> Option<&Bytes> {
        self.metadata().iter().find(|entry| entry.name == name).map(|entry| &entry.bytes)
    }

    /// Version of the schema: always 3, the only one there is.
    pub fn version(&self) -> u32 {
        read::SCHEMA_VERSION
    }

    #[allow(unsafe_code)]
    pub(crate) fn root(&self) -> schema::Model<'_> {
        // SAFETY: `open` verified these very bytes, and their owner (a vector, a shared or static slice, a map) neither
        // moves nor changes them.
        unsafe { schema::root_as_model_unchecked(&self.0.bytes) }
    }

    fn subgraph_view(&self, subgraph: usize) -> schema::SubGraph<'_> {
        self.root().subgraphs().expect("an opened model has subgraphs").get(subgraph)
    }

    /// The file's own view of an operator, for its options: they are verified as a flatbuffer, but the numbers in them are
    /// unchecked. Panics where there is no such operator.
    pub fn operator_view(&self, subgraph: usize, operator: usize) -> schema::Operator<'_> {
        self.subgraph_view(subgraph).operators().expect("the subgraph has operators").get(operator)
    }

    /// The file's own view of a tensor, for what [`Tensor`] leaves out (sparsity, ranges): verified as a flatbuffer, but
    /// the numbers in it are unchecked. Panics where there is no such tensor.
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

//! Writes `.tflite` files for tests, tools and built-in models.
//!
//! The builders write exactly what they are given, without checks (tests write bad files on purpose), in the
//! form that converters use: version 3, an empty buffer 0, operator codes in both fields, tensor data aligned
//! to 16 bytes.

mod aligned;
mod operator;
mod tensor;

use std::collections::HashMap;

use attache_base::Bytes;
use flatbuffers::FlatBufferBuilder;

pub use operator::OperatorBuilder;
pub use tensor::TensorBuilder;

use crate::{Model, ModelError, schema};
use aligned::{ALIGNMENT, push_aligned};

/// Maximum total size, in bytes, of buffers that are written inside the flatbuffer, whose offsets have 31
/// bits. Larger data is written after the flatbuffer.
const MOST_INSIDE: usize = 1 << 30;

/// Builds a model file.
///
/// ```
/// use attache_base::DataType::Float32;
/// use attache_model::schema::BuiltinOperator;
/// use attache_model::{Model, ModelBuilder, OperatorBuilder, TensorBuilder};
///
/// let mut builder = ModelBuilder::new("twice");
/// let main = builder.subgraph("main");
/// let x = builder.tensor(main, TensorBuilder::new("x", Float32, [1, 4]));
/// let y = builder.tensor(main, TensorBuilder::new("y", Float32, [1, 4]));
/// builder.operator(main, OperatorBuilder::new(BuiltinOperator::ADD, [x, x], [y]));
/// builder.inputs(main, &[x]).outputs(main, &[y]);
/// assert!(Model::from_bytes(builder.finish()).is_ok());
/// ```
#[derive(Clone, Debug)]
pub struct ModelBuilder {
    description: String,
    codes: Vec<schema::OperatorCodeT>,
    subgraphs: Vec<schema::SubGraphT>,
    /// The data of each buffer, by index; `None` for a buffer without data, like buffer 0.
    buffers: Vec<Option<Bytes>>,
    /// The buffer of each data, by its address and length. Tensors that are given the same memory share a buffer.
    places: HashMap<(usize, usize), u32>,
    signatures: Vec<schema::SignatureDefT>,
    metadata: Vec<schema::MetadataT>,
    outside: bool,
}

impl ModelBuilder {
    /// Creates a builder of a model without subgraphs. `description` is stored in the file.
    #[must_use]
    pub fn new(description: &str) -> Self {
        Self {
            description: description.to_owned(),
            codes: Vec::new(),
            subgraphs: Vec::new(),
            buffers: vec![None],
            places: HashMap::new(),
            signatures: Vec::new(),
            metadata: Vec::new(),
            outside: false,
        }
    }

    /// Makes [`finish`](Self::finish) write buffers and custom options after the flatbuffer, referenced by
    /// offset and size. Files with more than 1 GiB of data are always written this way.
    pub fn data_outside(&mut self) -> &mut Self {
        self.outside = true;
        self
    }

    /// Adds an empty subgraph and returns its index. The first subgraph is the one that runs.
    pub fn subgraph(&mut self, name: &str) -> usize {
        let empty = || Some(Vec::new());
        self.subgraphs.push(schema::SubGraphT {
            name: Some(name.to_owned()),
            inputs: empty(),
            outputs: empty(),
            tensors: Some(Vec::new()),
            operators: Some(Vec::new()),
            ..Default::default()
        });
        self.subgraphs.len() - 1
    }

    /// Adds a tensor to a subgraph and returns its index there.
    ///
    /// # Panics
    ///
    /// Panics if there is no such subgraph.
    pub fn tensor(&mut self, subgraph: usize, tensor: TensorBuilder) -> usize {
        let (mut tensor, data) = tensor.into_parts();
        tensor.buffer = data.map_or(0, |data| self.buffer(data));
        push(&mut self.subgraphs[subgraph].tensors, tensor)
    }

    /// Adds an operator to a subgraph and returns its index there. Operators run in the order in which they are added.
    ///
    /// # Panics
    ///
    /// Panics if there is no such subgraph.
    pub fn operator(&mut self, subgraph: usize, operator: OperatorBuilder) -> usize {
        let (mut operator, code) = operator.into_parts();
        let index = self.codes.iter().position(|known| *known == code).unwrap_or_else(|| {
            self.codes.push(code);
            self.codes.len() - 1
        });
        operator.opcode_index = index as u32;
        push(&mut self.subgraphs[subgraph].operators, operator)
    }

    /// Sets the input tensors of a subgraph, which the caller writes.
    ///
    /// # Panics
    ///
    /// Panics if there is no such subgraph.
    pub fn inputs(&mut self, subgraph: usize, tensors: &[usize]) -> &mut Self {
        self.subgraphs[subgraph].inputs = Some(indices(tensors));
        self
    }

    /// Sets the output tensors of a subgraph, which the caller reads.
    ///
    /// # Panics
    ///
    /// Panics if there is no such subgraph.
    pub fn outputs(&mut self, subgraph: usize, tensors: &[usize]) -> &mut Self {
        self.subgraphs[subgraph].outputs = Some(indices(tensors));
        self
    }

    /// Adds a named entry point for a subgraph, with names for its inputs and outputs.
    pub fn signature(
        &mut self,
        key: &str,
        subgraph: usize,
        inputs: &[(&str, usize)],
        outputs: &[(&str, usize)],
    ) -> &mut Self {
        let entry = |&(name, tensor): &(&str, usize)| schema::TensorMapT {
            name: Some(name.to_owned()),
            tensor_index: tensor as u32,
        };
        self.signatures.push(schema::SignatureDefT {
            signature_key: Some(key.to_owned()),
            subgraph_index: subgraph as u32,
            inputs: Some(inputs.iter().map(entry).collect()),
            outputs: Some(outputs.iter().map(entry).collect()),
        });
        self
    }

    /// Adds a metadata entry, which is a name and bytes that are not interpreted.
    pub fn metadata(&mut self, name: &str, bytes: impl Into<Vec<u8>>) -> &mut Self {
        let buffer = self.buffer(Bytes::from_vec(bytes.into()));
        self.metadata.push(schema::MetadataT { name: Some(name.to_owned()), buffer });
        self
    }

    fn buffer(&mut self, data: Bytes) -> u32 {
        let next = self.buffers.len() as u32;
        // Empty data may have any address. The builder keeps all other memory, so that addresses stay its own.
        let place = if data.is_empty() { (0, next as usize) } else { (data.as_ptr().addr(), data.len()) };
        let buffer = *self.places.entry(place).or_insert(next);
        if buffer == next {
            self.buffers.push(Some(data));
        }
        buffer
    }

    /// Returns the bytes of the model file.
    ///
    /// # Panics
    ///
    /// Panics if the flatbuffer without the data exceeds 2 GiB.
    #[must_use]
    pub fn finish(&self) -> Vec<u8> {
        let data: usize = self.buffers.iter().flatten().map(|data| data.len()).sum();
        if self.outside || data > MOST_INSIDE { self.finish_outside() } else { self.pack(Placement::Inside) }
    }

    /// Returns the model without writing a file. Its constants are the data that the builder was given, which is not
    /// copied; [`Model::bytes`] contains everything else.
    ///
    /// # Errors
    ///
    /// As [`Model::from_bytes`].
    ///
    /// # Panics
    ///
    /// As [`finish`](Self::finish).
    pub fn model(&self) -> Result<Model, ModelError> {
        Model::with_data(Bytes::from_vec(self.pack(Placement::Apart)), &self.buffers)
    }

    /// Returns the bytes of a file with all data after the flatbuffer. Offsets are fields of fixed width, so
    /// the length of a first draft determines where the flatbuffer ends.
    fn finish_outside(&self) -> Vec<u8> {
        let length = self.pack(Placement::After(ALIGNMENT)).len();
        let mut file = self.pack(Placement::After(length.next_multiple_of(ALIGNMENT)));
        debug_assert_eq!(file.len(), length, "offsets have a fixed width");
        let options = self.subgraphs.iter().flat_map(|subgraph| subgraph.operators.iter().flatten());
        let options = options.filter_map(|operator| operator.custom_options.as_deref());
        for data in self.buffers.iter().flatten().map(|data| &**data).chain(options) {
            file.resize(file.len().next_multiple_of(ALIGNMENT), 0);
            file.extend_from_slice(data);
        }
        file
    }

    /// Returns the bytes of the flatbuffer.
    fn pack(&self, placement: Placement) -> Vec<u8> {
        let data = self.buffers.iter().map(|data| data.as_ref().filter(|_| placement != Placement::Apart));
        let (inside, mut offsets) = match placement {
            Placement::Inside => (data.clone().flatten().map(|data| data.len() + 64).sum(), None),
            Placement::After(start) => (0, Some(OutsideOffsets(start))),
            Placement::Apart => (0, None),
        };
        let mut builder = FlatBufferBuilder::with_capacity(inside + (64 << 10));
        let buffers: Vec<_> = data.map(|data| pack_buffer(&mut builder, data, offsets.as_mut())).collect();
        let subgraphs: Vec<_> = match &mut offsets {
            None => self.subgraphs.iter().map(|subgraph| subgraph.pack(&mut builder)).collect(),
            Some(offsets) => {
                let moved = self.subgraphs.iter().map(|subgraph| options_outside(subgraph, offsets));
                moved.map(|subgraph| subgraph.pack(&mut builder)).collect()
            }
        };
        let codes: Vec<_> = self.codes.iter().map(|code| code.pack(&mut builder)).collect();
        let signatures: Vec<_> = self.signatures.iter().map(|signature| signature.pack(&mut builder)).collect();
        let metadata: Vec<_> = self.metadata.iter().map(|entry| entry.pack(&mut builder)).collect();
        let arguments = schema::ModelArgs {
            version: 3,
            operator_codes: Some(builder.create_vector(&codes)),
            subgraphs: Some(builder.create_vector(&subgraphs)),
            description: Some(builder.create_string(&self.description)),
            buffers: Some(builder.create_vector(&buffers)),
            metadata: Some(builder.create_vector(&metadata)),
            signature_defs: Some(builder.create_vector(&signatures)),
            ..Default::default()
        };
        let model = schema::Model::create(&mut builder, &arguments);
        schema::finish_model_buffer(&mut builder, model);
        let (mut bytes, start) = builder.collapse();
        bytes.drain(..start);
        bytes
    }
}

/// Where the data of buffers and custom options is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Placement {
    /// In the flatbuffer.
    Inside,
    /// At file offsets from this one on, to which the flatbuffer refers.
    After(usize),
    /// Nowhere, as far as buffers are concerned. Custom options are in the flatbuffer.
    Apart,
}

/// Assigns file offsets in bytes to data outside the flatbuffer, in the order in which the data is written
/// there.
struct OutsideOffsets(usize);

impl OutsideOffsets {
    fn next(&mut self, size: usize) -> u64 {
        let offset = self.0.next_multiple_of(ALIGNMENT);
        self.0 = offset + size;
        offset as u64
    }
}

fn pack_buffer<'a>(
    builder: &mut FlatBufferBuilder<'a>,
    data: Option<&Bytes>,
    offsets: Option<&mut OutsideOffsets>,
) -> flatbuffers::WIPOffset<schema::Buffer<'a>> {
    let arguments = match (data, offsets) {
        (None, _) => schema::BufferArgs::default(),
        (Some(data), None) => schema::BufferArgs { data: Some(push_aligned(builder, data)), ..Default::default() },
        (Some(data), Some(offsets)) => {
            schema::BufferArgs { data: None, offset: offsets.next(data.len()), size: data.len() as u64 }
        }
    };
    schema::Buffer::create(builder, &arguments)
}

/// Returns a copy of the subgraph in which offsets and sizes replace the operators' custom options.
fn options_outside(subgraph: &schema::SubGraphT, offsets: &mut OutsideOffsets) -> schema::SubGraphT {
    let mut subgraph = subgraph.clone();
    for operator in subgraph.operators.iter_mut().flatten() {
        if let Some(options) = operator.custom_options.take() {
            operator.large_custom_options_offset = offsets.next(options.len());
            operator.large_custom_options_size = options.len() as u64;
        }
    }
    subgraph
}

fn push<T>(list: &mut Option<Vec<T>>, item: T) -> usize {
    let list = list.get_or_insert_default();
    list.push(item);
    list.len() - 1
}

fn indices(tensors: &[usize]) -> Vec<i32> {
    tensors.iter().map(|tensor| *tensor as i32).collect()
}

#[cfg(test)]
mod tests;

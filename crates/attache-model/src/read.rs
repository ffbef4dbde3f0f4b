//! Reads a model file: verifies its bytes and converts them to the descriptors of `model.rs`.
//!
//! Guarantees for any bytes: time and memory are proportional to their number, and all problems found in one
//! pass are reported. Where a problem is found, the reader continues with a placeholder in the descriptors;
//! if there is any problem, the descriptors are discarded. Unknown operators and unusual options are not
//! problems, because they do not contradict anything within the file.

mod sparse;
mod tensor;

use std::sync::Arc;

use attache_base::{Bytes, Constant};
use flatbuffers::{ForwardsUOffset, InvalidFlatbuffer, Vector, VerifierOptions};

use crate::error::{ModelError, ModelErrorKind, ModelLocation, Problem, Problems, quoted};
use crate::model::{Contents, Metadata, Operator, OperatorCode, Signature, Subgraph};
use crate::schema::{self, BuiltinOperator};

use ModelErrorKind::{Corrupt, Invalid, NotTflite, Unsupported};

/// The only schema version that runtimes accept.
pub(crate) const SCHEMA_VERSION: u32 = 3;
/// Maximum number of tables in a file, counted once per reference. Real models have far fewer. The limit matters
/// because each table may produce a descriptor of about 250 bytes.
const MOST_TABLES: usize = 1_000_000;

type Tables<'a, T> = Vector<'a, ForwardsUOffset<T>>;

/// Verifies the bytes of a model file and returns the descriptors of its contents. `data` has the data of buffers, by
/// index, that is not in these bytes.
///
/// The reader follows each reference once. The verifier's bound on the apparent size (about twice the file
/// size) therefore also bounds what the reader copies from parts that many tables share.
pub(crate) fn read(bytes: &Bytes, data: &[Option<Bytes>]) -> Result<Contents, ModelError> {
    check_identifier(bytes)?;
    let options = VerifierOptions {
        max_tables: MOST_TABLES,
        max_apparent_size: bytes.len().saturating_mul(2).saturating_add(64 << 20),
        ..VerifierOptions::default()
    };
    let root = schema::root_as_model_with_opts(&options, bytes)
        .map_err(|error| ModelError::new(Corrupt, corrupt(bytes.len(), &error)))?;
    if root.version() != SCHEMA_VERSION {
        let text = format!("schema version {}: only {SCHEMA_VERSION} is known; convert the model anew", root.version());
        return Err(ModelError::new(Unsupported, text));
    }
    let expanded = sparse::Budget::new(bytes.len());
    let mut reader = Reader { bytes, data, root, codes: Vec::new(), problems: Problems::default(), expanded };
    let contents = reader.contents();
    reader.problems.or(contents)
}

fn corrupt(length: usize, error: &InvalidFlatbuffer) -> String {
    let detail = error.to_string();
    let detail: Vec<&str> = detail.split('\n').map(str::trim).filter(|line| !line.is_empty()).collect();
    let reason = match error {
        InvalidFlatbuffer::TooManyTables => format!("has more than {MOST_TABLES} tables"),
        InvalidFlatbuffer::ApparentSizeTooLarge => "refers to the same parts over and over".into(),
        InvalidFlatbuffer::Utf8Error { .. } => "has a name that is not UTF-8".into(),
        InvalidFlatbuffer::Unaligned { .. } => {
            "is damaged, or its writer doesn't align numbers; convert it anew".into()
        }
        _ => "is damaged or cut off; fetch or convert it anew".into(),
    };
    format!("the file ({length} bytes) {reason} ({})", detail.join("; "))
}

/// Whether the bytes start like a PNG, JPEG, GIF, BMP or WebP file.
fn is_picture(bytes: &[u8]) -> bool {
    let starts: [&[u8]; 4] = [b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM"];
    starts.iter().any(|start| bytes.starts_with(start)) || bytes.get(8..12) == Some(b"WEBP")
}

/// Checks that bytes 4 to 8 are the file identifier `TFL3`. If they are not, the error says what the file
/// seems to be instead.
fn check_identifier(bytes: &[u8]) -> Result<(), ModelError> {
    if bytes.get(4..8) == Some(b"TFL3") {
        return Ok(());
    }
    let is = match bytes {
        [] => "the file is empty; copy or download it again",
        [b'P', b'K', 3, 4, ..] => "a zip archive, perhaps a task bundle: extract the .tflite file from it",
        _ if bytes.starts_with(b"version https://git-lfs") => "a Git LFS pointer: fetch the file with `git lfs pull`",
        _ if bytes.starts_with(b"\x89HDF") => "an HDF5 (Keras) file: convert it to .tflite first",
        _ if bytes.starts_with(b"\x1f\x8b") => "a gzip archive: extract the .tflite file from it",
        _ if bytes.get(257..262) == Some(b"ustar") => "a tar archive: extract the .tflite file from it",
        _ if is_picture(bytes) => "a picture, which is an input: name the .tflite file as the model",
        _ if bytes.starts_with(b"\x93NUMPY") => "a .npy array, which is an input: name the .tflite file as the model",
        _ if bytes.starts_with(b"<") => "text in a markup language, perhaps a web page: download the file itself",
        _ if bytes.get(4..7) == Some(b"TFL") => "its format is of another generation than TFL3: convert the model anew",
        _ => "bytes 4 to 8 are not `TFL3`; name a file that TensorFlow Lite's converter wrote",
    };
    Err(ModelError::new(NotTflite, format!("not a TensorFlow Lite model: {is}")))
}

/// The reader's current location, as indices. Names are looked up only when there is a problem to report.
#[derive(Clone, Copy, Default)]
struct At {
    subgraph: Option<usize>,
    operator: Option<usize>,
    tensor: Option<usize>,
}

struct Reader<'a> {
    bytes: &'a Bytes,
    data: &'a [Option<Bytes>],
    root: schema::Model<'a>,
    codes: Vec<Arc<OperatorCode>>,
    problems: Problems,
    /// What is left for the expanded forms of sparse constants.
    expanded: sparse::Budget,
}

impl<'a> Reader<'a> {
    fn report(&mut self, kind: ModelErrorKind, at: At, text: impl FnOnce() -> String) {
        let problem = self.problems.wanted().then(|| Problem { kind, place: self.location(at), text: text() });
        self.problems.add(problem);
    }

    fn invalid(&mut self, at: At, text: impl FnOnce() -> String) {
        self.report(Invalid, at, text);
    }

    fn location(&self, at: At) -> ModelLocation {
        let subgraph = at.subgraph.zip(self.root.subgraphs()).map(|(index, list)| list.get(index));
        let operator = at.operator.zip(subgraph.and_then(|subgraph| subgraph.operators())).map(|(index, list)| {
            let code = self.codes.get(list.get(index).opcode_index() as usize);
            (index, code.map_or("unknown".into(), |code| quoted(&code.name())))
        });
        let tensor = at.tensor.zip(subgraph.and_then(|subgraph| subgraph.tensors()));
        let tensor = tensor.map(|(index, list)| (index, quoted(list.get(index).name().unwrap_or_default())));
        ModelLocation { subgraph: at.subgraph, operator, tensor }
    }

    fn contents(&mut self) -> Contents {
        if self.root.buffers().is_none() {
            self.invalid(At::default(), || "the model has no list of buffers".into());
        }
        self.codes = list(self.root.operator_codes()).enumerate().map(|(i, code)| self.code(i, code)).collect();
        let subgraphs: Vec<Subgraph> =
            list(self.root.subgraphs()).enumerate().map(|(index, view)| self.subgraph(index, view)).collect();
        if subgraphs.is_empty() {
            self.invalid(At::default(), || "the model has no subgraph".into());
        }
        let signatures = list(self.root.signature_defs()).enumerate();
        Contents {
            description: self.root.description().unwrap_or_default().to_owned(),
            signatures: signatures.map(|(index, view)| self.signature(index, view, &subgraphs)).collect(),
            metadata: list(self.root.metadata()).map(|view| self.metadata(view)).collect(),
            subgraphs,
        }
    }

    /// Reads an operator code. The builtin code is the larger of the old 8-bit field and the new field,
    /// because producers fill at least one of the two.
    fn code(&mut self, index: usize, view: schema::OperatorCode<'_>) -> Arc<OperatorCode> {
        let builtin = BuiltinOperator(view.builtin_code().0.max(view.deprecated_builtin_code().into()));
        let is_custom = builtin == BuiltinOperator::CUSTOM;
        if builtin.0 < 0 {
            self.invalid(At::default(), || format!("operator code {index} is {}: codes are not negative", builtin.0));
        }
        if is_custom && view.custom_code().is_none() {
            self.invalid(At::default(), || format!("operator code {index} is custom, but has no name"));
        }
        let custom = is_custom.then(|| view.custom_code().unwrap_or_default().to_owned());
        Arc::new(OperatorCode { builtin, custom, version: view.version() })
    }

    fn subgraph(&mut self, index: usize, view: schema::SubGraph<'a>) -> Subgraph {
        let at = At { subgraph: Some(index), ..At::default() };
        let tensors = list(view.tensors()).enumerate();
        let count = view.tensors().map_or(0, |list| list.len());
        let tensors = tensors.map(|(i, tensor)| self.tensor(At { tensor: Some(i), ..at }, tensor, count)).collect();
        let operators = list(view.operators()).enumerate();
        let mut subgraph = Subgraph {
            name: view.name().unwrap_or_default().to_owned(),
            tensors,
            inputs: self.tensor_indices(at, "input", view.inputs(), count),
            outputs: self.tensor_indices(at, "output", view.outputs(), count),
            operators: operators.map(|(i, view)| self.operator(At { operator: Some(i), ..at }, view, count)).collect(),
        };
        add_empty_constants(&mut subgraph);
        subgraph
    }

    fn operator(&mut self, at: At, view: schema::Operator<'a>, tensors: usize) -> Operator {
        let code = self.codes.get(view.opcode_index() as usize).cloned();
        let code = code.unwrap_or_else(|| {
            let (index, count) = (view.opcode_index(), self.codes.len());
            self.invalid(at, || format!("operator code {index} of {count} doesn't exist"));
            Arc::new(OperatorCode { builtin: BuiltinOperator::CUSTOM, custom: Some(String::new()), version: 1 })
        });
        let inputs = numbers(view.inputs()).enumerate();
        Operator {
            code,
            inputs: inputs.map(|(i, tensor)| self.optional_tensor(at, "input", i, tensor, tensors)).collect(),
            outputs: self.tensor_indices(at, "output", view.outputs(), tensors),
            intermediates: self.tensor_indices(at, "intermediate", view.intermediates(), tensors),
            custom_options: self.custom_options(at, view),
        }
    }

    /// Returns the options of a custom operator: those in the operator's table, or else those stored outside
    /// the flatbuffer; `None` if there are neither.
    fn custom_options(&mut self, at: At, view: schema::Operator<'a>) -> Option<Bytes> {
        if let Some(options) = view.custom_options() {
            return Some(self.part(options.bytes()));
        }
        let (offset, size) = (view.large_custom_options_offset(), view.large_custom_options_size());
        (offset > 1).then(|| self.outside(at, "the custom options", offset, size))
    }

    /// Checks the tensor index of an optional input; returns `None` for the index -1, which stands for an
    /// omitted input.
    fn optional_tensor(&mut self, at: At, role: &str, position: usize, index: i32, count: usize) -> Option<usize> {
        if index == -1 { None } else { Some(self.tensor_index(at, role, position, index, count)) }
    }

    fn tensor_index(&mut self, at: At, role: &str, position: usize, index: i32, count: usize) -> usize {
        checked_index(index, count).unwrap_or_else(|| {
            self.invalid(at, || format!("{role} {position} is tensor {index} of {count}, which doesn't exist"));
            0
        })
    }

    fn tensor_indices(&mut self, at: At, role: &str, list: Option<Vector<'a, i32>>, count: usize) -> Vec<usize> {
        let indices = numbers(list).enumerate();
        indices.map(|(position, index)| self.tensor_index(at, role, position, index, count)).collect()
    }

    fn signature(&mut self, index: usize, view: schema::SignatureDef<'a>, subgraphs: &[Subgraph]) -> Signature {
        let subgraph = view.subgraph_index() as usize;
        let at = At { subgraph: (subgraph < subgraphs.len()).then_some(subgraph), ..At::default() };
        if at.subgraph.is_none() {
            let count = subgraphs.len();
            self.invalid(at, || format!("signature {index} runs subgraph {subgraph} of {count}, which doesn't exist"));
        }
        if view.signature_key().is_none() {
            self.invalid(at, || format!("signature {index} has no key"));
        }
        let tensors = subgraphs.get(subgraph).map_or(0, |subgraph| subgraph.tensors.len());
        Signature {
            key: view.signature_key().unwrap_or_default().to_owned(),
            subgraph,
            inputs: self.tensor_map(at, index, "input", view.inputs(), tensors),
            outputs: self.tensor_map(at, index, "output", view.outputs(), tensors),
        }
    }

    fn tensor_map(
        &mut self,
        at: At,
        signature: usize,
        role: &str,
        map: Option<Tables<'a, schema::TensorMap<'a>>>,
        tensors: usize,
    ) -> Vec<(String, usize)> {
        let entries = list(map).enumerate();
        entries
            .map(|(position, entry)| {
                let (name, tensor) = (entry.name().unwrap_or_default(), entry.tensor_index() as usize);
                if entry.name().is_none() {
                    self.invalid(at, || format!("signature {signature}: {role} {position} has no name"));
                }
                if tensor >= tensors && at.subgraph.is_some() {
                    let name = quoted(name);
                    let text = || format!("signature {signature}: {role} {name:?} is tensor {tensor} of {tensors}");
                    self.invalid(at, || text() + ", which doesn't exist");
                }
                (name.to_owned(), tensor)
            })
            .collect()
    }

    fn metadata(&mut self, view: schema::Metadata<'a>) -> Metadata {
        let name = view.name().unwrap_or_default();
        let bytes = self.buffer(At::default(), view.buffer(), || format!("metadata {:?}", quoted(name)));
        Metadata { name: name.to_owned(), bytes: bytes.unwrap_or_else(|| Bytes::from_vec(Vec::new())) }
    }

    /// Returns the bytes of buffer `index`: those given apart from the file, or else those in its table (even an
    /// empty list), or else those stored outside the flatbuffer, or else `None`. `of` names the buffer's user in error messages.
    fn buffer(&mut self, at: At, index: u32, of: impl Fn() -> String) -> Option<Bytes> {
        let buffers = self.root.buffers()?;
        if index as usize >= buffers.len() {
            self.invalid(at, || format!("{} is buffer {index} of {}, which doesn't exist", of(), buffers.len()));
            return None;
        }
        if let Some(Some(data)) = self.data.get(index as usize) {
            return Some(data.clone());
        }
        let buffer = buffers.get(index as usize);
        match buffer.data() {
            Some(data) => Some(self.part(data.bytes())),
            None => (buffer.offset() > 1).then(|| self.outside(at, &of(), buffer.offset(), buffer.size())),
        }
    }

    /// Returns `part`, which is a slice of the file, as [`Bytes`] that share the file's owner.
    fn part(&self, part: &[u8]) -> Bytes {
        let start = part.as_ptr().addr() - self.bytes.as_ptr().addr();
        self.bytes.slice(start..start + part.len()).expect("a slice of the file lies in the file")
    }

    /// Returns the `size` bytes at `offset` from the start of the file. Bytes beyond the end of the file are
    /// reported as a problem.
    fn outside(&mut self, at: At, of: &str, offset: u64, size: u64) -> Bytes {
        let start = usize::try_from(offset).ok();
        let end = offset.checked_add(size).and_then(|end| usize::try_from(end).ok());
        let part = start.zip(end).and_then(|(start, end)| self.bytes.slice(start..end));
        part.unwrap_or_else(|| {
            let length = self.bytes.len();
            self.report(Corrupt, at, || {
                format!("{of} takes {size} bytes at offset {offset}, but the file ends at {length}; fetch it anew")
            });
            Bytes::from_vec(Vec::new())
        })
    }
}

/// Makes constants of tensors without elements that operators read and nothing writes. Some converters drop the empty list of
/// bytes that a constant without elements has.
fn add_empty_constants(subgraph: &mut Subgraph) {
    let Subgraph { tensors, inputs, operators, .. } = subgraph;
    let mut is_given = vec![false; tensors.len()];
    for index in inputs.iter().chain(operators.iter().flat_map(|operator| &operator.outputs)) {
        is_given.get_mut(*index).into_iter().for_each(|given| *given = true);
    }
    for index in operators.iter().flat_map(|operator| operator.inputs.iter().flatten()) {
        let Some(tensor) = tensors.get_mut(*index).filter(|_| !is_given[*index]) else { continue };
        let has_value = tensor.constant.is_some() || tensor.is_variable || tensor.is_sparse;
        if !has_value && tensor.shape.elements() == 0 && tensor.data_type.bits().is_some() {
            let (data_type, shape) = (tensor.data_type, tensor.shape.clone());
            tensor.constant = Some(Constant { data_type, shape, bytes: Bytes::from_vec(Vec::new()) });
        }
    }
}

/// Returns the index as `usize` if it is in `0..count`.
fn checked_index(index: i32, count: usize) -> Option<usize> {
    usize::try_from(index).ok().filter(|index| *index < count)
}

/// Returns an iterator over the tables of a list; it is empty if the list is missing.
fn list<'a, T: flatbuffers::Follow<'a> + 'a>(
    list: Option<Tables<'a, T>>,
) -> impl Iterator<Item = T::Inner> + use<'a, T> {
    list.into_iter().flatten()
}

/// Returns an iterator over the numbers of a list; it is empty if the list is missing.
fn numbers<'a, T: flatbuffers::Follow<'a> + 'a>(
    list: Option<Vector<'a, T>>,
) -> impl Iterator<Item = T::Inner> + use<'a, T> {
    list.into_iter().flatten()
}

#[cfg(test)]
mod tests;

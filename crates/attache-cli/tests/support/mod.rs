//! Runs the command, and creates small input files for it.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

use attache::model::schema::BuiltinOperator;
use attache::{DataType, ModelBuilder, OperatorBuilder, Quantization, TensorBuilder};
use serde_json::Value;

/// The exit status and the output of a run of the command.
pub(crate) struct Answer {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Answer {
    /// Returns the JSON object on standard output, which must contain nothing else.
    pub(crate) fn object(&self) -> Value {
        let value: Value = serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {:?}, {}", self.stdout, self.stderr));
        assert!(value.is_object(), "{}", self.stdout);
        value
    }
}

/// Runs `attache` with these arguments and returns its exit status and output.
pub(crate) fn attache(arguments: &[&str]) -> Answer {
    attache_of(arguments)
}

/// Does the same with arguments that need not be text.
pub(crate) fn attache_of(arguments: &[impl AsRef<OsStr>]) -> Answer {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    command.args(arguments).env_remove("COLUMNS").env_remove("RUST_LOG");
    // Nothing of the user's own is read or written.
    command.env("XDG_CACHE_HOME", std::env::temp_dir().join("attache-tests"));
    let output = command.output().expect("the command runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Answer {
        status: output.status.code().expect("no signal ends the command"),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// A temporary folder that is deleted when it is dropped.
pub(crate) struct Scratch(tempfile::TempDir);

impl Scratch {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("text").to_owned()
    }

    /// Returns the path of a subfolder, which is created if it does not exist.
    pub(crate) fn folder(&self, name: &str) -> String {
        let path = self.path(name);
        fs::create_dir_all(&path).expect("a folder");
        path
    }

    /// Writes a file into the folder and returns its path.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.path(name);
        fs::create_dir_all(Path::new(&path).parent().expect("a folder")).expect("a folder");
        fs::write(&path, bytes).expect("a file");
        path
    }
}

/// Returns a model of one RELU from `x` to `y`, with the shape `[1, 2, 2, 1]` and a shape signature that
/// allows others.
pub(crate) fn relu() -> Vec<u8> {
    let mut builder = ModelBuilder::new("relu");
    let main = builder.subgraph("main");
    let tensor = |name| TensorBuilder::new(name, DataType::Float32, [1, 2, 2, 1]).shape_signature([-1, -1, -1, 1]);
    let x = builder.tensor(main, tensor("x"));
    let y = builder.tensor(main, tensor("y"));
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::RELU, [x], [y]));
    builder.inputs(main, &[x]).outputs(main, &[y]);
    builder.finish()
}

/// Returns a model of a RELU between two operators that are not implemented.
pub(crate) fn unknown() -> Vec<u8> {
    let mut builder = ModelBuilder::new("unknown");
    let main = builder.subgraph("main");
    let tensors: Vec<usize> = ["a", "b", "c", "d"]
        .iter()
        .map(|name| builder.tensor(main, TensorBuilder::new(name, DataType::Float32, [1, 2, 2, 3])))
        .collect();
    builder.operator(main, OperatorBuilder::custom("NoSuchOperator", [], [tensors[0]], [tensors[1]]));
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::RELU, [tensors[1]], [tensors[2]]));
    builder.operator(main, OperatorBuilder::custom("NorThisOne", [], [tensors[2]], [tensors[3]]));
    builder.inputs(main, &tensors[..1]).outputs(main, &tensors[3..]);
    builder.finish()
}

/// Returns the bytes of a `.npy` file of float32, with a header of 128 bytes.
pub(crate) fn floats(shape: &[usize], values: &[f32]) -> Vec<u8> {
    let elements: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    npy("<f4", shape, &elements)
}

/// Returns the bytes of a `.npy` file whose elements have the type with numpy's code `code`.
pub(crate) fn npy(code: &str, shape: &[usize], elements: &[u8]) -> Vec<u8> {
    let shape: Vec<_> = shape.iter().map(usize::to_string).collect();
    let mut header = format!("{{'descr': '{code}', 'fortran_order': False, 'shape': ({},), }}", shape.join(", "));
    header.push_str(&" ".repeat(117 - header.len()));
    header.push('\n');
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), elements].concat()
}

/// Returns the bytes of a PNG image of one colour.
pub(crate) fn png(width: u32, height: u32, color: [u8; 3]) -> Vec<u8> {
    let picture = image::RgbImage::from_pixel(width, height, image::Rgb(color));
    let mut bytes = std::io::Cursor::new(Vec::new());
    picture.write_to(&mut bytes, image::ImageFormat::Png).expect("a picture");
    bytes.into_inner()
}

/// Returns a model of one RELU of floats with these names of its input and output, this shape and this shape
/// signature.
pub(crate) fn relu_of(names: [&str; 2], shape: &[usize], signature: Option<&[i32]>) -> Vec<u8> {
    let mut builder = ModelBuilder::new("relu");
    let main = builder.subgraph("main");
    let tensors = names.map(|name| {
        let tensor = TensorBuilder::new(name, DataType::Float32, shape);
        signature.map_or(tensor.clone(), |signature| tensor.shape_signature(signature.to_vec()))
    });
    let [x, y] = tensors.map(|tensor| builder.tensor(main, tensor));
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::RELU, [x], [y]));
    builder.inputs(main, &[x]).outputs(main, &[y]);
    builder.finish()
}

/// Returns a model that adds two inputs of the same shape.
pub(crate) fn add(names: [&str; 2], shape: &[usize]) -> Vec<u8> {
    let mut builder = ModelBuilder::new("add");
    let main = builder.subgraph("main");
    let mut tensor = |name: &str| builder.tensor(main, TensorBuilder::new(name, DataType::Float32, shape));
    let (x, y, sum) = (tensor(names[0]), tensor(names[1]), tensor("sum"));
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::ADD, [x, y], [sum]));
    builder.inputs(main, &[x, y]).outputs(main, &[sum]);
    builder.finish()
}

/// Returns a model that dequantizes its input.
pub(crate) fn dequantize(data_type: DataType, scale: f32, zero_point: i64) -> Vec<u8> {
    let mut builder = ModelBuilder::new("dequantize");
    let main = builder.subgraph("main");
    let quantization = Quantization { scale: vec![scale], zero_point: vec![zero_point], axis: 0 };
    let x = builder.tensor(main, TensorBuilder::new("x", data_type, [1, 1, 1, 3]).quantization(&quantization));
    let y = builder.tensor(main, TensorBuilder::new("y", DataType::Float32, [1, 1, 1, 3]));
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::DEQUANTIZE, [x], [y]));
    builder.inputs(main, &[x]).outputs(main, &[y]);
    builder.finish()
}

/// Returns the bytes of a zip archive of one uncompressed file. If `is_whole` is false, its checksum is
/// wrong, so that it cannot be read.
pub(crate) fn zip(name: &str, content: &[u8], is_whole: bool) -> Vec<u8> {
    let checksum = if is_whole { crc32(content) } else { !crc32(content) };
    let (size, length) = (content.len() as u32, name.len() as u16);
    let common =
        [&[20, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &checksum.to_le_bytes(), &size.to_le_bytes(), &size.to_le_bytes()];
    let common = [&common.concat()[..], &length.to_le_bytes(), &[0, 0]].concat();
    let local = [b"PK\x03\x04", &common[..], name.as_bytes(), content].concat();
    let row = [b"PK\x01\x02\x14\x00", &common[..], &[0; 14], name.as_bytes()].concat();
    let places = [(row.len() as u32).to_le_bytes(), (local.len() as u32).to_le_bytes()].concat();
    let end = [b"PK\x05\x06\x00\x00\x00\x00\x01\x00\x01\x00", &places[..], &[0, 0]].concat();
    [local, row, end].concat()
}

/// Returns the checksum of zip archives and PNG files.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ if sum & 1 == 1 { 0xedb8_8320 } else { 0 })
    })
}

/// Reads the elements of a `.npy` file of float32 with a header of 128 bytes.
pub(crate) fn read_floats(path: &str) -> Vec<f32> {
    let bytes = fs::read(path).expect("an array");
    bytes[128..].chunks_exact(4).map(|it| f32::from_le_bytes(it.try_into().expect("four bytes"))).collect()
}

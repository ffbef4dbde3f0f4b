//! Runs the command, and makes the small files that it is run on.

use std::fs;
use std::path::Path;
use std::process::Command;

use attache::model::schema::BuiltinOperator;
use attache::{DataType, ModelBuilder, OperatorBuilder, TensorBuilder};
use serde_json::Value;

/// How a run of the command ended.
pub(crate) struct Answer {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Answer {
    /// The one object of JSON that standard output must be.
    pub(crate) fn object(&self) -> Value {
        let value: Value = serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {:?}, {}", self.stdout, self.stderr));
        assert!(value.is_object(), "{}", self.stdout);
        value
    }
}

/// Runs `attache`.
pub(crate) fn attache(arguments: &[&str]) -> Answer {
    let output = Command::new(env!("CARGO_BIN_EXE_attache")).args(arguments).output().expect("the command runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Answer {
        status: output.status.code().expect("no signal ends the command"),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// A folder that goes away with the test.
pub(crate) struct Scratch(tempfile::TempDir);

impl Scratch {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("text").to_owned()
    }

    /// A folder within, made where it isn't there.
    pub(crate) fn folder(&self, name: &str) -> String {
        let path = self.path(name);
        fs::create_dir_all(&path).expect("a folder");
        path
    }

    /// A file within.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.path(name);
        fs::create_dir_all(Path::new(&path).parent().expect("a folder")).expect("a folder");
        fs::write(&path, bytes).expect("a file");
        path
    }
}

/// A model of one RELU, `x` to `y`, of shape `[1, 2, 2, 1]` or any other.
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

/// A model of two operators that no one knows around a RELU.
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

/// A `.npy` file of float32, with a header of 128 bytes.
pub(crate) fn floats(shape: &[usize], values: &[f32]) -> Vec<u8> {
    let shape: Vec<_> = shape.iter().map(usize::to_string).collect();
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}", shape.join(", "));
    header.push_str(&" ".repeat(117 - header.len()));
    header.push('\n');
    let elements = values.iter().flat_map(|value| value.to_le_bytes());
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes()].concat().into_iter().chain(elements).collect()
}

/// A picture of one colour.
pub(crate) fn png(width: u32, height: u32, color: [u8; 3]) -> Vec<u8> {
    let picture = image::RgbImage::from_pixel(width, height, image::Rgb(color));
    let mut bytes = std::io::Cursor::new(Vec::new());
    picture.write_to(&mut bytes, image::ImageFormat::Png).expect("a picture");
    bytes.into_inner()
}

//! Creates the folder in which the bad command lines run: sound files, damaged ones, and files of other kinds.

use std::io::Cursor;

use attache::model::schema::{BuiltinOperator, BuiltinOptionsT, Padding, Pool2DOptionsT};
use attache::{DataType, ModelBuilder, OperatorBuilder, TensorBuilder};

use crate::support::{Scratch, add, crc32, dequantize, floats, npy, png, relu, relu_of, unknown, zip};

/// Returns a folder with all files that the table names.
pub(super) fn folder() -> Scratch {
    let scratch = Scratch::new();
    models(&scratch);
    no_models(&scratch);
    arrays(&scratch);
    pictures(&scratch);
    texts(&scratch);
    cases(&scratch);
    #[cfg(unix)]
    links(&scratch);
    scratch
}

fn models(scratch: &Scratch) {
    let vector = relu_of(["scores", "classes"], &[1, 4], None);
    let pixels = relu_of(["image", "picture"], &[1, 8, 8, 3], None);
    let models = [
        ("relu.tflite", relu()),
        ("scores.tflite", vector),
        ("pixels.tflite", pixels),
        ("deep.tflite", relu_of(["x", "y"], &[1, 2, 2, 2, 3], None)),
        ("add.tflite", add(["x", "y"], &[2])),
        ("bytes.tflite", dequantize(DataType::UInt8, 0.5, 20)),
        ("unknown.tflite", unknown()),
        ("huge.tflite", relu_of(["x", "y"], &[1, 65536, 65536, 4], None)),
        ("signed.tflite", signed()),
        ("strings.tflite", identity("words", DataType::String)),
        ("complex.tflite", identity("wave", DataType::Complex64)),
        ("lookup.tflite", lookup()),
        ("pool.tflite", pool()),
        ("mismatched.tflite", mismatched()),
        ("cut.tflite", relu()[..300].to_vec()),
        ("models/relu.tflite", relu()),
    ];
    models.iter().for_each(|(name, bytes)| drop(scratch.write(name, bytes)));
}

/// Returns a model with the signatures `train` and `infer`.
fn signed() -> Vec<u8> {
    let mut builder = ModelBuilder::new("signed");
    for name in ["train", "infer"] {
        let subgraph = builder.subgraph(name);
        let [x, y] = ["in", "out"].map(|end| TensorBuilder::new(end, DataType::Float32, [2]));
        let (x, y) = (builder.tensor(subgraph, x), builder.tensor(subgraph, y));
        builder.operator(subgraph, OperatorBuilder::new(BuiltinOperator::RELU, [x], [y]));
        builder.inputs(subgraph, &[x]).outputs(subgraph, &[y]).signature(name, subgraph, &[("x", x)], &[("y", y)]);
    }
    builder.finish()
}

/// Returns a model that returns its only input, of this name and type.
fn identity(name: &str, data_type: DataType) -> Vec<u8> {
    let mut builder = ModelBuilder::new("identity");
    let main = builder.subgraph("main");
    let tensor = builder.tensor(main, TensorBuilder::new(name, data_type, [2]));
    builder.inputs(main, &[tensor]).outputs(main, &[tensor]);
    builder.finish()
}

/// Returns a model that looks up one of two values by an index, which no random number is.
fn lookup() -> Vec<u8> {
    let mut builder = ModelBuilder::new("lookup");
    let main = builder.subgraph("main");
    let values = builder.tensor(main, TensorBuilder::values("values", [2], &[1.0f32, 2.0]));
    let indices = builder.tensor(main, TensorBuilder::new("indices", DataType::Int32, [64]));
    let found = builder.tensor(main, TensorBuilder::new("found", DataType::Float32, [64]));
    let options = BuiltinOptionsT::GatherOptions(Box::default());
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::GATHER, [values, indices], [found]).options(options));
    builder.inputs(main, &[indices]).outputs(main, &[found]);
    builder.finish()
}

/// Returns a model that takes the maximum of each 2 by 2 elements.
fn pool() -> Vec<u8> {
    let mut builder = ModelBuilder::new("pool");
    let main = builder.subgraph("main");
    let x = TensorBuilder::new("x", DataType::Float32, [1, 4, 4, 1]).shape_signature([-1, -1, -1, 1]);
    let (x, y) = (builder.tensor(main, x), TensorBuilder::new("y", DataType::Float32, [1, 2, 2, 1]));
    let y = builder.tensor(main, y);
    let window = Pool2DOptionsT {
        padding: Padding::VALID,
        stride_w: 2,
        stride_h: 2,
        filter_width: 2,
        filter_height: 2,
        ..Default::default()
    };
    let options = BuiltinOptionsT::Pool2DOptions(Box::new(window));
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::MAX_POOL_2D, [x], [y]).options(options));
    builder.inputs(main, &[x]).outputs(main, &[y]);
    builder.finish()
}

/// Returns a model that adds tensors whose shapes do not fit each other.
fn mismatched() -> Vec<u8> {
    let mut builder = ModelBuilder::new("mismatched");
    let main = builder.subgraph("main");
    let tensors = [("x", 2), ("y", 3), ("sum", 3)];
    let [x, y, sum] =
        tensors.map(|(name, size)| builder.tensor(main, TensorBuilder::new(name, DataType::Float32, [size])));
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::ADD, [x, y], [sum]));
    builder.inputs(main, &[x, y]).outputs(main, &[sum]);
    builder.finish()
}

fn no_models(scratch: &Scratch) {
    scratch.write("empty.tflite", b"");
    scratch.write("page.tflite", b"<!DOCTYPE html><title>Not found</title>");
    scratch.write("bundle.task", &zip("model.tflite", b"x", true));
    scratch.write("model.h5", b"\x89HDF\r\n\x1a\n........");
    scratch.write("notes.txt", b"anything else\n");
    scratch.write("saved/saved_model.pb", b"");
    scratch.folder("nothing");
}

fn arrays(scratch: &Scratch) {
    let x = floats(&[1, 2, 2, 1], &[1.0, -1.0, 2.0, -2.0]);
    scratch.write("x.npy", &x);
    scratch.write("models/out_0.npy", &x);
    scratch.write("cut.npy", &x[..x.len() - 3]);
    scratch.write("header.npy", &x[..40]);
    scratch.write("text.npy", b"1.0, 2.0\n");
    scratch.write("longer.npy", &floats(&[3], &[1.0; 3]));
    scratch.write("doubles.npy", &npy("<f8", &[1, 2, 2, 1], &[0; 32]));
    scratch.write("objects.npy", &npy("|O", &[2], &[]));
    let vast = std::fs::File::create(scratch.path("vast.npy")).expect("a file");
    vast.set_len(17 << 30).expect("a file with a hole");
    scratch.write("giant.npy", &npy("<f8", &[1 << 40, 1 << 40], &[]));
}

fn pictures(scratch: &Scratch) {
    let picture = png(8, 8, [255, 0, 100]);
    scratch.write("cat.png", &picture);
    scratch.write("cut.png", &picture[..picture.len() - 20]);
    scratch.write("empty.png", b"");
    scratch.write("vast.png", &declared(&picture, [100_000, 100_000]));
    let mut jpeg = Cursor::new(Vec::new());
    image::RgbImage::new(64, 64).write_to(&mut jpeg, image::ImageFormat::Jpeg).expect("a picture");
    scratch.write("cut.jpg", &jpeg.into_inner()[..200]);
    scratch.write("cat.gif", b"GIF89a\x08\x00\x08\x00\x00\x00\x00");
    scratch.write("old.png", &picture);
}

/// Returns a PNG file with another width and height in its header, and the header's checksum put right.
fn declared(picture: &[u8], size: [u32; 2]) -> Vec<u8> {
    let mut bytes = picture.to_vec();
    bytes[16..24].copy_from_slice(&size.map(u32::to_be_bytes).concat());
    let checksum = crc32(&bytes[12..29]);
    bytes[29..33].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

fn texts(scratch: &Scratch) {
    scratch.write("three.txt", b"one\ntwo\nthree\n");
    scratch.write("one.txt", b"one\n");
    scratch.write("blank.txt", b"\n\n");
    scratch.write("binary.txt", &[0xff, 0xfe, 0, 1]);
    scratch.write("old.json", b"{}\n");
}

/// Creates cases for `check`: one whose array is damaged, one without its second input, one of another type, and
/// one without a sound model.
fn cases(scratch: &Scratch) {
    let (x, y) = (floats(&[2], &[1.0, 2.0]), floats(&[2], &[2.0, 4.0]));
    let write = |case: &str, name: &str, bytes: &[u8]| drop(scratch.write(&format!("{case}/{name}"), bytes));
    for case in ["damaged_case", "short_case", "notes_case"] {
        write(case, "model.tflite", &add(["x", "y"], &[2]));
        write(case, "in_0.npy", &x);
        write(case, "out_0.npy", &y);
    }
    write("damaged_case", "in_1.npy", b"no array");
    write("notes_case", "in_1.npy", &x);
    write("notes_case", "case.json", b"{\"scale\": \"large\"}");
    write("modelless_case", "model.tflite", b"no model");
    write("modelless_case", "out_0.npy", &y);
}

/// Creates links to nothing, to a device that is full and to itself, and a pipe.
#[cfg(unix)]
fn links(scratch: &Scratch) {
    for (target, name) in [
        ("relu.tflite", "link.tflite"),
        ("nowhere", "dangling.tflite"),
        ("circle.tflite", "circle.tflite"),
        ("/dev/full", "full.png"),
    ] {
        std::os::unix::fs::symlink(target, scratch.path(name)).expect("a link");
    }
    let made = std::process::Command::new("mkfifo").arg(scratch.path("pipe")).status();
    assert!(made.expect("mkfifo").success());
}

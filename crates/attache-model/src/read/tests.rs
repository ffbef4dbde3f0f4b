//! Breaks one thing at a time in a good file, and checks that the error says what is wrong and where.

use attache_base::DataType::{Float32, Int8, Int32, String as Text};
use flatbuffers::FlatBufferBuilder;

use super::*;
use crate::schema::*;
use crate::{Model, ModelBuilder, OperatorBuilder, TensorBuilder};

/// Returns a good file with tensors 0 `x` (input), 1 `w` (constant), 2 `q` (quantized), 3 `y` (output), and
/// with two operators, ADD and a custom one.
fn good() -> ModelT {
    let mut builder = ModelBuilder::new("good");
    let main = builder.subgraph("main");
    let x = builder.tensor(main, TensorBuilder::new("x", Float32, [1, 2]));
    let w = builder.tensor(main, TensorBuilder::values("w", [2], &[1.0f32, 2.0]));
    let q = builder.tensor(main, TensorBuilder::new("q", Int8, [2, 3]).quantized(0.5, 3));
    let y = builder.tensor(main, TensorBuilder::new("y", Float32, [1, 2]));
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::ADD, [x, w], [y]));
    builder.operator(main, OperatorBuilder::custom("Mine", [1], [Some(y), None], [q]));
    builder.inputs(main, &[x]).outputs(main, &[y]);
    builder.signature("run", main, &[("in", x)], &[("out", y)]).metadata("note", [1]);
    schema::root_as_model(&builder.finish()).unwrap().unpack()
}

fn bytes(model: &ModelT) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let root = model.pack(&mut builder);
    schema::finish_model_buffer(&mut builder, root);
    builder.finished_data().to_vec()
}

fn broken(change: impl Fn(&mut ModelT)) -> ModelError {
    let mut model = good();
    change(&mut model);
    Model::from_bytes(bytes(&model)).expect_err("a broken file is refused")
}

fn subgraph(model: &mut ModelT) -> &mut SubGraphT {
    &mut model.subgraphs.as_mut().unwrap()[0]
}

fn tensor(model: &mut ModelT, index: usize) -> &mut TensorT {
    &mut subgraph(model).tensors.as_mut().unwrap()[index]
}

fn operator(model: &mut ModelT, index: usize) -> &mut OperatorT {
    &mut subgraph(model).operators.as_mut().unwrap()[index]
}

fn quantization(model: &mut ModelT) -> &mut QuantizationParametersT {
    tensor(model, 2).quantization.as_mut().unwrap()
}

fn signature(model: &mut ModelT) -> &mut SignatureDefT {
    &mut model.signature_defs.as_mut().unwrap()[0]
}

fn buffer(model: &mut ModelT) -> &mut BufferT {
    &mut model.buffers.as_mut().unwrap()[1]
}

fn blockwise(scales: i32, block_size: i32) -> QuantizationDetailsT {
    let details = BlockwiseQuantizationT { scales, zero_points: -1, block_size };
    QuantizationDetailsT::BlockwiseQuantization(Box::new(details))
}

fn multi_axis(axes: &[i32]) -> QuantizationDetailsT {
    let quantized_dimensions = Some(axes.to_vec());
    let details = MultiAxisQuantizationT { scales: 1, zero_points: -1, block_size: 0, quantized_dimensions };
    QuantizationDetailsT::MultiAxisQuantization(Box::new(details))
}

#[test]
fn the_good_file_is_good() {
    assert_eq!(Model::from_bytes(bytes(&good())).unwrap().subgraphs()[0].operators.len(), 2);
}

#[test]
fn each_check_says_what_and_where() {
    type Case = (ModelErrorKind, &'static str, fn(&mut ModelT));
    #[rustfmt::skip]
    let cases: &[Case] = &[
        (Unsupported, "schema version 2", |m| m.version = 2),
        (Invalid, "no subgraph", |m| m.subgraphs = Some(Vec::new())),
        (Invalid, "no list of buffers", |m| m.buffers = None),
        (Invalid, "operator code 0 is -5", |m| {
            let code = &mut m.operator_codes.as_mut().unwrap()[0];
            (code.builtin_code, code.deprecated_builtin_code) = (BuiltinOperator(-5), -7);
        }),
        (Invalid, "operator code 1 is custom, but has no name", |m| m.operator_codes.as_mut().unwrap()[1].custom_code = None),
        (Invalid, "metadata \"note\" is buffer 9 of 3", |m| m.metadata.as_mut().unwrap()[0].buffer = 9),
        (Invalid, "subgraph 0: input 0 is tensor -1 of 4", |m| subgraph(m).inputs = Some(vec![-1])),
        (Invalid, "subgraph 0: output 1 is tensor 4 of 4", |m| subgraph(m).outputs = Some(vec![3, 4])),
        (Invalid, "subgraph 0, operator 0 (ADD): input 1 is tensor -2 of 4", |m| operator(m, 0).inputs = Some(vec![0, -2])),
        (Invalid, "subgraph 0, operator 1 (Mine): output 0 is tensor -1", |m| operator(m, 1).outputs = Some(vec![-1])),
        (Invalid, "operator 0 (ADD): intermediate 0 is tensor 7", |m| operator(m, 0).intermediates = Some(vec![7])),
        (Invalid, "subgraph 0, operator 1 (unknown): operator code 2 of 2 doesn't exist", |m| operator(m, 1).opcode_index = 2),
        (Corrupt, "operator 1 (Mine): the custom options takes 9 bytes at offset 1000000", |m| {
            operator(m, 1).custom_options = None;
            (operator(m, 1).large_custom_options_offset, operator(m, 1).large_custom_options_size) = (1_000_000, 9);
        }),
        (Unsupported, "subgraph 0, tensor 0 (\"x\"): element type 23", |m| tensor(m, 0).type_ = TensorType(23)),
        (Unsupported, "tensor 0 (\"x\"): element type -1", |m| tensor(m, 0).type_ = TensorType(-1)),
        (Invalid, "subgraph 0, tensor 3 (\"y\"): extent 1 of the shape is -1", |m| tensor(m, 3).shape = Some(vec![1, -1])),
        (Invalid, "tensor 3 (\"y\"): a tensor of 3 axes", |m| tensor(m, 3).shape = Some(vec![0, i32::MAX, i32::MAX])),
        (Invalid, "the shape signature has 1 axes, the shape 2", |m| tensor(m, 0).shape_signature = Some(vec![-1])),
        (Invalid, "the shape signature has an extent of -2", |m| tensor(m, 0).shape_signature = Some(vec![1, -2])),
        (Invalid, "tensor 1 (\"w\"): the tensor's data is buffer 3 of 3", |m| tensor(m, 1).buffer = 3),
        (Invalid, "tensor 1 (\"w\"): the data has 7 bytes, but FLOAT32 [2] takes 8", |m| buffer(m).data = Some(vec![0; 7])),
        (Invalid, "the data has 0 bytes", |m| buffer(m).data = Some(Vec::new())),
        (Corrupt, "tensor 1 (\"w\"): the tensor's data takes 8 bytes at offset 18446744073709551615", |m| {
            *buffer(m) = BufferT { data: None, offset: u64::MAX, size: 8 };
        }),
        (Corrupt, "but the file ends at", |m| *buffer(m) = BufferT { data: None, offset: 1000, size: 100_000 }),
        (Invalid, "the data has 4 bytes", |m| *buffer(m) = BufferT { data: None, offset: 16, size: 4 }),
        (Invalid, "tensor 1 (\"w\"): the tensor is a variable, but has data", |m| tensor(m, 1).is_variable = true),
        (Unsupported, "tensor 0 (\"x\"): the data lies in another file", |m| tensor(m, 0).external_buffer = 1),
        (Invalid, "tensor 2 (\"q\"): the quantization has 1 scales, but 0 zero points", |m| quantization(m).zero_point = None),
        (Invalid, "the zero point 4294967296 exceeds", |m| quantization(m).zero_point = Some(vec![1 << 32])),
        (Invalid, "quantized axis 2 of 2", |m| quantization(m).quantized_dimension = 2),
        (Invalid, "quantized axis -1 of 2", |m| quantization(m).quantized_dimension = -1),
        (Invalid, "the quantization has 2 scales along axis 1 of extent 3", |m| {
            let q = quantization(m);
            (q.scale, q.zero_point, q.quantized_dimension) = (Some(vec![1.0; 2]), Some(vec![0; 2]), 1);
        }),
        (Invalid, "the quantization has 2 scales along axis 0 of extent 1", |m| {
            tensor(m, 2).shape = None;
            (quantization(m).scale, quantization(m).zero_point) = (Some(vec![1.0; 2]), Some(vec![0; 2]));
        }),
        (Invalid, "scales: tensor 0 is tensor 9 of 4", |m| quantization(m).details = blockwise(9, 32)),
        (Invalid, "the quantization has blocks of -1 elements", |m| quantization(m).details = blockwise(1, -1)),
        (Invalid, "quantized axis 5 of 2", |m| quantization(m).details = multi_axis(&[0, 5])),
        (Invalid, "the multi-axis quantization has no axis", |m| quantization(m).details = multi_axis(&[])),
        (Invalid, "tensor 1 (\"w\"): the sparsity has no traversal order", |m| tensor(m, 1).sparsity = Some(Box::default())),
        (Invalid, "tensor 0 (\"x\"): the tensor is sparse, but has no data", |m| {
            let (traversal_order, dim_metadata) = (Some(vec![0]), Some(Vec::new()));
            let sparsity = SparsityParametersT { traversal_order, dim_metadata, ..Default::default() };
            tensor(m, 0).sparsity = Some(Box::new(sparsity));
        }),
        (Invalid, "signature 0 runs subgraph 1 of 1", |m| signature(m).subgraph_index = 1),
        (Invalid, "subgraph 0: signature 0 has no key", |m| signature(m).signature_key = None),
        (Invalid, "signature 0: input 0 has no name", |m| signature(m).inputs.as_mut().unwrap()[0].name = None),
        (Invalid, "signature 0: output \"out\" is tensor 4 of 4", |m| signature(m).outputs.as_mut().unwrap()[0].tensor_index = 4),
    ];
    for (kind, text, change) in cases {
        let error = broken(change);
        assert_eq!(error.kind(), *kind, "{text}: {error}");
        assert!(error.to_string().contains(text), "{text:?} is not in {error}");
    }
}

#[test]
fn all_problems_are_reported_at_once() {
    let error = broken(|model| {
        tensor(model, 3).shape = Some(vec![-1, 2]);
        operator(model, 0).inputs = Some(vec![8, 9]);
        subgraph(model).outputs = Some(vec![-4]);
    });
    assert_eq!(error.problems().len(), 4, "{error}");
    let error = broken(|model| subgraph(model).inputs = Some(vec![-4; 100_000]));
    assert_eq!(error.problems().len(), 64);
    assert!(error.to_string().ends_with("and 99936 more"), "{error}");
}

#[test]
fn what_is_only_unknown_opens() {
    let mut model = good();
    model.operator_codes.as_mut().unwrap()[0].builtin_code = BuiltinOperator(250);
    tensor(&mut model, 0).type_ = TensorType::FLOAT8_E5M2;
    *buffer(&mut model) = BufferT { data: None, offset: 1, size: 1 };
    quantization(&mut model).details = blockwise(1, 32);
    tensor(&mut model, 3).type_ = TensorType(Text.code());
    let model = Model::from_bytes(bytes(&model)).unwrap();
    let main = &model.subgraphs()[0];
    assert_eq!(main.operators[0].code.name(), "BUILTIN_250");
    assert!(main.tensors[1].constant.is_none(), "an offset of 1 is a placeholder");
    assert_eq!(main.tensors[2].quantization_details.name(), "blockwise");
}

#[test]
fn a_scalar_may_be_quantized_and_a_string_of_any_size() {
    let mut model = good();
    tensor(&mut model, 2).shape = None;
    tensor(&mut model, 1).type_ = TensorType::STRING;
    let elements: i32 = tensor(&mut model, 1).shape.iter().flatten().product();
    let mut strings =
        attache_base::strings::encoded((0..elements).map(|_| &b"a text"[..]).collect::<Vec<_>>().into_iter());
    buffer(&mut model).data = strings.clone();
    let read = Model::from_bytes(bytes(&model)).unwrap();
    assert_eq!(read.subgraphs()[0].tensors[2].quantization.as_ref().unwrap().axis, 0);
    assert_eq!(read.subgraphs()[0].tensors[1].constant.as_ref().unwrap().strings().unwrap().get(0), b"a text");

    // The end of the first string lies before its start.
    strings.iter_mut().for_each(|bytes| bytes[8] = 0);
    buffer(&mut model).data = strings;
    let error = Model::from_bytes(bytes(&model)).unwrap_err().to_string();
    assert!(error.contains("is damaged: string 0 lies at"), "{error}");
}

#[test]
fn other_files_are_called_what_they_are() {
    let tar = [&[b'x'; 257][..], b"ustar"].concat();
    let cases: [(&[u8], &str); 11] = [
        (b"", "the file is empty"),
        (&tar, "a tar archive"),
        (b"\x1f\x8b\x08.....", "a gzip archive"),
        (b"\x89PNG\r\n\x1a\n", "a picture"),
        (b"\xff\xd8\xff\xe0..JFIF", "a picture"),
        (b"\x93NUMPY\x01\x00", "a .npy array"),
        (b"PK\x03\x04....", "extract the .tflite file"),
        (b"version https://git-lfs.github.com/spec/v1", "git lfs pull"),
        (b"<!DOCTYPE html>", "download the file itself"),
        (b"1234TFL2", "another generation"),
        (b"whatever", "not `TFL3`"),
    ];
    for (bytes, text) in cases {
        let error = Model::from_bytes(bytes).unwrap_err();
        assert_eq!(error.kind(), NotTflite);
        assert!(error.to_string().contains(text), "{error}");
    }
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.tflite");
    std::fs::write(&empty, b"").unwrap();
    assert_eq!(Model::from_path(&empty).unwrap_err().kind(), NotTflite);
    let directory = Model::from_path(folder.path()).unwrap_err();
    assert_eq!(directory.kind(), ModelErrorKind::Io);
    assert!(directory.to_string().contains("this is a directory"), "{directory}");
    let missing = Model::from_path("no/such/file.tflite").unwrap_err();
    assert_eq!(missing.kind(), ModelErrorKind::Io);
    assert!(missing.to_string().starts_with("no/such/file.tflite: "), "{missing}");
}

#[cfg(unix)]
#[test]
fn pipes_and_devices_are_refused_instead_of_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.tflite");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for path in [pipe.as_path(), "/dev/null".as_ref(), "/dev/zero".as_ref()] {
        let error = Model::from_path(path).unwrap_err();
        assert_eq!(error.kind(), ModelErrorKind::Io);
        assert!(error.to_string().contains("a pipe or a device"), "{error}");
    }
}

#[test]
fn files_are_mapped_and_shared() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("good.tflite");
    std::fs::write(&path, bytes(&good())).unwrap();
    let model = Model::from_path(&path).unwrap();
    let constant = model.subgraphs()[0].tensors[1].constant.clone().unwrap();
    assert!(model.bytes().as_ptr_range().contains(&constant.bytes.as_ptr()), "weights stay in the map");
    drop(model);
    assert_eq!(&*constant.values::<f32>().unwrap(), [1.0, 2.0]);
    let shared: Arc<[u8]> = bytes(&good()).into();
    assert_eq!(Model::from_shared(shared).unwrap().metadata().len(), 1);
    assert_eq!(Model::from_static(Box::leak(bytes(&good()).into())).unwrap().description(), "good");
}

#[test]
fn mutants_return() {
    let original = bytes(&good());
    let mut state = 7u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    };
    let mut opened = 0;
    for _ in 0..20_000 {
        let mut mutant = original.clone();
        for _ in 0..1 + next(3) {
            let position = next(mutant.len());
            mutant[position] = [0, 1, 0x7f, 0xff, next(256) as u8][next(5)];
        }
        mutant.truncate(if next(8) == 0 { next(original.len()) } else { original.len() });
        let Ok(model) = Model::from_bytes(mutant) else { continue };
        opened += 1;
        for (index, subgraph) in model.subgraphs().iter().enumerate() {
            for operator in 0..subgraph.operators.len() {
                model.operator_view(index, operator).unpack();
            }
        }
        let _ = (model.labels(), model.normalization(0), format!("{model:?}"));
    }
    assert!(opened > 1000, "only {opened} mutants opened: the checks behind the verifier were hardly met");
}

/// Opens a file of about a megabyte whose tables and strings are all shared: memory use must remain bounded.
#[test]
fn shared_parts_are_not_multiplied_without_bound() {
    let mut builder = FlatBufferBuilder::new();
    let name = builder.create_string(&"n".repeat(1 << 20));
    let tensor = Tensor::create(&mut builder, &TensorArgs { name: Some(name), ..Default::default() });
    let tensors = builder.create_vector(&vec![tensor; 100_000]);
    let graph = SubGraph::create(&mut builder, &SubGraphArgs { tensors: Some(tensors), ..Default::default() });
    let subgraphs = builder.create_vector(&vec![graph; 1_000]);
    let buffer = schema::Buffer::create(&mut builder, &BufferArgs::default());
    let buffers = builder.create_vector(&[buffer]);
    let arguments = ModelArgs { version: 3, subgraphs: Some(subgraphs), buffers: Some(buffers), ..Default::default() };
    let root = schema::Model::create(&mut builder, &arguments);
    schema::finish_model_buffer(&mut builder, root);
    let error = Model::from_bytes(builder.finished_data()).unwrap_err();
    assert_eq!(error.kind(), Corrupt);
    assert!(error.to_string().contains("over and over"), "{error}");
}

#[test]
fn a_constant_without_elements_needs_no_bytes() {
    let mut builder = ModelBuilder::new("scalar");
    let main = builder.subgraph("main");
    let x = builder.tensor(main, TensorBuilder::new("x", Float32, [1]));
    let [shape, unread, text] =
        [Int32, Int32, Text].map(|data_type| builder.tensor(main, TensorBuilder::new("empty", data_type, [0])));
    let [made, y] = ["made", "y"].map(|name| builder.tensor(main, TensorBuilder::new(name, Float32, [0])));
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::RESHAPE, [x, shape], [y]));
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::ADD, [made, text], [made]));
    builder.inputs(main, &[x]).outputs(main, &[y]);
    let model = Model::from_bytes(builder.finish()).unwrap();
    let tensors = &model.subgraphs()[0].tensors;
    let constant = tensors[shape].constant.as_ref().expect("nothing writes the shape");
    assert!(constant.bytes.is_empty() && constant.shape == [0].into() && constant.data_type == Int32);
    for other in [x, unread, text, made, y] {
        assert!(tensors[other].constant.is_none(), "{other}");
    }
}

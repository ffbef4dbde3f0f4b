//! Round trips: reads back what was written.

use super::*;
use crate::schema::{AddOptionsT, BuiltinOperator, BuiltinOptionsT};
use crate::{Model, QuantizationDetails};
use attache_base::{DataType, Quantization};

/// Returns a builder of a model that uses every feature of the builder.
fn builder() -> ModelBuilder {
    let mut builder = ModelBuilder::new("one of everything");
    let main = builder.subgraph("main");
    let x = builder.tensor(main, TensorBuilder::new("x", DataType::Float32, [1, 3]).shape_signature([-1, 3]));
    let w = builder.tensor(main, TensorBuilder::values("w", [3], &[1.0f32, 2.0, 3.0]));
    let state = builder.tensor(main, TensorBuilder::new("state", DataType::Float32, [1, 3]).variable());
    let per_axis = Quantization { scale: vec![0.5, 0.25], zero_point: vec![0, 1], axis: 1 };
    let q = TensorBuilder::values("q", [1, 2], &[1i8, 2]).quantization(&per_axis);
    let q = builder.tensor(main, q);
    let y = builder.tensor(main, TensorBuilder::new("y", DataType::Float32, [1, 3]));
    let z = builder.tensor(main, TensorBuilder::new("z", DataType::Float32, [1, 3]));
    let empty = builder.tensor(main, TensorBuilder::values::<f32>("empty", [0], &[]));
    let options = AddOptionsT { pot_scale_int16: false, ..Default::default() };
    let add = OperatorBuilder::new(BuiltinOperator::ADD, [x, w], [y]).version(2);
    builder.operator(main, add.options(BuiltinOptionsT::AddOptions(Box::new(options))));
    let inputs = [Some(y), None, Some(q), Some(empty)];
    builder.operator(main, OperatorBuilder::custom("Mine", *b"options", inputs, [z]).intermediates(&[state]));
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::GELU, [z], [y]));
    builder.inputs(main, &[x]).outputs(main, &[y, z]);
    builder.signature("run", main, &[("in", x)], &[("out", z)]).metadata("note", *b"hello");
    builder.subgraph("spare");
    builder
}

fn check(bytes: Vec<u8>) -> Model {
    let model = Model::from_bytes(bytes).unwrap_or_else(|error| panic!("{error}"));
    let main = &model.subgraphs()[0];
    assert_eq!((model.description(), model.subgraphs().len(), main.name.as_str()), ("one of everything", 2, "main"));
    assert_eq!((&main.inputs[..], &main.outputs[..], main.tensors.len()), (&[0][..], &[4, 5][..], 7));

    assert_eq!(main.tensors[0].shape_signature, Some(vec![-1, 3]));
    assert_eq!(&*main.tensors[0].shape, [1, 3]);
    assert!(main.tensors[0].constant.is_none() && main.tensors[0].has_rank && !main.tensors[0].is_sparse);
    assert_eq!(&*main.tensors[1].constant.as_ref().unwrap().values::<f32>().unwrap(), [1.0, 2.0, 3.0]);
    assert!(main.tensors[2].is_variable && main.tensors[2].constant.is_none());
    let per_axis = main.tensors[3].quantization.as_ref().unwrap();
    assert_eq!((&per_axis.scale[..], &per_axis.zero_point[..], per_axis.axis), (&[0.5, 0.25][..], &[0, 1][..], 1));
    assert_eq!(main.tensors[3].quantization_details, QuantizationDetails::None);
    assert_eq!(main.tensors[6].constant.as_ref().unwrap().bytes.len(), 0);

    let [add, mine, gelu] = main.operators.as_slice() else { panic!("three operators") };
    assert_eq!((add.code.name().as_str(), add.code.version, &add.inputs[..]), ("ADD", 2, &[Some(0), Some(1)][..]));
    let options = model.operator_view(0, 0).builtin_options_as_add_options().unwrap();
    assert!(!options.pot_scale_int16());
    assert_eq!((mine.code.name().as_str(), mine.code.builtin), ("Mine", BuiltinOperator::CUSTOM));
    assert_eq!(mine.custom_options.as_deref(), Some(&b"options"[..]));
    assert_eq!((&mine.inputs[..], &mine.intermediates[..]), (&[Some(4), None, Some(3), Some(6)][..], &[2][..]));
    assert_eq!((gelu.code.builtin, gelu.code.version), (BuiltinOperator::GELU, 1));

    let [signature] = model.signatures() else { panic!("one signature") };
    assert_eq!((signature.key.as_str(), signature.subgraph), ("run", 0));
    assert_eq!((&signature.inputs[..], &signature.outputs[..]), (&[("in".into(), 0)][..], &[("out".into(), 5)][..]));
    assert_eq!(model.metadata_named("note").map(|bytes| &**bytes), Some(&b"hello"[..]));
    model
}

#[test]
fn what_is_written_is_read_back() {
    let model = check(builder().finish());
    let codes = model.root().operator_codes().unwrap();
    let old: Vec<i8> = codes.iter().map(|code| code.deprecated_builtin_code()).collect();
    assert_eq!(old, [0, 32, 127], "as converters write them");
}

#[test]
fn data_may_lie_outside_the_flatbuffer() {
    let model = check(builder().data_outside().finish());
    let buffers = model.root().buffers().unwrap();
    assert!(buffers.iter().all(|buffer| buffer.data().is_none()));
    assert!(buffers.iter().skip(1).all(|buffer| buffer.offset() > 1 && buffer.offset() % 16 == 0));
    assert_eq!(model.operator_view(0, 1).custom_options().map(|options| options.len()), None);
}

#[test]
fn data_may_stay_where_it_is() {
    let data = Bytes::from_vec(vec![1, 2, 3, 4]);
    let mut builder = builder();
    builder.tensor(0, TensorBuilder::new("apart", DataType::UInt8, [4]).data(data.clone()));
    let model = builder.model().unwrap();
    let constant = model.subgraphs()[0].tensors.last().unwrap().constant.as_ref().unwrap();
    assert_eq!((constant.bytes.as_ptr(), constant.bytes.len()), (data.as_ptr(), 4));
    assert!(model.root().buffers().unwrap().iter().all(|buffer| buffer.data().is_none()));
    assert_eq!(model.metadata_named("note").map(|bytes| &**bytes), Some(&b"hello"[..]));

    builder.tensor(0, TensorBuilder::new("short", DataType::UInt8, [5]).data(data));
    assert!(builder.model().unwrap_err().to_string().contains("the data has 4 bytes"));
}

#[test]
fn data_is_aligned() {
    for odd in 0..20 {
        let mut builder = builder();
        builder.metadata(&"n".repeat(odd), vec![1; odd]);
        let model = Model::from_bytes(builder.finish()).unwrap();
        for buffer in model.root().buffers().unwrap() {
            let offset = buffer.data().map_or(0, |data| data.bytes().as_ptr().addr() - model.bytes().as_ptr().addr());
            assert_eq!(offset % 16, 0);
        }
    }
}

#[test]
fn many_weights_are_written_quickly() {
    let mut builder = ModelBuilder::new("large");
    let main = builder.subgraph("main");
    let size = 100 << 20;
    let data = Bytes::from_vec(vec![7; size]);
    builder.tensor(main, TensorBuilder::new("w", DataType::UInt8, [size]).data(data));
    let start = std::time::Instant::now();
    let model = Model::from_bytes(builder.finish()).unwrap();
    assert_eq!(model.subgraphs()[0].tensors[0].constant.as_ref().unwrap().bytes[size - 1], 7);
    assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
}

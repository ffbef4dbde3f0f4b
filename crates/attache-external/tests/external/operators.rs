#![allow(unsafe_code)]
//! Operators of C.

use std::path::PathBuf;

use attache::DataType::{Float32, Int8};
use attache::{Interpreter, Model, ModelBuilder, OpResolver, OperatorBuilder, Quantization, TensorBuilder};
use attache_abi::{TfLiteBuiltinOperator, TfLiteRegistration};
use attache_external::add_registration;

use crate::support::library;

/// Registers the operators of the library.
fn resolver(path: &PathBuf) -> OpResolver {
    let mut resolver = OpResolver::new();
    // SAFETY: the library is the one of this test, its functions have these types, and it is never unloaded.
    unsafe {
        let library = libloading::Library::new(path).unwrap();
        type Register = unsafe extern "C" fn() -> TfLiteRegistration;
        for (symbol, name) in [
            (&b"Register_HALVE\0"[..], "Halve"),
            (b"Register_KEEP\0", "Keep"),
            (b"Register_COUNT\0", "Count"),
            (b"Register_REQUANTIZE\0", "Requantize"),
        ] {
            let mut registration = library.get::<Register>(symbol).unwrap()();
            // What a program compiled with a shorter registration may pass.
            registration.registration_external = std::ptr::without_provenance_mut(16);
            add_registration(&mut resolver, TfLiteBuiltinOperator::CUSTOM, Some(name), 1..=1, &registration);
        }
        std::mem::forget(library);
    }
    resolver
}

/// Returns the library's count of nodes whose data is not freed.
fn alive(path: &PathBuf) -> i32 {
    // SAFETY: as above.
    unsafe {
        let library = libloading::Library::new(path).unwrap();
        library.get::<unsafe extern "C" fn() -> i32>(b"operators_alive\0").unwrap()()
    }
}

/// Returns a model of one custom operator.
fn model(name: &str, options: &[u8]) -> Model {
    let mut builder = ModelBuilder::new(name);
    let main = builder.subgraph("main");
    let x = builder.tensor(main, TensorBuilder::new("x", Float32, [4]));
    let y = builder.tensor(main, TensorBuilder::new("y", Float32, [4]));
    builder.operator(main, OperatorBuilder::custom(name, options, [x], [y]));
    builder.inputs(main, &[x]).outputs(main, &[y]);
    Model::from_bytes(builder.finish()).unwrap()
}

fn run(interpreter: &mut Interpreter, values: &[f32]) -> Result<Vec<f32>, attache::Error> {
    interpreter.input(0)?.copy_from(values)?;
    interpreter.invoke()?;
    interpreter.output(0)?.as_slice().map(<[f32]>::to_vec)
}

#[test]
fn a_custom_operator_runs_with_its_options() {
    let path = library("operators.c", "liboperators.so", &[]);
    let (resolver, model) = (resolver(&path), model("Halve", &4f32.to_ne_bytes()));
    {
        let compiled = Interpreter::builder(&model).operators(&resolver).compile().unwrap();
        let (mut one, mut other) = (compiled.interpreter().unwrap(), compiled.interpreter().unwrap());
        assert_eq!(run(&mut one, &[4.0, 8.0, 12.0, 16.0]).unwrap(), [1.0, 2.0, 3.0, 4.0]);
        one.resize_input(0, &[2]).unwrap();
        assert_eq!(run(&mut one, &[4.0, 8.0]).unwrap(), [1.0, 2.0]);
        assert_eq!(run(&mut other, &[8.0, 8.0, 12.0, 16.0]).unwrap(), [2.0, 2.0, 3.0, 4.0]);
        assert!(alive(&path) > 0);
    }
    assert_eq!(alive(&path), 0);
}

#[test]
fn an_operator_may_decide_on_its_shape_in_the_run() {
    let path = library("operators.c", "libkeep.so", &[]);
    let mut interpreter = Interpreter::builder(&model("Keep", &[])).operators(&resolver(&path)).build().unwrap();
    assert_eq!(run(&mut interpreter, &[2.0, 5.0, 6.0, 7.0]).unwrap(), [2.0, 5.0]);
    assert_eq!(run(&mut interpreter, &[3.0, 5.0, 6.0, 7.0]).unwrap(), [3.0, 5.0, 6.0]);
    let error = run(&mut interpreter, &[9.0, 5.0, 6.0, 7.0]).unwrap_err().to_string();
    assert!(error.contains("Keep: 9 elements of 4"), "{error}");
}

#[test]
fn an_operator_keeps_its_state_when_shapes_change() {
    let path = library("operators.c", "libcount.so", &[]);
    let resolver = resolver(&path);
    let model = model("Count", &[]);
    let (mut one, mut other) = (
        Interpreter::builder(&model).operators(&resolver).build().unwrap(),
        Interpreter::builder(&model).operators(&resolver).build().unwrap(),
    );
    assert_eq!(alive(&path), 2);
    assert_eq!(run(&mut one, &[0.0; 4]).unwrap(), [1.0; 4]);
    assert_eq!(run(&mut one, &[0.0; 4]).unwrap(), [2.0; 4]);
    one.resize_input(0, &[2]).unwrap();
    assert_eq!(run(&mut one, &[0.0; 2]).unwrap(), [3.0; 2]);
    one.resize_input(0, &[4]).unwrap();
    assert_eq!(run(&mut one, &[5.0; 4]).unwrap(), [9.0; 4]);
    assert_eq!(run(&mut other, &[0.0; 4]).unwrap(), [1.0; 4]);
    assert_eq!(alive(&path), 2);
    drop((one, other));
    assert_eq!(alive(&path), 0);
}

#[test]
fn an_operator_of_constants_runs_in_each_run() {
    let path = library("operators.c", "libconstant.so", &[]);
    let mut builder = ModelBuilder::new("constant");
    let main = builder.subgraph("main");
    let constant = builder.tensor(main, TensorBuilder::values("constant", [4], &[1.0f32, 2.0, 3.0, 4.0]));
    let y = builder.tensor(main, TensorBuilder::new("y", Float32, [4]));
    let unread = builder.tensor(main, TensorBuilder::new("unread", Float32, [4]));
    let between = builder.tensor(main, TensorBuilder::new("between", Float32, [4]));
    let operator = OperatorBuilder::custom("Count", &b""[..], [constant], [y]);
    builder.operator(main, operator.intermediates(&[between]));
    builder.operator(main, OperatorBuilder::custom("Count", &b""[..], [constant], [unread]));
    builder.inputs(main, &[]).outputs(main, &[y]);
    let model = Model::from_bytes(builder.finish()).unwrap();
    let mut interpreter = Interpreter::builder(&model).operators(&resolver(&path)).build().unwrap();
    assert_eq!(alive(&path), 2);
    for runs in 1..4 {
        interpreter.invoke().unwrap();
        let expected = [1.0, 2.0, 3.0, 4.0].map(|value: f32| value + runs as f32);
        assert_eq!(interpreter.output(0).unwrap().as_slice::<f32>().unwrap(), expected);
    }
}

#[test]
fn an_operator_sees_the_quantization_of_its_outputs_and_the_threads() {
    let path = library("operators.c", "librequantize.so", &[]);
    let mut builder = ModelBuilder::new("requantize");
    let main = builder.subgraph("main");
    let quantized = |name, scale, zero_point| {
        let quantization = Quantization { scale: vec![scale], zero_point: vec![zero_point], axis: 0 };
        TensorBuilder::new(name, Int8, [4]).quantization(&quantization)
    };
    let x = builder.tensor(main, quantized("x", 0.5, 0));
    let y = builder.tensor(main, quantized("y", 0.25, 3));
    builder.operator(main, OperatorBuilder::custom("Requantize", &b""[..], [x], [y]));
    builder.inputs(main, &[x]).outputs(main, &[y]);
    let model = Model::from_bytes(builder.finish()).unwrap();
    let mut interpreter = Interpreter::builder(&model).operators(&resolver(&path)).threads(2).build().unwrap();
    interpreter.input(0).unwrap().copy_from(&[1i8, 2, 3, -4]).unwrap();
    interpreter.invoke().unwrap();
    assert_eq!(interpreter.output(0).unwrap().as_slice::<i8>().unwrap(), [5, 7, 9, -5]);
}

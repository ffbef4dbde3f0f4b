//! Delegates that do what they should.

use attache::DataType::Float32;
use attache::model::schema::{
    AddOptionsT, BuiltinOperator, BuiltinOptions2T, BuiltinOptionsT, MulOptionsT, StableHLOCompositeOptionsT,
};
use attache::{CompiledModel, Interpreter, Model, ModelBuilder, OperatorBuilder, Outcome, TensorBuilder};
use attache_external::ExternalDelegate;

use crate::support::{COUNT, arithmetic, expected, library, model, run, with};

/// Checks where the operators of the model run, by the delegate's name.
fn check_placement(compiled: &CompiledModel, name: &str) {
    let placement = compiled.placement();
    let on = |index: usize| match &placement.nodes[index].outcome {
        Outcome::On { delegate, partition } => format!("{delegate} {partition}"),
        Outcome::Cpu => placement.nodes[index].reason.clone().unwrap_or_default(),
        Outcome::Folded { into } => into.clone(),
    };
    let first = format!("{name} 0");
    let expected = [&first, &first, &first, "the delegate does not take it", &format!("{name} 1")];
    assert_eq!((0..5).map(on).collect::<Vec<_>>(), expected);
    assert_eq!(placement.partitions, 2);
}

#[test]
fn a_classic_delegate_runs_what_it_takes() {
    let compiled = with(arithmetic("none")).compile().unwrap();
    check_placement(&compiled, "arithmetic_none");
    let mut interpreter = compiled.interpreter().unwrap();
    for _ in 0..3 {
        assert_eq!(run(&mut interpreter).unwrap(), expected());
    }
}

#[test]
fn interpreters_have_kernels_of_their_own() {
    let compiled = with(arithmetic("none")).compile().unwrap();
    let threads = (0..4).map(|_| {
        let compiled = compiled.clone();
        std::thread::spawn(move || {
            let mut interpreter = compiled.interpreter().unwrap();
            (0..50).for_each(|_| assert_eq!(run(&mut interpreter).unwrap(), expected()));
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn inputs_of_other_shapes_are_prepared_anew() {
    let mut interpreter = with(arithmetic("none")).build().unwrap();
    let before = run(&mut interpreter).unwrap();
    // The constant does not fit, so the delegate takes only nodes of equal shapes; the CPU broadcasts the others.
    interpreter.resize_input(0, &[1, 3]).unwrap();
    interpreter.input(0).unwrap().copy_from(&[1.0f32, 2.0, 3.0]).unwrap();
    interpreter.invoke().unwrap();
    assert_eq!(interpreter.output(0).unwrap().elements(), COUNT);
    interpreter.resize_input(0, &[2, 3]).unwrap();
    assert_eq!(run(&mut interpreter).unwrap(), before);
}

#[test]
fn delegates_and_kernels_are_freed() {
    let path = library("arithmetic.c", "libfreed.so", &[]);
    // SAFETY: the library is the one of this test, and its function has this type.
    #[allow(unsafe_code)]
    let alive = || unsafe {
        let library = libloading::Library::new(&path).unwrap();
        library.get::<unsafe extern "C" fn() -> i32>(b"arithmetic_alive\0").unwrap()()
    };
    {
        let delegate = ExternalDelegate::load(&path, &[]).unwrap();
        assert_eq!(alive(), 1);
        let compiled = with(delegate).compile().unwrap();
        let (mut one, mut other) = (compiled.interpreter().unwrap(), compiled.interpreter().unwrap());
        drop(compiled);
        // Two partitions in each of two interpreters. The second one has sessions of its own for them.
        assert!(alive() >= 5, "{}", alive());
        assert_eq!(run(&mut one).unwrap(), run(&mut other).unwrap());
        drop(one);
        assert_eq!(run(&mut other).unwrap(), expected());
    }
    assert_eq!(alive(), 0);
}

#[test]
fn buffers_of_a_delegate_are_read_and_freed() {
    let path = library("arithmetic.c", "libhandle.so", &[]);
    // SAFETY: the library is the one of this test, and its function has this type.
    #[allow(unsafe_code)]
    let alive = || unsafe {
        let library = libloading::Library::new(&path).unwrap();
        library.get::<unsafe extern "C" fn() -> i32>(b"arithmetic_alive\0").unwrap()()
    };
    {
        let delegate = ExternalDelegate::load(&path, &[("fault", "handle")]).unwrap();
        let mut interpreter = with(delegate).build().unwrap();
        assert_eq!(alive(), 5, "a delegate, two kernels and two buffers");
        assert_eq!(run(&mut interpreter).unwrap(), expected());
        assert_eq!(run(&mut interpreter).unwrap(), expected());
    }
    assert_eq!(alive(), 0);
}

#[test]
fn an_opaque_delegate_runs_what_it_takes() {
    let path = library("opaque.c", "libopaque.so", &[]);
    let compiled = with(ExternalDelegate::load(path, &[]).unwrap()).compile().unwrap();
    check_placement(&compiled, "opaque");
    let (mut one, mut other) = (compiled.interpreter().unwrap(), compiled.interpreter().unwrap());
    assert_eq!(run(&mut one).unwrap(), expected());
    assert_eq!(run(&mut other).unwrap(), expected());
}

#[test]
fn a_stable_delegate_runs_what_it_takes() {
    let path = library("opaque.c", "libstable.so", &["-DSTABLE"]);
    let compiled = with(ExternalDelegate::load(&path, &[]).unwrap()).compile().unwrap();
    check_placement(&compiled, "stable_arithmetic");
    assert_eq!(run(&mut compiled.interpreter().unwrap()).unwrap(), expected());
    let error = ExternalDelegate::load(&path, &[("power", "low")]).unwrap_err().to_string();
    assert!(error.contains("\"power\"") && error.contains("\"settings\""), "{error}");
}

#[test]
fn several_delegates_share_a_model() {
    let classic = arithmetic("none");
    let opaque = ExternalDelegate::load(library("opaque.c", "libsecond.so", &[]), &[]).unwrap();
    let mut interpreter = Interpreter::builder(&model()).delegate(classic).delegate(opaque).build().unwrap();
    assert_eq!(run(&mut interpreter).unwrap(), expected());
}

#[test]
fn a_delegate_may_replace_nodes_twice() {
    // y = -x; a = x + x; b = y * y; c = b + b; d = a * a: the additions and the multiplications read each other.
    let mut builder = ModelBuilder::new("twice");
    let main = builder.subgraph("main");
    let [x, y, a, b, c, d] =
        ["x", "y", "a", "b", "c", "d"].map(|name| builder.tensor(main, TensorBuilder::new(name, Float32, [COUNT])));
    let add = || BuiltinOptionsT::AddOptions(Box::<AddOptionsT>::default());
    let mul = || BuiltinOptionsT::MulOptions(Box::<MulOptionsT>::default());
    let mut operator = |code, inputs: &[usize], output, options| {
        let built = OperatorBuilder::new(code, inputs.iter().copied(), [output]).options(options);
        builder.operator(main, built);
    };
    operator(BuiltinOperator::NEG, &[x], y, BuiltinOptionsT::NONE);
    operator(BuiltinOperator::ADD, &[x, x], a, add());
    operator(BuiltinOperator::MUL, &[y, y], b, mul());
    operator(BuiltinOperator::ADD, &[b, b], c, add());
    operator(BuiltinOperator::MUL, &[a, a], d, mul());
    builder.inputs(main, &[x]).outputs(main, &[c, d]);
    let model = Model::from_bytes(builder.finish()).unwrap();
    let mut interpreter = Interpreter::builder(&model).delegate(arithmetic("two")).build().unwrap();
    assert_eq!(interpreter.placement().nodes.iter().filter(|node| node.outcome != Outcome::Cpu).count(), 4);
    interpreter.input(0).unwrap().copy_from(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    interpreter.invoke().unwrap();
    assert_eq!(interpreter.output(0).unwrap().as_slice::<f32>().unwrap(), [2.0, 8.0, 18.0, 32.0, 50.0, 72.0]);
    assert_eq!(interpreter.output(1).unwrap().as_slice::<f32>().unwrap(), [4.0, 16.0, 36.0, 64.0, 100.0, 144.0]);
}

/// Returns the composite `(x + x) * x`, then `+ x`.
fn composed() -> Model {
    let mut builder = ModelBuilder::new("composed");
    let add = || BuiltinOptionsT::AddOptions(Box::<AddOptionsT>::default());
    let mul = || BuiltinOptionsT::MulOptions(Box::<MulOptionsT>::default());
    let subgraphs = ["main", "inner"].map(|name| builder.subgraph(name));
    let [[x, y, z], [a, b, c]] =
        subgraphs.map(|subgraph| [(); 3].map(|()| builder.tensor(subgraph, TensorBuilder::new("", Float32, [2, 3]))));
    let options = StableHLOCompositeOptionsT {
        name: Some("test.composite".to_owned()),
        decomposition_subgraph_index: 1,
        composite_attributes: Some(Vec::new()),
        ..Default::default()
    };
    let options = BuiltinOptions2T::StableHLOCompositeOptions(options.into());
    builder.operator(0, OperatorBuilder::new(BuiltinOperator::STABLEHLO_COMPOSITE, [x], [y]).options_2(options));
    builder.operator(0, OperatorBuilder::new(BuiltinOperator::ADD, [y, x], [z]).options(add()));
    builder.operator(1, OperatorBuilder::new(BuiltinOperator::ADD, [a, a], [b]).options(add()));
    builder.operator(1, OperatorBuilder::new(BuiltinOperator::MUL, [b, a], [c]).options(mul()));
    builder.inputs(0, &[x]).outputs(0, &[z]).inputs(1, &[a]).outputs(1, &[c]);
    Model::from_bytes(builder.finish()).unwrap()
}

#[test]
fn the_operators_of_a_composite_are_nodes() {
    let mut interpreter = Interpreter::builder(&composed()).delegate(arithmetic("none")).build().unwrap();
    let placement = interpreter.placement();
    let names: Vec<&str> = placement.nodes[0].inlined.iter().map(|node| node.operator.as_str()).collect();
    assert_eq!((names, placement.partitions, placement.delegated()), (vec!["ADD", "MUL"], 1, 2));
    interpreter.input(0).unwrap().copy_from(&[0.0f32, 1.0, 2.0, 3.0, -1.0, 0.5]).unwrap();
    interpreter.invoke().unwrap();
    let expected = [0.0, 3.0, 10.0, 21.0, 1.0, 1.0];
    assert_eq!(interpreter.output(0).unwrap().as_slice::<f32>().unwrap(), expected);
}

//! Tests of calls whose subgraph's nodes take their place: composites, which operators they become and which stay.

use std::time::{Duration, Instant};

use attache::DataType::{Float32, Int8, Resource};
use attache::model::schema::{
    BuiltinOperator, BuiltinOptions2T, BuiltinOptionsT, StableHLOCompositeOptionsT, VarHandleOptionsT,
};
use attache::{ErrorKind, Interpreter, Model, ModelBuilder, OperatorBuilder, Outcome, Quantization, TensorBuilder};

use crate::common::{floats, on_cpu, run};

/// Builds a model with subgraphs that composites call.
struct Calls(ModelBuilder);

impl Calls {
    fn new(subgraphs: usize) -> Self {
        let mut builder = ModelBuilder::new("test");
        for index in 0..subgraphs {
            builder.subgraph(&format!("subgraph {index}"));
        }
        Self(builder)
    }

    fn tensor(&mut self, subgraph: usize) -> usize {
        self.0.tensor(subgraph, TensorBuilder::new("", Float32, [3]))
    }

    fn apply(&mut self, subgraph: usize, operator: BuiltinOperator, inputs: &[usize]) -> usize {
        let output = self.tensor(subgraph);
        self.0.operator(subgraph, OperatorBuilder::new(operator, inputs.iter().copied(), [output]));
        output
    }

    fn add(&mut self, subgraph: usize, a: usize, b: usize) -> usize {
        self.apply(subgraph, BuiltinOperator::ADD, &[a, b])
    }

    /// Adds a composite called `name` that runs the subgraph `callee`.
    fn call(&mut self, subgraph: usize, name: &str, callee: usize, inputs: &[usize], outputs: &[usize]) {
        let options = StableHLOCompositeOptionsT {
            name: Some(name.to_owned()),
            decomposition_subgraph_index: callee as i32,
            composite_attributes: Some(Vec::new()),
            ..Default::default()
        };
        let (inputs, outputs) = (inputs.iter().copied(), outputs.iter().copied());
        let operator = OperatorBuilder::new(BuiltinOperator::STABLEHLO_COMPOSITE, inputs, outputs);
        let options = BuiltinOptions2T::StableHLOCompositeOptions(options.into());
        self.0.operator(subgraph, operator.options_2(options));
    }

    fn ends(&mut self, subgraph: usize, inputs: &[usize], outputs: &[usize]) {
        self.0.inputs(subgraph, inputs).outputs(subgraph, outputs);
    }

    /// Makes the first subgraph one call of the second, with one input and one output, after which `RELU` follows.
    fn one_call(mut self) -> Self {
        let (x, y) = (self.tensor(0), self.tensor(0));
        self.call(0, "test.call", 1, &[x], &[y]);
        let z = self.apply(0, BuiltinOperator::RELU, &[y]);
        self.ends(0, &[x], &[z]);
        self
    }

    fn model(&self) -> Model {
        Model::from_bytes(self.0.finish()).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// Builds a model of which the second subgraph adds its input to itself twice.
fn doubled() -> Calls {
    let mut calls = Calls::new(2);
    let x = calls.tensor(1);
    let y = calls.add(1, x, x);
    let z = calls.add(1, y, x);
    calls.ends(1, &[x], &[z]);
    calls
}

/// Returns the number of operators that took the place of the first operator.
fn inlined(interpreter: &Interpreter) -> usize {
    interpreter.placement().nodes[0].inlined.len()
}

#[test]
fn reports_say_what_is_in_a_call() {
    let model = doubled().one_call().model();
    let mut interpreter = Interpreter::builder(&model).threads(1).profile(true).build().unwrap();
    run(&mut interpreter, &[&[1.0, -2.0, 3.0]]);
    assert_eq!(floats(&interpreter, 0), [3.0, 0.0, 9.0]);
    let nodes = &interpreter.placement().nodes;
    let inside: Vec<_> =
        nodes[0].inlined.iter().map(|node| (node.subgraph, node.index, node.operator.as_str())).collect();
    assert_eq!((nodes.len(), inside), (2, vec![(1, 0, "ADD"), (1, 1, "ADD")]));
    let text = interpreter.placement().to_string();
    let expected = "0 STABLEHLO_COMPOSITE version 1: CPU\n    subgraph 1, 0 ADD version 1: CPU\n";
    assert!(text.starts_with(expected), "{text}");
    let timed: Vec<_> = interpreter.profile().unwrap().operators.iter().flat_map(|own| own.operators.clone()).collect();
    let own = (0, "test.call/ADD".to_owned());
    assert_eq!(timed, [own.clone(), own, (1, "RELU".to_owned())]);
    let text = attache::stages::passes(&model, 0, &[]).unwrap();
    assert!(text.contains("# 0: test.call, subgraph 1, operator 1"), "{text}");
}

#[test]
fn a_subgraph_may_return_a_tensor_twice() {
    let mut calls = Calls::new(2);
    let x = calls.tensor(1);
    let y = calls.add(1, x, x);
    calls.ends(1, &[x], &[y, y]);
    let (x, a, b) = (calls.tensor(0), calls.tensor(0), calls.tensor(0));
    calls.call(0, "test.twice", 1, &[x], &[a, b]);
    let sum = calls.add(0, a, b);
    calls.ends(0, &[x], &[sum]);
    let mut interpreter = on_cpu(&calls.model());
    run(&mut interpreter, &[&[1.0, 2.0, 3.0]]);
    assert_eq!((floats(&interpreter, 0), inlined(&interpreter)), (vec![4.0, 8.0, 12.0], 1));
    // Both are outputs of the graph, so that the call stays.
    calls.ends(0, &[x], &[sum, a, b]);
    let mut interpreter = on_cpu(&calls.model());
    run(&mut interpreter, &[&[1.0, 2.0, 3.0]]);
    let outputs = [0, 1, 2].map(|output| floats(&interpreter, output));
    assert_eq!(outputs, [vec![4.0, 8.0, 12.0], vec![2.0, 4.0, 6.0], vec![2.0, 4.0, 6.0]]);
    assert_eq!(inlined(&interpreter), 0);
}

#[test]
fn tensors_that_a_call_makes_are_kept() {
    let model = doubled().one_call().model();
    let mut interpreter = Interpreter::builder(&model).threads(1).preserve_all_tensors(true).build().unwrap();
    run(&mut interpreter, &[&[1.0, -2.0, 3.0]]);
    let made = model.subgraphs()[0].operators[0].outputs[0];
    assert_eq!(interpreter.tensor(made).unwrap().as_slice::<f32>().unwrap(), [3.0, -6.0, 9.0]);
    assert_eq!(inlined(&interpreter), 2);
}

#[test]
fn inputs_of_other_shapes_reach_the_operators_of_a_call() {
    let model = doubled().one_call().model();
    let mut interpreter = Interpreter::builder(&model).threads(1).input_shape(0, &[2, 1]).build().unwrap();
    run(&mut interpreter, &[&[1.0, 2.0]]);
    assert_eq!((floats(&interpreter, 0), inlined(&interpreter)), (vec![3.0, 6.0], 2));
}

#[test]
fn calls_of_subgraphs_with_variable_tensors_stay() {
    let mut calls = doubled();
    calls.0.tensor(1, TensorBuilder::new("state", Float32, [3]).variable());
    let mut interpreter = on_cpu(&calls.one_call().model());
    run(&mut interpreter, &[&[1.0, 2.0, 3.0]]);
    assert_eq!((floats(&interpreter, 0), inlined(&interpreter)), (vec![3.0, 6.0, 9.0], 0));
}

#[test]
fn calls_with_other_scales_stay() {
    for (scale, inside) in [(0.5, 1), (0.25, 0)] {
        let mut calls = Calls::new(2);
        let tensor = |calls: &mut Calls, subgraph, scale| {
            let quantization = Quantization { scale: vec![scale], zero_point: vec![0], axis: 0 };
            calls.0.tensor(subgraph, TensorBuilder::new("", Int8, [3]).quantization(&quantization))
        };
        let [x, y] = [0.5, 0.5].map(|scale| tensor(&mut calls, 1, scale));
        calls.0.operator(1, OperatorBuilder::new(BuiltinOperator::RELU, [x], [y]));
        calls.ends(1, &[x], &[y]);
        let [x, y] = [scale, 0.5].map(|scale| tensor(&mut calls, 0, scale));
        calls.call(0, "test.call", 1, &[x], &[y]);
        calls.ends(0, &[x], &[y]);
        assert_eq!(inlined(&on_cpu(&calls.model())), inside, "scale {scale}");
    }
}

#[test]
fn variables_are_assigned_and_read_in_order() {
    let mut calls = Calls::new(2);
    let handle = |calls: &mut Calls, subgraph| {
        let handle = calls.0.tensor(subgraph, TensorBuilder::new("", Resource, []));
        let options = VarHandleOptionsT { container: Some(String::new()), shared_name: Some("v".to_owned()) };
        let operator = OperatorBuilder::new(BuiltinOperator::VAR_HANDLE, [None::<usize>; 0], [handle]);
        calls.0.operator(subgraph, operator.options(BuiltinOptionsT::VarHandleOptions(options.into())));
        handle
    };
    // The subgraph adds its input to the variable and returns the sum.
    let x = calls.tensor(1);
    let variable = handle(&mut calls, 1);
    let before = calls.apply(1, BuiltinOperator::READ_VARIABLE, &[variable]);
    let sum = calls.add(1, before, x);
    calls.0.operator(1, OperatorBuilder::new(BuiltinOperator::ASSIGN_VARIABLE, [variable, sum], []));
    calls.ends(1, &[x], &[sum]);
    let x = calls.tensor(0);
    let variable = handle(&mut calls, 0);
    calls.0.operator(0, OperatorBuilder::new(BuiltinOperator::ASSIGN_VARIABLE, [variable, x], []));
    let [first, second] = [calls.tensor(0), calls.tensor(0)];
    calls.call(0, "test.first", 1, &[x], &[first]);
    calls.call(0, "test.second", 1, &[first], &[second]);
    let last = calls.apply(0, BuiltinOperator::READ_VARIABLE, &[variable]);
    calls.ends(0, &[x], &[first, second, last]);
    let mut interpreter = on_cpu(&calls.model());
    for _ in 0..2 {
        run(&mut interpreter, &[&[1.0, 2.0, 3.0]]);
        let outputs = [0, 1, 2].map(|output| floats(&interpreter, output));
        assert_eq!(outputs, [vec![2.0, 4.0, 6.0], vec![4.0, 8.0, 12.0], vec![4.0, 8.0, 12.0]]);
    }
    let places = interpreter.placement().nodes.iter().map(|node| node.inlined.len()).collect::<Vec<_>>();
    assert_eq!(places, [0, 0, 4, 4, 0]);
}

#[test]
fn a_subgraph_that_calls_itself_is_an_error_of_the_run() {
    for callees in [vec![1], vec![2, 1], vec![0]] {
        let mut calls = Calls::new(callees.len() + 1).one_call();
        for (index, callee) in callees.iter().enumerate() {
            let [x, y] = [calls.tensor(index + 1), calls.tensor(index + 1)];
            calls.call(index + 1, "test.again", *callee, &[x], &[y]);
            calls.ends(index + 1, &[x], &[y]);
        }
        let mut interpreter = on_cpu(&calls.model());
        interpreter.write(0, &[1.0f32; 3]).unwrap();
        let error = interpreter.invoke().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Model, "{callees:?}: {error}");
        assert!(error.to_string().contains("which is running already"), "{callees:?}: {error}");
    }
}

#[test]
fn calls_that_double_at_each_level_end() {
    const LEVELS: usize = 40;
    let mut calls = Calls::new(LEVELS + 1);
    for level in 0..LEVELS {
        let [x, y, z] = [(); 3].map(|()| calls.tensor(level));
        calls.call(level, "test.double", level + 1, &[x], &[y]);
        calls.call(level, "test.double", level + 1, &[y], &[z]);
        calls.ends(level, &[x], &[z]);
    }
    let x = calls.tensor(LEVELS);
    let y = calls.add(LEVELS, x, x);
    calls.ends(LEVELS, &[x], &[y]);
    let start = Instant::now();
    let interpreter = on_cpu(&calls.model());
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    let mut nodes: Vec<_> = interpreter.placement().nodes.iter().collect();
    let mut count = 0;
    while let Some(node) = nodes.pop() {
        count += 1;
        nodes.extend(&node.inlined);
    }
    assert!((1_000..100_000).contains(&count), "{count}");
    assert!(matches!(interpreter.placement().nodes[0].outcome, Outcome::Cpu));
}

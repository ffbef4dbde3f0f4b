//! Networks with variable tensors run whole on the GPU: their states are those of the CPU over many runs, after a reset, and
//! in several interpreters.

use std::sync::Arc;

use attache::gpu::Quantized;
use attache::model::schema::{BuiltinOperator, BuiltinOptionsT, CallOnceOptionsT, VarHandleOptionsT};
use attache::{
    CompiledModel, DataType, Delegate, GpuDelegate, GpuDelegateOptions, Interpreter, Model, ModelBuilder,
    OperatorBuilder, TensorBuilder,
};

use crate::goldens::{Case, cases};

/// Cases with states: a memory of two nodes that share their variables, filters over time, and units in both directions.
const CASES: [&str; 7] = [
    "f32_UNIDIRECTIONAL_SEQUENCE_LSTM_goes_on",
    "i8_UNIDIRECTIONAL_SEQUENCE_LSTM_integers_go_on",
    "i8_LSTM_full_integers_everything",
    "f32_LSTM_full_goes_on",
    "f32_SVDF_rank_2",
    "f32_BIDIRECTIONAL_SEQUENCE_RNN_batch_major",
    "i8_SVDF_integers_rank_2",
];

/// Number of runs whose outputs are compared.
const RUNS: usize = 150;

fn case(name: &str) -> Case {
    cases().into_iter().find(|case| case.name == name).unwrap_or_else(|| panic!("no case {name}"))
}

/// Runs once and returns the bytes of all outputs.
fn next(interpreter: &mut Interpreter) -> Vec<Vec<u8>> {
    interpreter.invoke().unwrap();
    (0..interpreter.outputs().len()).map(|output| interpreter.read_bytes(output).unwrap().to_vec()).collect()
}

/// Compiles a case for the GPU, which must run all of it in one partition.
fn on_gpu(case: &Case) -> CompiledModel {
    let options = GpuDelegateOptions::default().software(true).quantized(Quantized::Exact);
    let gpu: Arc<dyn Delegate> = Arc::new(GpuDelegate::new(options).expect("a device to test on"));
    let builder = Interpreter::builder(case.model()).threads(1).delegate(gpu).require_delegation(true);
    let compiled = builder.compile().unwrap();
    assert_eq!(compiled.placement().partitions, 1, "{}", case.name);
    compiled
}

#[test]
fn states_are_those_of_the_cpu() {
    let _alone = crate::validation::alone();
    for case in CASES.map(case) {
        let (compiled, mut on_cpu) = (on_gpu(&case), case.interpreter(|builder| builder).unwrap());
        let mut interpreters = [0; 2].map(|_| compiled.interpreter().unwrap());
        interpreters.iter_mut().chain([&mut on_cpu]).for_each(|interpreter| case.write(interpreter).unwrap());
        let expected: Vec<_> = (0..RUNS).map(|_| next(&mut on_cpu)).collect();
        assert_ne!(expected[0], expected[1], "{} has no state", case.name);
        let compare = |interpreter: &Interpreter, run: usize, made: &[Vec<u8>]| {
            let compared = case.compare_all(interpreter, &expected[run], made, 1e-4);
            compared.unwrap_or_else(|error| panic!("{}, run {run}: {error}", case.name));
        };
        let [first, second] = &mut interpreters;
        for run in 0..RUNS {
            let made = next(first);
            compare(first, run, &made);
            // The second interpreter is behind, and both begin anew once.
            if run % 2 == 0 {
                let made = next(second);
                compare(second, run / 2, &made);
            }
        }
        first.reset_variables();
        let made = next(first);
        compare(first, 0, &made);
        let made = next(second);
        compare(second, RUNS.div_ceil(2), &made);
    }
}

#[test]
fn repeated_runs_go_on() {
    let _alone = crate::validation::alone();
    let case = case(CASES[0]);
    let mut interpreter = on_gpu(&case).interpreter().unwrap();
    case.write(&mut interpreter).unwrap();
    let expected: Vec<_> = (0..4).map(|_| next(&mut interpreter)).collect();
    interpreter.reset_variables();
    interpreter.invoke_repeatedly(3).unwrap();
    assert_eq!(next(&mut interpreter), expected[3]);
}

/// Number of resource variables of [`streaming`].
const VARIABLES: usize = 6;

/// A network with six resource variables, one after the other in the file: each is read, multiplied by 0.5, and assigned
/// after the values before it are added. The output is their sum with the input.
fn streaming() -> Model {
    let mut builder = ModelBuilder::new("streaming");
    let [main, setup] = [builder.subgraph("main"), builder.subgraph("setup")];
    let tensor = |builder: &mut ModelBuilder, subgraph, data_type, shape: &[usize]| {
        builder.tensor(subgraph, TensorBuilder::new("", data_type, shape))
    };
    let handle = |builder: &mut ModelBuilder, subgraph: usize, index: usize| {
        let handle = tensor(builder, subgraph, DataType::Resource, &[]);
        let options = VarHandleOptionsT { container: Some(String::new()), shared_name: Some(format!("v{index}")) };
        let operator = OperatorBuilder::new(BuiltinOperator::VAR_HANDLE, [0usize; 0], [handle]);
        builder.operator(subgraph, operator.options(BuiltinOptionsT::VarHandleOptions(Box::new(options))));
        handle
    };
    let first = builder.tensor(setup, TensorBuilder::values("first", [1, 4], &[0.25f32; 4]));
    for index in 0..VARIABLES {
        let variable = handle(&mut builder, setup, index);
        builder.operator(setup, OperatorBuilder::new(BuiltinOperator::ASSIGN_VARIABLE, [variable, first], []));
    }
    builder.inputs(setup, &[]).outputs(setup, &[]);
    let options = CallOnceOptionsT { init_subgraph_index: setup as i32 };
    let once = OperatorBuilder::new(BuiltinOperator::CALL_ONCE, [0usize; 0], []);
    builder.operator(main, once.options(BuiltinOptionsT::CallOnceOptions(Box::new(options))));
    let half = builder.tensor(main, TensorBuilder::values("half", [1, 1], &[0.5f32]));
    let input = tensor(&mut builder, main, DataType::Float32, &[1, 4]);
    let mut sum = input;
    for index in 0..VARIABLES {
        let variable = handle(&mut builder, main, index);
        let [value, scaled, next] = [0; 3].map(|_| tensor(&mut builder, main, DataType::Float32, &[1, 4]));
        builder.operator(main, OperatorBuilder::new(BuiltinOperator::READ_VARIABLE, [variable], [value]));
        builder.operator(main, OperatorBuilder::new(BuiltinOperator::MUL, [value, half], [scaled]));
        builder.operator(main, OperatorBuilder::new(BuiltinOperator::ADD, [scaled, sum], [next]));
        builder.operator(main, OperatorBuilder::new(BuiltinOperator::ASSIGN_VARIABLE, [variable, next], []));
        sum = next;
    }
    builder.inputs(main, &[input]).outputs(main, &[sum]);
    Model::from_bytes(builder.finish()).unwrap()
}

/// Returns the output of each of the first `runs` runs of [`streaming`] for an input of `x`.
fn expected(x: f32, runs: usize) -> Vec<f32> {
    let mut variables = [0.25f32; VARIABLES];
    let run = |_| {
        variables.iter_mut().fold(x, |sum, variable| {
            *variable = *variable * 0.5 + sum;
            *variable
        })
    };
    (0..runs).map(run).collect()
}

#[test]
fn resource_variables_leave_one_partition() {
    let _alone = crate::validation::alone();
    let gpu = GpuDelegate::new(GpuDelegateOptions::default().software(true)).expect("a device to test on");
    let compiled = Interpreter::builder(&streaming()).threads(1).delegate(gpu).compile().unwrap();
    assert_eq!(compiled.placement().partitions, 1, "{:?}", compiled.placement());
    let mut interpreters = [0; 2].map(|_| compiled.interpreter().unwrap());
    for (interpreter, x) in interpreters.iter_mut().zip([0.5f32, -1.0]) {
        interpreter.write(0, &[x; 4]).unwrap();
    }
    for round in 0..2 {
        let lists = [expected(0.5, 1000), expected(-1.0, 1000)];
        for run in 0..if round == 0 { 1000 } else { 3 } {
            for (interpreter, list) in interpreters.iter_mut().zip(&lists) {
                interpreter.invoke().unwrap();
                let made = interpreter.read::<f32>(0).unwrap()[0];
                assert!((made - list[run]).abs() <= 1e-4 * list[run].abs(), "run {run}: {made}, not {}", list[run]);
            }
        }
        interpreters.iter_mut().for_each(Interpreter::reset_variables);
    }
}

#[test]
fn the_data_of_an_input_is_its_first_value() {
    let _alone = crate::validation::alone();
    let mut builder = ModelBuilder::new("test");
    let main = builder.subgraph("main");
    let x = builder.tensor(main, TensorBuilder::values("x", [4], &[1.0f32, 2.0, 3.0, 4.0]));
    let y = builder.tensor(main, TensorBuilder::new("y", DataType::Float32, [4]));
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::SQUARE, [x], [y]));
    builder.inputs(main, &[x]).outputs(main, &[y]);
    let model = Model::from_bytes(builder.finish()).unwrap();
    let gpu = GpuDelegate::new(GpuDelegateOptions::default().software(true)).expect("a device to test on");
    let builder = Interpreter::builder(&model).delegate(gpu).require_delegation(true);
    let mut interpreter = builder.build().unwrap();
    interpreter.invoke().unwrap();
    assert_eq!(interpreter.read::<f32>(0).unwrap(), [1.0, 4.0, 9.0, 16.0]);
    interpreter.write(0, &[5.0f32; 4]).unwrap();
    interpreter.invoke().unwrap();
    assert_eq!(interpreter.read::<f32>(0).unwrap(), [25.0; 4]);
}

//! Networks with variable tensors run whole on the GPU: their states are those of the CPU over many runs, after a reset, and
//! in several interpreters.

use std::sync::Arc;

use attache::gpu::Quantized;
use attache::{CompiledModel, Delegate, GpuDelegate, GpuDelegateOptions, Interpreter};

use crate::goldens::{Case, cases};

/// Cases with states: a memory of two nodes that share their variables, filters over time, and units in both directions.
const CASES: [&str; 5] = [
    "f32_UNIDIRECTIONAL_SEQUENCE_LSTM_goes_on",
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

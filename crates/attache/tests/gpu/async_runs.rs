//! Asynchronous runs under the validation layer: each run uses the inputs with which it was started and has
//! its own outputs, and the number of pending runs is limited.

use std::sync::Arc;

use attache::DataType::{Float32, Int64};
use attache::gpu::{Backend, Submission};
use attache::model::schema::BuiltinOperator;
use attache::{
    DataType, ErrorKind, GpuDelegate, GpuDelegateOptions, Interpreter, Model, ModelBuilder, OperatorBuilder, Run,
    TensorBuilder,
};

use crate::validation;

const WAYS: [Submission; 2] = [Submission::Replay, Submission::Encoder];

fn options(submission: Submission) -> GpuDelegateOptions {
    validation::listen();
    // The software device is treated like hardware, so that runs execute concurrently.
    let options = GpuDelegateOptions::default().software(true).backend(Backend::Vulkan).validation(true);
    options.submission(submission).as_hardware(true)
}

fn interpreter(options: GpuDelegateOptions) -> Interpreter {
    let delegate = GpuDelegate::new(options).expect("a Vulkan device (on Debian: mesa-vulkan-drivers) to test on");
    Interpreter::builder(&model(Float32)).threads(1).delegate(Arc::new(delegate)).build().unwrap()
}

/// Builds a model of `sum = a + b` and `product = sum · a`, both outputs.
fn model(data_type: DataType) -> Model {
    let mut builder = ModelBuilder::new("async runs");
    let graph = builder.subgraph("main");
    let [a, b, sum, product] =
        ["a", "b", "sum", "product"].map(|name| builder.tensor(graph, TensorBuilder::new(name, data_type, [3])));
    builder.operator(graph, OperatorBuilder::new(BuiltinOperator::ADD, [a, b], [sum]));
    builder.operator(graph, OperatorBuilder::new(BuiltinOperator::MUL, [sum, a], [product]));
    builder.inputs(graph, &[a, b]).outputs(graph, &[sum, product]);
    Model::from_bytes(builder.finish()).unwrap()
}

fn start(interpreter: &mut Interpreter, a: f32) -> Run {
    interpreter.write(0, &[a, 1.0, -a]).unwrap();
    interpreter.invoke_async().unwrap()
}

/// Asserts that the outputs are those for `a = [a, 1, -a]` and `b = [2, 4, 8]`.
fn assert_outputs(interpreter: &Interpreter, a: f32) {
    let sum = [a + 2.0, 5.0, 8.0 - a];
    assert_eq!(interpreter.read::<f32>(0).unwrap(), sum);
    assert_eq!(interpreter.read::<f32>(1).unwrap(), [sum[0] * a, sum[1], sum[2] * -a]);
}

#[test]
fn runs_keep_the_inputs_that_they_were_started_with() {
    let _alone = validation::alone();
    for submission in WAYS {
        let mut interpreter = interpreter(options(submission));
        assert_eq!(interpreter.queue_depth(), 3);
        // The input `b` is written once for all slots.
        interpreter.write(1, &[2.0f32, 4.0, 8.0]).unwrap();
        for round in 0..4 {
            let first = round as f32 * 10.0;
            let runs = [0, 1, 2].map(|index| start(&mut interpreter, first + index as f32));
            // Runs can be waited for in any order and repeatedly.
            for index in [1, 0, 2, 2] {
                interpreter.wait(&runs[index]).unwrap();
                assert_outputs(&interpreter, first + index as f32);
            }
        }
        // Each run is started before the outputs of the previous one are read.
        let mut before = start(&mut interpreter, 0.0);
        for a in 1..10 {
            let next = start(&mut interpreter, a as f32);
            interpreter.wait(before).unwrap();
            assert_outputs(&interpreter, a as f32 - 1.0);
            before = next;
        }
        // A synchronous run uses inputs that were changed in place.
        interpreter.input_mut::<f32>(0).unwrap().copy_from_slice(&[50.0, 1.0, -50.0]);
        interpreter.invoke().unwrap();
        assert_outputs(&interpreter, 50.0);
        interpreter.wait(before).unwrap();
        assert_outputs(&interpreter, 9.0);
    }
    validation::assert_silent();
}

#[test]
fn what_is_written_can_be_changed_in_place() {
    let _alone = validation::alone();
    for submission in WAYS {
        let mut interpreter = interpreter(options(submission));
        interpreter.write(0, &[3.0f32, 1.0, -3.0]).unwrap();
        interpreter.write(1, &[0.0f32, 4.0, 8.0]).unwrap();
        interpreter.input_mut::<f32>(1).unwrap()[0] = 2.0;
        assert_eq!(interpreter.input_mut::<f32>(0).unwrap(), [3.0, 1.0, -3.0]);
        interpreter.invoke().unwrap();
        assert_outputs(&interpreter, 3.0);
        // The change in place applies to the slot that already contains the input, and to the other slots.
        interpreter.input_bytes_mut(0).unwrap()[..4].copy_from_slice(&5.0f32.to_le_bytes());
        interpreter.input_bytes_mut(0).unwrap()[8..].copy_from_slice(&(-5.0f32).to_le_bytes());
        let runs = [0, 1, 2].map(|_| interpreter.invoke_async().unwrap());
        for run in runs {
            interpreter.wait(run).unwrap();
            assert_outputs(&interpreter, 5.0);
        }
    }
    validation::assert_silent();
}

#[test]
fn what_is_written_outlives_a_resize_of_others() {
    let _alone = validation::alone();
    for submission in WAYS {
        let mut interpreter = interpreter(options(submission));
        interpreter.write(0, &[9.0f32, 9.0, 9.0]).unwrap();
        interpreter.write(1, &[2.0f32, 4.0, 8.0]).unwrap();
        let run = interpreter.invoke_async().unwrap();
        interpreter.write(1, &[0.0f32, 0.0, 0.0]).unwrap();
        interpreter.wait(run).unwrap();
        interpreter.write(1, &[2.0f32, 4.0, 8.0]).unwrap();
        interpreter.resize_input(0, &[1, 3]).unwrap();
        interpreter.write(0, &[6.0f32, 1.0, -6.0]).unwrap();
        interpreter.invoke().unwrap();
        assert_outputs(&interpreter, 6.0);
    }
    validation::assert_silent();
}

#[test]
fn the_queue_is_bounded() {
    let _alone = validation::alone();
    for submission in WAYS {
        let mut interpreter = interpreter(options(submission));
        interpreter.write(1, &[2.0f32, 4.0, 8.0]).unwrap();
        let runs = [0, 1, 2].map(|index| start(&mut interpreter, index as f32));
        assert!(interpreter.try_invoke_async().unwrap().is_none());
        let last = start(&mut interpreter, 3.0);
        let lost = interpreter.wait(&runs[0]).unwrap_err();
        assert!(lost.kind() == ErrorKind::Usage && lost.to_string().contains("run 1 are gone"), "{lost}");
        for (run, a) in [(&runs[1], 1.0), (&runs[2], 2.0), (&last, 3.0)] {
            interpreter.wait(run).unwrap();
            assert_outputs(&interpreter, a);
        }
        assert!(interpreter.try_invoke_async().unwrap().is_some());
        let run = start(&mut interpreter, 4.0);
        interpreter.resize_inputs(&[(0, &[1, 3]), (1, &[1, 3])]).unwrap();
        assert_eq!(interpreter.wait(run).unwrap_err().kind(), ErrorKind::Usage);
        interpreter.write(0, &[4.0f32, 1.0, -4.0]).unwrap();
        interpreter.write(1, &[2.0f32, 4.0, 8.0]).unwrap();
        interpreter.invoke_repeatedly(3).unwrap();
        assert_outputs(&interpreter, 4.0);
        // The interpreter is dropped while a run is pending.
        drop(start(&mut interpreter, 5.0));
    }
    validation::assert_silent();
}

#[test]
fn outputs_stay_where_the_device_left_them() {
    let _alone = validation::alone();
    let mut interpreter = interpreter(options(Submission::Replay));
    interpreter.write(1, &[2.0f32, 4.0, 8.0]).unwrap();
    let mut pointers = [0, 1, 2].map(|_| {
        let run = start(&mut interpreter, 1.0);
        interpreter.wait(run).unwrap();
        interpreter.read_bytes(0).unwrap().as_ptr()
    });
    assert!(
        pointers.iter().all(|pointer| *pointer == pointers[0]),
        "a run that is waited for leaves its slot to the next"
    );
    let runs = [0, 1, 2].map(|_| start(&mut interpreter, 1.0));
    for (pointer, run) in pointers.iter_mut().zip(runs) {
        interpreter.wait(run).unwrap();
        *pointer = interpreter.read_bytes(0).unwrap().as_ptr();
    }
    pointers.sort_unstable();
    assert!(pointers[0] != pointers[1] && pointers[1] != pointers[2], "each slot has outputs of its own");
}

#[test]
fn elements_that_no_device_stores_are_converted() {
    let _alone = validation::alone();
    for submission in WAYS {
        let delegate = Arc::new(GpuDelegate::new(options(submission)).unwrap());
        let builder = Interpreter::builder(&model(Int64)).threads(1).delegate(delegate);
        let mut interpreter = builder.build().unwrap();
        interpreter.write(1, &[2i64, 4, -8]).unwrap();
        let runs = [1i64, 2, 3].map(|a| {
            interpreter.write(0, &[a, -a, 0]).unwrap();
            (a, interpreter.invoke_async().unwrap())
        });
        let is_queue = interpreter.queue_depth() == 3;
        for (a, run) in runs.into_iter().skip(if is_queue { 0 } else { 2 }) {
            interpreter.wait(run).unwrap();
            assert_eq!(interpreter.read::<i64>(0).unwrap(), [a + 2, 4 - a, -8]);
        }
    }
}

#[test]
fn where_the_cpu_has_a_part_runs_end_at_once() {
    let _alone = validation::alone();
    let parts =
        [(options(Submission::Replay).first_delegate_node_index(1), false), (options(Submission::Replay), true)];
    for (options, fallback) in parts {
        let delegate = Arc::new(GpuDelegate::new(options).unwrap());
        let builder = Interpreter::builder(&model(Float32)).threads(1).delegate(delegate).cpu_fallback(fallback);
        let mut interpreter = builder.build().unwrap();
        assert_eq!(interpreter.queue_depth(), 1);
        interpreter.write(1, &[2.0f32, 4.0, 8.0]).unwrap();
        let first = start(&mut interpreter, 1.0);
        assert!(interpreter.try_invoke_async().unwrap().is_none(), "the outputs would be lost");
        interpreter.wait(&first).unwrap();
        assert_outputs(&interpreter, 1.0);
        let second = interpreter.try_invoke_async().unwrap().expect("the queue is empty");
        assert_eq!(interpreter.wait(first).unwrap_err().kind(), ErrorKind::Usage);
        interpreter.wait(second).unwrap();
        assert_outputs(&interpreter, 1.0);
    }
}

/// Two threads share one device per submission method. Each of them has pending runs with both methods.
#[test]
fn threads_share_a_device() {
    let _alone = validation::alone();
    let delegates = WAYS.map(|submission| Arc::new(GpuDelegate::new(options(submission)).unwrap()));
    std::thread::scope(|scope| {
        for seed in 0..2 {
            for delegate in &delegates {
                scope.spawn(move || {
                    let builder = Interpreter::builder(&model(Float32)).threads(1).delegate(delegate.clone());
                    let mut interpreter = builder.build().unwrap();
                    interpreter.write(1, &[2.0f32, 4.0, 8.0]).unwrap();
                    let mut before = start(&mut interpreter, seed as f32);
                    for step in 1..60 {
                        let next = start(&mut interpreter, (step * 2 + seed) as f32);
                        interpreter.wait(before).unwrap();
                        assert_outputs(&interpreter, (step * 2 - 2 + seed) as f32);
                        before = next;
                    }
                });
            }
        }
    });
    validation::assert_silent();
}

//! Planted faults: the device is lost or out of memory while a model is prepared or run. The call returns a
//! clear error, or the correct outputs computed by the CPU if the fallback is enabled.

use std::sync::Arc;

use attache::DataType::{Float32, Resource};
use attache::gpu::{Backend, Fault, FaultPoint, GpuErrorKind, Submission};
use attache::model::schema::{BuiltinOperator, BuiltinOptionsT, CallOnceOptionsT, VarHandleOptionsT};
use attache::{
    Error, ErrorKind, GpuDelegate, GpuDelegateOptions, Interpreter, Model, ModelBuilder, OperatorBuilder, Outcome,
    TensorBuilder,
};

const KINDS: [(GpuErrorKind, ErrorKind); 2] =
    [(GpuErrorKind::DeviceLost, ErrorKind::DeviceLost), (GpuErrorKind::OutOfMemory, ErrorKind::OutOfMemory)];

/// Creates a delegate with a planted fault: operations of its device at `point` fail with an error of this
/// kind, after `after` of them have succeeded.
fn delegate(submission: Submission, kind: GpuErrorKind, point: FaultPoint, after: usize) -> Arc<GpuDelegate> {
    let options = GpuDelegateOptions::default().software(true).backend(Backend::Vulkan).submission(submission);
    let delegate = GpuDelegate::new(options.fault(Fault { kind, point, after }));
    Arc::new(delegate.expect("a Vulkan device (on Debian: mesa-vulkan-drivers) to test on"))
}

fn builder(model: &Model, delegate: Arc<GpuDelegate>, cpu_fallback: bool) -> Result<Interpreter, Error> {
    Interpreter::builder(model).threads(1).delegate(delegate).cpu_fallback(cpu_fallback).build()
}

/// Builds a model of `y = (x + x) · x`.
fn stateless() -> Model {
    let mut builder = ModelBuilder::new("stateless");
    let graph = builder.subgraph("main");
    let [x, sum, y] = ["x", "sum", "y"].map(|name| builder.tensor(graph, TensorBuilder::new(name, Float32, [4])));
    builder.operator(graph, OperatorBuilder::new(BuiltinOperator::ADD, [x, x], [sum]));
    builder.operator(graph, OperatorBuilder::new(BuiltinOperator::MUL, [sum, x], [y]));
    builder.inputs(graph, &[x]).outputs(graph, &[y]);
    Model::from_bytes(builder.finish()).unwrap()
}

/// Runs an interpreter of [`stateless`] once on an input that begins with `first`, and checks the output.
fn check_stateless(interpreter: &mut Interpreter, first: f32) -> Result<(), Error> {
    let x = [first, 2.0, -3.0, 0.5];
    interpreter.write(0, &x)?;
    interpreter.invoke()?;
    assert_eq!(interpreter.read::<f32>(0)?, x.map(|x| 2.0 * x * x));
    Ok(())
}

/// Asserts that the GPU runs no operators any more, and that report and placement contain `text` as the
/// reason.
fn assert_fallen_back(interpreter: &Interpreter, text: &str) {
    let (report, placement) = (interpreter.report(), interpreter.placement());
    assert!(report.fallback.as_ref().is_some_and(|reason| reason.contains(text)), "{:?}", report.fallback);
    assert_eq!((report.partitions, report.nodes_delegated), (0, 0));
    assert!(placement.log.iter().any(|line| line.contains(text)), "{placement}");
    let reason = |node: &attache::NodePlacement| node.reason.as_ref().is_some_and(|reason| reason.contains(text));
    assert!(placement.nodes.iter().any(reason), "{placement}");
    assert!(placement.nodes.iter().all(|node| !matches!(node.outcome, Outcome::On { .. })), "{placement}");
}

#[test]
fn a_run_that_fails_is_an_error_or_done_on_the_cpu() {
    let model = stateless();
    for (kind, error) in KINDS {
        for submission in [Submission::Replay, Submission::Encoder] {
            for point in [FaultPoint::Submit, FaultPoint::Wait] {
                let interpreter = |fallback| builder(&model, delegate(submission, kind, point, 2), fallback).unwrap();
                let mut unaided = interpreter(false);
                (0..2).for_each(|run| check_stateless(&mut unaided, run as f32).unwrap());
                for _ in 0..2 {
                    assert_eq!(check_stateless(&mut unaided, 2.0).unwrap_err().kind(), error, "and so it stays");
                }
                let mut helped = interpreter(true);
                (0..2).for_each(|run| check_stateless(&mut helped, run as f32).unwrap());
                assert_eq!(helped.report().fallback, None);
                for run in 2..5 {
                    check_stateless(&mut helped, run as f32).unwrap();
                    assert_fallen_back(&helped, "a planted fault");
                }
                helped.resize_input(0, &[2]).unwrap();
                helped.write(0, &[3.0f32, 1.0]).unwrap();
                helped.invoke_repeatedly(3).unwrap();
                assert_eq!(helped.read::<f32>(0).unwrap(), [18.0, 2.0]);
            }
        }
    }
}

#[test]
fn outputs_that_fail_to_come_are_an_error_or_made_on_the_cpu() {
    let model = stateless();
    for (kind, error) in KINDS {
        for submission in [Submission::Replay, Submission::Encoder] {
            let gpu = || delegate(submission, kind, FaultPoint::Read, 2);
            let mut unaided = builder(&model, gpu(), false).unwrap();
            (0..2).for_each(|run| check_stateless(&mut unaided, run as f32).unwrap());
            for _ in 0..2 {
                assert_eq!(check_stateless(&mut unaided, 2.0).unwrap_err().kind(), error, "and so it stays");
            }
            let mut helped = builder(&model, gpu(), true).unwrap();
            (0..2).for_each(|run| check_stateless(&mut helped, run as f32).unwrap());
            assert_eq!(helped.report().fallback, None);
            for run in 2..4 {
                check_stateless(&mut helped, run as f32).unwrap();
                assert_fallen_back(&helped, "a planted fault");
            }
        }
    }
}

#[test]
fn a_device_that_fails_at_first_is_an_error_or_left_alone() {
    let model = stateless();
    for (kind, error) in KINDS {
        for submission in [Submission::Replay, Submission::Encoder] {
            let interpreter = |fallback| builder(&model, delegate(submission, kind, FaultPoint::Record, 0), fallback);
            let failed = interpreter(false).expect_err("no interpreter");
            assert_eq!(failed.kind(), error, "{failed}");
            let mut helped = interpreter(true).unwrap();
            assert_fallen_back(&helped, "a planted fault");
            check_stateless(&mut helped, 1.0).unwrap();
        }
    }
}

/// Builds a model with a resource variable `s` of initial value 10. `s + x` and `y = s · s` run on the GPU,
/// and the assignment `s = s + x` between them on the CPU.
fn stateful() -> Model {
    let mut builder = ModelBuilder::new("stateful");
    let graphs = ["main", "setup"].map(|name| builder.subgraph(name));
    let handles = graphs.map(|graph| {
        let handle = builder.tensor(graph, TensorBuilder::new("", Resource, []));
        let options = VarHandleOptionsT { container: Some(String::new()), shared_name: Some("s".into()) };
        let operator = OperatorBuilder::new(BuiltinOperator::VAR_HANDLE, [0usize; 0], [handle]);
        builder.operator(graph, operator.options(BuiltinOptionsT::VarHandleOptions(options.into())));
        handle
    });
    let [main, setup] = graphs;
    let ten = builder.tensor(setup, TensorBuilder::values("", [1], &[10.0f32]));
    builder.operator(setup, OperatorBuilder::new(BuiltinOperator::ASSIGN_VARIABLE, [handles[1], ten], []));
    let options = CallOnceOptionsT { init_subgraph_index: 1 };
    let once = OperatorBuilder::new(BuiltinOperator::CALL_ONCE, [0usize; 0], []);
    builder.operator(main, once.options(BuiltinOptionsT::CallOnceOptions(options.into())));
    let [x, before, sum, after, y] = [(); 5].map(|()| builder.tensor(main, TensorBuilder::new("", Float32, [1])));
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::READ_VARIABLE, [handles[0]], [before]));
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::ADD, [before, x], [sum]));
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::ASSIGN_VARIABLE, [handles[0], sum], []));
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::READ_VARIABLE, [handles[0]], [after]));
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::MUL, [after, after], [y]));
    builder.inputs(main, &[x]).outputs(main, &[y]);
    Model::from_bytes(builder.finish()).unwrap()
}

#[test]
fn variables_are_as_before_when_a_run_is_done_again() {
    let model = stateful();
    // Each run has two partitions. The first or the second one fails in one of the first three runs.
    for after in 0..6 {
        for (kind, _) in KINDS {
            let gpu = delegate(Submission::Replay, kind, FaultPoint::Wait, after);
            let mut interpreter = builder(&model, gpu, true).unwrap();
            assert_eq!(interpreter.report().partitions, 2);
            let mut state = 10.0f32;
            for run in 0..4 {
                let x = run as f32 + 1.0;
                state += x;
                interpreter.write(0, &[x]).unwrap();
                interpreter.invoke().unwrap();
                assert_eq!(interpreter.read::<f32>(0).unwrap(), [state * state], "run {run}, fault after {after}");
                let fallen = interpreter.report().fallback.is_some();
                assert_eq!(fallen, after < 2 * (run + 1), "run {run}, fault after {after}");
            }
            interpreter.reset_variables();
            interpreter.write(0, &[1.0f32]).unwrap();
            interpreter.invoke_repeatedly(3).unwrap();
            assert_eq!(interpreter.read::<f32>(0).unwrap(), [169.0]);
        }
    }
}

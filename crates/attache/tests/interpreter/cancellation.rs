//! Cancellation of runs: what ends, what does not, and what state is left.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use attache::{CompiledModel, ErrorKind, Interpreter, Model, Run};

use crate::common::floats;
use crate::compiled::{gated, with_gate};
use crate::flow::gated_sum;

/// Starts a run that waits at a closed gate, and opens the gate after `cancel`.
fn while_gated(interpreter: &mut Interpreter, open: &AtomicUsize, cancel: impl FnOnce(&Run)) -> Run {
    open.store(0, Ordering::SeqCst);
    let run = interpreter.invoke_async().unwrap();
    assert!(run.wait_timeout(Duration::from_millis(10)).is_none(), "the gate is closed");
    cancel(&run);
    open.store(1, Ordering::SeqCst);
    run
}

#[test]
fn runs_are_cancelled_between_operators() {
    let open = Arc::new(AtomicUsize::new(0));
    let mut interpreter = gated(&open);
    interpreter.write("x", &[2.0f32]).unwrap();
    let cancellation = interpreter.cancellation();
    let all = while_gated(&mut interpreter, &open, |_| cancellation.cancel());
    assert_eq!(interpreter.wait(&all).unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(interpreter.read::<f32>(0).unwrap_err().kind(), ErrorKind::Usage, "outputs have no value");
    let one = while_gated(&mut interpreter, &open, Run::cancel);
    assert_eq!(one.wait_timeout(Duration::MAX).unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
    interpreter.invoke().unwrap();
    assert_eq!(floats(&interpreter, 0), [2.0]);
    for run in [all, one] {
        let error = interpreter.wait(run).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled, "a cancelled run stays one, also after another");
    }
    assert_eq!(floats(&interpreter, 0), [2.0], "the outputs of the last run stay");
}

#[test]
fn other_runs_are_not_cancelled() {
    let open = Arc::new(AtomicUsize::new(1));
    let mut interpreter = gated(&open);
    interpreter.write("x", &[2.0f32]).unwrap();
    let cancellation = interpreter.cancellation();
    cancellation.cancel();
    interpreter.invoke().unwrap();
    let run = interpreter.invoke_async().unwrap();
    assert!(run.wait_timeout(Duration::MAX).unwrap().is_ok());
    cancellation.cancel();
    run.cancel();
    interpreter.wait(&run).unwrap();
    assert_eq!(floats(&interpreter, 0), [2.0], "the run had ended");
    let later = interpreter.invoke_async().unwrap();
    run.cancel();
    interpreter.wait(later).unwrap();
}

#[test]
fn cancelled_runs_leave_variables_as_they_were() {
    let open = Arc::new(AtomicUsize::new(1));
    let builder = Interpreter::builder(&gated_sum()).threads(1).operators(&with_gate(&open));
    let mut interpreter = builder.build().unwrap();
    interpreter.write(0, &[2.0f32]).unwrap();
    interpreter.invoke().unwrap();
    assert_eq!(floats(&interpreter, 0), [2.0]);
    let run = while_gated(&mut interpreter, &open, Run::cancel);
    assert_eq!(interpreter.wait(run).unwrap_err().kind(), ErrorKind::Cancelled);
    interpreter.invoke().unwrap();
    assert_eq!(floats(&interpreter, 0), [4.0]);
}

/// Cancels runs of a network with a state at different moments. Each either counts or leaves no trace.
#[test]
fn cancelled_runs_leave_variable_tensors_as_they_were() {
    const ROUNDS: u64 = 40;
    let folder =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/cases/f32_UNIDIRECTIONAL_SEQUENCE_LSTM_goes_on");
    let compiled = CompiledModel::new(&Model::from_path(format!("{folder}/model.tflite")).unwrap()).unwrap();
    let start = || {
        let mut interpreter = compiled.interpreter().unwrap();
        interpreter.input_bytes_mut(0).unwrap().fill(0x3f);
        interpreter
    };
    let mut interpreter = start();
    let mut next = || {
        interpreter.invoke().unwrap();
        floats(&interpreter, 0)
    };
    let expected: Vec<_> = (0..=ROUNDS).map(|_| next()).collect();
    assert_ne!(expected[0], expected[1], "the model has a state");
    let (mut interpreter, mut done) = (start(), 0);
    let cancellation = interpreter.cancellation();
    for round in 0..ROUNDS {
        let run = interpreter.invoke_async().unwrap();
        std::thread::sleep(Duration::from_micros(10 * (round / 2)));
        if round % 2 == 0 {
            run.cancel()
        } else {
            cancellation.cancel()
        }
        match interpreter.wait(run) {
            Ok(()) => {
                assert_eq!(floats(&interpreter, 0), expected[done]);
                done += 1;
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Cancelled),
        }
    }
    interpreter.invoke().unwrap();
    assert_eq!(floats(&interpreter, 0), expected[done]);
}

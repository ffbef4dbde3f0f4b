//! Tests that outputs have a value after a successful run, but not before the first run, after a resize, or
//! after a failed run, whether the CPU or a delegate computes them and whatever memory they are in.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use attache::graph::{TensorMut, TensorRef, Unsupported};
use attache::{
    Claim, Completion, Delegate, DelegateError, DelegateKernel, DelegateQueue, ErrorKind, Interpreter, Model,
    NodeContext, Observer, Partition, PreparedPartition, RunEvent, TensorBuilder,
};

use crate::common::Net;

/// A delegate that claims every ADD and doubles its first input. Its runs fail while `fails` is set.
#[derive(Clone)]
struct Doubler {
    fails: Arc<AtomicBool>,
    is_queue: bool,
}

struct Kernel {
    doubler: Doubler,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Delegate for Doubler {
    fn name(&self) -> &str {
        "Doubler"
    }

    fn claim(&self, node: NodeContext<'_>) -> Result<Claim, Unsupported> {
        match node.node().op.name() {
            "ADD" => Ok(Claim::new(())),
            other => Err(Unsupported::new(format!("it is no ADD but {other}"))),
        }
    }

    fn prepare(&self, _: Partition<'_>) -> Result<Box<dyn PreparedPartition>, DelegateError> {
        let doubler = self.clone();
        Ok(Box::new(move || -> Result<Box<dyn DelegateKernel>, DelegateError> {
            Ok(Box::new(Kernel { doubler: doubler.clone(), input: Vec::new(), output: Vec::new() }))
        }))
    }
}

impl Kernel {
    fn pass(&self) -> Result<(), DelegateError> {
        match self.doubler.fails.load(Ordering::Relaxed) {
            true => Err(DelegateError::new("it was told to fail")),
            false => Ok(()),
        }
    }
}

fn double(from: &[u8], to: &mut [u8]) {
    let doubled = from.as_chunks::<4>().0.iter().map(|bytes| (2.0 * f32::from_le_bytes(*bytes)).to_le_bytes());
    to.as_chunks_mut::<4>().0.iter_mut().zip(doubled).for_each(|(to, number)| *to = number);
}

impl DelegateKernel for Kernel {
    fn invoke(&mut self, inputs: &[TensorRef<'_>], outputs: &mut [TensorMut<'_>]) -> Result<(), DelegateError> {
        self.pass()?;
        double(inputs[0].bytes, outputs[0].bytes);
        Ok(())
    }

    fn queue(&self) -> Option<&dyn DelegateQueue> {
        self.doubler.is_queue.then_some(self as _)
    }

    fn queue_mut(&mut self) -> Option<&mut dyn DelegateQueue> {
        if self.doubler.is_queue { Some(self) } else { None }
    }
}

/// The completion of runs that end before they are waited for.
struct Done;

impl Completion for Done {
    fn wait(&self, _: Duration) -> Result<bool, DelegateError> {
        Ok(true)
    }
}

impl DelegateQueue for Kernel {
    fn completion(&self, _: usize) -> Arc<dyn Completion> {
        Arc::new(Done)
    }

    fn slots(&self) -> usize {
        1
    }

    fn write(&mut self, _: usize, _: usize, bytes: &[u8]) -> Result<(), DelegateError> {
        self.input = bytes.to_vec();
        Ok(())
    }

    fn submit(&mut self, _: usize, _: usize) -> Result<(), DelegateError> {
        self.output.resize(self.input.len(), 0);
        double(&self.input, &mut self.output);
        Ok(())
    }

    fn wait(&mut self, _: usize) -> Result<(), DelegateError> {
        self.pass()
    }

    fn output(&self, _: usize, _: usize, _: usize) -> Result<Option<&[u8]>, DelegateError> {
        Ok(Some(&self.output))
    }
}

/// Builds a model that outputs `x + x` and a constant. If `mixed`, the sum is first reshaped on the CPU to
/// the shape in the input `wanted`, where a negative number makes the run fail, and the input `x` is an
/// output too.
fn model(mixed: bool) -> Model {
    let mut net = Net::new();
    let x = net.tensor("x", &[2]);
    let mut y = net.add(x, x, &[2]);
    let constant = net.constant(&[5.0, 6.0]);
    let mut inputs = vec![x];
    if mixed {
        let wanted = net.builder.tensor(0, TensorBuilder::new("wanted", attache::DataType::Int32, [1]));
        y = net.reshape_by(y, wanted, &[2]);
        inputs.push(wanted);
    }
    let outputs = if mixed { vec![y, x, constant] } else { vec![y, constant] };
    net.finish(&inputs, &outputs)
}

/// Builds an interpreter, and returns it with the flag that makes the runs of its delegate fail. `delegated`
/// is `None` without a delegate, else whether its kernels implement [`DelegateQueue`].
fn interpreter(mixed: bool, delegated: Option<bool>, fallback: bool) -> (Interpreter, Arc<AtomicBool>) {
    let fails: Arc<AtomicBool> = Arc::default();
    let builder = Interpreter::builder(&model(mixed)).threads(1).cpu_fallback(fallback);
    let builder = match delegated {
        Some(is_queue) => builder.delegate(Arc::new(Doubler { fails: fails.clone(), is_queue })),
        None => builder,
    };
    (builder.build().unwrap(), fails)
}

fn assert_no_values(interpreter: &Interpreter, when: &str) {
    for output in 0..interpreter.outputs().len() {
        let errors = [
            interpreter.read::<f32>(output).map(drop),
            interpreter.read_bytes(output).map(drop),
            interpreter.read_into(output, &mut [0.0f32; 2]),
            interpreter.read_bytes_into(output, &mut [0; 8]),
        ];
        for result in errors {
            let error = result.expect_err(when);
            assert_eq!(error.kind(), ErrorKind::Usage, "{when}");
            assert!(error.to_string().contains(&format!("output {output} has no value yet")), "{when}: {error}");
        }
    }
}

fn assert_values(interpreter: &Interpreter, x: f32) {
    assert_eq!(interpreter.read::<f32>(0).unwrap().len(), 2);
    if !cfg!(feature = "_poison") {
        assert_eq!(interpreter.read::<f32>(0).unwrap(), [2.0 * x; 2]);
    }
    let last = interpreter.outputs().len() - 1;
    let mut constant = [0.0f32; 2];
    interpreter.read_into(last, &mut constant).unwrap();
    assert_eq!(constant, [5.0, 6.0]);
}

fn write(interpreter: &mut Interpreter, x: f32) {
    interpreter.write(0, &[x; 2]).unwrap();
    if interpreter.inputs().len() > 1 {
        interpreter.write(1, &[2i32]).unwrap();
    }
}

/// Returns all configurations, as arguments of [`interpreter`]: the CPU, a delegate whose kernel is not a
/// queue, and one whose kernel is, each with and without an operator on the CPU, and with and without the CPU
/// fallback.
fn forms() -> impl Iterator<Item = (bool, Option<bool>, bool)> {
    let delegated = [None, Some(false), Some(true)];
    let forms = [false, true].into_iter().flat_map(move |mixed| delegated.map(|delegated| (mixed, delegated)));
    forms.flat_map(|(mixed, delegated)| [false, true].map(|fallback| (mixed, delegated, fallback)))
}

#[test]
fn there_is_no_value_before_a_run_nor_after_a_resize() {
    for (mixed, delegated, fallback) in forms() {
        let (mut interpreter, _) = interpreter(mixed, delegated, fallback);
        assert_no_values(&interpreter, "before the first run");
        write(&mut interpreter, 3.0);
        assert_no_values(&interpreter, "after a write");
        interpreter.invoke_repeatedly(0).unwrap();
        assert_no_values(&interpreter, "after no runs");
        interpreter.invoke().unwrap();
        assert_values(&interpreter, 3.0);
        interpreter.invoke_repeatedly(0).unwrap();
        assert_values(&interpreter, 3.0);
        interpreter.reset_variables();
        assert_values(&interpreter, 3.0);
        interpreter.resize_input(0, &[2]).unwrap();
        assert_no_values(&interpreter, "after a resize");
        interpreter.invoke_repeatedly(3).unwrap();
        assert_values(&interpreter, 3.0);
        assert!(interpreter.resize_input(0, &[3, usize::MAX]).is_err());
        assert_values(&interpreter, 3.0);
    }
}

#[test]
fn there_is_no_value_after_a_run_that_failed() {
    for (mixed, delegated, fallback) in forms() {
        let (mut interpreter, fails) = interpreter(mixed, delegated, fallback);
        let fail = |interpreter: &mut Interpreter, in_delegate: bool| {
            if in_delegate {
                fails.store(true, Ordering::Relaxed);
            } else {
                interpreter.write(1, &[-7i32]).unwrap();
            }
            let failed = interpreter.invoke().is_err();
            fails.store(false, Ordering::Relaxed);
            failed
        };
        let mut ways = Vec::new();
        ways.extend(mixed.then_some(false));
        ways.extend((delegated.is_some() && !fallback).then_some(true));
        for in_delegate in ways {
            for _ in 0..2 {
                write(&mut interpreter, 1.0);
                interpreter.invoke().unwrap();
                assert_values(&interpreter, 1.0);
                assert!(fail(&mut interpreter, in_delegate));
                assert_no_values(&interpreter, "after a run that failed");
            }
        }
        if delegated.is_some() && fallback {
            write(&mut interpreter, 4.0);
            assert!(!fail(&mut interpreter, true), "the CPU takes over");
            assert_values(&interpreter, 4.0);
            assert!(interpreter.report().fallback.is_some());
        }
    }
}

#[test]
fn runs_that_are_waited_for_are_seen_then() {
    for (mixed, delegated, fallback) in forms() {
        let (mut interpreter, fails) = interpreter(mixed, delegated, fallback);
        write(&mut interpreter, 3.0);
        let run = interpreter.invoke_async().unwrap();
        let ends_at_once = mixed || delegated != Some(true) || fallback;
        if !ends_at_once {
            assert_no_values(&interpreter, "under way");
        }
        // Zero repetitions do not invalidate an earlier run, whose outputs can still be waited for.
        interpreter.invoke_repeatedly(0).unwrap();
        interpreter.wait(run).unwrap();
        assert_values(&interpreter, 3.0);
        if !ends_at_once {
            let run = interpreter.invoke_async().unwrap();
            fails.store(true, Ordering::Relaxed);
            assert!(interpreter.wait(run).is_err());
            assert_no_values(&interpreter, "after a wait that failed");
        }
    }
}

#[test]
fn every_way_to_run_asks_the_function_of_the_program() {
    for (mixed, delegated, fallback) in forms() {
        let (mut interpreter, _) = interpreter(mixed, delegated, fallback);
        write(&mut interpreter, 1.0);
        interpreter.cancellation().ask(Some(Arc::new(|| true)));
        assert_eq!(interpreter.invoke().unwrap_err().kind(), ErrorKind::Cancelled);
        let started = interpreter.invoke_async().and_then(|run| interpreter.wait(run));
        assert_eq!(started.unwrap_err().kind(), ErrorKind::Cancelled, "{mixed}, {delegated:?}, {fallback}");
        interpreter.cancellation().ask(None);
        write(&mut interpreter, 3.0);
        interpreter.invoke().unwrap();
        assert_values(&interpreter, 3.0);
    }
}

/// Counts partitions that begin, and those that end.
#[derive(Default)]
struct Partitions(AtomicUsize, AtomicUsize);

impl Observer for Partitions {
    fn begin(&self, event: &RunEvent) {
        let is_partition = matches!(event, RunEvent::Partition { subgraph: 0, partition: 0, .. });
        self.0.fetch_add(usize::from(is_partition), Ordering::Relaxed);
    }

    fn end(&self, event: &RunEvent) {
        self.1.fetch_add(usize::from(matches!(event, RunEvent::Partition { .. })), Ordering::Relaxed);
    }
}

#[test]
fn observers_are_told_about_partitions_also_where_they_fail() {
    for (mixed, delegated, fallback) in forms().filter(|(_, delegated, _)| delegated.is_some()) {
        let (mut interpreter, fails) = interpreter(mixed, delegated, fallback);
        let told = Arc::new(Partitions::default());
        interpreter.observe(Some(told.clone()));
        write(&mut interpreter, 1.0);
        interpreter.invoke().unwrap();
        let count = || (told.0.load(Ordering::Relaxed), told.1.load(Ordering::Relaxed));
        assert_eq!(count(), (1, 1), "{mixed}, {delegated:?}, {fallback}");
        fails.store(true, Ordering::Relaxed);
        assert_eq!(interpreter.invoke().is_ok(), fallback);
        assert_eq!(count(), (2, 2), "{mixed}, {delegated:?}, {fallback}");
    }
}

//! Delegates that panic: the process continues, the message is reported, the CPU takes over if fallback is enabled, and
//! a kernel that panicked is not called again.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use attache::graph::{TensorMut, TensorRef, Unsupported};
use attache::{
    Completion, Delegate, DelegateError, DelegateKernel, DelegateQueue, Error, ErrorKind, Interpreter, KernelProfile,
    KernelReport, Model, NodeContext, Partition, PreparedPartition,
};

use crate::common::Net;

/// The method in which a delegate or one of its objects panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PanicPoint {
    Never,
    Name,
    Partitioning,
    Claim,
    ClaimDrop,
    Prepare,
    Report,
    Slots,
    Write,
    InputMut,
    Submit,
    Wait,
    Output,
    Read,
    Invoke,
    Profile,
    KernelDrop,
    DelegateDrop,
}

use PanicPoint::*;

/// State that a delegate, its claims and its kernels share.
#[derive(Clone)]
struct Shared {
    point: PanicPoint,
    /// Whether kernels implement [`DelegateQueue`].
    queue: bool,
    calls: Arc<AtomicUsize>,
    /// A lock that each panicking call holds, so that the panic poisons it.
    lock: Arc<Mutex<()>>,
}

impl Shared {
    /// Counts a call, and panics if `point` is where the delegate has to panic.
    fn pass(&self, point: PanicPoint) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.point == point {
            let _held = self.lock.lock();
            panic!("a planted panic in {point:?}");
        }
    }
}

/// A delegate that claims every ADD and doubles its first input, so both inputs must be the same tensor.
struct Doubler(Shared);

impl Delegate for Doubler {
    fn name(&self) -> &str {
        self.0.pass(Name);
        "Doubler"
    }

    fn partitioning(&self) -> attache::Partitioning {
        self.0.pass(PanicPoint::Partitioning);
        attache::Partitioning::default()
    }

    fn claim(&self, node: NodeContext<'_>) -> Result<attache::Claim, Unsupported> {
        self.0.pass(PanicPoint::Claim);
        match node.node().op.name() {
            "ADD" => Ok(attache::Claim::new(Tripwire(self.0.clone(), ClaimDrop))),
            other => Err(Unsupported::new(format!("it is no ADD but {other}"))),
        }
    }

    fn prepare(&self, _: Partition<'_>) -> Result<Box<dyn PreparedPartition>, DelegateError> {
        self.0.pass(Prepare);
        Ok(Box::new(Prepared(self.0.clone())))
    }
}

struct Prepared(Shared);

impl PreparedPartition for Prepared {
    fn kernel(&self) -> Result<Box<dyn DelegateKernel>, DelegateError> {
        Ok(Box::new(Kernel { shared: self.0.clone(), input: vec![0; 8], output: vec![0; 8] }))
    }

    fn report(&self) -> KernelReport {
        self.0.pass(Report);
        KernelReport::default()
    }
}

/// The completion of runs that end before they are waited for.
struct Done;

impl Completion for Done {
    fn wait(&self, _: Duration) -> Result<bool, DelegateError> {
        Ok(true)
    }
}

impl Drop for Doubler {
    fn drop(&mut self) {
        self.0.pass(DelegateDrop);
    }
}

/// A claim that panics when it is dropped, if the given point is where the delegate has to panic.
struct Tripwire(Shared, PanicPoint);

impl Drop for Tripwire {
    fn drop(&mut self) {
        self.0.pass(self.1);
    }
}

struct Kernel {
    shared: Shared,
    input: Vec<u8>,
    output: Vec<u8>,
}

fn double(from: &[u8], to: &mut [u8]) {
    let doubled = from.as_chunks::<4>().0.iter().map(|bytes| (2.0 * f32::from_le_bytes(*bytes)).to_le_bytes());
    to.as_chunks_mut::<4>().0.iter_mut().zip(doubled).for_each(|(to, number)| *to = number);
}

impl DelegateKernel for Kernel {
    fn invoke(&mut self, inputs: &[TensorRef<'_>], outputs: &mut [TensorMut<'_>]) -> Result<(), DelegateError> {
        self.shared.pass(Invoke);
        double(inputs[0].bytes, outputs[0].bytes);
        Ok(())
    }

    fn queue(&self) -> Option<&dyn DelegateQueue> {
        self.shared.queue.then_some(self as _)
    }

    fn queue_mut(&mut self) -> Option<&mut dyn DelegateQueue> {
        if self.shared.queue { Some(self) } else { None }
    }

    fn profile(&mut self) -> Result<KernelProfile, DelegateError> {
        self.shared.pass(Profile);
        Ok(KernelProfile::default())
    }
}

impl DelegateQueue for Kernel {
    fn completion(&self, _: usize) -> Arc<dyn Completion> {
        Arc::new(Done)
    }

    fn slots(&self) -> usize {
        self.shared.pass(Slots);
        usize::MAX
    }

    fn write(&mut self, _: usize, _: usize, bytes: &[u8]) -> Result<(), DelegateError> {
        self.shared.pass(Write);
        self.input.copy_from_slice(bytes);
        Ok(())
    }

    fn input_mut(&mut self, _: usize, _: usize) -> Result<Option<&mut [u8]>, DelegateError> {
        self.shared.pass(InputMut);
        Ok(None)
    }

    fn submit(&mut self, _: usize, _: usize) -> Result<(), DelegateError> {
        self.shared.pass(Submit);
        double(&self.input, &mut self.output);
        Ok(())
    }

    fn wait(&mut self, _: usize) -> Result<(), DelegateError> {
        self.shared.pass(Wait);
        Ok(())
    }

    fn output(&self, _: usize, _: usize, _: usize) -> Result<Option<&[u8]>, DelegateError> {
        self.shared.pass(Output);
        Ok(Some(&self.output))
    }

    fn read(&self, _: usize, _: usize, into: &mut [u8]) -> Result<bool, DelegateError> {
        self.shared.pass(Read);
        into.copy_from_slice(&self.output);
        Ok(true)
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        self.shared.pass(KernelDrop);
    }
}

/// Builds a model of `y = x + x`, which is a single partition, if `whole`; otherwise of
/// `y = relu(x + x) + relu(x + x)`, whose RELU stays on the CPU.
fn model(whole: bool) -> Model {
    let mut net = Net::new();
    let x = net.tensor("x", &[2]);
    let mut y = net.add(x, x, &[2]);
    if !whole {
        let between = net.relu(y, &[2]);
        y = net.add(between, between, &[2]);
    }
    net.finish(&[x], &[y])
}

/// How an interpreter is built: whether one partition is the whole graph, whether kernels implement
/// [`DelegateQueue`], and whether the CPU fallback is enabled.
#[derive(Clone, Copy, Debug)]
struct Way {
    whole: bool,
    queue: bool,
    fallback: bool,
}

fn build(point: PanicPoint, way: Way, required: bool) -> (Result<Interpreter, Error>, Shared) {
    let (calls, lock) = Default::default();
    let shared = Shared { point, queue: way.queue, calls, lock };
    let builder = Interpreter::builder(&model(way.whole)).threads(1).cpu_fallback(way.fallback);
    let builder = builder.delegate(Arc::new(Doubler(shared.clone()))).require_delegation(required);
    (builder.build(), shared)
}

/// Runs once on the input `[3, 4]`, and returns the output after reading it both in place and as a copy.
fn once(interpreter: &mut Interpreter) -> Result<Vec<f32>, Error> {
    interpreter.write(0, &[3.0f32, 4.0])?;
    interpreter.invoke()?;
    let read = interpreter.read::<f32>(0)?.to_vec();
    let mut copied = [0.0f32; 2];
    interpreter.read_into(0, &mut copied)?;
    assert_eq!(read, copied);
    Ok(read)
}

/// Asserts that the output is right. With the feature `_poison`, it need not be if the CPU computed a part of
/// it.
fn assert_right(values: &[f32], way: Way, by_delegates: bool) {
    let expected = if way.whole { [6.0, 8.0] } else { [12.0, 16.0] };
    let is_poisoned = cfg!(feature = "_poison") && !(by_delegates && way.whole);
    assert!(is_poisoned || values == expected, "{values:?}, {way:?}");
}

fn ways() -> impl Iterator<Item = Way> {
    [true, false].into_iter().flat_map(|whole| {
        [true, false].into_iter().flat_map(move |queue| [true, false].map(|fallback| Way { whole, queue, fallback }))
    })
}

fn told(interpreter: &Interpreter, point: PanicPoint) -> bool {
    let said = |text: &String| text.contains(&format!("a planted panic in {point:?}"));
    interpreter.report().panics.iter().any(said)
}

#[test]
fn a_panic_before_the_first_run_leaves_all_to_the_cpu() {
    for point in [Name, PanicPoint::Partitioning, PanicPoint::Claim, Prepare, Report, Slots] {
        for way in ways().filter(|way| point != Slots || way.queue) {
            let (interpreter, _) = build(point, way, false);
            let mut interpreter = interpreter.unwrap_or_else(|error| panic!("{point:?}, {way:?}: {error}"));
            assert!(told(&interpreter, point), "{point:?}: {:?}", interpreter.report().panics);
            let text = format!("a planted panic in {point:?}");
            let placement = interpreter.placement();
            assert!(placement.log.iter().any(|line| line.contains(&text)), "{placement}");
            assert!(placement.nodes[0].reason.as_ref().is_some_and(|reason| reason.contains(&text)), "{placement}");
            assert_eq!(interpreter.report().partitions, 0, "{point:?}");
            assert_right(&once(&mut interpreter).unwrap(), way, false);

            let error = build(point, way, true).0.expect_err("delegation is required");
            assert_eq!(error.kind(), ErrorKind::NotDelegated);
            assert!(error.to_string().contains(&text), "{point:?}: {error}");
        }
    }
}

#[test]
fn a_panic_in_a_run_is_its_error_or_the_cpus_turn_and_the_kernel_is_left_alone() {
    for point in [Invoke, Write, Submit, Wait, InputMut, Output, Read] {
        for way in ways().filter(|way| (point != Invoke) == (way.whole && way.queue)) {
            let (interpreter, shared) = build(point, way, way.whole);
            let mut interpreter = interpreter.unwrap_or_else(|error| panic!("{point:?}, {way:?}: {error}"));
            assert!(interpreter.report().panics.is_empty());
            if way.fallback && point == Read {
                assert!(once(&mut interpreter).is_err(), "a read after the run has no CPU to turn to");
            }
            if way.fallback {
                assert_right(&once(&mut interpreter).unwrap(), way, false);
                assert!(told(&interpreter, point), "{point:?}, {way:?}");
                assert!(interpreter.report().fallback.is_some_and(|text| text.contains("a planted panic")));
                let calls = shared.calls.load(Ordering::Relaxed);
                assert_right(&once(&mut interpreter).unwrap(), way, false);
                assert_eq!(shared.calls.load(Ordering::Relaxed), calls, "{point:?}: it is called no more");
                interpreter.resize_input(0, &[1]).unwrap();
                assert!(told(&interpreter, point), "a resize forgets nothing");
                assert!(interpreter.report().fallback.is_some());
                continue;
            }
            let error = once(&mut interpreter).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Device);
            assert!(error.to_string().contains(&format!("a planted panic in {point:?}")), "{error}");
            assert!(told(&interpreter, point), "{point:?}, {way:?}");
            let calls = shared.calls.load(Ordering::Relaxed);
            for _ in 0..2 {
                let error = once(&mut interpreter).unwrap_err();
                assert!(error.to_string().contains("failed earlier"), "{point:?}: {error}");
                assert!(interpreter.read::<f32>(0).is_err());
            }
            assert_eq!(shared.calls.load(Ordering::Relaxed), calls, "{point:?}: it is called no more");
            interpreter.resize_input(0, &[3]).expect("new shapes are new kernels");
            assert!(told(&interpreter, point), "a resize forgets nothing");
        }
    }
}

#[test]
fn a_panic_in_a_profile_is_an_error() {
    for way in ways() {
        let mut interpreter = build(Profile, way, false).0.unwrap();
        assert_right(&once(&mut interpreter).unwrap(), way, true);
        let error = interpreter.profile().unwrap_err();
        assert!(error.to_string().contains("a planted panic in Profile"), "{error}");
        assert!(told(&interpreter, Profile));
    }
}

#[test]
fn a_panic_in_a_drop_goes_no_further() {
    for point in [ClaimDrop, KernelDrop, DelegateDrop] {
        for way in ways() {
            let (interpreter, _) = build(point, way, false);
            let mut interpreter = interpreter.unwrap();
            assert_right(&once(&mut interpreter).unwrap(), way, true);
            drop(interpreter);
        }
    }
}

#[test]
fn nothing_panics_where_nothing_is_planted() {
    for way in ways() {
        let mut interpreter = build(Never, way, way.whole).0.unwrap();
        assert_right(&once(&mut interpreter).unwrap(), way, true);
        assert!(interpreter.report().panics.is_empty());
        assert!(interpreter.queue_depth() <= 64);
    }
}

/// Panics can be caught only if they unwind, so no Cargo profile may abort.
#[test]
fn no_profile_aborts_at_a_panic() {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
    let manifest = std::fs::read_to_string(manifest).unwrap();
    let settings = manifest.lines().map(|line| line.split('#').next().unwrap_or_default());
    assert!(settings.into_iter().all(|line| !line.trim_start().starts_with("panic")), "profiles unwind");
    const { assert!(cfg!(panic = "unwind")) };
}

//! Compiled models that several interpreters share, runs on other threads, and tensor views.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use attache::graph::{Eval, Fact, Inferred, Lowering, Op, OpError, Unsupported};
use attache::model::schema::BuiltinOperator;
use attache::{
    CompiledModel, DataType, ErrorKind, Interpreter, Model, ModelBuilder, OpResolver, OperatorBuilder, Run,
    TensorBuilder,
};

use crate::common::{Net, floats, run};

/// Builds `relu(x + x)` of two elements.
fn doubling() -> Model {
    let mut net = Net::new();
    let x = net.tensor("x", &[2]);
    let sum = net.add(x, x, &[2]);
    let y = net.relu(sum, &[2]);
    net.finish(&[x], &[y])
}

#[test]
fn many_threads_share_one_compiled_model() {
    fn is_shared<T: Send + Sync + Clone>(_: &T) {}
    let compiled = Interpreter::builder(&doubling()).threads(1).compile().unwrap();
    is_shared(&compiled);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let compiled = &compiled;
            scope.spawn(move || {
                let mut interpreter = compiled.interpreter().unwrap();
                for round in 0..50 {
                    let x = (thread * 100 + round) as f32;
                    run(&mut interpreter, &[&[x, -x]]);
                    assert_eq!(floats(&interpreter, 0), [2.0 * x, 0.0]);
                }
            });
        }
    });
}

#[test]
fn interpreters_are_apart() {
    let compiled = CompiledModel::new(&doubling()).unwrap();
    let (mut a, mut b) = (compiled.interpreter().unwrap(), compiled.interpreter().unwrap());
    run(&mut a, &[&[1.0, 2.0]]);
    assert_eq!(b.read::<f32>(0).unwrap_err().kind(), ErrorKind::Usage, "nothing ran in it");
    b.resize_input("x", &[3]).unwrap();
    run(&mut b, &[&[1.0, 2.0, 3.0]]);
    assert_eq!((floats(&a, 0), floats(&b, 0)), (vec![2.0, 4.0], vec![2.0, 4.0, 6.0]));
    for round in 0..20 {
        let extent = 2 + round % 3;
        b.resize_input("x", &[extent]).unwrap();
        run(&mut b, &[&vec![1.0; extent]]);
        assert_eq!(floats(&b, 0), vec![2.0; extent]);
    }
    assert_eq!(compiled.placement().nodes.len(), 2);
}

#[test]
fn tensors_are_found_by_name() {
    let mut interpreter = CompiledModel::new(&doubling()).unwrap().interpreter().unwrap();
    interpreter.input("x").unwrap().copy_from(&[3.0f32, -1.0]).unwrap();
    interpreter.invoke().unwrap();
    let output = interpreter.output(0).unwrap();
    assert_eq!(
        (output.dequantize().unwrap(), output.shape(), output.data_type()),
        (vec![6.0, 0.0], &[2][..], DataType::Float32)
    );
    let error = interpreter.input("y").unwrap_err().to_string();
    assert!(error.contains("\"y\"") && error.contains("\"x\""), "{error}");
    assert_eq!(interpreter.write("x", &[1u8, 2]).unwrap_err().kind(), ErrorKind::Usage);
}

/// Wakes by counting.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Polls a run until it ends. Between polls, waits to be woken.
fn block_on(mut run: Run) -> Result<(), attache::Error> {
    let count = Arc::new(Count::default());
    let waker = Waker::from(count.clone());
    let start = Instant::now();
    loop {
        let before = count.0.load(Ordering::SeqCst);
        match std::pin::Pin::new(&mut run).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result,
            Poll::Pending => {
                while count.0.load(Ordering::SeqCst) == before {
                    assert!(start.elapsed() < Duration::from_secs(60), "nobody woke");
                    std::thread::yield_now();
                }
            }
        }
    }
}

/// An operator that waits until it may go on, and then copies its input.
#[derive(Debug)]
pub(crate) struct Gate(pub(crate) Arc<AtomicUsize>);

impl Op for Gate {
    fn name(&self) -> &str {
        "Gate"
    }

    fn infer(&self, inputs: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.first().copied().flatten().ok_or_else(|| OpError::invalid("it has an input"))?;
        Ok(vec![Inferred { data_type: input.data_type, shape: input.shape.clone() }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        while self.0.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        let input = eval.input(0)?;
        eval.outputs[0].bytes.copy_from_slice(input.bytes);
        Ok(())
    }

    fn lower(&self, _: &mut Lowering<'_>) -> Result<(), Unsupported> {
        Err(Unsupported::new("it waits on the CPU"))
    }
}

/// Builds `relu(Gate(x))`, whose gate is open while the number is not 0.
pub(crate) fn gated(open: &Arc<AtomicUsize>) -> Interpreter {
    let mut builder = ModelBuilder::new("gated");
    builder.subgraph("main");
    let [x, y, z] = ["x", "y", "z"].map(|name| builder.tensor(0, TensorBuilder::new(name, DataType::Float32, [1])));
    builder.operator(0, OperatorBuilder::custom("Gate", *b"", [x], [y]));
    builder.operator(0, OperatorBuilder::new(BuiltinOperator::RELU, [y], [z]));
    builder.inputs(0, &[x]).outputs(0, &[z]);
    let model = Model::from_bytes(builder.finish()).unwrap();
    Interpreter::builder(&model).threads(1).operators(&with_gate(open)).build().unwrap()
}

/// Returns operators with `Gate`, whose gate is open while the number is not 0.
pub(crate) fn with_gate(open: &Arc<AtomicUsize>) -> OpResolver {
    let mut operators = OpResolver::new();
    let open = open.clone();
    operators.add_custom("Gate", 1..=1, move |_| Ok(Arc::new(Gate(open.clone()))));
    operators
}

#[test]
fn runs_on_the_cpu_are_awaited() {
    let open = Arc::new(AtomicUsize::new(0));
    let mut interpreter = gated(&open);
    interpreter.write("x", &[2.0f32]).unwrap();
    let run = interpreter.invoke_async().unwrap();
    assert!(run.wait_timeout(Duration::from_millis(20)).is_none(), "the gate is closed");
    assert!(!run.is_done());
    open.store(1, Ordering::SeqCst);
    block_on(run.clone()).unwrap();
    interpreter.wait(&run).unwrap();
    assert_eq!(floats(&interpreter, 0), [2.0]);
    interpreter.invoke().unwrap();
    assert_eq!(interpreter.wait(&run).unwrap_err().kind(), ErrorKind::Usage, "another run followed");
    let mut other = gated(&open);
    let run = other.invoke_async().unwrap();
    assert_eq!(interpreter.wait(&run).unwrap_err().kind(), ErrorKind::Usage, "it is another interpreter's");
}

/// A registered operator that panics.
#[derive(Debug)]
struct Panics;

impl Op for Panics {
    fn name(&self) -> &str {
        "Panics"
    }

    fn infer(&self, inputs: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError> {
        Gate(Arc::default()).infer(inputs)
    }

    fn eval(&self, _: &mut Eval<'_>) -> Result<(), OpError> {
        panic!("as it was told to")
    }
}

#[test]
fn registered_operators_replace_builtin_ones() {
    let mut operators = OpResolver::new();
    operators.add_builtin(BuiltinOperator::RELU, 1..=1, |_| Ok(Arc::new(Gate(Arc::new(AtomicUsize::new(1))))));
    let mut interpreter = Interpreter::builder(&doubling()).operators(&operators).build().unwrap();
    run(&mut interpreter, &[&[1.0, -1.0]]);
    assert_eq!(floats(&interpreter, 0), [2.0, -2.0], "the registered operator copies");
    operators.add_builtin(BuiltinOperator::RELU, 1..=1, |_| Ok(Arc::new(Panics)));
    let mut interpreter = Interpreter::builder(&doubling()).operators(&operators).build().unwrap();
    let error = interpreter.invoke().unwrap_err().to_string();
    assert!(error.contains("RELU panicked in eval: as it was told to"), "{error}");
}

#[test]
fn versions_that_are_not_registered_are_named() {
    let model = gated(&Arc::default()).model().clone();
    let mut operators = OpResolver::new();
    operators.add_custom("Gate", 2..=3, |_| Ok(Arc::new(Panics)));
    let error = Interpreter::builder(&model).operators(&operators).build().unwrap_err().to_string();
    assert!(error.contains("version 1 is not implemented (versions 2 to 3 are registered)"), "{error}");
}

#[test]
fn signatures_share_variables() {
    let model = crate::flow::signed();
    let mut interpreter = Interpreter::builder(&model).threads(1).build().unwrap();
    let train = |interpreter: &mut Interpreter, value: f32| {
        let mut train = interpreter.signature("train").unwrap();
        train.write("x", &[value]).unwrap();
        train.invoke().unwrap();
    };
    train(&mut interpreter, 3.0);
    train(&mut interpreter, 4.0);
    let mut infer = interpreter.signature("infer").unwrap();
    infer.write("x", &[10.0f32]).unwrap();
    infer.invoke().unwrap();
    assert_eq!(infer.read::<f32>("y").unwrap(), [17.0]);
    assert_eq!(infer.output("y").unwrap().dequantize().unwrap(), [17.0]);
    infer.input_mut::<f32>(0).unwrap()[0] = 11.0;
    let run = infer.invoke_async().unwrap();
    infer.wait(run).unwrap();
    let mut y = [0.0f32];
    infer.read_into(0, &mut y).unwrap();
    assert_eq!(y, [18.0]);
    let error = infer.write("z", &[1.0f32]).unwrap_err().to_string();
    assert!(error.contains("\"z\"") && error.contains("\"x\""), "{error}");
    assert_eq!(infer.read::<f32>(1).unwrap_err().kind(), ErrorKind::Usage);
}

#[test]
fn shapes_are_set_by_name_or_index() {
    let mut net = Net::new();
    let (x, y) = (net.tensor("x", &[2]), net.tensor("y", &[2]));
    let sum = net.named_add("sum", x, y, &[2]);
    let model = net.finish(&[x, y], &[sum]);
    let builder = Interpreter::builder(&model).input_shape("x", &[9]).input_shape(0, &[3]).input_shape("y", &[3]);
    let mut interpreter = builder.build().unwrap();
    run(&mut interpreter, &[&[1.0, 2.0, 3.0], &[1.0; 3]]);
    assert_eq!(floats(&interpreter, 0), [2.0, 3.0, 4.0]);
    interpreter.resize_inputs(&[("x", &[1]), ("y", &[1])]).unwrap();
    interpreter.resize_inputs(&[(0, &[4]), (1, &[4])]).unwrap();
    run(&mut interpreter, &[&[1.0; 4], &[2.0; 4]]);
    assert_eq!(floats(&interpreter, 0), [3.0; 4]);
    let error = interpreter.resize_inputs(&[("x", &[1]), ("z", &[1])]).unwrap_err().to_string();
    assert!(error.contains("\"z\"") && error.contains("\"y\""), "{error}");
    assert_eq!(Interpreter::builder(&model).input_shape("z", &[1]).build().unwrap_err().kind(), ErrorKind::Usage);
}

#[test]
fn intermediate_tensors_are_kept_where_asked_for() {
    let mut net = Net::new();
    let x = net.tensor("x", &[2]);
    let sum = net.named_add("sum", x, x, &[2]);
    let product = net.multiply(sum, x, &[2]);
    let y = net.relu(product, &[2]);
    let model = net.finish(&[x], &[y]);
    let mut interpreter = Interpreter::builder(&model).keep_tensor("sum").build().unwrap();
    let error = interpreter.tensor("sum").unwrap_err().to_string();
    assert!(error.starts_with("tensor \"sum\" has no value yet"), "{error}");
    run(&mut interpreter, &[&[3.0, -1.0]]);
    assert_eq!(interpreter.tensor("sum").unwrap().dequantize().unwrap(), [6.0, -2.0]);
    assert_eq!((interpreter.outputs().len(), floats(&interpreter, 0)), (1, vec![18.0, 2.0]));
    assert_eq!(interpreter.tensor(product).unwrap_err().kind(), ErrorKind::Usage, "it was not asked for");
    let mut interpreter = Interpreter::builder(&model).preserve_all_tensors(true).build().unwrap();
    run(&mut interpreter, &[&[3.0, -1.0]]);
    assert_eq!(interpreter.tensor(product).unwrap().as_slice::<f32>().unwrap(), [18.0, 2.0]);
    let error = Interpreter::builder(&model).keep_tensor("total").build().unwrap_err().to_string();
    assert!(error.contains("\"total\"") && error.contains("\"sum\""), "{error}");
}

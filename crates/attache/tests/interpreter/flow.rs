//! Tests of subgraphs that call each other, and of the resource variables that they share.

use std::sync::Arc;

use attache::DataType::{self, Bool, Float32, Int32, Resource};
use attache::graph::Unsupported;
use attache::model::schema::{
    BuiltinOperator, BuiltinOptionsT, CallOnceOptionsT, IfOptionsT, RandomOptionsT, VarHandleOptionsT, WhileOptionsT,
};
use attache::{
    Claim, Delegate, DelegateError, Error, ErrorKind, Interpreter, Model, ModelBuilder, NodeContext, OperatorBuilder,
    Outcome, Partition, PreparedPartition, TensorBuilder,
};

/// A builder of a model with several subgraphs.
pub(crate) struct Flow(ModelBuilder);

impl Flow {
    fn new(subgraphs: usize) -> Self {
        let mut builder = ModelBuilder::new("test");
        for index in 0..subgraphs {
            builder.subgraph(&format!("subgraph {index}"));
        }
        Self(builder)
    }

    fn tensor(&mut self, subgraph: usize, data_type: DataType, shape: &[usize]) -> usize {
        self.0.tensor(subgraph, TensorBuilder::new("", data_type, shape))
    }

    fn constant(&mut self, subgraph: usize, values: &[f32]) -> usize {
        self.0.tensor(subgraph, TensorBuilder::values("", [values.len()], values))
    }

    /// Adds an operator with one output, whose shape the model file states as `[1]`, and returns the output.
    fn apply(&mut self, subgraph: usize, builtin: BuiltinOperator, inputs: &[usize], data_type: DataType) -> usize {
        let output = self.tensor(subgraph, data_type, &[1]);
        self.0.operator(subgraph, OperatorBuilder::new(builtin, inputs.iter().copied(), [output]));
        output
    }

    fn with_options(
        &mut self,
        subgraph: usize,
        builtin: BuiltinOperator,
        ends: (&[usize], &[usize]),
        options: BuiltinOptionsT,
    ) {
        let operator = OperatorBuilder::new(builtin, ends.0.iter().copied(), ends.1.iter().copied());
        self.0.operator(subgraph, operator.options(options));
    }

    fn branch(&mut self, subgraph: usize, inputs: &[usize], outputs: &[usize], branches: [i32; 2]) {
        let [then_subgraph_index, else_subgraph_index] = branches;
        let options = IfOptionsT { then_subgraph_index, else_subgraph_index };
        self.with_options(subgraph, BuiltinOperator::IF, (inputs, outputs), BuiltinOptionsT::IfOptions(options.into()));
    }

    fn repeat(&mut self, subgraph: usize, inputs: &[usize], outputs: &[usize], [condition, body]: [i32; 2]) {
        let options = WhileOptionsT { cond_subgraph_index: condition, body_subgraph_index: body };
        self.with_options(
            subgraph,
            BuiltinOperator::WHILE,
            (inputs, outputs),
            BuiltinOptionsT::WhileOptions(options.into()),
        );
    }

    fn once(&mut self, subgraph: usize, setup: i32) {
        let options = CallOnceOptionsT { init_subgraph_index: setup };
        self.with_options(
            subgraph,
            BuiltinOperator::CALL_ONCE,
            (&[], &[]),
            BuiltinOptionsT::CallOnceOptions(options.into()),
        );
    }

    fn handle(&mut self, subgraph: usize, name: &str) -> usize {
        let handle = self.tensor(subgraph, Resource, &[]);
        let options = VarHandleOptionsT { container: Some(String::new()), shared_name: Some(name.to_owned()) };
        let options = BuiltinOptionsT::VarHandleOptions(options.into());
        self.with_options(subgraph, BuiltinOperator::VAR_HANDLE, (&[], &[handle]), options);
        handle
    }

    fn read(&mut self, subgraph: usize, handle: usize) -> usize {
        self.apply(subgraph, BuiltinOperator::READ_VARIABLE, &[handle], Float32)
    }

    fn assign(&mut self, subgraph: usize, handle: usize, value: usize) {
        self.0.operator(subgraph, OperatorBuilder::new(BuiltinOperator::ASSIGN_VARIABLE, [handle, value], []));
    }

    fn ends(&mut self, subgraph: usize, inputs: &[usize], outputs: &[usize]) {
        self.0.inputs(subgraph, inputs).outputs(subgraph, outputs);
    }

    pub(crate) fn build(&self) -> Result<Interpreter, Error> {
        let model = Model::from_bytes(self.0.finish()).unwrap_or_else(|error| panic!("{error}"));
        Interpreter::builder(&model).threads(1).build()
    }
}

/// Adds an IF whose condition and operand are inputs of the model.
fn conditional(flow: &mut Flow, branches: [i32; 2]) {
    let (condition, x, y) = (flow.tensor(0, Bool, &[]), flow.tensor(0, Float32, &[2]), flow.tensor(0, Float32, &[]));
    flow.branch(0, &[condition, x], &[y], branches);
    flow.ends(0, &[condition, x], &[y]);
}

/// Fills subgraphs 1 and 2 as branches whose outputs have different shapes, `[2]` and `[3]`.
fn branches(flow: &mut Flow) {
    let x = flow.tensor(1, Float32, &[2]);
    let twice = flow.apply(1, BuiltinOperator::ADD, &[x, x], Float32);
    flow.ends(1, &[x], &[twice]);
    let (x, more) = (flow.tensor(2, Float32, &[2]), flow.constant(2, &[7.0, 8.0, 9.0]));
    flow.ends(2, &[x], &[more]);
}

/// Builds a model of a loop that adds 1 to its first input while it is less than `end`, and adds each of
/// these numbers to its second input.
fn counting(end: f32) -> Flow {
    let mut flow = Flow::new(3);
    let start: Vec<_> = (0..2).map(|_| flow.tensor(0, Float32, &[1])).collect();
    let last: Vec<_> = (0..2).map(|_| flow.tensor(0, Float32, &[])).collect();
    flow.repeat(0, &start, &last, [1, 2]);
    flow.ends(0, &start, &last);
    below(&mut flow, end);
    adds(&mut flow);
    flow
}

/// Builds a model of a loop like [`counting`] whose first value starts as the constant 0; its input is the second.
fn counted(condition: impl FnOnce(&mut Flow), body: impl FnOnce(&mut Flow)) -> Flow {
    let mut flow = Flow::new(3);
    let start = [flow.constant(0, &[0.0]), flow.tensor(0, Float32, &[1])];
    let last: Vec<_> = (0..2).map(|_| flow.tensor(0, Float32, &[])).collect();
    flow.repeat(0, &start, &last, [1, 2]);
    flow.ends(0, &start[1..], &last);
    condition(&mut flow);
    body(&mut flow);
    flow
}

fn counted_to(end: f32) -> Flow {
    counted(|flow| below(flow, end), adds)
}

/// Adds the two values of a loop to a subgraph.
fn values(flow: &mut Flow, subgraph: usize) -> [usize; 2] {
    [0, 1].map(|_| flow.tensor(subgraph, Float32, &[1]))
}

/// Fills subgraph 1 as the condition of [`counting`].
fn below(flow: &mut Flow, end: f32) {
    let ([count, sum], end) = (values(flow, 1), flow.constant(1, &[end]));
    let goes_on = flow.apply(1, BuiltinOperator::LESS, &[count, end], Bool);
    flow.ends(1, &[count, sum], &[goes_on]);
}

/// Fills subgraph 2 as the body of [`counting`].
fn adds(flow: &mut Flow) {
    let ([count, sum], one) = (values(flow, 2), flow.constant(2, &[1.0]));
    let next = flow.apply(2, BuiltinOperator::ADD, &[count, one], Float32);
    let total = flow.apply(2, BuiltinOperator::ADD, &[sum, count], Float32);
    flow.ends(2, &[count, sum], &[next, total]);
}

/// Returns what passes do to a model, as text.
fn passes(flow: &Flow) -> String {
    attache::stages::passes(&Model::from_bytes(flow.0.finish()).unwrap(), 0, &[]).unwrap()
}

/// Builds a model that adds its first input to a resource variable of initial value 10, in the `then` branch
/// of an IF without outputs, and then returns the variable's value.
pub(crate) fn accumulator() -> Flow {
    let mut flow = Flow::new(4);
    let (x, yes) = (flow.tensor(0, Float32, &[1]), flow.tensor(0, Bool, &[]));
    flow.once(0, 1);
    flow.branch(0, &[yes, x], &[], [2, 3]);
    let handle = flow.handle(0, "sum");
    let sum = flow.read(0, handle);
    flow.ends(0, &[x, yes], &[sum]);
    let (handle, ten) = (flow.handle(1, "sum"), flow.constant(1, &[10.0]));
    flow.assign(1, handle, ten);
    let (x, handle) = (flow.tensor(2, Float32, &[1]), flow.handle(2, "sum"));
    let before = flow.read(2, handle);
    let after = flow.apply(2, BuiltinOperator::ADD, &[before, x], Float32);
    flow.assign(2, handle, after);
    flow.ends(2, &[x], &[]);
    let x = flow.tensor(3, Float32, &[1]);
    flow.ends(3, &[x], &[]);
    flow
}

/// Builds a model of two signatures that share a variable, initially 0: `train` adds its input `x` to it, and `infer`
/// returns the sum of its input `x` and the variable as `y`.
pub(crate) fn signed() -> Model {
    let mut flow = Flow::new(3);
    let x = flow.tensor(0, Float32, &[1]);
    flow.once(0, 2);
    let handle = flow.handle(0, "sum");
    let before = flow.read(0, handle);
    let after = flow.apply(0, BuiltinOperator::ADD, &[before, x], Float32);
    flow.assign(0, handle, after);
    flow.ends(0, &[x], &[after]);
    flow.0.signature("train", 0, &[("x", x)], &[("sum", after)]);
    let x = flow.tensor(1, Float32, &[1]);
    flow.once(1, 2);
    let handle = flow.handle(1, "sum");
    let sum = flow.read(1, handle);
    let y = flow.apply(1, BuiltinOperator::ADD, &[sum, x], Float32);
    flow.ends(1, &[x], &[y]);
    flow.0.signature("infer", 1, &[("x", x)], &[("y", y)]);
    let (handle, zero) = (flow.handle(2, "sum"), flow.constant(2, &[0.0]));
    flow.assign(2, handle, zero);
    flow.ends(2, &[], &[]);
    Model::from_bytes(flow.0.finish()).unwrap_or_else(|error| panic!("{error}"))
}

/// Builds `sum = sum + x; y = relu(Gate(sum))` with the custom operator Gate and a variable that is initially 0.
pub(crate) fn gated_sum() -> Model {
    let mut flow = Flow::new(2);
    let x = flow.tensor(0, Float32, &[1]);
    flow.once(0, 1);
    let handle = flow.handle(0, "sum");
    let before = flow.read(0, handle);
    let after = flow.apply(0, BuiltinOperator::ADD, &[before, x], Float32);
    flow.assign(0, handle, after);
    let gated = flow.tensor(0, Float32, &[1]);
    flow.0.operator(0, OperatorBuilder::custom("Gate", *b"", [after], [gated]));
    let y = flow.apply(0, BuiltinOperator::RELU, &[gated], Float32);
    flow.ends(0, &[x], &[y]);
    let (handle, zero) = (flow.handle(1, "sum"), flow.constant(1, &[0.0]));
    flow.assign(1, handle, zero);
    flow.ends(1, &[], &[]);
    Model::from_bytes(flow.0.finish()).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(flow: &Flow, kind: ErrorKind, text: &str) {
    let error = flow.build().expect_err("it is refused");
    assert!(error.to_string().contains(text), "{error}");
    assert_eq!(error.kind(), kind);
}

fn fails(interpreter: &mut Interpreter, kind: ErrorKind, text: &str) {
    let error = interpreter.invoke().expect_err("it fails");
    assert!(error.to_string().contains(text), "{error}");
    assert_eq!(error.kind(), kind);
}

#[test]
fn a_branch_is_chosen_at_each_run() {
    let mut flow = Flow::new(3);
    conditional(&mut flow, [1, 2]);
    branches(&mut flow);
    let mut interpreter = flow.build().unwrap();
    interpreter.write(1, &[1.5f32, -2.0]).unwrap();
    for _ in 0..2 {
        interpreter.write_bytes(0, &[1]).unwrap();
        interpreter.invoke().unwrap();
        assert_eq!(interpreter.read::<f32>(0).unwrap(), [3.0, -4.0]);
        interpreter.write_bytes(0, &[0]).unwrap();
        interpreter.invoke().unwrap();
        assert_eq!(interpreter.read::<f32>(0).unwrap(), [7.0, 8.0, 9.0]);
    }
    interpreter.resize_input(1, &[3]).unwrap();
    interpreter.write(1, &[1.0f32, 2.0, 3.0]).unwrap();
    interpreter.write_bytes(0, &[1]).unwrap();
    interpreter.invoke().unwrap();
    assert_eq!(interpreter.read::<f32>(0).unwrap(), [2.0, 4.0, 6.0]);
}

#[test]
fn a_loop_ends_when_its_condition_says_so() {
    let mut interpreter = counting(5.0).build().unwrap();
    for (start, count, sum) in [(0.0f32, 5.0f32, 10.0f32), (3.0, 5.0, 7.0), (9.0, 9.0, 0.0)] {
        interpreter.write(0, &[start]).unwrap();
        interpreter.invoke().unwrap();
        assert_eq!(interpreter.read::<f32>(0).unwrap(), [count]);
        assert_eq!(interpreter.read::<f32>(1).unwrap(), [sum]);
    }
}

#[test]
fn an_endless_loop_is_stopped() {
    for flow in [counting(f32::INFINITY), counted_to(f32::INFINITY)] {
        let mut interpreter = flow.build().unwrap();
        fails(&mut interpreter, ErrorKind::LimitExceeded, "loop_steps");
    }
}

#[test]
fn the_nodes_of_all_turns_take_the_place_of_a_loop_that_counts() {
    for (end, turns) in [(5.0, 5), (0.0, 0), (200.0, 200)] {
        let flow = counted_to(end);
        let mut interpreter = flow.build().unwrap();
        interpreter.write(0, &[0.5f32]).unwrap();
        interpreter.invoke().unwrap();
        let sum = (0..turns).map(|turn| turn as f32).sum::<f32>() + 0.5;
        assert_eq!([0, 1].map(|output| interpreter.read::<f32>(output).unwrap()), [[end], [sum]]);
        let text = passes(&flow);
        // The counter is constant. Without a turn, an output would be the input, so that the loop stays.
        assert_eq!(text.matches("= ADD").count(), turns, "{text}");
        assert_eq!(text.contains("= WHILE"), turns == 0, "{text}");
    }
}

#[test]
fn loops_stay_whose_turns_are_many_or_unknown() {
    let mut interpreter = counted_to(1000.0).build().unwrap();
    interpreter.invoke().unwrap();
    assert_eq!(interpreter.read::<f32>(1).unwrap(), [499_500.0]);
    let declined = |flow: &Flow, reason: &str| {
        let text = passes(flow);
        assert!(text.contains("= WHILE") && text.contains(reason), "{text}");
    };
    declined(&counted_to(1000.0), "it runs more than 256 times");
    let unknown = "how often it runs is not known before it does";
    declined(&counting(5.0), unknown);
    // The body computes the counter from another value.
    let mixes = |flow: &mut Flow| {
        let [count, sum] = values(flow, 2);
        let next = flow.apply(2, BuiltinOperator::ADD, &[count, sum], Float32);
        flow.ends(2, &[count, sum], &[next, sum]);
    };
    declined(&counted(|flow| below(flow, 5.0), mixes), unknown);
    // The condition also assigns a variable.
    let assigns = |flow: &mut Flow| {
        let ([count, sum], end, handle) = (values(flow, 1), flow.constant(1, &[3.0]), flow.handle(1, "kept"));
        flow.assign(1, handle, count);
        let goes_on = flow.apply(1, BuiltinOperator::LESS, &[count, end], Bool);
        flow.ends(1, &[count, sum], &[goes_on]);
    };
    declined(&counted(assigns, adds), unknown);
    // The condition takes one tensor for both values, of which only the last is in it.
    let doubles = |flow: &mut Flow| {
        let (count, end) = (flow.tensor(1, Float32, &[1]), flow.constant(1, &[3.0]));
        let goes_on = flow.apply(1, BuiltinOperator::LESS, &[count, end], Bool);
        flow.ends(1, &[count, count], &[goes_on]);
    };
    declined(&counted(doubles, adds), "an input of its subgraph is constant, a variable or there twice");
    let weighs = |flow: &mut Flow| {
        let ([count, sum], one) = (values(flow, 2), flow.constant(2, &[1.0]));
        let next = flow.apply(2, BuiltinOperator::ADD, &[count, one], Float32);
        let weights = flow.constant(2, &vec![0.5; 1 << 18]);
        let total = flow.apply(2, BuiltinOperator::ADD, &[sum, weights], Float32);
        flow.ends(2, &[count, sum], &[next, total]);
    };
    declined(&counted(|flow| below(flow, 100.0), weighs), "would take too much memory");
}

#[test]
fn an_operator_that_the_cpu_runs_in_some_turns_is_on_the_cpu() {
    let mut flow = Flow::new(3);
    let start = [flow.constant(0, &[0.0]), flow.constant(0, &[2.0]), flow.tensor(0, Float32, &[1])];
    let last: Vec<_> = (0..3).map(|_| flow.tensor(0, Float32, &[])).collect();
    flow.repeat(0, &start, &last, [1, 2]);
    flow.ends(0, &start[2..], &last[1..2]);
    let ([count, power], end) = (values(&mut flow, 1), flow.constant(1, &[3.0]));
    let (goes_on, x) = (flow.apply(1, BuiltinOperator::LESS, &[count, end], Bool), flow.tensor(1, Float32, &[1]));
    flow.ends(1, &[count, power, x], &[goes_on]);
    let ([count, before], x) = (values(&mut flow, 2), flow.tensor(2, Float32, &[1]));
    // Constant in the first turn.
    let square = flow.apply(2, BuiltinOperator::MUL, &[before, before], Float32);
    let one = flow.constant(2, &[1.0]);
    let next = flow.apply(2, BuiltinOperator::ADD, &[count, one], Float32);
    let power = flow.apply(2, BuiltinOperator::ADD, &[square, x], Float32);
    flow.ends(2, &[count, before, x], &[next, power, x]);
    let mut interpreter = flow.build().unwrap();
    interpreter.write(0, &[1.0f32]).unwrap();
    interpreter.invoke().unwrap();
    assert_eq!(interpreter.read::<f32>(0).unwrap(), [677.0]);
    let outcomes: Vec<_> =
        interpreter.placement().nodes[0].inlined.iter().map(|inside| inside.outcome.clone()).collect();
    let constant = Outcome::Folded { into: "constant".to_owned() };
    assert_eq!(outcomes, [Outcome::Cpu, constant, Outcome::Cpu]);
}

#[test]
fn random_numbers_of_a_loop_differ_from_turn_to_turn() {
    let subtracts = |flow: &mut Flow| {
        let ([count, sum], one) = (values(flow, 2), flow.constant(2, &[1.0]));
        let next = flow.apply(2, BuiltinOperator::ADD, &[count, one], Float32);
        let (shape, random) =
            (flow.0.tensor(2, TensorBuilder::values("", [1], &[1i32])), flow.tensor(2, Float32, &[1]));
        let options = BuiltinOptionsT::RandomOptions(RandomOptionsT { seed: 7, seed2: 9 }.into());
        flow.with_options(2, BuiltinOperator::RANDOM_UNIFORM, (&[shape], &[random]), options);
        let total = flow.apply(2, BuiltinOperator::SUB, &[random, sum], Float32);
        flow.ends(2, &[count, sum], &[next, total]);
    };
    let flow = counted(|flow| below(flow, 4.0), subtracts);
    let mut interpreter = flow.build().unwrap();
    interpreter.invoke().unwrap();
    // Equal numbers would cancel.
    assert_ne!(interpreter.read::<f32>(1).unwrap(), [0.0]);
    assert!(passes(&flow).contains("an operator with a state"));
}

#[test]
fn variables_live_from_run_to_run() {
    let mut interpreter = accumulator().build().unwrap();
    interpreter.write(0, &[2.0f32]).unwrap();
    interpreter.write_bytes(1, &[1]).unwrap();
    for expected in [12.0f32, 14.0, 16.0] {
        interpreter.invoke().unwrap();
        assert_eq!(interpreter.read::<f32>(0).unwrap(), [expected]);
    }
    interpreter.reset_variable_tensors();
    interpreter.invoke().unwrap();
    assert_eq!(interpreter.read::<f32>(0).unwrap(), [18.0], "a resource variable is no tensor");
    interpreter.reset_variables();
    interpreter.invoke().unwrap();
    assert_eq!(interpreter.read::<f32>(0).unwrap(), [12.0]);
    let mut other = accumulator().build().unwrap();
    other.invoke().unwrap();
    assert_eq!(other.read::<f32>(0).unwrap(), [10.0]);
}

#[test]
fn a_handle_is_a_value_too() {
    let mut flow = Flow::new(2);
    let (x, yes) = (flow.tensor(0, Float32, &[1]), flow.tensor(0, Bool, &[]));
    let handle = flow.handle(0, "kept");
    flow.assign(0, handle, x);
    let y = flow.tensor(0, Float32, &[]);
    flow.branch(0, &[yes, handle], &[y], [1, 1]);
    flow.ends(0, &[x, yes], &[y]);
    let handle = flow.tensor(1, Resource, &[]);
    let value = flow.read(1, handle);
    flow.ends(1, &[handle], &[value]);
    let mut interpreter = flow.build().unwrap();
    interpreter.write(0, &[4.5f32]).unwrap();
    interpreter.invoke().unwrap();
    assert_eq!(interpreter.read::<f32>(0).unwrap(), [4.5]);
}

#[test]
fn subgraphs_that_do_not_exist_are_refused() {
    for branch in [3, -1, i32::MAX, i32::MIN] {
        let mut flow = Flow::new(3);
        conditional(&mut flow, [1, branch]);
        branches(&mut flow);
        refused(&flow, ErrorKind::Model, "the model has 3 subgraphs");
    }
    let mut flow = Flow::new(1);
    flow.once(0, 1);
    refused(&flow, ErrorKind::Model, "the model has 1 subgraphs");
}

#[test]
fn subgraphs_of_other_inputs_are_refused() {
    let mut flow = Flow::new(3);
    conditional(&mut flow, [1, 2]);
    let (x, y) = (flow.tensor(1, Int32, &[2]), flow.tensor(1, Float32, &[1]));
    flow.ends(1, &[x], &[y]);
    let x = flow.tensor(2, Float32, &[2]);
    flow.ends(2, &[x], &[x]);
    refused(&flow, ErrorKind::Model, "input 0 of subgraph 1 is of type INT32, not FLOAT32");
    flow.ends(1, &[], &[y]);
    refused(&flow, ErrorKind::Model, "it runs subgraph 1 with 1 inputs and 1 outputs; that one has 0 and 1");
}

#[test]
fn subgraphs_that_run_themselves_are_refused() {
    let mut flow = Flow::new(2);
    conditional(&mut flow, [1, 1]);
    let (x, y, zero) = (flow.tensor(1, Float32, &[2]), flow.tensor(1, Float32, &[]), flow.constant(1, &[0.0]));
    let condition = flow.apply(1, BuiltinOperator::LESS, &[zero, zero], Bool);
    flow.branch(1, &[condition, x], &[y], [1, 1]);
    flow.ends(1, &[x], &[y]);
    let mut interpreter = flow.build().unwrap();
    fails(&mut interpreter, ErrorKind::Model, "it runs subgraph 1, which is running already");
    let mut flow = Flow::new(1);
    conditional(&mut flow, [0, 0]);
    refused(&flow, ErrorKind::Model, "it runs subgraph 0 with 1 inputs");
}

#[test]
fn a_variable_that_nobody_set_is_an_error() {
    let mut flow = Flow::new(1);
    let handle = flow.handle(0, "empty");
    let value = flow.read(0, handle);
    flow.ends(0, &[], &[value]);
    fails(&mut flow.build().unwrap(), ErrorKind::Model, "read before it is assigned");
    let mut flow = Flow::new(1);
    let handle = flow.tensor(0, Resource, &[]);
    let value = flow.read(0, handle);
    flow.ends(0, &[handle], &[value]);
    fails(&mut flow.build().unwrap(), ErrorKind::Model, "a handle that no variable has");
}

/// Returns the number of operators that a delegate could not claim because their shapes are unknown.
fn unsized_operators(interpreter: &Interpreter) -> usize {
    interpreter.placement().nodes.iter().filter(|node| node.reason.as_deref() == Some(UNSIZED)).count()
}

const UNSIZED: &str = "its shapes are known only at run time";

/// A delegate that claims no node, so that the placement contains the reason for each.
struct Nothing;

impl Delegate for Nothing {
    fn name(&self) -> &str {
        "nothing"
    }

    fn claim(&self, _: NodeContext<'_>) -> Result<Claim, Unsupported> {
        Err(Unsupported::new("no"))
    }

    fn prepare(&self, _: Partition<'_>) -> Result<Box<dyn PreparedPartition>, DelegateError> {
        Err(DelegateError::new("never asked"))
    }
}

fn placed(flow: &Flow) -> Interpreter {
    let model = Model::from_bytes(flow.0.finish()).unwrap();
    Interpreter::builder(&model).delegate(Arc::new(Nothing)).build().unwrap()
}

/// Builds a model of a resource variable with the initial value `start`. Each run reads the variable, adds
/// the input and assigns the sum.
fn stateful(start: &[f32]) -> Flow {
    let mut flow = Flow::new(2);
    let x = flow.tensor(0, Float32, &[2]);
    flow.once(0, 1);
    let handle = flow.handle(0, "state");
    let before = flow.read(0, handle);
    let after = flow.apply(0, BuiltinOperator::ADD, &[before, x], Float32);
    flow.assign(0, handle, after);
    flow.ends(0, &[x], &[after]);
    let (handle, start) = (flow.handle(1, "state"), flow.constant(1, start));
    flow.assign(1, handle, start);
    flow.ends(1, &[], &[]);
    flow
}

#[test]
fn a_variable_is_of_the_shape_that_all_assignments_give_it() {
    let mut interpreter = placed(&stateful(&[1.0, 2.0]));
    assert_eq!(unsized_operators(&interpreter), 0);
    interpreter.write(0, &[10.0f32, 20.0]).unwrap();
    interpreter.invoke().unwrap();
    interpreter.invoke().unwrap();
    assert_eq!(interpreter.read::<f32>(0).unwrap(), [21.0, 42.0]);

    // The variable has one element at first and two later, so the shapes of READ_VARIABLE, ADD and
    // ASSIGN_VARIABLE are known only in each run.
    let mut interpreter = placed(&stateful(&[1.0]));
    assert_eq!(unsized_operators(&interpreter), 3);
    interpreter.write(0, &[10.0f32, 20.0]).unwrap();
    interpreter.invoke().unwrap();
    interpreter.invoke().unwrap();
    assert_eq!(interpreter.read::<f32>(0).unwrap(), [21.0, 41.0]);
}

#[test]
fn a_variable_may_change_its_shape_with_the_inputs() {
    let mut flow = Flow::new(1);
    let x = flow.tensor(0, Float32, &[2]);
    let handle = flow.handle(0, "kept");
    let zero = flow.constant(0, &[0.0]);
    flow.assign(0, handle, x);
    let kept = flow.read(0, handle);
    let y = flow.apply(0, BuiltinOperator::ADD, &[kept, zero], Float32);
    flow.ends(0, &[x], &[y]);
    let mut interpreter = placed(&flow);
    assert_eq!(unsized_operators(&interpreter), 0);
    interpreter.write(0, &[1.0f32, 2.0]).unwrap();
    interpreter.invoke().unwrap();
    interpreter.resize_input(0, &[3]).unwrap();
    assert_eq!(unsized_operators(&interpreter), 2, "the variable still holds two elements");
    interpreter.write(0, &[1.0f32, 2.0, 3.0]).unwrap();
    interpreter.invoke().unwrap();
    assert_eq!(interpreter.read::<f32>(0).unwrap(), [1.0, 2.0, 3.0]);
    interpreter.reset_variables();
    interpreter.resize_input(0, &[1]).unwrap();
    assert_eq!(unsized_operators(&interpreter), 0);
}

#[test]
fn an_assignment_through_a_handle_from_elsewhere_tells_nothing() {
    let mut flow = stateful(&[1.0, 2.0]);
    flow.0.subgraph("elsewhere");
    let (handle, x) = (flow.tensor(2, Resource, &[]), flow.tensor(2, Float32, &[1]));
    flow.assign(2, handle, x);
    flow.ends(2, &[handle, x], &[]);
    assert_eq!(unsized_operators(&placed(&flow)), 3);
}

#[test]
fn branches_that_double_at_each_level_are_stopped() {
    const LEVELS: usize = 40;
    let mut flow = Flow::new(LEVELS);
    for level in 0..LEVELS {
        let (x, yes) = (flow.tensor(level, Float32, &[1]), flow.tensor(level, Bool, &[]));
        if level + 1 < LEVELS {
            let next = level as i32 + 1;
            (0..2).for_each(|_| flow.branch(level, &[yes, x, yes], &[], [next, next]));
        }
        flow.ends(level, &[x, yes], &[]);
    }
    fails(&mut flow.build().unwrap(), ErrorKind::LimitExceeded, "loop_steps");
}

#[test]
fn subgraphs_are_not_nested_without_bound() {
    const LEVELS: usize = 1000;
    let mut flow = Flow::new(LEVELS);
    for level in 0..LEVELS {
        let yes = flow.tensor(level, Bool, &[]);
        if level + 1 < LEVELS {
            let next = level as i32 + 1;
            flow.branch(level, &[yes, yes], &[], [next, next]);
        }
        flow.ends(level, &[yes], &[]);
    }
    fails(&mut flow.build().unwrap(), ErrorKind::Unsupported, "more than 64 subgraphs");
}

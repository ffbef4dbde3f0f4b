//! Tests of tensors that are passed by reference: to subgraphs, variables and later runs.

use attache::DataType::{self, Bool, Float32, Int32, Resource};
use attache::model::schema::{
    BuiltinOperator, BuiltinOptionsT, CallOnceOptionsT, IfOptionsT, VarHandleOptionsT, WhileOptionsT,
};
use attache::{ErrorKind, Interpreter, Model, ModelBuilder, OperatorBuilder, TensorBuilder};

/// Elements of a row of a tensor.
const ROW: usize = 32;

/// A builder of models whose large tensors are all of one shape, `[rows, ROW]`.
struct Net {
    builder: ModelBuilder,
    rows: usize,
}

impl Net {
    fn new(rows: usize) -> Self {
        let mut builder = ModelBuilder::new("test");
        builder.subgraph("main");
        Self { builder, rows }
    }

    fn tensor(&mut self, subgraph: usize, data_type: DataType, shape: &[usize]) -> usize {
        self.builder.tensor(subgraph, TensorBuilder::new("", data_type, shape))
    }

    fn large(&mut self, subgraph: usize) -> usize {
        self.tensor(subgraph, Float32, &[self.rows, ROW])
    }

    fn operator(&mut self, subgraph: usize, builtin: BuiltinOperator, inputs: &[usize], outputs: &[usize]) {
        let operator = OperatorBuilder::new(builtin, inputs.iter().copied(), outputs.iter().copied());
        self.builder.operator(subgraph, operator);
    }

    fn with_options(
        &mut self,
        subgraph: usize,
        builtin: BuiltinOperator,
        (inputs, outputs): (&[usize], &[usize]),
        options: BuiltinOptionsT,
    ) {
        let operator = OperatorBuilder::new(builtin, inputs.iter().copied(), outputs.iter().copied());
        self.builder.operator(subgraph, operator.options(options));
    }

    fn handle(&mut self, subgraph: usize, name: &str) -> usize {
        let handle = self.tensor(subgraph, Resource, &[]);
        let options = VarHandleOptionsT { container: Some(String::new()), shared_name: Some(name.to_owned()) };
        let options = BuiltinOptionsT::VarHandleOptions(options.into());
        self.with_options(subgraph, BuiltinOperator::VAR_HANDLE, (&[], &[handle]), options);
        handle
    }

    fn read(&mut self, subgraph: usize, handle: usize) -> usize {
        let value = self.large(subgraph);
        self.operator(subgraph, BuiltinOperator::READ_VARIABLE, &[handle], &[value]);
        value
    }

    fn assign(&mut self, subgraph: usize, handle: usize, value: usize) {
        self.operator(subgraph, BuiltinOperator::ASSIGN_VARIABLE, &[handle, value], &[]);
    }

    fn add(&mut self, subgraph: usize, left: usize, right: usize) -> usize {
        let sum = self.large(subgraph);
        self.operator(subgraph, BuiltinOperator::ADD, &[left, right], &[sum]);
        sum
    }

    /// Adds a DYNAMIC_UPDATE_SLICE that replaces a row.
    fn update(&mut self, subgraph: usize, operand: usize, row: usize, place: usize) -> usize {
        let made = self.large(subgraph);
        self.operator(subgraph, BuiltinOperator::DYNAMIC_UPDATE_SLICE, &[operand, row, place], &[made]);
        made
    }

    /// Adds a DYNAMIC_UPDATE_SLICE that sets the elements of row `row` to `value`.
    fn set_row(&mut self, subgraph: usize, operand: usize, row: usize, value: f32) -> usize {
        let values = self.builder.tensor(subgraph, TensorBuilder::values("", [1, ROW], &[value; ROW]));
        let place = self.builder.tensor(subgraph, TensorBuilder::values("", [2], &[row as i32, 0]));
        self.update(subgraph, operand, values, place)
    }

    fn repeat(&mut self, subgraph: usize, inputs: &[usize], outputs: &[usize], [condition, body]: [usize; 2]) {
        let options = WhileOptionsT { cond_subgraph_index: condition as i32, body_subgraph_index: body as i32 };
        let options = BuiltinOptionsT::WhileOptions(options.into());
        self.with_options(subgraph, BuiltinOperator::WHILE, (inputs, outputs), options);
    }

    fn ends(&mut self, subgraph: usize, inputs: &[usize], outputs: &[usize]) {
        self.builder.inputs(subgraph, inputs).outputs(subgraph, outputs);
    }

    /// Adds a subgraph that sets the variable `name` to zeros, which CALL_ONCE runs at the start of the main one.
    fn zeros_once(&mut self, name: &str) {
        let setup = self.builder.subgraph("setup");
        let handle = self.handle(setup, name);
        let zeros = vec![0f32; self.rows * ROW];
        let zeros = self.builder.tensor(setup, TensorBuilder::values("", [self.rows, ROW], &zeros));
        self.assign(setup, handle, zeros);
        self.ends(setup, &[], &[]);
        let options = CallOnceOptionsT { init_subgraph_index: setup as i32 };
        let options = BuiltinOptionsT::CallOnceOptions(options.into());
        self.with_options(0, BuiltinOperator::CALL_ONCE, (&[], &[]), options);
    }

    /// Adds the condition of a loop over a counter and `values` large tensors, which runs it `times` times.
    fn condition(&mut self, times: usize, values: usize) -> usize {
        let condition = self.builder.subgraph("condition");
        let count = self.tensor(condition, Float32, &[1]);
        let all: Vec<_> = [count].into_iter().chain((0..values).map(|_| self.large(condition))).collect();
        let end = self.builder.tensor(condition, TensorBuilder::values("", [1], &[times as f32]));
        let goes_on = self.tensor(condition, Bool, &[1]);
        self.operator(condition, BuiltinOperator::LESS, &[count, end], &[goes_on]);
        self.ends(condition, &all, &[goes_on]);
        condition
    }

    /// Adds the next value of a loop's counter.
    fn next(&mut self, subgraph: usize, count: usize) -> usize {
        let one = self.builder.tensor(subgraph, TensorBuilder::values("", [1], &[1f32]));
        let next = self.tensor(subgraph, Float32, &[1]);
        self.operator(subgraph, BuiltinOperator::ADD, &[count, one], &[next]);
        next
    }

    fn model(&self) -> Model {
        Model::from_bytes(self.builder.finish()).unwrap_or_else(|error| panic!("{error}"))
    }

    fn build(&self) -> Interpreter {
        Interpreter::builder(&self.model()).threads(1).build().unwrap()
    }
}

/// Runs once and returns how many bytes were copied.
fn copied(interpreter: &mut Interpreter) -> u64 {
    let before = interpreter.report().copied_bytes;
    interpreter.invoke().unwrap();
    interpreter.report().copied_bytes - before
}

#[test]
fn a_loop_copies_nothing_of_a_tensor_that_it_only_passes() {
    let mut net = Net::new((64 << 20) / (4 * ROW));
    let [count, x] = [net.tensor(0, Float32, &[1]), net.large(0)];
    let [last, y] = [net.tensor(0, Float32, &[1]), net.large(0)];
    let condition = net.condition(10, 1);
    let body = net.builder.subgraph("body");
    let [number, value] = [net.tensor(body, Float32, &[1]), net.large(body)];
    let next = net.next(body, number);
    net.ends(body, &[number, value], &[next, value]);
    net.repeat(0, &[count, x], &[last, y], [condition, body]);
    net.ends(0, &[count, x], &[last, y]);
    let mut interpreter = net.build();
    interpreter.input_mut::<f32>(1).unwrap()[7] = 5.0;
    for _ in 0..2 {
        assert!(copied(&mut interpreter) < 1000);
        assert_eq!(interpreter.read::<f32>(0).unwrap(), [10.0]);
        assert_eq!(interpreter.read::<f32>(1).unwrap()[7], 5.0);
    }
}

/// Builds a model that sets the row `row` of a cache at `place`, `[2]`. The cache is a variable, and the sum of it and zeros
/// an output.
fn variable_cache(rows: usize) -> Interpreter {
    let mut net = Net::new(rows);
    net.zeros_once("cache");
    let [row, place] = [net.tensor(0, Float32, &[1, ROW]), net.tensor(0, Int32, &[2])];
    let handle = net.handle(0, "cache");
    let before = net.read(0, handle);
    let after = net.update(0, before, row, place);
    let sum = net.add(0, after, after);
    net.assign(0, handle, after);
    net.ends(0, &[row, place], &[sum]);
    net.build()
}

#[test]
fn a_step_copies_nothing_of_a_cache_in_a_variable() {
    let copied = [64, 4096].map(|rows| {
        let mut interpreter = variable_cache(rows);
        let mut steps = (0..4).map(|step| {
            interpreter.write(0, &[step as f32 + 1.0; ROW]).unwrap();
            interpreter.write(1, &[step * 2, 0]).unwrap();
            copied(&mut interpreter)
        });
        // The first step copies the constant that the variable is set to.
        assert_eq!(steps.next(), Some((rows * ROW * 4) as u64 + 8 * 3));
        let later: Vec<_> = steps.collect();
        let sum: &[f32] = interpreter.read(0).unwrap();
        let rows: Vec<_> = (0..8).map(|row| sum[row * ROW]).collect();
        assert_eq!(rows, [2.0, 0.0, 4.0, 0.0, 6.0, 0.0, 8.0, 0.0]);
        later
    });
    assert_eq!(copied[0], copied[1]);
    assert!(copied[0].iter().all(|bytes| *bytes < 100), "{copied:?}");
}

/// Builds a model of a cache that is an input and an output, with an output of its sum with itself.
fn cache(rows: usize) -> Net {
    let mut net = Net::new(rows);
    let [row, place, cache] = [net.tensor(0, Float32, &[1, ROW]), net.tensor(0, Int32, &[2]), net.large(0)];
    let next = net.update(0, cache, row, place);
    let sum = net.add(0, next, next);
    net.ends(0, &[row, place, cache], &[next, sum, row]);
    net.builder.signature("step", 0, &[("row", row), ("place", place), ("cache", cache)], &[("next", next)]);
    net
}

#[test]
fn a_step_copies_nothing_of_a_cache_that_is_carried() {
    for rows in [64, 4096] {
        let mut interpreter = cache(rows).build();
        for step in 0..4 {
            interpreter.write(0, &[step as f32 + 1.0; ROW]).unwrap();
            interpreter.write(1, &[step * 2, 0]).unwrap();
            // The input that was written keeps its value, so the first step copies it.
            let expected = if step == 0 { rows * ROW * 4 } else { 0 };
            assert_eq!(copied(&mut interpreter), expected as u64, "step {step}");
            interpreter.carry(0, 2).unwrap();
        }
        let sum: &[f32] = interpreter.read(1).unwrap();
        assert_eq!([sum[0], sum[ROW], sum[6 * ROW]], [2.0, 0.0, 8.0]);
    }
}

#[test]
fn a_cache_at_an_address_stays_there() {
    assert!(cache(64).build().input_memory(2).is_none(), "it is passed by reference");
    let mut interpreter = Interpreter::builder(&cache(64).model()).threads(1).fixed_addresses(true).build().unwrap();
    let addresses = |interpreter: &mut Interpreter| {
        [interpreter.input_memory(2).unwrap().as_ptr(), interpreter.output_memory(0).unwrap().as_ptr()]
    };
    let before = addresses(&mut interpreter);
    for step in 0..3 {
        interpreter.write(0, &[step as f32 + 1.0; ROW]).unwrap();
        interpreter.write(1, &[step, 0]).unwrap();
        interpreter.invoke().unwrap();
        let next: &[f32] = interpreter.read(0).unwrap();
        assert_eq!(next[step as usize * ROW], step as f32 + 1.0);
        assert_eq!(next.iter().filter(|element| **element != 0.0).count(), ROW, "one row of a cache of zeros");
        assert!(interpreter.input_memory(2).unwrap().iter().all(|byte| *byte == 0), "the input stays");
    }
    assert_eq!(addresses(&mut interpreter), before);
}

#[test]
fn a_carried_value_serves_one_run() {
    let mut interpreter = cache(64).build();
    let error = interpreter.carry(0, 2).unwrap_err();
    assert!(error.to_string().contains("no value yet"), "{error}");
    interpreter.invoke().unwrap();
    for (output, input, text) in [(0, 0, "it is of shape"), (0, 1, "it is of type"), (2, 2, "it is of shape")] {
        let error = interpreter.carry(output, input).unwrap_err();
        assert!(error.kind() == ErrorKind::Usage && error.to_string().contains(text), "{error}");
    }
    assert!(interpreter.carry(3, 2).is_err() && interpreter.carry(0, 3).is_err());
    interpreter.carry(0, 2).unwrap();
    assert!(interpreter.read::<f32>(0).is_err() && interpreter.carry(0, 2).is_err());
    assert!(interpreter.invoke_repeatedly(2).is_err());
    interpreter.invoke().unwrap();
    let error = interpreter.invoke().unwrap_err();
    assert!(error.kind() == ErrorKind::Usage && error.to_string().contains("carry an output to it"), "{error}");
    interpreter.input_mut::<f32>(2).unwrap().fill(1.0);
    (0..2).for_each(|_| interpreter.invoke().unwrap());
    assert_eq!(interpreter.read::<f32>(0).unwrap()[ROW..], [1.0; 63 * ROW]);
    interpreter.carry(2, 0).unwrap();
    interpreter.invoke().unwrap();
    let mut step = interpreter.signature("step").unwrap();
    step.carry("next", "cache").unwrap();
    step.write("row", &[3f32; ROW]).unwrap();
    step.invoke().unwrap();
    step.carry_to("next", "step", "cache").unwrap();
    step.invoke().unwrap();
    assert_eq!(step.read::<f32>("next").unwrap()[..2 * ROW], [[3.0; ROW], [1.0; ROW]].concat());
}

#[test]
fn a_resize_and_a_cancellable_run_keep_what_is_carried() {
    let mut interpreter = cache(64).build();
    let _cancellation = interpreter.cancellation();
    interpreter.write(0, &[2f32; ROW]).unwrap();
    interpreter.invoke().unwrap();
    interpreter.carry(0, 2).unwrap();
    interpreter.resize_input(0, &[2, ROW]).unwrap();
    interpreter.write(1, &[4, 0]).unwrap();
    interpreter.invoke().unwrap();
    let next: &[f32] = interpreter.read(0).unwrap();
    assert_eq!([next[0], next[ROW], next[4 * ROW]], [2.0, 0.0, 0.0]);
    assert!(interpreter.invoke().is_err());
}

#[test]
fn the_old_value_of_a_variable_stays_while_it_is_needed() {
    let mut net = Net::new(64);
    net.zeros_once("kept");
    let handle = net.handle(0, "kept");
    let before = net.read(0, handle);
    let after = net.set_row(0, before, 1, 5.0);
    net.assign(0, handle, after);
    let again = net.read(0, handle);
    let sum = net.add(0, before, again);
    net.ends(0, &[], &[sum, before, again]);
    let mut interpreter = net.build();
    for expected in [0.0, 5.0f32] {
        interpreter.invoke().unwrap();
        let values = [0, 1, 2].map(|output| interpreter.read::<f32>(output).unwrap()[ROW]);
        assert_eq!(values, [expected + 5.0, expected, 5.0]);
    }
}

#[test]
fn a_loop_that_fails_leaves_variables_and_interpreter_usable() {
    let mut net = Net::new(64);
    net.zeros_once("kept");
    let count = net.tensor(0, Float32, &[1]);
    let last = net.tensor(0, Float32, &[1]);
    let condition = net.condition(4, 0);
    let body = net.builder.subgraph("body");
    let number = net.tensor(body, Float32, &[1]);
    let next = net.next(body, number);
    let handle = net.handle(body, "kept");
    let before = net.read(body, handle);
    let sum = net.set_row(body, before, 2, 1.0);
    let sum = net.add(body, sum, before);
    net.assign(body, handle, sum);
    // The index 3 is out of range, so the last iteration fails.
    let place = net.tensor(body, Int32, &[1]);
    net.with_options(body, BuiltinOperator::CAST, (&[number], &[place]), BuiltinOptionsT::NONE);
    let three = net.builder.tensor(body, TensorBuilder::values("", [3], &[0f32; 3]));
    let picked = net.tensor(body, Float32, &[1]);
    net.operator(body, BuiltinOperator::GATHER, &[three, place], &[picked]);
    let next = {
        let made = net.tensor(body, Float32, &[1]);
        net.operator(body, BuiltinOperator::ADD, &[next, picked], &[made]);
        made
    };
    net.ends(body, &[number], &[next]);
    net.repeat(0, &[count], &[last], [condition, body]);
    let handle = net.handle(0, "kept");
    let kept = net.read(0, handle);
    net.ends(0, &[count], &[last, kept]);
    let mut interpreter = net.build();
    assert!(interpreter.invoke().is_err());
    // No iteration: the variable has the value of the four assignments before the failure.
    interpreter.write(0, &[4f32]).unwrap();
    interpreter.invoke().unwrap();
    assert_eq!(interpreter.read::<f32>(1).unwrap()[2 * ROW], 4.0);
}

/// A program of random operators, which runs as a model and by [`Program::run`].
#[derive(Default)]
struct Program {
    inputs: usize,
    steps: Vec<Step>,
    outputs: Vec<usize>,
}

/// An operator of a program. Values are numbered in the order in which they are made, inputs first.
enum Step {
    SetRow {
        operand: usize,
        row: usize,
        value: f32,
    },
    Add([usize; 2]),
    Reshape(usize),
    Read(usize),
    Assign(usize, usize),
    /// Runs a body so many times on these values.
    While {
        times: usize,
        body: Program,
        values: Vec<usize>,
    },
    /// Runs one of two bodies, by the input of the model.
    If {
        bodies: Box<[Program; 2]>,
        values: Vec<usize>,
    },
}

const ROWS: usize = 40;
const NAMES: [&str; 2] = ["first", "second"];

impl Program {
    fn random(random: &mut impl FnMut(usize) -> usize, inputs: usize, outputs: usize, depth: usize) -> Self {
        let mut program = Self { inputs, ..Self::default() };
        let mut count = inputs;
        for _ in 0..3 + random(7) {
            let kinds = if depth > 0 { 10 } else { 8 };
            let (step, made) = match random(kinds) {
                0..=2 => {
                    let value = (1 + random(9)) as f32;
                    (Step::SetRow { operand: random(count), row: random(ROWS), value }, 1)
                }
                3 => (Step::Add([random(count), random(count)]), 1),
                4 => (Step::Reshape(random(count)), 1),
                5 => (Step::Read(random(2)), 1),
                6 | 7 => (Step::Assign(random(2), random(count)), 0),
                8 => {
                    let values: Vec<_> = (0..1 + random(3)).map(|_| random(count)).collect();
                    let body = Self::random(random, values.len(), values.len(), depth - 1);
                    let made = values.len();
                    (Step::While { times: random(4), body, values }, made)
                }
                _ => {
                    let values: Vec<_> = (0..1 + random(3)).map(|_| random(count)).collect();
                    let made = 1 + random(2);
                    let mut body = || Self::random(random, values.len(), made, depth - 1);
                    (Step::If { bodies: Box::new([body(), body()]), values }, made)
                }
            };
            program.steps.push(step);
            count += made;
        }
        program.outputs = (0..outputs).map(|_| random(count)).collect();
        program
    }

    /// Computes the outputs by copying everything.
    fn run(&self, inputs: Vec<Vec<f32>>, variables: &mut [Vec<f32>; 2], is_true: bool) -> Vec<Vec<f32>> {
        let mut values = inputs;
        for step in &self.steps {
            match step {
                Step::SetRow { operand, row, value } => {
                    let mut made = values[*operand].clone();
                    made[row * ROW..][..ROW].fill(*value);
                    values.push(made);
                }
                Step::Add([left, right]) => {
                    values.push(values[*left].iter().zip(&values[*right]).map(|(a, b)| a + b).collect());
                }
                Step::Reshape(value) => values.push(values[*value].clone()),
                Step::Read(variable) => values.push(variables[*variable].clone()),
                Step::Assign(variable, value) => variables[*variable].clone_from(&values[*value]),
                Step::While { times, body, values: taken } => {
                    let mut state: Vec<_> = taken.iter().map(|value| values[*value].clone()).collect();
                    (0..*times).for_each(|_| state = body.run(state.clone(), variables, is_true));
                    values.extend(state);
                }
                Step::If { bodies, values: taken } => {
                    let given = taken.iter().map(|value| values[*value].clone()).collect();
                    values.extend(bodies[usize::from(is_true)].run(given, variables, is_true));
                }
            }
        }
        self.outputs.iter().map(|value| values[*value].clone()).collect()
    }

    /// Adds the program to a subgraph, whose first `before` inputs are the condition of IF and, in a loop, its counter.
    fn write(&self, net: &mut Net, subgraph: usize, in_loop: bool) {
        let yes = net.tensor(subgraph, Bool, &[]);
        let count = in_loop.then(|| net.tensor(subgraph, Float32, &[1]));
        let mut values: Vec<_> = (0..self.inputs).map(|_| net.large(subgraph)).collect();
        let inputs: Vec<_> = count.into_iter().chain(values.iter().copied()).chain([yes]).collect();
        for step in &self.steps {
            match step {
                Step::SetRow { operand, row, value } => {
                    values.push(net.set_row(subgraph, values[*operand], *row, *value));
                }
                Step::Add([left, right]) => values.push(net.add(subgraph, values[*left], values[*right])),
                Step::Reshape(value) => values.push(net.reshaped(subgraph, values[*value])),
                Step::Read(variable) => {
                    let handle = net.handle(subgraph, NAMES[*variable]);
                    values.push(net.read(subgraph, handle));
                }
                Step::Assign(variable, value) => {
                    let handle = net.handle(subgraph, NAMES[*variable]);
                    net.assign(subgraph, handle, values[*value]);
                }
                Step::While { times, body, values: taken } => {
                    let condition = net.condition_with(*times, taken.len());
                    let inner = net.builder.subgraph("body");
                    body.write(net, inner, true);
                    let start = net.builder.tensor(subgraph, TensorBuilder::values("", [1], &[0f32]));
                    let given = taken.iter().map(|value| values[*value]);
                    let given: Vec<_> = [start].into_iter().chain(given).chain([yes]).collect();
                    let made: Vec<_> = taken.iter().map(|_| net.large(subgraph)).collect();
                    let [last, same] = [net.tensor(subgraph, Float32, &[1]), net.tensor(subgraph, Bool, &[])];
                    let all: Vec<_> = [last].into_iter().chain(made.iter().copied()).chain([same]).collect();
                    net.repeat(subgraph, &given, &all, [condition, inner]);
                    values.extend(made);
                }
                Step::If { bodies, values: taken } => {
                    let [no, then] = [0, 1].map(|index| {
                        let inner = net.builder.subgraph("branch");
                        bodies[index].write(net, inner, false);
                        inner as i32
                    });
                    let options = IfOptionsT { then_subgraph_index: then, else_subgraph_index: no };
                    let given: Vec<_> = [yes].into_iter().chain(taken.iter().map(|value| values[*value])).collect();
                    let given: Vec<_> = given.into_iter().chain([yes]).collect();
                    let made: Vec<_> = bodies[0].outputs.iter().map(|_| net.large(subgraph)).collect();
                    let options = BuiltinOptionsT::IfOptions(options.into());
                    net.with_options(subgraph, BuiltinOperator::IF, (&given, &made), options);
                    values.extend(made);
                }
            }
        }
        let made = self.outputs.iter().map(|value| values[*value]);
        let outputs: Vec<_> = match count {
            Some(count) => [net.next(subgraph, count)].into_iter().chain(made).chain([yes]).collect(),
            None => made.collect(),
        };
        net.ends(subgraph, &inputs, &outputs);
    }
}

impl Net {
    /// Adds a RESHAPE to another shape and one back.
    fn reshaped(&mut self, subgraph: usize, value: usize) -> usize {
        let shape =
            |net: &mut Self, extents: [i32; 2]| net.builder.tensor(subgraph, TensorBuilder::values("", [2], &extents));
        let flat = shape(self, [ROW as i32, self.rows as i32]);
        let back = shape(self, [self.rows as i32, ROW as i32]);
        let [other, made] = [self.tensor(subgraph, Float32, &[ROW, self.rows]), self.large(subgraph)];
        self.operator(subgraph, BuiltinOperator::RESHAPE, &[value, flat], &[other]);
        self.operator(subgraph, BuiltinOperator::RESHAPE, &[other, back], &[made]);
        made
    }

    /// Adds the condition of a loop whose last value is a truth value.
    fn condition_with(&mut self, times: usize, values: usize) -> usize {
        let condition = self.builder.subgraph("condition");
        let count = self.tensor(condition, Float32, &[1]);
        let all: Vec<_> = [count].into_iter().chain((0..values).map(|_| self.large(condition))).collect();
        let yes = self.tensor(condition, Bool, &[]);
        let end = self.builder.tensor(condition, TensorBuilder::values("", [1], &[times as f32]));
        let goes_on = self.tensor(condition, Bool, &[1]);
        self.operator(condition, BuiltinOperator::LESS, &[count, end], &[goes_on]);
        self.ends(condition, &all.into_iter().chain([yes]).collect::<Vec<_>>(), &[goes_on]);
        condition
    }
}

#[test]
fn random_programs_compute_what_copying_computes() {
    let mut state = 1u64;
    for seed in 0..300 {
        let mut random = |below: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % below
        };
        let program = Program::random(&mut random, 2, 3, 2);
        let mut net = Net::new(ROWS);
        NAMES.iter().for_each(|name| net.zeros_once(name));
        program.write(&mut net, 0, false);
        let builder = Interpreter::builder(&net.model()).threads(1).fixed_addresses(seed % 2 == 1);
        let mut interpreter = builder.build().unwrap();
        let mut variables = [vec![0f32; ROWS * ROW], vec![0f32; ROWS * ROW]];
        let mut carried = None;
        for run in 0..4 {
            let mut inputs: Vec<Vec<f32>> = (0..2).map(|index| vec![(run + index) as f32; ROWS * ROW]).collect();
            interpreter.write(1, &inputs[1]).unwrap();
            match carried.take() {
                Some(value) => inputs[0] = value,
                None => interpreter.write(0, &inputs[0]).unwrap(),
            }
            let is_true = random(2) == 1;
            interpreter.write_bytes(2, &[u8::from(is_true)]).unwrap();
            let expected = program.run(inputs, &mut variables, is_true);
            interpreter.invoke().unwrap_or_else(|error| panic!("program {seed}: {error}"));
            for (output, expected) in expected.iter().enumerate() {
                let actual = interpreter.read::<f32>(output).unwrap();
                assert!(actual == expected, "program {seed}, run {run}, output {output}");
            }
            if random(2) == 0 {
                interpreter.carry(2, 0).unwrap();
                carried = Some(expected[2].clone());
            }
        }
    }
}

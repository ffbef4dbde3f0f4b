//! Values that are carried over from run to run stay on the device, and are those of the CPU.

use std::sync::Arc;

use attache::DataType::{self, Float32, Int32};
use attache::gpu::InferencePreference;
use attache::model::schema::BuiltinOperator;
use attache::{
    Delegate, GpuDelegate, GpuDelegateOptions, Interpreter, Model, ModelBuilder, OperatorBuilder, TensorBuilder,
};

/// Elements of a row of the cache.
const ROW: usize = 32;

// The inputs: a row, its place, a cache, a state of the same shape, and a counter.
const ROW_IN: usize = 0;
const PLACE: usize = 1;
const CACHE: usize = 2;
const STATE: usize = 3;
const COUNTER: usize = 4;

// The outputs: the cache with the row at its place, the state with the row added to each of its own, the counter with twice
// the place at the place, and twice the first output.
const NEXT: usize = 0;
const SUM: usize = 1;
const COUNTED: usize = 2;
const TWICE: usize = 3;

fn model(rows: usize) -> Model {
    let mut builder = ModelBuilder::new("carried");
    let main = builder.subgraph("main");
    let mut tensor = |name: &str, data_type: DataType, shape: &[usize]| {
        builder.tensor(main, TensorBuilder::new(name, data_type, shape)) //
    };
    let (row, place) = (tensor("row", Float32, &[1, ROW]), tensor("place", Int32, &[2]));
    let [cache, state] = ["cache", "state"].map(|name| tensor(name, Float32, &[rows, ROW]));
    let [next, sum, twice] = ["next", "sum", "twice"].map(|name| tensor(name, Float32, &[rows, ROW]));
    let [counter, counted] = ["counter", "counted"].map(|name| tensor(name, Int32, &[rows, 2]));
    let [flat, added] = ["flat", "added"].map(|name| tensor(name, Int32, &[1, 2]));
    let shape = builder.tensor(main, TensorBuilder::values("shape", [2], &[1i32, 2]));
    let mut operator = |code, inputs: &[usize], output: usize| {
        builder.operator(main, OperatorBuilder::new(code, inputs.iter().copied(), [output]));
    };
    operator(BuiltinOperator::DYNAMIC_UPDATE_SLICE, &[cache, row, place], next);
    operator(BuiltinOperator::ADD, &[state, row], sum);
    operator(BuiltinOperator::ADD, &[next, next], twice);
    operator(BuiltinOperator::RESHAPE, &[place, shape], flat);
    operator(BuiltinOperator::ADD, &[flat, flat], added);
    operator(BuiltinOperator::DYNAMIC_UPDATE_SLICE, &[counter, added, place], counted);
    builder.inputs(main, &[row, place, cache, state, counter]).outputs(main, &[next, sum, counted, twice]);
    Model::from_bytes(builder.finish()).unwrap()
}

/// Returns an interpreter of the model on the GPU, and one on the CPU.
fn interpreters(rows: usize) -> [Interpreter; 2] {
    // As on a device with memory of its own.
    let options = GpuDelegateOptions::default().software(true).own_memory(true);
    let options = options.inference_preference(InferencePreference::SustainedSpeed);
    let gpu: Arc<dyn Delegate> = Arc::new(GpuDelegate::new(options).unwrap());
    let model = model(rows);
    let on_gpu = Interpreter::builder(&model).delegate(gpu).require_delegation(true).build().unwrap();
    [on_gpu, Interpreter::builder(&model).build().unwrap()]
}

/// Writes the row and its place for a step.
fn write(interpreter: &mut Interpreter, step: usize) {
    interpreter.write(ROW_IN, &[step as f32 + 1.0; ROW]).unwrap();
    interpreter.write(PLACE, &[step as i32 * 3 % 11, 0]).unwrap();
}

fn carry_all(interpreter: &mut Interpreter) {
    [(NEXT, CACHE), (SUM, STATE), (COUNTED, COUNTER)]
        .iter()
        .for_each(|(from, to)| interpreter.carry(*from, *to).unwrap());
}

fn outputs(interpreter: &Interpreter) -> Vec<Vec<u8>> {
    (0..4).map(|output| interpreter.read_bytes(output).unwrap().to_vec()).collect()
}

#[test]
fn a_step_copies_nothing_of_what_is_carried() {
    let _alone = crate::validation::alone();
    let copied = [64, 1024].map(|rows| {
        let [mut on_gpu, mut on_cpu] = interpreters(rows);
        let updates = on_gpu.in_place_updates();
        assert_eq!(updates, [[CACHE, NEXT], [COUNTER, COUNTED]]);
        let mut copied = Vec::new();
        for step in 0..12 {
            let before = on_gpu.report();
            for interpreter in [&mut on_gpu, &mut on_cpu] {
                write(interpreter, step);
                interpreter.invoke().unwrap();
            }
            // The last output has to be read, the others now and then.
            let twice = on_gpu.read::<f32>(TWICE).unwrap().to_vec();
            assert_eq!(twice, on_cpu.read::<f32>(TWICE).unwrap(), "step {step}");
            if step % 5 == 4 {
                assert_eq!(outputs(&on_gpu), outputs(&on_cpu), "step {step}");
            }
            [&mut on_gpu, &mut on_cpu].into_iter().for_each(carry_all);
            assert!(on_gpu.read::<f32>(NEXT).is_err());
            let after = on_gpu.report();
            // What the program has read was copied.
            let elements = if step % 5 == 4 { 3 * ROW + 2 } else { ROW };
            let read = 4 * rows * elements;
            let io = after.io_bytes.unwrap() - before.io_bytes.unwrap() - read as u64;
            copied.push((io, after.copied_bytes - before.copied_bytes));
        }
        copied[2..].to_vec()
    });
    assert_eq!(copied[0], copied[1]);
    assert!(copied[0].iter().all(|(io, copied)| *io < 200 && *copied == 0), "{copied:?}");
}

#[test]
fn carried_inputs_are_read_and_written() {
    let _alone = crate::validation::alone();
    let mut all = interpreters(16);
    let mut states = Vec::new();
    for interpreter in &mut all {
        let mut seen = Vec::new();
        for step in 0..10 {
            write(interpreter, step);
            interpreter.invoke().unwrap();
            seen.push(outputs(interpreter));
            carry_all(interpreter);
            match step {
                // A part of what was carried is changed.
                3 => interpreter.input_mut::<f32>(CACHE).unwrap()[5] += 0.5,
                5 => interpreter.write(STATE, &[1.5f32; 16 * ROW]).unwrap(),
                // Another output is carried, after it was carried elsewhere.
                7 => interpreter.carry(TWICE, STATE).unwrap(),
                _ => {}
            }
            if step == 6 {
                let kept = interpreter.input_mut::<i32>(COUNTER).unwrap().to_vec();
                seen.push(vec![bytes_of(&kept)]);
            }
        }
        assert!(interpreter.invoke_repeatedly(2).is_err());
        interpreter.invoke().unwrap();
        let error = interpreter.invoke().unwrap_err().to_string();
        assert!(error.contains("carry an output to it"), "{error}");
        states.push(seen);
    }
    assert_eq!(states[0], states[1]);
}

fn bytes_of(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn a_resize_keeps_what_is_carried() {
    let _alone = crate::validation::alone();
    let mut all = interpreters(16);
    let made = all.each_mut().map(|interpreter| {
        write(interpreter, 0);
        interpreter.invoke().unwrap();
        carry_all(interpreter);
        write(interpreter, 1);
        interpreter.invoke().unwrap();
        carry_all(interpreter);
        interpreter.resize_input(ROW_IN, &[1, ROW]).unwrap();
        interpreter.resize_input(STATE, &[1, ROW]).unwrap();
        interpreter.write(ROW_IN, &[7f32; ROW]).unwrap();
        interpreter.invoke().unwrap();
        outputs(interpreter)
    });
    assert_eq!(made[0], made[1]);
}

#[test]
fn runs_that_are_not_waited_for_carry_on() {
    let _alone = crate::validation::alone();
    let mut all = interpreters(16);
    let made = all.each_mut().map(|interpreter| {
        let mut made = Vec::new();
        for step in 0..6 {
            write(interpreter, step);
            let run = interpreter.invoke_async().unwrap();
            // The next row is written while the device works.
            write(interpreter, step + 1);
            interpreter.wait(&run).unwrap();
            made.push(outputs(interpreter));
            carry_all(interpreter);
            if step == 3 {
                // The inputs are written, and the outputs of the run before are still there.
                interpreter.write(CACHE, &[0.25f32; 16 * ROW]).unwrap();
            }
        }
        made
    });
    assert_eq!(made[0], made[1]);
}

#[test]
fn several_interpreters_carry_values_of_their_own() {
    let _alone = crate::validation::alone();
    let gpu: Arc<dyn Delegate> = Arc::new(GpuDelegate::new(GpuDelegateOptions::default().software(true)).unwrap());
    let compiled = Interpreter::builder(&model(16)).delegate(gpu).require_delegation(true).compile().unwrap();
    let mut interpreters = [0; 2].map(|_| compiled.interpreter().unwrap());
    for step in 0..4 {
        for (index, interpreter) in interpreters.iter_mut().enumerate() {
            write(interpreter, step + index);
            interpreter.invoke().unwrap();
            carry_all(interpreter);
        }
    }
    interpreters.iter_mut().for_each(|interpreter| interpreter.invoke().unwrap());
    let sums = interpreters.each_ref().map(|interpreter| interpreter.read::<f32>(SUM).unwrap()[0]);
    assert_eq!(sums, [1.0 + 2.0 + 3.0 + 4.0 + 4.0, 2.0 + 3.0 + 4.0 + 5.0 + 5.0]);
}

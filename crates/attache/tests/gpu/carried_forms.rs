//! Values of all kinds that are carried over on the device, beside those of the CPU: updates in place, states that are added
//! to, and outputs that are inputs in other places or shapes.

use std::sync::Arc;

use attache::DataType::{self, Float32, Int8, Int32};
use attache::gpu::InferencePreference;
use attache::model::schema::{BuiltinOperator, BuiltinOptionsT, ConcatenationOptionsT};
use attache::{
    Delegate, GpuDelegate, GpuDelegateOptions, Interpreter, Model, ModelBuilder, OperatorBuilder, TensorBuilder,
};

/// A model of one subgraph that is being built.
struct Net(ModelBuilder);

impl Net {
    fn new() -> Self {
        let mut builder = ModelBuilder::new("carried");
        builder.subgraph("main");
        Self(builder)
    }

    fn tensor(&mut self, data_type: DataType, shape: &[usize]) -> usize {
        self.0.tensor(0, TensorBuilder::new("", data_type, shape))
    }

    fn floats(&mut self, shape: &[usize]) -> usize {
        self.tensor(Float32, shape)
    }

    fn numbers(&mut self, numbers: &[i32]) -> usize {
        self.0.tensor(0, TensorBuilder::values("", [numbers.len()], numbers))
    }

    fn add(&mut self, operator: BuiltinOperator, inputs: &[usize], output: usize) {
        self.0.operator(0, OperatorBuilder::new(operator, inputs.iter().copied(), [output]));
    }

    fn update(&mut self, inputs: [usize; 3], output: usize) {
        self.add(BuiltinOperator::DYNAMIC_UPDATE_SLICE, &inputs, output);
    }

    fn build(mut self, inputs: &[usize], outputs: &[usize]) -> Model {
        self.0.inputs(0, inputs).outputs(0, outputs);
        Model::from_bytes(self.0.finish()).unwrap()
    }
}

/// Returns an interpreter of a model on the GPU, as on a device with memory of its own, and one on the CPU.
fn interpreters(model: &Model) -> [Interpreter; 2] {
    let options = GpuDelegateOptions::default().software(true).own_memory(true);
    let options = options.inference_preference(InferencePreference::SustainedSpeed);
    let gpu: Arc<dyn Delegate> = Arc::new(GpuDelegate::new(options).unwrap());
    let on_gpu = Interpreter::builder(model).delegate(gpu).require_delegation(true).build().unwrap();
    [on_gpu, Interpreter::builder(model).build().unwrap()]
}

/// Checks that runs on both devices between which these outputs are carried to these inputs have the same outputs.
fn check(model: &Model, carried: &[[usize; 2]]) {
    let made = interpreters(model).map(|mut interpreter| {
        for input in 0..interpreter.inputs().len() {
            if interpreter.inputs()[input].data_type == Float32 {
                let count = interpreter.inputs()[input].shape.elements();
                let values: Vec<f32> = (0..count).map(|element| (element + 100 * input) as f32).collect();
                interpreter.write(input, &values).unwrap();
            }
        }
        let mut made = Vec::new();
        for step in 0..5 {
            interpreter.invoke().unwrap();
            // The program does not read the outputs of each run.
            if step != 3 {
                let read = |output| interpreter.read_bytes(output).unwrap().to_vec();
                made.push((0..interpreter.outputs().len()).map(read).collect::<Vec<_>>());
            }
            carried.iter().for_each(|[from, to]| interpreter.carry(*from, *to).unwrap());
        }
        made
    });
    assert_eq!(made[0], made[1], "{carried:?}");
}

#[test]
fn blocks_of_all_shapes_are_updated_in_place() {
    let _alone = crate::validation::alone();
    let cases: [(&[usize], &[usize], &[i32]); 6] = [
        (&[12], &[4], &[3]),
        (&[12], &[12], &[3]),
        (&[5, 7], &[2, 3], &[-1, 99]),
        (&[5, 8], &[2, 8], &[4, 1]),
        (&[2, 6, 8], &[1, 6, 4], &[1, 3, 2]),
        (&[1, 3, 2, 8], &[1, 3, 1, 8], &[0, 0, 1, 0]),
    ];
    for (data_type, (all, part, start)) in [Float32, Int32, Int8].into_iter().flat_map(|t| cases.map(|case| (t, case)))
    {
        let mut net = Net::new();
        let [cache, next, sum] = [(); 3].map(|()| net.tensor(data_type, all));
        let (block, start) = (net.tensor(data_type, part), net.numbers(start));
        net.update([cache, block, start], next);
        // Bytes without a scale are not added.
        let outputs = if data_type == Int8 { vec![next] } else { vec![next, sum] };
        if data_type != Int8 {
            net.add(BuiltinOperator::ADD, &[next, next], sum);
        }
        check(&net.build(&[cache, block], &outputs), &[[0, 0]]);
    }
}

#[test]
fn a_block_may_be_computed() {
    let _alone = crate::validation::alone();
    let mut net = Net::new();
    let [cache, next, twice] = [(); 3].map(|()| net.floats(&[2, 8, 8]));
    let [row, turned, block] = [(); 3].map(|()| net.floats(&[2, 1, 8]));
    let [low, high, negative] = [(); 3].map(|()| net.floats(&[2, 1, 4]));
    let [place, start] = [(); 2].map(|()| net.tensor(Int32, &[3]));
    let [first, second, size] = [[0, 0, 0], [0, 0, 4], [2, 1, 4]].map(|numbers| net.numbers(&numbers));
    net.add(BuiltinOperator::SLICE, &[row, first, size], low);
    net.add(BuiltinOperator::SLICE, &[row, second, size], high);
    net.add(BuiltinOperator::NEG, &[high], negative);
    let axis = ConcatenationOptionsT { axis: 2, ..ConcatenationOptionsT::default() };
    let axis = BuiltinOptionsT::ConcatenationOptions(Box::new(axis));
    let joined = OperatorBuilder::new(BuiltinOperator::CONCATENATION, [negative, low], [turned]);
    net.0.operator(0, joined.options(axis));
    net.add(BuiltinOperator::MUL, &[turned, row], block);
    net.add(BuiltinOperator::ADD, &[place, place], start);
    net.update([cache, block, start], next);
    net.add(BuiltinOperator::ADD, &[next, next], twice);
    check(&net.build(&[cache, row, place], &[next, twice]), &[[0, 0]]);
}

#[test]
fn a_block_may_be_of_the_cache_itself() {
    let _alone = crate::validation::alone();
    let mut net = Net::new();
    let [cache, next] = [(); 2].map(|()| net.floats(&[8, 8]));
    let rest = net.floats(&[7, 8]);
    let [first, size, start] = [[1, 0], [7, 8], [0, 0]].map(|numbers| net.numbers(&numbers));
    net.add(BuiltinOperator::SLICE, &[cache, first, size], rest);
    net.update([cache, rest, start], next);
    check(&net.build(&[cache], &[next]), &[[0, 0]]);
}

#[test]
fn updates_of_updates_are_carried() {
    let _alone = crate::validation::alone();
    let mut net = Net::new();
    let [cache, state, next, last, sum] = [(); 5].map(|()| net.floats(&[8, 8]));
    let [row, other] = [(); 2].map(|()| net.floats(&[1, 8]));
    let starts = [[3, 0], [5, 0]].map(|numbers| net.numbers(&numbers));
    net.update([cache, row, starts[0]], next);
    net.update([next, other, starts[1]], last);
    net.add(BuiltinOperator::ADD, &[state, next], sum);
    let model = net.build(&[cache, state, row, other], &[next, last, sum, next]);
    for carried in [[[0, 0], [1, 1]], [[1, 0], [2, 1]], [[3, 0], [1, 1]], [[0, 1], [1, 0]]] {
        check(&model, &carried);
    }
}

#[test]
fn outputs_may_be_inputs_in_another_shape() {
    let _alone = crate::validation::alone();
    // Two inputs change places.
    let mut net = Net::new();
    let [first, first_next, sum] = [(); 3].map(|()| net.floats(&[4, 8]));
    let [second, second_next] = [(); 2].map(|()| net.floats(&[8, 4]));
    let [wide, tall] = [[4, 8], [8, 4]].map(|numbers| net.numbers(&numbers));
    net.add(BuiltinOperator::RESHAPE, &[second, wide], first_next);
    net.add(BuiltinOperator::RESHAPE, &[first, tall], second_next);
    net.add(BuiltinOperator::ADD, &[first, first], sum);
    check(&net.build(&[first, second], &[first_next, second_next, sum]), &[[0, 0], [1, 1]]);
    // One input follows the other a run behind.
    let mut net = Net::new();
    let [given, first, first_next] = [(); 3].map(|()| net.floats(&[4, 8]));
    let [second, second_next, sum] = [(); 3].map(|()| net.floats(&[8, 4]));
    let tall = net.numbers(&[8, 4]);
    net.add(BuiltinOperator::ADD, &[first, given], first_next);
    net.add(BuiltinOperator::RESHAPE, &[first, tall], second_next);
    net.add(BuiltinOperator::ADD, &[second, second], sum);
    check(&net.build(&[given, first, second], &[first_next, second_next, sum]), &[[0, 1], [1, 2]]);
    // An input is an output as it is.
    let mut net = Net::new();
    let [data, same, sum] = [(); 3].map(|()| net.floats(&[1, 8, 1]));
    let order = net.numbers(&[2, 1, 0]);
    net.add(BuiltinOperator::TRANSPOSE, &[data, order], same);
    net.add(BuiltinOperator::ADD, &[data, data], sum);
    check(&net.build(&[data], &[same, sum]), &[[0, 0]]);
}

/// Returns a model whose output is the sum of its inputs.
fn sum() -> Model {
    let mut net = Net::new();
    let [given, state, next] = [(); 3].map(|()| net.floats(&[4, 8]));
    net.add(BuiltinOperator::ADD, &[state, given], next);
    net.build(&[given, state], &[next])
}

#[test]
fn the_value_of_an_older_run_is_carried() {
    let _alone = crate::validation::alone();
    let [mut interpreter, _] = interpreters(&sum());
    let start = |interpreter: &mut Interpreter, value: f32| {
        interpreter.write(0, &[value; 32]).unwrap();
        interpreter.invoke_async().unwrap()
    };
    let (first, second) = (start(&mut interpreter, 1.0), start(&mut interpreter, 2.0));
    interpreter.wait(&first).unwrap();
    interpreter.carry(0, 1).unwrap();
    let third = start(&mut interpreter, 3.0);
    interpreter.wait(&second).unwrap();
    assert_eq!(interpreter.read::<f32>(0).unwrap()[0], 2.0);
    interpreter.carry(0, 1).unwrap();
    let last = start(&mut interpreter, 4.0);
    interpreter.wait(&last).unwrap();
    assert_eq!(interpreter.read::<f32>(0).unwrap()[0], 6.0);
    interpreter.wait(&third).unwrap();
    assert_eq!(interpreter.read::<f32>(0).unwrap()[0], 4.0);
}

#[test]
fn what_was_never_bound_is_carried_after_it_is_unbound() {
    let _alone = crate::validation::alone();
    let [mut interpreter, _] = interpreters(&sum());
    for step in 0..6 {
        interpreter.write(0, &[1f32; 32]).unwrap();
        interpreter.invoke().unwrap();
        assert_eq!(interpreter.read::<f32>(0).unwrap()[0], step as f32 + 1.0);
        interpreter.carry(0, 1).unwrap();
        match step {
            1 => interpreter.unbind_output(0).unwrap(),
            3 => interpreter.unbind_input(1).unwrap(),
            _ => {}
        }
    }
}
